//! A squad: parallel loops that build the tasks of a plan, each with its own reviewer.
//!
//! [`Squad`] is the fold of the records of one run. [`next_steps`] decides what can be carried out now: several
//! steps at once, because loops do not wait for each other until their group is complete.

mod effort;
mod plan_file;
mod review;
mod step;
pub mod tools;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::coordinator::{Fold, Kind, Status};
use crate::limits::Ledger;
use crate::merge::MergeOutcome;
use crate::record::{
    CheckFinish, Event, ExitCode, Glance, LoopEnd, Resolution, SquadAnswer, SquadClaim, SquadEnd,
    SquadFinish, SquadLoop, SquadMerge, SquadPhase, SquadResolve, SquadReview, SquadSubject,
    SquadTurn, SquadTurnFinish,
};
use crate::review::Verdict;
use crate::text::first_line;
use crate::wire_enum::{Word, words};

pub use crate::config::Effort;
pub use effort::Depth;
pub use plan_file::GivenPlan;
pub use review::Round;
pub use step::{Lane, SquadRules, SquadRun, Step, next_steps, stopped, within_limits};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Squad {
    pub id: String,
    /// `None` without a `squad.start`.
    pub start: Option<Start>,
    /// The first and the last timestamp, as written.
    pub times: (String, String),
    pub tasks: Vec<Task>,
    /// The ids of tasks that are built in parallel, group by group.
    pub groups: Vec<Vec<String>>,
    pub loops: Vec<Loop>,
    /// In order; the first one has the number 1.
    pub turns: Vec<Turn>,
    /// Those that were decided, in order.
    pub reviews: Vec<SquadReview>,
    pub checks: Vec<CheckFinish>,
    /// What agents leave for the agents after them.
    pub context: BTreeMap<String, String>,
    /// From which all merged work is reachable; `None` before the first merge.
    pub merged: Option<String>,
    /// Why passed work cannot be merged now.
    pub merge_refused: Option<String>,
    /// The number of the last turn before the last merge, or before the user skipped a loop.
    pub merged_after: u64,
    /// Phases and reviews of the run that failed up to this turn do not count any more: the user resumed it.
    pub retried_after: u64,
    /// What its turns took.
    pub ledger: Ledger,
    /// `None` before the end.
    pub finish: Option<SquadFinish>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    pub spec: String,
    pub effort: Word<Effort>,
    pub max_loops: u64,
    pub base: String,
    pub is_planned: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Task {
    pub id: String,
    pub title: String,
    pub description: String,
    pub acceptance: Option<String>,
}

/// A turn of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    pub start: SquadTurn,
    /// The last one counts.
    pub answers: Vec<Answer>,
    /// The commands that a reviewer cites as evidence.
    pub cited: Vec<String>,
    /// What a builder reports; the last report counts.
    pub report: Option<Report>,
    /// Whether it left a note for the agents after it.
    pub has_note: bool,
    pub state: TurnState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnState {
    Open,
    Ended(TurnEnd),
    /// Its harness was killed or interrupted; the turn is repeated.
    Lost,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnEnd {
    pub exit_code: ExitCode,
    pub timed_out: bool,
    pub elapsed_ms: u64,
    /// Why the agent failed.
    pub reason: Option<String>,
    pub commit: Option<String>,
    pub tree: Option<String>,
    /// Shortened.
    pub output: String,
}

/// An answer of a reviewer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Unique in the state directory.
    pub id: String,
    pub passed: bool,
    pub interpreted_intent: Option<String>,
    pub intent_satisfied: Option<bool>,
    pub issues: Vec<Issue>,
}

/// What a reviewer criticizes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
    #[serde(default, rename = "taskId", skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<serde_json::Number>,
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

/// What a builder reports about its task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub claim: SquadClaim,
    pub reason: String,
}

