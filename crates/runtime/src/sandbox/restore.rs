//! Putting back what a reviewer should not have touched.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use autoloop_core::permissions::{Change, Entry, Kind, Tree, What};
use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid};
use rustix::io::Errno;

use super::backup_store::{Blob, Vault};
use super::openat;
use super::walk::Ground;

/// Where the old bytes of a file come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The vault.
    Kept(Blob),
    /// An object of the repository whose working tree this is.
    Git {
        /// The top of the working tree.
        top: PathBuf,
        /// The name of the object.
        object: String,
    },
}

/// Puts things back, one after another, and in the end the bits of directories.
#[derive(Debug)]
pub(super) struct Restorer<'s> {
    pub(super) ground: &'s Ground,
    pub(super) before: &'s Tree,
    pub(super) sources: &'s BTreeMap<PathBuf, Source>,
    pub(super) vault: &'s Vault,
    /// Roots and the directories in them that had to be opened up, with the bits they had.
    opened_up: Vec<(PathBuf, u32)>,
    /// Where what is taken away goes; `None`, and it is deleted.
    put_aside: Option<PathBuf>,
    /// How many things were put aside.
    aside: usize,
}

impl<'s> Restorer<'s> {
    pub(super) fn new(
        (ground, before): (&'s Ground, &'s Tree),
        sources: &'s BTreeMap<PathBuf, Source>,
        vault: &'s Vault,
    ) -> Self {
        let opened_up = Vec::new();
        Restorer { ground, before, sources, vault, opened_up, put_aside: None, aside: 0 }
    }

    /// Puts what is taken away into a directory, as seen from the project, instead of deleting it: it
    /// may be somebody's work that was only moved.
    pub(super) fn putting_aside(mut self, directory: Option<&Path>) -> Self {
        self.put_aside = directory.map(Path::to_owned);
        self
    }

    /// Puts all of them back as far as it can be done. Whether it was done is seen by looking again.
    pub(super) fn put_back(&mut self, violations: &[Change], after: &Tree) {
        let mut removed: Option<&Path> = None;
        for change in violations {
            let with_its_directory = removed.is_some_and(|above| change.path.starts_with(above));
            if matches!(change.what, What::Added(_) | What::Became { .. }) && !with_its_directory {
                removed = Some(&change.path);
                let aside = self.next_aside(&change.path);
                self.attempt(&change.path, |dir, name| match &aside {
                    Some(aside) if put_aside(dir, name, aside).is_ok() => Ok(()),
                    _ => remove(dir, name),
                });
            }
        }
        // Bits of directories first, so that the way is open; parents come before children.
        for change in violations {
            let old = self.before.get(&change.path);
            if let Some(old) = old.filter(|old| old.kind == Kind::Directory) {
                self.put_back_directory(&change.path, old);
            }
        }
        // What the vault has comes before what git has: the repository itself is among the former.
        for from_git in [false, true] {
            for change in violations {
                let git = matches!(self.sources.get(&change.path), Some(Source::Git { .. }));
                if git == from_git
                    && let Some(old) = self.before.get(&change.path)
                    && old.kind != Kind::Directory
                {
                    self.put_back_leaf(change, old);
                }
            }
        }
        self.close_again(violations, after);
    }

