//! One row of a board.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::in_line;
use crate::agents::Stream;
use crate::coordinator::Status;
use crate::duration;
use crate::failure::TurnFailure;
use crate::record::{BackendParked, Glance, SquadClaim, StopReason};
use crate::squad::{LoopState, ReviewStatus};
use crate::timestamp::Timestamp;
use crate::views::usage::{Part, Sum};
use crate::wire_enum::Word;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    #[default]
    Waiting,
    Between,
    Agent {
        iteration: u64,
    },
    Metareview {
        /// The iteration that the review precedes.
        before: u64,
    },
    Wave,
    Implement,
    Review {
        attempt: u64,
    },
    Fix {
        attempt: u64,
    },
    Merge,
    /// An agent writes the tasks of a squad.
    Enumerate,
    /// An agent puts them into groups.
    Plan,
    /// The loops below work.
    Group,
    Build {
        iteration: u64,
    },
    Revise {
        iteration: u64,
    },
    Checkpoint,
    /// An agent resolves a conflict.
    Conflict,
    Ended,
}

impl Phase {
    /// The word for other programs.
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
            Phase::Enumerate => "enumerate",
            Phase::Plan => "plan",
            Phase::Group => "group",
            Phase::Build { .. } => "build",
            Phase::Revise { .. } => "revise",
            Phase::Checkpoint => "checkpoint",
            Phase::Conflict => "conflict",
            Phase::Ended => "ended",
        }
    }

    pub fn number(self) -> Option<u64> {
        match self {
            Phase::Agent { iteration: number }
            | Phase::Build { iteration: number }
            | Phase::Revise { iteration: number }
            | Phase::Metareview { before: number }
            | Phase::Review { attempt: number }
            | Phase::Fix { attempt: number } => Some(number),
            _ => None,
        }
    }

    /// Whether an agent works or work is merged, so that time passes.
    pub fn is_busy(self) -> bool {
        !matches!(self, Phase::Waiting | Phase::Between | Phase::Ended)
    }

    /// Whether the agents that work are those of the rows below.
    pub fn is_of_others(self) -> bool {
        matches!(self, Phase::Wave | Phase::Group)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The word of the journal.
    pub word: String,
    pub end: End,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    Done,
    /// There was nothing to do.
    Idle,
    /// It reached a limit or was interrupted.
    Stopped,
    #[default]
    Failed,
}

impl Outcome {
    pub fn is_good(&self) -> bool {
        self.end == End::Done
    }

    /// The outcome of the board's own run: only its goal is good.
    pub(super) fn of_whole(reason: &Word<StopReason>) -> Outcome {
        let is_stopped = match Status::of_reason(reason.as_str()) {
            Status::Stopped | Status::Interrupted => true,
            _ => reason.is_success(),
        };
        let end = if is_stopped { End::Stopped } else { End::Failed };
        Outcome { word: reason.to_string(), end }
    }

    pub(super) fn of_part(reason: &Word<StopReason>) -> Outcome {
        match reason.is_success() {
            true => Outcome { word: reason.to_string(), end: End::Done },
            false => Outcome::of_whole(reason),
        }
    }
}

/// A client that a turn waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    pub client: String,
    pub class: String,
    /// What the client reports.
    pub detail: String,
    /// When it is asked again, as written.
    pub until: String,
}

impl Parked {
    pub(super) fn new(parked: &BackendParked) -> Parked {
        Parked {
            client: in_line(&parked.client),
            class: in_line(parked.class.as_str()),
            detail: in_line(&parked.detail),
            until: in_line(&parked.until),
        }
    }

    /// The time until the client is asked again; `None` where it is unknown.
    pub fn left(&self, now: Timestamp) -> Option<Duration> {
        Some(self.until.parse::<Timestamp>().ok()?.since(now))
    }

    /// `parked, 12m30s left`
    pub fn left_in_words(&self, now: Timestamp) -> String {
        let left = self.left(now).map(|left| format!(", {} left", duration::print_short(left)));
        format!("parked{}", left.unwrap_or_default())
    }
}

