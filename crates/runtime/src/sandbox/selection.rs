//! Which files are copied when there are more than may be.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use autoloop_core::permissions::{Kind, Permission, Tree};

use super::git::{Contents, Repository};
use super::listing::Trees;
use super::restore::Source;
use super::scope::{Limits, Scope};

/// The order in which files are copied when there are more than may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// The loop's own files and those of git, but for its objects.
    Own,
    /// Changed and new files, of which there is no other copy.
    Work,
    /// Git's objects, from which unchanged files are restored.
    Objects,
    Clean,
    Ignored,
}

/// Where files may come from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Selection<'s> {
    pub(super) scope: &'s Scope,
    pub(super) trees: &'s Trees,
    pub(super) before: &'s Tree,
    pub(super) repository: Option<&'s Repository>,
}

impl Selection<'_> {
    /// The files that are copied, sorted, and those that git can restore.
    pub(super) fn choose(&self) -> (Vec<PathBuf>, BTreeMap<PathBuf, Source>) {
        let files = || self.before.iter().filter(|(_, entry)| entry.kind == Kind::File);
        let mut left = self.scope.limits;
        let total: u64 = files().map(|(_, entry)| entry.stamp.len).sum();
        if total <= left.bytes && files().count() <= left.files {
            return (files().map(|(path, _)| path.clone()).collect(), BTreeMap::new());
        }
        let tops =
            self.repository.into_iter().flat_map(|it| [&it.top].into_iter().chain(&it.siblings));
        let worktrees: Vec<(&Path, Contents)> =
            tops.map(|top| (top.as_path(), Contents::of(top))).collect();
        let mut ranked: Vec<(Rank, u64, &PathBuf)> = files()
            .map(|(path, entry)| (self.rank(path, &worktrees), entry.stamp.len, path))
            .collect();
        ranked.sort();
        let (mut kept, mut from_git) = (Vec::new(), BTreeMap::new());
        for (_, len, path) in ranked {
            if len <= left.bytes && left.files > 0 {
                left = Limits { bytes: left.bytes - len, files: left.files - 1 };
                kept.push(path.clone());
            } else if let Some(source) = self.in_git(path, &worktrees) {
                from_git.insert(path.clone(), source);
            }
        }
        kept.sort();
        (kept, from_git)
    }

    fn rank(&self, relative: &Path, worktrees: &[(&Path, Contents)]) -> Rank {
        let path = self.trees.project.join(relative);
        if let Some(repository) = self.repository
            && let Ok(inside) = path.strip_prefix(&repository.common)
        {
            return if inside.starts_with("objects") { Rank::Objects } else { Rank::Own };
        }
        let is_own = self.scope.allow.permission(relative) != Permission::None;
        if is_own || relative.starts_with(&self.scope.state_dir) {
            return Rank::Own;
        }
        let contents = worktrees
            .iter()
            .find_map(|(top, contents)| Some((contents, path.strip_prefix(top).ok()?)));
        match contents {
            Some((contents, inside)) if contents.clean.contains_key(inside) => Rank::Clean,
            Some((contents, inside)) if contents.ignores(inside) => Rank::Ignored,
            _ => Rank::Work,
        }
    }

    fn in_git(&self, relative: &Path, worktrees: &[(&Path, Contents)]) -> Option<Source> {
        let path = self.trees.project.join(relative);
        worktrees.iter().find_map(|(top, contents)| {
            let object = contents.clean.get(path.strip_prefix(top).ok()?)?.clone();
            Some(Source::Git { top: top.to_path_buf(), object })
        })
    }
}
