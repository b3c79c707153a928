//! The decisions of a squad, from the fold and the rules only.

use super::{Feedback, Loop, LoopState, Round, Squad, Turn, TurnState};
use crate::config::Check;
use crate::limits::{self, Limit, Reached, RunLimits};
use crate::record::{
    LoopEnd, SquadEnd, SquadFinish, SquadLoopFinish, SquadPhase, SquadReview, SquadSubject,
};
use crate::review::Verdict;
use crate::text::first_line;
use crate::timestamp::Timestamp;

/// How often the agent of a phase of the run is asked again that produced nothing usable.
const PHASE_REPAIRS: u64 = 1;

/// How far a squad is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SquadRun {
    /// Until there is a plan.
    Plan,
    Build,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SquadRules {
    pub run: SquadRun,
    /// How many loops work at once.
    pub max_loops: u64,
    /// Of each loop.
    pub max_iterations: u64,
    /// Iterations of a loop without progress, or with the same error, after which it is stuck; `None` for never.
    pub stall_iterations: Option<u64>,
    pub checks: Vec<Check>,
}

/// Where one step follows another. Steps of different lanes are carried out at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    Run,
    /// By the number of the loop.
    Loop(u64),
    Checkpoint(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// An agent writes the tasks or the plan.
    Phase {
        phase: SquadPhase,
        attempt: u64,
    },
    /// Loops begin, or begin again, at the work that was merged.
    Open {
        /// Counted from 1.
        group: u64,
        tasks: Vec<String>,
    },
    Build {
        loop_id: String,
    },
    /// All active loops are reviewed together.
    Checkpoint {
        loops: Vec<String>,
    },
    Review {
        subject: SquadSubject,
        loop_id: Option<String>,
        /// Counted from 0.
        attempt: u64,
        commit: String,
    },
    Check {
        lane: Lane,
        check: Check,
        commit: String,
    },
    Settle(SquadReview),
    FinishLoop(SquadLoopFinish),
    Merge {
        loop_id: String,
    },
    Finish(SquadFinish),
}

/// What can be carried out now; nothing while only agents work.
pub fn next_steps(squad: &Squad, rules: &SquadRules) -> Vec<Step> {
    if squad.finish.is_some() || squad.start.is_none() {
        return Vec::new();
    }
    for phase in [RunPhase::ENUMERATE, RunPhase::PLAN] {
        if let Progress::Under(steps) = phase.progress(squad, rules) {
            return steps;
        }
    }
    match rules.run {
        SquadRun::Plan if squad.loops.is_empty() => {
            vec![finished(SquadEnd::Planned, String::new())]
        }
        _ => build(squad, rules),
    }
}

/// Whether a phase of the run is over.
enum Progress {
    Under(Vec<Step>),
    Over,
}

/// A phase in which one agent writes a list, before loops begin.
struct RunPhase {
    phase: SquadPhase,
    subject: SquadSubject,
}

impl RunPhase {
    const ENUMERATE: RunPhase =
        RunPhase { phase: SquadPhase::Enumerate, subject: SquadSubject::Enumerate };
    const PLAN: RunPhase = RunPhase { phase: SquadPhase::Plan, subject: SquadSubject::Plan };

    fn progress(&self, squad: &Squad, rules: &SquadRules) -> Progress {
        if squad.start.as_ref().is_some_and(|start| start.is_planned) || !squad.loops.is_empty() {
            return Progress::Over;
        }
        let turns: Vec<&Turn> = squad.phase_turns(self.phase).collect();
        if turns.iter().any(|turn| turn.state == TurnState::Open) {
            return Progress::Under(Vec::new());
        }
        let write = || {
            let attempt = turns.len() as u64;
            Progress::Under(vec![Step::Phase { phase: self.phase, attempt }])
        };
        let Some(last) = turns.last() else { return write() };
        let round = Round::of_run(squad, self.subject, last.number());
        if let Some(problem) = squad.phase_problem(self.phase) {
            let reviewed = squad.reviews.iter().rfind(|review| review.subject == self.subject);
            let floor = reviewed.map_or(0, |review| review.turn).max(squad.retried_after);
            let tried = turns.iter().filter(|turn| turn.number() > floor).count() as u64;
            return match tried > PHASE_REPAIRS {
                true => ended(SquadEnd::PhaseFailed, problem),
                false => write(),
            };
        }
        if !squad.effort().reviews(self.subject) {
            return Progress::Over;
        }
        match round.decided() {
            Some(review) if review.verdict == Verdict::Pass => Progress::Over,
            Some(review) if squad.has_failed_for_good(self.subject) => {
                ended(SquadEnd::ReviewFailed, why_failed(squad, review))
            }
            Some(_) => write(),
            None => Progress::Under(round.step(rules).into_iter().collect()),
        }
    }
}

