//! `autoloop demo`.

use autoloop_runtime::world::World;

use crate::failure::Failure;

/// Show in a throwaway project what the journal is good for.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, _: &World) -> Result<(), Failure> {
    Ok(())
}
