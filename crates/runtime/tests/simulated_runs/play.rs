//! Plays a generated run with its faults.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use autoloop_core::chain::Chain;
use autoloop_core::layout::StateDir;
use autoloop_core::memory::{Places, Said};
use autoloop_core::record::{Heading, Object};
use autoloop_core::run::{Run, Runs, Stage};
use autoloop_core::topic::Topic;
use autoloop_core::wire_enum::Word;
use autoloop_runtime::drive::DriveError;
use autoloop_runtime::journal::{Append, FileJournal, Journal};
use autoloop_runtime::memory::MemoryFile;
use autoloop_runtime::process::Interrupts;
use autoloop_runtime::world::World;
use autoloop_testkit::{Dice, Op, Seed, SimDisk, SimWorld};

use crate::agent::{Agent, PATIENCE};
use crate::family::Summary;
use crate::fault_plan::{Fault, FaultPlan, Needs};
use crate::judge::{Author, Known};
use crate::rules::{RESERVED, one_of};
use crate::setup::{JOURNAL, OBJECTIVE, Redo, STATE, Setup, Sync};
use crate::steps::Ground;
use crate::story::Story;
use crate::witness::Witness;

/// More harnesses than any run needs.
const MOST_ATTEMPTS: u64 = 30;
/// The process id of another process.
const STRANGER: u32 = 8;

/// The result of a harness.
enum Driven {
    Run(Box<Run>),
    Chain(Box<Chain>),
}

/// The result of a run.
#[derive(Clone, Debug)]
pub(crate) struct Played {
    pub(crate) journal: Vec<u8>,
    pub(crate) summary: Summary,
    pub(crate) memory: Vec<Said>,
    /// Whether everything that was repeated ran under the same circumstances.
    pub(crate) redo: Redo,
    /// How often it crashed.
    pub(crate) cuts: u64,
    pub(crate) records: u64,
    pub(crate) needs: Needs,
}

/// A run in progress.
struct Play<'a> {
    setup: &'a Setup,
    fault_plan: FaultPlan,
    sim: SimWorld,
    witness: Arc<Mutex<Witness>>,
    agents: Arc<AtomicU64>,
    cuts: u64,
}

/// Plays a run to its end.
pub(crate) fn play(setup: &Setup, fault_plan: &FaultPlan) -> Played {
    let sim = SimWorld::new(setup.seed);
    let witness = Arc::new(Mutex::new(Witness::new(setup, &sim.disk)));
    let (fault_plan, agents) = (fault_plan.clone(), Arc::default());
    let mut play = Play { setup, fault_plan, sim, witness, agents, cuts: 0 };
    let mut faults = play.fault_plan.faults.clone().into_iter();
    for attempt in 0..MOST_ATTEMPTS {
        if play.attempt(attempt, faults.next().as_ref()) {
            play.retry();
            return play.come_to();
        }
    }
    panic!("it never ends");
}

