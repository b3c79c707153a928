//! Checkpoints: all active loops are reviewed together.

use crate::scene::*;

/// How many iterations a task takes.
fn builds(iterations: &str) -> String {
    format!("work; case $T in {iterations} esac; if [ $((N + 1)) -ge $most ]; then complete; fi")
}

#[test]
fn one_loop_at_the_interval_has_all_active_loops_reviewed() {
    // The other loop waits in its third turn until the checkpoints have begun.
    let build = "work
        if [ $T = b ] && [ $N = 2 ]; then
            until grep -q squad.review \"$AUTOLOOP_JOURNAL_FILE\"; do sleep 0.01; done
        fi
        if [ $T = a ] && [ $N = 4 ]; then
            until [ \"$(grep -c '\"loop_id\": \"'\"${L%-*}\"'-2\".*\"exit_code\"' \"$AUTOLOOP_JOURNAL_FILE\")\" = 2 ]; do sleep 0.01; done
        fi
        case $T in a) most=9;; b) most=4;; esac
        if [ $((N + 1)) -ge $most ]; then complete; fi";
    let sandbox = project(Agents { build, ..GOOD }, &[&["a", "b"]], "");
    completes(&sandbox, "--effort medium");
    let of = |subject: &str| -> Vec<String> {
        rows(&sandbox, "squad.review", &["subject", "loop_id", "task_id", "verdict"])
            .into_iter()
            .filter(|row| row.starts_with(subject))
            .collect()
    };
    // At iteration 5 of a and 2 of b, and none until five more.
    let mut checkpoints = of("progress");
    checkpoints.sort();
    assert_eq!(checkpoints, ["progress [RUN]-1 - pass", "progress [RUN]-2 - pass"]);
    let stored = sql(&sandbox, "select count(*), count(task_id) from loop_reviews");
    assert_eq!(stored, "count(*)\tcount(task_id)\n4\t2");
}

#[test]
fn with_the_most_effort_each_iteration_of_each_loop_is_reviewed_once() {
    let build = &builds("*) most=4;;");
    let sandbox = project(Agents { build, ..GOOD }, &[&["a", "b"]], "");
    completes(&sandbox, "--effort max");
    // Three iterations without completion each; the fourth is reviewed as complete.
    let turns = turns(&sandbox);
    for id in [1, 2] {
        let of = |phase: &str| {
            turns.iter().filter(|turn| turn.starts_with(&format!("{phase} [RUN]-{id} "))).count()
        };
        assert_eq!((of("build"), of("checkpoint"), of("review")), (4, 3, 1), "{turns:?}");
    }
}

#[test]
fn what_a_checkpoint_finds_is_in_the_next_prompt_and_is_no_revision() {
    let build = &builds("*) most=3;;");
    let checkpoint = "answer false '\"issues\":[{\"description\":\"wrong direction\"}]'";
    let sandbox = project(Agents { build, checkpoint, ..GOOD }, &[&["a"]], "");
    completes(&sandbox, "--effort max");
    assert_eq!(count(&sandbox, "revise"), 0);
    let run = &sandbox.fields("squad.start", "run")[0];
    let prompt = sandbox.read(format!(".autoloop/squads/{run}/turn-3/agent.prompt.md"));
    let prompt = String::from_utf8(prompt).unwrap();
    assert!(prompt.contains("## Checkpoint") && prompt.contains("- wrong direction"), "{prompt}");
}

#[test]
fn the_pass_of_a_checkpoint_is_no_pass_of_the_task() {
    let build = &builds("*) most=2;;");
    let sandbox = project(Agents { build, review: "true", ..GOOD }, &[&["a"]], "");
    let said = squad(&sandbox, "--effort max");
    assert!(said.starts_with("exit 1\n"), "{said}");
    let reviews = rows(&sandbox, "squad.review", &["subject", "verdict"]);
    assert_eq!(reviews[0], "progress pass");
    assert!(!reviews.contains(&"task pass".to_owned()), "{reviews:?}");
}
