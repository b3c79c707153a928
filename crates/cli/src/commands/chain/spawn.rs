//! The chains that a run asks for while it goes on.

use std::path::{Path, PathBuf};

use autoloop_core::chain::{Budget, Definitions, StepDefinition};
use autoloop_core::run::Run;
use autoloop_runtime::drive::{DriveError, Loops, Preparation, Steps, StepsOrder};
use autoloop_runtime::project::Overrides;
use autoloop_runtime::site::{Site, Trust};
use autoloop_runtime::world::World;

use super::file;
use super::steps::{Plan, Runner};
use crate::failure::{Failure, Kind};

/// How far the chains of a project may go by their file as it is now. One that cannot be used lifts none
/// of the usual limits.
pub(in crate::commands) fn limits(dir: &Path, world: &World) -> Budget {
    file::read_quietly(dir, world).map(|definitions| definitions.budget).unwrap_or_default()
}

/// The loops that a run may ask for: those of its project, with the flags that it has itself.
pub(in crate::commands) struct Spawner<'a> {
    pub(in crate::commands) dir: PathBuf,
    pub(in crate::commands) overrides: Overrides,
    /// How far chains may go, whatever an agent makes of their file.
    pub(in crate::commands) limits: Budget,
    pub(in crate::commands) world: &'a World,
}

impl Spawner<'_> {
    fn plan(&self, order: StepsOrder, trust: Trust) -> Plan {
        let StepsOrder { objective, steps } = order;
        let (dir, overrides) = (self.dir.clone(), self.overrides.clone());
        Plan { dir, objective, overrides, steps, limits: self.limits, trust }
    }
}

impl Loops for Spawner<'_> {
    fn definitions(&self) -> Result<Definitions, String> {
        let definitions = file::read_quietly(&self.dir, self.world)?;
        let budget = definitions.budget.within(self.limits);
        Ok(Definitions { budget, ..definitions })
    }

    fn unfit(&self, steps: &[StepDefinition]) -> Option<String> {
        let plan = self.plan(StepsOrder { objective: None, steps: steps.to_vec() }, Trust::Proven);
        plan.check(self.world).err().map(|failure| failure.message().to_owned())
    }

    fn steps<'s>(
        &'s self,
        order: StepsOrder,
        site: &Site<'s>,
    ) -> Box<dyn Steps<Error = DriveError> + 's> {
        let plan = self.plan(order, site.trust);
        Box::new(Spawned(Runner {
            plan,
            world: site.world,
            interrupts: site.interrupts.clone(),
            tell: site.progress,
            ready: None,
            traces: None,
        }))
    }
}

/// The steps of a chain that a run asked for. One that cannot begin is the end of the chain, and not of
/// the run.
struct Spawned<'a>(Runner<'a>);

impl Steps for Spawned<'_> {
    type Error = DriveError;

    fn prepare(&mut self, step: u64) -> Result<Preparation, DriveError> {
        match self.0.prepare(step) {
            Err(failure) if failure.kind() == Kind::Usage => {
                Ok(Preparation::Unfit(failure.message().to_owned()))
            }
            prepared => prepared.map_err(wrapped),
        }
    }

    fn begin(&mut self) -> Result<Run, DriveError> {
        self.0.begin().map_err(wrapped)
    }

    fn resume(&mut self, step: u64, run: &str) -> Result<Run, DriveError> {
        self.0.resume(step, run).map_err(wrapped)
    }

    fn files(&self) -> Option<String> {
        self.0.files()
    }
}

fn wrapped(failure: Failure) -> DriveError {
    DriveError::Step(Box::new(failure))
}
