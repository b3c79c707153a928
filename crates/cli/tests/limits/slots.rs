//! Runs of slots.

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::Output;
use autoloop_testkit::slots::{self, Agents};
use insta::assert_snapshot;

const BINARY: &str = env!("CARGO_BIN_EXE_autoloop");

/// Every turn costs half a dollar; reviews find something once.
const AGENTS: Agents<'_> = Agents {
    implement: "echo \"$AUTOLOOP_ITEM_ID\" > \"made-$AUTOLOOP_ITEM_ID\"; say done",
    review: "v=pass; [ $AUTOLOOP_FIX_ATTEMPT = 0 ] && v=drift; say '{\\\"verdict\\\": \\\"'$v'\\\", \\\"followUpPrompt\\\": \\\"add a test\\\"}'",
    fix: "echo fixed >> \"made-$AUTOLOOP_ITEM_ID\"; say mended",
};

const SAY: &str = r#"say() { printf '{"type":"result","subtype":"success","is_error":false,"result":"%s","total_cost_usd":0.5,"usage":{"input_tokens":1000,"output_tokens":0}}\n' "$1"; }"#;

fn project(agents: Agents<'_>, tasks: usize, settings: &str) -> Sandbox {
    let settings = format!("backend.output = 'claude'\n{settings}");
    let sandbox = slots::repository(BINARY, agents, (tasks, &settings));
    let script = String::from_utf8(sandbox.read("agent.sh")).unwrap();
    sandbox.write("agent.sh", format!("{SAY}\n{script}"));
    slots::git(&sandbox, &["commit", "-q", "-a", "-m", "agent"]);
    sandbox
}

fn run(sandbox: &Sandbox, args: &[&str]) -> Output {
    sandbox.run(&[&["slots"], args].concat())
}

fn id(sandbox: &Sandbox) -> String {
    sandbox.fields("slot.run.start", "run").remove(0)
}

fn told(sandbox: &Sandbox, output: &Output) -> String {
    let is_told = |line: &&str| line.starts_with("autoloop:") || line.starts_with("  hint:");
    let lines: Vec<&str> = output.stderr.lines().filter(is_told).collect();
    let (progress, usage) = output.stdout.split_once(" passed in ").unwrap();
    let (_, usage) = usage.split_once(": ").unwrap();
    let end = format!("{progress} passed in [TIME]: {usage}");
    let text = format!("exit {:?}\n{end}{}", output.code, lines.join("\n"));
    text.replace(&id(sandbox), "[RUN]")
}

fn turns(sandbox: &Sandbox) -> usize {
    ["slot.implement", "slot.review", "slot.fix"]
        .iter()
        .map(|topic| sandbox.fields(topic, "slot").len())
        .sum()
}

fn outcomes(sandbox: &Sandbox) -> String {
    sandbox.fields("slot.finish", "outcome").join(" ")
}