    /// The directory for the next thing that is put aside, and its name there.
    fn next_aside(&mut self, path: &Path) -> Option<(OwnedFd, OsString)> {
        let (root, beneath) = self.ground.locate(self.put_aside.as_ref()?)?;
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

    fn put_back_directory(&mut self, seen: &Path, old: &Entry) {
        let root = self.ground.project.join(seen);
        if let Some(root) = self.ground.roots.iter().find(|known| **known == root) {
            // Whatever stands in the way of a root is no directory, or it would have been entered.
            if openat::open_root(root).is_err() {
                let _ = std::fs::remove_file(root);
                let _ = std::fs::create_dir_all(root);
            }
            let mode = Mode::from_raw_mode(old.mode) | Mode::RWXU;
            let _ = openat::open_root(root).map(|dir| rustix::fs::fchmod(&dir, mode));
            return;
        }
        self.attempt(seen, |dir, name| {
            match rustix::fs::mkdirat(dir, name, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            own(dir, name, old)?;
            let mode = Mode::from_raw_mode(old.mode) | Mode::RWXU;
            Ok(rustix::fs::chmodat(dir, name, mode, AtFlags::empty())?)
        });
    }

    fn put_back_leaf(&mut self, change: &Change, old: &Entry) {
        let (vault, source) = (self.vault, self.sources.get(&change.path));
        let aside = match (&change.what, source) {
            (What::Modified, Some(_)) => self.next_aside(&change.path),
            _ => None,
        };
        self.attempt(&change.path, |dir, name| match (&change.what, &old.kind) {
            (What::Mode { .. } | What::Owner, _) => {
                own(dir, name, old)?;
                Ok(rustix::fs::chmodat(dir, name, Mode::from_raw_mode(old.mode), AtFlags::empty())?)
            }
            // The names that were added are gone by now, unless they are out of our sight.
            (What::Linked, _) if openat::stat_at(dir, name)?.st_nlink <= old.links => Ok(()),
            (_, Kind::File) => {
                // Without the old bytes the new ones are better than none.
                let source = source.ok_or(Errno::NOENT)?;
                if let Some((aside, as_name)) = &aside {
                    let _ = rustix::fs::linkat(dir, name, aside, as_name, AtFlags::empty());
                }
                write_file(vault, source, (dir, name), old)
            }
            (_, Kind::Symlink(target)) => {
                remove(dir, name)?;
                rustix::fs::symlinkat(target, dir, name)?;
                own(dir, name, old)
            }
            (_, Kind::Pipe) => make_node(dir, name, (old, FileType::Fifo, 0)),
            (_, Kind::Device(number)) => {
                make_node(dir, name, (old, FileType::CharacterDevice, *number))
            }
            // A socket without its server is of no use, and a closed directory was never seen.
            (_, Kind::Socket | Kind::Closed | Kind::Directory) => Err(Errno::NOTSUP.into()),
        });
    }

    /// Does something in the directory that holds a path. That it failed is seen by looking again.
    fn attempt(&mut self, seen: &Path, act: impl FnOnce(&OwnedFd, &OsStr) -> io::Result<()>) {
        let Some((root, beneath)) = self.ground.locate(seen) else { return };
        let mut opened = Vec::new();
        let _ = openat::open_root(root)
            .and_then(|dir| openat::open_parent(&dir, &beneath, &mut opened))
            .and_then(|(dir, name)| act(&dir, &name));
        self.opened_up.extend(opened.into_iter().map(|(path, bits)| (root.join(path), bits)));
    }

    /// Gives every directory its bits again, the deepest first.
    fn close_again(&mut self, violations: &[Change], after: &Tree) {
        let mut bits: BTreeMap<PathBuf, u32> = BTreeMap::new();
        for (path, found) in self.opened_up.drain(..) {
            bits.entry(self.ground.seen(&path)).or_insert(found);
        }
        // The second walk may have opened some, too; the first entry tells what they were.
        for (seen, entry) in after.iter().filter(|(_, entry)| entry.kind == Kind::Directory) {
            if entry.mode & 0o700 != 0o700 {
                bits.insert(seen.clone(), entry.mode);
            }
        }
        for change in violations {
            if let Some(old) = self.before.get(&change.path)
                && old.kind == Kind::Directory
            {
                bits.insert(change.path.clone(), old.mode);
            }
        }
        for (seen, found) in bits.into_iter().rev() {
            let old = self.before.get(&seen).filter(|old| old.kind == Kind::Directory);
            let mode = Mode::from_raw_mode(old.map_or(found, |old| old.mode));
            let _ = openat::open_root(&self.ground.project.join(&seen))
                .and_then(|dir| Ok(rustix::fs::fchmod(&dir, mode)?));
        }
    }
}

/// Moves a file or a directory away; anything else is worth nothing to anybody.
fn put_aside(
    dir: &OwnedFd,
    name: &OsStr,
    (aside, as_name): &(OwnedFd, OsString),
) -> io::Result<()> {
    let kind = FileType::from_raw_mode(openat::stat_at(dir, name)?.st_mode);
    if !matches!(kind, FileType::RegularFile | FileType::Directory) {
        return Err(Errno::NOTSUP.into());
    }
    Ok(rustix::fs::renameat(dir, name, aside, as_name)?)
}

fn write_file(
    vault: &Vault,
    source: &Source,
    (dir, name): (&OwnedFd, &OsStr),
    old: &Entry,
) -> io::Result<()> {
    replace(dir, name, |fresh| {
        match source {
            Source::Kept(blob) => vault.write_to(blob, fresh)?,
            Source::Git { top, object } => super::git::write_object(top, object, fresh)?,
        }
        let owner = (Some(Uid::from_raw(old.owner.0)), Some(Gid::from_raw(old.owner.1)));
        // Only root can give files away; for anybody else the owner is the same already.
        let _ = rustix::fs::fchown(fresh, owner.0, owner.1);
        rustix::fs::fchmod(fresh, Mode::from_raw_mode(old.mode))?;
        Ok(rustix::fs::futimens(fresh, &times(old))?)
    })
}

/// Puts a new file in place of whatever has the name.
pub(super) fn replace(
    dir: &OwnedFd,
    name: &OsStr,
    fill: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let temporary = temporary(name);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let _ = rustix::fs::unlinkat(dir, &temporary, AtFlags::empty());
    let fresh = rustix::fs::openat(dir, &temporary, flags, Mode::RUSR | Mode::WUSR)?;
    let done = fill(&File::from(fresh))
        .and_then(|()| clear_the_way(dir, name))
        .and_then(|()| Ok(rustix::fs::renameat(dir, &temporary, dir, name)?));
    if done.is_err() {
        let _ = rustix::fs::unlinkat(dir, &temporary, AtFlags::empty());
    }
    done
}

/// A name in the same directory; only one process puts things back at a time.
pub(super) fn temporary(name: &OsStr) -> OsString {
    // Short, so that the longest names have room for it, whatever they are.
    let mut bytes = crc32fast::hash(std::os::unix::ffi::OsStrExt::as_bytes(name)).to_string();
    bytes.insert_str(0, ".putting-back-");
    bytes.into()
}

/// A file cannot be renamed over a directory.
pub(super) fn clear_the_way(dir: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match openat::stat_at(dir, name) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
            remove(dir, name)
        }
        _ => Ok(()),
    }
}

