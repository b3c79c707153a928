//! Carries out a squad: loops that build the tasks of a plan in parallel, their reviews, and their merges.
//!
//! Nothing is decided here: what can be carried out now is [`next_steps`]. One thread, the dispatcher, owns the
//! [`Harness`]; it starts a thread for each agent, check and merge, and these report to it by [`Message`]. A tool call
//! of an agent is a message too, so all that happens in a squad happens in one order, that of the journal.

mod agents;
mod merging;
mod tools;
mod worktrees;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, Scope};

use autoloop_core::config::{Key, Origin};
use autoloop_core::coordinator::Kind;
use autoloop_core::limits;
use autoloop_core::plan::BackendPlan;
use autoloop_core::plan::SquadPlan;
use autoloop_core::record::{
    CheckFinish, Heading, Record, SquadEnd, SquadFinish, SquadGroup, SquadLoop, SquadPhase,
    SquadResolve, SquadResume, SquadReview, SquadStart, SquadSubject, SquadTask, SquadTurn,
    SquadTurnFinish,
};
use autoloop_core::squad::tools as squad_tools;
use autoloop_core::squad::{
    GivenPlan, Lane, LoopState, Squad, SquadRules, SquadRun, Step, Task, next_steps, stopped,
    within_limits,
};
use autoloop_core::text::first_line;

use super::review_turn::note_violations;
use super::{DriveError, durability};
use crate::error::LaunchError;
use crate::failure::Failure;
use crate::harness::{Harness, RunLock, RunPlace};
use crate::ipc::Ticket;
use crate::launch::{Launch, look_up};
use crate::layout::RunDir;
use crate::review::{ReviewSandbox, sweep};
use crate::site::{Progress, Site, SquadProgress};
use crate::store::Follower;
use crate::turn::{Waiting, client_failure, failure, millis, notes, recorded, usage};
use crate::world::Cause;

use agents::{EndedTurn, TurnOrder};
use merging::Merging;
use tools::ToolCall;
use worktrees::{LoopSpec, SquadWorktrees};

pub use worktrees::{Cleaned, KeptWork};

/// The signal that ends agents when the harness itself fails.
const TERM: i32 = 15;

pub struct SquadDriver<'a> {
    shared: Arc<Shared<'a>>,
    harness: Harness<'a, Squad>,
    rules: SquadRules,
    /// The lanes with a thread.
    busy: BTreeSet<Lane>,
    /// How many checks were started, for the names of their directories.
    checks: u64,
    /// Keeps the store up to date.
    follower: Option<Follower>,
}

/// What a new squad builds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SquadSpec {
    pub text: String,
    /// `None` where agents write the tasks and the plan.
    pub plan: Option<GivenPlan>,
}

/// What a command adds to a squad before its next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SquadOrder {
    Begin(SquadSpec),
    Continue,
    /// The user decides about a loop.
    Resolve(SquadResolve),
}

/// What the threads of a squad have in common.
struct Shared<'a> {
    /// Its interrupts end what this squad runs, and nothing else.
    site: Site<'a>,
    launch: &'a Launch,
    trees: SquadWorktrees,
    sandbox: ReviewSandbox,
    dir: RunDir,
}

/// Where the dispatcher starts threads, and what they report with.
struct Threads<'s, 'e> {
    scope: &'s Scope<'s, 'e>,
    sender: Sender<Message>,
}

/// What the threads tell the dispatcher.
enum Message {
    Call(ToolCall),
    /// An agent waits for its client, or does so no longer.
    Waiting(Box<Waiting>),
    Ended(Lane, Result<Done, DriveError>),
}

/// What a thread did.
enum Done {
    Turn(Box<EndedTurn>),
    /// `None` where it was interrupted.
    Check(Option<CheckFinish>),
    Merge(Merging),
}

