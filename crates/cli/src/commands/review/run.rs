//! `autoloop review run`: runs the reviewer on the oldest open request.

use autoloop_core::exchange::{Acting, Exchange};
use autoloop_core::message::AgentName;
use autoloop_runtime::drive::{OpenRequest, Order};
use autoloop_runtime::project::Overrides;
use autoloop_runtime::world::World;

use super::exchange::{self, Common, REVIEWER, conclude};
use crate::commands::session::{ResumeArgs, Session};
use crate::failure::Failure;
use crate::terminal;

/// Run the reviewer on its oldest open request, and answer it.
///
/// The reviewer is started once, in a private checkout of the commit. It ends its output with a findings packet, and the
/// harness runs the checks of the project and the commands that the packet names. If no blocking finding is left and all
/// of them pass, the answer is review_lgtm, else review_feedback. Exits with 0 only for an approval.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Agent whose requests are answered
    #[arg(long, value_name = "NAME", default_value = REVIEWER)]
    agent: AgentName,
    /// Client like `codex`, or a command line [overrides: slots.reviewer.command]
    #[arg(short, long, value_name = "AGENT")]
    backend: Option<String>,
    #[command(flatten)]
    resume: ResumeArgs,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let set = args.backend.iter().map(|agent| format!("slots.reviewer={agent}")).collect();
    let project = args.common.project(Overrides { set, ..Overrides::default() })?;
    let located = args.common.located(world)?;
    let session = Session::start(args.resume.trust(), world)?;
    let (launch, order) = match &args.resume.run {
        Some(name) => (exchange::resume(&session, project, name)?, Order::Continue),
        None => {
            let exchanges = exchange::exchanges(&located, world)?;
            let mail = args.common.workspace(world)?;
            let found = OpenRequest::oldest(&mail, &args.agent, &exchanges, world)?;
            let Some(request) = found else {
                let text = if args.common.json {
                    "null\n".to_owned()
                } else {
                    format!("no open request for '{}'\n", args.agent)
                };
                return Ok(terminal::print(&text)?);
            };
            let known = |exchange: &&Exchange| exchange.has_message(request.id());
            match exchanges.iter().find(known) {
                Some(found) => (exchange::resume(&session, project, &found.id)?, Order::Continue),
                None => {
                    let order = request.order(&project.dir, world)?;
                    (exchange::begin(&session, project)?, order)
                }
            }
        }
    };
    let exchange = args.common.carry_on(&session, &launch, Acting::Reviewer, order)?;
    args.common.print(&exchange, &located, world)?;
    conclude(&exchange, &launch, &session)
}
