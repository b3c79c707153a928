//! The git repository of a project, for snapshots.
//!
//! Which worktrees belong together is read from the files of the repository. Git itself runs only when
//! there is more than may be copied, and then without hooks, filters, file system monitor and fetching.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::git::{common_dir, git_dir_at, linked_dot_git};

/// The other worktrees of the repository that a directory is in.
pub fn siblings(project: &Path) -> Vec<PathBuf> {
    Repository::find(project).map(|repository| repository.siblings).unwrap_or_default()
}

/// The worktrees and the common directory of the repository that a directory is in.
pub fn repository_paths(project: &Path) -> Vec<PathBuf> {
    let found = Repository::find(project).into_iter();
    found.flat_map(|it| [vec![it.top, it.common], it.siblings].concat()).collect()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repository {
    /// The worktree that holds the project.
    pub(super) top: PathBuf,
    /// The directory with the objects, the settings and the hooks.
    pub(super) common: PathBuf,
    pub(super) siblings: Vec<PathBuf>,
}

impl Repository {
    pub(super) fn find(project: &Path) -> Option<Repository> {
        let top = project.ancestors().find(|dir| fs::symlink_metadata(dir.join(".git")).is_ok())?;
        let own = git_dir_at(&top.join(".git"))?.canonicalize().ok()?;
        let common = common_dir(&own).canonicalize().unwrap_or(own);
        let mut siblings = BTreeSet::new();
        if common.file_name().is_some_and(|name| name == ".git") {
            siblings.extend(common.parent().map(Path::to_owned));
        }
        for entry in fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten() {
            let dot_git = linked_dot_git(&entry.path()).and_then(|it| it.canonicalize().ok());
            siblings.extend(dot_git.and_then(|it| it.parent()?.canonicalize().ok()));
        }
        siblings.remove(top);
        Some(Repository { top: top.to_owned(), common, siblings: siblings.into_iter().collect() })
    }
}

/// What git knows about the files of a worktree; nothing, when it fails. Paths are relative to the top.
#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    /// Files whose bytes are those of an object, with its name.
    pub(super) clean: BTreeMap<PathBuf, String>,
    ignored: BTreeSet<PathBuf>,
}

impl Contents {
    pub(super) fn of(top: &Path) -> Contents {
        Contents { clean: clean(top).unwrap_or_default(), ignored: ignored(top) }
    }

    /// Whether a path, or a directory that holds it, is ignored.
    pub(super) fn ignores(&self, path: &Path) -> bool {
        path.ancestors().any(|above| self.ignored.contains(above))
    }
}

pub(super) fn ignored(top: &Path) -> BTreeSet<PathBuf> {
    paths(top, &["ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory"])
}

fn paths(top: &Path, args: &[&str]) -> BTreeSet<PathBuf> {
    let listed = output(top, args, b"").unwrap_or_default();
    let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.map(|name| Path::new(OsStr::from_bytes(name)).components().collect()).collect()
}

/// The tracked files whose bytes are those of an object, judged by their length and the absence of
/// filters. What is restored from an object is checked against its name.
fn clean(top: &Path) -> Option<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::new();
    for line in output(top, &["ls-files", "-z", "-s"], b"")?.split(|byte| *byte == 0) {
        let Some(tab) = line.iter().position(|byte| *byte == b'\t') else { continue };
        let words: Vec<&str> = str::from_utf8(&line[..tab]).ok()?.split(' ').collect();
        if let ["100644" | "100755", object, "0"] = words[..] {
            let path = PathBuf::from(OsStr::from_bytes(&line[tab + 1..]));
            files.insert(path, object.to_owned());
        }
    }
    for dirty in paths(top, &["diff-files", "-z", "--name-only", "--ignore-submodules"]) {
        files.remove(&dirty);
    }
    let listed: Vec<u8> = files
        .keys()
        .flat_map(|path| path.as_os_str().as_bytes().iter().copied().chain([0]))
        .collect();
    let attributes = ["check-attr", "-z", "--stdin", "filter", "ident", "working-tree-encoding"];
    let answers = output(top, &attributes, &listed)?;
    let mut fields = answers.split(|byte| *byte == 0);
    while let (Some(path), Some(_), Some(value)) = (fields.next(), fields.next(), fields.next()) {
        if value != b"unspecified" && value != b"unset" {
            files.remove(Path::new(OsStr::from_bytes(path)));
        }
    }
    let objects: String = files.values().map(|object| format!("{object}\n")).collect();
    let sizes = output(
        top,
        &["cat-file", "--batch-check=%(objecttype) %(objectsize)"],
        objects.as_bytes(),
    )?;
    let mut sizes = str::from_utf8(&sizes).ok()?.lines();
    files.retain(|path, _| {
        let len = fs::symlink_metadata(top.join(path)).map_or(0, |metadata| metadata.len());
        sizes.next() == Some(&format!("blob {len}"))
    });
    Some(files)
}

/// Writes an object into an empty file, and checks it against its name.
pub(super) fn write_object(top: &Path, object: &str, file: &File) -> io::Result<()> {
    let failed = |what: &str| io::Error::other(format!("git {what} failed for {object}"));
    let status = git(top, &["cat-file", "blob", object])
        .stdout(file.try_clone()?)
        .stdin(Stdio::null())
        .status()?;
    if !status.success() {
        return Err(failed("cat-file"));
    }
    if is_object(top, object, file)? { Ok(()) } else { Err(failed("hash-object")) }
}

/// Whether a file holds the bytes of an object.
pub(super) fn is_object(top: &Path, object: &str, file: &File) -> io::Result<bool> {
    io::Seek::seek(&mut &*file, io::SeekFrom::Start(0))?;
    let named = git(top, &["hash-object", "--stdin", "--no-filters"])
        .stdin(file.try_clone()?)
        .stdout(Stdio::piped())
        .output()?;
    Ok(named.status.success() && named.stdout.trim_ascii() == object.as_bytes())
}

pub(super) fn output(top: &Path, args: &[&str], stdin: &[u8]) -> Option<Vec<u8>> {
    let mut child = git(top, args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    let mut input = child.stdin.take()?;
    let stdin = stdin.to_owned();
    // In a thread, because git writes its output while it reads.
    let writer = std::thread::spawn(move || input.write_all(&stdin));
    let output = child.wait_with_output().ok()?;
    let written = writer.join().ok()?;
    (output.status.success() && written.is_ok()).then_some(output.stdout)
}

/// Git without anything else that it could run, and without changes.
fn git(top: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("git");
    crate::git::without_variables(&mut command, &[]);
    let settings = ["core.hooksPath=/dev/null", "core.fsmonitor=false", "protocol.allow=never"];
    command.arg("-C").arg(top);
    crate::process::set_pwd(&mut command, top);
    command
        .args(settings.iter().flat_map(|setting| ["-c", setting]))
        .args(args)
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stderr(Stdio::null());
    command
}
