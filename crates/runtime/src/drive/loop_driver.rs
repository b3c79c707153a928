//! Carries out a run of a loop: iterations, metareviews, waves and requested chains.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use autoloop_core::coordinator::Kind;
use autoloop_core::failure::TurnFailure;
use autoloop_core::limits::{Scope, Spent};
use autoloop_core::prompt::{iteration, review};
use autoloop_core::record::{
    BackendStart, BackendUsage, IterationStart, LoopResume, LoopStart, LoopStop, ReviewFinish,
    ReviewStart,
};
use autoloop_core::review::Contract;
use autoloop_core::routing::METAREVIEW_DISABLED;
use autoloop_core::run::{Ending, LoopFold, Run, Stage, StopReason};
use autoloop_core::run_id::RunId;
use autoloop_core::step::{Order, Remark, Step, next_step, remark, within_limits};
use autoloop_core::topology::Route;
use autoloop_core::wave::{Parallel, WaveStep};
use autoloop_core::wire_enum::Word;

use super::chain_records::ChainIndex;
use super::chain_requests::ChainRequests;
use super::loop_run::{Branch, LoopRun, LoopTurn};
use super::review_turn::{ReviewTurn, Reviewed, note_violations};
use super::turn_records::{end_records, invalid_events, invalid_waves, refusal_text};
use super::wave::{WaveDriver, check_isolation};
use super::worktrees::Worktrees;
use super::{DriveError, durability};
use crate::harness::{Harness, RunLock, RunPlace};
use crate::journal::{NewRecord, Spooled};
use crate::launch::{Launch, Opening, StepLauncher};
use crate::project::{LoadError, Loaded, Project, read_text};
use crate::review::{ReviewSandbox, sweep, sweep_placeholders};
use crate::site::{Progress, Site};
use crate::turn::{client_error, failure, millis, notes, said, said_last, usage};
use crate::world::{self, Finished};

/// The objective where neither the request nor the settings have one.
const DEFAULT_OBJECTIVE: &str = "Do the task and publish the completion event when finished.";
/// Maximum size of a handoff that is read back, in bytes.
const LONGEST_HANDOFF: u64 = 1024 * 1024;

const CONTRACT: Contract = Contract::Metareview;

pub struct LoopDriver<'a> {
    pub(super) run: LoopRun<'a>,
    output_tail: String,
    reviewer: ReviewSandbox,
    chains: ChainRequests<'a>,
    /// Where branches have their worktrees, as found first: how git stores files does not change after that.
    worktrees: OnceCell<Worktrees>,
}

impl<'a> LoopDriver<'a> {
    /// Prepares to carry out a run. With a launcher it may request chains. A resumed run of which nothing is proven
    /// begins again.
    pub fn open(
        site: Site<'a>,
        launch: &'a Launch,
        launcher: Option<&'a dyn StepLauncher>,
    ) -> Result<Self, DriveError> {
        LoopDriver::open_step(site, launch, launcher, Spent::default(), Rc::default())
    }

    /// The same for a step of a chain, with what the earlier ones took, and with the chains of the journal as far as
    /// this process has read them.
    pub(super) fn open_step(
        site: Site<'a>,
        launch: &'a Launch,
        launcher: Option<&'a dyn StepLauncher>,
        earlier: Spent,
        index: Rc<RefCell<ChainIndex>>,
    ) -> Result<Self, DriveError> {
        launch.report(&site);
        let Launch { project, loaded, id, opening, objective, .. } = launch;
        let (mut loaded, objective) = (loaded.clone(), objective.clone());
        loaded.plan.limits.earlier = earlier;
        let mut driver = LoopDriver::new(site, project, loaded, id, None, *opening, objective)?;
        launch.keep_request(driver.run.site.world)?;
        driver.chains = ChainRequests::new(launcher, index);
        Ok(driver)
    }

