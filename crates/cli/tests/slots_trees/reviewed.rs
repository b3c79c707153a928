//! Exactly what was reviewed is merged, whatever an agent does to git in between.

use super::*;

/// The author in these projects, and the common git directory of all worktrees.
pub(super) const GIT: &str = "git config user.name a; git config user.email a@b; \
    C=$(git rev-parse --path-format=absolute --git-common-dir); S=$AUTOLOOP_STATE_DIR; D=$S/slots/$AUTOLOOP_RUN_ID";
/// A reviewer that rejects by the diff that it is shown.
pub(super) const READS_DIFF: &str =
    "v=pass; sed -n '/^## Changes/,$p' \"$AUTOLOOP_PROMPT_PATH\" | grep -q EVIL && v=drift";
/// A reviewer that rejects by the files that it is started in.
const READS_FILES: &str = "v=pass; grep -rq --exclude-dir=.git --exclude-dir=.autoloop --exclude=agent.sh EVIL . && v=drift";
pub(super) const ANSWER: &str =
    "echo \"{\\\"verdict\\\": \\\"$v\\\", \\\"followUpPrompt\\\": \\\"seen\\\"}\"";

const WORKTREE: &str = "slots.isolation = 'worktree'\nslots.reviewMaxFixAttempts = 0";

/// Runs an attack in an agent's worktree, and has it reviewed by both reviewers in turn.
pub(super) fn attacked(attack: &str, settings: &str, check: impl Fn(&Sandbox, &str)) {
    for reviewer in [READS_DIFF, READS_FILES] {
        let (implement, review) = (format!("{GIT}\n{attack}"), format!("{reviewer}\n{ANSWER}"));
        let agents = Agents { implement: &implement, review: &review, ..GOOD };
        let sandbox = repository(agents, 1, settings);
        // The script of the agent is no part of the project.
        git(&sandbox, &["rm", "-q", "--cached", "agent.sh"]);
        sandbox.write(".git/info/exclude", "agent.sh\n").write("guard", "keeps watch\n");
        git(&sandbox, &["add", "guard"]);
        git(&sandbox, &["commit", "-q", "-m", "second"]);
        let output = sandbox.run(&["slots", "--review", "--iterations", "1"]);
        check(&sandbox, &format!("{attack}\n{reviewer}\n{output}"));
    }
}

/// Checks that the project has nothing unreviewed, in its branch and in its files.
pub(super) fn assert_unharmed(sandbox: &Sandbox, told: &str) {
    let real = ["--no-replace-objects", "grep", "-l", "EVIL", "HEAD", "--", ".", ":!agent.sh"];
    let mut command = sandbox.at_home("git");
    let found = sandbox.finish({
        command.args(real);
        command
    });
    assert_eq!(found.stdout, "", "{told}");
    for name in ["work", "README.md", "guard"] {
        let text = String::from_utf8_lossy(&sandbox.read(name)).into_owned();
        assert!(!text.contains("EVIL"), "{name}: {text}\n{told}");
    }
}

pub(super) const ATTACKS: [&str; 9] = [
    // A commit that git replaces with another one.
    "echo GOOD > work; git add work; git commit -qm good; G=$(git rev-parse HEAD)\n\
        echo EVIL > work; git commit -qa --amend -m evil; git replace HEAD $G; echo GOOD > work; git add work",
    "echo EVIL > work; git add work; git commit -qm evil; echo GOOD > work; git update-index --assume-unchanged work",
    "echo EVIL > work; git add work; git commit -qm evil; echo GOOD > work; git update-index --skip-worktree work",
    // A filter that stages something else than the file's contents.
    "git config filter.x.clean 'sed s/GOOD/EVIL/'; echo '* filter=x' > $C/info/attributes; echo GOOD > work",
    "git config filter.x.clean 'sed s/GOOD/EVIL/'; echo '* filter=x' > .gitattributes; echo GOOD > work",
    "git config --global filter.x.clean 'sed s/GOOD/EVIL/'; git config --global core.attributesFile $C/attr; echo '* filter=x' > $C/attr; echo GOOD > work",
    // A filter that checks out something else than the committed contents.
    "git config filter.x.smudge 'sed s/GOOD/EVIL/'; echo '* filter=x' > $C/info/attributes; echo GOOD > work",
    // Attributes that hide changes from a diff.
    "echo '* -diff' > $C/info/attributes; echo EVIL > work; echo EVIL >> README.md",
    "git config diff.x.textconv true; git config diff.x.command true; echo '* diff=x' > $C/info/attributes; echo EVIL > work",
];

