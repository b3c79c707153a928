//! Restores what a reviewer was not allowed to change.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use autoloop_core::permissions::{Change, Entry, Kind, Tree, What};
use rustix::fs::{AtFlags, FileType, Gid, Mode, Timespec, Timestamps, Uid};
use rustix::io::Errno;

use super::backup_store::{Backup, BackupStore};
use super::git;
use super::openat;
use super::snapshot::Snapshot;
use crate::files;

/// Where the old bytes of a file come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Kept(Backup),
    /// An object of the repository whose worktree is at `top`.
    Git {
        top: PathBuf,
        object: String,
    },
}

pub(super) struct Restorer<'s> {
    snapshot: &'s Snapshot,
    /// Directories that had to be opened up, with the modes they had.
    opened_up: Vec<(PathBuf, u32)>,
    /// How many files were put aside.
    aside: usize,
}

impl<'s> Restorer<'s> {
    pub(super) fn new(snapshot: &'s Snapshot) -> Self {
        Restorer { snapshot, opened_up: Vec::new(), aside: 0 }
    }

    /// Restores as much as possible. The caller lists the trees again to see what was.
    pub(super) fn restore(&mut self, violations: &[Change], after: &Tree) {
        let mut removed: Option<&Path> = None;
        for change in violations {
            let with_its_directory = removed.is_some_and(|above| change.path.starts_with(above));
            if matches!(change.what, What::Added(_) | What::Became { .. }) && !with_its_directory {
                removed = Some(&change.path);
                let aside = self.next_aside(&change.path);
                self.attempt(&change.path, |dir, name| match &aside {
                    Some((aside, as_name)) => move_aside(dir, name, aside, as_name)
                        .or_else(|_| files::remove_at(dir, name)),
                    None => files::remove_at(dir, name),
                });
            }
        }
        let olds: Vec<(&Change, &Entry)> = violations
            .iter()
            .filter_map(|change| Some((change, self.snapshot.before.get(&change.path)?)))
            .collect();
        // Directories first, so that what is inside can be reached; parents come before children.
        for (change, old) in olds.iter().filter(|(_, old)| old.kind == Kind::Directory) {
            self.restore_directory(&change.path, old);
        }
        // Copies before objects of git: the repository itself is among the former.
        let is_in_git =
            |path: &PathBuf| matches!(self.snapshot.sources.get(path), Some(Source::Git { .. }));
        let leaves = olds.iter().filter(|(_, old)| old.kind != Kind::Directory);
        let (from_git, copied): (Vec<_>, Vec<_>) =
            leaves.partition(|(change, _)| is_in_git(&change.path));
        for (change, old) in copied.into_iter().chain(from_git) {
            self.restore_leaf(change, old);
        }
        self.restore_modes(violations, after);
    }

    /// The directory for the next file that is put aside, and its name there.
    fn next_aside(&mut self, path: &Path) -> Option<(OwnedFd, OsString)> {
        let (root, beneath) =
            self.snapshot.trees.locate(self.snapshot.scope.put_aside.as_deref()?)?;
        let dir = openat::make_dirs(&openat::open_root(root).ok()?, &beneath).ok()?;
        loop {
            self.aside += 1;
            let mut name = OsString::from(format!("{}-", self.aside));
            name.push(path.file_name().unwrap_or_default());
            if openat::stat_at(&dir, &name).is_err() {
                return Some((dir, name));
            }
        }
    }

    fn restore_directory(&mut self, path: &Path, old: &Entry) {
        let mode = Mode::from_raw_mode(old.mode) | Mode::RWXU;
        let path_of_root = self.snapshot.trees.project.join(path);
        // The known path: joined with an empty one it would end in a slash, which follows links.
        if let Some(root) = self.snapshot.trees.roots.iter().find(|root| **root == path_of_root) {
            // Whatever is in the place of a root is no directory, or it would have been entered.
            if openat::open_root(root).is_err() {
                let _ = std::fs::remove_file(root);
                let _ = std::fs::create_dir_all(root);
            }
            let _ = openat::open_root(root).map(|dir| rustix::fs::fchmod(&dir, mode));
            return;
        }
        self.attempt(path, |dir, name| {
            openat::make_dir(dir, name)?;
            restore_owner(dir, name, old)?;
            Ok(rustix::fs::chmodat(dir, name, mode, AtFlags::empty())?)
        });
    }

    fn restore_leaf(&mut self, change: &Change, old: &Entry) {
        let (store, source) = (&self.snapshot.store, self.snapshot.sources.get(&change.path));
        let aside = match (&change.what, source) {
            (What::Modified, Some(_)) => self.next_aside(&change.path),
            _ => None,
        };
        let mode = Mode::from_raw_mode(old.mode);
        self.attempt(&change.path, |dir, name| match (&change.what, &old.kind) {
            (What::Mode { .. } | What::Owner, _) => {
                restore_owner(dir, name, old)?;
                Ok(rustix::fs::chmodat(dir, name, mode, AtFlags::empty())?)
            }
            // Names that were added are removed by now, except outside of the trees.
            (What::Linked, _) if openat::stat_at(dir, name)?.st_nlink <= old.links => Ok(()),
            (_, Kind::File) => {
                // Without the old bytes the new ones are better than none.
                let source = source.ok_or(Errno::NOENT)?;
                if let Some((aside, as_name)) = &aside {
                    let _ = rustix::fs::linkat(dir, name, aside, as_name, AtFlags::empty());
                }
                restore_file(dir, name, store, source, old)
            }
            (_, Kind::Symlink(target)) => {
                files::remove_at(dir, name)?;
                rustix::fs::symlinkat(target, dir, name)?;
                restore_owner(dir, name, old)
            }
            (_, Kind::Pipe) => make_node(dir, name, mode, FileType::Fifo, 0),
            (_, Kind::Device(number)) => {
                make_node(dir, name, mode, FileType::CharacterDevice, *number)
            }
            // A socket is useless without its server, and a closed directory was never listed.
            (_, Kind::Socket | Kind::Closed | Kind::Directory) => Err(Errno::NOTSUP.into()),
        });
    }

