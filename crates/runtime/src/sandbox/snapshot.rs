//! The fallback where files are written in place: copies everything before a review, compares it
//! afterwards, and restores what the reviewer was not allowed to change.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use autoloop_core::permissions::{
    Change, Diff, Kind, LONGEST_DIFFED, Permission, Repaired, Tree, Unreadable, What, compare,
};

use super::append_only::AppendOnlyFile;
use super::backup_store::BackupStore;
use super::git::{self, Repository};
use super::listing::{self, Trees};
use super::openat::{self, DirCache};
use super::placeholders::Placeholders;
use super::proof::Attribution;
use super::report::{
    Allowed, ReviewChanges, SettingsFile, Violation, ViolationKind, read_for_diff,
};
use super::restore::{Restorer, Source};
use super::scope::Scope;
use super::selection::Selection;
use crate::world::Overlay;

#[derive(Debug)]
pub struct Snapshot {
    pub(super) store: BackupStore,
    pub(super) scope: Scope,
    pub(super) trees: Trees,
    pub(super) before: Tree,
    /// Files that may have been written after their stamp was read without a newer stamp.
    racy: BTreeSet<PathBuf>,
    pub(super) sources: BTreeMap<PathBuf, Source>,
    append_only: Vec<AppendOnlyFile>,
    placeholders: Placeholders,
}

impl Snapshot {
    /// Copies everything, before the reviewer starts.
    pub fn take(mut store: BackupStore, scope: Scope) -> io::Result<Snapshot> {
        store.tidy()?;
        let project = scope.project_dir.canonicalize()?;
        let repository = Repository::find(&project);
        let trees = scope.trees(project, repository.as_ref());
        let append_only = scope
            .append_only_paths()
            .map(|path| AppendOnlyFile::take(&mut store, path.clone(), trees.project.join(&path)))
            .collect::<io::Result<Vec<_>>>()?;
        let before = trees.walk(None)?;
        let mut snapshot = Snapshot {
            store,
            scope,
            trees,
            before,
            racy: BTreeSet::new(),
            sources: BTreeMap::new(),
            append_only,
            placeholders: Placeholders::default(),
        };
        snapshot.copy(repository.as_ref())?;
        snapshot.racy = listing::racy(&snapshot.before);
        Ok(snapshot)
    }

    /// Creates the files and directories that the reviewer may create, except in an overlay, where it can.
    pub fn make_placeholders(&mut self, view: Option<&Overlay>, note: &Path) -> io::Result<()> {
        self.placeholders = Placeholders::make(&self.trees.project, &self.scope.allow, view, note)?;
        Ok(())
    }

    fn copy(&mut self, repository: Option<&Repository>) -> io::Result<()> {
        let Snapshot { scope, trees, before, .. } = &*self;
        let (chosen, from_git) = Selection { scope, trees, before, repository }.choose();
        let mut dirs = DirCache::new(&self.trees);
        let mut chosen = chosen.into_iter().peekable();
        let mut needed: u64 = self.append_only.iter().map(AppendOnlyFile::kept).sum();
        let mut sources = Vec::with_capacity(chosen.len());
        for (path, entry) in &mut self.before {
            if chosen.next_if(|next| next == path).is_none() {
                continue;
            }
            let backup = match self.store.find(&entry.stamp) {
                Some(backup) => backup,
                None => {
                    // A file that is closed to us, or deleted meanwhile, is only listed.
                    let Ok(file) = dirs.open(path) else { continue };
                    match self.store.keep(&file) {
                        Ok((stamp, backup)) => {
                            entry.stamp = stamp;
                            backup
                        }
                        Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
                        Err(_) => continue,
                    }
                }
            };
            needed += backup.len;
            sources.push((path.clone(), Source::Kept(backup)));
        }
        self.store.set_needed(needed);
        self.sources = sources.into_iter().chain(from_git).collect();
        match self.store.flush() {
            Err(error) if error.kind() != io::ErrorKind::StorageFull => Err(error),
            _ => Ok(()),
        }
    }

