//! `autoloop inspect prompt` and `autoloop inspect output`: a text of an iteration, to the letter.

use std::ops::ControlFlow;
use std::path::PathBuf;

use autoloop_core::record::Extract;
use autoloop_core::views::iteration_text::IterationText;
use autoloop_runtime::journal::{Journal, Position};
use autoloop_runtime::world::World;
use clap::ValueEnum;
use serde::Serialize;

use super::excerpt::{Found, LongText, Out, each_record};
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
            let text = found.text(&*journal, what.field());
            let of = |which| Some(&text).filter(|_| what == which);
            out.json(&Facts {
                run: &run,
                iteration: args.iteration,
                prompt: of(IterationText::Prompt),
                output: of(IterationText::Output),
                outputs: None,
            })?;
            text.finish()?;
            out.text("\n")?;
        }
    }
    out.finish()
}

/// What other programs read of the texts of an iteration.
#[derive(Serialize)]
struct Facts<'a> {
    run: &'a str,
    iteration: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<&'a LongText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a LongText<'a>>,
    /// Those of the agents of slots.
    #[serde(skip_serializing_if = "Option::is_none")]
    outputs: Option<&'a [TurnFacts<'a>]>,
}

#[derive(Serialize)]
struct TurnFacts<'a> {
    turn: &'a str,
    output: LongText<'a>,
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
        if args.format == Format::Json {
            let outputs: Vec<TurnFacts<'_>> = self
                .turns
                .iter()
                .map(|(turn, found)| TurnFacts { turn, output: found.text(journal, "output") })
                .collect();
            out.json(&Facts {
                run,
                iteration: args.iteration,
                prompt: None,
                output: None,
                outputs: Some(&outputs),
            })?;
            outputs.into_iter().try_for_each(|turn| turn.output.finish())?;
            return Ok(out.text("\n")?);
        }
        for (turn, found) in &self.turns {
            out.text(&format!("== {turn} ==\n"))?;
            let extract = Extract::field(IterationText::Output.field());
            found.show(journal, extract, &mut |text| out.text(text))?;
            out.end_line()?;
        }
        Ok(())
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
