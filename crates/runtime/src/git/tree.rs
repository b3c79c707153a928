//! One checkout: what is left lying in it, and what changed in it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::command::{Git, Said};
use super::stray::{files_from, stands_for};
use super::{GitError, Offer, contains, guard, reference, under_way};

/// Who commits where nobody said.
const NOBODY: (&str, &str) = ("autoloop", "autoloop@localhost");

/// A checkout, by its top directory.
#[derive(Clone)]
pub struct Tree {
    git: Git,
    git_dir: PathBuf,
}

/// Where a checkout stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stand {
    /// The branch, by its whole name.
    branch: Option<String>,
    commit: String,
}

/// What came of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gathered {
    /// The last commit of its branch.
    pub tip: String,
    /// What was begun in it and not ended, such as a merge: its files hardly are as anybody wants them.
    pub unfinished: Option<String>,
}

impl Tree {
    /// The tree at `dir`, which is to have this directory of git, in this repository.
    pub(super) fn at(
        git: &Git,
        dir: &Path,
        (own, common): (&Path, &Path),
    ) -> Result<Tree, GitError> {
        let git = git.at(dir);
        let not_a_tree = || GitError::NotATree(dir.to_owned());
        let real = |path: &Path| path.canonicalize().map_err(|_| not_a_tree());
        let wanted = [real(own)?, real(common)?, real(dir)?];
        let questions = ["--absolute-git-dir", "--git-common-dir", "--show-toplevel"];
        let said = git.ask(["rev-parse", "--path-format=absolute"].iter().chain(&questions))?;
        // What git itself finds wrong with it has this code; any other says nothing about the tree.
        if !matches!(said.code, 0 | 128) {
            return Err(said.failure());
        }
        let answers: Vec<PathBuf> =
            said.line().lines().filter_map(|path| real(Path::new(path)).ok()).collect();
        // Where the tree has lost its link, git takes the one around it for the one that is meant.
        match said.code == 0 && answers == wanted {
            true => Ok(Tree { git, git_dir: own.to_owned() }),
            false => Err(not_a_tree()),
        }
    }

    /// Its top directory.
    pub fn dir(&self) -> &Path {
        self.git.dir()
    }

