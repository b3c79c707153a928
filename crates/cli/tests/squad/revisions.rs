//! Reviews that do not pass: revisions, stuck loops, reviewers without an answer.

use insta::assert_snapshot;

use crate::scene::*;

const FAIL: &str = "answer false '\"issues\":[{\"file\":\"a.txt\",\"line\":3,\"type\":\"dead-code\",\"description\":\"add a test\",\"suggestion\":\"in a_test.txt\"}]'";

#[test]
fn work_that_never_passes_is_revised_so_often_and_is_stuck() {
    for (effort, revisions) in [("low", 2), ("medium", 3), ("high", 4), ("max", 5)] {
        let review = &format!("case $T in a) {FAIL};; *) answer true;; esac");
        let sandbox = project(Agents { review, ..GOOD }, &[&["a", "b"]], "");
        let said = squad(&sandbox, &format!("--effort {effort}"));
        assert!(said.starts_with("exit 1\n"), "{said}");
        let of_a = |phase: &str| {
            turns(&sandbox)
                .iter()
                .filter(|turn| turn.starts_with(&format!("{phase} [RUN]-1")))
                .count()
        };
        assert_eq!((of_a("revise"), of_a("review")), (revisions, revisions + 1), "{effort}");
        // The other loop passed, and waits.
        let reviews = rows(&sandbox, "squad.review", &["loop_id", "verdict"]);
        assert!(reviews.contains(&"[RUN]-2 pass".to_owned()), "{reviews:?}");
        assert_eq!(files(&sandbox), [] as [&str; 0]);
        let ends = rows(&sandbox, "squad.loop.finish", &["loop_id", "outcome", "reason"]);
        assert_eq!(
            ends,
            [format!(
                "[RUN]-1 stuck {revisions} revisions did not pass: - `a.txt:3` (dead-code) add a test"
            )]
        );
    }
}

