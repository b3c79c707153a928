//! `autoloop inspect review`: a metareview and its changes.

use autoloop_core::format::{Format, NumberOrText, json_text};
use autoloop_core::record::Extract;
use autoloop_core::text::{fenced, tail};
use autoloop_core::views::review::{Review, ReviewSearch};
use autoloop_runtime::journal::Journal;
use autoloop_runtime::world::World;
use serde_json::json;

use super::Source;
use super::excerpt::{Found, Out, for_each_record};
use crate::commands::review::status;
use crate::failure::Failure;
use crate::terminal;

/// Characters of the end of the output that are shown.
const TAIL: usize = 2000;
/// Maximum length of a recorded diff, in bytes.
pub(crate) const LONGEST_DIFF: usize = 4 * 1024 * 1024;

/// Show a metareview: its sandbox, its end and its changes.
///
/// Shows its violations, the end of its output, and its changes of the loop's files as a diff.
/// `autoloop review revert` reverts these.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Iteration before which the review ran [default: the latest review]
    #[arg(value_name = "N")]
    iteration: Option<u64>,
    #[command(flatten)]
    source: Source,
    /// Output format
    #[arg(long, default_value = "terminal", value_parser = super::format())]
    format: Format,
}

pub(super) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let journal = args.source.journal(world)?;
    let run = args.source.run(&*journal)?;
    if let Some(text) =
        status::of_run(args.source.project_dir.as_deref(), &run, args.format, world)?
    {
        return Ok(terminal::print(&text)?);
    }
    let review = look_up(&*journal, &run, args.iteration)?;
    let output = text_of(&review, &*journal, "output", Keep::End(TAIL))?;
    let diff = text_of(&review, &*journal, "diff", Keep::Beginning(LONGEST_DIFF))?;
    let text = match args.format {
        Format::Markdown => markdown(&review, &output, &diff),
        Format::Terminal => terminal(&review, &output, &diff),
        Format::Json => json(&review, &output, &diff),
    };
    let mut out = Out::new();
    out.text(&text)?;
    out.finish()
}

/// Finds a review of a run: the one before an iteration, or the latest.
pub(crate) fn look_up(
    journal: &dyn Journal,
    run: &str,
    before: Option<u64>,
) -> Result<Review<Found>, Failure> {
    let mut search = ReviewSearch::new(run, before);
    for_each_record(journal, |record, place| {
        search.apply(record, || place.keep(|| record.field("diff")));
    })?;
    let others = search.others;
    search.found.ok_or_else(|| not_found(run, before, others))
}

fn not_found(run: &str, before: Option<u64>, others: Option<(u64, u64)>) -> Failure {
    let of_run = if run.is_empty() { String::new() } else { format!(" of run '{run}'") };
    let which = before.map(|before| format!(" for iteration {before}")).unwrap_or_default();
    let failure = Failure::failed(format!("missing review projection{which}{of_run}"));
    match others {
        None if run.is_empty() => failure.hint("no run has started here yet"),
        None => failure.hint("this run has no review yet"),
        Some((one, other)) if one == other => {
            failure.hint(format!("show it with `autoloop inspect review {one}`"))
        }
        Some((first, last)) => failure.hint(format!(
            "reviews ran before iterations {first} to {last}; `autoloop inspect journal --topic review.start` lists them"
        )),
    }
}

/// The part of a long text that is kept.
#[derive(Clone, Copy)]
pub(crate) enum Keep {
    Beginning(usize),
    End(usize),
}

/// A long text of a review; empty before its end.
pub(crate) fn text_of(
    review: &Review<Found>,
    journal: &dyn Journal,
    field: &'static str,
    keep: Keep,
) -> Result<String, Failure> {
    let mut text = String::new();
    let Some(end) = &review.end else { return Ok(text) };
    // Of such a record only the ends of the diff are known.
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
    let violations = review.violation_lines();
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
        review.violation_lines().iter().map(|line| format!("{line}\n")).collect();
    for (heading, long) in [("violations", &*violations), ("output", output), ("changes", diff)] {
        if !long.is_empty() {
            let end = if long.ends_with('\n') { "" } else { "\n" };
            text.push_str(&format!("\n{heading}:\n{long}{end}"));
        }
    }
    text
}

fn json(review: &Review<Found>, output: &str, diff: &str) -> String {
    let end = review.end.as_ref();
    let exit_code = end.map(|end| end.exit_code.to_string());
    json_text(&json!({
        "run": review.run,
        "iteration": review.before,
        "kind": review.kind,
        "command": review.command,
        "enforcement": review.enforcement,
        "began": review.began,
        "ended": end.and_then(|end| end.at.as_deref()),
        "exit_code": exit_code.as_deref().map(NumberOrText),
        "timed_out": end.map(|end| end.timed_out),
        "reverted": review.reverted,
        "violations": review.violations,
        "more_violations": review.more_violations,
        "output_tail": output,
        "diff": diff,
    }))
}
