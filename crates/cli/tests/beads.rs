//! The issue tracker `bd` as a queue, with a stand-in for the program: every shape of its answers,
//! and every way in which it can fail.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use autoloop_core::queue::{Claim, Progress, Status};
use autoloop_runtime::failure::Failure;
use autoloop_runtime::queue::{Beads, BeadsSettings, Queue, QueueError};
use autoloop_runtime::shim::OsSpawner;
use autoloop_runtime::world::World;
use autoloop_testkit::sandbox::write_program;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A project with a tracker in it.
struct Tracker {
    dir: TempDir,
}

impl Tracker {
    fn new(issues: &Value) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("bd");
        let text = include_str!("beads/stand_in.py");
        write_program(program, format!("#!{}\n{text}", interpreter().display()));
        fs::write(dir.path().join("beads.json"), issues.to_string()).unwrap();
        Tracker { dir }
    }

    /// With three issues: the most urgent one depends on the first.
    fn usual() -> Self {
        Tracker::new(&json!([
            {"id": "bd-a1", "title": "parse", "status": "open", "priority": 1, "issue_type": "task",
             "description": "Parse it.", "acceptance_criteria": "It parses."},
            {"id": "bd-b2", "title": "test", "status": "open", "priority": 0, "issue_type": "task",
             "dependencies": [{"issue_id": "bd-b2", "depends_on_id": "bd-a1", "type": "blocks"}]},
            {"id": "bd-c3", "title": "docs", "status": "open", "priority": 3, "issue_type": "chore"},
        ]))
    }

    fn manner(&self, words: &str) -> &Self {
        fs::write(self.dir.path().join("manner"), words).unwrap();
        self
    }

    fn settings(&self) -> BeadsSettings {
        BeadsSettings {
            program: self.dir.path().join("bd").into(),
            // A machine that is busy with other tests may take its time.
            deadline: Duration::from_secs(600),
            ..BeadsSettings::new(self.dir.path())
        }
    }

    fn queue(&self) -> Beads {
        Beads::new(self.settings(), &world())
    }

    /// The calls so far, without the arguments that every call has.
    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.dir.path().join("calls")).unwrap_or_default();
        calls.lines().map(|line| line.replace(" --json", "")).collect()
    }

    fn issue(&self, id: &str) -> Value {
        let text = fs::read_to_string(self.dir.path().join("beads.json")).unwrap();
        let all: Vec<Value> = serde_json::from_str(&text).unwrap();
        all.into_iter().find(|issue| issue["id"] == id).unwrap()
    }

    /// The message of an error, without the path of the stand-in.
    fn told(&self, error: QueueError) -> String {
        let Failure { kind, message, hints } = error.into();
        let text = format!("{kind:?}: {message}\n{}", hints.join("\n"));
        text.trim().replace(&format!("{}/", self.dir.path().display()), "")
    }
}

/// The interpreter of the stand-in itself: `python3` on the `PATH` may be a script that looks for it.
fn interpreter() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        let mut command = Command::new("python3");
        command.args(["-c", "import sys; print(sys.executable)"]);
        let told = command.output().expect("the stand-in for bd is written in Python");
        PathBuf::from(String::from_utf8(told.stdout).unwrap().trim())
    })
}

fn world() -> World {
    let spawner = OsSpawner::through(env!("CARGO_BIN_EXE_autoloop"));
    World { spawner: Arc::new(spawner), ..World::real() }
}

fn claim(id: &str, owner: &str) -> Claim {
    Claim { item: id.to_owned(), owner: owner.to_owned(), until: None, fence: 0 }
}

