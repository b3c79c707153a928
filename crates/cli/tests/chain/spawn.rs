//! Chains that an agent requests from within its loop, through the binary.

use insta::assert_snapshot;

use crate::chains::{BOTH, asking, chain_id, complete, count, project, prompts, story};

/// The run requests a chain in its first turn and completes in the next. Steps print what they do.
const ASKS: &str = "echo \"${L:-parent} was here\"; [ -n \"$L\" ] && exec $T emit task.complete; case $N in 1) $T emit chain.spawn 'steps=one,two; justification=split the work;';; *) $T emit task.complete;; esac";

/// The part of a prompt under a heading.
fn section<'a>(prompt: &'a str, heading: &str) -> Option<&'a str> {
    let (_, rest) = prompt.split_once(&format!("\n{heading}\n"))?;
    rest.split("\n\nIteration: ").next()
}

const LEFT: &str = "Results of the chains:";

#[test]
fn a_chain_is_carried_out_between_two_iterations() {
    let sandbox = project(ASKS, "");
    complete(&sandbox);
    assert_snapshot!(story(&sandbox), @r"
    - loop.start max_iterations=3 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=0 objective=ship it
    1 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    1 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    1 chain.spawn payload=steps=one,two; justification=split the work;
    1 backend.finish exit_code=0 timed_out=false output=parent was here\u000aemitted chain.spawn\u000a
    1 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=parent was here\u000aemitted chain.spawn\u000a
    1 chain.spawn chain_id=[RUN]-chain-1 parent_id=[RUN] steps=one,two justification=split the work
    (run 2) - chain.start name=one,two steps=one,two step_count=2 objective=split the work\u000a\u000aRequested by a run with this objective: ship it parent_id=[RUN]
    (run 2) - chain.step.start step=1 preset=one preset_dir=[DIR]/one work_dir=[DIR]/.autoloop/chains/[RUN]-chain-1/step-1 run_id=[RUN]
    (run 3) - loop.start max_iterations=2 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=0 objective=split the work\u000a\u000aRequested by a run with this objective: ship it preset=one preset_dir=[DIR]/one
    (run 3) 1 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    (run 3) 1 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    (run 3) 1 task.complete payload=''
    (run 3) 1 backend.finish exit_code=0 timed_out=false output=one was here\u000aemitted task.complete\u000a
    (run 3) 1 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=one was here\u000aemitted task.complete\u000a
    (run 3) 1 loop.complete reason=completion_event
    (run 2) - chain.step.finish step=1 preset=one stop_reason=completion_event elapsed_ms=…
    (run 2) - chain.step.start step=2 preset=two preset_dir=[DIR]/two work_dir=[DIR]/.autoloop/chains/[RUN]-chain-1/step-2 run_id=[RUN]
    (run 4) - loop.start max_iterations=2 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=0 objective=split the work\u000a\u000aRequested by a run with this objective: ship it preset=two preset_dir=[DIR]/two
    (run 4) 1 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    (run 4) 1 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    (run 4) 1 task.complete payload=''
    (run 4) 1 backend.finish exit_code=0 timed_out=false output=two was here\u000aemitted task.complete\u000a
    (run 4) 1 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=two was here\u000aemitted task.complete\u000a
    (run 4) 1 loop.complete reason=completion_event
    (run 2) - chain.step.finish step=2 preset=two stop_reason=completion_event elapsed_ms=…
    (run 2) - chain.complete name=one,two steps_completed=2 outcome=all_steps_complete
    1 chain.spawn.finish chain_id=[RUN]-chain-1 outcome=all_steps_complete steps_completed=2 output=[516 characters]
    2 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    2 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    2 task.complete payload=''
    2 backend.finish exit_code=0 timed_out=false output=parent was here\u000aemitted task.complete\u000a
    2 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=parent was here\u000aemitted task.complete\u000a
    2 loop.complete reason=completion_event
    ");
    assert_eq!(sandbox.run(&["journal", "verify"]).code, Some(0));
}

#[test]
fn steps_get_the_reason_and_the_run_their_results() {
    let sandbox = project(ASKS, "");
    complete(&sandbox);
    let [asks, one, two, goes_on] = prompts(&sandbox).try_into().unwrap();
    let objective =
        "\nObjective:\nsplit the work\n\nRequested by a run with this objective: ship it\n";
    assert!(one.contains(objective) && two.contains(objective), "{one}");
    assert!(one.contains("\nRun run-1 requested this chain.\n"), "{one}");
    assert!(two.contains("\n## Step 1: one\n"), "{two}");
    assert!(!asks.contains(LEFT) && !one.contains(LEFT), "nothing ended yet");
    assert_snapshot!(section(&goes_on, LEFT).unwrap(), @"
    Chain run-1-chain-1 ended: all_steps_complete
    ````text
    2 of 2 steps ended: one, two

    ## Step 1: one

    - run: run-2
    - ended with: completion_event
    - iterations: 1
    - last event: task.complete

    Its last output:

    ```text
    one was here
    emitted task.complete
    ```

    ## Step 2: two

    - run: run-3
    - ended with: completion_event
    - iterations: 1
    - last event: task.complete

    Its last output:

    ```text
    two was here
    emitted task.complete
    ```
    ````
    ");
    let bin = ".autoloop/autoloops emit chain.spawn";
    assert!(prompts(&sandbox).iter().all(|prompt| prompt.contains(bin)), "all may ask");
    let off = project(ASKS, "[budget]\nmax_children = 0\n");
    complete(&off);
    assert!(!prompts(&off).iter().any(|prompt| prompt.contains("chain.spawn \"")), "none may");
}

#[test]
fn the_run_continues_after_any_outcome_of_its_chain() {
    let spawn = "$T emit chain.spawn 'steps=one,two; chain_id=mine; justification=because;'";
    let sandbox = project(&asking(spawn, "[ $L = two ] && exit 7; $T emit task.complete"), BOTH);
    complete(&sandbox);
    assert_eq!(sandbox.fields("chain.spawn.finish", "outcome"), ["step_failed"]);
    assert_eq!(sandbox.fields("chain.spawn.finish", "steps_completed"), ["2"]);
    assert_eq!(chain_id(&sandbox), "mine");
    let prompt = prompts(&sandbox).pop().unwrap();
    let left = section(&prompt, LEFT).unwrap();
    assert!(left.starts_with("Chain mine ended: step_failed\n"), "{left}");
    assert!(left.contains("- ended with: backend_failed\n"), "{left}");
}

#[test]
fn a_step_that_cannot_begin_is_the_end_of_its_chain_only() {
    let spawn = "$T emit chain.spawn 'steps=one,two;'";
    let sandbox = project(&asking(spawn, "rm -r two; $T emit task.complete"), "");
    complete(&sandbox);
    assert_eq!(
        sandbox.fields("chain.step.finish", "stop_reason"),
        ["completion_event", "cannot_begin"]
    );
    assert_eq!(sandbox.fields("chain.complete", "outcome"), ["step_failed"]);
    let prompt = prompts(&sandbox).pop().unwrap();
    assert_snapshot!(section(&prompt, LEFT).unwrap().split("## Step 2").nth(1).unwrap(), @"
    : two

    - ended with: cannot_begin
    - why: 'two' is neither a directory nor a preset
    ````
    ");
    assert_eq!(sandbox.fields("loop.start", "objective"), ["ship it"; 2], "nothing else was said");
}

#[test]
fn several_chains_are_carried_out_one_after_another() {
    let spawn = "for s in two one; do $T emit chain.spawn \"steps=$s;\"; done; echo LOOP_COMPLETE";
    let sandbox = project(&asking(spawn, "$T emit task.complete"), "");
    complete(&sandbox);
    assert_eq!(sandbox.fields("chain.step.start", "preset"), ["two", "one"]);
    assert_eq!(sandbox.fields("loop.complete", "reason"), ["completion_event"; 3], "no promise");
    let prompt = prompts(&sandbox).pop().unwrap();
    assert_eq!(section(&prompt, LEFT).unwrap().matches("all_steps_complete").count(), 2);
    assert_eq!(count(&sandbox, "chain.spawn.finish"), 2);
}

/// Steps named after a chain of the project, one of which requests a chain itself.
#[test]
fn chains_are_shown_below_the_steps_that_asked_for_them() {
    let step = "[ $L = one ] && [ $N = 1 ] && exec $T emit chain.spawn 'steps=two; '; $T emit task.complete";
    let spawn = "$T emit chain.spawn 'steps=both; chain_id=outer;'";
    let sandbox = project(&asking(spawn, step), BOTH);
    complete(&sandbox);
    let shown = |args: &[&str]| {
        let args: Vec<&str> = ["inspect", "chain"].iter().chain(args).copied().collect();
        sandbox.run(&args).to_string()
    };
    assert_snapshot!(shown(&["--format", "terminal"]), @r"
    exit 0
    --- stdout
    chain outer (both): completed (all_steps_complete)
      1  one  run-2  completion_event
          chain run-2-chain-1 (two): completed (all_steps_complete)
            1  two  run-3  completion_event
      2  two  run-4  completion_event
    ");
    assert_snapshot!(shown(&[]), @r"
    exit 0
    --- stdout
    # Chain outer

    - name: both
    - status: completed (all_steps_complete)
    - objective: ship it
    - requested by: run-1

    | step | preset | run | ended with |
    |---|---|---|---|
    | 1 | one | run-2 | completion_event |
    | 2 | two | run-4 | completion_event |

    ## Chain run-2-chain-1

    - name: two
    - status: completed (all_steps_complete)
    - objective: ship it
    - requested by: run-2

    | step | preset | run | ended with |
    |---|---|---|---|
    | 1 | two | run-3 | completion_event |
    ");
    let inner = shown(&["--chain", "run-2-chain-1", "--format", "terminal"]);
    assert!(inner.contains("chain run-2-chain-1 (two)") && !inner.contains("outer"), "{inner}");
    let json = shown(&["--format", "json"]);
    assert!(json.contains("\"run\": \"run-1\""), "{json}");
    assert!(json.contains("\"parent_id\": \"run-2\""), "{json}");

    let loops = sandbox.run(&["loops", "--json"]).stdout;
    assert!(!loops.contains("chain-1") && !loops.contains("outer"), "a chain is no run: {loops}");
    let coordination = sandbox.run(&["inspect", "coordination", "--run", "run-1"]).stdout;
    assert!(coordination.contains("- outer: both (from run-1)\n"), "{coordination}");
    assert_eq!(coordination.matches("both").count(), 1, "{coordination}");

    let output = sandbox.run(&["run", "--chain", "one", "--json"]);
    assert!(output.stdout.contains("-chain-1\","), "{output}");
}

#[test]
fn a_step_records_its_changed_files() {
    let step = "case $L in one) mkdir -p src build; echo a > src/a.rs; echo b > build/b; echo x >> chains.toml; rm agent.md;; esac; $T emit task.complete";
    let sandbox = project(step, BOTH);
    sandbox.write("agent.md", "").write(".gitignore", "build/\n.autoloop/\n");
    assert!(sandbox.at_home("git").args(["init", "-q"]).status().unwrap().success());
    assert_eq!(sandbox.run(&["chain", "run", "both"]).code, Some(0));
    let files = sandbox.fields("chain.step.finish", "files");
    assert_eq!(files, ["agent.md\\u000achains.toml\\u000asrc/a.rs"], "the second left none");
    let prompt = prompts(&sandbox).pop().unwrap();
    let told =
        "Files that changed during the step:\n\n```text\nagent.md\nchains.toml\nsrc/a.rs\n```\n";
    assert!(prompt.contains(told), "{prompt}");
}