/// The loop of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loop {
    pub id: String,
    /// Counted from 1 in the run.
    pub number: u64,
    pub task_id: String,
    /// Counted from 1.
    pub group: u64,
    pub branch: String,
    pub tree: String,
    /// The commit that its work begins at.
    pub base: String,
    /// How many turns of its builder ended.
    pub iteration: u64,
    pub state: LoopState,
    /// Why it is in this state, where that needs a reason.
    pub reason: String,
    /// How often its task was revised, counted from the last `retry` of the user.
    pub revisions: u64,
    /// How often it began again after its task had passed, counted likewise.
    pub reopened: u64,
    /// Whether it is to begin again when the user resolves it.
    begins_again: bool,
    /// Its work after the last turn of its builder.
    pub work: Option<Work>,
    /// The last turn of its builder.
    pub built_in: u64,
    /// Why its work did not pass, for the next turn of its builder.
    pub feedback: Option<Feedback>,
    /// What its last checkpoint found.
    pub advice: Option<Feedback>,
    /// `None` where no checkpoint is under way.
    pub checkpoint: Option<Checkpoint>,
    /// Its iteration at the last checkpoint.
    pub checkpoint_at: u64,
    /// `loop_reviews.id` of the last review.
    pub last_review: Option<String>,
    /// The last conflict that an agent worked on.
    pub conflict: Option<Conflict>,
    pub stall: Stall,
    /// Its iteration when the user asked for another try.
    pub retried_at: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoopState {
    /// A turn of its builder is under way, or is next.
    #[default]
    Building,
    /// Its builder reports that the task is complete.
    Completed,
    /// The review of the completed task passed.
    Passed,
    Merged,
    /// It is to begin again, at another base.
    Reopened,
    Stuck,
    Failed,
    /// The user does without its task.
    Skipped,
}

words! {
    /// The state of the review of a loop, as it is stored.
    #[derive(Default)]
    ReviewStatus {
        #[default]
        Pending = "pending",
        InProgress = "in_progress",
        Passed = "passed",
        Failed = "failed",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    pub commit: String,
    pub tree: String,
}

/// What a builder is told about its earlier work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// Why it was not accepted, where that is not for the issues.
    pub reason: String,
    pub issues: Vec<Issue>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its first turn.
    pub turn: u64,
    /// The iteration of the loop when it began.
    pub iteration: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The commit that was checked out in the project.
    pub head: String,
    pub turn: u64,
    /// The commit that resolves it, or why there is none.
    pub resolution: Result<String, String>,
}

/// How long a loop has made no progress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stall {
    /// Iterations in a row without a new state of its files and without a record of its agent.
    pub idle: u64,
    /// How many iterations in a row failed with the same error.
    pub errors: u64,
    error: String,
    /// The tree objects that were seen.
    seen: BTreeSet<String>,
}

impl Squad {
    pub fn status(&self) -> Status {
        let end = self.finish.as_ref().map(|finish| finish.outcome.known());
        end.map_or(Status::Running, |end| end.map_or(Status::Failed, Status::of_squad))
    }

    /// How far it came, in a few words.
    pub fn summary(&self) -> String {
        let count = |state: LoopState| self.loops.iter().filter(|it| it.state == state).count();
        let of = self.tasks.len();
        let tasks = if of == 1 { "task" } else { "tasks" };
        let merged = format!("{} of {of} {tasks} merged", count(LoopState::Merged));
        let others = [LoopState::Skipped, LoopState::Stuck, LoopState::Failed].map(|state| {
            let number = count(state);
            (number > 0).then(|| format!(", {number} {}", state.name()))
        });
        let others: String = others.into_iter().flatten().collect();
        format!("{}: {merged}{others}", self.status())
    }

    pub fn effort(&self) -> Effort {
        self.start.as_ref().and_then(|start| start.effort.known()).unwrap_or(Effort::Medium)
    }

