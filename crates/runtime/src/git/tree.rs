//! One checkout: what is left lying in it, and what changed in it.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::command::{Git, Said};
use super::status::{Status, literal};
use super::stray::{files_from, stands_for};
use super::{GitError, Offer, checkout, contains, guard, reference, under_way};
use crate::files::{self, Links, private};

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

/// Whether a checkout stands at another commit than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    Nowhere,
    Elsewhere,
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
        if !checkout::belongs(dir, own, common) {
            return Err(GitError::NotATree(dir.to_owned()));
        }
        // Git is told both, so that it does not look for them: where a tree has lost its link, it would
        // take the one around it, and a setting can name another.
        let git = git.at(dir).with("GIT_DIR", own).with("GIT_WORK_TREE", dir);
        Ok(Tree { git, git_dir: own.to_owned() })
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
    fn commit_all(
        &self,
        status: &Status,
        message: &str,
        except: &[&Path],
    ) -> Result<Option<String>, GitError> {
        let is_under_way = under_way(&self.git_dir).is_some();
        if status.is_clean() && !is_under_way {
            return Ok(None);
        }
        status.add_all(&self.git, except)?;
        for path in except {
            // Somebody else may have staged it.
            self.git.run([
                "reset".into(),
                "--quiet".into(),
                "--".into(),
                literal(":(top,literal)", path),
            ])?;
        }
        // What was changed may be the same once it is staged, by its line endings for one.
        let staged = self.git.ask(["diff", "--cached", "--quiet", "--no-ext-diff"])?;
        if staged.code == 0 && !is_under_way {
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
        let mut status = Status::of(git, except)?;
        let unfinished = under_way(&tree.git_dir).or(status.unmerged.then_some("a merge"));
        if tree.take_off(offer, status.head.as_deref())? == Moved::Elsewhere {
            status = Status::of(git, except)?;
        }
        let tip = tree.own_branch(branch, status.head.as_deref())?;
        let committed = tree.commit_all(&status, message, except)?;
        let head = committed.or(status.head).map_or_else(|| tree.head(), Ok)?;
        let set = |name: &str| move_reference(git, &reference(name), &head);
        let gathered = |tip| Gathered { tip, unfinished: unfinished.map(str::to_owned) };
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
            return Ok(gathered(tip));
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
        let mut left = Status::of(&self.git, except)?.untracked;
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
        let shown = |git: &Git| shown(&git.keeping(limit / 2), base, except);
        let status = Status::of(&self.git, except)?;
        let said = match (status.is_clean(), status.head.as_deref() == Some(base)) {
            (true, true) => return Ok(String::new()),
            (true, false) => shown(&self.git)?,
            (false, _) => self.with_all_added(&status, except, shown)?,
        };
        Ok(said.out.text())
    }

    /// A commit that holds everything as it is now, for [`diff`](Tree::diff) to tell later changes
    /// from: the one that is checked out, or one on no branch where something is not committed.
    ///
    /// # Errors
    ///
    /// When git cannot make it.
    pub fn anchor(&self, message: &str, except: &[&Path]) -> Result<String, GitError> {
        let status = Status::of(&self.git, except)?;
        let head = status.head.clone().map_or_else(|| self.head(), Ok)?;
        if status.is_clean() {
            return Ok(head);
        }
        self.with_all_added(&status, except, |git| {
            let tree = git.run(["write-tree"])?.line();
            // Nobody sees it but us, so nobody is asked for a name.
            Ok(as_nobody(git).run(["commit-tree", &tree, "-p", &head, "-m", message])?.line())
        })
    }

    /// Does something with an index of our own that has everything, so that the one of the tree stays
    /// as it is.
    fn with_all_added<T>(
        &self,
        status: &Status,
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
            copy_index(&own, &index).map_err(GitError::io("copy", &own))?;
        }
        let git = self.git.with("GIT_INDEX_FILE", &index);
        let done = status.add_all(&git, except).and_then(|()| done(&git));
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
        let lock = guard::lock(&self.git_dir.join("autoloop.lock"), self.git.world())?;
        let tree = Tree { git: self.git.holding(lock), ..self.clone() };
        tree.break_locks()?;
        Ok(tree)
    }

    /// Takes the tree off whatever branch it is on. One that is not its own may have been moved from
    /// elsewhere, as that of the project is whenever work is brought back: then the files are those of
    /// an earlier commit, and seem to undo what came since. A branch without commits stays, which is
    /// nobody else's.
    fn take_off(&self, offer: &Offer<'_>, head: Option<&str>) -> Result<Moved, GitError> {
        if head.is_some_and(|head| checkout::is_detached(&self.git_dir, head)) {
            return Ok(Moved::Nowhere);
        }
        let Some(branch) = stands_for(&self.git, "HEAD")? else { return Ok(Moved::Nowhere) };
        let commit = match (branch == reference(offer.branch), head) {
            (true, Some(head)) => head.to_owned(),
            (false, None) => return Ok(Moved::Nowhere),
            _ => self.files_from(offer.base),
        };
        move_reference(&self.git, "HEAD", &commit)?;
        Ok(if head == Some(&*commit) { Moved::Nowhere } else { Moved::Elsewhere })
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

/// An index of ten million files is shorter.
const LONGEST_INDEX: u64 = 2 * 1024 * 1024 * 1024;

/// Copies an index, with the time at which it was written: by that git knows which files it has to look
/// into, because they were staged and may have been changed within the same moment.
fn copy_index(own: &Path, copy: &Path) -> io::Result<()> {
    let mut index = files::open_here(own, Links::Refuse, LONGEST_INDEX)?;
    let mut copy = private::create_file(copy, private::Use::Data)?;
    io::copy(&mut index, &mut copy)?;
    copy.set_modified(index.metadata()?.modified()?)
}

/// The branch of work that does not follow from a branch.
pub(super) fn beside(branch: &str) -> String {
    format!("{branch}-beside")
}

/// Has a name stand for a commit: the name itself, and not what it may stand for by now.
fn move_reference(git: &Git, name: &str, commit: &str) -> Result<(), GitError> {
    git.run(["update-ref", "--no-deref", "-m", "gathered", name, commit]).map(drop)
}

fn shown(git: &Git, base: &str, except: &[&Path]) -> Result<Said, GitError> {
    let plain =
        ["--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/"];
    let words = ["diff", "--cached", "--patch-with-stat", "--submodule=short"].into_iter();
    let words = words.chain(plain).chain([base, "--", ":/"]).map(Into::into);
    let except = except.iter().map(|path| literal(":(exclude,top,literal)", path));
    // Whoever made the changes has no say in which of them are shown.
    git.with("GIT_ATTR_SOURCE", base).run(words.chain(except))
}

/// Git with somebody who commits: the person, or us where git does not know the person.
pub(super) fn identified(git: &Git) -> Result<Git, GitError> {
    let known = git.ask(["-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT"])?;
    Ok(if known.code == 0 { git.clone() } else { as_nobody(git) })
}

fn as_nobody(git: &Git) -> Git {
    let (name, email) = NOBODY;
    let author = git.with("GIT_AUTHOR_NAME", name).with("GIT_AUTHOR_EMAIL", email);
    author.with("GIT_COMMITTER_NAME", name).with("GIT_COMMITTER_EMAIL", email)
}

#[cfg(test)]
mod tests;
