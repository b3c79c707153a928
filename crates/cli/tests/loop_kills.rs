//! Three hundred SIGKILLs of a harness at random moments, each followed by `autoloop run --resume`.
//!
//! A loop of twenty iterations with a metareview after every fifth is killed repeatedly until it
//! ends. It ends as an undisturbed run does; nothing finished is repeated, and no process is left.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use autoloop_runtime::world::{Entropy, OsEntropy, World};
use autoloop_testkit::sandbox::{Reaped, tell, until};
use autoloop_testkit::{Dice, Sandbox, Seed};
use serde_json::Value;

const KILLS: u64 = 300;
const ITERATIONS: u64 = 20;
const REVIEW_EVERY: u64 = 5;

const CONFIG: &str = r#"
event_loop.max_iterations = 25
event_loop.completion_event = "task.complete"
event_loop.required_events = ["built", "approved"]
backend.kind = "script"
backend.command = "script.toml"
review.enabled = true
review.every_iterations = 5
"#;

const TOPOLOGY: &str = r#"
[[role]]
id = "builder"
emits = ["built"]
[[role]]
id = "critic"
emits = ["approved", "task.complete"]
[handoff]
"loop.start" = ["builder"]
"built" = ["critic"]
"approved" = ["builder"]
"#;

const SCRIPT: &str = r#"
[[turn]]
review = true
do = [{ print = "looked at it" }]
[[turn]]
iteration = 20
do = [{ print = "all done" }, { emit = "task.complete", payload = "20" }]
[[turn]]
role = "critic"
do = [{ print = "reading" }, { emit = "approved", payload = "fine" }, { print = "read" }]
[[turn]]
iteration = 7
do = [{ emit = "not.allowed" }, { print = "building seven" }, { emit = "built", payload = "x" }]
[[turn]]
role = "builder"
do = [{ print = "building" }, { emit = "built", payload = "x" }]
"#;

/// One iteration: the event that routed it, its output and its status.
type Told = (String, String, String);

/// The outcome of a run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Story {
    iterations: BTreeMap<u64, Told>,
    reviews: BTreeSet<u64>,
    endings: Vec<String>,
}

