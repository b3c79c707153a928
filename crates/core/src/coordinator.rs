//! What all coordinators have in common: their kinds, their folds and the status of their runs.

use crate::record::{
    ChainOutcome, ChainStart, ExchangeOutcome, ExchangeStart, Glance, LoopStart, SlotRunStart,
    SlotsEnd, SquadEnd, SquadStart, StopReason,
};
use crate::wire_enum::{Word, words};

words! {
    /// A coordinator: it decides the steps of a run.
    #[derive(Default, PartialOrd, Ord)]
    Kind {
        #[default]
        Loop = "loop",
        Chain = "chain",
        Slots = "slots",
        Exchange = "exchange",
        Squad = "squad",
    }
}

impl Kind {
    pub const ALL: [Kind; 5] = [Kind::Loop, Kind::Chain, Kind::Slots, Kind::Exchange, Kind::Squad];

    /// The directory of its runs, below the state directory.
    pub fn dir(self) -> &'static str {
        match self {
            Kind::Loop => "runs",
            Kind::Chain => "chains",
            Kind::Slots => "slots",
            Kind::Exchange => "exchanges",
            Kind::Squad => "squads",
        }
    }

    pub fn command(self) -> &'static str {
        match self {
            Kind::Loop => "autoloop run",
            Kind::Chain => "autoloop chain run",
            Kind::Slots => "autoloop slots",
            Kind::Exchange => "autoloop review run",
            Kind::Squad => "autoloop squad",
        }
    }

    pub fn resume_command(self, run: &str) -> String {
        format!("{} --resume={run}", self.command())
    }

    pub fn start_topic(self) -> &'static str {
        match self {
            Kind::Loop => LoopStart::TOPIC,
            Kind::Chain => ChainStart::TOPIC,
            Kind::Slots => SlotRunStart::TOPIC,
            Kind::Exchange => ExchangeStart::TOPIC,
            Kind::Squad => SquadStart::TOPIC,
        }
    }

    /// Whether a record may be about a run of this coordinator.
    pub fn concerns(self, record: &Glance<'_>) -> bool {
        let families: &[&str] = match self {
            Kind::Loop => return true,
            Kind::Chain => &["chain."],
            Kind::Slots => &["slot.", "slots."],
            Kind::Exchange => &["exchange.", "check."],
            Kind::Squad => &["squad.", "check."],
        };
        let topic = record.topic();
        !record.has_payload() && families.iter().any(|family| topic.starts_with(family))
    }

    /// Whether a record claims to start a run of this coordinator.
    pub fn begins(self, record: &Glance<'_>) -> bool {
        !record.has_payload() && record.topic() == self.start_topic()
    }

    /// The flag, with a leading space, that raises the limit that a run reached; empty where it
    /// ended otherwise.
    pub fn raised_limit(self, reason: &str, done: u64, of: u64) -> String {
        match self {
            Kind::Loop if StopReason::from_word(reason) == Some(StopReason::MaxIterations) => {
                format!(" -i {}", done.saturating_add(of.max(1)))
            }
            Kind::Slots if SlotsEnd::from_word(reason) == Some(SlotsEnd::Iterations) => {
                format!(" -i {}", done.saturating_mul(2))
            }
            Kind::Loop | Kind::Chain | Kind::Slots | Kind::Exchange | Kind::Squad => String::new(),
        }
    }
}

pub trait Fold {
    const KIND: Kind;

    fn new(id: &str) -> Self;

    fn id(&self) -> &str;

    /// Applies a record of the run's own harness. The caller filters out records of other runs and forged
    /// ones.
    fn apply(&mut self, record: &Glance<'_>);

    /// Applies a record that any process may write: an event of an agent, or its refusal by `emit`.
    fn apply_foreign(&mut self, _record: &Glance<'_>) {}
}

words! {
    /// The status of a run: the same word in every view.
    Status {
        Running = "running",
        Completed = "completed",
        /// It reached a limit, or stalled.
        Stopped = "stopped",
        Failed = "failed",
        Interrupted = "interrupted",
        /// It has no end record, and no process executes it.
        Crashed = "crashed",
        /// No process executes it, until the next command of one of its agents.
        Waiting = "waiting",
    }
}

impl Status {
    /// The status of a chain that ended, and of another run that ended without reaching its goal.
    pub fn of_reason(reason: &str) -> Status {
        if let Some(outcome) = ExchangeOutcome::from_word(reason) {
            return Status::of_exchange(outcome);
        }
        if let Some(end) = SquadEnd::from_word(reason) {
            return Status::of_squad(end);
        }
        if reason == Status::Waiting.name() {
            return Status::Waiting;
        }
        match (StopReason::from_word(reason), ChainOutcome::from_word(reason)) {
            (_, Some(ChainOutcome::AllStepsComplete)) => Status::Completed,
            (Some(StopReason::Interrupted), _) => Status::Interrupted,
            (
                Some(
                    StopReason::MaxIterations
                    | StopReason::MaxCost
                    | StopReason::MaxTokens
                    | StopReason::MaxRuntime
                    | StopReason::Stalled,
                ),
                _,
            )
            | (_, Some(ChainOutcome::BudgetExceeded)) => Status::Stopped,
            _ => Status::Failed,
        }
    }

    /// The status of a run of slots that ended, by whether every item passed that it took.
    pub fn of_slots(reason: &Word<SlotsEnd>, is_well: bool) -> Status {
        match reason.known() {
            Some(SlotsEnd::Interrupted) => Status::Interrupted,
            Some(reason) if reason.is_limit() => Status::Stopped,
            _ if is_well => Status::Completed,
            _ => Status::Failed,
        }
    }

    fn of_exchange(outcome: ExchangeOutcome) -> Status {
        match outcome {
            ExchangeOutcome::Approved => Status::Completed,
            ExchangeOutcome::BlockersRemain
            | ExchangeOutcome::BudgetExceeded
            | ExchangeOutcome::LimitReached => Status::Stopped,
            ExchangeOutcome::Undelivered | ExchangeOutcome::AuthorFailed => Status::Failed,
            ExchangeOutcome::Interrupted => Status::Interrupted,
        }
    }

    pub fn of_squad(end: SquadEnd) -> Status {
        match end {
            SquadEnd::Completed => Status::Completed,
            SquadEnd::Interrupted => Status::Interrupted,
            SquadEnd::Planned | SquadEnd::Blocked | SquadEnd::MergeRefused => Status::Stopped,
            end if end.is_limit() => Status::Stopped,
            _ => Status::Failed,
        }
    }

    /// The status by the records, corrected by the holder of the lock: a process that holds it
    /// executes the run, whatever an agent wrote to the journal.
    #[must_use]
    pub fn with_holder(self, holder: Holder) -> Status {
        match (holder, self) {
            (Holder::Process(_), _) => Status::Running,
            (Holder::None, Status::Running) => Status::Crashed,
            (Holder::None | Holder::Unknown, status) => status,
        }
    }

    pub fn can_resume(self) -> bool {
        self != Status::Completed
    }

    /// Whether the run ended neither at its goal nor at a limit nor by a failure.
    pub fn is_unfinished(self) -> bool {
        matches!(self, Status::Running | Status::Interrupted | Status::Crashed)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    Process(u32),
    None,
    /// The system does not list locks.
    Unknown,
}

impl Holder {
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
