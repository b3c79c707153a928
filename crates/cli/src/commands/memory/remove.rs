//! `autoloop memory remove` and `promote`: what becomes of an entry.

use autoloop_runtime::memory::Change;
use autoloop_runtime::world::World;

use super::tiers::{change_through, tier_by_name};
use super::{Tier, Tiers};
use crate::commands::settings;
use crate::failure::{Failure, Kind};

/// Hide an entry behind a tombstone. The files keep it.
#[derive(Debug, clap::Args)]
pub(super) struct RemoveArgs {
    /// The run whose memory is meant beside the project's [default: that of the environment, or the
    /// latest].
    #[arg(long)]
    run: Option<String>,
    /// Where the entry is, should both tiers have one of this name [default: the run, if it has it].
    #[arg(long, value_parser = tier_by_name())]
    tier: Option<Tier>,
    /// The name of the entry: mem-3, meta-7.
    id: String,
    /// Why it is not wanted any more.
    reason: Vec<String>,
}

/// Move an entry from the memory of a run to that of the project.
#[derive(Debug, clap::Args)]
pub(super) struct PromoteArgs {
    /// The run [default: that of the environment, or the latest].
    #[arg(long)]
    run: Option<String>,
    /// The name of the entry: mem-3, meta-7.
    id: String,
}

pub(super) fn remove(args: &RemoveArgs, world: &World) -> Result<(), Failure> {
    let reason = args.reason.join(" ");
    let change = Change::Remove { id: args.id.clone(), tier: args.tier, reason };
    make(change, args.run.as_deref(), world)
}

pub(super) fn promote(args: &PromoteArgs, world: &World) -> Result<(), Failure> {
    make(Change::Promote { id: args.id.clone() }, args.run.as_deref(), world)
}

fn make(change: Change, run: Option<&str>, world: &World) -> Result<(), Failure> {
    let env = settings::environment()?;
    let Some(client) = settings::client(&env) else {
        return Tiers::to_look_at(None, run, world)?.change(change);
    };
    // The harness knows which run the request comes from, and changes the memory of no other.
    match run.filter(|run| Some(*run) != env.run_id.as_deref()) {
        Some(run) => {
            let message = format!("the memory of run '{run}' cannot be changed from here");
            Err(Failure::new(Kind::Refused, message)
                .hint("leave --run out: the harness changes the memory of this run"))
        }
        None => change_through(&client, &change),
    }
}
