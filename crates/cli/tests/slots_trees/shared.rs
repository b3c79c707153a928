//! One slot in the project itself: work that passed is committed, failed work is moved to a branch,
//! and the user's changes stay.

use std::process::Stdio;

use autoloop_testkit::sandbox::{Reaped, until};

use super::reviewed::{ANSWER, ATTACKS, GIT, READS_DIFF, assert_unharmed, attacked};
use super::*;

/// Agents whose first item fails and all others pass.
const FIRST_FAILS: Agents<'_> = Agents {
    review: "v=pass; [ $AUTOLOOP_ITEM_ID = t-1 ] && v=drift; echo \"{\\\"verdict\\\": \\\"$v\\\", \\\"followUpPrompt\\\": \\\"no\\\"}\"",
    ..GOOD
};
const NO_FIXES: &str = "slots.reviewMaxFixAttempts = 0";

fn subjects(sandbox: &Sandbox) -> String {
    git(sandbox, &["log", "--format=%s", "--reverse"])
}

/// Changes of the user: staged, not staged, not tracked, and an ignored file.
fn dirty(sandbox: &Sandbox) -> String {
    sandbox.write("staged", "mine\n").write("README.md", "mine\ntwo\nthree\n");
    git(sandbox, &["add", "staged"]);
    sandbox.write("untracked", "mine\n").write("home/ignored", "mine\n");
    status(sandbox)
}

fn status(sandbox: &Sandbox) -> String {
    let told = [
        git(sandbox, &["status", "--porcelain"]),
        git(sandbox, &["diff"]),
        git(sandbox, &["diff", "--cached"]),
    ];
    let read = |name| String::from_utf8_lossy(&sandbox.read(name)).into_owned();
    [told.join("\n"), read("untracked"), read("home/ignored")].join("\n")
}

#[test]
fn passed_work_is_committed_with_one_slot_too() {
    for review in [&["--review"][..], &[]] {
        let sandbox = repository(GOOD, 2, "");
        let output = sandbox.run(&[&["slots"], review].concat());
        assert_eq!(output.code, Some(0), "{output}");
        assert_eq!(subjects(&sandbox), "first\nt-1: task 1\nt-2: task 2");
        assert_eq!(git(&sandbox, &["show", "--name-only", "--format=", "HEAD"]), "made-t-2");
        assert_eq!(git(&sandbox, &["status", "--porcelain"]), "");
        assert_eq!(sandbox.fields("slot.merge", "outcome"), ["merged"; 2]);
        for reviewed in sandbox.fields("slot.review", "tree") {
            assert!(sandbox.fields("slot.merge", "tree").contains(&reviewed));
        }
        assert_eq!(git(&sandbox, &["for-each-ref", "refs/autoloop"]), "");
        assert_clean(&sandbox);
    }
}

