//! Waves through the binary: several branches at once, and what the run does with their results.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a scene that cannot be set fails its test")]

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use autoloop_core::duration;
use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{Reaped, meet_a_limit, until};
use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};

const ROLES: &str = "[[role]]\nid = 'planner'\nemits = ['tasks.ready', 'task.complete']\n[[role]]\nid = 'builder'\nemits = ['built']\n[handoff]\n'loop.start' = 'planner'\n'tasks.ready' = 'builder'\n'built' = 'planner'\n";

/// A loop with waves. The agent runs `parent` in turns of the run itself, where `$N` is the iteration,
/// and `branch` in branches.
fn waves(parent: &str, branch: &str, settings: &str) -> Sandbox {
    let agent =
        format!("case \"$AUTOLOOP_RUN_ID\" in *-wave-*)\n{branch}\n;; *)\n{parent}\n;; esac\n");
    let enabled =
        if settings.contains("parallel.enabled") { "" } else { "parallel.enabled = true" };
    let settings = format!("{enabled}\nparallel.max_branches = 4\n{settings}");
    let sandbox = Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), &agent, &settings);
    sandbox.write("topology.toml", ROLES);
    sandbox
}

/// The records of the run itself, without those of its branches.
fn story(sandbox: &Sandbox) -> String {
    let story = sandbox.story();
    let own = |line: &&str| !line.starts_with("(run ");
    let mut lines: Vec<String> = story.lines().filter(own).map(str::to_owned).collect();
    for line in &mut lines {
        while let Some((before, rest)) = line.clone().split_once("elapsed_ms=") {
            let end = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            *line = format!("{before}elapsed …{end}");
        }
    }
    // Branches end in any order.
    let is_finish = |line: &String| line.contains("wave.branch.finish");
    if let Some(first) = lines.iter().position(is_finish) {
        let last = lines.iter().rposition(is_finish).unwrap();
        lines[first..=last].sort();
    }
    lines.join("\n")
}

const ASK: &str = "[ $N = 1 ] && $T emit explore.parallel \"$(printf -- '- look at a\\n- look at b\\n- look at c')\"; true";

