//! Loops.

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::Output;
use autoloop_testkit::slots::git;
use insta::assert_snapshot;

/// The last line of a turn of claude with this cost and this many tokens.
pub(crate) fn result(cost: &str, tokens: u64) -> String {
    format!(
        r#"{{"type":"result","subtype":"success","is_error":false,"result":"ok","total_cost_usd":{cost},"usage":{{"input_tokens":{tokens},"output_tokens":0}}}}"#
    )
}

/// A loop whose turns cost a quarter of a dollar and take 1000 tokens, and emit an event.
fn project(settings: &str) -> Sandbox {
    agent(&format!("\"$T\" emit step >&2; echo '{}'", result("0.25", 1_000)), settings)
}

pub(crate) fn agent(script: &str, settings: &str) -> Sandbox {
    let settings = format!("backend.output = 'claude'\nevent_loop.max_iterations = 20\n{settings}");
    Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), script, &settings)
}

fn run(sandbox: &Sandbox, args: &[&str]) -> Output {
    sandbox.run(&[&["run", ".", "make it"], args].concat())
}

fn id(sandbox: &Sandbox) -> String {
    sandbox.fields("loop.start", "run").remove(0)
}

/// The messages with the id of the run replaced.
fn told(sandbox: &Sandbox, output: &Output) -> String {
    let is_told = |line: &&str| line.starts_with("autoloop:") || line.starts_with("  hint:");
    let lines: Vec<&str> = output.stderr.lines().filter(is_told).collect();
    format!("exit {:?}\n{}", output.code, lines.join("\n").replace(&id(sandbox), "[RUN]"))
}

pub(crate) fn turns(sandbox: &Sandbox) -> usize {
    sandbox.fields("backend.finish", "exit_code").len()
}

pub(crate) fn reasons(sandbox: &Sandbox) -> String {
    sandbox.fields("loop.stop", "reason").join(" ")
}

