//! Slots whose agents attack the project, each other, and the harness.

use std::fs;
use std::process::Stdio;

use autoloop_testkit::sandbox::{Reaped, until, write_program};

use super::*;

/// Shell variables: the directory of the slots, and the project.
const OWN: &str =
    "S=$AUTOLOOP_STATE_DIR; D=$S/slots/$AUTOLOOP_RUN_ID; P=$AUTOLOOP_PROJECT_DIR; N=$AUTOLOOP_SLOT";

/// Runs `hostile` in the second of three slots while the others work, and `late` when their work is
/// merged.
fn beside(hostile: &str, late: &str) -> Sandbox {
    let implement = format!(
        "{OWN}; echo $AUTOLOOP_ITEM_ID > made-$AUTOLOOP_ITEM_ID; touch $S/at-$N\n\
        until [ -e $S/at-1 -a -e $S/at-2 -a -e $S/at-3 ]; do sleep 0.02; done\n\
        [ $N = 2 ] && {{ {hostile}\n}}; touch $S/done-$N\n\
        until [ -e $S/done-2 ]; do sleep 0.02; done\n\
        [ $N = 2 ] || exit 0\n\
        until [ $(grep -c '\"slot.finish\"' \"$AUTOLOOP_JOURNAL_FILE\") = 2 ]; do sleep 0.02; done\n\
        {late}\nexit 0"
    );
    repository(Agents { implement: &implement, ..GOOD }, 3, "")
}

fn run(sandbox: &Sandbox) -> autoloop_testkit::sandbox::Output {
    sandbox.run(&["slots", "--review", "--parallel-agents", "3", "--iterations", "1"])
}

/// The files of the project that are new since the start.
fn news(sandbox: &Sandbox) -> String {
    let begin = git(sandbox, &["rev-list", "--max-parents=0", "HEAD"]);
    git(sandbox, &["diff", "--name-status", &begin, "HEAD"]).replace('\t', " ")
}

/// The outcome of the second slot.
fn second(sandbox: &Sandbox) -> String {
    let slots = sandbox.fields("slot.merge", "slot");
    let place = slots.iter().position(|slot| slot == "2").expect("it was tried");
    sandbox.fields("slot.merge", "outcome").remove(place)
}

const ALL: &str = "A made-t-1\nA made-t-2\nA made-t-3";

#[test]
fn a_slot_on_the_branch_of_the_project_undoes_no_work() {
    for (hostile, late) in [
        ("git checkout -q --ignore-other-worktrees main", ""),
        ("git symbolic-ref HEAD refs/heads/main", ""),
        ("git symbolic-ref $(git symbolic-ref HEAD) refs/heads/main", ""),
        (
            "git config core.logAllRefUpdates false; git checkout -q --ignore-other-worktrees main",
            "",
        ),
        // It commits there itself, after others were merged back.
        ("git checkout -q --ignore-other-worktrees main", "git add -A; git commit -qm late"),
        // It commits there at once, without the project's files being updated.
        ("git checkout -q --ignore-other-worktrees main; git add -A; git commit -qm early", ""),
        ("git add -A; git commit -qm early; git update-ref refs/heads/main HEAD", ""),
    ] {
        let sandbox = beside(hostile, late);
        git(&sandbox, &["config", "user.name", "A"]);
        git(&sandbox, &["config", "user.email", "a@b"]);
        let output = run(&sandbox);
        assert_eq!(output.code, Some(0), "{hostile}; {late}: {output}");
        assert_eq!(news(&sandbox), ALL, "{hostile}; {late}");
        assert_eq!(git(&sandbox, &["status", "--porcelain"]), "", "{hostile}; {late}");
        assert_clean(&sandbox);
    }
}

