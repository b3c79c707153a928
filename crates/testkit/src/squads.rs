//! Journals of squads, sealed as the harness seals them, without any agent.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use autoloop_core::agents::Dollars;
use autoloop_core::provenance::RunKey;
use autoloop_core::record::{
    Amount, BackendUsage, Heading, LoopEnd, Record, SquadAnswer, SquadClaim, SquadEnd, SquadFinish,
    SquadGroup, SquadLoop, SquadLoopFinish, SquadPhase, SquadReport, SquadReview, SquadStart,
    SquadSubject, SquadTask, SquadTurn, SquadTurnFinish, Support,
};
use autoloop_core::review::Verdict;
use autoloop_core::squad::Effort;
use autoloop_core::timestamp::Timestamp;
use autoloop_runtime::journal::{
    Append, Durability, FileJournal, FileSettings, Journal as _, NewRecord,
};
use autoloop_runtime::world::World;

/// The harness of one run, as far as it writes records. A second passes with each append.
pub struct SquadWriter {
    journal: FileJournal,
    run: String,
    key: RunKey,
    sealed: u64,
    now: Timestamp,
    turns: u64,
    /// Those that were started.
    started: HashMap<u64, SquadTurn>,
}

impl SquadWriter {
    /// The writer of a run that has no records yet.
    ///
    /// # Panics
    ///
    /// When the world has no key.
    pub fn new(world: &World, journal: &Path, run: &str) -> SquadWriter {
        let key = world.key().expect("a world for tests has a key");
        SquadWriter {
            journal: FileJournal::new(journal, world, FileSettings::default()),
            run: run.to_owned(),
            key: key.of_run(run),
            sealed: 0,
            now: "2026-01-02T03:04:05.000Z".parse().expect("a valid time"),
            turns: 0,
            started: HashMap::new(),
        }
    }

    /// Lets the clock of the writer go on.
    pub fn wait(&mut self, time: Duration) {
        self.now = self.now.plus(time);
    }

    /// Seals and appends the records that are made with a heading, all at the same time.
    ///
    /// # Panics
    ///
    /// When they cannot be stored.
    pub fn append(&mut self, records: impl FnOnce(&Heading) -> Vec<Record>) {
        let heading = Heading { run: self.run.clone(), iteration: String::new(), now: self.now };
        let mut records = records(&heading);
        for record in &mut records {
            self.key.seal(self.sealed, record);
            self.sealed += 1;
        }
        let records: Vec<NewRecord> = records.into_iter().map(NewRecord::from).collect();
        let how = Append { expect: None, durability: Durability::Cached };
        self.journal.append(&records, how).expect("the journal can be written");
        self.wait(Duration::from_secs(1));
    }

    /// Begins the run with a plan of the user: a group of tasks after another.
    pub fn start(&mut self, effort: Effort, groups: &[&[&str]]) {
        let start = SquadStart {
            spec: "a small tool".into(),
            effort: effort.into(),
            max_loops: 4,
            base: "base".to_owned(),
            planned: Some(true),
        };
        let tasks = groups.iter().copied().flatten().map(|id| task(None, id));
        let tasks: Vec<SquadTask> = tasks.collect();
        let groups = groups.iter().map(|tasks| SquadGroup { turn: None, tasks: tasks.join(",") });
        let groups: Vec<SquadGroup> = groups.collect();
        self.append(|heading| {
            let tasks = tasks.iter().map(|task| task.record(heading));
            let groups = groups.iter().map(|group| group.record(heading));
            std::iter::once(start.record(heading)).chain(tasks).chain(groups).collect()
        });
    }

    /// The id of a loop.
    pub fn loop_id(&self, number: u64) -> String {
        format!("{}-{number}", self.run)
    }

    /// Begins a loop, or begins it again.
    pub fn open(&mut self, number: u64, task: &str, group: u64) {
        let id = self.loop_id(number);
        let start = SquadLoop {
            branch: format!("autoloop/{id}"),
            tree: format!("/trees/{id}"),
            loop_id: id,
            task_id: task.to_owned(),
            group,
            base: "base".to_owned(),
        };
        self.append(|heading| vec![start.record(heading)]);
    }

    /// Starts a turn about a loop and its task, or about the run, and returns its number.
    pub fn turn(
        &mut self,
        phase: SquadPhase,
        subject: Option<SquadSubject>,
        about: Option<(u64, &str)>,
    ) -> u64 {
        self.turns += 1;
        let is_checkpoint = phase == SquadPhase::Checkpoint;
        let turn = SquadTurn {
            turn: self.turns,
            phase: phase.into(),
            subject: subject.map(Into::into),
            loop_id: about.map(|(number, _)| self.loop_id(number)),
            task_id: about.map(|(_, task)| task.to_owned()).filter(|_| !is_checkpoint),
            ..SquadTurn::default()
        };
        self.append(|heading| vec![turn.record(heading)]);
        self.started.insert(self.turns, turn);
        self.turns
    }

