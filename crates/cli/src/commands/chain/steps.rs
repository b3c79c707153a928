//! The steps of a chain, each a run of its own.

use std::path::PathBuf;

use autoloop_core::chain::{Budget, StepDefinition, changed_files};
use autoloop_core::run::Run;
use autoloop_runtime::drive::{DriveError, Preparation, Ready, Steps};
use autoloop_runtime::process::Interrupts;
use autoloop_runtime::project::{Overrides, Project};
use autoloop_runtime::sandbox::Listing;
use autoloop_runtime::site::{Progress, Trust};
use autoloop_runtime::world::World;

use crate::commands::run::preflight::Preview;
use crate::commands::run::resolve_args::{Choice, named};
use crate::commands::run::{self, Errand, Old, drive_failure, project_for};
use crate::commands::settings;
use crate::failure::Failure;

/// What all steps of a chain have in common, and what tells them apart.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The project that they work in.
    pub(super) dir: PathBuf,
    /// What they are for.
    pub(super) objective: Option<String>,
    /// What the command line said.
    pub(super) overrides: Overrides,
    /// The steps.
    pub(super) steps: Vec<StepDefinition>,
    /// How far the chains may go that they ask for.
    pub(super) limits: Budget,
    /// Which records of earlier harnesses are believed.
    pub(super) trust: Trust,
}

impl Plan {
    /// The loop of a step, and how it is run.
    fn choice(&self, step: &StepDefinition) -> Result<Choice, Failure> {
        Ok(Choice {
            dir: self.dir.clone(),
            runs: named(&step.preset, &self.dir, &settings::surroundings()?)?,
            objective: self.objective.clone(),
        })
    }

    /// What the command line said comes before what the step says about its agent.
    fn overrides(&self, step: &StepDefinition) -> Overrides {
        let mut overrides = self.overrides.clone();
        if overrides.backend.is_none() {
            overrides.backend.clone_from(&step.backend);
            overrides.set.splice(0..0, step.settings.iter().cloned());
        }
        overrides
    }

    /// Finds out whether every step can begin, as far as that can be known before the first one does.
    pub(super) fn check(&self, world: &World) -> Result<(), Failure> {
        for (place, step) in self.steps.iter().enumerate() {
            self.check_step(step, world)
                .map_err(|failure| failure.hint(format!("this is step {}", place + 1)))?;
        }
        Ok(())
    }

    fn check_step(&self, step: &StepDefinition, world: &World) -> Result<(), Failure> {
        let choice = self.choice(step)?;
        let project = project_for(&choice, self.overrides(step))?;
        Preview::of(&choice, &project, world)?.require_agents(&project.dir, world)
    }

    /// Refuses steps that need an objective where there is none.
    pub(super) fn require_objective(&self, example: &str, world: &World) -> Result<(), Failure> {
        for step in &self.steps {
            let choice = self.choice(step)?;
            let project = project_for(&choice, self.overrides(step))?;
            Preview::of(&choice, &project, world)?
                .require_objective(&choice, &project, world)
                .map_err(|lack| lack.with_example(example))?;
        }
        Ok(())
    }

    /// The project as every step sees it: where things are kept.
    pub(super) fn project(&self) -> Result<Project, Failure> {
        let mut project = Project::before_preset(&self.dir, "");
        project.overrides = self.overrides.clone();
        project.surroundings = settings::surroundings()?;
        Ok(project)
    }
}

/// Carries out the steps of a plan.
pub(super) struct Runner<'a> {
    pub(super) plan: Plan,
    pub(super) world: &'a World,
    pub(super) interrupts: Interrupts,
    pub(super) tell: &'a (dyn Fn(Progress<'_>) + Sync),
    /// The step that was made ready.
    pub(super) ready: Option<Errand>,
    /// The project as it was before the last step.
    pub(super) traces: Option<Listing>,
}

impl Runner<'_> {
    fn step(&self, number: u64) -> Result<&StepDefinition, Failure> {
        let place = usize::try_from(number - 1).unwrap_or(usize::MAX);
        let step = self.plan.steps.get(place);
        step.ok_or_else(|| Failure::failed(format!("the chain has no step {number}")))
    }

    fn drive(&mut self, errand: &Errand) -> Result<Run, Failure> {
        let files = &errand.load(self.world)?.files;
        // What cannot be found out is not told.
        self.traces = Listing::of_files(&self.plan.dir, &files.state_dir).ok();
        run::drive(errand, (self.world, &self.interrupts), self.tell).map(|driven| driven.run)
    }
}

impl Steps for Runner<'_> {
    type Error = Failure;

    fn prepare(&mut self, step: u64) -> Result<Preparation, Failure> {
        let step = self.step(step)?;
        let choice = self.plan.choice(step)?;
        let mut errand = Errand::begin(choice, self.plan.overrides(step), self.world)?;
        errand.limits = Some(self.plan.limits);
        // A loop that cannot be used is told of before the step is on record.
        errand.load(self.world)?;
        let run = errand.run.id().to_string();
        let ready = Ready { run, loop_dir: errand.project.loop_dir.clone() };
        self.ready = Some(errand);
        Ok(Preparation::Ready(ready))
    }

    fn begin(&mut self) -> Result<Run, Failure> {
        match self.ready.take() {
            Some(errand) => self.drive(&errand),
            None => Err(Failure::bug()),
        }
    }

    fn resume(&mut self, step: u64, run: &str) -> Result<Run, Failure> {
        let overrides = self.plan.overrides(self.step(step)?);
        let old = Old { dir: self.plan.dir.clone(), run: run.to_owned() };
        let mut errand = Errand::resume(&old, overrides, (self.world, self.plan.trust))?;
        errand.limits = Some(self.plan.limits);
        self.drive(&errand)
    }

    fn files(&self) -> Option<String> {
        let files = self.traces.as_ref()?.changed_files().ok()?;
        changed_files(files.into_iter().map(|path| path.to_string_lossy().into_owned()))
    }
}

impl From<DriveError> for Failure {
    fn from(error: DriveError) -> Self {
        drive_failure(error)
    }
}
