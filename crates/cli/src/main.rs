//! `autoloop`: runs coding agents in loops that can be trusted.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod acp;
mod commands;
mod diagnostic;
mod failure;
mod style;
mod terminal;
mod tui;

use std::process::ExitCode;

use autoloop_runtime::world::World;

use crate::failure::Failure;

#[expect(clippy::disallowed_methods, reason = "reads the arguments")]
fn main() -> ExitCode {
    let run = || {
        if let Some(done) = commands::shim::run_if_asked(std::env::args_os()) {
            return done;
        }
        take_size_limits_as_errors()?;
        commands::run(commands::args::read()?, &World::real())
    };
    match std::panic::catch_unwind(run) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => failure.report(),
        Err(_) => Failure::bug().report(),
    }
}

/// A limit on the size of files would kill us in the middle of a record; as an error it can be told
/// and cleaned up after.
fn take_size_limits_as_errors() -> Result<(), Failure> {
    let noticed = std::sync::Arc::default();
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, noticed)
        .map(|_| ())
        .map_err(|error| Failure::failed(format!("cannot prepare for signals: {error}")))
}
