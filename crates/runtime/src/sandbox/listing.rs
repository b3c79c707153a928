//! Lists everything in some trees, quickly and without following links, and what changed in them since. Bytes are
//! hashed only where the status of a file proves nothing.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use autoloop_core::permissions::{Change, Entry, Kind, Tree, What, compare};
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;

use super::git::{Repository, ignored};
use super::openat::{self, DirCache};
use super::scope::Scope;
use crate::files;

/// Deeper directories are not entered: every level costs an open file.
const DEEPEST: usize = 128;
/// Timestamps younger than this when they are read prove nothing, in nanoseconds: file systems count in
/// ticks.
const TICK: i128 = 20_000_000;

#[derive(Clone, Debug, Default)]
pub(super) struct Trees {
    /// All paths inside are relative to it, those outside absolute.
    pub(super) project: PathBuf,
    /// None is inside another.
    pub(super) roots: Vec<PathBuf>,
    /// Left out with everything inside. Relative to the project.
    pub(super) skipped: Vec<PathBuf>,
}

impl Trees {
    /// A path relative to the project.
    pub(super) fn relative(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.project).unwrap_or(path).to_owned()
    }

    /// The root of the tree that holds a path relative to the project, and the path beneath that root.
    pub(super) fn locate(&self, path: &Path) -> Option<(&Path, PathBuf)> {
        let path = self.project.join(path);
        self.roots.iter().find_map(|root| {
            path.strip_prefix(root).ok().map(|beneath| (root.as_path(), beneath.to_owned()))
        })
    }

    /// Lists everything. Directories that cannot be opened are the user's choice, unless they could be
    /// opened in an earlier listing: then the reviewer closed them, and they are opened up. The entry has
    /// the mode that was found.
    pub(super) fn walk(&self, earlier: Option<&Tree>) -> io::Result<Tree> {
        let mut walker = Walker { trees: self, earlier, found: Vec::new() };
        for root in &self.roots {
            let mode = earlier.and_then(|_| open_up_root(root));
            let dir = match openat::open_root(root) {
                Ok(dir) => dir,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                // A link or a file in the place of a root: whatever was in it is gone.
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => continue,
                Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => continue,
                Err(error) => return Err(error),
            };
            let mut entry = openat::entry(&rustix::fs::fstat(&dir)?, &dir, OsStr::new("."))?;
            entry.mode = mode.unwrap_or(entry.mode);
            walker.found.push((self.relative(root), entry));
            walker.enter(dir, root, 0)?;
        }
        // Sorted within each root already, so this is one pass.
        Ok(walker.found.into_iter().collect())
    }
}

/// The files and directories that there were.
#[derive(Debug)]
pub struct Listing {
    trees: Trees,
    before: Tree,
    /// The hashes of files whose stamps prove nothing.
    hashes: Vec<(PathBuf, Option<blake3::Hash>)>,
}

impl Listing {
    /// Lists everything that belongs to a project, before its reviewer starts; without the references and settings
    /// in a git directory that git itself is asked for.
    pub(super) fn of_scope(scope: &Scope, asked: Option<&Path>) -> io::Result<Listing> {
        let project = scope.project_dir.canonicalize()?;
        let repository = Repository::find(&project);
        let mut trees = scope.trees(project, repository.as_ref());
        for name in ["HEAD", "config", "config.worktree", "packed-refs", "refs"] {
            let path = asked.map(|common| trees.relative(&common.join(name)));
            trees.skipped.extend(path);
        }
        Listing::take(trees)
    }

    /// Lists a project without its repository and its state.
    pub fn of_files(project: &Path, state_dir: &Path) -> io::Result<Listing> {
        let project = project.canonicalize()?;
        let mut trees = Trees { roots: vec![project.clone()], project, skipped: Vec::new() };
        let state_dir = trees.project.join(state_dir);
        let state_dir = state_dir.canonicalize().unwrap_or(state_dir);
        trees.skipped = vec![trees.relative(&state_dir), PathBuf::from(".git")];
        Listing::take(trees)
    }

    pub(super) fn take(trees: Trees) -> io::Result<Listing> {
        let before = trees.walk(None)?;
        let racy = racy(&before);
        let hashes = racy.into_iter().map(|path| (path.clone(), hash(&trees, &path))).collect();
        Ok(Listing { trees, before, hashes })
    }

    pub(super) fn changes(&self) -> io::Result<Vec<Change>> {
        let after = self.trees.walk(None)?;
        let mut changes = compare(&self.before, &after, |_| true);
        for (path, old) in &self.hashes {
            if self.before.get(path) == after.get(path) && *old != hash(&self.trees, path) {
                changes.push(Change { path: path.clone(), what: What::Modified });
            }
        }
        Ok(changes)
    }

