//! Plays a generated run of slots with its faults.

use autoloop_core::layout::StateDir;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use autoloop_runtime::drive::DriveError;
use autoloop_runtime::journal::FileJournal;
use autoloop_runtime::launch::LaunchError;
use autoloop_runtime::process::Interrupts;
use autoloop_runtime::runs::slot_runs;
use autoloop_runtime::site::Site;
use autoloop_runtime::world::World;
use autoloop_testkit::{Dice, Faults, Op, Seed, SimDisk, SimWorld};

use super::agent::lock;
use super::others::interfere;
use super::setup::{FIRST, SECOND, Setup};
use super::stage::{Cues, Second, Stage, check};
use super::witness::Witness;
use crate::agent::PATIENCE;
use crate::fault_plan::{Fault, FaultPlan, Needs, failing};
use crate::setup::{JOURNAL, Redo, STATE};
use crate::terms::Author;

/// More harnesses than any run needs.
const MOST_ATTEMPTS: u64 = 30;
/// The process id of another process.
const STRANGER: u32 = 8;

/// All faults of a run.
#[derive(Clone, Debug)]
pub(crate) struct SlotFaults {
    pub(crate) fault_plan: FaultPlan,
    /// A second run starts while this agent of the first one is running.
    pub(crate) second: Option<Second>,
    /// The program of this agent of the first harness is missing.
    pub(crate) missing: Option<u64>,
}

impl SlotFaults {
    pub(crate) fn none(setup: &Setup) -> SlotFaults {
        SlotFaults { fault_plan: FaultPlan::none(setup.seed), second: None, missing: None }
    }

    pub(crate) fn any(dice: &mut Dice, setup: &Setup, needs: &Needs) -> SlotFaults {
        let second = Second { at: 1 + dice.below(needs.agents.min(5)), stops_at: dice.below(9) };
        let second = dice.chance(1, 3).then_some(second);
        let mut fault_plan = FaultPlan::any(dice, setup.manners(), needs);
        if dice.chance(1, 4) {
            // Early faults hit the harness that resumes a run.
            let early = (0..4).map(|_| failing(dice, |_| 40)).collect();
            fault_plan.faults.push(Fault::Failing(early));
        }
        let missing = dice.chance(1, 3).then(|| 1 + dice.below(needs.agents.max(1)));
        SlotFaults { fault_plan, second, missing }
    }
}

/// The result of a run.
#[derive(Clone, Debug)]
pub(crate) struct Played {
    pub(crate) journal: Vec<u8>,
    pub(crate) summary: Summary,
    pub(crate) redo: Redo,
    pub(crate) cuts: u64,
    /// How often it stopped for lack of a program.
    pub(crate) without_agent: u64,
    pub(crate) records: u64,
    pub(crate) has_second: bool,
    pub(crate) resumed: u64,
    pub(crate) lost: u64,
    pub(crate) needs: Needs,
}

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    /// The slots that had an item.
    pub(crate) slots: Vec<SlotOutcome>,
    pub(crate) finish: (String, u64, u64),
    /// The items, and whether they are closed.
    items: Vec<(String, bool)>,
}

/// The outcome of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlotOutcome {
    place: (u64, u64),
    item: String,
    pub(crate) outcome: String,
    reviews: Vec<(u64, &'static str)>,
    fixes: usize,
}

struct Play {
    stage: Stage,
    slot_faults: SlotFaults,
    cuts: u64,
    without_agent: u64,
}

/// Plays a run to its end, and the second one, if there is one.
pub(crate) fn play(setup: &Setup, slot_faults: &SlotFaults) -> Played {
    let sim = SimWorld::new(setup.seed);
    setup.plant(&sim.disk);
    let mut witness = Witness::new(setup, &sim.disk);
    witness.now_writes(Author::Stranger);
    setup.fill(&sim.world());
    witness.now_writes(Author::Harness);
    let witness = Arc::new(Mutex::new(witness));
    let stage = Stage { setup: setup.clone(), sim, witness, agents: Arc::default() };
    let mut play = Play { stage, slot_faults: slot_faults.clone(), cuts: 0, without_agent: 0 };
    let mut faults = slot_faults.fault_plan.faults.clone().into_iter();
    for attempt in 0..MOST_ATTEMPTS {
        if play.attempt(attempt, faults.next().as_ref()) {
            return play.come_to();
        }
    }
    panic!("it never ends");
}