    pub(super) fn new(
        site: Site<'a>,
        project: &'a Project,
        mut loaded: Loaded,
        run: &RunId,
        branch: Option<Branch>,
        opening: Opening,
        objective: Option<String>,
    ) -> Result<Self, DriveError> {
        if let Some(branch) = &branch {
            loaded.plan = loaded.plan.for_branch(branch.timeout, branch.left);
        }
        let world = site.world;
        let mode = loaded.plan.review.as_ref().map(|review| review.sandbox);
        let reviewer = ReviewSandbox::choose(mode, world)?;
        let worktrees = check_isolation(project, &loaded, world)?;
        let dir = match &branch {
            Some(branch) => branch.dir.clone(),
            None => site.state_dir.run(Kind::Loop, run),
        };
        let place = RunPlace { kind: Kind::Loop, dir, run: run.as_str(), world };
        let lock = RunLock::take(&place)?;
        if !world.spawner.is_simulated() {
            sweep(site.state_dir, world);
        }
        let path = place.dir.handoff();
        let handoff = read_text(&*world.disk, &path, LONGEST_HANDOFF)
            .map_err(|why| LoadError::Unreadable { path, why })?
            .unwrap_or_default();
        let durability = durability(&loaded.plan);
        let harness: Harness<'_, LoopFold> =
            Harness::open(opening, &site, &place, lock, durability)?;
        let recorded = harness.fold().run.start.as_ref().map(|start| start.objective.clone());
        let objective = recorded
            .or(objective)
            .or_else(|| loaded.objective.clone())
            .unwrap_or_else(|| DEFAULT_OBJECTIVE.to_owned());
        if !world.spawner.is_simulated() {
            // What cannot be found now is removed by a later run.
            let _ = sweep_placeholders(&project.dir, &project.loop_dir, site.state_dir, world);
        }
        let (notices, dir) = (Vec::new(), place.dir);
        Ok(LoopDriver {
            run: LoopRun {
                site,
                project,
                harness,
                loaded,
                objective,
                handoff,
                notices,
                dir,
                branch,
            },
            output_tail: String::new(),
            reviewer,
            chains: ChainRequests::default(),
            worktrees: worktrees.map(OnceCell::from).unwrap_or_default(),
        })
    }

    /// Carries the run out to its end. After an error it can be resumed.
    pub fn run(mut self) -> Result<Run, DriveError> {
        self.carry_out()?;
        Ok(self.run.harness.into_fold().run)
    }

    pub(super) fn carry_out(&mut self) -> Result<(), DriveError> {
        self.record_resumption()?;
        loop {
            if self.is_interrupted()? {
                return Ok(());
            }
            match self.next_step() {
                Step::Start => self.start()?,
                Step::Review { before } => self.review(before)?,
                Step::Iterate(order) => {
                    self.iterate(&order)?;
                    self.reload();
                }
                Step::Complete(complete) => {
                    let last = self.last_iteration();
                    self.run.append(last, |heading| complete.record(heading))?;
                }
                Step::Stop(stop) => self.stop(stop)?,
                Step::Wave(step) => self.wave(step)?,
                Step::Chain(step) => self.chains.step(step, &mut self.run)?,
                Step::Over(_) => return Ok(()),
            }
        }
    }

    fn next_step(&self) -> Step {
        let Loaded { plan, topology, .. } = &self.run.loaded;
        let (LoopFold { run, ledger, .. }, now) = (self.run.harness.fold(), self.run.now());
        let step = next_step(run, &plan.rules(), topology);
        within_limits(step, run, ledger, &plan.limits, now)
    }

    fn start(&mut self) -> Result<(), DriveError> {
        let LoopRun { loaded: Loaded { plan, .. }, project, branch, .. } = &self.run;
        // The files of a preset that the run has no copy of.
        let shared = Some(&project.loop_dir)
            .filter(|dir| project.is_preset() && **dir != self.run.dir.loop_copy());
        let start = LoopStart {
            max_iterations: plan.max_iterations,
            completion_promise: plan.completion.promise.clone().unwrap_or_default(),
            completion_event: plan.completion.event.clone(),
            review_every: plan.review.as_ref().map_or(0, |review| review.every.get()),
            objective: self.run.objective.clone(),
            preset: project.is_preset().then(|| project.preset.clone()),
            preset_dir: shared.map(|dir| dir.display().to_string()),
            parent: branch.as_ref().map(|branch| branch.parent.clone()),
            opening_event: branch.as_ref().map(|branch| branch.opening_event.clone()),
        };
        self.run.append("", |heading| start.record(heading))?;
        self.run.site.report(Progress::Began(self.run.state()));
        Ok(())
    }