impl Play<'_> {
    fn witness(&self) -> MutexGuard<'_, Witness> {
        self.witness.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets one harness run, and returns whether the run has ended.
    fn attempt(&mut self, attempt: u64, fault: Option<&Fault>) -> bool {
        if self.witness().family.stage() == Known::New {
            self.witness().watch(format!("swift-agent-{attempt}"));
        }
        let interrupts = Interrupts::default();
        self.set_the_stage(fault, &interrupts);
        let driven = self.drive(&interrupts, attempt);
        self.witness().look();
        match driven {
            // Its end was recorded before the machine crashed.
            Ok(None) => true,
            Ok(Some(driven)) => {
                self.check(&driven);
                let is_over = self.witness().family.stage() == Known::Over;
                if !is_over {
                    let disk = self.sim.disk.reopen();
                    self.go_on_with(disk);
                }
                is_over
            }
            Err(DriveError::Load(_)) if self.sim.disk.is_alive() && fault.is_none_or(is_quiet) => {
                self.witness().mend_files();
                false
            }
            Err(error) => {
                let is_alive = self.sim.disk.is_alive();
                let is_excused = matches!(fault, Some(Fault::Full(_) | Fault::Failing(_)));
                assert!(!is_alive || is_excused, "{error:?}");
                self.cuts += 1;
                // After a power cut it is unknown what was forged.
                let may_lose = !is_alive && !self.setup.forges;
                let disk = match may_lose && self.fault_plan.dice.chance(1, 2) {
                    true => self.cut_power(),
                    false => self.sim.disk.reopen(),
                };
                self.go_on_with(disk);
                false
            }
        }
    }

    /// Resumes a run that failed. It fails again, because its agent does what it did.
    fn retry(&mut self) {
        let ending = self.witness().family.head().and_then(|head| head.story.ending.clone());
        let has_failed = ending.is_some_and(|ending| ending.starts_with("loop.stop backend_"));
        if !has_failed || self.fault_plan.faults.is_empty() {
            return;
        }
        let disk = self.sim.disk.reopen();
        self.go_on_with(disk);
        let interrupts = Interrupts::default();
        self.set_the_stage(None, &interrupts);
        let world = self.sim.world();
        let ground = Ground::new(self.setup, (&world, &interrupts), MOST_ATTEMPTS);
        let root = self.witness().run.clone();
        let mut resumed = ground.run(&root, Known::Begun, OBJECTIVE);
        if matches!(resumed, Err(DriveError::Load(_))) {
            self.witness().mend_files();
            resumed = ground.run(&root, Known::Begun, OBJECTIVE);
        }
        self.witness().look();
        self.check(&Driven::Run(Box::new(resumed.unwrap())));
    }

    fn cut_power(&mut self) -> SimDisk {
        if self.setup.sync == Sync::Never && self.setup.edits {
            // The repetition sees files that were edited later.
            self.witness().redo = Redo::Differs;
        }
        self.sim.disk.crash(&mut self.fault_plan.dice)
    }

    fn go_on_with(&mut self, disk: SimDisk) {
        self.witness().resumes_with(&disk);
        self.sim.disk = disk;
    }

    /// Installs the faults, the witness and the other processes.
    fn set_the_stage(&mut self, fault: Option<&Fault>, interrupts: &Interrupts) {
        self.sim.disk.set_faults(self.fault_plan.faults(fault));
        let (witness, clock) = (Arc::downgrade(&self.witness), self.sim.clock.clone());
        let setup = self.setup.clone();
        let mut strangers = self.fault_plan.strangers.clone();
        if let Some(dice) = &mut self.fault_plan.strangers {
            *dice = dice.fork();
        }
        self.sim.disk.interleave(move |op, disk| {
            // The disk must not keep the witness alive, which holds the disk.
            let Some(witness) = witness.upgrade() else { return };
            let witness = || witness.lock().unwrap_or_else(PoisonError::into_inner);
            witness().look();
            let Some(dice) = &mut strangers else { return };
            if matches!(op, Op::Open | Op::Lock) && dice.chance(1, 25) {
                let before = witness().now_writes(Author::Stranger);
                let run = match dice.chance(1, 2) {
                    true => witness().run.clone(),
                    false => witness().family.last.clone(),
                };
                let world = World {
                    disk: Arc::new(disk.as_process(STRANGER)),
                    clock: Arc::new(clock.clone()),
                    ..SimWorld::new(Seed(0)).world()
                };
                Stranger { setup: &setup, world, run: &run }.interfere(dice);
                witness().now_writes(before);
            }
        });

        let (stage, setup, witness) =
            (self.sim.clone(), self.setup.clone(), Arc::clone(&self.witness));
        let (agents, interrupts) = (Arc::clone(&self.agents), interrupts.clone());
        let since = agents.load(Ordering::Relaxed);
        let interrupted = match fault {
            Some(Fault::Interrupt(agent)) => Some(since + agent - 1),
            _ => None,
        };
        self.sim = self.sim.clone().with_script(move |job| {
            if Some(agents.fetch_add(1, Ordering::Relaxed)) == interrupted {
                interrupts.raise(2);
            }
            Agent::new(&setup, &witness, &stage, job).act()
        });
    }

    /// Drives the run or the chain, new or resumed, unless it has ended.
    fn drive(&self, interrupts: &Interrupts, attempt: u64) -> Result<Option<Driven>, DriveError> {
        let world = self.sim.world();
        let ground = Ground::new(self.setup, (&world, interrupts), attempt);
        ground.journal.append(&[], Append::default())?;
        self.witness().look();
        let (root, known) = {
            let witness = self.witness();
            (witness.run.clone(), witness.family.stage())
        };
        Ok(match (&self.setup.chain, known) {
            (_, Known::Over) => None,
            (None, _) => Some(Driven::Run(Box::new(ground.run(&root, known, OBJECTIVE)?))),
            (Some(chained), _) => {
                Some(Driven::Chain(Box::new(ground.chain(chained, (&root, known))?)))
            }
        })
    }

    /// The final state of the harness is what the journal says, and all of it is durable.
    fn check(&self, driven: &Driven) {
        let mut witness = self.witness();
        if self.setup.sync != Sync::Never {
            witness.acknowledge();
        }
        match driven {
            Driven::Run(run) => check_run(run, &witness.family.head().unwrap().story),
            Driven::Chain(chain) => {
                assert_eq!(
                    chain.outcome.as_ref().map(Word::as_str),
                    witness.family.chain_outcome()
                );
            }
        }
    }

    fn come_to(self) -> Played {
        self.sim.disk.set_faults(autoloop_testkit::Faults::none());
        self.sim.disk.interleave(|_, _| {});
        let world = self.sim.world();
        let witness = self.witness();
        if !self.setup.forges {
            let runs = FileJournal::new(JOURNAL, &world, PATIENCE).fold::<Runs>().unwrap().view;
            for (run, story) in witness.family.stories() {
                check_run(runs.get(run).unwrap().as_loop().unwrap(), story);
            }
        }
        let calls = self.sim.disk.calls();
        let bytes = self.sim.disk.bytes_appended();
        Played {
            journal: self.sim.disk.contents(JOURNAL),
            summary: witness.family.summary(),
            memory: memory(&world, &witness.run),
            redo: if witness.family.was_favoured() { Redo::Differs } else { witness.redo },
            cuts: self.cuts,
            records: witness.records,
            needs: Needs { calls, bytes, agents: self.agents.load(Ordering::Relaxed) },
        }
    }
}

