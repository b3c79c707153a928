//! Remembering everything before a review, and putting back what it should not have changed.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use autoloop_core::permissions::{
    self, Change, Entry, Kind, LONGEST_DIFFED, Permission, Tree, What,
};

use super::append_only::Growing;
use super::backup_store::Vault;
use super::dir_cache::{Bits, Opener};
use super::git::{self, Repository};
use super::openat;
use super::placeholders;
use super::report::{Allowed, Offence, Restored, Violation};
use super::restore::{self, Restorer, Source};
use super::scope::{Reach, Watched, ground, growing_paths};
use super::selection::Choice;
use super::settings::{Finding, KeyedFile};
use super::walk::{Closed, Ground, walk};
use crate::world::Overlay;

/// Stamps younger than this when they were taken prove nothing: the clock of files ticks slowly.
const TICK: i128 = 20_000_000;

/// Everything as it was before a review.
#[derive(Debug)]
pub struct Snapshot {
    vault: Vault,
    watched: Watched,
    ground: Ground,
    before: Tree,
    /// Files that may have been written after their stamp was taken, without its showing.
    racy: BTreeSet<PathBuf>,
    sources: BTreeMap<PathBuf, Source>,
    growing: Vec<Growing>,
    /// Empty things made for the reviewer to fill.
    placeholders: Vec<PathBuf>,
    /// Where those are noted.
    placeholder_note: Option<PathBuf>,
}

/// Removes the empty files and directories that a killed harness made for its reviewer.
pub fn sweep_placeholders(note: &Path, project: &Path, allow: &permissions::AllowList) {
    placeholders::sweep(note, project, allow);
}

impl Snapshot {
    /// Remembers everything, before the reviewer is started.
    ///
    /// # Errors
    ///
    /// When a tree cannot be walked, or the vault not be written.
    pub fn take(mut vault: Vault, watched: Watched) -> io::Result<Snapshot> {
        vault.tidy()?;
        let project = watched.project_dir.canonicalize()?;
        let repository = Repository::find(&project);
        let ground = ground(&watched, project, repository.as_ref());
        let growing = growing_paths(&watched)
            .map(|seen| Growing::take(&mut vault, seen.clone(), ground.project.join(&seen)))
            .collect::<io::Result<Vec<_>>>()?;
        let before = walk(&ground, Closed::Respect)?;
        let mut snapshot = Snapshot {
            vault,
            watched,
            ground,
            before,
            racy: BTreeSet::new(),
            sources: BTreeMap::new(),
            growing,
            placeholders: Vec::new(),
            placeholder_note: None,
        };
        snapshot.keep(repository.as_ref())?;
        let settled = snapshot.vault.now()? - TICK;
        snapshot.racy = snapshot
            .before
            .iter()
            .filter(|(_, entry)| entry.kind == Kind::File && entry.stamp.changed >= settled)
            .map(|(path, _)| path.clone())
            .collect();
        Ok(snapshot)
    }

    /// Makes the files and directories that the reviewer may make, empty, because a sandbox lets only
    /// those be written that are there; in a view of its own anything can be made. Those that stay
    /// empty are removed in the end, or by [`sweep_placeholders`] if this process is killed: the note
    /// says which they are.
    ///
    /// # Errors
    ///
    /// When one cannot be made or noted.
    pub fn make_placeholders(&mut self, view: Option<&Overlay>, note: &Path) -> io::Result<()> {
        let (project, allow) = (&self.ground.project, &self.watched.allow);
        let missing = placeholders::missing(project, allow, view);
        if missing.is_empty() {
            return Ok(());
        }
        placeholders::note(note, &missing)?;
        self.placeholder_note = Some(note.to_owned());
        self.placeholders = placeholders::make(project, &missing)?;
        Ok(())
    }

    /// How many things are watched, and how many of the files could not be put back.
    pub fn counts(&self) -> (usize, usize) {
        let files = self.before.values().filter(|entry| entry.kind == Kind::File).count();
        (self.before.len(), files - self.sources.len())
    }

    fn keep(&mut self, repository: Option<&Repository>) -> io::Result<()> {
        let choice = Choice {
            watched: &self.watched,
            ground: &self.ground,
            before: &self.before,
            repository,
        };
        let (kept, from_git) = choice.choose();
        let mut opener = Opener::new(&self.ground);
        let mut kept = kept.into_iter().peekable();
        let mut sources = Vec::with_capacity(kept.len());
        for (path, entry) in &mut self.before {
            if kept.next_if(|next| next == path).is_none() {
                continue;
            }
            if let Some(blob) = self.vault.find(&entry.stamp) {
                sources.push((path.clone(), Source::Kept(blob)));
                continue;
            }
            // A file that is closed to us, or is gone already, is watched and no more.
            let Ok(file) = opener.open(path, Bits::Respect) else { continue };
            match self.vault.keep(&file) {
                Ok((stamp, blob)) => {
                    entry.stamp = stamp;
                    sources.push((path.clone(), Source::Kept(blob)));
                }
                Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
                Err(_) => {}
            }
        }
        let len = |source: &Source| if let Source::Kept(blob) = source { blob.len } else { 0 };
        let needed: u64 = sources.iter().map(|(_, source)| len(source)).sum();
        self.vault.need(needed + self.growing.iter().map(Growing::kept).sum::<u64>());
        self.sources = sources.into_iter().collect();
        self.sources.extend(from_git);
        match self.vault.flush_when(0) {
            Err(error) if error.kind() != io::ErrorKind::StorageFull => Err(error),
            _ => Ok(()),
        }
    }

