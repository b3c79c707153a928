//! Which rows follow from the records of one squad.

use std::collections::HashMap;

use autoloop_core::agents::Dollars;
use autoloop_core::coordinator::Fold;
use autoloop_core::provenance::{Proof, Provenance, RunKey, Unsealed};
use autoloop_core::record::{BackendUsage, Event, Glance, SquadPhase, SquadReview};
use autoloop_core::squad::{Issue, Loop, Squad, Task, Turn};

/// The type of the issue of a review without an answer.
const UNDELIVERED: &str = "undelivered";

/// A change of the tables.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    /// The run begins, or begins again: it has no rows yet.
    Begin,
    Run(RunRow),
    /// In place of all tasks of the run.
    Tasks(Vec<Task>),
    /// In place of all groups of the run: the ids of their tasks.
    Groups(Vec<Vec<String>>),
    Loop(LoopRow),
    Review(ReviewRow),
    Issue(IssueRow),
    Cost(CostRow),
    /// What a turn has cost so far, for the reviews that it gave.
    ReviewCost {
        reviews: Vec<String>,
        cost: Dollars,
    },
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RunRow {
    pub(super) spec: String,
    pub(super) effort: String,
    pub(super) max_loops: u64,
    pub(super) base: String,
    pub(super) planned: bool,
    pub(super) status: String,
    pub(super) reason: Option<String>,
    pub(super) started_at: String,
    pub(super) finished_at: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct LoopRow {
    pub(super) id: String,
    pub(super) task_id: String,
    pub(super) group: u64,
    pub(super) branch: String,
    pub(super) worktree: String,
    pub(super) base: String,
    pub(super) status: &'static str,
    pub(super) reason: Option<String>,
    pub(super) iteration: u64,
    pub(super) review_status: &'static str,
    pub(super) last_review_id: Option<String>,
    pub(super) revision_attempts: u64,
    pub(super) last_checkpoint_review_at: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReviewRow {
    pub(super) id: String,
    pub(super) loop_id: String,
    pub(super) task_id: Option<String>,
    pub(super) passed: bool,
    pub(super) interpreted_intent: Option<String>,
    pub(super) intent_satisfied: Option<bool>,
    pub(super) reviewed_at: String,
    pub(super) cost: Dollars,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct IssueRow {
    pub(super) id: String,
    pub(super) task_id: Option<String>,
    /// `None` for an issue of the whole run, as below.
    pub(super) loop_id: Option<String>,
    pub(super) review_id: Option<String>,
    pub(super) issue: Issue,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CostRow {
    /// `None` for one that was interrupted.
    pub(super) turn: Option<u64>,
    /// Counted from 1 in the turn.
    pub(super) number: u64,
    pub(super) loop_id: Option<String>,
    pub(super) task_id: Option<String>,
    pub(super) phase: String,
    pub(super) model: Option<String>,
    pub(super) cost: Option<Dollars>,
    pub(super) tokens: Option<u64>,
    pub(super) what: Option<String>,
    pub(super) at: String,
}

/// A squad, folded from its own sealed records, and the rows that follow from it.
pub(super) struct RunRows {
    squad: Squad,
    provenance: Provenance,
    run: RunRow,
    loops: Vec<LoopRow>,
    /// By the numbers of turns; `None` for turns that were interrupted.
    costs: HashMap<Option<u64>, TurnCost>,
    /// The usage that was recorded last. Unless its turn was interrupted, the end of the turn follows.
    usage: Option<CostRow>,
}

/// What a turn has cost so far.
#[derive(Clone, Copy, Default)]
struct TurnCost {
    rows: u64,
    sum: Dollars,
}

impl RunRows {
    /// A run without records. Only sealed ones count, so without a key none does.
    pub(super) fn new(run: &str, key: Option<RunKey>) -> RunRows {
        RunRows::begin(run, Provenance::new(key, Unsealed::Noted(HashMap::new())), "")
    }

    fn begin(run: &str, provenance: Provenance, at: &str) -> RunRows {
        RunRows {
            squad: Squad::new(run),
            provenance,
            run: RunRow { started_at: at.to_owned(), ..RunRow::default() },
            loops: Vec::new(),
            costs: HashMap::new(),
            usage: None,
        }
    }

    /// Applies a record of the run, in order, and returns what it changes in the tables.
    pub(super) fn take(&mut self, record: &Glance<'_>) -> Vec<Change> {
        if self.provenance.own(record) != Some(Proof::Seal) {
            return Vec::new();
        }
        let at = record.ts().unwrap_or_default();
        let event = record.event();
        let mut changes = Vec::new();
        if let Event::SquadStart(_) = event {
            *self = RunRows::begin(&record.run(), self.provenance.clone(), &at);
            changes.push(Change::Begin);
        }
        self.squad.apply(record);
        if self.squad.start.is_none() {
            return Vec::new();
        }
        if !matches!(event, Event::SquadTurnFinish(_)) {
            self.usage_of(None, &mut changes);
        }
        match event {
            Event::SquadStart(_) | Event::SquadResume(_) | Event::SquadFinish(_) => {
                self.follow_run(&at, &mut changes);
                self.follow_loops(&mut changes);
            }
            Event::SquadTask(_) => changes.push(self.tasks()),
            Event::SquadGroup(_) => changes.push(self.groups()),
            Event::SquadTurn(turn) => {
                match turn.phase.known() {
                    Some(SquadPhase::Enumerate) => changes.push(self.tasks()),
                    Some(SquadPhase::Plan) => changes.push(self.groups()),
                    _ => {}
                }
                self.follow_loops(&mut changes);
            }
            Event::BackendUsage(usage) => self.usage = Some(CostRow::of(usage, &at)),
            Event::SquadTurnFinish(finish) => {
                self.usage_of(Some(finish.turn), &mut changes);
                self.follow_loops(&mut changes);
            }
            Event::SquadCost(cost) => {
                let row = CostRow {
                    cost: Some(cost.cost_usd),
                    what: Some(cost.what),
                    at: at.into_owned(),
                    ..CostRow::default()
                };
                self.cost(Some(cost.turn), row, &mut changes);
            }
            Event::SquadAnswer(answer) => self.answer(answer.turn, &at, &mut changes),
            Event::SquadReview(review) => {
                self.undelivered(review, &at, &mut changes);
                self.follow_loops(&mut changes);
            }
            Event::SquadLoop(_)
            | Event::SquadLoopFinish(_)
            | Event::SquadMerge(_)
            | Event::SquadResolve(_) => self.follow_loops(&mut changes),
            _ => {}
        }
        changes
    }

    fn follow_run(&mut self, at: &str, changes: &mut Vec<Change>) {
        let Some(start) = &self.squad.start else { return };
        let finish = self.squad.finish.as_ref();
        self.run = RunRow {
            spec: start.spec.clone(),
            effort: start.effort.to_string(),
            max_loops: start.max_loops,
            base: start.base.clone(),
            planned: start.is_planned,
            status: self.squad.status().to_string(),
            reason: finish.and_then(|finish| said(&finish.reason)),
            started_at: std::mem::take(&mut self.run.started_at),
            finished_at: finish.map(|_| at.to_owned()),
        };
        changes.push(Change::Run(self.run.clone()));
    }

    fn tasks(&self) -> Change {
        Change::Tasks(self.squad.tasks.clone())
    }

    fn groups(&self) -> Change {
        Change::Groups(self.squad.groups.clone())
    }

    /// One record may change several loops.
    fn follow_loops(&mut self, changes: &mut Vec<Change>) {
        for (place, it) in self.squad.loops.iter().enumerate() {
            let row = LoopRow::of(it, &self.squad);
            match self.loops.get_mut(place) {
                Some(known) if *known == row => continue,
                Some(known) => known.clone_from(&row),
                None => self.loops.push(row.clone()),
            }
            changes.push(Change::Loop(row));
        }
    }

    /// The last answer of a turn is a review of its loop, or it has issues of the whole run.
    fn answer(&self, turn: u64, at: &str, changes: &mut Vec<Change>) {
        let Some(turn) = self.squad.turn(turn) else { return };
        let Some(answer) = turn.answer() else { return };
        let row = ReviewRow {
            passed: answer.passed,
            interpreted_intent: answer.interpreted_intent.clone(),
            intent_satisfied: answer.intent_satisfied,
            ..self.review(&answer.id, turn, at)
        };
        self.add_review(turn, row, &answer.issues, changes);
    }

    /// A review without an answer is one that did not pass, for the reason that the harness recorded.
    fn undelivered(&self, review: SquadReview, at: &str, changes: &mut Vec<Change>) {
        if review.review_id != format!("{}-{}", self.squad.id, review.turn) {
            return;
        }
        let Some(turn) = self.squad.turn(review.turn) else { return };
        let issue = Issue {
            kind: Some(UNDELIVERED.to_owned()),
            description: Some(review.reason),
            ..Issue::default()
        };
        self.add_review(turn, self.review(&review.review_id, turn, at), &[issue], changes);
    }

    /// A review that did not pass, by the agent of a turn.
    fn review(&self, id: &str, turn: &Turn, at: &str) -> ReviewRow {
        ReviewRow {
            id: id.to_owned(),
            loop_id: turn.start.loop_id.clone().unwrap_or_default(),
            task_id: turn.start.task_id.clone(),
            passed: false,
            interpreted_intent: None,
            intent_satisfied: None,
            reviewed_at: at.to_owned(),
            cost: self.costs.get(&Some(turn.number())).map_or(Dollars(0), |cost| cost.sum),
        }
    }

    fn add_review(
        &self,
        turn: &Turn,
        review: ReviewRow,
        issues: &[Issue],
        changes: &mut Vec<Change>,
    ) {
        let is_of_loop = turn.start.loop_id.is_some();
        if is_of_loop && self.squad.find(&review.loop_id).is_none() {
            // The tables have no reviews of a loop that never began.
            return;
        }
        let issues = (1..).zip(issues).map(|(number, issue)| IssueRow {
            id: format!("{}-{number}", review.id),
            task_id: issue.task_id.clone().or_else(|| review.task_id.clone()),
            loop_id: is_of_loop.then(|| review.loop_id.clone()),
            review_id: is_of_loop.then(|| review.id.clone()),
            issue: issue.clone(),
        });
        let issues: Vec<Change> = issues.map(Change::Issue).collect();
        changes.extend(is_of_loop.then_some(Change::Review(review)));
        changes.extend(issues);
    }

    fn usage_of(&mut self, turn: Option<u64>, changes: &mut Vec<Change>) {
        if let Some(row) = self.usage.take() {
            self.cost(turn, row, changes);
        }
    }

    fn cost(&mut self, number: Option<u64>, row: CostRow, changes: &mut Vec<Change>) {
        let cost = self.costs.entry(number).or_default();
        let added = row.cost.unwrap_or_default();
        *cost = TurnCost { rows: cost.rows + 1, sum: Dollars(cost.sum.0.saturating_add(added.0)) };
        let row = CostRow { turn: number, number: cost.rows, ..row };
        let Some(turn) = number.and_then(|number| self.squad.turn(number)) else {
            changes.push(Change::Cost(row));
            return;
        };
        changes.push(Change::Cost(CostRow {
            loop_id: turn.start.loop_id.clone(),
            task_id: turn.start.task_id.clone(),
            phase: turn.start.phase.to_string(),
            ..row
        }));
        let reviews: Vec<String> = turn.answers.iter().map(|answer| answer.id.clone()).collect();
        if !reviews.is_empty() {
            changes.push(Change::ReviewCost { reviews, cost: cost.sum });
        }
    }
}

impl LoopRow {
    fn of(it: &Loop, squad: &Squad) -> LoopRow {
        LoopRow {
            id: it.id.clone(),
            task_id: it.task_id.clone(),
            group: it.group,
            branch: it.branch.clone(),
            worktree: it.tree.clone(),
            base: it.base.clone(),
            status: it.state.name(),
            reason: said(&it.reason),
            iteration: it.iteration,
            review_status: it.review_status(squad).name(),
            last_review_id: it.last_review.clone(),
            revision_attempts: it.revision_attempts(squad),
            last_checkpoint_review_at: it.checkpoint_at,
        }
    }
}

impl CostRow {
    fn of(usage: BackendUsage, at: &str) -> CostRow {
        CostRow {
            // Until its turn is known.
            phase: usage.role.unwrap_or_default(),
            model: usage.model,
            cost: usage.cost_usd,
            tokens: Some(usage.total_tokens.0),
            at: at.to_owned(),
            ..CostRow::default()
        }
    }
}

/// An empty text says nothing.
fn said(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
