//! A real project with a real repository, and real processes that misbehave in it.

#![expect(clippy::unwrap_used, reason = "a scene that cannot be set fails its test")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use autoloop_core::config::Sandbox;
use autoloop_core::permissions::AllowList;
use autoloop_runtime::sandbox::{
    Attribution, BackupStore, Enforcement, ReviewChanges, Scope, Snapshot, Support, Violation,
    probe,
};
use autoloop_runtime::world::{Confinement, Rules};
use tempfile::TempDir;

/// A project: `p`, its sibling worktree `sibling`, and a directory `outside` that is not compared.
pub(crate) struct Scene {
    base: TempDir,
    pub(crate) project: PathBuf,
}

/// How a reviewer ended, and the result.
pub(crate) struct Outcome {
    base: String,
    pub(crate) succeeded: bool,
    pub(crate) stderr: String,
    pub(crate) restored: ReviewChanges,
}

impl Outcome {
    /// The violations as printed.
    pub(crate) fn told(&self) -> Vec<String> {
        let told = |violation: &Violation| violation.to_string().replace(&self.base, "BASE");
        self.restored.violations.iter().map(told).collect()
    }

    pub(crate) fn is_restored(&self) -> bool {
        self.restored.violations.iter().all(|violation| violation.restored)
    }

    /// The paths that stay changed.
    pub(crate) fn kept(&self) -> Vec<String> {
        self.restored.allowed.iter().map(|change| change.path.display().to_string()).collect()
    }
}

pub(crate) const SETTINGS: &str =
    "# the loop\nbackend.command = \"pi\" # cheap\nevent_loop.max_iterations = 9\n";
pub(crate) const TOPOLOGY: &str =
    "name = \"two\"\n[[role]]\nid = \"critic\"\nemits = [\"review.passed\"]\n";
pub(crate) const JOURNAL: &str =
    "{\"run\": \"a\", \"topic\": \"loop.start\"}\n{\"run\": \"a\", \"topic\": \"x.y\"}\n";

impl Scene {
    pub(crate) fn new() -> Scene {
        let scene = Scene::without_git();
        scene.git(&["init", "-q", "-b", "main"]);
        scene.git(&["add", "-A"]);
        scene.git(&["commit", "-qm", "first"]);
        scene.git(&["worktree", "add", "-q", "-b", "side", "../sibling"]);
        scene.write("src/dirty.rs", "// changed since\n");
        scene.write("src/untracked.rs", "// new\n");
        scene
    }

    pub(crate) fn without_git() -> Scene {
        let base = tempfile::tempdir().unwrap();
        let project = base.path().canonicalize().unwrap().join("p");
        let scene = Scene { base, project };
        fs::create_dir_all(scene.outside()).unwrap();
        scene.write("autoloops.toml", SETTINGS);
        scene.write("topology.toml", TOPOLOGY);
        scene.write("harness.md", "be kind\n");
        scene.write("roles/critic.md", "criticise\n");
        scene.write("roles/notes.txt", "not a role\n");
        scene.write("src/main.rs", "fn main() {}\n");
        scene.write("src/dirty.rs", "// committed\n");
        scene.write("src/deep/er/lib.rs", "pub(crate) fn f() {}\n");
        scene.write("run.sh", "#!/bin/sh\n");
        scene.mode("run.sh", 0o755);
        scene.write(".gitignore", "node_modules\n.autoloop\n");
        scene.write("node_modules/x/index.js", "module.exports = 1\n");
        scene.write(".autoloop/journal.jsonl", JOURNAL);
        scene.write(".autoloop/memory.jsonl", "{\"id\": \"mem-1\"}\n");
        scene.write(".autoloop/plan.md", "1. think\n");
        scene.write(".autoloop/runs/a/active-prompt.md", "do it\n");
        fs::create_dir_all(scene.project.join("src/empty")).unwrap();
        std::os::unix::fs::symlink("main.rs", scene.project.join("src/link.rs")).unwrap();
        scene
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.project.with_file_name("outside")
    }

