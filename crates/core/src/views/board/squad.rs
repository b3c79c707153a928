//! Applies the records of a squad to its board: a row for the run, then one for each group with its loops below it.

use super::{Board, End, Kind, Outcome, Phase, ROWS, Row, in_line};
use crate::coordinator::Status;
use crate::layout::{run_path, squad_turn_path};
use crate::merge::MergeOutcome;
use crate::record::{
    Event, Glance, LoopEnd, Resolution, SquadAnswer, SquadClaim, SquadEnd, SquadFinish, SquadLoop,
    SquadMerge, SquadPhase, SquadReview, SquadSubject, SquadTurn, SquadTurnFinish,
};
use crate::review::Verdict;
use crate::squad::{Effort, Issue, LoopState, ReviewStatus};
use crate::views::squad::{review_name, turn_name};
use crate::views::usage::Sum;

/// The level of the rows of loops, below those of their groups.
const LOOPS: u64 = 1;

impl Board {
    pub(super) fn apply_to_squad(&mut self, record: &Glance<'_>) {
        let usage = std::mem::take(&mut self.pending);
        match record.event() {
            Event::SquadStart(start) if self.kind.is_none() => {
                let title = in_line(&start.spec.read());
                self.begin(Kind::Squad, &title, record);
                self.most_fixes = start.effort.known().unwrap_or(Effort::Medium).revisions();
                let (run, dir) = (self.id.clone(), run_path(Kind::Squad, &self.id));
                self.rows = vec![Row { run, name: "squad".to_owned(), dir, ..Row::default() }];
                self.update_run(|row| row.enter(Phase::Between, record));
            }
            Event::SquadResume(_) => {
                (self.outcome, self.raise) = (None, String::new());
                self.end_turns(record);
                self.update_run(|row| {
                    row.note.clear();
                    row.enter(Phase::Between, record);
                });
            }
            Event::SquadTask(task) => {
                self.rows.retain(|row| !is_of_task(row, &task.task_id));
                let (item, title) = (in_line(&task.task_id), in_line(&task.title));
                self.push_row(Row {
                    name: item.clone(),
                    item,
                    title,
                    level: LOOPS,
                    ..Row::default()
                });
            }
            Event::SquadGroup(group) => self.add_group(&group.tasks),
            Event::SquadTurn(turn) => self.start_turn(&turn, record),
            Event::SquadTurnFinish(finish) => self.finish_turn(&finish, usage, record),
            Event::SquadReport(report) => {
                let (claim, reason) = (report.claim.known(), in_line(&report.reason));
                if let Some(row) = self.row_of_turn(report.turn) {
                    row.claim = Some(claim.unwrap_or(SquadClaim::Fail));
                    row.note = reason;
                }
            }
            Event::SquadAnswer(answer) => self.answer(&answer),
            Event::SquadCost(cost) => {
                if let Some(row) = self.row_of_turn(cost.turn) {
                    row.usage.add(&Sum { turns: 1, cost: cost.cost_usd, ..Sum::default() });
                }
            }
            Event::SquadLoop(start) => self.start_loop(&start, record),
            Event::SquadLoopFinish(finish) => {
                let state = match finish.outcome.known() {
                    Some(LoopEnd::Stuck) => LoopState::Stuck,
                    Some(LoopEnd::Failed) | None => LoopState::Failed,
                };
                if let Some(row) = self.row_of_loop(&finish.loop_id) {
                    row.note = in_line(&finish.reason);
                    row.settle(state, record);
                }
            }
            Event::SquadReview(review) => self.review(&review, record),
            Event::SquadMerge(merge) => self.merge(&merge, record),
            Event::SquadResolve(resolve) => {
                let Some(row) = self.row_of_loop(&resolve.loop_id) else { return };
                let state = match resolve.resolution.known() {
                    Some(Resolution::Retry) => {
                        row.revision = 0;
                        LoopState::Building
                    }
                    Some(Resolution::Skip) => LoopState::Skipped,
                    Some(Resolution::Accept) => LoopState::Passed,
                    None => return,
                };
                row.note = in_line(&format!("{}: {}", resolve.resolution, resolve.reason));
                row.settle(state, record);
            }
            Event::SquadFinish(finish) => self.finish_squad(finish, record),
            _ => {}
        }
        self.settle_groups(record);
    }

