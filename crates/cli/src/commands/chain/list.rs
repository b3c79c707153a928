//! `autoloop chain list`: which chains there are.

use std::path::PathBuf;

use autoloop_runtime::world::World;

use super::file;
use crate::commands::run::which::existing;
use crate::failure::Failure;
use crate::terminal;

/// List the chains of a project.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The project.
    #[arg(default_value = ".")]
    dir: PathBuf,
}

pub(super) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let dir = existing(&args.dir)?;
    let chains = file::read(&dir, world)?.chains;
    if chains.is_empty() {
        return Ok(terminal::print(&format!(
            "there are no chains in {}\n",
            dir.join("chains.toml").display()
        ))?);
    }
    let width = chains.iter().map(|chain| chain.name.chars().count()).max().unwrap_or(0);
    let line = |chain: &autoloop_core::chain::Definition| {
        let steps: Vec<&str> = chain.steps.iter().map(|step| step.preset.as_str()).collect();
        format!("{:width$}  {}\n", chain.name, steps.join(", "))
    };
    Ok(terminal::print(&chains.iter().map(line).collect::<String>())?)
}
