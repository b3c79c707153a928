//! What all coordinators have in common: which there are, and how a run of any of them is.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::record::{
    ChainOutcome, ChainStart, Glance, LoopStart, SlotRunStart, SlotsEnd, StopReason,
};

/// A coordinator: what decides the steps of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// Iterations of one loop.
    Loop,
    /// Loops in sequence.
    Chain,
    /// Slots that work on a queue.
    Slots,
}

/// What is known of a coordinator by its name.
struct Names {
    word: &'static str,
    dir: &'static str,
    topics: &'static [&'static str],
    command: &'static str,
}

impl Kind {
    /// Every coordinator.
    pub const ALL: [Kind; 3] = [Kind::Loop, Kind::Chain, Kind::Slots];

    const fn names(self) -> Names {
        match self {
            Kind::Loop => {
                Names { word: "loop", dir: "runs", topics: &["loop"], command: "autoloop run" }
            }
            Kind::Chain => Names {
                word: "chain",
                dir: "chains",
                topics: &["chain"],
                command: "autoloop chain run",
            },
            Kind::Slots => Names {
                word: "slots",
                dir: "slots",
                topics: &["slot", "slots"],
                command: "autoloop slots",
            },
        }
    }

    /// The word for a run of this coordinator.
    pub fn word(self) -> &'static str {
        self.names().word
    }

    /// The name of the directory, below the state directory, that holds its runs.
    pub fn dir(self) -> &'static str {
        self.names().dir
    }

    /// The first words of the topics that begin, resume and end its runs.
    pub fn topics(self) -> &'static [&'static str] {
        self.names().topics
    }

    /// The command that begins its runs, and resumes them with `--resume`.
    pub fn command(self) -> &'static str {
        self.names().command
    }

    /// The command that resumes a run.
    pub fn resume_command(self, run: &str) -> String {
        format!("{} --resume={run}", self.command())
    }

    /// The topic of the record that begins a run.
    pub fn start_topic(self) -> &'static str {
        match self {
            Kind::Loop => LoopStart::TOPIC,
            Kind::Chain => ChainStart::TOPIC,
            Kind::Slots => SlotRunStart::TOPIC,
        }
    }

    /// Whether a record may be about such a run.
    pub fn concerns(self, record: &Glance<'_>) -> bool {
        match self {
            Kind::Loop => true,
            Kind::Chain => !record.has_payload() && record.topic().starts_with("chain."),
            Kind::Slots => !record.has_payload() && is_slot_topic(&record.topic()),
        }
    }

    /// Whether a record claims that such a run began.
    pub fn begins(self, record: &Glance<'_>) -> bool {
        !record.has_payload() && record.topic() == self.start_topic()
    }

    /// The flag, behind a space, that raises the limit that a run reached, if it ended for that reason.
    pub fn raised_limit(self, reason: &str, done: u64, of: u64) -> String {
        match self {
            Kind::Loop if StopReason::from_word(reason) == Some(StopReason::MaxIterations) => {
                format!(" -i {}", done.saturating_add(of.max(1)))
            }
            Kind::Slots if SlotsEnd::from_word(reason) == Some(SlotsEnd::Iterations) => {
                format!(" -i {}", done.saturating_mul(2))
            }
            Kind::Loop | Kind::Chain | Kind::Slots => String::new(),
        }
    }
}

/// Whether records with this topic are about a run over a queue.
pub fn is_slot_topic(topic: &str) -> bool {
    topic.starts_with("slot.") || topic.starts_with("slots.")
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// The state of one run of a coordinator, folded from records.
pub trait Fold {
    /// The coordinator.
    const KIND: Kind;

    /// The state before the first record.
    fn new(id: &str) -> Self;

    /// The id of the run.
    fn id(&self) -> &str;

    /// Applies a record of the run's own harness.
    fn apply(&mut self, record: &Glance<'_>);

    /// Applies a record that any process may write: an event of an agent, or its refusal by `emit`.
    fn apply_foreign(&mut self, _record: &Glance<'_>) {}
}

/// How a run is: the same word in every view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// A process carries it out.
    Running,
    /// It reached its goal.
    Completed,
    /// It reached a limit.
    Stopped,
    /// An agent or an item failed.
    Failed,
    /// It was asked to stop.
    Interrupted,
    /// It has no end, and no process carries it out.
    Crashed,
}

impl Status {
    /// The status of a run that ended without reaching its goal.
    pub fn of_reason(reason: &str) -> Status {
        match (StopReason::from_word(reason), ChainOutcome::from_word(reason)) {
            (Some(StopReason::Interrupted), _) => Status::Interrupted,
            (Some(StopReason::MaxIterations), _) | (_, Some(ChainOutcome::BudgetExceeded)) => {
                Status::Stopped
            }
            _ => Status::Failed,
        }
    }

    /// The status by the records of a run, corrected by who holds its lock: a process that does carries
    /// the run out, whatever an agent wrote into the journal.
    #[must_use]
    pub fn with_holder(self, holder: Holder) -> Status {
        match (holder, self) {
            (Holder::Process(_), _) => Status::Running,
            (Holder::None, Status::Running) => Status::Crashed,
            (Holder::None | Holder::Unknown, status) => status,
        }
    }

    /// Whether the run can be resumed: every run can that did not complete.
    pub fn can_resume(self) -> bool {
        self != Status::Completed
    }

    /// Whether the run did not come to an end of its own.
    pub fn is_unfinished(self) -> bool {
        matches!(self, Status::Running | Status::Interrupted | Status::Crashed)
    }

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::Completed => "completed",
            Status::Stopped => "stopped",
            Status::Failed => "failed",
            Status::Interrupted => "interrupted",
            Status::Crashed => "crashed",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// Which process holds the lock of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// This one.
    Process(u32),
    /// None.
    None,
    /// The system does not list locks.
    Unknown,
}

impl Holder {
    /// The process, where one is known.
    pub fn process(self) -> Option<u32> {
        match self {
            Holder::Process(process) => Some(process),
            Holder::None | Holder::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_follows_from_the_records_and_the_lock() {
        for (status, holder, seen) in [
            (Status::Running, Holder::Process(7), "running"),
            (Status::Failed, Holder::Process(7), "running"),
            (Status::Running, Holder::None, "crashed"),
            (Status::Running, Holder::Unknown, "running"),
            (Status::Completed, Holder::None, "completed"),
            (Status::of_reason("max_iterations"), Holder::Unknown, "stopped"),
            (Status::of_reason("backend_failed"), Holder::None, "failed"),
            (Status::of_reason("interrupted"), Holder::None, "interrupted"),
        ] {
            assert_eq!(status.with_holder(holder).to_string(), seen);
        }
    }
}