#[test]
fn a_wave_of_three() {
    let sandbox = waves(
        ASK,
        "echo \"found in $(cat $AUTOLOOP_PROMPT_PATH | grep -o 'look at .' | head -1)\"",
        "",
    );
    assert_eq!(sandbox.run(&["run", ".", "-i", "2"]).code, Some(1));
    assert_snapshot!(story(&sandbox), @r"
    - loop.start max_iterations=2 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=0 objective=Do the task and publish the completion event when finished.
    1 iteration.start recent_event=loop.start suggested_roles=planner allowed_events=tasks.ready,task.complete backpressure='' prompt=…
    1 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    1 explore.parallel payload=- look at a\u000a- look at b\u000a- look at c
    1 backend.finish exit_code=0 timed_out=false output=emitted explore.parallel\u000a
    1 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=emitted explore.parallel\u000a
    1 wave.start wave_id=[RUN]-wave-1 trigger_topic=explore.parallel branch_count=3 opening_recent_event=loop.start opening_roles=planner opening_events=tasks.ready,task.complete objectives=- look at a\u000a- look at b\u000a- look at c\u000a
    1 wave.branch.start wave_id=[RUN]-wave-1 branch_id=branch-1 objective=look at a routing_event=loop.start branch_roles=planner branch_events=tasks.ready,task.complete
    1 wave.branch.start wave_id=[RUN]-wave-1 branch_id=branch-2 objective=look at b routing_event=loop.start branch_roles=planner branch_events=tasks.ready,task.complete
    1 wave.branch.start wave_id=[RUN]-wave-1 branch_id=branch-3 objective=look at c routing_event=loop.start branch_roles=planner branch_events=tasks.ready,task.complete
    1 wave.branch.finish wave_id=[RUN]-wave-1 branch_id=branch-1 stop_reason=max_iterations elapsed … output=found in look at a\u000a
    1 wave.branch.finish wave_id=[RUN]-wave-1 branch_id=branch-2 stop_reason=max_iterations elapsed … output=found in look at b\u000a
    1 wave.branch.finish wave_id=[RUN]-wave-1 branch_id=branch-3 stop_reason=max_iterations elapsed … output=found in look at c\u000a
    1 wave.join.start wave_id=[RUN]-wave-1 trigger_topic=explore.parallel branch_count=3 elapsed … branch_outcomes=branch-1:max_iterations,branch-2:max_iterations,branch-3:max_iterations
    1 wave.join.finish wave_id=[RUN]-wave-1 trigger_topic=explore.parallel joined_topic=explore.parallel.joined routing_basis=opening_context resume_recent_event=loop.start resume_roles=planner resume_events=tasks.ready,task.complete elapsed …
    1 explore.parallel.joined payload=[RUN]-wave-1
    2 iteration.start recent_event=loop.start suggested_roles=planner allowed_events=tasks.ready,task.complete backpressure='' prompt=…
    2 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    2 backend.finish exit_code=0 timed_out=false output=''
    2 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=''
    2 loop.stop reason=max_iterations completed_iterations=2 stopped_before_iteration=3 max_iterations=2
    ");
}

#[test]
fn results_of_branches_are_in_the_next_prompt() {
    let sandbox = waves(ASK, "echo found something", "");
    assert_eq!(sandbox.run(&["run", ".", "-i", "3"]).code, Some(1));
    let own = sandbox.run(&["inspect", "prompt", "2"]).stdout;
    let start = own.find("Results of the branches:").unwrap();
    let end = own[start..].find("Iteration: 2/3").unwrap();
    let run = sandbox.fields("loop.start", "run").remove(0);
    assert_snapshot!(own[start..start + end].replace(&run, "[RUN]"), @"
    Results of the branches:
    Wave [RUN]-wave-1 (explore.parallel): all 3 branches have ended.

    branch-1: look at a -> max_iterations
    ```text
    found something
    ```

    branch-2: look at b -> max_iterations
    ```text
    found something
    ```

    branch-3: look at c -> max_iterations
    ```text
    found something
    ```
    ");
    assert!(own.contains("Structured parallelism:"));
    assert!(!sandbox.run(&["inspect", "prompt", "3"]).stdout.contains("Results of the branches:"));
    let branch =
        sandbox.run(&["inspect", "prompt", "1", "--run", &format!("{run}-wave-1-2")]).stdout;
    assert!(
        branch.contains("look at b") && !branch.contains("Structured parallelism:"),
        "{branch}"
    );
    let wave = format!(".autoloop/waves/{run}-wave-1");
    for page in ["spec.md", "join.md", "branches/branch-3/result.md"] {
        assert!(!sandbox.read(format!("{wave}/{page}")).is_empty(), "{page}");
    }
}

#[test]
fn failed_and_timed_out_branches_are_reported_and_the_run_decides() {
    let branch = "case $(cat $AUTOLOOP_PROMPT_PATH) in *'look at a'*) echo bad key >&2; exit 5;; *'look at b'*) sleep 661;; esac; echo fine";
    let (sandbox, limit) = meet_a_limit(|limit| {
        let sandbox = waves(ASK, branch, &format!("parallel.branch_timeout_ms = {limit}"));
        let output = sandbox.run(&["run", ".", "-i", "2"]);
        assert_eq!(output.code, Some(1));
        let told = "branch-1 ended: the agent failed (exit code 5): bad key\n";
        assert!(output.stderr.contains(told), "{output}");
        let late = sandbox.fields("wave.timeout", "timed_out_branches");
        (late == ["branch-2"]).then_some((sandbox, duration::print(Duration::from_millis(limit))))
    });
    let wave: String = story(&sandbox)
        .replace(&format!("after {limit} "), "after [LIMIT] ")
        .lines()
        .filter(|line| line.contains(" wave."))
        .skip(4)
        .collect::<Vec<_>>()
        .join("\n");
    assert_snapshot!(wave, @r"
    1 wave.branch.finish wave_id=[RUN]-wave-1 branch_id=branch-1 stop_reason=backend_failed elapsed … output='' detail=the agent failed (exit code 5): bad key
    1 wave.branch.finish wave_id=[RUN]-wave-1 branch_id=branch-2 stop_reason=backend_timeout elapsed … output='' detail=the agent timed out after [LIMIT] (parallel.branch_timeout_ms)
    1 wave.branch.finish wave_id=[RUN]-wave-1 branch_id=branch-3 stop_reason=max_iterations elapsed … output=fine\u000a
    1 wave.join.start wave_id=[RUN]-wave-1 trigger_topic=explore.parallel branch_count=3 elapsed … branch_outcomes=branch-1:backend_failed,branch-2:backend_timeout,branch-3:max_iterations
    1 wave.timeout wave_id=[RUN]-wave-1 timed_out_branches=branch-2
    1 wave.failed wave_id=[RUN]-wave-1 failed_branches=branch-1
    1 wave.join.finish wave_id=[RUN]-wave-1 trigger_topic=explore.parallel joined_topic=explore.parallel.joined routing_basis=opening_context resume_recent_event=loop.start resume_roles=planner resume_events=tasks.ready,task.complete elapsed …
    ");
    assert_eq!(sandbox.survivors(), "");
    assert_eq!(sandbox.fields("loop.stop", "reason").last().unwrap(), "max_iterations");
}

#[test]
fn nothing_of_a_branch_outlives_its_time() {
    // The agent ignores requests to end, and so does a child that left its session.
    let branch = "trap '' TERM
        (setsid sh -c 'trap \"\" TERM; echo $$ > child; while :; do sleep 0.05; done' &)
        echo $$ > agent
        until [ -s child ]; do sleep 0.01; done; touch there
        while :; do sleep 0.05; done";
    let parent = format!(
        "{ASK}\nif [ $N = 2 ]; then for left in agent child; do kill -0 $(cat $left) && echo $left lives || echo $left is gone; done; fi"
    );
    let parent = parent.replace("\\n- look at b\\n- look at c", "");
    let sandbox = meet_a_limit(|limit| {
        let settings = format!("parallel.branch_timeout_ms = {limit}");
        let sandbox = waves(&parent, branch, &settings);
        assert_eq!(sandbox.run(&["run", ".", "-i", "2"]).code, Some(1));
        sandbox.path("there").exists().then_some(sandbox)
    });
    assert_eq!(sandbox.fields("wave.timeout", "timed_out_branches"), ["branch-1"]);
    let said = sandbox.fields("iteration.finish", "output").pop().unwrap();
    assert_eq!(said, r"agent is gone\u000achild is gone\u000a");
}

#[test]
fn an_event_is_handed_over_once_for_each_part() {
    let ask = "[ $N = 1 ] && $T emit tasks.ready.parallel \"$(printf -- '1. one\\n2. two')\"; true";
    let sandbox = waves(ask, "$T emit built; echo $AUTOLOOP_ALLOWED_EVENTS", "");
    assert_eq!(sandbox.run(&["run", ".", "-i", "2"]).code, Some(1));
    assert_eq!(sandbox.fields("wave.branch.start", "routing_event"), ["tasks.ready"; 2]);
    assert_eq!(sandbox.fields("wave.branch.start", "branch_roles"), ["builder"; 2]);
    assert_eq!(
        sandbox.fields("wave.join.finish", "resume_recent_event"),
        ["tasks.ready.parallel.joined"]
    );
    assert_eq!(sandbox.fields("wave.join.finish", "resume_roles"), ["builder"]);
    assert_eq!(sandbox.fields("tasks.ready.parallel.joined", "source"), ["harness"]);
    let recent = sandbox.fields("iteration.start", "recent_event");
    assert_eq!(recent.last().unwrap(), "tasks.ready.parallel.joined");
    // Events of a branch stay in the branch: the run is routed by the join.
    assert_eq!(sandbox.fields("built", "source").len(), 2);
}

/// The outcome of a wave that is requested with this event.
fn asked(topic: &str, payload: &str, settings: &str) -> String {
    let sandbox = waves(
        &format!("[ $N = 1 ] && $T emit {topic} \"$(cat payload)\" 2>/dev/null; true"),
        "echo branch",
        settings,
    );
    sandbox.write("payload", payload);
    assert_eq!(sandbox.run(&["run", ".", "-i", "2"]).code, Some(1));
    let refused = sandbox.fields("event.invalid", "emitted").len();
    let reasons = sandbox.fields("wave.invalid", "reason");
    let waves = sandbox.fields("wave.start", "branch_count");
    let pressed = !sandbox.fields("iteration.start", "backpressure")[1].is_empty();
    assert_eq!(sandbox.fields("iteration.start", "recent_event")[1], "loop.start");
    format!("refused {refused}, invalid {reasons:?}, waves {waves:?}, told {pressed}")
}

#[test]
fn an_invalid_wave_is_refused_and_the_run_continues() {
    let told = [
        asked("explore.parallel", "look around", ""),
        asked("explore.parallel", "1) a", ""),
        asked("explore.parallel", "", ""),
        asked("explore.parallel", "- a\n- b\n- c\n- d\n- e", ""),
        asked("explore.parallel", "- a\n- a", ""),
        asked("explore.parallel", "- a", "parallel.enabled = false"),
        asked("built.parallel", "- a", ""),
        asked("task.complete.parallel", "- a", ""),
        asked("issue.discovered.parallel", "- a", ""),
        asked("loop.stop.parallel", "- a", ""),
        asked("explore.parallel.joined", "- a", ""),
        asked("explore.parallel.parallel", "- a", ""),
        asked("tasks.ready.parallel.parallel", "- a", ""),
    ];
    assert_snapshot!(told.join("\n"), @r#"
    refused 0, invalid ["invalid_branch_list"], waves [], told true
    refused 0, invalid ["invalid_branch_list"], waves [], told true
    refused 0, invalid ["empty_branch_list"], waves [], told true
    refused 0, invalid ["too_many_branches"], waves [], told true
    refused 0, invalid ["duplicate_branches"], waves [], told true
    refused 0, invalid ["parallelism disabled"], waves [], told true
    refused 1, invalid [], waves [], told true
    refused 1, invalid [], waves [], told true
    refused 1, invalid [], waves [], told true
    refused 1, invalid [], waves [], told true
    refused 1, invalid [], waves [], told true
    refused 1, invalid [], waves [], told true
    refused 1, invalid [], waves [], told true
    "#);
}

#[test]
fn changes_of_a_branch_to_the_loop_apply_from_the_next_turn() {
    let sandbox = waves(ASK, "echo 'Be late.' > harness.md", "");
    sandbox.write("harness.md", "Be early.\n");
    assert_eq!(sandbox.run(&["run", ".", "-i", "2"]).code, Some(1));
    let prompt = |iteration| sandbox.run(&["inspect", "prompt", iteration]).stdout;
    assert!(prompt("1").contains("Be early."));
    assert!(prompt("2").contains("Be late."), "{}", prompt("2"));
}

#[test]
fn one_wave_at_a_time() {
    let ask =
        "[ $N = 1 ] && { $T emit explore.parallel '- a'; $T emit explore.parallel '- b'; }; true";
    // A branch cannot open a wave either.
    let sandbox = waves(ask, "$T emit explore.parallel '- c' && exit 9; echo no", "");
    assert_eq!(sandbox.run(&["run", ".", "-i", "2"]).code, Some(1));
    assert_eq!(sandbox.fields("wave.start", "objectives"), ["- a\\u000a"]);
    let reasons = ["active_wave_exists", "parallelism disabled"];
    assert_eq!(sandbox.fields("wave.invalid", "reason"), reasons);
    assert_eq!(sandbox.fields("wave.branch.finish", "stop_reason"), ["max_iterations"]);
}

#[test]
fn branches_are_part_of_the_run_that_opened_them() {
    let sandbox = waves(ASK, "echo \"in $(pwd)\" && $T memory add learning mine", "");
    assert_eq!(sandbox.run(&["run", ".", "-i", "2"]).code, Some(1));
    let run = sandbox.fields("loop.start", "run").remove(0);
    assert_eq!(sandbox.fields("loop.start", "parent"), [run.as_str(); 3]);
    assert!(sandbox.run(&["inspect", "scratchpad"]).stdout.contains("## Iteration 2"));
    let memory = |branch: u32| {
        sandbox.read(format!(".autoloop/waves/{run}-wave-1/branches/branch-{branch}/memory.jsonl"))
    };
    assert!((1..=3).all(|branch| !memory(branch).is_empty()), "each remembers for itself");
    assert_eq!(sandbox.run(&["run", "--resume", "."]).code, Some(1), "no branch is left to resume");
}

#[test]
fn finished_branches_are_not_run_again() {
    let branch = "case $(cat $AUTOLOOP_PROMPT_PATH) in *'look at b'*) echo b >> runs; [ -e hung ] || { touch hung; sleep 671; };; *'look at a'*) echo a >> runs;; *) echo c >> runs;; esac";
    let sandbox = waves(ASK, branch, "");
    let mut command = sandbox.command();
    command.args(["run", ".", "-i", "2"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut harness = Reaped::start(command);
    until("two branches to end and one to hang", || {
        let ended = sandbox.fields("wave.branch.finish", "branch_id").len();
        (ended == 2 && sandbox.path("hung").exists()).then_some(())
    });
    kill_process(Pid::from_child(&harness.0), Signal::KILL).unwrap();
    harness.0.wait().unwrap();
    assert_eq!(sandbox.run(&["run", "--resume", ".", "-i", "2"]).code, Some(1));
    let mut runs: Vec<_> =
        String::from_utf8(sandbox.read("runs")).unwrap().lines().map(str::to_owned).collect();
    runs.sort();
    assert_eq!(runs, ["a", "b", "b", "c"]);
    assert_eq!(sandbox.fields("wave.branch.start", "branch_id").len(), 3);
    assert_eq!(sandbox.fields("wave.branch.finish", "branch_id").len(), 3);
    assert_eq!(sandbox.fields("wave.join.finish", "joined_topic"), ["explore.parallel.joined"]);
    assert_eq!(sandbox.fields("explore.parallel.joined", "source"), ["harness"]);
    assert_eq!(sandbox.survivors(), "");
}

#[test]
fn a_branch_that_nothing_proves_is_run_again() {
    branch_with_spoiled_seals(r#""run": "[^"]*-wave-"#);
}

/// Then the wave starts again, and its branches get the same ids.
#[test]
fn a_wave_that_nothing_proves_is_run_again() {
    branch_with_spoiled_seals(r#""topic": "wave."#);
}

fn branch_with_spoiled_seals(spoiled: &str) {
    let forge = "printf '{\"run\": \"%s\", \"iteration\": \"\", \"topic\": \"loop.complete\", \"fields\": {\"reason\": \"completion_event\"}}\\n' $AUTOLOOP_RUN_ID >> $AUTOLOOP_JOURNAL_FILE";
    let spoil = format!(r#"sed -i '/{spoiled}/s/, "seal": "[^"]*"//' $AUTOLOOP_JOURNAL_FILE"#);
    let branch = format!(
        "case $AUTOLOOP_RUN_ID in *-1) if [ ! -e hung ]; then sleep 0.3; {forge}; {spoil}; touch hung; sleep 657; fi;; esac; echo $AUTOLOOP_RUN_ID >> ran"
    );
    let sandbox = waves(ASK, &branch, "parallel.max_branches = 1");
    let sandbox_dir = sandbox.path("autoloops.toml");
    let settings = fs::read_to_string(&sandbox_dir).unwrap();
    fs::write(&sandbox_dir, settings.replacen("parallel.max_branches = 4\n", "", 1)).unwrap();
    let one = "[ $N = 1 ] && $T emit explore.parallel \"- look at a\"; true";
    let agent = fs::read_to_string(sandbox.path("agent.sh")).unwrap();
    sandbox.write("agent.sh", agent.replace(ASK, one));
    let mut command = sandbox.command();
    command.args(["run", ".", "-i", "2"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut harness = Reaped::start(command);
    until("the branch to hang", || sandbox.path("hung").exists().then_some(()));
    harness.kill();
    until("the end of the agents", || sandbox.survivors().is_empty().then_some(()));
    let output = sandbox.run(&["run", "--resume", ".", "-i", "2"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(String::from_utf8(sandbox.read("ran")).unwrap().lines().count(), 1, "{output}");
    assert_eq!(sandbox.fields("wave.branch.finish", "stop_reason"), ["max_iterations"], "{output}");
}

#[test]
fn an_interrupt_ends_all_branches_and_the_wave_resumes() {
    let sandbox = waves(ASK, "[ -e again ] || { touch there; sleep 681; }; echo late", "");
    let mut command = sandbox.command();
    command.args(["run", ".", "-i", "2"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut harness = Reaped::start(command);
    until("the branches", || sandbox.path("there").exists().then_some(()));
    kill_process(Pid::from_child(&harness.0), Signal::INT).unwrap();
    assert_eq!(harness.0.wait().unwrap().code(), Some(130));
    assert_eq!(sandbox.survivors(), "");
    assert_eq!(sandbox.fields("wave.branch.finish", "branch_id").len(), 0);
    sandbox.write("again", "");
    assert_eq!(sandbox.run(&["run", "--resume", ".", "-i", "2"]).code, Some(1));
    assert_eq!(sandbox.fields("wave.branch.finish", "stop_reason"), ["max_iterations"; 3]);
    assert_eq!(sandbox.fields("wave.join.finish", "routing_basis"), ["opening_context"]);
}

#[test]
fn no_list_is_too_long_or_too_strange() {
    let sandbox = waves(
        "[ $N = 1 ] && $T emit explore.parallel --file huge; [ $N = 2 ] && $T emit explore.parallel --file strange; true",
        "echo here",
        "",
    );
    sandbox.write("huge", "- one of very many\n".repeat(600_000));
    sandbox.write("strange", "- ../../../etc/passwd\n- \u{1b}[31mred\u{7} / \u{202e}x\n");
    assert_eq!(sandbox.run(&["run", ".", "-i", "3"]).code, Some(1));
    assert_eq!(sandbox.fields("wave.invalid", "reason"), ["branch_list_too_long"]);
    assert_eq!(sandbox.fields("wave.branch.finish", "stop_reason"), ["max_iterations"; 2]);
    let run = sandbox.fields("loop.start", "run").remove(0);
    let branches = sandbox.path(format!(".autoloop/waves/{run}-wave-1/branches"));
    let mut names: Vec<_> =
        fs::read_dir(branches).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["branch-1", "branch-2"]);
    let prompt = sandbox.run(&["inspect", "prompt", "3"]).stdout;
    let found = &prompt[prompt.find("Results of the branches:").unwrap()..];
    assert!(
        !found.contains('\u{1b}') && found.contains("branch-1: ../../../etc/passwd"),
        "{found}"
    );
}

#[test]
fn a_wave_that_crashes_after_any_record_has_the_same_outcome() {
    let ask = "[ $N = 1 ] && $T emit tasks.ready.parallel \"$(printf -- '- a\\n- b\\n- c\\n- d')\"; [ $N = 2 ] && $T emit built; true";
    let sandbox = waves(ask, "$T emit built; echo done", "");
    assert_eq!(sandbox.run(&["run", ".", "-i", "3"]).code, Some(1));
    let (state, kept) = (sandbox.path(".autoloop"), sandbox.path("kept"));
    let copy = |from: &Path, to: &Path| {
        let mut copy = sandbox.at_home("cp");
        copy.arg("-a").args([from, to]);
        assert_eq!(sandbox.finish(copy).code, Some(0));
    };
    copy(&state, &kept);
    let journal = String::from_utf8(fs::read(sandbox.journal_path()).unwrap()).unwrap();
    let lines: Vec<&str> = journal.split_inclusive('\n').collect();
    let end = |sandbox: &Sandbox| {
        let mut branches = sandbox.fields("wave.branch.finish", "branch_id");
        branches.sort();
        let joined = sandbox.fields("tasks.ready.parallel.joined", "source");
        let own = sandbox.run(&["inspect", "metrics", "--format", "csv"]).stdout;
        let events: Vec<String> =
            own.lines().map(|row| row.split(',').take(3).collect::<Vec<_>>().join(",")).collect();
        (branches, joined, events, sandbox.fields("wave.join.finish", "resume_roles"))
    };
    let whole = end(&sandbox);
    assert_eq!((whole.0.len(), whole.1.len()), (4, 1));
    for cut in 1..lines.len() - 1 {
        fs::remove_dir_all(&state).unwrap();
        copy(&kept, &state);
        fs::write(sandbox.journal_path(), lines[..cut].concat()).unwrap();
        let run = sandbox.fields("loop.start", "run").remove(0);
        let output = sandbox.run(&["run", &format!("--resume={run}"), ".", "-i", "3"]);
        assert_eq!(output.code, Some(1), "cut behind record {cut}: {}", output.stderr);
        assert_eq!(end(&sandbox), whole, "cut behind record {cut}: {}", lines[cut - 1]);
    }
}

/// Waves are off: the agent reads it at once and in the next prompt, the harness records it, and an
/// event that the agent emits instead counts.
#[test]
fn a_wave_while_waves_are_off_is_recorded_and_reported() {
    let agent = "case $N in 1) $T emit explore.parallel '- a'; echo \"exit $?\";; *) $T emit tasks.ready.parallel '- a'; $T emit task.complete;; esac";
    let sandbox = waves(agent, "true", "parallel.enabled = false");
    let output = sandbox.run(&["run", ".", "-v", "-i", "3"]);
    assert_eq!(output.code, Some(0), "{output}\n{}", sandbox.story());
    assert_eq!(sandbox.fields("wave.invalid", "reason"), ["parallelism disabled"; 2]);
    assert_eq!(
        sandbox.fields("wave.invalid", "trigger_topic"),
        ["explore.parallel", "tasks.ready.parallel"]
    );
    assert_eq!(sandbox.fields("wave.invalid", "iteration"), ["1", "2"]);
    assert_eq!(sandbox.fields("event.invalid", "emitted"), [""; 0]);
    assert!(sandbox.fields("iteration.finish", "output")[0].contains("exit 3"));
    let told = sandbox.fields("iteration.start", "backpressure");
    assert!(told[1].contains("waves are off in this run (parallel.enabled)"), "{told:?}");
    assert_eq!(told.len(), 2, "an accepted event makes good for it");
    assert!(output.stderr.contains("  refused: explore.parallel\n"), "{output}");
}

/// Only the harness may write it, and the record says so.
#[test]
fn a_joined_event_is_of_the_harness() {
    let sandbox = waves("[ $N = 1 ] && $T emit explore.parallel '- a'; true", "true", "");
    sandbox.run(&["run", ".", "-i", "2"]);
    assert_eq!(sandbox.fields("explore.parallel.joined", "source"), ["harness"]);
}