/// Without a sandbox the reviewed worktree is restored to its commit, but branches are not.
#[test]
fn the_branch_of_the_project_is_not_restored_after_a_review() {
    let implement =
        "git checkout -q --ignore-other-worktrees main; echo x > made-$AUTOLOOP_ITEM_ID";
    let review = format!(
        "until [ $(grep -c '\"slot.finish\"' \"$AUTOLOOP_JOURNAL_FILE\") -ge $((AUTOLOOP_SLOT - 1)) ]; do sleep 0.02; done; {PASS}"
    );
    let settings = "review.sandbox = 'off'";
    let sandbox = repository(Agents { implement, review: &review, ..GOOD }, 3, settings);
    let output = run(&sandbox);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(news(&sandbox), ALL);
    assert_eq!(git(&sandbox, &["status", "--porcelain"]), "");
    assert_eq!(sandbox.fields("review.violation", "path"), [""; 0]);
    assert_clean(&sandbox);
}

#[test]
fn a_tree_replaced_by_a_link_is_reported_and_its_target_unchanged() {
    for hostile in [
        "echo \"gitdir: $P/.git\" > .git",
        "echo \"gitdir: $P/home/other/.git\" > .git",
        "rm .git; git init -q",
        "cd /; rm -r $D/1-2/tree; ln -s $P/home/other $D/1-2/tree",
        "cd /; rm -r $D/1-2/tree; ln -s ../1-1/tree $D/1-2/tree",
        "cd /; mv $D/1-2 $D/aside; ln -s $P/home/aside $D/1-2",
        "cd /; mv $D/1-2 $P/home/moved; ln -s $P/home/moved $D/1-2",
    ] {
        let sandbox = beside(hostile, "");
        sandbox.write("home/aside/tree/file", "mine").write("home/other/file", "mine");
        git(&sandbox, &["init", "-q", "home/other"]);
        let output = run(&sandbox);
        assert_eq!(output.code, Some(1), "{hostile}: {output}");
        assert_eq!(news(&sandbox), "A made-t-1\nA made-t-3", "{hostile}: {:?}", outcomes(&sandbox));
        assert_eq!(git(&sandbox, &["status", "--porcelain"]), "", "{hostile}");
        assert_eq!(sandbox.read("home/aside/tree/file"), b"mine", "{hostile}");
        assert_eq!(sandbox.read("home/other/file"), b"mine", "{hostile}");
        assert!(!sandbox.path("home/other/.git/refs/heads/main").exists(), "{hostile}");
        if hostile.contains("home/moved") {
            assert!(sandbox.path("home/moved/tree/made-t-2").exists(), "nothing is lost");
        }
        let ready = sandbox.run(&["tasks", "ready"]).stdout;
        assert!(ready.contains("t-2"), "{hostile}: {ready}");
    }
}

