//! One run in a list.

use std::time::Duration;

use autoloop_core::duration;
use autoloop_core::run::Run;
use autoloop_core::stamp::Stamp;
use autoloop_core::table;

use super::state::State;
use crate::commands::json::Json;
use crate::style::{Color, Tone};
use crate::terminal;

/// How many characters of an objective are listed.
const OBJECTIVE: usize = 40;
/// How many characters of an event are listed.
const EVENT: usize = 24;

/// A run, seen at a moment.
pub(super) struct Row<'r> {
    pub(super) run: &'r Run,
    pub(super) state: State,
    pub(super) now: Stamp,
}

impl Row<'_> {
    /// How long it has been under way, or was.
    pub(super) fn elapsed(&self) -> Option<Duration> {
        let began = stamp(&self.run.times.0)?;
        let end = match self.state {
            State::Running(_) => self.now,
            _ => stamp(&self.run.times.1)?,
        };
        Some(between(began, end))
    }

    /// How long nothing was heard of it.
    pub(super) fn silence(&self) -> Option<Duration> {
        Some(between(stamp(&self.run.times.1)?, self.now))
    }

    /// How many iterations are done, and of how many.
    pub(super) fn iterations(&self) -> String {
        match &self.run.start {
            Some(start) => format!("{}/{}", self.run.done, start.max_iterations),
            None => self.run.done.to_string(),
        }
    }

    /// What it is for, in one line.
    pub(super) fn objective(&self) -> &str {
        let objective = self.run.start.as_ref().map_or("", |start| &start.objective);
        objective.trim().lines().next().unwrap_or_default()
    }

    /// The facts of the list, as other programs read them.
    pub(super) fn facts(&self) -> Vec<(&'static str, Json)> {
        let Row { run, state, .. } = self;
        let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        vec![
            ("run", run.id.as_str().into()),
            ("state", state.word().into()),
            ("reason", state.reason().into()),
            ("detail", run.failure().map(ToString::to_string).into()),
            ("pid", state.pid().map(u64::from).into()),
            ("iterations", run.done.into()),
            ("max_iterations", run.start.as_ref().map(|start| start.max_iterations).into()),
            ("last_event", run.recent_event.as_str().into()),
            ("began", known(&run.times.0).into()),
            ("last_heard", known(&run.times.1).into()),
            ("elapsed_s", self.elapsed().map(|time| time.as_secs()).into()),
            ("objective", run.start.as_ref().map(|start| start.objective.as_str()).into()),
        ]
    }

    pub(super) fn json(&self) -> Json {
        Json::Object(self.facts())
    }

    fn cells(&self) -> [String; 8] {
        let began = self.run.times.0.get(..16).unwrap_or("-").replace('T', " ");
        let time =
            |time: Option<Duration>| time.map_or_else(|| "-".to_owned(), duration::print_short);
        [
            terminal::one_line(&self.run.id, 32),
            self.state.to_string(),
            self.iterations(),
            terminal::one_line(&self.run.recent_event, EVENT),
            began,
            time(self.elapsed()),
            time(self.silence()),
            terminal::one_line(self.objective(), OBJECTIVE),
        ]
    }
}

const HEADINGS: [&str; 8] =
    ["RUN", "STATE", "DONE", "LAST EVENT", "BEGAN (UTC)", "TOOK", "HEARD OF", "OBJECTIVE"];

/// The column of the state.
const STATE: usize = 1;

/// All rows, in columns as wide as they have to be.
pub(super) fn print(rows: &[Row<'_>], color: Color) -> String {
    let mut lines = vec![HEADINGS.map(str::to_owned)];
    // Painted text is printed as it is, so nothing in it may be obeyed by a terminal.
    lines.extend(rows.iter().map(|row| match color {
        Color::Yes => row.cells().map(|cell| terminal::harmless(&cell).into_owned()),
        Color::No => row.cells(),
    }));
    table::pad(&mut lines);
    // The heading comes first, then a line for each row.
    lines[0] = lines[0].clone().map(|heading| color.paint(Tone::Strong, &heading));
    for (cells, row) in lines[1..].iter_mut().zip(rows) {
        cells[STATE] = color.paint(row.state.tone(), &cells[STATE]);
    }
    lines.iter().map(|cells| table::line(cells)).collect()
}

fn stamp(text: &str) -> Option<Stamp> {
    text.parse().ok()
}

fn between(one: Stamp, other: Stamp) -> Duration {
    // Clocks are set back now and then.
    Duration::from_millis(u64::try_from(other.millis() - one.millis()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use autoloop_core::record::LoopStart;

    fn run(id: &str, objective: &str) -> Run {
        let start = LoopStart {
            max_iterations: 10,
            objective: objective.to_owned(),
            ..LoopStart::default()
        };
        Run {
            start: Some(start),
            times: ("2026-11-15T21:12:06.031Z".into(), "2026-11-15T21:14:31.951Z".into()),
            done: 2,
            recent_event: "tasks.ready".into(),
            ..Run::new(id)
        }
    }

    #[test]
    fn a_list_has_columns_that_fit() {
        let now = "2026-11-16T22:00:00.000Z".parse().unwrap();
        let (long, short) =
            (run("swift-otter", "write\u{1b} a parser that\nreads"), run("a", &"x".repeat(90)));
        let bare = Run::new("calm-heron");
        let rows = [
            Row { run: &long, state: State::Running(7), now },
            Row { run: &short, state: State::Stopped("backend_failed".into()), now },
            Row { run: &bare, state: State::Unbegun, now },
        ];
        insta::assert_snapshot!(print(&rows, Color::No), @r"
        RUN          STATE                    DONE  LAST EVENT   BEGAN (UTC)       TOOK   HEARD OF  OBJECTIVE
        swift-otter  running                  2/10  tasks.ready  2026-11-15 21:12  1d     1d        write  a parser that
        a            stopped: backend_failed  2/10  tasks.ready  2026-11-15 21:12  2m25s  1d        xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…
        calm-heron   no beginning             0     loop.start   -                 -      -
        ");
    }
}