    pub fn task(&self, id: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.id == id)
    }

    pub fn find(&self, id: &str) -> Option<&Loop> {
        self.loops.iter().find(|it| it.id == id)
    }

    /// The loop of a task.
    pub fn loop_of(&self, task: &str) -> Option<&Loop> {
        self.loops.iter().find(|it| it.task_id == task)
    }

    /// The subject of the commit of a task.
    pub fn subject_of(&self, task: &str) -> String {
        let title = self.task(task).map(|task| first_line(&task.title, 120));
        title.map_or_else(|| task.to_owned(), |title| format!("{task}: {title}"))
    }

    /// Loop ids are unique in the state directory.
    pub fn loop_id(&self, number: u64) -> String {
        format!("{}-{number}", self.id)
    }

    pub fn turn(&self, number: u64) -> Option<&Turn> {
        self.turns.get(usize::try_from(number.checked_sub(1)?).ok()?)
    }

    pub fn next_turn(&self) -> u64 {
        self.turns.len() as u64 + 1
    }

    pub fn open_turns(&self) -> impl Iterator<Item = &Turn> {
        self.turns.iter().filter(|turn| turn.state == TurnState::Open)
    }

    /// The results of checks of a commit.
    pub fn checks_of(&self, commit: &str) -> Vec<CheckFinish> {
        self.checks.iter().filter(|check| check.commit == commit).cloned().collect()
    }

    /// The commit with all work that was merged.
    pub fn head(&self) -> &str {
        let base = self.start.as_ref().map(|start| &*start.base);
        self.merged.as_deref().or(base).unwrap_or_default()
    }

    fn find_mut(&mut self, id: &str) -> Option<&mut Loop> {
        self.loops.iter_mut().find(|it| it.id == id)
    }

    fn turn_mut(&mut self, number: u64) -> Option<&mut Turn> {
        self.turns.get_mut(usize::try_from(number.checked_sub(1)?).ok()?)
    }

    /// Applies the start of a turn. A phase of the run begins with an empty list.
    fn start_turn(&mut self, start: SquadTurn) {
        if start.turn != self.next_turn() {
            return;
        }
        match start.phase.known() {
            Some(SquadPhase::Enumerate) => self.tasks.clear(),
            Some(SquadPhase::Plan) => self.groups.clear(),
            Some(SquadPhase::Checkpoint) => {
                let id = start.loop_id.clone().unwrap_or_default();
                if let Some(it) = self.find_mut(&id) {
                    let (turn, iteration) = (start.turn, it.iteration);
                    it.checkpoint.get_or_insert(Checkpoint { turn, iteration });
                }
            }
            _ => {}
        }
        self.turns.push(Turn {
            start,
            answers: Vec::new(),
            cited: Vec::new(),
            report: None,
            has_note: false,
            state: TurnState::Open,
        });
    }

    fn finish_turn(&mut self, finish: SquadTurnFinish<'_>) {
        let number = finish.turn;
        let Some(turn) = self.turn_mut(number) else { return };
        let end = TurnEnd {
            exit_code: finish.exit_code,
            timed_out: finish.timed_out,
            elapsed_ms: finish.elapsed_ms,
            reason: finish.reason,
            commit: finish.commit,
            tree: finish.tree,
            output: finish.output.map(|output| output.read().into_owned()).unwrap_or_default(),
        };
        turn.state = TurnState::Ended(end.clone());
        let turn = turn.clone();
        let Some(it) = turn.start.loop_id.as_ref().and_then(|id| self.find_mut(id)) else { return };
        match turn.start.phase.known() {
            Some(SquadPhase::Build | SquadPhase::Revise) => it.built(&turn, &end),
            Some(SquadPhase::Conflict) => {
                let head = turn.start.commit.unwrap_or_default();
                let resolution = end.commit.ok_or(end.reason.unwrap_or_default());
                it.conflict = Some(Conflict { head, turn: number, resolution });
            }
            _ => {}
        }
    }

    fn answer(&mut self, answer: SquadAnswer<'_>) {
        let number = answer.turn;
        let run = self.id.clone();
        let Some(turn) = self.turn_mut(number) else { return };
        let id = format!("{run}-{number}-{}", turn.answers.len() + 1);
        let issues = serde_json::from_str(&answer.issues.read()).unwrap_or_default();
        turn.answers.push(Answer {
            id,
            passed: answer.passed,
            interpreted_intent: answer.interpreted_intent,
            intent_satisfied: answer.intent_satisfied,
            issues,
        });
    }

    /// Applies the beginning of a loop, or its new beginning at another commit.
    fn start_loop(&mut self, start: SquadLoop) {
        let number = self.loops.len() as u64 + 1;
        if let Some(it) = self.find_mut(&start.loop_id) {
            it.base = start.base;
            it.state = LoopState::Building;
            (it.work, it.conflict) = (None, None);
            return;
        }
        self.loops.push(Loop {
            id: start.loop_id,
            number,
            task_id: start.task_id,
            group: start.group,
            branch: start.branch,
            tree: start.tree,
            base: start.base,
            ..Loop::default()
        });
    }

    fn merge(&mut self, merge: &SquadMerge) {
        let last = self.turns.len() as u64;
        let Some(it) = self.find_mut(&merge.loop_id) else { return };
        let detail = merge.detail.clone().unwrap_or_default();
        match merge.outcome.known() {
            Some(MergeOutcome::Merged | MergeOutcome::Nothing) => {
                it.state = LoopState::Merged;
                it.reason.clear();
                self.merged = Some(merge.commit.clone());
                self.merged_after = last;
            }
            Some(MergeOutcome::Conflict | MergeOutcome::Failed) => it.reopen(Feedback {
                reason: match merge.files.as_str() {
                    "" => detail,
                    files => format!("{detail} (in conflict: {files})"),
                },
                issues: Vec::new(),
            }),
            // The work is not in the project yet; the run ends, and merges it when it is resumed.
            _ => {
                let why = [merge.outcome.as_str(), &merge.files, &detail];
                let why: Vec<&str> = why.into_iter().filter(|why| !why.is_empty()).collect();
                self.merge_refused = Some(format!("{}: {}", merge.loop_id, why.join(": ")));
            }
        }
    }

    fn resolve(&mut self, resolve: &SquadResolve) {
        let last = self.turns.len() as u64;
        let Some(it) = self.find_mut(&resolve.loop_id) else { return };
        match resolve.resolution.known() {
            Some(Resolution::Retry) => {
                (it.revisions, it.reopened, it.retried_at) = (0, 0, it.iteration);
                it.stall = Stall::default();
                it.state = match it.begins_again {
                    true => LoopState::Reopened,
                    false => LoopState::Building,
                };
                if !resolve.reason.is_empty() {
                    let feedback = it.feedback.get_or_insert_default();
                    feedback.reason =
                        format!("{}\n\nThe user says: {}", feedback.reason, resolve.reason);
                    feedback.reason = feedback.reason.trim_start().to_owned();
                }
            }
            Some(Resolution::Skip) => it.state = LoopState::Skipped,
            Some(Resolution::Accept) if it.work.is_some() => it.state = LoopState::Passed,
            _ => return,
        }
        it.reason.clone_from(&resolve.reason);
        self.merged_after = last;
    }

    fn review(&mut self, review: SquadReview) {
        let is_pass = review.verdict == Verdict::Pass;
        let feedback = self.feedback(&review);
        match review.subject.known() {
            Some(SquadSubject::Build) if review.verdict == Verdict::Drift => {
                self.reopen_named(&feedback);
            }
            Some(SquadSubject::Task | SquadSubject::Progress) => {
                let id = review.loop_id.clone().unwrap_or_default();
                if let Some(it) = self.find_mut(&id) {
                    it.last_review = Some(review.review_id.clone());
                    it.reviewed(review.subject.known(), is_pass, feedback);
                }
            }
            _ => {}
        }
        self.reviews.push(review);
    }

    /// Reopens the loops of the tasks that the review of the merged work names; where it names none, all of them.
    fn reopen_named(&mut self, feedback: &Feedback) {
        let named: BTreeSet<String> = self
            .loops
            .iter()
            .filter(|it| feedback.names(&it.task_id))
            .map(|it| it.id.clone())
            .collect();
        for it in self.loops.iter_mut().filter(|it| it.state == LoopState::Merged) {
            if named.is_empty() || named.contains(&it.id) {
                it.reopen(feedback.clone());
            }
        }
    }

    fn resumed(&mut self) {
        let end = self.finish.take().and_then(|finish| finish.outcome.known());
        self.merge_refused = None;
        // The user may have repaired what made them fail.
        self.checks.retain(CheckFinish::passed);
        if matches!(end, Some(SquadEnd::PhaseFailed | SquadEnd::ReviewFailed)) {
            self.retried_after = self.turns.len() as u64;
        }
        for turn in self.turns.iter_mut().filter(|turn| turn.state == TurnState::Open) {
            turn.state = TurnState::Lost;
        }
    }
}

