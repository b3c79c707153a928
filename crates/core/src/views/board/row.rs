//! One row of a board: who works, on what, and how far it is.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::agents::Stream;
use crate::record::{Glance, StopReason};
use crate::timestamp::Timestamp;
use crate::wire_enum::Word;

/// What a row is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// It has not begun.
    #[default]
    Waiting,
    /// It has begun, and nobody works for it at this moment.
    Between,
    /// The agent of an iteration works.
    Agent {
        /// Which iteration.
        iteration: u64,
    },
    /// A metareview is under way.
    Metareview {
        /// The iteration that it comes before.
        before: u64,
    },
    /// Its branches work.
    Wave,
    /// The implementer of a slot works.
    Implement,
    /// The reviewer of a slot works.
    Review {
        /// Which review, counted from 0.
        attempt: u64,
    },
    /// The fixer of a slot works.
    Fix {
        /// Which fix, counted from 1.
        attempt: u64,
    },
    /// The work of a slot is brought back.
    Merge,
    /// It is over.
    Ended,
}

impl Phase {
    /// One word for other programs.
    pub fn word(self) -> &'static str {
        match self {
            Phase::Waiting => "waiting",
            Phase::Between => "between",
            Phase::Agent { .. } => "agent",
            Phase::Metareview { .. } => "metareview",
            Phase::Wave => "wave",
            Phase::Implement => "implement",
            Phase::Review { .. } => "review",
            Phase::Fix { .. } => "fix",
            Phase::Merge => "merge",
            Phase::Ended => "ended",
        }
    }

    /// Which iteration, review or fix it is, where that is counted.
    pub fn number(self) -> Option<u64> {
        match self {
            Phase::Agent { iteration: number }
            | Phase::Metareview { before: number }
            | Phase::Review { attempt: number }
            | Phase::Fix { attempt: number } => Some(number),
            _ => None,
        }
    }

    /// Whether somebody works, so that time passes.
    pub fn is_busy(self) -> bool {
        !matches!(self, Phase::Waiting | Phase::Between | Phase::Ended)
    }
}

/// How something ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// In the word of the journal.
    pub word: String,
    /// What that means.
    pub end: End,
}

/// What an outcome means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// It did what was wanted.
    Done,
    /// There was nothing to do.
    Idle,
    /// It was ended from outside, by a limit or a person, and did not fail.
    Stopped,
    /// It failed.
    #[default]
    Failed,
}

impl Outcome {
    /// Whether that is what was wanted.
    pub fn is_good(&self) -> bool {
        self.end == End::Done
    }

    /// How a run ended that is the whole work of a board: only its goal is good.
    pub(super) fn of_whole(reason: &Word<StopReason>) -> Outcome {
        let is_stopped = *reason == StopReason::Interrupted || reason.is_success();
        let end = if is_stopped { End::Stopped } else { End::Failed };
        Outcome { word: reason.to_string(), end }
    }

    /// How a run ended that is a part of something larger.
    pub(super) fn of_part(reason: &Word<StopReason>) -> Outcome {
        match reason.is_success() {
            true => Outcome { word: reason.to_string(), end: End::Done },
            false => Outcome::of_whole(reason),
        }
    }
}

/// One line of a board.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The run whose records it is made of; empty where there is none yet.
    pub run: String,
    /// Which slot, step or branch, counted from 1.
    pub number: u64,
    /// How far it stands below another row: 0 for not at all.
    pub level: u64,
    /// What it is called.
    pub name: String,
    /// What it works on, by its name: an item of a queue, a loop, the roles that act.
    pub item: String,
    /// What that is about.
    pub title: String,
    /// What it is at.
    pub phase: Phase,
    /// The most iterations or fixes.
    pub limit: u64,
    /// When it began, as written.
    pub began: String,
    /// When its phase began, as written.
    pub since: String,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// What was last said about it in the journal.
    pub note: String,
    /// Where its files are, seen from the state directory; empty where that is not known.
    pub dir: String,
    /// The file that its agent prints to, or printed to last, seen from the state directory, unless it
    /// prints a stream.
    pub output: Option<String>,
}

impl Row {
    /// What it is at, in a few letters that can be read without colour.
    pub fn badge(&self) -> String {
        let of = |number: u64| match self.limit {
            0 => number.to_string(),
            limit => format!("{number}/{limit}"),
        };
        match (self.phase, &self.outcome) {
            (Phase::Ended, outcome) => match outcome.as_ref().map(|outcome| outcome.end) {
                Some(End::Done) => "DONE".to_owned(),
                Some(End::Idle) => "IDLE".to_owned(),
                Some(End::Stopped) => "STOPPED".to_owned(),
                Some(End::Failed) | None => "FAILED".to_owned(),
            },
            (Phase::Waiting, _) => "WAIT".to_owned(),
            (Phase::Between, _) => "NEXT".to_owned(),
            (Phase::Agent { iteration }, _) => format!("RUN {}", of(iteration)),
            (Phase::Metareview { .. } | Phase::Review { .. }, _) => "REVIEW".to_owned(),
            (Phase::Wave, _) => "WAVE".to_owned(),
            (Phase::Implement, _) => "WORK".to_owned(),
            (Phase::Fix { attempt }, _) => format!("FIX {}", of(attempt)),
            (Phase::Merge, _) => "MERGE".to_owned(),
        }
    }

    /// How long it has been in its phase, or took if it is over. `None` where the journal does not say.
    pub fn elapsed(&self, now: Timestamp) -> Option<Duration> {
        let stamp = |text: &str| text.parse::<Timestamp>().ok();
        let (from, to) = match self.phase {
            Phase::Waiting => return None,
            Phase::Ended => (stamp(&self.began)?, stamp(&self.since)?),
            _ => (stamp(&self.since)?, now),
        };
        let millis = to.millis().saturating_sub(from.millis());
        Some(Duration::from_millis(u64::try_from(millis).unwrap_or_default()))
    }

    /// The files that its agent may print to, or have printed to last, the usual one first: the stream of
    /// a client has a name of its own, and which client it is no record tells.
    pub fn outputs(&self) -> Vec<String> {
        let Some(output) = &self.output else { return Vec::new() };
        let name = output.strip_prefix(&self.dir).and_then(|name| name.strip_prefix('/'));
        let turn = name.and_then(|name| name.strip_suffix(".out")?.rsplit_once('-'));
        let mut outputs = vec![output.clone()];
        if let Some((what, number)) = turn {
            let what = if what == "iteration" { "stream" } else { "review" };
            let clients = Stream::WORDS.iter().filter(|client| **client != Stream::Plain.name());
            let file = |client| format!("{}/{client}-{what}.{number}.jsonl", self.dir);
            outputs.extend(clients.map(file));
        }
        outputs
    }

    /// It is in another phase now.
    pub(super) fn enter(&mut self, phase: Phase, record: &Glance<'_>) {
        self.phase = phase;
        self.since = record.ts().unwrap_or_default().into_owned();
        if self.began.is_empty() {
            self.began.clone_from(&self.since);
        }
        if phase != Phase::Ended {
            self.outcome = None;
        }
    }

    /// It is over.
    pub(super) fn end(&mut self, outcome: Outcome, record: &Glance<'_>) {
        if self.phase != Phase::Ended {
            self.enter(Phase::Ended, record);
        }
        self.outcome = Some(outcome);
    }

    /// Its agent prints to this file of its directory.
    pub(super) fn prints_to(&mut self, file: &str) {
        self.output = (!self.dir.is_empty()).then(|| format!("{}/{file}", self.dir));
    }
}
