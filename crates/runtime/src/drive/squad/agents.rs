//! Runs the agents of a squad: builders in their worktrees, and all others where they can change nothing.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use autoloop_core::env::Env;
use autoloop_core::memory::Places;
use autoloop_core::permissions::AllowList;
use autoloop_core::plan::BackendPlan;
use autoloop_core::prompt::slot::Diff;
use autoloop_core::prompt::squad::{self as prompt, ReviewOrder};
use autoloop_core::record::{ReviewViolation, SquadPhase, SquadSubject, SquadTurn};
use autoloop_core::review::Contract;
use autoloop_core::slot::HeldBy;
use autoloop_core::squad::{Loop, Squad};

use super::tools::TurnTools;
use super::worktrees::{LoopSpec, Resolution};
use super::{Message, Shared};
use crate::drive::review_turn::{ReviewTurn, Reviewed};
use crate::drive::{DriveError, environment, reviewer_handler};
use crate::emit::Caller;
use crate::evidence::Checkout;
use crate::git::GitError;
use crate::harness::create_dirs;
use crate::ipc::{Handler, Server, Ticket};
use crate::layout::RunDir;
use crate::review::{OtherWriters, Subject, not_started};
use crate::sandbox::Extent;
use crate::turn::{Ended, Place, Turn, Waiting};
use crate::world::Finished;

/// The files of a turn begin with it.
const NAME: &str = "agent";

/// A turn that was recorded, and is to be run.
pub(super) struct TurnOrder {
    /// The squad when the turn began.
    pub(super) squad: Arc<Squad>,
    pub(super) start: SquadTurn,
    pub(super) ticket: Ticket,
    pub(super) backend: BackendPlan,
    /// Those in conflict.
    pub(super) files: String,
}

pub(super) struct EndedTurn {
    pub(super) start: SquadTurn,
    pub(super) backend: BackendPlan,
    pub(super) finished: Finished,
    pub(super) violations: Vec<ReviewViolation>,
    pub(super) held_by: Option<HeldBy>,
    pub(super) work: TurnWork,
}

/// What a turn left in its worktree.
#[derive(Default)]
pub(super) struct TurnWork {
    pub(super) commit: Option<String>,
    pub(super) tree: Option<String>,
    /// Why it cannot be used.
    pub(super) reason: Option<String>,
}

impl TurnOrder {
    fn it(&self) -> Option<&Loop> {
        self.squad.find(self.start.loop_id.as_deref()?)
    }

    /// The iteration of its loop that a builder begins, or that the others look at.
    fn iteration(&self) -> u64 {
        let is_builder =
            matches!(self.start.phase.known(), Some(SquadPhase::Build | SquadPhase::Revise));
        self.it().map_or(0, |it| it.iteration + u64::from(is_builder))
    }
}

