//! Groups: loops wait for each other only before they are merged.

use autoloop_testkit::slots::git;
use insta::assert_snapshot;

use crate::scene::*;

#[test]
fn a_group_is_merged_when_all_of_it_has_passed_and_then_the_next_begins() {
    let review = "case $T$N in b1) answer false;; *) answer true;; esac";
    let sandbox = project(Agents { review, ..GOOD }, &[&["a", "b"], &["c"]], "");
    completes(&sandbox, "");
    let topics = ["squad.loop ", "squad.review ", "squad.merge ", "squad.turn "];
    let order: Vec<String> = sandbox
        .story()
        .lines()
        .filter(|line| topics.iter().any(|topic| line.contains(topic)))
        .map(str::to_owned)
        .collect();
    let place = |what: &[&str]| {
        let is_it = |line: &&String| what.iter().all(|word| line.contains(word));
        order.iter().position(|line| is_it(&line)).unwrap_or_else(|| panic!("{what:?}: {order:#?}"))
    };
    let b_passed = place(&["squad.review ", "loop_id=[RUN]-2", "verdict=pass"]);
    let merges =
        [1, 2].map(|loop_id| place(&["squad.merge ", &format!("loop_id=[RUN]-{loop_id}")]));
    assert!(merges.iter().all(|merge| *merge > b_passed), "{order:#?}");
    let c_begins = place(&["squad.loop ", "task_id=c"]);
    assert!(merges.iter().all(|merge| *merge < c_begins), "{order:#?}");
    // The second group begins with the work of the first one.
    let base = &sandbox.fields("squad.loop", "base")[2];
    assert_eq!(git(&sandbox, &["ls-tree", "--name-only", base, "a.txt", "b.txt"]), "a.txt\nb.txt");
    let mut subjects = subjects(&sandbox);
    subjects.sort();
    assert_eq!(subjects, ["a: write a", "b: write b", "c: write c", "first"]);
}

#[test]
fn eight_loops_that_pass_at_once_are_merged_one_after_another() {
    let tasks = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let sandbox = project(GOOD, &[&tasks], "");
    completes(&sandbox, "--max-loops 8");
    let merges = rows(&sandbox, "squad.merge", &["outcome"]);
    assert_eq!(merges, ["merged"; 8]);
    assert_eq!(files(&sandbox), tasks.map(|task| format!("{task}.txt")));
    assert_eq!((count(&sandbox, "build"), count(&sandbox, "revise")), (8, 0));
    let commits = sandbox.fields("squad.turn.finish", "commit");
    for commit in &commits {
        git(&sandbox, &["merge-base", "--is-ancestor", commit, "HEAD"]);
    }
    assert_eq!(commits.len(), 8);
}

#[test]
fn no_more_loops_work_at_once_than_are_allowed() {
    let build = "LOCKS=\"$AUTOLOOP_PROJECT_DIR/home/locks\"
        mkdir -p \"$LOCKS/$T\"; ls \"$LOCKS\" | wc -l >> \"$LOCKS.most\"; work; rmdir \"$LOCKS/$T\"; complete";
    let sandbox = project(Agents { build, ..GOOD }, &[&["a", "b", "c", "d"]], "");
    completes(&sandbox, "--max-loops 2");
    let most = String::from_utf8(sandbox.read("home/locks.most")).unwrap();
    let most: Vec<u32> = most.lines().map(|line| line.trim().parse().unwrap()).collect();
    assert!(most.len() == 4 && most.iter().all(|count| *count <= 2), "{most:?}");
}

#[test]
fn what_a_squad_prints() {
    let sandbox = project(GOOD, &[&["a"]], "");
    assert_snapshot!(squad(&sandbox, "--effort low"), @r"
    exit 0
    --- stdout
    squad [RUN]: completed: 1 of 1 task merged
    --- stderr
    squad [RUN] begins: low effort, at most 4 loops at once
      1 task in 1 group
      [RUN]-1  a: write a
      [RUN]-1  build
      [RUN]-1  review
      [RUN]-1  review: pass (unverified: no check ran)
      [RUN]-1  merged
    review of the merged work
    review of the merged work: pass (unverified: no check ran)
    ");
}

#[test]
fn a_squad_is_listed_among_the_runs() {
    let sandbox = project(GOOD, &[&["a", "b"]], "");
    completes(&sandbox, "--effort low");
    let listed = told(&sandbox, &["loops", "--all", "--json"]);
    let field = |name: &str| {
        let line = listed.lines().find(|line| line.contains(&format!("\"{name}\":"))).unwrap();
        line.trim().trim_end_matches(',').to_owned()
    };
    let found = ["kind", "status", "objective"].map(field).join(" ");
    assert_eq!(found, r#""kind": "squad" "status": "completed" "objective": "a plan""#, "{listed}");
}
