//! Runs that are interrupted, killed, resumed or refused, through the binary and with real signals.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{Reaped, until, write_program};
use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};

fn shell(agent: &str, settings: &str) -> Sandbox {
    Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), agent, settings)
}

/// An agent that waits to be killed at the first start of iteration 2, after it created a file.
const WAITS_IN_2: &str = r#"
echo "$N" >> starts
if [ $N = 2 ] && [ ! -e waited ]; then
  touch waited
  [ ! -e emit_first ] || $T emit "$(cat emit_first)"
  sleep 611 & touch there; sleep 612
fi
echo turn $N"#;

fn start(sandbox: &Sandbox, args: &[&str]) -> Reaped {
    let mut command = sandbox.command();
    command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
    Reaped::start(command)
}

fn wait_for(sandbox: &Sandbox, name: &str) {
    until(name, || sandbox.path(name).exists().then_some(()));
}

fn signal(harness: &Reaped, signal: Signal) {
    kill_process(Pid::from_child(&harness.0), signal).unwrap();
}

fn starts(sandbox: &Sandbox) -> String {
    String::from_utf8(sandbox.read("starts")).unwrap().replace('\n', " ")
}

#[test]
fn the_first_signal_ends_the_iteration_and_puts_the_stop_on_record() {
    for (sent, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let sandbox = shell(WAITS_IN_2, "");
        let mut harness = start(&sandbox, &["run", ".", "make", "it"]);
        wait_for(&sandbox, "there");
        signal(&harness, sent);
        let status = harness.0.wait().unwrap();
        assert_eq!(status.code(), Some(code), "{status:?}");
        assert_eq!(sandbox.survivors(), "");
        assert_eq!(sandbox.fields("loop.stop", "reason"), ["interrupted"]);
        if code == 130 {
            assert_snapshot!(sandbox.story(), @r"
            - loop.start max_iterations=3 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=0 objective=make it
            1 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
            1 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
            1 backend.finish exit_code=0 timed_out=false output=turn 1\u000a
            1 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=turn 1\u000a
            2 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
            2 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
            2 backend.finish exit_code=143 timed_out=false output='' interrupted=true
            2 iteration.finish exit_code=143 timed_out=false elapsed_s=… output='' interrupted=true
            2 loop.stop reason=interrupted iteration=2
            ");
        }
    }
}

#[test]
fn an_interrupted_run_is_resumed_with_the_iteration_that_was_interrupted() {
    let sandbox = shell(WAITS_IN_2, "");
    let mut harness = start(&sandbox, &["run", ".", "make", "it"]);
    wait_for(&sandbox, "there");
    signal(&harness, Signal::INT);
    harness.0.wait().unwrap();
    let output = sandbox.run(&["run", "--resume", "."]);
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(sandbox.fields("loop.stop", "reason"), ["interrupted", "max_iterations"]);
    assert_eq!(starts(&sandbox), "1 2 2 3 ");
    assert_eq!(sandbox.fields("loop.resume", "resumed_from_iteration"), ["1"]);
}

#[test]
fn a_killed_harness_takes_its_agent_with_it_and_the_iteration_runs_again_once() {
    let sandbox = shell(WAITS_IN_2, "");
    let mut harness = start(&sandbox, &["run", ".", "make", "it"]);
    wait_for(&sandbox, "there");
    signal(&harness, Signal::KILL);
    assert_eq!(harness.0.wait().unwrap().signal(), Some(9));
    until("the end of the agents", || sandbox.survivors().is_empty().then_some(()));
    assert_eq!(sandbox.run(&["run", "--resume", "."]).code, Some(1));
    assert_eq!(starts(&sandbox), "1 2 2 3 ");
    assert_snapshot!(sandbox.story(), @r"
    - loop.start max_iterations=3 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=0 objective=make it
    1 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    1 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    1 backend.finish exit_code=0 timed_out=false output=turn 1\u000a
    1 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=turn 1\u000a
    2 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    2 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    2 loop.resume resumed_from_iteration=1 previous_stop_reason=''
    2 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    2 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    2 backend.finish exit_code=0 timed_out=false output=turn 2\u000a
    2 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=turn 2\u000a
    3 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    3 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    3 backend.finish exit_code=0 timed_out=false output=turn 3\u000a
    3 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=turn 3\u000a
    3 loop.stop reason=max_iterations completed_iterations=3 stopped_before_iteration=4 max_iterations=3
    ");
    let prompts = sandbox.fields("iteration.start", "prompt");
    assert_eq!(prompts.len(), 4);
    assert!(prompts.iter().all(|prompt| prompt.contains("make it")), "the objective is lost");
}

#[test]
fn an_iteration_that_is_done_again_is_routed_as_it_was() {
    let sandbox = shell(WAITS_IN_2, "event_loop.max_iterations = 2");
    sandbox.write("emit_first", "b.done").write(
        "topology.toml",
        "[[role]]\nid = 'a'\nemits = ['a.done']\n[[role]]\nid = 'b'\nemits = ['b.done', 'a.done']\n[handoff]\n'loop.start' = 'b'\n'b.done' = 'a'\n",
    );
    let mut harness = start(&sandbox, &["run", ".", "make", "it"]);
    wait_for(&sandbox, "there");
    signal(&harness, Signal::KILL);
    harness.0.wait().unwrap();
    assert_eq!(sandbox.run(&["run", "--resume", "."]).code, Some(1));
    assert_eq!(sandbox.fields("iteration.start", "suggested_roles"), ["b", "b", "b"]);
}

#[test]
fn a_completion_event_of_a_killed_iteration_does_not_complete_by_itself() {
    let sandbox = shell(WAITS_IN_2, "event_loop.max_iterations = 3");
    sandbox.write("emit_first", "task.complete");
    let mut harness = start(&sandbox, &["run", ".", "make", "it"]);
    wait_for(&sandbox, "there");
    signal(&harness, Signal::KILL);
    harness.0.wait().unwrap();
    assert_eq!(sandbox.run(&["run", "--resume", "."]).code, Some(1));
    assert_eq!(starts(&sandbox), "1 2 2 3 ");
}

/// Fails in iteration 2, after printing something, until the file `mended` exists.
const FAILS_IN_2: &str = r#"
echo "$N" >> starts
if [ $N = 2 ] && [ ! -e mended ]; then $T emit b.done > /dev/null; echo "no quota left" >&2; exit 5; fi
[ $N = 3 ] && echo LOOP_COMPLETE
[ $N = 3 ] || $T emit a.done > /dev/null"#;

#[test]
fn a_failed_run_is_resumed_without_its_name_from_the_iteration_that_failed() {
    let sandbox = shell(FAILS_IN_2, "event_loop.required_events = ['a.done']");
    let failed = sandbox.run(&["run", ".", "make", "it"]);
    let id = sandbox.fields("loop.start", "run").remove(0);
    // The message contains the command that resumes the run, and that command works as printed.
    let resume = format!("autoloop run --resume={id}");
    assert!(failed.stderr.contains(&format!("hint: resume it with `{resume}`\n")), "{failed}");
    sandbox.write("mended", "");
    let output = sandbox.run(&["run", "--resume"]);
    assert_eq!(output.code, Some(0), "{output}\n{}", sandbox.story());
    assert!(output.stderr.starts_with(&format!("run {id} resumes at iteration 2\n")), "{output}");
    assert_eq!(starts(&sandbox), "1 2 2 3 ");
    assert_eq!(sandbox.fields("loop.resume", "resumed_from_iteration"), ["1"]);
    assert_eq!(sandbox.fields("loop.resume", "previous_stop_reason"), ["backend_failed"]);
    // Routed as before: events of the failed iteration do not count.
    let recent = ["loop.start", "a.done", "a.done", "a.done"];
    assert_eq!(sandbox.fields("iteration.start", "recent_event"), recent);
    let metrics = sandbox.run(&["inspect", "metrics", "--format", "csv"]).stdout;
    assert_eq!(metrics.lines().filter(|row| row.starts_with("2,")).count(), 2, "{metrics}");
}

#[test]
fn a_run_that_timed_out_is_resumed_from_the_iteration_that_did() {
    let agent = "echo $N >> starts; [ -e mended ] || exec sleep 613; echo LOOP_COMPLETE";
    let sandbox = shell(agent, "backend.timeout_ms = 300");
    let failed = sandbox.run(&["run", "."]);
    assert!(failed.stderr.contains("resume it with `autoloop run --resume="), "{failed}");
    assert_eq!(sandbox.fields("loop.stop", "reason"), ["backend_timeout"]);
    sandbox.write("mended", "");
    let output = sandbox.run(&["run", "--resume", "--set", "backend.timeout_ms=300000"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(starts(&sandbox), "1 1 ");
}

#[test]
fn the_latest_run_that_did_not_complete_is_resumed() {
    let agent = r#"grep -q 'the second' "$AUTOLOOP_PROMPT_PATH" && { echo LOOP_COMPLETE; exit; }; [ -e mended ] || exit 5; echo LOOP_COMPLETE"#;
    let sandbox = shell(agent, "");
    assert_eq!(sandbox.run(&["run", ".", "the", "first"]).code, Some(1));
    assert_eq!(sandbox.run(&["run", ".", "the", "second"]).code, Some(0));
    sandbox.write("mended", "");
    assert_eq!(sandbox.run(&["run", "--resume"]).code, Some(0));
    let runs = sandbox.fields("loop.start", "run");
    assert_eq!(sandbox.fields("loop.resume", "run"), runs[..1]);
    let output = sandbox.run(&["run", "--resume"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(
        output.stderr.contains(&format!("the latest run, '{}', completed", runs[1])),
        "{output}"
    );
}

#[test]
fn the_command_that_resumes_names_the_project_where_it_is_not_this_directory() {
    let sandbox = shell("exit 5", "");
    sandbox.write("a project/autoloops.toml", "backend.command = 'false'");
    let failed = sandbox.run(&["run", "a project", "make it"]);
    let line = failed.stderr.lines().find_map(|line| line.split_once("resume it with `"));
    let words = line.unwrap_or_else(|| panic!("{failed}")).1.trim_end_matches('`');
    assert!(words.ends_with(" 'a project'"), "{failed}");
    let mut shell = sandbox.at_home("sh");
    shell.args(["-c", &words.replacen("autoloop", "\"$0\"", 1)]).arg(sandbox.binary());
    let again = shell.output().unwrap();
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    let again = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(again.contains("resumes at iteration 1"), "{again}");
}

#[test]
fn a_run_at_its_limit_resumes_when_the_limit_is_raised() {
    let sandbox = shell("echo $N", "event_loop.max_iterations = 1");
    let output = sandbox.run(&["run", "."]);
    assert_eq!(output.code, Some(1));
    let id = sandbox.fields("loop.start", "run").remove(0);
    let hint = format!("hint: allow more iterations with `autoloop run --resume={id} -i 2`\n");
    assert!(output.stderr.contains(&hint), "{output}");
    assert_eq!(sandbox.run(&["run", &format!("--resume={id}"), ".", "-i", "2"]).code, Some(1));
    assert_eq!(sandbox.fields("iteration.finish", "exit_code").len(), 2);
    assert_eq!(sandbox.fields("loop.stop", "max_iterations"), ["1", "2"]);
}

#[test]
fn a_second_harness_on_the_same_run_is_refused() {
    let sandbox = shell(WAITS_IN_2, "");
    let mut harness = start(&sandbox, &["run", ".", "make", "it"]);
    wait_for(&sandbox, "there");
    let before = sandbox.journal();
    let output = sandbox.run(&["run", "--resume", "."]);
    assert_eq!(output.code, Some(4), "{output}");
    assert!(output.stderr.contains(&harness.0.id().to_string()), "{output}");
    assert_eq!(sandbox.journal(), before, "it left no trace");
    // During exec a process cannot be inspected, so this may take a moment.
    until("the agent of the first one", || sandbox.survivors().contains("612").then_some(()));
    signal(&harness, Signal::INT);
    harness.0.wait().unwrap();
}

#[test]
fn two_runs_in_one_project_do_not_disturb_each_other() {
    let agent = r#"
case "$AUTOLOOP_PROMPT_PATH" in *) ;; esac
grep -q 'the first' "$AUTOLOOP_PROMPT_PATH" && me=first || me=second
touch $me.$N
if [ $me = first ] && [ $N = 1 ]; then
  touch there; while [ ! -e over ]; do sleep 0.01; done
fi
$T emit $me.event; echo LOOP_COMPLETE not yet"#;
    let sandbox = shell(agent, "event_loop.max_iterations = 2");
    let mut first = start(&sandbox, &["run", ".", "the", "first"]);
    wait_for(&sandbox, "there");
    let id = sandbox.fields("loop.start", "run").remove(0);
    let second = sandbox.run(&["run", ".", "the", "second"]);
    assert_eq!(second.code, Some(1));
    let pid = first.0.id();
    let warning = format!("warning: run '{id}' (process {pid}) is active in this directory");
    assert!(second.stderr.contains(&warning), "{second}");
    sandbox.write("over", "");
    assert_eq!(first.0.wait().unwrap().code(), Some(1));
    assert_snapshot!(sandbox.story(), @r"
    - loop.start max_iterations=2 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=0 objective=the first
    1 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    1 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    (run 2) - loop.start max_iterations=2 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=0 objective=the second
    (run 2) 1 iteration.start recent_event=loop.start suggested_roles='' allowed_events='' backpressure='' prompt=…
    (run 2) 1 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    (run 2) 1 second.event payload=''
    (run 2) 1 backend.finish exit_code=0 timed_out=false output=emitted second.event\u000aLOOP_COMPLETE not yet\u000a
    (run 2) 1 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=emitted second.event\u000aLOOP_COMPLETE not yet\u000a
    (run 2) 2 iteration.start recent_event=second.event suggested_roles='' allowed_events='' backpressure='' prompt=…
    (run 2) 2 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    (run 2) 2 second.event payload=''
    (run 2) 2 backend.finish exit_code=0 timed_out=false output=emitted second.event\u000aLOOP_COMPLETE not yet\u000a
    (run 2) 2 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=emitted second.event\u000aLOOP_COMPLETE not yet\u000a
    (run 2) 2 loop.stop reason=max_iterations completed_iterations=2 stopped_before_iteration=3 max_iterations=2
    1 first.event payload=''
    1 backend.finish exit_code=0 timed_out=false output=emitted first.event\u000aLOOP_COMPLETE not yet\u000a
    1 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=emitted first.event\u000aLOOP_COMPLETE not yet\u000a
    2 iteration.start recent_event=first.event suggested_roles='' allowed_events='' backpressure='' prompt=…
    2 backend.start backend_kind=command command=sh prompt_mode=arg timeout_ms=1800000
    2 first.event payload=''
    2 backend.finish exit_code=0 timed_out=false output=emitted first.event\u000aLOOP_COMPLETE not yet\u000a
    2 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=emitted first.event\u000aLOOP_COMPLETE not yet\u000a
    2 loop.stop reason=max_iterations completed_iterations=2 stopped_before_iteration=3 max_iterations=2
    ");
}

#[test]
fn a_complete_run_is_not_resumed() {
    let sandbox = shell("echo LOOP_COMPLETE", "");
    assert_eq!(sandbox.run(&["run", "."]).code, Some(0));
    let id = sandbox.fields("loop.start", "run").remove(0);
    let before = sandbox.journal();
    let output = sandbox.run(&["run", &format!("--resume={id}"), "."]);
    assert_snapshot!(output.to_string().replace(&id, "[RUN]"), @"
    exit 1
    --- stderr
    autoloop: run '[RUN]' completed: there is nothing to resume
      hint: start a new run with `autoloop run DIR`
    ");
    let output = sandbox.run(&["run", "--resume", "."]);
    assert_snapshot!(output.to_string().replace(&id, "[RUN]"), @"
    exit 1
    --- stderr
    autoloop: no run to resume in [DIR]/.autoloop/journal.jsonl: the latest run, '[RUN]', completed
      hint: start a new run with `autoloop run DIR`
    ");
    assert_snapshot!(sandbox.run(&["run", "--resume=no-such-run", "."]), @r"
    exit 1
    --- stderr
    autoloop: no run 'no-such-run' in [DIR]/.autoloop/journal.jsonl
      hint: list all runs with `autoloop loops --all`
      hint: start a new run with `autoloop run DIR`
    ");
    assert_eq!(sandbox.journal(), before);
}

#[test]
fn invalid_requests_exit_with_2() {
    let sandbox = shell("", "");
    for args in [
        &["run"][..],
        &["run", "missing"],
        &["run", ".", "--no-such-flag"],
        &["run", ".", "-i", "many"],
        &["run", ".", "--set", "nonsense"],
        &["run", ".", "-i", "0"],
    ] {
        assert_eq!(sandbox.run(args).code, Some(2), "{args:?}");
    }
    assert_snapshot!(sandbox.run(&["run", "missing"]), @r#"
    exit 2
    --- stderr
    autoloop: 'missing' is neither a directory nor a preset
      hint: run the loop of this directory: `autoloop run . "missing"`
      hint: list the presets with `autoloop presets`
    "#);
    sandbox.write("autoloops.toml", "backend.command = 'sh'\nevent_loop.max_iterations = 'many\n");
    assert_snapshot!(sandbox.run(&["run", "."]), @"
    exit 2
    --- stderr
    error: invalid TOML: invalid literal string, expected `'`
     --> [DIR]/autoloops.toml:2:34
      |
    2 | event_loop.max_iterations = 'many
      |                                  ^

    autoloop: the settings cannot be used because of this error
    ");
    assert_eq!(sandbox.journal(), "", "nothing began");
}

#[test]
fn an_unknown_key_is_a_warning_and_the_run_continues() {
    let sandbox = shell("echo LOOP_COMPLETE", "event_loop.max_iteration = 4");
    let output = sandbox.run(&["run", "."]);
    assert_eq!(output.code, Some(0));
    assert!(output.stderr.contains("event_loop.max_iterations"), "{output}");
}

#[test]
fn an_unknown_key_on_the_command_line_is_an_error() {
    let sandbox = shell("echo LOOP_COMPLETE", "");
    assert_snapshot!(sandbox.run(&["run", ".", "--set", "backend.comand=x"]), @"
    exit 2
    --- stderr
    error: unknown key backend.comand
     --> --set:1:1
      |
    1 | backend.comand=x
      | ^^^^^^^^^^^^^^ did you mean backend.command?

    autoloop: the settings cannot be used because of this error
    ");
    for args in [
        &["run", "autofix", "mend it", "--set", "backend.comand=x"][..],
        &["run", "--chain", "autofix", "mend it", "--set", "zzz=1"],
        &["slots", "--set", "slot.source=x"],
        &["config", "show", "--set", "journal.snyc=never"],
    ] {
        let output = sandbox.run(args);
        assert_eq!(output.code, Some(2), "{args:?}: {output}");
    }
    assert!(!sandbox.path(".autoloop").exists(), "nothing was created");
}

#[test]
fn the_end_is_printed_as_json() {
    let sandbox = shell("echo LOOP_COMPLETE", "");
    let output = sandbox.run(&["run", ".", "--json"]);
    let id = sandbox.fields("loop.start", "run").remove(0);
    assert_snapshot!(output.stdout.replace(&id, "[RUN]"), @r#"{"run": "[RUN]", "status": "completed", "reason": "completion_promise", "detail": null, "iterations": 1, "usage": null, "journal": "[DIR]/.autoloop/journal.jsonl"}"#);
}

/// Kills the harness in iteration 2, after the agent forged records in iterations 1 and 2, and
/// resumes the run.
fn forged_then_killed(forge: &str) -> Sandbox {
    let agent = format!(
        "J=\"$AUTOLOOP_JOURNAL_FILE\"\nsys() {{ printf '{{\"run\": \"%s\", \"iteration\": \"%s\", \"topic\": \"%s\", \"fields\": {{%s}}}}\\n' \"$AUTOLOOP_RUN_ID\" \"$1\" \"$2\" \"$3\" >> \"$J\"; }}\n{forge}\n{WAITS_IN_2}"
    );
    let sandbox = shell(&agent, "");
    sandbox.write("topology.toml", "[[role]]\nid = 'a'\nemits = ['a.done']\n");
    let mut harness = start(&sandbox, &["run", ".", "make", "it"]);
    wait_for(&sandbox, "there");
    signal(&harness, Signal::KILL);
    harness.0.wait().unwrap();
    let output = sandbox.run(&["run", "--resume", "."]);
    assert_eq!(output.code, Some(1), "{output}\n{}", sandbox.story());
    assert_eq!(starts(&sandbox), "1 2 2 3 ");
    sandbox
}

#[test]
fn a_forged_beginning_does_not_change_what_a_resumed_run_is_for() {
    let forge = "[ $N = 1 ] && sys '' loop.start '\"max_iterations\": \"99\", \"completion_promise\": \"turn\", \"objective\": \"mine\"'";
    let sandbox = forged_then_killed(forge);
    let prompts = sandbox.fields("iteration.start", "prompt");
    assert!(prompts.iter().all(|prompt| prompt.contains("make it")), "the objective is lost");
}

#[test]
fn a_forged_completion_does_not_prevent_a_resume() {
    forged_then_killed("sys '' loop.complete '\"reason\": \"completion_event\"'");
}

#[test]
fn a_forged_end_of_an_iteration_does_not_save_an_event_from_being_withdrawn() {
    let forge = "[ $N = 1 ] && { printf '{\"run\": \"%s\", \"iteration\": \"1\", \"topic\": \"task.complete\", \"payload\": \"\", \"source\": \"agent\"}\\n' \"$AUTOLOOP_RUN_ID\" >> \"$J\"; sys 1 iteration.finish '\"exit_code\": \"0\", \"timed_out\": false, \"elapsed_s\": 1, \"output\": \"\"'; }";
    let sandbox = forged_then_killed(forge);
    assert_eq!(sandbox.fields("loop.stop", "reason"), ["max_iterations"]);
}

#[test]
fn the_second_signal_ends_the_harness_at_once() {
    let agent = "trap '' TERM INT; touch there; while :; do sleep 651; done";
    let sandbox = shell(agent, "");
    let mut command = sandbox.command();
    command.args(["run", ".", "--set", "backend.grace_ms=600000"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut harness = Reaped::start(command);
    wait_for(&sandbox, "there");
    signal(&harness, Signal::INT);
    signal(&harness, Signal::TERM);
    let status = until("the end of the harness", || harness.0.try_wait().unwrap());
    assert!(matches!(status.code(), Some(130 | 143)), "{status:?}");
    until("the end of the agents", || sandbox.survivors().is_empty().then_some(()));
}

#[test]
fn an_agent_that_replaces_the_journal_ends_the_run() {
    let sandbox = shell("[ $N = 1 ] || : > \"$AUTOLOOP_JOURNAL_FILE\"; true", "");
    let output = sandbox.run(&["run", "."]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stderr.contains("hint:"), "{output}");
}

#[test]
fn an_agent_that_deletes_the_state_directory_does_not_make_the_harness_panic() {
    let sandbox = shell("rm -rf .autoloop", "");
    let output = sandbox.run(&["run", "."]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(!output.stderr.contains("panicked"), "{output}");
}

#[test]
fn the_agent_can_be_named_on_the_command_line() {
    let sandbox = shell("exit 9", "");
    sandbox.write("other.sh", "echo other; echo LOOP_COMPLETE");
    let output = sandbox.run(&["run", ".", "-b", "sh other.sh", "make", "it"]);
    assert_eq!(output.code, Some(0), "{output}\n{}", sandbox.story());
}

/// An agent that prints which one it is.
fn named(sandbox: &Sandbox, path: &str) {
    let text = format!("#!/bin/sh\necho {path} >> \"$AUTOLOOP_PROJECT_DIR/agents\"\n");
    write_program(sandbox.path(path), text);
}

/// The agents that ran in a project, in order; empties the list.
fn worked(sandbox: &Sandbox, project: &str) -> String {
    let list = format!("{project}/agents");
    let worked = String::from_utf8(sandbox.read(&list)).unwrap().replace('\n', " ");
    sandbox.write(&list, "");
    worked.trim_end().to_owned()
}

#[test]
fn an_agent_named_on_the_command_line_is_looked_up_where_it_was_typed() {
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    sandbox.write("pro ject/autoloops.toml", "review.enabled = false\n");
    let own = "backend.command = './agent.sh'\nreview.enabled = false\n";
    sandbox.write("own/autoloops.toml", own);
    for path in ["agent.sh", "pro ject/agent.sh", "own/agent.sh"] {
        named(&sandbox, path);
    }
    let one = ["-i", "1", "make it"];
    for (agent, project, expected) in [
        (&["-b", "./agent.sh"][..], "pro ject", "agent.sh"),
        (&["--set", "backend.command=./agent.sh"], "pro ject", "agent.sh"),
        (&["-b", "pro\\ ject/agent.sh"], "own", "pro ject/agent.sh"),
        (&[], "own", "own/agent.sh"),
    ] {
        let output = sandbox.run(&[&["run", project], agent, &one].concat());
        assert_eq!(output.code, Some(1), "{output}");
        assert_eq!(worked(&sandbox, project), expected, "{agent:?} {project}");
    }
    // The same agent is used when the run is resumed from another directory.
    let shown = sandbox.run(&["loops", "show", "latest", "pro ject", "--json"]).stdout;
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let id = shown["run"].as_str().unwrap();
    let mut command = sandbox.command();
    command.args(["run", &format!("--resume={id}"), ".", "-i", "2"]);
    let output = sandbox.finish({
        command.current_dir(sandbox.path("pro ject"));
        command
    });
    assert_eq!(worked(&sandbox, "pro ject"), "agent.sh", "{output}");
    let output =
        sandbox.run(&["run", "--chain", "../own", "-b", "./agent.sh", "pro ject", "make it"]);
    assert_eq!(worked(&sandbox, "pro ject").split(' ').next(), Some("agent.sh"), "{output}");
    let mut add = sandbox.command();
    add.args(["tasks", "add", "one"]).current_dir(sandbox.path("pro ject"));
    assert_eq!(sandbox.finish(add).code, Some(0));
    let output = sandbox.run(&["slots", "pro ject", "--provider", "./agent.sh"]);
    assert_eq!(worked(&sandbox, "pro ject"), "agent.sh", "{output}");
}

#[test]
fn an_agent_named_in_a_file_is_looked_up_beside_that_file() {
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    sandbox.write("project/README.md", "");
    let settings = "backend.command = './agent.sh'\nreview.enabled = false\n";
    sandbox.write("loop/autoloops.toml", settings);
    named(&sandbox, "loop/agent.sh");
    named(&sandbox, "project/agent.sh");
    let args = ["run", "project", "-p", "./loop", "-i", "1", "make it"];
    let output = sandbox.run(&args);
    assert_eq!(worked(&sandbox, "project"), "loop/agent.sh", "{output}");
    let role = "[[role]]\nid = 'a'\nemits = ['x']\nbackend_command = './other.sh'\n";
    sandbox.write("loop/topology.toml", role);
    named(&sandbox, "loop/other.sh");
    let output = sandbox.run(&args);
    assert_eq!(worked(&sandbox, "project"), "loop/other.sh", "{output}");
    // A user's preset is copied together with the agent that it names.
    sandbox.write("home/autoloop/presets/mine/autoloops.toml", settings);
    named(&sandbox, "home/autoloop/presets/mine/agent.sh");
    let output = sandbox.run(&["run", "-p", "mine", "project", "-i", "1", "make it"]);
    assert_eq!(worked(&sandbox, "project"), "home/autoloop/presets/mine/agent.sh", "{output}");
}

#[test]
fn a_concurrent_run_that_was_allowed_is_not_warned_about() {
    let sandbox = shell(WAITS_IN_2, "");
    let mut first = start(&sandbox, &["run", ".", "make", "it"]);
    wait_for(&sandbox, "there");
    let second = sandbox.run(&["run", ".", "-i", "1", "more", "--allow-concurrent"]);
    assert!(!second.stderr.contains("is active"), "{second}");
    let slots = sandbox.run(&["slots"]);
    assert!(slots.stderr.contains("is active in this directory"), "{slots}");
    let silenced = sandbox.run(&["slots", "--allow-concurrent"]);
    assert!(!silenced.stderr.contains("is active"), "{silenced}");
    signal(&first, Signal::INT);
    first.0.wait().unwrap();
    let alone = sandbox.run(&["run", ".", "-i", "1", "more"]);
    assert!(!alone.stderr.contains("is active"), "{alone}");
}