impl Shared<'_> {
    /// Runs the agent of a turn to its end.
    pub(super) fn run_turn(
        &self,
        order: TurnOrder,
        sender: &Sender<Message>,
    ) -> Result<EndedTurn, DriveError> {
        let dir = self.dir.squad_turn(order.start.turn);
        create_dirs(&dir, self.site.world)?;
        match (order.start.phase.known(), order.it().cloned()) {
            (Some(SquadPhase::Build | SquadPhase::Revise), Some(it)) => {
                self.build(order, &it, &dir, sender)
            }
            (Some(SquadPhase::Conflict), Some(it)) => {
                self.resolve_conflict(order, &it, &dir, sender)
            }
            _ => self.read(order, &dir, sender),
        }
    }

    /// Runs a builder in the worktree of its loop, and captures what it left there.
    fn build(
        &self,
        order: TurnOrder,
        it: &Loop,
        dir: &RunDir,
        sender: &Sender<Message>,
    ) -> Result<EndedTurn, DriveError> {
        let (name, subject) = (it.number.to_string(), order.squad.subject_of(&it.task_id));
        let spec = LoopSpec { id: &name, base: &it.base, subject: &subject };
        let place = match self.trees.prepare(&spec) {
            Ok(place) => place,
            Err(error) => return Ok(order.not_started(error)),
        };
        let text = prompt::build(&order.squad, it);
        let finished = self.run_writer(&order, &text, &place, dir, sender)?;
        let work = match self.trees.capture(&spec) {
            Ok(work) => TurnWork { commit: Some(work.commit), tree: Some(work.tree), reason: None },
            Err(error) => TurnWork {
                reason: Some(format!("the worktree cannot be read: {error}")),
                ..TurnWork::default()
            },
        };
        Ok(order.ended(finished, work))
    }

    /// Runs an agent in the worktree for conflicts. What it reports does not matter: only what it left.
    fn resolve_conflict(
        &self,
        order: TurnOrder,
        it: &Loop,
        dir: &RunDir,
        sender: &Sender<Message>,
    ) -> Result<EndedTurn, DriveError> {
        let head = order.start.commit.clone().unwrap_or_default();
        let commit = it.work.as_ref().map_or("", |work| &work.commit);
        let (name, subject) = (it.number.to_string(), order.squad.subject_of(&it.task_id));
        let spec = LoopSpec { id: &name, base: &it.base, subject: &subject };
        let place = match self.trees.open_conflict(&head, commit) {
            Ok(place) => place,
            Err(error) => return Ok(order.not_started(error)),
        };
        let text = prompt::conflict(&order.squad, it, &order.files);
        let finished = self.run_writer(&order, &text, &place, dir, sender)?;
        let work = match self.trees.close_conflict(&spec, &head, commit)? {
            Resolution::Resolved(commit) => {
                TurnWork { commit: Some(commit), ..TurnWork::default() }
            }
            Resolution::Refused(reason) => TurnWork { reason: Some(reason), ..TurnWork::default() },
        };
        Ok(order.ended(finished, work))
    }

    /// Runs an agent that works in a worktree of its own.
    fn run_writer(
        &self,
        order: &TurnOrder,
        prompt: &str,
        place: &Path,
        dir: &RunDir,
        sender: &Sender<Message>,
    ) -> Result<Finished, DriveError> {
        let turn = self.turn(order, &order.backend, prompt, place, dir);
        let mut launch = turn.prepare(&self.site)?;
        let door = dir.door(NAME);
        let server = Server::open(&door, self.handler(order, sender))
            .map_err(|source| DriveError::Write { path: door, source })?;
        launch.job.env.extend(server.variables());
        let report = waiting_reporter(order.start.turn, sender);
        let ended = launch.run(&self.site, &self.site.interrupts, report)?;
        // Its last calls are answered when this returns.
        drop(server);
        Ok(ended.finished)
    }

    /// Runs an agent that only reads: a planner or a reviewer, in a private checkout.
    fn read(
        &self,
        order: TurnOrder,
        dir: &RunDir,
        sender: &Sender<Message>,
    ) -> Result<EndedTurn, DriveError> {
        let commit = order.start.commit.clone().unwrap_or_default();
        let repository = self.trees.repository();
        let checkout = match Checkout::new(repository, &commit, &dir.checkout(), self.site.world) {
            Ok(checkout) => checkout,
            Err(DriveError::Git(error)) => return Ok(order.not_started(error)),
            Err(error) => return Err(error),
        };
        let top = checkout.tree();
        let place = top.join(repository.prefix());
        let text = self.prompt_of(&order, &commit, &place);
        let backend = self.sandbox.around(&order.backend, contract(&order), dir, &self.site)?;
        let turn = self.turn(&order, &backend, &text, &place, dir);
        let mut review = ReviewTurn {
            site: self.site.clone(),
            sandbox: &self.sandbox,
            launch: turn.prepare(&self.site)?,
            ends: self.site.interrupts.clone(),
        };
        // Objects that it looks up with git must be those that have these names.
        review.launch.job.env.push(("GIT_NO_REPLACE_OBJECTS".into(), "1".into()));
        let confined = review.confine(|| self.subject(&order, &top, dir, sender));
        let reviewed =
            review.run(confined, None, || false, waiting_reporter(order.start.turn, sender))?;
        let Reviewed { ended: Ended { finished, .. }, changes, held_by } = reviewed;
        let ended = order.ended(finished, TurnWork::default());
        Ok(EndedTurn { violations: changes.all_violations(), held_by, ..ended })
    }

    fn prompt_of(&self, order: &TurnOrder, commit: &str, place: &Path) -> String {
        let squad = &order.squad;
        let subject = match order.start.phase.known() {
            Some(SquadPhase::Enumerate) => return prompt::enumerate(squad),
            Some(SquadPhase::Plan) => return prompt::plan(squad),
            _ => order.start.subject.as_ref().and_then(|subject| subject.known()),
        };
        let subject = subject.unwrap_or(SquadSubject::Task);
        let it = order.it();
        let start = squad.start.as_ref().map(|start| &*start.base);
        let base = it.map(|it| &*it.base).or(start).unwrap_or_default();
        let diff = match subject {
            SquadSubject::Enumerate | SquadSubject::Plan => Diff::Empty,
            _ => self.trees.diff(base, commit),
        };
        let dir = &place.display().to_string();
        let attempt = order.start.attempt;
        prompt::review(&ReviewOrder { squad, subject, it, dir, commit, diff, attempt })
    }

    fn turn<'t>(
        &'t self,
        order: &TurnOrder,
        backend: &'t BackendPlan,
        prompt: &'t str,
        place: &'t Path,
        dir: &'t RunDir,
    ) -> Turn<'t> {
        let project = &self.launch.project.dir;
        let iteration = order.iteration();
        let start = &order.start;
        let env = Env {
            project_dir: std::path::absolute(project).ok(),
            phase: Some(start.phase.to_string()),
            loop_id: start.loop_id.clone(),
            task_id: start.task_id.clone(),
            ..environment(&self.launch.loaded, self.launch.id.as_str(), iteration)
        };
        Turn {
            backend,
            prompt,
            dir,
            name: NAME.to_owned(),
            stdout: None,
            place: Place::Worktree { dir: place, project },
            env,
            has_tools: true,
            look_for: None,
        }
    }

    /// What the agent of a turn may ask of the harness.
    fn handler(&self, order: &TurnOrder, sender: &Sender<Message>) -> Handler {
        let run = self.launch.id.to_string();
        let loaded = &self.launch.loaded;
        let memory = Places {
            project: loaded.files.memory.clone(),
            run: Places::of_run(&loaded.files.state_dir, &run).run,
        };
        let iteration = order.it().map_or(String::new(), |_| order.iteration().to_string());
        let caller = Caller { run: Some(run), iteration, ..Caller::default() };
        let tools = TurnTools::new(&order.start, sender.clone());
        Handler {
            ticket: order.ticket.clone(),
            tools: Some(Arc::new(tools)),
            ..reviewer_handler(&self.site, loaded, memory, caller)
        }
    }

    /// A checkout in which nothing may change. Builders work elsewhere in the repository meanwhile.
    fn subject(
        &self,
        order: &TurnOrder,
        tree: &Path,
        dir: &RunDir,
        sender: &Sender<Message>,
    ) -> io::Result<(Subject, Handler)> {
        let state_dir = self.launch.loaded.files.state_dir.canonicalize()?;
        let tree = tree.canonicalize()?;
        let project = self.launch.project.dir.canonicalize()?;
        let git = self.trees.repository().common().canonicalize()?;
        let protected: Vec<PathBuf> =
            [tree.clone(), state_dir.clone(), project, git.clone()].into();
        let subject = Subject {
            contract: contract(order),
            run: self.launch.id.to_string(),
            dir: dir.clone(),
            allow: AllowList::read_only(),
            sealed: Vec::new(),
            growing: Vec::new(),
            protected,
            ours: vec![state_dir.clone(), git],
            beneath: Vec::new(),
            extent: Extent::Worktree,
            neighbours: OtherWriters::Worktrees,
            tree,
            state_dir,
        };
        Ok((subject, self.handler(order, sender)))
    }
}

