//! `autoloop tasks claim` and `release`: who has a task.

use std::time::Duration;

use autoloop_core::duration;
use autoloop_core::queue::{LONGEST_CLAIM, Whose};
use autoloop_runtime::queue::{Builtin, Claimed, Queue as _};
use serde::Serialize;

use super::words::words;
use super::{Changed, tell, who};
use crate::failure::Failure;

/// Take a task, for a while.
///
/// Nobody else gets it until then, unless you give it back. Claim it again to keep it for longer.
/// Exits with 3 when somebody else has it, with who and until when, or when it waits for another task.
#[derive(Debug, clap::Args)]
pub(super) struct ClaimArgs {
    /// Which one [default: the next that is ready].
    id: Option<String>,
    /// Who takes it [default: your user name].
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// For how long, like 30m or 2h: up to 30 days.
    #[arg(long = "for", value_name = "DURATION", default_value = "2h", value_parser = lasting)]
    lasting: Duration,
    /// Print an object.
    #[arg(long)]
    json: bool,
}

/// Give a task back, for others to take.
///
/// Exits with 3 when somebody else has it. With --force, it is taken away from whoever that is, and
/// what they still say about it is refused.
#[derive(Debug, clap::Args)]
pub(super) struct ReleaseArgs {
    /// Which one.
    id: String,
    /// Who gives it back [default: your user name].
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// Take it away from whoever has it.
    #[arg(long)]
    force: bool,
    /// Why, for whoever takes it next.
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true, value_parser = words)]
    reason: String,
    /// Print an object.
    #[arg(long)]
    json: bool,
}

fn lasting(text: &str) -> Result<Duration, String> {
    match duration::parse(text) {
        Ok(Duration::ZERO) => Err("a claim lasts longer than that".to_owned()),
        Ok(lasting) if lasting > LONGEST_CLAIM => {
            let most = duration::print(LONGEST_CLAIM);
            Err(format!("a claim lasts {most} at most; claim it again to keep it for longer"))
        }
        Ok(lasting) => Ok(lasting),
        Err(bad) => Err(bad.to_string()),
    }
}

pub(super) fn claim(args: &ClaimArgs, queue: &Builtin<'_>) -> Result<(), Failure> {
    let who = who(args.name.as_deref());
    let Claimed { item, claim } = match &args.id {
        Some(id) => queue.claim_for(id, &who, args.lasting)?,
        None => queue.claim_next_for(&who, args.lasting)?.ok_or_else(|| nothing(queue))?,
    };
    let until = claim.until.map(|until| until.to_string());
    let said = match &until {
        Some(until) => format!("{} is yours until {until}", item.id),
        None => format!("{} is yours", item.id),
    };
    #[derive(Serialize)]
    struct Facts<'a> {
        id: &'a str,
        owner: &'a str,
        until: Option<String>,
        fence: u64,
    }
    let facts = Facts { id: &item.id, owner: &claim.owner, until, fence: claim.fence };
    tell(&said, args.json.then_some(facts))
}

/// Why there is nothing to be taken.
fn nothing(queue: &Builtin<'_>) -> Failure {
    match queue.progress() {
        Err(error) => error.into(),
        Ok(progress) if progress.is_done() => Failure::failed("there is nothing left to be done"),
        Ok(progress) => Failure::failed(format!(
            "nothing is ready: {} claimed, {} blocked",
            progress.in_work, progress.blocked
        )),
    }
}

pub(super) fn release(args: &ReleaseArgs, queue: &Builtin<'_>) -> Result<(), Failure> {
    let who = who(args.name.as_deref());
    let whose = if args.force { Whose::Anybodys } else { Whose::Of(&who) };
    queue.release_task(&args.id, whose, (&who, &args.reason))?;
    let json = args.json.then_some(Changed { id: &args.id });
    tell(&format!("{} was given back", args.id), json)
}
