//! The turns of a loop, prepared: prompts, environment, and the subject of a metareview.

use std::io;
use std::path::Path;

use autoloop_core::agents::Stream;
use autoloop_core::env::Env;
use autoloop_core::memory::{Block, Places};
use autoloop_core::permissions::AllowList;
use autoloop_core::plan::BackendPlan;
use autoloop_core::prompt::iteration::IterationOrder;
use autoloop_core::prompt::review::ReviewOrder;
use autoloop_core::prompt::wave::OwnTree;
use autoloop_core::prompt::{Budgets, LoopContext, RoleText, Routing, Tools};
use autoloop_core::review::Contract;
use autoloop_core::run::Run;
use autoloop_core::step::{Order, Remark, remark};
use autoloop_core::topology::Route;
use autoloop_core::views::scratchpad::Scratchpad;
use autoloop_core::wave::Parallel;

use super::turn_records::refusal_text;
use super::{DriveError, reviewer_handler};
use crate::emit::Speaker;
use crate::harness::create_dirs;
use crate::ipc::Handler;
use crate::journal::FileSettings;
use crate::journal::sidecar::sidecar_dir;
use crate::layout::RunDir;
use crate::memory::MemoryFile;
use crate::project::{Loaded, Project};
use crate::review::{Neighbours, Subject, seen_from};
use crate::sandbox::{Extent, repository_paths};
use crate::site::Site;
use crate::turn::{Launch, Place, Turn};

/// Maximum number of characters of earlier outputs in a prompt.
const SCRATCHPAD_BUDGET: usize = 24_000;

/// A turn of an agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoopTurn<'t> {
    /// The iteration, or the one that follows a review.
    pub(super) iteration: u64,
    pub(super) recent_event: &'t str,
    /// The roles that should act, and the events that they may emit.
    pub(super) route: &'t Route,
    /// The contract of a review; empty in an iteration.
    pub(super) review: &'t str,
    pub(super) prompt: &'t str,
}

/// What the turns of a run are made from.
#[derive(Clone, Copy)]
pub(super) struct LoopTurns<'c> {
    pub(super) site: &'c Site<'c>,
    pub(super) project: &'c Project,
    pub(super) loaded: &'c Loaded,
    pub(super) run: &'c Run,
    pub(super) scratchpad: &'c Scratchpad,
    pub(super) dir: &'c RunDir,
    pub(super) own_tree: Option<&'c OwnTree>,
    pub(super) notices: &'c [String],
}

impl LoopTurns<'_> {
    /// The data of an iteration's prompt, without what only the driver knows.
    pub(super) fn iteration(&self, order: &Order) -> Result<IterationOrder, DriveError> {
        let (plan, run) = (&self.loaded.plan, self.run);
        let remarks = remark(run, &plan.rules());
        let notices = remarks.iter().map(Remark::notice).chain(self.notices.iter().cloned());
        let routing = self.routing(&order.recent_event, order.route.clone());
        Ok(IterationOrder {
            context: LoopContext {
                notices: notices.collect(),
                backpressure: order.backpressure.as_ref().map(refusal_text),
                ..self.context(order.iteration, routing)?
            },
            max_iterations: plan.max_iterations,
            objective: String::new(),
            handoff: String::new(),
            harness_instructions: self.loaded.harness.clone().unwrap_or_default(),
            completion: plan.completion.clone(),
            parallel: plan.parallel,
            own_tree: self.own_tree.cloned(),
            joined: run.waves.joined.clone(),
            chains: None,
            returned: run.spawns.returned.clone(),
        })
    }

    /// The data of a metareview's prompt.
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
        let run = self.run;
        Ok(LoopContext {
            run: run.id.clone(),
            iteration,
            notices: self.notices.to_vec(),
            invalid_emits: run.invalid_count,
            last_rejected: run.last_rejected.clone(),
            backpressure: run.backpressure.as_ref().map(refusal_text),
            memory: self.memory()?,
            routing,
            scratchpad: self.scratchpad.compact(SCRATCHPAD_BUDGET),
            tools: self.tools(),
            budgets: Budgets::default(),
        })
    }

    pub(super) fn launch(
        &self,
        backend: &BackendPlan,
        turn: &LoopTurn<'_>,
    ) -> Result<Launch, DriveError> {
        create_dirs(self.dir, self.site.world)?;
        let (name, stream) = match turn.review {
            "" => ("iteration", "stream"),
            review => (review, "review"),
        };
        let project = &*self.project.dir;
        let turn = Turn {
            backend,
            prompt: turn.prompt,
            dir: self.dir,
            name: format!("{name}-{}", turn.iteration),
            stdout: match backend.stream() {
                Stream::Plain => None,
                client => Some(format!("{client}-{stream}.{}.jsonl", turn.iteration)),
            },
            place: match self.own_tree {
                Some(tree) => Place::Worktree { dir: Path::new(&tree.dir), project },
                None => Place::Project(project),
            },
            env: self.environment(turn),
            look_for: self.loaded.plan.completion.promise.as_deref(),
        };
        turn.prepare(self.site)
    }

    fn environment(&self, turn: &LoopTurn<'_>) -> Env {
        let (plan, files) = (&self.loaded.plan, &self.loaded.files);
        let offers_waves = plan.parallel.is_some() && turn.review.is_empty();
        Env {
            run_id: Some(self.run.id.clone()),
            iteration: Some(turn.iteration.to_string()),
            project_dir: Some(self.project.dir.clone()),
            state_dir: Some(files.state_dir.to_path_buf()),
            journal_file: Some(files.journal.clone()),
            memory_file: Some(self.dir.memory()),
            bin: Some(files.state_dir.tool()),
            recent_event: Some(turn.recent_event.to_owned()),
            allowed_roles: turn.route.roles.clone(),
            allowed_events: turn.route.events.clone(),
            required_events: plan.completion.required.clone(),
            completion_event: Some(plan.completion.event.clone()),
            completion_promise: plan.completion.promise.clone(),
            log_level: Some(plan.log_level.to_string()),
            review_mode: Some(turn.review.to_owned()),
            parallel: offers_waves.then(|| "on".to_owned()),
            ..Env::default()
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
            run: self.run.id.clone(),
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
            neighbours: Neighbours::Runs,
            tree,
            state_dir,
        };
        let speaker = Speaker {
            run: Some(self.run.id.clone()),
            iteration: turn.iteration.to_string(),
            recent_event: turn.recent_event.to_owned(),
            route: turn.route.clone(),
            parallel: Parallel::Off,
        };
        let memory = Places { project: files.memory.clone(), run: Some(self.dir.memory()) };
        Ok((subject, reviewer_handler(self.site, self.loaded, memory, speaker)))
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
