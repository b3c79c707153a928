//! `autoloop inspect journal` through the binary, and that other programs can read our records.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{Reaped, skip};
use insta::assert_snapshot;

fn sandbox() -> Sandbox {
    Sandbox::new(env!("CARGO_BIN_EXE_autoloop"))
}

/// Two runs of the public autoloop, the first of an early version: without `ts` and `v`.
const PUBLIC: &str = r#"{"run": "swift-agent", "iteration": "", "topic": "loop.start", "fields": {"max_iterations": "5", "completion_promise": "LOOP_COMPLETE", "completion_event": "task.complete", "review_every": "1", "objective": "fix the \u0022login\u0022 bug"}}
{"run": "swift-agent", "iteration": "1", "topic": "iteration.start", "fields": {"recent_event": "loop.start", "suggested_roles": "builder", "allowed_events": "review.ready,build.blocked", "backpressure": "", "prompt": "line one\u000aline two"}}
{"run": "swift-agent", "iteration": "1", "topic": "backend.start", "fields": {"backend_kind": "command", "command": "claude -p", "prompt_mode": "arg", "timeout_ms": "3000000"}}
{"run": "swift-agent", "iteration": "1", "topic": "review.ready", "payload": "initial implementation complete", "source": "agent"}
{"run": "swift-agent", "iteration": "1", "topic": "issue.discovered", "payload": "id=issue-1; summary=fix login bug; disposition=open; owner=builder;", "source": "agent"}
{"run": "swift-agent", "iteration": "1", "topic": "backend.finish", "fields": {"exit_code": "0", "timed_out": false, "output": "done"}}
{"run": "swift-agent", "iteration": "1", "topic": "iteration.finish", "fields": {"exit_code": "0", "timed_out": false, "elapsed_s": 12, "output": "done"}}
{"run": "swift-agent", "iteration": "1", "topic": "loop.complete", "fields": {"reason": "completion_event"}}
{"run": "calm-river", "iteration": "", "topic": "loop.start", "fields": {"max_iterations": "3", "completion_promise": "", "completion_event": "task.complete", "review_every": "0", "objective": "second"}, "ts": "2026-03-01T10:00:00.000Z", "v": 1}
{"run": "calm-river", "iteration": "1", "topic": "task.complete", "payload": "all work done", "source": "agent", "ts": "2026-03-01T10:00:01.500Z", "v": 1}
"#;

#[test]
fn raw_is_the_whole_journal_as_it_stands() {
    let sandbox = sandbox();
    sandbox.write_journal(PUBLIC);
    let mut command = sandbox.command();
    let output = command.args(["inspect", "journal", "--format", "json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), PUBLIC);
    assert_eq!(output.stderr, b"");
}

#[test]
fn raw_is_raw_however_it_was_written() {
    let sandbox = sandbox();
    let by_hand = concat!(
        "{\"topic\":\"x\",\"run\":\"r\",\"payload\":\"\\n\\u00e9 \\/ \\\"\",\"more\":[1.50,{\"a\":null}]}\n",
        "  {\"run\": \"r\", \"topic\": \"half\", \"payload\": \"\\ud800 \\udc00\"}\n",
        "{\"run\": \"r\", \"topic\": \"future.topic\", \"unknown\": {}, \"v\": 99}\n",
    );
    sandbox.write_journal(by_hand);
    let output = sandbox.run(&["inspect", "journal", "--format", "json"]);
    assert_eq!(output.stdout, by_hand.replace("  {", "{"));
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));

    let bytes = b"{\"run\": \"r\", \"topic\": \"t\", \"payload\": \"\xff\xfe\"}\n";
    sandbox.write_journal(bytes);
    let mut command = sandbox.command();
    let output = command.args(["inspect", "journal", "--format", "json"]).output().unwrap();
    assert_eq!(output.stdout, bytes, "bytes that are not text stay what they are");
}

#[test]
fn for_people_a_record_is_a_line() {
    let sandbox = sandbox();
    sandbox.write_journal(PUBLIC);
    // The filter would hide whether there was a time.
    let mut command = sandbox.command();
    let output = command.args(["inspect", "journal"]).output().unwrap();
    assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @r#"
    -  swift-agent  loop.start  objective=fix the "login" bug
    -  swift-agent#1  iteration.start  recent_event=loop.start suggested_roles=builder
    -  swift-agent#1  backend.start
    -  swift-agent#1  review.ready  initial implementation complete
    -  swift-agent#1  issue.discovered  id=issue-1; summary=fix login bug; disposition=open; owner=builder;
    -  swift-agent#1  backend.finish  exit_code=0 timed_out=false
    -  swift-agent#1  iteration.finish  exit_code=0 timed_out=false elapsed_s=12
    -  swift-agent#1  loop.complete  reason=completion_event
    2026-03-01T10:00:00.000Z  calm-river  loop.start  objective=second
    2026-03-01T10:00:01.500Z  calm-river#1  task.complete  all work done
    "#);
}

