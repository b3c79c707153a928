//! Checks of the harness on the tree of a loop, and what they do to a verdict.

use crate::scene::*;

#[test]
fn a_pass_while_a_check_fails_is_no_pass() {
    let settings =
        "checks.test.command = 'grep -q revise a.txt || { echo no revision; exit 1; }'\n";
    let sandbox = project(GOOD, &[&["a"]], settings);
    completes(&sandbox, "");
    let reviews = rows(&sandbox, "squad.review", &["subject", "verdict", "support", "reason"]);
    assert_eq!(reviews.len(), 3, "{reviews:?}");
    assert!(reviews[0].starts_with("task drift verified the check `grep -q revise"), "{reviews:?}");
    assert_eq!(reviews[1..], ["task pass verified ", "build pass verified "]);
    let run = &sandbox.fields("squad.start", "run")[0];
    let prompt = |turn: u64| {
        let prompt = sandbox.read(format!(".autoloop/squads/{run}/turn-{turn}/agent.prompt.md"));
        String::from_utf8(prompt).unwrap()
    };
    for turn in [2, 3] {
        assert!(
            prompt(turn).contains("exit code 1 after") && prompt(turn).contains("no revision"),
            "{}",
            prompt(turn)
        );
    }
    // One run for each commit: that of the first turn, of the revision, and of the merge where that differs.
    let checks = rows(&sandbox, "check.finish", &["name", "exit_code"]);
    assert_eq!(checks, ["test 1", "test 0"]);
}

#[test]
fn without_checks_a_pass_is_unverified() {
    let sandbox = project(GOOD, &[&["a"]], "");
    completes(&sandbox, "--effort low");
    let reviews = rows(&sandbox, "squad.review", &["subject", "verdict", "support"]);
    assert_eq!(reviews, ["task pass unverified", "build pass unverified"]);
}

#[test]
fn what_a_reviewer_cites_is_run_again() {
    let review = "call cite_command '{\"command\":\"grep -q revise a.txt\"}'; answer true";
    let sandbox = project(Agents { review, ..GOOD }, &[&["a"]], "");
    completes(&sandbox, "--effort low");
    let reviews = rows(&sandbox, "squad.review", &["subject", "verdict", "support", "reason"]);
    assert_eq!(
        reviews[0],
        "task drift unverified the check `grep -q revise a.txt` failed: exit code 1 after 0s"
    );
    assert_eq!(reviews[1..], ["task pass unverified ", "build pass unverified "]);
}

#[test]
fn work_that_fails_a_check_after_the_merge_begins_again() {
    // Each alone passes; both together do not, until b is revised.
    let settings =
        "checks.test.command = '[ ! -e a.txt ] || [ ! -e b.txt ] || grep -q revise b.txt'\n";
    let sandbox = project(GOOD, &[&["a", "b"]], settings);
    completes(&sandbox, "");
    let merges = rows(&sandbox, "squad.merge", &["loop_id", "outcome"]);
    assert_eq!(merges, ["[RUN]-1 merged", "[RUN]-2 failed", "[RUN]-2 merged"]);
    assert_eq!(files(&sandbox), ["a.txt", "b.txt"]);
    assert_eq!(String::from_utf8(sandbox.read("b.txt")).unwrap(), "revise 2\n");
}
