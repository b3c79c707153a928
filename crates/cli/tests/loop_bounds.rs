//! Reviewers that violate their permissions, through the binary: with a sandbox and without, no
//! protected file stays changed, and each violation is recorded.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a scene that cannot be set fails its test")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use autoloop_runtime::sandbox::{Support, probe};
use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::until;
use insta::assert_snapshot;
use tempfile::TempDir;

#[path = "loop_bounds/killed.rs"]
mod killed;
#[path = "loop_bounds/proof.rs"]
mod proof;
#[path = "loop_bounds/settings.rs"]
mod settings;
#[path = "loop_bounds/table.rs"]
mod table;

const TOPOLOGY: &str = "[[role]]\nid = 'a'\nemits = ['a.done']\n";

/// A project in a repository with a sibling worktree.
struct Project {
    sandbox: Sandbox,
    sibling: TempDir,
}

/// A project whose reviewer runs a script. In it `$SIDE` is the sibling worktree.
fn project(review: &str, settings: &str) -> Project {
    project_of(&format!("[ -z \"$AUTOLOOP_REVIEW_MODE\" ] || {{\n{review}\n}}\n"), settings)
}

/// A project whose agents all run one script. In it `$SIDE` is the sibling worktree.
fn project_of(agent: &str, settings: &str) -> Project {
    let sibling = tempfile::tempdir().unwrap();
    let side = sibling.path().join("side");
    let agent = format!("SIDE={}\n{agent}", side.display());
    let settings = format!("review.enabled = true\nreview.every_iterations = 1\n{settings}");
    let sandbox = Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), &agent, &settings);
    // The agent is found from any worktree.
    let script = format!("'{}'", sandbox.path("agent.sh").display());
    let settings = String::from_utf8(sandbox.read("autoloops.toml")).unwrap();
    sandbox
        .write("autoloops.toml", settings.replace("'agent.sh'", &script))
        .write("topology.toml", TOPOLOGY)
        .write("harness.md", "Be careful.\n")
        .write("src/main.rs", "fn main() {}\n")
        .write("ignored/cache", "made again\n")
        .write(".gitignore", "ignored/\n.autoloop/\n");
    let git = |args: &[&str]| {
        let mut git = sandbox.at_home("git");
        git.args(["-c", "user.name=x", "-c", "user.email=x@x", "-c", "init.defaultBranch=main"]);
        git.args(args);
        let output = sandbox.finish(git);
        assert_eq!(output.code, Some(0), "git {args:?}: {}", output.stderr);
    };
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    git(&["commit", "-qm", "first"]);
    git(&["worktree", "add", "-q", "-b", "side", side.to_str().unwrap()]);
    sandbox.write("src/new.rs", "// not tracked\n");
    Project { sandbox, sibling }
}

/// Every path in the project and its sibling, except the state directory, with what it points to.
fn everything(project: &Project) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    look(&project.sandbox.path(""), &mut found);
    look(project.sibling.path(), &mut found);
    found
}

fn look(path: &Path, found: &mut BTreeMap<PathBuf, String>) {
    let stat = fs::symlink_metadata(path).unwrap();
    let said = if stat.is_symlink() {
        format!("-> {}", fs::read_link(path).unwrap().display())
    } else if stat.is_file() {
        let bytes = fs::read(path).unwrap();
        format!("{:o} x{} {}", stat.mode(), stat.nlink(), String::from_utf8_lossy(&bytes))
    } else {
        format!("{:o}", stat.mode())
    };
    found.insert(path.to_owned(), said + &attributes(path));
    if stat.is_dir() {
        for entry in fs::read_dir(path).unwrap().map(Result::unwrap) {
            // Files that a client or git writes for itself are not compared.
            let is_books = ["objects", "opencode"].iter().any(|name| entry.file_name() == *name);
            let is_in_git = path.file_name().is_some_and(|name| name == ".git");
            if entry.file_name() != ".autoloop" && !(is_books && is_in_git) {
                look(&entry.path(), found);
            }
        }
    }
}

/// The extended attributes of a file, and its ACL.
fn attributes(path: &Path) -> String {
    let mut names = vec![0; 4096];
    // A file system without attributes returns an error.
    let length = rustix::fs::llistxattr(path, &mut names).unwrap_or_default();
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let said = names.map(|name| {
        let mut value = vec![0; 4096];
        let length = rustix::fs::lgetxattr(path, name, &mut value).unwrap();
        format!(" {}={:x?}", String::from_utf8_lossy(name), &value[..length])
    });
    said.collect()
}

