//! A layer over the project that takes what a reviewer writes.
//!
//! Landlock alone cannot let somebody replace one file at the top of the project by renaming another
//! over it, as most editors do: the right to make files in a directory reaches everything beneath. So
//! where the system lets us, the reviewer gets a view of the project of its own, in which anything
//! may be written and nothing is: it all goes to a directory elsewhere. Afterwards what the allow list
//! permits is [taken over](Overlay::take_over), and the rest is listed and discarded.
//!
//! The view is made in the process that becomes the reviewer, in a mount namespace of its own; one
//! without privileges takes a user namespace first. Landlock keeps it from being undone.

use std::ffi::{CString, OsString};
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use autoloop_core::config::Layer;
use autoloop_core::permissions::{
    AllowList, Change, Kind, LONGEST_DIFFED, Permission, UNUSUAL, Unreadable, What, unified,
};
use rustix::fs::Mode;
use rustix::io::Errno;

use super::backup_store;
use super::openat;
use super::report::{Allowed, Offence, Restored, Violation};
use super::restore;
use super::settings::{Finding, KeyedFile};
use crate::files::{self, Links};
use crate::world::Overlay;

/// The longest diff of one file.
const LONGEST_FILE_DIFF: usize = 64 * 1024;

/// The attribute of a directory that hides what was in the one beneath it.
const OPAQUE: &str = "user.overlay.opaque";

impl Overlay {
    /// Puts the view in the place of the project, for this process and those that it starts, and moves
    /// into it. Other files and directories are sealed, and all of them stay where they are; those inside
    /// the project are sealed in the view, where they are the real ones. The process must have one thread
    /// only.
    ///
    /// # Errors
    ///
    /// When the system does not let us.
    #[cfg(target_os = "linux")]
    pub(crate) fn enter(&self, sealed: &[PathBuf]) -> io::Result<()> {
        use super::readonly_bind::{above, hold, pin, seal};
        use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
        use std::os::fd::AsRawFd;

        // Before the namespace is ours, which may show some files as somebody else's.
        std::env::set_current_dir(&self.project)?;
        own_namespace()?;
        mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
        let (inside, outside): (Vec<PathBuf>, Vec<PathBuf>) =
            sealed.iter().cloned().partition(|path| path.starts_with(&self.project));
        above(&self.project, &outside).into_iter().try_for_each(pin)?;
        outside.iter().try_for_each(|path| seal(path, path))?;
        // Held before the view covers them.
        let inside: Vec<_> =
            inside.into_iter().map(|path| Ok((hold(&path)?, path))).collect::<io::Result<_>>()?;
        // What was the current directory lies beneath these by now.
        std::env::set_current_dir(&self.project)?;
        mount("overlay", ".", "overlay", MountFlags::empty(), self.options()?.as_c_str())?;
        for (held, path) in &inside {
            seal(&Path::new("/proc/self/fd").join(held.as_raw_fd().to_string()), path)?;
        }
        // What was the current directory lies beneath the view now.
        std::env::set_current_dir(&self.project)
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn enter(&self, _sealed: &[PathBuf]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The same with another place for the kernel to work in, beside its own: where it has worked once
    /// without care for power cuts, it does not work again.
    pub(crate) fn for_a_try(&self) -> io::Result<Overlay> {
        let work = self.work.with_extension("tried");
        fs::create_dir_all(&work)?;
        Ok(Overlay { work, ..self.clone() })
    }

    /// What the kernel is told. The project is `.`, so that its name may hold anything.
    #[cfg(target_os = "linux")]
    fn options(&self) -> io::Result<CString> {
        let mut options = OsString::from("lowerdir=.,upperdir=");
        options.push(&self.upper);
        options.push(",workdir=");
        options.push(&self.work);
        let separators = |path: &Path| {
            path.as_os_str().as_encoded_bytes().iter().any(|byte| b",:\\".contains(byte))
        };
        if separators(&self.upper) || separators(&self.work) {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        // Attributes that need no privileges, so that the harness can read them as well. And no care for
        // power cuts, after which nobody wants the layer: else its end would wait until everything that
        // anybody wrote to this file system is on the disk.
        options.push(",userxattr,volatile");
        Ok(CString::new(options.into_vec())?)
    }

    /// Takes over to the project what the allow list permits, and lists the rest. Protected keys of settings
    /// stay as they are in the project. Every process of the reviewer has to be dead.
    ///
    /// # Errors
    ///
    /// When what was written cannot be read at all. What cannot be taken over is listed.
    pub fn take_over(&self, allow: &AllowList, beneath: &[Layer]) -> io::Result<Restored> {
        let mut carrier = Carrier { overlay: self, allow, beneath, taken: Restored::default() };
        carrier.directory(Path::new(""))?;
        Ok(carrier.taken)
    }
}

/// Gives this process mounts of its own. Whoever may mount needs no user namespace, and keeps his
/// rights on files.
#[cfg(target_os = "linux")]
#[expect(deprecated, reason = "its danger is in sharing descriptors, which is not asked for here")]
fn own_namespace() -> io::Result<()> {
    use rustix::thread::{UnshareFlags, unshare};

    match unshare(UnshareFlags::NEWNS) {
        Err(Errno::PERM) => {}
        result => return Ok(result?),
    }
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1", user = user.as_raw()))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1", group = group.as_raw()))
}

/// Carries changes from the layer to the project.
struct Carrier<'a> {
    overlay: &'a Overlay,
    allow: &'a AllowList,
    /// The layers of settings beneath those of the loop.
    beneath: &'a [Layer],
    /// What was taken over, and what stays in the layer.
    taken: Restored,
}

