//! How a run is: what the journal says of it, and whether somebody drives it.

use std::fmt;

use autoloop_core::run::{Ending, Run, Stage, StopReason};
use autoloop_core::word::Word;
use autoloop_runtime::drive::Driver;

use crate::style::Tone;

/// How a run is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// A process drives it.
    Running(u32),
    /// It reached its goal, for this reason.
    Complete(Word<StopReason>),
    /// It ended otherwise, for this reason.
    Stopped(Word<StopReason>),
    /// It was asked to stop, and can go on.
    Interrupted,
    /// Nobody drives it, and it has no end.
    CutOff,
    /// It has no end, and the system does not tell whether somebody drives it.
    Unfinished,
    /// There are records of it, but none that begins it.
    Unbegun,
}

impl State {
    /// Whoever holds the lock of a run drives it, whatever an agent may have written into the journal.
    pub(super) fn of(run: &Run, driver: Driver) -> State {
        match (driver, &run.stage) {
            (Driver::Process(pid), _) => State::Running(pid),
            (_, Stage::Ended(Ending::Complete { reason })) => State::Complete(reason.clone()),
            (_, Stage::Ended(Ending::Stop { reason })) if *reason == StopReason::Interrupted => {
                State::Interrupted
            }
            (_, Stage::Ended(Ending::Stop { reason })) => State::Stopped(reason.clone()),
            _ if run.start.is_none() => State::Unbegun,
            (Driver::Nobody, _) => State::CutOff,
            (Driver::Unknown, _) => State::Unfinished,
        }
    }

    /// The tone that it is shown in.
    pub(super) fn tone(&self) -> Tone {
        match self {
            State::Running(_) | State::Complete(_) => Tone::Good,
            State::Stopped(_) => Tone::Bad,
            State::Interrupted | State::CutOff | State::Unfinished => Tone::Warning,
            State::Unbegun => Tone::Faint,
        }
    }

    /// One word for other programs.
    pub(super) fn word(&self) -> &'static str {
        match self {
            State::Running(_) => "running",
            State::Complete(_) => "complete",
            State::Stopped(_) => "stopped",
            State::Interrupted => "interrupted",
            State::CutOff => "cut_off",
            State::Unfinished => "unfinished",
            State::Unbegun => "unbegun",
        }
    }

    /// Why it ended as it did.
    pub(super) fn reason(&self) -> Option<&str> {
        match self {
            State::Complete(reason) | State::Stopped(reason) => Some(reason.as_str()),
            State::Interrupted => Some("interrupted"),
            _ => None,
        }
    }

    /// The process that drives it.
    pub(super) fn pid(&self) -> Option<u32> {
        match self {
            State::Running(pid) => Some(*pid),
            _ => None,
        }
    }

    /// Whether `run --resume` would go on with it.
    pub(super) fn can_go_on(&self) -> bool {
        matches!(self, State::Stopped(_) | State::Interrupted | State::CutOff | State::Unfinished)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::Stopped(reason) => write!(f, "stopped: {reason}"),
            State::CutOff => f.write_str("cut off"),
            State::Unbegun => f.write_str("no beginning"),
            state => f.write_str(state.word()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use autoloop_core::record::LoopStart;

    fn run(stage: Stage) -> Run {
        Run { stage, start: Some(LoopStart::default()), ..Run::new("r") }
    }

    #[test]
    fn a_run_is_what_its_lock_and_its_records_say() {
        let complete = || Stage::Ended(Ending::Complete { reason: "completion_event".into() });
        let stop = |reason: &str| Stage::Ended(Ending::Stop { reason: reason.into() });
        let told = |stage, driver| State::of(&run(stage), driver).to_string();
        for (stage, driver, state) in [
            (Stage::Iterating, Driver::Process(7), "running"),
            (stop("forged"), Driver::Process(7), "running"),
            (Stage::Iterating, Driver::Nobody, "cut off"),
            (Stage::Between, Driver::Nobody, "cut off"),
            (Stage::Reviewing, Driver::Unknown, "unfinished"),
            (complete(), Driver::Nobody, "complete"),
            (stop("max_iterations"), Driver::Unknown, "stopped: max_iterations"),
            (stop("interrupted"), Driver::Nobody, "interrupted"),
        ] {
            assert_eq!(told(stage, driver), state);
        }
        assert_eq!(State::of(&Run::new("r"), Driver::Nobody), State::Unbegun);
    }
}
