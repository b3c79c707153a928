//! What a person sees of a run while it goes on, and at its end.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use autoloop_core::coordinator::Holder;
use autoloop_core::format::json_line;
use autoloop_core::run::{Ending, Run, Stage};
use autoloop_runtime::journal::Journal;
use autoloop_runtime::site::Progress;
use autoloop_runtime::world::{Clock, World};
use serde::Serialize;

use crate::failure::Failure;
use crate::style::{Color, Tone};
use crate::terminal;

/// Tells on standard error how a run goes.
pub(in crate::commands) struct Reporter {
    is_verbose: bool,
    clock: Arc<dyn Clock>,
    /// When it began to tell.
    since: Duration,
}

impl Reporter {
    pub(in crate::commands) fn new(is_verbose: bool, world: &World) -> Self {
        let clock = Arc::clone(&world.clock);
        Reporter { is_verbose, since: clock.elapsed(), clock }
    }

    pub(in crate::commands) fn tell(&self, progress: Progress<'_>) {
        let line = match progress {
            Progress::Began(run) => format!("run {} begins{}", run.id, with_preset(run)),
            Progress::Resumed(run) => {
                format!("run {} resumes at iteration {}{}", run.id, run.done + 1, with_preset(run))
            }
            Progress::Iteration { number, of, roles, event } => {
                format!("iteration {number}/{of}  {}  after {event}", listed(roles))
            }
            Progress::Iterated(run) if self.is_verbose => everything(run),
            Progress::Iterated(run) => iterated(run),
            Progress::Review { before } => format!("metareview before iteration {before}"),
            Progress::Wave { id, branches } => format!("wave {id}: {branches} branches"),
            Progress::Branch { id, how } => format!("{id} ended: {how}"),
            Progress::Merge { id, outcome } => format!("work of {id}: {outcome}"),
            Progress::Chain { id, steps } => format!("chain {id}: {steps}"),
            Progress::Chained { id, outcome } => format!("chain {id} ended: {outcome}"),
            Progress::Slots(_) => return,
            Progress::Note(note) => format!("note: {note}"),
        };
        self.print(&line, tone(progress));
    }

    /// Prints lines, each with the time since the beginning.
    fn print(&self, lines: &str, tone: Option<Tone>) {
        let stderr = io::stderr();
        let color = Color::of(&stderr);
        let time = elapsed(self.clock.elapsed().saturating_sub(self.since));
        let time = color.paint(Tone::Faint, &format!("[{time}]"));
        let mut text = String::new();
        for line in terminal::harmless(lines).lines() {
            let line = tone.map_or_else(|| line.to_owned(), |tone| color.paint(tone, line));
            text.push_str(&format!("{time} {line}\n"));
        }
        // Standard error may be closed; the run does not depend on it.
        let _ = stderr.lock().write_all(text.as_bytes());
    }
}

/// Minutes and seconds, and hours if there are any.
fn elapsed(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        hours => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// The tone of a line, where it is not the usual one.
fn tone(progress: Progress<'_>) -> Option<Tone> {
    match progress {
        Progress::Began(_) | Progress::Iteration { .. } => Some(Tone::Strong),
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

fn listed(roles: &[String]) -> String {
    if roles.is_empty() { "no roles".to_owned() } else { roles.join(", ") }
}

/// What came of an iteration, in a line.
fn iterated(run: &Run) -> String {
    let failed = run.failure().map(|failure| format!("  {failure}"));
    // An event that was accepted later makes good for one that was refused.
    let refused = run.turn.refusals.last().filter(|_| run.backpressure.is_some());
    let refused = refused.map(|event| format!("  refused: {event}"));
    failed.or(refused).unwrap_or_else(|| emitted(run, run.turn.events.last().as_slice()))
}

/// The events that an iteration emitted, of which `shown` are named.
fn emitted(run: &Run, shown: &[&String]) -> String {
    let events: Vec<&str> = shown.iter().map(|event| event.as_str()).collect();
    match (events.is_empty(), run.turn.asked.is_empty()) {
        (false, _) => format!("  emitted: {}", events.join(", ")),
        (true, false) => "  emitted: chain.spawn".to_owned(),
        (true, true) => "  no event".to_owned(),
    }
}

/// All that came of an iteration.
fn everything(run: &Run) -> String {
    let emitted = emitted(run, &run.turn.events.iter().collect::<Vec<_>>());
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

/// Says how a run ended.
pub(super) fn conclude(run: &Run, journal: &dyn Journal, as_json: bool) -> Result<(), Failure> {
    let reason = match &run.stage {
        Stage::Ended(Ending::Complete { reason } | Ending::Stop { reason }) => reason.as_str(),
        _ => "",
    };
    let status = run.status().with_holder(Holder::None);
    let text = match as_json {
        true => {
            let facts = Facts {
                run: &run.id,
                status: status.word(),
                reason,
                detail: run.failure().map(ToString::to_string),
                iterations: run.done,
                journal: journal.path().display().to_string(),
            };
            json_line(&facts) + "\n"
        }
        false => format!(
            "run {}: {status} ({reason}) after {} {}\n",
            run.id,
            run.done,
            if run.done == 1 { "iteration" } else { "iterations" }
        ),
    };
    io::stdout().write_all(terminal::harmless(&text).as_bytes())?;
    Ok(())
}

/// What other programs read of a run at its end.
#[derive(Serialize)]
struct Facts<'a> {
    run: &'a str,
    status: &'a str,
    reason: &'a str,
    detail: Option<String>,
    iterations: u64,
    journal: String,
}
