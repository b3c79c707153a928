//! Carrying out the steps of a generated chain.

use autoloop_core::chain::Chain;
use autoloop_core::run::Run;
use autoloop_core::run_id::RunId;
use autoloop_runtime::drive::{
    Bounds, ChainDrive, ChainScene, Drive, DriveError, Preparation, Ready, Scene, Steps, Threads,
};
use autoloop_runtime::journal::{Durability, FileJournal};
use autoloop_runtime::process::Interrupts;
use autoloop_runtime::project::Project;
use autoloop_runtime::world::World;

use crate::agent::PATIENCE;
use crate::chained::Chained;
use crate::judge::Known;
use crate::setup::{JOURNAL, STATE};

/// Where runs are carried out.
pub(crate) struct Ground<'a> {
    world: &'a World,
    project: Project,
    pub(crate) journal: FileJournal,
    interrupts: &'a Interrupts,
    durability: Durability,
}

impl<'a> Ground<'a> {
    pub(crate) fn new(
        world: &'a World,
        interrupts: &'a Interrupts,
        durability: Durability,
    ) -> Ground<'a> {
        Ground {
            world,
            project: Project { dir: "/p".into(), loop_dir: "/p".into(), ..Project::default() },
            journal: FileJournal::new(JOURNAL, world, PATIENCE),
            interrupts,
            durability,
        }
    }

    /// Begins a run, or takes one up again.
    pub(crate) fn run(&self, run: &str, known: Known) -> Result<Run, DriveError> {
        let mut silent = |_: autoloop_runtime::drive::Progress<'_>| {};
        let scene = Scene {
            world: self.world,
            project: &self.project,
            journal: &self.journal,
            interrupts: self.interrupts,
            program: "/bin/autoloop".into(),
            bounds: Bounds::Unenforced,
            threads: Threads::One,
            tell: &mut silent,
        };
        match known {
            Known::New => Drive::begin(scene, &RunId::new(run), Some("build it".to_owned()))?.run(),
            Known::Begun | Known::Over => Drive::resume(scene, run)?.run(),
        }
    }

    /// Begins a chain, or takes one up again. The runs of this harness are numbered with `attempt`.
    pub(crate) fn chain(
        &self,
        chained: &Chained,
        (id, known): (&str, Known),
        attempt: u64,
    ) -> Result<Chain, DriveError> {
        let (start, budget) = chained.begin();
        let scene = ChainScene {
            world: self.world,
            journal: &self.journal,
            state_dir: STATE.as_ref(),
            budget,
            durability: self.durability,
        };
        let drive = match known {
            Known::New => ChainDrive::begin(scene, &RunId::new(id), start)?,
            Known::Begun | Known::Over => ChainDrive::resume(scene, id)?,
        };
        drive.run(&mut Walk { ground: self, id, attempt, ready: String::new() })
    }
}

/// The steps of a chain, one after another.
struct Walk<'a> {
    ground: &'a Ground<'a>,
    id: &'a str,
    attempt: u64,
    ready: String,
}

impl Steps for Walk<'_> {
    type Error = DriveError;

    fn prepare(&mut self, step: u64) -> Result<Preparation, DriveError> {
        self.ready = format!("{}-step-{step}-{}", self.id, self.attempt);
        Ok(Preparation::Ready(Ready { run: self.ready.clone(), loop_dir: "/p".into() }))
    }

    fn begin(&mut self) -> Result<Run, DriveError> {
        self.ground.run(&self.ready, Known::New)
    }

    fn resume(&mut self, _: u64, run: &str) -> Result<Run, DriveError> {
        self.ground.run(run, Known::Begun)
    }
}
