//! What the commands of a review by message share: the project, its exchanges, and how one is carried on.

use std::path::{Path, PathBuf};

use autoloop_core::coordinator;
use autoloop_core::exchange::{Acting, Exchange, Outcome, Refusal, Side};
use autoloop_core::message::Type;
use autoloop_core::record::ExchangeStart;
use autoloop_runtime::drive::{ExchangeDriver, Order};
use autoloop_runtime::launch::Launch;
use autoloop_runtime::mailbox::Workspace;
use autoloop_runtime::project::{Overrides, Project};
use autoloop_runtime::runs;
use autoloop_runtime::site::{Progress, Site};
use autoloop_runtime::world::World;

use super::status;
use crate::commands::mail::home::Home;
use crate::commands::progress::{Detail, ProgressUi};
use crate::commands::session::{
    Session, not_finished, not_opened, project_argument, resume_command,
};
use crate::commands::settings::{self, Located};
use crate::failure::{Failure, Kind};
use crate::{terminal, tui};

/// The name of an agent, unless a flag has another one.
pub(super) const AUTHOR: &str = "author";
pub(super) const REVIEWER: &str = "reviewer";

#[derive(Clone, Debug, clap::Args)]
pub(super) struct Common {
    /// Project directory [default: the current project]
    pub(super) dir: Option<PathBuf>,
    /// Set any setting; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print progress lines instead of opening the live view
    #[arg(long)]
    no_watch: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    home: Home,
}

impl Common {
    /// The project with the settings of the command line.
    pub(super) fn project(&self, more: Overrides) -> Result<Project, Failure> {
        let mut project = settings::project(&settings::project_dir(self.dir.as_deref())?)?;
        let set = self.set.iter().cloned().chain(more.set).collect();
        project.overrides = Overrides { set, ..more }.typed_in(Path::new("."));
        Ok(project)
    }

    pub(super) fn workspace(&self, world: &World) -> Result<Workspace, Failure> {
        self.home.workspace_of(Some(&settings::project_dir(self.dir.as_deref())?), world)
    }

    pub(super) fn located(&self, world: &World) -> Result<Located, Failure> {
        settings::locate(Some(&settings::project_dir(self.dir.as_deref())?), world)
    }

    /// Carries an exchange on, and returns it as it is then.
    pub(super) fn carry_on(
        &self,
        session: &Session<'_>,
        launch: &Launch,
        acting: Acting,
        order: Order,
    ) -> Result<Exchange, Failure> {
        let wants_view =
            acting == Acting::Reviewer && !self.no_watch && !self.json && tui::is_possible();
        let ui =
            ProgressUi::new(Detail::Brief, wants_view.then_some(&launch.loaded), session.world);
        let progress = |progress: Progress<'_>| ui.report(progress);
        let journal = launch.loaded.journal(session.world);
        let site = session.site(launch, &journal, &progress);
        let mail = self.workspace(session.world)?;
        let ended = ExchangeDriver::open(site, launch, mail, acting)
            .map_err(|error| not_opened(error, launch))
            .and_then(|drive| drive.run(order).map_err(|error| not_finished(error, launch)));
        ui.close();
        ended
    }

    /// Prints the exchange after a command.
    pub(super) fn print(
        &self,
        exchange: &Exchange,
        located: &Located,
        world: &World,
    ) -> Result<(), Failure> {
        let text = match self.json {
            true => status::json(exchange, located, world)?,
            false => status::summary(exchange),
        };
        Ok(terminal::print(&text)?)
    }
}

/// Every exchange of a project that its harness recorded.
pub(super) fn exchanges(located: &Located, world: &World) -> Result<Vec<Exchange>, Failure> {
    let journal = located.journal(world);
    Ok(runs::exchanges(&Site::new(world, &*journal, &located.files.state_dir))?)
}

