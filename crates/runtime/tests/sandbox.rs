//! What reviewers attempt, and the result: once in the sandbox, once without one.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use autoloop_core::config::Sandbox;
use autoloop_core::permissions::AllowList;
use autoloop_runtime::sandbox::{Attribution, Limits, Snapshot};

#[path = "sandbox/scene.rs"]
mod scene;

use scene::{Outcome, SETTINGS, Scene, TOPOLOGY, difference, has_sandbox};

/// What stops an attempt when there is a sandbox.
#[derive(Clone, Copy, PartialEq)]
enum Stopped {
    /// The kernel refuses it: there is nothing to restore.
    BySandbox,
    /// The kernel allows it: it is restored.
    BySnapshot,
}

/// Runs a script as the reviewer, and checks that nothing of it is left.
fn escape(script: &str, mode: Sandbox) -> Outcome {
    let scene = Scene::new();
    let before = scene.everything();
    let outcome = scene.review(script, mode);
    assert!(outcome.is_restored(), "{:?}", outcome.told());
    assert_eq!(outcome.kept(), Vec::<String>::new());
    let left = difference(&before, &scene.everything());
    assert_eq!(left, Vec::<String>::new(), "{}", outcome.stderr);
    outcome
}

/// Two tests for one script: restored without a sandbox, and refused, where possible, with one.
macro_rules! escapes {
    ($($name:ident: $script:expr => [$($told:expr),* $(,)?], $stopped:expr;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn is_put_back() {
                let outcome = escape($script, Sandbox::Off);
                assert!(outcome.succeeded, "{}", outcome.stderr);
                assert_eq!(outcome.told(), [$($told),*] as [&str; { [$($told),*].len() }]);
            }

            #[test]
            fn is_refused_by_the_sandbox() {
                if !has_sandbox() {
                    return;
                }
                let outcome = escape($script, Sandbox::Required);
                match $stopped {
                    Stopped::BySandbox => {
                        assert!(!outcome.succeeded, "nothing was refused");
                        assert_eq!(outcome.told(), Vec::<String>::new());
                    }
                    Stopped::BySnapshot => assert!(!outcome.told().is_empty()),
                }
            }
        }
    )*};
}

