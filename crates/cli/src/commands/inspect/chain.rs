//! `autoloop inspect chain`: how far a chain is.

use std::path::PathBuf;

use autoloop_core::chain::Tree;
use autoloop_core::format::Format;
use autoloop_runtime::drive::chains;
use autoloop_runtime::world::World;

use crate::commands::run::drive_failure;
use crate::commands::settings;
use crate::failure::Failure;
use crate::terminal;

/// How far a chain is: its steps, their runs, and how they ended.
///
/// Below a step stand the chains that its run asked for.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Project whose journal is read [default: the current one].
    project_dir: Option<PathBuf>,
    /// The chain, by its id [default: the one that began last, with
    /// those that it belongs to].
    #[arg(long, value_name = "ID")]
    chain: Option<String>,
    /// How to print it: md, terminal or json.
    #[arg(long, default_value = "md", value_parser = super::parse_format)]
    format: Format,
}

pub(super) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let journal = settings::locate(args.project_dir.as_deref(), world)?.journal(world);
    let chains = chains(&journal).map_err(drive_failure)?;
    let path = journal.path().display();
    let tree = Tree::new(&chains);
    let shown = match &args.chain {
        Some(id) => {
            let found = chains.iter().find(|chain| chain.id == *id);
            found.map(|chain| tree.render(chain, args.format))
        }
        None => tree.render_latest(args.format),
    };
    match (shown, &args.chain, chains.last()) {
        (Some(shown), ..) => Ok(terminal::print(&shown)?),
        (None, Some(id), Some(last)) => {
            Err(Failure::failed(format!("there is no chain '{id}' in {path}"))
                .hint(format!("the latest chain is '{}'", last.id)))
        }
        (None, ..) => Err(Failure::failed(format!("no chain has begun in {path} yet"))
            .hint("`autoloop chain run NAME` begins one")),
    }
}
