//! `autoloop inspect prompt` and `autoloop inspect output`: a text of an iteration, unchanged.

use std::collections::HashMap;

use autoloop_core::format::Format;
use autoloop_core::record::{Extract, IterationFinish};
use autoloop_core::views::iteration_text::IterationText;
use autoloop_runtime::journal::Journal;
use autoloop_runtime::world::World;
use serde::Serialize;

use super::Source;
use super::excerpt::{Found, LongText, Out, for_each_record};
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of the iteration
    #[arg(value_name = "N")]
    iteration: u64,
    #[command(flatten)]
    source: Source,
    /// Output format; md and terminal are the exact text
    #[arg(long, default_value = "terminal", value_parser = super::format())]
    format: Format,
}

pub(super) fn run(args: &Args, what: IterationText, world: &World) -> Result<(), Failure> {
    let journal = args.source.journal(world)?;
    let run = args.source.run(&*journal)?;
    let texts = texts(&*journal, what, Some(&run))?;
    let of_iteration = texts.iter().filter(|text| text.iteration.parse() == Ok(args.iteration));
    let (turns, whole): (Vec<_>, Vec<_>) = of_iteration.partition(|text| text.turn.is_some());
    let mut out = Out::new();
    match (turns.is_empty(), whole.last()) {
        (true, None) => return Err(not_found(&texts, what, &run, args.iteration)),
        (true, Some(text)) if args.format == Format::Json => {
            let text = text.found.text(&*journal, what.field());
            let of = |which| Some(&text).filter(|_| what == which);
            let (prompt, output) = (of(IterationText::Prompt), of(IterationText::Output));
            let iteration = args.iteration;
            out.json(&Facts { run: &run, iteration, prompt, output, outputs: None })?;
            text.finish()?;
            out.text("\n")?;
        }
        (true, Some(text)) => {
            text.found.show(&*journal, Extract::field(what.field()), &mut |text| out.text(text))?;
        }
        (false, _) => show_turns(&turns, &*journal, args, &mut out)?,
    }
    out.finish()
}

/// Shows the outputs of the agents of all slots, each under its name.
fn show_turns(
    turns: &[&Text],
    journal: &dyn Journal,
    args: &Args,
    out: &mut Out,
) -> Result<(), Failure> {
    let run = turns.first().map_or("", |text| text.run.as_str());
    let turns = turns.iter().filter_map(|text| Some((text.turn.as_deref()?, text)));
    if args.format == Format::Json {
        let list: Vec<TurnFacts<'_>> = turns
            .map(|(turn, text)| TurnFacts { turn, output: text.found.text(journal, "output") })
            .collect();
        let (iteration, outputs) = (args.iteration, Some(&list[..]));
        out.json(&Facts { run, iteration, prompt: None, output: None, outputs })?;
        list.into_iter().try_for_each(|turn| turn.output.finish())?;
        return Ok(out.text("\n")?);
    }
    for (turn, text) in turns {
        out.text(&format!("== {turn} ==\n"))?;
        let extract = Extract::field(IterationText::Output.field());
        text.found.show(journal, extract, &mut |text| out.text(text))?;
        out.end_line()?;
    }
    Ok(())
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

/// A prompt or an output, and its place.
pub(super) struct Text {
    pub(super) run: String,
    pub(super) iteration: String,
    /// The name of the slot's turn.
    pub(super) turn: Option<String>,
    /// Of an output.
    pub(super) exit_code: String,
    pub(super) found: Found,
}

/// The prompts or outputs of a run, or of all runs. An iteration may have been started again: its last text counts.
pub(super) fn texts(
    journal: &dyn Journal,
    what: IterationText,
    run: Option<&str>,
) -> Result<Vec<Text>, Failure> {
    let mut places: HashMap<(String, String), usize> = HashMap::new();
    let mut texts: Vec<Text> = Vec::new();
    for_each_record(journal, |record, place| {
        let is_wanted = run.is_none_or(|run| record.run() == run);
        let Some(iteration) = what.held_by(record).filter(|_| is_wanted) else { return };
        let finish = IterationFinish::of(record);
        let text = Text {
            run: record.run().into_owned(),
            iteration,
            turn: what.turn_of_slot(record),
            exit_code: finish.map(|finish| finish.exit_code.to_string()).unwrap_or_default(),
            found: place.keep(|| record.field(what.field())),
        };
        let key = (text.run.clone(), text.iteration.clone());
        match places.get(&key).filter(|_| text.turn.is_none()) {
            Some(&place) => texts[place] = text,
            None => {
                if text.turn.is_none() {
                    places.insert(key, texts.len());
                }
                texts.push(text);
            }
        }
    })?;
    Ok(texts)
}

fn not_found(texts: &[Text], what: IterationText, run: &str, iteration: u64) -> Failure {
    let what = what.field();
    let of_run = if run.is_empty() { String::new() } else { format!(" of run '{run}'") };
    let message = format!("missing {what} projection for iteration {iteration}{of_run}");
    let numbers = || texts.iter().filter_map(|text| text.iteration.parse::<u64>().ok());
    Failure::failed(message).hint(match (numbers().min(), numbers().max()) {
        (Some(one), Some(other)) if one == other => format!("iteration {one} has one"),
        (Some(first), Some(last)) => format!("iterations {first} to {last} have one"),
        _ if run.is_empty() => "no run has started here yet".to_owned(),
        _ => format!("no iteration of this run has a {what} yet"),
    })
}