#[test]
fn a_budget_ends_slots_between_turns_and_releases_their_items() {
    let sandbox = project(AGENTS, 2, "");
    let output = run(&sandbox, &["--review", "--budget", "1.20"]);
    assert_snapshot!(told(&sandbox, &output), @r"
    exit Some(1)
    slots [RUN]: stopped (max_cost), 0 of 1 item passed in [TIME]: 2.0k tokens, $1.00
    autoloop: run '[RUN]' stopped: the run took $1.00 of $1.20, and another turn may take $0.50 (limits.max_cost_usd)
      hint: items that are not done were returned to the queue; allow more with `autoloop slots --resume=[RUN] --budget 3`
    ");
    // Implemented and reviewed, and not fixed.
    assert_eq!((turns(&sandbox), outcomes(&sandbox)), (2, String::new()));
    let tasks = sandbox.run(&["tasks", "list"]);
    assert!(!tasks.stdout.contains("claimed"), "{tasks}");

    // The same budget says so at once, and takes no item.
    let again = run(&sandbox, &["--resume"]);
    assert_eq!((again.code, turns(&sandbox)), (Some(1), 2), "{again}");
    assert!(again.stderr.contains("the run took $1.00 of $1.20"), "{again}");

    // The fix continues where the slot ended.
    let more = run(&sandbox, &["--resume", "--budget", "9"]);
    assert_eq!((more.code, turns(&sandbox)), (Some(0), 8), "{more}");
    assert_eq!(outcomes(&sandbox), "passed passed");
}

#[test]
fn slots_at_once_stay_within_the_budget_together() {
    let sandbox = project(AGENTS, 6, "");
    let output = run(&sandbox, &["--parallel-agents", "6", "--budget", "1.60"]);
    // What is known of the first turns lets one at a time start, and then all that fit.
    assert_snapshot!(told(&sandbox, &output), @r"
    exit Some(1)
    slots [RUN]: stopped (max_cost), 3 of 3 items passed in [TIME]: 3.0k tokens, $1.50
    autoloop: run '[RUN]' stopped: the run took $1.50 of $1.60, and another turn may take $0.50 (limits.max_cost_usd)
      hint: items that are not done were returned to the queue; allow more with `autoloop slots --resume=[RUN] --budget 4`
    ");
    assert_eq!((turns(&sandbox), outcomes(&sandbox)), (3, "passed passed passed".into()));
    let more = run(&sandbox, &["--resume", "--budget", "9"]);
    assert_eq!((more.code, turns(&sandbox)), (Some(0), 6), "{more}");
    let status = slots::git(&sandbox, &["status", "--porcelain"]);
    assert_eq!(status, "");
}

#[test]
fn a_run_whose_queue_is_empty_completes_at_its_budget() {
    let sandbox = project(AGENTS, 2, "");
    let output = run(&sandbox, &["--budget", "1"]);
    assert_eq!((output.code, outcomes(&sandbox)), (Some(0), "passed passed".into()), "{output}");
    assert_eq!(sandbox.fields("slot.run.finish", "reason"), ["no_items"]);
}

#[test]
fn a_turn_ends_with_the_time_of_the_run_and_its_item_has_not_failed() {
    let slow = Agents {
        implement: "if [ ! -e \"$AUTOLOOP_STATE_DIR/slow\" ]; then touch \"$AUTOLOOP_STATE_DIR/slow\"; sleep 600; fi; echo x > made; say done",
        ..AGENTS
    };
    let sandbox = project(slow, 1, "");
    let output = run(&sandbox, &["--set", "limits.max_runtime=4s"]);
    assert_eq!(sandbox.fields("slot.run.finish", "reason"), ["max_runtime"], "{output}");
    assert_eq!((output.code, outcomes(&sandbox)), (Some(1), String::new()), "{output}");
    assert_eq!(sandbox.survivors(), "");
    let tasks = sandbox.run(&["tasks", "list"]);
    assert!(!tasks.stdout.contains("claimed"), "{tasks}");
    let more = run(&sandbox, &["--resume", "--set", "limits.max_runtime=1h"]);
    assert_eq!((more.code, outcomes(&sandbox)), (Some(0), "passed".into()), "{more}");
}

#[test]
fn a_slot_that_took_too_much_fails_and_the_others_continue() {
    let sandbox = project(AGENTS, 2, "limits.slot.max_cost_usd = 1.1\n");
    let output = run(&sandbox, &["--review"]);
    assert_eq!((turns(&sandbox), outcomes(&sandbox)), (4, "failed failed".into()), "{output}");
    let reason = sandbox.fields("slot.finish", "reason").remove(0);
    let reason = reason.split("; its work").next().unwrap();
    assert_snapshot!(reason, @"the slot took $1.00 of $1.10, and another turn may take $0.50 (limits.slot.max_cost_usd)");
}

#[test]
fn a_slot_has_a_time_of_its_own() {
    let slow = Agents { implement: "sleep 600", ..AGENTS };
    let sandbox = project(slow, 1, "limits.slot.max_runtime = '1s'\n");
    let output = run(&sandbox, &[]);
    assert_eq!(outcomes(&sandbox), "failed", "{output}");
    assert_snapshot!(sandbox.fields("slot.finish", "reason").remove(0), @"the implementer timed out after 1s (limits.slot.max_runtime)");
}

#[test]
fn a_review_that_took_too_much_ends_the_run() {
    let sandbox = project(AGENTS, 2, "limits.review.max_tokens = 500\n");
    let output = run(&sandbox, &["--review"]);
    assert_snapshot!(told(&sandbox, &output), @r"
    exit Some(1)
    slots [RUN]: stopped (max_tokens), 0 of 1 item passed in [TIME]: 2.0k tokens, $1.00
    autoloop: run '[RUN]' stopped: a review took 1000 tokens of 500 (limits.review.max_tokens)
      hint: items that are not done were returned to the queue; allow more with `autoloop slots --resume=[RUN] --set limits.review.max_tokens=1000`
    ");
    assert_eq!((turns(&sandbox), outcomes(&sandbox)), (2, String::new()));
}