impl Turn {
    pub fn number(&self) -> u64 {
        self.start.turn
    }

    pub fn phase(&self) -> Option<SquadPhase> {
        self.start.phase.known()
    }

    pub fn end(&self) -> Option<&TurnEnd> {
        match &self.state {
            TurnState::Ended(end) => Some(end),
            TurnState::Open | TurnState::Lost => None,
        }
    }

    pub fn answer(&self) -> Option<&Answer> {
        self.answers.last()
    }

    /// Whether it belongs to a loop.
    pub fn is_of(&self, id: &str) -> bool {
        self.start.loop_id.as_deref() == Some(id)
    }

    pub fn is_builder(&self) -> bool {
        matches!(self.phase(), Some(SquadPhase::Build | SquadPhase::Revise))
    }
}

impl Answer {
    /// A pass whose intent is not satisfied is none.
    pub fn is_pass(&self) -> bool {
        self.passed && self.intent_satisfied != Some(false)
    }
}

impl Feedback {
    /// Whether an issue is about a task: by its field, or, where no issue has that, by a word of its text.
    fn names(&self, task: &str) -> bool {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
        let has_word = |text: &String| text.split(|c| !is_part(c)).any(|word| word == task);
        match self.issues.iter().any(|issue| issue.task_id.is_some()) {
            true => self.issues.iter().any(|issue| issue.task_id.as_deref() == Some(task)),
            false => {
                let texts =
                    self.issues.iter().flat_map(|it| it.description.iter().chain(&it.suggestion));
                texts.into_iter().any(has_word)
            }
        }
    }
}

