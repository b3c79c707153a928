//! The tables of squads, folded from journals that are sealed as the harness seals them.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use autoloop_core::agents::Dollars;
use autoloop_core::record::{
    BackendUsage, Record, Resolution, SquadAnswer, SquadCost, SquadEnd, SquadPhase, SquadResolve,
    SquadResume, SquadReview, SquadSubject, SquadTurnFinish,
};
use autoloop_core::review::Verdict;
use autoloop_core::squad::Effort;
use autoloop_runtime::journal::{
    Append, AppendError, FileJournal, FileSettings, Journal, NewRecord, Position, ReadError, Visit,
};
use autoloop_runtime::layout::StateDir;
use autoloop_runtime::site::Site;
use autoloop_runtime::store::{self, Follower, Store, StoreError, Table};
use autoloop_runtime::world::{Secret, World};
use autoloop_testkit::squads::{SquadWriter, task};
use rusqlite::Connection;

/// A state directory with a journal and its database.
struct Place {
    dir: tempfile::TempDir,
    world: World,
}

impl Place {
    fn new() -> Place {
        let world = World { secret: Arc::new(Secret::fixed([7; 32])), ..World::real() };
        Place { dir: tempfile::tempdir().unwrap(), world }
    }

    fn state_dir(&self) -> StateDir {
        StateDir::new(self.dir.path())
    }

    fn journal_path(&self) -> PathBuf {
        self.state_dir().journal()
    }

    fn journal(&self) -> FileJournal {
        FileJournal::new(self.journal_path(), &self.world, FileSettings::default())
    }

    fn writer(&self, run: &str) -> SquadWriter {
        SquadWriter::new(&self.world, &self.journal_path(), run)
    }

    fn update(&self) -> Result<(), StoreError> {
        Store::open(&self.state_dir(), &self.world)?.update(&self.journal())
    }

    fn rebuild(&self) -> Result<(), StoreError> {
        store::rebuild(&self.journal(), &self.state_dir(), &self.world)
    }

    /// The rows of a query, a line each.
    fn query(&self, sql: &str) -> String {
        lines(&store::query(&self.state_dir(), sql).unwrap())
    }

    /// All rows in their order, and the schema.
    fn dump(&self) -> String {
        let tables = [
            "runs",
            "tasks",
            "plan_groups",
            "loops",
            "loop_reviews",
            "review_issues",
            "costs",
            "sqlite_schema",
        ];
        let rows = |table| {
            let all = self.query(&format!("select rowid, * from {table} order by rowid"));
            format!("== {table}\n{all}")
        };
        tables.map(rows).concat()
    }

    fn connect(&self) -> Connection {
        Connection::open(self.state_dir().store()).unwrap()
    }
}

fn lines(table: &Table) -> String {
    let cell = |value: &serde_json::Value| value.as_str().map_or(value.to_string(), str::to_owned);
    let line = |row: &Vec<_>| row.iter().map(cell).collect::<Vec<_>>().join("|") + "\n";
    table.rows.iter().map(line).collect()
}

const REVIEWS: &str = "select id, loop_id, task_id, passed, interpreted_intent, intent_satisfied, reviewed_at, cost_usd from loop_reviews";
const ISSUES: &str = "select id, task_id, file, line, type, description, suggestion, loop_id, loop_review_id from review_issues";

fn answer(
    turn: u64,
    squad: &SquadWriter,
    number: Option<u64>,
    passed: bool,
) -> SquadAnswer<'static> {
    let loop_id = number.map(|number| squad.loop_id(number));
    SquadAnswer { turn, loop_id, passed, issues: "[]".into(), ..SquadAnswer::default() }
}

