//! Chains through the binary: several loops, one after another.
#![cfg(target_os = "linux")]

mod chains;
#[path = "chain/limits.rs"]
mod limits;
#[path = "chain/resume.rs"]
mod resume;
#[path = "chain/spawn.rs"]
mod spawn;
#[path = "chain/spawn_resume.rs"]
mod spawn_resume;

use insta::assert_snapshot;

use chains::{BOTH, chain_id, count, project, prompts, story};

/// Reports what it did and completes at once.
const COMPLETES: &str = "echo \"$L was here\"; $T emit issue.discovered \"id=$L-1; summary=found by $L;\"; $T emit task.complete";

#[test]
fn two_steps_one_after_another() {
    let sandbox = project(COMPLETES, BOTH);
    let output = sandbox.run(&["chain", "run", "both", ".", "ship", "it"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(
        output.stdout.ends_with(": completed (all_steps_complete) after 2 of 2 steps\n"),
        "{output}"
    );
    assert_snapshot!(story(&sandbox), @r"
    - chain.start name=both steps=one,two step_count=2 objective=ship it
    - chain.step.start step=1 preset=one preset_dir=[DIR]/one work_dir=[DIR]/.autoloop/chains/[RUN]/step-1 run_id=[RUN]
    (run 2) - loop.start max_iterations=2 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=0 objective=ship it preset=one preset_dir=[DIR]/one
    (run 2) 1 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    (run 2) 1 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    (run 2) 1 issue.discovered payload=id=one-1; summary=found by one;
    (run 2) 1 task.complete payload=''
    (run 2) 1 backend.finish exit_code=0 timed_out=false output=one was here\u000aemitted issue.discovered\u000aemitted task.complete\u000a
    (run 2) 1 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=one was here\u000aemitted issue.discovered\u000aemitted task.complete\u000a
    (run 2) 1 loop.complete reason=completion_event
    - chain.step.finish step=1 preset=one stop_reason=completion_event elapsed_ms=…
    - chain.step.start step=2 preset=two preset_dir=[DIR]/two work_dir=[DIR]/.autoloop/chains/[RUN]/step-2 run_id=[RUN]
    (run 3) - loop.start max_iterations=2 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=0 objective=ship it preset=two preset_dir=[DIR]/two
    (run 3) 1 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    (run 3) 1 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    (run 3) 1 issue.discovered payload=id=two-1; summary=found by two;
    (run 3) 1 task.complete payload=''
    (run 3) 1 backend.finish exit_code=0 timed_out=false output=two was here\u000aemitted issue.discovered\u000aemitted task.complete\u000a
    (run 3) 1 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=two was here\u000aemitted issue.discovered\u000aemitted task.complete\u000a
    (run 3) 1 loop.complete reason=completion_event
    - chain.step.finish step=2 preset=two stop_reason=completion_event elapsed_ms=…
    - chain.complete name=both steps_completed=2 outcome=all_steps_complete
    ");
    assert_eq!(sandbox.run(&["journal", "verify"]).code, Some(0));
}

#[test]
fn the_prompt_of_a_step_has_the_results_of_earlier_ones() {
    let sandbox = project(COMPLETES, BOTH);
    assert_eq!(sandbox.run(&["chain", "run", "both", ".", "ship", "it"]).code, Some(0));
    let [first, second] = prompts(&sandbox).try_into().unwrap();
    for prompt in [&first, &second] {
        assert!(prompt.contains("\nObjective:\nship it\n"), "{prompt}");
    }
    assert!(first.contains("No step came before this one."), "{first}");
    let dir = format!(".autoloop/chains/{}", chain_id(&sandbox));
    let file = |name: &str| String::from_utf8(sandbox.read(format!("{dir}/{name}"))).unwrap();
    let handoff = file("step-2/handoff.md");
    let runs = sandbox.fields("chain.step.start", "run_id");
    assert_snapshot!(handoff.replace(&runs[0], "[RUN]"), @r"
    Step 2 of 2 of chain both: one, two

    ## Objective of all steps

    ship it

    ## Step 1: one

    - run: [RUN]
    - ended with: completion_event
    - iterations: 1
    - last event: task.complete

    Its last output:

    ```text
    one was here
    emitted issue.discovered
    emitted task.complete
    ```

    Coordination events of its agents:

    ```text
    ## Issues

    - [open] one-1: found by one

    ## Slices

    (none)

    ## Commits

    (none)

    ## Archives

    (none)
    ```
    ");
    assert!(second.contains(handoff.trim_end()), "{second}");
    assert!(file("step-2/result.md").contains("two was here"));
}

#[test]
fn the_first_failure_is_the_end() {
    let chains = "[[chain]]\nname = 'three'\nsteps = ['one', 'two', 'one']\n";
    let sandbox = project(
        "[ $L = one ] && exec $T emit task.complete; echo no; echo bad key >&2; exit 7",
        chains,
    );
    let output = sandbox.run(&["chain", "run", "three"]);
    assert_eq!(output.code, Some(1));
    let id = chain_id(&sandbox);
    let why = "the agent failed (exit code 7): bad key";
    assert_eq!(sandbox.fields("chain.step.finish", "detail"), [why]);
    for view in
        [&["inspect", "chain"][..], &["inspect", "chain", "--format", "json"], &["watch", "--once"]]
    {
        let shown = sandbox.run(view);
        assert!(shown.stdout.contains(why), "{view:?}: {shown}");
    }
    assert!(
        output.stderr.ends_with(&format!(
            "autoloop: chain '{id}' ended with step_failed: step 2 (two): backend_failed: {why}\n  hint: resume it with `autoloop chain run --resume={id}`\n"
        )),
        "{output}"
    );
    assert_eq!(
        sandbox.fields("chain.step.finish", "stop_reason"),
        ["completion_event", "backend_failed"]
    );
    assert_eq!(sandbox.fields("chain.complete", "outcome"), ["step_failed"]);
    assert_eq!(sandbox.fields("chain.complete", "steps_completed"), ["2"]);
    assert_eq!(count(&sandbox, "loop.start"), 2);
}

#[test]
fn a_step_that_did_all_its_iterations_is_followed_by_the_next() {
    let sandbox = project("[ $L = two ] && exec $T emit task.complete; echo working", BOTH);
    assert_eq!(sandbox.run(&["chain", "run", "both"]).code, Some(0));
    assert_eq!(
        sandbox.fields("chain.step.finish", "stop_reason"),
        ["max_iterations", "completion_event"]
    );
}

#[test]
fn steps_that_took_too_long_are_the_last() {
    let sandbox = project(COMPLETES, &format!("{BOTH}[budget]\nmax_runtime_ms = 1\n"));
    assert_eq!(sandbox.run(&["chain", "run", "both"]).code, Some(1));
    assert_eq!(sandbox.fields("chain.complete", "outcome"), ["budget_exceeded"]);
    assert_eq!(count(&sandbox, "loop.start"), 1);
}

#[test]
fn a_step_may_have_an_agent_of_its_own() {
    let chains = "[[chain]]\nname = 'c'\n[[chain.step]]\npreset = 'one'\nbackend = 'sh other.sh a'\n[[chain.step]]\npreset = 'two'\nbackend = { command = 'sh', args = ['other.sh', 'b,c'] }\n";
    let sandbox = project("exit 9", chains);
    sandbox.write("other.sh", "echo \"$1 LOOP_COMPLETE\"");
    let output = sandbox.run(&["chain", "run", "c"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(
        sandbox.fields("iteration.finish", "output"),
        ["a LOOP_COMPLETE\\u000a", "b,c LOOP_COMPLETE\\u000a"]
    );
    assert_snapshot!(sandbox.run(&["chain", "run", "c", "--dry-run"]), @r#"
    exit 0
    --- stdout
    chain c would run:
      1  one  sh other.sh a
      2  two  backend.command=sh backend.args=["other.sh", "b,c"]
    "#);
}

#[test]
fn a_chain_needs_no_file_and_its_steps_may_be_presets() {
    let sandbox = project("echo LOOP_COMPLETE", BOTH);
    // The agent never emits an event, which the roles of a preset would report as a stall.
    let set = "event_loop.stall_iterations=0";
    let words = ["run", "--chain", "autofix, both", "it", "crashes", "--json", "--set", set];
    let output = sandbox.run(&words);
    let ids = sandbox.fields("chain.step.start", "run_id");
    let mut told = output.to_string().replace(&chain_id(&sandbox), "[CHAIN]");
    for id in &ids {
        told = told.replace(id, "[RUN]");
    }
    let told = told.split("--- stderr").next().unwrap().to_owned();
    assert_snapshot!(told, @r#"
    exit 0
    --- stdout
    {
      "chain": "[CHAIN]",
      "name": "autofix, both",
      "status": "completed",
      "outcome": "all_steps_complete",
      "usage": null,
      "steps": [
        {
          "step": 1,
          "preset": "autofix",
          "run": "[RUN]",
          "stop_reason": "max_iterations",
          "detail": null,
          "usage": null,
          "chains": []
        },
        {
          "step": 2,
          "preset": "one",
          "run": "[RUN]",
          "stop_reason": "completion_promise",
          "detail": null,
          "usage": null,
          "chains": []
        },
        {
          "step": 3,
          "preset": "two",
          "run": "[RUN]",
          "stop_reason": "completion_promise",
          "detail": null,
          "usage": null,
          "chains": []
        }
      ]
    }
    "#);
    assert_eq!(sandbox.fields("loop.start", "objective"), ["it crashes"; 3]);
    assert!(sandbox.path(format!(".autoloop/runs/{}/loop/topology.toml", ids[0])).is_file());
    let loops = sandbox.run(&["loops", "--json"]).stdout;
    assert!(loops.contains(&chain_id(&sandbox)), "the chain is listed with its runs: {loops}");
}

/// The message for an invalid chain, for which nothing may be recorded.
fn refused(chains: &str, args: &[&str]) -> String {
    let sandbox = project(COMPLETES, chains);
    let output = sandbox.run(args);
    assert_eq!(sandbox.journal(), "");
    assert!(!sandbox.path(".autoloop/chains").exists());
    output.to_string()
}

#[test]
fn an_invalid_chain_is_refused_before_anything_runs() {
    let itself = "[[chain]]\nname = 'a'\nsteps = ['one', 'a']\n";
    assert_snapshot!(refused(itself, &["chain", "run", "a"]), @"
    exit 2
    --- stderr
    error: chain 'a' would run itself
     --> [DIR]/chains.toml:3:17
      |
    3 | steps = ['one', 'a']
      |                 ^^^

    autoloop: the settings cannot be used because of this error
    ");
    let circle =
        "[[chain]]\nname = 'a'\nsteps = ['b']\n[[chain]]\nname = 'b'\nsteps = ['one', 'a']\n";
    assert_snapshot!(refused(circle, &["chain", "list"]), @"
    exit 2
    --- stderr
    error: chain 'a' would run itself, through b
     --> [DIR]/chains.toml:6:17
      |
    6 | steps = ['one', 'a']
      |                 ^^^

    autoloop: the settings cannot be used because of this error
    ");
    let missing = "[[chain]]\nname = 'a'\nsteps = ['one', 'autofx']\n";
    assert_snapshot!(refused(missing, &["chain", "run", "a"]), @"
    exit 2
    --- stderr
    autoloop: 'autofx' is neither a directory nor a preset
      hint: did you mean 'autofix'?
      hint: list the presets with `autoloop presets`, or name the directory of a loop
      hint: this is step 2
    ");
    let nowhere = "[[chain]]\nname = 'a'\nsteps = ['one', './nowhere']\n";
    assert_snapshot!(refused(nowhere, &["chain", "run", "a"]), @"
    exit 2
    --- stderr
    autoloop: no such directory: [DIR]/./nowhere
      hint: name the directory that contains autoloops.toml
      hint: this is step 2
    ");
    assert_snapshot!(refused(BOTH, &["chain", "run", "bth"]), @"
    exit 2
    --- stderr
    autoloop: no chain 'bth' in [DIR]/chains.toml
      hint: did you mean 'both'?
    ");
    assert_snapshot!(refused(BOTH, &["run", "--chain", "one,,two"]), @"
    exit 2
    --- stderr
    autoloop: invalid step '': expected a preset, a chain or a directory, without commas
    ");
    let long = "[budget]\nmax_steps = 1\n[[chain]]\nname = 'a'\nsteps = ['one', 'two']\n";
    assert_snapshot!(refused(long, &["chain", "run", "a"]), @"
    exit 2
    --- stderr
    error: chain 'a' has more steps than budget.max_steps = 1 allows
     --> [DIR]/chains.toml:4:8
      |
    4 | name = 'a'
      |        ^^^

    autoloop: the settings cannot be used because of this error
    ");
    let agent = "[[chain]]\nname = 'a'\n[[chain.step]]\npreset = 'one'\nbackend = { timeout_ms = 'soon' }\n";
    assert_snapshot!(refused(agent, &["chain", "run", "a"]), @r#"
    exit 2
    --- stderr
    error: backend.timeout_ms is "soon"
     --> --set:1:20
      |
    1 | backend.timeout_ms=soon
      |                    ^^^^ 'soon' is not a duration; write one like 30s, 1m30s, 500ms or 1.5h

    autoloop: the settings cannot be used because of this error
      hint: this is step 1
    "#);
}

#[test]
fn a_chain_is_listed_and_looked_at() {
    let sandbox = project(
        "[ $L = one ] && exec $T emit task.complete; exit 7",
        &format!("{BOTH}stpes = 3\n[[chain]]\nname = 'twice'\nsteps = ['both', 'both', 'one']\n"),
    );
    assert_snapshot!(sandbox.run(&["chain", "list"]), @"
    exit 0
    --- stdout
    both   one, two
    twice  both, both, one
    --- stderr
    warning: unknown key chain.stpes
     --> [DIR]/chains.toml:4:1
      |
    4 | stpes = 3
      | ^^^^^ did you mean steps?
    ");
    let listed = sandbox.run(&["chain", "list", "--json"]).stdout;
    assert!(listed.contains("\"name\": \"twice\",\n      \"steps\": ["), "{listed}");
    assert!(listed.contains("\"max_children\": 10,\n"), "{listed}");
    assert_snapshot!(sandbox.run(&["inspect", "chain"]), @"
    exit 1
    --- stderr
    autoloop: no chain in .autoloop/journal.jsonl yet
      hint: start one with `autoloop chain run NAME`
    ");
    assert_eq!(sandbox.run(&["chain", "run", "twice", ".", "ship", "it"]).code, Some(1));
    let shown = |format: &str| {
        let mut told = sandbox.run(&["inspect", "chain", "--format", format]).to_string();
        told = told.replace(&chain_id(&sandbox), "[CHAIN]");
        let runs = sandbox.fields("chain.step.start", "run_id");
        runs.iter().fold(told, |told, run| told.replace(run, "[RUN]"))
    };
    assert_snapshot!(shown("md"), @r"
    exit 0
    --- stdout
    # Chain [CHAIN]

    - name: twice
    - status: failed (step_failed)
    - objective: ship it

    | step | preset | run | ended with |
    |---|---|---|---|
    | 1 | one | [RUN] | completion_event |
    | 2 | two | [RUN] | backend_failed: the agent failed (exit code 7) |
    | 3 | one | - | not started |
    | 4 | two | - | not started |
    | 5 | one | - | not started |
    ");
    assert_snapshot!(shown("json"), @r#"
    exit 0
    --- stdout
    {
      "chain": "[CHAIN]",
      "name": "twice",
      "objective": "ship it",
      "parent_id": null,
      "status": "failed",
      "outcome": "step_failed",
      "began": "[TS]",
      "last": "[TS]",
      "usage": null,
      "steps": [
        {
          "step": 1,
          "preset": "one",
          "run": "[RUN]",
          "usage": null,
          "begun": true,
          "stop_reason": "completion_event",
          "detail": null,
          "chains": []
        },
        {
          "step": 2,
          "preset": "two",
          "run": "[RUN]",
          "usage": null,
          "begun": true,
          "stop_reason": "backend_failed",
          "detail": "the agent failed (exit code 7)",
          "chains": []
        },
        {
          "step": 3,
          "preset": "one",
          "run": null,
          "usage": null,
          "begun": false,
          "stop_reason": null,
          "detail": null,
          "chains": []
        },
        {
          "step": 4,
          "preset": "two",
          "run": null,
          "usage": null,
          "begun": false,
          "stop_reason": null,
          "detail": null,
          "chains": []
        },
        {
          "step": 5,
          "preset": "one",
          "run": null,
          "usage": null,
          "begun": false,
          "stop_reason": null,
          "detail": null,
          "chains": []
        }
      ]
    }
    "#);
    assert!(shown("terminal").contains("not started"), "{}", shown("terminal"));
    assert_snapshot!(sandbox.run(&["inspect", "chain", "--chain", "other"]).to_string().replace(&chain_id(&sandbox), "[CHAIN]"), @r"
    exit 1
    --- stderr
    autoloop: no run 'other' in .autoloop/journal.jsonl
      hint: list all runs with `autoloop loops --all`
    ");
}