#[test]
fn passed_work_stays_in_the_working_tree_where_the_settings_say_so() {
    let sandbox = repository(FIRST_FAILS, 2, &format!("{NO_FIXES}\nslots.commit = false"));
    let output = sandbox.run(&["slots", "--review"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(subjects(&sandbox), "first");
    assert_eq!(git(&sandbox, &["status", "--porcelain"]), "?? made-t-2", "{output}");
    assert_eq!(git(&sandbox, &["branch", "--list", "autoloop/*"]).lines().count(), 1);
}

#[test]
fn rejected_work_is_on_a_branch_before_the_next_item_starts() {
    let implement = "ls made-* 2>&1; echo $AUTOLOOP_ITEM_ID > made-$AUTOLOOP_ITEM_ID; echo agent >> .gitignore; git add -A";
    let sandbox = repository(Agents { implement, ..FIRST_FAILS }, 2, NO_FIXES);
    let before = dirty(&sandbox);
    let output = sandbox.run(&["slots", "--review"]);
    assert_eq!(output.code, Some(1), "{output}");
    let failed = outcomes(&sandbox).remove(0);
    let branch = git(&sandbox, &["branch", "--list", "autoloop/*", "--format=%(refname:short)"]);
    assert!(failed.ends_with(&format!("; its work is on branch {branch}")), "{failed}");
    assert!(output.stderr.contains(&branch), "{output}");
    assert_eq!(git(&sandbox, &["show", &format!("{branch}:made-t-1")]), "t-1");
    assert_eq!(git(&sandbox, &["log", "--format=%s", &branch]), "t-1: task 1\nfirst");
    let files = git(&sandbox, &["ls-tree", "--name-only", &branch]);
    assert!(!files.contains("untracked") && !files.contains("staged"), "{files}");
    let second = sandbox.fields("slot.implement", "output").remove(1);
    assert!(!second.contains("made-t-1"), "{second}");
    // The second passed and is committed; the user's changes are unchanged.
    assert_eq!(subjects(&sandbox), "first\nt-2: task 2");
    assert_eq!(
        git(&sandbox, &["show", "--name-only", "--format=", "HEAD"]),
        ".gitignore\nmade-t-2"
    );
    assert_eq!(status(&sandbox), before);
}

#[test]
fn commits_of_an_agent_are_undone_with_rejected_work() {
    let implement = "echo x > made-$AUTOLOOP_ITEM_ID; git add -A; git -c user.name=a -c user.email=b commit -qm mine; git checkout -q -b away";
    let sandbox = repository(Agents { implement, ..FIRST_FAILS }, 1, NO_FIXES);
    let output = sandbox.run(&["slots", "--review"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(subjects(&sandbox), "first", "{output}");
    assert_eq!(git(&sandbox, &["branch", "--show-current"]), "main");
    assert_eq!(git(&sandbox, &["status", "--porcelain"]), "");
    assert!(!sandbox.path("made-t-1").exists());
    let kept = git(&sandbox, &["branch", "--list", "autoloop/*", "--format=%(refname)"]);
    assert_eq!(git(&sandbox, &["ls-tree", "--name-only", &kept, "made-t-1"]), "made-t-1");
}

#[test]
fn work_on_lines_that_the_user_changed_stays_and_a_note_says_so() {
    let implement = "sed -i '1s/$/ and the agent/' README.md";
    let sandbox = repository(Agents { implement, ..GOOD }, 1, "");
    dirty(&sandbox);
    let output = sandbox.run(&["slots", "--review"]);
    assert_eq!(output.code, Some(0), "{output}");
    let told = "note: slot 1: the work on t-1 stays in the working tree, not committed (README.md: they had uncommitted changes)";
    assert!(output.stderr.contains(told), "{output}");
    assert_eq!(subjects(&sandbox), "first");
    assert_eq!(sandbox.read("README.md"), b"mine and the agent\ntwo\nthree\n");
    assert_eq!(sandbox.fields("slot.merge", "outcome"), ["in_place"]);
}

#[test]
fn without_a_commit_nothing_is_committed_and_a_note_says_so() {
    let sandbox = project(GOOD, 1, "");
    git(&sandbox, &["init", "-q"]);
    let output = sandbox.run(&["slots"]);
    assert_eq!(output.code, Some(0), "{output}");
    let told = "note: passed work is not committed: the repository [DIR] has no commit; create one";
    assert!(sandbox.filter(&output.stderr).contains(told), "{output}");
    assert!(sandbox.path("made-t-1").exists());
}

#[test]
fn in_a_subdirectory_the_rest_of_the_repository_is_unchanged() {
    let sandbox = repository(FIRST_FAILS, 0, "");
    let settings = String::from_utf8_lossy(&sandbox.read("autoloops.toml")).into_owned();
    sandbox.write("sub/autoloops.toml", format!("{NO_FIXES}\n{settings}"));
    git(&sandbox, &["add", "-A"]);
    git(&sandbox, &["commit", "-q", "-m", "sub"]);
    let before = dirty(&sandbox);
    let in_sub = |args: &[&str]| {
        let mut command = sandbox.command();
        command.current_dir(sandbox.path("sub")).args(args);
        sandbox.finish(command)
    };
    for title in ["a", "b"] {
        assert_eq!(in_sub(&["tasks", "add", title]).code, Some(0));
    }
    let output = in_sub(&["slots", "--review"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(subjects(&sandbox), "first\nsub\nt-2: b", "{output}");
    assert_eq!(git(&sandbox, &["show", "--name-only", "--format=", "HEAD"]), "sub/made-t-2");
    assert_eq!(status(&sandbox), before);
}

#[test]
fn unreviewed_changes_are_not_committed() {
    for attack in ATTACKS {
        attacked(attack, NO_FIXES, assert_unharmed);
    }
    // The history of the user is not rewritten.
    attacked("git rm -q guard; git commit -q --amend -m second", NO_FIXES, |sandbox, told| {
        assert_eq!(subjects(sandbox), "first\nsecond", "{told}");
        assert!(sandbox.path("guard").exists(), "{told}");
    });
}

#[test]
fn work_that_changes_after_its_review_is_reviewed_again_in_the_project_too() {
    let implement = format!("{GIT}\necho GOOD > work");
    let review = format!("{READS_DIFF}\nuntil [ -e home/go ]; do sleep 0.02; done\n{ANSWER}");
    let agents = Agents { implement: &implement, review: &review, ..GOOD };
    let sandbox = repository(agents, 1, NO_FIXES);
    sandbox.write("home/x", "");
    let mut command = sandbox.command();
    command
        .args(["slots", "--review", "--iterations=1"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut harness = Reaped::start(command);
    until("the review", || sandbox.journal().contains("\"phase\": \"review\"").then_some(()));
    let run = sandbox.fields("slot.run.start", "run").remove(0);
    until("its prompt", || {
        let prompt = format!(".autoloop/slots/{run}/1-1/review-0.prompt.md");
        sandbox.path(prompt).exists().then_some(())
    });
    sandbox.write("work", "EVIL\n").write("home/go", "");
    let status = harness.0.wait().unwrap();
    assert!(!status.success());
    assert_unharmed(&sandbox, &sandbox.story());
    assert_eq!(sandbox.fields("slot.review", "verdict"), ["pass", "drift"]);
    assert_eq!(sandbox.fields("slot.merge", "outcome"), ["changed"]);
}

/// Names that only the harness uses and that an agent can guess.
#[test]
fn a_name_of_the_harness_that_an_agent_takes_costs_no_branch_and_no_work() {
    let checkpoint = "git symbolic-ref refs/autoloop/checkpoint/$AUTOLOOP_RUN_ID refs/heads/main";
    let aside = "git symbolic-ref refs/heads/autoloop/slots/$AUTOLOOP_RUN_ID/1-1 refs/heads/main";
    let implement = format!(
        "echo x > made-$AUTOLOOP_ITEM_ID; {checkpoint}; [ $AUTOLOOP_ITEM_ID = t-2 ] || {aside}"
    );
    let sandbox = repository(Agents { implement: &implement, ..FIRST_FAILS }, 2, NO_FIXES);
    let before = dirty(&sandbox);
    let output = sandbox.run(&["slots", "--review"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(subjects(&sandbox), "first\nt-2: task 2", "{output}");
    assert_eq!(status(&sandbox), before, "{output}");
    let branch = git(&sandbox, &["branch", "--list", "autoloop/*", "--format=%(refname)"]);
    assert_eq!(git(&sandbox, &["show", &format!("{branch}:made-t-1")]), "x");
}

#[test]
fn files_ignored_at_the_start_are_not_committed() {
    let implement = "echo x > made-$AUTOLOOP_ITEM_ID; : > .gitignore; git add -A";
    for review in [&["--review"][..], &[]] {
        let sandbox = repository(Agents { implement, ..GOOD }, 1, "");
        let ignored = String::from_utf8_lossy(&sandbox.read(".gitignore")).into_owned();
        sandbox.write(".gitignore", format!("{ignored}\n.env\nsecrets/\n"));
        git(&sandbox, &["commit", "-q", "-a", "-m", "second"]);
        sandbox.write(".env", "secret\n").write("secrets/key", "secret\n");
        let output = sandbox.run(&[&["slots"], review].concat());
        assert_eq!(output.code, Some(0), "{output}");
        let committed = git(&sandbox, &["ls-tree", "-r", "--name-only", "HEAD"]);
        assert!(committed.contains("made-t-1"), "{committed}\n{output}");
        assert!(!committed.contains(".env") && !committed.contains("secrets"), "{committed}");
        assert_eq!(sandbox.read(".env"), b"secret\n");
        assert_eq!(sandbox.read("secrets/key"), b"secret\n");
        let shown = if review.is_empty() { String::new() } else { changes(&sandbox, "1-1") };
        assert!(!shown.contains("b/.env") && !shown.contains("b/secrets"), "{shown}");
    }
}

#[test]
fn uncommitted_changes_that_an_agent_discards_are_kept_on_a_branch() {
    let implement = "git stash -q -u; git stash drop -q; echo x > made-$AUTOLOOP_ITEM_ID";
    let sandbox = repository(Agents { implement, ..GOOD }, 2, "");
    sandbox.write("README.md", "mine\n").write("untracked", "mine\n");
    let output = sandbox.run(&["slots", "--review"]);
    assert_eq!(output.code, Some(0), "{output}");
    let branch = git(&sandbox, &["branch", "--list", "autoloop/*", "--format=%(refname:short)"]);
    let told = format!(
        "note: slot 1: the work reverted uncommitted changes in README.md,untracked; they are on branch {branch}\n"
    );
    assert!(output.stderr.contains(&told), "{output}");
    for name in ["README.md", "untracked"] {
        assert_eq!(git(&sandbox, &["show", &format!("{branch}:{name}")]), "mine");
    }
    assert_eq!(subjects(&sandbox), "first\nt-1: task 1\nt-2: task 2");
}
