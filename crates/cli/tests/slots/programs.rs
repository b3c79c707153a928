//! Agents whose program is missing: no item fails for it, and it is reported before any agent
//! starts.

use std::fs;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::write_program;
use insta::assert_snapshot;

use crate::scene::*;

/// A reviewer that is a file of its own.
const REVIEWER: &str = "slots.reviewer.command = './reviewer'\nslots.reviewer.args = []";

/// The status of each task.
fn tasks(sandbox: &Sandbox) -> String {
    let listed = sandbox.run(&["tasks", "list", "--json"]);
    let all: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    let text = |task: &serde_json::Value, name: &str| task[name].as_str().unwrap_or("-").to_owned();
    let all = all.as_array().unwrap().iter();
    all.map(|task| format!("{} {}", text(task, "status"), text(task, "owner")))
        .collect::<Vec<_>>()
        .join(", ")
}

#[test]
fn a_run_does_not_begin_without_its_agents() {
    let sandbox = project(GOOD, 3, "");
    assert_snapshot!(says(&sandbox, "--provider no-such-agent"), @r"
    exit 1
    --- stderr
    autoloop: cannot start 'no-such-agent': not found in PATH; backend.command (flag: --backend) names it
      hint: install it, put its directory on PATH, make it executable, or name another agent
    ");
    assert_snapshot!(says(&sandbox, "--provider ./agent.sh"), @r"
    exit 1
    --- stderr
    autoloop: cannot start '[DIR]/agent.sh': it is not an executable file, or permission is denied; backend.command (flag: --backend) names it
      hint: install it, put its directory on PATH, make it executable, or name another agent
    ");
    assert_snapshot!(says(&sandbox, "--set backend.kind=script --set backend.command=no-such.toml"), @r"
    exit 1
    --- stderr
    autoloop: there is no file [DIR]/no-such.toml; backend.command (flag: --set) names it
      hint: install it, put its directory on PATH, make it executable, or name another agent
    ");
    assert_eq!(tasks(&sandbox), "ready -, ready -, ready -");
    assert_eq!(sandbox.fields("slot.run.start", "run"), [""; 0]);
    assert_eq!(fs::read_dir(sandbox.path(".autoloop/slots")).unwrap().count(), 0);
}

#[test]
fn a_run_does_not_begin_without_its_reviewer() {
    let sandbox = repository(GOOD, 2, "slots.reviewer.command = 'no-such-reviewer'");
    assert_snapshot!(says(&sandbox, "--review --parallel-agents 2"), @r"
    exit 1
    --- stderr
    autoloop: cannot start 'no-such-reviewer': not found in PATH; slots.reviewer.command (project: [DIR]/autoloops.toml, line 5) names it
      hint: install it, put its directory on PATH, make it executable, or name another agent
    ");
    assert_eq!(sandbox.fields("slot.run.start", "run"), [""; 0]);
    // No reviewer is asked for.
    passes(&sandbox, "--review --reviewer-prompt= --parallel-agents 2");
}

#[test]
fn a_shell_that_does_not_find_its_program_is_an_agent_that_fails() {
    let sandbox =
        project(GOOD, 2, "backend.command = 'sh'\nbackend.args = ['-c', 'no-such-agent']");
    let settings = String::from_utf8(sandbox.read("autoloops.toml")).unwrap();
    let settings: Vec<&str> = settings.lines().skip(2).collect();
    sandbox.write("autoloops.toml", settings.join("\n"));
    fails(&sandbox, "");
    let outcomes = outcomes(&sandbox);
    for (outcome, item) in outcomes.iter().zip(["t-1", "t-2"]) {
        // The message depends on the shell.
        let told = format!("{item} failed: the implementer failed (exit code 127): ");
        let is_told = outcome.starts_with(&told) && outcome.contains("no-such-agent");
        assert!(is_told, "{outcomes:?}");
    }
    assert_eq!(outcomes.len(), 2);
}

/// A run whose implementers remove the reviewer's program, which is then put back. Returns the
/// first message.
fn reviewer_goes_away(flags: &str) -> String {
    let implement = format!("{}; rm -f \"$AUTOLOOP_PROJECT_DIR/reviewer\"", GOOD.implement);
    let sandbox = repository(Agents { implement: &implement, ..GOOD }, 2, REVIEWER);
    let bring = || write_program(sandbox.path("reviewer"), format!("#!/bin/sh\n{PASS}\n"));
    bring();
    let said = says(&sandbox, flags);
    let run = sandbox.fields("slot.run.start", "run").remove(0);
    assert_eq!(tasks(&sandbox), format!("claimed {run}-s1, ready -"), "{said}");
    assert_eq!(sandbox.fields("slot.implement", "exit_code"), ["0"]);
    assert_eq!(outcomes(&sandbox), [""; 0]);
    // The program is checked before any agent starts, also in a resumed run.
    assert_eq!(sandbox.run(&["slots", "--resume"]).code, Some(1));
    assert_eq!(sandbox.fields("slot.run.resume", "run"), [""; 0]);

    bring();
    // The agent of the second item removes it again.
    assert_eq!(sandbox.run(&["slots", "--resume"]).code, Some(1));
    assert_eq!(outcomes(&sandbox), ["t-1 passed: good"]);
    bring();
    assert_eq!(sandbox.run(&["slots", "--resume"]).code, Some(0));
    assert_eq!(outcomes(&sandbox), ["t-1 passed: good", "t-2 passed: good"]);
    assert_eq!(sandbox.fields("slot.implement", "item_id"), ["t-1", "t-2"]);
    said
}

#[test]
fn work_outlives_a_reviewer_that_goes_away() {
    assert_snapshot!(reviewer_goes_away("--review"), @r"
    exit 1
    --- stderr
    slots [RUN] begin: 1 slot, with review
    iteration 1
      slot 1  t-1  implement: task 1
      slot 1  t-1  review
    autoloop: cannot start './reviewer': there is no such file, or its interpreter is missing; slots.reviewer.command (project: [DIR]/autoloops.toml, line 5) names it
      hint: install it, put its directory on PATH, make it executable, or name another agent
      hint: then resume it with `autoloop slots --resume=[RUN]`
    ");
    let said = reviewer_goes_away("--review --isolation worktree");
    assert!(said.contains("cannot start '[DIR]/reviewer'"), "{said}");
}

#[test]
fn an_item_is_given_back_if_its_agent_cannot_start() {
    // A missing interpreter is noticed only when the program is started.
    let sandbox = repository(GOOD, 4, "backend.timeout_ms = '1m'");
    write_program(sandbox.path("agent"), "#!/not/there\n");
    let flags = "--parallel-agents 3 --set backend.args= --provider ./agent";
    let said = says(&sandbox, flags);
    assert!(said.starts_with("exit 1\n"), "{said}");
    assert_eq!(said.matches("cannot start").count(), 1, "{said}");
    assert!(said.contains("then resume it with"), "{said}");
    assert_eq!(tasks(&sandbox), "ready -, ready -, ready -, ready -");
    assert_eq!(sandbox.fields("slot.implement", "slot"), [""; 0]);
    assert_eq!(outcomes(&sandbox), [""; 0]);

    write_program(sandbox.path("agent"), "#!/bin/sh\n> made-$AUTOLOOP_ITEM_ID\n");
    let resumed = sandbox.run(&["slots", "--resume"]);
    assert_eq!(resumed.code, Some(0), "{resumed}");
    assert_eq!(outcomes(&sandbox).len(), 4);
    assert_eq!(sandbox.fields("slot.implement", "item_id").len(), 4);
}

#[test]
fn an_agent_that_goes_away_ends_the_run_before_another_item_is_taken() {
    let sandbox = project(GOOD, 3, "");
    write_program(sandbox.path("agent"), "#!/bin/sh\nrm \"$0\"\necho done\n");
    let said = says(&sandbox, "--provider ./agent");
    assert!(said.starts_with("exit 1\n"), "{said}");
    assert_eq!(outcomes(&sandbox), ["t-1 passed: not reviewed: reviews are off"]);
    assert_eq!(sandbox.fields("slot.start", "item_id"), ["t-1"]);
    assert_eq!(tasks(&sandbox), "ready -, ready -");
}
