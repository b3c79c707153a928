//! A generated run of slots: its items and its rules.

use std::time::Duration;

use autoloop_core::queue::{New, Priority};
use autoloop_runtime::journal::{Durability, FileJournal};
use autoloop_runtime::queue::Builtin;
use autoloop_runtime::world::World;
use autoloop_testkit::{Dice, Seed, SimDisk};

use crate::agent::PATIENCE;
use crate::fault_plan::Manners;
use crate::rules::one_of;
use crate::setup::{CONFIG, JOURNAL, Sync};

/// The name of every run that is watched begins with one of these; the second is one that others begin
/// while the first is under way.
pub(crate) const FIRST: &str = "swift-otter-";
pub(crate) const SECOND: &str = "calm-heron-";
/// How long an agent may take, and how long it may ignore that.
pub(crate) const DEADLINE: Duration = Duration::from_secs(300);
pub(crate) const GRACE: Duration = Duration::from_secs(7);
/// What agents print when they find nothing to do.
pub(crate) const NOTHING_LEFT: &str = "no_beads_available";
/// More items than there ever are.
pub(crate) const MOST_ITEMS: usize = 12;

/// A run over a queue.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) seed: Seed,
    items: Vec<Given>,
    pub(crate) rules: Rules,
    pub(crate) sync: Sync,
    /// How long a claim lasts.
    pub(crate) lasting: Duration,
    /// Whether agents write by hand what only the harness may write.
    pub(crate) forges: bool,
}

/// An item that is there from the beginning.
#[derive(Clone, Debug)]
struct Given {
    priority: u64,
    /// The items that it depends on, and the dependencies that are added afterwards, which may
    /// include later items and itself.
    after: Vec<usize>,
    linked: Vec<usize>,
    is_closed: bool,
}

/// What binds a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) slots: u64,
    /// The most iterations; 0 for as many as there are items.
    pub(crate) iterations: u64,
    pub(crate) review: Review,
    pub(crate) fixes: u64,
    /// How often a reviewer is asked again that broke the contract.
    pub(crate) repairs: u64,
    /// What ends a run; empty for nothing.
    pub(crate) marker: &'static str,
    /// Whether items are taken that were added after a run began.
    pub(crate) takes_new: bool,
    /// The most items of a run; 0 for no limit.
    pub(crate) most_items: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Review {
    On,
    Off,
    NoPrompt,
}

impl Setup {
    pub(crate) fn any(seed: Seed, dice: &mut Dice) -> Setup {
        let count = dice.index(9);
        let several = |dice: &mut Dice, below: usize| -> Vec<usize> {
            let many = *dice.pick(&[0, 0, 0, 1, 1, 2]);
            (0..many).filter(|_| below > 0).map(|_| dice.index(below)).collect()
        };
        let item = |place| Given {
            priority: dice.below(5),
            after: several(dice, place),
            linked: several(dice, count),
            is_closed: dice.chance(1, 10),
        };
        Setup {
            items: (0..count).map(item).collect(),
            seed,
            rules: Rules {
                slots: 1 + dice.below(4),
                iterations: dice.below(5),
                review: *dice.pick(&[
                    Review::On,
                    Review::On,
                    Review::On,
                    Review::Off,
                    Review::NoPrompt,
                ]),
                fixes: dice.below(4),
                repairs: dice.below(2),
                marker: one_of(dice, &[NOTHING_LEFT, "all is done", ""]),
                takes_new: dice.chance(1, 2),
                most_items: *dice.pick(&[0, 0, 0, 1, 4]),
            },
            sync: *dice.pick(&[Sync::Always, Sync::Always, Sync::Iteration, Sync::Never]),
            lasting: Duration::from_secs(*dice.pick(&[20, 90, 36_000])),
            forges: dice.chance(1, 4),
        }
    }

    /// One item, which is not reviewed, and no power cuts, which might take more than they should.
    pub(crate) fn of_one_item(seed: Seed) -> Setup {
        let mut setup = Setup::any(seed, &mut seed.dice());
        setup.items = vec![Given { priority: 0, after: vec![], linked: vec![], is_closed: false }];
        setup.rules =
            Rules { slots: 1, iterations: 1, review: Review::Off, most_items: 0, ..setup.rules };
        setup.forges = true;
        setup
    }

    pub(crate) fn manners(&self) -> Manners {
        if self.forges { Manners::Forging } else { Manners::Good }
    }

    pub(crate) fn durability(&self) -> Durability {
        match self.sync {
            Sync::Always | Sync::Iteration => Durability::Synced,
            Sync::Never => Durability::Cached,
        }
    }

    /// Puts the settings in place.
    pub(crate) fn plant(&self, disk: &SimDisk) {
        let Rules { slots, iterations, review, fixes, repairs, marker, takes_new, most_items } =
            self.rules;
        let sync = match self.sync {
            Sync::Always => "always",
            Sync::Iteration => "iteration",
            Sync::Never => "never",
        };
        let prompt = match review {
            Review::NoPrompt => "reviewerPromptPath = \"\"\n",
            Review::On | Review::Off => "",
        };
        let text = format!(
            "backend.command = \"agent\"\nbackend.kind = \"command\"\nbackend.timeout_ms = {}\n\
             backend.grace_ms = {}\njournal.sync = {sync:?}\n[slots]\nreviewEnabled = {}\n\
             reviewMaxFixAttempts = {fixes}\nreviewContractRepair = {repairs}\n\
             parallelAgents = {slots}\niterations = {iterations}\nstopMarker = {marker:?}\n\
             include_new = {takes_new}\nmax_items = {most_items}\n{prompt}",
            DEADLINE.as_millis(),
            GRACE.as_millis(),
            review != Review::Off,
        );
        disk.set_contents(CONFIG, text.as_bytes());
    }

    /// Fills the queue, as a person does before a run.
    pub(crate) fn fill(&self, world: &World) {
        let journal = FileJournal::new(JOURNAL, world, PATIENCE);
        let queue = Builtin::new(&journal, world, Durability::Synced, self.lasting);
        let name = |place: &usize| format!("t-{}", place + 1);
        for (place, item) in self.items.iter().enumerate() {
            let new = New {
                title: format!("item {place}"),
                priority: Priority::new(item.priority).unwrap_or_default(),
                after: item.after.iter().map(name).collect(),
                ..New::default()
            };
            assert_eq!(queue.add(&new).unwrap(), name(&place));
        }
        for (place, item) in self.items.iter().enumerate() {
            let id = name(&place);
            for after in item.linked.iter().map(name) {
                // Cycles are refused.
                let _ = queue.step(|tasks, now| tasks.link(&id, &after, now));
            }
            if item.is_closed {
                queue.step(|tasks, now| tasks.close_as(&id, "ann", "by hand", now)).unwrap();
            }
        }
    }
}
