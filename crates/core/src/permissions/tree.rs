//! The files before and after a review, and which of the differences are allowed.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use super::{AllowList, Permission};
use crate::agents::Adapter;

pub type Tree = BTreeMap<PathBuf, Entry>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub kind: Kind,
    /// The permission bits with the set-id and sticky bits.
    pub mode: u32,
    pub owner: (u32, u32),
    pub links: u64,
    pub stamp: Stamp,
}

/// The part of a file's status that changes with its bytes. Only the kernel sets the time of the last status
/// change, so equal stamps mean equal bytes, unless the second was taken within one tick of the clock after a
/// write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stamp {
    pub device: u64,
    pub inode: u64,
    pub len: u64,
    pub written: i128,
    pub changed: i128,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    Symlink(PathBuf),
    Pipe,
    Socket,
    Device(u64),
    /// A directory that was not read: too deep, or not accessible.
    Closed,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::File => f.write_str("file"),
            Kind::Directory => f.write_str("directory"),
            Kind::Symlink(target) => write!(f, "symbolic link to {}", target.display()),
            Kind::Pipe => f.write_str("pipe"),
            Kind::Socket => f.write_str("socket"),
            Kind::Device(_) => f.write_str("device"),
            Kind::Closed => f.write_str("unreadable directory"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub path: PathBuf,
    pub what: What,
}

impl Change {
    /// Whether it is bookkeeping: objects added to a repository, or what a client writes for itself. Neither changes
    /// the content of the project.
    pub fn is_bookkeeping(&self) -> bool {
        let parts: Vec<&OsStr> = self.path.iter().collect();
        let is_in = |place: &str| {
            let place: Vec<&OsStr> = Path::new(place).iter().collect();
            parts.windows(place.len()).any(|part| part == place)
        };
        let is_added = matches!(self.what, What::Added(_));
        let mut of_clients = Adapter::ALL.into_iter().flat_map(|client| client.bookkeeping);
        is_added && is_in(".git/objects") || of_clients.any(|place| is_in(place))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    Added(Kind),
    Deleted(Kind),
    Modified,
    /// The kind or the target of a link changed.
    Became {
        from: Kind,
        to: Kind,
    },
    Mode {
        from: u32,
        to: u32,
    },
    Owner,
    /// The file has more names than before, through which it could be written.
    Linked,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Added(kind) => write!(f, "{kind} added"),
            What::Deleted(kind) => write!(f, "{kind} deleted"),
            What::Modified => f.write_str("file modified"),
            What::Became { from, to } => write!(f, "{from} became a {to}"),
            What::Mode { from, to } => write!(f, "mode changed from {from:04o} to {to:04o}"),
            What::Owner => f.write_str("owner changed"),
            What::Linked => f.write_str("hard link added"),
        }
    }
}

/// Lists the differences in the order of the paths. `differ` decides whether the bytes of a regular file
/// differ whose stamps do.
pub fn compare(before: &Tree, after: &Tree, mut differ: impl FnMut(&Path) -> bool) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut add = |path: &Path, what| changes.push(Change { path: path.to_owned(), what });
    // Both are sorted, so one pass side by side is enough; paths are slow to compare.
    let (mut old_ones, mut new_ones) = (before.iter().peekable(), after.iter().peekable());
    loop {
        let order = match (old_ones.peek(), new_ones.peek()) {
            (Some((old, _)), Some((new, _))) => old.cmp(new),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => break,
        };
        let old = if order.is_le() { old_ones.next() } else { None };
        let new = if order.is_ge() { new_ones.next() } else { None };
        match (old, new) {
            (Some((path, old)), Some((_, new))) => {
                for what in differences(old, new, || differ(path)) {
                    add(path, what);
                }
            }
            (Some((path, old)), None) => add(path, What::Deleted(old.kind.clone())),
            (None, Some((path, new))) => add(path, What::Added(new.kind.clone())),
            (None, None) => break,
        }
    }
    changes
}

fn differences(old: &Entry, new: &Entry, differ: impl FnOnce() -> bool) -> Vec<What> {
    if old == new {
        return Vec::new();
    }
    if old.kind != new.kind {
        return vec![What::Became { from: old.kind.clone(), to: new.kind.clone() }];
    }
    let file = old.kind == Kind::File;
    let link = matches!(old.kind, Kind::Symlink(_));
    let mode = What::Mode { from: old.mode, to: new.mode };
    [
        (file && old.stamp != new.stamp && differ(), What::Modified),
        (!link && old.mode != new.mode, mode),
        (old.owner != new.owner, What::Owner),
        (file && new.links > old.links, What::Linked),
    ]
    .into_iter()
    .filter_map(|(different, what)| different.then_some(what))
    .collect()
}

