//! `autoloop memory`, through the binary.

use std::collections::HashSet;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_autoloop"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AUTOLOOP_")) {
        command.env_remove(name);
    }
    command.current_dir(dir).args(args);
    command
}

/// Called as by an agent of run `swift-agent` in iteration 2.
fn in_loop(dir: &Path, args: &[&str]) -> Command {
    let mut command = command(dir, args);
    command
        .env("AUTOLOOP_RUN_ID", "swift-agent")
        .env("AUTOLOOP_ITERATION", "2")
        .env("AUTOLOOP_PROJECT_DIR", dir)
        .env("AUTOLOOP_STATE_DIR", dir.join(".autoloop"));
    command
}

/// The exit code, stdout and stderr, without times.
fn told(output: &Output) -> String {
    let text = format!(
        "{}\n{}{}",
        output.status.code().expect("it was not killed"),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let mut shown = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("(created: ") {
        let (before, after) = rest.split_at(at + "(created: ".len());
        shown.push_str(before);
        shown.push_str("NOW");
        rest = &after[after.find(')').expect("a time ends")..];
    }
    shown + rest
}

fn run(dir: &Path, args: &[&str]) -> String {
    told(&command(dir, args).output().expect("the binary runs"))
}

fn agent(dir: &Path, args: &[&str]) -> String {
    told(&in_loop(dir, args).output().expect("the binary runs"))
}

#[test]
fn what_is_added_is_listed_and_what_is_removed_is_not() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    assert_eq!(run(dir, &["memory", "list"]), "0\n(empty)\n");
    assert_eq!(
        run(dir, &["memory", "add", "learning", "run", "the tests"]),
        "0\nadded mem-1 to project memory\n"
    );
    run(dir, &["memory", "add", "preference", "style", "small commits"]);
    run(dir, &["memory", "add", "meta", "branch", "old"]);
    run(dir, &["memory", "add", "meta", "branch", "main"]);
    run(dir, &["memory", "add", "learning", "--", "--wrong"]);
    assert_eq!(
        run(dir, &["memory", "remove", "mem-5", "it was wrong"]),
        "0\nremoved mem-5 from project memory\n"
    );
    insta::assert_snapshot!(run(dir, &["memory", "list"]), @"
    0
    meta-4  project  meta        branch: main (created: NOW)
    mem-2   project  preference  [style] small commits (created: NOW)
    mem-1   project  learning    run the tests (created: NOW)
    ");
    insta::assert_snapshot!(run(dir, &["memory", "find", "TESTS"]), @"
    0
    mem-1  project  learning  run the tests (created: NOW)
    ");
    insta::assert_snapshot!(run(dir, &["inspect", "memory"]), @"
    0
    Loop memory:
    Project memory:
    Preferences:
    - [mem-2] [style] small commits (created: NOW)
    Learnings:
    - [mem-1] run the tests (created: NOW)
    Meta:
    - [meta-4] branch: main (created: NOW)
    ");
    insta::assert_snapshot!(run(dir, &["memory", "remove", "mem-5"]), @"
    1
    autoloop: 'mem-5' was removed from project memory already
      hint: list all entries with `autoloop memory list`
    ");
    insta::assert_snapshot!(run(dir, &["memory", "remove", "mem-9"]), @"
    1
    autoloop: no entry 'mem-9' in memory
      hint: list all entries with `autoloop memory list`
    ");
    let file = std::fs::read_to_string(dir.join(".autoloop/memory.jsonl")).unwrap();
    assert_eq!(file.lines().count(), 6);
    assert!(file.lines().last().unwrap().starts_with(
        r#"{"id": "ts-6", "type": "tombstone", "target_id": "mem-5", "reason": "it was wrong", "#
    ));
}

#[test]
fn a_run_has_a_memory_of_its_own() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    run(dir, &["memory", "add", "learning", "known to all"]);
    assert_eq!(
        agent(dir, &["memory", "add", "learning", "of this run"]),
        "0\nadded mem-2 to run memory\n"
    );
    assert_eq!(
        agent(dir, &["memory", "add", "preference", "style", "terse"]),
        "0\nadded mem-3 to project memory\n"
    );
    assert_eq!(
        agent(dir, &["memory", "add", "meta", "--project", "branch", "main"]),
        "0\nadded meta-4 to project memory\n"
    );
    assert_eq!(
        agent(dir, &["memory", "add", "meta", "slice", "2"]),
        "0\nadded meta-5 to run memory\n"
    );
    assert!(dir.join(".autoloop/runs/swift-agent/memory.jsonl").exists());
    insta::assert_snapshot!(agent(dir, &["memory", "list", "--format", "md"]), @"
    0
    Loop memory:
    Project memory:
    Preferences:
    - [mem-3] [style] terse (created: NOW)
    Learnings:
    - [mem-1] known to all (created: NOW)
    Meta:
    - [meta-4] branch: main (created: NOW)
    Run memory:
    Learnings:
    - [mem-2] of this run (created: NOW)
    Meta:
    - [meta-5] slice: 2 (created: NOW)
    ");
    // Outside of a loop the user names the run; without a journal there is no latest one.
    assert!(!run(dir, &["memory", "list"]).contains("of this run"));
    assert!(run(dir, &["memory", "list", "--run", "swift-agent"]).contains("of this run"));

    assert_eq!(
        agent(dir, &["memory", "promote", "mem-2"]),
        "0\npromoted mem-2 to project memory as mem-6\n"
    );
    insta::assert_snapshot!(agent(dir, &["memory", "promote", "mem-2"]), @"
    1
    autoloop: 'mem-2' was removed from run memory already
      hint: list all entries with `autoloop memory list`
    ");
    insta::assert_snapshot!(agent(dir, &["memory", "promote", "mem-1"]), @"
    1
    autoloop: no entry 'mem-1' in run memory
      hint: list all entries with `autoloop memory list`
    ");
    insta::assert_snapshot!(agent(dir, &["memory", "list"]), @"
    0
    mem-6   project  learning    of this run (created: NOW)
    meta-4  project  meta        branch: main (created: NOW)
    mem-3   project  preference  [style] terse (created: NOW)
    mem-1   project  learning    known to all (created: NOW)
    meta-5  run      meta        slice: 2 (created: NOW)
    ");
}

#[test]
fn outside_of_a_loop_the_latest_run_is_meant() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    agent(dir, &["memory", "add", "learning", "of this run"]);
    let start = r#"{"run": "swift-agent", "iteration": "", "topic": "loop.start", "fields": {}}"#;
    std::fs::write(dir.join(".autoloop/journal.jsonl"), format!("{start}\n")).unwrap();
    assert!(run(dir, &["memory", "list"]).contains("of this run"));
    assert!(
        run(dir, &["inspect", "memory"]).contains("Run memory:\nLearnings:\n- [mem-1] of this")
    );
    assert_eq!(run(dir, &["memory", "remove", "mem-1"]), "0\nremoved mem-1 from run memory\n");
    // An entry that a user adds outside of a loop is for all runs.
    assert_eq!(
        run(dir, &["memory", "add", "learning", "for all"]),
        "0\nadded mem-1 to project memory\n"
    );
}

#[test]
fn the_file_of_the_run_can_be_named() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    let file = dir.join("elsewhere.jsonl");
    let output = in_loop(dir, &["memory", "add", "learning", "x"])
        .env("AUTOLOOP_MEMORY_FILE", &file)
        .output()
        .unwrap();
    assert_eq!(told(&output), "0\nadded mem-1 to run memory\n");
    let line = std::fs::read_to_string(&file).unwrap();
    assert!(line.contains(r#""source": "swift-agent#2""#), "{line}");
}

#[test]
fn json_is_for_programs() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    assert_eq!(run(dir, &["memory", "list", "--format", "json"]), "0\n[]\n");
    run(dir, &["memory", "add", "preference", "style", "say \"so\"\n\u{1b}[2J"]);
    let output = command(dir, &["memory", "list", "--format", "json"]).output().unwrap();
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(list[0]["text"], "say \"so\"\n\u{1b}[2J");
    assert_eq!((&list[0]["tier"], &list[0]["category"]), (&"project".into(), &"style".into()));
}

#[test]
fn entries_without_room_in_the_prompt_are_counted() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    for number in 0..5 {
        run(dir, &["memory", "add", "learning", &format!("lesson {number} {}", "x".repeat(40))]);
    }
    std::fs::OpenOptions::new()
        .append(true)
        .open(dir.join(".autoloop/memory.jsonl"))
        .and_then(|mut file| std::io::Write::write_all(&mut file, b"{\"id\": \"mem-"))
        .unwrap();
    run(dir, &["memory", "add", "preference", "style", "after a torn line"]);
    insta::assert_snapshot!(run(dir, &["memory", "status", "--budget", "300"]), @"
    0
    project memory: .autoloop/memory.jsonl
      6 entries: 1 preferences, 5 learnings, 0 meta; 1 invalid line
    run memory: (none)
      0 entries: 0 preferences, 0 learnings, 0 meta
    prompt: 552 of 300 characters, dropped 3 entries: 0 preferences, 3 learnings, 0 meta
    ");
    insta::assert_snapshot!(run(dir, &["memory", "status"]), @"
    0
    project memory: .autoloop/memory.jsonl
      6 entries: 1 preferences, 5 learnings, 0 meta; 1 invalid line
    run memory: (none)
      0 entries: 0 preferences, 0 learnings, 0 meta
    prompt: 552 of 8000 characters, nothing dropped
    ");
}

#[test]
fn invalid_requests_are_refused() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    insta::assert_snapshot!(run(dir, &["memory", "add", "learning", "  "]), @"
    2
    autoloop: the text is empty
    ");
    insta::assert_snapshot!(run(dir, &["memory", "add", "meta", "a\nb", "x"]), @r"
    2
    autoloop: 'a\nb' cannot be a key
      hint: a key is one line of 1 to 100 characters
    ");
    insta::assert_snapshot!(run(dir, &["memory", "add", "learning", &"x".repeat(16_001)]), @"
    2
    autoloop: the text has 16001 characters: the limit is 16000
      hint: write it to a file of the project, and add the path of the file
    ");
    assert!(run(dir, &["memory", "list", "--format", "csv"]).starts_with("2\n"));
    assert!(!dir.join(".autoloop").exists());
}

/// Many processes at once never choose the same id.
#[test]
fn processes_that_add_at_once_never_choose_the_same_name() {
    let dir = TempDir::new().unwrap();
    let children: Vec<_> = (0..24)
        .map(|number| {
            in_loop(dir.path(), &["memory", "add", "learning", &number.to_string()])
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let ids: HashSet<String> = children
        .into_iter()
        .map(|child| String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap())
        .collect();
    assert_eq!(ids.len(), 24);
    let list = agent(dir.path(), &["memory", "list"]);
    assert_eq!(list.lines().count(), 25, "{list}");
}

#[test]
fn the_places_and_the_budget_that_are_set_hold() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    let settings = "core.state_dir = \"state\"\ncore.memory_file = \"lessons.jsonl\"\nmemory.prompt_budget_chars = 60\n";
    std::fs::write(dir.join("autoloops.toml"), settings).unwrap();
    run(dir, &["memory", "add", "learning", "run the tests before every commit, all of them"]);
    run(dir, &["memory", "add", "learning", "another thing that is worth knowing next time"]);
    assert!(dir.join("lessons.jsonl").exists());
    let status = run(dir, &["memory", "status"]);
    assert!(status.contains(" of 60 characters, dropped "), "{status}");
    assert!(run(dir, &["memory", "status", "--budget", "0"]).contains("nothing dropped"));
    // In a loop too: its agents add to the memory that its prompts contain.
    agent(dir, &["memory", "add", "learning", "--project", "third"]);
    assert!(run(dir, &["inspect", "memory", "--format", "terminal"]).contains("third"));
}

#[test]
fn an_invalid_memory_file_is_reported() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    std::fs::create_dir_all(dir.join(".autoloop/memory.jsonl")).unwrap();
    insta::assert_snapshot!(run(dir, &["memory", "list"]), @"
    1
    autoloop: .autoloop/memory.jsonl is a directory, not a memory file
      hint: move it away, or name another file in core.memory_file
    ");
    insta::assert_snapshot!(run(dir, &["memory", "add", "meta", "a", "b"]), @"
    1
    autoloop: not stored: .autoloop/memory.jsonl is a directory, not a memory file
      hint: move it away, or name another file in core.memory_file
    ");
    std::fs::remove_dir(dir.join(".autoloop/memory.jsonl")).unwrap();
    std::fs::write(dir.join("m"), "").unwrap();
    std::fs::hard_link(dir.join("m"), dir.join(".autoloop/memory.jsonl")).unwrap();
    insta::assert_snapshot!(run(dir, &["memory", "add", "meta", "a", "b"]), @"
    1
    autoloop: not stored: .autoloop/memory.jsonl has 2 hard links; a memory file must have one
      hint: `find -samefile` shows the other names; remove them
    ");
}
