//! Waves whose branches have their own worktrees, through the binary and real git.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a scene that cannot be set fails its test")]

use std::fs;
use std::process::Stdio;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{Reaped, meet_a_limit, until};
use insta::assert_snapshot;

#[path = "waves_trees/cut.rs"]
mod cut;
#[path = "waves_trees/hostile.rs"]
mod hostile;

const SETTINGS: &str =
    "parallel.enabled = true\nparallel.max_branches = 4\nparallel.isolation = 'worktree'";

/// A loop in a repository. The agent runs `branch` in branches, where `$B` is its letter. In the
/// first turn of the run it runs `parent` and requests a wave with one branch per letter.
fn project(parent: &str, letters: &str, branch: &str, settings: &str) -> Sandbox {
    let list: String = letters.chars().map(|letter| format!("- part {letter}\\n")).collect();
    let agent = format!(
        "B=${{AUTOLOOP_RUN_ID##*-}}\ncase \"$AUTOLOOP_RUN_ID\" in *-wave-*)\n{branch}\n;; *)\n\
         [ $N = 1 ] || exit 0\n{parent}\n$T emit explore.parallel \"$(printf -- '{list}')\"\n;; esac\n"
    );
    let settings = format!("{SETTINGS}\n{settings}");
    let sandbox = Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), &agent, &settings);
    sandbox.write(".gitignore", ".autoloop/\nhome/\n").write("file", "one\ntwo\nthree\n");
    git(&sandbox, &["init", "-q", "-b", "main"]);
    git(&sandbox, &["config", "user.name", "A Person"]);
    git(&sandbox, &["config", "user.email", "person@example.org"]);
    commit(&sandbox, "begin");
    sandbox
}

/// Runs git in the project, and returns what it prints.
fn git(sandbox: &Sandbox, args: &[&str]) -> String {
    let mut command = sandbox.at_home("git");
    command.args(args);
    let output = sandbox.finish(command);
    assert_eq!(output.code, Some(0), "git {args:?}: {}", output.stderr);
    output.stdout.trim_end().to_owned()
}

fn commit(sandbox: &Sandbox, message: &str) {
    git(sandbox, &["add", "-A"]);
    git(sandbox, &["commit", "-q", "-m", message]);
}

