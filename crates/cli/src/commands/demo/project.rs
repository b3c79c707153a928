//! The temporary project of a demo.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use autoloop_runtime::launch::presets::LoopFile;
use autoloop_runtime::world::World;

use crate::failure::Failure;

macro_rules! files {
    ($dir:literal: $($path:literal $(from $source:literal)?),+ $(,)?) => {
        &[$(($path, include_str!(concat!($dir, files!(@ $path $($source)?)))),)+]
    };
    (@ $path:literal) => { $path };
    (@ $path:literal $source:literal) => { $source };
}

/// Names and texts.
type Files = &'static [(&'static str, &'static str)];

pub(super) const LOOP: Files = files![
    "project/":
    "README.md",
    // Under this name it would apply to the sources.
    ".gitignore" from "gitignore",
    "autoloops.toml",
    "topology.toml",
    "harness.md",
    "roles/planner.md",
    "roles/builder.md",
    "roles/critic.md",
    "agents/planner.toml",
    "agents/builder.toml",
    "agents/critic.toml",
    "agents/metareview.toml",
];

pub(super) const SQUAD: Files = files![
    "squad/":
    "README.md",
    ".gitignore" from "gitignore",
    "autoloops.toml",
    "spec.md",
    "plan.toml",
    "agents.toml",
    "hello.sh",
    "test.sh",
];

pub(super) struct Project {
    pub(super) dir: PathBuf,
    /// Why it is not a git repository.
    pub(super) git_error: Option<String>,
}

impl Project {
    pub(super) fn create(files: Files, world: &World) -> Result<Project, Failure> {
        let name = format!("autoloop-demo-{:08x}", world.entropy.number() >> 32);
        let dir = std::env::temp_dir().join(name);
        let failed = |error: io::Error| {
            Failure::failed(format!("cannot create {}: {error}", dir.display()))
                .hint("set TMPDIR to a writable directory")
        };
        fs::create_dir(&dir).map_err(failed)?;
        let dir = dir.canonicalize().map_err(failed)?;
        for (path, text) in files {
            LoopFile::text(path, text).write_new(&dir).map_err(failed)?;
        }
        let git_error = create_repository(&dir).err();
        Ok(Project { dir, git_error })
    }
}

fn create_repository(dir: &Path) -> Result<(), String> {
    let commit = ["commit", "--quiet", "--message", "A project to try out"];
    git(dir, &["init", "--quiet"])?;
    git(dir, &["add", "--all"])?;
    git(dir, &commit)
}

/// Runs git without the user's settings, which may require signatures or run hooks.
fn git(dir: &Path, args: &[&str]) -> Result<(), String> {
    let mut git = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"GIT_") {
            git.env_remove(name);
        }
    }
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    for setting in
        ["init.defaultBranch=main", "user.name=autoloop demo", "user.email=demo@localhost"]
    {
        git.args(["-c", setting]);
    }
    autoloop_runtime::process::set_pwd(&mut git, dir);
    let done = git.args(args).current_dir(dir).stdin(Stdio::null()).output();
    let done = done.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "git is not installed".to_owned(),
        _ => format!("git failed: {error}"),
    })?;
    if done.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&done.stderr);
    Err(format!("git failed: {}", errors.lines().next().unwrap_or("no message")))
}