/// The layer that confines a reviewer in a test.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Layer {
    Overlay,
    Landlock,
    Snapshot,
}

impl Layer {
    /// The layers that this machine has.
    fn all() -> Vec<Layer> {
        match probe() {
            Support::Landlock { .. } => vec![Layer::Overlay, Layer::Landlock, Layer::Snapshot],
            Support::None(why) => {
                let _ =
                    writeln!(io::stderr(), "loop_bounds: only the putting back is tested: {why}");
                vec![Layer::Snapshot]
            }
        }
    }

    /// A project in which only this layer confines a reviewer.
    fn project(self, review: &str) -> Project {
        self.hold(project(review, self.settings()))
    }

    fn settings(self) -> &'static str {
        match self {
            Layer::Overlay | Layer::Landlock => "review.sandbox = 'required'",
            Layer::Snapshot => "review.sandbox = 'off'",
        }
    }

    /// A project with these settings, in which no other layer is available.
    fn hold(self, mut project: Project) -> Project {
        if self == Layer::Landlock {
            // An overlay cannot be mounted on a path with a comma.
            let temporary = project.sibling.path().join("a,b");
            fs::create_dir(&temporary).unwrap();
            project.sandbox = project.sandbox.env("TMPDIR", &temporary);
        }
        project
    }

    /// Whether the record of a review names this layer, and none above it.
    fn is_named_in(self, enforcement: &str) -> bool {
        match self {
            Layer::Overlay => enforcement.contains("overlay"),
            Layer::Landlock => enforcement.contains("landlock") && !enforcement.contains("overlay"),
            Layer::Snapshot => enforcement == "snapshot",
        }
    }

    /// Whether `review.start` names this layer.
    fn is_told(self, project: &Project) -> bool {
        let told = project.sandbox.fields("review.start", "enforcement").remove(0);
        match self {
            // Not every machine allows the mount; then Landlock is used.
            Layer::Overlay => told.contains("landlock abi "),
            Layer::Landlock => told.contains("landlock abi ") && !told.contains("overlay"),
            Layer::Snapshot => told == "snapshot",
        }
    }
}

/// Runs a reviewer's attempt under each layer in turn. Each time everything is unchanged
/// afterwards; returns the violations recorded where only the restore applies.
fn escape(review: &str) -> String {
    let mut told = String::new();
    for layer in Layer::all() {
        let project = layer.project(review);
        let sandbox = &project.sandbox;
        let before = everything(&project);
        let output = sandbox.run(&["run", ".", "-i", "2"]);
        assert_eq!(output.code, Some(1), "{layer:?}: {}", output.stderr);
        assert!(layer.is_told(&project), "{layer:?}");
        assert_eq!(sandbox.survivors(), "");
        let after = everything(&project);
        for (path, was) in &before {
            assert_eq!(after.get(path), Some(was), "{layer:?}: {}", path.display());
        }
        let added: Vec<_> = after.keys().filter(|path| !before.contains_key(*path)).collect();
        assert_eq!(added, Vec::<&PathBuf>::new(), "{layer:?}");
        let marks = ["loop.start", "loop.stop"].map(|topic| sandbox.fields(topic, "run").len());
        assert_eq!(marks, [1, 1], "{layer:?}: {}", sandbox.topics());
        assert_eq!(sandbox.fields("iteration.finish", "exit_code"), ["0", "0"], "{layer:?}");
        assert_eq!(sandbox.run(&["journal", "verify"]).code, Some(0), "{layer:?}");
        told = violations(&project);
        if layer != Layer::Snapshot {
            let undone = told.lines().filter(|line| line.ends_with("put back"));
            let happened: Vec<&str> = undone.filter(|line| !may_happen(line)).collect();
            assert_eq!(happened, Vec::<&str>::new(), "{layer:?}: the kernel should prevent it");
        }
    }
    told
}

/// What the kernel cannot prevent: permission bits of one's own files, and the contents of an
/// allowed file.
fn may_happen(violation: &str) -> bool {
    ["mode changed", "does not parse", "protected setting"]
        .iter()
        .any(|what| violation.contains(what))
}