fn run(sandbox: &Sandbox) {
    let output = sandbox.run(&["run", ".", "-i", "2"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(sandbox.fields("loop.stop", "reason").last().unwrap(), "max_iterations");
}

/// The outcome of each branch, without names that differ.
fn outcomes(sandbox: &Sandbox) -> String {
    let column = |name| sandbox.fields("wave.branch.merge", name);
    let rows = column("branch_id").into_iter().zip(column("outcome")).zip(column("files"));
    let rows = rows.map(|((branch, outcome), files)| format!("{branch} {outcome} {files}"));
    rows.map(|row| row.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

fn text(sandbox: &Sandbox, name: &str) -> String {
    String::from_utf8(sandbox.read(name)).unwrap()
}

/// The text without the run's id.
fn unnamed(sandbox: &Sandbox, text: &str) -> String {
    let mut text = text.replace(&sandbox.fields("loop.start", "run")[0], "[RUN]");
    for commit in sandbox.fields("wave.branch.merge", "commit") {
        text = text.replace(&commit, "[COMMIT]").replace(&commit[..12], "[COMMIT]");
    }
    text
}

/// Checks that no worktrees are left, and no branches but these.
fn assert_left(sandbox: &Sandbox, branches: &[&str]) {
    assert_eq!(git(sandbox, &["worktree", "list"]).lines().count(), 1);
    let names = git(sandbox, &["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
    let kept: Vec<&str> =
        names.lines().filter(|name| *name != "main").map(|name| &name[name.len() - 8..]).collect();
    assert_eq!(kept, branches);
    let waves = sandbox.path(".autoloop/waves");
    let trees = fs::read_dir(waves).unwrap().flatten().flat_map(|wave| {
        fs::read_dir(wave.path().join("branches")).into_iter().flatten().flatten()
    });
    assert_eq!(trees.filter(|branch| branch.path().join("tree").exists()).count(), 0);
}

const MEET: &str = "S=$AUTOLOOP_STATE_DIR; touch $S/at-$B; until [ -e $S/at-1 -a -e $S/at-2 -a -e $S/at-3 ]; do sleep 0.02; done";

#[test]
fn branches_work_in_worktrees_and_their_work_is_merged() {
    let branch = format!(
        "echo $B > mine-$B
        case $B in
        1) git add -A; git commit -qm 'of the agent' ;;
        2) sed -i s/two/2/ file ;;
        3) git add -A ;;
        esac
        {MEET}
        [ $B = 1 ] && git -C \"$AUTOLOOP_PROJECT_DIR\" status --porcelain
        echo $(basename $PWD): mine-* on $(git branch --show-current | sed 's/.*-wave/wave/')"
    );
    let sandbox = project("true", "abc", &branch, "");
    run(&sandbox);
    let story = sandbox.story();
    let own: Vec<&str> =
        story.lines().filter(|line| line.contains("1 wave.branch.merge")).collect();
    assert_eq!(own.len(), 3, "{story}");
    assert_eq!(outcomes(&sandbox), "branch-1 merged\nbranch-2 merged\nbranch-3 merged");
    let mut outputs = sandbox.fields("wave.branch.finish", "output");
    outputs.sort();
    assert_snapshot!(outputs.join("\n"), @r"
    tree: mine-1 on wave-1/branch-1\u000a
    tree: mine-2 on wave-1/branch-2\u000a
    tree: mine-3 on wave-1/branch-3\u000a
    ");
    assert_eq!(git(&sandbox, &["ls-files", "mine-*", "file"]), "file\nmine-1\nmine-2\nmine-3");
    assert_eq!(text(&sandbox, "file"), "one\n2\nthree\n");
    assert_eq!(git(&sandbox, &["status", "--porcelain"]), "");
    let log = git(&sandbox, &["log", "--no-merges", "--format=%s", "--topo-order", "--reverse"]);
    assert_snapshot!(unnamed(&sandbox, &log), @"
    begin
    branch-1 of [RUN]-wave-1: part a
    branch-2 of [RUN]-wave-1: part b
    branch-3 of [RUN]-wave-1: part c
    ");
    assert_left(&sandbox, &[]);
    let joined = sandbox.fields("explore.parallel.joined", "payload").remove(0);
    assert_snapshot!(unnamed(&sandbox, &joined), @"[RUN]-wave-1: branch-1 merged; branch-2 merged; branch-3 merged");
    let run = sandbox.fields("loop.start", "run").remove(0);
    let prompt = sandbox.run(&["inspect", "prompt", "1", "--run", &format!("{run}-wave-1-2")]);
    let prompt = unnamed(&sandbox, &prompt.stdout);
    let start = prompt.find("Your worktree:").unwrap();
    assert_snapshot!(&prompt[start..start + prompt[start..].find("\n\n").unwrap()], @"
    Your worktree:
    You work in [DIR]/.autoloop/waves/[RUN]-wave-1/branches/branch-2/tree, your own git worktree, on the branch autoloop/[RUN]-wave-1/branch-2. Change files only there, and stay on that branch. You may commit, but need not. When all branches of the wave have ended, everything in the worktree except for ignored files becomes one commit that is merged into the project.
    ");
    let own = sandbox.run(&["inspect", "prompt", "1"]).stdout;
    assert!(own.contains("its own git worktree, created from the last commit"), "{own}");
}

#[test]
fn a_conflict_is_reported_and_nothing_is_lost() {
    let branch = "case $B in 3) echo c > new ;; *) sed -i s/two/$B/ file ;; esac; echo $B";
    let sandbox = project("true", "abc", branch, "");
    run(&sandbox);
    assert_eq!(outcomes(&sandbox), "branch-1 merged\nbranch-2 conflict file\nbranch-3 merged");
    assert_eq!(text(&sandbox, "file"), "one\n1\nthree\n");
    assert_eq!(text(&sandbox, "new"), "c\n");
    assert_eq!(git(&sandbox, &["status", "--porcelain"]), "");
    assert_left(&sandbox, &["branch-2"]);
    let kept = sandbox.fields("wave.branch.merge", "branch").remove(1);
    assert_eq!(git(&sandbox, &["show", &format!("{kept}:file")]), "one\n2\nthree");
    let joined = sandbox.fields("explore.parallel.joined", "payload").remove(0);
    assert_snapshot!(unnamed(&sandbox, &joined), @"[RUN]-wave-1: branch-1 merged; branch-2 conflict in file (kept on autoloop/[RUN]-wave-1/branch-2); branch-3 merged");
    let run = sandbox.fields("loop.start", "run").remove(0);
    let page = text(&sandbox, &format!(".autoloop/waves/{run}-wave-1/join.md"));
    assert_snapshot!(unnamed(&sandbox, &page), @"
    # Wave [RUN]-wave-1

    Wave [RUN]-wave-1 (explore.parallel): all 3 branches have ended.

    branch-1: part a -> max_iterations
    Its work is merged ([COMMIT]).
    ```text
    1
    ```

    branch-2: part b -> max_iterations
    NOT merged: the checked-out commit changes file differently. Its work is on the git branch autoloop/[RUN]-wave-1/branch-2 (up to [COMMIT]).
    ```text
    2
    ```

    branch-3: part c -> max_iterations
    Its work is merged ([COMMIT]).
    ```text
    3
    ```
    ");
    let prompt = sandbox.run(&["inspect", "prompt", "2"]).stdout;
    assert!(prompt.contains("NOT merged: the checked-out commit changes file differently."));
}

#[test]
fn changes_that_are_not_committed_survive() {
    let parent = "echo mine >> file; echo draft > notes; echo added > staged; git add staged";
    let branch =
        "case $B in 1) sed -i s/two/2/ file ;; 2) echo theirs > notes ;; 3) echo c > new ;; esac";
    let sandbox = project(parent, "abcd", branch, "");
    run(&sandbox);
    assert_snapshot!(outcomes(&sandbox), @"
    branch-1 uncommitted_changes file
    branch-2 uncommitted_changes notes
    branch-3 merged
    branch-4 nothing
    ");
    assert_eq!(text(&sandbox, "file"), "one\ntwo\nthree\nmine\n");
    assert_eq!(text(&sandbox, "notes"), "draft\n");
    assert_eq!(git(&sandbox, &["status", "--porcelain"]), " M file\nA  staged\n?? notes");
    assert_left(&sandbox, &["branch-1", "branch-2"]);
    let prompt = sandbox.run(&["inspect", "prompt", "2"]).stdout;
    assert!(prompt.contains("NOT merged: the project has uncommitted changes in file."));
}

#[test]
fn a_clone_in_a_tree_is_not_thrown_away() {
    let branch =
        "echo $B > new-$B; [ $B = 2 ] && git clone -q \"$AUTOLOOP_PROJECT_DIR\" clone; true";
    let sandbox = project("true", "ab", branch, "");
    let output = sandbox.run(&["run", ".", "-i", "2"]);
    let stays = output.stderr.lines().find(|line| line.contains("not removed")).unwrap();
    assert_snapshot!(unnamed(&sandbox, stays), @"note: a worktree was not removed: clone/ in [DIR]/.autoloop/waves/[RUN]-wave-1/branches/branch-2/tree exists nowhere else; save what you need and remove the worktree");
    assert_eq!(outcomes(&sandbox), "branch-1 merged\nbranch-2 merged");
    assert_eq!(git(&sandbox, &["ls-files", "new-*", "clone"]), "new-1\nnew-2");
    assert_eq!(git(&sandbox, &["worktree", "list"]).lines().count(), 2);
}

#[test]
fn work_of_branches_that_did_not_end_well_is_kept_and_not_merged() {
    let branch = "echo $B > new-$B; case $B in 1) exit 5 ;; 2) touch $AUTOLOOP_STATE_DIR/there; sleep 691 ;; 3) git checkout -q --orphan away ;; esac";
    let sandbox = meet_a_limit(|limit| {
        let limit = format!("parallel.branch_timeout_ms = {limit}");
        let sandbox = project("true", "abcd", branch, &limit);
        run(&sandbox);
        let late = sandbox.fields("wave.timeout", "timed_out_branches");
        let is_met = late == ["branch-2"] && sandbox.path(".autoloop/there").exists();
        is_met.then_some(sandbox)
    });
    assert_snapshot!(outcomes(&sandbox), @"
    branch-1 not_tried
    branch-2 not_tried
    branch-3 unfinished
    branch-4 merged
    ");
    assert_eq!(git(&sandbox, &["ls-files", "new-*"]), "new-4");
    let mut kept = sandbox.fields("wave.branch.merge", "branch");
    kept[2].push_str("-beside");
    for (kept, name) in kept.iter().zip(["new-1", "new-2", "new-3"]) {
        assert_eq!(git(&sandbox, &["ls-tree", "--name-only", kept, name]), name);
    }
    let prompt = unnamed(&sandbox, &sandbox.run(&["inspect", "prompt", "2"]).stdout);
    let told: Vec<&str> = prompt.lines().filter(|line| line.starts_with("NOT merged")).collect();
    assert_snapshot!(told.join("\n"), @"
    NOT merged: it ended with backend_failed. Its work is on the git branch autoloop/[RUN]-wave-1/branch-1 (up to [COMMIT]).
    NOT merged: it ended with backend_timeout. Its work is on the git branch autoloop/[RUN]-wave-1/branch-2 (up to [COMMIT]).
    NOT merged: work beside its branch (kept on autoloop/[RUN]-wave-1/branch-3-beside) was left unfinished in its worktree. Its work is on the git branch autoloop/[RUN]-wave-1/branch-3 (up to [COMMIT]).
    ");
    assert_eq!(sandbox.survivors(), "");
}

/// Runs a loop in a subdirectory of a repository, with a detached head and hooks that all fail.
#[test]
fn a_subdirectory_a_detached_head_and_failing_hooks_change_nothing() {
    let branch = "echo $B > mine-$B; git add -A; pwd | sed 's/.*tree/tree/'";
    let sandbox = project("true", "ab", branch, "");
    for hook in ["pre-commit", "post-checkout", "post-merge", "commit-msg", "reference-transaction"]
    {
        sandbox.write(format!(".git/hooks/{hook}"), "#!/bin/sh\nexit 1\n");
    }
    for name in ["autoloops.toml", "agent.sh", "file"] {
        sandbox.write(format!("deep/er/{name}"), sandbox.read(name));
    }
    sandbox.write("deep/er/untracked/file", "");
    commit(&sandbox, "deeper");
    git(&sandbox, &["checkout", "-q", "--detach"]);
    let mut chmod = sandbox.at_home("sh");
    chmod.args(["-c", "chmod +x .git/hooks/*"]);
    sandbox.finish(chmod);
    // As a hook would start it.
    let mut command = sandbox.command();
    command.args(["run", "deep/er", "-i", "2"]).env("GIT_DIR", sandbox.path(".git"));
    command.env("GIT_INDEX_FILE", sandbox.path(".git/index"));
    let output = sandbox.finish(command);
    assert_eq!(output.code, Some(1), "{output}");
    let mut journal = sandbox.command();
    journal.args(["inspect", "journal", "--topic", "wave.branch.finish", "--format", "json"]);
    journal.current_dir(sandbox.path("deep/er"));
    let journal = sandbox.finish(journal).stdout;
    assert_eq!(journal.matches("tree/deep/er").count(), 2, "{journal}");
    assert_eq!(git(&sandbox, &["ls-files", "*mine-*"]), "deep/er/mine-1\ndeep/er/mine-2");
    assert_eq!(git(&sandbox, &["status", "--porcelain"]), "");
    assert_eq!(git(&sandbox, &["branch", "--show-current"]), "");
    assert_eq!(git(&sandbox, &["worktree", "list"]).lines().count(), 1);
    assert_eq!(git(&sandbox, &["branch", "--format=%(refname)"]).matches("autoloop/").count(), 0);
}

#[test]
fn without_git_there_is_no_run() {
    let sandbox = project("true", "a", "true", "");
    fs::rename(sandbox.path(".git"), sandbox.path("home")).unwrap();
    assert_snapshot!(sandbox.run(&["run", "."]), @r#"
    exit 2
    --- stderr
    autoloop: parallel.isolation = "worktree": [DIR] is not in a git repository; run `git init` there and commit the files
      hint: set parallel.isolation = "shared" to run branches in the project itself
    "#);
    git(&sandbox, &["init", "-q"]);
    assert_snapshot!(sandbox.run(&["run", "."]), @r#"
    exit 2
    --- stderr
    autoloop: parallel.isolation = "worktree": the repository [DIR] has no commit; create one
      hint: set parallel.isolation = "shared" to run branches in the project itself
    "#);
    let sandbox = sandbox.env("PATH", "/nowhere");
    // The agent is found without PATH.
    assert_snapshot!(sandbox.run(&["run", ".", "--set", "backend.command=/bin/sh"]), @r#"
    exit 2
    --- stderr
    autoloop: parallel.isolation = "worktree": git is not on PATH; install git 2.38 or later
      hint: set parallel.isolation = "shared" to run branches in the project itself
    "#);
    sandbox.write("autoloops.toml", "parallel.isolation = 'tree'\n");
    assert_snapshot!(sandbox.run(&["run", "."]), @r#"
    exit 2
    --- stderr
    error: parallel.isolation is "tree"
     --> [DIR]/autoloops.toml:1:22
      |
    1 | parallel.isolation = 'tree'
      |                      ^^^^^^ expected "shared" or "worktree"

    autoloop: the settings cannot be used because of this error
    "#);
    assert_eq!(sandbox.journal(), "");
}

#[test]
fn a_wave_that_can_no_longer_have_worktrees_is_refused() {
    let sandbox = project("mv .git home", "ab", "true", "");
    run(&sandbox);
    let reason = sandbox.fields("wave.invalid", "reason").remove(0);
    assert_snapshot!(reason, @"no_worktree: [DIR] is not in a git repository; run `git init` there and commit the files");
    let prompt = sandbox.run(&["inspect", "prompt", "2"]).stdout;
    assert!(
        prompt.contains("the wave 'explore.parallel' was not opened: branches cannot have worktrees of their own: "),
        "{prompt}"
    );
}

const WORK: &str =
    "echo $B > left-$B; echo $B > new-$B; git add new-$B; git commit -qm work-$B; echo b";

/// Checks that all four branches did their work and that it was merged back once.
fn assert_all_is_merged(sandbox: &Sandbox, what: &str) {
    let merges = sandbox.fields("wave.branch.merge", "outcome");
    assert_eq!(merges, ["merged"; 4], "{what}: {}", sandbox.story());
    assert_eq!(sandbox.fields("explore.parallel.joined", "source"), ["harness"], "{what}");
    let log = git(sandbox, &["log", "--no-merges", "--format=%B"]);
    for place in 1..=4 {
        assert_eq!(log.matches(&format!("work-{place}")).count(), 1, "{what}: {log}");
    }
    assert_eq!(git(sandbox, &["ls-files", "left-*", "new-*"]).lines().count(), 8, "{what}");
    assert_eq!(git(sandbox, &["status", "--porcelain"]), "", "{what}");
    assert_left(sandbox, &[]);
}

#[test]
fn a_harness_killed_between_two_merges_resumes() {
    for merged in 0..=4 {
        let sandbox = project("true", "abcd", WORK, "");
        let mut command = sandbox.command();
        command.args(["run", ".", "-i", "2"]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut harness = Reaped::start(command);
        until("branches to end, and some to be merged", || {
            let ended = sandbox.fields("wave.branch.finish", "branch_id").len();
            let brought = sandbox.fields("wave.branch.merge", "branch_id").len();
            (ended == 4 && brought >= merged).then_some(())
        });
        harness.kill();
        let resumed = sandbox.run(&["run", "--resume", ".", "-i", "2"]);
        assert_eq!(resumed.code, Some(1), "{resumed}");
        assert_all_is_merged(&sandbox, &format!("killed after {merged}"));
    }
}
