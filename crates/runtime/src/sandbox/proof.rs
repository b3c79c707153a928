//! The proof that a review changed nothing but what it may: the reviewed tree, and the references, the settings
//! and the hooks of its repository, are the same after it as before.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use autoloop_core::permissions::{AllowList, Permission};

use super::git::{self, Repository};
use super::listing::{Listing, Trees};
use super::report::{Violation, ViolationKind};
use super::scope::{Extent, Scope};
use crate::files::{self, Links};
use crate::git::git_dir_at;
use crate::world::RealDisk;

const HEAD: &str = "HEAD";
/// Largest file of a repository that is compared, in bytes.
const LONGEST: u64 = 64 * 1024 * 1024;
/// The branches that the harness makes. It moves the worktree of an agent off any other one.
const OURS: &str = "refs/heads/autoloop/";
/// References that each worktree has for itself.
const PER_WORKTREE: [&str; 3] = ["refs/bisect/", "refs/rewritten/", "refs/worktree/"];

/// What was there before a review.
#[derive(Debug)]
pub struct Proof {
    /// `None` where a snapshot is compared instead.
    files: Option<Listing>,
    repository: Option<Pointers>,
    /// Listed where the files of the repository are not listed with the project.
    hooks: Option<Listing>,
    project: PathBuf,
}

/// Whose changes are attributed to the reviewer.
///
/// Other slots, other runs, the harness and the user work in other worktrees of the same repository meanwhile. They
/// create and move any branch but the one that is checked out here, so only `HEAD`, its branch and the references of
/// this worktree are compared then. Settings and hooks apply to all of them and are always compared, but for those
/// of branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attribution {
    /// Others worked in the reviewed tree itself: only settings and hooks, and what the allow list names.
    Settings,
    /// Others may have worked elsewhere in the repository: the reviewed tree and its own references, too.
    Worktree,
    /// All references that are not checked out in another worktree, too.
    Repository,
}

/// The references and settings of a repository, read from its files: git would wait for a pipe that an agent put in
/// place of one of them.
#[derive(Debug)]
struct Pointers {
    found: Repository,
    /// The value of `HEAD`, which is a branch or a commit, and of each reference.
    values: BTreeMap<String, String>,
    /// The settings of the repository and of the worktree.
    settings: Vec<u8>,
    /// References that are checked out in another worktree.
    elsewhere: BTreeSet<String>,
}

impl Proof {
    /// Looks at the reviewed tree, unless a snapshot does, and at its repository.
    pub fn before(scope: &Scope, has_snapshot: bool) -> io::Result<Proof> {
        let project = scope.project_dir.canonicalize()?;
        let found = Repository::find(&project);
        let worktree = found.as_ref().filter(|_| scope.extent == Extent::Worktree);
        let hooks = worktree.map(|found| {
            // They apply to all worktrees, as the settings do.
            let roots = ["hooks", "info"].map(|name| found.common.join(name)).to_vec();
            Listing::take(Trees { project: project.clone(), roots, skipped: Vec::new() })
        });
        let hooks = hooks.transpose()?;
        let repository = found.map(Pointers::of);
        let asked = repository.as_ref().map(|pointers| &*pointers.found.common);
        let files = (!has_snapshot).then(|| Listing::of_scope(scope, asked)).transpose()?;
        Ok(Proof { files, repository, hooks, project })
    }

    /// The changes that an allow list does not permit. They are not undone. `attribution` is asked last, so that
    /// what others began meanwhile counts.
    pub fn violations(
        &self,
        allow: &AllowList,
        attribution: impl FnOnce() -> Attribution,
    ) -> io::Result<Vec<Violation>> {
        let changes = |listing: &Option<Listing>| match listing {
            Some(listing) => listing.changes(),
            None => Ok(Vec::new()),
        };
        let (files, hooks) = (changes(&self.files)?, changes(&self.hooks)?);
        let now = self.repository.as_ref().map(|before| Pointers::of(before.found.clone()));
        let attribution = attribution();
        let files = files.into_iter().filter(|_| attribution > Attribution::Settings);
        let changes = files.chain(hooks).filter(|change| {
            allow.permission(&change.path) == Permission::None && !change.is_bookkeeping()
        });
        let changes = changes.map(|change| (change.path, ViolationKind::Changed(change.what)));
        let moved = match (&self.repository, now) {
            (Some(before), Some(now)) => before.moved(&now, attribution),
            _ => Vec::new(),
        };
        let seen =
            |path: PathBuf| path.strip_prefix(&self.project).map(Path::to_owned).unwrap_or(path);
        let moved = moved.into_iter().map(|(path, kind)| (seen(path), kind));
        Ok(changes.chain(moved).map(|(path, kind)| Violation::new(path, kind, false)).collect())
    }
}

