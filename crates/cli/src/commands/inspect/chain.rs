//! `autoloop inspect chain`: how far a chain is.

use std::path::PathBuf;

use autoloop_core::chain::{Chain, Tree};
use autoloop_core::format::Format;
use autoloop_runtime::runs::{RunList, chains};
use autoloop_runtime::world::World;

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
    /// The chain: an id or the beginning of it [default: the one that began last, with those that it
    /// belongs to].
    #[arg(long, visible_alias = "run", value_name = "ID")]
    chain: Option<String>,
    /// How to print it: md, terminal or json.
    #[arg(long, default_value = "md", value_parser = super::parse_format)]
    format: Format,
}

pub(super) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let located = settings::locate(args.project_dir.as_deref(), world)?;
    let journal = located.journal(world);
    let chains = chains(&*journal)?;
    let path = journal.path().display();
    let list = RunList::read(&*journal, &located.files.state_dir, world)?;
    let status = |chain: &Chain| {
        let known = list.runs.get(&chain.id).and_then(|run| list.status(run));
        known.unwrap_or_else(|| chain.status())
    };
    let tree = Tree::new(&chains, &status);
    let id = match &args.chain {
        Some(name) => Some(list.find(name)?.id()),
        None => None,
    };
    let shown = match id {
        Some(id) => {
            let found = chains.iter().find(|chain| chain.id == id);
            found.map(|chain| tree.render(chain, args.format))
        }
        None => tree.render_latest(args.format),
    };
    match (shown, id) {
        (Some(shown), _) => Ok(terminal::print(&shown)?),
        (None, Some(id)) => Err(Failure::failed(format!("'{id}' is not a chain"))
            .hint(format!("show it with `autoloop loops show {id}`"))),
        (None, None) => Err(Failure::failed(format!("no chain has begun in {path} yet"))
            .hint("`autoloop chain run NAME` begins one")),
    }
}
