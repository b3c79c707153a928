//! Slots in git: their worktrees, the diffs that reviewers are shown, and how work is merged back.
#![cfg(target_os = "linux")]

use std::fs;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::write_program;
use autoloop_testkit::slots::{self, Agents, DRIFT, GOOD, PASS, git, outcomes, told};
use insta::assert_snapshot;

#[path = "slots_trees/hostile.rs"]
mod hostile;
#[path = "slots_trees/reviewed.rs"]
mod reviewed;
#[path = "slots_trees/setups.rs"]
mod setups;
#[path = "slots_trees/shared.rs"]
mod shared;

fn project(agents: Agents<'_>, tasks: usize, settings: &str) -> Sandbox {
    slots::project(env!("CARGO_BIN_EXE_autoloop"), agents, (tasks, settings))
}

fn repository(agents: Agents<'_>, tasks: usize, settings: &str) -> Sandbox {
    slots::repository(env!("CARGO_BIN_EXE_autoloop"), agents, (tasks, settings))
}

/// The diff that a reviewer was shown.
fn changes(sandbox: &Sandbox, slot: &str) -> String {
    let run = sandbox.fields("slot.run.start", "run").remove(0);
    let prompt = sandbox.read(format!(".autoloop/slots/{run}/{slot}/review-0.prompt.md"));
    let prompt = String::from_utf8_lossy(&prompt).into_owned();
    let from = prompt.find("## Changes").unwrap_or_default();
    let to = prompt.find("## Your answer\nText").unwrap_or(prompt.len());
    prompt[from..to].to_owned()
}

/// Checks that no worktrees and branches of slots are left.
fn assert_clean(sandbox: &Sandbox) {
    assert_eq!(git(sandbox, &["worktree", "list"]).lines().count(), 1);
    assert_eq!(git(sandbox, &["branch", "--list", "autoloop/*"]), "");
    assert_eq!(sandbox.survivors(), "");
}

#[test]
fn several_slots_work_in_worktrees_and_their_work_is_merged() {
    let implement = "echo $AUTOLOOP_ITEM_ID > made-$AUTOLOOP_ITEM_ID; ls made-*; pwd";
    let sandbox = repository(Agents { implement, ..GOOD }, 3, "");
    let output = sandbox.run(&["slots", "--review", "--parallel-agents", "3"]);
    assert_eq!(output.code, Some(0), "{output}");
    for (place, output) in sandbox.fields("slot.implement", "output").iter().enumerate() {
        assert_eq!(output.matches("made-").count(), 1, "slot {place} sees only its own: {output}");
        assert!(output.contains("/tree"), "{output}");
    }
    for item in ["t-1", "t-2", "t-3"] {
        assert_eq!(sandbox.read(format!("made-{item}")), format!("{item}\n").into_bytes());
    }
    assert_eq!(git(&sandbox, &["status", "--porcelain"]), "");
    assert_eq!(sandbox.fields("slot.merge", "outcome"), ["merged"; 3]);
    for commit in sandbox.fields("slot.merge", "commit") {
        git(&sandbox, &["merge-base", "--is-ancestor", &commit, "HEAD"]);
    }
    assert_clean(&sandbox);
}

/// A git that notes whether its `PWD` is the directory in which it has to work.
const NOTES_PWD: &str = r#"#!/bin/sh
pwd=$(tr '\0' '\n' < /proc/$$/environ | sed -n 's/^PWD=//p')
old=$(tr '\0' '\n' < /proc/$$/environ | sed -n 's/^OLDPWD=//p')
[ "$1" = -C ] && dir=$(realpath "$2") || dir=$(pwd -P)
[ "$pwd$old" = "$dir" ] && echo right >> "$NOTES" || echo "$* in $dir was given $pwd $old" >> "$NOTES"
exec "$GIT" "$@"
"#;