    fn record_resumption(&mut self) -> Result<(), DriveError> {
        if let Some(note) = self.run.harness.take_forged_note() {
            self.run.site.note(&note);
        }
        let run = self.run.state();
        let previous_stop_reason = match &run.stage {
            Stage::New => return Ok(()),
            Stage::Ended(Ending::Stop { reason }) => reason.clone(),
            Stage::Ended(Ending::Complete { .. }) => return Ok(()),
            Stage::Between | Stage::Iterating | Stage::Reviewing => Word::default(),
        };
        let resumed_from_iteration = run.done_on_resume();
        let resume = LoopResume { resumed_from_iteration, previous_stop_reason };
        self.run.append(self.last_iteration(), |heading| resume.record(heading))?;
        self.run.site.report(Progress::Resumed(self.run.state()));
        Ok(())
    }

    fn is_interrupted(&mut self) -> Result<bool, DriveError> {
        let is_over = matches!(self.run.state().stage, Stage::New | Stage::Ended(_));
        if self.run.site.interrupts.first().is_none() || is_over {
            return Ok(false);
        }
        self.stop(LoopStop {
            reason: StopReason::Interrupted.into(),
            iteration: Some(self.run.state().done),
            ..LoopStop::default()
        })?;
        Ok(true)
    }

    fn stop(&mut self, mut stop: LoopStop) -> Result<(), DriveError> {
        use StopReason::{BackendFailed, BackendTimeout};
        if matches!(stop.reason.known(), Some(BackendFailed | BackendTimeout)) {
            stop.output_tail = Some(self.output_tail.clone());
        }
        self.run.append(self.last_iteration(), |heading| stop.record(heading))
    }

    /// The number of the last iteration that began; 0 before the first.
    fn last_iteration(&self) -> String {
        let run = self.run.state();
        (run.done + u64::from(run.stage == Stage::Iterating)).to_string()
    }

    /// Starts the agent for one iteration, and records and checks what it did.
    fn iterate(&mut self, order: &Order) -> Result<(), DriveError> {
        let run = &mut self.run;
        run.site.report(Progress::Iteration {
            number: order.iteration,
            of: run.loaded.plan.max_iterations,
            roles: &order.route.roles,
            event: &order.recent_event,
        });
        let left = run.time_left(Scope::Iteration);
        let backend = run.backend(&order.route).within(left);
        let backpressure = order.backpressure.as_ref().map(refusal_text);
        let chains_left = self.chains.left(run)?;
        let prompt = iteration::render(&run.iteration(order, chains_left)?);
        let turn = LoopTurn {
            iteration: order.iteration,
            recent_event: &order.recent_event,
            route: &order.route,
            review: "",
            prompt: &prompt,
        };
        let launch = run.launch(&backend, &turn)?;
        let start = IterationStart {
            recent_event: order.recent_event.clone(),
            suggested_roles: order.route.roles.join(","),
            allowed_events: order.route.events.join(","),
            backpressure: backpressure.unwrap_or_default(),
            prompt: prompt.as_str().into(),
        };
        let backend_start = BackendStart {
            backend_kind: backend.kind.into(),
            command: backend.command.clone(),
            prompt_mode: launch.prompt_mode(),
            timeout_ms: millis(backend.timeout),
            prompt_detour: launch.delivery.fallback.map(|why| why.to_string()),
        };
        run.harness.record(order.iteration, |heading| {
            vec![start.record(heading), backend_start.record(heading)]
        })?;

        let site = run.site.clone();
        let ended = launch.run(&site, &site.interrupts, |waiting| {
            run.append(order.iteration, |heading| waiting.record(None, heading))
        })?;
        let (output, finished) = (ended.long_output(run.site.world), ended.finished);
        let failure = failure(&finished, &backend);
        let error = client_error(&finished, &backend);
        if let Some(advice) = error.and_then(|error| error.class.advice()) {
            run.site.note(&format!("hint: {advice}"));
        }
        let usage = usage(&finished, &backend, &order.route.roles.join(","));
        self.record_end(order, &finished, failure.as_ref(), output.as_ref(), usage)
    }

