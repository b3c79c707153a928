//! `autoloop chain list`: which chains there are.

use std::path::PathBuf;

use autoloop_core::chain::{Budget, Definition, Definitions};
use autoloop_core::format::json_text;
use autoloop_core::table;
use autoloop_runtime::world::World;
use serde::Serialize;

use super::file;
use crate::commands::run::resolve_args::existing;
use crate::commands::settings;
use crate::failure::Failure;
use crate::terminal;

/// List the chains of a project.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The project [default: the current one].
    dir: Option<PathBuf>,
    /// Print them as JSON, with how far chains may go.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let dir = match &args.dir {
        Some(dir) => existing(dir)?,
        None => existing(&settings::default_project()?)?,
    };
    let Definitions { chains, budget } = file::read(&dir, world)?;
    if args.json {
        return Ok(terminal::print(&json(&chains, budget))?);
    }
    if chains.is_empty() {
        return Ok(terminal::print(&format!(
            "there are no chains in {}\n",
            dir.join("chains.toml").display()
        ))?);
    }
    let row = |chain: &Definition| {
        let steps: Vec<&str> = chain.steps.iter().map(|step| step.preset.as_str()).collect();
        [chain.name.clone(), steps.join(", ")]
    };
    Ok(terminal::print(&table::print(chains.iter().map(row).collect()))?)
}

fn json(chains: &[Definition], budget: Budget) -> String {
    #[derive(Serialize)]
    struct Listed<'a> {
        chains: Vec<Chain<'a>>,
        budget: Budget,
    }
    #[derive(Serialize)]
    struct Chain<'a> {
        name: &'a str,
        steps: Vec<&'a str>,
    }
    let chains = chains.iter().map(|Definition { name, steps, .. }| {
        let steps = steps.iter().map(|step| &*step.preset).collect();
        Chain { name, steps }
    });
    json_text(&Listed { chains: chains.collect(), budget })
}
