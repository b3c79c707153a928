//! What a person sees of a run over a queue while it goes on, and at its end.

use std::io::{self, Write};

use autoloop_core::config::ItemSource;
use autoloop_core::coordinator::{Holder, Status};
use autoloop_core::format::Format;
use autoloop_core::slot::{Outcome, Phase, Review, Slot, SlotRules, Slots, Tally};
use autoloop_core::text;
use autoloop_runtime::process::Interrupts;
use autoloop_runtime::site::{Progress, SlotProgress};

use crate::failure::Failure;
use crate::terminal;

/// So many characters of what a reviewer says stand in a line.
const SAID: usize = 120;

/// So many characters of the reason of a violation.
const LONG: usize = 600;

/// Tells on standard error how a run goes, a line at a time.
pub(super) fn tell(progress: Progress<'_>) {
    let progress = match progress {
        Progress::Slots(progress) => progress,
        Progress::Note(note) => return print(&format!("note: {note}")),
        _ => return,
    };
    let line = match progress {
        SlotProgress::Began(slots, rules) => began(slots, rules),
        SlotProgress::Iteration(number) => format!("iteration {number}"),
        SlotProgress::Phase { slot, phase, attempt } => {
            let what = match (phase, attempt) {
                (Phase::Fix, attempt) => format!("fix {attempt}"),
                (Phase::Review, 1..) => format!("review after fix {attempt}"),
                (phase, _) => phase.to_string(),
            };
            let title = match phase {
                Phase::Implement => format!(": {}", text::first_line(&slot.start.title, SAID)),
                _ => String::new(),
            };
            format!("{}  {what}{title}", name(slot))
        }
        SlotProgress::Reviewed(slot, review) => {
            let said = match review.reason.as_str() {
                "" => &review.follow_up_prompt,
                reason => reason,
            };
            let said = text::first_line(said, SAID);
            with_reason(format!("{}  review says {}", name(slot), review.verdict), &said)
        }
        SlotProgress::Finished(slot, finish) => {
            // A violation says where the answer went wrong and which setting helps.
            let limit = if finish.outcome == Outcome::Violation { LONG } else { SAID };
            let reason = text::first_line(&finish.reason, limit);
            with_reason(format!("{}  {}", name(slot), finish.outcome), &reason)
        }
        SlotProgress::IterationFinished(finished) => match finished.failure() {
            Some(failure) => failure,
            None => return,
        },
    };
    print(&line);
}

fn print(line: &str) {
    // A run goes on whether or not anybody watches.
    let _ = writeln!(io::stderr(), "{}", terminal::harmless(line));
}

/// A reviewer that passes work may give no reason.
fn with_reason(what: String, reason: &str) -> String {
    if reason.is_empty() { what } else { format!("{what}: {reason}") }
}

fn name(slot: &Slot) -> String {
    let item = if slot.has_item() { &slot.start.item_id } else { "-" };
    format!("  slot {}  {}", slot.start.slot, text::first_line(item, SAID))
}

fn began(slots: &Slots, rules: &SlotRules) -> String {
    let how = if slots.slots.is_empty() { "begin" } else { "go on" };
    let count = match rules.parallel_agents {
        1 => "1 slot".to_owned(),
        count => format!("{count} slots"),
    };
    let review = if rules.review == Review::On { "with review" } else { "without review" };
    format!("slots {} {how}: {count}, {review}", slots.id)
}

/// Says how a run ended.
pub(super) fn conclude(
    slots: &Slots,
    as_json: bool,
    interrupts: &Interrupts,
) -> Result<(), Failure> {
    let status = match (slots.status(), interrupts.first()) {
        (Status::Running, Some(_)) => Status::Interrupted,
        (status, _) => status.with_holder(Holder::None),
    };
    let text = match as_json {
        true => slots.render(status, Format::Json),
        false => format!("slots {}: {}\n", slots.id, slots.summary(status)),
    };
    terminal::print(&text)?;
    let is_builtin = slots.start.as_ref().is_some_and(|start| start.source == ItemSource::Builtin);
    if !as_json && is_builtin && slots.finish.is_some() && Tally::of(slots).taken == 0 {
        tell(Progress::Note(
            "`autoloop tasks list` shows the queue, and `autoloop tasks add` adds to it",
        ));
    }
    Ok(())
}