pub(super) fn refused(refusal: &Refusal, dir: &Path) -> Failure {
    let at = project_argument(dir);
    let hint = match refusal {
        Refusal::Requested { exchange, .. } => {
            format!("run the reviewer with `autoloop review run{at}`, or see `autoloop review status{at} --run {exchange}`")
        }
        Refusal::NotAddressed { .. } => {
            format!("address them with `autoloop review address --findings F-001{at}`")
        }
        Refusal::NoRoundLeft { .. } => {
            "begin another review with --pr, or raise exchange.max_rounds (at most 3) for the next one".to_owned()
        }
        Refusal::NothingToAddress { .. } => format!("`autoloop review status{at}` shows whose turn it is"),
        Refusal::UnknownFindings { known, .. } => match known.is_empty() {
            true => "the packet has no findings".to_owned(),
            false => format!("it has {}", known.join(", ")),
        },
    };
    Failure::new(Kind::Refused, refusal.to_string()).hint(hint)
}

/// The end of a command that ran the reviewer: only an approval exits with 0.
pub(super) fn conclude(
    exchange: &Exchange,
    launch: &Launch,
    session: &Session<'_>,
) -> Result<(), Failure> {
    let at = project_argument(&launch.project.dir);
    let response = exchange.round().and_then(|round| round.response.as_ref());
    let packet = response.and_then(|response| response.packet.as_ref());
    let packet = packet.map_or("", |packet| &packet.path);
    match (exchange.outcome(), response.map(|response| (response.kind, response.blocking_count))) {
        (Some(Outcome::Approved), _) => Ok(()),
        (Some(Outcome::Interrupted), _) => Err(session.unfinished(launch)),
        (Some(Outcome::Undelivered | Outcome::AuthorFailed), _) => {
            let finish = exchange.finish.clone().unwrap_or_default();
            let message = format!("the review ended with {}: {}", finish.outcome, finish.reason);
            Err(Failure::failed(message).hint(format!("retry with `{}`", resume_command(launch))))
        }
        (Some(outcome), _) => Err(Failure::failed(format!("the review ended with {outcome}"))
            .hint(format!("`autoloop review status{at} --run {}` shows the rounds", exchange.id))),
        (None, Some((Type::ReviewFeedback, count))) => {
            let findings = terminal::counted(count, "blocking finding");
            Err(Failure::failed(format!("not approved: {findings} in {packet}")).hint(format!(
                "the author answers with `autoloop review address --findings F-001{at}`"
            )))
        }
        (None, _) => Err(session.unfinished(launch)),
    }
}

/// The side that has to act next.
pub(super) fn turn(exchange: &Exchange) -> Option<Side> {
    match (&exchange.finish, exchange.round()) {
        (Some(_), _) | (None, None) => None,
        (None, Some(round)) if round.response.is_none() => Some(Side::Reviewer),
        (None, Some(_)) => Some(Side::Author),
    }
}

pub(super) fn resume(session: &Session<'_>, project: Project, id: &str) -> Result<Launch, Failure> {
    let launcher = session.launcher(Default::default());
    Ok(launcher.resume(coordinator::Kind::Exchange, project, id)?)
}

pub(super) fn begin(session: &Session<'_>, project: Project) -> Result<Launch, Failure> {
    let launcher = session.launcher(Default::default());
    Ok(launcher.begin_of(coordinator::Kind::Exchange, project)?)
}

/// The names of both agents, in an order that no message can contradict.
pub(super) fn check_names(start: &ExchangeStart) -> Result<(), Failure> {
    use autoloop_core::message::AgentName;

    for name in [&start.author, &start.reviewer] {
        if let Err(error) = name.parse::<AgentName>() {
            return Err(Failure::usage(format!("'{name}': {error}")));
        }
    }
    match start.author == start.reviewer {
        true => Err(Failure::new(
            Kind::Refused,
            format!("'{}' cannot review its own work", start.author),
        )
        .hint("name another reviewer with --to")),
        false => Ok(()),
    }
}
