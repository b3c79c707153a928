//! Reports the progress of a run: in lines on standard error, or in the live view.

mod squad;

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use autoloop_core::run::Run;
use autoloop_core::slot::{Outcome, Phase, Review, Slot, SlotRules, Slots};
use autoloop_core::text;
use autoloop_runtime::project::Loaded;
use autoloop_runtime::site::{Progress, SlotProgress, SquadProgress};
use autoloop_runtime::world::World;

use crate::diagnostic;
use crate::failure::Failure;
use crate::style::{Color, Tone};
use crate::terminal;
use crate::tui::Background;
use crate::tui::model::Feed;

/// The maximum number of characters of a reviewer's answer in a line.
const MAX_ANSWER: usize = 120;
/// The same for the reason of a violation, which names a setting.
const MAX_VIOLATION: usize = 600;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// The last event of an iteration.
    Brief,
    /// All events of an iteration, and how its agent exited.
    Verbose,
}

pub(super) struct ProgressUi<'a> {
    world: &'a World,
    detail: Detail,
    started: Duration,
    /// What the live view reads, until it is opened; `None` where only lines are printed.
    live: Mutex<Option<&'a Loaded>>,
    view: Background,
}

impl<'a> ProgressUi<'a> {
    /// With the files of the run, the live view is opened as soon as the run has begun.
    pub(super) fn new(detail: Detail, live: Option<&'a Loaded>, world: &'a World) -> Self {
        let started = world.clock.elapsed();
        ProgressUi { world, detail, started, live: Mutex::new(live), view: Background::default() }
    }

    /// Any thread may call this. While the live view is open no lines are printed.
    pub(super) fn report(&self, progress: Progress<'_>) {
        let begun = match progress {
            Progress::Began(run) | Progress::Resumed(run) => Some(run.id.as_str()),
            Progress::Slots(SlotProgress::Began(slots, _)) => Some(slots.id.as_str()),
            Progress::Squad(SquadProgress::Began(squad) | SquadProgress::Resumed(squad)) => {
                Some(squad.id.as_str())
            }
            Progress::Exchange { id, .. } => Some(id),
            _ => None,
        };
        if let Some(id) = begun
            && let Some(loaded) = self.live.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            self.note_failure(self.open_view(loaded, id));
        }
        if !self.view.is_open() {
            self.close();
            self.print(progress);
        }
    }

    fn open_view(&self, loaded: &Loaded, run: &str) -> Result<(), Failure> {
        let journal = Box::new(loaded.journal(self.world));
        self.view.open(Feed::open(&loaded.files, journal, Some(run), self.world)?)
    }

    /// Closes the live view, so that the terminal can be written to.
    pub(super) fn close(&self) {
        self.note_failure(self.view.close());
    }

    /// The run continues without the view.
    fn note_failure(&self, view: Result<(), Failure>) {
        if let Err(failure) = view {
            self.print(Progress::Note(&format!("live view closed: {}", failure.message())));
        }
    }

    fn print(&self, progress: Progress<'_>) {
        if let Progress::Warnings(warnings) = progress {
            return diagnostic::show(warnings);
        }
        let Some(line) = self.line(progress) else { return };
        let stderr = io::stderr();
        let color = Color::of(&stderr);
        let time = elapsed(self.world.clock.elapsed().saturating_sub(self.started));
        let time = color.paint(Tone::Faint, &format!("[{time}]"));
        let tone = tone(progress);
        let mut text = String::new();
        for line in terminal::harmless(&line).lines() {
            let line = tone.map_or_else(|| line.to_owned(), |tone| color.paint(tone, line));
            text.push_str(&format!("{time} {line}\n"));
        }
        // Standard error may be closed; the run does not depend on it.
        let _ = stderr.lock().write_all(text.as_bytes());
    }

    fn line(&self, progress: Progress<'_>) -> Option<String> {
        Some(match progress {
            Progress::Began(run) => format!("run {} begins{}", run.id, with_preset(run)),
            Progress::Resumed(run) => {
                format!("run {} resumes at iteration {}{}", run.id, run.done + 1, with_preset(run))
            }
            Progress::Iteration { number, of, roles, event } => {
                let roles = if roles.is_empty() { "no roles".to_owned() } else { roles.join(", ") };
                format!("iteration {number}/{of}  {roles}  after {event}")
            }
            Progress::Iterated(run) => match self.detail {
                Detail::Brief => iterated(run),
                Detail::Verbose => iterated_in_detail(run),
            },
            Progress::Review { before } => format!("metareview before iteration {before}"),
            Progress::Wave { id, branches } => format!("wave {id}: {branches} branches"),
            Progress::Branch { id, how } => format!("{id} ended: {how}"),
            Progress::Merge { id, outcome } => format!("work of {id}: {outcome}"),
            Progress::Chain { id, steps } => format!("chain {id}: {steps}"),
            Progress::Chained { id, outcome } => format!("chain {id} ended: {outcome}"),
            Progress::Slots(progress) => return slot_line(progress),
            Progress::Squad(progress) => return squad::line(progress),
            Progress::Exchange { line, .. } => line.to_owned(),
            Progress::Warnings(_) => return None,
            Progress::Note(note) => format!("note: {note}"),
        })
    }
}

