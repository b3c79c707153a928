//! Cases in which other loop runners are known to fail: what agents print, what they read, what
//! they call, and what the user sees. How runs end and crash is in `loop_ends.rs`.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::fs;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::write_program;
use insta::assert_snapshot;

fn shell(agent: &str, settings: &str) -> Sandbox {
    Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), agent, settings)
}

/// The recorded values of a field, unescaped.
fn said(sandbox: &Sandbox, topic: &str, name: &str) -> Vec<String> {
    let read = |value: String| serde_json::from_str(&format!("\"{value}\"")).unwrap();
    sandbox.fields(topic, name).into_iter().map(read).collect()
}

const THREE: &str = "[[role]]\nid = 'a'\nemits = ['a.done']\nprompt = \"\"\"The first line of a.\nThe second line of a.\"\"\"\n[[role]]\nid = 'b'\nemits = ['b.done']\nprompt = \"\"\"The first line of b.\nThe second line of b.\"\"\"\n[handoff]\n'loop.start' = 'a'\n'a.done' = 'b'\n'b.done' = 'a'\n";

// Cases, by what was done.

#[test]
fn metrics_show_the_outcomes_of_the_run() {
    let agent = "case $N in 1) $T emit a.done; echo LOOP_COMPLETE;; 2) $T emit bogus; true;; 3) ;; 4) $T emit b.done;; 5) exit 7;; esac";
    let sandbox = shell(agent, "event_loop.max_iterations = 9");
    sandbox.write("topology.toml", THREE);
    assert_eq!(sandbox.run(&["run", "."]).code, Some(1));
    let csv = sandbox.run(&["inspect", "metrics", "--format", "csv"]).stdout;
    let column = |line: &str, n: usize| line.split(',').nth(n).unwrap().to_owned();
    let told: Vec<String> =
        csv.lines().skip(1).map(|line| [2, 4, 6].map(|n| column(line, n)).join(" ")).collect();
    assert_snapshot!(told.join("\n"), @r"
    a.done 0 continue:routed_event
     0 rejected:event.invalid
     0 continue
    b.done 0 continue:routed_event
     7 stop:backend_failed
    ");
}

#[test]
fn the_prompt_of_a_seventh_iteration_has_two_in_short_and_four_in_full() {
    let agent = "printf 'turn %s ' $N; head -c 150 /dev/zero | tr '\\0' x; echo; echo more of $N";
    let sandbox = shell(agent, "event_loop.max_iterations = 7");
    assert_eq!(sandbox.run(&["run", "."]).code, Some(1));
    let prompt = said(&sandbox, "iteration.start", "prompt").remove(6);
    let bullets: Vec<&str> = prompt.lines().filter(|line| line.contains("exit_code=0 —")).collect();
    assert_eq!(bullets.len(), 2, "{prompt}");
    for (bullet, n) in bullets.iter().zip(1..) {
        let shown = bullet.split_once("— ").unwrap().1;
        assert_eq!(shown, format!("turn {n} {}...", "x".repeat(113)), "{n}");
    }
    let in_full = |n: &u32| prompt.contains(&format!("more of {n}\n"));
    assert_eq!((1..=6).filter(in_full).collect::<Vec<_>>(), [3, 4, 5, 6]);
}

#[test]
fn a_role_that_acts_gets_all_of_its_prompt_and_the_others_are_named() {
    let sandbox = shell("[ $N = 1 ] && $T emit a.done; true", "event_loop.max_iterations = 2");
    sandbox.write("topology.toml", THREE);
    assert_eq!(sandbox.run(&["run", "."]).code, Some(1));
    for (prompt, (acting, other)) in
        said(&sandbox, "iteration.start", "prompt").iter().zip([("a", "b"), ("b", "a")])
    {
        assert!(prompt.contains(&format!("The second line of {acting}.")), "{prompt}");
        assert!(prompt.contains(&format!("The first line of {other}.")), "{prompt}");
        assert!(!prompt.contains(&format!("The second line of {other}.")), "{prompt}");
        assert!(prompt.contains(&format!("{other}.done")), "{prompt}");
    }
}

#[test]
fn metrics_of_nothing_are_nothing_in_every_format() {
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    for (format, expected) in [
        ("md", "No metrics data available.\n"),
        ("csv", "iteration,role,event,elapsed_s,exit_code,timed_out,outcome\r\n"),
        ("json", "[]\n"),
    ] {
        let output = sandbox.run(&["inspect", "metrics", "--format", format]);
        assert_eq!((output.code, output.stdout.as_str()), (Some(0), expected), "{format}");
    }
}

#[test]
fn a_comma_and_a_quote_in_a_topic_are_quoted_in_csv() {
    let record = |topic, rest| {
        format!("{{\"run\": \"r\", \"iteration\": \"1\", \"topic\": \"{topic}\", {rest}}}\n")
    };
    let journal = [
        record("loop.start", "\"fields\": {}"),
        record(
            "iteration.start",
            "\"fields\": {\"recent_event\": \"loop.start\", \"suggested_roles\": \"a,b\", \"allowed_events\": \"\"}",
        ),
        record("a,\\u0022b\\u0022", "\"payload\": \"\", \"source\": \"agent\""),
        record(
            "iteration.finish",
            "\"fields\": {\"exit_code\": \"0\", \"timed_out\": false, \"elapsed_s\": 1, \"output\": \"\"}",
        ),
    ];
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    sandbox.write_journal(journal.concat());
    let output = sandbox.run(&["inspect", "metrics", "--format", "csv"]);
    assert_eq!(
        output.stdout.lines().nth(1),
        Some("1,\"a,b\",\"a,\"\"b\"\"\",1,0,false,continue:routed_event"),
        "{output}"
    );
}

#[test]
fn what_is_remembered_reaches_the_next_prompt_within_its_budget() {
    let agent = "i=0; while [ $i -lt 9 ]; do i=$((i+1)); $T memory add learning \"lesson $i of $N, and some more words about it\"; done >&2; $T memory add preference style short >&2";
    let sandbox = shell(agent, "event_loop.max_iterations = 2\nmemory.prompt_budget_chars = 300");
    assert_eq!(sandbox.run(&["run", "."]).code, Some(1));
    let prompt = said(&sandbox, "iteration.start", "prompt").remove(1);
    let memory = prompt.split("Loop memory:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    assert!(memory.contains("short") && memory.contains("lesson 9 of 1"), "{memory}");
    assert!(!memory.contains("lesson 1 of 1"), "{memory}");
    assert!(memory.lines().all(|line| !line.contains("lesson") || line.contains("about it")));
}

#[test]
fn three_hundred_iterations_of_200_kb_of_odd_bytes_are_all_kept() {
    let odd: Vec<u8> = [
        &b"x".repeat(65_535)[..],
        "é\0".as_bytes(),
        &b"y".repeat(65_533),
        "€".as_bytes(),
        b"\xff\0",
        &b"z".repeat(69_000),
    ]
    .concat();
    let sandbox = shell("", "event_loop.max_iterations = 300\njournal.sync = 'never'");
    sandbox.write("odd", &odd).write("agent.sh", "exec cat odd");
    assert_eq!(sandbox.run(&["run", "."]).code, Some(1));

    let journal = String::from_utf8(sandbox.read(".autoloop/journal.jsonl")).unwrap();
    let expected = format!(
        "\"output\": \"{}é\\u0000{}€\u{fffd}\\u0000{}\"",
        "x".repeat(65_535),
        "y".repeat(65_533),
        "z".repeat(69_000)
    );
    let is_finish = |line: &&str| {
        line.contains("\"topic\": \"iteration.finish\", \"fields\": {\"exit_code\": \"0\"")
            && line.contains(&expected)
    };
    assert_eq!(journal.lines().filter(is_finish).count(), 300);
    let end = journal.lines().next_back().unwrap();
    assert!(end.contains("\"reason\": \"max_iterations\""), "{end}");

    // A journal that is larger than the available memory can be inspected.
    let mut metrics = sandbox.at_home("sh");
    metrics.args(["-c", "ulimit -v 100000; exec \"$0\" inspect metrics --format csv"]);
    metrics.arg(sandbox.binary());
    assert!(journal.len() > 120_000_000);
    let output = sandbox.finish(metrics);
    assert_eq!((output.code, output.stdout.lines().count()), (Some(0), 301), "{}", output.stderr);
}

#[test]
fn the_sample_of_the_specification_is_read_as_it_is() {
    let sample = "You are the loop's meta agent.\n\nYou may modify runtime-facing loop files on disk when that will make the next iterations better.\nPrefer bounded hygiene edits to `autoloops.toml`, `topology.toml`, `harness.md`, `metareview.md`, `roles/*.md`, `.autoloop/context.md`, `.autoloop/plan.md`, `.autoloop/progress.md`, `.autoloop/logs/`, and `.autoloop/docs/*.md`.\nDo not edit app/product source code, tests, package manifests, `.autoloop/` state, or journal history during review.\n";
    let sandbox = shell("true", "review.every_iterations = 1\nevent_loop.max_iterations = 2");
    sandbox.write("metareview.md", sample);
    let output = sandbox.run(&["run", "."]);
    assert_eq!(output.code, Some(1));
    assert!(!output.stderr.contains("warning"), "{output}");
    let prompt = said(&sandbox, "review.start", "prompt").remove(0);
    assert!(prompt.contains(sample.trim_end()), "{prompt}");
}

// Failures that must not happen, by cause.

#[test]
fn an_output_that_outgrows_its_file_says_how_much_is_missing() {
    let agent = "echo begun; head -c 3000000 /dev/zero | tr '\\0' x; echo LOOP_COMPLETE; head -c 3000000 /dev/zero | tr '\\0' y; echo ended";
    let sandbox = shell(agent, "backend.output_cap = 2500000");
    let output = sandbox.run(&["run", "."]);
    assert_eq!(output.code, Some(0), "what is not kept is still looked through");
    assert!(
        output
            .stderr
            .contains("note: the agent printed 6000026 bytes, only the first 2500000 are stored\n"),
        "{output}"
    );
    for topic in ["backend.finish", "iteration.finish"] {
        let said = said(&sandbox, topic, "output").remove(0);
        let (head, tail) = said.split_once("\n[... 3902874 bytes left out ...]\n").unwrap();
        assert!(head.starts_with("begun\nxxx") && tail.ends_with("yyyended\n"), "{topic}");
    }
    let id = sandbox.fields("loop.start", "run").remove(0);
    let file = sandbox.read(format!(".autoloop/runs/{id}/iteration-1.out"));
    assert_eq!(file.len(), 2_500_000);
}

#[test]
fn an_agent_that_deletes_its_files_changes_nothing_on_record() {
    let agent = "head -c 100000 /dev/zero | tr '\\0' x; rm .autoloop/runs/*/*.out";
    let sandbox = shell(agent, "event_loop.max_iterations = 2");
    assert_eq!(sandbox.run(&["run", "."]).code, Some(1));
    let outputs = sandbox.fields("iteration.finish", "output");
    assert!(outputs == ["x".repeat(100_000), "x".repeat(100_000)], "it is not what was printed");
    assert_eq!(sandbox.fields("loop.stop", "reason"), ["max_iterations"]);
}

#[test]
fn an_agent_that_does_not_exist_is_refused_before_the_run_begins() {
    let sandbox = shell("", "");
    assert_snapshot!(sandbox.run(&["run", ".", "-b", "no-such-agent"]), @"
    exit 1
    --- stderr
    autoloop: cannot start 'no-such-agent': not found in PATH; backend.command (flag: --backend) names it
      hint: install it, put its directory on PATH, make it executable, or name another agent
    ");
    sandbox.write("plain.txt", "");
    let output = sandbox.run(&["run", ".", "-b", ""]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("--backend"), "{output}");
    for (args, message) in [
        (&["run", ".", "-b", "./plain.txt"][..], "plain.txt"),
        (&["run", "autofix", "mend it", "-b", "no-such-agent --fast"], "no-such-agent"),
        (&["run", ".", "--set", "backend.kind=script", "-b", "no-such-script"], "no-such-script"),
        (&["run", "--chain", "autofix,.", "-b", "no-such-agent", "mend it"], "no-such-agent"),
    ] {
        let output = sandbox.run(args);
        assert_eq!(output.code, Some(1), "{args:?}: {output}");
        assert!(output.stderr.contains(message), "{args:?}: {output}");
    }
    let chains = "[[chain]]\nname = 'one'\n[[chain.step]]\npreset = 'autofix'\nbackend = { command = 'no-such-step' }\n";
    sandbox.write("chains.toml", chains);
    let output = sandbox.run(&["chain", "run", "one", ".", "mend it"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stderr.contains("no-such-step"), "{output}");
    let role = "[[role]]\nid = 'a'\nemits = ['x']\n[[role]]\nid = 'b'\nemits = ['y']\nbackend_command = 'no-such-role'\n";
    sandbox.write("topology.toml", role);
    assert_snapshot!(sandbox.run(&["run", ".", "make it"]), @"
    exit 1
    --- stderr
    autoloop: cannot start 'no-such-role': not found in PATH; backend_command of role 'b' names it
      hint: install it, put its directory on PATH, make it executable, or name another agent
    ");
    assert!(!sandbox.path(".autoloop").exists(), "nothing was created");
}

/// A run whose agent is no longer installed is not resumed, and does not fail.
#[test]
fn a_run_whose_agent_is_gone_is_not_resumed() {
    let sandbox = shell("exit 9", "");
    write_program(sandbox.path("agent"), "#!/bin/sh\nexit 9\n");
    assert_eq!(sandbox.run(&["run", ".", "-b", "./agent"]).code, Some(1));
    let before = sandbox.journal();
    std::fs::remove_file(sandbox.path("agent")).unwrap();
    let id = sandbox.fields("loop.start", "run").remove(0);
    let output = sandbox.run(&["run", &format!("--resume={id}")]);
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(sandbox.journal(), before);
}

#[test]
fn an_agent_that_says_why_it_failed_is_pointed_to() {
    let sandbox = shell("echo I looked; exit 127", "");
    let output = sandbox.run(&["run", "."]);
    let hint = "hint: show the output of the agent with `autoloop inspect output 1`\n";
    assert!(output.stderr.contains(hint), "{output}");
}

#[test]
fn a_missing_role_prompt_is_an_error() {
    let sandbox = shell("true", "");
    sandbox.write("topology.toml", "[[role]]\nid = 'a'\nemits = ['x']\nprompt_file = 'a.md'\n");
    assert_snapshot!(sandbox.run(&["run", "."]), @"
    exit 2
    --- stderr
    error: prompt_file of role 'a' is 'a.md'
     --> [DIR]/topology.toml:4:15
      |
    4 | prompt_file = 'a.md'
      |               ^^^^^^ there is no [DIR]/a.md

    autoloop: the settings cannot be used because of this error
    ");
    assert_eq!(sandbox.journal(), "");
}

#[test]
fn an_event_with_a_comma_is_refused_where_it_is_named_and_where_it_is_emitted() {
    let sandbox = shell("$T emit a,b 2>&1; echo $?", "event_loop.max_iterations = 1");
    assert_eq!(sandbox.run(&["run", "."]).code, Some(1));
    assert_snapshot!(said(&sandbox, "iteration.finish", "output").remove(0), @"
    autoloop: topic 'a,b' contains a comma, and lists of events are separated by commas; a topic is a word like review.ready
    2
    ");
    sandbox.write("topology.toml", "[[role]]\nid = 'a'\nemits = ['a,b']\n");
    assert_snapshot!(sandbox.run(&["run", "."]), @"
    exit 2
    --- stderr
    error: topic 'a,b' contains a comma, and lists of events are separated by commas; a topic is a word like review.ready, in `role.emits`
     --> [DIR]/topology.toml:3:10
      |
    3 | emits = ['a,b']
      |          ^^^^^

    autoloop: the settings cannot be used because of this error
    ");
}

#[test]
fn names_and_payloads_in_any_script_route() {
    let agent = "case $N in 1) $T emit überprüft.完了 'größer — 完了 🎉';; *) exit 9;; esac";
    let sandbox = shell(agent, "");
    sandbox.write(
        "topology.toml",
        "[[role]]\nid = 'планировщик'\nemits = ['überprüft.完了']\n[[role]]\nid = 'b'\nemits = ['x']\n[handoff]\n'loop.start' = 'планировщик'\n'überprüft.完了' = 'b'\n",
    );
    assert_eq!(sandbox.run(&["run", "."]).code, Some(1));
    assert_eq!(sandbox.fields("überprüft.完了", "payload"), ["größer — 完了 🎉"]);
    assert_eq!(sandbox.fields("iteration.start", "suggested_roles"), ["планировщик", "b"]);
}

#[test]
fn the_tool_works_in_every_shell_and_from_every_directory() {
    let shells: Vec<&str> = ["sh", "dash", "bash", "ksh", "zsh", "fish", "busybox"]
        .into_iter()
        .filter(|shell| {
            let there = |dir: &std::path::PathBuf| dir.join(shell).exists();
            std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|d| there(&d))
        })
        .collect();
    let emit = |shell: &&str| {
        let run = if *shell == "busybox" { "busybox sh" } else { shell };
        format!(
            "cd / && {run} -c '\"$AUTOLOOP_BIN\" emit by.{shell} \"two  words\" \\$x' || exit 9\n"
        )
    };
    let agent: String = shells.iter().map(emit).collect();
    let home = shell("", "");
    let project = home.path("it's \"a\" $b `c` }d \\e é ~ *\n");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("agent.sh"), agent).unwrap();
    fs::copy(home.path("autoloops.toml"), project.join("autoloops.toml")).unwrap();
    let mut command = home.command();
    command.args(["run", ".", "-i", "1"]).current_dir(&project);
    let output = home.finish(command);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stdout.contains("max_iterations"), "{output}");

    let mut by_hand = home.at_home(project.join(".autoloop/autoloops"));
    by_hand.args(["emit", "by.hand"]).current_dir("/").env_clear();
    assert_eq!(home.finish(by_hand).code, Some(0));
    let journal = fs::read_to_string(project.join(".autoloop/journal.jsonl")).unwrap();
    for shell in shells {
        let record = format!("\"topic\": \"by.{shell}\", \"payload\": \"two  words $x\"");
        assert!(journal.contains(&record), "{shell}: {journal}");
    }
    assert!(journal.contains("\"topic\": \"by.hand\""), "{journal}");
}

#[test]
fn a_person_who_asks_for_more_hears_all_of_an_iteration() {
    let agent = "case $N in 1) $T emit a.done one; $T emit bogus;; 2) $T emit b.done; $T emit issue.discovered 'id=i;';; esac; echo LOOP_COMPLETE";
    let sandbox = shell(agent, "event_loop.max_iterations = 3");
    sandbox.write("topology.toml", THREE);
    let output = sandbox.run(&["run", ".", "-v"]);
    let id = sandbox.fields("loop.start", "run").remove(0);
    assert_snapshot!(output.to_string().replace(&id, "[RUN]"), @"
    exit 0
    --- stdout
    run [RUN]: completed (completion_promise) after 3 iterations
    --- stderr
    run [RUN] begins
    iteration 1/3  a  after loop.start
      emitted: a.done
      refused: bogus
      the agent exited with 0 and printed the completion promise
    note: the completion promise did not count: `bogus` was refused in the turn; the turn also emitted `a.done`
    iteration 2/3  b  after a.done
      emitted: b.done
      the agent exited with 0 and printed the completion promise
    note: the completion promise did not count: the turn also emitted `b.done`
    iteration 3/3  a  after b.done
      no event
      the agent exited with 0 and printed the completion promise
    ");
}

// Settings of other versions of this tool.

/// Settings that would limit a run, each in the file that projects keep it in.
const LIMITS: [(&str, &str, &str); 6] = [
    ("autoloops.toml", "backend.max_cost_usd", "backend.max_cost_usd = 5\n"),
    ("autoloops.toml", "backend.disallowed_tools", "backend.disallowed_tools = ['Bash']\n"),
    ("autoloops.toml", "acceptance", "[acceptance]\nverify_cmd = 'make test'\n"),
    ("topology.toml", "gate", "[[gate]]\nevent = 'x'\nrequires = ['y']\n"),
    ("topology.toml", "role.read_only", "[[role]]\nid = 'a'\nemits = ['x']\nread_only = true\n"),
    (
        "topology.toml",
        "role.disallowed_tools",
        "[[role]]\nid = 'a'\nemits = ['x']\ndisallowed_tools = ['Bash']\n",
    ),
];

#[test]
fn a_limit_that_is_not_enforced_is_an_error_unless_it_is_ignored() {
    for (file, key, text) in LIMITS {
        let sandbox = shell("exit 9", "");
        let before = String::from_utf8(sandbox.read(file)).unwrap();
        sandbox.write(file, format!("{before}{text}"));
        let told = format!("{key} is not enforced by this version");
        sandbox.run(&["tasks", "add", "one"]);
        for args in [
            &["run", ".", "make it"][..],
            &["slots"],
            &["run", "--chain", ".", "make it"],
            &["run", "-p", "./", ".", "make it"],
        ] {
            let output = sandbox.run(args);
            assert_eq!(output.code, Some(2), "{args:?}: {output}");
            assert!(output.stderr.contains(&format!("error: {told}\n")), "{args:?}: {output}");
            assert!(output.stderr.contains(file), "{args:?}: {output}");
            assert!(output.stderr.contains("--ignore-unenforced"), "{args:?}: {output}");
        }
        assert!(sandbox.fields("loop.start", "run").is_empty());
        // Other commands are not stopped by it.
        assert_eq!(sandbox.run(&["tasks", "list"]).code, Some(0));

        let output = sandbox.run(&["run", ".", "make it", "--ignore-unenforced"]);
        assert_eq!(output.code, Some(1), "{output}");
        assert!(output.stderr.contains(&format!("warning: {told}\n")), "{output}");
        // The run keeps the flag.
        let id = sandbox.fields("loop.start", "run").remove(0);
        let resumed = sandbox.run(&["run", &format!("--resume={id}"), "."]);
        assert_eq!(resumed.code, Some(1), "{resumed}");
    }
}

#[test]
fn a_limit_that_is_switched_off_stops_nothing() {
    let off = "backend.max_cost_usd = 0\nevent_loop.stall_iterations = 0\nbackend.disallowed_tools = []\n";
    let sandbox = shell("echo LOOP_COMPLETE", off);
    assert_eq!(sandbox.run(&["run", ".", "make it"]).code, Some(0));
}

#[test]
fn an_argument_that_needs_a_person_is_refused_before_the_run_begins() {
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    sandbox.write("autoloops.toml", "review.enabled = false\n");
    assert_snapshot!(sandbox.run(&["run", ".", "make it", "-b", "codex login"]), @r"
    exit 2
    --- stderr
    autoloop: codex cannot run unattended with 'login': only `codex exec` runs a prompt; backend.command (flag: --backend) names it
      hint: leave the argument out; docs/agents.md lists those that are added
    ");
    assert!(!sandbox.path(".autoloop").exists());
}

#[test]
fn the_kind_claude_sdk_starts_claude_and_says_so() {
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    write_program(
        sandbox.path("bin/claude"),
        "#!/bin/sh\necho \"$1\" > first\necho '{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"LOOP_COMPLETE\"}'\n",
    );
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", sandbox.path("bin").display());
    let sandbox = sandbox.env("PATH", path);
    let note = "is 'claude-sdk', which this version does not support";
    sandbox.write("autoloops.toml", "backend.kind = 'claude-sdk'\nreview.enabled = false\n");
    let output = sandbox.run(&["run", ".", "make it"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stderr.contains(&format!("warning: backend.kind {note}\n")), "{output}");
    assert_eq!(sandbox.read("first"), b"-p\n");
    sandbox.write("autoloops.toml", "review.enabled = false\n");
    let role = "[[role]]\nid = 'a'\nemits = ['x']\nbackend_kind = 'claude-sdk'\n";
    sandbox.write("topology.toml", role);
    let output = sandbox.run(&["run", ".", "make it"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stderr.contains(&format!("backend_kind of role 'a' {note}")), "{output}");
}
