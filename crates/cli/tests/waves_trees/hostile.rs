//! Branches that attack the project, each other, and the harness.

use std::fs;

use autoloop_testkit::sandbox::write_program;

use super::*;

/// The git branch of a branch, by its number, in shell syntax.
const OWN: &str =
    "W=${AUTOLOOP_RUN_ID%-*}; D=$AUTOLOOP_STATE_DIR/waves/$W/branches; P=$AUTOLOOP_PROJECT_DIR";

/// The files of the project that are new since the start.
fn news(sandbox: &Sandbox) -> String {
    let begin = git(sandbox, &["rev-list", "--max-parents=0", "HEAD"]);
    git(sandbox, &["diff", "--name-only", &begin, "HEAD"])
}

/// Runs `hostile` in the second of three branches; the others do something harmless.
fn beside(hostile: &str) -> Sandbox {
    let branch = format!(
        "{OWN}; echo $B > new-$B; {MEET}\n[ $B = 2 ] && {{ {hostile}\n}}; touch $AUTOLOOP_STATE_DIR/done-$B\n\
        until [ -e $AUTOLOOP_STATE_DIR/done-2 ]; do sleep 0.02; done"
    );
    project("true", "abc", &branch, "")
}

#[test]
fn a_branch_that_works_on_the_branch_of_the_project_commits_nothing_there() {
    for hostile in [
        "git checkout -q --ignore-other-worktrees main",
        "git symbolic-ref refs/heads/autoloop/$W/branch-2 refs/heads/main",
        "git symbolic-ref HEAD refs/heads/main",
    ] {
        let sandbox = beside(hostile);
        run(&sandbox);
        assert_eq!(
            outcomes(&sandbox),
            "branch-1 merged\nbranch-2 merged\nbranch-3 merged",
            "{hostile}"
        );
        assert_eq!(news(&sandbox), "new-1\nnew-2\nnew-3", "{hostile}");
        assert_eq!(git(&sandbox, &["status", "--porcelain"]), "", "{hostile}");
        assert_left(&sandbox, &[]);
    }
}

#[test]
fn a_tree_replaced_by_a_link_is_reported_and_its_target_unchanged() {
    for hostile in [
        "echo \"gitdir: $P/.git\" > .git",
        "echo \"gitdir: $P/home/other/.git\" > .git",
        "rm .git; git init -q",
        "cd /; rm -r $D/branch-2/tree; ln -s $P/home/other $D/branch-2/tree",
        "cd /; rm -r $D/branch-2/tree; ln -s ../branch-1/tree $D/branch-2/tree",
        "cd /; mv $D/branch-2 $D/aside; ln -s $P/home/aside $D/branch-2",
    ] {
        let sandbox = beside(hostile);
        sandbox.write("home/aside/tree/file", "mine").write("home/other/file", "mine");
        git(&sandbox, &["init", "-q", "home/other"]);
        let output = sandbox.run(&["run", ".", "-i", "2"]);
        assert_eq!(output.code, Some(1), "{hostile}: {output}");
        assert_eq!(
            outcomes(&sandbox),
            "branch-1 merged\nbranch-2 failed\nbranch-3 merged",
            "{hostile}"
        );
        assert_eq!(news(&sandbox), "new-1\nnew-3", "{hostile}");
        assert_eq!(git(&sandbox, &["status", "--porcelain"]), "", "{hostile}");
        assert_eq!(text(&sandbox, "home/aside/tree/file"), "mine", "{hostile}");
        assert_eq!(text(&sandbox, "home/other/file"), "mine", "{hostile}");
        assert!(!sandbox.path("home/other/.git/refs/heads/main").exists(), "{hostile}");
    }
}

#[test]
fn a_branch_that_loses_its_tree_to_another_keeps_what_it_committed() {
    let sandbox = project(
        "true",
        "abc",
        &format!(
            "{OWN}; echo $B > new-$B; git add -A; git commit -qm work; {MEET}\n\
             [ $B = 2 ] && git worktree remove --force $D/branch-1/tree && touch $AUTOLOOP_STATE_DIR/done\n\
             until [ -e $AUTOLOOP_STATE_DIR/done ]; do sleep 0.02; done"
        ),
        "",
    );
    run(&sandbox);
    assert_eq!(outcomes(&sandbox), "branch-1 failed\nbranch-2 merged\nbranch-3 merged");
    let kept = sandbox.fields("wave.branch.merge", "branch").remove(0);
    assert_eq!(git(&sandbox, &["ls-tree", "--name-only", &kept, "new-1"]), "new-1");
    let prompt = unnamed(&sandbox, &sandbox.run(&["inspect", "prompt", "2"]).stdout);
    let told = prompt.lines().find(|line| line.starts_with("NOT merged")).unwrap();
    assert_snapshot!(told, @"NOT merged: [DIR]/.autoloop/waves/[RUN]-wave-1/branches/branch-1/tree is no longer a git worktree; its files were not changed. Its worktree is kept. Its work is on the git branch autoloop/[RUN]-wave-1/branch-1 (up to [COMMIT]).");
}