/// What the layer holds at one path.
enum Written {
    /// A file, with its permission bits.
    File(u32),
    Directory,
    /// The mark of something that was deleted.
    Deletion,
    /// Anything else.
    Other(Kind),
}

impl Carrier<'_> {
    fn directory(&mut self, seen: &Path) -> io::Result<()> {
        let names = self.names_in(seen)?;
        if is_opaque(&self.overlay.upper.join(seen)) {
            self.delete_all_but(seen, &names)?;
        }
        for name in names {
            let inside = seen.join(name);
            // One that fails does not stop the others.
            if let Err(error) = self.entry(&inside) {
                let what = Offence::NotBroughtOver(error.to_string());
                self.taken.violations.push(Violation {
                    path: inside,
                    what,
                    beneath: 0,
                    restored: false,
                });
            }
        }
        Ok(())
    }

    fn names_in(&self, seen: &Path) -> io::Result<Vec<OsString>> {
        let mut names = fs::read_dir(self.overlay.upper.join(seen))?
            .map(|entry| Ok(entry?.file_name()))
            .collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    fn entry(&mut self, seen: &Path) -> io::Result<()> {
        use Permission::{Edit, EditTree, Hold};

        let written = written(&self.overlay.upper.join(seen))?;
        let was = kind_of(&self.overlay.project.join(seen));
        let was_directory = was == Some(Kind::Directory);
        match (written, self.allow.permission(seen)) {
            (Written::File(mode), Edit | EditTree) if !was_directory => self.copy(seen, mode),
            (Written::Deletion, Edit | EditTree) => self.delete(seen),
            (Written::Directory, _) if was_directory => self.directory(seen),
            (Written::Directory, Hold | EditTree) if was.is_none() => {
                openat::make_dirs(&openat::open_root(&self.overlay.project)?, seen)?;
                self.allowed(seen, What::Added(Kind::Directory), (None, None));
                self.directory(seen)
            }
            (Written::File(_), _) if was == Some(Kind::File) => {
                self.keep_out(seen, What::Modified);
                Ok(())
            }
            (written, _) => {
                let to = written.kind();
                let is_directory = to == Some(Kind::Directory);
                match (was, to) {
                    (Some(from), Some(to)) => self.keep_out(seen, What::Became { from, to }),
                    (Some(from), None) => self.keep_out(seen, What::Deleted(from)),
                    (None, Some(to)) => self.keep_out(seen, What::Added(to)),
                    (None, None) => {}
                }
                if is_directory {
                    self.keep_out_all_in(seen);
                }
                Ok(())
            }
        }
    }

    /// Counts what is in a directory that stays in the layer, as far as it can be looked at.
    fn keep_out_all_in(&mut self, seen: &Path) {
        for name in self.names_in(seen).unwrap_or_default() {
            let inside = seen.join(name);
            let kind = kind_of(&self.overlay.upper.join(&inside));
            let is_directory = kind == Some(Kind::Directory);
            self.keep_out(&inside, What::Added(kind.unwrap_or(Kind::File)));
            if is_directory {
                self.keep_out_all_in(&inside);
            }
        }
    }

    /// Tells of something that stays in the layer. What came with a directory is told with it.
    fn keep_out(&mut self, seen: &Path, what: What) {
        let Change { what, .. } = match (Change { path: seen.to_owned(), what }) {
            change if change.is_bookkeeping() => return,
            change => change,
        };
        let is_directory = |what: &Offence| match what {
            Offence::KeptOut(What::Added(to) | What::Became { to, .. }) => *to == Kind::Directory,
            _ => false,
        };
        if let Some(last) = self.taken.violations.last_mut()
            && is_directory(&last.what)
            && seen.starts_with(&last.path)
        {
            last.beneath += 1;
            return;
        }
        let what = Offence::KeptOut(what);
        self.taken.violations.push(Violation {
            path: seen.to_owned(),
            what,
            beneath: 0,
            restored: true,
        });
    }

    /// Takes a file over. Its permission bits stay as they were; those of a new file have to be usual.
    fn copy(&mut self, seen: &Path, mode: u32) -> io::Result<()> {
        let source = files::open_here(&self.overlay.upper.join(seen), Links::Refuse, u64::MAX)?;
        let target = self.overlay.project.join(seen);
        let was = fs::symlink_metadata(&target).ok().filter(fs::Metadata::is_file);
        let bits = mode & 0o7777;
        let bits = match was.as_ref().map(|was| was.mode() & 0o7777) {
            Some(from) => {
                if from != bits {
                    self.keep_out(seen, What::Mode { from, to: bits });
                }
                from
            }
            None if bits & UNUSUAL != 0 => {
                self.keep_out(seen, What::Added(Kind::File));
                return Ok(());
            }
            None => bits,
        };
        let old = was.map(|_| text_at(&target)).transpose()?;
        let mut new = text_at(&self.overlay.upper.join(seen))?;
        let mut repaired = None;
        if let Some(file) = KeyedFile::at(seen, self.allow, self.beneath) {
            match file.examine(old.as_deref().unwrap_or_default(), &new) {
                Finding::Fine => {}
                Finding::PutBack(why) => {
                    self.refuse(seen, Offence::Unreadable(why));
                    return Ok(());
                }
                Finding::Repair(fixed) => {
                    for put_back in fixed.put_back {
                        self.refuse(seen, Offence::Setting(put_back));
                    }
                    new = fixed.text.into_bytes();
                    repaired = Some(new.clone());
                }
            }
        }
        // Bits, or keys that were put back, may have been all that was changed.
        if old.as_ref() == Some(&new) {
            return Ok(());
        }
        let root = openat::open_root(&self.overlay.project)?;
        let (dir, name) = openat::open_parent(&root, seen, &mut Vec::new())?;
        restore::replace(&dir, &name, |fresh| {
            match &repaired {
                Some(text) => fresh.write_all_at(text, 0)?,
                None => backup_store::copy_file(&source, fresh)?,
            }
            Ok(rustix::fs::fchmod(fresh, Mode::from_raw_mode(bits))?)
        })?;
        let what = if old.is_some() { What::Modified } else { What::Added(Kind::File) };
        self.allowed(seen, what, (old, Some(new)));
        Ok(())
    }

    fn delete(&mut self, seen: &Path) -> io::Result<()> {
        let target = self.overlay.project.join(seen);
        let was = kind_of(&target);
        if KeyedFile::at(seen, self.allow, self.beneath).is_some() && was == Some(Kind::File) {
            let why = Unreadable::After("the file is gone".to_owned());
            self.refuse(seen, Offence::Unreadable(why));
            return Ok(());
        }
        let old = (was == Some(Kind::File)).then(|| text_at(&target)).transpose()?;
        let root = openat::open_root(&self.overlay.project)?;
        let (dir, name) = openat::open_parent(&root, seen, &mut Vec::new())?;
        restore::remove(&dir, &name)?;
        if let Some(was) = was {
            self.allowed(seen, What::Deleted(was), (old, None));
        }
        Ok(())
    }

    fn refuse(&mut self, seen: &Path, what: Offence) {
        let violation = Violation { path: seen.to_owned(), what, beneath: 0, restored: true };
        self.taken.violations.push(violation);
    }

    fn allowed(&mut self, seen: &Path, what: What, texts: (Option<Vec<u8>>, Option<Vec<u8>>)) {
        let is_file = texts.0.is_some() || texts.1.is_some();
        let diff = is_file.then(|| {
            let name = seen.to_string_lossy();
            unified(&name, texts.0.as_deref(), texts.1.as_deref(), LONGEST_FILE_DIFF)
        });
        self.taken.allowed.push(Allowed { path: seen.to_owned(), what, diff });
    }

    /// A directory was deleted and made anew: what was in it is gone, but for these.
    fn delete_all_but(&mut self, seen: &Path, names: &[OsString]) -> io::Result<()> {
        let entries = match fs::read_dir(self.overlay.project.join(seen)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let inside = seen.join(entry.file_name());
            if names.contains(&entry.file_name()) {
                continue;
            }
            match self.allow.permission(&inside) {
                Permission::Edit | Permission::EditTree => self.delete(&inside)?,
                _ => {
                    if let Some(kind) = kind_of(&entry.path()) {
                        self.keep_out(&inside, What::Deleted(kind));
                    }
                }
            }
        }
        Ok(())
    }
}

