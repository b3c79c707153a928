//! `autoloop __acp`: runs one prompt with a program that speaks the Agent Client Protocol. Started by `autoloop` only.

#![expect(clippy::disallowed_methods, reason = "is the agent, which works in its own directory")]

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use autoloop_core::agents::AcpEvent;
use autoloop_core::env::{DOOR, TICKET};
use autoloop_runtime::world::World;
use futures::channel::mpsc::{self, UnboundedReceiver};
use futures::executor::block_on;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::acp::{Ended, Program, Reporter, ToolServer, Turn, converse};
use crate::failure::Failure;

/// How long a program may take to end its turn after it was asked to cancel it.
const CANCEL_TIME: Duration = Duration::from_secs(2);

/// Run a prompt with a program that speaks the Agent Client Protocol.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The model to use.
    #[arg(long)]
    model: Option<String>,
    /// The program whose `mcp` command serves the tools of the agent.
    #[arg(long, value_name = "PROGRAM")]
    mcp: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let stops = stops(world)?;
    let mut prompt = Vec::new();
    io::stdin().read_to_end(&mut prompt)?;
    let mut reporter = Reporter::new(io::stdout());
    let is_done = match Program::start(&args.command) {
        Ok((mut program, pipes)) => {
            let turn = Turn {
                program: program.name().to_owned(),
                prompt: String::from_utf8_lossy(&prompt).into_owned(),
                dir: std::env::current_dir()?,
                model: args.model.clone(),
                tools: args.mcp.clone().map(tools),
            };
            let shared = Mutex::new(reporter);
            let ended = block_on(converse(turn, pipes, &shared, stops));
            reporter = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
            let is_done = matches!(ended, Ended::Answered(_));
            match ended {
                Ended::Answered(answer) => reporter.end(&answer)?,
                Ended::Failed(event) => reporter.fail(event)?,
                Ended::Gone(request) => reporter.fail(program.gone(request, &*world.clock))?,
                Ended::Stopped => {
                    program.terminate();
                    reporter.stopped()?;
                }
            }
            program.end(&*world.clock);
            is_done
        }
        Err(why) => {
            reporter.fail(AcpEvent::failure(None, why))?;
            false
        }
    };
    // The stream has the reason.
    if !is_done {
        std::process::exit(1);
    }
    Ok(())
}

/// The server of tools, with what it needs to reach the harness.
fn tools(program: PathBuf) -> ToolServer {
    let variable = |name| Some((name, std::env::var(name).ok()?));
    ToolServer { program, env: [DOOR, TICKET].into_iter().filter_map(variable).collect() }
}

/// A message for every request to stop, and another after the time to cancel.
fn stops(world: &World) -> Result<UnboundedReceiver<()>, Failure> {
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]);
    let mut signals =
        signals.map_err(|error| Failure::failed(format!("cannot prepare for signals: {error}")))?;
    let (sender, stops) = mpsc::unbounded();
    let clock = Arc::clone(&world.clock);
    thread::spawn(move || {
        for _ in signals.forever() {
            // Without a receiver the turn is over.
            let _ = sender.unbounded_send(());
            clock.sleep(CANCEL_TIME);
            let _ = sender.unbounded_send(());
        }
    });
    Ok(stops)
}
