//! `autoloop version`: which version this is.

use std::io::{self, Write};

use crate::failure::Failure;

/// Print the version.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<(), Failure> {
    Ok(writeln!(io::stdout(), "autoloop {}", env!("CARGO_PKG_VERSION"))?)
}
