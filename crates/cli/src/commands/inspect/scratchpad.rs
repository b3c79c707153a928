//! `autoloop inspect scratchpad`: what each iteration printed.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

use autoloop_core::format::NumberOrText;
use autoloop_core::record::{Extract, IterationFinish};
use autoloop_core::views::scratchpad::{Scratchpad, Scratchpads, rich_heading};
use autoloop_runtime::journal::{Journal, Position};
use autoloop_runtime::world::World;
use clap::ValueEnum;
use serde::Serialize;

use super::excerpt::{Found, LongText, Out, each_record};
use super::{for_run, one_run};
use crate::commands::settings;
use crate::failure::Failure;

/// How much of the short form is shown, in characters.
const TERMINAL_BUDGET: usize = 24_000;

/// What each iteration printed.
///
/// The md format holds every output whole; the terminal format is the short form that prompts carry.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Project whose journal is read [default: the current one].
    project_dir: Option<PathBuf>,
    /// The run [default: the one that began last].
    #[arg(long, conflicts_with = "all_runs")]
    run: Option<String>,
    /// All runs in the journal.
    #[arg(long)]
    all_runs: bool,
    /// How to print it.
    #[arg(long, value_enum, default_value = "md")]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Md,
    #[value(alias = "text")]
    Terminal,
    Json,
}

pub(super) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let journal = settings::locate(args.project_dir.as_deref(), world)?.journal(world);
    let run = match args.all_runs {
        true => None,
        false => Some(one_run(&*journal, args.run.as_deref())?),
    };
    let mut out = Out::new();
    match args.format {
        Format::Md => markdown(&*journal, run.as_deref(), &mut out)?,
        Format::Terminal => terminal(&*journal, run.as_deref(), &mut out)?,
        Format::Json => json(&*journal, run.as_deref(), &mut out)?,
    }
    out.finish()
}

/// One iteration that ended: where its output is.
struct Ended {
    run: String,
    iteration: String,
    exit_code: String,
    output: Found,
}

/// Every iteration that ended, run by run. A later end of an iteration takes the place of the earlier.
fn ended(journal: &dyn Journal, run: Option<&str>) -> Result<Vec<Ended>, Failure> {
    let mut places: HashMap<(String, String), usize> = HashMap::new();
    let mut list: Vec<Ended> = Vec::new();
    journal.read(Position::START, &mut |line| {
        each_record(line, |record, piece| {
            let Some(finish) = IterationFinish::of(record) else { return };
            if run.is_some_and(|run| record.run() != run) {
                return;
            }
            let ended = Ended {
                run: record.run().into_owned(),
                iteration: record.iteration().into_owned(),
                exit_code: finish.exit_code.to_string(),
                output: Found::new(line, piece, Some(&finish.output.read())),
            };
            let key = (ended.run.clone(), ended.iteration.clone());
            match places.get(&key) {
                Some(&place) => list[place] = ended,
                None => {
                    places.insert(key, list.len());
                    list.push(ended);
                }
            }
        });
        ControlFlow::Continue(())
    })?;
    let mut begun: HashMap<String, usize> = HashMap::new();
    for ended in &list {
        let next = begun.len();
        begun.entry(ended.run.clone()).or_insert(next);
    }
    list.sort_by_key(|ended| begun.get(&ended.run).copied());
    Ok(list)
}

fn markdown(journal: &dyn Journal, run: Option<&str>, out: &mut Out) -> Result<(), Failure> {
    let list = ended(journal, run)?;
    if list.is_empty() {
        return Ok(out.text("(empty)\n")?);
    }
    let mut shown: Option<&str> = None;
    for ended in &list {
        if run.is_none() && shown != Some(&ended.run) {
            out.text(&format!("# Run {}\n\n", ended.run))?;
            shown = Some(&ended.run);
        }
        out.text(&rich_heading(&ended.iteration, &ended.exit_code))?;
        ended.output.show(journal, Extract::field("output"), &mut |text| out.text(text))?;
        out.text("\n")?;
    }
    Ok(())
}

fn json(journal: &dyn Journal, run: Option<&str>, out: &mut Out) -> Result<(), Failure> {
    let list = ended(journal, run)?;
    if list.is_empty() {
        return Ok(out.text("[]\n")?);
    }
    #[derive(Serialize)]
    struct Facts<'a> {
        run: &'a str,
        iteration: NumberOrText<'a>,
        exit_code: NumberOrText<'a>,
        output: &'a LongText<'a>,
    }
    for (index, ended) in list.iter().enumerate() {
        out.text(if index == 0 { "[\n  " } else { ",\n  " })?;
        let output = ended.output.text(journal, "output");
        out.json(&Facts {
            run: &ended.run,
            iteration: NumberOrText(&ended.iteration),
            exit_code: NumberOrText(&ended.exit_code),
            output: &output,
        })?;
        output.finish()?;
    }
    Ok(out.text("\n]\n")?)
}

fn terminal(journal: &dyn Journal, run: Option<&str>, out: &mut Out) -> Result<(), Failure> {
    let kept = journal.fold::<Scratchpads>()?.view;
    let runs: Vec<String> = match run {
        Some(run) => vec![run.to_owned()],
        None => {
            let mut runs: Vec<String> = Vec::new();
            for ended in ended(journal, None)? {
                if runs.last() != Some(&ended.run) {
                    runs.push(ended.run);
                }
            }
            runs
        }
    };
    for name in &runs {
        if run.is_none() {
            out.text(&format!("# Run {name}\n\n"))?;
        }
        let text = match kept.of(name) {
            Some(scratchpad) => scratchpad.compact(TERMINAL_BUDGET),
            // A run from long ago: its records are looked for again.
            None => {
                let mut scratchpad = Scratchpad::default();
                for_run(journal, name, |record| scratchpad.apply(record))?;
                scratchpad.compact(TERMINAL_BUDGET)
            }
        };
        out.text(&text)?;
    }
    if runs.is_empty() {
        out.text("(empty)\n")?;
    }
    Ok(())
}
