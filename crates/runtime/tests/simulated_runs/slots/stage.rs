//! A run of slots in progress: its harness, its agents, and a second run beside it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use autoloop_core::coordinator::Kind;
use autoloop_core::layout::StateDir;
use autoloop_core::slot::{Slots, Tally};
use autoloop_runtime::drive::{DriveError, SlotsDriver};
use autoloop_runtime::journal::{Append, Durability, FileJournal, Journal};
use autoloop_runtime::launch::{Launch, Opening};
use autoloop_runtime::process::Interrupts;
use autoloop_runtime::project::Project;
use autoloop_runtime::queue::Builtin;
use autoloop_runtime::runs;
use autoloop_runtime::site::Site;
use autoloop_runtime::world::Job;
use autoloop_testkit::{Script, SimWorld};

use super::agent::{Agent, lock, turn};
use super::run_model::RunModel;
use super::setup::{FIRST, SECOND, Setup};
use super::witness::Witness;
use crate::agent::PATIENCE;
use crate::setup::{JOURNAL, STATE};
use crate::terms::{Author, Known};

/// The harness of a second run, as a process.
const OTHER_HARNESS: u32 = 9;

/// A second run over the same queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Second {
    /// The agent of the first run.
    pub(crate) at: u64,
    /// The own agent at which a person interrupts it.
    pub(crate) stops_at: u64,
}

/// A run on its way, and all that its agents need to know.
#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) setup: Setup,
    pub(crate) sim: SimWorld,
    pub(crate) witness: Arc<Mutex<Witness>>,
    pub(crate) agents: Arc<AtomicU64>,
}

/// When something happens to a harness, by the number of its agent.
#[derive(Clone, Default)]
pub(crate) struct Cues {
    pub(crate) interrupted: Option<u64>,
    /// The agent whose program is missing.
    pub(crate) missing: Option<u64>,
    pub(crate) second: Option<Second>,
}

impl Stage {
    /// The side whose run is to be started or resumed.
    pub(crate) fn under_way(&self) -> Option<&'static str> {
        let judge = &lock(&self.witness).judge;
        if judge.stage(FIRST) != Known::Over {
            return Some(FIRST);
        }
        (judge.stage(SECOND) == Known::Begun).then_some(SECOND)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.under_way().is_none()
    }

    /// Starts the run of a side, or resumes it.
    pub(crate) fn drive(
        &self,
        (side, attempt): (&'static str, u64),
        cues: Cues,
        interrupts: &Interrupts,
    ) -> Result<Slots, DriveError> {
        let (stage, stopping) = (self.clone(), interrupts.clone());
        let own = AtomicU64::new(0);
        let sim = self.sim.clone().with_script(move |job| {
            let number = own.fetch_add(1, Ordering::Relaxed) + 1;
            stage.perform(job, number, (&cues, &stopping))
        });
        let world = sim.world();
        let journal = FileJournal::new(JOURNAL, &world, PATIENCE);
        journal.append(&[], Append::default())?;
        // As the program has it: a record of the run follows every claim and brings it to the disk.
        let queue = Builtin::new(&journal, &world, Durability::Cached, self.setup.lasting);
        let project = Project { dir: "/p".into(), loop_dir: "/p".into(), ..Project::default() };
        let loaded = project.load(&*world.disk)?;
        let state_dir = StateDir::new(STATE);
        let site = Site {
            interrupts: interrupts.clone(),
            program: "/bin/autoloop".as_ref(),
            ..Site::new(&world, &journal, &state_dir)
        };
        let (begun, known) = {
            let mut witness = lock(&self.witness);
            witness.look();
            let begun = witness.judge.of(side).map(|(run, _)| run.clone());
            (begun, witness.judge.stage(side))
        };
        if let (Some(run), Known::Over) = (&begun, known) {
            // The line that was ended above was the last record of the run.
            return Ok(runs::state(&site, run)?.expect("it began"));
        }
        let (run, opening) = match begun {
            None => (format!("{side}{attempt}"), Opening::Begin),
            Some(run) => (run, Opening::Resume),
        };
        let launch = Launch::new(Kind::Slots, run.parse()?, opening, project, loaded);
        let slots = SlotsDriver::open(site, &launch, &queue, &[])?.run()?;
        let mut witness = lock(&self.witness);
        witness.look();
        if !slots.status().is_unfinished() && sim.disk.is_alive() {
            check(&slots, &witness.judge.runs[&slots.id]);
        }
        Ok(slots)
    }

    /// What becomes of an agent.
    fn perform(&self, job: &Job, number: u64, (cues, stopping): (&Cues, &Interrupts)) -> Script {
        self.agents.fetch_add(1, Ordering::Relaxed);
        let turn = lock(&self.witness).agent_starts(turn(job));
        if cues.missing == Some(number) {
            let mut witness = lock(&self.witness);
            witness.has_no_program(&turn);
            witness.now_writes(Author::Harness);
            return Script::has_no_program();
        }
        if let Some(second) = cues.second.filter(|second| second.at == number) {
            self.second(second);
        }
        let script = if cues.interrupted == Some(number) {
            stopping.raise(2);
            // It may have ended before it got the request.
            number.is_multiple_of(2).then(|| {
                lock(&self.witness).stops(&turn);
                Script::is_stopped()
            })
        } else {
            None
        };
        let script = script.unwrap_or_else(|| self.setup.end(&turn).script);
        Agent::new(&self.setup, turn, &self.sim).work();
        lock(&self.witness).now_writes(Author::Harness);
        script
    }

    /// Another run is started or resumed, and carried out meanwhile.
    fn second(&self, second: Second) {
        if lock(&self.witness).judge.stage(SECOND) == Known::Over {
            return;
        }
        let disk = self.sim.disk.as_process(OTHER_HARNESS);
        let stage = Stage { sim: SimWorld { disk, ..self.sim.clone() }, ..self.clone() };
        lock(&self.witness).now_writes(Author::Harness);
        let cues = Cues { interrupted: Some(second.stops_at), ..Cues::default() };
        let attempt = self.agents.load(Ordering::Relaxed);
        // Whatever its outcome, it is resumed when the first one has ended.
        let _ = stage.drive((SECOND, attempt), cues, &Interrupts::default());
        lock(&self.witness).loses(SECOND);
        lock(&self.witness).now_writes(Author::Agent);
    }
}

/// The final state of a harness is what was judged.
pub(crate) fn check(slots: &Slots, run_model: &RunModel) {
    let (reason, taken, passed) = run_model.finish.clone().expect("it has ended");
    let finish = slots.finish.as_ref().expect("it says so");
    assert_eq!((finish.reason.to_string(), finish.taken, finish.passed), (reason, taken, passed));
    assert_eq!(Tally::of(slots), Tally { taken, passed });
    assert_eq!(Tally::of(slots).is_success(), taken == passed);
    assert_eq!(slots.slots.len(), run_model.slot_models.len());
    for (slot, slot_model) in slots.slots.iter().zip(&run_model.slot_models) {
        let outcome = slot.finish.as_ref().map(|finish| finish.outcome.to_string());
        assert_eq!((&slot.start.item_id, outcome), (&slot_model.item, slot_model.outcome.clone()));
        assert_eq!(
            (slot.reviews.len(), slot.fixes.len()),
            (slot_model.reviews.len(), slot_model.fixes.len())
        );
    }
}