/// A squad of two groups: one loop passes at once, one after a revision, one is stuck.
fn story(place: &Place, run: &str) -> SquadWriter {
    let mut squad = place.writer(run);
    squad.start(Effort::Low, &[&["a", "b"], &["c"]]);
    squad.open(1, "a", 1);
    squad.open(2, "b", 1);
    squad.build(1, "a", 0.5);
    squad.build(2, "b", 0.25);

    let turn = squad.review(1, "a");
    let intent = Some("a small a".to_owned());
    squad.answer(SquadAnswer {
        interpreted_intent: intent.clone(),
        intent_satisfied: Some(true),
        ..answer(turn, &squad, Some(1), true)
    });
    squad.end(turn, 0.125);
    squad.decide(turn, Some(1), Ok((1, Verdict::Pass)));

    let turn = squad.review(2, "b");
    let issues = r#"[{"file": "src/b.rs", "line": 12, "type": "dead-code", "description": "unused\nimport", "suggestion": "remove it"}, {"description": "no test"}]"#;
    squad.answer(SquadAnswer {
        interpreted_intent: intent,
        intent_satisfied: Some(false),
        issues: issues.into(),
        ..answer(turn, &squad, Some(2), false)
    });
    squad.end(turn, 0.125);
    squad.decide(turn, Some(2), Ok((1, Verdict::Drift)));
    squad
}

