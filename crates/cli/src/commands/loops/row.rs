//! One run in a list.

use std::time::Duration;

use autoloop_core::coordinator::{Kind, Status};
use autoloop_core::duration;
use autoloop_core::run::{Run, SomeRun};
use autoloop_core::table;
use autoloop_core::timestamp::Timestamp;
use serde::Serialize;

use crate::style::{Color, Tone};
use crate::terminal;

/// How many characters of an objective are listed.
const OBJECTIVE: usize = 40;
/// How many characters of an event are listed.
const EVENT: usize = 24;

/// A run, seen at a moment.
pub(super) struct Row<'r> {
    pub(super) run: &'r SomeRun,
    /// How it is; `None` where no record begins it.
    pub(super) status: Option<Status>,
    /// The process that carries it out.
    pub(super) process: Option<u32>,
    pub(super) now: Timestamp,
}

impl Row<'_> {
    /// How long it has been under way, or was.
    pub(super) fn elapsed(&self) -> Option<Duration> {
        let (began, heard) = self.run.times();
        let end = match self.status {
            Some(Status::Running) => self.now,
            _ => stamp(heard)?,
        };
        Some(between(stamp(began)?, end))
    }

    /// How long nothing was heard of it.
    pub(super) fn silence(&self) -> Option<Duration> {
        Some(between(stamp(&self.run.times().1)?, self.now))
    }

    /// How many iterations or steps are done, and of how many.
    pub(super) fn progress(&self) -> String {
        match self.run.progress() {
            (done, Some(of)) => format!("{done}/{of}"),
            (done, None) => done.to_string(),
        }
    }

    /// The status, with the reason where it is not the usual one.
    pub(super) fn status(&self) -> String {
        match (self.status, self.reason()) {
            (None, _) => "no start record".to_owned(),
            (Some(status @ (Status::Stopped | Status::Failed)), Some(reason)) => {
                format!("{status}: {reason}")
            }
            (Some(status), _) => status.to_string(),
        }
    }

    /// Why it ended, unless it runs again.
    pub(super) fn reason(&self) -> Option<&str> {
        self.run.reason().filter(|_| self.status != Some(Status::Running))
    }

    fn tone(&self) -> Tone {
        match self.status {
            Some(Status::Running | Status::Completed) => Tone::Good,
            Some(Status::Stopped | Status::Failed) => Tone::Bad,
            Some(Status::Interrupted | Status::Crashed) => Tone::Warning,
            None => Tone::Faint,
        }
    }

    /// The facts of the list, as other programs read them.
    pub(super) fn facts(&self) -> Facts<'_> {
        let Row { run, status, process, .. } = self;
        let known = |text| Some(text).filter(|text: &&str| !text.is_empty());
        let (began, heard) = run.times();
        let (iterations, max_iterations) = run.progress();
        Facts {
            run: run.id(),
            kind: run.kind().map(Kind::word),
            status: status.map(Status::word),
            reason: self.reason(),
            detail: run.as_loop().and_then(Run::failure).map(ToString::to_string),
            pid: *process,
            iterations,
            max_iterations,
            last_event: run.last_event(),
            began: known(began),
            last_heard: known(heard),
            elapsed_s: self.elapsed().map(|time| time.as_secs()),
            objective: run.objective(),
        }
    }

    fn cells(&self) -> [String; 9] {
        let began = self.run.times().0.get(..16).unwrap_or("-").replace('T', " ");
        let time =
            |time: Option<Duration>| time.map_or_else(|| "-".to_owned(), duration::print_short);
        let objective = self.run.objective().unwrap_or_default().trim().lines().next();
        [
            terminal::one_line(self.run.id(), 32),
            self.run.kind().map_or("-", Kind::word).to_owned(),
            self.status(),
            self.progress(),
            terminal::one_line(self.run.last_event(), EVENT),
            began,
            time(self.elapsed()),
            time(self.silence()),
            terminal::one_line(objective.unwrap_or_default(), OBJECTIVE),
        ]
    }
}

/// What other programs read of a run.
#[derive(Serialize)]
pub(super) struct Facts<'r> {
    run: &'r str,
    kind: Option<&'static str>,
    status: Option<&'static str>,
    reason: Option<&'r str>,
    detail: Option<String>,
    pid: Option<u32>,
    iterations: u64,
    max_iterations: Option<u64>,
    last_event: &'r str,
    began: Option<&'r str>,
    last_heard: Option<&'r str>,
    elapsed_s: Option<u64>,
    objective: Option<&'r str>,
}

const HEADINGS: [&str; 9] =
    ["RUN", "KIND", "STATUS", "DONE", "LAST EVENT", "BEGAN (UTC)", "TOOK", "HEARD OF", "OBJECTIVE"];

/// The column of the status.
const STATUS: usize = 2;

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
        cells[STATUS] = color.paint(row.tone(), &cells[STATUS]);
    }
    lines.iter().map(|cells| table::line(cells)).collect()
}

fn stamp(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

fn between(one: Timestamp, other: Timestamp) -> Duration {
    // Clocks are set back now and then.
    Duration::from_millis(u64::try_from(other.millis() - one.millis()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use autoloop_core::record::LoopStart;
    use autoloop_core::run::{Ending, Stage};

    fn run(id: &str, objective: &str) -> SomeRun {
        let start = LoopStart {
            max_iterations: 10,
            objective: objective.to_owned(),
            ..LoopStart::default()
        };
        SomeRun::Loop(Box::new(Run {
            start: Some(start),
            stage: Stage::Ended(Ending::Stop { reason: "backend_failed".into() }),
            times: ("2026-11-15T21:12:06.031Z".into(), "2026-11-15T21:14:31.951Z".into()),
            done: 2,
            recent_event: "tasks.ready".into(),
            ..Run::new(id)
        }))
    }

    #[test]
    fn a_list_has_columns_that_fit() {
        let now = "2026-11-16T22:00:00.000Z".parse().unwrap();
        let (long, short) =
            (run("swift-otter", "write\u{1b} a parser that\nreads"), run("a", &"x".repeat(90)));
        let bare = SomeRun::Loop(Box::new(Run::new("calm-heron")));
        let row = |run, status| Row { run, status, process: None, now };
        let rows = [
            row(&long, Some(Status::Running)),
            row(&short, Some(Status::Failed)),
            row(&bare, None),
        ];
        insta::assert_snapshot!(print(&rows, Color::No), @r"
        RUN          KIND  STATUS                  DONE  LAST EVENT   BEGAN (UTC)       TOOK   HEARD OF  OBJECTIVE
        swift-otter  loop  running                 2/10  tasks.ready  2026-11-15 21:12  1d     1d        write  a parser that
        a            loop  failed: backend_failed  2/10  tasks.ready  2026-11-15 21:12  2m25s  1d        xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…
        calm-heron   -     no start record         0     loop.start   -                 -      -
        ");
    }
}