    /// Lists everything again, keeps what is allowed and restores the rest of what the reviewer may have
    /// changed. Every process of the reviewer has to have ended. What cannot be restored is no error, but a
    /// violation. The store is returned for the next snapshot.
    pub fn compare_and_restore(
        self,
        attribution: Attribution,
    ) -> io::Result<(ReviewChanges, BackupStore)> {
        // First of all, because it opens what was closed.
        let after = self.trees.walk(Some(&self.before))?;
        let mut faults = Vec::new();
        for file in &self.append_only {
            faults.extend(file.check()?.map(|fault| (file, fault)));
        }
        let mut split = self.scope.allow.split(self.changes(&after, attribution), &after);
        let mut settings = Vec::new();
        let mut allowed = Vec::new();
        for change in split.allowed.drain(..) {
            match self.check_settings(&change)? {
                Some(Err(why)) => {
                    settings.push((change.path.clone(), ViolationKind::Unreadable(why)));
                    split.violations.push(change);
                    continue;
                }
                Some(Ok(repaired)) if !repaired.put_back.is_empty() => {
                    self.write(&change.path, repaired.text.as_bytes())?;
                    let keys = repaired.put_back.into_iter().map(ViolationKind::Setting);
                    settings.extend(keys.map(|kind| (change.path.clone(), kind)));
                }
                _ => {}
            }
            allowed.push(change);
        }
        split.violations.sort_by(|a, b| a.path.cmp(&b.path));
        if !split.violations.is_empty() {
            Restorer::new(&self).restore(&split.violations, &after);
        }
        allowed.retain(|change| !self.placeholders.clear(&self.trees, &change.path));
        self.placeholders.remove_note();
        let mut changes = ReviewChanges::default();
        // The directories that hold these files are restored by now.
        for (file, fault) in faults {
            let restored = file.restore(&self.store, &fault)?;
            let kind = ViolationKind::AppendOnly(fault);
            changes.violations.push(Violation::new(file.relative.clone(), kind, restored));
        }
        changes.violations.extend(self.violations(split.violations, settings, attribution)?);
        for change in allowed {
            changes.allowed.extend(self.describe(change)?);
        }
        Ok((changes, self.store))
    }

    fn changes(&self, after: &Tree, attribution: Attribution) -> Vec<Change> {
        let dirs = RefCell::new(DirCache::new(&self.trees));
        let differs = |path: &Path| {
            let file = dirs.borrow_mut().open_forced(path);
            let same = file.and_then(|file| match self.sources.get(path) {
                Some(Source::Kept(backup)) => self.store.matches(backup, &file),
                Some(Source::Git { top, object }) => git::is_object(top, object, &file),
                // Without a copy only the stamps can be compared.
                None => Ok(false),
            });
            !same.unwrap_or(false)
        };
        let mut changes = compare(&self.before, after, differs);
        for path in &self.racy {
            let (old, new) = (self.before.get(path), after.get(path));
            let has_same_stamp = old.zip(new).is_some_and(|(old, new)| old.stamp == new.stamp);
            let is_kept = matches!(self.sources.get(path), Some(Source::Kept(_)));
            if is_kept && has_same_stamp && differs(path) {
                changes.push(Change { path: path.clone(), what: What::Modified });
            }
        }
        changes.retain(|change| {
            let is_of_loop = || self.scope.allow.permission(&change.path) != Permission::None;
            !change.is_bookkeeping() && (attribution > Attribution::Settings || is_of_loop())
        });
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        changes
    }

    /// `None` for a file that is no settings file.
    fn check_settings(&self, change: &Change) -> io::Result<Option<Result<Repaired, Unreadable>>> {
        let Some(file) = SettingsFile::at(&change.path, &self.scope.allow, &self.scope.beneath)
        else {
            return Ok(None);
        };
        let old = self.old_bytes(&change.path)?.unwrap_or_default();
        let new = match change.what {
            What::Deleted(_) => None,
            _ => Some(self.new_bytes(&change.path)?),
        };
        Ok(Some(file.check(&old, new.as_deref())))
    }

