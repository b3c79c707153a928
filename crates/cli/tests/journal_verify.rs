//! `autoloop journal verify` through the binary: each bad line by number, byte and cause.

use std::fs;

use autoloop_testkit::Sandbox;
use insta::assert_snapshot;

fn sandbox() -> Sandbox {
    Sandbox::new(env!("CARGO_BIN_EXE_autoloop"))
}

fn verify(journal: &[u8]) -> String {
    let sandbox = sandbox();
    sandbox.write_journal(journal);
    let output = sandbox.run(&["journal", "verify"]);
    assert_eq!(sandbox.read(".autoloop/journal.jsonl"), journal, "nothing is changed");
    output.to_string()
}

/// A record of 31 bytes and its newline.
const GOOD: &str = "{\"run\": \"r\", \"topic\": \"a topic\"}\n";

/// A bad line between two good ones.
fn between(bad: &[u8]) -> String {
    verify(&[GOOD.as_bytes(), bad, GOOD.as_bytes()].concat())
}

#[test]
fn a_good_journal_verifies() {
    assert_snapshot!(verify(GOOD.repeat(3).as_bytes()), @"
    exit 0
    --- stdout
    .autoloop/journal.jsonl: 3 records in 3 lines, no problems
    ");
}

#[test]
fn our_own_journal_verifies() {
    let sandbox = sandbox();
    sandbox.emit(&["a", "\\ \" \n \u{0}".trim_end_matches('\0')]);
    sandbox.emit(&["loop.start"]);
    assert_snapshot!(sandbox.run(&["journal", "verify"]), @"
    exit 0
    --- stdout
    .autoloop/journal.jsonl: 2 records in 2 lines, no problems
    ");
}

#[test]
fn an_empty_journal_verifies() {
    assert_snapshot!(verify(b""), @"
    exit 0
    --- stdout
    .autoloop/journal.jsonl: 0 records in 0 lines, no problems
    ");
}

#[test]
fn blank_lines_carriage_returns_marks_and_padding_do_no_harm() {
    assert_snapshot!(verify(format!("\n\n{GOOD}  \t\n\r\n{GOOD}\n").as_bytes()), @"
    exit 0
    --- stdout
    .autoloop/journal.jsonl: 2 records in 7 lines, no problems
    ");
    assert_snapshot!(verify(GOOD.replace('\n', "\r\n").repeat(2).as_bytes()), @"
    exit 0
    --- stdout
    .autoloop/journal.jsonl: 2 records in 2 lines, no problems
    ");
    assert_snapshot!(verify(format!("\u{feff}{GOOD}{GOOD}").as_bytes()), @"
    exit 0
    --- stdout
    .autoloop/journal.jsonl: 2 records in 2 lines, no problems
    ");
    assert_snapshot!(verify(format!("{GOOD}\0\0\0\0{GOOD}").as_bytes()), @"
    exit 0
    --- stdout
    .autoloop/journal.jsonl: 2 records in 2 lines, no problems
    ");
}

#[test]
fn a_line_that_was_torn_in_the_middle() {
    assert_snapshot!(between(b"{\"run\": \"r\", \"iteration\": \"1\", \"topic\": \"x\", \"payl\n"), @"
    exit 1
    --- stdout
    line 2, byte 33: torn: the line ends in the middle of a record
    --- stderr
    autoloop: .autoloop/journal.jsonl: 2 records in 3 lines, 1 invalid
      hint: do nothing: readers skip what is invalid, and every record is intact
    ");
}

#[test]
fn a_tail_that_was_torn() {
    assert_snapshot!(verify([GOOD, "{\"run\": \"r\", \"top"].concat().as_bytes()), @"
    exit 1
    --- stdout
    line 2, byte 33: torn: the last line has no end; the next writer ends it
    --- stderr
    autoloop: .autoloop/journal.jsonl: 1 records in 1 lines, 1 invalid
      hint: do nothing: readers skip what is invalid, and every record is intact
    ");
    // Even if only the newline is missing.
    assert_snapshot!(verify(GOOD.trim_end().as_bytes()), @"
    exit 1
    --- stdout
    line 1, byte 0: torn: the last line has no end; the next writer ends it
    --- stderr
    autoloop: .autoloop/journal.jsonl: 0 records in 0 lines, 1 invalid
      hint: do nothing: readers skip what is invalid, and every record is intact
    ");
}

#[test]
fn a_record_that_is_glued_to_a_fragment() {
    assert_snapshot!(between(format!("{{\"run\": \"r\", \"topic\": \"to{GOOD}").as_bytes()), @"
    exit 1
    --- stdout
    line 2, byte 33: torn: the line ends in the middle of a record; the record after it was read
    --- stderr
    autoloop: .autoloop/journal.jsonl: 3 records in 3 lines, 1 invalid
      hint: do nothing: readers skip what is invalid, and every record is intact
    ");
}

#[test]
fn a_fragment_that_is_glued_to_a_record() {
    let glued = format!("{}{{\"run\": \"r\", \"top\n", GOOD.trim_end());
    assert_snapshot!(between(glued.as_bytes()), @"
    exit 1
    --- stdout
    line 2, byte 65: torn: the line ends in the middle of a record
    --- stderr
    autoloop: .autoloop/journal.jsonl: 3 records in 3 lines, 1 invalid
      hint: do nothing: readers skip what is invalid, and every record is intact
    ");
}

#[test]
fn a_fragment_that_is_glued_to_a_fragment() {
    assert_snapshot!(between(b"{\"run\": \"r\", \"to{\"run\": \"r\", \"top\n"), @"
    exit 1
    --- stdout
    line 2, byte 33: torn: the line ends in the middle of a record
    line 2, byte 49: torn: the line ends in the middle of a record
    --- stderr
    autoloop: .autoloop/journal.jsonl: 2 records in 3 lines, 2 invalid
      hint: do nothing: readers skip what is invalid, and every record is intact
    ");
}

#[test]
fn bytes_that_are_no_text() {
    assert_snapshot!(between(b"{\"run\": \"r\", \"topic\": \"\xff\"}\n"), @"
    exit 1
    --- stdout
    line 2, byte 33: not UTF-8 at byte 23 of the line
    --- stderr
    autoloop: .autoloop/journal.jsonl: 2 records in 3 lines, 1 invalid
      hint: do nothing: readers skip what is invalid, and every record is intact
    ");
}

#[test]
fn half_a_pair_of_surrogates() {
    assert_snapshot!(between(b"{\"run\": \"r\", \"topic\": \"t\", \"payload\": \"\\ud800\"}\n"), @"
    exit 1
    --- stdout
    line 2, byte 33: not JSON: unexpected end of hex escape at byte 46 of the line
    --- stderr
    autoloop: .autoloop/journal.jsonl: 2 records in 3 lines, 1 invalid
      hint: do nothing: readers skip what is invalid, and every record is intact
    ");
}

#[test]
fn a_key_that_stands_there_twice() {
    assert_snapshot!(between(b"{\"run\": \"r\", \"topic\": \"t\", \"run\": \"s\"}\n"), @r#"
    exit 1
    --- stdout
    line 2, byte 33: ambiguous: duplicate key "run"
    --- stderr
    autoloop: .autoloop/journal.jsonl: 2 records in 3 lines, 1 invalid
      hint: do nothing: readers skip what is invalid, and every record is intact
    "#);
    assert_snapshot!(
        between(b"{\"run\": \"r\", \"topic\": \"t\", \"fields\": {\"a\": \"1\", \"a\": \"2\"}}\n"),
        @r#"
    exit 1
    --- stdout
    line 2, byte 33: ambiguous: duplicate key "a"
    --- stderr
    autoloop: .autoloop/journal.jsonl: 2 records in 3 lines, 1 invalid
      hint: do nothing: readers skip what is invalid, and every record is intact
    "#
    );
}

#[test]
fn json_that_is_no_record() {
    let said: Vec<_> = [
        &b"null\n"[..],
        b"[1]\n",
        b"\"text\"\n",
        b"{}\n",
        b"{\"topic\": \"t\"}\n",
        b"{\"run\": \"r\"}\n",
        b"{\"run\": 3, \"topic\": \"t\"}\n",
        b"{\"run\": \"r\", \"topic\": \"t\"} and more\n",
    ]
    .iter()
    .map(|bad| between(bad))
    .collect();
    assert_snapshot!(said.join("\n"), @r#"
    exit 1
    --- stdout
    line 2, byte 33: not a record: the line contains null, not an object
    --- stderr
    autoloop: .autoloop/journal.jsonl: 2 records in 3 lines, 1 invalid
      hint: do nothing: readers skip what is invalid, and every record is intact
    exit 1
    --- stdout
    line 2, byte 33: not a record: the line contains a list, not an object
    --- stderr
    autoloop: .autoloop/journal.jsonl: 2 records in 3 lines, 1 invalid
      hint: do nothing: readers skip what is invalid, and every record is intact
    exit 1
    --- stdout
    line 2, byte 33: not a record: the line contains a string, not an object
    --- stderr
    autoloop: .autoloop/journal.jsonl: 2 records in 3 lines, 1 invalid
      hint: do nothing: readers skip what is invalid, and every record is intact
    exit 1
    --- stdout
    line 2, byte 33: not a record: "run" is missing
    --- stderr
    autoloop: .autoloop/journal.jsonl: 2 records in 3 lines, 1 invalid
      hint: do nothing: readers skip what is invalid, and every record is intact
    exit 1
    --- stdout
    line 2, byte 33: not a record: "run" is missing
    --- stderr
    autoloop: .autoloop/journal.jsonl: 2 records in 3 lines, 1 invalid
      hint: do nothing: readers skip what is invalid, and every record is intact
    exit 1
    --- stdout
    line 2, byte 33: not a record: "topic" is missing
    --- stderr
    autoloop: .autoloop/journal.jsonl: 2 records in 3 lines, 1 invalid
      hint: do nothing: readers skip what is invalid, and every record is intact
    exit 1
    --- stdout
    line 2, byte 33: not a record: "run" is not a string
    --- stderr
    autoloop: .autoloop/journal.jsonl: 2 records in 3 lines, 1 invalid
      hint: do nothing: readers skip what is invalid, and every record is intact
    exit 1
    --- stdout
    line 2, byte 33: not JSON: trailing characters at byte 28 of the line
    --- stderr
    autoloop: .autoloop/journal.jsonl: 2 records in 3 lines, 1 invalid
      hint: do nothing: readers skip what is invalid, and every record is intact
    "#);
}

#[test]
fn nuls_where_text_should_be() {
    assert_snapshot!(between(b"{\"run\": \"r\", \0\0\0\0\0\0\0\n"), @"
    exit 1
    --- stdout
    line 2, byte 33: torn: the line ends in the middle of a record
    --- stderr
    autoloop: .autoloop/journal.jsonl: 2 records in 3 lines, 1 invalid
      hint: do nothing: readers skip what is invalid, and every record is intact
    ");
}

#[test]
fn every_bad_line_is_named() {
    let journal = format!("x\n{GOOD}\n{{\n{GOOD}y");
    assert_snapshot!(verify(journal.as_bytes()), @"
    exit 1
    --- stdout
    line 1, byte 0: not JSON: expected value at byte 1 of the line
    line 4, byte 36: torn: the line ends in the middle of a record
    line 6, byte 71: torn: the last line has no end; the next writer ends it
    --- stderr
    autoloop: .autoloop/journal.jsonl: 2 records in 5 lines, 3 invalid
      hint: do nothing: readers skip what is invalid, and every record is intact
    ");
}

#[test]
fn a_complaint_is_harmless_to_a_terminal() {
    let said = between(b"{\"run\": \"r\", \"topic\": \"t\", \"\x1b[2J\": 1, \"\x1b[2J\": 2}\n");
    assert!(!said.contains('\u{1b}'), "{said:?}");
    let said = between(
        "{\"run\": \"r\", \"topic\": \"t\", \"\u{9b}2J\": 1, \"\u{9b}2J\": 2}\n".as_bytes(),
    );
    assert!(!said.contains('\u{9b}'), "{said:?}");
}

#[test]
fn the_journal_can_be_named() {
    let sandbox = sandbox();
    sandbox.write("other.jsonl", "x\n").write_journal(GOOD);
    assert_snapshot!(sandbox.run(&["journal", "verify", "other.jsonl"]), @"
    exit 1
    --- stdout
    line 1, byte 0: not JSON: expected value at byte 1 of the line
    --- stderr
    autoloop: other.jsonl: 0 records in 1 lines, 1 invalid
      hint: do nothing: readers skip what is invalid, and every record is intact
    ");
    let sandbox = sandbox.env("AUTOLOOP_JOURNAL_FILE", "other.jsonl");
    assert_eq!(sandbox.run(&["journal", "verify"]).code, Some(1));
    assert_eq!(sandbox.run(&["journal", "verify", ".autoloop/journal.jsonl"]).code, Some(0));
}

#[test]
fn an_unreadable_file_is_explained() {
    let sandbox = sandbox();
    fs::create_dir(sandbox.path("dir")).unwrap();
    assert!(sandbox.at_home("mkfifo").arg("pipe").status().unwrap().success());
    let said: Vec<_> = [
        &["journal", "verify"][..],
        &["journal", "verify", "missing"],
        &["journal", "verify", "dir"],
        &["journal", "verify", "pipe"],
        &["journal", "verify", "--fix"],
        &["journal"],
    ]
    .iter()
    .map(|args| sandbox.run(args).to_string())
    .collect();
    assert_snapshot!(said.join("\n"), @"
    exit 2
    --- stderr
    autoloop: cannot read .autoloop/journal.jsonl: No such file or directory (os error 2)
      hint: name the journal, or run this in a project
    exit 2
    --- stderr
    autoloop: cannot read missing: No such file or directory (os error 2)
      hint: name the journal, or run this in a project
    exit 1
    --- stderr
    autoloop: dir is a directory, not a journal
      hint: move it away, or name another journal in AUTOLOOP_JOURNAL_FILE
    exit 1
    --- stderr
    autoloop: pipe is a pipe, a socket or a device, not a journal
      hint: move it away, or name another journal in AUTOLOOP_JOURNAL_FILE
    exit 2
    --- stderr
    error: unexpected argument '--fix' found

      tip: to pass '--fix' as a value, use '-- --fix'

    Usage: autoloop journal verify [FILE]

    For more information, try '--help'.
    exit 2
    --- stderr
    Verify or follow the journal file

    Usage: autoloop journal <COMMAND>

    Commands:
      verify  Report invalid lines, and removed, edited or copied records
      follow  Print records of all processes as they are appended
      help    Print this message or the help of the given subcommand(s)

    Options:
      -h, --help  Print help
    ");
}

#[test]
fn a_line_that_is_being_written_is_not_called_torn() {
    let sandbox = sandbox();
    sandbox.write_journal([GOOD, "{\"run\": \"r\", \"top"].concat());
    let writer = fs::File::open(sandbox.journal_path()).unwrap();
    writer.lock().unwrap();
    assert_snapshot!(sandbox.run(&["journal", "verify"]), @"
    exit 1
    --- stdout
    line 2, byte 33: unfinished: the last line is being written
    --- stderr
    autoloop: .autoloop/journal.jsonl: 1 records in 1 lines, 1 invalid
      hint: do nothing: readers skip what is invalid, and every record is intact
    ");
}

#[test]
fn a_link_to_nothing_is_not_an_empty_journal() {
    let sandbox = sandbox();
    sandbox.write(".autoloop/x", "");
    std::os::unix::fs::symlink("nowhere", sandbox.journal_path()).unwrap();
    assert_snapshot!(sandbox.run(&["journal", "verify"]), @"
    exit 2
    --- stderr
    autoloop: cannot read .autoloop/journal.jsonl: No such file or directory (os error 2)
      hint: name the journal, or run this in a project
    ");
}

/// A record of more than 5 MB with something in the middle of its output and something at its end.
fn giant(inside: &[u8], end: &str) -> Vec<u8> {
    let filler = vec![b'x'; 2_600_000];
    let start =
        b"{\"run\": \"r\", \"iteration\": \"1\", \"topic\": \"t\", \"fields\": {\"output\": \"";
    [start, filler.as_slice(), inside, &filler, b"\"}", end.as_bytes(), b"}\n"].concat()
}

#[test]
fn a_giant_is_verified_to_its_end() {
    let fine = ["", "漢", "\\ud83e\\udd80", "\\n\\u000a\\\\"];
    for inside in fine {
        let said = between(&giant(inside.as_bytes(), ", \"v\": 1"));
        assert!(said.contains("3 records in 3 lines, no problems"), "{said}");
    }
    let cases: [(&[u8], &str); 7] = [
        (b"\xff", ""),
        (b"\xc3", ""),
        (b"\x01", ""),
        (b"\\q", ""),
        (b"\\ud83e", ""),
        (b"", ", \"v\": hello"),
        (b"", ", \"v\": 1, \"x\": \"\u{1}\""),
    ];
    let said = cases.map(|(inside, end)| {
        let said = between(&giant(inside, end));
        said.lines().filter(|line| line.starts_with("line ")).collect::<Vec<_>>().join("; ")
    });
    assert_snapshot!(said.join("\n"), @r"
    line 2, byte 33: not UTF-8 at byte 2600067 of the line
    line 2, byte 33: not UTF-8 at byte 2600067 of the line
    line 2, byte 33: not JSON: control character (\u0000-\u001F) found while parsing a string at byte 2600067 of the line
    line 2, byte 33: not JSON: invalid escape at byte 2600069 of the line
    line 2, byte 33: not JSON: lone leading surrogate in hex escape at byte 2600068 of the line
    line 2, byte 33: not JSON: expected value at byte 5200077 of the line
    line 2, byte 33: not JSON: control character (\u0000-\u001F) found while parsing a string at byte 5200085 of the line
    ");
}

/// Three records of a harness, in a new journal.
fn sealed() -> (Sandbox, Vec<String>) {
    let sandbox = Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), "echo turn", "");
    let args = ["run", ".", "-i", "1", "--set", "core.run_id_format=counter"];
    assert_eq!(sandbox.run(&args).code, Some(1));
    let journal = fs::read_to_string(sandbox.journal_path()).expect("there is a journal");
    (sandbox, journal.lines().map(|line| line.to_owned() + "\n").collect())
}

#[test]
fn removed_edited_and_copied_records_are_found_by_their_seals() {
    let (sandbox, lines) = sealed();
    let verify = |lines: &[String]| {
        sandbox.write_journal(lines.concat());
        let shown = sandbox.run(&["journal", "verify"]).to_string();
        // The length of a line depends on the path of the project.
        let bytes = |line: &str| match line.split_once(", byte ") {
            Some((line, rest)) => format!("{line}{}", &rest[rest.find(':').unwrap_or(0)..]),
            None => line.to_owned(),
        };
        shown.lines().map(bytes).collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!(verify(&lines), @"
    exit 0
    --- stdout
    .autoloop/journal.jsonl: 6 records in 6 lines, no problems
    ");
    let removed = [&lines[..1], &lines[3..]].concat();
    let edited = lines.concat().replace(": \"max_iterations\"", ": \"interrupted\"");
    let edited: Vec<String> = edited.lines().map(|line| line.to_owned() + "\n").collect();
    let copied = [&lines[..], &lines[1..2]].concat();
    assert_snapshot!([removed, edited, copied].map(|lines| verify(&lines)).join("\n"), @"
    exit 1
    --- stdout
    line 2: run 'run-1': the 2 records before it are missing
    --- stderr
    autoloop: .autoloop/journal.jsonl: 4 records in 4 lines, 1 place where records were removed, edited or copied
      hint: resuming such a run repeats the steps without valid records
    exit 1
    --- stdout
    line 6: run 'run-1': the record was edited: its seal is invalid
    --- stderr
    autoloop: .autoloop/journal.jsonl: 6 records in 6 lines, 1 place where records were removed, edited or copied
      hint: resuming such a run repeats the steps without valid records
    exit 1
    --- stdout
    line 7: run 'run-1': the record was copied or moved
    --- stderr
    autoloop: .autoloop/journal.jsonl: 7 records in 7 lines, 1 place where records were removed, edited or copied
      hint: resuming such a run repeats the steps without valid records
    ");
    // The records of another user cannot be checked.
    sandbox.write_journal(lines[1..].concat());
    let mut other = sandbox.command();
    other.args(["journal", "verify"]).env("XDG_STATE_HOME", sandbox.path("other"));
    assert_eq!(sandbox.finish(other).code, Some(0));
}