impl Pointers {
    fn of(found: Repository) -> Pointers {
        let own = git_dir_at(&found.top.join(".git")).and_then(|own| own.canonicalize().ok());
        let own = own.unwrap_or_else(|| found.common.clone());
        let mut values = packed(&found.common);
        for dir in [&found.common, &own] {
            loose(dir, "refs", &mut values);
        }
        let head = |dir: &Path| {
            let head = text(&dir.join(HEAD))?;
            Some(head.strip_prefix("ref: ").unwrap_or(&head).to_owned())
        };
        values.extend(head(&own).map(|head| (HEAD.to_owned(), head)));
        let linked = fs::read_dir(found.common.join("worktrees")).into_iter().flatten().flatten();
        let dirs = linked.map(|entry| entry.path()).chain([found.common.clone()]);
        let others = dirs.filter(|dir| dir.canonicalize().is_ok_and(|dir| dir != own));
        let elsewhere = others.filter_map(|dir| head(&dir)).collect();
        let settings = [found.common.join("config"), own.join("config.worktree")];
        let settings =
            settings.iter().filter_map(|path| bytes(path)).collect::<Vec<_>>().join(&b'\n');
        Pointers { found, values, settings, elsewhere }
    }

    /// What has another value now.
    fn moved(&self, now: &Pointers, attribution: Attribution) -> Vec<(PathBuf, ViolationKind)> {
        let names: BTreeSet<&String> = self.values.keys().chain(now.values.keys()).collect();
        let moved = names.into_iter().filter_map(|name| {
            let (old, new) = (self.values.get(name), now.values.get(name));
            if old == new || !self.counts(name, now, attribution) {
                return None;
            }
            let what = match (old, new) {
                _ if name == HEAD => "another branch checked out",
                (None, _) => "reference added",
                (_, None) => "reference deleted",
                (Some(_), Some(_)) => "reference moved",
            };
            Some((name.into(), ViolationKind::Pointer(what)))
        });
        moved.chain(self.changed_settings(now)).collect()
    }

    /// Settings of branches are left out where others work on branches of their own.
    fn changed_settings(&self, now: &Pointers) -> Vec<(PathBuf, ViolationKind)> {
        if self.settings == now.settings {
            return Vec::new();
        }
        let config = self.found.common.join("config");
        let (Some(old), Some(new)) = (settings(&self.settings), settings(&now.settings)) else {
            return vec![(config, ViolationKind::Pointer("git cannot read the settings"))];
        };
        let has_siblings = !self.found.siblings.is_empty();
        let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        let changed = keys.into_iter().filter(|key| {
            old.get(*key) != new.get(*key) && !(has_siblings && key.starts_with("branch."))
        });
        changed.map(|key| (config.clone(), ViolationKind::GitSetting(key.clone()))).collect()
    }

    /// Whether a difference is attributed to the reviewer.
    fn counts(&self, name: &str, now: &Pointers, attribution: Attribution) -> bool {
        let has_siblings = !self.found.siblings.is_empty();
        let head = |pointers: &Pointers| pointers.values.get(HEAD).cloned().unwrap_or_default();
        let is_of_others = |head: &str| head.starts_with("refs/") && !head.starts_with(OURS);
        // The harness detaches a worktree from a branch of others before it moves that branch.
        let is_left = has_siblings && is_of_others(&head(self)) && !is_of_others(&head(now));
        let is_per_worktree = PER_WORKTREE.iter().any(|prefix| name.starts_with(prefix));
        match attribution {
            Attribution::Settings => false,
            _ if name == HEAD => !is_left,
            Attribution::Worktree => is_per_worktree || name == head(self) && !is_left,
            Attribution::Repository => ![self, now].iter().any(|it| it.elsewhere.contains(name)),
        }
    }
}

/// The references in the file for packed ones. Those in files of their own override them.
fn packed(common: &Path) -> BTreeMap<String, String> {
    let lines = text(&common.join("packed-refs")).unwrap_or_default();
    let references = lines.lines().filter(|line| !line.starts_with(['#', '^']));
    let references = references.filter_map(|line| line.split_once(' '));
    references.map(|(value, name)| (name.to_owned(), value.to_owned())).collect()
}

/// Adds the references that have files of their own.
fn loose(dir: &Path, name: &str, values: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(dir.join(name)).into_iter().flatten().flatten() {
        let Ok(file) = entry.file_name().into_string() else { continue };
        let name = format!("{name}/{file}");
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => loose(dir, &name, values),
            _ => {
                let value = text(&entry.path()).unwrap_or_default();
                values.insert(name, value);
            }
        }
    }
}

/// The value of each setting in a file; `None` if git cannot read it.
fn settings(file: &[u8]) -> Option<BTreeMap<String, String>> {
    let mut values: BTreeMap<String, String> = BTreeMap::new();
    // Outside of the repository, whose files git would read first.
    let listed = git::output(Path::new("/"), &["config", "--null", "--file", "-", "--list"], file)?;
    for entry in String::from_utf8_lossy(&listed).split_terminator('\0') {
        let (key, value) = entry.split_once('\n').unwrap_or((entry, ""));
        // A key may have several values.
        let values = values.entry(key.to_owned()).or_default();
        *values = format!("{values}{value}\n");
    }
    Some(values)
}

/// The content of a regular file.
fn bytes(path: &Path) -> Option<Vec<u8>> {
    files::read(&RealDisk, path, Links::Refuse, LONGEST).ok().flatten()
}

fn text(path: &Path) -> Option<String> {
    Some(String::from_utf8_lossy(&bytes(path)?).trim_end().to_owned())
}