    pub(crate) fn base(&self) -> PathBuf {
        self.base.path().canonicalize().unwrap()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.project.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.project.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.project.join(path)).unwrap()
    }

    pub(crate) fn git(&self, args: &[&str]) {
        let who = ["-c", "user.name=a", "-c", "user.email=a@b.example"];
        let status = Command::new("git")
            .args(who)
            .args(args)
            .current_dir(&self.project)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .status()
            .unwrap();
        assert!(status.success(), "git {args:?}");
    }

    pub(crate) fn allow(&self) -> AllowList {
        AllowList::metareview(Path::new(""), Path::new(".autoloop"))
            .growing(Path::new(".autoloop/journal.jsonl"))
            .growing(Path::new(".autoloop/memory.jsonl"))
    }

    pub(crate) fn scope(&self) -> Scope {
        Scope::new(&self.project, Path::new(".autoloop"), self.allow())
    }

    /// A store of copies that the review cannot delete, like that of a real run.
    pub(crate) fn store(&self) -> BackupStore {
        BackupStore::new(&self.project.join(".autoloop")).unwrap()
    }

    /// Runs a shell script as the reviewer.
    pub(crate) fn review(&self, script: &str, mode: Sandbox) -> Outcome {
        self.review_with(self.scope(), script, mode)
    }

    pub(crate) fn review_with(&self, scope: Scope, script: &str, mode: Sandbox) -> Outcome {
        let allow = scope.allow.clone();
        let mut snapshot = Snapshot::take(self.store(), scope).unwrap();
        let note = self.base().join("placeholders");
        snapshot.make_placeholders(None, &note).unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let rules = Rules::new(&self.project, &allow).free_in(scratch.path());
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .current_dir(&self.project)
            .env("TMPDIR", scratch.path())
            .env("OUTSIDE", self.outside());
        // Rules bind the thread that applies them, and the processes it starts.
        let output = std::thread::spawn(move || {
            if Enforcement::choose(mode, probe()).unwrap() != Enforcement::Snapshot {
                Confinement { rules, ..Confinement::default() }.bind_self().unwrap();
            }
            command.output().unwrap()
        })
        .join()
        .unwrap();
        let (restored, _) = snapshot.compare_and_restore(Attribution::Repository).unwrap();
        Outcome {
            base: self.base().display().to_string(),
            succeeded: output.status.success(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            restored,
        }
    }

    /// Every path except the backups: kind, bits and content.
    pub(crate) fn everything(&self) -> Vec<String> {
        let mut found = Vec::new();
        list(&self.base(), &mut found);
        found.sort();
        found
    }
}

fn list(dir: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with(".autoloop/put-aside") {
            continue;
        }
        let status = fs::symlink_metadata(&path).unwrap();
        let content = if status.is_file() {
            String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()
        } else if status.is_symlink() {
            fs::read_link(&path).unwrap().display().to_string()
        } else {
            String::new()
        };
        let links = if status.is_file() { status.nlink() } else { 0 };
        found.push(format!("{} {:o} {links} {content:?}", path.display(), status.mode()));
        if status.is_dir() {
            list(&path, found);
        }
    }
}

/// The entries of one list that are not in the other.
pub(crate) fn difference(before: &[String], after: &[String]) -> Vec<String> {
    let short = |sign: &str, line: &String| -> String { format!("{sign}{line:.150}") };
    let lost = before.iter().filter(|line| !after.contains(line)).map(|line| short("-", line));
    let news = after.iter().filter(|line| !before.contains(line)).map(|line| short("+", line));
    lost.chain(news).collect()
}

/// Whether this kernel has a sandbox at all.
pub(crate) fn has_sandbox() -> bool {
    matches!(probe(), Support::Landlock { .. })
}