    /// Ends a turn that cost so many dollars.
    pub fn end(&mut self, turn: u64, dollars: f64) {
        let start = &self.started[&turn];
        let usage = BackendUsage {
            input_tokens: Amount(1000),
            output_tokens: Amount(200),
            total_tokens: Amount(1200),
            cost_usd: Dollars::new(dollars),
            model: Some("model-a".to_owned()),
            role: Some(start.phase.to_string()),
            ..BackendUsage::default()
        };
        let finish = SquadTurnFinish {
            turn,
            loop_id: start.loop_id.clone(),
            exit_code: 0.into(),
            commit: Some(format!("commit-{turn}")),
            tree: Some(format!("tree-{turn}")),
            ..SquadTurnFinish::default()
        };
        self.append(|heading| vec![usage.record(heading), finish.record(heading)]);
    }

    /// A turn in which a builder completes its task.
    pub fn build(&mut self, number: u64, task: &str, dollars: f64) -> u64 {
        let turn = self.turn(SquadPhase::Build, None, Some((number, task)));
        let report = SquadReport {
            turn,
            task_id: task.to_owned(),
            claim: SquadClaim::Complete.into(),
            reason: String::new(),
        };
        self.append(|heading| vec![report.record(heading)]);
        self.end(turn, dollars);
        turn
    }

    /// Starts the review of a completed task.
    pub fn review(&mut self, number: u64, task: &str) -> u64 {
        let subject = Some(SquadSubject::Task);
        self.turn(SquadPhase::Review, subject, Some((number, task)))
    }

    /// An answer with issues, a JSON array.
    pub fn answer(&mut self, answer: SquadAnswer<'_>) {
        self.append(|heading| vec![answer.record(heading)]);
    }

    /// The decision about a review: the answer that decided, or why there is none.
    pub fn decide(
        &mut self,
        turn: u64,
        about: Option<u64>,
        decision: Result<(u64, Verdict), &str>,
    ) {
        let (answer, verdict, reason) = match decision {
            Ok((answer, verdict)) => (format!("-{answer}"), verdict, ""),
            Err(reason) => (String::new(), Verdict::Violation, reason),
        };
        let subject = if about.is_some() { SquadSubject::Task } else { SquadSubject::Plan };
        let review = SquadReview {
            review_id: format!("{}-{turn}{answer}", self.run),
            subject: subject.into(),
            loop_id: about.map(|number| self.loop_id(number)),
            task_id: None,
            turn,
            verdict: verdict.into(),
            reason: reason.to_owned(),
            support: Support::Unverified.into(),
            commit: None,
        };
        self.append(|heading| vec![review.record(heading)]);
    }

    /// Ends a loop that got no further.
    pub fn stuck(&mut self, number: u64, reason: &str) {
        let loop_id = self.loop_id(number);
        let outcome = LoopEnd::Stuck.into();
        let finish = SquadLoopFinish { loop_id, outcome, reason: reason.to_owned() };
        self.append(|heading| vec![finish.record(heading)]);
    }

    /// Ends the run.
    pub fn finish(&mut self, end: SquadEnd, reason: &str) {
        let finish = SquadFinish { outcome: end.into(), reason: reason.to_owned(), raise: None };
        self.append(|heading| vec![finish.record(heading)]);
    }
}

/// A squad of two groups: one loop passed, and one is stuck after two revisions.
pub fn sample(squad: &mut SquadWriter) {
    let intent = Some("a title is never empty".to_owned());
    let answer = |squad: &SquadWriter, turn, number, passed, issues: &'static str| SquadAnswer {
        turn,
        loop_id: Some(squad.loop_id(number)),
        passed,
        interpreted_intent: intent.clone(),
        intent_satisfied: passed.then_some(true),
        issues: issues.into(),
        ..SquadAnswer::default()
    };
    squad.start(Effort::Low, &[&["parser", "printer"], &["manual"]]);
    squad.open(1, "parser", 1);
    squad.open(2, "printer", 1);
    squad.build(1, "parser", 0.5);
    let turn = squad.review(1, "parser");
    squad.answer(answer(squad, turn, 1, true, "[]"));
    squad.end(turn, 0.125);
    squad.decide(turn, Some(1), Ok((1, Verdict::Pass)));
    for issues in [UNUSED, r#"[{"description": "no test"}]"#] {
        squad.build(2, "printer", 0.25);
        let turn = squad.review(2, "printer");
        squad.answer(answer(squad, turn, 2, false, issues));
        squad.end(turn, 0.125);
        squad.decide(turn, Some(2), Ok((1, Verdict::Drift)));
    }
    squad.build(2, "printer", 0.25);
    let turn = squad.review(2, "printer");
    squad.end(turn, 0.0625);
    let turn = squad.review(2, "printer");
    squad.end(turn, 0.0625);
    squad.decide(turn, Some(2), Err("the reviewer ended without an answer"));
    squad.stuck(2, "2 revisions did not pass: the review was not delivered");
}

const UNUSED: &str = r#"[{"file": "src/print.rs", "line": 12, "type": "dead-code", "description": "unused import", "suggestion": "remove it"}, {"description": "no test"}]"#;

/// A task of a turn, or of the user.
pub fn task(turn: Option<u64>, id: &str) -> SquadTask {
    SquadTask {
        turn,
        task_id: id.to_owned(),
        title: format!("write the {id}"),
        description: format!("The {id} is missing."),
        acceptance: None,
    }
}