fn ended(end: SquadEnd, reason: String) -> Progress {
    Progress::Under(vec![finished(end, reason)])
}

fn finished(end: SquadEnd, reason: String) -> Step {
    Step::Finish(SquadFinish { outcome: end.into(), reason, raise: None })
}

/// Why a phase of the run is not accepted, in one line.
fn why_failed(squad: &Squad, review: &SquadReview) -> String {
    let feedback = squad.feedback(review);
    let issue = feedback.issues.first().and_then(|issue| issue.description.as_deref());
    let why = [feedback.reason.as_str(), issue.unwrap_or_default()];
    let why = why.into_iter().find(|why| !why.is_empty()).unwrap_or("no issue was named");
    let subject = &review.subject;
    format!(
        "the review of '{subject}' did not pass after the last revision: {}",
        first_line(why, 200)
    )
}

impl Squad {
    /// The turns of a phase of the run that were not lost.
    fn phase_turns(&self, phase: SquadPhase) -> impl Iterator<Item = &Turn> {
        let is_it =
            move |turn: &&Turn| turn.phase() == Some(phase) && turn.state != TurnState::Lost;
        self.turns.iter().filter(is_it)
    }

    /// Why what the last turn of a phase wrote cannot be used.
    pub fn phase_problem(&self, phase: SquadPhase) -> Option<String> {
        let end = self.phase_turns(phase).last()?.end()?;
        if let Some(reason) = &end.reason {
            return Some(reason.clone());
        }
        let tool = match phase {
            SquadPhase::Enumerate if self.tasks.is_empty() => "write_task",
            SquadPhase::Plan if self.groups.is_empty() => "add_plan_group",
            SquadPhase::Plan => return self.forgotten(),
            _ => return None,
        };
        Some(format!("the planner ended without a call of {tool}"))
    }

    /// The tasks that are in no group.
    fn forgotten(&self) -> Option<String> {
        let is_forgotten = |id: &&str| !self.groups.iter().flatten().any(|other| other == id);
        let forgotten: Vec<&str> =
            self.tasks.iter().map(|task| &*task.id).filter(is_forgotten).collect();
        (!forgotten.is_empty())
            .then(|| format!("no group of the plan has {}", forgotten.join(", ")))
    }

    /// The last review of a phase of the run, if it did not pass.
    pub fn phase_review(&self, subject: SquadSubject) -> Option<&SquadReview> {
        let last = self.reviews.iter().rfind(|review| review.subject == subject)?;
        (last.verdict != Verdict::Pass).then_some(last)
    }

    /// Whether a phase of the run did not pass its reviews, and has no revision left.
    fn has_failed_for_good(&self, subject: SquadSubject) -> bool {
        let is_failed = |review: &&SquadReview| {
            review.subject == subject
                && review.verdict != Verdict::Pass
                && review.turn > self.retried_after
        };
        self.reviews.iter().filter(is_failed).count() as u64 > self.effort().revisions()
    }

    /// The loops of a group, in order; `None` for a task without a loop.
    fn group_loops<'s>(
        &'s self,
        group: &'s [String],
    ) -> impl Iterator<Item = (&'s str, Option<&'s Loop>)> {
        group.iter().map(|task| (&**task, self.loop_of(task)))
    }

    fn is_group_done(&self, group: &[String]) -> bool {
        let is_done = |it: &Loop| matches!(it.state, LoopState::Merged | LoopState::Skipped);
        self.group_loops(group).all(|(_, it)| it.is_some_and(is_done))
    }
}

fn build(squad: &Squad, rules: &SquadRules) -> Vec<Step> {
    if let Some(why) = &squad.merge_refused {
        return vec![finished(SquadEnd::MergeRefused, why.clone())];
    }
    if let Some(review) = squad.phase_review(SquadSubject::Build)
        && squad.has_failed_for_good(SquadSubject::Build)
    {
        return vec![finished(SquadEnd::ReviewFailed, why_failed(squad, review))];
    }
    let Some(place) = squad.groups.iter().position(|group| !squad.is_group_done(group)) else {
        return judge_result(squad, rules);
    };
    let group = &squad.groups[place];
    let loops: Vec<&Loop> = squad.group_loops(group).filter_map(|(_, it)| it).collect();
    let is_ready = |it: &&Loop| it.state.is_joined() || it.state == LoopState::Reopened;
    if loops.len() == group.len() && loops.iter().all(is_ready) {
        // What passed is merged first, so that what begins again begins with it.
        if let Some(it) = loops.iter().find(|it| it.state == LoopState::Passed) {
            return vec![Step::Merge { loop_id: it.id.clone() }];
        }
    }
    let mut tasks = Vec::new();
    let mut steps = Vec::new();
    for (task, it) in squad.group_loops(group) {
        match it {
            None => tasks.push(task.to_owned()),
            Some(it) if it.state == LoopState::Reopened => match squad.stuck(it, rules) {
                Some(why) => steps.push(stuck(it, why)),
                None => tasks.push(task.to_owned()),
            },
            Some(_) => {}
        }
    }
    if !tasks.is_empty() {
        steps.push(Step::Open { group: place as u64 + 1, tasks });
        return steps;
    }
    steps.extend(checkpoint(squad, &loops));
    let is_checked = |it: &Loop| steps.iter().any(|step| step.reviews(&it.id));
    let free: Vec<&Loop> = loops.iter().copied().filter(|it| !is_checked(it)).collect();
    let active = active(squad, &loops, rules);
    for it in free {
        if it.checkpoint.is_some() || active.contains(&it.number) {
            steps.extend(loop_step(squad, it, rules));
        }
    }
    if steps.is_empty() && squad.open_turns().next().is_none() {
        steps.push(finished(SquadEnd::Blocked, blocked(&loops)));
    }
    steps
}

