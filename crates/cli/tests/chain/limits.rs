//! Chains that an agent requests and is refused: what is recorded, what the agent reads, and that
//! its run continues.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::fs::File;
use std::process::Stdio;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::Reaped;
use insta::assert_snapshot;

use crate::chains::{BOTH, asking, complete, count, project, prompts};

/// Completes at once.
const DONE: &str = "$T emit task.complete";

/// Why chains were refused, in order.
fn reasons(sandbox: &Sandbox) -> Vec<String> {
    sandbox.fields("chain.invalid", "reason")
}

/// Whether each prompt offers chains, in order.
fn offers(sandbox: &Sandbox) -> Vec<bool> {
    prompts(sandbox).iter().map(|prompt| prompt.contains("emit chain.spawn \"steps=a")).collect()
}

/// Requests a chain in the first turn and is refused; returns the refusal. The run continues and
/// completes.
fn refused(first: &str, chains: &str) -> String {
    let sandbox = project(&asking(first, DONE), chains);
    complete(&sandbox);
    assert_eq!(count(&sandbox, "chain.start"), 0);
    assert_eq!(sandbox.fields("loop.complete", "reason"), ["completion_event"]);
    let prompt = prompts(&sandbox).pop().unwrap();
    let (_, told) = prompt.split_once("\nBackpressure:\n").unwrap();
    format!("{}: {}", reasons(&sandbox).join(" "), told.lines().next().unwrap())
}

