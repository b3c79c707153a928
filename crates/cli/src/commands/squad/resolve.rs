//! `autoloop squad resolve`: decides about a loop that blocks its group, and resumes the squad.

use std::path::PathBuf;

use autoloop_core::chain::Budget;
use autoloop_core::coordinator::Kind;
use autoloop_core::record::{Resolution, SquadResolve};
use autoloop_core::squad::{Loop, Squad, SquadRun};
use autoloop_runtime::drive::SquadOrder;
use autoloop_runtime::runs::squads;
use autoloop_runtime::site::Site;
use autoloop_runtime::world::World;

use super::{Report, carry_on};
use crate::commands::session::Session;
use crate::commands::settings;
use crate::failure::{Failure, Kind as FailureKind};

/// Decide about a stuck or failed loop, and resume its squad.
///
/// With --retry it gets its revisions again, and its next turn is told the reason. With --skip the group does without
/// its task. With --accept its work is merged as it is, although it did not pass.
#[derive(Debug, clap::Args)]
#[group(id = "resolution", required = true, multiple = false, args = ["retry", "skip", "accept"])]
pub(super) struct Args {
    /// Loop, like `calm-heron-2`, or its task.
    #[arg(value_name = "LOOP")]
    id: String,
    /// Project directory [default: the current project].
    dir: Option<PathBuf>,
    /// Let the loop continue, with its revisions counted from 0.
    #[arg(long, value_name = "REASON", num_args = 0..=1, default_missing_value = "")]
    retry: Option<String>,
    /// Leave its task out.
    #[arg(long, value_name = "REASON", num_args = 0..=1, default_missing_value = "")]
    skip: Option<String>,
    /// Merge its work although it did not pass.
    #[arg(long, value_name = "REASON")]
    accept: Option<String>,
    #[command(flatten)]
    report: Report,
}

pub(super) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let dir = settings::project_dir(args.dir.as_deref())?;
    let project = settings::project(&dir)?;
    let loaded = project.load(&*world.disk)?;
    let journal = loaded.journal(world);
    let known = squads(&Site::new(world, &journal, &loaded.files.state_dir))?;
    let (squad, found) = args.find(&known)?;
    if !found.state.is_blocked() {
        let (id, state) = (&found.id, found.state.name());
        let failure = Failure::new(
            FailureKind::Refused,
            format!("loop '{id}' is {state}: only a stuck or failed loop is resolved"),
        );
        return Err(
            failure.hint(format!("`autoloop inspect squad --run {}` shows all loops", squad.id))
        );
    }
    let order = SquadOrder::Resolve(args.resolve(found)?);
    let session = Session::start(Default::default(), world)?;
    let launch = session.launcher(Budget::default()).resume(Kind::Squad, project, &squad.id)?;
    carry_on(&session, &launch, order, SquadRun::Build, args.report)
}

impl Args {
    /// The loop: by its id in any squad, or by its task in the latest squad that has one.
    fn find<'s>(&self, squads: &'s [Squad]) -> Result<(&'s Squad, &'s Loop), Failure> {
        let by_id = squads.iter().find_map(|squad| Some((squad, squad.find(&self.id)?)));
        let by_task =
            || squads.iter().rev().find_map(|squad| Some((squad, squad.loop_of(&self.id)?)));
        by_id.or_else(by_task).ok_or_else(|| {
            let blocked = squads.iter().flat_map(|squad| &squad.loops);
            let blocked: Vec<&str> =
                blocked.filter(|it| it.state.is_blocked()).map(|it| &*it.id).collect();
            let failure = Failure::failed(format!("no loop '{}'", self.id.escape_debug()));
            match blocked.as_slice() {
                [] => failure.hint("no loop is stuck or failed"),
                blocked => failure.hint(format!("stuck or failed: {}", blocked.join(", "))),
            }
        })
    }

    fn resolve(&self, found: &Loop) -> Result<SquadResolve, Failure> {
        let (resolution, reason) = match (&self.retry, &self.skip, &self.accept) {
            (Some(reason), _, _) => (Resolution::Retry, reason),
            (_, Some(reason), _) => (Resolution::Skip, reason),
            (_, _, reason) => (Resolution::Accept, reason.as_ref().unwrap_or(&self.id)),
        };
        if resolution == Resolution::Accept {
            if reason.trim().is_empty() {
                return Err(Failure::usage("--accept needs a reason: it is recorded"));
            }
            if found.work.is_none() {
                let message = format!("loop '{}' has no work to accept", found.id);
                return Err(Failure::new(FailureKind::Refused, message)
                    .hint("let it work with --retry, or leave its task out with --skip"));
            }
        }
        Ok(SquadResolve {
            loop_id: found.id.clone(),
            resolution: resolution.into(),
            reason: reason.clone(),
        })
    }
}