#[test]
fn unreviewed_changes_are_not_merged() {
    for attack in ATTACKS {
        attacked(attack, WORKTREE, assert_unharmed);
    }
}

/// The merge is made from what was reviewed, not from the history that the agent arranged.
#[test]
fn an_amended_base_does_not_change_what_is_merged() {
    for attack in [
        "git rm -q guard; git commit -q --amend -m second",
        "git rm -q guard; git commit -qm gone; git replace --graft HEAD",
        "git rm -q guard; git reset -q --soft HEAD~; git commit -qm other",
    ] {
        attacked(attack, WORKTREE, |sandbox, told| {
            assert_eq!(sandbox.fields("slot.merge", "outcome"), ["merged"], "{told}");
            assert!(!sandbox.path("guard").exists(), "it was reviewed that it goes: {told}");
            assert_eq!(git(sandbox, &["log", "--format=%s"]), "t-1: task 1\nsecond\nfirst");
            assert_clean(sandbox);
        });
    }
}

/// Two slots: the second acts while the first is being reviewed, and the first reviewer waits for
/// it.
fn meddled(meddling: &str, settings: &str) -> Sandbox {
    let implement = format!(
        "{GIT}\nif [ $AUTOLOOP_SLOT = 1 ]; then echo GOOD > work; exit 0; fi\n\
        until grep -q '\"slot\": \"1\".*\"phase\": \"review\"' \"$AUTOLOOP_JOURNAL_FILE\"; do sleep 0.02; done\n\
        ({meddling}\n)\ntouch $S/meddled; echo 2 > second"
    );
    let review = format!(
        "{READS_DIFF}\nuntil [ -e $AUTOLOOP_STATE_DIR/meddled ]; do sleep 0.02; done\n{ANSWER}"
    );
    let agents = Agents { implement: &implement, review: &review, ..GOOD };
    repository(agents, 2, &format!("slots.reviewMaxFixAttempts = 0\n{settings}"))
}

#[test]
fn work_that_changes_between_review_and_merge_is_reviewed_again() {
    for meddling in [
        "echo EVIL > $D/1-1/tree/work",
        "echo EVIL > $D/1-1/tree/more",
        "cd $D/1-1/tree; echo EVIL > work; git add -A; git commit -qm evil",
    ] {
        let sandbox = meddled(meddling, "review.sandbox = 'auto'");
        let output = sandbox.run(&["slots", "--review", "--parallel-agents=2", "--iterations=1"]);
        assert_unharmed(&sandbox, &format!("{meddling}\n{output}"));
        assert_eq!(output.code, Some(1), "{meddling}\n{output}");
        let slots = sandbox.fields("slot.review", "slot");
        assert_eq!(slots.iter().filter(|slot| *slot == "1").count(), 2, "{meddling}\n{output}");
        assert_eq!(git(&sandbox, &["ls-files", "second"]), "second");
    }
}

#[test]
fn a_branch_that_moves_between_review_and_merge_does_not_change_what_is_merged() {
    for meddling in [
        "T=$(git rev-parse HEAD); echo EVIL > evil; git add evil; git commit -qm evil\n\
            git update-ref refs/heads/autoloop/slots/$AUTOLOOP_RUN_ID/1-1 HEAD; git reset -q --hard $T",
        "T=$(git rev-parse HEAD); echo EVIL > evil; git add evil; git commit -qm evil\n\
            git -C $D/1-1/tree update-ref HEAD $(git rev-parse HEAD); git reset -q --hard $T",
        "T=$(git rev-parse HEAD); cd $D/1-1/tree; git add -A; git commit -qm work; git checkout -q --detach\n\
            W=$(git rev-parse HEAD); cd $D/1-2/tree; git reset -q --hard $W; echo EVIL > evil; git add evil; git commit -qm evil\n\
            git update-ref refs/heads/autoloop/slots/$AUTOLOOP_RUN_ID/1-1 HEAD; git reset -q --hard $T",
    ] {
        let sandbox = meddled(meddling, "");
        let output = sandbox.run(&["slots", "--review", "--parallel-agents=2", "--iterations=1"]);
        assert_unharmed(&sandbox, &format!("{meddling}\n{output}"));
        assert_eq!(git(&sandbox, &["ls-files", "second"]), "second");
    }
}

