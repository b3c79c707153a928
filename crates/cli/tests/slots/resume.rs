//! Slots that crashed or were interrupted and are resumed: no finished step is repeated.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{Reaped, until};
use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};

use crate::scene::*;

/// Agents that note, outside of the project, what they were started for.
const NOTED: &str =
    "echo \"$AUTOLOOP_SLOT_PHASE $AUTOLOOP_ITEM_ID $AUTOLOOP_FIX_ATTEMPT\" >> \"$NOTES\"";

/// Runs slots to the end with `args`, then resumes from a copy cut after each record.
fn cut_everywhere(sandbox: &Sandbox, args: &[&str]) {
    let notes = tempfile::tempdir().unwrap();
    let with_notes = |name: String, args: &[&str], dir: &Path| {
        let notes = notes.path().join(name);
        let mut command: Command = sandbox.command();
        command.args(args).current_dir(dir).env("NOTES", &notes);
        command.env("AUTOLOOP_SET", "backend.env=NOTES");
        let output = sandbox.finish(command);
        (output, fs::read_to_string(&notes).unwrap_or_default())
    };
    let (output, _) = with_notes("whole".into(), args, &sandbox.path(""));
    assert_eq!(output.code, Some(0), "{output}");
    let journal = fs::read_to_string(sandbox.journal_path()).unwrap();
    let lines: Vec<&str> = journal.lines().collect();
    let first = lines.iter().position(|line| line.contains("slot.run.start")).unwrap();
    let last = lines.iter().rposition(|line| line.contains("slot.run.finish")).unwrap();
    for cut in first + 1..=last {
        // The project has to stay at its path: its agents and its repository refer to it.
        let kept = lines[..cut].join("\n") + "\n";
        fs::write(sandbox.journal_path(), &kept).unwrap();
        let (output, noted) =
            with_notes(cut.to_string(), &["slots", "--resume"], &sandbox.path(""));
        assert_eq!(output.code, Some(0), "cut behind {}: {output}", lines[cut - 1]);
        assert_same_end(sandbox, cut);
        for line in &lines[..cut] {
            if let Some(done) = done(line) {
                assert!(
                    !noted.lines().any(|noted| noted == done),
                    "{done} was done again, cut at {cut}"
                );
            }
        }
    }
}

/// What an agent noted, if the line records its end.
fn done(line: &str) -> Option<String> {
    let record: serde_json::Value = serde_json::from_str(line).unwrap();
    let phase = record["topic"].as_str()?.strip_prefix("slot.")?;
    let fields = &record["fields"];
    let attempt = fields["attempt"].as_str().unwrap_or("0");
    ["implement", "review", "fix"]
        .contains(&phase)
        .then(|| format!("{phase} {} {attempt}", fields["item_id"].as_str().unwrap_or_default()))
}

/// Every item passed once, everything ended once, and the queue is empty.
fn assert_same_end(sandbox: &Sandbox, cut: usize) {
    let count = |topic: &str| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for item in sandbox.fields(topic, "item_id") {
            *counts.entry(item).or_default() += 1;
        }
        counts
    };
    let once = |each: usize| BTreeMap::from([("t-1".to_owned(), each), ("t-2".to_owned(), each)]);
    for (topic, each) in [
        ("slot.start", 1),
        ("slot.implement", 1),
        ("slot.review", 2),
        ("slot.fix", 1),
        ("slot.finish", 1),
    ] {
        assert_eq!(count(topic), once(each), "{topic}, cut at {cut}");
    }
    assert_eq!(sandbox.fields("slot.finish", "outcome"), ["passed"; 2]);
    assert_eq!(sandbox.fields("slot.run.finish", "passed"), ["2"]);
    assert_eq!(sandbox.run(&["tasks", "list"]).stdout.matches("t-").count(), 0, "cut at {cut}");
}

fn noting() -> (String, String, String) {
    let with = |script: &str| format!("{NOTED}; {script}");
    (with(GOOD.implement), with(DRIFT_THEN_PASS), with(GOOD.fix))
}