    /// Puts tasks into a new group. Those of the last plan count: an earlier one is repeated as a whole.
    fn add_group(&mut self, tasks: &str) {
        let number = self.groups() + 1;
        self.push_row(Row { number, name: format!("group {number}"), ..Row::default() });
        for task in tasks.split(',') {
            if let Some(at) = self.rows.iter().position(|row| is_of_task(row, task)) {
                let row = self.rows.remove(at);
                self.rows.push(row);
            }
        }
    }

    fn groups(&self) -> u64 {
        self.rows.iter().filter(|row| is_group(row)).count() as u64
    }

    fn push_row(&mut self, row: Row) {
        if self.rows.len() < ROWS {
            self.rows.push(row);
        }
    }

    fn start_turn(&mut self, turn: &SquadTurn, record: &Glance<'_>) {
        let phase = turn.phase.known();
        match phase {
            Some(SquadPhase::Enumerate) => self.rows.retain(|row| row.level < LOOPS),
            Some(SquadPhase::Plan) => self.rows.retain(|row| !is_group(row)),
            _ => {}
        }
        let dir = squad_turn_path(&self.id, turn.turn);
        let row = match &turn.loop_id {
            Some(id) => self.row_of_loop(id),
            None => self.rows.first_mut(),
        };
        let Some(row) = row else { return };
        let iteration = row.iteration + 1;
        let phase = match phase {
            Some(SquadPhase::Enumerate) => Phase::Enumerate,
            Some(SquadPhase::Plan) => Phase::Plan,
            Some(SquadPhase::Build) => Phase::Build { iteration },
            Some(SquadPhase::Revise) => Phase::Revise { iteration },
            Some(SquadPhase::Review) => Phase::Review { attempt: turn.attempt },
            // The builder goes on meanwhile.
            Some(SquadPhase::Checkpoint) if row.phase.is_busy() => return,
            Some(SquadPhase::Checkpoint) => Phase::Checkpoint,
            Some(SquadPhase::Conflict) => Phase::Conflict,
            None => Phase::Between,
        };
        match phase {
            Phase::Build { .. } | Phase::Revise { .. } => {
                (row.state, row.claim) = (Some(LoopState::Building), None);
            }
            Phase::Review { .. } if turn.loop_id.is_some() => row.review = ReviewStatus::InProgress,
            _ => {}
        }
        if turn.loop_id.is_none() {
            row.item = turn_name(turn);
        }
        row.note.clear();
        row.dir = dir;
        row.prints_to("agent.out");
        row.enter(phase, record);
    }

    fn finish_turn(&mut self, finish: &SquadTurnFinish<'_>, usage: Sum, record: &Glance<'_>) {
        let is_it = is_in_turn(&self.id, finish.turn);
        let row = match &finish.loop_id {
            Some(id) => self.row_of_loop(id),
            None => self.rows.first_mut(),
        };
        let Some(row) = row else { return };
        row.usage.add(&usage);
        // A checkpoint beside a builder has no row.
        if !is_it(row) || !row.phase.is_busy() {
            return;
        }
        let phase = row.phase;
        if let Some(reason) = &finish.reason {
            row.note = in_line(reason);
        }
        let ended = row.of_turn(finish.reason.is_none(), usage, record);
        if matches!(phase, Phase::Build { .. } | Phase::Revise { .. }) {
            row.iteration += 1;
            let state = match row.claim.take() {
                Some(SquadClaim::Complete) => LoopState::Completed,
                Some(SquadClaim::Fail) => LoopState::Failed,
                None => LoopState::Building,
            };
            if state == LoopState::Completed {
                row.review = ReviewStatus::InProgress;
            }
            row.settle(state, record);
        } else {
            row.enter(Phase::Between, record);
        }
        self.push_finished(ended);
    }

    /// The issues of an answer, until the review is decided.
    fn answer(&mut self, answer: &SquadAnswer<'_>) {
        let issues: Vec<Issue> = serde_json::from_str(&answer.issues.read()).unwrap_or_default();
        let said: Vec<&str> = issues.iter().filter_map(|it| it.description.as_deref()).collect();
        let said = in_line(&said.join("; "));
        if let Some(row) = self.row_of_turn(answer.turn) {
            row.note = said;
        }
    }

