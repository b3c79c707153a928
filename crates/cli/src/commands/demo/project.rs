//! The project of the demo: its files, and git around them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use autoloop_runtime::world::World;

use crate::failure::Failure;

/// A file of the project, by its name.
macro_rules! files {
    ($($path:literal $(from $source:literal)?),+ $(,)?) => {
        &[$(($path, include_str!(concat!("project/", files!(@ $path $($source)?)))),)+]
    };
    (@ $path:literal) => { $path };
    (@ $path:literal $source:literal) => { $source };
}

const FILES: &[(&str, &str)] = files![
    "README.md",
    // In the sources it would be obeyed.
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

/// Where the demo takes place.
pub(super) struct Stage {
    pub(super) dir: PathBuf,
    pub(super) repository: Repository,
}

/// Whether the project is under version control.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Repository {
    Made,
    NoGit,
    Failed(String),
}

impl Stage {
    pub(super) fn set(world: &World) -> Result<Stage, Failure> {
        let name = format!("autoloop-demo-{:08x}", world.entropy.number() >> 32);
        let dir = std::env::temp_dir().join(name);
        let failed = |error: io::Error| {
            Failure::failed(format!("cannot make {}: {error}", dir.display()))
                .hint("set TMPDIR to a directory that can be written to")
        };
        fs::create_dir(&dir).map_err(failed)?;
        let dir = dir.canonicalize().map_err(failed)?;
        for (path, text) in FILES {
            let path = dir.join(path);
            let parent = path.parent().unwrap_or(&dir);
            fs::create_dir_all(parent).and_then(|()| fs::write(&path, text)).map_err(failed)?;
        }
        let repository = make_repository(&dir);
        Ok(Stage { dir, repository })
    }
}

fn make_repository(dir: &Path) -> Repository {
    let commit = ["commit", "--quiet", "--message", "A loop to try out"];
    for args in [&["init", "--quiet"][..], &["add", "--all"], &commit] {
        match git(dir, args) {
            Ok(said) if said.is_empty() => {}
            Ok(said) => return Repository::Failed(said),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Repository::NoGit,
            Err(error) => return Repository::Failed(error.to_string()),
        }
    }
    Repository::Made
}

/// Runs git, and returns what it had to complain about. The person's own settings are left out of it:
/// they may want signatures, or run hooks.
fn git(dir: &Path, args: &[&str]) -> io::Result<String> {
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
    let done = git.args(args).current_dir(dir).stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&done.stderr);
    let complaint = said.lines().next().unwrap_or("it failed without a word");
    Ok(if done.status.success() { String::new() } else { complaint.to_owned() })
}