/// The recorded violations, one line each.
fn violations(Project { sandbox, sibling }: &Project) -> String {
    let field = |name| sandbox.fields("review.violation", name);
    let all = field("path").into_iter().zip(field("what")).zip(field("outcome"));
    let mut told: Vec<String> =
        all.map(|((path, what), outcome)| format!("{path}: {what}: {outcome}")).collect();
    told.sort();
    // Their names depend on the time of the commit.
    told.retain(|line| !line.starts_with(".git/objects/"));
    sandbox.filter(&told.join("\n")).replace(sibling.path().to_str().unwrap(), "[SIDE]")
}

#[test]
fn source_is_not_written_by_shell() {
    let review = "echo '// mine' >> src/main.rs; rm -f src/new.rs; echo x > src/more.rs; rm -rf ignored; chmod 777 src; true";
    assert_snapshot!(escape(review), @"
    ignored: directory deleted: put back
    src/main.rs: file modified: put back
    src/more.rs: file added: put back
    src/new.rs: file deleted: put back
    src: mode changed from 0755 to 0777: put back
    ");
}

#[test]
fn source_is_not_written_by_a_symlink() {
    let review = "ln -s $PWD/src .autoloop/docs && echo x > .autoloop/docs/main.rs; ln -sf src/main.rs harness.md && echo x >> harness.md; true";
    assert_snapshot!(escape(review), @"
    .autoloop/docs: symbolic link to [DIR]/src added: put back
    harness.md: file became a symbolic link to src/main.rs: put back
    src/main.rs: file modified: put back
    ");
}

#[test]
fn source_is_not_written_by_a_hard_link() {
    let review = "mkdir -p .autoloop/logs; ln src/main.rs .autoloop/logs/l && echo x >> .autoloop/logs/l; true";
    assert_snapshot!(escape(review), @"
    .autoloop/logs/l: file added: put back
    src/main.rs: file modified: put back
    src/main.rs: hard link added: put back
    ");
}

#[test]
fn source_is_not_renamed_over() {
    let review = "mkdir -p .autoloop/logs; echo x > .autoloop/logs/x; mv .autoloop/logs/x src/main.rs; mv src/new.rs .autoloop/logs/new.rs; true";
    assert_snapshot!(escape(review), @"
    src/main.rs: file modified: put back
    src/new.rs: file deleted: put back
    ");
}

#[test]
fn a_sibling_working_tree_is_not_written() {
    let review = "echo x >> $SIDE/src/main.rs; echo y > $SIDE/y; git -C $SIDE -c user.name=x -c user.email=x@x commit -qam x; true";
    assert_snapshot!(escape(review), @"
    .git/logs/refs/heads/side: file modified: put back
    .git/refs/heads/side: file modified: put back
    .git/worktrees/side/COMMIT_EDITMSG: file added: put back
    .git/worktrees/side/index: file modified: put back
    .git/worktrees/side/logs/HEAD: file modified: put back
    [SIDE]/side/src/main.rs: file modified: put back
    [SIDE]/side/y: file added: put back
    ");
}

#[test]
fn a_child_that_stays_does_not_write_later() {
    let review = "(setsid sh -c 'sleep 671; echo late >> src/main.rs; echo late > late') > /dev/null 2>&1 & true";
    assert_snapshot!(escape(review), @"");
}

#[test]
fn the_journal_is_not_cut() {
    let review = ": > .autoloop/journal.jsonl; sed -i 's/loop.start/loop.begun/' .autoloop/journal.jsonl; true";
    assert_snapshot!(escape(review), @".autoloop/journal.jsonl: replaced by another file: put back");
}

#[test]
fn the_journal_is_not_replaced_or_deleted() {
    let review = "cp .autoloop/journal.jsonl .autoloop/logs/j; rm -f .autoloop/journal.jsonl; rm -rf .autoloop/runs; true";
    assert_snapshot!(escape(review), @"
    .autoloop/journal.jsonl: deleted: put back
    .autoloop/runs: directory deleted: put back
    ");
}

#[test]
fn hooks_are_not_planted() {
    let review = "printf '#!/bin/sh\\ntouch hooked\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; git config core.hooksPath .autoloop/logs; true";
    assert_snapshot!(escape(review), @"
    .git/config: file modified: put back
    .git/hooks/pre-commit: file added: put back
    ");
}

#[test]
fn a_topology_that_does_not_parse_is_restored() {
    let review = "echo '= nonsense' >> topology.toml";
    assert_snapshot!(escape(review), @"topology.toml: does not parse: line 4: unquoted keys cannot be empty, expected letters, numbers, `-`, `_`: put back");
}

#[test]
fn protected_settings_are_restored() {
    let review = "sed -i 's/^review.every_iterations = 1/review.every_iterations = 50/' autoloops.toml; echo 'backend.timeout_ms = 1' >> autoloops.toml";
    assert_snapshot!(escape(review), @"
    autoloops.toml: protected setting backend.timeout_ms = 1 added: put back
    autoloops.toml: protected setting review.every_iterations changed from 1 to 50: put back
    ");
}

#[test]
fn a_reviewer_emits_and_remembers_under_every_layer() {
    let review = "$T memory list && $T memory add learning 'keep it short' && $T memory add learning --project 'be kind' && $T memory list | grep short && $T memory list | grep kind && $T emit issue.discovered 'id=i-1;summary=slow;' && ! $T emit a.done";
    for layer in Layer::all() {
        let project = layer.project(review);
        let sandbox = &project.sandbox;
        assert_eq!(sandbox.run(&["run", ".", "-i", "2"]).code, Some(1));
        assert_eq!(sandbox.fields("review.finish", "exit_code"), ["0"], "{layer:?}");
        assert_eq!(violations(&project), "", "{layer:?}");
        assert_eq!(sandbox.fields("event.invalid", "emitted"), ["a.done"], "{layer:?}");
        assert_eq!(sandbox.fields("issue.discovered", "source"), ["agent"], "{layer:?}");
        assert_eq!(sandbox.fields("iteration.start", "recent_event"), ["loop.start"; 2]);
        let prompt = &sandbox.fields("iteration.start", "prompt")[1];
        assert!(prompt.contains("keep it short"), "{layer:?}: {prompt}");
    }
}

#[test]
fn a_sparse_log_is_not_expanded() {
    let review = "L=.autoloop/logs/big; mkdir -p .autoloop/logs; truncate -s 400M $L; printf data | dd of=$L bs=1M seek=200 conv=notrunc";
    for layer in Layer::all() {
        let project = layer.project(review);
        let sandbox = &project.sandbox;
        assert_eq!(sandbox.run(&["run", ".", "-i", "2"]).code, Some(1));
        let found = fs::metadata(sandbox.path(".autoloop/logs/big")).unwrap();
        assert_eq!(found.len(), 400 << 20, "{layer:?}");
        assert!(found.blocks() * 512 < 1 << 20, "{layer:?}: {} blocks", found.blocks());
    }
}

#[test]
fn an_emit_without_the_socket_is_stored_or_refused() {
    let review = "past() { env -u AUTOLOOP_DOOR -u AUTOLOOP_TICKET \"$T\" \"$@\"; echo \"$1=$?\"; }
        past emit issue.discovered 'id=i-1;summary=slow;'; past memory add learning 'keep it short'
        past tasks add 'more work'; \"$T\" tasks add 'more work'; echo \"tasks=$?\"; true";
    for layer in Layer::all() {
        let project = layer.project(review);
        let sandbox = &project.sandbox;
        assert_eq!(sandbox.run(&["run", ".", "-i", "2"]).code, Some(1));
        let said = sandbox.fields("review.finish", "output").concat().replace("\\u000a", "\n");
        let count = |what: &str| said.lines().filter(|line| *line == what).count();
        let events = sandbox.fields("issue.discovered", "source").len();
        assert_eq!(events, count("emit=0"), "{layer:?}: {said}");
        let run = sandbox.fields("loop.start", "run").concat();
        let memory = sandbox.read(format!(".autoloop/runs/{run}/memory.jsonl"));
        let kept = String::from_utf8(memory).unwrap().matches("keep it short").count();
        assert_eq!(kept, count("memory=0"), "{layer:?}: {said}");
        let tasks = sandbox.run(&["tasks", "list"]).stdout.matches("more work").count();
        assert_eq!(tasks, count("tasks=0"), "{layer:?}: {said}");
        assert_eq!(said.matches('=').count(), 4, "{layer:?}: {said}");
    }
}

#[test]
fn an_allowed_file_is_edited_by_renaming_another_over_it() {
    let review = "echo 'Be quick.' > .autoloop/h; mv .autoloop/h harness.md; mkdir -p roles .autoloop/docs; echo x > roles/new.md; echo y > .autoloop/docs/y.md; rm -f metareview.md";
    let mut diffs = Vec::new();
    for layer in [Layer::Overlay, Layer::Snapshot] {
        if !Layer::all().contains(&layer) {
            continue;
        }
        let project = layer.project(review);
        let sandbox = &project.sandbox;
        sandbox.write("metareview.md", "Look closely.\n");
        assert_eq!(sandbox.run(&["run", ".", "-i", "2"]).code, Some(1));
        let told = sandbox.fields("review.start", "enforcement").remove(0);
        if layer == Layer::Overlay && !told.contains("overlay") {
            let _ = writeln!(io::stderr(), "loop_bounds: no overlay here: {told}");
            continue;
        }
        assert_eq!(sandbox.read("harness.md"), b"Be quick.\n", "{layer:?}");
        assert_eq!(sandbox.read("roles/new.md"), b"x\n", "{layer:?}");
        assert_eq!(sandbox.read(".autoloop/docs/y.md"), b"y\n", "{layer:?}");
        assert!(!sandbox.path("metareview.md").exists(), "{layer:?}");
        assert_eq!(violations(&project), "", "{layer:?}");
        let prompt = &sandbox.fields("iteration.start", "prompt")[1];
        assert!(prompt.contains("Be quick."), "{layer:?}");
        diffs.extend(sandbox.fields("review.finish", "diff"));
    }
    diffs.dedup();
    assert_eq!(diffs.len(), 1);
    assert_snapshot!(diffs[0].replace("\\u000a", "\n"), @"
        --- /dev/null
        +++ b/.autoloop/docs/y.md
        @@ -0,0 +1 @@
        +y
        --- a/harness.md
        +++ b/harness.md
        @@ -1 +1 @@
        -Be careful.
        +Be quick.
        --- a/metareview.md
        +++ /dev/null
        @@ -1 +0,0 @@
        -Look closely.
        --- /dev/null
        +++ b/roles/new.md
        @@ -0,0 +1 @@
        +x
        ");
}

/// A sibling worktree in which a run appears to be running: its lock is held.
fn hold_a_run(tree: &Path) -> fs::File {
    let run = tree.join(".autoloop/runs/other");
    fs::create_dir_all(&run).unwrap();
    let lock = fs::File::create(run.join("lock")).unwrap();
    lock.lock().unwrap();
    lock
}

#[test]
fn changes_of_another_run_are_not_undone() {
    // The other run works in the same project: only the files of the loop are compared.
    let project = project("echo theirs > src/main.rs; echo x > roles.md", "review.sandbox = 'off'");
    let lock = hold_a_run(&project.sandbox.path(""));
    assert_eq!(project.sandbox.run(&["run", ".", "-i", "2"]).code, Some(1));
    assert_eq!(project.sandbox.read("src/main.rs"), b"theirs\n");
    assert_eq!(violations(&project), "");
    drop(lock);

    // The other run works in a sibling: the sibling is not compared, everything else is.
    let project = self::project(
        "echo theirs > $SIDE/src/main.rs; echo x > src/main.rs",
        "review.sandbox = 'off'",
    );
    let side = project.sibling.path().join("side");
    let lock = hold_a_run(&side);
    assert_eq!(project.sandbox.run(&["run", ".", "-i", "2"]).code, Some(1));
    assert_eq!(fs::read(side.join("src/main.rs")).unwrap(), b"theirs\n");
    assert_eq!(violations(&project), "src/main.rs: file modified: put back");
    drop(lock);
}

#[test]
fn a_run_that_ends_during_a_review_keeps_what_it_did() {
    let project = project(
        "echo theirs > src/main.rs; echo > began; while [ -e driven ]; do sleep 0.01; done",
        "review.sandbox = 'off'",
    );
    let sandbox = &project.sandbox;
    sandbox.write("driven", "");
    let lock = hold_a_run(&sandbox.path(""));
    let run = std::thread::scope(|scope| {
        let run = scope.spawn(|| sandbox.run(&["run", ".", "-i", "2"]));
        until("the review", || sandbox.path("began").exists().then_some(()));
        drop(lock);
        fs::remove_file(sandbox.path("driven")).unwrap();
        run.join().unwrap()
    });
    assert_eq!(run.code, Some(1));
    assert_eq!(sandbox.read("src/main.rs"), b"theirs\n");
}

#[test]
fn a_reviewer_cannot_blame_another_run() {
    for pretence in [
        "mkdir -p .autoloop/runs/other",
        "mkdir -p .autoloop/runs/other; ln .autoloop/runs/$AUTOLOOP_RUN_ID/lock .autoloop/runs/other/lock",
        "ln -s $AUTOLOOP_RUN_ID .autoloop/runs/other",
        "cp -r .autoloop/runs/$AUTOLOOP_RUN_ID .autoloop/runs/other; mv .autoloop/runs/$AUTOLOOP_RUN_ID/lock .autoloop/runs/other/lock",
    ] {
        let project =
            project(&format!("{pretence}; echo x > src/main.rs"), "review.sandbox = 'off'");
        assert_eq!(project.sandbox.run(&["run", ".", "-i", "2"]).code, Some(1), "{pretence}");
        assert_eq!(project.sandbox.read("src/main.rs"), b"fn main() {}\n", "{pretence}");
        assert!(!project.sandbox.path(".autoloop/runs/other").exists(), "{pretence}");
        let told = violations(&project);
        assert!(told.contains("src/main.rs: file modified: put back"), "{pretence}: {told}");
    }
}

#[test]
fn temporary_files_in_the_project_are_no_violation() {
    for (place, temporary) in [("[DIR]/tmp", "tmp"), ("tmp", "tmp"), ("[DIR]", ".")] {
        let mut project = project(
            "echo x > $TMPDIR/x && $T emit issue.discovered 'id=i-1;' && echo p > .autoloop/plan.md",
            "review.sandbox = 'auto'",
        );
        fs::create_dir(project.sandbox.path("tmp")).unwrap();
        let dir = project.sandbox.path("").display().to_string();
        let tmpdir = place.replace("[DIR]", dir.trim_end_matches('/'));
        project.sandbox = project.sandbox.env("TMPDIR", tmpdir);
        let sandbox = &project.sandbox;
        assert_eq!(sandbox.run(&["run", ".", "-i", "2"]).code, Some(1), "{place}");
        assert_eq!(violations(&project), "", "{place}");
        assert_eq!(sandbox.fields("review.finish", "exit_code"), ["0"], "{place}");
        assert_eq!(sandbox.read(".autoloop/plan.md"), b"p\n", "{place}");
        let left = fs::read_dir(sandbox.path(temporary)).unwrap().map(Result::unwrap);
        let left = left.filter(|entry| entry.file_name().to_string_lossy().contains("review"));
        assert_eq!(left.count(), 0, "{place}");
    }
}

#[test]
fn without_a_place_for_temporary_files_there_is_no_sandboxed_review() {
    if !Layer::all().contains(&Layer::Landlock) {
        return;
    }
    let mut project = project("true", "review.sandbox = 'auto'");
    project.sandbox = project.sandbox.env("TMPDIR", "/nowhere");
    let output = project.sandbox.run(&["run", ".", "-i", "2"]);
    assert_eq!(output.code, Some(1));
    let told: Vec<&str> = output.stderr.lines().filter(|line| line.contains("note")).collect();
    assert_snapshot!(told.join("\n"), @"note: metareview skipped: review skipped: the sandbox could not be set up: /nowhere: No such file or directory (os error 2); set TMPDIR to a directory that can be written to");
    assert_eq!(project.sandbox.fields("iteration.finish", "exit_code"), ["0", "0"]);
}

#[test]
fn a_loop_in_another_directory_is_protected_too() {
    let review = "new=$(sed 's/^backend.timeout_ms.*/backend.timeout_ms = 5000/' $LOOP/autoloops.toml); echo \"$new\" > $LOOP/autoloops.toml; echo '[[role' > $LOOP/topology.toml; echo 'Be quick.' > $LOOP/harness.md; mkdir -p $LOOP/roles; echo x > $LOOP/roles/x.txt; true";
    for layer in Layer::all() {
        let elsewhere = tempfile::tempdir().unwrap();
        let dir = elsewhere.path().canonicalize().unwrap().join("loop");
        let project = layer.project(&format!("LOOP={}\n{review}", dir.display()));
        let sandbox = &project.sandbox;
        fs::create_dir(&dir).unwrap();
        for name in ["autoloops.toml", "topology.toml", "harness.md"] {
            fs::rename(sandbox.path(name), dir.join(name)).unwrap();
        }
        let settings = fs::read_to_string(dir.join("autoloops.toml")).unwrap();
        let settings = format!("backend.timeout_ms = 60000\n{settings}");
        fs::write(dir.join("autoloops.toml"), &settings).unwrap();
        let output = sandbox.run(&["run", "-p", dir.to_str().unwrap(), ".", "-i", "2"]);
        assert_eq!(output.code, Some(1), "{layer:?}: {}", output.stderr);
        let now = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
        assert_eq!(now("autoloops.toml"), settings, "{layer:?}");
        assert_eq!(now("topology.toml"), TOPOLOGY, "{layer:?}");
        assert_eq!(now("harness.md"), "Be quick.\n", "{layer:?}");
        assert!(!dir.join("roles").join("x.txt").exists(), "{layer:?}");
        let told = violations(&project).replace(dir.to_str().unwrap(), "[LOOP]");
        assert!(
            told.contains("[LOOP]/autoloops.toml: protected setting backend.timeout_ms"),
            "{layer:?}: {told}"
        );
        assert!(told.contains("[LOOP]/topology.toml: does not parse"), "{layer:?}: {told}");
        assert!(sandbox.fields("review.finish", "diff")[0].contains("+Be quick."), "{layer:?}");
    }
}

#[test]
fn a_state_directory_that_lies_elsewhere_can_be_written_as_any_other() {
    let review = "S=$AUTOLOOP_STATE_DIR; echo p > $S/plan.md; mkdir -p $S/docs; echo d > $S/docs/d.md; $T memory add learning l; echo x > $S/x; true";
    for layer in Layer::all() {
        let elsewhere = tempfile::tempdir().unwrap();
        let dir = elsewhere.path().canonicalize().unwrap();
        let project = layer.project(review);
        let sandbox = &project.sandbox;
        let set = format!("core.state_dir={}", dir.display());
        let output = sandbox.run(&["run", ".", "-i", "2", "--set", &set]);
        assert_eq!(output.code, Some(1), "{layer:?}: {}", output.stderr);
        let now = |name: &str| fs::read_to_string(dir.join(name)).ok();
        assert_eq!(now("plan.md").as_deref(), Some("p\n"), "{layer:?}");
        assert_eq!(now("docs/d.md").as_deref(), Some("d\n"), "{layer:?}");
        for missing in ["x", "context.md", "logs"] {
            assert!(!dir.join(missing).exists(), "{layer:?}: {missing}");
        }
    }
}

#[test]
fn one_thing_that_cannot_be_brought_over_stops_no_other() {
    if !Layer::all().contains(&Layer::Overlay) {
        return;
    }
    let review = "cd .autoloop/logs; rm -r dir; echo f > dir; rm file; mkdir -p file/in; echo z > file/in/z; cd ../..
        i=0; while [ $i -lt 600 ]; do mkdir dddddddd && cd dddddddd; i=$((i+1)); done; cd $AUTOLOOP_PROJECT_DIR
        echo p > .autoloop/plan.md; echo x > src/main.rs; true";
    let project = Layer::Overlay.project(review);
    let sandbox = &project.sandbox;
    sandbox.write(".autoloop/logs/dir/x", "x").write(".autoloop/logs/file", "y");
    assert_eq!(sandbox.run(&["run", ".", "-i", "2"]).code, Some(1));
    if !sandbox.fields("review.start", "enforcement")[0].contains("overlay") {
        return;
    }
    assert_snapshot!(violations(&project), @"
    .autoloop/logs/dir: directory became a file: kept out
    .autoloop/logs/file: file became a directory: kept out
    dddddddd: directory added: kept out
    src/main.rs: file modified: kept out
    ");
    assert_eq!(sandbox.read(".autoloop/plan.md"), b"p\n");
    assert_eq!(sandbox.read(".autoloop/logs/dir/x"), b"x");
    assert_eq!(sandbox.read(".autoloop/logs/file"), b"y");
}
