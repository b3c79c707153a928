//! A run of a loop: its state, and its turns, prepared: prompts, environment, and the subject of a metareview.

use std::cell::OnceCell;
use std::io;
use std::path::Path;
use std::time::Duration;

use autoloop_core::agents::Stream;
use autoloop_core::env::Env;
use autoloop_core::failure::TurnFailure;
use autoloop_core::limits::{Scope, TimeLeft};
use autoloop_core::memory::{Block, Places};
use autoloop_core::permissions::AllowList;
use autoloop_core::plan::BackendPlan;
use autoloop_core::prompt::iteration::IterationOrder;
use autoloop_core::prompt::review::ReviewOrder;
use autoloop_core::prompt::wave::OwnTree;
use autoloop_core::prompt::{Budgets, LoopContext, RoleText, Routing, Tools};
use autoloop_core::record::{Heading, Record};
use autoloop_core::review::Contract;
use autoloop_core::run::{LoopFold, Run};
use autoloop_core::step::{Order, Remark, remark};
use autoloop_core::timestamp::Timestamp;
use autoloop_core::topology::Route;
use autoloop_core::wave::Parallel;

use super::project_tree::ProjectTree;
use super::turn_records::refusal_text;
use super::{DriveError, environment, reviewer_handler};
use crate::emit::Caller;
use crate::harness::{Harness, create_dirs};
use crate::ipc::Handler;
use crate::journal::FileSettings;
use crate::journal::sidecar::sidecar_dir;
use crate::layout::RunDir;
use crate::memory::MemoryFile;
use crate::project::{Loaded, Project};
use crate::review::{OtherWriters, Subject, seen_from};
use crate::sandbox::{Extent, repository_paths};
use crate::site::Site;
use crate::turn::{Launch, Place, Turn};
use crate::world::Finished;

const SCRATCHPAD_BUDGET: usize = 24_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct LoopTurn<'t> {
    /// The iteration, or the one that follows a review.
    pub(super) iteration: u64,
    pub(super) recent_event: &'t str,
    pub(super) route: &'t Route,
    /// The contract of a review; empty in an iteration.
    pub(super) review: &'t str,
    pub(super) prompt: &'t str,
}

/// A run of a loop, as its iterations, reviews, waves and chains share it.
pub(super) struct LoopRun<'a> {
    pub(super) site: Site<'a>,
    pub(super) project: &'a Project,
    pub(super) harness: Harness<'a, LoopFold>,
    pub(super) loaded: Loaded,
    pub(super) objective: String,
    /// What the earlier steps of a chain left; empty outside of one.
    pub(super) handoff: String,
    /// What is wrong with the files of the loop, for the next prompt.
    pub(super) notices: Vec<String>,
    pub(super) dir: RunDir,
    pub(super) branch: Option<Branch>,
}

/// What makes a run a branch of a wave.
#[derive(Clone, Debug)]
pub(super) struct Branch {
    pub(super) parent: String,
    pub(super) dir: RunDir,
    pub(super) opening_event: String,
    pub(super) timeout: Duration,
    /// How long its turn may run by the limits of the run that requested the wave.
    pub(super) left: Option<TimeLeft>,
    /// Its worktree, if it does not work in the project itself.
    pub(super) own_tree: Option<OwnTree>,
}

impl<'a> LoopRun<'a> {
    pub(super) fn state(&self) -> &Run {
        &self.harness.fold().run
    }

    pub(super) fn append(
        &mut self,
        iteration: impl ToString,
        record: impl FnOnce(&Heading) -> Record,
    ) -> Result<(), DriveError> {
        self.harness.record(iteration, |heading| vec![record(heading)])
    }

    pub(super) fn now(&self) -> Timestamp {
        self.site.world.clock.now()
    }

    /// How long a turn that begins now may run.
    pub(super) fn time_left(&self, scope: Scope) -> Option<TimeLeft> {
        let limits = &self.loaded.plan.limits;
        self.harness.fold().ledger.time_left("", &[Scope::Run, scope], limits, self.now())
    }

