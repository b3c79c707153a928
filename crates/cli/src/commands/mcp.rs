//! `autoloop mcp`: the tools of an agent, over the Model Context Protocol or as one call.

use std::io::{self, Write};

use autoloop_runtime::ipc::Client;

use super::settings;
use crate::failure::{Failure, Kind};
use crate::mcp;

/// Serve the tools of an agent over MCP on standard input and output.
///
/// The harness of a squad starts every agent with AUTOLOOP_DOOR, the socket of the harness, and AUTOLOOP_TICKET, which
/// proves who asks. The tools are those of that agent: a builder has no tool for a verdict, a reviewer only the one for
/// its own review. Without them there are no tools.
///
/// Register it in an MCP client as `$AUTOLOOP_BIN mcp`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Call one tool and print its answer
    ///
    /// For an agent with a shell and without an MCP client: `autoloop mcp call complete_task '{"taskId": "t1"}'`.
    Call(CallArgs),
}

#[derive(Debug, clap::Args)]
struct CallArgs {
    /// Name of the tool
    tool: String,
    /// Arguments of the tool, as a JSON object
    #[arg(value_name = "JSON", default_value = "{}")]
    arguments: String,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        None => mcp::serve(harness()?),
        Some(Command::Call(CallArgs { tool, arguments })) => call(tool, arguments),
    }
}

/// Calls a tool of this agent, and prints its answer.
pub(super) fn call(tool: &str, arguments: &str) -> Result<(), Failure> {
    let answer = match harness()? {
        Some(harness) => harness.call(tool, arguments),
        None => Err(mcp::no_harness()),
    };
    // Scripts have one exit code to check, whatever the reason.
    let answer = answer.map_err(|failure| Failure::from(failure).of_kind(Kind::Refused))?;
    // The call was carried out, so a closed output is not a failure.
    let _ = writeln!(io::stdout(), "{answer}");
    Ok(())
}

fn harness() -> Result<Option<Client>, Failure> {
    Ok(settings::client(&settings::variables()?))
}
