//! How runs end, crash and run side by side, in cases where other loop runners are known to hang,
//! to leave processes behind, or to disturb each other.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{Reaped, skip, until};
use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};

fn shell(agent: &str, settings: &str) -> Sandbox {
    Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), agent, settings)
}

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

/// Waits for its exit. Orphans of its agents sleep for much longer than this waits.
fn ended(mut harness: Reaped) -> ExitStatus {
    until("the end of the harness", || harness.0.try_wait().unwrap())
}

// Signals and limits.

#[test]
fn a_child_that_keeps_the_output_open_does_not_delay_an_interrupt() {
    let agent = "sleep 711 & setsid sleep 712 & touch there; sleep 713";
    let sandbox = shell(agent, "");
    let harness = start(&sandbox, &["run", "."]);
    wait_for(&sandbox, "there");
    signal(&harness, Signal::TERM);
    assert_eq!(ended(harness).code(), Some(143));
    assert_eq!(sandbox.survivors(), "");
    assert_eq!(sandbox.fields("loop.stop", "reason"), ["interrupted"]);
}

#[test]
fn an_interrupt_in_a_review_waits_for_no_child_of_it() {
    let agent = "[ -z \"$AUTOLOOP_REVIEW_MODE\" ] && exit; mkdir -p .autoloop/logs; setsid sleep 721 & trap '' TERM; touch .autoloop/logs/there; while :; do sleep 0.1; done";
    let sandbox = shell(agent, "review.sandbox = 'off'");
    let harness = start(&sandbox, &["run", "."]);
    wait_for(&sandbox, ".autoloop/logs/there");
    signal(&harness, Signal::INT);
    assert_eq!(ended(harness).code(), Some(130));
    assert_eq!(sandbox.survivors(), "");
    assert_eq!(sandbox.fields("loop.stop", "reason"), ["interrupted"]);
    assert_eq!(sandbox.fields("iteration.start", "run").len(), 1, "nothing began after it");
}

#[test]
fn a_second_interrupt_waits_for_no_grace() {
    let agent = "trap '' TERM INT; touch there; while :; do sleep 0.1; done";
    let sandbox = shell(agent, "");
    let harness = start(&sandbox, &["run", ".", "--set", "backend.grace_ms=600000"]);
    wait_for(&sandbox, "there");
    signal(&harness, Signal::INT);
    // Two equal signals at the same moment are delivered as one.
    signal(&harness, Signal::TERM);
    let code = ended(harness).code();
    assert!(matches!(code, Some(130 | 143)), "{code:?}");
    until("the end of the agents", || sandbox.survivors().is_empty().then_some(()));
}

#[test]
fn a_time_limit_holds_whichever_process_keeps_the_output_open() {
    for agent in
        ["sleep 731 & setsid sleep 732 & sleep 733", "trap '' TERM; setsid sleep 734 & sleep 735"]
    {
        let sandbox = shell(agent, "backend.timeout_ms = 300");
        assert_eq!(ended(start(&sandbox, &["run", "."])).code(), Some(1));
        assert_eq!(sandbox.survivors(), "");
        assert_eq!(sandbox.fields("loop.stop", "reason"), ["backend_timeout"]);
    }
}

#[test]
fn a_review_that_leaves_everything_running_is_over_at_its_limit() {
    let agent = "[ -z \"$AUTOLOOP_REVIEW_MODE\" ] && exit; setsid sleep 741 & sleep 742 & trap '' TERM; while :; do sleep 0.1; done";
    for bounds in ["auto", "off"] {
        let sandbox = shell(agent, "review.timeout_ms = 300");
        let bounds = format!("review.sandbox={bounds}");
        let harness = start(&sandbox, &["run", ".", "-i", "2", "--set", &bounds]);
        assert_eq!(ended(harness).code(), Some(1));
        assert_eq!(sandbox.survivors(), "");
        assert_eq!(sandbox.fields("review.finish", "timed_out"), ["true"]);
        assert_eq!(sandbox.fields("loop.stop", "reason"), ["max_iterations"]);
    }
}