#[test]
fn pwd_of_the_children_of_slots_is_their_working_directory() {
    // A prompt in a variable spans several lines.
    let given = r"tr '\n\0' ' \n' < /proc/$$/environ | grep -E '^(OLD)?PWD='; pwd -P";
    let implement = format!("{given}; echo x > made-$AUTOLOOP_ITEM_ID");
    let review = format!("{given}; {PASS}");
    let agents = Agents { implement: &implement, review: &review, ..GOOD };
    let sandbox = repository(agents, 2, "");
    let notes = sandbox.path("home/notes");
    write_program(sandbox.path("home/bin/git"), NOTES_PWD);
    let path = std::env::var("PATH").unwrap_or_default();
    let real = std::env::split_paths(&path).map(|dir| dir.join("git")).find(|git| git.is_file());
    let mut command = sandbox.command();
    command.args(["slots", "--review", "--parallel-agents", "2"]);
    command.env("PATH", format!("{}:{path}", sandbox.path("home/bin").display()));
    command.env("GIT", real.unwrap()).env("NOTES", &notes).env("PWD", "/usr").env("OLDPWD", "/tmp");
    let output = sandbox.finish(command);
    assert_eq!(output.code, Some(0), "{output}");
    for topic in ["slot.implement", "slot.review"] {
        for output in sandbox.fields(topic, "output") {
            let lines: Vec<&str> = output.split(r"\u000a").collect();
            assert_eq!(lines[0], format!("PWD={}", lines[1]), "{topic}: {output}");
        }
    }
    let notes = fs::read_to_string(notes).unwrap();
    assert!(notes.contains("right"), "git was not started");
    assert_eq!(notes.lines().find(|line| *line != "right"), None);
}

#[test]
fn a_reviewer_is_shown_commits_staged_unstaged_and_untracked_changes_of_its_own_slot() {
    let implement = "i=$AUTOLOOP_ITEM_ID; echo $i >> README.md; git add -A; git -c user.name=a -c user.email=a@b commit -q -m c; echo s > staged-$i; git add staged-$i; echo two >> staged-$i; echo u > new-$i";
    for (extra, slot) in [("--parallel-agents=2", "1-2"), ("--parallel-agents=1", "2-1")] {
        let sandbox = repository(Agents { implement, ..GOOD }, 2, "");
        let output = sandbox.run(&["slots", "--review", extra]);
        let shown = changes(&sandbox, slot);
        if extra.ends_with('2') {
            // Both changed the same line of one file.
            assert_eq!(output.code, Some(1), "{output}");
        } else {
            assert_eq!(output.code, Some(0), "{output}");
        }
        let added: Vec<&str> = shown
            .lines()
            .filter(|line| line.starts_with('+') && !line.starts_with("+++"))
            .collect();
        let item = if shown.contains("new-t-2") { "t-2" } else { "t-1" };
        assert_eq!(added, [&format!("+{item}"), "+u", "+s", "+two"], "{shown}");
        let foreign = if item == "t-2" { "new-t-1" } else { "new-t-2" };
        assert!(!shown.contains(foreign), "{shown}");
    }
}

#[test]
fn a_conflict_opens_the_item_again_with_the_reason_and_loses_nothing() {
    let implement = "sed -i \"1s/.*/$AUTOLOOP_ITEM_ID/\" README.md";
    let sandbox = repository(Agents { implement, ..GOOD }, 2, "");
    let output = sandbox.run(&["slots", "--review", "--parallel-agents", "2", "--iterations", "1"]);
    assert_eq!(output.code, Some(1), "{output}");
    let mut merges = sandbox.fields("slot.merge", "outcome");
    merges.sort();
    assert_eq!(merges, ["conflict", "merged"]);
    assert!(sandbox.fields("slot.merge", "files").contains(&"README.md".to_owned()));
    let failed =
        outcomes(&sandbox).into_iter().find(|line| line.contains("failed")).unwrap_or_default();
    assert!(
        failed.contains(
            "could not be merged back (conflict: README.md); its work is on branch autoloop/slots/"
        ),
        "{failed}"
    );
    // The worktree is as the other slot left it, and the branch has the work.
    assert_eq!(git(&sandbox, &["status", "--porcelain"]), "");
    let branch = git(&sandbox, &["branch", "--list", "autoloop/*", "--format=%(refname:short)"]);
    let item = failed.split(' ').next().unwrap_or_default();
    assert!(git(&sandbox, &["show", &format!("{branch}:README.md")]).starts_with(item));
    assert_eq!(git(&sandbox, &["worktree", "list"]).lines().count(), 1);
    let ready = sandbox.run(&["tasks", "ready"]).stdout;
    assert!(ready.contains(item), "{ready}");
    // The next run starts from the current state.
    let output = sandbox.run(&["slots", "--review"]);
    assert_eq!(output.code, Some(0), "{output}");
}

