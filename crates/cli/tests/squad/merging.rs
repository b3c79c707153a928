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
    let sandbox = conflicting("printf 'a was here\\nb was here\\n' > README.md; git add README.md");
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
    let agents = [
        "true",
        "exit 1",
        "git add -A; git commit -qm resolved --no-verify",
        "git checkout -q --ours README.md; git add README.md",
        "git checkout -q --theirs README.md; git commit -qam resolved",
        "printf 'a was here\\nb was here\\n' > README.md",
        "echo resolved > README.md; git add README.md; rm agent.sh",
        "git merge --abort",
        "git reset -q --hard",
    ];
    let mut reasons = Vec::new();
    for conflict in agents {
        let sandbox = conflicting(conflict);
        completes(&sandbox, "--effort low");
        let merges = rows(&sandbox, "squad.merge", &["loop_id", "outcome", "detail"]);
        assert_eq!(merges.len(), 3, "{conflict}: {merges:?}");
        assert!(
            merges[1].starts_with("[RUN]-2 conflict the conflict was not resolved: "),
            "{merges:?}"
        );
        reasons.push(merges[1].split_once("resolved: ").unwrap().1.to_owned());
        assert_eq!(merges[2], "[RUN]-2 merged -");
        // The loop began again at the work of the other one.
        assert_eq!(readme(&sandbox), "a was here\nb too\n");
        assert_eq!((count(&sandbox, "conflict"), count(&sandbox, "revise")), (1, 1));
        is_clean(&sandbox);
    }
    assert_snapshot!(reasons.join("\n"), @r"
    not merged in the index (README.md); conflict markers left (README.md)
    not merged in the index (README.md); conflict markers left (README.md)
    conflict markers left (README.md)
    the merge was given up: its files are those of the project
    the merge was given up: its files are those of the work
    not merged in the index (README.md)
    the changes of the work are missing (README.md); the changes in the project are missing (README.md); changed, but not in conflict (agent.sh)
    the merge was given up: its files are those of the project
    the merge was given up: its files are those of the project
    ");
}

#[test]
fn uncommitted_changes_of_the_user_are_not_overwritten() {
    let sandbox = project(Agents { build: SAME, ..GOOD }, &[&["a"]], "");
    sandbox.write("README.md", "mine\n");
    assert_snapshot!(squad(&sandbox, "--effort low"), @r"
    exit 1
    --- stdout
    squad [RUN]: stopped: 0 of 1 task merged
    --- stderr
    squad [RUN] begins: low effort, at most 4 loops at once
      1 task in 1 group
      [RUN]-1  a: write a
      [RUN]-1  build
      [RUN]-1  review
      [RUN]-1  review: pass (unverified: no check ran)
      [RUN]-1  merge: uncommitted_changes: README.md
    autoloop: squad '[RUN]' stopped: [RUN]-1: uncommitted_changes: README.md
      hint: commit or remove those changes, then merge with `autoloop squad --resume=[RUN]`
    ");
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
    assert_snapshot!(told(&sandbox, &["squad", "clean"]), @r"
    exit 0
    --- stdout
    nothing to remove
    ");
    // Work that did not pass is kept.
    let sandbox = project(Agents { review: "answer false", ..GOOD }, &[&["a"]], "");
    let said = squad(&sandbox, "--effort low");
    assert!(said.starts_with("exit 1\n"), "{said}");
    let said = told(&sandbox, &["squad", "clean"]);
    assert!(said.starts_with("exit 1\n") && said.contains("kept "), "{said}");
    assert!(git(&sandbox, &["branch", "--list", "autoloop/*"]).lines().count() >= 1);
}
