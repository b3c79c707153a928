//! Slots in all kinds of repositories, and beside users who continue their own work.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use autoloop_testkit::sandbox::{Reaped, until, write_program};

use super::*;

/// Two slots. The first one also does what a user does meanwhile in the project.
fn meanwhile(person: &str) -> Sandbox {
    let implement = format!(
        "echo $AUTOLOOP_ITEM_ID > made-$AUTOLOOP_ITEM_ID; cd \"$AUTOLOOP_PROJECT_DIR\"\n\
        [ $AUTOLOOP_SLOT = 1 ] && {{ {person}\n touch home/done; }}\n\
        until [ -e home/done ]; do sleep 0.02; done"
    );
    let sandbox = repository(Agents { implement: &implement, ..GOOD }, 2, "");
    git(&sandbox, &["config", "user.name", "A Person"]);
    git(&sandbox, &["config", "user.email", "person@example.org"]);
    sandbox.write("home/person", "");
    sandbox
}

const RUN: [&str; 5] = ["slots", "--review", "--parallel-agents", "2", "--iterations=1"];

#[test]
fn commits_of_the_user_stay() {
    let sandbox = meanwhile("echo mine > mine; git add mine; git commit -qm mine");
    let output = sandbox.run(&RUN);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(git(&sandbox, &["ls-files", "m*"]), "made-t-1\nmade-t-2\nmine");
    assert_eq!(git(&sandbox, &["status", "--porcelain"]), "");
    assert_clean(&sandbox);
}

#[test]
fn work_is_merged_into_the_branch_that_is_checked_out() {
    let sandbox = meanwhile("git checkout -q -b feature");
    let output = sandbox.run(&RUN);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(git(&sandbox, &["ls-tree", "--name-only", "feature", "made-t-2"]), "made-t-2");
    assert_eq!(git(&sandbox, &["ls-tree", "--name-only", "main", "made-t-2"]), "");
    assert_clean(&sandbox);
}

/// Otherwise the work would bring back what the user removed from the history.
#[test]
fn work_is_not_merged_into_a_branch_without_its_base() {
    for person in [
        "git commit -q --amend --allow-empty -m anew",
        "git checkout -q --orphan other; git commit -qm other",
        "git checkout -q earlier",
    ] {
        let sandbox = meanwhile(person);
        git(&sandbox, &["branch", "earlier"]);
        git(&sandbox, &["commit", "-q", "--allow-empty", "-m", "secret"]);
        let output = sandbox.run(&RUN);
        assert_eq!(output.code, Some(1), "{person}: {output}");
        assert_eq!(sandbox.fields("slot.merge", "outcome"), ["failed"; 2], "{person}");
        assert!(!git(&sandbox, &["log", "--format=%s"]).contains("secret"), "{person}");
        assert_eq!(git(&sandbox, &["status", "--porcelain"]), "", "{person}");
        for line in outcomes(&sandbox) {
            let told = "does not contain ";
            assert!(line.contains(told) && line.contains("; its work is on branch "), "{line}");
        }
        let kept = git(&sandbox, &["branch", "--list", "autoloop/*", "--format=%(refname)"]);
        assert_eq!(kept.lines().count(), 2, "{person}: {kept}");
    }
}

#[test]
fn a_merge_of_the_user_is_not_touched() {
    let sandbox = meanwhile(
        "git checkout -q -b side; echo s > README.md; git commit -qam s; git checkout -q main\n\
        echo m > README.md; git commit -qam m; git merge -q side",
    );
    let output = sandbox.run(&RUN);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(sandbox.path(".git/MERGE_HEAD").exists());
    let told = "t-2 failed: the work could not be merged back (project_busy: a merge); its work is on branch autoloop/slots/";
    let outcomes = outcomes(&sandbox);
    assert!(outcomes.iter().any(|line| line.starts_with(told)), "{outcomes:?}");
}

/// Otherwise every item of the queue would be worked on, only to fail in the end.
#[test]
fn a_lock_in_the_project_is_named_while_it_may_be_in_use() {
    let sandbox = meanwhile("touch .git/index.lock");
    let at_work_in = |dir: &Path| {
        let mut git = Command::new("git");
        git.arg("-C").arg(dir).args(["cat-file", "--batch"]);
        git.stdin(Stdio::piped()).stdout(Stdio::null());
        Reaped::start(git)
    };
    let mut at_work = at_work_in(&sandbox.path(""));
    // A git process of another repository does not matter, however long it runs.
    let elsewhere = tempfile::tempdir().unwrap();
    git(&sandbox, &["init", "-q", elsewhere.path().to_str().unwrap()]);
    let _other = at_work_in(elsewhere.path());
    let output = sandbox.run(&RUN);
    assert_eq!(output.code, Some(1), "{output}");
    let told = "autoloop: git is locked by [DIR]/.git/index.lock; if no git process is running there, remove the file and resume";
    assert!(output.stderr.contains(told), "{output}");
    assert_eq!(outcomes(&sandbox), [""; 0]);
    assert!(sandbox.path(".git/index.lock").exists());
    at_work.kill();
    // In a container the processes outside of it are unknown.
    let first = Path::new("pid:[4026531836]");
    if fs::read_link("/proc/self/ns/pid").unwrap() != first || !Path::new("/proc/1/stat").exists() {
        fs::remove_file(sandbox.path(".git/index.lock")).unwrap();
    }
    let resumed = sandbox.run(&["slots", "--resume"]);
    assert_eq!(resumed.code, Some(0), "{resumed}");
    assert!(!sandbox.path(".git/index.lock").exists(), "a git was killed there");
    assert_eq!(sandbox.fields("slot.implement", "slot").len(), 2, "nothing is done twice");
    assert_clean(&sandbox);
}

