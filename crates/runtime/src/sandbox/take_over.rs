//! Takes allowed changes over from an overlay to the project.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use autoloop_core::config::Layer;
use autoloop_core::permissions::{AllowList, Change, Kind, Permission, UNUSUAL, What};
use rustix::fs::Mode;

use super::backup_store;
use super::openat;
use super::report::{
    Allowed, ReviewChanges, SettingsFile, Violation, ViolationKind, read_for_diff,
};
use crate::files::{self, Links};
use crate::world::Overlay;

/// The attribute of a directory that hides the one beneath it.
#[cfg(target_os = "linux")]
const OPAQUE: &str = "user.overlay.opaque";

impl Overlay {
    /// Takes over to the project what the allow list permits, and lists the rest. Protected settings keep
    /// their values. Every process of the reviewer has to have ended. What cannot be taken over is listed;
    /// it is an error if the layer cannot be read at all.
    pub fn take_over(&self, allow: &AllowList, beneath: &[Layer]) -> io::Result<ReviewChanges> {
        let mut taken =
            TakeOver { overlay: self, allow, beneath, changes: ReviewChanges::default() };
        taken.directory(Path::new(""))?;
        Ok(taken.changes)
    }
}

struct TakeOver<'a> {
    overlay: &'a Overlay,
    allow: &'a AllowList,
    /// The layers of settings below those of the loop.
    beneath: &'a [Layer],
    changes: ReviewChanges,
}