    fn start_loop(&mut self, start: &SquadLoop, record: &Glance<'_>) {
        let most = self.most_fixes;
        let is_it = |row: &&mut Row| is_of_task(row, &start.task_id);
        let Some(row) = self.rows.iter_mut().find(is_it) else { return };
        if row.state.is_some() {
            row.review = ReviewStatus::Failed;
        }
        row.name = in_line(&start.loop_id);
        row.limit = most;
        row.settle(LoopState::Building, record);
    }

    fn review(&mut self, review: &SquadReview, record: &Glance<'_>) {
        let is_it = is_in_turn(&self.id, review.turn);
        let is_pass = review.verdict == Verdict::Pass;
        let row = match &review.loop_id {
            Some(id) => self.row_of_loop(id),
            None => self.rows.first_mut(),
        };
        let Some(row) = row else { return };
        let said = match review.reason.as_str() {
            "" if is_it(row) => std::mem::take(&mut row.note),
            reason => reason.to_owned(),
        };
        let said = if said.is_empty() { said } else { format!(": {said}") };
        let said =
            in_line(&format!("{}: {}{said}", review_name(review.subject.known()), review.verdict));
        if is_it(row) {
            row.note.clone_from(&said);
        }
        if review.subject == SquadSubject::Task {
            (row.review, row.revision) = match is_pass {
                true => (ReviewStatus::Passed, 0),
                false => (ReviewStatus::Failed, (row.revision + 1).min(row.limit)),
            };
            row.settle(if is_pass { LoopState::Passed } else { LoopState::Building }, record);
        }
        if let Some(ended) = self.finished.iter_mut().rfind(|row| is_it(row)) {
            ended.note = said;
            let (word, end) = if is_pass { ("passed", End::Done) } else { ("failed", End::Failed) };
            ended.outcome = Some(Outcome { word: word.to_owned(), end });
        }
    }

    fn merge(&mut self, merge: &SquadMerge, record: &Glance<'_>) {
        let Some(row) = self.row_of_loop(&merge.loop_id) else { return };
        let by_agent = if merge.resolved_by.is_some() { " (conflict resolved)" } else { "" };
        let detail = merge.detail.as_deref().unwrap_or_default();
        row.note = in_line(&format!("{}{by_agent}  {}  {detail}", merge.outcome, merge.files));
        let state = match merge.outcome.known() {
            Some(MergeOutcome::Merged | MergeOutcome::Nothing) => LoopState::Merged,
            Some(MergeOutcome::Conflict | MergeOutcome::Failed) => LoopState::Reopened,
            // The run ends, and merges it when it is resumed.
            _ => LoopState::Passed,
        };
        row.settle(state, record);
        let mut ended = Row { since: String::new(), ..row.clone() };
        ended.phase = Phase::Merge;
        ended.output = None;
        let ended = ended.of_turn(state == LoopState::Merged, Sum::default(), record);
        self.push_finished(ended);
    }

    fn finish_squad(&mut self, finish: SquadFinish, record: &Glance<'_>) {
        let end = match finish.outcome.known() {
            Some(SquadEnd::Completed) => End::Done,
            Some(end) if Status::of_squad(end) != Status::Failed => End::Stopped,
            _ => End::Failed,
        };
        let outcome = Outcome { word: finish.outcome.to_string(), end };
        self.end_turns(record);
        self.raise = finish.raise.unwrap_or_default();
        self.outcome = Some(outcome.clone());
        self.update_run(|row| {
            row.note = in_line(&finish.reason);
            row.end(outcome, record);
        });
    }

    /// The agents of the turns that are open ended with their harness.
    fn end_turns(&mut self, record: &Glance<'_>) {
        for row in self.rows.iter_mut().filter(|row| row.phase.is_busy()) {
            row.enter(Phase::Between, record);
        }
    }