#[test]
fn answers_are_rows_as_they_were_given() {
    let place = Place::new();
    story(&place, "swift-otter");
    place.update().unwrap();
    insta::assert_snapshot!(place.query(REVIEWS), @"
    swift-otter-3-1|swift-otter-1|a|1|a small a|1|2026-01-02T03:04:15.000Z|0.125
    swift-otter-4-1|swift-otter-2|b|0|a small a|0|2026-01-02T03:04:19.000Z|0.125
    ");
    insta::assert_snapshot!(place.query(ISSUES), @"
    swift-otter-4-1-1|b|src/b.rs|12|dead-code|unused
    import|remove it|swift-otter-2|swift-otter-4-1
    swift-otter-4-1-2|b|null|null|null|no test|null|swift-otter-2|swift-otter-4-1
    ");
    insta::assert_snapshot!(place.query("select * from runs"), @"swift-otter|a small tool|low|4|base|1|running|null|2026-01-02T03:04:05.000Z|null");
    insta::assert_snapshot!(place.query("select * from tasks"), @"
    swift-otter|a|write the a|The a is missing.|null
    swift-otter|b|write the b|The b is missing.|null
    swift-otter|c|write the c|The c is missing.|null
    ");
    insta::assert_snapshot!(place.query("select * from plan_groups"), @"
    swift-otter|1|a
    swift-otter|1|b
    swift-otter|2|c
    ");
    insta::assert_snapshot!(place.query("select * from loops"), @r"
    swift-otter-1|swift-otter|a|1|autoloop/swift-otter-1|/trees/swift-otter-1|base|passed|null|1|passed|swift-otter-3-1|0|1
    swift-otter-2|swift-otter|b|1|autoloop/swift-otter-2|/trees/swift-otter-2|base|building|null|1|failed|swift-otter-4-1|1|1
    ");
    insta::assert_snapshot!(place.query("select * from costs"), @"
    swift-otter|1|1|swift-otter-1|a|build|model-a|0.5|1200|null|2026-01-02T03:04:10.000Z
    swift-otter|2|1|swift-otter-2|b|build|model-a|0.25|1200|null|2026-01-02T03:04:13.000Z
    swift-otter|3|1|swift-otter-1|a|review|model-a|0.125|1200|null|2026-01-02T03:04:16.000Z
    swift-otter|4|1|swift-otter-2|b|review|model-a|0.125|1200|null|2026-01-02T03:04:20.000Z
    ");
}

#[test]
fn two_answers_at_the_same_time_are_two_rows_in_order() {
    let place = Place::new();
    let mut squad = story(&place, "swift-otter");
    let turn = squad.review(2, "b");
    let both = [true, false].map(|passed| answer(turn, &squad, Some(2), passed));
    // More than nine, so that the order is not that of their ids.
    squad.append(|heading| {
        let mut records: Vec<Record> = both.iter().map(|it| it.record(heading)).collect();
        records.extend((0..9).map(|_| both[1].record(heading)));
        records
    });
    squad.decide(turn, Some(2), Ok((11, Verdict::Drift)));
    place.update().unwrap();
    let of_turn = format!(
        "select id, passed, intent_satisfied, reviewed_at from loop_reviews where id like 'swift-otter-{turn}-%' order by reviewed_at"
    );
    insta::assert_snapshot!(place.query(&of_turn), @"
    swift-otter-5-1|1|null|2026-01-02T03:04:23.000Z
    swift-otter-5-2|0|null|2026-01-02T03:04:23.000Z
    swift-otter-5-3|0|null|2026-01-02T03:04:23.000Z
    swift-otter-5-4|0|null|2026-01-02T03:04:23.000Z
    swift-otter-5-5|0|null|2026-01-02T03:04:23.000Z
    swift-otter-5-6|0|null|2026-01-02T03:04:23.000Z
    swift-otter-5-7|0|null|2026-01-02T03:04:23.000Z
    swift-otter-5-8|0|null|2026-01-02T03:04:23.000Z
    swift-otter-5-9|0|null|2026-01-02T03:04:23.000Z
    swift-otter-5-10|0|null|2026-01-02T03:04:23.000Z
    swift-otter-5-11|0|null|2026-01-02T03:04:23.000Z
    ");
    insta::assert_snapshot!(place.query("select review_status, last_review_id, revision_attempts from loops where task_id = 'b'"), @"in_progress|swift-otter-5-11|2");
}

#[test]
fn a_review_without_an_answer_is_a_row_that_says_so() {
    let place = Place::new();
    let mut squad = story(&place, "swift-otter");
    let first = squad.review(2, "b");
    squad.end(first, 0.5);
    let second = squad.review(2, "b");
    squad.end(second, 0.0625);
    squad.decide(second, Some(2), Err("the reviewer ended without an answer"));
    let of_run = squad.turn(SquadPhase::Review, Some(SquadSubject::Plan), None);
    squad.end(of_run, 0.5);
    squad.decide(of_run, None, Err("timed out"));
    place.update().unwrap();
    let last = |sql: &str| {
        place.query(&format!(
            "{sql} where id like 'swift-otter-{second}%' or id like 'swift-otter-{of_run}%'"
        ))
    };
    insta::assert_snapshot!(last(REVIEWS), @"swift-otter-6|swift-otter-2|b|0|null|null|2026-01-02T03:04:26.000Z|0.0625");
    insta::assert_snapshot!(last(ISSUES), @"
    swift-otter-6-1|b|null|null|undelivered|the reviewer ended without an answer|null|swift-otter-2|swift-otter-6
    swift-otter-7-1|null|null|null|undelivered|timed out|null|null|null
    ");
}

#[test]
fn reviews_of_the_run_have_issues_without_a_loop() {
    let place = Place::new();
    let mut squad = place.writer("swift-otter");
    squad.start(Effort::High, &[]);
    let turn = squad.turn(SquadPhase::Enumerate, None, None);
    squad.append(|heading| vec![task(Some(turn), "a").record(heading)]);
    squad.end(turn, 1.0);
    let turn = squad.turn(SquadPhase::Review, Some(SquadSubject::Enumerate), None);
    let issues = r#"[{"description": "nothing tests a"}, {"taskId": "a", "line": 1.5}]"#;
    squad.answer(SquadAnswer { issues: issues.into(), ..answer(turn, &squad, None, false) });
    squad.end(turn, 0.25);
    place.update().unwrap();
    insta::assert_snapshot!(place.query(ISSUES), @"
    swift-otter-2-1-1|null|null|null|null|nothing tests a|null|null|null
    swift-otter-2-1-2|a|null|1.5|null|null|null|null|null
    ");
    assert_eq!(place.query(REVIEWS), "");
    assert_eq!(place.query("select id from tasks"), "a\n");

    // A new turn of the phase begins with an empty list.
    let turn = squad.turn(SquadPhase::Enumerate, None, None);
    place.update().unwrap();
    assert_eq!(place.query("select id from tasks"), "");
    squad.append(|heading| vec![task(Some(turn), "z").record(heading)]);
    place.update().unwrap();
    assert_eq!(place.query("select id from tasks"), "z\n");
}

#[test]
fn a_checkpoint_is_about_no_task() {
    let place = Place::new();
    let mut squad = story(&place, "swift-otter");
    let build = squad.turn(SquadPhase::Build, None, Some((2, "b")));
    squad.end(build, 0.5);
    let subject = Some(SquadSubject::Progress);
    let turn = squad.turn(SquadPhase::Checkpoint, subject, Some((2, "b")));
    place.update().unwrap();
    let state =
        "select iteration, review_status, last_checkpoint_review_at from loops where task_id = 'b'";
    assert_eq!(place.query(state), "2|in_progress|1\n");
    let given =
        SquadAnswer { task_id: Some("b".to_owned()), ..answer(turn, &squad, Some(2), true) };
    squad.answer(given);
    squad.end(turn, 0.5);
    squad.append(|heading| {
        let review = SquadReview {
            review_id: format!("swift-otter-{turn}-1"),
            subject: SquadSubject::Progress.into(),
            loop_id: Some("swift-otter-2".to_owned()),
            turn,
            verdict: Verdict::Pass.into(),
            ..Default::default()
        };
        vec![review.record(heading)]
    });
    place.update().unwrap();
    let row = format!(
        "select task_id, passed, cost_usd from loop_reviews where id = 'swift-otter-{turn}-1'"
    );
    assert_eq!(place.query(&row), "null|1|0.5\n");
    assert_eq!(place.query(state), "2|failed|2\n");
}

#[test]
fn costs_that_an_agent_reports_are_rows_too() {
    let place = Place::new();
    let mut squad = story(&place, "swift-otter");
    let turn = squad.review(2, "b");
    squad.answer(answer(turn, &squad, Some(2), false));
    squad.append(|heading| {
        let cost_usd = Dollars::new(2.0).unwrap();
        vec![SquadCost { turn, cost_usd, what: "an image".to_owned() }.record(heading)]
    });
    squad.end(turn, 0.5);
    place.update().unwrap();
    let costs = format!(
        "select number, phase, model, cost_usd, tokens, what from costs where turn = {turn}"
    );
    insta::assert_snapshot!(place.query(&costs), @"
    1|review|null|2.0|null|an image
    2|review|model-a|0.5|1200|null
    ");
    let row = format!("select cost_usd from loop_reviews where id = 'swift-otter-{turn}-1'");
    assert_eq!(place.query(&row), "2.5\n");
}

/// Usage whose turn has no end, because it was interrupted, is of no other turn.
#[test]
fn usage_is_of_the_turn_that_ends_directly_after_it() {
    let place = Place::new();
    let mut squad = place.writer("swift-otter");
    squad.start(Effort::Low, &[&["a"]]);
    squad.open(1, "a", 1);
    let first = squad.turn(SquadPhase::Build, None, Some((1, "a")));
    let second = squad.turn(SquadPhase::Build, None, Some((1, "a")));
    let usage = BackendUsage {
        cost_usd: Dollars::new(9.0),
        role: Some("build".to_owned()),
        ..BackendUsage::default()
    };
    squad.append(|heading| vec![usage.record(heading)]);
    squad.end(first, 0.5);
    squad.append(|heading| {
        let resume = SquadResume { previous_end: SquadEnd::Interrupted.into() };
        vec![usage.record(heading), usage.record(heading), resume.record(heading)]
    });
    squad.append(|heading| {
        vec![SquadTurnFinish { turn: second, ..SquadTurnFinish::default() }.record(heading)]
    });
    place.update().unwrap();
    insta::assert_snapshot!(
        place.query("select turn, number, loop_id, phase, cost_usd from costs"),
        @"
    null|1|null|build|9.0
    1|1|swift-otter-1|build|0.5
    null|2|null|build|9.0
    null|3|null|build|9.0
    "
    );
}

impl Place {
    fn query_after_update(&self, sql: &str) -> String {
        self.update().unwrap();
        self.query(sql)
    }
}

#[test]
fn folded_in_any_steps_and_rebuilt_the_rows_are_the_same() {
    let place = Place::new();
    let mut first = story(&place, "swift-otter");
    place.update().unwrap();
    let mut second = story(&place, "calm-heron");
    place.update().unwrap();
    // A line at a time, by a store that stays open and by others that do not know the runs.
    let mut open = Store::open(&place.state_dir(), &place.world).unwrap();
    for step in 0..6 {
        let squad = if step % 2 == 0 { &mut first } else { &mut second };
        squad.build(2, "b", 0.5);
        if step % 3 == 0 { place.update().unwrap() } else { open.update(&place.journal()).unwrap() }
    }
    first.stuck(2, "2 revisions did not pass");
    first.finish(SquadEnd::Blocked, "one loop is stuck");
    open.update(&place.journal()).unwrap();
    let dump = place.dump();
    assert!(dump.contains("stopped|one loop is stuck"), "{dump}");
    place.rebuild().unwrap();
    assert_eq!(place.dump(), dump, "rebuilt");

    fs::remove_file(place.state_dir().store()).unwrap();
    place.update().unwrap();
    assert_eq!(place.dump(), dump, "anew");

    // A run that begins again has its new rows only.
    let mut again = second;
    again.start(Effort::Max, &[&["z"]]);
    place.update().unwrap();
    let dump = place.dump();
    assert!(!dump.contains("calm-heron-2"), "{dump}");
    place.rebuild().unwrap();
    assert_eq!(place.dump(), dump, "begun again");
}

#[test]
fn a_resumed_run_has_no_end() {
    let place = Place::new();
    let mut squad = story(&place, "swift-otter");
    squad.stuck(2, "no progress");
    squad.finish(SquadEnd::Blocked, "one loop is stuck");
    let run = "select status, reason, finished_at is null from runs";
    let state = "select status, reason from loops where task_id = 'b'";
    assert_eq!(place.query_after_update(run), "stopped|one loop is stuck|0\n");
    assert_eq!(place.query(state), "stuck|no progress\n");
    squad.append(|heading| {
        let resume = SquadResume { previous_end: SquadEnd::Blocked.into() };
        let resolve = SquadResolve {
            loop_id: "swift-otter-2".to_owned(),
            resolution: Resolution::Skip.into(),
            reason: "not needed".to_owned(),
        };
        vec![resume.record(heading), resolve.record(heading)]
    });
    assert_eq!(place.query_after_update(run), "running|null|1\n");
    assert_eq!(place.query(state), "skipped|not needed\n");
}

#[test]
fn a_journal_that_was_replaced_is_folded_anew() {
    let place = Place::new();
    story(&place, "swift-otter");
    place.update().unwrap();
    let bytes = fs::read(place.journal_path()).unwrap();

    let other = Place::new();
    story(&other, "calm-heron");
    fs::copy(other.journal_path(), place.dir.path().join("other")).unwrap();
    fs::rename(place.dir.path().join("other"), place.journal_path()).unwrap();
    assert_eq!(place.query_after_update("select id from runs"), "calm-heron\n");

    // Another file with the same last line at the same place.
    let text = fs::read_to_string(place.journal_path()).unwrap();
    let edited = text.replacen("a small tool", "a large tool", 1);
    fs::write(place.dir.path().join("other"), edited).unwrap();
    fs::rename(place.dir.path().join("other"), place.journal_path()).unwrap();
    assert_eq!(place.query_after_update("select id from runs"), "");

    // The same file, cut: only its first line is left.
    let first = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    fs::write(place.journal_path(), &bytes[..first]).unwrap();
    assert_eq!(place.query_after_update("select id from runs"), "swift-otter\n");
    assert_eq!(place.query("select * from loops"), "");

    fs::remove_file(place.journal_path()).unwrap();
    assert_eq!(place.query_after_update("select id from runs"), "");
}

#[test]
fn forged_records_make_no_rows() {
    let place = Place::new();
    let mut squad = story(&place, "swift-otter");
    place.update().unwrap();
    let dump = place.dump();

    // Sealed by another user, not sealed at all, and copied.
    let stranger = World { secret: Arc::new(Secret::fixed([8; 32])), ..place.world.clone() };
    let mut forger = SquadWriter::new(&stranger, &place.journal_path(), "swift-otter");
    forger.start(Effort::Max, &[&["z"]]);
    forger.open(3, "z", 1);
    SquadWriter::new(&stranger, &place.journal_path(), "bad-otter").start(Effort::Max, &[&["z"]]);
    let text = fs::read_to_string(place.journal_path()).unwrap();
    let copies: Vec<&str> = text.lines().filter(|line| line.contains("squad.answer")).collect();
    let unsealed: Vec<String> = copies
        .iter()
        .map(|line| {
            let (before, _) = line.split_once(", \"seal\"").unwrap();
            format!("{before}}}")
        })
        .collect();
    let pass = unsealed[1].replace("\"passed\": false", "\"passed\": true");
    assert_ne!(pass, unsealed[1]);
    fs::write(place.journal_path(), [&text, &copies.join("\n"), "\n", &pass, "\n"].concat())
        .unwrap();
    place.update().unwrap();
    assert_eq!(place.dump(), dump);
    place.rebuild().unwrap();
    assert_eq!(place.dump(), dump);

    // What the harness writes afterwards counts.
    squad.open(3, "c", 2);
    place.update().unwrap();
    assert_eq!(place.query("select count(*) from loops"), "3\n");
}

/// A journal of a user whose key is missing proves nothing.
#[test]
fn without_a_key_there_are_no_rows() {
    let place = Place::new();
    story(&place, "swift-otter");
    let world = World { secret: Arc::new(Secret::in_file(None)), ..place.world.clone() };
    Store::open(&place.state_dir(), &world).unwrap().update(&place.journal()).unwrap();
    assert_eq!(place.query("select * from runs"), "");
}

#[test]
fn an_old_file_becomes_what_a_new_one_is() {
    let place = Place::new();
    story(&place, "swift-otter");
    place.update().unwrap();
    let new = place.dump();

    // It says that the journal is in its tables, which lack what the new ones have.
    let old = Place::new();
    fs::copy(place.journal_path(), old.journal_path()).unwrap();
    old.update().unwrap();
    let position = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let (file, position): (String, Vec<u8>) =
        old.connect().query_row("SELECT file, position FROM journal", [], position).unwrap();
    fs::remove_file(old.state_dir().store()).unwrap();
    let connection = old.connect();
    connection.execute_batch(include_str!("../src/store/1.sql")).unwrap();
    connection
        .execute_batch(
            "INSERT INTO runs VALUES ('swift-otter', 's', 'low', 4, 'base', 1, 'running', NULL, 'then', NULL);
             INSERT INTO loops VALUES ('swift-otter-1', 'swift-otter', 'a', 1, 'b', 'w', 'base', 'old', NULL, 7);
             INSERT INTO review_issues VALUES ('i', 'swift-otter', 'a', 'f', 1, 't', 'd', 's');
             INSERT INTO costs VALUES ('swift-otter', 1, 1, NULL, NULL, 'build', NULL, 1, 1, NULL, 'then');
             PRAGMA user_version = 1;",
        )
        .unwrap();
    connection.execute("INSERT INTO journal VALUES (?1, ?2)", (file, position)).unwrap();
    connection.close().unwrap();
    old.update().unwrap();
    assert_eq!(old.dump(), new);
}

#[test]
fn a_file_of_a_newer_version_is_refused() {
    let place = Place::new();
    place.update().unwrap();
    place.connect().execute_batch("PRAGMA user_version = 99").unwrap();
    let refused = [place.update(), place.rebuild()].map(|it| it.unwrap_err().to_string());
    let path = place.state_dir().store().display().to_string();
    let expected =
        format!("{path} has version 99 of the tables, and this program knows versions up to 2");
    assert_eq!(refused, [expected.clone(), expected]);
}

#[test]
fn a_damaged_file_is_refused_and_rebuilt() {
    let place = Place::new();
    story(&place, "swift-otter");
    place.update().unwrap();
    let dump = place.dump();
    let path = place.state_dir().store();
    let good = fs::read(&path).unwrap();
    let page = good.len() / 2 / 4096 * 4096;
    let torn = [&good[..page], &[0xff; 4096], &good[page + 4096..]].concat();
    for (what, bytes) in [
        ("no database", b"not a database, but text that is long enough".repeat(200)),
        ("cut", good[..good.len() / 2].to_vec()),
        ("a page is lost", torn.clone()),
    ] {
        fs::write(&path, bytes).unwrap();
        place.rebuild().unwrap();
        assert_eq!(place.dump(), dump, "{what}");
        place.update().unwrap();
        assert_eq!(place.dump(), dump, "{what}");
    }
    // Another process has it open, so SQLite keeps its log, which fits the new database as well.
    let other = place.connect();
    other.execute_batch("CREATE TABLE left_over (x)").unwrap();
    fs::write(&path, &torn).unwrap();
    place.rebuild().unwrap();
    assert_eq!(place.dump(), dump, "held open");
    drop(other);
    assert_eq!(place.dump(), dump, "let go");

    fs::write(&path, b"no database ".repeat(100)).unwrap();
    let refused = place.update().unwrap_err();
    assert!(matches!(refused, StoreError::Damaged { .. }), "{refused}");
    let left: Vec<_> =
        fs::read_dir(place.dir.path()).unwrap().flatten().map(|it| it.file_name()).collect();
    assert!(
        left.iter().all(|name| !name.to_string_lossy().starts_with("autoloop.db.")),
        "{left:?}"
    );
}

#[test]
fn a_link_in_place_of_the_database_is_left_alone() {
    let place = Place::new();
    let victim = place.dir.path().join("victim");
    fs::write(&victim, b"").unwrap();
    std::os::unix::fs::symlink(&victim, place.state_dir().store()).unwrap();
    assert!(matches!(place.update().unwrap_err(), StoreError::Write { .. }));
    assert_eq!(fs::read(&victim).unwrap(), b"");
}

#[test]
fn a_query_changes_nothing() {
    let place = Place::new();
    story(&place, "swift-otter");
    place.update().unwrap();
    let dump = place.dump();
    let target = place.dir.path().join("copy");
    let copy = format!("vacuum into '{}'", target.display());
    let refused = [
        "selec 1",
        "",
        "select 1; select 2",
        "delete from runs",
        "create table x (y)",
        "insert into runs (id) values ('x')",
        "pragma user_version = 7",
        "select * from missing",
        "begin",
        "select ?1",
        &copy,
    ]
    .map(|sql| store::query(&place.state_dir(), sql).unwrap_err().to_string());
    insta::assert_snapshot!(refused.join("\n"), @r#"
    near "selec": syntax error
    the statement is no query
    more than one statement
    attempt to write a readonly database
    attempt to write a readonly database
    attempt to write a readonly database
    attempt to write a readonly database
    no such table: missing
    the statement is no query
    Wrong number of parameters passed to query. Got 0, needed 1
    attempt to write a readonly database
    "#);
    assert!(!target.exists());
    assert_eq!(place.dump(), dump);
    assert_eq!(place.query("select 1 -- a comment;"), "1\n");
    assert_eq!(place.query("select x'00ff', 1e999, 0.1;"), "00ff|null|0.1\n");
    assert_eq!(place.query("pragma foreign_key_check"), "");
}

/// Waits for something that another thread does.
fn until(what: &str, done: impl Fn() -> bool) {
    autoloop_testkit::sandbox::until(what, || done().then_some(()));
}

/// A journal that counts how often its end is looked up: once in each attempt to fold it.
struct Counting {
    journal: Arc<dyn Journal>,
    attempts: Arc<AtomicUsize>,
}

impl Journal for Counting {
    fn append(&self, records: &[NewRecord], how: Append) -> Result<Position, AppendError> {
        self.journal.append(records, how)
    }

    fn read(&self, from: Position, visit: &mut Visit<'_>) -> Result<Position, ReadError> {
        self.journal.read(from, visit)
    }

    fn head(&self) -> Result<Position, ReadError> {
        self.attempts.fetch_add(1, Ordering::SeqCst);
        self.journal.head()
    }

    fn wait(&self, after: Position, timeout: Duration) -> Result<Position, ReadError> {
        self.journal.wait(after, timeout)
    }

    fn path(&self) -> &Path {
        self.journal.path()
    }

    fn handle(&self) -> Arc<dyn Journal> {
        let (journal, attempts) = (self.journal.handle(), Arc::clone(&self.attempts));
        Arc::new(Counting { journal, attempts })
    }
}

#[test]
fn a_follower_keeps_up_and_a_lock_only_delays_it() {
    let place = Place::new();
    let mut squad = story(&place, "swift-otter");
    let attempts = Arc::new(AtomicUsize::new(0));
    let journal = Counting { journal: place.journal().handle(), attempts: Arc::clone(&attempts) };
    let state_dir = place.state_dir();
    let site = Site::new(&place.world, &journal, &state_dir);
    let follower = Follower::start(&site).unwrap();
    let reviews = || store::query(&state_dir, "select count(*) from loop_reviews").ok();
    until("the first rows", || reviews().is_some_and(|table| lines(&table) == "2\n"));

    let other = place.connect();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let turn = squad.review(2, "b");
    squad.answer(answer(turn, &squad, Some(2), true));
    // Far more pokes than are taken: none of them waits.
    (0..10_000).for_each(|_| follower.poke());
    let before = attempts.load(Ordering::SeqCst);
    until("attempts that fail", || attempts.load(Ordering::SeqCst) > before + 2);
    assert_eq!(lines(&reviews().unwrap()), "2\n");
    other.execute_batch("COMMIT").unwrap();
    // Without another poke.
    until("the row behind the lock", || lines(&reviews().unwrap()) == "3\n");

    squad.end(turn, 0.5);
    follower.poke();
    assert_eq!(follower.finish(), None);
    assert_eq!(place.query("select sum(cost_usd) from costs"), "1.5\n");
    let dump = place.dump();
    place.rebuild().unwrap();
    assert_eq!(place.dump(), dump);
}

#[test]
fn a_follower_that_cannot_write_leaves_one_note() {
    let place = Place::new();
    story(&place, "swift-otter");
    let journal = place.journal();
    let state_dir = place.state_dir();
    let site = Site::new(&place.world, &journal, &state_dir);
    fs::write(state_dir.store(), b"no database ".repeat(100)).unwrap();
    let follower = Follower::start(&site).unwrap();
    follower.poke();
    let note = follower.finish().unwrap().replace(&state_dir.display().to_string(), "DIR");
    insta::assert_snapshot!(note, @"the store is not up to date: DIR/autoloop.db is damaged: file is not a database; build it again with `autoloop store rebuild`");

    fs::remove_file(state_dir.store()).unwrap();
    place.update().unwrap();
    let other = place.connect();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let mut squad = place.writer("calm-heron");
    squad.start(Effort::Low, &[&["a"]]);
    let follower = Follower::start(&site).unwrap();
    let note = follower.finish().unwrap();
    assert!(note.starts_with("the store is not up to date: "), "{note}");
    assert!(note.ends_with("; `autoloop store sql` continues it"), "{note}");
    drop(other);
    assert_eq!(
        place.query_after_update("select id from runs order by id"),
        "calm-heron\nswift-otter\n"
    );
}