#[test]
fn every_shape_of_answers_is_understood() {
    for manner in ["", "bare", "issues", "items", "results", "object", "chatty", "chatty bare"] {
        let tracker = Tracker::usual();
        let queue = tracker.manner(manner).queue();
        let taken = queue.claim_next("run-s1").unwrap().unwrap();
        let item = &taken.item;
        assert_eq!((item.id.as_str(), item.title.as_str()), ("bd-a1", "parse"), "{manner}");
        assert_eq!(
            (item.description.as_str(), item.acceptance.as_str()),
            ("Parse it.", "It parses.")
        );
        assert_eq!((item.status, item.owner.as_deref()), (Status::InWork, Some("run-s1")));
        assert_eq!(item.priority.number(), 1);
        assert_eq!(tracker.issue("bd-a1")["assignee"], "run-s1", "{manner}");
        queue.close(&taken.claim, "done").unwrap();
        assert_eq!(tracker.issue("bd-a1")["close_reason"], "done", "{manner}");
        let next = queue.claim_next("run-s2").unwrap().unwrap();
        assert_eq!(next.item.id, "bd-b2", "it waited for the first");
        assert_eq!(next.item.dependencies, ["bd-a1"]);
    }
}

#[test]
fn the_next_is_claimed_in_one_step_where_that_is_known() {
    let tracker = Tracker::usual();
    let queue = tracker.queue();
    queue.claim_next("run-s1").unwrap().unwrap();
    assert_eq!(tracker.calls(), ["ready --claim --actor run-s1", "show bd-a1"]);
}

#[test]
fn a_program_that_cannot_do_so_is_asked_in_two_steps_from_then_on() {
    for manner in ["no-claim", "no-claim no-limit", "ignore-claim", "ignore-claim bare no-limit"] {
        let tracker = Tracker::usual();
        let queue = tracker.manner(manner).queue();
        let first = queue.claim_next("run-s1").unwrap().unwrap();
        let second = queue.claim_next("run-s2").unwrap().unwrap();
        assert_eq!((&*first.item.id, &*second.item.id), ("bd-a1", "bd-c3"), "{manner}");
        assert_eq!(queue.claim_next("run-s3").unwrap(), None);
        let calls = tracker.calls();
        let tried = calls.iter().filter(|call| call.starts_with("ready --claim")).count();
        assert_eq!(tried, 1, "{manner}: {calls:?}");
        assert_eq!(tracker.issue("bd-c3")["assignee"], "run-s2");
    }
}

#[test]
fn a_program_that_takes_no_notice_is_found_out_also_when_nothing_was_ready_at_first() {
    let tracker = Tracker::usual();
    let queue = tracker.manner("ignore-claim").queue();
    for id in ["bd-a1", "bd-c3"] {
        queue.claim(id, "run-s9").unwrap();
    }
    assert_eq!(queue.claim_next("run-s1").unwrap(), None);
    queue.close(&claim("bd-a1", "run-s9"), "").unwrap();
    assert_eq!(queue.claim_next("run-s1").unwrap().unwrap().item.id, "bd-b2");
    assert_eq!(tracker.issue("bd-b2")["assignee"], "run-s1");
}

#[test]
fn a_program_that_tells_how_an_issue_was_before_is_understood() {
    let tracker = Tracker::usual();
    let queue = tracker.manner("tell-before").queue();
    for (actor, id) in [("run-s1", "bd-a1"), ("run-s2", "bd-c3")] {
        assert_eq!(queue.claim_next(actor).unwrap().unwrap().item.id, id);
        assert_eq!(tracker.issue(id)["assignee"], actor);
    }
    assert_eq!(tracker.issue("bd-b2")["status"], "open");
}

#[test]
fn all_done_differs_from_all_blocked_or_claimed() {
    let tracker = Tracker::usual();
    for manner in ["", "no-limit issues"] {
        let queue = tracker.manner(manner).queue();
        let expected = Progress { done: 0, in_work: 0, ready: 2, blocked: 1 };
        assert_eq!(queue.progress().unwrap(), expected, "{manner}");
    }
    // The tracker shortens lists unless a limit is given.
    let asked = ["--readonly list --all --limit 0", "ready --limit 0"];
    assert_eq!(tracker.calls()[..2], asked);
    let queue = tracker.manner("").queue();
    for actor in ["run-s1", "run-s2"] {
        queue.claim_next(actor).unwrap().unwrap();
    }
    assert_eq!(queue.claim_next("run-s3").unwrap(), None);
    let stuck = queue.progress().unwrap();
    assert_eq!(stuck, Progress { done: 0, in_work: 2, ready: 0, blocked: 1 });
    assert!(!stuck.is_done());
    for (id, owner) in [("bd-a1", "run-s1"), ("bd-c3", "run-s2")] {
        queue.close(&claim(id, owner), "").unwrap();
    }
    let last = queue.claim_next("run-s1").unwrap().unwrap();
    queue.close(&last.claim, "").unwrap();
    assert!(queue.progress().unwrap().is_done());
}

