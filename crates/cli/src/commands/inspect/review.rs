//! `autoloop inspect review`: one metareview, with what it changed.

use std::ops::ControlFlow;
use std::path::PathBuf;

use autoloop_core::format::{NumberOrText, json_text};
use autoloop_core::record::Extract;
use autoloop_core::text::{fenced, tail};
use autoloop_core::views::review::{Review, ReviewSearch, Violation};
use autoloop_runtime::journal::{Journal, Position};
use autoloop_runtime::world::World;
use clap::ValueEnum;
use serde::Serialize;

use super::excerpt::{Found, Out, each_record};
use super::one_run;
use crate::commands::settings;
use crate::failure::Failure;

/// How much of the end of the output is shown, in characters.
const TAIL: usize = 2000;
/// No diff of ours is longer.
pub(in crate::commands) const LONGEST_DIFF: usize = 4 * 1024 * 1024;

/// A metareview: what held it to its bounds, how it ended, what it changed.
///
/// Shows what it may not have done with what came of that, the end of what it printed, and as a diff
/// what it changed in the files of the loop. `autoloop review revert` undoes the latter.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The iteration that the review came before [default: that of the latest review].
    #[arg(value_name = "N")]
    iteration: Option<u64>,
    /// Project whose journal is read [default: the current one].
    project_dir: Option<PathBuf>,
    /// The run [default: the one that began last].
    #[arg(long)]
    run: Option<String>,
    /// How to print it.
    #[arg(long, value_enum, default_value = "terminal")]
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
    let run = one_run(&*journal, args.run.as_deref())?;
    let review = look_up(&*journal, &run, args.iteration)?;
    let output = text_of(&review, &*journal, ("output", Keep::End(TAIL)))?;
    let diff = text_of(&review, &*journal, ("diff", Keep::Beginning(LONGEST_DIFF)))?;
    let text = match args.format {
        Format::Md => markdown(&review, &output, &diff),
        Format::Terminal => terminal(&review, &output, &diff),
        Format::Json => json(&review, &output, &diff),
    };
    let mut out = Out::new();
    out.text(&text)?;
    out.finish()
}

/// Finds a review of a run: the one before an iteration, or the latest.
pub(in crate::commands) fn look_up(
    journal: &dyn Journal,
    run: &str,
    before: Option<u64>,
) -> Result<Review<Found>, Failure> {
    let mut search = ReviewSearch::new(run, before);
    journal.read(Position::START, &mut |line| {
        each_record(line, |record, piece| {
            search.apply(record, || Found::new(line, piece, record.field("diff").as_deref()));
        });
        ControlFlow::Continue(())
    })?;
    let others = search.others;
    search.found.ok_or_else(|| not_found((run, before), others))
}

fn not_found((run, before): (&str, Option<u64>), others: Option<(u64, u64)>) -> Failure {
    let of_run = if run.is_empty() { String::new() } else { format!(" of run '{run}'") };
    let which = before.map(|before| format!(" for iteration {before}")).unwrap_or_default();
    let failure = Failure::failed(format!("missing review projection{which}{of_run}"));
    match others {
        None if run.is_empty() => failure.hint("no run has begun here yet"),
        None => failure.hint("this run has had no review yet"),
        Some((one, other)) if one == other => {
            failure.hint(format!("there is one before iteration {one}"))
        }
        Some((first, last)) => failure
            .hint(format!("there are reviews before iterations {first} to {last}; `autoloop inspect journal --topic review.start` lists them")),
    }
}

/// Which part of a text that is too long is kept.
#[derive(Clone, Copy)]
pub(in crate::commands) enum Keep {
    Beginning(usize),
    End(usize),
}

/// A long text of a review; empty while there is none.
pub(in crate::commands) fn text_of(
    review: &Review<Found>,
    journal: &dyn Journal,
    (field, keep): (&'static str, Keep),
) -> Result<String, Failure> {
    let mut text = String::new();
    let Some(end) = &review.end else { return Ok(text) };
    // Of such a record only the ends of the diff are at hand.
    if matches!(end.place, Found::Ends(_)) && field != "diff" {
        return Ok(text);
    }
    end.place.show(journal, Extract::field(field), &mut |more| {
        match keep {
            Keep::Beginning(most) if text.len() > most => {}
            Keep::Beginning(_) => text.push_str(more),
            Keep::End(most) => {
                text.push_str(more);
                if text.len() > most * 16 {
                    text = tail(&text, most).to_owned();
                }
            }
        }
        Ok(())
    })?;
    if let Keep::End(most) = keep {
        text = tail(&text, most).to_owned();
    }
    Ok(text)
}

fn markdown(review: &Review<Found>, output: &str, diff: &str) -> String {
    let mut text = format!("## Review before iteration {}\n\n", review.before);
    for (name, fact) in review.facts().iter().filter(|(name, _)| *name != "before") {
        text.push_str(&format!("- {name}: {fact}\n"));
    }
    let violations = review.told_violations();
    if !violations.is_empty() {
        text.push_str("\n### Violations\n\n");
        text.extend(violations.iter().map(|line| format!("- {line}\n")));
    }
    for (heading, long) in [("Output", output), ("Changes", diff)] {
        if !long.is_empty() {
            text.push_str(&format!("\n### {heading}\n\n{}", fenced(long)));
        }
    }
    text
}

fn terminal(review: &Review<Found>, output: &str, diff: &str) -> String {
    let mut text: String =
        review.facts().iter().map(|(name, fact)| format!("{name:<9}{fact}\n")).collect();
    let violations: String =
        review.told_violations().iter().map(|line| format!("{line}\n")).collect();
    for (heading, long) in [("violations", &*violations), ("output", output), ("changes", diff)] {
        if !long.is_empty() {
            let end = if long.ends_with('\n') { "" } else { "\n" };
            text.push_str(&format!("\n{heading}:\n{long}{end}"));
        }
    }
    text
}

/// What other programs read of a review.
#[derive(Serialize)]
struct Facts<'a> {
    run: &'a str,
    iteration: u64,
    kind: &'a str,
    command: &'a str,
    enforcement: Option<&'a str>,
    began: Option<&'a str>,
    ended: Option<&'a str>,
    exit_code: Option<NumberOrText<'a>>,
    timed_out: Option<bool>,
    reverted: Option<&'a str>,
    violations: &'a [Violation],
    more_violations: u64,
    output_tail: &'a str,
    diff: &'a str,
}

fn json(review: &Review<Found>, output: &str, diff: &str) -> String {
    let end = review.end.as_ref();
    let exit_code = end.map(|end| end.exit_code.to_string());
    json_text(&Facts {
        run: &review.run,
        iteration: review.before,
        kind: &review.kind,
        command: &review.command,
        enforcement: review.enforcement.as_deref(),
        began: review.began.as_deref(),
        ended: end.and_then(|end| end.at.as_deref()),
        exit_code: exit_code.as_deref().map(NumberOrText),
        timed_out: end.map(|end| end.timed_out),
        reverted: review.reverted.as_deref(),
        violations: &review.violations,
        more_violations: review.more_violations,
        output_tail: output,
        diff,
    })
}