#[test]
fn feedback_is_in_the_next_prompt() {
    let review = &format!("if [ $N = 1 ]; then {FAIL}; else answer true; fi");
    let sandbox = project(Agents { review, ..GOOD }, &[&["a"]], "");
    assert_snapshot!(squad(&sandbox, ""), @r"
    exit 0
    --- stdout
    squad [RUN]: completed: 1 of 1 task merged
    --- stderr
    squad [RUN] begins: medium effort, at most 4 loops at once
      1 task in 1 group
      [RUN]-1  a: write a
      [RUN]-1  build
      [RUN]-1  review
      [RUN]-1  review: drift: add a test
      [RUN]-1  revision 1
      [RUN]-1  review
      [RUN]-1  review: pass (unverified: no check ran)
      [RUN]-1  merged
    review of the merged work
    review of the merged work: pass (unverified: no check ran)
    ");
    assert_eq!(
        turns(&sandbox),
        [
            "build [RUN]-1 0",
            "review [RUN]-1 0",
            "revise [RUN]-1 1",
            "review [RUN]-1 0",
            "review - 0"
        ]
    );
    let run = &sandbox.fields("squad.start", "run")[0];
    let prompt = sandbox.read(format!(".autoloop/squads/{run}/turn-3/agent.prompt.md"));
    assert_snapshot!(hidden(&sandbox, &String::from_utf8_lossy(&prompt)), @r#"
    # REVISE PHASE

    You build one task, as loop [RUN]-1, in iteration 2. Your working directory is your own git worktree: change files only there. You may commit, but need not. Other loops build other tasks at the same time; your work is reviewed, and merged when all tasks of its group have passed.

    ## Your Task
    **write a** (a)
    write a.txt

    ## Other Loops (for context)
    (none)

    ## Feedback
    Your work was not accepted. This is revision 1 of at most 3. Fix all of the following.

    ```text
    - `a.txt:3` (dead-code) add a test
      Suggestion: in a_test.txt
    ```

    ## How to Finish
    Call `complete_task` when the task is complete: `complete_task({"taskId": "a"})` of the MCP server `autoloop`, or `"$AUTOLOOP_BIN" mcp call complete_task '{"taskId": "a"}'` in a shell.

    Call `fail_task` if it cannot be completed: `fail_task({"taskId": "a", "reason": "…"})` of the MCP server `autoloop`, or `"$AUTOLOOP_BIN" mcp call fail_task '{"taskId": "a", "reason": "…"}'` in a shell.

    A turn that ends without either of them is one more iteration: you are started again.
    "#);
}

#[test]
fn a_reviewer_without_an_answer_is_asked_once_more_and_passes_nothing() {
    for (review, settings, reason) in [
        ("exit 0", "", "the reviewer ended without an answer"),
        ("echo no licence >&2; exit 3", "", "no licence"),
        ("exec sleep 100", "squad.reviewer.timeout_ms = 300\n", "timed out"),
    ] {
        // It answers after the first revision.
        let review = &format!("if [ $N = 1 ]; then {review}; fi; answer true");
        let sandbox = project(Agents { review, ..GOOD }, &[&["a"]], settings);
        completes(&sandbox, "");
        let reviews = rows(&sandbox, "squad.review", &["subject", "turn", "verdict", "reason"]);
        assert_eq!(reviews.len(), 3, "{reviews:?}");
        assert!(reviews[0].starts_with("task 3 "), "the second turn of the reviewer: {reviews:?}");
        assert!(reviews[0].contains(reason), "{reviews:?}");
        assert!(!reviews[0].contains(" pass "), "{reviews:?}");
        assert!(reviews[1].starts_with("task 5 pass"), "{reviews:?}");
        let stored = sql(&sandbox, "select passed from loop_reviews order by reviewed_at");
        assert_eq!(stored, "passed\n0\n1");
        let issues = sql(&sandbox, "select type, description like '%' from review_issues");
        assert_eq!(issues, "type\tdescription like '%'\nundelivered\t1");
    }
}

#[test]
fn a_task_that_is_given_up_blocks_its_group_until_it_is_resolved() {
    let build = "if [ $T = a ]; then call fail_task '{\"reason\":\"no such header\"}'; else work; complete; fi";
    let sandbox = project(Agents { build, ..GOOD }, &[&["a", "b"], &["c"]], "");
    assert_snapshot!(squad(&sandbox, "--effort low --max-loops 1"), @r#"
    exit 1
    --- stdout
    squad [RUN]: stopped: 0 of 3 tasks merged, 1 failed
    --- stderr
    squad [RUN] begins: low effort, at most 1 loop at once
      3 tasks in 2 groups
      [RUN]-1  a: write a
      [RUN]-2  b: write b
      [RUN]-1  build
      [RUN]-1  failed: no such header
      [RUN]-2  build
      [RUN]-2  review
      [RUN]-2  review: pass (unverified: no check ran)
    autoloop: squad '[RUN]' stopped: [RUN]-1 (a) is failed: no such header
      hint: resolve it with `autoloop squad resolve [RUN]-1 --retry`, `--skip` or `--accept "reason"`
    "#);
    assert_eq!(files(&sandbox), [] as [&str; 0]);
    let id = format!("{}-1", sandbox.fields("squad.start", "run")[0]);
    assert_snapshot!(told(&sandbox, &["squad", "resolve", &id, "--accept", "fine"]), @r"
    exit 0
    --- stdout
    squad [RUN]: completed: 3 of 3 tasks merged
    --- stderr
    squad [RUN] resumes: low effort, at most 1 loop at once
      [RUN]-1  nothing to merge
      [RUN]-2  merged
      [RUN]-3  c: write c
      [RUN]-3  build
      [RUN]-3  review
      [RUN]-3  review: pass (unverified: no check ran)
      [RUN]-3  merged
    review of the merged work
    review of the merged work: pass (unverified: no check ran)
    ");
    assert_snapshot!(told(&sandbox, &["squad", "resolve", &id, "--no-watch", "--skip", "not needed"]), @r"
    exit 3
    --- stderr
    autoloop: loop '[RUN]-1' is merged: only a stuck or failed loop is resolved
      hint: `autoloop inspect squad --run [RUN]` shows all loops
    ");
    assert_eq!(files(&sandbox), ["b.txt", "c.txt"]);
    assert_snapshot!(told(&sandbox, &["squad", "resolve", "b", "--retry"]), @r"
    exit 3
    --- stderr
    autoloop: loop '[RUN]-2' is merged: only a stuck or failed loop is resolved
      hint: `autoloop inspect squad --run [RUN]` shows all loops
    ");
    assert_snapshot!(told(&sandbox, &["squad", "resolve", "x", "--retry"]), @r"
    exit 1
    --- stderr
    autoloop: no loop 'x'
      hint: no loop is stuck or failed
    ");
    assert_snapshot!(told(&sandbox, &["squad", "resolve", "x"]), @r"
    exit 2
    --- stderr
    error: the following required arguments were not provided:
      <--retry [<REASON>]|--skip [<REASON>]|--accept <REASON>>

    Usage: autoloop squad resolve <--retry [<REASON>]|--skip [<REASON>]|--accept <REASON>> <LOOP> [DIR]

    For more information, try '--help'.
    ");
}

#[test]
fn a_stuck_loop_can_be_retried_and_accepted() {
    for (flags, expected) in [
        (&["--retry", "the test is in a_test.txt"][..], "done"),
        (&["--accept", "good enough"][..], "accepted"),
    ] {
        let review = &format!("if [ $N -lt 4 ]; then {FAIL}; else answer true; fi");
        let sandbox = project(Agents { review, ..GOOD }, &[&["a"]], "");
        let said = squad(&sandbox, "--effort low");
        assert!(said.starts_with("exit 1\n"), "{said}");
        let words = [&["squad", "resolve", "a", "--no-watch"][..], flags].concat();
        let said = told(&sandbox, &words);
        assert!(said.starts_with("exit 0\n"), "{said}");
        assert_eq!(files(&sandbox), ["a.txt"]);
        let lines = String::from_utf8(sandbox.read("a.txt")).unwrap().lines().count();
        assert_eq!(lines, if expected == "done" { 4 } else { 3 });
    }
}

#[test]
fn a_builder_that_gets_nowhere_is_stuck_with_the_reason() {
    for (build, reason) in [
        (
            "echo no key >&2; exit 2",
            "the same error in 3 iterations: the builder failed (exit code 2): no key",
        ),
        (
            "echo thinking",
            "no progress in 3 iterations: its files did not change, and its agent reported nothing",
        ),
        ("work", "not completed after 6 iterations (squad.max_iterations)"),
    ] {
        let sandbox = project(Agents { build, ..GOOD }, &[&["a"]], "squad.max_iterations = 6\n");
        let said = squad(&sandbox, "--effort low");
        assert!(said.starts_with("exit 1\n"), "{said}");
        assert_eq!(
            rows(&sandbox, "squad.loop.finish", &["outcome", "reason"]),
            [format!("stuck {reason}")]
        );
    }
}

#[test]
fn an_answer_before_a_failure_passes_nothing() {
    for then in ["exit 3", "exec sleep 100"] {
        let review = &format!("answer true; if [ $N = 1 ]; then {then}; fi");
        let settings = "squad.reviewer.timeout_ms = 3000\n";
        let sandbox = project(Agents { review, ..GOOD }, &[&["a"]], settings);
        completes(&sandbox, "");
        let reviews = rows(&sandbox, "squad.review", &["subject", "verdict"]);
        assert_eq!(reviews, ["task failed", "task pass", "build pass"]);
    }
}

#[test]
fn work_that_cannot_be_captured_is_not_complete() {
    let build = "work; if [ $N = 1 ]; then mkdir sub; mkfifo sub/.gitignore; else rm -rf sub; fi
        [ $N = 0 ] || complete";
    let sandbox = project(Agents { build, ..GOOD }, &[&["a"]], "");
    completes(&sandbox, "--effort low");
    let ends = rows(&sandbox, "squad.turn.finish", &["reason"]);
    assert!(ends[1].starts_with("the worktree cannot be read"), "{ends:?}");
    assert_eq!(String::from_utf8(sandbox.read("a.txt")).unwrap().lines().count(), 3);
}

#[test]
fn a_task_that_begins_again_has_all_its_revisions() {
    // It passes on its last revision, and the review of the merged work names it.
    let review = "if [ $N -lt 3 ]; then answer false; else answer true; fi";
    let judge = "if [ $N = 0 ] && [ $(wc -l < a.txt) = 3 ]; then judge false '\"issues\":[{\"taskId\":\"a\",\"description\":\"more\"}]'; else judge true; fi";
    let sandbox = project(Agents { review, judge, ..GOOD }, &[&["a"]], "");
    completes(&sandbox, "--effort low");
    assert_eq!(count(&sandbox, "revise"), 3);
    assert_eq!(String::from_utf8(sandbox.read("a.txt")).unwrap().lines().count(), 4);
}