impl LoopState {
    /// Whether its builder is next.
    pub fn is_building(self) -> bool {
        matches!(self, LoopState::Building | LoopState::Reopened)
    }

    /// Whether nothing is left to do before the loops of its group are merged.
    pub fn is_joined(self) -> bool {
        matches!(self, LoopState::Passed | LoopState::Merged | LoopState::Skipped)
    }

    /// Whether the user has to resolve it.
    pub fn is_blocked(self) -> bool {
        matches!(self, LoopState::Stuck | LoopState::Failed)
    }

    /// The word for it in views and prompts.
    pub fn name(self) -> &'static str {
        match self {
            LoopState::Building => "building",
            LoopState::Completed => "completed",
            LoopState::Passed => "passed",
            LoopState::Merged => "merged",
            LoopState::Reopened => "reopened",
            LoopState::Stuck => "stuck",
            LoopState::Failed => "failed",
            LoopState::Skipped => "skipped",
        }
    }
}

impl Loop {
    /// Applies the end of a turn of its builder.
    fn built(&mut self, turn: &Turn, end: &TurnEnd) {
        self.iteration += 1;
        self.built_in = turn.number();
        if let (Some(commit), Some(tree)) = (&end.commit, &end.tree) {
            self.work = Some(Work { commit: commit.clone(), tree: tree.clone() });
        }
        self.stall.apply(end, turn.report.is_some() || turn.has_note);
        match &turn.report {
            Some(report) if report.claim == SquadClaim::Fail => {
                self.state = LoopState::Failed;
                self.reason.clone_from(&report.reason);
            }
            // What cannot be captured cannot be reviewed.
            Some(_) if end.commit.is_some() => self.state = LoopState::Completed,
            _ => {}
        }
    }

    fn reviewed(&mut self, subject: Option<SquadSubject>, is_pass: bool, feedback: Feedback) {
        if subject == Some(SquadSubject::Progress) {
            self.advice = (!is_pass).then_some(feedback);
            if let Some(checkpoint) = self.checkpoint.take() {
                self.checkpoint_at = checkpoint.iteration;
            }
            return;
        }
        self.advice = None;
        // What was just reviewed has nothing new to show at a checkpoint.
        self.checkpoint_at = self.iteration;
        if is_pass {
            (self.state, self.feedback, self.revisions) = (LoopState::Passed, None, 0);
            return;
        }
        // Whether a revision is left is decided when the next one would begin.
        self.state = LoopState::Building;
        self.feedback = Some(feedback);
        self.revisions += 1;
    }

    fn reopen(&mut self, feedback: Feedback) {
        self.state = LoopState::Reopened;
        self.reason.clone_from(&feedback.reason);
        self.feedback = Some(feedback);
        self.reopened += 1;
    }

    pub fn review_status(&self, squad: &Squad) -> ReviewStatus {
        let is_reviewed = || {
            squad.open_turns().any(|turn| {
                turn.is_of(&self.id)
                    && matches!(turn.phase(), Some(SquadPhase::Review | SquadPhase::Checkpoint))
            })
        };
        match self.state {
            LoopState::Passed | LoopState::Merged => ReviewStatus::Passed,
            LoopState::Completed => ReviewStatus::InProgress,
            LoopState::Building if is_reviewed() => ReviewStatus::InProgress,
            _ if self.feedback.is_some() => ReviewStatus::Failed,
            _ => ReviewStatus::Pending,
        }
    }