    /// The commit that is checked out.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn head(&self) -> Result<String, GitError> {
        Ok(self.git.run(["rev-parse", "--verify", "HEAD^{commit}"])?.line())
    }

    /// Where it stands: the branch that is checked out, if one is, and the commit.
    ///
    /// # Errors
    ///
    /// When there is no commit.
    pub fn stand(&self) -> Result<Stand, GitError> {
        Ok(Stand { branch: stands_for(&self.git, "HEAD")?, commit: self.head()? })
    }

    /// Has it stand where it stood. No file is touched, and the index is as in that commit.
    ///
    /// # Errors
    ///
    /// When git cannot do it.
    pub fn stand_at(&self, stand: &Stand) -> Result<(), GitError> {
        match &stand.branch {
            Some(branch) => {
                self.git.run(["symbolic-ref", "HEAD", branch])?;
                self.git.run(["update-ref", branch, &stand.commit])?;
            }
            None => drop(self.git.run(["update-ref", "--no-deref", "HEAD", &stand.commit])?),
        }
        self.git.run(["reset", "--quiet", "--mixed"]).map(drop)
    }

    /// Makes a commit of everything that is not committed, but for what is ignored or in one of the
    /// directories `except`, relative to the top. `None` when there is nothing.
    ///
    /// # Errors
    ///
    /// When something cannot be added or committed.
    pub fn commit_all(&self, message: &str, except: &[&Path]) -> Result<Option<String>, GitError> {
        add_all(&self.git, except)?;
        let staged = self.git.ask(["diff", "--cached", "--quiet", "--no-ext-diff"])?;
        if staged.code == 0 && under_way(&self.git_dir).is_none() {
            return Ok(None);
        }
        let quietly = ["--quiet", "--no-verify", "--allow-empty", "--cleanup=verbatim"];
        let words = ["commit"].into_iter().chain(quietly).chain(["-m", message]);
        identified(&self.git)?.run(words)?;
        self.head().map(Some)
    }

    /// Commits what is left in a tree that nobody works in any more, and moves its branch on to it,
    /// wherever somebody went in the tree. Work that does not follow from the branch has another branch
    /// in the end, and is told as unfinished. Locks that a killed git left are removed. No other branch
    /// moves, and none that moved meanwhile is undone.
    ///
    /// # Errors
    ///
    /// When something cannot be committed. Nothing is lost then, and the tree has it.
    pub fn gather(&self, offer: &Offer<'_>, except: &[&Path]) -> Result<Gathered, GitError> {
        let Offer { branch, message, .. } = *offer;
        let tree = self.alone()?;
        let git = &tree.git;
        let unmerged = git.run(["ls-files", "-z", "--unmerged"])?.out.bytes > 0;
        let unfinished = under_way(&tree.git_dir).or(unmerged.then_some("a merge"));
        tree.take_off(offer)?;
        tree.commit_all(message, except)?;
        let head = tree.head()?;
        let set = |name: &str| move_reference(git, &reference(name), &head);
        let said = git.ask(["rev-parse", "--verify", "--quiet", &reference(branch)])?;
        let tip = said.line();
        if said.code != 0 || contains(git, &head, &tip)? {
            set(branch)?;
            return Ok(Gathered { tip: head, unfinished: unfinished.map(str::to_owned) });
        }
        if contains(git, &tip, &head)? {
            return Ok(Gathered { tip, unfinished: unfinished.map(str::to_owned) });
        }
        let beside = beside(branch);
        set(&beside)?;
        let unfinished = Some(format!("work beside its branch (kept on {beside})"));
        Ok(Gathered { tip, unfinished })
    }

    /// What is neither committed nor ignored even after [`Tree::gather`]: repositories in the tree,
    /// and submodules, whose history git keeps with the tree.
    ///
    /// # Errors
    ///
    /// When git cannot say.
    pub fn left_over(&self, except: &[&Path]) -> Result<Vec<PathBuf>, GitError> {
        let mut left = untracked(&self.git)?;
        left.retain(|path| !except.iter().any(|except| path.starts_with(except)));
        left.extend(self.submodules()?);
        Ok(left)
    }

    /// The submodules that somebody has looked into, or has had.
    fn submodules(&self) -> Result<Vec<PathBuf>, GitError> {
        let kept = fs::read_dir(self.git_dir.join("modules"));
        let kept = kept.into_iter().flatten().flatten().map(|entry| entry.file_name().into());
        let listed = self.git.run(["ls-files", "-z", "--stage"])?.names();
        let linked = listed.iter().filter_map(|entry| {
            let rest = entry.as_os_str().as_bytes().strip_prefix(b"160000 ")?;
            let start = rest.iter().position(|byte| *byte == b'\t')? + 1;
            Some(PathBuf::from(OsStr::from_bytes(&rest[start..])))
        });
        let mut found: Vec<PathBuf> =
            linked.filter(|path| self.dir().join(path).join(".git").exists()).chain(kept).collect();
        found.sort();
        found.dedup();
        Ok(found)
    }

    /// Everything that changed since a commit: commits, what is staged, what is not, and new files
    /// that are not ignored; a summary first. More than `limit` bytes are told as their beginning,
    /// their end and how much is between. Nothing is changed by asking.
    ///
    /// # Errors
    ///
    /// When git cannot say.
    pub fn diff(&self, base: &str, limit: usize, except: &[&Path]) -> Result<String, GitError> {
        let shown = |git: &Git| shown(&git.keeping(limit / 2), base);
        Ok(self.with_all_added(except, shown)?.out.text())
    }

    /// A commit that holds everything as it is now, for [`diff`](Tree::diff) to tell later changes
    /// from: the one that is checked out, or one on no branch where something is not committed.
    ///
    /// # Errors
    ///
    /// When git cannot make it.
    pub fn anchor(&self, message: &str, except: &[&Path]) -> Result<String, GitError> {
        let head = self.head()?;
        self.with_all_added(except, |git| {
            let tree = git.run(["write-tree"])?.line();
            if tree == git.run(["rev-parse", "--verify", &format!("{head}^{{tree}}")])?.line() {
                return Ok(head);
            }
            let words = ["commit-tree", &tree, "-p", &head, "-m", message];
            Ok(identified(git)?.run(words)?.line())
        })
    }

    /// Does something with an index of our own that has everything, so that the one of the tree stays
    /// as it is.
    fn with_all_added<T>(
        &self,
        except: &[&Path],
        done: impl FnOnce(&Git) -> Result<T, GitError>,
    ) -> Result<T, GitError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let index = self.git_dir.join(format!("autoloop-index-{}-{count}", std::process::id()));
        let removed = || match fs::remove_file(&index) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(GitError::io("remove", &index)(error))
            }
            _ => Ok(()),
        };
        removed()?;
        let own = self.git_dir.join("index");
        if own.exists() {
            fs::copy(&own, &index).map_err(GitError::io("copy", &own))?;
        }
        let git = self.git.with("GIT_INDEX_FILE", &index);
        let done = add_all(&git, except).and_then(|()| done(&git));
        removed()?;
        done
    }

    /// Takes a tree that nobody works in at the moment off a branch that is not its own, which others may
    /// move.
    ///
    /// # Errors
    ///
    /// When git cannot do it.
    pub fn come_back(&self, offer: &Offer<'_>) -> Result<(), GitError> {
        match stands_for(&self.git, "HEAD")? {
            Some(branch) if branch != reference(offer.branch) => self.alone()?.take_off(offer),
            _ => Ok(()),
        }
    }

    /// The tree, of which we are sure that no other git works in it: one that we started before we were
    /// killed may still be at it, and others can have left locks.
    fn alone(&self) -> Result<Tree, GitError> {
        let lock = guard::lock(&self.git_dir.join("autoloop.lock"), self.git.world())?;
        let tree = Tree { git: self.git.holding(lock), ..self.clone() };
        tree.break_locks()?;
        Ok(tree)
    }

    /// Takes the tree off whatever branch it is on, and its own branch off whatever that is a name for.
    /// A branch that is not its own may have been moved from elsewhere, as that of the project is
    /// whenever work is brought back: then the files are those of an earlier commit, and seem to undo
    /// what came since. A branch without commits stays, which is nobody else's.
    fn take_off(&self, offer: &Offer<'_>) -> Result<(), GitError> {
        let own = reference(offer.branch);
        let is_name = stands_for(&self.git, &own)?.is_some();
        if let Some(branch) = stands_for(&self.git, "HEAD")? {
            let commit = match (branch == own, self.born()?) {
                (true, Some(head)) => Some(head),
                (false, None) => None,
                _ => Some(self.files_from(offer.base)),
            };
            if let Some(commit) = commit {
                move_reference(&self.git, "HEAD", &commit)?;
            }
        }
        if is_name && let Some(head) = self.born()? {
            move_reference(&self.git, &own, &head)?;
        }
        Ok(())
    }

    /// The commit that its files come from; where git does not say, the one that it began with, which
    /// is none too late.
    fn files_from(&self, base: &str) -> String {
        let known = files_from(&self.git, &self.git_dir);
        let is_there = |commit: &String| contains(&self.git, commit, commit).unwrap_or(false);
        known.filter(is_there).unwrap_or_else(|| base.to_owned())
    }

    /// The commit that is checked out, if there is one.
    fn born(&self) -> Result<Option<String>, GitError> {
        let said = self.git.ask(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])?;
        Ok((said.code == 0).then(|| said.line()))
    }

    /// Removes what a git left that was killed: nobody else works in the tree.
    fn break_locks(&self) -> Result<(), GitError> {
        for name in ["index.lock", "HEAD.lock"] {
            let path = self.git_dir.join(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(GitError::io("remove", path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The branch of work that does not follow from a branch.
pub(super) fn beside(branch: &str) -> String {
    format!("{branch}-beside")
}

/// Has a name stand for a commit: the name itself, and not what it may stand for by now.
fn move_reference(git: &Git, name: &str, commit: &str) -> Result<(), GitError> {
    git.run(["update-ref", "--no-deref", "-m", "gathered", name, commit]).map(drop)
}

fn shown(git: &Git, base: &str) -> Result<Said, GitError> {
    let plain =
        ["--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/"];
    let words = ["diff", "--cached", "--patch-with-stat", "--submodule=short"].into_iter();
    // Whoever made the changes has no say in which of them are shown.
    git.with("GIT_ATTR_SOURCE", base).run(words.chain(plain).chain([base, "--"]))
}

/// Stages everything but what is ignored, excepted, or in a repository of its own, of which git would
/// keep nothing but the name of a commit. What a sparse checkout leaves out is staged as well where
/// somebody wrote it.
fn add_all(git: &Git, except: &[&Path]) -> Result<(), GitError> {
    let nested = untracked(git)?.into_iter().filter(|path| is_repository(path));
    let nested = nested.map(|path| spec(":(exclude,top,literal)", &path));
    let words = ["add", "--all", "--sparse", "--ignore-errors", "--", ":/"].map(OsString::from);
    git.run(words.into_iter().chain(nested))?;
    for path in except {
        let words = ["reset", "--quiet", "--"].map(OsString::from);
        git.run(words.into_iter().chain([spec(":(top,literal)", path)]))?;
    }
    Ok(())
}

/// The files that are neither tracked nor ignored. A repository in the tree is one of them.
fn untracked(git: &Git) -> Result<Vec<PathBuf>, GitError> {
    Ok(git.run(["ls-files", "-z", "--others", "--exclude-standard"])?.names())
}

/// Git tells a repository in the tree from a file by the slash behind it.
fn is_repository(listed: &Path) -> bool {
    listed.as_os_str().as_bytes().ends_with(b"/")
}

fn spec(magic: &str, path: &Path) -> OsString {
    let mut spec = OsString::from(magic);
    spec.push(path);
    spec
}

/// Git with somebody who commits: the person, or us where git does not know the person.
pub(super) fn identified(git: &Git) -> Result<Git, GitError> {
    let known = git.ask(["-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT"])?;
    if known.code == 0 {
        return Ok(git.clone());
    }
    let (name, email) = NOBODY;
    let author = git.with("GIT_AUTHOR_NAME", name).with("GIT_AUTHOR_EMAIL", email);
    Ok(author.with("GIT_COMMITTER_NAME", name).with("GIT_COMMITTER_EMAIL", email))
}

#[cfg(test)]
mod tests;