    /// Counts the loops of each group, which works while one of them does.
    fn settle_groups(&mut self, record: &Glance<'_>) {
        let is_over = self.outcome.is_some();
        let (mut tasks, mut all_merged, mut all_blocked) = (0, 0, 0);
        let mut rest = &mut self.rows[..];
        while let Some((row, below)) = rest.split_first_mut() {
            let count = below.iter().take_while(|row| row.level == LOOPS).count();
            let (loops, others) = below.split_at_mut(count);
            rest = others;
            let is_in = |state: LoopState| loops.iter().filter(move |row| row.state == Some(state));
            let merged = is_in(LoopState::Merged).count();
            let blocked = loops.iter().filter(|row| row.is_blocked()).count();
            tasks += count as u64;
            all_merged += merged as u64;
            all_blocked += blocked as u64;
            if !is_group(row) {
                continue;
            }
            let blocked = if blocked > 0 { format!(", {blocked} blocked") } else { String::new() };
            row.item = format!("{merged}/{count} merged{blocked}");
            let is_joined = merged + is_in(LoopState::Skipped).count() == count;
            if loops.iter().all(|row| row.state.is_none()) {
                continue;
            }
            match is_joined {
                true => row.end(Outcome { word: "merged".to_owned(), end: End::Done }, record),
                false if is_over && row.phase == Phase::Between => {}
                false if is_over => row.enter(Phase::Between, record),
                false if row.phase == Phase::Group => {}
                false => row.enter(Phase::Group, record),
            }
        }
        self.progress.of = tasks;
        self.follow_groups(record);
        (self.progress.done, self.progress.passed) = (all_merged, all_merged);
        self.progress.failed = all_blocked;
    }

    /// The run is where its last group is that works, unless an agent of its own does.
    fn follow_groups(&mut self, record: &Glance<'_>) {
        let groups = self.groups();
        let working = self.rows.iter().rfind(|row| is_group(row) && row.phase == Phase::Group);
        let working = working.map(|row| format!("group {} of {groups}", row.number));
        self.update_run(|row| {
            let is_free = matches!(row.phase, Phase::Between | Phase::Group);
            match working {
                Some(item) if is_free && (row.phase, &row.item) != (Phase::Group, &item) => {
                    (row.item, row.output) = (item, None);
                    row.note.clear();
                    row.enter(Phase::Group, record);
                }
                None if row.phase == Phase::Group => row.enter(Phase::Between, record),
                _ => {}
            }
        });
    }

    fn update_run(&mut self, update: impl FnOnce(&mut Row)) {
        if let Some(row) = self.rows.first_mut() {
            update(row);
        }
    }

    fn row_of_loop(&mut self, id: &str) -> Option<&mut Row> {
        self.rows.iter_mut().find(|row| row.state.is_some() && row.name == in_line(id))
    }

    /// The row of a turn that it shows.
    pub(super) fn row_of_turn(&mut self, turn: u64) -> Option<&mut Row> {
        let is_it = is_in_turn(&self.id, turn);
        self.rows.iter_mut().find(|row| is_it(row))
    }
}

impl Row {
    /// Enters the state of a loop of a squad, in which no agent works.
    fn settle(&mut self, state: LoopState, record: &Glance<'_>) {
        self.state = Some(state);
        let end = match state {
            LoopState::Merged => End::Done,
            LoopState::Skipped => End::Idle,
            LoopState::Stuck | LoopState::Failed => End::Failed,
            _ => return self.enter(Phase::Between, record),
        };
        self.end(Outcome { word: state.name().to_owned(), end }, record);
    }

    /// The row of a turn of a squad that ends with this record.
    fn of_turn(&self, is_good: bool, usage: Sum, record: &Glance<'_>) -> Row {
        let (word, end) = if is_good { ("done", End::Done) } else { ("failed", End::Failed) };
        let mut row = Row {
            level: 0,
            // The item of the run is the turn.
            title: if self.level < LOOPS { "" } else { self.phase.word() }.to_owned(),
            began: self.since.clone(),
            note: match (self.note.as_str(), self.claim) {
                ("", Some(claim)) => claim.to_string(),
                (note, _) => note.to_owned(),
            },
            state: None,
            review: ReviewStatus::Pending,
            revision: 0,
            claim: None,
            usage,
            ..self.clone()
        };
        row.end(Outcome { word: word.to_owned(), end }, record);
        row
    }
}

fn is_group(row: &Row) -> bool {
    row.level < LOOPS && row.run.is_empty()
}

fn is_of_task(row: &Row, task: &str) -> bool {
    row.level == LOOPS && row.item == in_line(task)
}

/// Whether a row shows a turn.
fn is_in_turn(run: &str, turn: u64) -> impl Fn(&Row) -> bool + use<> {
    let dir = squad_turn_path(run, turn);
    move |row| !dir.is_empty() && row.dir == dir
}
