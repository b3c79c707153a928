//! Reverts the allowed changes of a review.
//!
//! The diff comes from a journal, which any process can write to. So only files are touched that a
//! metareview may touch, links are never followed, and protected settings stay as they are. Everything
//! is decided before the first file is written.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use autoloop_core::config::Layer;
use autoloop_core::permissions::{
    AllowList, Conflict, Earlier, FilePatch, Permission, PutBack, Revert, Unreadable,
};
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;

use super::dir_cache::{Bits, Opener};
use super::openat;
use super::restore;
use super::settings::{Finding, KeyedFile};
use super::walk::Ground;

/// A file that has become longer than this is left alone.
const LONGEST: u64 = 16 * 1024 * 1024;

/// The files of a loop in which reviews are reverted. All paths are without links.
#[derive(Clone, Debug)]
pub struct Reverter {
    ground: Ground,
    allow: AllowList,
    beneath: Vec<Layer>,
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was as before already.
    Already,
    /// The changes in it are undone.
    Rewritten,
    /// It had been deleted, and is there again.
    ThereAgain,
    /// It had been added, and is gone again.
    Gone,
}

/// Why a review is not reverted. Nothing has changed then, unless it says so.
#[derive(Debug, thiserror::Error)]
pub enum RevertError {
    /// No review of ours changed this.
    #[error("the record says that the review changed {}, which no review may; somebody else wrote that record", .0.display())]
    NotAllowed(PathBuf),
    /// A link or something else where a file should be.
    #[error("{} is not an ordinary file, or is reached by a link", .0.display())]
    NotAFile(PathBuf),
    /// The file is much longer than it was.
    #[error("{} has become too long to be looked at", .0.display())]
    TooLong(PathBuf),
    /// Somebody changed it since.
    #[error("{}: {conflict}", .path.display())]
    Conflict {
        /// The file.
        path: PathBuf,
        /// What is in the way.
        conflict: Conflict,
    },
    /// A setting would change that no review can have changed.
    #[error("{}: protected setting {put_back}; no review did that, so none is undone", .path.display())]
    Setting {
        /// The file.
        path: PathBuf,
        /// The first such setting.
        put_back: PutBack,
    },
    /// Settings that cannot be held against each other.
    #[error("{} {}", .path.display(), unreadable(.why))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: Unreadable,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

fn unreadable(why: &Unreadable) -> String {
    match why {
        Unreadable::Before(why) => format!("does not parse as it is now: {why}"),
        why => format!("would not be of use any more: it {why}"),
    }
}

/// What is to become of one file.
struct Plan<'p> {
    path: &'p Path,
    before: Option<Vec<u8>>,
    after: Option<String>,
    mode: Option<u32>,
}

impl Reverter {
    /// Locates the files of a loop. Append-only files are left alone, also where a review may edit.
    ///
    /// # Errors
    ///
    /// When one of the directories is not there.
    pub fn new(
        project: &Path,
        (loop_dir, state_dir): (&Path, &Path),
        growing: &[&Path],
    ) -> io::Result<Reverter> {
        let project = project.canonicalize()?;
        let others = [loop_dir.canonicalize()?, state_dir.canonicalize()?];
        let ground = Ground { project: project.clone(), ..Ground::default() };
        let [loop_seen, state_seen] = others.each_ref().map(|dir| ground.seen(dir));
        let mut allow = AllowList::metareview(&loop_seen, &state_seen);
        for file in growing {
            let parent = file.parent().and_then(|dir| dir.canonicalize().ok());
            if let (Some(dir), Some(name)) = (parent, file.file_name()) {
                allow = allow.growing(&ground.seen(&dir.join(name)));
            }
        }
        let outside = others.into_iter().filter(|dir| !dir.starts_with(&project));
        let roots = std::iter::once(project.clone()).chain(outside).collect();
        Ok(Reverter { ground: Ground { roots, ..ground }, allow, beneath: Vec::new() })
    }

    /// The same, with the layers of settings beneath `autoloops.toml`.
    #[must_use]
    pub fn above(self, beneath: Vec<Layer>) -> Reverter {
        Reverter { beneath, ..self }
    }