#[test]
fn one_run_or_some_topics_can_be_asked_for() {
    let sandbox = sandbox();
    sandbox.write_journal(PUBLIC);
    let topics = |args: &[&str]| {
        let output = sandbox.run(&[&["inspect", "journal", "--format", "json"], args].concat());
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{args:?}");
        let topic = |line: &str| {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            format!("{}/{}", record["run"].as_str().unwrap(), record["topic"].as_str().unwrap())
        };
        output.stdout.lines().map(topic).collect::<Vec<_>>().join(" ")
    };
    assert_snapshot!(topics(&["--run", "calm-river"]), @"calm-river/loop.start calm-river/task.complete");
    assert_snapshot!(topics(&["--run", "latest"]), @"calm-river/loop.start calm-river/task.complete");
    assert_snapshot!(topics(&["--topic", "loop.start"]), @"swift-agent/loop.start calm-river/loop.start");
    assert_snapshot!(topics(&["--topic", "loop.start", "--topic", "review.ready"]), @"swift-agent/loop.start swift-agent/review.ready calm-river/loop.start");
    assert_snapshot!(topics(&["--run", "swift-agent", "--topic", "loop.start"]), @"swift-agent/loop.start");
    assert_snapshot!(topics(&["--run", "swift-agent", "--topic", "nothing"]), @"");
}

#[test]
fn a_project_is_named_or_that_of_the_environment_or_this_one() {
    let record = |run: &str| format!("{{\"run\": \"{run}\", \"topic\": \"t\"}}\n");
    let write_all = |sandbox: &Sandbox| {
        sandbox.write("named/.autoloop/journal.jsonl", record("named"));
        sandbox.write("project/.autoloop/journal.jsonl", record("project"));
        sandbox.write("state/journal.jsonl", record("state"));
        sandbox.write("file.jsonl", record("file"));
        sandbox.write_journal(record("here"));
    };
    let mut sandbox = sandbox();
    write_all(&sandbox);
    let shown = |sandbox: &Sandbox, args: &[&str]| {
        let raw = ["inspect", "journal", "--format", "json"];
        let output = sandbox.run(&[&raw[..], args].concat());
        assert_eq!(output.code, Some(0), "{output}");
        output.stdout
    };
    assert_eq!(shown(&sandbox, &[]), record("here"));
    for (variable, value, run) in [
        ("AUTOLOOP_PROJECT_DIR", "project", "project"),
        ("AUTOLOOP_STATE_DIR", "state", "state"),
        ("AUTOLOOP_JOURNAL_FILE", "file.jsonl", "file"),
    ] {
        sandbox = sandbox.env(variable, value);
        assert_eq!(shown(&sandbox, &[]), record(run));
        assert_eq!(shown(&sandbox, &["named"]), record("named"), "what is typed comes first");
    }
}

