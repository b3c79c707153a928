//! Which files are copied when there are more than may be.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use autoloop_core::permissions::{Kind, Permission, Tree};

use super::git::{Contents, Repository};
use super::restore::Source;
use super::scope::{Limits, Watched};
use super::walk::Ground;

/// What there is to choose from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice<'s> {
    pub(super) watched: &'s Watched,
    pub(super) ground: &'s Ground,
    pub(super) before: &'s Tree,
    pub(super) repository: Option<&'s Repository>,
}

impl Choice<'_> {
    /// Which files are copied, and which can be had from git.
    pub(super) fn choose(&self) -> (Vec<PathBuf>, BTreeMap<PathBuf, Source>) {
        let files = || self.before.iter().filter(|(_, entry)| entry.kind == Kind::File);
        let limits = self.watched.limits;
        let total: u64 = files().map(|(_, entry)| entry.stamp.len).sum();
        if total <= limits.bytes && files().count() <= limits.files {
            return (files().map(|(path, _)| path.clone()).collect(), BTreeMap::new());
        }
        let tops = self
            .repository
            .map(|found| [std::slice::from_ref(&found.top), &found.siblings].concat())
            .unwrap_or_default();
        let trees: Vec<(PathBuf, Contents)> =
            tops.into_iter().map(|top| (top.clone(), Contents::of(&top))).collect();
        let mut ranked: Vec<(Rank, u64, &PathBuf)> =
            files().map(|(path, entry)| (self.rank(path, &trees), entry.stamp.len, path)).collect();
        ranked.sort();
        let (mut left, mut kept) = (limits, Vec::new());
        let mut from_git = BTreeMap::new();
        for (_, len, path) in ranked {
            if len <= left.bytes && left.files > 0 {
                left = Limits { bytes: left.bytes - len, files: left.files - 1 };
                kept.push(path.clone());
            } else if let Some(source) = self.in_git(path, &trees) {
                from_git.insert(path.clone(), source);
            }
        }
        kept.sort();
        (kept, from_git)
    }

    fn rank(&self, seen: &Path, trees: &[(PathBuf, Contents)]) -> Rank {
        let path = self.ground.project.join(seen);
        if let Some(repository) = self.repository
            && let Ok(inside) = path.strip_prefix(&repository.common)
        {
            return if inside.starts_with("objects") { Rank::Objects } else { Rank::Own };
        }
        let own = self.watched.allow.permission(seen) != Permission::None;
        if own || seen.starts_with(&self.watched.state_dir) {
            return Rank::Own;
        }
        let contents = trees.iter().find_map(|(top, contents)| {
            path.strip_prefix(top).ok().map(|inside| (contents, inside.to_owned()))
        });
        match contents {
            Some((contents, inside)) if contents.clean.contains_key(&inside) => Rank::Clean,
            Some((contents, inside)) if contents.ignores(&inside) => Rank::Ignored,
            _ => Rank::Work,
        }
    }

    fn in_git(&self, seen: &Path, trees: &[(PathBuf, Contents)]) -> Option<Source> {
        let path = self.ground.project.join(seen);
        trees.iter().find_map(|(top, contents)| {
            let object = contents.clean.get(path.strip_prefix(top).ok()?)?.clone();
            Some(Source::Git { top: top.clone(), object })
        })
    }
}

/// In which order files are copied when there is more than may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// The loop's own files and those of git, but for its objects.
    Own,
    /// What nobody else has: changed and new files.
    Work,
    /// The objects, from which clean files come back.
    Objects,
    /// What git has.
    Clean,
    /// What can be made again.
    Ignored,
}