#[test]
fn a_budget_ends_a_run_that_continues_with_a_higher_one() {
    let sandbox = project("");
    let output = run(&sandbox, &["--budget", "1"]);
    assert_snapshot!(told(&sandbox, &output), @r"
    exit Some(1)
    autoloop: run '[RUN]' stopped: the run took $1.00 of $1.00 (limits.max_cost_usd)
      hint: allow more with `autoloop run --resume=[RUN] --budget 2`
    ");
    assert_eq!((turns(&sandbox), reasons(&sandbox)), (4, "max_cost".into()));

    // The same budget says so at once.
    let again = sandbox.run(&["run", "--resume", "."]);
    assert_snapshot!(told(&sandbox, &again), @r"
    exit Some(1)
    autoloop: run '[RUN]' stopped: the run took $1.00 of $1.00 (limits.max_cost_usd)
      hint: allow more with `autoloop run --resume=[RUN] --budget 2`
    ");
    assert_eq!(turns(&sandbox), 4);

    let more = sandbox.run(&["run", ".", "--resume", "--budget", "1.60"]);
    assert_snapshot!(told(&sandbox, &more), @r"
    exit Some(1)
    autoloop: run '[RUN]' stopped: the run took $1.50 of $1.60, and another turn may take $0.25 (limits.max_cost_usd)
      hint: allow more with `autoloop run --resume=[RUN] --budget 4`
    ");
    assert_eq!(turns(&sandbox), 6);
    let loops = sandbox.run(&["loops", "show", &id(&sandbox)]);
    assert!(loops.stdout.contains("--budget 4"), "{loops}");
    assert!(loops.stdout.contains("stopped"), "{loops}");
}

#[test]
fn tokens_are_limited() {
    let sandbox = project("limits.max_tokens = 2500\n");
    let output = run(&sandbox, &[]);
    assert_snapshot!(told(&sandbox, &output), @r"
    exit Some(1)
    autoloop: run '[RUN]' stopped: the run took 2000 tokens of 2500, and another turn may take 1000 (limits.max_tokens)
      hint: allow more with `autoloop run --resume=[RUN] --set limits.max_tokens=5000`
    ");
    assert_eq!((turns(&sandbox), reasons(&sandbox)), (2, "max_tokens".into()));
    let more = sandbox.run(&["run", ".", "--resume", "--set", "limits.max_tokens=0", "-i", "5"]);
    assert_eq!(
        (turns(&sandbox), reasons(&sandbox)),
        (5, "max_tokens max_iterations".into()),
        "{more}"
    );
}

#[test]
fn a_turn_ends_with_the_time_of_the_run() {
    let once = "if [ ! -e done ]; then touch done; sleep 600; fi; echo LOOP_COMPLETE";
    let sandbox = Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), once, "");
    let output = run(&sandbox, &["--set", "event_loop.max_runtime=3s"]);
    assert_snapshot!(told(&sandbox, &output), @r"
    exit Some(1)
    autoloop: run '[RUN]' stopped: the run took 3s of 3s (limits.max_runtime)
      hint: allow more with `autoloop run --resume=[RUN] --set limits.max_runtime=6s`
    ");
    assert_eq!((turns(&sandbox), reasons(&sandbox)), (1, "max_runtime".into()));
    assert_eq!(sandbox.survivors(), "");
    // Without more time nothing is started.
    let again = sandbox.run(&["run", ".", "--resume"]);
    assert_eq!((again.code, turns(&sandbox)), (Some(1), 1), "{again}");
    let more = sandbox.run(&["run", ".", "--resume", "--set", "limits.max_runtime=1h"]);
    assert_eq!((more.code, turns(&sandbox)), (Some(0), 2), "{more}");
}

#[test]
fn a_turn_ends_with_the_time_of_an_iteration() {
    let sandbox = Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), "sleep 600", "");
    let output = run(&sandbox, &["--set", "event_loop.max_iteration_runtime=1s"]);
    assert!(
        output.stderr.contains("timed out after 1s (limits.iteration.max_runtime)"),
        "{output}"
    );
    assert_eq!(reasons(&sandbox), "backend_timeout");
}

#[test]
fn an_agent_that_reports_nothing_is_not_free() {
    let mute = Sandbox::with_agent(
        env!("CARGO_BIN_EXE_autoloop"),
        "\"$T\" emit step",
        "event_loop.max_iterations = 20",
    );
    let output = run(&mute, &["--budget", "3.50"]);
    assert_snapshot!(told(&mute, &output), @r"
    exit Some(1)
    autoloop: run '[RUN]' stopped: the run took $3.00 of $3.50, and another turn may take $1.00 (limits.max_cost_usd)
      hint: allow more with `autoloop run --resume=[RUN] --budget 7`
    ");
    assert_eq!(turns(&mute), 3);
}

#[test]
fn absurd_reports_count_as_unknown_ones() {
    for cost in ["1e300", "-1", "0", "null", "\"NaN\""] {
        for tokens in [0, u64::MAX] {
            let script = format!("\"$T\" emit step >&2; echo '{}'", result(cost, tokens));
            let sandbox = agent(&script, "");
            let output = run(&sandbox, &["--budget", "3.50"]);
            assert_eq!(
                (turns(&sandbox), reasons(&sandbox)),
                (3, "max_cost".into()),
                "{cost}: {output}"
            );
        }
    }
}

#[test]
fn an_iteration_that_took_too_much_is_the_last() {
    let sandbox = project("limits.iteration.max_cost_usd = 0.2\n");
    let output = run(&sandbox, &[]);
    assert_snapshot!(told(&sandbox, &output), @r"
    exit Some(1)
    autoloop: run '[RUN]' stopped: an iteration took $0.25 of $0.20 (limits.iteration.max_cost_usd)
      hint: allow more with `autoloop run --resume=[RUN] --set limits.iteration.max_cost_usd=0.40`
    ");
    assert_eq!((turns(&sandbox), reasons(&sandbox)), (1, "max_cost".into()));
}

#[test]
fn reviews_count_and_have_limits_of_their_own() {
    let reviewed = "review.every_iterations = 1\nreview.sandbox = 'off'\n";
    let sandbox = project(reviewed);
    let output = run(&sandbox, &["--budget", "1"]);
    assert_eq!(reasons(&sandbox), "max_cost", "{output}");
    assert_eq!((turns(&sandbox), sandbox.fields("review.finish", "exit_code").len()), (2, 2));

    let sandbox = project(&format!("{reviewed}limits.review.max_tokens = 500\n"));
    let output = run(&sandbox, &[]);
    assert_snapshot!(told(&sandbox, &output), @r"
    exit Some(1)
    autoloop: run '[RUN]' stopped: a review took 1000 tokens of 500 (limits.review.max_tokens)
      hint: allow more with `autoloop run --resume=[RUN] --set limits.review.max_tokens=1000`
    ");
    assert_eq!((turns(&sandbox), reasons(&sandbox)), (1, "max_tokens".into()));
}

#[test]
fn an_agent_cannot_raise_its_limits() {
    let raise = format!(
        "\"$T\" emit step >&2; echo 'limits.max_cost_usd = 900' >> autoloops.toml; echo '{}'",
        result("0.25", 10)
    );
    let sandbox = agent(&raise, "");
    let output = run(&sandbox, &["--set", "review.enabled=false"]);
    assert_eq!(reasons(&sandbox), "max_iterations", "{output}");
    let raise =
        raise.replace("echo 'limits", "sed -i 's/^limits.*//' autoloops.toml; echo 'limits");
    let sandbox = agent(&raise, "limits.max_cost_usd = 0.6\n");
    let output = run(&sandbox, &[]);
    assert_eq!((turns(&sandbox), reasons(&sandbox)), (2, "max_cost".into()), "{output}");
}

#[test]
fn branches_of_a_wave_count_for_the_run() {
    let ask = r#"printf -- '- a\n- b\n- c\n- d'"#;
    let script = format!(
        "case $AUTOLOOP_RUN_ID in *-wave-*) ;; *) if [ $N = 1 ]; then \"$T\" emit explore.parallel \"$({ask})\"; else \"$T\" emit step; fi >&2;; esac\necho '{}'",
        result("0.25", 1_000)
    );
    let sandbox = agent(&script, "parallel = { enabled = true, max_branches = 4 }\n");
    let output = run(&sandbox, &["--budget", "0.80"]);
    assert_snapshot!(told(&sandbox, &output), @r"
    exit Some(1)
    autoloop: run '[RUN]' stopped: the run took $0.75 of $0.80, and another turn may take $0.25 (limits.max_cost_usd)
      hint: allow more with `autoloop run --resume=[RUN] --budget 2`
    ");
    // The others wait for the run to be resumed.
    assert_eq!(sandbox.fields("wave.branch.finish", "cost_usd"), ["0.25", "0.25"], "{output}");
    let more = sandbox.run(&["run", ".", "--resume", "--budget", "1.80"]);
    assert_eq!(sandbox.fields("wave.branch.finish", "cost_usd").len(), 4, "{more}");
    assert!(reasons(&sandbox).ends_with("max_cost"), "{more}");
    assert_eq!(sandbox.fields("wave.join.finish", "wave_id").len(), 1, "{more}");
}

const ROLES: &str = "[[role]]\nid = 'a'\nemits = ['x']\n";

fn stalling(script: &str, settings: &str) -> Sandbox {
    let settings = format!("event_loop.max_iterations = 9\n{settings}");
    Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), script, &settings)
}

fn in_git(sandbox: &Sandbox) {
    sandbox.write(".gitignore", "home/\n");
    for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "-m", "first"]] {
        git(sandbox, args);
    }
}

#[test]
fn roles_that_emit_nothing_stall_whatever_they_change() {
    let sandbox = stalling("echo $N >> work; cat \"$AUTOLOOP_PROMPT_PATH\" > prompt-$N", "");
    sandbox.write("topology.toml", ROLES);
    let output = run(&sandbox, &[]);
    assert_snapshot!(told(&sandbox, &output), @r"
    exit Some(1)
    autoloop: run '[RUN]' stopped: 3 iterations in a row emitted no event
      hint: show the output of the agent with `autoloop inspect output 3`
      hint: resume it with `autoloop run --resume=[RUN]`
    ");
    assert_eq!((turns(&sandbox), reasons(&sandbox)), (3, "stalled".into()));
    let prompt = String::from_utf8(sandbox.read("prompt-3")).unwrap();
    assert!(
        prompt.contains("2 iterations in a row brought nothing: after 3 the run ends."),
        "{prompt}"
    );
    // It begins to count again when it is resumed.
    let more = sandbox.run(&["run", ".", "--resume", "--set", "event_loop.stall_iterations=2"]);
    assert_eq!((turns(&sandbox), reasons(&sandbox)), (5, "stalled stalled".into()), "{more}");
}

#[test]
fn a_loop_without_roles_stalls_only_if_it_changes_nothing() {
    let idle = stalling("echo thinking", "");
    in_git(&idle);
    let output = run(&idle, &[]);
    assert_snapshot!(told(&idle, &output), @r"
    exit Some(1)
    autoloop: run '[RUN]' stopped: 3 iterations in a row changed nothing and ended in the same way: no event
      hint: show the output of the agent with `autoloop inspect output 3`
      hint: resume it with `autoloop run --resume=[RUN]`
    ");
    assert_eq!((turns(&idle), reasons(&idle)), (3, "stalled".into()));

    let busy = stalling("echo $N >> work; [ $N = 6 ] && echo LOOP_COMPLETE; true", "");
    in_git(&busy);
    let output = run(&busy, &[]);
    assert_eq!((output.code, turns(&busy)), (Some(0), 6), "{output}");

    // Outside of a repository nothing is known.
    let outside = stalling("echo thinking", "");
    let output = run(&outside, &[]);
    assert_eq!((turns(&outside), reasons(&outside)), (9, "max_iterations".into()), "{output}");

    let off = stalling("echo thinking", "event_loop.stall_iterations = 0\n");
    in_git(&off);
    run(&off, &[]);
    assert_eq!(reasons(&off), "max_iterations");
}

#[test]
fn the_same_refusal_again_and_again_is_a_stall() {
    let sandbox = stalling("\"$T\" emit wrong; true", "");
    sandbox.write("topology.toml", ROLES);
    in_git(&sandbox);
    let output = run(&sandbox, &[]);
    assert_snapshot!(told(&sandbox, &output), @r"
    exit Some(1)
    autoloop: run '[RUN]' stopped: 3 iterations in a row changed nothing and ended in the same way: refused wrong
      hint: show the output of the agent with `autoloop inspect output 3`; its standard error is in [DIR]/.autoloop/runs/[RUN]/iteration-3.err
      hint: resume it with `autoloop run --resume=[RUN]`
    ");
    assert_eq!((turns(&sandbox), reasons(&sandbox)), (3, "stalled".into()));

    // A completion that does not count, with a change in between.
    let claim = "\"$T\" emit task.complete; [ $N = 3 ] && echo more >> work; true";
    let sandbox = stalling(claim, "event_loop.required_events = ['tests.passed']\n");
    in_git(&sandbox);
    let output = run(&sandbox, &[]);
    assert_snapshot!(told(&sandbox, &output), @r"
    exit Some(1)
    autoloop: run '[RUN]' stopped: 3 iterations in a row changed nothing and ended in the same way: task.complete did not count
      hint: show the output of the agent with `autoloop inspect output 5`
      hint: resume it with `autoloop run --resume=[RUN]`
    ");
    assert_eq!((turns(&sandbox), reasons(&sandbox)), (5, "stalled".into()));
}
