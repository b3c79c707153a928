//! Whole squads with generated agents, checks, merges and users, and a harness that crashes after any record and is
//! resumed: checked after every record.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::{BTreeMap, BTreeSet};

use autoloop_core::config::{Check, Effort};
use autoloop_core::coordinator::Fold;
use autoloop_core::merge::MergeOutcome;
use autoloop_core::record::*;
use autoloop_core::review::Verdict;
use autoloop_core::squad::*;
use autoloop_core::timestamp::Timestamp;
use autoloop_testkit::{Dice, simulate};

/// More steps than any squad takes.
const ENDLESS: usize = 20_000;

/// What outlives a harness.
struct Model {
    rules: SquadRules,
    is_planned: bool,
    effort: Effort,
    records: Vec<Record>,
    /// The fold of the living harness.
    fold: Squad,
    /// The lanes whose threads run: turns by their numbers, and steps.
    running: BTreeMap<Lane, Running>,
    /// The next commit.
    commits: u64,
    crashes: u64,
    /// The commits that are reachable from the project.
    merged: BTreeSet<String>,
    resolved: u64,
}

#[derive(Clone, Debug)]
enum Running {
    Turn(u64),
    Check(Check, String),
    Merge(String),
}

impl Model {
    fn generated(dice: &mut Dice) -> Model {
        let checks = ["test", "lint"].map(|name| Check {
            name: name.to_owned(),
            command: format!("make {name}"),
            timeout: Check::TIMEOUT,
        });
        let count = dice.index(3);
        Model {
            rules: SquadRules {
                run: SquadRun::Build,
                max_loops: 1 + dice.below(4),
                max_iterations: 2 + dice.below(9),
                stall_iterations: *dice.pick(&[None, Some(2), Some(3)]),
                checks: checks.into_iter().take(count).collect(),
            },
            is_planned: dice.chance(1, 2),
            effort: *dice.pick(&[Effort::Low, Effort::Medium, Effort::High, Effort::Max]),
            records: Vec::new(),
            fold: Squad::new("r"),
            running: BTreeMap::new(),
            commits: 0,
            crashes: 0,
            merged: BTreeSet::new(),
            resolved: 0,
        }
    }

    /// Folds all records again.
    fn read(&self) -> Squad {
        let mut squad = Squad::new("r");
        self.records.iter().for_each(|record| apply(&mut squad, record));
        squad
    }

    fn put(&mut self, record: impl FnOnce(&Heading) -> Record) {
        let now = Timestamp::from_millis(1);
        let record = record(&Heading { run: "r".into(), iteration: String::new(), now });
        apply(&mut self.fold, &record);
        self.records.push(record);
        self.judge();
    }

    fn commit(&mut self) -> String {
        self.commits += 1;
        format!("c{}", self.commits)
    }

    fn begin(&mut self, dice: &mut Dice) {
        let (effort, is_planned) = (self.effort, self.is_planned);
        self.put(|heading| {
            let planned = is_planned.then_some(true);
            SquadStart { effort: effort.into(), base: "c0".into(), planned, ..Default::default() }
                .record(heading)
        });
        if is_planned {
            self.write_tasks(None, dice);
            self.write_groups(None, dice);
        }
    }

    fn write_tasks(&mut self, turn: Option<u64>, dice: &mut Dice) {
        for number in 0..1 + dice.below(6) {
            let task_id = format!("t{number}");
            let title = format!("do {number}");
            self.put(|heading| {
                SquadTask { turn, task_id, title, ..SquadTask::default() }.record(heading)
            });
        }
    }

    fn write_groups(&mut self, turn: Option<u64>, dice: &mut Dice) {
        let mut tasks: Vec<String> = self.fold.tasks.iter().map(|task| task.id.clone()).collect();
        while !tasks.is_empty() {
            let rest = tasks.split_off((1 + dice.index(tasks.len())).min(tasks.len()));
            let group = tasks.join(",");
            self.put(|heading| SquadGroup { turn, tasks: group }.record(heading));
            tasks = rest;
        }
    }

    /// Drives the squad to its end, or until it crashes. Returns whether it ended.
    fn drive(&mut self, dice: &mut Dice) -> bool {
        self.fold = self.read();
        self.running.clear();
        if self.fold.start.is_some() {
            assert_eq!(self.fold.start.as_ref().unwrap().is_planned, self.is_planned);
            self.put(|heading| SquadResume::default().record(heading));
        } else {
            self.begin(dice);
        }
        for _ in 0..ENDLESS {
            if self.crashes < 8 && dice.chance(1, 40) {
                self.crashes += 1;
                return false;
            }
            let is_recorded = self.start_steps(dice);
            if self.fold.finish.is_some() {
                return true;
            }
            if is_recorded {
                continue;
            }
            let lanes: Vec<Lane> = self.running.keys().copied().collect();
            assert!(!lanes.is_empty(), "nothing runs, and nothing is left to do");
            let lane = *dice.pick(&lanes);
            let running = self.running.remove(&lane).unwrap();
            self.end(running, dice);
        }
        panic!("the squad does not end");
    }

