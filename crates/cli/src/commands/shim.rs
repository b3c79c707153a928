//! `autoloop __shim`: the process between the harness and an agent. Started by `autoloop` only.

use std::ffi::OsString;
use std::io::{self, IsTerminal};

use autoloop_runtime::shim;

use crate::failure::Failure;

/// Runs a shim if the command line asks for one. It is checked before all others and without their parser, because a
/// shim is started for every job, and its start is part of the cost of an iteration.
pub(crate) fn run_if_asked(
    mut args: impl Iterator<Item = OsString>,
) -> Option<Result<(), Failure>> {
    let is_shim = args.nth(1).is_some_and(|word| word == shim::COMMAND);
    is_shim.then(|| run(args))
}

fn run(args: impl Iterator<Item = OsString>) -> Result<(), Failure> {
    let args: Vec<OsString> = args.collect();
    if args.is_empty() && io::stdin().is_terminal() {
        return Err(Failure::usage(format!("{} is an internal command", shim::COMMAND))
            .hint("start a loop with `autoloop run`, which calls it for each agent"));
    }
    shim::run(args).map_err(|error| Failure::failed(format!("cannot supervise a job: {error}")))
}