    /// Does something in the directory that holds a path; a failure shows in the next listing.
    fn attempt(&mut self, path: &Path, act: impl FnOnce(&OwnedFd, &OsStr) -> io::Result<()>) {
        let Some((root, beneath)) = self.snapshot.trees.locate(path) else { return };
        let mut opened = Vec::new();
        let _ = openat::open_root(root)
            .and_then(|dir| openat::open_parent(&dir, &beneath, &mut opened))
            .and_then(|(dir, name)| act(&dir, &name));
        self.opened_up.extend(opened.into_iter().map(|(path, mode)| (root.join(path), mode)));
    }

    /// Restores the modes of directories that were changed or opened up, the deepest first.
    fn restore_modes(&mut self, violations: &[Change], after: &Tree) {
        let mut modes: BTreeMap<PathBuf, u32> = BTreeMap::new();
        for (path, found) in self.opened_up.drain(..) {
            modes.entry(self.snapshot.trees.relative(&path)).or_insert(found);
        }
        // The second walk may have opened some up, too; its entries have the modes before that.
        for (path, entry) in after.iter().filter(|(_, entry)| entry.kind == Kind::Directory) {
            if entry.mode & 0o700 != 0o700 {
                modes.insert(path.clone(), entry.mode);
            }
        }
        let old =
            |path: &Path| self.snapshot.before.get(path).filter(|old| old.kind == Kind::Directory);
        for path in violations.iter().map(|change| &change.path) {
            if let Some(old) = old(path) {
                modes.insert(path.clone(), old.mode);
            }
        }
        for (path, found) in modes.into_iter().rev() {
            let mode = Mode::from_raw_mode(old(&path).map_or(found, |old| old.mode));
            let _ = openat::open_root(&self.snapshot.trees.project.join(&path))
                .and_then(|dir| Ok(rustix::fs::fchmod(&dir, mode)?));
        }
    }
}

/// Moves a file or a directory; anything else is not worth keeping.
fn move_aside(dir: &OwnedFd, name: &OsStr, aside: &OwnedFd, as_name: &OsStr) -> io::Result<()> {
    let kind = FileType::from_raw_mode(openat::stat_at(dir, name)?.st_mode);
    if !matches!(kind, FileType::RegularFile | FileType::Directory) {
        return Err(Errno::NOTSUP.into());
    }
    Ok(rustix::fs::renameat(dir, name, aside, as_name)?)
}

fn restore_file(
    dir: &OwnedFd,
    name: &OsStr,
    store: &BackupStore,
    source: &Source,
    old: &Entry,
) -> io::Result<()> {
    openat::replace(dir, name, |fresh| {
        match source {
            Source::Kept(backup) => store.write_to(backup, fresh)?,
            Source::Git { top, object } => git::write_object(top, object, fresh)?,
        }
        let (user, group) = owner(old);
        // Only root can change the owner; for any other user it is the same already.
        let _ = rustix::fs::fchown(fresh, user, group);
        rustix::fs::fchmod(fresh, Mode::from_raw_mode(old.mode))?;
        let nanos = old.stamp.written;
        let written = Timespec {
            tv_sec: i64::try_from(nanos.div_euclid(1_000_000_000)).unwrap_or_default(),
            tv_nsec: i64::try_from(nanos.rem_euclid(1_000_000_000)).unwrap_or_default(),
        };
        let times = Timestamps { last_access: written, last_modification: written };
        Ok(rustix::fs::futimens(fresh, &times)?)
    })
}

fn make_node(
    dir: &OwnedFd,
    name: &OsStr,
    mode: Mode,
    kind: FileType,
    number: u64,
) -> io::Result<()> {
    files::remove_at(dir, name)?;
    rustix::fs::mknodat(dir, name, kind, mode, number)?;
    Ok(rustix::fs::chmodat(dir, name, mode, AtFlags::empty())?)
}

fn owner(old: &Entry) -> (Option<Uid>, Option<Gid>) {
    (Some(Uid::from_raw(old.owner.0)), Some(Gid::from_raw(old.owner.1)))
}

fn restore_owner(dir: &OwnedFd, name: &OsStr, old: &Entry) -> io::Result<()> {
    let stat = openat::stat_at(dir, name)?;
    if (stat.st_uid, stat.st_gid) != old.owner {
        let (user, group) = owner(old);
        rustix::fs::chownat(dir, name, user, group, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}
