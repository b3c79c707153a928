//! A merge with a conflict: begun in a worktree for an agent to complete, and judged by the files that it left.
//!
//! The merge is computed as any other, on objects, and checked out with the markers in the files and the index of
//! `git merge`, so that git can be used there. What an agent claims, stages or commits counts for nothing: its files
//! must be those of the merge, except the ones in conflict, and each of those must have something of both sides.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use autoloop_core::merge::named_files;

use super::capture::{Staged, check_lists};
use super::command::{Conflict, Git, Merge, Stage, split_at_tab};
use super::gitdir::replace;
use super::{GitError, Repository, Worktree};

/// Files of more bytes are not read.
const LARGEST: usize = 32 * 1024 * 1024;

/// A commit that cannot be merged into another without a decision about some files.
#[derive(Clone, Copy, Debug)]
pub struct Sides<'s> {
    pub head: &'s str,
    /// The commit to be merged, on top of the commit that its work began at.
    pub commit: &'s str,
}

/// What an agent made of a conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// A commit with both sides as its parents; of the same files always the same commit.
    Resolved(String),
    Refused(String),
}

impl Repository {
    /// Begins a merge in a worktree in which the first side is checked out.
    pub fn begin_merge(&self, worktree: &Worktree, sides: Sides<'_>) -> Result<(), GitError> {
        let Sides { head, commit } = sides;
        let private = self.pinned.open(&self.git)?;
        let attributes = self.git.first_parent(commit)?;
        let merge = self.automatic(&private.with_attributes(&attributes), sides)?;
        let git = self.pinned.as_configured(&worktree.git)?;
        git.run(["read-tree", "-m", "-u", head, &merge.tree])?;
        let mut entries = Vec::new();
        for file in merge.files() {
            // The entry of the merged tree, which has the markers, is not one of the versions.
            let none = format!("0 {}\t", "0".repeat(head.len()));
            entries.extend([none.as_bytes(), file.as_os_str().as_encoded_bytes(), b"\0"].concat());
        }
        for Stage { mode, object, number, path } in &merge.stages {
            let about = format!("{mode} {object} {number}\t");
            entries.extend([about.as_bytes(), path.as_os_str().as_encoded_bytes(), b"\0"].concat());
        }
        private.with_input(&git, &entries)?.run(["update-index", "-z", "--index-info"])?;
        let message = format!("Merge {commit}\n\n# Conflicts:\n");
        let message = merge.files().iter().fold(message, |mut message, file| {
            // Writing to a string cannot fail.
            let _ = writeln!(message, "#\t{}", file.display());
            message
        });
        let write = |name, text: &str| replace(&worktree.git_dir.join(name), text.as_bytes());
        write("MERGE_MSG", &message)?;
        write("MERGE_MODE", "")?;
        write("MERGE_HEAD", &format!("{commit}\n"))
    }

    /// Judges the files in the place of the worktree in which a merge was begun. Nothing is changed there.
    pub fn judge_merge(
        &self,
        dir: &Path,
        sides: Sides<'_>,
        message: &str,
        except: &[&Path],
    ) -> Result<Resolution, GitError> {
        check_lists(dir)?;
        let attributes = self.git.first_parent(sides.commit)?;
        self.files_in_place(dir)?.with_captured(sides.head, except, |staged| {
            let merge = self.automatic(&staged.private.with_attributes(&attributes), sides)?;
            let left = Left { git: staged.private.git(), sides, merge: &merge, staged };
            let objections = left.objections()?;
            if !objections.is_empty() {
                return Ok(Resolution::Refused(objections.join("; ")));
            }
            let git = left.git.with_identity()?.with_dates_of(sides.head)?;
            let parents = [sides.head, sides.commit];
            let commit = git.commit_tree(&staged.captured.tree, &parents, message)?;
            Ok(Resolution::Resolved(commit))
        })
    }

    /// The merge as far as git can complete it.
    fn automatic(&self, git: &Git, sides: Sides<'_>) -> Result<Conflict, GitError> {
        let complete = |tree| Conflict { tree, stages: Vec::new() };
        Ok(match git.merge(sides.head, sides.commit)? {
            Merge::FastForward => complete(self.tree_of(sides.commit)?),
            Merge::Tree(tree) => complete(tree),
            Merge::Conflict(conflict) => conflict,
        })
    }
}