    /// Records how the iteration ended, and what was not allowed in it.
    fn record_end(
        &mut self,
        order: &Order,
        finished: &Finished,
        failure: Option<&TurnFailure>,
        output: Option<&Spooled>,
        usage: Option<BackendUsage>,
    ) -> Result<(), DriveError> {
        let run = &mut self.run;
        let heading = run.harness.heading(order.iteration);
        let parallel = run.loaded.plan.waves();
        self.output_tail = said_last(finished);
        let tree = run.tree(finished, failure);
        run.harness.append(|foreign| {
            let Order { recent_event, route, .. } = order;
            let tree = tree.as_ref().and_then(|tree| tree.find(foreign, &parallel, route));
            let mut between: Vec<_> = usage.iter().map(|it| it.record(&heading).into()).collect();
            between.extend(invalid_events(recent_event, route, &parallel, foreign, &heading));
            between.extend(invalid_waves(recent_event, route, &parallel, foreign, &heading));
            end_records(finished, failure, output, tree, between, &heading)
        })?;
        // Why an agent could not be started is why the iteration failed.
        let was_started = !matches!(finished.ending, world::Ending::NeverStarted(_));
        for note in notes(finished).iter().filter(|_| was_started) {
            run.site.note(note);
        }
        run.site.report(Progress::Iterated(run.state()));
        let (rules, topology) = (run.loaded.plan.rules(), &run.loaded.topology);
        if let Some(Remark::NotCounted { claim, why, .. }) = remark(run.state(), &rules, topology) {
            run.site.note(&format!("the {claim} did not count: {why}"));
        }
        Ok(())
    }

    /// Runs a metareview before an iteration. However it ends, the loop continues.
    fn review(&mut self, before: u64) -> Result<(), DriveError> {
        let run = &mut self.run;
        let Some(mut plan) = run.loaded.plan.review.clone() else { return Ok(()) };
        plan.backend = plan.backend.within(run.time_left(Scope::Review));
        run.site.report(Progress::Review { before });
        let (world, recent_event) = (run.site.world, run.state().recent_event.clone());
        let prompt = review::render(&run.review(before, &recent_event)?);
        let route = Route {
            roles: vec!["review".to_owned()],
            events: vec![METAREVIEW_DISABLED.to_owned()],
        };
        let turn = LoopTurn {
            iteration: before,
            recent_event: &recent_event,
            route: &route,
            review: CONTRACT.name(),
            prompt: &prompt,
        };
        let backend = self.reviewer.around(&plan.backend, CONTRACT, &run.dir, &run.site)?;
        let mut review = ReviewTurn {
            site: run.site.clone(),
            sandbox: &self.reviewer,
            launch: run.launch(&backend, &turn)?,
            ends: run.site.interrupts.clone(),
        };
        let confined = review.confine(|| run.review_subject(CONTRACT, &turn));
        let start = ReviewStart {
            kind: CONTRACT.name().to_owned(),
            backend_kind: plan.backend.kind.into(),
            command: plan.backend.command.clone(),
            prompt_mode: review.launch.prompt_mode(),
            prompt: prompt.as_str().into(),
            timeout_ms: millis(plan.backend.timeout),
            enforcement: match &confined {
                Ok(Some(confined)) => Some(confined.enforcement()),
                Ok(None) | Err(_) => None,
            },
        };
        run.append(before, |heading| start.record(heading))?;

        let Reviewed { ended, changes, .. } = review.run(
            confined,
            None,
            || false,
            |waiting| run.append(before, |heading| waiting.record(None, heading)),
        )?;
        let (output, finished) = (ended.long_output(world), ended.finished);
        let failure = failure(&finished, &plan.backend);
        let finish = ReviewFinish {
            kind: CONTRACT.name().to_owned(),
            exit_code: finished.exit_code().into(),
            timed_out: finished.timed_out(),
            output: if output.is_some() { "".into() } else { said(&finished).into() },
            diff: changes.diff.as_deref().map(Into::into),
            interrupted: failure.as_ref().filter(|it| it.is_interrupt()).map(|_| true),
            detail: failure.as_ref().and_then(TurnFailure::cause),
        };
        let violations = changes.all_violations();
        note_violations(&violations, "", &run.site);
        let heading = run.harness.heading(before);
        run.harness.append(|foreign| {
            let mut records =
                invalid_events(&recent_event, &route, &Parallel::Off, foreign, &heading);
            records.extend(violations.iter().map(|violation| violation.record(&heading).into()));
            records.extend(
                usage(&finished, &plan.backend, CONTRACT.name())
                    .map(|usage| usage.record(&heading).into()),
            );
            records.push(NewRecord { record: finish.record(&heading), spooled: output.clone() });
            records
        })?;
        self.report_review(&finished, failure.as_ref());
        self.reload();
        self.run.notices.extend(changes.notices);
        Ok(())
    }