/// The changes of a review by ruling.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    pub allowed: Vec<Change>,
    pub violations: Vec<Change>,
}

/// The execution, set-id and sticky bits.
pub const UNUSUAL: u32 = 0o7111;

impl AllowList {
    /// Rules on all changes, sorted by path. Changes inside of a directory that has to be restored are
    /// restored with it, whatever is allowed for their own paths.
    pub fn split(&self, changes: Vec<Change>, after: &Tree) -> Split {
        let mut split = Split::default();
        let mut broken: Vec<PathBuf> = Vec::new();
        for change in changes {
            broken.retain(|above| change.path.starts_with(above));
            let is_allowed = self.allows(&change, after);
            let replaced =
                matches!(change.what, What::Added(_) | What::Deleted(_) | What::Became { .. });
            let beneath = replaced && broken.iter().any(|above| *above != change.path);
            if is_allowed && !beneath {
                split.allowed.push(change);
                continue;
            }
            if replaced {
                broken.push(change.path.clone());
            }
            split.violations.push(change);
        }
        split
    }

    /// Whether one change is allowed. `after` is the tree after it.
    fn allows(&self, change: &Change, after: &Tree) -> bool {
        let permission = self.permission(&change.path);
        let now = after.get(&change.path);
        let plain = now.is_none_or(|entry| entry.links <= 1 && entry.mode & UNUSUAL == 0);
        let single = now.is_none_or(|entry| entry.links <= 1);
        let tree = permission == Permission::EditTree;
        let file = tree || permission == Permission::Edit;
        match &change.what {
            What::Added(Kind::File) => file && plain,
            What::Added(Kind::Directory) => tree || permission == Permission::Hold,
            What::Deleted(Kind::File) => file,
            What::Deleted(Kind::Directory) => tree,
            // The bits may have been unusual before; changing them is ruled on by itself.
            What::Modified => file && single,
            What::Added(_) | What::Deleted(_) | What::Became { .. } => false,
            What::Mode { .. } | What::Owner | What::Linked => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(kind: Kind) -> Entry {
        Entry { kind, mode: 0o644, owner: (1, 1), links: 1, stamp: Stamp::default() }
    }

    fn rulings(before: &Tree, after: &Tree) -> Vec<(String, bool)> {
        let list = AllowList::metareview(Path::new(""), Path::new(".autoloop"));
        compare(before, after, |_| true)
            .iter()
            .map(|change| {
                (format!("{} {}", change.path.display(), change.what), list.allows(change, after))
            })
            .collect()
    }

    fn change(path: &str, before: Option<Entry>, after: Option<Entry>) -> Vec<(String, bool)> {
        let tree = |entry: Option<Entry>| {
            entry.into_iter().map(|entry| (PathBuf::from(path), entry)).collect::<Tree>()
        };
        rulings(&tree(before), &tree(after))
    }

    #[test]
    fn only_ordinary_changes_of_allowed_files_stay() {
        const ALLOWED: bool = true;
        const VIOLATION: bool = false;
        let file = || Some(entry(Kind::File));
        let link = || Some(entry(Kind::Symlink("/etc/passwd".into())));
        let with = |edit: fn(&mut Entry)| {
            let mut changed = entry(Kind::File);
            edit(&mut changed);
            Some(changed)
        };
        let written = || with(|entry| entry.stamp.changed = 9);
        let told = |text: &str, ruling| vec![(text.to_owned(), ruling)];

        assert_eq!(
            change("harness.md", file(), written()),
            told("harness.md file modified", ALLOWED)
        );
        assert_eq!(change("src/a", file(), written()), told("src/a file modified", VIOLATION));
        assert_eq!(change("roles/a.md", None, file()), told("roles/a.md file added", ALLOWED));
        assert_eq!(change("roles/a.md", file(), None), told("roles/a.md file deleted", ALLOWED));
        assert_eq!(
            change("roles/a.md", file(), link()),
            told("roles/a.md file became a symbolic link to /etc/passwd", VIOLATION)
        );
        assert_eq!(
            change("roles/a.md", None, with(|entry| entry.mode = 0o755)),
            told("roles/a.md file added", VIOLATION)
        );
        assert_eq!(
            change("roles/a.md", None, with(|entry| entry.links = 2)),
            told("roles/a.md file added", VIOLATION)
        );
        assert_eq!(
            change("plan.md", file(), with(|entry| entry.mode = 0o666)),
            told("plan.md mode changed from 0644 to 0666", VIOLATION)
        );
        let both = with(|entry| {
            entry.stamp.changed = 9;
            entry.mode = 0o755;
        });
        assert_eq!(
            change("harness.md", file(), both),
            [
                ("harness.md file modified".to_owned(), ALLOWED),
                ("harness.md mode changed from 0644 to 0755".to_owned(), VIOLATION)
            ]
        );
        assert_eq!(
            change(".autoloop/logs/x", None, Some(entry(Kind::Pipe))),
            told(".autoloop/logs/x pipe added", VIOLATION)
        );
        assert_eq!(
            change(".autoloop/logs/x", None, Some(entry(Kind::Directory))),
            told(".autoloop/logs/x directory added", ALLOWED)
        );
        assert_eq!(
            change("roles", Some(entry(Kind::Directory)), None),
            told("roles directory deleted", VIOLATION)
        );
    }

    #[test]
    fn what_went_with_a_directory_comes_back_with_it() {
        let paths = |changes: &[Change]| -> Vec<String> {
            changes
                .iter()
                .map(|change| format!("{} {}", change.path.display(), change.what))
                .collect()
        };
        let tree = |entries: &[(&str, Kind)]| -> Tree {
            entries.iter().map(|(path, kind)| (PathBuf::from(path), entry(kind.clone()))).collect()
        };
        let before =
            tree(&[("roles", Kind::Directory), ("roles/a.md", Kind::File), ("z", Kind::File)]);
        let after = tree(&[("roles", Kind::Symlink("src".into())), ("roles-b", Kind::File)]);
        let changes = compare(&before, &after, |_| true);
        let split =
            AllowList::metareview(Path::new(""), Path::new(".autoloop")).split(changes, &after);
        assert_eq!(
            paths(&split.violations),
            [
                "roles directory became a symbolic link to src",
                "roles/a.md file deleted",
                "roles-b file added",
                "z file deleted"
            ]
        );
        assert!(split.allowed.is_empty());
    }

    #[test]
    fn bookkeeping_of_git_and_of_clients_is_no_change_of_the_project() {
        let added = What::Added(Kind::File);
        for (path, what, expected) in [
            (".git/objects/ab/cd", added.clone(), true),
            (".git/objects/ab/cd", What::Modified, false),
            ("sub/.git/objects/ab", added.clone(), true),
            (".git/opencode", What::Modified, true),
            (".git/opencode/x", added.clone(), true),
            (".git/hooks/opencode", added.clone(), false),
            ("opencode", added.clone(), false),
            (".git/config", What::Modified, false),
        ] {
            let change = Change { path: path.into(), what };
            assert_eq!(change.is_bookkeeping(), expected, "{path}");
        }
    }

    fn kinds() -> impl Strategy<Value = Kind> {
        prop_oneof![
            4 => Just(Kind::File),
            2 => Just(Kind::Directory),
            1 => "[a-c]".prop_map(|target| Kind::Symlink(target.into())),
            1 => Just(Kind::Pipe),
        ]
    }

    fn trees() -> impl Strategy<Value = Tree> {
        let path = prop::sample::select(vec![
            "harness.md",
            "roles",
            "roles/a.md",
            "roles/b.sh",
            "src/main.rs",
            ".autoloop/logs/x",
            ".autoloop/plan.md",
            ".git/config",
        ]);
        let entry = (kinds(), prop::sample::select(vec![0o644, 0o755]), 1..3u64, 0..3i128)
            .prop_map(|(kind, mode, links, changed)| Entry {
                kind,
                mode,
                owner: (0, 0),
                links,
                stamp: Stamp { changed, ..Stamp::default() },
            });
        prop::collection::btree_map(path.prop_map(PathBuf::from), entry, 0..8)
    }

    proptest! {
        /// Undoing every violation and keeping the rest leaves nothing that a second look objects to.
        #[test]
        fn what_is_left_after_putting_back_is_allowed(before in trees(), after in trees()) {
            let list = AllowList::metareview(Path::new(""), Path::new(".autoloop"));
            let mut left = after.clone();
            for change in compare(&before, &after, |_| true) {
                if !list.allows(&change, &after) {
                    match before.get(&change.path) {
                        Some(old) => left.insert(change.path, old.clone()),
                        None => left.remove(&change.path),
                    };
                }
            }
            for change in compare(&before, &left, |_| true) {
                prop_assert!(list.allows(&change, &left), "{:?}", change);
            }
            for change in compare(&before, &left, |_| true) {
                prop_assert!(list.permission(&change.path) != Permission::None, "{:?}", change);
            }
        }

        #[test]
        fn a_tree_does_not_differ_from_itself(tree in trees()) {
            prop_assert!(compare(&tree, &tree, |_| true).is_empty());
        }

        #[test]
        fn a_reader_may_change_nothing(before in trees(), after in trees()) {
            for change in compare(&before, &after, |_| true) {
                prop_assert!(!AllowList::read_only().allows(&change, &after));
            }
        }
    }
}
