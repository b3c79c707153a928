//! `autoloop review request`: asks a reviewer to judge the branch that is checked out.

use autoloop_core::config::{Key, Value};
use autoloop_core::exchange::{Acting, Stamp, Target, target};
use autoloop_core::message::{USUAL_RUNTIME_S, USUAL_TURNS};
use autoloop_core::record::ExchangeStart;
use autoloop_runtime::drive::{Change, Order, describe};
use autoloop_runtime::project::Overrides;
use autoloop_runtime::site::Trust;
use autoloop_runtime::world::World;

use super::exchange::{self, AUTHOR, Common, REVIEWER, check_names, refused};
use crate::commands::session::Session;
use crate::failure::{Failure, Kind};
use crate::terminal;

/// Ask another agent to review the branch that is checked out.
///
/// Sends a review_request with the commit, a summary of the change, and the budgets of the reviewer. After findings were
/// addressed, it requests the next round of the same review.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Agent that reviews
    #[arg(long, value_name = "REVIEWER", default_value = REVIEWER)]
    to: String,
    /// Agent that wrote the change
    #[arg(long, value_name = "AUTHOR", default_value = AUTHOR)]
    from: String,
    /// Number of the pull request [default: the number of this review]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pr: Option<u64>,
    /// Revision that the change is compared with [default: where the branch left the main branch]
    #[arg(long, value_name = "REV")]
    base: Option<String>,
    /// Maximum number of rounds [overrides: exchange.max_rounds]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3))]
    rounds: Option<u64>,
    /// Maximum number of turns of the reviewer in a round
    #[arg(long, value_name = "N", default_value_t = USUAL_TURNS, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    max_turns: u64,
    /// Maximum runtime of the reviewer in a round, in seconds
    #[arg(long, value_name = "S", default_value_t = USUAL_RUNTIME_S, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    max_runtime: u64,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let set = args.rounds.map(|rounds| format!("exchange.max_rounds={rounds}"));
    let project = args
        .common
        .project(Overrides { set: set.into_iter().collect(), ..Overrides::default() })?;
    let located = args.common.located(world)?;
    let change = Change::of_checkout(&project.dir, args.base.as_deref(), world)?;
    if change.commit == change.base {
        let message = format!("'{}' has no commits to review", change.branch);
        return Err(Failure::new(Kind::Refused, message)
            .hint("commit the change, or name the revision before it with --base"));
    }
    if let Some(first) = change.uncommitted.first() {
        let (count, first) = (change.uncommitted.len() as u64, first.display());
        let files = terminal::counted(count, "file");
        terminal::note(&format!(
            "warning: {files} with uncommitted changes, such as {first}, will not be reviewed"
        ));
    }
    let exchanges = exchange::exchanges(&located, world)?;
    let rounds = project.load(&*world.disk)?.settings;
    let rounds = match rounds.value(Key::ExchangeMaxRounds) {
        Value::Number(rounds) => u64::try_from(*rounds).unwrap_or(1),
        _ => 1,
    };
    let stamp = Stamp { now: world.clock.now(), random: world.entropy.number() };
    let start = ExchangeStart {
        author: args.from.clone(),
        reviewer: args.to.clone(),
        pr: args.pr.unwrap_or(exchanges.len() as u64 + 1),
        branch: change.branch.clone(),
        base: change.base.clone(),
        rounds,
        max_turns: args.max_turns,
        max_runtime_s: args.max_runtime,
        conversation: stamp.conversation(&args.from),
    };
    check_names(&start)?;
    let target =
        target(&exchanges, &start, args.pr).map_err(|refusal| refused(&refusal, &project.dir))?;
    let session = Session::start(Trust::Proven, world)?;
    let order = Order::Request {
        start,
        commit: change.commit.clone(),
        diff_summary: describe(&change.summary),
    };
    let (launch, order) = match target {
        Target::Begin => (exchange::begin(&session, project)?, order),
        Target::NextRound(found) => (exchange::resume(&session, project, &found.id)?, order),
        Target::Deliver(found) => {
            (exchange::resume(&session, project, &found.id)?, Order::Continue)
        }
    };
    let exchange = args.common.carry_on(&session, &launch, Acting::Author, order)?;
    args.common.print(&exchange, &located, world)
}