impl TakeOver<'_> {
    fn upper(&self, path: &Path) -> PathBuf {
        self.overlay.upper.join(path)
    }

    fn target(&self, path: &Path) -> PathBuf {
        self.overlay.project.join(path)
    }

    fn directory(&mut self, path: &Path) -> io::Result<()> {
        let names = names_in(&self.upper(path))?;
        if is_opaque(&self.upper(path)) {
            self.delete_all_but(path, &names)?;
        }
        for name in names {
            let inside = path.join(name);
            if let Err(error) = self.entry(&inside) {
                let kind = ViolationKind::NotTakenOver(error.to_string());
                self.changes.violations.push(Violation::new(inside, kind, false));
            }
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path) -> io::Result<()> {
        use Permission::{Edit, EditTree, Hold};

        let Some((_, written)) = openat::look(&self.upper(path))? else { return Ok(()) };
        // A device with number 0 marks a deletion.
        let to = Some(written.kind).filter(|kind| *kind != Kind::Device(0));
        let from = kind_of(&self.target(path))?;
        let was_directory = from == Some(Kind::Directory);
        match (&to, self.allow.permission(path)) {
            (Some(Kind::File), Edit | EditTree) if !was_directory => {
                return self.copy(path, written.mode);
            }
            (None, Edit | EditTree) => return self.delete(path),
            (Some(Kind::Directory), _) if was_directory => return self.directory(path),
            (Some(Kind::Directory), Hold | EditTree) if from.is_none() => {
                openat::make_dirs(&openat::open_root(&self.overlay.project)?, path)?;
                let what = What::Added(Kind::Directory);
                self.changes.allowed.push(Allowed { path: path.to_owned(), what, diff: None });
                return self.directory(path);
            }
            _ => {}
        }
        let is_directory = to == Some(Kind::Directory);
        match (from, to) {
            (Some(Kind::File), Some(Kind::File)) => self.keep_out(path, What::Modified),
            (Some(from), Some(to)) => self.keep_out(path, What::Became { from, to }),
            (Some(from), None) => self.keep_out(path, What::Deleted(from)),
            (None, Some(to)) => self.keep_out(path, What::Added(to)),
            (None, None) => {}
        }
        if is_directory {
            self.keep_out_all_in(path);
        }
        Ok(())
    }

    /// Counts what is in a directory that is not taken over, as far as it can be read.
    fn keep_out_all_in(&mut self, path: &Path) {
        for name in names_in(&self.upper(path)).unwrap_or_default() {
            let inside = path.join(name);
            let kind = kind_of(&self.upper(&inside)).ok().flatten().unwrap_or(Kind::File);
            let is_directory = kind == Kind::Directory;
            self.keep_out(&inside, What::Added(kind));
            if is_directory {
                self.keep_out_all_in(&inside);
            }
        }
    }

    /// Lists a change that is not taken over. What is inside a new directory is counted there.
    fn keep_out(&mut self, path: &Path, what: What) {
        let change = Change { path: path.to_owned(), what };
        if change.is_bookkeeping() {
            return;
        }
        if let Some(last) = self.changes.violations.last_mut()
            && let ViolationKind::KeptOut(What::Added(to) | What::Became { to, .. }) = &last.kind
            && *to == Kind::Directory
            && path.starts_with(&last.path)
        {
            last.beneath += 1;
            return;
        }
        self.refuse(path, ViolationKind::KeptOut(change.what));
    }

    fn refuse(&mut self, path: &Path, kind: ViolationKind) {
        self.changes.violations.push(Violation::new(path.to_owned(), kind, true));
    }

    /// Takes a file over, but not a change of its mode; the mode of a new file has to be usual.
    fn copy(&mut self, path: &Path, mode: u32) -> io::Result<()> {
        let (upper, target) = (self.upper(path), self.target(path));
        let source = files::open_here(&upper, Links::Refuse, u64::MAX)?;
        let was = openat::look(&target)?.filter(|(_, was)| was.kind == Kind::File);
        let old_mode = was.as_ref().map(|(_, was)| was.mode);
        match old_mode {
            Some(from) if from != mode => self.keep_out(path, What::Mode { from, to: mode }),
            None if mode & UNUSUAL != 0 => {
                self.keep_out(path, What::Added(Kind::File));
                return Ok(());
            }
            _ => {}
        }
        let old = was.map(|_| read(&target)).transpose()?;
        let mut new = read(&upper)?;
        let mut is_repaired = false;
        if let Some(file) = SettingsFile::at(path, self.allow, self.beneath) {
            match file.check(old.as_deref().unwrap_or_default(), Some(&new)) {
                Err(why) => {
                    self.refuse(path, ViolationKind::Unreadable(why));
                    return Ok(());
                }
                Ok(repaired) if !repaired.put_back.is_empty() => {
                    for key in repaired.put_back {
                        self.refuse(path, ViolationKind::Setting(key));
                    }
                    new = repaired.text.into_bytes();
                    is_repaired = true;
                }
                Ok(_) => {}
            }
        }
        // The mode, or protected keys, may have been all that was changed.
        if old.as_ref() == Some(&new) {
            return Ok(());
        }
        let root = openat::open_root(&self.overlay.project)?;
        let (dir, name) = openat::open_parent(&root, path, &mut Vec::new())?;
        openat::replace(&dir, &name, |fresh| {
            match is_repaired {
                true => fresh.write_all_at(&new, 0)?,
                false => backup_store::copy_file(&source, fresh)?,
            }
            Ok(rustix::fs::fchmod(fresh, Mode::from_raw_mode(old_mode.unwrap_or(mode)))?)
        })?;
        let what = if old.is_some() { What::Modified } else { What::Added(Kind::File) };
        self.changes.allowed.push(Allowed::file(path, what, old.as_deref(), Some(&new)));
        Ok(())
    }

    fn delete(&mut self, path: &Path) -> io::Result<()> {
        let target = self.target(path);
        let was = kind_of(&target)?;
        let old = (was == Some(Kind::File)).then(|| read(&target)).transpose()?;
        if let Some(file) = SettingsFile::at(path, self.allow, self.beneath)
            && let Some(old) = &old
            && let Err(why) = file.check(old, None)
        {
            self.refuse(path, ViolationKind::Unreadable(why));
            return Ok(());
        }
        let root = openat::open_root(&self.overlay.project)?;
        let (dir, name) = openat::open_parent(&root, path, &mut Vec::new())?;
        files::remove_at(&dir, &name)?;
        let allowed = match (was, old) {
            (Some(was), Some(old)) => Allowed::file(path, What::Deleted(was), Some(&old), None),
            (Some(was), None) => {
                Allowed { path: path.to_owned(), what: What::Deleted(was), diff: None }
            }
            (None, _) => return Ok(()),
        };
        self.changes.allowed.push(allowed);
        Ok(())
    }

    /// A directory was deleted and created again: what was in it is deleted, but for these names.
    fn delete_all_but(&mut self, path: &Path, names: &[OsString]) -> io::Result<()> {
        let old = match names_in(&self.target(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            old => old?,
        };
        for name in old.iter().filter(|name| !names.contains(name)) {
            let inside = path.join(name);
            match self.allow.permission(&inside) {
                Permission::Edit | Permission::EditTree => self.delete(&inside)?,
                _ => {
                    if let Some(kind) = kind_of(&self.target(&inside))? {
                        self.keep_out(&inside, What::Deleted(kind));
                    }
                }
            }
        }
        Ok(())
    }
}

fn names_in(dir: &Path) -> io::Result<Vec<OsString>> {
    let mut names = files::names_in(openat::open_root(dir)?)?;
    names.sort();
    Ok(names)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_for_diff(files::open_here(path, Links::Refuse, u64::MAX)?)
}

fn kind_of(path: &Path) -> io::Result<Option<Kind>> {
    Ok(openat::look(path)?.map(|(_, entry)| entry.kind))
}

#[cfg(target_os = "linux")]
fn is_opaque(dir: &Path) -> bool {
    let mut value = [0; 1];
    rustix::fs::lgetxattr(dir, OPAQUE, &mut value).is_ok_and(|length| length == 1) && value == *b"y"
}

#[cfg(not(target_os = "linux"))]
fn is_opaque(_dir: &Path) -> bool {
    false
}
