//! `autoloop inspect scratchpad|coordination|prompt|output`, through the binary.

use std::fs;
use std::path::Path;
use std::process::Command;

use autoloop_core::record::{Heading, IterationFinish, IterationStart, LoopStart, Record, print};
use autoloop_core::timestamp::Timestamp;
use autoloop_core::topic::Topic;
use tempfile::TempDir;

/// A project with a journal.
struct Project(TempDir);

fn at(run: &str, iteration: u64) -> Heading {
    let iteration = if iteration == 0 { String::new() } else { iteration.to_string() };
    Heading { run: run.into(), iteration, now: Timestamp::from_millis(0) }
}

fn finish(run: &str, iteration: u64, output: &str) -> Record {
    IterationFinish { output: output.into(), ..Default::default() }.record(&at(run, iteration))
}

impl Project {
    fn new(records: &[Record]) -> Self {
        let dir = TempDir::new().expect("the sandbox works");
        fs::create_dir(dir.path().join(".autoloop")).expect("the sandbox works");
        let mut bytes = Vec::new();
        for record in records {
            print(record, &mut bytes);
        }
        fs::write(dir.path().join(".autoloop/journal.jsonl"), bytes).expect("the sandbox works");
        Project(dir)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn output(&self, args: &[&str]) -> (i32, Vec<u8>, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_autoloop"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AUTOLOOP_")) {
            command.env_remove(name);
        }
        let output = command
            .current_dir(self.path())
            .arg("inspect")
            .args(args)
            .output()
            .expect("the sandbox works");
        let complaint = String::from_utf8(output.stderr).expect("the sandbox works");
        (output.status.code().expect("the sandbox works"), output.stdout, complaint)
    }

    /// The exit code, stdout and stderr.
    fn told(&self, args: &[&str]) -> String {
        let (code, printed, complaint) = self.output(args);
        format!("{code}\n{}{complaint}", String::from_utf8(printed).expect("the sandbox works"))
    }
}

fn two_runs() -> Project {
    let start = |run| LoopStart::default().record(&at(run, 0));
    let said = |run: &str, topic: &str, payload: &str| at(run, 1).agent(Topic::new(topic), payload);
    let prompt = IterationStart { prompt: "do \"it\"\n\t\\o/\n".into(), ..Default::default() };
    Project::new(&[
        start("old"),
        finish("old", 1, "of the old run\n"),
        said("old", "issue.discovered", "id=issue-1; summary=old;"),
        start("new"),
        prompt.record(&at("new", 1)),
        said("new", "issue.discovered", "id=issue-1; summary=fix login bug; owner=builder;"),
        said("new", "issue.resolved", "id=issue-1; resolution=done;"),
        said("new", "slice.started", "id=slice-1; description=login form;"),
        said("new", "slice.committed", "id=slice-1; commit_hash=abc123;"),
        said(
            "new",
            "context.archived",
            "source_file=plan.md; dest_file=docs/plan.md; reason=stale;",
        ),
        finish("new", 1, "first try\n"),
        finish("new", 2, "a\"b\\c\td\u{1b}[0m\r\n"),
        finish("new", 1, "second try\n"),
        finish("new", 3, ""),
    ])
}

