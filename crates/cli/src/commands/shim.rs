//! `autoloop __shim`: the process between the harness and one agent. Started by `autoloop` only.

use std::ffi::OsString;
use std::io::{self, IsTerminal};

use autoloop_runtime::shim;

use crate::failure::Failure;

/// Takes the command line when it is that of a shim. It is looked at before all others and without
/// their parser: a shim is started for every job, and its start is part of what an iteration costs.
pub(crate) fn run_if_asked(
    mut args: impl Iterator<Item = OsString>,
) -> Option<Result<(), Failure>> {
    let is_shim = args.nth(1).is_some_and(|word| word == shim::COMMAND);
    is_shim.then(|| run(args))
}

fn run(args: impl Iterator<Item = OsString>) -> Result<(), Failure> {
    let args: Vec<OsString> = args.collect();
    if args.is_empty() && io::stdin().is_terminal() {
        return Err(Failure::usage(format!("{} is not for people", shim::COMMAND))
            .hint("autoloop starts it itself, between a loop and each of its agents"));
    }
    shim::run(args).map_err(|error| Failure::failed(format!("cannot supervise a job: {error}")))
}
