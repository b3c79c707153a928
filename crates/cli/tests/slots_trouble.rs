//! Slots in trouble: clients that fail with exit code 0, items that are claimed by others, trackers
//! that refuse or fail, and settings that change during a run.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::fs;
use std::process::{Command, Stdio};

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{Reaped, until, write_program};
use autoloop_testkit::slots::{self, Agents, DRIFT, GOOD, PASS, git, outcomes, told};
use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_autoloop");

fn project(agents: Agents<'_>, tasks: usize, settings: &str) -> Sandbox {
    slots::project(BINARY, agents, (tasks, settings))
}

fn repository(agents: Agents<'_>, tasks: usize, settings: &str) -> Sandbox {
    slots::repository(BINARY, agents, (tasks, settings))
}

/// A project whose items are in a tracker. Before each call of the tracker a line of shell is run.
fn tracked(agents: Agents<'_>, issues: &Value, before: &str) -> Sandbox {
    let sandbox = project(agents, 0, "");
    let mut python = Command::new("python3");
    let python = python.args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    let python = String::from_utf8(python.stdout).unwrap();
    sandbox.write("bd.py", include_str!("beads/stand_in.py"));
    let program = sandbox.path("bd");
    let text = format!("#!/bin/sh\n{before}\nexec {} bd.py \"$@\"\n", python.trim());
    write_program(&program, text);
    sandbox.write("beads.json", issues.to_string());
    let settings = String::from_utf8(sandbox.read("autoloops.toml")).unwrap();
    let beads = format!("slots.source = 'beads'\nslots.beads.command = '{}'\n", program.display());
    sandbox.write("autoloops.toml", format!("{settings}\n{beads}"));
    sandbox
}

fn issues(count: usize) -> Value {
    let issue = |n: usize| serde_json::json!({"id": format!("bd-{n}"), "title": format!("task {n}"), "status": "open", "priority": 2});
    (1..=count).map(issue).collect()
}

/// The issues of a tracker: the status and the assignee.
fn tracker(sandbox: &Sandbox) -> Vec<String> {
    let all: Vec<Value> = serde_json::from_slice(&sandbox.read("beads.json")).unwrap();
    let text = |issue: &Value, name: &str| issue[name].as_str().unwrap_or_default().to_owned();
    let stands = |issue: &Value| format!("{} {}", text(issue, "status"), text(issue, "assignee"));
    all.iter().map(|issue| stands(issue).trim().to_owned()).collect()
}

/// Kills a run and its agents as soon as a file exists.
fn killed_at(sandbox: &Sandbox, args: &[&str], file: &str) {
    let mut command = sandbox.command();
    command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
    let mut harness = Reaped::start(command);
    until(file, || sandbox.path(file).exists().then_some(()));
    harness.kill();
    until("the end of the agents", || sandbox.survivors().is_empty().then_some(()));
}

/// An implementer that waits at its first start until it is killed.
const WAITS: &str = "[ -e there ] || { touch there; sleep 611; }; echo done";

const REFUSED_BY_CLAUDE: &str =
    r#"printf '%s\n' '{"type":"result","subtype":"success","is_error":true,"result":"it broke"}'"#;
const REFUSED_BY_CODEX: &str = r#"printf '%s\n' '{"type":"turn.started"}' '{"type":"turn.failed","error":{"message":"it broke too"}}'"#;

#[test]
fn a_client_that_tells_of_a_failure_is_believed_whatever_it_exits_with() {
    let ends = |agents: Agents<'_>, settings: &str| {
        let sandbox = project(agents, 1, settings);
        let output = sandbox.run(&["slots", "--review", "--review-max-fix-attempts", "1"]);
        assert_eq!(output.code, Some(1), "{output}");
        let verdicts = sandbox.fields("slot.review", "verdict").join(",");
        format!("{}[{verdicts}]", outcomes(&sandbox).concat())
    };
    let claude = Agents { review: REFUSED_BY_CLAUDE, ..GOOD };
    let codex = Agents { review: REFUSED_BY_CODEX, ..GOOD };
    let implementer = Agents { implement: REFUSED_BY_CLAUDE, ..GOOD };
    let silent = Agents { review: "true", ..GOOD };
    let told = [
        ends(claude, "slots.reviewer.output = 'claude'"),
        ends(codex, "slots.reviewer.output = 'codex'"),
        ends(silent, "slots.reviewer.output = 'claude'"),
        ends(implementer, "backend.output = 'claude'"),
    ];
    assert_snapshot!(told.join("\n"), @r"
    t-1 failed: the reviewer failed (exit code 1): it broke[failed]
    t-1 failed: the reviewer failed (exit code 1): it broke too[failed]
    t-1 failed: the reviewer failed (exit code 1): the agent ended without an answer[failed]
    t-1 failed: the implementer failed (exit code 1): it broke[]
    ");
}