    /// Starts what can be started. Returns whether a record changed what is next.
    fn start_steps(&mut self, dice: &mut Dice) -> bool {
        for step in next_steps(&self.fold, &self.rules) {
            let lane = step.lane(&self.fold);
            match step {
                Step::Settle(review) => self.put(|heading| review.record(heading)),
                Step::FinishLoop(finish) => self.put(|heading| finish.record(heading)),
                // A check of the same commit in another loop may be enough.
                Step::Finish(_) if !self.running.is_empty() => continue,
                Step::Finish(finish) => self.put(|heading| finish.record(heading)),
                Step::Open { group, tasks } => {
                    let base = self.fold.head().to_owned();
                    for task_id in tasks {
                        let known = self.fold.loop_of(&task_id).map(|it| it.number);
                        let number = known.unwrap_or(self.fold.loops.len() as u64 + 1);
                        let (loop_id, base) = (self.fold.loop_id(number), base.clone());
                        self.put(|heading| {
                            SquadLoop { loop_id, task_id, group, base, ..Default::default() }
                                .record(heading)
                        });
                    }
                }
                Step::Checkpoint { loops } => {
                    for id in loops {
                        let number = self.fold.find(&id).unwrap().number;
                        let commit = Some(self.commit());
                        let turn = SquadTurn {
                            phase: SquadPhase::Checkpoint.into(),
                            subject: Some(SquadSubject::Progress.into()),
                            loop_id: Some(id),
                            commit,
                            ..SquadTurn::default()
                        };
                        self.turn(Lane::Checkpoint(number), turn);
                    }
                }
                _ if self.running.contains_key(&lane) => continue,
                Step::Phase { phase, attempt } => {
                    self.turn(
                        lane,
                        SquadTurn { phase: phase.into(), attempt, ..Default::default() },
                    );
                }
                Step::Build { loop_id } => {
                    let it = self.fold.find(&loop_id).unwrap();
                    let (phase, attempt) = (it.phase().into(), it.revisions);
                    let loop_id = Some(loop_id);
                    self.turn(lane, SquadTurn { phase, attempt, loop_id, ..Default::default() });
                }
                Step::Review { subject, loop_id, attempt, commit } => {
                    let phase = match subject {
                        SquadSubject::Progress => SquadPhase::Checkpoint,
                        _ => SquadPhase::Review,
                    };
                    let turn = SquadTurn {
                        phase: phase.into(),
                        subject: Some(subject.into()),
                        loop_id,
                        attempt,
                        commit: Some(commit),
                        ..SquadTurn::default()
                    };
                    self.turn(lane, turn);
                }
                Step::Check { check, commit, .. } => {
                    self.running.insert(lane, Running::Check(check, commit));
                    continue;
                }
                Step::Merge { loop_id } => {
                    self.running.insert(lane, Running::Merge(loop_id));
                    continue;
                }
            }
            let _ = dice;
            return true;
        }
        false
    }

    fn turn(&mut self, lane: Lane, turn: SquadTurn) {
        let number = self.fold.next_turn();
        let turn = SquadTurn { turn: number, ..turn };
        self.put(|heading| turn.record(heading));
        self.running.insert(lane, Running::Turn(number));
    }

    /// Ends what ran in a lane.
    fn end(&mut self, running: Running, dice: &mut Dice) {
        match running {
            Running::Turn(number) => self.end_turn(number, dice),
            Running::Check(check, commit) => {
                let exit_code = if dice.chance(1, 6) { 1 } else { 0 };
                self.put(|heading| {
                    CheckFinish {
                        name: check.name,
                        command: check.command,
                        commit,
                        exit_code: exit_code.into(),
                        ..CheckFinish::default()
                    }
                    .record(heading)
                });
            }
            Running::Merge(loop_id) => self.end_merge(loop_id, dice),
        }
    }