    /// Lists the trees once more to see what was restored.
    fn violations(
        &self,
        changes: Vec<Change>,
        settings: Vec<(PathBuf, ViolationKind)>,
        attribution: Attribution,
    ) -> io::Result<Vec<Violation>> {
        if changes.is_empty() && settings.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.trees.walk(None)?;
        let left = self.changes(&now, attribution);
        let different: BTreeSet<PathBuf> = left.iter().map(|it| it.path.clone()).collect();
        let left = self.scope.allow.split(left, &now).violations;
        let still: BTreeSet<PathBuf> = left.into_iter().map(|change| change.path).collect();
        let is_whole = |what: &What| matches!(what, What::Added(_) | What::Deleted(_));
        let mut violations: Vec<Violation> = Vec::new();
        for Change { path, what } in changes {
            if settings.iter().any(|(settings, _)| *settings == path) {
                continue;
            }
            let restored = !still.contains(&path);
            // What was added or deleted with a directory is counted there.
            if let Some(last) = violations.last_mut()
                && let ViolationKind::Changed(above) = &last.kind
                && is_whole(above)
                && is_whole(&what)
                && path.starts_with(&last.path)
                && restored == last.restored
            {
                last.beneath += 1;
                continue;
            }
            let was_file = self.before.get(&path).is_some_and(|old| old.kind == Kind::File);
            let kind = match was_file && !restored && !self.sources.contains_key(&path) {
                true => ViolationKind::ChangedUnkept(what),
                false => ViolationKind::Changed(what),
            };
            violations.push(Violation::new(path, kind, restored));
        }
        violations.extend(settings.into_iter().map(|(path, kind)| {
            let is_whole = matches!(kind, ViolationKind::Unreadable(_));
            let restored = !if is_whole { &different } else { &still }.contains(&path);
            Violation::new(path, kind, restored)
        }));
        Ok(violations)
    }

    /// `None` for a file whose only change was that of protected keys.
    fn describe(&self, Change { path, what }: Change) -> io::Result<Option<Allowed>> {
        let (old, new) = match what {
            What::Added(Kind::File) => (None, Some(self.new_bytes(&path)?)),
            What::Deleted(Kind::File) => (self.old_bytes(&path)?, None),
            What::Modified => (self.old_bytes(&path)?, Some(self.new_bytes(&path)?)),
            _ => return Ok(Some(Allowed { path, what, diff: None })),
        };
        if old.is_some() && old == new {
            return Ok(None);
        }
        if old.is_none() && !matches!(what, What::Added(_)) {
            return Ok(Some(Allowed { path, what, diff: Some(Diff::default()) }));
        }
        Ok(Some(Allowed::file(&path, what, old.as_deref(), new.as_deref())))
    }

    /// The old bytes of a file; zeros for one that is too long for a diff.
    fn old_bytes(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let Some(Source::Kept(backup)) = self.sources.get(path) else { return Ok(None) };
        if backup.len > LONGEST_DIFFED as u64 {
            let len = usize::try_from(backup.len).map_err(io::Error::other)?;
            return Ok(Some(vec![0; len.min(64 << 20)]));
        }
        self.store.read(backup).map(Some)
    }

    fn new_bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        match DirCache::new(&self.trees).open_forced(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            file => read_for_diff(file?),
        }
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let Some((root, beneath)) = self.trees.locate(path) else { return Ok(()) };
        let root = openat::open_root(root)?;
        let (dir, name) = openat::open_parent(&root, &beneath, &mut Vec::new())?;
        let mode = rustix::fs::Mode::from_raw_mode(openat::stat_at(&dir, &name)?.st_mode);
        openat::replace(&dir, &name, |fresh| {
            fresh.write_all_at(bytes, 0)?;
            Ok(rustix::fs::fchmod(fresh, mode)?)
        })
    }
}