/// The files that an agent left.
struct Left<'l> {
    git: &'l Git,
    sides: Sides<'l>,
    merge: &'l Conflict,
    staged: &'l Staged<'l>,
}

/// The versions of a file in conflict.
#[derive(Clone, Copy, Default)]
struct Versions<'v> {
    ancestor: Option<&'v Stage>,
    /// In the commit that the other is merged into.
    ours: Option<&'v Stage>,
    theirs: Option<&'v Stage>,
}

/// Files with something to object to.
#[derive(Default)]
struct Objections {
    deleted: Vec<PathBuf>,
    markers: Vec<PathBuf>,
    too_large: Vec<PathBuf>,
    /// Nothing of the work that is merged is in them.
    only_ours: Vec<PathBuf>,
    /// Nothing of what was there before is in them.
    only_theirs: Vec<PathBuf>,
    /// Nothing of either is in them.
    neither: Vec<PathBuf>,
    changed: Vec<PathBuf>,
}

impl Left<'_> {
    /// Why the files are no merge of both sides, in words for a person; empty if they are one.
    fn objections(&self) -> Result<Vec<String>, GitError> {
        let (tree, unmerged) = (&self.staged.captured.tree, &self.staged.captured.unmerged);
        if !self.merge.stages.is_empty() {
            let sides = [(self.sides.head, "the project"), (self.sides.commit, "the work")];
            for (side, whose) in sides {
                if *tree == self.git.tree_of(side)? {
                    let why = format!("the merge was given up: its files are those of {whose}");
                    return Ok(vec![why]);
                }
            }
        }
        let mut found = Objections::default();
        self.compare_others(&mut found)?;
        self.compare_conflicting(&mut found)?;
        Ok([
            ("not merged in the index", unmerged),
            ("conflict markers left", &found.markers),
            ("deleted, although both sides changed it", &found.deleted),
            ("the changes of the work are missing", &found.only_ours),
            ("the changes in the project are missing", &found.only_theirs),
            ("the changes of both are missing", &found.neither),
            ("changed, but not in conflict", &found.changed),
            ("too large to be checked", &found.too_large),
        ]
        .into_iter()
        .filter(|(_, files)| !files.is_empty())
        .map(|(what, files)| format!("{what} ({})", named_files(files)))
        .collect())
    }

    /// Compares the files that are not in conflict with those of the merge. New ones are fine.
    fn compare_others(&self, found: &mut Objections) -> Result<(), GitError> {
        let Sides { head, commit } = self.sides;
        let in_conflict: BTreeSet<PathBuf> = self.merge.files().into_iter().collect();
        let mut differing = self.differing_from(&self.merge.tree)?;
        differing.retain(|path, _| !in_conflict.contains(path));
        if differing.is_empty() {
            return Ok(());
        }
        let (from_ours, from_theirs) = (self.differing_from(head)?, self.differing_from(commit)?);
        for (path, change) in differing {
            let changes = [Some(&change), from_ours.get(&path), from_theirs.get(&path)];
            match changes {
                [_, None, _] => found.only_ours.push(path),
                [_, _, None] => found.only_theirs.push(path),
                all if all.iter().all(|change| *change == Some(&Change::Added)) => {}
                _ => found.changed.push(path),
            }
        }
        Ok(())
    }

    fn compare_conflicting(&self, found: &mut Objections) -> Result<(), GitError> {
        let mut files = BTreeMap::<&Path, Versions<'_>>::new();
        for stage in &self.merge.stages {
            let versions = files.entry(&stage.path).or_default();
            match stage.number {
                1 => versions.ancestor = Some(stage),
                2 => versions.ours = Some(stage),
                _ => versions.theirs = Some(stage),
            }
        }
        let left = self.objects(files.keys().copied())?;
        let mut texts = Vec::new();
        for (path, versions) in files {
            let now = left.get(path);
            let is_now = |stage: Option<&Stage>| now == stage.map(|stage| &stage.object);
            let place = match (versions.ours, versions.theirs) {
                // Both sides renamed or deleted it.
                (None, None) => continue,
                _ if versions.ancestor.is_some() && is_now(versions.ancestor) => &mut found.neither,
                (ours, _) if is_now(ours) => &mut found.only_ours,
                (_, theirs) if is_now(theirs) => &mut found.only_theirs,
                _ => match now {
                    None => &mut found.deleted,
                    Some(now) => match self.text(now)? {
                        None => &mut found.too_large,
                        Some(text) => {
                            texts.push((path, versions, text));
                            continue;
                        }
                    },
                },
            };
            place.push(path.to_owned());
        }
        let words: BTreeSet<&[u8]> = texts.iter().flat_map(|(_, _, text)| words(text)).collect();
        for (path, versions, text) in &texts {
            let read = |stage: Option<&Stage>| match stage.filter(|stage| stage.is_file()) {
                Some(stage) => Ok(self.text(&stage.object)?.unwrap_or_default()),
                None => Ok::<_, GitError>(Vec::new()),
            };
            let ancestor = read(versions.ancestor)?;
            let (ours, theirs) = (read(versions.ours)?, read(versions.theirs)?);
            if has_new_marker(text, &[&ancestor, &ours, &theirs]) {
                found.markers.push((*path).to_owned());
                continue;
            }
            if is_lost(&theirs, &[&ancestor, &ours], &words) {
                found.only_ours.push((*path).to_owned());
            }
            if is_lost(&ours, &[&ancestor, &theirs], &words) {
                found.only_theirs.push((*path).to_owned());
            }
        }
        Ok(())
    }

    /// How the files differ from those of a commit or tree.
    fn differing_from(&self, from: &str) -> Result<BTreeMap<PathBuf, Change>, GitError> {
        let words = ["diff-tree", "-r", "-z", "--no-renames", "--name-status"];
        let output = self.git.run(words.into_iter().chain([from, &self.staged.captured.tree]))?;
        let listed = output.names();
        let pairs = listed.chunks_exact(2).map(|pair| match pair[0].to_str() {
            Some("A") => (pair[1].clone(), Change::Added),
            _ => (pair[1].clone(), Change::Other),
        });
        Ok(pairs.collect())
    }

    /// The objects of those files that exist.
    fn objects<'p>(
        &'p self,
        paths: impl Iterator<Item = &'p Path>,
    ) -> Result<BTreeMap<PathBuf, String>, GitError> {
        let tree = &*self.staged.captured.tree;
        let words = ["ls-tree", "-r", "-z", "--full-tree", tree, "--"];
        let words = words.map(Path::new).into_iter().chain(paths);
        let output = self.git.with("GIT_LITERAL_PATHSPECS", "1").run(words)?;
        // As `100644 blob 0123…\tpath`.
        let entry = |line: &PathBuf| {
            let (about, path) = split_at_tab(line)?;
            Some((path.to_owned(), about.split(' ').nth(2)?.to_owned()))
        };
        Ok(output.names().iter().filter_map(entry).collect())
    }

    /// The content of a file; `None` if it is too large. A submodule has none.
    fn text(&self, object: &str) -> Result<Option<Vec<u8>>, GitError> {
        let output = self.git.keeping(LARGEST / 2).try_run(["cat-file", "blob", object])?;
        Ok((output.out.left_out() == 0).then(|| output.bytes()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Added,
    Other,
}

/// Whether a text has a line of a conflict that none of its versions has.
fn has_new_marker(text: &[u8], versions: &[&[u8]]) -> bool {
    let mut markers = lines(text).filter(|line| is_marker(line)).peekable();
    if markers.peek().is_none() {
        return false;
    }
    let known: BTreeSet<&[u8]> = versions.iter().flat_map(|version| lines(version)).collect();
    markers.any(|line| !known.contains(line))
}

fn is_marker(line: &[u8]) -> bool {
    let begins = |mark: &[u8]| {
        line.strip_prefix(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with(b" "))
    };
    line == b"=======" || [b"<<<<<<<", b"|||||||", b">>>>>>>"].into_iter().any(|it| begins(it))
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end)
}

/// Whether one side brought new words, and none of them is left.
fn is_lost(side: &[u8], others: &[&[u8]], left: &BTreeSet<&[u8]>) -> bool {
    let known: BTreeSet<&[u8]> = others.iter().flat_map(|other| words(other)).collect();
    let mut new = words(side).filter(|word| !known.contains(word)).peekable();
    new.peek().is_some() && !new.any(|word| left.contains(word))
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
    text.split(move |byte| !is_part(byte)).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests;
