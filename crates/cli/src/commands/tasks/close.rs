//! `autoloop tasks close` and `reopen`: what is done, and what is not after all.

use autoloop_runtime::queue::Builtin;

use super::words::words;
use super::{Changed, tell, who};
use crate::failure::Failure;

/// Say that a task is done.
///
/// What waits for it and for nothing else is ready then. It need not have been claimed, but exits with
/// 3 when somebody else has it, or when it is closed already.
#[derive(Debug, clap::Args)]
pub(super) struct CloseArgs {
    /// Which one.
    id: String,
    /// Who closes it [default: your user name].
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// How it was done.
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true, value_parser = words)]
    reason: String,
    /// Print an object.
    #[arg(long)]
    json: bool,
}

/// Say that a closed task is not done after all.
#[derive(Debug, clap::Args)]
pub(super) struct ReopenArgs {
    /// Which one.
    id: String,
    /// Who says so [default: your user name].
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// What is missing.
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true, value_parser = words)]
    reason: String,
    /// Print an object.
    #[arg(long)]
    json: bool,
}

pub(super) fn close(args: &CloseArgs, queue: &Builtin<'_>) -> Result<(), Failure> {
    let who = who(args.name.as_deref());
    queue.step(|tasks, now| tasks.close_as(&args.id, (&who, &args.reason), now))?;
    let json = args.json.then_some(Changed { id: &args.id });
    tell(&format!("{} is closed", args.id), json)
}

pub(super) fn reopen(args: &ReopenArgs, queue: &Builtin<'_>) -> Result<(), Failure> {
    let who = who(args.name.as_deref());
    queue.step(|tasks, now| tasks.reopen(&args.id, (&who, &args.reason), now))?;
    let json = args.json.then_some(Changed { id: &args.id });
    tell(&format!("{} is open again", args.id), json)
}