#[test]
fn an_unreadable_journal_is_explained() {
    let sandbox = sandbox();
    sandbox.write("file", "").write("empty/x", "");
    let said: Vec<_> = [
        &["inspect", "journal"][..],
        &["inspect", "journal", "missing"],
        &["inspect", "journal", "file"],
        &["inspect", "journal", "empty", "--run", "r"],
        &["inspect", "journal", "empty", "--run", "latest"],
        &["inspect", "journal", "--format", "xml"],
        &["inspect", "jurnal"],
        &["inspect"],
    ]
    .iter()
    .map(|args| sandbox.run(args).to_string())
    .collect();
    assert_snapshot!(said.join("\n"), @"
    exit 0
    --- stderr
    autoloop: .autoloop/journal.jsonl is empty
    exit 2
    --- stderr
    autoloop: the project missing does not exist
      hint: name the directory that contains .autoloop
    exit 2
    --- stderr
    autoloop: the project file is not a directory
      hint: name the directory that contains .autoloop
    exit 1
    --- stderr
    autoloop: no run 'r' in empty/.autoloop/journal.jsonl
      hint: list all runs with `autoloop loops --all`
    exit 1
    --- stderr
    autoloop: no run in empty/.autoloop/journal.jsonl yet
      hint: start a new run with `autoloop run DIR`
    exit 2
    --- stderr
    error: invalid value 'xml' for '--format <FORMAT>'
      [possible values: json, text]

    For more information, try '--help'.
    exit 2
    --- stderr
    error: unrecognized subcommand 'jurnal'

      tip: a similar subcommand exists: 'journal'

    Usage: autoloop inspect <COMMAND>

    For more information, try '--help'.
    exit 2
    --- stderr
    Show views of a journal

    Usage: autoloop inspect <COMMAND>

    Commands:
      journal       Print records
      metrics       Show the iterations of a run
      scratchpad    Show the outputs of the iterations of a run
      coordination  Show coordination events: issues, slices, commits, archives, chains
      chain         Show a chain: its steps, their runs and their status
      slots         Show a run of slots: items, reviews, fixes and status of each slot
      squad         Show a squad: its groups, and the state, reviews and cost of each loop
      reviews       Show the reviews of a squad: their subjects, verdicts and issues
      memory        Show the memory of the project and of a run
      topology      Show the roles of a loop and their handoffs
      usage         Show the tokens and the cost of a run
      review        Show a metareview: its sandbox, its end and its changes
      prompt        Print the prompt of an iteration, unchanged
      output        Print the output of an iteration, unchanged
      help          Print this message or the help of the given subcommand(s)

    Options:
      -h, --help  Print help (see more with '--help')
    ");
    sandbox.write_journal("{\"run\": \"\", \"topic\": \"outside.of.any.run\"}\n");
    assert_snapshot!(sandbox.run(&["inspect", "journal", "--run", "latest"]), @r"
    exit 1
    --- stderr
    autoloop: no run in .autoloop/journal.jsonl yet
      hint: start a new run with `autoloop run DIR`
    ");
    sandbox.write_journal(PUBLIC);
    assert_snapshot!(sandbox.run(&["inspect", "journal", "--run", "swift"]), @r#"
    exit 0
    --- stdout
    -  swift-agent  loop.start  objective=fix the "login" bug
    -  swift-agent#1  iteration.start  recent_event=loop.start suggested_roles=builder
    -  swift-agent#1  backend.start
    -  swift-agent#1  review.ready  initial implementation complete
    -  swift-agent#1  issue.discovered  id=issue-1; summary=fix login bug; disposition=open; owner=builder;
    -  swift-agent#1  backend.finish  exit_code=0 timed_out=false
    -  swift-agent#1  iteration.finish  exit_code=0 timed_out=false elapsed_s=12
    -  swift-agent#1  loop.complete  reason=completion_event
    "#);
}

#[test]
fn torn_lines_are_passed_over_and_what_is_glued_to_them_is_found() {
    let sandbox = sandbox();
    sandbox.write_journal(concat!(
        "{\"run\": \"r\", \"topic\": \"a\"}\n",
        "{\"run\": \"r\", \"iteration\": \"1\", \"topic\": \"torn\", \"payl\n",
        "{\"run\": \"r\", \"iteration\": \"\", \"topic\": \"t{\"run\": \"r\", \"topic\": \"glued\"}\n",
        "\n\r\n",
        "no record\n",
        "{\"run\": \"r\", \"topic\": \"last\"}\n",
        "{\"run\": \"r\", \"topic\": \"being wri",
    ));
    assert_snapshot!(sandbox.run(&["inspect", "journal", "--format", "json"]), @r#"
    exit 0
    --- stdout
    {"run": "r", "topic": "a"}
    {"run": "r", "topic": "glued"}
    {"run": "r", "topic": "last"}
    --- stderr
    autoloop: skipped 3 invalid records; `autoloop journal verify` lists them
    "#);
}

#[test]
fn a_record_glued_to_a_giant_fragment_is_shown_as_it_stands() {
    let sandbox = sandbox();
    let fragment = format!(
        "{{\"run\": \"r\", \"iteration\": \"\", \"topic\": \"torn\", \"payload\": \"{}",
        "x".repeat(5 * 1024 * 1024)
    );
    let record = "{\"run\": \"r\", \"iteration\": \"\", \"topic\": \"glued\", \"payload\": \"p\", \"source\": \"agent\"}\n";
    sandbox.write_journal([fragment.as_str(), record].concat());
    let output = sandbox.run(&["inspect", "journal", "--format", "json"]);
    assert!(output.stdout == record, "{} bytes instead of the record", output.stdout.len());
    let output = sandbox.run(&["journal", "verify"]);
    assert_snapshot!(output, @"
    exit 1
    --- stdout
    line 1, byte 0: torn: the line ends in the middle of a record; the record after it was read
    --- stderr
    autoloop: .autoloop/journal.jsonl: 1 records in 1 lines, 1 invalid
      hint: do nothing: readers skip what is invalid, and every record is intact
    ");
}

#[test]
fn control_characters_never_reach_a_terminal() {
    let sandbox =
        sandbox().env("AUTOLOOP_RUN_ID", "r\u{1b}[2J").env("AUTOLOOP_ITERATION", "\u{9b}1");
    let evil = "\u{1b}]52;c;ZXZpbA==\u{7}\u{1b}[2J\r\u{8}\u{7f}\u{9b}31m\nnext\u{85}line";
    assert_eq!(sandbox.emit(&["t", evil]).code, Some(0));
    let output = sandbox.run(&["inspect", "journal"]);
    assert_eq!(output.code, Some(0));
    assert_eq!(output.stdout.lines().count(), 1, "{:?}", output.stdout);
    let harmful = output.stdout.trim_end_matches('\n').chars().find(|c| c.is_control());
    assert_eq!(harmful, None, "{:?}", output.stdout);
    sandbox.write("\u{1b}[2J/.autoloop/journal.jsonl", "");
    for args in [
        &["inspect", "journal", "--run", "\u{1b}[2J"][..],
        &["inspect", "journal", "\u{1b}[2J"],
        &["journal", "verify", "\u{1b}[2J/.autoloop/journal.jsonl"],
        &["journal", "verify", "\u{1b}[2J"],
    ] {
        let said = sandbox.run(args).to_string();
        assert!(said.contains("\u{fffd}[2J") && !said.contains('\u{1b}'), "{said:?}");
    }
}

#[test]
fn raw_on_a_terminal_is_harmless_as_well() {
    let sandbox = sandbox();
    // DEL and the C1 controls are written as is; a terminal may act on the latter.
    sandbox.emit(&["t", "\u{9b}31m \u{7f}"]);
    let mut command = sandbox.at_home("script");
    let inspect = format!("'{}' inspect journal --format json", sandbox.binary().display());
    command.args(["-qec", &inspect, "/dev/null"]);
    let Ok(output) = command.output() else {
        return skip("raw_on_a_terminal_is_harmless_as_well", "there is no `script` here");
    };
    if !output.status.success() {
        return skip(
            "raw_on_a_terminal_is_harmless_as_well",
            "`script` cannot make a terminal here",
        );
    }
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("\"payload\": \"\\u009b31m \\u007f\""), "{shown:?}");
}

#[test]
fn a_reader_that_has_seen_enough_ends_it_quietly() {
    let sandbox = sandbox();
    let small = PUBLIC.repeat(2000);
    let giant = format!(
        "{{\"run\": \"r\", \"topic\": \"t\", \"payload\": \"{}\"}}\n",
        "x".repeat(9_000_000)
    );
    for journal in [small, giant] {
        sandbox.write_journal(journal);
        let mut command = sandbox.command();
        command.args(["inspect", "journal", "--format", "json"]);
        command.stdout(Stdio::piped()).stderr(fs::File::create(sandbox.path("stderr")).unwrap());
        let mut inspect = Reaped::start(command);
        let mut output = BufReader::with_capacity(16, inspect.0.stdout.take().unwrap());
        assert!(output.fill_buf().unwrap().starts_with(b"{\"run\": \""));
        drop(output);
        assert_eq!(inspect.0.wait().unwrap().code(), Some(141), "as if ended by SIGPIPE");
        assert_eq!(String::from_utf8(sandbox.read("stderr")).unwrap(), "");
    }
}

#[test]
fn any_reader_of_json_lines_reads_what_we_write() {
    let sandbox = sandbox().env("AUTOLOOP_RUN_ID", "r").env("AUTOLOOP_ALLOWED_EVENTS", "a,b");
    sandbox.emit(&["a", "\\ \" \n \t \u{1b} \u{7f} ä漢😀 \u{2028} {\"run\": \""]);
    sandbox.write("text", b"\0\x01\xff\xed\xa0\x80".repeat(1000));
    sandbox.emit(&["--file", "text", "b"]);
    sandbox.emit(&["c", "refused"]);
    for line in sandbox.journal().lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(record["run"], "r");
        assert_eq!(record["v"], 1);
    }
    let first: serde_json::Value =
        serde_json::from_str(sandbox.journal().lines().next().unwrap()).unwrap();
    assert_eq!(first["payload"], "\\ \" \n \t \u{1b} \u{7f} ä漢😀 \u{2028} {\"run\": \"");

    const READER: &str = "
import json
for line in open('.autoloop/journal.jsonl', encoding='utf-8', newline='\\n'):
    record = json.loads(line)
    print(record['topic'], len(record.get('payload', '')), list(record))
";
    let mut python = sandbox.at_home("python3");
    python.args(["-c", READER]);
    if python.output().is_err() {
        return skip("any_reader_of_json_lines_reads_what_we_write", "there is no python3 here");
    }
    assert_snapshot!(sandbox.finish(python), @"
    exit 0
    --- stdout
    a 27 ['run', 'iteration', 'topic', 'payload', 'source', 'ts', 'v']
    b 6000 ['run', 'iteration', 'topic', 'payload', 'source', 'ts', 'v']
    event.invalid 0 ['run', 'iteration', 'topic', 'fields', 'ts', 'v']
    ");
}