fn is_quiet(fault: &Fault) -> bool {
    !matches!(fault, Fault::Failing(_))
}

fn check_run(run: &Run, story: &Story) {
    assert!(matches!(run.stage, Stage::Ended(_)), "{run:?}");
    assert_eq!(run.done, story.done.len() as u64);
    assert_eq!(run.recent_event, story.recent);
    assert_eq!(run.seen, story.seen.iter().cloned().collect::<BTreeSet<_>>());
}

fn memory(world: &World, run: &str) -> Vec<Said> {
    let path = Places::of_run(&StateDir::new(STATE), run).run.unwrap();
    let memory = MemoryFile::new(path, world, PATIENCE).read().unwrap();
    memory.live().into_iter().map(|entry| entry.said.clone()).collect()
}

/// A process that is no part of the run but knows it.
struct Stranger<'a> {
    setup: &'a Setup,
    world: World,
    run: &'a str,
}

impl Stranger<'_> {
    /// Writes a correct record to the journal. It must not affect the run.
    fn interfere(&self, dice: &mut Dice) {
        let heading = |run: &str| Heading {
            run: run.into(),
            iteration: "1".into(),
            now: self.world.clock.now(),
        };
        let record = match dice.below(if self.setup.forges { 6 } else { 3 }) {
            0 => heading(self.run).agent(Topic::new("issue.discovered"), "id=1;"),
            1 => heading("other").agent(Topic::new("task.complete"), ""),
            2 => heading("other").system("loop.complete", Object::new()),
            _ => heading(self.run).system(one_of(dice, &RESERVED), Object::new()),
        };
        let journal = FileJournal::new(JOURNAL, &self.world, PATIENCE);
        // The lock may be held, the disk full, the machine crashed.
        let _ = journal.append(&[record.into()], Append::default());
    }
}