    /// The files that were added, changed or deleted since, relative to the project, by any process;
    /// without those that git ignores.
    pub fn changed_files(&self) -> io::Result<Vec<PathBuf>> {
        let project = &self.trees.project;
        let ignored = Repository::find(project).map(|it| (ignored(&it.top), it.top));
        let is_ignored = |path: &Path| {
            ignored.as_ref().is_some_and(|(ignored, top)| {
                let path = project.join(path);
                let path = path.strip_prefix(top).unwrap_or(&path);
                path.ancestors().any(|above| ignored.contains(above))
            })
        };
        let is_of_file = |what: &What| match what {
            What::Added(kind) | What::Deleted(kind) => *kind != Kind::Directory,
            What::Modified | What::Became { .. } => true,
            What::Mode { .. } | What::Owner | What::Linked => false,
        };
        let mut changes = self.changes()?;
        changes.retain(|change| is_of_file(&change.what) && !is_ignored(&change.path));
        Ok(changes.into_iter().map(|change| change.path).collect())
    }
}

/// The hash of a file; `None` where it cannot be read.
fn hash(trees: &Trees, path: &Path) -> Option<blake3::Hash> {
    let mut file = DirCache::new(trees).open(path).ok()?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(hasher.finalize()),
            read => hasher.update(&buffer[..read]),
        };
    }
}

/// The files of a new listing that may have been written after their stamp was read without a newer stamp.
pub(super) fn racy(listed: &Tree) -> BTreeSet<PathBuf> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let settled = openat::nanos(now.tv_sec, now.tv_nsec) - TICK;
    let is_racy = |entry: &Entry| entry.kind == Kind::File && entry.stamp.changed >= settled;
    let racy = listed.iter().filter(|(_, entry)| is_racy(entry));
    racy.map(|(path, _)| path.clone()).collect()
}

/// Opens a root up that the reviewer closed, and returns the mode it had.
fn open_up_root(root: &Path) -> Option<u32> {
    let parent = openat::open_root(root.parent()?).ok()?;
    let name = root.file_name()?;
    let stat = openat::stat_at(&parent, name).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory || is_open(stat.st_mode) {
        return None;
    }
    let mode = Mode::from_raw_mode(stat.st_mode) | Mode::RWXU;
    rustix::fs::chmodat(&parent, name, mode, AtFlags::empty()).ok()?;
    Some(openat::mode_bits(&stat))
}

/// Whether its owner can list a directory.
fn is_open(mode: u32) -> bool {
    mode & 0o500 == 0o500
}

struct Walker<'t> {
    trees: &'t Trees,
    earlier: Option<&'t Tree>,
    found: Vec<(PathBuf, Entry)>,
}

impl Walker<'_> {
    fn enter(&mut self, dir: OwnedFd, path: &Path, depth: usize) -> io::Result<()> {
        let mut names = files::names_in(&dir)?;
        // Paths are ordered by their components, so the whole listing is sorted.
        names.sort_unstable();
        for name in &names {
            let path = path.join(name);
            let relative = self.trees.relative(&path);
            if self.trees.skipped.contains(&relative) {
                continue;
            }
            let stat = match openat::stat_at(&dir, name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                // A directory that may be listed but not searched.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => continue,
                result => result?,
            };
            let mut entry = openat::entry(&stat, &dir, name)?;
            let inside = match entry.kind {
                Kind::Directory if depth < DEEPEST => self.open(&dir, name, &relative, &entry)?,
                _ => None,
            };
            if entry.kind == Kind::Directory && inside.is_none() {
                entry.kind = Kind::Closed;
            }
            self.found.push((relative, entry));
            if let Some(inside) = inside {
                self.enter(inside, &path, depth + 1)?;
            }
        }
        Ok(())
    }

    fn open(
        &self,
        dir: &OwnedFd,
        name: &OsStr,
        path: &Path,
        entry: &Entry,
    ) -> io::Result<Option<OwnedFd>> {
        if self.was_closed_since(path, entry) {
            let mode = Mode::from_raw_mode(entry.mode) | Mode::RWXU;
            // Only the owner can; otherwise opening it fails below.
            let _ = rustix::fs::chmodat(dir, name, mode, AtFlags::empty());
        }
        match openat::open_dir_at(dir, name) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// What was closed earlier stays closed: its contents were never listed, and would look added.
    fn was_closed_since(&self, path: &Path, entry: &Entry) -> bool {
        let was_open = |old: &Entry| old.kind == Kind::Directory && is_open(old.mode);
        !is_open(entry.mode)
            && self.earlier.is_some_and(|earlier| earlier.get(path).is_none_or(was_open))
    }
}
