//! `autoloop`: runs coding agents in loops that can be trusted.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod acp;
mod commands;
mod diagnostic;
mod failure;
mod mcp;
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
        handle_file_size_limits()?;
        commands::run(commands::args::read()?, &World::real())
    };
    match std::panic::catch_unwind(run) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => failure.report(),
        Err(_) => Failure::bug().report(),
    }
}

/// Handles SIGXFSZ, which would otherwise end the process in the middle of a record. With a handler, the write fails
/// with an error that is reported and cleaned up after.
fn handle_file_size_limits() -> Result<(), Failure> {
    let received = std::sync::Arc::default();
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, received)
        .map(|_| ())
        .map_err(|error| Failure::failed(format!("cannot handle signals: {error}")))
}