/// The numbers of the loops that may work: those where an agent works first, then those that have begun.
fn active(squad: &Squad, loops: &[&Loop], rules: &SquadRules) -> Vec<u64> {
    let is_unfinished =
        |it: &&&Loop| matches!(it.state, LoopState::Building | LoopState::Completed);
    let mut unfinished: Vec<&Loop> = loops.iter().filter(is_unfinished).copied().collect();
    unfinished.sort_by_key(|it| {
        let is_idle = !squad.open_turns().any(|turn| turn.is_of(&it.id));
        (is_idle, !it.has_begun(squad), it.number)
    });
    let most = usize::try_from(rules.max_loops).unwrap_or(usize::MAX);
    unfinished.into_iter().take(most).map(|it| it.number).collect()
}

/// What a loop needs next; `None` while it waits for an agent or for its group.
fn loop_step(squad: &Squad, it: &Loop, rules: &SquadRules) -> Option<Step> {
    if let Some(round) = Round::of_checkpoint(squad, it) {
        return round.step(rules);
    }
    match it.state {
        LoopState::Building => {
            let is_open = |turn: &Turn| turn.is_of(&it.id) && turn.is_builder();
            if squad.open_turns().any(is_open) {
                return None;
            }
            Some(match squad.stuck(it, rules) {
                Some(why) => stuck(it, why),
                None => Step::Build { loop_id: it.id.clone() },
            })
        }
        LoopState::Completed => Round::of_task(squad, it).step(rules),
        _ => None,
    }
}

/// A review of all active loops, when one of them reaches the interval. Loops without a new iteration have nothing new
/// to show.
fn checkpoint(squad: &Squad, loops: &[&Loop]) -> Option<Step> {
    let interval = squad.effort().checkpoint_interval()?;
    let since = |it: &Loop| it.iteration.saturating_sub(it.checkpoint_at);
    let is_active =
        |it: &&&Loop| it.state == LoopState::Building && it.checkpoint.is_none() && since(it) > 0;
    let active: Vec<&&Loop> = loops.iter().filter(is_active).collect();
    let is_due = active.iter().any(|it| since(it) >= interval);
    let loops = || active.iter().map(|it| it.id.clone()).collect();
    is_due.then(|| Step::Checkpoint { loops: loops() })
}

/// The review of all merged work.
fn judge_result(squad: &Squad, rules: &SquadRules) -> Vec<Step> {
    let round = Round::of_run(squad, SquadSubject::Build, squad.merged_after);
    match round.decided() {
        Some(review) if review.verdict == Verdict::Pass => {
            vec![finished(SquadEnd::Completed, String::new())]
        }
        Some(review) => vec![finished(SquadEnd::ReviewFailed, why_failed(squad, review))],
        None => round.step(rules).into_iter().collect(),
    }
}

impl Squad {
    /// Why a loop gets no further turn.
    fn stuck(&self, it: &Loop, rules: &SquadRules) -> Option<String> {
        let revisions = self.effort().revisions();
        if it.revisions > revisions {
            let feedback = it.feedback.as_ref().map(Feedback::render).unwrap_or_default();
            let why = first_line(&feedback, 300);
            return Some(format!("{revisions} revisions did not pass: {why}"));
        }
        if let Some(most) = rules.stall_iterations {
            if it.stall.errors >= most {
                let error = first_line(it.stall.error(), 300);
                return Some(format!("the same error in {most} iterations: {error}"));
            }
            if it.stall.idle >= most {
                return Some(format!(
                    "no progress in {most} iterations: its files did not change, and its agent reported nothing"
                ));
            }
        }
        let done = it.iteration.saturating_sub(it.retried_at);
        (done >= rules.max_iterations)
            .then(|| format!("not completed after {done} iterations (squad.max_iterations)"))
    }
}