    /// How often its task was or is revised. A review that fails after the last revision begins no other.
    pub fn revision_attempts(&self, squad: &Squad) -> u64 {
        self.revisions.min(squad.effort().revisions())
    }

    pub fn phase(&self) -> SquadPhase {
        match &self.feedback {
            Some(_) => SquadPhase::Revise,
            None => SquadPhase::Build,
        }
    }

    /// Whether an agent has worked in it.
    pub fn has_begun(&self, squad: &Squad) -> bool {
        squad.turns.iter().any(|turn| turn.is_of(&self.id))
    }
}

impl Stall {
    /// The error of the last iteration.
    pub fn error(&self) -> &str {
        &self.error
    }

    fn apply(&mut self, end: &TurnEnd, has_report: bool) {
        match &end.reason {
            Some(error) if *error == self.error => self.errors += 1,
            Some(error) => (self.error, self.errors) = (error.clone(), 1),
            None => (self.error, self.errors) = (String::new(), 0),
        }
        let is_new = end.tree.clone().is_some_and(|tree| self.seen.insert(tree));
        self.idle = if is_new || has_report { 0 } else { self.idle + 1 };
    }
}

impl Fold for Squad {
    const KIND: Kind = Kind::Squad;

    fn new(id: &str) -> Self {
        Squad { id: id.to_owned(), ..Squad::default() }
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn apply(&mut self, record: &Glance<'_>) {
        self.ledger.apply(record);
        if !Kind::Squad.concerns(record) {
            return;
        }
        if let Some(ts) = record.ts() {
            self.times.1 = ts.into_owned();
        }
        match record.event() {
            Event::SquadStart(start) => {
                self.times.0.clone_from(&self.times.1);
                self.start = Some(Start {
                    spec: start.spec.read().into_owned(),
                    effort: start.effort,
                    max_loops: start.max_loops,
                    base: start.base,
                    is_planned: start.planned == Some(true),
                });
            }
            Event::SquadResume(_) => self.resumed(),
            Event::SquadResolve(resolve) => self.resolve(&resolve),
            Event::SquadTurn(start) => self.start_turn(start),
            Event::SquadTurnFinish(finish) => self.finish_turn(finish),
            Event::SquadTask(task) => {
                self.tasks.retain(|other| other.id != task.task_id);
                self.tasks.push(Task {
                    id: task.task_id,
                    title: task.title,
                    description: task.description,
                    acceptance: task.acceptance,
                });
            }
            Event::SquadGroup(group) => {
                self.groups.push(group.tasks.split(',').map(str::to_owned).collect());
            }
            Event::SquadReport(report) => {
                let claim = report.claim.known().unwrap_or(SquadClaim::Fail);
                if let Some(turn) = self.turn_mut(report.turn) {
                    turn.report = Some(Report { claim, reason: report.reason });
                }
            }
            Event::SquadAnswer(answer) => self.answer(answer),
            Event::SquadCited(cited) => {
                if let Some(turn) = self.turn_mut(cited.turn) {
                    turn.cited.push(cited.command);
                }
            }
            Event::SquadContext(context) => {
                let text = context.text.read().into_owned();
                let is_news = self.context.get(&context.key) != Some(&text);
                self.context.insert(context.key, text);
                if let Some(turn) = self.turn_mut(context.turn) {
                    turn.has_note |= is_news;
                }
            }
            Event::CheckFinish(check) => self.checks.push(check),
            Event::SquadLoop(start) => self.start_loop(start),
            Event::SquadLoopFinish(finish) => {
                if let Some(it) = self.find_mut(&finish.loop_id) {
                    it.begins_again = it.state == LoopState::Reopened;
                    it.state = match finish.outcome.known() {
                        Some(LoopEnd::Stuck) => LoopState::Stuck,
                        Some(LoopEnd::Failed) | None => LoopState::Failed,
                    };
                    it.reason = finish.reason;
                }
            }
            Event::SquadReview(review) => self.review(review),
            Event::SquadMerge(merge) => self.merge(&merge),
            Event::SquadFinish(finish) => self.finish = Some(finish),
            _ => {}
        }
    }
}