    fn end_turn(&mut self, turn: u64, dice: &mut Dice) {
        let start = self.fold.turn(turn).unwrap().start.clone();
        let mut finish = SquadTurnFinish {
            turn,
            loop_id: start.loop_id.clone(),
            exit_code: 0.into(),
            ..SquadTurnFinish::default()
        };
        if dice.chance(1, 8) {
            finish.exit_code = 1.into();
            finish.reason = Some(dice.pick(&["no network", "no key"]).to_string());
        }
        match start.phase.known().unwrap() {
            SquadPhase::Enumerate if !dice.chance(1, 6) => self.write_tasks(Some(turn), dice),
            SquadPhase::Plan if !dice.chance(1, 6) => self.write_groups(Some(turn), dice),
            SquadPhase::Enumerate | SquadPhase::Plan => {}
            SquadPhase::Build | SquadPhase::Revise => {
                if dice.chance(2, 3) {
                    let claim =
                        if dice.chance(1, 20) { SquadClaim::Fail } else { SquadClaim::Complete };
                    let task_id = "t".to_owned();
                    self.put(|heading| {
                        SquadReport { turn, task_id, claim: claim.into(), reason: String::new() }
                            .record(heading)
                    });
                }
                let commit = if dice.chance(1, 3) { "same".to_owned() } else { self.commit() };
                finish.tree = Some(commit.clone());
                finish.commit = Some(commit);
            }
            SquadPhase::Conflict => match dice.chance(1, 2) {
                true => finish.commit = Some(self.commit()),
                false => finish.reason = Some("a marker is left".to_owned()),
            },
            SquadPhase::Review | SquadPhase::Checkpoint => {
                for _ in 0..*dice.pick(&[0, 1, 1, 1, 1, 2]) {
                    let passed = dice.chance(2, 3);
                    let issues = r#"[{"description": "t1 lacks a test"}]"#.into();
                    self.put(|heading| {
                        SquadAnswer { turn, passed, issues, ..SquadAnswer::default() }
                            .record(heading)
                    });
                }
                if dice.chance(1, 4) {
                    let command = "make extra".to_owned();
                    self.put(|heading| SquadCited { turn, command }.record(heading));
                }
            }
        }
        self.put(|heading| finish.record(heading));
    }

    fn end_merge(&mut self, loop_id: String, dice: &mut Dice) {
        let it = self.fold.find(&loop_id).unwrap().clone();
        let work = it.work.unwrap().commit;
        let resolved = it.conflict.as_ref().map(|conflict| conflict.resolution.clone());
        let outcome = match resolved {
            None if dice.chance(1, 4) => {
                let head = self.fold.head().to_owned();
                let phase = SquadPhase::Conflict.into();
                let (number, id) = (it.number, Some(loop_id));
                let turn =
                    SquadTurn { phase, loop_id: id, commit: Some(head), ..Default::default() };
                return self.turn(Lane::Loop(number), turn);
            }
            Some(Err(_)) => MergeOutcome::Conflict,
            _ if dice.chance(1, 10) => MergeOutcome::Failed,
            _ if dice.chance(1, 30) => MergeOutcome::Uncommitted,
            _ => MergeOutcome::Merged,
        };
        let commit = self.commit();
        if outcome == MergeOutcome::Merged {
            self.merged.insert(work);
        }
        self.put(|heading| {
            SquadMerge { loop_id, outcome: outcome.into(), commit, ..Default::default() }
                .record(heading)
        });
    }

    /// What holds after every record.
    fn judge(&self) {
        let squad = &self.fold;
        let open = |it: &Loop, is: fn(&Turn) -> bool| {
            squad.open_turns().filter(|turn| turn.is_of(&it.id) && is(turn)).count()
        };
        let is_reader =
            |turn: &Turn| matches!(turn.phase(), Some(SquadPhase::Review | SquadPhase::Checkpoint));
        for it in &squad.loops {
            assert!(open(it, Turn::is_builder) <= 1, "two builders in {}", it.id);
            assert!(open(it, is_reader) <= 1, "two reviewers of {}", it.id);
            // Work that the user accepted can conflict.
            let most = squad.effort().revisions() + 1 + self.resolved;
            assert!(it.revisions <= most, "{it:?}");
        }
        let is_active =
            |it: &&Loop| squad.open_turns().any(|turn| turn.is_of(&it.id) && turn.is_builder());
        let active = squad.loops.iter().filter(is_active).count() as u64;
        assert!(active <= self.rules.max_loops, "{active} builders at once");
        let writing = squad.open_turns().filter(|turn| turn.start.loop_id.is_none()).count();
        assert!(writing <= 1, "two agents of the run");
        self.judge_merges();
        self.judge_reviews();
    }