impl<'a> SquadDriver<'a> {
    pub fn open(site: Site<'a>, launch: &'a Launch, run: SquadRun) -> Result<Self, DriveError> {
        launch.report(&site);
        let Launch { project, id, opening, loaded, .. } = launch;
        let world = site.world;
        let plan = &loaded.plan.squad;
        let trees = SquadWorktrees::find(project, loaded, world, id);
        let trees = trees.map_err(DriveError::NoRepository)?;
        let sandbox = ReviewSandbox::choose(Some(plan.sandbox), world)?;
        let place = RunPlace::of(&site, Kind::Squad, id.as_str())?;
        let lock = RunLock::take(&place)?;
        let durability = durability(&loaded.plan);
        let harness: Harness<'_, Squad> = Harness::open(*opening, &site, &place, lock, durability)?;
        sweep(site.state_dir, world);
        launch.keep_request(world)?;
        let rules = SquadRules {
            run,
            max_loops: plan.max_loops,
            max_iterations: plan.max_iterations,
            stall_iterations: loaded.plan.stall_iterations,
            checks: loaded.plan.checks.clone(),
        };
        let checks = harness.fold().checks.len() as u64;
        let site = Site { interrupts: site.interrupts.child(), ..site };
        let shared = Shared { site, launch, trees, sandbox, dir: place.dir };
        let shared = Arc::new(shared);
        let (busy, follower) = (BTreeSet::new(), Follower::start(&shared.site));
        let driver = SquadDriver { shared, harness, rules, busy, checks, follower };
        driver.check_agents()?;
        Ok(driver)
    }