#[test]
fn a_run_in_the_project_resumes_after_every_record() {
    let (implement, review, fix) = noting();
    let agents = Agents { implement: &implement, review: &review, fix: &fix };
    // On some systems a reviewer in a sandbox cannot write its note.
    let sandbox = project(agents, 2, "review.sandbox = 'off'\nreview.enabled = false");
    cut_everywhere(&sandbox, &["slots", "--review"]);
}

/// The worktrees matter as much as the journal here, so the harness is really killed as soon as
/// that many records exist.
#[test]
fn a_run_in_worktrees_resumes_wherever_it_is_killed() {
    let agents = Agents { review: DRIFT_THEN_PASS, ..GOOD };
    for count in (3..30).step_by(2) {
        let sandbox = repository(agents, 2, "");
        let mut harness = start(&sandbox, "--review --parallel-agents 2");
        until("records", || {
            let records = sandbox.journal().lines().count();
            (records >= count || harness.0.try_wait().unwrap().is_some()).then_some(())
        });
        kill(&sandbox, &mut harness);
        if sandbox.fields("slot.run.finish", "run").is_empty() {
            match sandbox.fields("slot.run.start", "run").is_empty() {
                true => passes(&sandbox, "--review --parallel-agents 2"),
                false => passes(&sandbox, "--resume"),
            };
        }
        assert_same_end(&sandbox, count);
        // A fixer that crashed before its end was recorded is started again.
        assert!(sandbox.read("made-t-1").starts_with(b"t-1\nfixed\n"), "killed at {count}");
        assert_eq!(git(&sandbox, &["worktree", "list"]).lines().count(), 1);
        assert_eq!(git(&sandbox, &["branch", "--list", "autoloop/*"]), "");
        assert_eq!(git(&sandbox, &["status", "--porcelain"]), "");
    }
}

/// An implementer that waits at its first start until it is killed.
const WAITS: &str = "echo $AUTOLOOP_ITEM_ID >> starts; if [ ! -e waited ]; then touch waited; sleep 611 & touch there; sleep 612; fi; echo done";

/// A child that a harness was about to start when it was killed holds a copy of the lock until it
/// calls exec.
#[test]
fn a_lock_that_outlives_its_holder_is_waited_for() {
    let sandbox = project(Agents { implement: WAITS, ..GOOD }, 1, "");
    kill_at(&sandbox, "there", "--review");
    let run = sandbox.fields("slot.run.start", "run").remove(0);
    let lock = sandbox.path(format!(".autoloop/slots/{run}/lock"));
    let mut holder = Command::new("sh");
    // The shell that took the lock exits, and its child holds it for a while.
    let script = "exec 9>> \"$0\"; flock -n 9 || exit 3; sleep 0.7 & exit 0";
    holder.args(["-c", script]).arg(lock).stdout(Stdio::null()).stderr(Stdio::null());
    assert_ne!(holder.status().unwrap().code(), Some(3));
    passes(&sandbox, "--resume");
    assert_eq!(sandbox.fields("slot.finish", "outcome"), ["passed"]);
}