#[test]
fn failed_work_is_not_merged_and_not_lost() {
    let sandbox = repository(Agents { review: DRIFT, ..GOOD }, 2, "slots.reviewMaxFixAttempts = 1");
    assert_eq!(sandbox.run(&["slots", "--review", "--parallel-agents", "2"]).code, Some(1));
    assert!(!sandbox.path("made-t-1").exists() && !sandbox.path("made-t-2").exists());
    let branches = git(&sandbox, &["branch", "--list", "autoloop/*", "--format=%(refname:short)"]);
    let branches: Vec<&str> = branches.lines().collect();
    assert_eq!(branches.len(), 2);
    let files = git(&sandbox, &["ls-tree", "--name-only", branches[0]]);
    assert!(files.contains("made-t-"), "{files}");
    for reason in sandbox.fields("slot.finish", "reason") {
        assert!(reason.contains("; its work is on branch autoloop/slots/"), "{reason}");
    }
    assert_eq!(git(&sandbox, &["worktree", "list"]).lines().count(), 1);
}

#[test]
fn an_agent_that_did_nothing_leaves_no_branch() {
    let sandbox = repository(Agents { implement: "true", ..GOOD }, 2, "");
    assert_eq!(sandbox.run(&["slots", "--review", "--parallel-agents", "2"]).code, Some(0));
    assert_eq!(sandbox.fields("slot.merge", "outcome"), ["nothing"; 2]);
    assert!(changes(&sandbox, "1-1").contains("The change set is empty"));
    assert_clean(&sandbox);
    let failing = repository(Agents { implement: "exit 3", ..GOOD }, 2, "");
    assert_eq!(failing.run(&["slots", "--parallel-agents", "2"]).code, Some(1));
    assert_clean(&failing);
}

