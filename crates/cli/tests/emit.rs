//! `autoloop emit` through the binary: its messages, its exit codes and the journal afterwards.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use autoloop_testkit::Sandbox;
use insta::assert_snapshot;

fn sandbox() -> Sandbox {
    Sandbox::new(env!("CARGO_BIN_EXE_autoloop"))
}

/// Nothing, for commands that take no arguments.
const NONE: [&str; 0] = [];

#[test]
fn an_event_is_stored_in_a_journal_that_is_made_for_it() {
    let sandbox = sandbox();
    assert_snapshot!(sandbox.emit(&["review.ready", "the parser is done"]), @"
    exit 0
    --- stdout
    emitted review.ready
    ");
    assert_snapshot!(sandbox.journal(), @r#"{"run": "", "iteration": "", "topic": "review.ready", "payload": "the parser is done", "source": "agent", "ts": "[TS]", "v": 1}"#);
    let mode = |name: &str| fs::metadata(sandbox.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(".autoloop"), 0o700, "others may not look");
    assert_eq!(mode(".autoloop/journal.jsonl"), 0o600, "others may not read");
}

#[test]
fn events_are_added_behind_those_that_are_there() {
    let sandbox = sandbox();
    let earlier = "{\"run\": \"old\", \"iteration\": \"\", \"topic\": \"a\", \"fields\": {}}\n";
    sandbox.write_journal(earlier);
    assert_eq!(sandbox.emit(&["b", "1"]).code, Some(0));
    assert_eq!(sandbox.emit(&["b", "2"]).code, Some(0));
    assert_snapshot!(sandbox.journal(), @r#"
    {"run": "old", "iteration": "", "topic": "a", "fields": {}}
    {"run": "", "iteration": "", "topic": "b", "payload": "1", "source": "agent", "ts": "[TS]", "v": 1}
    {"run": "", "iteration": "", "topic": "b", "payload": "2", "source": "agent", "ts": "[TS]", "v": 1}
    "#);
}

#[test]
fn the_words_of_a_payload_are_joined_and_may_look_like_options() {
    let sandbox = sandbox();
    sandbox.emit(&["note", "one", "two", "", "three"]);
    sandbox.emit(&["note", "use", "--file", "-x"]);
    sandbox.emit(&["note", "--", "--file", "is an option"]);
    assert_snapshot!(sandbox.journal(), @r#"
    {"run": "", "iteration": "", "topic": "note", "payload": "one two  three", "source": "agent", "ts": "[TS]", "v": 1}
    {"run": "", "iteration": "", "topic": "note", "payload": "use --file -x", "source": "agent", "ts": "[TS]", "v": 1}
    {"run": "", "iteration": "", "topic": "note", "payload": "--file is an option", "source": "agent", "ts": "[TS]", "v": 1}
    "#);
}

#[test]
fn run_and_iteration_come_from_the_environment() {
    let sandbox = sandbox().env("AUTOLOOP_RUN_ID", "swift-agent").env("AUTOLOOP_ITERATION", "3");
    sandbox.write_journal(LOOP_STARTS);
    sandbox.emit(&["review.ready", "done"]);
    assert_snapshot!(last_line(&sandbox), @r#"{"run": "swift-agent", "iteration": "3", "topic": "review.ready", "payload": "done", "source": "agent", "ts": "[TS]", "v": 1}"#);
}

const LOOP_STARTS: &str = concat!(
    "{\"run\": \"first-run\", \"iteration\": \"\", \"topic\": \"loop.start\", \"fields\": {}}\n",
    "{\"run\": \"second-run\", \"iteration\": \"\", \"topic\": \"loop.start\", \"fields\": {}}\n",
    "{\"run\": \"first-run\", \"iteration\": \"1\", \"topic\": \"x\", \"payload\": \"\", \"source\": \"agent\"}\n",
);

fn last_line(sandbox: &Sandbox) -> String {
    sandbox.journal().lines().last().unwrap_or_default().to_owned()
}

#[test]
fn without_a_run_the_event_belongs_to_the_one_that_began_last() {
    for unset in [None, Some("")] {
        let mut sandbox = sandbox();
        if let Some(empty) = unset {
            sandbox = sandbox.env("AUTOLOOP_RUN_ID", empty);
        }
        sandbox.write_journal(LOOP_STARTS);
        sandbox.emit(&["review.ready"]);
        assert!(last_line(&sandbox).starts_with(r#"{"run": "second-run", "iteration": "", "#));
    }
}

#[test]
fn without_any_run_the_event_belongs_to_none() {
    let sandbox = sandbox();
    sandbox.emit(&["review.ready"]);
    assert!(last_line(&sandbox).starts_with(r#"{"run": "", "iteration": "", "#));
}

#[test]
fn the_journal_is_found_by_file_then_state_then_project_then_here() {
    let cases: [(&[(&str, &str)], &str); 7] = [
        (
            &[
                ("AUTOLOOP_JOURNAL_FILE", "a/j.jsonl"),
                ("AUTOLOOP_STATE_DIR", "b"),
                ("AUTOLOOP_PROJECT_DIR", "c"),
            ],
            "a/j.jsonl",
        ),
        (&[("AUTOLOOP_STATE_DIR", "b"), ("AUTOLOOP_PROJECT_DIR", "c")], "b/journal.jsonl"),
        (&[("AUTOLOOP_PROJECT_DIR", "c")], "c/.autoloop/journal.jsonl"),
        (&[], ".autoloop/journal.jsonl"),
        // An empty variable counts as unset.
        (&[("AUTOLOOP_JOURNAL_FILE", ""), ("AUTOLOOP_STATE_DIR", "b")], "b/journal.jsonl"),
        (&[("AUTOLOOP_STATE_DIR", ""), ("AUTOLOOP_PROJECT_DIR", "")], ".autoloop/journal.jsonl"),
        (&[("AUTOLOOP_JOURNAL_FILE", "j.jsonl")], "j.jsonl"),
    ];
    for (variables, expected) in cases {
        for way in [Way::Relative, Way::Absolute] {
            let mut sandbox = sandbox();
            let root = sandbox.path("");
            for (name, value) in variables {
                let value = match (way, *value) {
                    (_, "") => OsString::new(),
                    (Way::Relative, value) => value.into(),
                    (Way::Absolute, value) => root.join(value).into(),
                };
                sandbox = sandbox.env(name, value);
            }
            assert_eq!(sandbox.emit(&["found"]).code, Some(0), "{variables:?}");
            let made = String::from_utf8(sandbox.read(expected)).unwrap();
            assert_eq!(made.lines().count(), 1, "{variables:?} makes {expected}");
        }
    }
}

#[derive(Clone, Copy)]
enum Way {
    Relative,
    Absolute,
}

#[test]
fn the_settings_are_those_of_the_project() {
    let sandbox = sandbox().env("AUTOLOOP_PROJECT_DIR", "elsewhere");
    sandbox
        .write("autoloops.toml", "not the one [")
        .write("elsewhere/autoloops.toml", "not TOML [");
    assert_snapshot!(sandbox.emit(&["a"]), @"
    exit 0
    --- stdout
    emitted a
    --- stderr
    autoloop: warning: elsewhere/autoloops.toml: line 1, column 5: invalid TOML: key with no value, expected `=`; using the defaults
    ");
}

#[test]
fn an_event_that_may_come_next_is_stored() {
    for allowed in ["review.ready", "build.blocked, review.ready", ",review.ready,,"] {
        let sandbox = sandbox().env("AUTOLOOP_ALLOWED_EVENTS", allowed);
        assert_eq!(sandbox.emit(&["review.ready"]).code, Some(0), "{allowed:?}");
    }
}

#[test]
fn an_event_that_may_not_come_next_is_refused_and_the_refusal_recorded() {
    let sandbox = sandbox()
        .env("AUTOLOOP_RUN_ID", "swift-agent")
        .env("AUTOLOOP_ITERATION", "3")
        .env("AUTOLOOP_RECENT_EVENT", "tasks.ready")
        .env("AUTOLOOP_ALLOWED_ROLES", "builder,critic")
        .env("AUTOLOOP_ALLOWED_EVENTS", "review.ready,build.blocked");
    assert_snapshot!(sandbox.emit(&["task.complete", "all work done"]), @"
    exit 3
    --- stderr
    autoloop: invalid event 'task.complete'; recent event: 'tasks.ready'; suggested roles: builder, critic; allowed next events: review.ready, build.blocked
    ");
    assert_snapshot!(sandbox.journal(), @r#"{"run": "swift-agent", "iteration": "3", "topic": "event.invalid", "fields": {"recent_event": "tasks.ready", "emitted": "task.complete", "suggested_roles": "builder,critic", "allowed_events": "review.ready,build.blocked"}, "ts": "[TS]", "v": 1}"#);
}

#[test]
fn only_whole_names_are_allowed() {
    let sandbox = sandbox().env("AUTOLOOP_ALLOWED_EVENTS", "review.ready");
    for topic in ["review", "review.readyx", "Review.ready", "eview.ready"] {
        assert_eq!(sandbox.emit(&[topic]).code, Some(3), "{topic}");
    }
}

#[test]
fn without_a_list_every_topic_is_allowed() {
    for allowed in [None, Some(""), Some(" , ,")] {
        let mut sandbox = sandbox();
        if let Some(allowed) = allowed {
            sandbox = sandbox.env("AUTOLOOP_ALLOWED_EVENTS", allowed);
        }
        for topic in ["never.heard.of.it", "übung.fertig", "x", "review.passed", "chainsaw"] {
            assert_eq!(sandbox.emit(&[topic]).code, Some(0), "{topic} with {allowed:?}");
        }
        assert_eq!(sandbox.journal().lines().count(), 5);
    }
}

const RESERVED: [&str; 16] = [
    "loop.start",
    "loop.complete",
    "iteration.finish",
    "backend.start",
    "review.start",
    "review.finish",
    "review.violation",
    "event.invalid",
    "wave.start",
    "wave.branch.finish",
    "chain.start",
    "chain.step.start",
    "slot.assigned",
    "journal.repaired",
    "explore.parallel.joined",
    "loop.",
];

#[test]
fn topics_of_the_harness_are_refused_even_where_the_list_names_them() {
    for topic in RESERVED {
        for allowed in ["", topic, "review.ready"] {
            let sandbox = sandbox().env("AUTOLOOP_ALLOWED_EVENTS", allowed);
            let output = sandbox.emit(&[topic, "forged"]);
            assert_eq!(output.code, Some(3), "{topic} with {allowed:?}: {output}");
            let journal = sandbox.journal();
            assert_eq!(journal.lines().count(), 1, "{journal}");
            assert!(journal.contains(r#""topic": "event.invalid""#), "{journal}");
            assert!(!journal.contains("forged"), "{journal}");
        }
    }
    let sandbox = sandbox().env("AUTOLOOP_ALLOWED_EVENTS", "loop.complete");
    assert_snapshot!(sandbox.emit(&["loop.complete"]), @"
    exit 3
    --- stderr
    autoloop: invalid event 'loop.complete'; only the harness may write such topics; emit a topic of your own, like review.ready
    ");
    assert_snapshot!(sandbox.journal(), @r#"{"run": "", "iteration": "", "topic": "event.invalid", "fields": {"recent_event": "", "emitted": "loop.complete", "suggested_roles": "", "allowed_events": "loop.complete", "reason": "reserved"}, "ts": "[TS]", "v": 1}"#);
}

#[test]
fn a_reserved_topic_without_a_list_gets_advice_too() {
    assert_snapshot!(sandbox().emit(&["wave.start"]), @"
    exit 3
    --- stderr
    autoloop: invalid event 'wave.start'; only the harness may write such topics; emit a topic of your own, like review.ready
    ");
}

#[test]
fn bookkeeping_is_accepted_whatever_the_list_says() {
    let sandbox = sandbox().env("AUTOLOOP_ALLOWED_EVENTS", "review.ready");
    let coordination = [
        "issue.discovered",
        "issue.resolved",
        "slice.started",
        "slice.verified",
        "slice.committed",
        "context.archived",
        "chain.spawn",
    ];
    for topic in coordination {
        assert_eq!(sandbox.emit(&[topic, "id=1;"]).code, Some(0), "{topic}");
    }
    assert_eq!(sandbox.journal().matches(r#""payload": "id=1;", "source": "agent""#).count(), 7);
}

#[test]
fn a_refusal_that_cannot_be_recorded_is_still_a_refusal() {
    let sandbox = sandbox();
    fs::create_dir_all(sandbox.journal_path()).unwrap();
    let sandbox = sandbox.env("AUTOLOOP_RUN_ID", "r");
    assert_snapshot!(sandbox.emit(&["loop.start"]), @"
    exit 3
    --- stderr
    autoloop: invalid event 'loop.start'; only the harness may write such topics; emit a topic of your own, like review.ready
      hint: the refusal could not be recorded: not stored: .autoloop/journal.jsonl is a directory, not a journal
    ");
}

#[test]
fn each_invalid_topic_has_its_own_message() {
    let sandbox = sandbox();
    let long = "x".repeat(201);
    let cases = [
        "",
        "two words",
        "two\nlines",
        "a\ttab",
        "a,comma",
        "bell\u{7}",
        "\u{1b}]0;title\u{7}",
        "zero\u{200b}width",
        long.as_str(),
    ];
    let said: Vec<_> = cases.iter().map(|topic| sandbox.emit(&[topic]).to_string()).collect();
    assert_snapshot!(said.join("\n"), @r"
    exit 2
    --- stderr
    autoloop: the topic is empty; a topic is a word like review.ready
    exit 2
    --- stderr
    autoloop: topic 'two words' contains whitespace (' '); a topic is a word like review.ready
    exit 2
    --- stderr
    autoloop: topic 'two\nlines' contains whitespace ('\n'); a topic is a word like review.ready
    exit 2
    --- stderr
    autoloop: topic 'a\ttab' contains whitespace ('\t'); a topic is a word like review.ready
    exit 2
    --- stderr
    autoloop: topic 'a,comma' contains a comma, and lists of events are separated by commas; a topic is a word like review.ready
    exit 2
    --- stderr
    autoloop: topic 'bell\u{7}' contains the control character '\u{7}'; a topic is a word like review.ready
    exit 2
    --- stderr
    autoloop: topic '\u{1b}]0;title\u{7}' contains the control character '\u{1b}'; a topic is a word like review.ready
    exit 2
    --- stderr
    autoloop: topic 'zero\u{200b}width' contains the invisible character '\u{200b}'; a topic is a word like review.ready
    exit 2
    --- stderr
    autoloop: topic 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…' has 201 bytes: the limit is 200; a topic is a word like review.ready
    ");
    assert!(!sandbox.path(".autoloop").exists(), "nothing is made for what is not stored");
}

#[test]
fn a_topic_of_the_greatest_length_is_stored() {
    assert_eq!(sandbox().emit(&["x".repeat(200)]).code, Some(0));
}

#[test]
fn an_empty_payload_is_a_payload() {
    let sandbox = sandbox();
    sandbox.emit(&["a"]);
    sandbox.emit(&["b", ""]);
    sandbox.write("empty", "");
    sandbox.emit(&["c", "--file", "empty"]);
    assert_snapshot!(sandbox.journal(), @r#"
    {"run": "", "iteration": "", "topic": "a", "payload": "", "source": "agent", "ts": "[TS]", "v": 1}
    {"run": "", "iteration": "", "topic": "b", "payload": "", "source": "agent", "ts": "[TS]", "v": 1}
    {"run": "", "iteration": "", "topic": "c", "payload": "", "source": "agent", "ts": "[TS]", "v": 1}
    "#);
}

#[test]
fn every_character_that_could_break_a_line_is_escaped() {
    let sandbox = sandbox();
    sandbox.emit(&["a", "\\ \" \n \r \t \u{1b}[31m \u{7f}", "ä漢😀\u{2028}"]);
    sandbox.write("text", "NUL \0, DEL \u{7f}, CSI \u{9b}31m, é\n");
    sandbox.emit(&["b", "--file", "text"]);
    // Everything except the C0 controls, the quote and the backslash is written as is.
    let journal = sandbox.journal().replace('\u{7f}', "<DEL>").replace('\u{9b}', "<CSI>");
    assert_snapshot!(journal.replace('\u{2028}', "<LS>"), @r#"
    {"run": "", "iteration": "", "topic": "a", "payload": "\u005c \u0022 \u000a \u000d \u0009 \u001b[31m <DEL> ä漢😀<LS>", "source": "agent", "ts": "[TS]", "v": 1}
    {"run": "", "iteration": "", "topic": "b", "payload": "NUL \u0000, DEL <DEL>, CSI <CSI>31m, é\u000a", "source": "agent", "ts": "[TS]", "v": 1}
    "#);
}

/// A lone surrogate as some programs encode it.
const SURROGATE: &[u8] = b"a\xed\xa0\x80b";

#[test]
fn half_a_character_is_no_text() {
    let sandbox = sandbox();
    let half = OsStr::from_bytes(SURROGATE);
    let topic = sandbox.emit(&[half]);
    let payload = sandbox.emit(&[OsStr::new("t"), OsStr::new("ok"), half]);
    assert_snapshot!(format!("{topic}\n{payload}"), @"
    exit 2
    --- stderr
    autoloop: the topic 'a���b' is not valid UTF-8
    exit 2
    --- stderr
    autoloop: the payload is not valid UTF-8 from byte 4 on; nothing was stored
      hint: pass the text with --file, which replaces such bytes
    ");
    assert!(!sandbox.path(".autoloop").exists());
    let variable = crate::sandbox().env("AUTOLOOP_RUN_ID", half).emit(&["t"]);
    assert_snapshot!(variable, @"
    exit 2
    --- stderr
    autoloop: AUTOLOOP_RUN_ID is not valid UTF-8 (it reads 'a���b'); set it to plain text, or unset it
    ");
}

#[test]
fn a_file_may_hold_half_a_character() {
    let sandbox = sandbox();
    sandbox.write("text", SURROGATE);
    assert_eq!(sandbox.emit(&["t", "--file", "text"]).code, Some(0));
    assert_snapshot!(last_line(&sandbox), @r#"{"run": "", "iteration": "", "topic": "t", "payload": "a���b", "source": "agent", "ts": "[TS]", "v": 1}"#);
}

#[test]
fn each_invalid_payload_file_has_its_own_message() {
    let sandbox = sandbox();
    sandbox.write("text", "x").write("dir/x", "");
    let mkfifo = sandbox.at_home("mkfifo").arg("pipe").status().unwrap();
    assert!(mkfifo.success());
    fs::File::create(sandbox.path("large")).unwrap().set_len(100 * 1024 * 1024 + 1).unwrap();
    let said: Vec<_> = [
        &["t", "--file", "missing"][..],
        &["t", "--file", "dir"],
        &["t", "--file", "pipe"],
        &["t", "--file", "text/x"],
        &["t", "--file", "large"],
        &["--file", "text", "t", "twice"],
    ]
    .iter()
    .map(|args| sandbox.emit(args).to_string())
    .collect();
    assert_snapshot!(said.join("\n"), @"
    exit 2
    --- stderr
    autoloop: cannot read missing: No such file or directory (os error 2)
    exit 2
    --- stderr
    autoloop: dir is not a regular file
      hint: write the text to a regular file first
    exit 2
    --- stderr
    autoloop: pipe is not a regular file
      hint: write the text to a regular file first
    exit 2
    --- stderr
    autoloop: cannot read text/x: Not a directory (os error 20)
    exit 2
    --- stderr
    autoloop: large has 104857601 bytes: the limit of a payload is 104857600
      hint: emit the path of the file instead of its text
    exit 2
    --- stderr
    autoloop: the payload is given twice: as words and by --file
      hint: omit one of them
    ");
    assert!(!sandbox.path(".autoloop").exists());
}

#[test]
fn settings_that_cannot_be_read_cost_no_event() {
    let said: Vec<_> =
        [&b"journal.sync = \"sometimes\"\n"[..], b"a = [", b"\xff\xfe", b"journal = 3"]
            .iter()
            .map(|settings| {
                let sandbox = sandbox();
                sandbox.write("autoloops.toml", settings);
                let output = sandbox.emit(&["a"]);
                assert_eq!(sandbox.journal().lines().count(), 1);
                output.to_string()
            })
            .collect();
    assert_snapshot!(said.join("\n"), @r#"
    exit 0
    --- stdout
    emitted a
    --- stderr
    autoloop: warning: ./autoloops.toml: line 1, column 16: journal.sync is "sometimes"; expected "always", "iteration" or "never"; using the defaults
    exit 0
    --- stdout
    emitted a
    --- stderr
    autoloop: warning: ./autoloops.toml: line 1, column 6: invalid TOML: unclosed array, expected `]`; using the defaults
    exit 0
    --- stdout
    emitted a
    --- stderr
    autoloop: warning: ./autoloops.toml: it is not UTF-8; using the defaults
    exit 0
    --- stdout
    emitted a
    --- stderr
    autoloop: warning: ./autoloops.toml: line 1, column 11: journal is 3; expected a table: [journal]; using the defaults
    "#);
    let sandbox = sandbox();
    let mkfifo = sandbox.at_home("mkfifo").arg("autoloops.toml").status().unwrap();
    assert!(mkfifo.success());
    assert_snapshot!(sandbox.emit(&["a"]), @"
    exit 0
    --- stdout
    emitted a
    --- stderr
    autoloop: warning: ./autoloops.toml: it is not a regular file; using the defaults
    ");
    fs::remove_file(sandbox.path("autoloops.toml")).unwrap();
    sandbox.write("autoloops.toml/x", "");
    assert_snapshot!(sandbox.emit(&["a"]), @"
    exit 0
    --- stdout
    emitted a
    --- stderr
    autoloop: warning: ./autoloops.toml: it is not a regular file; using the defaults
    ");
}

#[test]
fn a_record_is_stored_even_if_the_output_is_closed() {
    let sandbox = sandbox();
    let mut full = sandbox.command();
    full.args(["emit", "a"]).stdout(fs::File::create("/dev/full").unwrap());
    let output = full.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "a failure would make the agent say it twice");
    let mut closed = sandbox.command();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(closed.args(["emit", "b"]).stdout(writer).status().unwrap().code(), Some(0));
    assert_eq!(sandbox.journal().lines().count(), 2);
}

#[test]
fn wrong_arguments_are_explained() {
    let sandbox = sandbox();
    let said =
        [sandbox.emit(&NONE), sandbox.emit(&["--fiel", "x", "t"]), sandbox.emit(&["--file"])]
            .map(|output| output.to_string());
    assert_snapshot!(said.join("\n"), @"
    exit 2
    --- stderr
    error: the following required arguments were not provided:
      <TOPIC>

    Usage: autoloop emit <TOPIC> [PAYLOAD]...

    For more information, try '--help'.
    exit 2
    --- stderr
    error: unexpected argument '--fiel' found

      tip: a similar argument exists: '--file'
      tip: to pass '--fiel' as a value, use '-- --fiel'

    Usage: autoloop emit --file <FILE> <TOPIC> [PAYLOAD]...

    For more information, try '--help'.
    exit 2
    --- stderr
    error: a value is required for '--file <FILE>' but none was supplied

    For more information, try '--help'.
    ");
}
