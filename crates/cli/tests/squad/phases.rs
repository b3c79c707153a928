//! The phases before and after the loops: tasks, plan, and the review of the merged work.

use insta::assert_snapshot;

use crate::scene::*;

const ENUMERATE: &str = r#"for t in a b c; do call write_task "{\"taskId\":\"$t\",\"title\":\"write $t\",\"description\":\"write $t.txt\",\"acceptance\":\"it is there\"}"; done"#;
const PLAN: &str =
    r#"call add_plan_group '{"taskIds":["a","b"]}'; call add_plan_group '{"taskIds":["c"]}'"#;
const FULL: Agents<'_> = Agents { enumerate: ENUMERATE, plan: PLAN, ..GOOD };

/// Runs a squad with a specification.
fn built(sandbox: &autoloop_testkit::Sandbox, flags: &str) -> String {
    let words = ["squad", "write three files", "--no-watch"];
    let words: Vec<&str> = words.into_iter().chain(flags.split_whitespace()).collect();
    told(sandbox, &words)
}

#[test]
fn a_specification_becomes_tasks_and_a_plan_that_are_built() {
    let sandbox = project(FULL, &[], "");
    assert_snapshot!(built(&sandbox, "--effort low --max-loops 1"), @r"
    exit 0
    --- stdout
    squad [RUN]: completed: 3 of 3 tasks merged
    --- stderr
    squad [RUN] begins: low effort, at most 1 loop at once
    enumerate
      3 tasks
    plan
      3 tasks in 2 groups
      [RUN]-1  a: write a
      [RUN]-2  b: write b
      [RUN]-1  build
      [RUN]-1  review
      [RUN]-1  review: pass (unverified: no check ran)
      [RUN]-2  build
      [RUN]-2  review
      [RUN]-2  review: pass (unverified: no check ran)
      [RUN]-1  merged
      [RUN]-2  merged
      [RUN]-3  c: write c
      [RUN]-3  build
      [RUN]-3  review
      [RUN]-3  review: pass (unverified: no check ran)
      [RUN]-3  merged
    review of the merged work
    review of the merged work: pass (unverified: no check ran)
    ");
    assert_eq!(files(&sandbox), ["a.txt", "b.txt", "c.txt"]);
}

#[test]
fn the_effort_decides_which_phases_are_reviewed() {
    for (effort, subjects) in [
        ("low", &["task", "build"][..]),
        ("medium", &["plan", "task", "build"]),
        ("high", &["enumerate", "plan", "task", "build"]),
    ] {
        let sandbox = project(FULL, &[], "");
        let said = built(&sandbox, &format!("--effort {effort}"));
        assert!(said.starts_with("exit 0\n"), "{said}");
        let mut found = rows(&sandbox, "squad.review", &["subject"]);
        found.dedup();
        found.retain({
            let mut seen = std::collections::BTreeSet::new();
            move |subject| seen.insert(subject.clone())
        });
        assert_eq!(found, subjects);
        let stored = sql(&sandbox, "select count(*) from loop_reviews");
        assert_eq!(stored, "count(*)\n3", "reviews of the run are no reviews of loops");
    }
}

#[test]
fn a_plan_that_does_not_pass_is_written_again_with_its_issues() {
    let plan = r#"if grep -q 'c needs a' "$AUTOLOOP_PROMPT_PATH"; then
        call add_plan_group '{"taskIds":["a","b"]}'; call add_plan_group '{"taskIds":["c"]}'
        else call add_plan_group '{"taskIds":["a","b","c"]}'; fi"#;
    let judge = r#"if grep -q 'group 1: a, b, c' "$AUTOLOOP_PROMPT_PATH"; then
        judge false '"issues":[{"taskId":"c","description":"c needs a"}]'
        else judge true; fi"#;
    let sandbox = project(Agents { plan, judge, ..FULL }, &[], "");
    let said = built(&sandbox, "");
    assert!(said.starts_with("exit 0\n"), "{said}");
    let reviews = rows(&sandbox, "squad.review", &["subject", "verdict"]);
    assert_eq!(reviews[..2], ["plan drift", "plan pass"]);
    assert_eq!(sandbox.fields("squad.loop", "group"), ["1", "1", "2"]);
    let issues = sql(&sandbox, "select loop_id, loop_review_id, description from review_issues");
    assert_eq!(issues, "loop_id\tloop_review_id\tdescription\n\t\tc needs a");
}

#[test]
fn a_plan_that_never_passes_fails_the_squad() {
    let judge = r#"judge false '"issues":[{"description":"no"}]'"#;
    let sandbox = project(Agents { judge, ..FULL }, &[], "");
    assert_snapshot!(built(&sandbox, ""), @r"
    exit 1
    --- stdout
    squad [RUN]: failed: 0 of 3 tasks merged
    --- stderr
    squad [RUN] begins: medium effort, at most 4 loops at once
    enumerate
      3 tasks
    plan
      3 tasks in 2 groups
    review of the plan
    review of the plan: drift: no
    plan again
      3 tasks in 2 groups
    review of the plan
    review of the plan: drift: no
    plan again
      3 tasks in 2 groups
    review of the plan
    review of the plan: drift: no
    plan again
      3 tasks in 2 groups
    review of the plan
    review of the plan: drift: no
    autoloop: squad '[RUN]' failed: the review of 'plan' did not pass after the last revision: no
      hint: carry on with `autoloop squad --resume=[RUN]`
    ");
    assert_eq!((count(&sandbox, "plan"), count(&sandbox, "build")), (4, 0));
}

#[test]
fn a_phase_that_produces_nothing_usable_is_repeated_once() {
    let plan = r#"call add_plan_group '{"taskIds":["a","b"]}'"#;
    let sandbox = project(Agents { plan, ..FULL }, &[], "");
    assert_snapshot!(built(&sandbox, "--effort low"), @r"
    exit 1
    --- stdout
    squad [RUN]: failed: 0 of 3 tasks merged
    --- stderr
    squad [RUN] begins: low effort, at most 4 loops at once
    enumerate
      3 tasks
    plan
    note: no group of the plan has c
    plan again
    note: no group of the plan has c
    autoloop: squad '[RUN]' failed: no group of the plan has c
      hint: carry on with `autoloop squad --resume=[RUN]`
    ");
    assert_eq!(count(&sandbox, "plan"), 2);
    let sandbox = project(Agents { enumerate: "echo no model >&2; exit 1", ..FULL }, &[], "");
    assert_snapshot!(built(&sandbox, "--effort low"), @r"
    exit 1
    --- stdout
    squad [RUN]: failed: 0 of 0 tasks merged
    --- stderr
    squad [RUN] begins: low effort, at most 4 loops at once
    enumerate
    enumerate: the planner failed (exit code 1): no model
    note: the planner failed (exit code 1): no model
    enumerate again
    enumerate again: the planner failed (exit code 1): no model
    note: the planner failed (exit code 1): no model
    autoloop: squad '[RUN]' failed: the planner failed (exit code 1): no model
      hint: carry on with `autoloop squad --resume=[RUN]`
    ");
    // A resumed squad tries again.
    let said = told(&sandbox, &["squad", "--resume", "--no-watch"]);
    assert!(said.starts_with("exit 1\n"), "{said}");
    assert_eq!(count(&sandbox, "enumerate"), 4);
}

#[test]
fn tasks_that_the_last_review_names_are_built_again() {
    let judge = r#"if [ -e c.txt ] && ! grep -q revise b.txt; then
        judge false '"issues":[{"taskId":"b","description":"b is wrong"}]'
        else judge true; fi"#;
    let sandbox = project(Agents { judge, ..GOOD }, &[&["a", "b"], &["c"]], "");
    completes(&sandbox, "");
    let turns = turns(&sandbox);
    let revised: Vec<_> = turns.iter().filter(|turn| turn.starts_with("revise")).collect();
    assert_eq!(revised, ["revise [RUN]-2 1"]);
    assert_eq!(
        rows(&sandbox, "squad.review", &["subject", "verdict"])
            .iter()
            .filter(|row| row.starts_with("build"))
            .count(),
        2
    );
    assert_eq!(String::from_utf8(sandbox.read("b.txt")).unwrap(), "build 1\nrevise 2\n");
}

#[test]
fn a_plan_can_be_looked_at_before_it_is_built() {
    let sandbox = project(FULL, &[&["a", "b"], &["c"]], "");
    assert_snapshot!(squad(&sandbox, "--dry-run"), @r"
    exit 0
    --- stdout
    group 1
      a  write a
      b  write b
    group 2
      c  write c
    ");
    assert_eq!(sandbox.journal(), "");
    assert_snapshot!(built(&sandbox, "--dry-run --effort low"), @r"
    exit 0
    --- stdout
    group 1
      a  write a
      b  write b
    group 2
      c  write c
    --- stderr
    squad [RUN] begins: low effort, at most 4 loops at once
    enumerate
      3 tasks
    plan
      3 tasks in 2 groups
    autoloop: build it with `autoloop squad --resume=[RUN]`
    ");
    assert_eq!(count(&sandbox, "build"), 0);
    let said = told(&sandbox, &["squad", "--resume", "--no-watch"]);
    assert!(said.starts_with("exit 0\n"), "{said}");
    assert_eq!(files(&sandbox), ["a.txt", "b.txt", "c.txt"]);
    assert_eq!(count(&sandbox, "enumerate"), 1);
}

#[test]
fn the_event_that_a_task_is_complete_means_the_same_as_the_tool() {
    let build = r#"work; "$AUTOLOOP_BIN" emit task.complete "done""#;
    let sandbox = project(Agents { build, ..GOOD }, &[&["a"]], "");
    completes(&sandbox, "--effort low");
    assert_eq!(sandbox.fields("squad.report", "claim"), ["complete"]);
    assert_eq!(sandbox.fields("task.complete", "payload"), ["done"]);
}
