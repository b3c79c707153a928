//! Implementers that change nothing: the item is closed only if a reviewer confirms that no change
//! was needed.

use autoloop_testkit::Sandbox;

use crate::scene::*;

const MARKER: Agents<'_> = Agents { implement: "echo no_beads_available", ..GOOD };
const IDLE: Agents<'_> = Agents { implement: "echo I am done", ..GOOD };

/// The ids of the tasks that can be taken.
fn ready(sandbox: &Sandbox) -> Vec<String> {
    let listed = sandbox.run(&["tasks", "ready"]).stdout;
    let ids = listed.lines().filter_map(|line| line.split_whitespace().next());
    ids.filter(|id| id.starts_with("t-")).map(str::to_owned).collect()
}

#[test]
fn an_item_whose_implementer_prints_only_the_stop_marker_is_released() {
    let scenes = [project(MARKER, 2, ""), repository(MARKER, 2, "")];
    for (sandbox, flags) in scenes.iter().flat_map(|scene| [(scene, ""), (scene, "--review")]) {
        passes(sandbox, flags);
        assert_eq!(ready(sandbox), ["t-1", "t-2"], "{flags}");
    }
    for sandbox in &scenes {
        let released = "t-1 no_item: the implementer reported that there is nothing to do";
        assert_eq!(outcomes(sandbox), [released, released]);
        assert_eq!(sandbox.fields("slot.run.finish", "reason"), ["stop_marker"; 2]);
        assert_eq!(verdicts(sandbox), [""; 0]);
    }
}

#[test]
fn work_next_to_a_stop_marker_is_judged_as_any_other() {
    let implement = format!("{}; echo no_beads_available", GOOD.implement);
    let agents = Agents { implement: &implement, ..GOOD };
    for (flags, reason) in [("", "not reviewed: reviews are off"), ("--review", "good")] {
        let sandbox = repository(agents, 2, "");
        passes(&sandbox, flags);
        assert_eq!(outcomes(&sandbox), [format!("t-1 passed: {reason}")]);
        assert_eq!(sandbox.fields("slot.run.finish", "reason"), ["stop_marker"]);
    }
}

#[test]
fn a_stop_marker_beside_the_work_of_another_slot_closes_nothing() {
    // The second waits until the work of the first is visible.
    let implement = "case $AUTOLOOP_ITEM_ID in t-1) echo work > made-t-1;; *) until [ -s made-t-1 ]; do :; done; echo no_beads_available;; esac";
    let sandbox = repository(Agents { implement, ..GOOD }, 2, "");
    passes(&sandbox, "--parallel-agents 2 --isolation shared");
    assert_eq!(ready(&sandbox), ["t-2"]);
}

#[test]
fn an_empty_change_set_is_released_without_a_reviewer() {
    for flags in ["", "--isolation worktree", "--review --reviewer-prompt="] {
        let sandbox = repository(IDLE, 2, "");
        fails(&sandbox, flags);
        assert_eq!(ready(&sandbox), ["t-1", "t-2"], "{flags}");
        // Each once: a run does not retake an item that it released.
        assert_eq!(sandbox.fields("slot.finish", "item_id"), ["t-1", "t-2"]);
        assert_eq!(sandbox.fields("slot.finish", "outcome"), ["failed"; 2]);
        let reason = "the implementer changed nothing, and without a review nothing confirms that no change was needed";
        assert_eq!(sandbox.fields("slot.finish", "reason"), [reason; 2]);
    }
    let counted = repository(IDLE, 1, "");
    fails(&counted, "--iterations 2");
    assert_eq!(counted.fields("slot.finish", "item_id"), ["t-1", "t-1"]);
    // Uncommitted changes from before a slot started are not the slot's work.
    let dirty = repository(IDLE, 1, "");
    dirty.write("README.md", "one\n").write("new", "untracked");
    fails(&dirty, "");
    assert_eq!(ready(&dirty), ["t-1"]);
}

#[test]
fn a_change_counts_whether_or_not_it_is_committed() {
    let commit = "git -c user.name=A -c user.email=a@b commit -q -m work";
    for implement in [
        "echo new > new".to_owned(),
        format!("echo new > new; git add new; {commit}"),
        format!("git rm -q README.md; {commit}"),
        "chmod +x README.md".to_owned(),
    ] {
        let sandbox = repository(Agents { implement: &implement, ..GOOD }, 1, "");
        passes(&sandbox, "");
        assert_eq!(ready(&sandbox), [""; 0], "{implement}");
    }
}

#[test]
fn a_reviewer_decides_whether_an_empty_change_set_was_needed() {
    for flags in ["--review", "--review --isolation worktree"] {
        let sandbox = repository(IDLE, 1, "");
        passes(&sandbox, flags);
        assert_eq!(outcomes(&sandbox), ["t-1 passed: no change was needed: good"]);
        let prompt = file(&sandbox, "1-1/review-0.prompt.md");
        assert!(prompt.contains("\nThe change set is empty"), "{prompt}");
        assert!(prompt.contains("`pass` then means that no change was needed"), "{prompt}");
    }
    let sandbox = repository(Agents { review: DRIFT_THEN_PASS, ..IDLE }, 1, "");
    passes(&sandbox, "--review");
    assert_eq!(outcomes(&sandbox), ["t-1 passed: add a test"]);
    assert!(!file(&sandbox, "1-1/review-1.prompt.md").contains("The change set is empty"));
    let refused = repository(Agents { review: DRIFT, fix: "true", ..IDLE }, 1, "");
    fails(&refused, "--review --review-max-fix-attempts 1");
    assert_eq!(ready(&refused), ["t-1"]);
}