impl Play {
    /// Lets one harness run, and returns whether everything has ended.
    fn attempt(&mut self, attempt: u64, fault: Option<&Fault>) -> bool {
        let Some(side) = self.stage.under_way() else { return true };
        let interrupts = Interrupts::default();
        self.set_the_stage(fault);
        let cues = Cues {
            interrupted: match fault {
                Some(Fault::Interrupt(agent)) => Some(*agent),
                _ => None,
            },
            second: self.slot_faults.second.filter(|_| side == FIRST),
            missing: self.slot_faults.missing.filter(|_| attempt == 0),
        };
        let driven = self.stage.drive((side, attempt), cues, &interrupts);
        lock(&self.stage.witness).look();
        let is_alive = self.stage.sim.disk.is_alive();
        let disk = match driven {
            Ok(slots) if !slots.status().is_unfinished() && is_alive => {
                return self.stage.is_over();
            }
            Ok(_) => self.stage.sim.disk.reopen(),
            Err(error) => {
                let is_missing = matches!(error, DriveError::Launch(LaunchError::NoAgent { .. }));
                let is_excused = matches!(fault, Some(Fault::Full(_) | Fault::Failing(_)));
                assert!(!is_alive || is_excused || is_missing, "{error:?}");
                self.cuts += u64::from(!is_missing);
                self.without_agent += u64::from(is_missing);
                // After a power cut it is unknown what was forged.
                let may_lose = !is_alive && !self.stage.setup.forges;
                match may_lose && self.slot_faults.fault_plan.dice.chance(1, 2) {
                    true => self.stage.sim.disk.crash(&mut self.slot_faults.fault_plan.dice),
                    false => self.stage.sim.disk.reopen(),
                }
            }
        };
        lock(&self.stage.witness).resumes_with(&disk);
        self.stage.sim.disk = disk;
        // No run starts again at the same moment.
        self.stage.sim.clock.advance(Duration::from_millis(1));
        false
    }

    /// Installs the faults, the witness and the other processes.
    fn set_the_stage(&mut self, fault: Option<&Fault>) {
        let fault_plan = &mut self.slot_faults.fault_plan;
        let disk = &self.stage.sim.disk;
        disk.set_faults(fault_plan.faults(fault));
        let mut strangers = fault_plan.strangers.clone();
        if let Some(dice) = &mut fault_plan.strangers {
            *dice = dice.fork();
        }
        let (setup, clock) = (self.stage.setup.clone(), self.stage.sim.clock.clone());
        // The disk must not keep the witness alive, which holds the disk.
        let witness = Arc::downgrade(&self.stage.witness);
        disk.interleave(move |op, disk: &SimDisk| {
            let Some(witness) = witness.upgrade() else { return };
            lock(&witness).look();
            let Some(dice) = &mut strangers else { return };
            if matches!(op, Op::Open | Op::Lock) && dice.chance(1, 20) {
                let before = lock(&witness).now_writes(Author::Stranger);
                let run = lock(&witness).judge.of(FIRST).map(|(run, _)| run.clone());
                let world = World {
                    disk: Arc::new(disk.as_process(STRANGER)),
                    clock: Arc::new(clock.clone()),
                    ..SimWorld::new(Seed(0)).world()
                };
                interfere(&setup, (&run.unwrap_or_default(), &world), dice);
                lock(&witness).now_writes(before);
            }
        });
    }

    fn come_to(self) -> Played {
        let Stage { setup, sim, witness, agents } = self.stage;
        sim.disk.set_faults(Faults::none());
        sim.disk.interleave(|_, _| {});
        let witness = lock(&witness);
        let judge = &witness.judge;
        if !setup.forges {
            let journal = FileJournal::new(JOURNAL, &sim.world(), PATIENCE);
            let (world, state_dir) = (sim.world(), StateDir::new(STATE));
            for run in slot_runs(&Site::new(&world, &journal, &state_dir)).unwrap() {
                check(&run, &judge.runs[&run.id]);
            }
        }
        let (_, first) = judge.of(FIRST).expect("it has begun");
        let slots = first.slot_models.iter().filter(|slot_model| !slot_model.item.is_empty()).map(
            |slot_model| SlotOutcome {
                place: (slot_model.iteration, slot_model.slot),
                item: slot_model.item.clone(),
                outcome: slot_model.outcome.clone().unwrap_or_default(),
                reviews: slot_model.reviews.clone(),
                fixes: slot_model.fixes.len(),
            },
        );
        let items = judge.queue.iter().map(|item| (item.title.clone(), item.closed_by.is_some()));
        let has_second = judge.of(SECOND).is_some();
        let is_same =
            !has_second && !first.was_halved && self.slot_faults.fault_plan.strangers.is_none();
        Played {
            journal: sim.disk.contents(JOURNAL),
            summary: Summary {
                slots: slots.collect(),
                finish: first.finish.clone().unwrap(),
                items: items.collect(),
            },
            redo: if is_same { Redo::Same } else { Redo::Differs },
            cuts: self.cuts,
            without_agent: self.without_agent,
            records: witness.records,
            has_second,
            resumed: judge.runs.values().map(|run_model| run_model.resumed).sum(),
            lost: judge.runs.values().map(|run_model| run_model.lost).sum(),
            needs: Needs {
                calls: sim.disk.calls(),
                bytes: sim.disk.bytes_appended(),
                agents: agents.load(Ordering::Relaxed),
            },
        }
    }
}
