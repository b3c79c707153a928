//! Conflicts, and what is in the way of a merge.

use autoloop_testkit::Sandbox;
use autoloop_testkit::slots::git;
use insta::assert_snapshot;

use crate::scene::*;

/// Both builders change the same line; one that begins again keeps what is there.
const SAME: &str = "if [ $AUTOLOOP_PHASE = build ]; then echo \"$T was here\" > README.md; else echo \"$T too\" >> README.md; fi; complete";

fn conflicting(conflict: &str) -> Sandbox {
    project(Agents { build: SAME, revise: SAME, conflict, ..GOOD }, &[&["a", "b"]], "")
}

/// Nothing is left behind in the project: no change, no merge under way.
fn is_clean(sandbox: &Sandbox) {
    assert_eq!(git(sandbox, &["status", "--porcelain"]), "");
    assert!(!sandbox.path(".git/MERGE_HEAD").exists());
}

fn readme(sandbox: &Sandbox) -> String {
    String::from_utf8(sandbox.read("README.md")).unwrap()
}

#[test]
fn a_conflict_that_an_agent_resolves_is_merged_with_both_contributions() {
    let sandbox = conflicting("printf 'a was here\\nb was here\\n' > README.md");
    completes(&sandbox, "--effort low");
    let merges = rows(&sandbox, "squad.merge", &["loop_id", "outcome", "resolved_by"]);
    assert_eq!(merges, ["[RUN]-1 merged -", "[RUN]-2 merged 5"]);
    assert_eq!(readme(&sandbox), "a was here\nb was here\n");
    for commit in sandbox.fields("squad.turn.finish", "commit") {
        git(&sandbox, &["merge-base", "--is-ancestor", &commit, "HEAD"]);
    }
    assert_eq!(count(&sandbox, "revise"), 0);
    is_clean(&sandbox);
}

#[test]
fn a_conflict_that_is_not_resolved_has_the_loop_begin_again() {
    for (conflict, reason) in [
        ("true", "marker"),
        ("git add -A; git commit -qm resolved --no-verify", "marker"),
        ("git checkout -q --ours README.md; git add README.md", "README.md"),
        ("git checkout -q --theirs README.md; git commit -qam resolved", "README.md"),
        ("git merge --abort", ""),
        ("git reset -q --hard; printf 'resolved\\n'; exit 0", ""),
        ("exit 1", "marker"),
    ] {
        let sandbox = conflicting(conflict);
        completes(&sandbox, "--effort low");
        let merges = rows(&sandbox, "squad.merge", &["loop_id", "outcome", "detail"]);
        assert_eq!(merges.len(), 3, "{conflict}: {merges:?}");
        assert!(
            merges[1].starts_with("[RUN]-2 conflict the conflict was not resolved: "),
            "{merges:?}"
        );
        assert!(merges[1].contains(reason), "{conflict}: {merges:?}");
        assert_eq!(merges[2], "[RUN]-2 merged -");
        // The loop began again at the work of the other one.
        assert_eq!(readme(&sandbox), "a was here\nb too\n");
        assert_eq!((count(&sandbox, "conflict"), count(&sandbox, "revise")), (1, 1));
        is_clean(&sandbox);
    }
}

#[test]
fn a_conflict_that_never_ends_leaves_the_loop_stuck() {
    let always = "echo \"$T was here\" > README.md; complete";
    let agents = Agents { build: always, revise: always, conflict: "true", ..GOOD };
    let sandbox = project(
        Agents {
            revise: "git checkout -q HEAD~1 -- README.md 2>/dev/null; echo \"$T was here\" > README.md; complete",
            ..agents
        },
        &[&["a", "b"]],
        "",
    );
    let said = squad(&sandbox, "--effort low");
    // Beginning again at the merged work, the same change is no conflict any more.
    assert!(said.starts_with("exit 0\n"), "{said}");
    is_clean(&sandbox);
}

#[test]
fn uncommitted_changes_of_the_user_are_not_overwritten() {
    let sandbox = project(Agents { build: SAME, ..GOOD }, &[&["a"]], "");
    sandbox.write("README.md", "mine\n");
    assert_snapshot!(squad(&sandbox, "--effort low"), @"");
    assert_eq!(readme(&sandbox), "mine\n");
    git(&sandbox, &["checkout", "-q", "README.md"]);
    let said = told(&sandbox, &["squad", "--resume", "--no-watch"]);
    assert!(said.starts_with("exit 0\n"), "{said}");
    assert_eq!(readme(&sandbox), "a was here\n");
    assert_eq!(count(&sandbox, "build"), 1);
}

#[test]
fn what_is_left_is_removed_once_it_is_reachable() {
    let sandbox = project(GOOD, &[&["a", "b"]], "");
    completes(&sandbox, "--effort low");
    assert!(git(&sandbox, &["branch", "--list", "autoloop/*"]).lines().count() >= 2);
    let said = told(&sandbox, &["squad", "clean"]);
    assert!(said.starts_with("exit 0\n"), "{said}");
    assert_eq!(git(&sandbox, &["branch", "--list", "autoloop/*"]), "");
    assert_eq!(git(&sandbox, &["worktree", "list"]).lines().count(), 1);
    assert_snapshot!(told(&sandbox, &["squad", "clean"]), @"");
    // Work that did not pass is kept.
    let sandbox = project(Agents { review: "answer false", ..GOOD }, &[&["a"]], "");
    let said = squad(&sandbox, "--effort low");
    assert!(said.starts_with("exit 1\n"), "{said}");
    let said = told(&sandbox, &["squad", "clean"]);
    assert!(said.starts_with("exit 1\n") && said.contains("kept "), "{said}");
    assert!(git(&sandbox, &["branch", "--list", "autoloop/*"]).lines().count() >= 1);
}