#[test]
fn a_client_that_cannot_work_ends_the_run_and_fails_no_item() {
    let answers = |error: &str| {
        format!(
            r#"printf '%s\n' '{{"type":"result","subtype":"success","is_error":true,"result":"{error}"}}'"#
        )
    };
    let ends = |error: &str| {
        let implement = answers(error);
        let settings = "backend.output = 'claude'\nbackend.max_wait = 0";
        let sandbox = project(Agents { implement: &implement, ..GOOD }, 2, settings);
        let output = sandbox.run(&["slots"]);
        assert_eq!(output.code, Some(1), "{output}");
        assert_eq!(sandbox.fields("slot.finish", "outcome"), [""; 0], "{error}");
        assert_eq!(sandbox.fields("slot.start", "item_id"), ["t-1"], "{error}");
        let listed = sandbox.run(&["tasks", "ready"]).stdout;
        assert_eq!(listed.matches("t-").count(), 2, "{listed}");
        assert_eq!(sandbox.fields("backend.failed", "slot"), ["1"], "{error}");
        let shown = sandbox.run(&["watch", "--once"]).stdout;
        let row = format!("t-1 task 1  sh cannot work: {error}\n");
        assert!(shown.contains("slot 1  STOPPED") && shown.ends_with(&row), "{shown}");
        let told = output
            .stderr
            .lines()
            .filter(|line| line.starts_with("autoloop: ") || line.contains("hint: "))
            .filter(|line| !line.contains("--resume="));
        told.collect::<Vec<_>>().join("\n")
    };
    let told = [
        ends("Invalid API key"),
        ends("Credit balance is too low"),
        ends("model not found: opus-9"),
        ends("API Error: 429 slow down"),
    ];
    assert_snapshot!(told.join("\n"), @r"
    autoloop: sh cannot work: Invalid API key
      hint: log in with the client, or set the API key of its provider; name its variable in backend.env
    autoloop: sh cannot work: Credit balance is too low
      hint: add credit to the account, or choose another client with -b
    autoloop: sh cannot work: model not found: opus-9
      hint: choose a model that the account may use with --model
    autoloop: sh cannot work: API Error: 429 slow down
    ");
}

/// The first agent is refused, the second one ends its work and is not asked to review.
#[test]
fn a_slot_that_waits_for_a_client_is_not_shown_at_work() {
    let refused = r#"echo '{"type":"result","subtype":"success","is_error":true,"result":"API Error: 429 slow down"}'"#;
    let answers =
        r#"echo '{"type":"result","subtype":"success","is_error":false,"result":"done"}'"#;
    let implement = format!(
        "if [ $AUTOLOOP_SLOT = 1 ]; then {refused}; exit 1; fi
        until grep -q backend.parked .autoloop/journal.jsonl; do :; done; {answers}"
    );
    let settings = "backend.output = 'claude'\nbackend.first_wait = '10m'";
    let sandbox = project(Agents { implement: &implement, ..GOOD }, 2, settings);
    let mut command = sandbox.command();
    command.args(["slots", "--review", "--parallel-agents", "2", "--isolation", "shared"]);
    let file = sandbox.path("told");
    command.stdout(Stdio::null()).stderr(fs::File::create(&file).unwrap());
    let mut harness = Reaped::start(command);
    let told = until("the second slot to wait", || {
        let told = fs::read_to_string(&file).unwrap();
        told.contains("slot 2  t-2  waits for sh\n").then_some(told)
    });
    assert_eq!(told.matches("sh is unavailable").count(), 1, "{told}");
    let parked = until("both records", || {
        Some(sandbox.fields("backend.parked", "slot")).filter(|it| it.len() == 2)
    });
    assert_eq!(parked, ["1", "2"]);
    let shown = sandbox.run(&["watch", "--once"]).stdout;
    assert_eq!(shown.matches("  PARKED  ").count(), 2, "{shown}");
    kill_process(Pid::from_child(&harness.0), Signal::TERM).unwrap();
    harness.0.wait().unwrap();
}

#[test]
fn the_stop_marker_counts_wherever_the_agent_says_it_and_nowhere_else() {
    let far = "head -c 4000000 /dev/zero | tr '\\0' x; echo no_beads_available; head -c 4000000 /dev/zero | tr '\\0' y";
    let sandbox = project(Agents { implement: far, ..GOOD }, 2, "");
    assert_eq!(sandbox.run(&["slots"]).code, Some(0));
    assert_eq!(sandbox.fields("slot.run.finish", "reason"), ["stop_marker"]);
    // Text that the client repeats or a tool prints is not the agent's answer.
    let quoted = r#"printf '%s\n' '{"type":"user","message":{"content":[{"type":"text","text":"no_beads_available"}]}}' '{"type":"assistant","message":{"content":[{"type":"tool_use","name":"sh","input":"no_beads_available"}]}}' '{"type":"result","subtype":"success","is_error":false,"result":"fine"}'"#;
    let sandbox = project(Agents { implement: quoted, ..GOOD }, 2, "backend.output = 'claude'");
    assert_eq!(sandbox.run(&["slots"]).code, Some(0));
    assert_eq!(sandbox.fields("slot.run.finish", "reason"), ["no_items"]);
}

#[test]
fn work_on_a_lost_item_is_not_merged() {
    let person = format!("env -u AUTOLOOP_RUN_ID '{BINARY}' tasks");
    let implement = format!(
        "echo x > made; {person} release t-1 --force; {person} claim t-1 --as ann; echo done"
    );
    let sandbox = repository(Agents { implement: &implement, ..GOOD }, 1, "");
    let output = sandbox.run(&["slots", "--review", "--isolation", "worktree"]);
    assert_eq!(output.code, Some(1), "{output}");
    let reason = outcomes(&sandbox).concat();
    assert!(
        reason.starts_with("t-1 failed: the claim was lost: claim 1 of t-1 is no longer valid"),
        "{reason}"
    );
    assert!(reason.contains("; its work is on branch autoloop/slots/"), "{reason}");
    assert!(!sandbox.path("made").exists());
    assert_eq!(git(&sandbox, &["log", "--oneline"]).lines().count(), 1);
    assert!(sandbox.run(&["tasks", "show", "t-1"]).stdout.contains("ann"));
}

#[test]
fn an_agent_that_closes_its_item_has_judged_nothing() {
    let close = format!(
        "env -u AUTOLOOP_RUN_ID '{BINARY}' tasks close t-1 --as \"$AUTOLOOP_RUN_ID-s$AUTOLOOP_SLOT\""
    );
    let implement = format!("{close} && echo done");
    let once = ["slots", "--review", "--isolation", "worktree", "--review-max-fix-attempts", "0"];
    let sandbox = repository(Agents { implement: &implement, review: DRIFT, ..GOOD }, 1, "");
    assert_eq!(sandbox.run(&once).code, Some(1));
    assert_eq!(sandbox.fields("slot.finish", "outcome"), ["drift"]);
    assert!(sandbox.run(&["tasks", "ready"]).stdout.contains("t-1"));
    let implement = format!("echo x > made; {close} && echo done");
    let sandbox = repository(Agents { implement: &implement, ..GOOD }, 1, "");
    assert_eq!(sandbox.run(&once).code, Some(0));
    assert_eq!(outcomes(&sandbox), ["t-1 passed: good"]);
    assert_eq!(sandbox.read("made"), b"x\n");
    // Also where the harness is killed in between.
    let implement = format!(
        "[ -e \"$AUTOLOOP_STATE_DIR/there\" ] || {{ {close}; touch \"$AUTOLOOP_STATE_DIR/there\"; sleep 611; }}; echo x > made"
    );
    let sandbox = repository(Agents { implement: &implement, ..GOOD }, 1, "");
    killed_at(&sandbox, &once, ".autoloop/there");
    let output = sandbox.run(&["slots", "--resume"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(outcomes(&sandbox), ["t-1 passed: good"]);
}

#[test]
fn a_failure_keeps_its_reason_when_another_worker_has_the_item() {
    let sandbox = project(Agents { implement: "exit 7", ..GOOD }, 1, "");
    assert_eq!(sandbox.run(&["slots"]).code, Some(1));
    // As if the harness had been killed after the release, before it recorded the end of the slot.
    let journal = fs::read_to_string(sandbox.journal_path()).unwrap();
    let end = journal.find("\"slot.finish\"").and_then(|at| journal[..at].rfind('\n')).unwrap();
    fs::write(sandbox.journal_path(), &journal[..=end]).unwrap();
    assert_eq!(sandbox.run(&["tasks", "claim", "t-1", "--as", "ann"]).code, Some(0));
    assert_eq!(sandbox.run(&["slots", "--resume"]).code, Some(1));
    assert_eq!(outcomes(&sandbox), ["t-1 failed: the implementer failed (exit code 7)"]);
    assert!(sandbox.run(&["tasks", "show", "t-1"]).stdout.contains("claimed by ann"));
}

#[test]
fn an_item_that_the_tracker_does_not_close_is_released() {
    let mut all = issues(1);
    let child = serde_json::json!({"id": "bd-1.1", "title": "child", "status": "deferred", "priority": 2, "parent": "bd-1"});
    all.as_array_mut().unwrap().push(child);
    let sandbox = tracked(GOOD, &all, "");
    assert_eq!(sandbox.run(&["slots", "--review"]).code, Some(1));
    assert_snapshot!(outcomes(&sandbox).concat(), @"bd-1 failed: the item could not be closed: the issue tracker refused bd-1: cannot close bd-1: open children bd-1.1");
    assert_eq!(tracker(&sandbox), ["open", "deferred"]);
}

#[test]
fn work_that_is_on_a_branch_is_named_also_where_the_item_could_not_be_closed() {
    let implement = "git branch \"$(git symbolic-ref --short HEAD)-beside\" \"$(git -c user.name=a -c user.email=a commit-tree -m x HEAD^{tree})\"; echo done";
    let refuses = "[ \"$1\" = close ] && { echo no >&2; exit 1; }";
    let sandbox = tracked(Agents { implement, ..GOOD }, &issues(1), refuses);
    sandbox.write(".gitignore", "*\n");
    for args in [&["init", "-q"][..], &["commit", "-q", "--allow-empty", "-m", "first"]] {
        git(&sandbox, args);
    }
    assert_eq!(sandbox.run(&["slots", "--review", "--isolation", "worktree"]).code, Some(1));
    let run = sandbox.fields("slot.run.start", "run").remove(0);
    assert_snapshot!(outcomes(&sandbox).concat().replace(&run, "[RUN]"), @"bd-1 failed: the item could not be closed: the issue tracker refused bd-1: no; its work is on branch autoloop/slots/[RUN]/1-1-beside");
}

#[test]
fn a_tracker_that_stumbles_once_costs_no_work() {
    // It fails before it closes the issue, or after.
    let before =
        "[ \"$1\" = close ] && [ ! -e stumbled ] && { touch stumbled; echo locked >&2; exit 1; }";
    let after = "[ \"$1\" = close ] && [ ! -e stumbled ] && { touch stumbled; ./bd \"$@\" >/dev/null; echo locked >&2; exit 1; }";
    for stumble in [before, after] {
        let sandbox = tracked(GOOD, &issues(1), stumble);
        let output = sandbox.run(&["slots", "--review"]);
        assert_eq!(output.code, Some(0), "{output}");
        assert_eq!(outcomes(&sandbox), ["bd-1 passed: good"]);
        assert_eq!(tracker(&sandbox)[0].split(' ').next(), Some("closed"));
    }
    // A question that it does not answer now is asked again when the run is resumed.
    let nonsense = "[ \"$1\" = close ] && [ ! -e mended ] && { echo nonsense; exit 0; }";
    let sandbox = tracked(GOOD, &issues(1), nonsense);
    let told = told(&sandbox, &["slots", "--review"]);
    assert!(told.contains("hint: then resume it with `autoloop slots --resume="), "{told}");
    sandbox.write("mended", "");
    assert_eq!(sandbox.run(&["slots", "--resume"]).code, Some(0));
    assert_eq!(outcomes(&sandbox), ["bd-1 passed: good"]);
    assert_eq!(sandbox.fields("slot.implement", "item_id"), ["bd-1"]);
}

#[test]
fn an_item_that_is_gone_ends_its_slot_and_not_the_run() {
    let gone = "[ $AUTOLOOP_ITEM_ID = bd-1 ] && sed -i 's/bd-1/bd-9/; s/in_progress/deferred/' \"$AUTOLOOP_PROJECT_DIR/beads.json\"; echo done";
    let sandbox = tracked(Agents { implement: gone, ..GOOD }, &issues(2), "");
    let output = sandbox.run(&["slots"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert_snapshot!(outcomes(&sandbox).join("\n"), @r"
    bd-1 failed: the item could not be closed: the issue tracker has no issue 'bd-1'
    bd-2 passed: not reviewed: reviews are off
    ");
    // An issue that is only not shown may still exist.
    let sandbox = tracked(GOOD, &issues(1), "[ \"$1\" = show ] && { echo locked >&2; exit 1; }");
    let told = told(&sandbox, &["slots"]);
    assert!(told.contains("show bd-1` failed with exit code 1: locked"), "{told}");
    assert_eq!(outcomes(&sandbox), [""; 0]);
}

#[test]
fn a_held_item_is_resumed_without_a_new_claim() {
    let sandbox = tracked(
        Agents { implement: WAITS, ..GOOD },
        &issues(1),
        "[ \"$1\" = update ] && { echo locked >&2; exit 1; }",
    );
    // With new items too, the tracker finds and claims an issue in one step.
    let in_one_step = ["slots", "--review", "--set", "slots.include_new=true"];
    killed_at(&sandbox, &in_one_step, "there");
    let output = sandbox.run(&["slots", "--resume"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(outcomes(&sandbox), ["bd-1 passed: good"]);
}

#[test]
fn items_claimed_for_nothing_are_released_at_once() {
    let sandbox =
        tracked(GOOD, &issues(2), "case \"$*\" in *--claim*-s2*) echo broken >&2; exit 1;; esac");
    let output = sandbox.run(&["slots", "--parallel-agents", "2"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(tracker(&sandbox), ["open", "open"]);
}

#[test]
fn a_resumed_run_keeps_its_items() {
    let sandbox = tracked(Agents { implement: WAITS, ..GOOD }, &issues(1), "");
    killed_at(&sandbox, &["slots", "--review"], "there");
    assert_snapshot!(told(&sandbox, &["slots", "--resume", "--source", "builtin"]), @r"
    exit 2
    --- stderr
    autoloop: run '[RUN]' takes its items from beads, but the settings name builtin
      hint: pass `--source beads`, or start a new run with `autoloop slots`
      hint: then resume it with `autoloop slots --resume=[RUN]`
    ");
    assert_eq!(sandbox.run(&["slots", "--resume"]).code, Some(0));
    assert_eq!(outcomes(&sandbox), ["bd-1 passed: good"]);
}

#[test]
fn items_held_by_a_crashed_run_are_named_when_nothing_else_is_left() {
    let agents = Agents { implement: WAITS, ..GOOD };
    for (sandbox, item) in
        [(tracked(agents, &issues(1), ""), "bd-1"), (project(agents, 1, ""), "t-1")]
    {
        killed_at(&sandbox, &["slots", "--review"], "there");
        let run = sandbox.fields("slot.run.start", "run").remove(0);
        let output = sandbox.run(&["slots", "--review"]);
        let note = format!(
            "note: {item} is held by the unfinished run '{run}': resume it with `autoloop slots --resume={run}`\n"
        );
        assert!(output.stderr.contains(&note), "{output}");
        assert_eq!(sandbox.run(&["slots", "--resume"]).code, Some(0));
        let output = sandbox.run(&["slots", "--review"]);
        assert!(!output.stderr.contains("is held by"), "{output}");
    }
}

#[test]
fn settings_that_change_hold_from_the_next_iteration_on() {
    let implement = "pwd; [ $AUTOLOOP_ITEM_ID = t-1 ] && sed -i 's/parallelAgents = 1/parallelAgents = 2/; s/Enabled = true/Enabled = false/' autoloops.toml; echo done";
    let settings = "slots.parallelAgents = 1\nslots.reviewEnabled = true";
    let sandbox = repository(Agents { implement, ..GOOD }, 3, settings);
    let output = sandbox.run(&["slots"]);
    assert_eq!(output.code, Some(0), "{output}");
    // From then on two at once, each in its own worktree.
    let slots = sandbox.fields("slot.start", "slot");
    assert_eq!(slots, ["1", "1", "2"]);
    let trees = sandbox.fields("slot.start", "branch");
    assert!(trees[0].is_empty() && !trees[1].is_empty() && !trees[2].is_empty(), "{trees:?}");
    assert!(output.stderr.contains("iteration 1\n"), "{output}");
    // But a resumed run cannot weaken its reviews.
    assert_eq!(sandbox.fields("slot.review", "verdict"), ["pass"; 3]);
}

#[test]
fn an_agent_cannot_remove_the_prompt_of_its_reviewer() {
    let implement = "[ $AUTOLOOP_ITEM_ID = t-1 ] && echo \"slots.reviewerPromptPath = ''\" >> autoloops.toml; echo done";
    let sandbox = project(Agents { implement, ..GOOD }, 3, "");
    let output = sandbox.run(&["slots", "--review"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(sandbox.fields("slot.review", "verdict"), ["pass"; 3]);
    let kept = "note: the reviewer prompt changed; this run continues with the original one\n";
    assert_eq!(output.stderr.matches(kept).count(), 1, "{output}");
}

#[test]
fn an_agent_cannot_change_its_reviewer() {
    let told = |change: &str| {
        let implement = format!("[ $AUTOLOOP_ITEM_ID = t-1 ] && {{ {change}; }}; echo done");
        let sandbox = project(Agents { implement: &implement, ..GOOD }, 3, "");
        sandbox
            .write("reviewer.md", "Look closely.\n")
            .write("kind.sh", PASS.replace("good", "bribed"));
        let output = sandbox.run(&["slots", "--review", "--reviewer-prompt", "reviewer.md"]);
        assert_eq!(output.code, Some(0), "{output}");
        assert_eq!(sandbox.fields("slot.review", "follow_up_prompt"), ["good"; 3]);
        let notes = output.stderr.lines().filter(|line| line.starts_with("note: "));
        notes
            .filter(|note| note.contains("review") && !note.contains("no diff"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_snapshot!(told("echo 'Be kind.' > reviewer.md"), @"note: the reviewer prompt changed; this run continues with the original one");
    let kept = "note: the settings of reviews or the limits of items changed; this run continues with the original ones";
    for change in [
        "slots.reviewer.args = ['kind.sh']",
        "slots.reviewMaxFixAttempts = 0",
        "slots.reviewContractRepair = 1",
    ] {
        assert_eq!(told(&format!("echo \"{change}\" >> autoloops.toml")), kept, "{change}");
    }
    assert_snapshot!(told("echo 'slots.iterations = 9' >> autoloops.toml"), @"");
}

#[test]
fn work_beside_a_reviewer_is_kept_also_with_fewer_slots_than_before() {
    // The first review waits until the other slot has written something, and a moment longer.
    let implement = "[ -e \"there\" ] || { [ $AUTOLOOP_ITEM_ID = t-2 ] && touch there; sleep 611; }
        [ $AUTOLOOP_ITEM_ID = t-2 ] && { while [ ! -e home/reviewing ]; do sleep 0.02; done; echo mine > work; touch home/written; }
        echo done";
    let review = format!(
        "[ $AUTOLOOP_ITEM_ID = t-1 ] && {{ touch home/reviewing; while [ ! -e home/written ]; do sleep 0.02; done; }}; {PASS}"
    );
    let settings = "review.sandbox = 'off'\nreview.enabled = false\nslots.isolation = 'shared'";
    let sandbox = project(Agents { implement, review: &review, ..GOOD }, 2, settings);
    sandbox.write("home/begun", "");
    killed_at(&sandbox, &["slots", "--review", "--parallel-agents", "2"], "there");
    let output = sandbox.run(&["slots", "--resume", "--parallel-agents", "1"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(sandbox.read("work"), b"mine\n");
    // Its prompt says that others work there.
    let run = sandbox.fields("slot.run.start", "run").remove(0);
    let prompt = sandbox.read(format!(".autoloop/slots/{run}/1-1/review-0.prompt.md"));
    assert!(String::from_utf8_lossy(&prompt).contains("## Parallel agents"));
    assert_eq!(sandbox.fields("slot.finish", "outcome"), ["passed"; 2]);
}

#[test]
fn the_sandbox_of_a_reviewer_is_recorded() {
    let off = "review.sandbox = 'off'\nreview.enabled = false";
    let sandbox = repository(GOOD, 1, off);
    assert_eq!(sandbox.run(&["slots", "--review"]).code, Some(0));
    assert_eq!(sandbox.fields("slot.review", "enforcement"), ["snapshot"]);
    let sandbox = repository(GOOD, 2, off);
    let trees = sandbox.run(&["slots", "--review", "--parallel-agents", "2"]);
    assert!(!trees.stderr.contains("slots share the project"), "{trees}");
    assert_eq!(sandbox.fields("slot.review", "enforcement"), ["snapshot"; 2]);
    // Both reviews wait until both slots are under review.
    let review = format!(
        "touch home/$AUTOLOOP_SLOT; while [ ! -e home/1 ] || [ ! -e home/2 ]; do sleep 0.02; done; {PASS}"
    );
    let sandbox = repository(Agents { review: &review, ..GOOD }, 2, off);
    sandbox.write("home/begun", "");
    let shared =
        sandbox.run(&["slots", "--review", "--parallel-agents", "2", "--isolation", "shared"]);
    assert!(shared.stderr.contains("note: slots share the project and no sandbox is available: reviewers can change its files\n"), "{shared}");
    assert_eq!(sandbox.fields("slot.review", "enforcement"), ["nothing"; 2]);
}

#[test]
fn items_that_failed_are_passed_over_without_being_claimed() {
    let sandbox = project(Agents { implement: "exit 1", ..GOOD }, 6, "");
    assert_eq!(sandbox.run(&["slots"]).code, Some(1));
    assert_eq!(
        sandbox.fields("slot.finish", "item_id"),
        ["t-1", "t-2", "t-3", "t-4", "t-5", "t-6"]
    );
    assert_eq!(sandbox.journal().matches("\"queue.task.claimed\"").count(), 6);
    let sandbox = tracked(Agents { implement: "exit 1", ..GOOD }, &issues(4), "");
    assert_eq!(sandbox.run(&["slots"]).code, Some(1));
    assert_eq!(sandbox.fields("slot.finish", "item_id"), ["bd-1", "bd-2", "bd-3", "bd-4"]);
    let calls = String::from_utf8(sandbox.read("calls")).unwrap();
    let given_back = calls.lines().filter(|call| call.contains("--status open")).count();
    assert_eq!(given_back, 4, "{calls}");
}

#[test]
fn a_long_reason_is_shortened() {
    let review = r#"printf '{"verdict": "drift", "followUpPrompt": "look '; head -c 2000000 /dev/zero | tr '\0' x; echo '"}'"#;
    let sandbox = project(Agents { review, ..GOOD }, 1, "");
    let output = sandbox.run(&["slots", "--review", "--review-max-fix-attempts", "0"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(sandbox.fields("slot.review", "verdict"), ["drift"]);
    let reason = outcomes(&sandbox).concat();
    assert!(reason.contains("look xxx") && reason.len() < 5_000, "{}", reason.len());
    assert!(sandbox.run(&["tasks", "show", "t-1"]).stdout.len() < 6_000);
}
