//! What all coordinators have in common.

use std::fmt;

use crate::chain::Chain;
use crate::project::scratchpad::Scratchpad;
use crate::record::{ChainStart, Glance, LoopStart, SlotRunStart};
use crate::run::Run;
use crate::slot::{Slots, is_slot_topic};

/// A coordinator: what decides the steps of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

impl Fold for Run {
    const KIND: Kind = Kind::Loop;

    fn new(id: &str) -> Self {
        Run::new(id)
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn apply(&mut self, record: &Glance<'_>) {
        Run::apply(self, record);
    }

    fn apply_foreign(&mut self, record: &Glance<'_>) {
        Run::apply(self, record);
    }
}

/// The state of a loop.
#[derive(Clone, Debug)]
pub struct LoopFold {
    /// How far it is.
    pub run: Run,
    /// What its iterations printed.
    pub scratchpad: Scratchpad,
}

impl Fold for LoopFold {
    const KIND: Kind = Kind::Loop;

    fn new(id: &str) -> Self {
        LoopFold { run: Run::new(id), scratchpad: Scratchpad::default() }
    }

    fn id(&self) -> &str {
        &self.run.id
    }

    fn apply(&mut self, record: &Glance<'_>) {
        self.run.apply(record);
        self.scratchpad.apply(record);
    }

    fn apply_foreign(&mut self, record: &Glance<'_>) {
        self.run.apply(record);
    }
}

impl Fold for Chain {
    const KIND: Kind = Kind::Chain;

    fn new(id: &str) -> Self {
        Chain::new(id)
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn apply(&mut self, record: &Glance<'_>) {
        Chain::apply(self, record);
    }
}

impl Fold for Slots {
    const KIND: Kind = Kind::Slots;

    fn new(id: &str) -> Self {
        Slots::new(id)
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn apply(&mut self, record: &Glance<'_>) {
        Slots::apply(self, record);
    }
}