fn stuck(it: &Loop, reason: String) -> Step {
    let loop_id = it.id.clone();
    Step::FinishLoop(SquadLoopFinish { loop_id, outcome: LoopEnd::Stuck.into(), reason })
}

/// The loops that keep a group from being merged, and why.
fn blocked(loops: &[&Loop]) -> String {
    let blocked = loops.iter().filter(|it| it.state.is_blocked());
    let name = |it: &&Loop| {
        format!(
            "{} ({}) is {}: {}",
            it.id,
            it.task_id,
            it.state.name(),
            first_line(&it.reason, 300)
        )
    };
    blocked.map(name).collect::<Vec<_>>().join("; ")
}

impl Step {
    pub fn lane(&self, squad: &Squad) -> Lane {
        let of = |id: &str| squad.find(id).map_or(Lane::Run, |it| Lane::Loop(it.number));
        match self {
            Step::Build { loop_id } | Step::Merge { loop_id } => of(loop_id),
            Step::Review { subject: SquadSubject::Progress, loop_id, .. } => {
                match of(loop_id.as_deref().unwrap_or_default()) {
                    Lane::Loop(number) => Lane::Checkpoint(number),
                    lane => lane,
                }
            }
            Step::Review { loop_id, .. } => loop_id.as_deref().map_or(Lane::Run, of),
            Step::Check { lane, .. } => *lane,
            Step::Phase { .. }
            | Step::Open { .. }
            | Step::Checkpoint { .. }
            | Step::Settle(_)
            | Step::FinishLoop(_)
            | Step::Finish(_) => Lane::Run,
        }
    }

    /// What its agent does, and for which loop; `None` without an agent.
    fn agent<'s>(&self, squad: &'s Squad) -> Option<(SquadPhase, Option<&'s Loop>)> {
        match self {
            Step::Phase { phase, .. } => Some((*phase, None)),
            Step::Build { loop_id } => {
                let it = squad.find(loop_id)?;
                Some((it.phase(), Some(it)))
            }
            Step::Checkpoint { .. } => Some((SquadPhase::Checkpoint, None)),
            Step::Review { subject, loop_id, .. } => {
                let phase = match subject {
                    SquadSubject::Progress => SquadPhase::Checkpoint,
                    _ => SquadPhase::Review,
                };
                Some((phase, loop_id.as_deref().and_then(|id| squad.find(id))))
            }
            _ => None,
        }
    }

    /// Whether it is a checkpoint of a loop.
    fn reviews(&self, id: &str) -> bool {
        matches!(self, Step::Checkpoint { loops } if loops.iter().any(|other| other == id))
    }
}

/// The steps for which the limits leave room. A loop at its own limit is stuck; a run at its limit ends when its open
/// turns have ended.
pub fn within_limits(
    steps: Vec<Step>,
    squad: &Squad,
    limits: &RunLimits,
    now: Timestamp,
) -> Vec<Step> {
    let within_loop = |step: &Step| {
        let (phase, it) = step.agent(squad).and_then(|(phase, it)| Some((phase, it?)))?;
        let decided = squad.ledger.reserve_in_slot(&it.id, phase.name(), limits);
        decided.err().map(|reached| stuck(it, reached.detail))
    };
    let steps = steps.into_iter().map(|step| within_loop(&step).unwrap_or(step));
    let steps: Vec<Step> = steps.collect();
    let (agents, mut others): (Vec<Step>, Vec<Step>) =
        steps.into_iter().partition(|step| step.agent(squad).is_some());
    if agents.is_empty() {
        return others;
    }
    // No turn has such a number, so each counts as one more.
    let mut numbers = squad.next_turn()..;
    let start = |step: &Step| limits::Start {
        lane: numbers.next().unwrap_or_default().to_string(),
        step: step.agent(squad).map(|(phase, _)| phase.name().to_owned()).unwrap_or_default(),
    };
    match squad.ledger.admit(agents, start, limits, now) {
        Ok(agents) => others.extend(agents),
        Err(reached) if others.is_empty() && squad.open_turns().next().is_none() => {
            others.push(Step::Finish(stopped(reached)));
        }
        Err(_) => {}
    }
    others
}

/// The end of a run at a limit.
pub fn stopped(reached: Reached) -> SquadFinish {
    let outcome = match reached.limit {
        Limit::Cost => SquadEnd::MaxCost,
        Limit::Tokens => SquadEnd::MaxTokens,
        Limit::Runtime => SquadEnd::MaxRuntime,
    };
    SquadFinish { outcome: outcome.into(), reason: reached.detail, raise: Some(reached.raise) }
}
