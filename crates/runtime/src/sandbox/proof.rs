//! The proof that a review changed nothing but what it may: the reviewed tree, and the references, the settings
//! and the hooks of its repository, are the same after it as before.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use autoloop_core::permissions::{AllowList, Permission};

use super::git::{self, Repository};
use super::listing::Listing;
use super::report::{Violation, ViolationKind};
use super::scope::{Extent, Scope};
use super::walk::Trees;

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
    /// Others worked in the reviewed tree itself: only settings and hooks.
    Settings,
    /// Others may have worked elsewhere in the repository: the reviewed tree and its own references, too.
    Worktree,
    /// All references that are not checked out in another worktree, too.
    Repository,
}

/// The references, settings and hooks of a repository.
#[derive(Debug)]
struct Pointers {
    found: Repository,
    /// The branch that `HEAD` leads to, or the commit that it names.
    head: Option<String>,
    /// The value of each reference, and the worktree that it is checked out in.
    references: BTreeMap<String, (String, PathBuf)>,
    settings: BTreeMap<String, Vec<String>>,
}

impl Proof {
    /// Looks at the reviewed tree, unless a snapshot does, and at its repository.
    pub fn before(scope: &Scope, has_snapshot: bool) -> io::Result<Proof> {
        let project = scope.project_dir.canonicalize()?;
        let files = (!has_snapshot).then(|| Listing::of_scope(scope)).transpose()?;
        let found = Repository::find(&project);
        let worktree = found.as_ref().filter(|_| scope.extent == Extent::Worktree);
        let hooks = worktree.map(|found| {
            // They apply to all worktrees, as the settings do.
            let roots = ["hooks", "info"].map(|name| found.common.join(name)).to_vec();
            Listing::take(Trees { project: project.clone(), roots, skipped: Vec::new() })
        });
        let repository = found.and_then(Pointers::of);
        Ok(Proof { files, repository, hooks: hooks.transpose()?, project })
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
            (Some(before), Some(now)) => before.moved(now.as_ref(), attribution),
            _ => Vec::new(),
        };
        let seen =
            |path: PathBuf| path.strip_prefix(&self.project).map(Path::to_owned).unwrap_or(path);
        let moved = moved.into_iter().map(|(path, kind)| (seen(path), kind));
        Ok(changes.chain(moved).map(|(path, kind)| Violation::new(path, kind, false)).collect())
    }
}

impl Pointers {
    /// `None` where git cannot read them.
    fn of(found: Repository) -> Option<Pointers> {
        let text = |args: &[&str]| {
            let output = git::output(&found.top, args, b"")?;
            Some(String::from_utf8_lossy(&output).into_owned())
        };
        let symbolic = text(&["symbolic-ref", "--quiet", "HEAD"]);
        let head = symbolic.or_else(|| text(&["rev-parse", "--verify", "--quiet", "HEAD"]));
        let format = "--format=%(refname) %(objectname) %(worktreepath)";
        let listed = text(&["for-each-ref", format])?;
        let references = listed.lines().filter_map(|line| {
            let mut words = line.splitn(3, ' ').map(str::to_owned);
            let (name, value) = (words.next()?, words.next()?);
            Some((name, (value, PathBuf::from(words.next()?))))
        });
        let mut settings: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for entry in text(&["config", "--null", "--list"])?.split_terminator('\0') {
            let (key, value) = entry.split_once('\n').unwrap_or((entry, ""));
            settings.entry(key.to_owned()).or_default().push(value.to_owned());
        }
        let head = head.map(|head| head.trim_end().to_owned());
        Some(Pointers { head, references: references.collect(), settings, found })
    }

    /// What has another value now.
    fn moved(
        &self,
        now: Option<&Pointers>,
        attribution: Attribution,
    ) -> Vec<(PathBuf, ViolationKind)> {
        let config = self.found.common.join("config");
        let Some(now) = now else {
            return vec![(config, ViolationKind::Pointer("git cannot read the repository"))];
        };
        let mut moved = Vec::new();
        let is_left = self.is_left(now);
        if attribution > Attribution::Settings && self.head != now.head && !is_left {
            moved.push(("HEAD".into(), ViolationKind::Pointer("another branch checked out")));
        }
        let names: BTreeSet<&String> =
            self.references.keys().chain(now.references.keys()).collect();
        for name in names {
            let (old, new) = (self.references.get(name), now.references.get(name));
            let counts = match attribution {
                Attribution::Settings => false,
                Attribution::Worktree => self.is_own(name) && !is_left,
                Attribution::Repository => !self.is_elsewhere(old) && !self.is_elsewhere(new),
            };
            let value = |reference: &(String, PathBuf)| reference.0.clone();
            let what = match (old.map(value), new.map(value)) {
                (Some(old), Some(new)) if old == new => continue,
                (Some(_), Some(_)) => "reference moved",
                (None, _) => "reference added",
                (_, None) => "reference deleted",
            };
            if counts {
                moved.push((name.into(), ViolationKind::Pointer(what)));
            }
        }
        let keys: BTreeSet<&String> = self.settings.keys().chain(now.settings.keys()).collect();
        for key in keys {
            let is_of_branch = key.starts_with("branch.") && !self.found.siblings.is_empty();
            if !is_of_branch && self.settings.get(key) != now.settings.get(key) {
                moved.push((config.clone(), ViolationKind::GitSetting(key.clone())));
            }
        }
        moved
    }

    fn is_own(&self, reference: &str) -> bool {
        let is_of_worktree = PER_WORKTREE.iter().any(|prefix| reference.starts_with(prefix));
        is_of_worktree || self.head.as_deref() == Some(reference)
    }

    fn is_elsewhere(&self, reference: Option<&(String, PathBuf)>) -> bool {
        let elsewhere = |top: &PathBuf| !top.as_os_str().is_empty() && *top != self.found.top;
        reference.is_some_and(|(_, top)| elsewhere(top))
    }

    /// Whether the worktree was on a branch of others and is detached by now: the harness does that before it moves
    /// such a branch.
    fn is_left(&self, now: &Pointers) -> bool {
        let is_branch = |head: &Option<String>| {
            head.as_ref().is_some_and(|head| head.starts_with("refs/") && !head.starts_with(OURS))
        };
        is_branch(&self.head) && !is_branch(&now.head) && !self.found.siblings.is_empty()
    }
}
