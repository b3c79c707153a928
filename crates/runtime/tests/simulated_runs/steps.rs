//! Carrying out the steps of a generated chain.

use std::sync::{Mutex, PoisonError};

use autoloop_core::chain::{Budget, Chain, Definitions, StepDefinition};
use autoloop_core::layout::StateDir;
use autoloop_core::record::ChainStart;
use autoloop_core::run::Run;
use autoloop_runtime::drive::{
    ChainDrive, Drive, DriveError, Loops, Preparation, Ready, Steps, StepsOrder,
};
use autoloop_runtime::journal::{Durability, FileJournal};
use autoloop_runtime::process::Interrupts;
use autoloop_runtime::project::Project;
use autoloop_runtime::site::Site;
use autoloop_runtime::world::World;
use autoloop_testkit::{Seed, SimWorld};

use crate::agent::PATIENCE;
use crate::chain_request::{GHOST, Limits};
use crate::chained::Chained;
use crate::judge::Known;
use crate::setup::{JOURNAL, STATE, Setup, Sync};
use crate::witness::Witness;

/// Where runs are carried out.
pub(crate) struct Ground<'a> {
    world: &'a World,
    project: Project,
    pub(crate) journal: FileJournal,
    interrupts: &'a Interrupts,
    state_dir: StateDir,
    durability: Durability,
    /// The limits of chains that runs request, and the shared record of the chain in progress.
    limits: Option<Limits>,
    witness: &'a Mutex<Witness>,
    /// The runs of this harness are numbered with it.
    attempt: u64,
}

impl<'a> Ground<'a> {
    pub(crate) fn new(
        setup: &Setup,
        (world, interrupts): (&'a World, &'a Interrupts),
        witness: &'a Mutex<Witness>,
        attempt: u64,
    ) -> Ground<'a> {
        let durability = match setup.sync {
            Sync::Always | Sync::Iteration => Durability::Synced,
            Sync::Never => Durability::Cached,
        };
        Ground {
            world,
            project: Project { dir: "/p".into(), loop_dir: "/p".into(), ..Project::default() },
            journal: FileJournal::new(JOURNAL, world, PATIENCE),
            interrupts,
            state_dir: StateDir::new(STATE),
            durability,
            limits: setup.spawns,
            witness,
            attempt,
        }
    }

    fn site(&self) -> Site<'_> {
        Site {
            interrupts: self.interrupts.clone(),
            program: "/bin/autoloop".as_ref(),
            ..Site::new(self.world, &self.journal, &self.state_dir)
        }
    }

    /// Starts a run, or resumes it.
    pub(crate) fn run(&self, run: &str, known: Known, objective: &str) -> Result<Run, DriveError> {
        let (site, objective) = (self.site(), Some(objective.to_owned()));
        let loaded = self.project.load(&*self.world.disk)?;
        let (project, run) = (&self.project, &run.parse()?);
        let drive = match known {
            Known::New => Drive::begin(site, project, loaded, run, objective)?,
            Known::Begun | Known::Over => Drive::resume(site, project, loaded, run, objective)?,
        };
        match self.limits {
            Some(limits) => drive.with_loops(&WaveRequest { ground: self, limits }).run(),
            None => drive.run(),
        }
    }

    /// Starts a chain, or resumes it.
    pub(crate) fn chain(
        &self,
        chained: &Chained,
        (id, known): (&str, Known),
    ) -> Result<Chain, DriveError> {
        let (start, budget) = chained.begin();
        let objective = start.objective.clone().unwrap_or_default();
        let (site, run) = (self.site(), &id.parse()?);
        let drive = match known {
            Known::New => ChainDrive::begin(site, budget, self.durability, run, start)?,
            Known::Begun | Known::Over => {
                ChainDrive::resume(site, budget, self.durability, run, start)?
            }
        };
        drive.run(&mut Walk { ground: self, id: Some(id), objective, ready: String::new() })
    }
}

/// The loops that runs ask for: such as they are themselves.
struct WaveRequest<'a> {
    ground: &'a Ground<'a>,
    limits: Limits,
}

impl Loops for WaveRequest<'_> {
    fn definitions(&self) -> Result<Definitions, String> {
        Ok(self.limits.definitions())
    }

    fn unfit(&self, steps: &[StepDefinition]) -> Option<String> {
        steps.iter().any(|step| step.preset == GHOST).then(|| "there is no ghost".to_owned())
    }

    fn steps<'s>(
        &'s self,
        order: StepsOrder,
        _: &Site<'s>,
    ) -> Box<dyn Steps<Error = DriveError> + 's> {
        let objective = order.objective.unwrap_or_default();
        Box::new(Walk { ground: self.ground, id: None, objective, ready: String::new() })
    }
}

/// The steps of a chain, one after another.
struct Walk<'a> {
    ground: &'a Ground<'a>,
    /// The chain, unless a run requested it.
    id: Option<&'a str>,
    objective: String,
    ready: String,
}

impl Walk<'_> {
    /// A requested chain is the innermost when one of its steps starts.
    fn chain(&self) -> String {
        if let Some(id) = self.id {
            return id.to_owned();
        }
        let mut witness = self.ground.witness.lock().unwrap_or_else(PoisonError::into_inner);
        witness.look();
        witness.family.chain_under_way().expect("a chain is under way").to_owned()
    }
}

impl Steps for Walk<'_> {
    type Error = DriveError;

    fn prepare(&mut self, step: u64) -> Result<Preparation, DriveError> {
        self.ready = format!("{}-step-{step}-{}", self.chain(), self.ground.attempt);
        Ok(Preparation::Ready(Ready { run: self.ready.clone(), loop_dir: "/p".into() }))
    }

    fn begin(&mut self) -> Result<Run, DriveError> {
        self.ground.run(&self.ready, Known::New, &self.objective)
    }

    fn resume(&mut self, _: u64, run: &str) -> Result<Run, DriveError> {
        self.ground.run(run, Known::Begun, &self.objective)
    }
}

/// Starting a chain with an id that was granted to a run meanwhile would take the id from the run.
#[test]
fn a_chain_begins_once() {
    let world = SimWorld::new(Seed(0)).world();
    let journal = FileJournal::new(JOURNAL, &world, PATIENCE);
    let state_dir = StateDir::new(STATE);
    let id = "c".parse().unwrap();
    let begin = || {
        let site = Site::new(&world, &journal, &state_dir);
        let start = ChainStart::default();
        ChainDrive::begin(site, Budget::default(), Durability::Synced, &id, start)
    };
    assert!(begin().is_ok());
    let again = begin().err().expect("it was begun");
    assert_eq!(again.to_string(), "chain 'c' is being driven by another process");
}