impl TurnOrder {
    fn ended(self, finished: Finished, work: TurnWork) -> EndedTurn {
        let TurnOrder { start, backend, .. } = self;
        EndedTurn { start, backend, finished, violations: Vec::new(), held_by: None, work }
    }

    /// The agent was not started, because git could not prepare where it works.
    fn not_started(self, error: GitError) -> EndedTurn {
        let reason = Some(error.to_string());
        let finished = not_started(&io::Error::other(error)).finished;
        self.ended(finished, TurnWork { reason, ..TurnWork::default() })
    }
}

/// A planner is held to the same as its reviewer.
fn contract(order: &TurnOrder) -> Contract {
    let revisions = order.squad.effort().revisions();
    let subject = order.start.subject.as_ref().and_then(|subject| subject.known());
    Contract::Squad { subject: subject.unwrap_or(SquadSubject::Plan), revisions }
}

/// Tells the dispatcher that an agent waits for its client.
fn waiting_reporter(
    turn: u64,
    sender: &Sender<Message>,
) -> impl FnMut(&Waiting) -> Result<(), DriveError> + use<'_> {
    move |waiting| {
        // The dispatcher is gone only where the run failed.
        let _ = sender.send(Message::Waiting(Box::new(waiting.clone().in_turn(turn))));
        Ok(())
    }
}
