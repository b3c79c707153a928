//! `autoloop review address`: the author answers findings.

use autoloop_core::exchange::{Acting, Exchange, check_findings, to_address};
use autoloop_core::message::Addressed;
use autoloop_runtime::drive::{Change, Order};
use autoloop_runtime::project::Overrides;
use autoloop_runtime::site::Trust;
use autoloop_runtime::world::World;

use super::exchange::{self, Common, conclude, refused};
use crate::commands::session::Session;
use crate::failure::{Failure, Kind};

/// Report that findings were addressed, or have an agent address them.
///
/// Sends review_addressed with the commit that contains the fixes. With --auto an agent works on the findings in the
/// project, its work is committed, and rounds are requested and reviewed until the review ends.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Findings that were addressed, separated by commas
    #[arg(long, value_name = "IDS", value_delimiter = ',', required_unless_present = "auto")]
    findings: Vec<String>,
    /// Commit that contains the fixes [default: the last commit of the branch]
    #[arg(long, value_name = "SHA", conflicts_with = "auto")]
    commit: Option<String>,
    /// Summary of the changes [default: the subjects of the commits]
    #[arg(long, value_name = "TEXT", conflicts_with = "auto")]
    summary: Option<String>,
    /// Have an agent address the findings, until the review ends
    #[arg(long, conflicts_with = "findings")]
    auto: bool,
    /// With --auto: the author, a client like `claude` or a command line [overrides: backend.command]
    #[arg(short, long, value_name = "AGENT", requires = "auto")]
    backend: Option<String>,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let project =
        args.common.project(Overrides { backend: args.backend.clone(), ..Overrides::default() })?;
    let located = args.common.located(world)?;
    let exchanges = exchange::exchanges(&located, world)?;
    let refused = |refusal| refused(&refusal, &project.dir);
    let branch = Change::branch_of(&project.dir, world)?;
    let session = Session::start(Trust::Proven, world)?;
    if args.auto {
        let found = open(&exchanges, &branch)
            .map_or_else(|| to_address(&exchanges, &branch).map_err(refused), Ok)?;
        if let Some(first) = Change::uncommitted(&project.dir, world)?.first() {
            let message = format!(
                "{} has uncommitted changes, which cannot be told from the agent's",
                first.display()
            );
            return Err(Failure::new(Kind::Refused, message).hint("commit or stash them first"));
        }
        let launch = exchange::resume(&session, project, &found.id)?;
        let exchange = args.common.carry_on(&session, &launch, Acting::Reviewer, Order::Auto)?;
        args.common.print(&exchange, &located, world)?;
        return conclude(&exchange, &launch, &session);
    }
    let found = to_address(&exchanges, &branch).map_err(refused)?;
    check_findings(found, &args.findings).map_err(refused)?;
    let round = found.round().map_or(0, |round| round.number);
    let reviewed = found.round().map(|round| round.request.commit.clone()).unwrap_or_default();
    let fixes = Change::since(&project.dir, &reviewed, args.commit.as_deref(), world)?;
    let done = Addressed {
        commit_sha: fixes.commit,
        changes_summary: args.summary.clone().unwrap_or_else(|| fixes.summary.subjects.join("\n")),
        round,
        touched_files: fixes.summary.files,
        addressed_finding_ids: args.findings.clone(),
        rest: Vec::new(),
    };
    let launch = exchange::resume(&session, project, &found.id)?;
    let exchange = args.common.carry_on(&session, &launch, Acting::Author, Order::Address(done))?;
    args.common.print(&exchange, &located, world)
}

/// The latest review of a branch that has not ended.
fn open<'e>(exchanges: &'e [Exchange], branch: &str) -> Option<&'e Exchange> {
    let is_open = |exchange: &&Exchange| {
        exchange.finish.is_none()
            && exchange.start.as_ref().is_some_and(|start| start.branch == branch)
    };
    exchanges.iter().rfind(is_open)
}