escapes! {
    source_by_shell: "set -e; echo evil >> src/main.rs"
        => ["src/main.rs: file modified (put back)"], Stopped::BySandbox;
    dirty_source: "set -e; echo evil > src/dirty.rs"
        => ["src/dirty.rs: file modified (put back)"], Stopped::BySandbox;
    untracked_source: "set -e; rm src/untracked.rs"
        => ["src/untracked.rs: file deleted (put back)"], Stopped::BySandbox;
    ignored_file: "set -e; echo evil > node_modules/x/index.js"
        => ["node_modules/x/index.js: file modified (put back)"], Stopped::BySandbox;
    new_source: "set -e; mkdir src/new; echo evil > src/new/a; echo evil > src/new/b"
        => ["src/new: directory added, with 2 more inside (put back)"], Stopped::BySandbox;
    same_size_and_time: "set -e; cp -p src/main.rs $TMPDIR/m; printf 'fn EVIL() {}\\n' > src/main.rs; touch -r $TMPDIR/m src/main.rs"
        => ["src/main.rs: file modified (put back)"], Stopped::BySandbox;
    allowed_file_as_symlink: "set -e; ln -sf ../src/main.rs roles/critic.md; echo evil > roles/critic.md"
        => [
            "roles/critic.md: file became a symbolic link to ../src/main.rs (put back)",
            "src/main.rs: file modified (put back)",
        ], Stopped::BySandbox;
    allowed_file_as_hard_link: "set -e; ln -f src/main.rs roles/critic.md; echo evil > roles/critic.md"
        => [
            "roles/critic.md: file modified (put back)",
            "roles/critic.md: hard link added (put back)",
            "src/main.rs: file modified (put back)",
            "src/main.rs: hard link added (put back)",
        ], Stopped::BySandbox;
    hard_link: "set -e; ln src/main.rs src/later"
        => [
            "src/later: file added (put back)",
            "src/main.rs: hard link added (put back)",
        ], Stopped::BySandbox;
    rename_over: "set -e; echo evil > $TMPDIR/new; mv -f $TMPDIR/new src/main.rs"
        => ["src/main.rs: file modified (put back)"], Stopped::BySandbox;
    sibling_worktree: "set -e; echo evil > ../sibling/src/main.rs"
        => ["BASE/sibling/src/main.rs: file modified (put back)"], Stopped::BySandbox;
    git_hook: "set -e; echo evil > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit"
        => [".git/hooks/pre-commit: file added (put back)"], Stopped::BySandbox;
    git_config: "set -e; git config core.fsmonitor evil"
        => [".git/config: file modified (put back)"], Stopped::BySandbox;
    git_reference: "set -e; git tag evil"
        => [".git/refs/tags/evil: file added (put back)"], Stopped::BySandbox;
    directory_deleted: "set -e; rm -r src"
        => ["src: directory deleted, with 8 more inside (put back)"], Stopped::BySandbox;
    empty_directory_deleted: "set -e; rmdir src/empty"
        => ["src/empty: directory deleted (put back)"], Stopped::BySandbox;
    bits_changed: "set -e; chmod 000 src/main.rs; chmod 777 run.sh"
        => [
            "run.sh: mode changed from 0755 to 0777 (put back)",
            "src/main.rs: mode changed from 0644 to 0000 (put back)",
        ], Stopped::BySnapshot;
    bits_of_an_allowed_file: "set -e; chmod 4755 roles/critic.md"
        => ["roles/critic.md: mode changed from 0644 to 4755 (put back)"], Stopped::BySnapshot;
    closed_directories: "set -e; echo evil > src/deep/er/lib.rs; chmod 000 src/deep/er src/deep src"
        => [
            "src: mode changed from 0755 to 0000 (put back)",
            "src/deep: mode changed from 0755 to 0000 (put back)",
            "src/deep/er: mode changed from 0755 to 0000 (put back)",
            "src/deep/er/lib.rs: file modified (put back)",
        ], Stopped::BySandbox;
    directory_as_symlink: "set -e; mv src $OUTSIDE/was; ln -s $OUTSIDE src; rm -r $OUTSIDE/was"
        => [
            "src: directory became a symbolic link to BASE/outside (put back)",
            "src/deep: directory deleted, with 2 more inside (put back)",
            "src/dirty.rs: file deleted (put back)",
            "src/empty: directory deleted (put back)",
            "src/link.rs: symbolic link to main.rs deleted (put back)",
            "src/main.rs: file deleted (put back)",
            "src/untracked.rs: file deleted (put back)",
        ], Stopped::BySandbox;
    allowed_directory_as_symlink: "set -e; mv roles $OUTSIDE/was; ln -s src roles; rm -r $OUTSIDE/was"
        => [
            "roles: directory became a symbolic link to src (put back)",
            "roles/critic.md: file deleted (put back)",
            "roles/notes.txt: file deleted (put back)",
        ], Stopped::BySandbox;
    link_retargeted: "set -e; ln -sf /etc/passwd src/link.rs"
        => [
            "src/link.rs: symbolic link to main.rs became a symbolic link to /etc/passwd (put back)",
        ], Stopped::BySandbox;
    pipe_added: "set -e; mkfifo src/pipe; mkfifo roles/pipe.md"
        => ["roles/pipe.md: pipe added (put back)", "src/pipe: pipe added (put back)"], Stopped::BySandbox;
    state_changed: "set -e; echo evil > .autoloop/runs/a/active-prompt.md"
        => [".autoloop/runs/a/active-prompt.md: file modified (put back)"], Stopped::BySandbox;
    journal_cut: "set -e; truncate -s 10 .autoloop/journal.jsonl"
        => [".autoloop/journal.jsonl: cut from 65 to 10 bytes (put back)"], Stopped::BySandbox;
    journal_altered: "set -e; printf X | dd of=.autoloop/journal.jsonl bs=1 seek=5 conv=notrunc"
        => [".autoloop/journal.jsonl: old bytes changed behind byte 0 (put back)"], Stopped::BySandbox;
    journal_replaced: "set -e; cp .autoloop/journal.jsonl $TMPDIR/j; sed -i s/start/evil/ $TMPDIR/j; mv -f $TMPDIR/j .autoloop/journal.jsonl"
        => [".autoloop/journal.jsonl: replaced by another file (put back)"], Stopped::BySandbox;
    journal_deleted: "set -e; rm .autoloop/journal.jsonl"
        => [".autoloop/journal.jsonl: deleted (put back)"], Stopped::BySandbox;
    memory_rewritten: "set -e; echo evil > .autoloop/memory.jsonl"
        => [".autoloop/memory.jsonl: cut from 16 to 5 bytes (put back)"], Stopped::BySandbox;
    unreadable_topology: "set -e; echo '[[role' > topology.toml"
        => ["topology.toml: does not parse: line 1: unclosed array table, expected `]]` (put back)"], Stopped::BySnapshot;
    topology_without_sense: "set -e; printf '[[role]]\\nid = 3\\n' > topology.toml"
        => ["topology.toml: does not parse: invalid type: integer `3`, expected a string, in `role.id` (put back)"], Stopped::BySnapshot;
    settings_deleted: "set -e; rm autoloops.toml"
        => ["autoloops.toml: does not parse: the file is gone (put back)"], Stopped::BySandbox;
    protected_key: r#"set -e; printf '# the loop\nbackend.command = "sh" # cheap\nevent_loop.max_iterations = 9\n' > autoloops.toml"#
        => [r#"autoloops.toml: protected setting backend.command changed from "pi" to "sh" (put back)"#], Stopped::BySnapshot;
    program_of_a_role: "set -e; echo 'backend_command = \"sh\"' >> topology.toml"
        => [r#"topology.toml: protected setting role.critic.backend_command = "sh" added (put back)"#], Stopped::BySnapshot;
}

#[test]
fn allowed_edits_stay_and_are_shown() {
    for mode in [Sandbox::Off, Sandbox::Auto] {
        let scene = Scene::new();
        let script = "set -e
            printf 'be kind\\nbe brief\\n' > harness.md
            echo new > roles/fixer.md
            echo 2. act >> .autoloop/plan.md
            mkdir .autoloop/logs/old && echo done > .autoloop/logs/old/1.log
            printf '# the loop\\nbackend.command = \"pi\" # cheap\\nevent_loop.max_iterations = 5\\n' > autoloops.toml";
        let outcome = scene.review(script, mode);
        assert!(outcome.succeeded, "{}", outcome.stderr);
        assert_eq!(outcome.told(), Vec::<String>::new());
        let (directories, files): (Vec<_>, Vec<_>) =
            outcome.restored.allowed.iter().partition(|change| change.diff.is_none());
        let directories: Vec<_> = directories.iter().map(|change| change.path.clone()).collect();
        assert_eq!(directories, [Path::new(".autoloop/logs"), Path::new(".autoloop/logs/old")]);
        let diffs: String =
            files.iter().map(|change| change.diff.as_ref().unwrap().text.as_str()).collect();
        assert_eq!(
            diffs,
            "--- /dev/null\n+++ b/.autoloop/logs/old/1.log\n@@ -0,0 +1 @@\n+done\n\
             --- a/.autoloop/plan.md\n+++ b/.autoloop/plan.md\n@@ -1 +1,2 @@\n 1. think\n+2. act\n\
             --- a/autoloops.toml\n+++ b/autoloops.toml\n@@ -1,3 +1,3 @@\n # the loop\n \
             backend.command = \"pi\" # cheap\n-event_loop.max_iterations = 9\n\
             +event_loop.max_iterations = 5\n\
             --- a/harness.md\n+++ b/harness.md\n@@ -1 +1,2 @@\n be kind\n+be brief\n\
             --- /dev/null\n+++ b/roles/fixer.md\n@@ -0,0 +1 @@\n+new\n"
        );
    }
}

#[test]
fn files_that_were_not_there_can_be_made_in_the_sandbox_and_leave_no_trace_otherwise() {
    let scene = Scene::new();
    let outcome = scene.review("echo notes > .autoloop/context.md", Sandbox::Auto);
    assert!(outcome.succeeded, "{}", outcome.stderr);
    assert_eq!(outcome.kept(), [".autoloop/context.md"]);
    assert!(!scene.project.join(".autoloop/progress.md").exists());
    assert!(!scene.project.join("metareview.md").exists());
}

#[test]
fn a_directory_of_allowed_files_lets_editors_rename() {
    let scene = Scene::new();
    let outcome = scene.review("sed -i s/criticise/praise/ roles/critic.md", Sandbox::Auto);
    assert!(outcome.succeeded, "{}", outcome.stderr);
    assert_eq!((outcome.kept(), outcome.told()), (vec!["roles/critic.md".to_owned()], vec![]));
    assert_eq!(scene.read("roles/critic.md"), "praise\n");
}

#[test]
fn good_edits_of_settings_outlive_the_bad_ones_beside_them() {
    let scene = Scene::new();
    let script = r#"printf 'backend.command = "sh" # dear\nevent_loop.max_iterations = 5\n' > autoloops.toml"#;
    let outcome = scene.review(script, Sandbox::Off);
    assert_eq!(outcome.kept(), ["autoloops.toml"]);
    assert_eq!(
        scene.read("autoloops.toml"),
        "backend.command = \"pi\" # dear\nevent_loop.max_iterations = 5\n"
    );
}

#[test]
fn a_journal_may_grow() {
    let scene = Scene::new();
    let script = "echo more >> .autoloop/journal.jsonl; echo more >> .autoloop/memory.jsonl";
    let outcome = scene.review(script, Sandbox::Off);
    assert_eq!((outcome.kept(), outcome.told()), (vec![], vec![]));
    assert!(scene.read(".autoloop/journal.jsonl").ends_with("x.y\"}\nmore\n"));
}

#[test]
fn every_block_of_a_long_journal_is_compared_and_restored() {
    let scene = Scene::new();
    let line = format!("{}\n", "x".repeat(1023));
    let text = line.repeat(3 * 1024 + 7);
    for (script, fault) in [
        (
            "dd if=/dev/zero of=J bs=1 count=1 seek=0 conv=notrunc",
            "old bytes changed behind byte 0",
        ),
        (
            "dd if=/dev/zero of=J bs=1 count=1 seek=2000000 conv=notrunc",
            "old bytes changed behind byte 1048576",
        ),
        (
            "dd if=/dev/zero of=J bs=1 count=1 seek=3152895 conv=notrunc",
            "old bytes changed behind byte 3145728",
        ),
        ("truncate -s 1500000 J", "cut from 3152896 to 1500000 bytes"),
        ("sed -i '5i inserted' J", "replaced by another file"),
        ("cp J K; sed '5i inserted' K > J; rm K", "old bytes changed behind byte 0"),
        ("rm -r .autoloop", "deleted"),
        ("mv J src/j; cp src/j J; rm src/j", "replaced by another file"),
        ("rm J; ln -s /etc/passwd J", "replaced by another symbolic link to /etc/passwd"),
        ("rm J; mkdir -p J/x", "replaced by another directory"),
        ("dd if=/dev/zero of=J bs=1 count=9 seek=7 conv=notrunc; rm J", "deleted"),
        ("truncate -s 9 J; rm J; echo forged > J", "replaced by another file"),
        ("chmod 000 J", "mode changed from 0644 to 0000"),
    ] {
        scene.write(".autoloop/journal.jsonl", &text);
        let script = script.replace('J', ".autoloop/journal.jsonl").replace('K', ".autoloop/copy");
        let outcome = scene.review(&script, Sandbox::Off);
        assert!(outcome.succeeded, "{}", outcome.stderr);
        assert_eq!(outcome.told()[0], format!(".autoloop/journal.jsonl: {fault} (put back)"));
        assert!(scene.read(".autoloop/journal.jsonl").starts_with(&text), "{script}");
    }
}

#[test]
fn records_appended_to_an_altered_journal_stay() {
    let scene = Scene::new();
    let script = "printf X | dd of=.autoloop/journal.jsonl bs=1 seek=5 conv=notrunc; echo more >> .autoloop/journal.jsonl";
    scene.review(script, Sandbox::Off);
    assert_eq!(scene.read(".autoloop/journal.jsonl"), format!("{}more\n", scene::JOURNAL));
}

#[test]
fn a_reader_may_not_even_touch_the_files_of_the_loop() {
    for mode in [Sandbox::Off, Sandbox::Auto] {
        let scene = Scene::new();
        let mut scope = scene.scope();
        scope.allow = AllowList::read_only().growing(Path::new(".autoloop/journal.jsonl"));
        let outcome = scene.review_with(scope, "echo x > harness.md; echo x > new", mode);
        let put_back = ["harness.md: file modified (put back)", "new: file added (put back)"];
        let expected = if mode == Sandbox::Auto && has_sandbox() { &[][..] } else { &put_back };
        assert_eq!(outcome.told(), expected);
        assert_eq!(scene.read("harness.md"), "be kind\n");
    }
}

#[test]
fn a_deleted_repository_is_restored_whole() {
    let scene = Scene::new();
    let before = scene.everything();
    let outcome = scene.review("rm -rf .git src ../sibling", Sandbox::Off);
    assert!(outcome.is_restored(), "{:?}", outcome.told());
    assert_eq!(difference(&before, &scene.everything()), Vec::<String>::new());
    scene.git(&["fsck", "--strict"]);
}

#[test]
fn a_moved_or_replaced_project_is_restored() {
    for script in [
        // The working directory moves too, so its parent is not where the project was.
        "mv ../p $OUTSIDE/away",
        "mv ../p $OUTSIDE/away; ln -s $OUTSIDE/away $OUTSIDE/../p",
        "mv ../p $OUTSIDE/away; mkdir -p $OUTSIDE/../p/mine; cp $OUTSIDE/away/harness.md $OUTSIDE/../p",
        "mv ../p $OUTSIDE/away; echo x > $OUTSIDE/../p",
        "mv ../p $OUTSIDE/away; mkdir $OUTSIDE/theirs; echo x > $OUTSIDE/theirs/x; ln -s $OUTSIDE/theirs $OUTSIDE/../p",
        "chmod 000 .",
        "chmod 400 . src",
        "echo x > src/new; chmod 100 src .autoloop",
    ] {
        let scene = Scene::new();
        let inside = |scene: &Scene| -> Vec<String> {
            scene.everything().into_iter().filter(|line| !line.contains("/outside/")).collect()
        };
        let before = inside(&scene);
        let outcome = scene.review(script, Sandbox::Off);
        assert!(outcome.is_restored(), "{script}: {:?}", outcome.told());
        assert_eq!(difference(&before, &inside(&scene)), Vec::<String>::new(), "{script}");
        if script.contains("theirs") {
            assert!(scene.outside().join("theirs/x").exists());
        }
    }
}

#[test]
fn files_moved_into_the_project_are_put_aside_and_not_deleted() {
    let scene = Scene::new();
    fs::create_dir_all(scene.outside().join("precious")).unwrap();
    fs::write(scene.outside().join("precious/thesis"), "years").unwrap();
    let outcome = scene.review("mv $OUTSIDE/precious src/; echo mine > src/main.rs", Sandbox::Off);
    assert_eq!(
        outcome.told(),
        [
            "src/main.rs: file modified (put back)",
            "src/precious: directory added, with 1 more inside (put back)"
        ]
    );
    assert_eq!(scene.read(".autoloop/put-aside/2-main.rs"), "mine\n");
    assert_eq!(scene.read(".autoloop/put-aside/1-precious/thesis"), "years");
}

#[test]
fn a_hidden_hard_link_leads_nowhere_afterwards() {
    let scene = Scene::new();
    let outcome = scene.review("ln src/main.rs $OUTSIDE/later", Sandbox::Off);
    assert_eq!(outcome.told(), ["src/main.rs: hard link added (put back)"]);
    fs::write(scene.outside().join("later"), "evil").unwrap();
    assert_eq!(scene.read("src/main.rs"), "fn main() {}\n");
}

#[test]
fn a_directory_that_was_closed_to_writers_is_closed_again() {
    let scene = Scene::new();
    scene.write("vendor/lib.rs", "theirs\n");
    scene.mode("vendor", 0o555);
    let before = scene.everything();
    let script = "chmod u+w vendor; echo x > vendor/lib.rs; echo x > vendor/new; chmod u-w vendor";
    let outcome = scene.review(script, Sandbox::Off);
    assert_eq!(
        outcome.told(),
        ["vendor/lib.rs: file modified (put back)", "vendor/new: file added (put back)"]
    );
    assert_eq!(difference(&before, &scene.everything()), Vec::<String>::new());
    scene.mode("vendor", 0o755);
}

#[test]
fn a_file_that_was_only_touched_is_no_violation() {
    let scene = Scene::new();
    let script = "touch src/main.rs; cp src/dirty.rs $TMPDIR/d; cp $TMPDIR/d src/dirty.rs";
    assert_eq!(scene.review(script, Sandbox::Off).told(), Vec::<String>::new());
}

#[test]
fn a_very_deep_directory_is_removed() {
    let scene = Scene::new();
    let mut scope = scene.scope();
    scope.put_aside = None;
    let script =
        "i=0; cd src; while [ $i -lt 300 ]; do mkdir d && cd d; i=$((i+1)); done; echo x > x";
    let outcome = scene.review_with(scope, script, Sandbox::Off);
    assert_eq!(outcome.told().len(), 1);
    assert!(outcome.is_restored(), "{:?}", outcome.told());
    assert!(!scene.project.join("src/d").exists());
}

#[test]
fn a_project_without_git_is_restored_too() {
    let scene = Scene::without_git();
    let before = scene.everything();
    let outcome = scene.review("rm -r src node_modules; echo x > new", Sandbox::Off);
    assert_eq!(
        outcome.told(),
        [
            "new: file added (put back)",
            "node_modules: directory deleted, with 2 more inside (put back)",
            "src: directory deleted, with 7 more inside (put back)",
        ]
    );
    assert_eq!(difference(&before, &scene.everything()), Vec::<String>::new());
}

#[test]
fn files_beyond_the_copy_limit_come_from_git_or_are_reported() {
    let scene = Scene::new();
    let long = "0123456789abcdef\n".repeat(40_000);
    scene.write("big.txt", &long);
    scene.write("filtered.bin", &long);
    scene.write(".gitattributes", "*.bin filter=evil\n");
    scene.git(&["add", "-A"]);
    scene.git(&["commit", "-qm", "big"]);
    scene.write("node_modules/huge.js", &long);
    let mut scope = scene.scope();
    scope.limits = Limits { bytes: 600_000, files: 1000 };
    let script = "echo x > big.txt; echo x > filtered.bin; echo x > node_modules/huge.js; echo x > src/main.rs; rm -rf .git";
    let outcome = scene.review_with(scope, script, Sandbox::Off);
    // The number of objects depends on the time of the commits.
    assert!(outcome.told()[0].starts_with(".git: directory deleted, with "));
    assert_eq!(
        outcome.told()[1..],
        [
            "big.txt: file modified (put back)",
            "filtered.bin: file modified; no copy of it was kept (not put back)",
            "node_modules/huge.js: file modified; no copy of it was kept (not put back)",
            "src/main.rs: file modified (put back)",
        ]
    );
    assert_eq!(scene.read("big.txt"), long);
    assert_eq!(scene.read("filtered.bin"), "x\n");
}

#[test]
fn long_files_are_copied_and_come_back() {
    let scene = Scene::new();
    let long = "0123456789abcdef\n".repeat(200_000);
    scene.write("node_modules/huge.js", &long);
    let outcome = scene
        .review("printf x | dd of=node_modules/huge.js bs=1 seek=9999 conv=notrunc", Sandbox::Off);
    assert_eq!(outcome.told(), ["node_modules/huge.js: file modified (put back)"]);
    assert_eq!(scene.read("node_modules/huge.js"), long);
}

#[test]
fn a_sparse_file_stays_sparse() {
    let scene = Scene::new();
    let sparse = scene.project.join("node_modules/sparse");
    let file = fs::File::create(&sparse).unwrap();
    file.set_len(300 << 20).unwrap();
    file.write_all_at(b"data", 200 << 20).unwrap();
    drop(file);
    let outcome = scene.review("rm node_modules/sparse", Sandbox::Off);
    assert_eq!(outcome.told(), ["node_modules/sparse: file deleted (put back)"]);
    let found = fs::metadata(&sparse).unwrap();
    assert_eq!(found.len(), 300 << 20);
    assert!(found.blocks() * 512 < 1 << 20, "{} blocks", found.blocks());
    let mut bytes = [0; 6];
    fs::File::open(&sparse).unwrap().read_exact_at(&mut bytes, (200 << 20) - 1).unwrap();
    assert_eq!(&bytes, b"\0data\0");
}

#[test]
fn a_second_snapshot_copies_only_what_changed() {
    let scene = Scene::new();
    let snapshot = Snapshot::take(scene.store(), scene.scope()).unwrap();
    let (_, store) = snapshot.compare_and_restore(Attribution::Repository).unwrap();
    let first = store.len();
    scene.write("src/main.rs", "fn other() {}\n");
    let snapshot = Snapshot::take(store, scene.scope()).unwrap();
    fs::write(scene.project.join("src/main.rs"), "evil").unwrap();
    let (restored, store) = snapshot.compare_and_restore(Attribution::Repository).unwrap();
    assert!(restored.violations.iter().all(|violation| violation.restored));
    assert_eq!(store.len() - first, "fn other() {}\n".len() as u64);
    assert_eq!(scene.read("src/main.rs"), "fn other() {}\n");
}

#[test]
fn a_worktree_of_another_run_is_not_restored() {
    let scene = Scene::new();
    let mut scope = scene.scope();
    scope.busy_worktrees = vec![scene.project.with_file_name("sibling")];
    let script = "set -e; cd ../sibling; echo work > src/work.rs; git add -A
        git -c user.name=a -c user.email=a@b.example commit -qm work; echo evil > ../p/.git/hooks/pre-push";
    let outcome = scene.review_with(scope, script, Sandbox::Off);
    assert!(outcome.succeeded, "{}", outcome.stderr);
    assert_eq!(outcome.told(), [".git/hooks/pre-push: file added (put back)"]);
    assert!(scene.project.with_file_name("sibling").join("src/work.rs").exists());
}

#[test]
fn a_project_inside_a_repository_guards_the_whole_repository() {
    let scene = Scene::new();
    scene.write("loops/a/autoloops.toml", SETTINGS);
    scene.write("loops/a/topology.toml", TOPOLOGY);
    fs::create_dir(scene.project.join("loops/a/.autoloop")).unwrap();
    let allow = AllowList::metareview(Path::new(""), Path::new(".autoloop"));
    let inside = scene.project.join("loops/a");
    let scope = autoloop_runtime::sandbox::Scope::new(&inside, Path::new(".autoloop"), allow);
    let snapshot = Snapshot::take(scene.store(), scope).unwrap();
    scene.write("src/main.rs", "evil");
    scene.write("autoloops.toml", "evil = 1");
    scene.write("loops/a/harness.md", "good");
    let (restored, _) = snapshot.compare_and_restore(Attribution::Repository).unwrap();
    let told: Vec<_> = restored.violations.iter().map(|violation| violation.path.clone()).collect();
    assert_eq!(told, [scene.project.join("autoloops.toml"), scene.project.join("src/main.rs")]);
    assert_eq!(restored.allowed.len(), 1);
    assert_eq!(scene.read("autoloops.toml"), SETTINGS);
}

#[test]
fn a_sandboxed_reviewer_reaches_nothing_outside_either() {
    if !has_sandbox() {
        return;
    }
    let scene = Scene::new();
    let script = format!(
        "echo x > $OUTSIDE/a; mkdir $OUTSIDE/b; setsid sh -c 'echo x > $OUTSIDE/c'
         kill -0 {} && echo reached; echo fine > $TMPDIR/d && cat $TMPDIR/d src/main.rs > /dev/null || exit 9",
        std::process::id()
    );
    let outcome = scene.review(&script, Sandbox::Required);
    assert!(outcome.succeeded, "{}", outcome.stderr);
    assert_eq!(fs::read_dir(scene.outside()).unwrap().count(), 0);
    assert_eq!(outcome.stderr.matches("denied").count(), 3, "{}", outcome.stderr);
}

#[test]
fn a_link_planted_among_the_allowed_files_opens_nothing() {
    if !has_sandbox() {
        return;
    }
    let scene = Scene::new();
    fs::remove_dir_all(scene.project.join("roles")).unwrap();
    std::os::unix::fs::symlink("src", scene.project.join("roles")).unwrap();
    fs::remove_file(scene.project.join("harness.md")).unwrap();
    std::os::unix::fs::symlink("src/main.rs", scene.project.join("harness.md")).unwrap();
    let script = "echo x > roles/new.md; echo x > harness.md";
    let outcome = scene.review(script, Sandbox::Required);
    assert!(!outcome.succeeded);
    assert_eq!(outcome.told(), Vec::<String>::new());
    assert_eq!(scene.read("src/main.rs"), "fn main() {}\n");
}