#[test]
fn failed_issues_and_those_of_dead_processes_are_released() {
    let tracker = Tracker::usual();
    let queue = tracker.queue();
    let failed = queue.claim_next("run-s1").unwrap().unwrap();
    queue.release(&failed.claim, "the tests are red").unwrap();
    let issue = tracker.issue("bd-a1");
    assert_eq!((&issue["status"], &issue["assignee"]), (&json!("open"), &json!("")));
    let comment = json!([{"author": "run-s1", "text": "released: the tests are red"}]);
    assert_eq!(issue["comments"], comment);
    assert!(queue.release(&failed.claim, "again").unwrap_err().is_refusal());

    for actor in ["old-s1", "new-s1"] {
        queue.claim_next(actor).unwrap().unwrap();
    }
    let dead = |actor: &str| actor.starts_with("old-s");
    assert_eq!(queue.release_all(&dead, "its process is dead").unwrap(), ["bd-a1"]);
    assert_eq!(tracker.issue("bd-a1")["status"], "open");
    assert_eq!(tracker.issue("bd-c3")["assignee"], "new-s1");
}

#[test]
fn a_program_without_comments_takes_an_issue_back() {
    let tracker = Tracker::usual();
    let queue = tracker.manner("no-comments").queue();
    let failed = queue.claim_next("run-s1").unwrap().unwrap();
    queue.release(&failed.claim, "the tests are red").unwrap();
    assert_eq!(tracker.issue("bd-a1")["status"], "open");
}

#[test]
fn an_issue_that_its_agent_closed_is_its_owners_until_it_is_settled() {
    let tracker = Tracker::usual();
    let queue = tracker.queue();
    let close_as_agent = || {
        let BeadsSettings { program, dir, .. } = tracker.settings();
        let mut command = Command::new(program);
        command.args(["close", "bd-a1", "--reason", "I think so", "--json"]);
        command.env("BD_JSON_ENVELOPE", "1").env("RUST_LOG", "error").current_dir(dir);
        assert!(command.output().unwrap().status.success());
        assert_eq!(tracker.issue("bd-a1")["status"], "closed");
    };
    let mine = queue.claim("bd-a1", "run-s1").unwrap();
    close_as_agent();
    assert_eq!(queue.renew(&mine.claim).unwrap(), mine.claim, "a review may still be under way");
    let again = queue.claim("bd-a1", "run-s1").unwrap();
    assert_eq!(again.claim, mine.claim, "after a crash too");
    assert!(queue.claim("bd-a1", "run-s2").unwrap_err().is_refusal());
    // The review fails: another worker has to take the item.
    queue.release(&mine.claim, "drift").unwrap();
    let issue = tracker.issue("bd-a1");
    assert_eq!((&issue["status"], &issue["assignee"]), (&json!("open"), &json!("")));

    let passed = queue.claim("bd-a1", "run-s2").unwrap();
    close_as_agent();
    queue.close(&passed.claim, "good").unwrap();
    assert_eq!(tracker.issue("bd-a1")["close_reason"], "I think so");
}