    /// Loops of a group merge only when all of it passed; a later group begins only when it is merged.
    fn judge_merges(&self) {
        let squad = &self.fold;
        let Some(last) = self.records.last() else { return };
        let last = printed(last);
        match Glance::read(&last).unwrap().event() {
            Event::SquadMerge(merge) if merge.outcome == MergeOutcome::Merged => {
                let it = squad.find(&merge.loop_id).unwrap();
                let group = squad.loops.iter().filter(|other| other.group == it.group);
                for other in group {
                    let is_ready = other.state.is_joined() || other.state == LoopState::Reopened;
                    assert!(is_ready, "{} merged while {} is {:?}", it.id, other.id, other.state);
                }
            }
            Event::SquadLoop(start) => {
                let earlier = squad.loops.iter().filter(|it| it.group < start.group);
                for it in earlier {
                    let is_done = matches!(it.state, LoopState::Merged | LoopState::Skipped);
                    assert!(
                        is_done,
                        "group {} began while {} is {:?}",
                        start.group, it.id, it.state
                    );
                }
            }
            Event::SquadFinish(finish) if finish.outcome == SquadEnd::Completed => {
                for it in &squad.loops {
                    assert!(matches!(it.state, LoopState::Merged | LoopState::Skipped), "{it:?}");
                    if it.state == LoopState::Merged {
                        let work = &it.work.as_ref().unwrap().commit;
                        assert!(self.merged.contains(work), "{} is not reachable", it.id);
                    }
                }
                let last = squad.reviews.last().unwrap();
                assert_eq!(
                    (last.subject == SquadSubject::Build, last.verdict == Verdict::Pass),
                    (true, true)
                );
            }
            _ => {}
        }
    }

    /// A pass has an answer that passed, and no failed check; a reviewer is asked at most twice.
    fn judge_reviews(&self) {
        let squad = &self.fold;
        for review in &squad.reviews {
            let turn = squad.turn(review.turn).unwrap();
            if review.verdict == Verdict::Pass {
                assert!(turn.answer().is_some_and(Answer::is_pass), "{review:?}");
                let commit = review.commit.clone().unwrap_or_default();
                let is_of_task = review.subject == SquadSubject::Task;
                let results = squad.checks_of(&commit);
                for check in self.rules.checks.iter().filter(|_| is_of_task) {
                    let passed = results.iter().any(|it| it.name == check.name && it.passed());
                    assert!(passed, "passed without {}", check.name);
                }
                for command in &turn.cited {
                    assert!(results.iter().any(|it| it.command == *command && it.passed()));
                }
            }
            if review.verdict == Verdict::Violation || review.verdict == Verdict::Failed {
                assert_eq!(turn.start.attempt, 1, "{review:?}");
            }
        }
        // One review of an unfinished loop for each of its iterations.
        let mut seen = BTreeSet::new();
        for turn in squad.turns.iter().filter(|turn| turn.end().is_some()) {
            if turn.phase() == Some(SquadPhase::Checkpoint) && turn.start.attempt == 0 {
                assert!(turn.start.task_id.is_none());
                seen.insert(turn.number());
            }
        }
        if squad.effort() == Effort::Low {
            assert!(seen.is_empty());
        }
    }

    /// The user decides about the loops that block a squad, and resumes it.
    fn resolve(&mut self, dice: &mut Dice) -> bool {
        let end = self.fold.finish.as_ref().unwrap().outcome.known().unwrap();
        if end == SquadEnd::Completed || self.resolved > 6 {
            return false;
        }
        self.resolved += 1;
        self.put(|heading| SquadResume::default().record(heading));
        let blocked: Vec<Loop> =
            self.fold.loops.iter().filter(|it| it.state.is_blocked()).cloned().collect();
        for it in blocked {
            let resolution = match dice.below(3) {
                0 => Resolution::Retry,
                1 => Resolution::Skip,
                _ if it.work.is_some() => Resolution::Accept,
                _ => Resolution::Skip,
            };
            let (loop_id, reason) = (it.id, "so it is".to_owned());
            self.put(|heading| {
                SquadResolve { loop_id, resolution: resolution.into(), reason }.record(heading)
            });
        }
        true
    }
}

fn printed(record: &Record) -> Vec<u8> {
    let mut line = Vec::new();
    print(record, &mut line);
    line.trim_ascii_end().to_vec()
}

fn apply(squad: &mut Squad, record: &Record) {
    squad.apply(&Glance::read(&printed(record)).unwrap());
}

#[test]
fn squads_end_and_keep_their_promises() {
    simulate("squad", 500, |_, dice| {
        let mut model = Model::generated(dice);
        loop {
            while !model.drive(dice) {}
            let folded = model.read();
            assert_eq!(folded, model.fold);
            if !model.resolve(dice) {
                return;
            }
        }
    });
}
