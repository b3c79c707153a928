//! Where runs are carried out, and what is reported about them meanwhile.

use std::path::Path;

use autoloop_core::config::Problem;
use autoloop_core::merge::MergeOutcome;
use autoloop_core::record::{
    CheckFinish, SlotFinish, SlotReview, SquadLoop, SquadMerge, SquadReview, SquadTurn,
    SquadTurnFinish,
};
use autoloop_core::run::Run;
use autoloop_core::slot::{FinishedIteration, Phase, Slot, SlotRules, Slots};
use autoloop_core::squad::Squad;

pub use crate::breakers::Breakers;
use crate::journal::Journal;
use crate::layout::StateDir;
use crate::process::Interrupts;
use crate::world::World;

/// What every coordinator needs to carry a run out, and every lookup of runs to find one.
#[derive(Clone)]
pub struct Site<'a> {
    pub world: &'a World,
    pub journal: &'a dyn Journal,
    pub state_dir: &'a StateDir,
    pub interrupts: Interrupts,
    /// This program: it supervises agents, plays scripts and is what agents call.
    pub program: &'a Path,
    pub trust: Trust,
    /// Which clients are unavailable.
    pub breakers: Breakers,
    /// Called with everything that is reported, by any thread.
    pub progress: &'a (dyn Fn(Progress<'_>) + Sync),
}

impl<'a> Site<'a> {
    /// A site where nothing is reported, no process asks to stop, and only proven records are believed.
    pub fn new(world: &'a World, journal: &'a dyn Journal, state_dir: &'a StateDir) -> Self {
        Site {
            world,
            journal,
            state_dir,
            interrupts: Interrupts::default(),
            program: Path::new(""),
            trust: Trust::Proven,
            breakers: Breakers::default(),
            progress: &|_| {},
        }
    }

    pub(crate) fn report(&self, progress: Progress<'_>) {
        (self.progress)(progress);
    }

    pub(crate) fn note(&self, note: &str) {
        self.report(Progress::Note(note));
    }
}

/// Which records of earlier harnesses are believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those with a valid seal.
    #[default]
    Proven,
    /// All that claim to be a harness's: the user vouches for the journal.
    Journal,
}

#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    Began(&'a Run),
    Resumed(&'a Run),
    Iteration {
        number: u64,
        of: u64,
        roles: &'a [String],
        event: &'a str,
    },
    Iterated(&'a Run),
    Review {
        /// The iteration that follows it.
        before: u64,
    },
    Wave {
        id: &'a str,
        branches: usize,
    },
    Branch {
        id: &'a str,
        /// Why its agent failed, or the reason it stopped for.
        how: &'a str,
    },
    /// The work of a branch was merged back, or was not.
    Merge {
        id: &'a str,
        outcome: MergeOutcome,
    },
    /// A chain that the run requested begins, or is resumed.
    Chain {
        id: &'a str,
        steps: &'a str,
    },
    /// A chain that the run requested ended.
    Chained {
        id: &'a str,
        outcome: &'a str,
    },
    Slots(SlotProgress<'a>),
    Squad(SquadProgress<'a>),
    /// A step of a review by message, in one line.
    Exchange {
        id: &'a str,
        line: &'a str,
    },
    /// Warnings about the settings and the loop of a run that is about to be carried out.
    Warnings(&'a [Problem]),
    Note(&'a str),
}

#[derive(Clone, Copy, Debug)]
pub enum SlotProgress<'a> {
    /// The run begins or is resumed, with these rules.
    Began(&'a Slots, &'a SlotRules),
    Iteration(u64),
    Phase {
        slot: &'a Slot,
        phase: Phase,
        attempt: u64,
    },
    /// Its agent waits for this client, which another one was refused by.
    Parked(&'a Slot, &'a str),
    Reviewed(&'a Slot, &'a SlotReview<'a>),
    Finished(&'a Slot, &'a SlotFinish),
    IterationFinished(&'a FinishedIteration),
}

#[derive(Clone, Copy, Debug)]
pub enum SquadProgress<'a> {
    Began(&'a Squad),
    Resumed(&'a Squad),
    /// The number of tasks after they were enumerated, and of groups after they were planned.
    Planned {
        tasks: usize,
        groups: usize,
    },
    /// A loop begins or begins again.
    Loop {
        record: &'a SquadLoop,
        title: &'a str,
    },
    Turn(&'a SquadTurn),
    TurnFinished(&'a SquadTurn, &'a SquadTurnFinish<'a>),
    Checked {
        /// `None` for the merged work.
        loop_id: Option<&'a str>,
        check: &'a CheckFinish,
    },
    Reviewed {
        record: &'a SquadReview,
        /// The first line of each issue.
        issues: &'a [String],
    },
    Merged(&'a SquadMerge),
    /// A loop is stuck, or failed.
    Blocked {
        loop_id: &'a str,
        how: &'a str,
        reason: &'a str,
    },
}