#[test]
fn an_interruption_ends_the_agents_and_the_run_can_go_on() {
    let sandbox = project(Agents { implement: WAITS, ..GOOD }, 2, "");
    let mut harness = start(&sandbox, "--review --stop-marker STOP");
    wait_for(&sandbox, "there");
    let run = sandbox.fields("slot.run.start", "run").remove(0);
    // Meanwhile no other process may drive it or claim its item.
    let busy = says(&sandbox, &format!("--resume={run}"));
    let busy: String = busy.split(" (").next().unwrap().to_owned();
    assert_snapshot!(busy, @r"
    exit 4
    --- stderr
    autoloop: run '[RUN]' is running in another process
    ");
    let process = format!("process {}", harness.0.id());
    let latest = says(&sandbox, "--resume").replace(&process, "[PROCESS]");
    assert_snapshot!(latest, @r"
    exit 4
    --- stderr
    autoloop: no run of slots to resume in [DIR]/.autoloop/journal.jsonl: '[RUN]' is running in [PROCESS]
      hint: wait for it, or end that process; the journal shows its progress
    ");
    kill_process(Pid::from_child(&harness.0), Signal::INT).unwrap();
    assert_eq!(harness.0.wait().unwrap().code(), Some(130));
    assert_eq!(sandbox.survivors(), "");
    assert_eq!(outcomes(&sandbox), [""; 0]);
    assert_eq!(sandbox.fields("slot.run.finish", "reason"), ["interrupted"]);
    for (view, expected) in [
        ("loops", format!("{run}  slots  interrupted")),
        ("loops show latest", "status        interrupted".to_owned()),
        ("inspect slots", format!("slots {run}: interrupted, 0 of 1 item passed")),
        ("watch --once", format!("slots {run} interrupted")),
    ] {
        let shown = sandbox.run(&view.split(' ').collect::<Vec<_>>()).stdout;
        assert!(shown.contains(&expected), "{view}: {shown}");
    }
    passes(&sandbox, &format!("--resume {run}"));
    assert_eq!(sandbox.read("starts"), b"t-1\nt-1\nt-2\n");
    assert_eq!(sandbox.fields("slot.start", "item_id"), ["t-1", "t-2"]);
    assert_eq!(sandbox.fields("slot.run.resume", "resumed_from_iteration"), ["1"]);
    assert_snapshot!(says(&sandbox, "--resume"), @r"
    exit 1
    --- stderr
    autoloop: no run of slots to resume in [DIR]/.autoloop/journal.jsonl: the latest run of slots, '[RUN]', completed
      hint: start a new run with `autoloop slots`
    ");
    assert_snapshot!(says(&sandbox, &format!("--resume={run}")), @r"
    exit 1
    --- stderr
    autoloop: run '[RUN]' completed: there is nothing to resume
      hint: start a new run with `autoloop slots`
    ");
    assert_snapshot!(says(&sandbox, "--resume=odd"), @r"
    exit 1
    --- stderr
    autoloop: no run 'odd' in [DIR]/.autoloop/journal.jsonl
      hint: list all runs with `autoloop loops --all`
      hint: start a new run with `autoloop slots`
    ");
    assert_snapshot!(says(&sandbox, "--resume=../x"), @r"
    exit 1
    --- stderr
    autoloop: no run '../x' in [DIR]/.autoloop/journal.jsonl
      hint: list all runs with `autoloop loops --all`
      hint: start a new run with `autoloop slots`
    ");
}

#[test]
fn an_interruption_in_any_phase_repeats_only_that_phase() {
    // An agent that ignores the first request.
    let waits = |phase: &str| {
        let goes_on =
            "trap 'touch home/asked' TERM; touch home/there; while :; do sleep 0.05; done";
        format!("echo {phase} >> home/starts; [ -e home/there ] || {{ {goes_on}; }};")
    };
    let starts = |phase: &str| format!("echo {phase} >> home/starts;");
    for cut in ["implement", "review", "fix"] {
        let script = |phase: &str, script: &str| {
            let begin = if phase == cut { waits(phase) } else { starts(phase) };
            format!("cd {}; {begin} cd - > /dev/null; {script}", "\"$AUTOLOOP_PROJECT_DIR\"")
        };
        let (implement, review, fix) = (
            script("implement", GOOD.implement),
            script("review", DRIFT_THEN_PASS),
            script("fix", GOOD.fix),
        );
        let agents = Agents { implement: &implement, review: &review, fix: &fix };
        let settings = "review.sandbox = 'off'\nreview.enabled = false";
        let sandbox = repository(agents, 1, settings);
        sandbox.write("home/begun", "");
        let flags = "--review --isolation worktree --set backend.grace_ms=90000";
        let mut harness = start(&sandbox, flags);
        wait_for(&sandbox, "home/there");
        kill_process(Pid::from_child(&harness.0), Signal::INT).unwrap();
        wait_for(&sandbox, "home/asked");
        // The second request ends it at once.
        kill_process(Pid::from_child(&harness.0), Signal::INT).unwrap();
        assert_eq!(harness.0.wait().unwrap().code(), Some(130), "{cut}");
        assert_eq!(sandbox.survivors(), "");
        assert_eq!(outcomes(&sandbox), [""; 0]);
        passes(&sandbox, "--resume");
        assert_eq!(outcomes(&sandbox), ["t-1 passed: add a test"]);
        let mut expected = vec!["implement", "review", "fix", "review"];
        let place = expected.iter().position(|phase| *phase == cut).unwrap();
        expected.insert(place, cut);
        let started = String::from_utf8(sandbox.read("home/starts")).unwrap();
        assert_eq!(started.lines().collect::<Vec<_>>(), expected);
        assert_eq!(sandbox.read("made-t-1"), b"t-1\nfixed\n");
        assert_eq!(git(&sandbox, &["worktree", "list"]).lines().count(), 1);
    }
}

#[test]
fn a_killed_harness_takes_its_agents_with_it_and_its_claim_waits_for_it() {
    let sandbox = project(Agents { implement: WAITS, ..GOOD }, 1, "");
    kill_at(&sandbox, "there", "--review");
    // Another run finds nothing to do.
    passes(&sandbox, "--review");
    assert_eq!(outcomes(&sandbox).len(), 1);
    let resumed = passes(&sandbox, "--resume --no-review --parallel-agents 3");
    assert!(resumed.stderr.contains(" resume: 3 slots, without review\n"), "{resumed}");
    assert_eq!(sandbox.fields("slot.finish", "outcome"), ["no_item", "passed"]);
}

#[test]
fn a_run_that_was_started_to_outlive_its_terminal_does() {
    let waits = "touch there; while ! test -e go; do sleep 0.02; done; echo done";
    // These tests may run under `nohup`, so the disposition is set explicitly for each harness.
    let started = |hangup: &str| {
        let sandbox = project(Agents { implement: waits, ..GOOD }, 1, "");
        let mut command = sandbox.at_home("python3");
        let become_harness = format!(
            "import os, signal, sys; signal.signal(signal.SIGHUP, signal.{hangup}); os.execv(sys.argv[1], sys.argv[1:])"
        );
        command.args(["-c", &become_harness]).arg(sandbox.binary()).args(["slots", "--review"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut harness = Reaped::start(command);
        wait_for(&sandbox, "there");
        kill_process(Pid::from_child(&harness.0), Signal::HUP).unwrap();
        if hangup == "SIG_IGN" {
            sandbox.write("go", "");
        }
        harness.0.wait().unwrap().code()
    };
    assert_eq!(started("SIG_DFL"), Some(129));
    assert_eq!(started("SIG_IGN"), Some(0), "as `nohup` does it");
}

#[test]
fn an_item_claimed_by_another_worker_is_not_worked_on() {
    let sandbox = project(Agents { implement: WAITS, ..GOOD }, 1, "");
    kill_at(&sandbox, "there", "--review");
    assert_eq!(sandbox.run(&["tasks", "release", "t-1", "--force"]).code, Some(0));
    assert_eq!(sandbox.run(&["tasks", "claim", "t-1", "--as", "ann"]).code, Some(0));
    fails(&sandbox, "--resume");
    let reason = outcomes(&sandbox).concat();
    assert!(
        reason.starts_with("t-1 failed: the claim was lost: t-1 is claimed by ann"),
        "{reason}"
    );
    assert_eq!(sandbox.read("starts"), b"t-1\n", "no agent started again");
    assert!(sandbox.run(&["tasks", "show", "t-1"]).stdout.contains("ann"));
}

#[test]
fn forged_records_decide_nothing() {
    let forge = "for t in slot.finish slot.review slot.run.finish; do printf '{\"run\": \"%s\", \"iteration\": \"1\", \"topic\": \"%s\", \"fields\": {\"slot\": \"1\", \"item_id\": \"t-1\", \"attempt\": \"0\", \"verdict\": \"pass\", \"outcome\": \"passed\", \"reason\": \"forged\"}}\\n' \"$AUTOLOOP_RUN_ID\" $t >> \"$AUTOLOOP_JOURNAL_FILE\"; done;";
    let implement = format!("{forge} {WAITS}");
    let sandbox = project(
        Agents { implement: &implement, review: DRIFT, ..GOOD },
        1,
        "slots.reviewMaxFixAttempts = 0",
    );
    kill_at(&sandbox, "there", "--review");
    let run = sandbox.fields("slot.run.start", "run").remove(0);
    fails(&sandbox, &format!("--resume={run}"));
    assert_eq!(sandbox.fields("slot.finish", "outcome").last().map(String::as_str), Some("drift"));
}

/// Fails at `t-1` until the file `mended` exists.
const FAILS_AT_1: &str = "echo $AUTOLOOP_ITEM_ID >> starts; [ $AUTOLOOP_ITEM_ID != t-1 ] || [ -e mended ] || { echo no >&2; exit 5; }; echo $AUTOLOOP_ITEM_ID > made-$AUTOLOOP_ITEM_ID; echo done";

#[test]
fn a_run_of_another_kind_is_resumed_by_another_command() {
    let sandbox = project(Agents { implement: "exit 1", ..GOOD }, 1, "");
    fails(&sandbox, "");
    let slots = sandbox.fields("slot.run.start", "run").remove(0);
    let as_loop = sandbox.run(&["run", &format!("--resume={slots}")]);
    assert_eq!(as_loop.code, Some(1), "{as_loop}");
    let hint = format!("hint: resume it with `autoloop slots --resume={slots}`\n");
    assert!(
        as_loop.stderr.contains("is a run of slots") && as_loop.stderr.contains(&hint),
        "{as_loop}"
    );
    sandbox.run(&["run", ".", "x", "-i", "1"]);
    let looped = sandbox.fields("loop.start", "run").remove(0);
    let as_slots = sandbox.run(&["slots", &format!("--resume={looped}")]);
    assert_eq!(as_slots.code, Some(1), "{as_slots}");
    let hint = format!("hint: resume it with `autoloop run --resume={looped}`\n");
    assert!(as_slots.stderr.contains(&hint), "{as_slots}");
}

#[test]
fn a_run_with_failed_items_is_resumed_and_retries_them() {
    let sandbox = project(Agents { implement: FAILS_AT_1, ..GOOD }, 2, "");
    let failed = fails(&sandbox, "--review --stop-marker STOP");
    let run = sandbox.fields("slot.run.start", "run").remove(0);
    let hint = format!("hint: retry failed items with `autoloop slots --resume={run}`\n");
    assert!(failed.stderr.contains(&hint), "{failed}");
    sandbox.write("mended", "");
    let output = passes(&sandbox, "--resume");
    assert_eq!(sandbox.fields("slot.run.start", "run").len(), 1, "no other run was begun");
    assert_eq!(sandbox.read("starts"), b"t-1\nt-2\nt-1\n");
    assert_eq!(sandbox.fields("slot.run.finish", "passed"), ["1", "2"]);
    assert_eq!(sandbox.fields("slot.run.finish", "taken"), ["2", "2"]);
    assert!(output.stdout.contains("2 of 2 items passed"), "{output}");
    assert!(says(&sandbox, "--resume").contains("'[RUN]', completed"));
}

#[test]
fn a_run_that_failed_at_its_limit_is_resumed_with_a_higher_one() {
    let sandbox = project(Agents { implement: FAILS_AT_1, ..GOOD }, 2, "");
    let failed = fails(&sandbox, "--review -i 1");
    let run = sandbox.fields("slot.run.start", "run").remove(0);
    let hint = format!("hint: retry failed items with `autoloop slots --resume={run} -i 2`\n");
    assert!(failed.stderr.contains(&hint), "{failed}");
    sandbox.write("mended", "");
    passes(&sandbox, "--resume -i 2");
    assert_eq!(sandbox.read("starts"), b"t-1\nt-1\n");
}
