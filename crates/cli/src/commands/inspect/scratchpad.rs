//! `autoloop inspect scratchpad`: what each iteration printed.

use std::collections::HashMap;

use autoloop_core::format::{Format, NumberOrText};
use autoloop_core::record::Extract;
use autoloop_core::views::iteration_text::IterationText;
use autoloop_core::views::scratchpad::{Scratchpad, Scratchpads, rich_heading};
use autoloop_runtime::journal::Journal;
use autoloop_runtime::world::World;
use serde::Serialize;

use super::Source;
use super::excerpt::{LongText, Out, for_each_record};
use super::text::{Text, texts};
use crate::failure::Failure;

/// Characters of the short form.
const TERMINAL_BUDGET: usize = 24_000;

/// Show the outputs of the iterations of a run.
///
/// The md format has every output in full; the terminal format is the short form that prompts contain.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Show all runs
    #[arg(long, conflicts_with = "run")]
    all_runs: bool,
    /// Output format
    #[arg(long, default_value = "md", value_parser = super::format())]
    format: Format,
}

pub(super) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let journal = args.source.journal(world)?;
    let run = if args.all_runs { None } else { Some(args.source.run(&*journal)?) };
    let mut out = Out::new();
    match args.format {
        Format::Markdown => markdown(&*journal, run.as_deref(), &mut out)?,
        Format::Terminal => terminal(&*journal, run.as_deref(), &mut out)?,
        Format::Json => json(&*journal, run.as_deref(), &mut out)?,
    }
    out.finish()
}

/// The outputs of iterations, run by run.
fn ended(journal: &dyn Journal, run: Option<&str>) -> Result<Vec<Text>, Failure> {
    let mut list = texts(journal, IterationText::Output, run)?;
    list.retain(|text| text.turn.is_none());
    let mut begun: HashMap<String, usize> = HashMap::new();
    for text in &list {
        let next = begun.len();
        begun.entry(text.run.clone()).or_insert(next);
    }
    list.sort_by_key(|text| begun.get(&text.run).copied());
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
        ended.found.show(journal, Extract::field("output"), &mut |text| out.text(text))?;
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
        let output = ended.found.text(journal, "output");
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
            let mut runs: Vec<String> =
                ended(journal, None)?.into_iter().map(|ended| ended.run).collect();
            runs.dedup();
            runs
        }
    };
    for name in &runs {
        if run.is_none() {
            out.text(&format!("# Run {name}\n\n"))?;
        }
        let text = match kept.of(name) {
            Some(scratchpad) => scratchpad.compact(TERMINAL_BUDGET),
            // The view keeps recent runs only.
            None => {
                let mut scratchpad = Scratchpad::default();
                for_each_record(journal, |record, _| {
                    if record.run() == name.as_str() {
                        scratchpad.apply(record);
                    }
                })?;
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