    /// What an iteration that ended left in the project, unless it cannot be a part of a stall.
    pub(super) fn tree(
        &self,
        finished: &Finished,
        failure: Option<&TurnFailure>,
    ) -> Option<ProjectTree<'a>> {
        let plan = &self.loaded.plan;
        let completes = finished.found_at.is_some() && plan.completion.required.is_empty();
        let is_possible = plan.stall_iterations.is_some() && self.branch.is_none();
        let is_simulated = self.site.world.spawner.is_simulated();
        (is_possible && !completes && !is_simulated && failure.is_none()).then(|| ProjectTree {
            project: self.project.dir.clone(),
            state_dir: self.loaded.files.state_dir.clone(),
            world: self.site.world,
            completion_event: plan.completion.event.clone(),
            found: OnceCell::new(),
        })
    }

    fn own_tree(&self) -> Option<&OwnTree> {
        self.branch.as_ref()?.own_tree.as_ref()
    }

    /// The data of an iteration's prompt. `chains` is the number of chains that the run may still request.
    pub(super) fn iteration(
        &self,
        order: &Order,
        chains: Option<u64>,
    ) -> Result<IterationOrder, DriveError> {
        let (plan, run) = (&self.loaded.plan, self.state());
        let remarks = remark(run, &plan.rules(), &self.loaded.topology);
        let notices = remarks.iter().map(Remark::notice).chain(self.notices.iter().cloned());
        let routing = self.routing(&order.recent_event, order.route.clone());
        Ok(IterationOrder {
            context: LoopContext {
                notices: notices.collect(),
                backpressure: order.backpressure.as_ref().map(refusal_text),
                ..self.context(order.iteration, routing)?
            },
            max_iterations: plan.max_iterations,
            objective: self.objective.clone(),
            handoff: self.handoff.clone(),
            harness_instructions: self.loaded.harness.clone().unwrap_or_default(),
            completion: plan.completion.clone(),
            parallel: plan.parallel,
            own_tree: self.own_tree().cloned(),
            joined: run.waves.joined.clone(),
            chains,
            returned: run.spawns.returned.clone(),
        })
    }

    pub(super) fn review(
        &self,
        before: u64,
        recent_event: &str,
    ) -> Result<ReviewOrder, DriveError> {
        let route = self.loaded.topology.route(recent_event);
        Ok(ReviewOrder {
            context: self.context(before, self.routing(recent_event, route))?,
            instructions: self.loaded.review_prompt.clone().unwrap_or_default(),
        })
    }

    fn context(&self, iteration: u64, routing: Routing) -> Result<LoopContext, DriveError> {
        let run = self.state();
        Ok(LoopContext {
            run: run.id.clone(),
            iteration,
            notices: self.notices.clone(),
            invalid_emits: run.invalid_count,
            last_rejected: run.last_rejected.clone(),
            backpressure: run.backpressure.as_ref().map(refusal_text),
            memory: self.memory()?,
            routing,
            scratchpad: self.harness.fold().scratchpad.compact(SCRATCHPAD_BUDGET),
            tools: self.tools(),
            budgets: Budgets::default(),
        })
    }

    pub(super) fn backend(&self, route: &Route) -> BackendPlan {
        let role = route.roles.first().and_then(|role| self.loaded.topology.role(role));
        match role {
            Some(role) => self.loaded.plan.backend_for(role).clone(),
            None => self.loaded.plan.backend.clone(),
        }
    }

    pub(super) fn launch(
        &self,
        backend: &BackendPlan,
        turn: &LoopTurn<'_>,
    ) -> Result<Launch, DriveError> {
        create_dirs(&self.dir, self.site.world)?;
        let (name, stream) = match turn.review {
            "" => ("iteration", "stream"),
            review => (review, "review"),
        };
        let project = &*self.project.dir;
        let turn = Turn {
            backend,
            prompt: turn.prompt,
            dir: &self.dir,
            name: format!("{name}-{}", turn.iteration),
            stdout: match backend.stream() {
                Stream::Plain => None,
                client => Some(format!("{client}-{stream}.{}.jsonl", turn.iteration)),
            },
            place: match self.own_tree() {
                Some(tree) => Place::Worktree { dir: Path::new(&tree.dir), project },
                None => Place::Project(project),
            },
            env: self.environment(turn),
            has_tools: false,
            look_for: self.loaded.plan.completion.promise.as_deref(),
        };
        turn.prepare(&self.site)
    }

    fn environment(&self, turn: &LoopTurn<'_>) -> Env {
        let plan = &self.loaded.plan;
        let offers_waves = plan.parallel.is_some() && turn.review.is_empty();
        Env {
            project_dir: Some(self.project.dir.clone()),
            memory_file: Some(self.dir.memory()),
            recent_event: Some(turn.recent_event.to_owned()),
            allowed_roles: turn.route.roles.clone(),
            allowed_events: turn.route.events.clone(),
            required_events: plan.completion.required.clone(),
            completion_event: Some(plan.completion.event.clone()),
            completion_promise: plan.completion.promise.clone(),
            review_mode: Some(turn.review.to_owned()),
            parallel: offers_waves.then(|| "on".to_owned()),
            ..environment(&self.loaded, &self.state().id, turn.iteration)
        }
    }

    /// The subject of a metareview: the project, with the files of the loop that it may change.
    pub(super) fn review_subject(
        &self,
        contract: Contract,
        turn: &LoopTurn<'_>,
    ) -> io::Result<(Subject, Handler)> {
        let (files, disk) = (&self.loaded.files, &*self.site.world.disk);
        let tree = self.project.dir.canonicalize()?;
        let state_dir = files.state_dir.canonicalize()?;
        let loop_dir = self.project.loop_dir.canonicalize()?;
        let growing = vec![files.journal.clone(), files.memory.clone(), self.dir.memory()];
        let seen = |path: &Path| seen_from(&tree, path);
        let list = AllowList::metareview(&seen(&loop_dir), &seen(&state_dir));
        // Settings that the run began without have no effect, and none are made.
        let list = match self.project.has_settings(disk) {
            true => list,
            false => list.without(&seen(&loop_dir).join("autoloops.toml")),
        };
        let allow = growing.iter().fold(list, |list, file| list.growing(&seen(file)));
        let mut protected = vec![tree.clone(), loop_dir, state_dir.clone()];
        protected.extend(growing.iter().filter_map(|path| path.canonicalize().ok()));
        protected.extend(repository_paths(&tree));
        let subject = Subject {
            contract,
            run: self.state().id.clone(),
            dir: self.dir.clone(),
            allow,
            growing,
            sealed: Vec::new(),
            protected,
            ours: vec![
                self.dir.lock(),
                self.dir.scratch(),
                self.dir.placeholders(),
                files.state_dir.shims(),
                sidecar_dir(&files.journal),
            ],
            beneath: self.project.settings_beneath(disk).unwrap_or_default(),
            extent: Extent::Project,
            neighbours: OtherWriters::Runs,
            tree,
            state_dir,
        };
        let caller = Caller {
            run: Some(self.state().id.clone()),
            iteration: turn.iteration.to_string(),
            recent_event: turn.recent_event.to_owned(),
            route: turn.route.clone(),
            parallel: Parallel::Off,
        };
        let memory = Places { project: files.memory.clone(), run: Some(self.dir.memory()) };
        Ok((subject, reviewer_handler(&self.site, &self.loaded, memory, caller)))
    }

    fn tools(&self) -> Tools {
        let state_dir = &self.loaded.files.state_dir;
        Tools {
            bin: state_dir.tool().display().to_string(),
            state_dir: state_dir.display().to_string(),
            loop_dir: match self.project.is_preset() {
                true => self.project.loop_dir.display().to_string(),
                false => String::new(),
            },
        }
    }

    fn routing(&self, recent_event: &str, route: Route) -> Routing {
        let roles = self.loaded.topology.roles.iter().map(|role| RoleText {
            id: role.id.clone(),
            emits: role.emits.iter().map(ToString::to_string).collect(),
            prompt: self.loaded.role_prompt(&role.id).to_owned(),
        });
        Routing { recent_event: recent_event.to_owned(), route, roles: roles.collect() }
    }

    /// The memory of the project and of the run, within the budget of a prompt.
    fn memory(&self) -> Result<Block, DriveError> {
        let settings = FileSettings { lock_timeout: self.loaded.plan.journal.lock_timeout };
        let read = |path| MemoryFile::new(path, self.site.world, settings).read();
        let project = read(self.loaded.files.memory.clone())?;
        let run = read(self.dir.memory())?;
        Ok(Block::new(&project, &run, self.loaded.plan.memory_budget.unwrap_or(0)))
    }
}