    /// Reverts the changes of a review in all of its files or in none.
    ///
    /// # Errors
    ///
    /// When one of them cannot be reverted; the others are as they were.
    pub fn revert<'p>(
        &self,
        files: &'p [FilePatch<'_>],
        earlier: Earlier,
    ) -> Result<Vec<(&'p str, Fate)>, RevertError> {
        let mut fates = Vec::new();
        let mut plans: Vec<Plan<'p>> = Vec::new();
        for file in files {
            let plan = self.plan(file, earlier)?;
            fates.push((file.path.as_str(), plan.as_ref().map_or(Fate::Already, Plan::fate)));
            plans.extend(plan);
        }
        for (index, plan) in plans.iter().enumerate() {
            if let Err(source) =
                self.write(plan.path, plan.after.as_deref().map(str::as_bytes), plan)
            {
                for done in &plans[..index] {
                    // A second failure adds nothing to the error that is returned.
                    let _ = self.write(done.path, done.before.as_deref(), done);
                }
                return Err(RevertError::Io { path: plan.path.to_owned(), source });
            }
        }
        Ok(fates)
    }

    /// What is to become of a file; `None` when it is as before already.
    fn plan<'p>(
        &self,
        file: &'p FilePatch<'_>,
        earlier: Earlier,
    ) -> Result<Option<Plan<'p>>, RevertError> {
        let path = Path::new(&file.path);
        if !matches!(self.allow.permission(path), Permission::Edit | Permission::EditTree) {
            return Err(RevertError::NotAllowed(path.to_owned()));
        }
        let (before, mode) = self.read(path)?.unzip();
        let revert = file
            .revert(before.as_deref(), earlier)
            .map_err(|conflict| RevertError::Conflict { path: path.to_owned(), conflict })?;
        let after = match revert {
            Revert::Already => return Ok(None),
            Revert::Write(text) => Some(text),
            Revert::Remove => None,
        };
        if let Some(file) = KeyedFile::at(path, &self.allow, &self.beneath) {
            let texts =
                (before.as_deref().unwrap_or_default(), after.as_deref().unwrap_or_default());
            // The review went the other way, and some keys it may change in one direction only.
            match file.examine(texts.1.as_bytes(), texts.0) {
                Finding::Fine => {}
                Finding::Repair(repaired) => {
                    if let Some(PutBack { key, was, became }) = repaired.put_back.into_iter().next()
                    {
                        let put_back = PutBack { key, was: became, became: was };
                        return Err(RevertError::Setting { path: path.to_owned(), put_back });
                    }
                }
                Finding::PutBack(why) => {
                    let why = match why {
                        Unreadable::After(why) => Unreadable::Before(why),
                        Unreadable::Before(why) => Unreadable::After(why),
                        why @ (Unreadable::TooLong(_) | Unreadable::Unusable(_)) => why,
                    };
                    return Err(RevertError::Unreadable { path: path.to_owned(), why });
                }
            }
        }
        Ok(Some(Plan { path, before, after, mode }))
    }

    /// What a file holds and its bits; `None` when there is none.
    fn read(&self, path: &Path) -> Result<Option<(Vec<u8>, u32)>, RevertError> {
        let failed = |source: io::Error| match Errno::from_io_error(&source) {
            Some(Errno::LOOP | Errno::NOTDIR) => RevertError::NotAFile(path.to_owned()),
            _ => RevertError::Io { path: path.to_owned(), source },
        };
        let file = match Opener::new(&self.ground).open(path, Bits::Respect) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        let stat = rustix::fs::fstat(&file).map_err(|error| failed(error.into()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(RevertError::NotAFile(path.to_owned()));
        }
        let mut bytes = Vec::new();
        file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > LONGEST {
            return Err(RevertError::TooLong(path.to_owned()));
        }
        Ok(Some((bytes, stat.st_mode & 0o7777)))
    }

    /// Gives a file this content, or takes it away.
    fn write(&self, path: &Path, content: Option<&[u8]>, plan: &Plan<'_>) -> io::Result<()> {
        let (root, beneath) = self.ground.locate(path).ok_or(Errno::NOENT)?;
        let (parent, name) = match (beneath.parent(), beneath.file_name()) {
            (Some(parent), Some(name)) => (parent, name),
            _ => return Err(Errno::INVAL.into()),
        };
        let dir = openat::make_dirs(&openat::open_root(root)?, parent)?;
        match content {
            Some(content) => replace(&dir, name, (content, plan.mode))?,
            None => rustix::fs::unlinkat(&dir, name, AtFlags::empty())?,
        }
        Ok(rustix::fs::fsync(&dir)?)
    }
}

impl Plan<'_> {
    fn fate(&self) -> Fate {
        match (&self.before, &self.after) {
            (_, None) => Fate::Gone,
            (None, Some(_)) => Fate::ThereAgain,
            (Some(_), Some(_)) => Fate::Rewritten,
        }
    }
}

fn replace(dir: &OwnedFd, name: &OsStr, (content, mode): (&[u8], Option<u32>)) -> io::Result<()> {
    // The diff does not tell the bits of a file that was deleted: it is as open as its directory.
    let like_directory = rustix::fs::fstat(dir)?.st_mode & 0o666;
    let mode = Mode::from_raw_mode(mode.unwrap_or(like_directory));
    restore::replace(dir, name, |file| {
        let mut file: &File = file;
        file.write_all(content)?;
        rustix::fs::fchmod(file, mode)?;
        file.sync_all()
    })
}