impl fmt::Display for Parked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is unavailable ({}): {}", self.client, self.class, self.detail)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The run of the row; empty before it starts.
    pub run: String,
    /// The slot, step or branch, counted from 1.
    pub number: u64,
    /// The indentation: 1 for a branch below its loop.
    pub level: u64,
    pub name: String,
    /// The item of a queue, the preset of a step, or the roles of an iteration.
    pub item: String,
    /// The title of the item, or the objective.
    pub title: String,
    pub phase: Phase,
    /// The maximum number of iterations or fixes.
    pub limit: u64,
    /// As written.
    pub began: String,
    /// When the phase began, as written.
    pub since: String,
    pub outcome: Option<Outcome>,
    /// The last message about it in the journal.
    pub note: String,
    /// Its directory, relative to the state directory; empty where it is unknown.
    pub dir: String,
    /// The file that its agent prints to, or printed to last, relative to the state directory,
    /// unless the agent prints a stream.
    pub output: Option<String>,
    /// What its agent waits for.
    pub parked: Option<Parked>,
    /// The iteration of a slot or of a finished row.
    pub iteration: u64,
    /// The part of the iteration that it shows; `None` for a run.
    pub part: Option<Part>,
    /// `None` where it is not a loop of a squad that began.
    pub state: Option<LoopState>,
    /// Of the review of such a loop.
    pub review: ReviewStatus,
    /// The revision that such a loop is in; 0 before the first one, and after it passed.
    pub revision: u64,
    /// What its builder reports in this turn.
    pub(super) claim: Option<SquadClaim>,
    /// What the agents of a row of a squad used.
    pub(super) usage: Sum,
}

impl Row {
    pub fn badge(&self) -> String {
        if self.parked.is_some() {
            return "PARKED".to_owned();
        }
        let of = |number: u64| match self.limit {
            0 => number.to_string(),
            limit => format!("{number}/{limit}"),
        };
        let state = self.state.filter(|_| !self.phase.is_busy());
        if let Some(state) = state.filter(|state| !state.is_building()) {
            return state.name().to_uppercase();
        }
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
            (Phase::Build { iteration }, _) => format!("BUILD {iteration}"),
            (Phase::Revise { iteration }, _) => format!("REVISE {iteration}"),
            (Phase::Group, _) => "BUILD".to_owned(),
            (phase @ (Phase::Enumerate | Phase::Plan | Phase::Checkpoint | Phase::Conflict), _) => {
                phase.word().to_uppercase()
            }
        }
    }

    /// The result of its review, and its revision: `failed, revision 2/3`. The badge shows a review under way.
    pub fn review_in_words(&self) -> String {
        let review = match self.review {
            ReviewStatus::Pending | ReviewStatus::InProgress => "",
            ReviewStatus::Passed | ReviewStatus::Failed => self.review.name(),
        };
        let revision = match self.revision {
            0 => String::new(),
            revision => format!("revision {revision}/{}", self.limit),
        };
        let known = [review, &revision].into_iter().filter(|text| !text.is_empty());
        known.collect::<Vec<_>>().join(", ")
    }

    /// Whether the user has to resolve it.
    pub fn is_blocked(&self) -> bool {
        self.state.is_some_and(LoopState::is_blocked)
    }

    /// The time in its phase, or its duration if it ended; `None` where timestamps are missing.
    pub fn elapsed(&self, now: Timestamp) -> Option<Duration> {
        let stamp = |text: &str| text.parse::<Timestamp>().ok();
        let (from, to) = match self.phase {
            Phase::Waiting => return None,
            Phase::Ended => (stamp(&self.began)?, stamp(&self.since)?),
            _ => (stamp(&self.since)?, now),
        };
        Some(to.since(from))
    }

    /// The files that its agent may print to, or may have printed to last, the plain output first:
    /// the stream of a client has its own file name, and no record tells which client it is.
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

    pub(super) fn enter(&mut self, phase: Phase, record: &Glance<'_>) {
        self.phase = phase;
        self.parked = None;
        self.since = record.ts().unwrap_or_default().into_owned();
        if self.began.is_empty() {
            self.began.clone_from(&self.since);
        }
        if phase != Phase::Ended {
            self.outcome = None;
        }
    }

    pub(super) fn end(&mut self, outcome: Outcome, record: &Glance<'_>) {
        if self.phase != Phase::Ended {
            self.enter(Phase::Ended, record);
        }
        self.outcome = Some(outcome);
    }

    /// The row of a turn that ends with this record. The time of the turn is that of the row's phase.
    pub(super) fn finished(
        &self,
        name: String,
        part: Part,
        failure: Option<TurnFailure>,
        record: &Glance<'_>,
    ) -> Row {
        let (word, end) = match failure {
            Some(_) => ("failed", End::Failed),
            None => ("done", End::Done),
        };
        let note = failure.map_or_else(|| self.note.clone(), |why| in_line(&why.to_string()));
        let iteration = record.iteration().parse().unwrap_or_default();
        let began = self.since.clone();
        let title = String::new();
        let part = Some(part);
        let mut row = Row { name, title, began, note, iteration, part, ..self.clone() };
        row.end(Outcome { word: word.to_owned(), end }, record);
        row
    }

    /// `file` is in the row's directory.
    pub(super) fn prints_to(&mut self, file: &str) {
        self.output = (!self.dir.is_empty()).then(|| format!("{}/{file}", self.dir));
    }
}
