//! Reverts the allowed changes of a review.
//!
//! The diff comes from a journal, which any process can write to. So only files are touched that a
//! metareview may touch, links are never followed, and protected settings stay as they are. Everything
//! is decided before the first file is written.

use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use autoloop_core::config::Layer;
use autoloop_core::permissions::{
    AllowList, Conflict, Earlier, FilePatch, Permission, PutBack, Revert, Unreadable,
};
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;

use super::listing::Trees;
use super::openat::{self, DirCache};
use super::report::SettingsFile;

/// A longer file is left alone.
const LONGEST: u64 = 16 * 1024 * 1024;

/// The files of a loop in which reviews are reverted.
#[derive(Clone, Debug)]
pub struct Reverter {
    trees: Trees,
    allow: AllowList,
    beneath: Vec<Layer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reverted {
    /// Nothing: the changes were undone before.
    Already,
    Rewritten,
    Restored,
    Removed,
}

/// Why a review is not reverted. Nothing was changed then.
#[derive(Debug, thiserror::Error)]
pub enum RevertError {
    #[error("forged record: it says that the review changed {}, which no review may", .0.display())]
    NotAllowed(PathBuf),
    #[error("{} is not an ordinary file, or is reached by a link", .0.display())]
    NotAFile(PathBuf),
    #[error("{} has become too long to compare", .0.display())]
    TooLong(PathBuf),
    #[error("{}: {conflict}", .path.display())]
    Conflict { path: PathBuf, conflict: Conflict },
    /// A setting would change that no review can have changed.
    #[error("{}: protected setting {put_back}: no review can have changed it", .path.display())]
    Setting { path: PathBuf, put_back: PutBack },
    #[error("{} {}", .path.display(), unreadable(.why))]
    Unreadable { path: PathBuf, why: Unreadable },
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

fn unreadable(why: &Unreadable) -> String {
    match why {
        Unreadable::Before(why) => format!("does not parse as it is now: {why}"),
        why => format!("would be invalid afterwards: it {why}"),
    }
}

/// One file to be written, or removed if there is no `after`.
struct Plan<'p> {
    path: &'p Path,
    before: Option<Vec<u8>>,
    after: Option<String>,
    mode: Option<u32>,
}

impl Reverter {
    /// Locates the files of a loop; `beneath` are the layers of settings below `autoloops.toml`. Append-only
    /// files are left alone, even where a review may edit.
    pub fn new(
        project: &Path,
        loop_dir: &Path,
        state_dir: &Path,
        append_only: &[&Path],
        beneath: Vec<Layer>,
    ) -> io::Result<Reverter> {
        let project = project.canonicalize()?;
        let others = [loop_dir.canonicalize()?, state_dir.canonicalize()?];
        let outside = others.iter().filter(|dir| !dir.starts_with(&project)).cloned();
        let roots = std::iter::once(project.clone()).chain(outside).collect();
        let trees = Trees { project, roots, skipped: Vec::new() };
        let [loop_dir, state_dir] = others.each_ref().map(|dir| trees.relative(dir));
        let mut allow = AllowList::metareview(&loop_dir, &state_dir);
        for file in append_only {
            let parent = file.parent().and_then(|dir| dir.canonicalize().ok());
            if let (Some(dir), Some(name)) = (parent, file.file_name()) {
                allow = allow.growing(&trees.relative(&dir.join(name)));
            }
        }
        Ok(Reverter { trees, allow, beneath })
    }

    /// Reverts the changes of a review in all of its files or in none.
    pub fn revert<'p>(
        &self,
        files: &'p [FilePatch<'_>],
        earlier: Earlier,
    ) -> Result<Vec<(&'p str, Reverted)>, RevertError> {
        let mut outcomes = Vec::new();
        let mut plans: Vec<Plan<'p>> = Vec::new();
        for file in files {
            let plan = self.plan(file, earlier)?;
            outcomes
                .push((file.path.as_str(), plan.as_ref().map_or(Reverted::Already, Plan::outcome)));
            plans.extend(plan);
        }
        for (index, plan) in plans.iter().enumerate() {
            if let Err(source) = self.write(plan, plan.after.as_deref().map(str::as_bytes)) {
                for done in &plans[..index] {
                    // A second failure adds nothing to the error that is returned.
                    let _ = self.write(done, done.before.as_deref());
                }
                return Err(RevertError::Io { path: plan.path.to_owned(), source });
            }
        }
        Ok(outcomes)
    }

    /// `None` when the file needs no change.
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
        if let Some(settings) = SettingsFile::at(path, &self.allow, &self.beneath) {
            let now = before.as_deref().unwrap_or_default();
            // Some keys may be changed in one direction only: that of the review, which is ours reversed.
            let check = settings.check(after.as_deref().unwrap_or_default().as_bytes(), Some(now));
            let path = path.to_owned();
            let repaired = check.map_err(|why| {
                let why = match why {
                    Unreadable::After(why) => Unreadable::Before(why),
                    Unreadable::Before(why) => Unreadable::After(why),
                    why @ (Unreadable::TooLong(_) | Unreadable::Unusable(_)) => why,
                };
                RevertError::Unreadable { path: path.clone(), why }
            })?;
            if let Some(PutBack { key, was, became }) = repaired.put_back.into_iter().next() {
                let put_back = PutBack { key, was: became, became: was };
                return Err(RevertError::Setting { path, put_back });
            }
        }
        Ok(Some(Plan { path, before, after, mode }))
    }

    fn read(&self, path: &Path) -> Result<Option<(Vec<u8>, u32)>, RevertError> {
        let failed = |source: io::Error| match Errno::from_io_error(&source) {
            Some(Errno::LOOP | Errno::NOTDIR) => RevertError::NotAFile(path.to_owned()),
            _ => RevertError::Io { path: path.to_owned(), source },
        };
        let file = match DirCache::new(&self.trees).open(path) {
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
        Ok(Some((bytes, openat::mode_bits(&stat))))
    }

    /// Gives a file this content, or removes it.
    fn write(&self, plan: &Plan<'_>, content: Option<&[u8]>) -> io::Result<()> {
        let (root, beneath) = self.trees.locate(plan.path).ok_or(Errno::NOENT)?;
        let (parent, name) = beneath.parent().zip(beneath.file_name()).ok_or(Errno::INVAL)?;
        let dir = openat::make_dirs(&openat::open_root(root)?, parent)?;
        match content {
            None => rustix::fs::unlinkat(&dir, name, AtFlags::empty())?,
            Some(content) => {
                // The diff has no mode for a file that was deleted: it gets that of its directory.
                let like_directory = rustix::fs::fstat(&dir)?.st_mode & 0o666;
                let mode = Mode::from_raw_mode(plan.mode.unwrap_or(like_directory));
                openat::replace(&dir, name, |file| {
                    file.write_all_at(content, 0)?;
                    rustix::fs::fchmod(file, mode)?;
                    file.sync_all()
                })?;
            }
        }
        Ok(rustix::fs::fsync(&dir)?)
    }
}

impl Plan<'_> {
    fn outcome(&self) -> Reverted {
        match (&self.before, &self.after) {
            (_, None) => Reverted::Removed,
            (None, Some(_)) => Reverted::Restored,
            (Some(_), Some(_)) => Reverted::Rewritten,
        }
    }
}
