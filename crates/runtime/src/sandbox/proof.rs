//! The proof that a review changed nothing but what it may: the reviewed tree, and the references, the settings
//! and the hooks of its repository, are the same after it as before.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use autoloop_core::permissions::{AllowList, Permission};

use super::git::{self, Repository};
use super::listing::{Listing, Trees};
use super::report::{Violation, ViolationKind};
use super::scope::{Extent, Scope};

const HEAD: &str = "HEAD";
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

/// The references and settings of a repository.
#[derive(Debug)]
struct Pointers {
    found: Repository,
    /// The value of `HEAD`, which is a branch or a commit, of each reference and of each setting.
    values: BTreeMap<String, String>,
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
        let repository = found.and_then(Pointers::of);
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
            // None of these commands runs another program, and the global settings are not read, in which a user
            // trusts the files of another one.
            let args = [&["-c", "safe.directory=*"], args].concat();
            let output = git::output(&found.top, &args, b"")?;
            Some(String::from_utf8_lossy(&output).into_owned())
        };
        let (mut values, mut elsewhere) = (BTreeMap::new(), BTreeSet::new());
        let symbolic = text(&["symbolic-ref", "--quiet", "HEAD"]);
        let head = symbolic.or_else(|| text(&["rev-parse", "--verify", "--quiet", "HEAD"]));
        values.extend(head.map(|head| (HEAD.to_owned(), head.trim_end().to_owned())));
        let format = "--format=%(refname) %(objectname) %(worktreepath)";
        for line in text(&["for-each-ref", format])?.lines() {
            let mut words = line.splitn(3, ' ').map(str::to_owned);
            let (name, value, top) = (words.next()?, words.next()?, words.next()?);
            if !top.is_empty() && Path::new(&top) != found.top {
                elsewhere.insert(name.clone());
            }
            values.insert(name, value);
        }
        for entry in text(&["config", "--null", "--list"])?.split_terminator('\0') {
            let (key, value) = entry.split_once('\n').unwrap_or((entry, ""));
            // A key may have several values.
            let values = values.entry(key.to_owned()).or_default();
            *values = format!("{values}{value}\n");
        }
        Some(Pointers { found, values, elsewhere })
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
        let names: BTreeSet<&String> = self.values.keys().chain(now.values.keys()).collect();
        let moved = names.into_iter().filter_map(|name| {
            let (old, new) = (self.values.get(name), now.values.get(name));
            if old == new || !self.counts(name, now, attribution) {
                return None;
            }
            let what = match (old, new) {
                _ if is_setting(name) => {
                    return Some((config.clone(), ViolationKind::GitSetting(name.clone())));
                }
                _ if name == HEAD => "another branch checked out",
                (None, _) => "reference added",
                (_, None) => "reference deleted",
                (Some(_), Some(_)) => "reference moved",
            };
            Some((name.into(), ViolationKind::Pointer(what)))
        });
        moved.collect()
    }

    /// Whether a difference is attributed to the reviewer.
    fn counts(&self, name: &str, now: &Pointers, attribution: Attribution) -> bool {
        let has_siblings = !self.found.siblings.is_empty();
        if is_setting(name) {
            return !(name.starts_with("branch.") && has_siblings);
        }
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

/// Any other name is that of a reference.
fn is_setting(name: &str) -> bool {
    name != HEAD && !name.starts_with("refs/")
}