impl Written {
    fn kind(self) -> Option<Kind> {
        match self {
            Written::File(_) => Some(Kind::File),
            Written::Directory => Some(Kind::Directory),
            Written::Other(kind) => Some(kind),
            Written::Deletion => None,
        }
    }
}

/// What a file holds, as far as it takes to see that it is too long for a diff.
fn text_at(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = files::open_here(path, Links::Refuse, u64::MAX)?;
    file.take(2 * LONGEST_DIFFED as u64 + 1024).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn written(path: &Path) -> io::Result<Written> {
    let found = fs::symlink_metadata(path)?;
    if found.file_type().is_char_device() && found.rdev() == 0 {
        return Ok(Written::Deletion);
    }
    Ok(match kind_of(path) {
        Some(Kind::File) => Written::File(found.mode()),
        Some(Kind::Directory) => Written::Directory,
        Some(kind) => Written::Other(kind),
        None => Written::Deletion,
    })
}

/// What is at a path; `None` when there is nothing.
fn kind_of(path: &Path) -> Option<Kind> {
    let found = fs::symlink_metadata(path).ok()?;
    let kind = found.file_type();
    Some(if kind.is_file() {
        Kind::File
    } else if kind.is_dir() {
        Kind::Directory
    } else if kind.is_symlink() {
        Kind::Symlink(fs::read_link(path).unwrap_or_default())
    } else if kind.is_fifo() {
        Kind::Pipe
    } else if kind.is_socket() {
        Kind::Socket
    } else {
        Kind::Device(found.rdev())
    })
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
