//! Carrying out the steps of a generated chain.

use autoloop_core::chain::{Budget, Chain, Definitions, StepDefinition};
use autoloop_core::coordinator::Kind;
use autoloop_core::layout::StateDir;
use autoloop_core::record::ChainStart;
use autoloop_core::run::Run;
use autoloop_runtime::drive::{ChainDriver, DriveError, LoopDriver};
use autoloop_runtime::journal::FileJournal;
use autoloop_runtime::launch::{
    ChainLaunch, ChainStep, Launch, LaunchError, Opening, StepLauncher,
};
use autoloop_runtime::process::Interrupts;
use autoloop_runtime::project::{LoadError, Project};
use autoloop_runtime::site::Site;
use autoloop_runtime::world::World;
use autoloop_testkit::{Seed, SimWorld};

use crate::agent::PATIENCE;
use crate::chain_request::{GHOST, Limits};
use crate::chained::Chained;
use crate::judge::Known;
use crate::setup::{CONFIG, JOURNAL, STATE, Setup};

/// Where runs are carried out.
pub(crate) struct Ground<'a> {
    world: &'a World,
    project: Project,
    pub(crate) journal: FileJournal,
    interrupts: &'a Interrupts,
    state_dir: StateDir,
    /// The limits of chains that runs request.
    limits: Option<Limits>,
    /// The runs of this harness are numbered with it.
    attempt: u64,
}

impl<'a> Ground<'a> {
    pub(crate) fn new(
        setup: &Setup,
        (world, interrupts): (&'a World, &'a Interrupts),
        attempt: u64,
    ) -> Ground<'a> {
        Ground {
            world,
            project: Project { dir: "/p".into(), loop_dir: "/p".into(), ..Project::default() },
            journal: FileJournal::new(JOURNAL, world, PATIENCE),
            interrupts,
            state_dir: StateDir::new(STATE),
            limits: setup.spawns,
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
        let launch = self.launch(Kind::Loop, run, opening(known), Some(objective))?;
        let launcher: Option<&dyn StepLauncher> = self.limits.as_ref().map(|_| self as _);
        LoopDriver::open(self.site(), &launch, launcher)?.run()
    }

    fn launch(
        &self,
        kind: Kind,
        id: &str,
        opening: Opening,
        objective: Option<&str>,
    ) -> Result<Launch, DriveError> {
        let loaded = self.project.load(&*self.world.disk)?;
        let launch = Launch::new(kind, id.parse()?, opening, self.project.clone(), loaded);
        Ok(Launch { objective: objective.map(str::to_owned), ..launch })
    }

    /// Starts a chain, or resumes it.
    pub(crate) fn chain(
        &self,
        chained: &Chained,
        (id, known): (&str, Known),
    ) -> Result<Chain, DriveError> {
        let (start, budget) = chained.begin();
        let step =
            |preset: &&str| StepDefinition { preset: (*preset).into(), ..Default::default() };
        let steps = chained.steps().iter().map(step).collect();
        let launch = self.launch(Kind::Chain, id, opening(known), None)?;
        let chain = ChainLaunch { launch, start, steps };
        ChainDriver::open(self.site(), &chain, self, budget)?.run()
    }
}

fn opening(known: Known) -> Opening {
    if known == Known::New { Opening::Begin } else { Opening::Resume }
}

/// The steps of chains: runs of the same loop, whose ids name the chain and the step.
impl StepLauncher for Ground<'_> {
    fn definitions(&self, _: &Project) -> Result<Definitions, LoadError> {
        let off = Budget { max_children: 0, ..Budget::default() };
        let off = Definitions { budget: off, ..Definitions::default() };
        Ok(self.limits.map_or(off, Limits::definitions))
    }

    fn check(&self, _: &Project, steps: &[StepDefinition]) -> Result<(), DriveError> {
        match steps.iter().any(|step| step.preset == GHOST) {
            true => Err(LaunchError::NoLoop(GHOST.to_owned()).into()),
            false => Ok(()),
        }
    }

    fn begin(&self, step: ChainStep<'_>) -> Result<Launch, DriveError> {
        let id = format!("{}-step-{}-{}", step.chain, step.number, self.attempt);
        self.launch(Kind::Loop, &id, Opening::Begin, step.objective)
    }

    fn resume(&self, step: ChainStep<'_>, run: &str) -> Result<Launch, DriveError> {
        self.launch(Kind::Loop, run, Opening::Resume, step.objective)
    }
}

/// Starting a chain with an id that was granted to a run meanwhile would take the id from the run.
#[test]
fn a_chain_begins_once() {
    let sim = SimWorld::new(Seed(0));
    sim.disk.set_contents(CONFIG, b"");
    let (world, interrupts) = (sim.world(), Interrupts::default());
    let mut dice = Seed(0).dice();
    let ground = Ground::new(&Setup::any(Seed(0), &mut dice), (&world, &interrupts), 0);
    let launch = ground.launch(Kind::Chain, "c", Opening::Begin, None).unwrap();
    let chain = ChainLaunch { launch, start: ChainStart::default(), steps: Vec::new() };
    let begin = || ChainDriver::open(ground.site(), &chain, &ground, Budget::default());
    assert!(begin().is_ok());
    let again = begin().err().expect("it was begun");
    assert_eq!(again.to_string(), "chain 'c' is running in another process");
}
