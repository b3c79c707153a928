//! `autoloop slots`: work that is implemented, reviewed and fixed.

mod verdict;

use clap::Subcommand;

use crate::failure::Failure;

/// Try what the review of a slot goes by.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Verdict(verdict::Args),
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.what {
        What::Verdict(args) => verdict::run(args),
    }
}