#[test]
fn a_persons_changes_survive() {
    let implement = "echo $AUTOLOOP_ITEM_ID > made-$AUTOLOOP_ITEM_ID; [ $AUTOLOOP_ITEM_ID = t-2 ] && echo theirs >> README.md; true";
    let sandbox = repository(Agents { implement, ..GOOD }, 2, "");
    sandbox.write("README.md", "mine\n").write("note", "mine\n");
    let output = sandbox.run(&["slots", "--review", "--parallel-agents", "2", "--iterations", "1"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(sandbox.read("README.md"), b"mine\n");
    assert_eq!(sandbox.read("made-t-1"), b"t-1\n");
    assert!(sandbox.fields("slot.merge", "outcome").contains(&"uncommitted_changes".to_owned()));
    assert!(sandbox.path("note").exists());
}

#[test]
fn a_shared_tree_is_reported() {
    let sandbox = repository(GOOD, 2, "");
    let shared = ["slots", "--review", "--parallel-agents", "2", "--isolation", "shared"];
    assert_eq!(sandbox.run(&shared).code, Some(0));
    let run = sandbox.fields("slot.run.start", "run").remove(0);
    let read = |name: &str| {
        let text = sandbox.read(format!(".autoloop/slots/{run}/1-1/{name}"));
        String::from_utf8_lossy(&text).into_owned()
    };
    assert!(
        read("review-0.prompt.md")
            .contains("## Parallel agents\nSeveral agents work in this directory")
    );
    assert!(read("implement.prompt.md").contains("other agents work in it on other items"));
    assert!(sandbox.path("made-t-1").exists() && sandbox.path("made-t-2").exists());
    assert_eq!(git(&sandbox, &["log", "--oneline"]).lines().count(), 1, "nothing was committed");
}

#[test]
fn one_slot_can_have_a_tree_too() {
    let sandbox = repository(GOOD, 1, "");
    assert_eq!(sandbox.run(&["slots", "--isolation", "worktree"]).code, Some(0));
    assert_eq!(git(&sandbox, &["log", "-1", "--format=%s"]), "t-1: task 1");
    assert_clean(&sandbox);
}

#[test]
fn a_project_in_a_subdirectory_works_there() {
    let sandbox = repository(GOOD, 0, "");
    sandbox.write("sub/autoloops.toml", sandbox.read("autoloops.toml"));
    git(&sandbox, &["add", "-A"]);
    git(&sandbox, &["commit", "-q", "-m", "sub"]);
    let in_sub = |args: &[&str]| {
        let mut command = sandbox.command();
        command.current_dir(sandbox.path("sub")).args(args);
        sandbox.finish(command)
    };
    for title in ["a", "b"] {
        assert_eq!(in_sub(&["tasks", "add", title]).code, Some(0));
    }
    let output = in_sub(&["slots", "--review", "--parallel-agents", "2"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(sandbox.path("sub/made-t-1").exists() && sandbox.path("sub/made-t-2").exists());
    assert_eq!(git(&sandbox, &["worktree", "list"]).lines().count(), 1);
}

#[test]
fn git_add_all_adds_no_worktree() {
    let implement =
        "ls; git -C \"$AUTOLOOP_PROJECT_DIR\" add -A --dry-run; echo x > made-$AUTOLOOP_ITEM_ID";
    let sandbox = repository(Agents { implement, ..GOOD }, 2, "");
    sandbox.write(".gitignore", "home/\n");
    git(&sandbox, &["commit", "-q", "-am", "what runs leave behind is not ignored"]);
    let output = sandbox.run(&["slots", "--parallel-agents", "2"]);
    assert_eq!(output.code, Some(0), "{output}");
    for added in sandbox.fields("slot.implement", "output") {
        assert!(added.contains("README.md") && !added.contains(".autoloop"), "{added}");
    }
    assert_eq!(git(&sandbox, &["ls-files", ".autoloop"]), "");
}

#[test]
fn outside_of_git_slots_share_the_project_and_a_line_says_so() {
    let sandbox = project(GOOD, 2, "");
    assert_snapshot!(told(&sandbox, &["slots", "--parallel-agents", "2", "--isolation", "worktree"]), @r"
    exit 2
    --- stderr
    autoloop: slots cannot have worktrees of their own: [DIR] is not in a git repository
      hint: pass `--isolation shared` to run all slots in the project itself
    ");
    let output = sandbox.run(&["slots", "--review", "--parallel-agents", "2"]);
    assert_eq!(output.code, Some(0));
    let note = "note: all slots work in the project, and see each other's changes: ";
    assert!(output.stderr.contains(note), "{output}");
    assert!(output.stderr.contains(" is not in a git repository\n"), "{output}");
    assert!(
        changes(&sandbox, "1-1").contains("(the changes cannot be shown: "),
        "{}",
        changes(&sandbox, "1-1")
    );
    assert!(
        fs::read_dir(sandbox.path(".autoloop/slots")).is_ok_and(|runs| runs.count() == 1),
        "what could not begin left nothing"
    );
    // A repository without a commit counts as none.
    let unborn = project(GOOD, 2, "");
    git(&unborn, &["init", "-q"]);
    assert_snapshot!(told(&unborn, &["slots", "--isolation", "worktree"]), @r"
    exit 2
    --- stderr
    autoloop: slots cannot have worktrees of their own: the repository [DIR] has no commit; create one
      hint: pass `--isolation shared` to run all slots in the project itself
    ");
    let output = unborn.run(&["slots", "--parallel-agents", "2"]);
    assert_eq!(output.code, Some(0), "{output}");
    let shared = format!("{note}the repository [DIR] has no commit; create one\n");
    assert!(unborn.filter(&output.stderr).contains(&shared), "{output}");
}

#[test]
fn a_reviewer_changes_nothing_in_the_tree_of_its_slot() {
    let sneak = "git add -A; git -c user.name=r -c user.email=r@x commit -q -m sneaked || true";
    let review = format!(
        "echo hacked > made-$AUTOLOOP_ITEM_ID; git checkout -q README.md; echo x > new; {sneak}; {PASS}"
    );
    for sandboxed in ["auto", "off"] {
        let settings = format!("review.sandbox = '{sandboxed}'\nreview.enabled = false");
        let sandbox = repository(Agents { review: &review, ..GOOD }, 4, &settings);
        let output = sandbox.run(&["slots", "--review", "--parallel-agents", "4"]);
        assert_eq!(output.code, Some(0), "{output}");
        for item in 1..=4 {
            assert_eq!(sandbox.read(format!("made-t-{item}")), format!("t-{item}\n").into_bytes());
        }
        assert!(!sandbox.path("new").exists());
        assert_eq!(git(&sandbox, &["status", "--porcelain"]), "");
        assert!(!git(&sandbox, &["log", "--format=%s"]).contains("sneaked"));
        if sandboxed == "off" {
            let paths = sandbox.fields("review.violation", "path");
            assert_eq!(paths.iter().filter(|path| *path == "HEAD").count(), 4, "{paths:?}");
        }
        assert_clean(&sandbox);
    }
}