#[test]
fn any_text_of_a_reviewer_reaches_the_tracker() {
    let tracker = Tracker::usual();
    let queue = tracker.queue();
    for (said, told) in [
        ("- tests pass\n- docs too", "tests pass - docs too".to_owned()),
        ("nul \0 in it", "nul in it".to_owned()),
        (&"x".repeat(300_000), format!("{}...", "x".repeat(2_000))),
        ("", String::new()),
    ] {
        let taken = queue.claim("bd-a1", "run-s1").unwrap();
        queue.close(&taken.claim, said).unwrap();
        assert_eq!(tracker.issue("bd-a1")["close_reason"], told);
        queue.release(&taken.claim, said).unwrap();
        let comments = tracker.issue("bd-a1")["comments"].as_array().unwrap().clone();
        let last = comments.last().unwrap()["text"].as_str().unwrap().to_owned();
        assert_eq!(last == format!("released: {told}"), !told.is_empty(), "{last}");
    }
}

#[test]
fn a_claim_that_was_lost_says_so() {
    let tracker = Tracker::usual();
    let queue = tracker.queue();
    let mine = queue.claim("bd-a1", "run-s1").unwrap();
    assert_eq!(queue.renew(&mine.claim).unwrap(), mine.claim);
    insta::assert_snapshot!(tracker.told(queue.claim("bd-a1", "run-s2").unwrap_err()), @"Refused: the issue tracker refused bd-a1: Error claiming bd-a1: already claimed by run-s1");
    queue.release_all(&|_| true, "").unwrap();
    queue.claim("bd-a1", "run-s2").unwrap();
    for refused in [
        queue.renew(&mine.claim).map(|_| ()),
        queue.close(&mine.claim, "late"),
        queue.release(&mine.claim, "late"),
    ] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(tracker.told(refused.unwrap_err()), @"Refused: the claim of bd-a1 is no longer valid: run-s2 has claimed it");
        }
    }
    // An agent may close its issue itself.
    queue.close(&claim("bd-a1", "run-s2"), "").unwrap();
    queue.close(&claim("bd-a1", "run-s2"), "").unwrap();
}

#[test]
fn a_part_of_an_id_is_no_id() {
    let tracker = Tracker::usual();
    let queue = tracker.queue();
    let told = tracker.told(queue.show("bd-a").unwrap_err());
    assert_eq!(told, "Failed: the issue tracker has no issue 'bd-a'");
    assert_eq!(tracker.told(queue.claim("bd-a", "run-s1").unwrap_err()), told);
    assert_eq!(tracker.issue("bd-a1")["status"], "open");
}

#[test]
fn an_epic_with_open_children_is_not_closed() {
    let tracker = Tracker::new(&json!([
        {"id": "bd-e", "title": "epic", "status": "open", "priority": 1, "issue_type": "epic"},
        {"id": "bd-e.1", "title": "child", "status": "open", "priority": 2, "parent": "bd-e"},
    ]));
    let queue = tracker.queue();
    let epic = queue.claim_next("run-s1").unwrap().unwrap();
    let refused = queue.close(&epic.claim, "done").unwrap_err();
    assert!(refused.is_refusal());
    insta::assert_snapshot!(tracker.told(refused), @"Refused: the issue tracker refused bd-e: cannot close bd-e: open children bd-e.1");
    assert!(tracker.calls().iter().all(|call| !call.contains("--force")));
}