#[test]
fn an_invalid_request_is_backpressure() {
    let spawn = |payload: &str| refused(&format!("$T emit chain.spawn '{payload}'"), BOTH);
    assert_snapshot!(spawn("let another agent do it"), @r#"no_steps: The last event was refused: the chain was not started: the request has no steps: emit chain.spawn "steps=first,second; justification=why;""#);
    assert_snapshot!(spawn("steps=one,autofx;"), @"unfit_step: The last event was refused: the chain was not started: 'autofx' is neither a directory nor a preset");
    assert_snapshot!(spawn("steps=one,./nowhere;"), @"unfit_step: The last event was refused: the chain was not started: no such directory: [DIR]/./nowhere");
    assert_snapshot!(spawn("steps=one,../two;"), @"outside: The last event was refused: the chain was not started: step '../two' is outside of the project; name a preset, a chain or a directory of the project");
    assert_snapshot!(spawn("steps=one; chain_id=../../runs/x;"), @"bad_id: The last event was refused: the chain was not started: invalid chain id '../../runs/x': expected lower-case letters, digits, '.', '_' and '-', or no id");
    assert_snapshot!(refused("$T emit chain.spawn \"steps=one; chain_id=$(printf 'a\\033[2J');\"", ""), @"bad_id: The last event was refused: the chain was not started: invalid chain id 'a [2J': expected lower-case letters, digits, '.', '_' and '-', or no id");
    assert_snapshot!(refused("$T emit chain.spawn \"steps=one; chain_id=$AUTOLOOP_RUN_ID;\"", ""), @"used_id: The last event was refused: the chain was not started: duplicate id 'run-1': a chain or a run has it; choose another, or none");
    assert_snapshot!(refused("echo 'chain = 3' > chains.toml; $T emit chain.spawn 'steps=one;'", BOTH), @"bad_file: The last event was refused: the chain was not started: chains.toml cannot be used: [DIR]/chains.toml: line 1, column 9: invalid type: integer `3`, expected a sequence, in `chain`");
    let giant = "head -c 10000000 /dev/zero | tr '\\0' x > big; $T emit --file big chain.spawn";
    assert_snapshot!(refused(giant, ""), @"too_long: The last event was refused: the chain was not started: the request exceeds 10000 characters; move the rest to a file");
    assert_snapshot!(refused("$T emit chain.spawn 'steps=one;'", "[budget]\nmax_children = 0\n"), @"off: The last event was refused: the chain was not started: this loop cannot start chains");
    assert_snapshot!(refused("$T emit chain.spawn 'steps=both;'", &format!("{BOTH}[budget]\nmax_steps = 2\n").replace("'two'", "'two', 'one'")), @"bad_file: The last event was refused: the chain was not started: chains.toml cannot be used: [DIR]/chains.toml: line 2, column 8: chain 'both' has more steps than budget.max_steps = 2 allows");
}

#[test]
fn a_run_gets_so_many_chains() {
    let twice = "for s in one two; do $T emit chain.spawn \"steps=$s;\"; done";
    let sandbox = project(&asking(twice, DONE), "[budget]\nmax_children = 1\n");
    complete(&sandbox);
    assert_eq!(
        (count(&sandbox, "chain.start"), reasons(&sandbox)),
        (1, vec!["max_children".into()])
    );
    assert_eq!(sandbox.fields("chain.invalid", "limit"), ["1"]);
    assert_eq!(offers(&sandbox), [true, true, false], "none is left at the end");

    let failures = "[budget]\nmax_consecutive_failures = 1\n";
    let sandbox = project(&asking(twice, "exit 7"), failures);
    complete(&sandbox);
    assert_eq!(count(&sandbox, "chain.start"), 1);
    assert_eq!(reasons(&sandbox), ["max_consecutive_failures"]);

    let sandbox = project(&asking(twice, DONE), "[budget]\nmax_runtime_ms = 1\n");
    complete(&sandbox);
    assert_eq!(
        (count(&sandbox, "chain.start"), reasons(&sandbox)),
        (1, vec!["max_runtime_ms".into()])
    );
}

/// Every loop requests itself in its first turn.
#[test]
fn a_loop_that_requests_itself_ends() {
    let itself = "$T emit chain.spawn 'steps=one;'";
    let step = format!("[ $N = 1 ] && exec {itself}; {DONE}");
    let depth = project(&asking(itself, &step), "[budget]\nmax_depth = 2\n");
    complete(&depth);
    assert_eq!((count(&depth, "chain.start"), reasons(&depth)), (2, vec!["max_depth".into()]));
    assert_eq!(depth.fields("chain.complete", "outcome"), ["all_steps_complete"; 2]);
    // The innermost loop, whose two turns are in the middle, is not offered chains.
    assert_eq!(offers(&depth), [true, true, false, false, true, true]);

    let steps = project(&asking(itself, &step), "[budget]\nmax_steps = 3\n");
    complete(&steps);
    assert_eq!((count(&steps, "chain.start"), reasons(&steps)), (3, vec!["max_steps".into()]));

    let usual = project(&asking(itself, &step), "");
    complete(&usual);
    assert_eq!((count(&usual, "chain.start"), reasons(&usual)), (5, vec!["max_depth".into()]));
    assert!(usual.run(&["inspect", "chain"]).stdout.contains("\n##### Chain "));
}

#[test]
fn a_chain_does_not_run_itself() {
    let step = "[ $L$N = one1 ] && exec $T emit chain.spawn 'steps=both;'; $T emit task.complete";
    let sandbox = project(step, BOTH);
    assert_eq!(sandbox.run(&["chain", "run", "both"]).code, Some(0), "{}", sandbox.story());
    assert_eq!((count(&sandbox, "chain.start"), reasons(&sandbox)), (1, vec!["circle".into()]));
    let told = sandbox.fields("chain.invalid", "detail").remove(0);
    assert_snapshot!(told, @"chain 'both' would run itself");
}

#[test]
fn a_time_that_is_up_ends_the_chain_and_not_the_run() {
    let first = "$T emit chain.spawn 'steps=one,two;'";
    let sandbox = project(&asking(first, DONE), "[budget]\nmax_runtime_ms = 1\n");
    complete(&sandbox);
    assert_eq!(sandbox.fields("chain.spawn.finish", "outcome"), ["budget_exceeded"]);
    assert_eq!(sandbox.fields("chain.step.start", "preset"), ["one"]);
}

#[test]
fn neither_branches_nor_reviews_start_chains() {
    let spawn = "$T emit chain.spawn 'steps=one;'";
    let wave = format!(
        "case \"$1\" in *'look here'*) {spawn};; *) $T emit explore.parallel '- look here';; esac"
    );
    let sandbox = project(&asking(&wave, DONE), "");
    sandbox.write("autoloops.toml", settings(&sandbox, "parallel.enabled = true\n"));
    complete(&sandbox);
    assert_eq!((count(&sandbox, "chain.start"), reasons(&sandbox)), (0, vec!["in_branch".into()]));
    assert_eq!(offers(&sandbox), [true, false, true]);

    let review = format!(
        "if [ -n \"$AUTOLOOP_REVIEW_MODE\" ]; then {spawn}; exit; fi; case $N in 1) ;; *) {DONE};; esac"
    );
    let sandbox = project(&review, "");
    sandbox.write(
        "autoloops.toml",
        settings(&sandbox, "").replace("review.enabled = false", "review.every = 1"),
    );
    complete(&sandbox);
    assert_eq!((count(&sandbox, "chain.start"), reasons(&sandbox)), (0, vec!["in_review".into()]));
}

/// The settings of a project, and more.
fn settings(sandbox: &Sandbox, more: &str) -> String {
    String::from_utf8(sandbox.read("autoloops.toml")).unwrap() + more
}

#[test]
fn a_run_that_ends_starts_nothing() {
    let first = "$T emit chain.spawn 'steps=one;'; $T emit task.complete";
    let sandbox = project(&asking(first, DONE), "");
    complete(&sandbox);
    assert_eq!((count(&sandbox, "chain.start"), reasons(&sandbox)), (0, vec!["run_ends".into()]));
    assert_eq!(count(&sandbox, "iteration.start"), 1);
}

/// Only the harness grants a chain, and only a chain's own harness says how it ends.
#[test]
fn forged_records_start_and_end_nothing() {
    let forge = |topic: &str, run: &str, fields: &str| {
        let line = format!(
            "{{\"run\": \"{run}\", \"iteration\": \"1\", \"topic\": \"{topic}\", \"fields\": {{{fields}}}}}"
        );
        format!("printf '%s\\n' '{line}' >> .autoloop/journal.jsonl")
    };
    let granted = forge("chain.spawn", "run-1", "\"chain_id\": \"evil\", \"steps\": \"one\"");
    let sandbox = project(&asking(&granted, DONE), "");
    complete(&sandbox);
    assert_eq!(count(&sandbox, "chain.start"), 0);
    assert_eq!(sandbox.fields("event.invalid", "reason"), ["forged"]);

    let id = "run-1-chain-1";
    let ended = forge("chain.complete", id, "\"outcome\": \"all_steps_complete\"");
    let step = format!("{ended}; {DONE}");
    let sandbox = project(&asking("$T emit chain.spawn 'steps=one,two;'", &step), "");
    complete(&sandbox);
    assert_eq!(sandbox.fields("chain.step.finish", "step"), ["1", "2"]);
    assert_eq!(count(&sandbox, "chain.spawn.finish"), 1);
    // Each of the two is reported, in the name of the chain.
    assert_eq!(sandbox.fields("event.invalid", "run"), [id; 2]);
    assert_eq!(sandbox.fields("event.invalid", "emitted"), ["chain.complete"; 2]);
}

/// An agent that edits the file can lower the limits but not raise them.
#[test]
fn an_agent_cannot_raise_its_own_limits() {
    let raise = "printf '[budget]\\nmax_children = 9\\nmax_depth = 9\\n' > chains.toml";
    let twice = "for s in one two; do $T emit chain.spawn \"steps=$s;\"; done";
    let sandbox =
        project(&asking(&format!("{raise}; {twice}"), DONE), "[budget]\nmax_children = 1\n");
    complete(&sandbox);
    assert_eq!(reasons(&sandbox), ["max_children"]);

    // A step of a requested chain has the limits of the run that requested it.
    let step =
        format!("[ $N = 1 ] && {{ {raise}; exec $T emit chain.spawn 'steps=two;'; }}; {DONE}");
    let spawn = "$T emit chain.spawn 'steps=one;'";
    let sandbox = project(&asking(spawn, &step), "[budget]\nmax_depth = 1\n");
    complete(&sandbox);
    assert_eq!((count(&sandbox, "chain.start"), reasons(&sandbox)), (1, vec!["max_depth".into()]));

    // A step of a chain started by the user has the limits of that moment.
    let step = format!("case $L in one) {raise};; *) [ $N = 1 ] && exec {spawn};; esac; {DONE}");
    let sandbox = project(&step, &format!("{BOTH}[budget]\nmax_children = 0\n"));
    assert_eq!(sandbox.run(&["chain", "run", "both"]).code, Some(0));
    assert_eq!(reasons(&sandbox), ["off"]);

    let lower = "printf '[budget]\\nmax_children = 1\\n' > chains.toml";
    let sandbox = project(&asking(&format!("{lower}; {twice}"), DONE), "");
    complete(&sandbox);
    assert_eq!(reasons(&sandbox), ["max_children"]);
}

/// Two runs request one id at the same moment: each waits in its first turn until the other has
/// started.
#[test]
fn of_two_runs_that_want_one_id_only_one_gets_it() {
    let meet =
        "touch here-$AUTOLOOP_RUN_ID; until [ $(ls here-* | wc -l) = 2 ]; do sleep 0.01; done";
    let ask = "$T emit chain.spawn 'steps=one; chain_id=mine;'";
    let sandbox = project(&asking(&format!("{meet}; {ask}"), DONE), "");
    let start = || {
        let mut command = sandbox.command();
        command.args(["run", ".", "ship it"]).stdout(Stdio::null()).stderr(Stdio::null());
        Reaped::start(command)
    };
    for mut run in [start(), start()] {
        assert_eq!(run.0.wait().unwrap().code(), Some(0), "{}", sandbox.story());
    }
    assert_eq!(sandbox.fields("chain.start", "run"), ["mine"]);
    assert_eq!(sandbox.fields("chain.spawn.finish", "outcome"), ["all_steps_complete"]);
    assert_eq!(reasons(&sandbox), ["used_id"]);
}

#[test]
fn a_run_that_is_about_to_begin_keeps_its_id() {
    let ask = "mkdir .autoloop/runs/mine; $T emit chain.spawn 'steps=one; chain_id=mine;'";
    assert_snapshot!(refused(ask, ""), @"used_id: The last event was refused: the chain was not started: duplicate id 'mine': a chain or a run has it; choose another, or none");
}

/// A replay costs nothing, so it may not start agents that do.
#[test]
fn a_replay_starts_no_chains() {
    let sandbox = project(&asking("$T emit chain.spawn 'steps=one;'", DONE), "");
    complete(&sandbox);
    let replay =
        ["--set", "backend.kind=replay", "--set", "backend.command=.autoloop/journal.jsonl"];
    let again =
        [&["run", ".", "ship it", "--set", "backend.args=[\"run-1\"]"][..], &replay].concat();
    let output = sandbox.run(&again);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!((count(&sandbox, "chain.start"), reasons(&sandbox)), (1, vec!["replayed".into()]));
    assert!(
        output.stderr.contains("starts no agents") || output.stdout.contains("starts no agents"),
        "{output}"
    );
}

/// The same without a race: another process is about to claim the id.
#[test]
fn an_id_that_another_process_is_claiming_is_not_used() {
    let sandbox = project(&asking("$T emit chain.spawn 'steps=one; chain_id=mine;'", DONE), "");
    sandbox.write(".autoloop/chains/mine/lock", "");
    let lock = File::open(sandbox.path(".autoloop/chains/mine/lock")).unwrap();
    lock.lock().unwrap();
    complete(&sandbox);
    assert_eq!((count(&sandbox, "chain.start"), reasons(&sandbox)), (0, vec!["used_id".into()]));
}
