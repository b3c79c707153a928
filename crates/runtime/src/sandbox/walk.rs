//! Looking at everything in a tree, quickly and without following anything.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use autoloop_core::permissions::{Entry, Kind, Tree};
use rustix::fs::{AtFlags, Dir, FileType, Mode};
use rustix::io::Errno;

use super::openat;

/// Directories deeper than this are not looked into: every level costs an open file, and only a
/// tree made to hurt is as deep.
const DEEPEST: usize = 128;

/// What is looked at.
#[derive(Clone, Debug, Default)]
pub(super) struct Ground {
    /// The project, against which all paths are told.
    pub(super) project: PathBuf,
    /// The trees to look at; none is inside another.
    pub(super) roots: Vec<PathBuf>,
    /// What is not looked at, with everything in it. As seen from the project.
    pub(super) skipped: Vec<PathBuf>,
}

impl Ground {
    /// A path as seen from the project.
    pub(super) fn seen(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.project).unwrap_or(path).to_owned()
    }

    /// The tree that holds a path as seen from the project, and the way from its root.
    pub(super) fn locate(&self, seen: &Path) -> Option<(&Path, PathBuf)> {
        let path = self.project.join(seen);
        self.roots.iter().find_map(|root| {
            path.strip_prefix(root).ok().map(|beneath| (root.as_path(), beneath.to_owned()))
        })
    }

    fn skips(&self, seen: &Path) -> bool {
        self.skipped.iter().any(|skipped| seen == skipped)
    }
}

/// What to do about a directory that cannot be opened.
#[derive(Clone, Copy, Debug)]
pub(super) enum Closed<'t> {
    /// It is the user's choice: note it and go on.
    Respect,
    /// Unless it was closed before, a reviewer did it: open it, and note the bits it had.
    Force(&'t Tree),
}

/// Looks at everything.
pub(super) fn walk(ground: &Ground, closed: Closed<'_>) -> io::Result<Tree> {
    let mut walker = Walker { ground, closed, found: Vec::new() };
    for root in &ground.roots {
        let mode = open_up_root(root, closed);
        let dir = match openat::open_root(root) {
            Ok(dir) => dir,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            // A link or a file where a root was: whatever was in it is gone.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => continue,
            Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => continue,
            Err(error) => return Err(error),
        };
        let stat = rustix::fs::fstat(&dir)?;
        let mut entry = openat::entry(&stat, &dir, OsStr::new("."))?;
        entry.mode = mode.unwrap_or(entry.mode);
        walker.found.push((ground.seen(root), entry));
        walker.enter(dir, root, 0)?;
    }
    // Sorted within each root already, so this is one pass.
    Ok(walker.found.into_iter().collect())
}

/// Opens a root up that was closed by the reviewer, and tells the bits it had.
fn open_up_root(root: &Path, closed: Closed<'_>) -> Option<u32> {
    let Closed::Force(_) = closed else { return None };
    let parent = openat::open_root(root.parent()?).ok()?;
    let name = root.file_name()?;
    let stat = openat::stat_at(&parent, name).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory || stat.st_mode & 0o500 == 0o500
    {
        return None;
    }
    let mode = Mode::from_raw_mode(stat.st_mode) | Mode::RWXU;
    rustix::fs::chmodat(&parent, name, mode, AtFlags::empty()).ok()?;
    Some(stat.st_mode & 0o7777)
}

struct Walker<'g> {
    ground: &'g Ground,
    closed: Closed<'g>,
    found: Vec<(PathBuf, Entry)>,
}

impl Walker<'_> {
    fn enter(&mut self, dir: OwnedFd, path: &Path, depth: usize) -> io::Result<()> {
        let mut names = Vec::new();
        for found in Dir::read_from(&dir)? {
            names.push(found?.file_name().to_bytes().to_owned());
        }
        // The order of paths is that of their parts, so what is sorted here stays so.
        names.sort_unstable();
        for name in names.iter().filter(|name| *name != b"." && *name != b"..") {
            let name = OsStr::from_bytes(name);
            let path = path.join(name);
            let seen = self.ground.seen(&path);
            if self.ground.skips(&seen) {
                continue;
            }
            let stat = match openat::stat_at(&dir, name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                // Names that may be listed, but not looked at: closed to us, now and later.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => continue,
                result => result?,
            };
            let mut entry = openat::entry(&stat, &dir, name)?;
            let inside = match entry.kind {
                Kind::Directory if depth < DEEPEST => self.open(&dir, name, (&seen, &entry))?,
                _ => None,
            };
            if entry.kind == Kind::Directory && inside.is_none() {
                entry.kind = Kind::Closed;
            }
            self.found.push((seen, entry));
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
        (seen, entry): (&Path, &Entry),
    ) -> io::Result<Option<OwnedFd>> {
        if self.was_closed_since(seen, entry) {
            let mode = Mode::from_raw_mode(entry.mode) | Mode::RWXU;
            // Only its owner can; if we are not, what follows tells.
            let _ = rustix::fs::chmodat(dir, name, mode, AtFlags::empty());
        }
        match openat::open_dir_at(dir, name) {
            Ok(inside) => Ok(Some(inside)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether a directory that was open before is closed now. What was closed before stays closed:
    /// its inside was never seen, and would now look as if it had been added.
    fn was_closed_since(&self, seen: &Path, entry: &Entry) -> bool {
        let open = |mode: u32| mode & 0o500 == 0o500;
        match self.closed {
            Closed::Respect => false,
            Closed::Force(_) if open(entry.mode) => false,
            Closed::Force(before) => {
                before.get(seen).is_none_or(|old| old.kind == Kind::Directory && open(old.mode))
            }
        }
    }
}
