//! Runs that crashed or were interrupted while a chain that they requested was running.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{Output, Reaped, until};
use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};

use crate::chains::{asking, complete, count, project, prompts};
use crate::resume::copy;

const SPAWN: &str =
    "echo parent >> done; $T emit chain.spawn 'steps=one,two; justification=because;'";
/// Waits in the second step until there is a file `go`.
const WAITS: &str = "if [ $L = two ]; then touch waiting; while [ ! -e go ]; do sleep 0.02; done; fi; echo $L >> done; $T emit task.complete";

/// Starts a run and waits until the second step of its chain is running.
fn in_step_two(sandbox: &Sandbox) -> Reaped {
    let mut command = sandbox.command();
    command.args(["run", ".", "ship it", "--set", "core.run_id_format=counter"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let harness = Reaped::start(command);
    until("the second step", || sandbox.path("waiting").exists().then_some(()));
    harness
}

/// Why a run could not be resumed: the exit code, and the message without the progress lines.
fn told(output: &Output) -> String {
    let (_, message) = output.stderr.split_once("autoloop: ").unwrap_or_default();
    format!("exit {:?}: {}", output.code, message.trim_end().replace("\n", ";"))
}

/// The run completed as if never interrupted: each part was done once and reported once.
fn assert_whole(sandbox: &Sandbox) {
    let story = sandbox.story();
    assert_eq!(sandbox.fields("chain.step.finish", "step"), ["1", "2"], "{story}");
    assert_eq!(sandbox.fields("chain.spawn.finish", "outcome"), ["all_steps_complete"], "{story}");
    assert_eq!(count(sandbox, "chain.start"), 1, "{story}");
    let told = |prompt: &&String| prompt.contains("\nResults of the chains:\n");
    assert!(prompts(sandbox).iter().filter(told).count() >= 1, "{story}");
    assert_eq!(sandbox.fields("loop.complete", "reason"), ["completion_event"; 3], "{story}");
}

#[test]
fn after_a_kill_the_run_resumes_its_chain() {
    let sandbox = project(&asking(SPAWN, WAITS), "");
    in_step_two(&sandbox).kill();
    until("the agent to end", || sandbox.survivors().is_empty().then_some(()));
    // Forged records say that the chain has ended and that the run has noticed.
    let forged = [
        ("run-1-chain-1", "chain.complete", "\"name\": \"x\", \"steps_completed\": \"2\""),
        ("run-1", "chain.spawn.finish", "\"chain_id\": \"run-1-chain-1\", \"output\": \"\""),
    ];
    let mut journal = fs::read_to_string(sandbox.journal_path()).unwrap();
    for (run, topic, fields) in forged {
        journal.push_str(&format!("{{\"run\": \"{run}\", \"iteration\": \"1\", \"topic\": \"{topic}\", \"fields\": {{{fields}, \"outcome\": \"forged\"}}}}\n"));
    }
    fs::write(sandbox.journal_path(), journal).unwrap();
    sandbox.write("go", "");
    assert_snapshot!(sandbox.run(&["chain", "run", "--resume=run-1-chain-1"]), @"
    exit 2
    --- stderr
    autoloop: chain 'run-1-chain-1' belongs to run 'run-1', which requested it
      hint: resume both with `autoloop run --resume=run-1`, unless the run completed
    ");
    let output = sandbox.run(&["chain", "run", "--resume"]);
    assert!(output.stderr.contains("no chain to resume in "), "{output}");

    sandbox.write("chains.toml", "chain = 3\n");
    assert_snapshot!(told(&sandbox.run(&["run", "--resume"])), @"exit Some(2): the settings cannot be used because of this error;  hint: then resume it with `autoloop run --resume=run-1`");
    sandbox.write("chains.toml", "");
    fs::rename(sandbox.path("two"), sandbox.path("away")).unwrap();
    assert_snapshot!(told(&sandbox.run(&["run", "--resume"])), @"exit Some(1): cannot resume run 'run-3': the files of its preset 'two' were removed from [DIR]/two;  hint: start a new run with `autoloop run -p two …`;  hint: then resume it with `autoloop run --resume=run-1`");
    fs::rename(sandbox.path("away"), sandbox.path("two")).unwrap();

    // The step started last, but it belongs to the run.
    let output = sandbox.run(&["run", "--resume"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.starts_with("run run-1: complete"), "{output}");
    assert_eq!(String::from_utf8(sandbox.read("done")).unwrap(), "parent\none\ntwo\n");
    let forged = sandbox.fields("chain.spawn.finish", "outcome");
    assert_eq!(forged, ["forged", "all_steps_complete"]);
    assert_eq!(sandbox.fields("chain.resume", "resumed_from_step"), ["2"; 2]);
}

/// A forged end of a chain between the grant and the chain's first record has no effect.
#[test]
fn a_chain_that_has_not_begun_cannot_have_ended() {
    let whole = project(&asking(SPAWN, "echo $L >> done; $T emit task.complete"), "");
    complete(&whole);
    let journal = fs::read_to_string(whole.journal_path()).unwrap();
    let granted = journal.find("chain.start").unwrap();
    let mut cut = journal[..=journal[..granted].rfind('\n').unwrap()].to_owned();
    for (topic, fields) in [
        ("chain.start", "\"name\": \"x\", \"steps\": \"one,two\", \"step_count\": \"2\""),
        ("chain.complete", "\"name\": \"x\", \"steps_completed\": \"2\", \"outcome\": \"forged\""),
    ] {
        cut.push_str(&format!("{{\"run\": \"run-1-chain-1\", \"iteration\": \"\", \"topic\": \"{topic}\", \"fields\": {{{fields}}}}}\n"));
    }
    whole.write("done", "").write_journal(cut);
    let output = whole.run(&["run", "--resume"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(String::from_utf8(whole.read("done")).unwrap(), "one\ntwo\n");
    assert_eq!(whole.fields("chain.spawn.finish", "outcome"), ["all_steps_complete"]);
}

#[test]
fn an_interruption_ends_the_step_and_is_no_failure() {
    let sandbox = project(&asking(SPAWN, WAITS), "");
    let mut harness = in_step_two(&sandbox);
    kill_process(Pid::from_child(&harness.0), Signal::INT).unwrap();
    assert_eq!(harness.0.wait().unwrap().code(), Some(130));
    assert_eq!(sandbox.survivors(), "");
    assert_eq!(sandbox.fields("loop.stop", "reason"), ["interrupted"; 2]);
    assert_eq!((count(&sandbox, "chain.complete"), count(&sandbox, "chain.spawn.finish")), (0, 0));
    sandbox.write("go", "");
    let output = sandbox.run(&["run", "--resume"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert_whole(&sandbox);
    assert_eq!(String::from_utf8(sandbox.read("done")).unwrap(), "parent\none\ntwo\n");
}

/// The harness may die after any of its records, and after any record of the steps.
#[test]
fn a_crash_after_any_record_repeats_nothing() {
    let agent = asking(SPAWN, "echo $L >> done; $T emit task.complete");
    let whole = project(&agent, "");
    complete(&whole);
    assert_whole(&whole);
    let journal = fs::read_to_string(whole.journal_path()).unwrap();
    let lines: Vec<&str> = journal.split_inclusive('\n').collect();
    for kept in 1..lines.len() {
        let cut = project(&agent, "");
        for part in ["runs", "chains"] {
            let part = Path::new(".autoloop").join(part);
            copy(&whole.path(&part), &cut.path(&part));
        }
        cut.write_journal(lines[..kept].concat());
        let output = cut.run(&["run", "--resume"]);
        assert_eq!(output.code, Some(0), "behind record {kept}: {output}\n{}", cut.story());
        assert!(output.stdout.starts_with("run run-1: complete"), "{kept}: {output}");
        assert_whole(&cut);
        let is_end = |line: &&&str| line.contains("iteration.finish");
        let before = lines[..kept].iter().filter(is_end).count();
        let again = String::from_utf8(cut.read("done")).unwrap().lines().count();
        assert_eq!(
            again,
            3_usize.saturating_sub(before),
            "only what had not ended is done: {kept}"
        );
    }
}
