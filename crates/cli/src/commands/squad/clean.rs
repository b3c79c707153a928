//! `autoloop squad clean`: removes worktrees and branches of squads.

use std::path::PathBuf;

use autoloop_core::coordinator::Kind;
use autoloop_runtime::drive::{Cleaned, clean_squad};
use autoloop_runtime::launch::{Launch, Opening};
use autoloop_runtime::runs::squads;
use autoloop_runtime::site::Site;
use autoloop_runtime::world::World;

use crate::commands::settings;
use crate::failure::Failure;
use crate::terminal;

/// Remove the worktrees and branches of squads whose work is in the project.
///
/// What holds a commit that is not reachable from the commit checked out in the project is kept, and named with the
/// reason; the command fails then.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Project directory [default: the current project].
    dir: Option<PathBuf>,
    /// Squad [default: all squads of the project].
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
}

pub(super) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let dir = settings::project_dir(args.dir.as_deref())?;
    let project = settings::project(&dir)?;
    let loaded = project.load(&*world.disk)?;
    let journal = loaded.journal(world);
    let site = Site::new(world, &journal, &loaded.files.state_dir);
    let known = squads(&site)?;
    let is_meant = |id: &str| args.run.as_ref().is_none_or(|run| id == run);
    let ids: Vec<&str> = known.iter().map(|squad| &*squad.id).filter(|id| is_meant(id)).collect();
    if let (Some(run), []) = (&args.run, ids.as_slice()) {
        return Err(Failure::failed(format!("no squad '{}'", run.escape_debug()))
            .hint("list all runs with `autoloop loops --all`"));
    }
    let mut all = Cleaned::default();
    for id in ids {
        let id = id.parse()?;
        let (project, loaded) = (project.clone(), loaded.clone());
        let launch = Launch::new(Kind::Squad, id, Opening::Resume, project, loaded);
        let Cleaned { removed, kept } = clean_squad(&site, &launch)?;
        all.removed.extend(removed);
        all.kept.extend(kept);
    }
    let removed: String = all.removed.iter().map(|name| format!("removed {name}\n")).collect();
    let nothing = if all.kept.is_empty() { "nothing to remove\n" } else { "" };
    terminal::print(if removed.is_empty() { nothing } else { &removed })?;
    if all.kept.is_empty() {
        return Ok(());
    }
    let kept: Vec<String> =
        all.kept.iter().map(|kept| format!("{}: {}", kept.name, kept.reason)).collect();
    Err(Failure::failed(format!("kept {}", kept.join("; ")))
        .hint("merge the branches, or delete them with git if you do not need them"))
}