fn slot_line(progress: SlotProgress<'_>) -> Option<String> {
    Some(match progress {
        SlotProgress::Began(slots, rules) => slots_began(slots, rules),
        SlotProgress::Iteration(number) => format!("iteration {number}"),
        SlotProgress::Phase { slot, phase, attempt } => {
            let phase_and_title = match (phase, attempt) {
                (Phase::Implement, _) => {
                    format!("{phase}: {}", text::first_line(&slot.start.title, MAX_ANSWER))
                }
                (Phase::Fix, attempt) => format!("fix {attempt}"),
                (Phase::Review, 1..) => format!("review after fix {attempt}"),
                (phase, _) => phase.to_string(),
            };
            format!("{}  {phase_and_title}", slot_name(slot))
        }
        SlotProgress::Parked(slot, client) => format!("{}  waits for {client}", slot_name(slot)),
        SlotProgress::Reviewed(slot, review) => {
            let answer = match review.reason.as_str() {
                "" => &review.follow_up_prompt,
                reason => reason,
            };
            let answer = text::first_line(answer, MAX_ANSWER);
            with_reason(format!("{}  review: {}", slot_name(slot), review.verdict), &answer)
        }
        SlotProgress::Finished(slot, finish) => {
            let is_violation = finish.outcome == Outcome::Violation;
            let limit = if is_violation { MAX_VIOLATION } else { MAX_ANSWER };
            let reason = text::first_line(&finish.reason, limit);
            with_reason(format!("{}  {}", slot_name(slot), finish.outcome), &reason)
        }
        SlotProgress::IterationFinished(finished) => return finished.failure(),
    })
}

fn elapsed(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        hours => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

fn tone(progress: Progress<'_>) -> Option<Tone> {
    match progress {
        Progress::Began(_) | Progress::Iteration { .. } => Some(Tone::Strong),
        Progress::Slots(SlotProgress::Began(..) | SlotProgress::Iteration(_)) => Some(Tone::Strong),
        Progress::Squad(progress) => squad::tone(progress),
        Progress::Iterated(run) if run.failure().is_some() => Some(Tone::Bad),
        Progress::Iterated(run) if run.turn.refused => Some(Tone::Warning),
        Progress::Iterated(_) => Some(Tone::Good),
        Progress::Note(_) => Some(Tone::Warning),
        _ => None,
    }
}

fn with_preset(run: &Run) -> String {
    let preset = run.start.as_ref().and_then(|start| start.preset.as_deref());
    preset.map(|preset| format!(" with {preset}")).unwrap_or_default()
}

fn iterated(run: &Run) -> String {
    let failed = run.failure().map(|failure| format!("  {failure}"));
    // A refused event does not matter once another one was accepted.
    let refused = run.turn.refusals.last().filter(|_| run.backpressure.is_some());
    let refused = refused.map(|event| format!("  refused: {event}"));
    let events = &run.turn.events;
    failed.or(refused).unwrap_or_else(|| emitted(run, &events[events.len().saturating_sub(1)..]))
}

/// The events that an iteration emitted, of which `shown` are named.
fn emitted(run: &Run, shown: &[String]) -> String {
    match (shown.is_empty(), run.turn.asked.is_empty()) {
        (false, _) => format!("  emitted: {}", shown.join(", ")),
        (true, false) => "  emitted: chain.spawn".to_owned(),
        (true, true) => "  no event".to_owned(),
    }
}

fn iterated_in_detail(run: &Run) -> String {
    let emitted = emitted(run, &run.turn.events);
    let refusals = &run.turn.refusals;
    let refused = (!refusals.is_empty()).then(|| format!("  refused: {}", refusals.join(", ")));
    let exit = run.turn.exit.as_ref().map(|exit| match (&exit.failure, exit.promised) {
        (Some(failure), _) => format!("  {failure}"),
        (None, true) => {
            format!("  the agent exited with {} and printed the completion promise", exit.code)
        }
        (None, false) => format!("  the agent exited with {}", exit.code),
    });
    [Some(emitted), refused, exit].into_iter().flatten().collect::<Vec<_>>().join("\n")
}

fn slots_began(slots: &Slots, rules: &SlotRules) -> String {
    let verb = if slots.slots.is_empty() { "begin" } else { "resume" };
    let count = terminal::counted(rules.parallel_agents, "slot");
    let review = if rules.review == Review::On { "with review" } else { "without review" };
    format!("slots {} {verb}: {count}, {review}", slots.id)
}

fn slot_name(slot: &Slot) -> String {
    let item = if slot.has_item() { &slot.start.item_id } else { "-" };
    format!("  slot {}  {}", slot.start.slot, text::first_line(item, MAX_ANSWER))
}

/// A reviewer that passes work may give no reason.
fn with_reason(what: String, reason: &str) -> String {
    if reason.is_empty() { what } else { format!("{what}: {reason}") }
}