fn make_node(
    dir: &OwnedFd,
    name: &OsStr,
    (old, kind, number): (&Entry, FileType, u64),
) -> io::Result<()> {
    remove(dir, name)?;
    rustix::fs::mknodat(dir, name, kind, Mode::from_raw_mode(old.mode), number)?;
    Ok(rustix::fs::chmodat(dir, name, Mode::from_raw_mode(old.mode), AtFlags::empty())?)
}

fn own(dir: &OwnedFd, name: &OsStr, old: &Entry) -> io::Result<()> {
    let stat = openat::stat_at(dir, name)?;
    if (stat.st_uid, stat.st_gid) != old.owner {
        let owner = (Some(Uid::from_raw(old.owner.0)), Some(Gid::from_raw(old.owner.1)));
        rustix::fs::chownat(dir, name, owner.0, owner.1, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

fn times(old: &Entry) -> Timestamps {
    let split = |nanos: i128| Timespec {
        tv_sec: i64::try_from(nanos.div_euclid(1_000_000_000)).unwrap_or_default(),
        tv_nsec: i64::try_from(nanos.rem_euclid(1_000_000_000)).unwrap_or_default(),
    };
    let written = split(old.stamp.written);
    Timestamps { last_access: written, last_modification: written }
}

/// How deep a tree is taken apart with one open file a level.
const DEEPEST: usize = 64;

/// Removes whatever has a name, with everything in it. That there is nothing is fine.
pub(super) fn remove(dir: &OwnedFd, name: &OsStr) -> io::Result<()> {
    // Deeper directories were moved up beside the first one, so in the end all are shallow.
    let mut next = 0;
    let mut made = 0;
    remove_at(dir, name, &mut Lift { top: dir, made: &mut made }, 0)?;
    while next < made {
        remove_at(dir, &lifted(next), &mut Lift { top: dir, made: &mut made }, 0)?;
        next += 1;
    }
    Ok(())
}

struct Lift<'d> {
    top: &'d OwnedFd,
    made: &'d mut usize,
}

fn lifted(number: usize) -> OsString {
    format!(".removing-{}-{number}", std::process::id()).into()
}

fn remove_at(dir: &OwnedFd, name: &OsStr, lift: &mut Lift<'_>, depth: usize) -> io::Result<()> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    let stat = openat::stat_at(dir, name)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err(Errno::PERM.into());
    }
    if depth >= DEEPEST {
        let number = *lift.made;
        *lift.made += 1;
        return Ok(rustix::fs::renameat(dir, name, lift.top, lifted(number))?);
    }
    if stat.st_mode & 0o700 != 0o700 {
        rustix::fs::chmodat(dir, name, Mode::RWXU, AtFlags::empty())?;
    }
    let inside = openat::open_dir_at(dir, name)?;
    let mut names = Vec::new();
    for found in Dir::read_from(&inside)? {
        let found: OsString =
            std::os::unix::ffi::OsStringExt::from_vec(found?.file_name().to_bytes().to_vec());
        if found != "." && found != ".." {
            names.push(found);
        }
    }
    for found in names {
        remove_at(&inside, &found, lift, depth + 1)?;
    }
    Ok(rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)?)
}

/// Reads a file from an offset on, without moving anybody's position.
pub(super) struct From<'f>(pub(super) &'f File, pub(super) u64);

impl io::Read for From<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read_at(buffer, self.1)?;
        self.1 += read as u64;
        Ok(read)
    }
}