#[test]
fn the_scratchpad_of_the_latest_run() {
    let project = two_runs();
    assert_eq!(
        project.told(&["scratchpad", "--format", "md"]),
        "0\n## Iteration 1\n\nexit_code=0\n\nsecond try\n\n\
         ## Iteration 2\n\nexit_code=0\n\na\"b\\c\td\u{1b}[0m\r\n\n\
         ## Iteration 3\n\nexit_code=0\n\n\n"
    );
    insta::assert_snapshot!(project.told(&["scratchpad", "--run", "old", "--format", "terminal"]), @"
    0
    ## Iteration 1

    exit_code=0

    ```text
    of the old run
    ```
    ");
    insta::assert_snapshot!(project.told(&["scratchpad", "--format", "json"]), @r#"
    0
    [
      {"run": "new", "iteration": 1, "exit_code": 0, "output": "second try\u000a"},
      {"run": "new", "iteration": 2, "exit_code": 0, "output": "a\u0022b\u005cc\u0009d\u001b[0m\u000d\u000a"},
      {"run": "new", "iteration": 3, "exit_code": 0, "output": ""}
    ]
    "#);
    insta::assert_snapshot!(project.told(&["scratchpad", "--run", "no-such-run"]), @r"
    1
    autoloop: no run 'no-such-run' in .autoloop/journal.jsonl
      hint: list all runs with `autoloop loops --all`
    ");
    let all = project.told(&["scratchpad", "--all-runs"]);
    assert!(all.starts_with("0\n# Run old\n\n## Iteration 1\n\nexit_code=0\n\nof the old run\n\n# Run new\n\n## Iteration 1\n"), "{all}");
    let (code, printed, complaint) = project.output(&["scratchpad", "--format", "xml"]);
    assert_eq!((code, printed.len()), (2, 0));
    assert!(complaint.contains("md") && complaint.contains("json"), "{complaint}");
}

#[test]
fn the_short_form_of_six_iterations() {
    let mut records = vec![LoopStart::default().record(&at("one", 0))];
    records.extend((1..=6).map(|n| finish("one", n, &format!("{}\nmore {n}\n", "x".repeat(130)))));
    let text = Project::new(&records).told(&["scratchpad", "--format", "terminal"]);
    let line = format!("- Iteration 1 exit_code=0 — {}...\n- Iteration 2 ", "x".repeat(120));
    assert!(text.starts_with(&format!("0\n## Earlier iterations (compacted)\n\n{line}")), "{text}");
    assert!(
        !text.contains("more 2") && text.contains("more 3") && text.contains("more 6"),
        "{text}"
    );
}

#[test]
fn coordination_under_its_headings() {
    let project = two_runs();
    insta::assert_snapshot!(project.told(&["coordination", "--format", "md"]), @"
    0
    ## Issues

    - [resolved] issue-1: fix login bug — done (owner: builder)

    ## Slices

    - [committed] slice-1: login form

    ## Commits

    - slice-1 → abc123

    ## Archives

    - plan.md → docs/plan.md (stale)
    ");
    insta::assert_snapshot!(project.told(&["coordination", "--run", "old", "--format", "terminal"]), @"
    0
    Issues
    - [open] issue-1: old

    Slices
    (none)

    Commits
    (none)

    Archives
    (none)
    ");
    let (code, printed, _) = project.output(&["coordination", "--all-runs", "--format", "json"]);
    let all: serde_json::Value = serde_json::from_slice(&printed).unwrap();
    assert_eq!((code, &all["old"]["issues"][0]["summary"]), (0, &"old".into()));
    assert_eq!(all["new"]["slices"][0]["status"], "committed");
    assert!(project.told(&["coordination", "--format", "csv"]).starts_with("2\n"));
}

#[test]
fn texts_of_an_iteration_to_the_letter() {
    let project = two_runs();
    assert_eq!(project.told(&["prompt", "1", "--format", "md"]), "0\ndo \"it\"\n\t\\o/\n");
    assert_eq!(project.told(&["output", "1", "--format", "text"]), "0\nsecond try\n");
    assert_eq!(project.told(&["output", "2"]), "0\na\"b\\c\td\u{1b}[0m\r\n");
    assert_eq!(project.told(&["output", "1", "--run", "old"]), "0\nof the old run\n");
    assert_eq!(project.told(&["output", "3"]), "0\n");
    let (_, printed, _) = project.output(&["output", "2", "--format", "json"]);
    let output: serde_json::Value = serde_json::from_slice(&printed).unwrap();
    assert_eq!(output["output"], "a\"b\\c\td\u{1b}[0m\r\n");
    assert_eq!((&output["run"], &output["iteration"]), (&"new".into(), &2.into()));
    insta::assert_snapshot!(project.told(&["output", "99"]), @"
    1
    autoloop: missing output projection for iteration 99 of run 'new'
      hint: iterations 1 to 3 have one
    ");
    insta::assert_snapshot!(project.told(&["prompt", "2"]), @"
    1
    autoloop: missing prompt projection for iteration 2 of run 'new'
      hint: iteration 1 has one
    ");
    assert!(project.told(&["output", "two"]).starts_with("2\n"));
}

#[test]
fn a_giant_output_is_printed_whole() {
    let unit = format!("line \"of\" an \\ output\t漢字 {}\n", "x".repeat(500));
    let giant = unit.repeat(6 * 1024 * 1024 / unit.len());
    let project = Project::new(&[
        LoopStart::default().record(&at("one", 0)),
        finish("one", 1, &giant),
        finish("one", 2, "short"),
    ]);
    let (code, printed, complaint) = project.output(&["output", "1"]);
    assert_eq!((code, complaint.as_str()), (0, ""));
    assert!(printed == giant.as_bytes(), "{} bytes of {}", printed.len(), giant.len());
    let (_, printed, _) = project.output(&["output", "1", "--format", "json"]);
    let output: serde_json::Value = serde_json::from_slice(&printed).unwrap();
    assert!(output["output"] == giant);
    let (_, printed, _) = project.output(&["scratchpad"]);
    let rich = format!(
        "## Iteration 1\n\nexit_code=0\n\n{giant}\n## Iteration 2\n\nexit_code=0\n\nshort\n"
    );
    assert!(printed == rich.as_bytes());
    let text = project.told(&["scratchpad", "--format", "terminal"]);
    assert!(
        text.contains("characters left out; `autoloop inspect output 1` prints all …]"),
        "{text}"
    );
    assert!(text.contains("[… at least "), "{text}");
}

#[test]
fn torn_lines_hide_nothing() {
    let project = two_runs();
    let path = project.path().join(".autoloop/journal.jsonl");
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(br#"{"run": "new", "iteration": "4", "topic": "iteration.fin"#);
    print(&finish("new", 4, "glued\n"), &mut bytes);
    fs::write(&path, bytes).unwrap();
    assert_eq!(project.told(&["output", "4"]), "0\nglued\n");
    assert!(project.told(&["scratchpad"]).ends_with("## Iteration 4\n\nexit_code=0\n\nglued\n\n"));
}

#[test]
fn an_empty_journal_prints_nothing() {
    let project = Project(TempDir::new().unwrap());
    assert_eq!(project.told(&["scratchpad"]), "0\n(empty)\n");
    assert_eq!(project.told(&["scratchpad", "--all-runs", "--format", "terminal"]), "0\n(empty)\n");
    assert_eq!(project.told(&["scratchpad", "--format", "json"]), "0\n[]\n");
    assert_eq!(project.told(&["coordination"]), "0\nNo coordination data available.\n");
    assert_eq!(project.told(&["memory"]), "0\nLoop memory:\n(empty)\n");
    insta::assert_snapshot!(project.told(&["output", "1"]), @"
    1
    autoloop: missing output projection for iteration 1
      hint: no run has started here yet
    ");
}
