//! `autoloop inspect memory`: what is remembered, in both tiers.

use std::path::PathBuf;

use autoloop_runtime::world::World;

use crate::commands::memory::{Format, Tiers, list};
use crate::failure::Failure;

/// What is remembered, in the project and in a run.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Project whose memory is shown [default: the current one].
    project_dir: Option<PathBuf>,
    /// The run [default: that of the environment, or the latest].
    #[arg(long)]
    run: Option<String>,
    /// How to print it.
    #[arg(long, value_enum, default_value = "md")]
    format: Format,
}

pub(super) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let tiers = Tiers::to_read(args.project_dir.as_deref(), args.run.as_deref(), world)?;
    list(&tiers, None, args.format)
}