    /// Looks at everything again, keeps what is allowed and puts back the rest of what the reviewer
    /// may have changed. Every process of the reviewer has to be dead.
    ///
    /// # Errors
    ///
    /// When the trees cannot be looked at. What cannot be put back is no error, but told. The vault
    /// comes back for the next snapshot.
    pub fn compare_and_restore(self, reach: Reach) -> io::Result<(Restored, Vault)> {
        let vault = &self.vault;
        // First of all, because it opens what was closed.
        let after = walk(&self.ground, Closed::Force(&self.before))?;
        let mut faults = Vec::new();
        for growing in &self.growing {
            faults.extend(growing.check()?.map(|fault| (growing, fault)));
        }
        let mut split = self.watched.allow.split(self.changes(&after, reach), &after);
        let mut settings = Vec::new();
        let mut left = Vec::new();
        for change in split.allowed.drain(..) {
            match self.look_inside(&change)? {
                Some(Finding::PutBack(why)) => {
                    settings.push((change.path.clone(), Offence::Unreadable(why)));
                    split.violations.push(change);
                }
                Some(Finding::Repair(repaired)) => {
                    self.write(&change.path, repaired.text.as_bytes())?;
                    let offences = repaired.put_back.into_iter().map(Offence::Setting);
                    settings.extend(offences.map(|what| (change.path.clone(), what)));
                    left.push(change);
                }
                Some(Finding::Fine) | None => left.push(change),
            }
        }
        split.violations.sort_by(|a, b| a.path.cmp(&b.path));
        if !split.violations.is_empty() {
            Restorer::new((&self.ground, &self.before), &self.sources, vault)
                .putting_aside(self.watched.put_aside.as_deref())
                .put_back(&split.violations, &after);
        }
        // Directories last, when what was in them is gone.
        left.reverse();
        left.retain(|change| {
            let placeholder = self.placeholders.contains(&change.path);
            !(placeholder && placeholders::clear(&self.ground, &change.path))
        });
        left.reverse();
        if let Some(note) = &self.placeholder_note {
            let _ = std::fs::remove_file(note);
        }
        // The directories that hold these files are in place again by now.
        let mut restored = Restored::default();
        for (growing, fault) in faults {
            let done = growing.restore(vault, &fault).is_ok() && growing.holds()?;
            let (path, what) = (growing.seen.clone(), Offence::NotGrown(fault));
            restored.violations.push(Violation { path, what, beneath: 0, restored: done });
        }
        restored.violations.extend(self.verdict(split.violations, settings, reach)?);
        restored.allowed = self.describe(left)?;
        Ok((restored, self.vault))
    }

    fn changes(&self, after: &Tree, reach: Reach) -> Vec<Change> {
        let opener = RefCell::new(Opener::new(&self.ground));
        let differ = |path: &Path| {
            let file = opener.borrow_mut().open(path, Bits::Force);
            let same = file.and_then(|file| match self.sources.get(path) {
                Some(Source::Kept(blob)) => self.vault.matches(blob, &file),
                Some(Source::Git { top, object }) => git::is_object(top, object, &file),
                // Without a copy the stamp is all there is to go by.
                None => Ok(false),
            });
            !same.unwrap_or(false)
        };
        let mut changes = permissions::compare(&self.before, after, differ);
        for path in &self.racy {
            let same_stamp =
                |new: &&Entry| self.before.get(path).is_some_and(|old| old.stamp == new.stamp);
            let kept = matches!(self.sources.get(path), Some(Source::Kept(_)));
            if kept && after.get(path).filter(same_stamp).is_some() && differ(path) {
                changes.push(Change { path: path.clone(), what: What::Modified });
            }
        }
        changes.retain(|change| !change.is_bookkeeping());
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        if reach == Reach::LoopFiles {
            let allow = &self.watched.allow;
            changes.retain(|change| allow.permission(&change.path) != Permission::None);
        }
        changes
    }

    /// What a changed file of settings says; `None` when it is none.
    fn look_inside(&self, change: &Change) -> io::Result<Option<Finding>> {
        let Watched { allow, beneath, .. } = &self.watched;
        let Some(file) = KeyedFile::at(&change.path, allow, beneath) else { return Ok(None) };
        if matches!(change.what, What::Deleted(_)) {
            let why = permissions::Unreadable::After("the file is gone".to_owned());
            return Ok(Some(Finding::PutBack(why)));
        }
        let last_good = self.watched.last_good.get(&change.path);
        let old = match last_good {
            Some(text) => text.clone().into_bytes(),
            None => self.old_bytes(&change.path)?.unwrap_or_default(),
        };
        let new = self.new_bytes(&change.path)?;
        Ok(Some(file.examine(&old, &new)))
    }