/// A slot that merges what others merged back, and discards their changes in the merge.
#[test]
fn merged_work_of_others_is_not_undone_by_an_agents_merge() {
    let implement = format!(
        "{GIT}\necho $AUTOLOOP_SLOT > made-$AUTOLOOP_SLOT; [ $AUTOLOOP_SLOT = 1 ] && exit 0\n\
        until grep -q '\"slot.finish\"' \"$AUTOLOOP_JOURNAL_FILE\"; do sleep 0.02; done\n\
        git add -A; git commit -qm mine; git merge -q -s ours -m ours main"
    );
    let sandbox = repository(Agents { implement: &implement, ..GOOD }, 2, "");
    let output = sandbox.run(&["slots", "--review", "--parallel-agents=2", "--iterations=1"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(git(&sandbox, &["ls-files", "made-*"]), "made-1\nmade-2");
    assert_clean(&sandbox);
}

/// Both slots change one file, so that git merges its text with a driver that an agent configured.
#[test]
fn a_merge_driver_of_an_agent_is_not_run() {
    let implement = format!(
        "{GIT}\ngit config merge.x.driver 'echo EVIL > %A'; echo '* merge=x' > $C/info/attributes\n\
        [ $AUTOLOOP_SLOT = 1 ] && sed -i 1s/.*/1/ README.md || echo 2 >> README.md; touch $S/at-$AUTOLOOP_SLOT\n\
        until [ -e $S/at-1 -a -e $S/at-2 ]; do sleep 0.02; done"
    );
    let sandbox = repository(Agents { implement: &implement, ..GOOD }, 2, "");
    let output = sandbox.run(&["slots", "--review", "--parallel-agents=2", "--iterations=1"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(sandbox.read("README.md"), b"1\ntwo\nthree\n2\n", "{output}");
}

#[test]
fn a_review_names_the_tree_that_is_merged() {
    let sandbox = repository(GOOD, 1, WORKTREE);
    let output = sandbox.run(&["slots", "--review"]);
    assert_eq!(output.code, Some(0), "{output}");
    let tree = sandbox.fields("slot.review", "tree").remove(0);
    assert_eq!(git(&sandbox, &["rev-parse", "HEAD^{tree}"]), tree);
    assert!(changes(&sandbox, "1-1").contains(&tree), "{}", changes(&sandbox, "1-1"));
}

/// The project has a filter; an agent redefines it and changes a setting that makes the harness
/// choose the worktrees again.
#[test]
fn a_filter_of_the_project_is_run_as_it_was_when_the_run_began() {
    let implement = format!(
        "{GIT}\necho GOOD > work-$AUTOLOOP_ITEM_ID; git config filter.x.clean 'sed s/GOOD/EVIL/'\n\
        sed -i 's/parallelAgents = 1/parallelAgents = 2/' \"$AUTOLOOP_PROJECT_DIR/autoloops.toml\""
    );
    let settings = format!("{WORKTREE}\nslots.parallelAgents = 1");
    let sandbox = repository(Agents { implement: &implement, ..GOOD }, 2, &settings);
    git(&sandbox, &["config", "filter.x.clean", "sed s/GOOD/stored/"]);
    sandbox.write(".gitattributes", "work-* filter=x\n");
    git(&sandbox, &["add", ".gitattributes"]);
    git(&sandbox, &["commit", "-q", "-m", "second"]);
    git(&sandbox, &["update-index", "--skip-worktree", "autoloops.toml"]);
    let output = sandbox.run(&["slots", "--review"]);
    assert_eq!(output.code, Some(0), "{output}");
    for item in ["t-1", "t-2"] {
        assert_eq!(git(&sandbox, &["show", &format!("HEAD:work-{item}")]), "stored", "{output}");
    }
}