#[test]
fn a_branch_that_removes_the_files_of_the_wave_ends_no_other() {
    let sandbox = beside("rm -rf $AUTOLOOP_STATE_DIR/waves");
    let output = sandbox.run(&["run", ".", "-i", "2"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(outcomes(&sandbox), "branch-1 failed\nbranch-2 failed\nbranch-3 failed");
    assert_eq!(sandbox.fields("loop.stop", "reason").last().unwrap(), "max_iterations");
}

/// Settings that run programs: what a branch writes to the project's git settings applies to every
/// git command there. Still the harness runs no hook, and no program that watches, signs or shows.
#[test]
fn programs_that_a_branch_configures_are_not_run_by_the_harness() {
    let hostile = "for key in core.fsmonitor diff.external core.pager core.editor core.sshCommand gpg.program sequence.editor core.askPass credential.helper; do
            git config $key \"touch $P/home/ran-$key\"; done
        git config commit.gpgSign true; git config core.hooksPath $P/home/hooks
        git config diff.evil.textconv \"touch $P/home/ran-textconv\"; git config diff.evil.command \"touch $P/home/ran-diff\"
        echo '* diff=evil' > .gitattributes";
    let sandbox = beside(hostile);
    for hook in [
        "pre-commit",
        "post-checkout",
        "post-merge",
        "post-commit",
        "reference-transaction",
        "post-index-change",
    ] {
        let ran = sandbox.path(format!("home/ran-{hook}"));
        let text = format!("#!/bin/sh\ntouch {}\n", ran.display());
        write_program(sandbox.path(format!("home/hooks/{hook}")), text);
    }
    run(&sandbox);
    let ran = fs::read_dir(sandbox.path("home")).unwrap().flatten().map(|entry| entry.file_name());
    let ran: Vec<_> = ran.filter(|name| name.to_string_lossy().starts_with("ran-")).collect();
    assert!(ran.is_empty(), "{ran:?}");
    assert_eq!(outcomes(&sandbox), "branch-1 merged\nbranch-2 merged\nbranch-3 merged");
}

#[test]
fn a_lock_that_a_branch_leaves_in_its_tree_blocks_nothing() {
    let sandbox = beside("touch $(git rev-parse --git-dir)/index.lock");
    run(&sandbox);
    assert_eq!(outcomes(&sandbox), "branch-1 merged\nbranch-2 merged\nbranch-3 merged");
}

/// After a crash an incomplete worktree is created again, and nothing else may be removed for it.
#[test]
fn a_directory_that_leads_elsewhere_is_not_cleared_away_after_a_crash() {
    let hostile = "cd /; [ -e $P/home/again ] || { mv $D/branch-2 $D/aside; ln -s $P/home/aside $D/branch-2; touch $P/home/there; sleep 621; }";
    let sandbox = beside(hostile);
    sandbox.write("home/aside/tree/file", "mine");
    let mut command = sandbox.command();
    command.args(["run", ".", "-i", "2"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut harness = Reaped::start(command);
    until("the link", || sandbox.path("home/there").exists().then_some(()));
    harness.kill();
    let resumed = sandbox.run(&["run", "--resume", ".", "-i", "2"]);
    assert_eq!(text(&sandbox, "home/aside/tree/file"), "mine");
    let told = "branches/branch-2 is a symbolic link, which is not followed; remove it and resume";
    assert!(resumed.stderr.contains(told), "{resumed}");
    let run = sandbox.fields("loop.start", "run").remove(0);
    fs::remove_file(sandbox.path(format!(".autoloop/waves/{run}-wave-1/branches/branch-2")))
        .unwrap();
    sandbox.write("home/again", "");
    assert_eq!(sandbox.run(&["run", "--resume", ".", "-i", "2"]).code, Some(1));
    assert_eq!(outcomes(&sandbox), "branch-1 merged\nbranch-2 merged\nbranch-3 merged");
    assert_eq!(sandbox.survivors(), "");
}

#[test]
fn work_of_a_branch_that_changes_after_its_end_is_not_merged() {
    let branch = "echo $B > mine-$B; [ $B = 2 ] || exit 0\n\
        until grep -q '\"wave.branch.finish\"' \"$AUTOLOOP_JOURNAL_FILE\"; do sleep 0.02; done\n\
        echo EVIL > ../../branch-1/tree/mine-1";
    let sandbox = project("true", "ab", branch, "");
    run(&sandbox);
    assert_eq!(outcomes(&sandbox), "branch-1 changed\nbranch-2 merged");
    assert_eq!(git(&sandbox, &["ls-files", "mine-*"]), "mine-2");
    let tree = sandbox.fields("wave.branch.finish", "tree");
    assert!(tree.iter().all(|tree| tree.len() == 40), "{tree:?}");
}

#[test]
fn settings_of_a_branch_do_not_affect_the_merge() {
    let branch = "git config filter.x.clean 'sed s/GOOD/EVIL/'; git config filter.x.smudge 'sed s/GOOD/EVIL/'\n\
        echo '* filter=x' > $(git rev-parse --git-common-dir)/info/attributes; echo GOOD > mine-$B";
    let sandbox = project("true", "a", branch, "");
    run(&sandbox);
    assert_eq!(outcomes(&sandbox), "branch-1 merged");
    assert_eq!(git(&sandbox, &["cat-file", "blob", "HEAD:mine-1"]), "GOOD");
    assert_eq!(text(&sandbox, "mine-1"), "GOOD\n");
}
