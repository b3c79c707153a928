//! One checkout: what is left lying in it, and what changed in it.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::capture::nested;
use super::command::Git;
use super::detach::{files_from, stands_for};
use super::private::Pinned;
use super::{
    GitError, Offer, Repository, contains, gitdir, reference, repo_lock, tree_of, under_way,
};

/// Who commits where nobody said.
const NOBODY: (&str, &str) = ("autoloop", "autoloop@localhost");

/// A checkout, by its top directory.
#[derive(Clone)]
pub struct Tree {
    pub(super) git: Git,
    pub(super) git_dir: PathBuf,
    pub(super) pinned: Pinned,
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
    /// The tree object that holds its files.
    pub tree: String,
    /// What was begun in it and not ended, such as a merge: its files hardly are as anybody wants them.
    pub unfinished: Option<String>,
}

impl Tree {
    /// The tree at `dir`, which is to have this directory of git, in this repository.
    pub(super) fn at(repository: &Repository, dir: &Path, own: &Path) -> Result<Tree, GitError> {
        let Repository { git, common, pinned, .. } = repository;
        if !gitdir::belongs(dir, own, common) {
            return Err(GitError::NotATree(dir.to_owned()));
        }
        // Git is told both, so that it does not look for them: where a tree has lost its link, it would
        // take the one around it, and a setting can name another.
        let git = git.at(dir).with("GIT_DIR", own).with("GIT_WORK_TREE", dir);
        Ok(Tree { git, git_dir: own.to_owned(), pinned: pinned.clone() })
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
                self.git.run(["update-ref", "--no-deref", branch, &stand.commit])?;
            }
            None => drop(self.git.run(["update-ref", "--no-deref", "HEAD", &stand.commit])?),
        }
        self.git.run(["reset", "--quiet", "--mixed"]).map(drop)
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
        let Offer { branch, base, message } = *offer;
        let tree = self.alone()?;
        let git = &tree.git;
        let captured = tree.capture(base, except)?;
        let unfinished = under_way(&tree.git_dir).or(captured.unmerged.then_some("a merge"));
        let born = tree.born()?;
        let born = tree.take_off(offer, born.as_deref())?.or(born);
        let tip = tree.own_branch(branch, born.as_deref())?;
        let head = tree.commit_left(born.as_deref(), &captured.tree, message)?;
        let set = |name: &str| move_reference(git, &reference(name), &head);
        let files = captured.tree;
        let gathered = |tip| {
            let unfinished = unfinished.map(str::to_owned);
            Gathered { tip, tree: files.clone(), unfinished }
        };
        let Some(tip) = tip else {
            set(branch)?;
            return Ok(gathered(head));
        };
        if tip == head {
            return Ok(gathered(tip));
        }
        if contains(git, &head, &tip)? {
            set(branch)?;
            return Ok(gathered(head));
        }
        if contains(git, &tip, &head)? {
            let unfinished = Some("work on its branch that its files do not have".to_owned());
            return Ok(Gathered { unfinished, ..gathered(tip) });
        }
        let beside = beside(branch);
        set(&beside)?;
        let unfinished = Some(format!("work beside its branch (kept on {beside})"));
        Ok(Gathered { unfinished, ..gathered(tip) })
    }

    /// Commits files that are not as in the commit that is checked out, and has it checked out. The index stays as
    /// it is: the tree goes away, or a person looks at what is in it.
    fn commit_left(
        &self,
        head: Option<&str>,
        tree: &str,
        message: &str,
    ) -> Result<String, GitError> {
        if let Some(head) = head
            && tree_of(&self.git, head)? == tree
        {
            return Ok(head.to_owned());
        }
        let commit = commit_tree(&identified(&self.git)?, tree, head.as_slice(), message)?;
        move_reference(&self.git, "HEAD", &commit)?;
        Ok(commit)
    }

    /// What is neither committed nor ignored even after [`Tree::gather`]: repositories in the tree,
    /// and submodules, whose history git keeps with the tree.
    ///
    /// # Errors
    ///
    /// When git cannot say.
    pub fn left_over(&self, except: &[&Path]) -> Result<Vec<PathBuf>, GitError> {
        let mut left = nested(&self.git, except)?;
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

    /// A commit that holds everything as it is now, to tell later changes from: the one that is checked out, or one
    /// on no branch where something is not committed.
    ///
    /// # Errors
    ///
    /// When git cannot make it.
    pub fn anchor(&self, message: &str, except: &[&Path]) -> Result<String, GitError> {
        let head = self.head()?;
        let captured = self.capture(&head, except)?;
        match tree_of(&self.git, &head)? == captured.tree {
            true => Ok(head),
            // It is on no branch, so it needs no name of a person.
            false => commit_tree(&as_nobody(&self.git), &captured.tree, &[&head], message),
        }
    }

    /// Takes a tree that nobody works in at the moment off a branch that is not its own, which others may
    /// move.
    ///
    /// # Errors
    ///
    /// When git cannot do it.
    pub fn come_back(&self, offer: &Offer<'_>) -> Result<(), GitError> {
        match stands_for(&self.git, "HEAD")? {
            Some(branch) if branch != reference(offer.branch) => {
                let tree = self.alone()?;
                tree.take_off(offer, tree.born()?.as_deref())?;
                tree.own_branch(offer.branch, tree.born()?.as_deref()).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// The tree, of which we are sure that no other git works in it: one that we started before we were
    /// killed may still be at it, and others can have left locks.
    fn alone(&self) -> Result<Tree, GitError> {
        let lock = repo_lock::lock(&self.git_dir.join("autoloop.lock"), self.git.world())?;
        let tree = Tree { git: self.git.holding(lock), ..self.clone() };
        tree.break_locks()?;
        Ok(tree)
    }

    /// Takes the tree off whatever branch it is on. One that is not its own may have been moved from
    /// elsewhere, as that of the project is whenever work is brought back: then the files are those of
    /// an earlier commit, and seem to undo what came since. A branch without commits stays, which is
    /// nobody else's. Returns the commit that is checked out now, where it was on a branch.
    fn take_off(&self, offer: &Offer<'_>, head: Option<&str>) -> Result<Option<String>, GitError> {
        if head.is_some_and(|head| gitdir::is_detached(&self.git_dir, head)) {
            return Ok(None);
        }
        let Some(branch) = stands_for(&self.git, "HEAD")? else { return Ok(None) };
        let commit = match (branch == reference(offer.branch), head) {
            (true, Some(head)) => head.to_owned(),
            (false, None) => return Ok(None),
            _ => self.files_from(offer.base),
        };
        move_reference(&self.git, "HEAD", &commit)?;
        Ok(Some(commit))
    }

    /// Where the tree's own branch stands. One that is a name for another branch becomes one for what is
    /// checked out.
    fn own_branch(&self, branch: &str, head: Option<&str>) -> Result<Option<String>, GitError> {
        let name = reference(branch);
        let format = "--format=%(refname)%00%(objectname)%00%(symref)";
        let said = self.git.run(["for-each-ref", format, &name])?.line();
        let mut found = said.lines().map(|line| line.split('\0').collect::<Vec<_>>());
        let Some([_, tip, stands_for]) =
            found.find_map(|line| <[&str; 3]>::try_from(line).ok().filter(|it| it[0] == name))
        else {
            return Ok(None);
        };
        let Some(head) = head.filter(|_| !stands_for.is_empty()) else {
            return Ok(Some(tip.to_owned()));
        };
        move_reference(&self.git, &name, head)?;
        Ok(Some(head.to_owned()))
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

/// Makes a commit of a tree object.
pub(super) fn commit_tree(
    git: &Git,
    tree: &str,
    parents: &[&str],
    message: &str,
) -> Result<String, GitError> {
    let parents = parents.iter().flat_map(|parent| ["-p", *parent]);
    let words = ["commit-tree", tree].into_iter().chain(parents).chain(["-m", message]);
    Ok(git.run(words)?.line())
}

/// Git with somebody who commits: the person, or us where git does not know the person.
pub(super) fn identified(git: &Git) -> Result<Git, GitError> {
    let known = git.ask(["-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT"])?;
    Ok(if known.code == 0 { git.clone() } else { as_nobody(git) })
}

pub(super) fn as_nobody(git: &Git) -> Git {
    let (name, email) = NOBODY;
    let author = git.with("GIT_AUTHOR_NAME", name).with("GIT_AUTHOR_EMAIL", email);
    author.with("GIT_COMMITTER_NAME", name).with("GIT_COMMITTER_EMAIL", email)
}

#[cfg(test)]
mod tests;