    /// Carries the squad on until it ends or is interrupted.
    pub fn run(mut self, order: SquadOrder) -> Result<Squad, DriveError> {
        self.take(order)?;
        crate::process::allow_many_files();
        let ended = thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            let driven = self.dispatch(&Threads { scope, sender }, &receiver);
            if driven.is_err() {
                // Tool calls are refused from now on, and agents end.
                drop(receiver);
                self.shared.site.interrupts.raise(TERM);
            }
            driven
        });
        let behind = self.follower.and_then(Follower::finish);
        behind.iter().for_each(|note| self.shared.site.note(note));
        ended?;
        Ok(self.harness.into_fold())
    }

    fn squad(&self) -> &Squad {
        self.harness.fold()
    }

    fn plan(&self) -> &'a SquadPlan {
        &self.shared.launch.loaded.plan.squad
    }

    /// Records what a command asks for.
    fn take(&mut self, order: SquadOrder) -> Result<(), DriveError> {
        if let SquadOrder::Begin(spec) = order {
            return self.begin(spec);
        }
        if self.squad().start.is_none() {
            return Err(DriveError::NotBegun(self.squad().id.clone()));
        }
        let previous = self.squad().finish.as_ref().map(|finish| finish.outcome.clone());
        let previous_end = previous.unwrap_or_default();
        let resume = SquadResume { previous_end };
        let resolve = match order {
            SquadOrder::Resolve(resolve) => Some(resolve),
            SquadOrder::Begin(_) | SquadOrder::Continue => None,
        };
        self.record(|heading| {
            let resolve = resolve.map(|resolve| resolve.record(heading));
            [resume.record(heading)].into_iter().chain(resolve).collect()
        })?;
        self.report(SquadProgress::Resumed(self.squad()));
        Ok(())
    }

    fn begin(&mut self, spec: SquadSpec) -> Result<(), DriveError> {
        let plan = self.plan();
        let start = SquadStart {
            spec: spec.text.as_str().into(),
            effort: plan.effort.into(),
            max_loops: plan.max_loops,
            base: self.shared.trees.head()?,
            planned: spec.plan.is_some().then_some(true),
        };
        let GivenPlan { tasks, groups } = spec.plan.unwrap_or_default();
        self.record(|heading| {
            let task = |task: &Task| SquadTask {
                turn: None,
                task_id: task.id.clone(),
                title: task.title.clone(),
                description: task.description.clone(),
                acceptance: task.acceptance.clone(),
            };
            let group = |tasks: &Vec<String>| SquadGroup { turn: None, tasks: tasks.join(",") };
            let tasks = tasks.iter().map(|it| task(it).record(heading));
            let groups = groups.iter().map(|it| group(it).record(heading));
            [start.record(heading)].into_iter().chain(tasks).chain(groups).collect()
        })?;
        self.report(SquadProgress::Began(self.squad()));
        let (tasks, groups) = (self.squad().tasks.len(), self.squad().groups.len());
        if groups > 0 {
            self.report(SquadProgress::Planned { tasks, groups });
        }
        Ok(())
    }

    /// Starts what can be started, and records what is reported, until nothing is left to do.
    fn dispatch<'s>(
        &mut self,
        threads: &Threads<'s, '_>,
        receiver: &Receiver<Message>,
    ) -> Result<(), DriveError>
    where
        'a: 's,
    {
        loop {
            let is_interrupted = self.shared.site.interrupts.are_raised();
            if !is_interrupted {
                self.start_steps(threads)?;
            }
            if self.squad().finish.is_some() {
                return Ok(());
            }
            if self.busy.is_empty() && is_interrupted {
                let finish =
                    SquadFinish { outcome: SquadEnd::Interrupted.into(), ..Default::default() };
                return self.record(|heading| vec![finish.record(heading)]);
            }
            match receiver.recv() {
                Ok(Message::Call(call)) => self.answer(call)?,
                Ok(Message::Waiting(waiting)) => {
                    self.harness.record_quietly("", |heading| waiting.record(None, heading))?;
                }
                Ok(Message::Ended(lane, done)) => {
                    self.busy.remove(&lane);
                    self.apply(lane, done?, threads)?;
                }
                // This function has a sender.
                Err(_) => return Ok(()),
            }
        }
    }

    /// Starts every step whose lane is free. Steps that are only recorded come first, because they change what is next.
    fn start_steps<'s>(&mut self, threads: &Threads<'s, '_>) -> Result<(), DriveError>
    where
        'a: 's,
    {
        loop {
            let steps = within_limits(
                next_steps(self.squad(), &self.rules),
                self.squad(),
                &self.shared.launch.loaded.plan.limits,
                self.shared.site.world.clock.now(),
            );
            let mut is_recorded = false;
            for step in steps {
                is_recorded |= match step {
                    Step::Settle(review) => self.settle(&review)?,
                    Step::FinishLoop(finish) => {
                        self.record(|heading| vec![finish.record(heading)])?;
                        let (loop_id, reason) = (&*finish.loop_id, &*finish.reason);
                        let how = finish.outcome.as_str();
                        self.report(SquadProgress::Blocked { loop_id, how, reason });
                        true
                    }
                    // What is under way is decided by other steps.
                    Step::Finish(_) if !self.busy.is_empty() => false,
                    Step::Finish(finish) => {
                        self.record(|heading| vec![finish.record(heading)])?;
                        return Ok(());
                    }
                    Step::Open { group, tasks } => self.open_loops(group, &tasks)?,
                    Step::Checkpoint { loops } => self.checkpoint(&loops, threads)?,
                    step => self.start_step(step, threads)?,
                };
                if is_recorded {
                    break;
                }
            }
            if !is_recorded {
                return Ok(());
            }
        }
    }

    /// Starts a step in a thread, unless its lane has one. Returns whether anything was recorded.
    fn start_step<'s>(&mut self, step: Step, threads: &Threads<'s, '_>) -> Result<bool, DriveError>
    where
        'a: 's,
    {
        let lane = step.lane(self.squad());
        if self.busy.contains(&lane) {
            return Ok(false);
        }
        match step {
            Step::Phase { phase, attempt } => {
                let commit = Some(self.squad().head().to_owned());
                let start =
                    SquadTurn { phase: phase.into(), attempt, commit, ..Default::default() };
                self.start_turns(vec![(lane, start)], "", threads)?;
            }
            Step::Build { loop_id } => {
                let Some(it) = self.squad().find(&loop_id) else { return Ok(false) };
                let start = SquadTurn {
                    phase: it.phase().into(),
                    loop_id: Some(loop_id),
                    task_id: Some(it.task_id.clone()),
                    attempt: it.revisions + it.reopened,
                    ..SquadTurn::default()
                };
                self.start_turns(vec![(lane, start)], "", threads)?;
            }
            Step::Review { subject, loop_id, attempt, commit } => {
                let it = loop_id.as_deref().and_then(|id| self.squad().find(id));
                let is_checkpoint = subject == SquadSubject::Progress;
                let phase = if is_checkpoint { SquadPhase::Checkpoint } else { SquadPhase::Review };
                let start = SquadTurn {
                    phase: phase.into(),
                    subject: Some(subject.into()),
                    task_id: it.filter(|_| !is_checkpoint).map(|it| it.task_id.clone()),
                    loop_id,
                    attempt,
                    commit: Some(commit),
                    ..SquadTurn::default()
                };
                self.start_turns(vec![(lane, start)], "", threads)?;
            }
            Step::Check { check, commit, .. } => {
                self.checks += 1;
                let number = self.checks;
                self.spawn(lane, threads, move |shared, _| {
                    Ok(Done::Check(shared.check(&check, &commit, number)?))
                })?;
            }
            Step::Merge { loop_id } => {
                let squad = Arc::new(self.squad().clone());
                let checks = self.rules.checks.clone();
                let first = self.checks + 1;
                self.checks += checks.len() as u64;
                self.spawn(lane, threads, move |shared, _| {
                    Ok(Done::Merge(shared.merge(&squad, &loop_id, &checks, first)?))
                })?;
            }
            Step::Open { .. }
            | Step::Checkpoint { .. }
            | Step::Settle(_)
            | Step::FinishLoop(_)
            | Step::Finish(_) => return Ok(false),
        }
        // What is open now may leave less room for the next step.
        Ok(true)
    }

    /// Records turns and starts their agents, all at once. `files` are those in conflict.
    fn start_turns<'s>(
        &mut self,
        turns: Vec<(Lane, SquadTurn)>,
        files: &str,
        threads: &Threads<'s, '_>,
    ) -> Result<(), DriveError>
    where
        'a: 's,
    {
        let first = self.squad().next_turn();
        let draw = || Ticket::draw(&*self.shared.site.world.entropy);
        let turns: Vec<(Lane, SquadTurn, Ticket)> = (first..)
            .zip(turns)
            .map(|(turn, (lane, start))| {
                let ticket = draw();
                (lane, SquadTurn { turn, ticket: ticket.digest(), ..start }, ticket)
            })
            .collect();
        let starts: Vec<SquadTurn> = turns.iter().map(|(_, start, _)| start.clone()).collect();
        self.record(|heading| starts.iter().map(|start| start.record(heading)).collect())?;
        let squad = Arc::new(self.squad().clone());
        for (lane, start, ticket) in turns {
            self.report(SquadProgress::Turn(&start));
            let backend = self.backend_of(&start);
            let squad = Arc::clone(&squad);
            let order = TurnOrder { squad, start, ticket, backend, files: files.to_owned() };
            self.spawn(lane, threads, move |shared, sender| {
                Ok(Done::Turn(Box::new(shared.run_turn(order, sender)?)))
            })?;
        }
        Ok(())
    }

    /// Does a piece of work in a thread, and reports the result.
    fn spawn<'s>(
        &mut self,
        lane: Lane,
        threads: &Threads<'s, '_>,
        work: impl FnOnce(&Shared<'a>, &Sender<Message>) -> Result<Done, DriveError> + Send + 's,
    ) -> Result<(), DriveError>
    where
        'a: 's,
    {
        self.busy.insert(lane);
        let (shared, sender) = (Arc::clone(&self.shared), threads.sender.clone());
        let work = move || {
            let done = catch_unwind(AssertUnwindSafe(|| work(&shared, &sender)));
            let (done, panic) = match done {
                Ok(done) => (done, None),
                Err(panic) => (Err(DriveError::Panicked), Some(panic)),
            };
            // The dispatcher is gone only where the run failed.
            let _ = sender.send(Message::Ended(lane, done));
            if let Some(panic) = panic {
                resume_unwind(panic);
            }
        };
        let started =
            thread::Builder::new().name("squad".to_owned()).spawn_scoped(threads.scope, work);
        started.map(drop).map_err(DriveError::NoThread)
    }

    /// The agent of a turn, with the time that the limits leave for it.
    fn backend_of(&self, start: &SquadTurn) -> BackendPlan {
        use limits::Scope::{Iteration, Review, Run, Slot};

        let plan = self.plan();
        let (backend, scope) = match start.phase.known() {
            Some(SquadPhase::Build | SquadPhase::Revise | SquadPhase::Conflict) => {
                (plan.builder.clone(), Iteration)
            }
            Some(SquadPhase::Enumerate | SquadPhase::Plan) => (plan.planner.clone(), Iteration),
            _ => (plan.reviewer.clone(), Review),
        };
        let limits = &self.shared.launch.loaded.plan.limits;
        let now = self.shared.site.world.clock.now();
        let left = match &start.loop_id {
            Some(id) => self.squad().ledger.time_left(id, &[Run, Slot, scope], limits, now),
            None => self.squad().ledger.time_left("", &[Run, scope], limits, now),
        };
        backend.within(left)
    }

    /// Begins loops, or begins them again, at the work that was merged. All worktrees are registered before an agent
    /// works in any of them.
    fn open_loops(&mut self, group: u64, tasks: &[String]) -> Result<bool, DriveError> {
        let base = self.shared.trees.head()?;
        let trees = &self.shared.trees;
        if !trees.repository().contains(&base, self.squad().head())? {
            let merged = self.squad().head().to_owned();
            let reason = format!(
                "the commit checked out in the project does not contain {merged}, where the squad merged last"
            );
            let finish = SquadFinish {
                outcome: SquadEnd::MergeRefused.into(),
                reason,
                ..SquadFinish::default()
            };
            self.record(|heading| vec![finish.record(heading)])?;
            return Ok(true);
        }
        let mut starts = Vec::new();
        let mut next = self.squad().loops.len() as u64 + 1;
        for task_id in tasks {
            let squad = self.squad();
            let subject = squad.subject_of(task_id);
            let known = squad.loop_of(task_id);
            let number = known.map_or(next, |it| it.number);
            let name = number.to_string();
            let place = self.shared.trees.place(&name);
            match known {
                Some(it) => {
                    let spec = LoopSpec { id: &name, base: &it.base, subject: &subject };
                    let commit = it.work.as_ref().map_or(&*it.base, |work| &work.commit);
                    let kept = self.shared.trees.reopen(&spec, commit, &base)?;
                    self.shared.site.note(&format!(
                        "{} begins again; its earlier work is on branch {kept}",
                        it.id
                    ));
                }
                None => {
                    let spec = LoopSpec { id: &name, base: &base, subject: &subject };
                    self.shared.trees.begin(&spec)?;
                    next += 1;
                }
            }
            starts.push(SquadLoop {
                loop_id: squad.loop_id(number),
                task_id: task_id.clone(),
                group,
                branch: place.branch,
                tree: place.dir.display().to_string(),
                base: base.clone(),
            });
        }
        self.record(|heading| starts.iter().map(|start| start.record(heading)).collect())?;
        for record in &starts {
            let title = self.squad().task(&record.task_id).map(|task| task.title.clone());
            let title = title.unwrap_or_default();
            self.report(SquadProgress::Loop { record, title: &title });
        }
        Ok(true)
    }

    /// Starts the reviews of all active loops together, each of the state that its worktree has now.
    fn checkpoint<'s>(
        &mut self,
        loops: &[String],
        threads: &Threads<'s, '_>,
    ) -> Result<bool, DriveError>
    where
        'a: 's,
    {
        let mut turns = Vec::new();
        for it in loops.iter().filter_map(|id| self.squad().find(id)) {
            let name = it.number.to_string();
            let subject = self.squad().subject_of(&it.task_id);
            let spec = LoopSpec { id: &name, base: &it.base, subject: &subject };
            let commit = match self.shared.trees.capture(&spec) {
                Ok(work) => work.commit,
                // What was captured last is still there.
                Err(_) => it.work.as_ref().map_or(&it.base, |work| &work.commit).clone(),
            };
            let start = SquadTurn {
                phase: SquadPhase::Checkpoint.into(),
                subject: Some(SquadSubject::Progress.into()),
                loop_id: Some(it.id.clone()),
                commit: Some(commit),
                ..SquadTurn::default()
            };
            turns.push((Lane::Checkpoint(it.number), start));
        }
        self.start_turns(turns, "", threads)?;
        Ok(true)
    }

    fn settle(&mut self, review: &SquadReview) -> Result<bool, DriveError> {
        self.record(|heading| vec![review.record(heading)])?;
        let feedback = self.squad().feedback(review);
        let line = |text: &String| first_line(text, 200);
        let issues = feedback.issues.iter().filter_map(|issue| issue.description.as_ref());
        let issues: Vec<String> = issues.map(line).collect();
        self.report(SquadProgress::Reviewed { record: review, issues: &issues });
        Ok(true)
    }

    /// Records what a thread did.
    fn apply<'s>(
        &mut self,
        lane: Lane,
        done: Done,
        threads: &Threads<'s, '_>,
    ) -> Result<(), DriveError>
    where
        'a: 's,
    {
        match done {
            Done::Turn(ended) => self.end_turn(*ended),
            Done::Check(None) => Ok(()),
            Done::Check(Some(check)) => {
                self.record(|heading| vec![check.record(heading)])?;
                let id = match lane {
                    Lane::Loop(number) | Lane::Checkpoint(number) => {
                        Some(self.squad().loop_id(number))
                    }
                    Lane::Run => None,
                };
                self.report(SquadProgress::Checked { loop_id: id.as_deref(), check: &check });
                Ok(())
            }
            Done::Merge(merging) => self.end_merge(lane, merging, threads),
        }
    }

    /// Records the end of a turn, behind its usage. One that was interrupted is repeated when the squad is resumed.
    fn end_turn(&mut self, ended: EndedTurn) -> Result<(), DriveError> {
        let EndedTurn { start, backend, finished, violations, held_by, work } = ended;
        let missing = |why| self.agent_missing(why, start.phase.known());
        let error = client_failure(&finished, &backend, missing);
        let is_repeated = error.is_some() || finished.cause == Cause::Interrupt;
        let usage = usage(&finished, &backend, start.phase.as_str());
        if is_repeated {
            if let Some(usage) = usage {
                self.record(|heading| vec![usage.record(heading)])?;
            }
            return error.map_or(Ok(()), Err);
        }
        notes(&finished).iter().for_each(|note| self.shared.site.note(note));
        let who = match start.phase.known() {
            Some(SquadPhase::Build | SquadPhase::Revise) => "builder",
            Some(SquadPhase::Review | SquadPhase::Checkpoint) => "reviewer",
            Some(SquadPhase::Enumerate | SquadPhase::Plan) => "planner",
            Some(SquadPhase::Conflict) | None => "agent",
        };
        let reason = failure(&finished, &backend).map(|failure| failure.of(who));
        let finish = SquadTurnFinish {
            turn: start.turn,
            loop_id: start.loop_id.clone(),
            exit_code: finished.exit_code().into(),
            timed_out: finished.timed_out(),
            elapsed_ms: millis(finished.elapsed),
            reason: work.reason.or(reason),
            commit: work.commit,
            tree: work.tree,
            enforcement: held_by.map(Into::into),
            output: Some(recorded(&finished).into()),
        };
        self.record(|heading| {
            let usage = usage.map(|usage| usage.record(heading));
            let violations = violations.iter().map(|violation| violation.record(heading));
            violations.chain(usage).chain([finish.record(heading)]).collect()
        })?;
        let about = start.loop_id.as_ref().map(|id| format!("{id}: ")).unwrap_or_default();
        note_violations(&violations, &about, &self.shared.site);
        self.report(SquadProgress::TurnFinished(&start, &finish));
        if let Some(it) = start.loop_id.as_deref().and_then(|id| self.squad().find(id))
            && it.state == LoopState::Failed
        {
            let (loop_id, reason, how) = (&*it.id, &*it.reason, it.state.name());
            self.report(SquadProgress::Blocked { loop_id, how, reason });
        }
        let (tasks, groups) = (self.squad().tasks.len(), self.squad().groups.len());
        if let Some(phase @ (SquadPhase::Enumerate | SquadPhase::Plan)) = start.phase.known() {
            match self.squad().phase_problem(phase) {
                Some(problem) => self.shared.site.note(&problem),
                None => self.report(SquadProgress::Planned { tasks, groups }),
            }
        }
        Ok(())
    }

    /// Records a merge. A conflict that no agent has worked on yet is given to one.
    fn end_merge<'s>(
        &mut self,
        lane: Lane,
        merging: Merging,
        threads: &Threads<'s, '_>,
    ) -> Result<(), DriveError>
    where
        'a: 's,
    {
        match merging {
            Merging::Interrupted => Ok(()),
            Merging::Done { merge, checks } => {
                self.record(|heading| {
                    let checks = checks.iter().map(|check| check.record(heading));
                    checks.chain([merge.record(heading)]).collect()
                })?;
                for check in &checks {
                    let loop_id = Some(&*merge.loop_id);
                    self.report(SquadProgress::Checked { loop_id, check });
                }
                self.report(SquadProgress::Merged(&merge));
                Ok(())
            }
            Merging::Conflict { loop_id, head, files } => {
                let Some(it) = self.squad().find(&loop_id) else { return Ok(()) };
                let next = self.squad().next_turn().to_string();
                let begin =
                    limits::Start { lane: next, step: SquadPhase::Conflict.name().to_owned() };
                let limits = &self.shared.launch.loaded.plan.limits;
                let now = self.shared.site.world.clock.now();
                if let Err(reached) = self.squad().ledger.reserve(&begin, limits, now) {
                    let finish = stopped(reached);
                    return self.record(|heading| vec![finish.record(heading)]);
                }
                let start = SquadTurn {
                    phase: SquadPhase::Conflict.into(),
                    task_id: Some(it.task_id.clone()),
                    loop_id: Some(loop_id),
                    commit: Some(head),
                    ..SquadTurn::default()
                };
                self.start_turns(vec![(lane, start)], &files, threads)
            }
        }
    }

    /// Answers a tool call. What it amounts to is stored first, whole or not at all.
    fn answer(&mut self, call: ToolCall) -> Result<(), DriveError> {
        let ToolCall { turn, tool, arguments, reply } = call;
        let answer = match squad_tools::call(self.squad(), turn, &tool, &arguments) {
            Ok(accepted) => {
                if let Some(event) = accepted.event {
                    self.record(|heading| vec![event.record(heading)])?;
                }
                Ok(accepted.answer)
            }
            Err(refusal) => Err(Failure::refused(refusal.to_string())),
        };
        // The agent need not wait for the answer.
        let _ = reply.send(answer);
        Ok(())
    }

    fn report(&self, progress: SquadProgress<'_>) {
        self.shared.site.report(Progress::Squad(progress));
    }

    fn record(&mut self, records: impl FnOnce(&Heading) -> Vec<Record>) -> Result<(), DriveError> {
        let note = self.harness.record_refusing("", records)?;
        self.follower.iter().for_each(Follower::poke);
        note.iter().for_each(|note| self.shared.site.note(note));
        Ok(())
    }

    /// Looks the programs of all agents up before anything is recorded: a missing one is a mistake in the settings.
    fn check_agents(&self) -> Result<(), DriveError> {
        let dir = &self.shared.launch.project.dir;
        let plan = self.plan();
        for (backend, phase) in [
            (&plan.builder, SquadPhase::Build),
            (&plan.reviewer, SquadPhase::Review),
            (&plan.planner, SquadPhase::Plan),
        ] {
            look_up(backend, dir, self.shared.site.world)
                .map_err(|why| self.agent_missing(why, Some(phase)))?;
        }
        Ok(())
    }

    /// The program of an agent is missing; names the setting.
    fn agent_missing(&self, why: String, phase: Option<SquadPhase>) -> DriveError {
        let loaded = &self.shared.launch.loaded;
        let key = match phase {
            Some(SquadPhase::Review | SquadPhase::Checkpoint) => Key::SquadReviewerCommand,
            Some(SquadPhase::Enumerate | SquadPhase::Plan) => Key::SquadPlannerCommand,
            _ => Key::SquadBuilderCommand,
        };
        let has_own = loaded.settings.origin(key) != Origin::Default;
        let key = if has_own { key } else { Key::BackendCommand };
        LaunchError::NoAgent { why, setting: loaded.named(key) }.into()
    }
}

/// Removes worktrees and branches of a run whose work is in the project.
pub fn clean_squad(site: &Site<'_>, launch: &Launch) -> Result<Cleaned, DriveError> {
    let Launch { project, id, loaded, .. } = launch;
    let place = RunPlace::of(site, Kind::Squad, id.as_str())?;
    let _lock = RunLock::take(&place)?;
    Ok(SquadWorktrees::find(project, loaded, site.world, id)?.clean()?)
}