    /// Reports why a metareview failed. An interrupt is reported where the run ends.
    fn report_review(&self, finished: &Finished, failure: Option<&TurnFailure>) {
        let was_started = !matches!(finished.ending, world::Ending::NeverStarted(_));
        if let Some(failure) = failure.filter(|it| !it.is_interrupt() && was_started) {
            self.run.site.note(&failure.of(CONTRACT.name()));
        }
        let about = if was_started { "" } else { "metareview skipped: " };
        notes(finished).iter().for_each(|note| self.run.site.note(&format!("{about}{note}")));
    }

    fn wave(&mut self, step: WaveStep) -> Result<(), DriveError> {
        let is_join = matches!(step, WaveStep::Join(_));
        WaveDriver { run: &mut self.run, worktrees: &self.worktrees }.step(step)?;
        if is_join {
            // As after an iteration: branches may have changed the files of the loop.
            self.reload();
        }
        Ok(())
    }

    /// Reads the files of the loop again. Where they cannot be used, the last good ones stay in force,
    /// and the next prompt says what is wrong.
    fn reload(&mut self) {
        let run = &mut self.run;
        let before = std::mem::take(&mut run.notices);
        let disk = &*run.site.world.disk;
        // Where the names of the files cannot be known, loading them says so.
        for file in run.project.ignored_settings(disk).unwrap_or_default() {
            let notice = format!(
                "{} is ignored until the next run: it did not exist when this run began",
                file.display()
            );
            if !before.contains(&notice) {
                run.site.note(&notice);
            }
            run.notices.push(notice);
        }
        let loaded = run.project.load(disk).map_err(DriveError::from);
        let checked = loaded.and_then(|mut loaded| {
            if let Some(branch) = &run.branch {
                loaded.plan = loaded.plan.for_branch(branch.timeout, branch.left);
            }
            let mode = loaded.plan.review.as_ref().map(|review| review.sandbox);
            let layers = ReviewSandbox::layers(mode, run.site.world)?;
            Ok((loaded, layers))
        });
        match checked {
            Ok((mut loaded, layers)) => {
                run.harness.durability = durability(&loaded.plan);
                // An agent that can write settings cannot raise its own limits.
                loaded.plan.limits = run.loaded.plan.limits;
                loaded.plan.stall_iterations = run.loaded.plan.stall_iterations;
                run.loaded = loaded;
                self.reviewer.set_layers(layers);
            }
            Err(error) => {
                let notice = format!("the files of the loop cannot be used as they are: {error}");
                run.site.note(&notice);
                run.notices.push(notice);
            }
        }
    }
}
