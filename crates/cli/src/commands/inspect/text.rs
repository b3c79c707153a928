//! `autoloop inspect prompt` and `autoloop inspect output`: a text of an iteration, to the letter.

use std::ops::ControlFlow;
use std::path::PathBuf;

use autoloop_core::project::iteration_text::IterationText;
use autoloop_core::record::Extract;
use autoloop_runtime::journal::{Journal, Position};
use autoloop_runtime::world::World;
use clap::ValueEnum;

use super::found::{Found, Out, each_record};
use super::one_run;
use crate::commands::settings;
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The number of the iteration.
    #[arg(value_name = "N")]
    iteration: u64,
    /// Project whose journal is read [default: the current one].
    project_dir: Option<PathBuf>,
    /// The run [default: the one that began last].
    #[arg(long)]
    run: Option<String>,
    /// How to print it. As md and as text it is the exact text.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Md,
    Text,
    Json,
}

pub(super) fn run(args: &Args, what: IterationText, world: &World) -> Result<(), Failure> {
    let journal = settings::locate(args.project_dir.as_deref(), world)?.journal(world);
    let run = one_run(&*journal, args.run.as_deref())?;
    let search = search(&*journal, what, &run, args.iteration)?;
    let mut out = Out::new();
    if !search.turns.is_empty() {
        search.show_turns(&*journal, (&run, args), &mut out)?;
        return out.finish();
    }
    let Some(found) = &search.found else {
        return Err(search.not_found(what, &run, args.iteration));
    };
    match args.format {
        Format::Md | Format::Text => {
            found.show(&*journal, Extract::field(what.field()), &mut |text| out.text(text))?;
        }
        Format::Json => {
            out.text("{\"run\": ")?;
            out.quoted(&run)?;
            out.text(&format!(", \"iteration\": {}, \"{}\": \"", args.iteration, what.field()))?;
            found.show(&*journal, Extract::field(what.field()), &mut |text| out.escaped(text))?;
            out.text("\"}\n")?;
        }
    }
    out.finish()
}

/// What a look through the journal gave.
#[derive(Default)]
struct Search {
    /// The last record with the text: an iteration that was begun again counts once.
    found: Option<Found>,
    /// The outputs of the agents of slots, in order.
    turns: Vec<(String, Found)>,
    /// The first and the last iteration that has such a text.
    others: Option<(u64, u64)>,
}

fn search(
    journal: &dyn Journal,
    what: IterationText,
    run: &str,
    iteration: u64,
) -> Result<Search, Failure> {
    let mut search = Search::default();
    journal.read(Position::START, &mut |line| {
        each_record(line, |record, piece| {
            let Some(number) = what.held_by(record).filter(|_| record.run() == run) else { return };
            let Ok(number) = number.parse::<u64>() else { return };
            let (first, last) = search.others.unwrap_or((number, number));
            search.others = Some((first.min(number), last.max(number)));
            if number == iteration {
                let text = record.field(what.field());
                let found = Found::new(line, piece, text.as_deref());
                match what.turn_of_slot(record) {
                    Some(turn) => search.turns.push((turn, found)),
                    None => search.found = Some(found),
                }
            }
        });
        ControlFlow::Continue(())
    })?;
    Ok(search)
}

impl Search {
    /// Shows what the agents of all slots printed, each under its name.
    fn show_turns(
        &self,
        journal: &dyn Journal,
        (run, args): (&str, &Args),
        out: &mut Out,
    ) -> Result<(), Failure> {
        let is_json = args.format == Format::Json;
        if is_json {
            out.text("{\"run\": ")?;
            out.quoted(run)?;
            out.text(&format!(", \"iteration\": {}, \"outputs\": [", args.iteration))?;
        }
        for (place, (turn, found)) in self.turns.iter().enumerate() {
            let extract = Extract::field(IterationText::Output.field());
            if is_json {
                out.text(if place == 0 { "{\"turn\": " } else { ", {\"turn\": " })?;
                out.quoted(turn)?;
                out.text(", \"output\": \"")?;
                found.show(journal, extract, &mut |text| out.escaped(text))?;
                out.text("\"}")?;
            } else {
                out.text(&format!("== {turn} ==\n"))?;
                found.show(journal, extract, &mut |text| out.text(text))?;
                out.end_line()?;
            }
        }
        Ok(if is_json { out.text("]}\n") } else { Ok(()) }?)
    }

    fn not_found(&self, what: IterationText, run: &str, iteration: u64) -> Failure {
        let what = what.field();
        if run.is_empty() {
            return Failure::failed(format!("missing {what} projection for iteration {iteration}"))
                .hint("no run has begun here yet");
        }
        let failure = Failure::failed(format!(
            "missing {what} projection for iteration {iteration} of run '{run}'"
        ));
        match self.others {
            None => failure.hint(format!("no iteration of this run has a {what} yet")),
            Some((one, other)) if one == other => {
                failure.hint(format!("there is one of iteration {one}"))
            }
            Some((first, last)) => {
                failure.hint(format!("there are those of iterations {first} to {last}"))
            }
        }
    }
}