#[test]
fn a_slot_that_loses_its_tree_to_another_keeps_what_it_committed() {
    let implement = format!(
        "{OWN}; echo $N > made-$N; git add -A; git -c user.name=a -c user.email=b commit -qm work; touch $S/at-$N\n\
        until [ -e $S/at-1 -a -e $S/at-2 ]; do sleep 0.02; done\n\
        [ $N = 2 ] && git worktree remove --force $D/1-1/tree && touch $S/gone\n\
        until [ -e $S/gone ]; do sleep 0.02; done"
    );
    let sandbox = repository(Agents { implement: &implement, ..GOOD }, 2, "");
    let output = sandbox.run(&["slots", "--parallel-agents", "2", "--iterations", "1"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(news(&sandbox), "A made-2");
    let kept = git(&sandbox, &["branch", "--list", "autoloop/*", "--format=%(refname:short)"]);
    assert_eq!(git(&sandbox, &["ls-tree", "--name-only", &kept, "made-1"]), "made-1");
    let failed = outcomes(&sandbox).into_iter().find(|line| line.contains(" failed")).unwrap();
    assert!(failed.contains("is no longer a git worktree"), "{failed}");
    assert!(failed.contains(&format!("its work is on branch {kept}")), "{failed}");
}

#[test]
fn a_slot_that_removes_all_worktrees_ends_no_other_run() {
    let sandbox = beside("rm -rf $D/1-*/tree", "");
    let output = run(&sandbox);
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(outcomes(&sandbox).iter().filter(|line| line.contains(" failed")).count(), 3);
    assert_eq!(sandbox.fields("slot.run.finish", "reason"), ["iterations"]);
}

/// Settings that run programs: what an agent writes to the project's git settings applies to every
/// git command there. Still the harness runs no hook, and no program that watches, signs or shows.
#[test]
fn programs_that_an_agent_configures_are_not_run_by_the_harness() {
    let hostile = "for key in core.fsmonitor diff.external core.pager core.editor core.sshCommand gpg.program sequence.editor core.askPass credential.helper; do
            git config $key \"touch $P/home/ran-$key\"; done
        git config commit.gpgSign true; git config core.hooksPath $P/home/hooks
        git config diff.evil.textconv \"touch $P/home/ran-textconv\"; git config diff.evil.command \"touch $P/home/ran-diff\"
        echo '* diff=evil' > .gitattributes";
    let sandbox = beside(hostile, "");
    for hook in ["pre-commit", "post-checkout", "post-merge", "commit-msg", "reference-transaction"]
    {
        let ran = sandbox.path(format!("home/ran-{hook}"));
        let text = format!("#!/bin/sh\ntouch {}\nexit 1\n", ran.display());
        write_program(sandbox.path(format!("home/hooks/{hook}")), text);
    }
    let output = run(&sandbox);
    assert_eq!(output.code, Some(0), "{output}");
    let ran = fs::read_dir(sandbox.path("home")).unwrap().flatten().map(|entry| entry.file_name());
    let ran: Vec<_> = ran.filter(|name| name.to_string_lossy().starts_with("ran-")).collect();
    assert!(ran.is_empty(), "{ran:?}");
}

#[test]
fn a_lock_that_a_slot_leaves_in_its_tree_blocks_nothing() {
    let sandbox = beside("touch $(git rev-parse --git-dir)/index.lock", "");
    let output = run(&sandbox);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(news(&sandbox), ALL);
    assert_clean(&sandbox);
}

/// Data that git keeps only inside the worktree.
#[test]
fn a_clone_and_a_submodule_in_a_tree_are_not_thrown_away() {
    for (hostile, what) in [
        ("git clone -q \"$P\" clone", "clone/"),
        ("git -c protocol.file.allow=always submodule --quiet add \"$P\" sub", "sub"),
    ] {
        let sandbox = beside(hostile, "");
        let output = run(&sandbox);
        assert_eq!(output.code, Some(0), "{output}");
        let told = format!("slot 2: its worktree is kept: {what} in [DIR]/.autoloop/slots/");
        assert!(output.stderr.contains(&told), "{told}: {output}");
        assert_eq!(git(&sandbox, &["worktree", "list"]).lines().count(), 2);
    }
}

/// After a crash an incomplete worktree is created again, and nothing else may be removed for it.
#[test]
fn a_replaced_worktree_is_not_removed_after_a_crash() {
    for (hostile, told) in [
        (
            "cd /; mv $D/1-2 $D/aside; ln -s $P/home/aside $D/1-2",
            "1-2 is a symbolic link, which is not followed; remove it and resume",
        ),
        (
            "rm .git; git init -q",
            "1-2/tree is no longer a git worktree; its files were not changed",
        ),
    ] {
        let sandbox = beside(&format!("{hostile}; touch $P/home/there; sleep 621"), "");
        sandbox.write("home/aside/tree/file", "mine");
        let mut command = sandbox.command();
        command.args(["slots", "--parallel-agents", "3", "--iterations", "1"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut harness = Reaped::start(command);
        until("the agent", || sandbox.path("home/there").exists().then_some(()));
        harness.kill();
        sandbox.write(".autoloop/done-2", "");
        let resumed = sandbox.run(&["slots", "--resume"]);
        assert_eq!(resumed.code, Some(1), "{hostile}: {resumed}");
        let run = sandbox.fields("slot.run.start", "run").remove(0);
        let at = |dir| sandbox.path(format!(".autoloop/slots/{run}/{dir}/tree/made-t-2"));
        assert!(at("1-2").exists() || at("aside").exists(), "{hostile}: nothing is lost");
        assert_eq!(sandbox.read("home/aside/tree/file"), b"mine");
        let failed = outcomes(&sandbox).into_iter().find(|line| line.contains(" failed")).unwrap();
        assert!(failed.contains(told), "{failed}");
        assert_eq!(news(&sandbox), "A made-t-1\nA made-t-3");
        assert_eq!(sandbox.survivors(), "");
    }
}

/// Whatever an agent does to the history of its worktree, its files are merged back or kept, and
/// reported.
#[test]
fn the_work_of_a_slot_is_merged_or_kept_whatever_it_does_in_its_tree() {
    let me = "git config user.name a; git config user.email b";
    for (hostile, outcome) in [
        ("git add -A; git commit -qm one; git commit -q --amend -m two", "merged"),
        (
            "git add -A; git commit -qm one; git checkout -q -b away; echo x > more; git add -A; git commit -qm two",
            "merged",
        ),
        ("git checkout -q --detach; git add -A; git commit -qm one", "merged"),
        ("git add -A; git commit -qm one; git reset -q --soft HEAD~", "merged"),
        ("git add -A; git commit -qm one; git reset -q --hard HEAD~; echo 2 > made-t-2", "merged"),
        ("git add -A; git stash -q; git stash pop -q", "merged"),
        (
            "B=$(git symbolic-ref --short HEAD); git checkout -q --detach; git branch -qD $B",
            "merged",
        ),
        (
            "B=$(git symbolic-ref HEAD); git add -A; git commit -qm one; git update-ref -d $B",
            "merged",
        ),
        ("git checkout -q --orphan away", "unfinished"),
        (
            "git add -A; git commit -qm one; git checkout -q --detach HEAD~; echo 3 > made-t-2; git add -A; git commit -qm other",
            "unfinished",
        ),
        (
            "git checkout -q -b side; echo s > README.md; git commit -qam s; git checkout -q -; echo o > README.md; git commit -qam o; git merge -q side",
            "unfinished",
        ),
        (
            "git checkout -q -b side; echo s > README.md; git commit -qam s; git checkout -q -; echo o > README.md; git commit -qam o; git rebase -q side",
            "unfinished",
        ),
        (
            "chmod +x README.md; ln -s README.md link; mkdir -p a/b; mv README.md a/b/; echo > 'a b\"c'; printf x > \"$(printf 'new\\nline')\"; printf x > \"$(printf 'caf\\351')\"",
            "merged",
        ),
        ("printf '*.o\\n' >> .gitignore; echo x > y.o; head -c 70000 /dev/zero > zeros", "merged"),
        ("git rm -rq --cached .; git commit -qm none; rm -rf ./*; echo t-2 > made-t-2", "merged"),
        ("mkdir many; cd many; seq 10000 | xargs touch", "merged"),
    ] {
        let sandbox = beside(&format!("{me}; {hostile}"), "");
        let output = run(&sandbox);
        let is_success = outcome == "merged";
        assert_eq!(output.code, Some(i32::from(!is_success)), "{hostile}: {output}");
        assert_eq!(second(&sandbox), outcome, "{hostile}");
        assert_eq!(git(&sandbox, &["status", "--porcelain"]), "", "{hostile}");
        assert!(sandbox.path("made-t-1").exists() && sandbox.path("made-t-3").exists());
        assert_eq!(sandbox.path("made-t-2").exists(), is_success, "{hostile}");
        if is_success {
            assert_clean(&sandbox);
            continue;
        }
        // Work that was not merged back is on a branch that the reason names.
        let failed = outcomes(&sandbox).into_iter().find(|line| line.contains(" failed")).unwrap();
        let names = git(&sandbox, &["branch", "--list", "autoloop/*", "--format=%(refname:short)"]);
        let kept: Vec<&str> = names.lines().filter(|name| failed.contains(*name)).collect();
        let has_it = |name: &&str| !git(&sandbox, &["ls-tree", name, "made-t-2"]).is_empty();
        assert!(kept.iter().any(has_it), "{hostile}: {failed}: {names}");
        assert_eq!(names.lines().count(), kept.len(), "{hostile}: {failed}: {names}");
    }
}
