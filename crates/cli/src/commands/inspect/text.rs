//! `autoloop inspect prompt` and `autoloop inspect output`: a text of an iteration, unchanged.

use autoloop_core::format::Format;
use autoloop_core::record::Extract;
use autoloop_core::views::iteration_text::IterationText;
use autoloop_runtime::journal::Journal;
use autoloop_runtime::world::World;
use serde::Serialize;

use super::Source;
use super::excerpt::{Found, LongText, Out, for_each_record};
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Number of the iteration
    #[arg(value_name = "N")]
    iteration: u64,
    #[command(flatten)]
    source: Source,
    /// Output format; md and text are the exact text
    #[arg(long, default_value = "text", value_parser = super::format())]
    format: Format,
}

pub(super) fn run(args: &Args, what: IterationText, world: &World) -> Result<(), Failure> {
    let journal = args.source.journal(world)?;
    let run = args.source.run(&*journal)?;
    let search = search(&*journal, what, &run, args.iteration)?;
    let mut out = Out::new();
    if !search.turns.is_empty() {
        search.show_turns(&*journal, &run, args, &mut out)?;
        return out.finish();
    }
    let Some(found) = &search.found else {
        return Err(search.not_found(what, &run, args.iteration));
    };
    match args.format {
        Format::Markdown | Format::Terminal => {
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

#[derive(Serialize)]
struct Facts<'a> {
    run: &'a str,
    iteration: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<&'a LongText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a LongText<'a>>,
    /// The outputs of the agents of slots.
    #[serde(skip_serializing_if = "Option::is_none")]
    outputs: Option<&'a [TurnFacts<'a>]>,
}

#[derive(Serialize)]
struct TurnFacts<'a> {
    turn: &'a str,
    output: LongText<'a>,
}

#[derive(Default)]
struct Search {
    /// The last record with the text: an iteration may have been started again.
    found: Option<Found>,
    /// The outputs of the agents of slots, in order.
    turns: Vec<(String, Found)>,
    /// The first and the last iteration with such a text.
    others: Option<(u64, u64)>,
}

fn search(
    journal: &dyn Journal,
    what: IterationText,
    run: &str,
    iteration: u64,
) -> Result<Search, Failure> {
    let mut search = Search::default();
    for_each_record(journal, |record, place| {
        let Some(number) = what.held_by(record).filter(|_| record.run() == run) else { return };
        let Ok(number) = number.parse::<u64>() else { return };
        let (first, last) = search.others.unwrap_or((number, number));
        search.others = Some((first.min(number), last.max(number)));
        if number == iteration {
            let found = place.keep(record.field(what.field()).as_deref());
            match what.turn_of_slot(record) {
                Some(turn) => search.turns.push((turn, found)),
                None => search.found = Some(found),
            }
        }
    })?;
    Ok(search)
}

impl Search {
    /// Shows the outputs of the agents of all slots, each under its name.
    fn show_turns(
        &self,
        journal: &dyn Journal,
        run: &str,
        args: &Args,
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
        let of_run = if run.is_empty() { String::new() } else { format!(" of run '{run}'") };
        let message = format!("missing {what} projection for iteration {iteration}{of_run}");
        Failure::failed(message).hint(match self.others {
            None if run.is_empty() => "no run has started here yet".to_owned(),
            None => format!("no iteration of this run has a {what} yet"),
            Some((one, other)) if one == other => format!("iteration {one} has one"),
            Some((first, last)) => format!("iterations {first} to {last} have one"),
        })
    }
}