/// The harness was killed before the worktree had its files, and then the item was lost.
#[test]
fn an_incomplete_worktree_is_not_work() {
    let implement = "touch $AUTOLOOP_PROJECT_DIR/home/there; sleep 641";
    let sandbox = repository(Agents { implement, ..GOOD }, 1, "");
    sandbox.write("home/person", "");
    let mut command = sandbox.command();
    command.args(["slots", "--isolation", "worktree"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut harness = Reaped::start(command);
    until("the agent", || sandbox.path("home/there").exists().then_some(()));
    harness.kill();
    let run = sandbox.fields("slot.run.start", "run").remove(0);
    sandbox.write(".git/worktrees/tree/locked", "initializing");
    fs::remove_file(sandbox.path(format!(".autoloop/slots/{run}/1-1/tree/README.md"))).unwrap();
    assert_eq!(sandbox.run(&["tasks", "release", "t-1", "--force"]).code, Some(0));
    let closed = sandbox.run(&["tasks", "close", "t-1"]);
    assert_eq!(closed.code, Some(0), "{closed}");
    let resumed = sandbox.run(&["slots", "--resume"]);
    assert_eq!(outcomes(&sandbox), ["t-1 failed: another worker closed the item"], "{resumed}");
    assert_clean(&sandbox);
}

/// Runs two slots in a directory, and returns the commits of its branch.
fn made_in(sandbox: &Sandbox, dir: &Path) -> String {
    let at = |args: &[&str]| {
        let mut command = sandbox.command();
        command.current_dir(dir).args(args);
        let output = sandbox.finish(command);
        assert_eq!(output.code, Some(0), "{output}");
    };
    at(&["tasks", "add", "a"]);
    at(&["tasks", "add", "b"]);
    at(&RUN);
    let dir = dir.display().to_string();
    assert_eq!(git(sandbox, &["-C", &dir, "status", "--porcelain"]), "");
    assert_eq!(git(sandbox, &["branch", "--list", "autoloop/*"]), "");
    git(sandbox, &["-C", &dir, "ls-files", "made-*"])
}

#[test]
fn a_project_may_be_a_working_tree_of_another_or_of_a_bare_repository() {
    for settings in
        [&["config", "user.name", "A"][..], &["config", "extensions.worktreeConfig", "true"]]
    {
        let sandbox = repository(GOOD, 0, "");
        git(&sandbox, settings);
        git(&sandbox, &["worktree", "add", "-q", "-b", "linked", "home/linked"]);
        assert_eq!(made_in(&sandbox, &sandbox.path("home/linked")), "made-t-1\nmade-t-2");
        assert_eq!(git(&sandbox, &["ls-files", "made-*"]), "", "the other is as it was");
        git(&sandbox, &["clone", "-q", "--bare", ".", "home/bare.git"]);
        let bare = sandbox.path("home/bare.git").display().to_string();
        git(&sandbox, &["-C", &bare, "worktree", "add", "-q", "../of-bare", "main"]);
        assert_eq!(made_in(&sandbox, &sandbox.path("home/of-bare")), "made-t-1\nmade-t-2");
    }
}

#[test]
fn a_detached_head_advances_and_the_branch_stays() {
    let sandbox = repository(GOOD, 0, "");
    git(&sandbox, &["checkout", "-q", "--detach"]);
    let main = git(&sandbox, &["rev-parse", "main"]);
    assert_eq!(made_in(&sandbox, &sandbox.path("")), "made-t-1\nmade-t-2");
    assert_eq!(git(&sandbox, &["rev-parse", "main"]), main);
}

#[test]
fn hooks_signatures_and_missing_names_stop_nothing() {
    let sandbox = repository(GOOD, 0, "");
    for hook in ["pre-commit", "commit-msg", "post-checkout", "post-merge", "reference-transaction"]
    {
        let path = sandbox.path(format!(".git/hooks/{hook}"));
        write_program(path, "#!/bin/sh\nsleep 687\nexit 1\n");
    }
    git(&sandbox, &["config", "commit.gpgSign", "true"]);
    git(&sandbox, &["config", "gpg.program", "/nowhere"]);
    git(&sandbox, &["config", "user.useConfigOnly", "true"]);
    assert_eq!(made_in(&sandbox, &sandbox.path("")), "made-t-1\nmade-t-2");
    assert_eq!(git(&sandbox, &["log", "-1", "--format=%an"]), "autoloop");
}

#[test]
fn a_directory_without_a_commit_in_it_is_there_in_a_tree() {
    let sandbox = repository(GOOD, 0, "");
    sandbox.write("sub/.gitignore", "*\n!made-*\n");
    sandbox.write("sub/autoloops.toml", sandbox.read("autoloops.toml"));
    assert_eq!(made_in(&sandbox, &sandbox.path("sub")), "made-t-1\nmade-t-2");
}

/// Another user's repository, which git refuses to use.
#[test]
fn a_repository_that_git_does_not_trust_is_as_good_as_none() {
    let sandbox = repository(GOOD, 2, "");
    if std::os::unix::fs::chown(sandbox.path(""), Some(12_345), None).is_err()
        || std::os::unix::fs::chown(sandbox.path(".git"), Some(12_345), None).is_err()
    {
        autoloop_testkit::sandbox::tell("only the superuser can give files away; skipped");
        return;
    }
    assert_snapshot!(told(&sandbox, &["slots", "--isolation", "worktree"]), @r"
    exit 2
    --- stderr
    autoloop: slots cannot have worktrees of their own: [DIR] belongs to another user, so git refuses to use it; if you trust it, run `git config --global --add safe.directory [DIR]`
      hint: pass `--isolation shared` to run all slots in the project itself
    ");
    let output = sandbox.run(&RUN);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stderr.contains("note: reviewers see no diff: "), "{output}");
}

#[test]
fn a_reviewer_is_shown_renames_modes_links_binary_and_odd_names() {
    let implement = "git mv README.md LIESMICH.md; chmod +x autoloops.toml; ln -s agent.sh link\n\
        head -c 5000 /dev/urandom > binary; echo a > 'a \"b\" c'; echo n > \"$(printf 'new\\nline')\"\n\
        printf 'l\\n' > \"$(printf 'caf\\351')\"; printf 'caf\\351\\n' > latin; rm agent.sh; echo '*.o' >> .gitignore; echo o > x.o";
    let sandbox = repository(Agents { implement, ..GOOD }, 1, "slots.isolation = 'worktree'");
    // The default width of git's summary, where no terminal is known.
    let sandbox = sandbox.env("COLUMNS", "80");
    let output = sandbox.run(&["slots", "--review"]);
    assert_eq!(output.code, Some(0), "{output}");
    let shown = changes(&sandbox, "1-1");
    let (_, shown) = shown.split_once("```text\n").unwrap();
    let summary = shown.split("diff --git").next().unwrap();
    assert_snapshot!(summary, @r#"
     .gitignore               |   1 +
     README.md => LIESMICH.md |   0
     "a \"b\" c"              |   1 +
     agent.sh                 |  16 ----------------
     autoloops.toml           |   0
     binary                   | Bin 0 -> 5000 bytes
     caf�                     |   1 +
     latin                    |   1 +
     link                     |   1 +
     "new\nline"              |   1 +
     10 files changed, 6 insertions(+), 16 deletions(-)
    "#);
    let heads = shown.lines().filter(|line| {
        ["rename", "old mode", "new mode", "new file", "deleted", "Binary", "+"]
            .iter()
            .any(|head| line.starts_with(head))
    });
    let heads: Vec<&str> = heads.map(str::trim_end).collect();
    assert_snapshot!(heads.join("\n"), @r#"
    +++ b/.gitignore
    +*.o
    rename from README.md
    rename to LIESMICH.md
    new file mode 100644
    +++ "b/a \"b\" c"
    +a
    deleted file mode 100644
    +++ /dev/null
    old mode 100644
    new mode 100755
    new file mode 100644
    Binary files /dev/null and b/binary differ
    new file mode 100644
    +++ b/caf�
    +l
    new file mode 100644
    +++ b/latin
    +caf�
    new file mode 120000
    +++ b/link
    +agent.sh
    new file mode 100644
    +++ "b/new\nline"
    +n
    "#);
}

/// An agent may change the attributes of files, but cannot hide changes with them.
#[test]
fn an_agent_cannot_hide_what_it_changed() {
    let implement = "echo '* -diff' > .gitattributes; echo hidden > secret; echo hidden >> README.md; git config diff.context 0";
    let sandbox = repository(Agents { implement, ..GOOD }, 1, "slots.isolation = 'worktree'");
    let output = sandbox.run(&["slots", "--review"]);
    assert_eq!(output.code, Some(0), "{output}");
    let shown = changes(&sandbox, "1-1");
    assert_eq!(shown.matches("\n+hidden\n").count(), 2, "{shown}");
}