#[test]
fn a_killed_harness_ends_all_its_processes() {
    let iteration = "sleep 751 & setsid sleep 752 & (setsid sh -c 'trap \"\" TERM; sleep 753 & wait' &); trap '' TERM; touch .autoloop/there; while :; do sleep 0.1; done";
    let review = format!(
        "[ -z \"$AUTOLOOP_REVIEW_MODE\" ] && exit; mkdir -p .autoloop/logs; {}",
        iteration.replace("/there", "/logs/there")
    );
    for (agent, there) in [(iteration, ".autoloop/there"), (&review, ".autoloop/logs/there")] {
        let sandbox = shell(agent, "review.sandbox = 'off'");
        let harness = start(&sandbox, &["run", "."]);
        wait_for(&sandbox, there);
        signal(&harness, Signal::KILL);
        assert_eq!(ended(harness).signal(), Some(9));
        until("the end of all", || sandbox.survivors().is_empty().then_some(()));
    }
}

// Orphans, by setting.

#[test]
fn orphans_are_ended_or_reported_or_kept_by_setting() {
    for (word, stay) in [("kill", false), ("warn", true), ("keep", true)] {
        let sandbox = shell("sleep 761 & echo $! > pid; echo LOOP_COMPLETE", "");
        let leftovers = format!("backend.leftovers={word}");
        let output = sandbox.run(&["run", ".", "--set", &leftovers]);
        assert_eq!(output.code, Some(0), "{word}: {output}");
        assert_eq!(sandbox.survivors(), if stay { "sleep 761 " } else { "" }, "{word}");
        let pid = String::from_utf8(sandbox.read("pid")).unwrap();
        let note = format!("note: the agent left processes behind: [{}]\n", pid.trim());
        assert_eq!(output.stderr.contains(&note), word == "warn", "{word}: {output}");
        if stay {
            let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
            kill_process(pid, Signal::KILL).unwrap();
        }
    }
}

// Resuming.