#[test]
fn every_failure_of_the_program_is_reported() {
    let tracker = Tracker::usual();
    let told = |manner: &str| {
        tracker.manner(manner);
        tracker.told(tracker.queue().claim_next("run-s1").unwrap_err())
    };
    insta::assert_snapshot!(told("crash"), @"
    Failed: `bd ready --claim` failed with exit code 137: it printed nothing
    try `bd ready --claim` yourself
    ");
    insta::assert_snapshot!(told("garbage"), @"
    Failed: `bd ready --claim`: its answer is not JSON: [31mnot json { at all
    try `bd ready --claim` yourself
    ");
    insta::assert_snapshot!(told("flood"), @"
    Failed: `bd ready --claim` printed 50000000 bytes, which exceeds the limit
    try `bd ready --claim` yourself
    ");
    insta::assert_snapshot!(
        tracker.told(tracker.manner("").queue().show("bd-zz").unwrap_err()),
        @"Failed: the issue tracker has no issue 'bd-zz'"
    );
}

#[test]
fn a_program_that_hangs_or_is_missing_is_reported() {
    let tracker = Tracker::usual();
    tracker.manner("hang");
    let settings = BeadsSettings { deadline: Duration::from_millis(300), ..tracker.settings() };
    let world = world();
    let late = Beads::new(settings, &world).claim_next("run-s1").unwrap_err();
    insta::assert_snapshot!(tracker.told(late), @"
    Failed: `bd ready --claim` timed out after 300ms
    try `bd ready --claim` yourself
    ");

    let settings = BeadsSettings { program: "no-such-bd".into(), ..tracker.settings() };
    let missing = Beads::new(settings, &world).progress().unwrap_err();
    insta::assert_snapshot!(tracker.told(missing), @"
    Failed: cannot query the issue tracker: cannot start 'no-such-bd': not found in PATH
    install it, or name its command in slots.beads.command
    ");
}

#[test]
fn a_call_is_named_with_all_words_of_the_command() {
    let tracker = Tracker::usual();
    let usual = tracker.settings();
    let args = vec![usual.program.clone()];
    let settings = BeadsSettings { program: interpreter().into(), args, ..usual };
    tracker.manner("garbage");
    let told = tracker.told(Beads::new(settings, &world()).show("bd-a1").unwrap_err());
    let told = told.replace(&interpreter().display().to_string(), "python3");
    assert!(told.starts_with("Failed: `python3 bd show bd-a1`: "), "{told}");
    assert!(told.ends_with("\ntry `python3 bd show bd-a1` yourself"), "{told}");
}

#[test]
fn a_claim_that_fails_without_a_race_is_reported() {
    // Another worker claims the first item at the last moment, and the tracker fails on the second.
    let tracker = Tracker::usual();
    let queue = tracker.manner("no-claim stolen locked").queue();
    insta::assert_snapshot!(tracker.told(queue.claim_next("run-s1").unwrap_err()), @"
    Failed: `bd update bd-c3 --claim` failed with exit code 1: Error claiming bd-c3: database is locked
    try `bd update bd-c3 --claim` yourself
    ");
    assert_eq!(tracker.issue("bd-a1")["assignee"], "other");
    // A failure that soon passes is retried and not reported.
    let tracker = Tracker::usual();
    let queue = tracker.manner("no-claim stolen locked-once").queue();
    assert_eq!(queue.claim_next("run-s1").unwrap().unwrap().item.id, "bd-c3");
    // A lost race alone is no failure.
    let tracker = Tracker::usual();
    let queue = tracker.manner("no-claim stolen").queue();
    queue.claim("bd-c3", "run-s2").unwrap();
    assert_eq!(queue.claim_next("run-s1").unwrap(), None);
}

#[test]
fn workers_that_race_never_get_the_same_issue() {
    for manner in ["", "no-claim"] {
        let issues: Vec<Value> = (0..8)
            .map(
                |n| json!({"id": format!("bd-{n}"), "title": "w", "status": "open", "priority": 2}),
            )
            .collect();
        let tracker = Tracker::new(&Value::Array(issues));
        let queue = tracker.manner(manner).queue();
        let taken: Mutex<BTreeMap<String, u32>> = Mutex::default();
        std::thread::scope(|scope| {
            for slot in 1..=3 {
                let (queue, taken) = (&queue, &taken);
                scope.spawn(move || {
                    let actor = format!("run-s{slot}");
                    while let Some(mine) = queue.claim_next(&actor).unwrap() {
                        *taken.lock().unwrap().entry(mine.item.id).or_default() += 1;
                        queue.close(&mine.claim, "done").unwrap();
                    }
                });
            }
        });
        let taken = taken.into_inner().unwrap();
        assert!(taken.values().all(|times| *times == 1), "{manner}: {taken:?}");
        // A worker that lost every race may stop; the other workers take the remaining items.
        assert_eq!(taken.len(), 8, "{manner}");
    }
}