#[test]
fn a_run_killed_at_any_moment_ends_like_an_undisturbed_one() {
    let seed = match std::env::var("AUTOLOOP_SEED") {
        Ok(text) => Seed(text.parse().expect("AUTOLOOP_SEED is a number")),
        Err(_) => Seed(OsEntropy.number()),
    };
    let wanted = std::env::var("AUTOLOOP_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    tell(&format!("kills of a harness: AUTOLOOP_SEED={}", seed.0));
    let mut dice = seed.dice();
    let undisturbed = story(&undisturbed());
    assert_eq!(undisturbed.iterations.len() as u64, ITERATIONS);
    assert_eq!(undisturbed.reviews, (1..4).map(|n| n * REVIEW_EVERY + 1).collect());
    assert_eq!(undisturbed.endings, ["loop.complete completion_event"]);

    let (mut kills, mut runs) = (0, 0);
    while kills < wanted {
        let sandbox = project();
        kills += kill_until_over(&sandbox, &mut dice);
        runs += 1;
        assert_eq!(story(&sandbox), undisturbed, "seed {}", seed.0);
        until("the last process to end", || left(&sandbox).is_empty().then_some(()));
        // A kill can tear the record being written; then the next writer records the repair.
        let verified = sandbox.run(&["journal", "verify"]);
        let is_torn = !sandbox.fields("journal.repaired", "offset").is_empty();
        assert!(verified.code == Some(0) || is_torn, "{verified}");
    }
    tell(&format!("{kills} kills in {runs} runs"));
}

fn project() -> Sandbox {
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    sandbox.write("autoloops.toml", CONFIG);
    sandbox.write("topology.toml", TOPOLOGY);
    sandbox.write("script.toml", SCRIPT);
    sandbox
}

fn undisturbed() -> Sandbox {
    let sandbox = project();
    let output = sandbox.run(&["run", ".", "build it"]);
    assert_eq!(output.code, Some(0), "{output}\n{}", sandbox.journal());
    sandbox
}

/// Starts the run and kills its harness until the run ends. Returns the number of kills.
fn kill_until_over(sandbox: &Sandbox, dice: &mut Dice) -> u64 {
    let clock = World::real().clock;
    let mut kills = 0;
    loop {
        let lines = lines(sandbox);
        let (is_begun, is_over) = state(sandbox);
        if is_over {
            return kills;
        }
        let args: &[&str] =
            if is_begun { &["run", "--resume", "."] } else { &["run", ".", "build it"] };
        let mut harness = Reaped::start(quiet(sandbox, args));
        // Most harnesses make some progress; a few die during startup.
        let more = dice.index(14);
        let ended = until("the journal to grow", || {
            let ended = harness.0.try_wait().unwrap();
            (ended.is_some() || self::lines(sandbox) >= lines + more).then_some(ended)
        });
        match ended {
            Some(status) => assert!(status.success(), "{status}: {}", sandbox.journal()),
            None => {
                clock.sleep(Duration::from_micros(dice.below(12_000)));
                if harness.0.try_wait().unwrap().is_none() {
                    harness.kill();
                    kills += 1;
                }
            }
        }
        // In half of the cases the next harness starts while agents of the last one may still be
        // exiting.
        if dice.chance(1, 2) {
            until("the agents to die with it", || left(sandbox).is_empty().then_some(()));
        }
    }
}

fn quiet(sandbox: &Sandbox, args: &[&str]) -> Command {
    let mut command = sandbox.command();
    command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn lines(sandbox: &Sandbox) -> usize {
    sandbox.read(".autoloop/journal.jsonl").iter().filter(|&&byte| byte == b'\n').count()
}

/// All records that can be read.
fn records(sandbox: &Sandbox) -> Vec<Value> {
    let journal = sandbox.read(".autoloop/journal.jsonl");
    journal
        .split(|&byte| byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect()
}

/// Whether the run has started and whether it has ended.
fn state(sandbox: &Sandbox) -> (bool, bool) {
    let records = records(sandbox);
    let any =
        |topics: &[&str]| records.iter().any(|record| topics.contains(&text(record, "topic")));
    (any(&["loop.start"]), any(&["loop.complete", "loop.stop"]))
}

fn text<'a>(record: &'a Value, name: &str) -> &'a str {
    record[name].as_str().unwrap_or_default()
}

/// The outcome, after checking everything that holds for any run.
fn story(sandbox: &Sandbox) -> Story {
    let mut story = Story::default();
    let mut opened: Option<(u64, String)> = None;
    let mut reviewing = None;
    let shown = || sandbox.journal();
    let records = records(sandbox);
    assert_eq!(
        records.iter().filter(|record| text(record, "topic") == "loop.start").count(),
        1,
        "{}",
        shown()
    );
    for record in &records {
        let iteration: u64 = text(record, "iteration").parse().unwrap_or_default();
        let field = |name: &str| text(&record["fields"], name).to_owned();
        assert!(story.endings.is_empty(), "a record after the end: {record}\n{}", shown());
        match text(record, "topic") {
            "iteration.start" => {
                let next = story.iterations.len() as u64 + 1;
                assert_eq!(iteration, next, "{}", shown());
                if iteration > 1 && (iteration - 1).is_multiple_of(REVIEW_EVERY) {
                    assert!(story.reviews.contains(&iteration), "no review: {}", shown());
                }
                opened = Some((iteration, field("recent_event")));
            }
            "iteration.finish" => {
                let (number, event) = opened.take().expect("an iteration was begun");
                assert_eq!(iteration, number, "{}", shown());
                let told = (event, field("output"), field("exit_code"));
                let before = story.iterations.insert(iteration, told);
                assert_eq!(before, None, "finished twice: {}", shown());
            }
            "review.start" => {
                assert!(!story.reviews.contains(&iteration), "reviewed twice: {}", shown());
                reviewing = Some(iteration);
            }
            "review.finish" => {
                assert_eq!(reviewing.take(), Some(iteration), "{}", shown());
                story.reviews.insert(iteration);
            }
            topic @ ("loop.complete" | "loop.stop") => {
                story.endings.push(format!("{topic} {}", field("reason")));
            }
            _ => {}
        }
    }
    story
}

/// The remaining processes of this project's runs.
fn left(sandbox: &Sandbox) -> Vec<String> {
    let project = format!("AUTOLOOP_PROJECT_DIR={}", sandbox.path("").display());
    let is_ours = |environ: &[u8]| {
        let mut vars = environ.split(|&byte| byte == 0);
        vars.clone().any(|var| var.starts_with(b"AUTOLOOP_RUN_ID="))
            && vars.any(|var| var == project.as_bytes())
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        // Processes that have exited and processes of other users cannot be read.
        .filter(|entry| fs::read(entry.path().join("environ")).is_ok_and(|bytes| is_ours(&bytes)))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}