#[test]
fn a_resumed_run_keeps_its_flags() {
    let sandbox = shell("exit 9", "");
    sandbox.write(
        "other.sh",
        "echo \"$AUTOLOOP_ITERATION $1\" >> turns; [ -e waited ] || { touch waited; sleep 771; }",
    );
    let flags = [
        "-i",
        "3",
        "-b",
        "sh other.sh",
        "--set",
        "event_loop.completion_promise=never",
        "--",
        "--extra",
    ];
    let mut harness = start(&sandbox, &[&["run", ".", "make it"], &flags[..]].concat());
    wait_for(&sandbox, "waited");
    signal(&harness, Signal::KILL);
    harness.0.wait().unwrap();
    assert_eq!(sandbox.run(&["run", "--resume"]).code, Some(1));
    assert_eq!(sandbox.fields("loop.stop", "max_iterations"), ["3"]);
    assert_eq!(sandbox.read("turns"), b"1 --extra\n1 --extra\n2 --extra\n3 --extra\n");

    // Flags of this command take precedence and are kept for the next resume.
    let id = sandbox.fields("loop.start", "run").remove(0);
    assert_eq!(sandbox.run(&["run", "--resume", &id, "-i", "4", "--", "--more"]).code, Some(1));
    assert_eq!(sandbox.run(&["run", ".", "--resume", &id, "-i", "5"]).code, Some(1));
    assert!(sandbox.read("turns").ends_with(b"4 --more\n5 --more\n"), "{}", sandbox.topics());
    assert_snapshot!(sandbox.run(&["run", ".", "--resume", &id, "and", "then"]).stderr.replace(&id, "[RUN]"), @"
    autoloop: unexpected 'and then': run '[RUN]' is resumed with its original objective
      hint: type `autoloop run --resume=RUN DIR` and nothing else
    ");
    assert_snapshot!(sandbox.run(&["run", ".", "--resume", "no-such-run"]), @r"
    exit 1
    --- stderr
    autoloop: no run 'no-such-run' in [DIR]/.autoloop/journal.jsonl
      hint: list all runs with `autoloop loops --all`
      hint: start a new run with `autoloop run DIR`
    ");
}

#[test]
fn two_runs_with_reviews_work_side_by_side() {
    let agent = r#"
if [ -n "$AUTOLOOP_REVIEW_MODE" ]; then
  $T memory add learning "a lesson of $AUTOLOOP_RUN_ID before $N" > /dev/null
  exit
fi
# Every turn of one lies beside a turn or a review of the other.
echo "$N" >> "work.$AUTOLOOP_RUN_ID"
$T emit "turn.$N" "$AUTOLOOP_RUN_ID""#;
    for bounds in ["auto", "off"] {
        let settings = format!("review.every_iterations = 1\nreview.sandbox = '{bounds}'");
        let sandbox = shell(agent, &settings);
        let mut runs = ["one", "two"].map(|name| start(&sandbox, &["run", ".", name, "-i", "5"]));
        for run in &mut runs {
            assert_eq!(run.0.wait().unwrap().code(), Some(1), "{bounds}");
        }
        assert!(sandbox.fields("review.violation", "path").is_empty(), "{}", sandbox.story());
        for id in sandbox.fields("loop.start", "run") {
            let work = String::from_utf8(sandbox.read(format!("work.{id}"))).unwrap();
            assert_eq!(work, "1\n2\n3\n4\n5\n", "{bounds}: what a run did stays done");
            let metrics = sandbox.run(&["inspect", "metrics", "--run", &id, "--format", "csv"]);
            let events = metrics.stdout.lines().skip(1).map(|line| line.split(',').nth(2).unwrap());
            let expected = ["turn.1", "turn.2", "turn.3", "turn.4", "turn.5"];
            assert_eq!(events.collect::<Vec<_>>(), expected, "{bounds}: {metrics}");
            let memory = sandbox.run(&["memory", "list", "--run", &id, "--tier", "run"]).stdout;
            let own = |line: &&str| line.contains(&format!("a lesson of {id} before"));
            assert_eq!(memory.lines().filter(own).count(), 4, "{bounds}: {memory}");
            assert_eq!(memory.lines().count(), 4, "{bounds}: {memory}");
        }
        assert_eq!(sandbox.run(&["journal", "verify"]).code, Some(0), "{bounds}");
    }
}

#[test]
fn runs_that_begin_at_the_same_moment_all_begin() {
    let sandbox = shell("true", "core.run_id_format = 'counter'");
    let mut runs: Vec<Reaped> = (0..6).map(|_| start(&sandbox, &["run", ".", "-i", "1"])).collect();
    for run in &mut runs {
        assert_eq!(run.0.wait().unwrap().code(), Some(1));
    }
    let mut ids = sandbox.fields("loop.start", "run");
    ids.sort();
    assert_eq!(ids, ["run-1", "run-2", "run-3", "run-4", "run-5", "run-6"]);
    assert_eq!(sandbox.fields("loop.stop", "reason"), ["max_iterations"; 6]);
}

#[test]
fn a_run_that_cannot_begin_takes_no_name() {
    let sandbox = shell("true", "core.run_id_format = 'counter'");
    sandbox.write("topology.toml", "not TOML");
    assert_eq!(sandbox.run(&["run", "."]).code, Some(2));
    fs::remove_file(sandbox.path("topology.toml")).unwrap();
    assert_eq!(sandbox.run(&["run", "."]).code, Some(1));
    assert_eq!(sandbox.fields("loop.start", "run"), ["run-1"]);
}

// A full disk.

/// A disk of three megabytes, in a mount namespace that ends with the process.
const ON_A_SMALL_DISK: &str = "mount -t tmpfs -o size=3m tmpfs small && exec \"$@\"";

/// On the small disk: runs until it is full, makes room, resumes.
const UNTIL_FULL: &str = r#"
cp autoloops.toml agent.sh small
cd small
"$1" run . 'fill it'; echo "exit $?"
"$1" journal verify
rm .autoloop/runs/*/*.out; touch ../small.has-room
"$1" run --resume . ; echo "exit $?"
"$1" journal verify
cp .autoloop/journal.jsonl .."#;

#[test]
fn a_full_disk_stops_a_run_which_resumes_once_there_is_room() {
    const NAME: &str = "a_full_disk_stops_a_run_which_resumes_once_there_is_room";
    let agent = "[ -e ../small.has-room ] && { echo LOOP_COMPLETE; exit; }; head -c 300000 /dev/zero | tr '\\0' x";
    let sandbox = shell(agent, "event_loop.max_iterations = 30");
    fs::create_dir(sandbox.path("small")).unwrap();
    let in_namespace = |options: &[&str], args: &[&Path]| -> Command {
        let mut unshare = sandbox.at_home("unshare");
        unshare.args(options).args(["sh", "-c", ON_A_SMALL_DISK, "sh"]).args(args);
        unshare
    };
    let options = [&["--mount"][..], &["--mount", "--map-root-user"]];
    let works = |options: &&&[&str]| {
        let probe = in_namespace(options, &[Path::new("true")]).output();
        probe.is_ok_and(|output| output.status.success())
    };
    let Some(options) = options.iter().find(works) else {
        return skip(NAME, "no disk may be mounted here");
    };
    let script = Path::new(UNTIL_FULL);
    let args = [Path::new("sh"), Path::new("-c"), script, Path::new("sh"), sandbox.binary()];
    let output = sandbox.finish(in_namespace(options, &args));
    let journal = String::from_utf8(sandbox.read("journal.jsonl")).unwrap();
    let id = journal.split('"').nth(3).unwrap();
    let done = journal.matches("\"topic\": \"iteration.finish\"").count();
    let shown =
        output.to_string().replace(id, "[RUN]").replace(&format!("after {done} "), "after N ");
    let shown = shown
        .lines()
        .map(|line| match line.split_once("resumes at iteration ") {
            Some((run, _)) => format!("{run}resumes at iteration N\n"),
            None => format!("{line}\n"),
        })
        .collect::<String>();
    assert_eq!(shown.matches(" lines, no problems").count(), 2, "{shown}");
    // The number of iterations that fit depends on the system.
    let is_shown = |line: &&str| {
        !line.starts_with("iteration ") && !line.contains(" records in ") && *line != "  no event"
    };
    let shown: Vec<&str> = shown.lines().filter(is_shown).collect();
    assert_snapshot!(shown.join("\n"), @r"
    exit 0
    --- stdout
    exit 1
    run [RUN]: completed (completion_promise) after N iterations
    exit 0
    --- stderr
    run [RUN] begins
    autoloop: not stored: no space left for [DIR]/small/.autoloop/journal.jsonl (No space left on device (os error 28)); nothing was stored
      hint: free some space and try again: existing records are intact
      hint: then resume it with `autoloop run --resume=[RUN]`
    run [RUN] resumes at iteration N
    ");
    assert_eq!(journal.matches("\"topic\": \"loop.resume\"").count(), 1);
    assert_eq!(journal.matches("\"topic\": \"loop.complete\"").count(), 1);
}

// Why an agent failed.

/// An agent that says why it fails, in colour and between other lines.
const NO_MODEL: &str =
    r"printf 'loading\rready\n\033[31merror: no such model\033[0m\n\n' >&2; echo hi; exit 7";
const NO_MODEL_TOLD: &str = "the agent failed (exit code 7): error: no such model";

#[test]
fn why_an_agent_failed_is_in_every_record_and_view() {
    let sandbox = shell(NO_MODEL, "");
    let output = sandbox.run(&["run", ".", "make it"]);
    assert!(output.stderr.contains(&format!("  {NO_MODEL_TOLD}\n")), "{output}");
    assert!(output.stderr.contains(&format!("' failed: {NO_MODEL_TOLD}\n")), "{output}");
    for topic in ["backend.finish", "iteration.finish"] {
        assert_eq!(sandbox.fields(topic, "detail"), ["error: no such model"], "{topic}");
    }
    assert_eq!(sandbox.fields("loop.stop", "detail"), [NO_MODEL_TOLD]);
    for view in [
        &["loops", "show", "latest"][..],
        &["loops", "show", "latest", "--json"],
        &["loops", "--json"],
        &["loops", "watch", "latest"],
        &["watch", "--once"],
        &["watch", "--once", "--json"],
        &["run", ".", "make it", "--json"],
    ] {
        let shown = sandbox.run(view);
        assert!(shown.to_string().contains(NO_MODEL_TOLD), "{view:?}: {shown}");
    }
    let verbose = sandbox.run(&["run", ".", "-v", "make it"]);
    assert!(verbose.stderr.contains(&format!("  {NO_MODEL_TOLD}\n")), "{verbose}");
}

#[test]
fn an_agent_without_a_word_on_standard_error_is_quoted_from_its_output() {
    let sandbox = shell("echo 'Invalid API key'; exit 1", "");
    let output = sandbox.run(&["run", ".", "make it"]);
    let told = "failed: the agent failed (exit code 1): Invalid API key\n";
    assert!(output.stderr.contains(told), "{output}");
}

#[test]
fn a_failure_that_a_client_reports_is_the_reason() {
    let stream = r#"echo noise >&2; echo '{"type":"result","subtype":"error_during_execution","is_error":true,"result":"API Error: 401"}'"#;
    let sandbox = shell(stream, "backend.output = 'claude'");
    let output = sandbox.run(&["run", ".", "make it"]);
    let told = "failed: the agent failed (exit code 1): API Error: 401\n";
    assert!(output.stderr.contains(told), "{output}");
}

#[test]
fn a_long_reason_is_bounded() {
    let sandbox = shell("head -c 100000 /dev/zero | tr '\\0' x >&2; exit 1", "");
    sandbox.run(&["run", ".", "make it"]);
    let detail = sandbox.fields("loop.stop", "detail").remove(0);
    assert!(detail.len() < 1_000 && detail.contains("xxxx"), "{}", detail.len());
}

#[test]
fn a_timeout_names_the_limit_and_what_sets_it() {
    let sandbox = shell("sleep 741", "backend.timeout_ms = 250");
    let output = sandbox.run(&["run", ".", "make it"]);
    let told = "the agent timed out after 250ms (backend.timeout_ms)";
    assert!(output.stderr.contains(&format!("  {told}\n")), "{output}");
    assert!(output.stderr.contains(&format!("' failed: {told}\n")), "{output}");
    assert_eq!(sandbox.fields("loop.stop", "detail"), [told]);
    assert_eq!(sandbox.fields("iteration.finish", "detail"), ["after 250ms (backend.timeout_ms)"]);

    sandbox.write("topology.toml", "[[role]]\nid = 'a'\nemits = ['x']\nbackend_timeout_ms = 260\n");
    let output = sandbox.run(&["run", ".", "make it"]);
    let told = "failed: the agent timed out after 260ms (backend_timeout_ms of role 'a')\n";
    assert!(output.stderr.contains(told), "{output}");
}

#[test]
fn an_interrupt_is_not_reported_as_a_failure_of_the_agent() {
    for (sent, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let sandbox = shell("touch there; sleep 742", "");
        let log = fs::File::create(sandbox.path("log")).unwrap();
        let mut command = sandbox.command();
        command.args(["run", ".", "-v", "make it"]).stdout(Stdio::null()).stderr(log);
        let harness = Reaped::start(command);
        wait_for(&sandbox, "there");
        signal(&harness, sent);
        assert_eq!(ended(harness).code(), Some(code));
        let told = String::from_utf8(sandbox.read("log")).unwrap();
        assert!(told.contains("  the agent was interrupted\n"), "{told}");
        assert!(told.contains("was interrupted\n  hint: "), "{told}");
        let mut views = told;
        for view in [&["loops", "show", "latest"][..], &["loops", "watch"], &["watch", "--once"]] {
            views.push_str(&sandbox.run(view).to_string());
        }
        assert!(!views.contains("fail") && !views.contains("exit code"), "{views}");
        assert_eq!(sandbox.fields("iteration.finish", "interrupted"), ["true"]);
    }
}