    /// What became of the violations, seen by looking at everything once more.
    fn verdict(
        &self,
        violations: Vec<Change>,
        settings: Vec<(PathBuf, Offence)>,
        reach: Reach,
    ) -> io::Result<Vec<Violation>> {
        if violations.is_empty() && settings.is_empty() {
            return Ok(Vec::new());
        }
        let now = walk(&self.ground, Closed::Respect)?;
        let changes = self.changes(&now, reach);
        let different: BTreeSet<PathBuf> =
            changes.iter().map(|change| change.path.clone()).collect();
        let left = self.watched.allow.split(changes, &now).violations;
        let still: BTreeSet<PathBuf> = left.into_iter().map(|change| change.path).collect();
        let by_keys: HashMap<&PathBuf, &Offence> =
            settings.iter().map(|(path, what)| (path, what)).collect();
        let mut told: Vec<Violation> = Vec::new();
        for change in violations {
            if by_keys.contains_key(&change.path) {
                continue;
            }
            let restored = !still.contains(&change.path);
            let whole = |what: &What| matches!(what, What::Added(_) | What::Deleted(_));
            // What came or went with a directory is told with it, unless something went wrong.
            if let Some(last) = told.last_mut()
                && let Offence::Changed(above) = &last.what
                && whole(above)
                && whole(&change.what)
                && change.path.starts_with(&last.path)
                && restored == last.restored
            {
                last.beneath += 1;
                continue;
            }
            let kept = self.sources.contains_key(&change.path);
            let was_file = self.before.get(&change.path).is_some_and(|old| old.kind == Kind::File);
            let what = if was_file && !kept && !restored {
                Offence::ChangedUnkept(change.what)
            } else {
                Offence::Changed(change.what)
            };
            told.push(Violation { path: change.path, what, beneath: 0, restored });
        }
        told.extend(settings.into_iter().map(|(path, what)| {
            let whole = matches!(what, Offence::Unreadable(_));
            let restored = !if whole { &different } else { &still }.contains(&path);
            Violation { path, what, beneath: 0, restored }
        }));
        Ok(told)
    }

    fn describe(&self, changes: Vec<Change>) -> io::Result<Vec<Allowed>> {
        let mut allowed = Vec::new();
        for change in changes {
            let (old, new) = match change.what {
                What::Added(Kind::File) => (None, Some(self.new_bytes(&change.path)?)),
                What::Deleted(Kind::File) => (self.old_bytes(&change.path)?, None),
                What::Modified => {
                    (self.old_bytes(&change.path)?, Some(self.new_bytes(&change.path)?))
                }
                _ => {
                    allowed.push(Allowed { path: change.path, what: change.what, diff: None });
                    continue;
                }
            };
            // Keys that were put back may have been all that was changed.
            if old.is_some() && old == new {
                continue;
            }
            let name = change.path.to_string_lossy().into_owned();
            let longest = self.watched.longest_diff;
            let diff = match (&change.what, &old) {
                (What::Modified | What::Deleted(_), None) => permissions::Diff::default(),
                _ => permissions::unified(&name, old.as_deref(), new.as_deref(), longest),
            };
            allowed.push(Allowed { path: change.path, what: change.what, diff: Some(diff) });
        }
        Ok(allowed)
    }

    /// The old bytes of a file; those of a long one only as far as it takes to see that it is long.
    fn old_bytes(&self, seen: &Path) -> io::Result<Option<Vec<u8>>> {
        match self.sources.get(seen) {
            Some(Source::Kept(blob)) if blob.len > LONGEST_DIFFED as u64 => Ok(Some(vec![
                    0;
                    usize::try_from(blob.len).map_err(io::Error::other)?.min(64 << 20)
                ])),
            Some(Source::Kept(blob)) => self.vault.read(blob).map(Some),
            Some(Source::Git { .. }) | None => Ok(None),
        }
    }

    fn new_bytes(&self, seen: &Path) -> io::Result<Vec<u8>> {
        let file = match Opener::new(&self.ground).open(seen, Bits::Force) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            result => result?,
        };
        let most = file.metadata()?.len().min(2 * permissions::LONGEST_DIFFED as u64 + 1024);
        let mut bytes = vec![0; usize::try_from(most).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    fn write(&self, seen: &Path, bytes: &[u8]) -> io::Result<()> {
        let Some((root, beneath)) = self.ground.locate(seen) else { return Ok(()) };
        let root = openat::open_root(root)?;
        let (dir, name) = openat::open_parent(&root, &beneath, &mut Vec::new())?;
        let mode = rustix::fs::Mode::from_raw_mode(openat::stat_at(&dir, &name)?.st_mode);
        restore::replace(&dir, &name, |fresh| {
            fresh.write_all_at(bytes, 0)?;
            Ok(rustix::fs::fchmod(fresh, mode)?)
        })
    }
}
