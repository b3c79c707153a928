//! Work in the checkout of the project itself, beside what the user has there.
//!
//! Before the work begins, everything is remembered in one commit on no branch: the files, committed or not, the
//! index, the branch and what is ignored. Work that passed is committed without what was there before. Work that did
//! not is moved to a branch, and everything is put back as it was. What is ignored is neither committed nor removed.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::capture::{Staged, literal};
use super::command::Git;
use super::detach::stands_for;
use super::merge_back::{Brought, Merge, merge};
use super::tree::{as_nobody, commit_tree, identified};
use super::{GitError, Repository, Tree, contains, reference, repo_lock, tree_of, under_way};

/// The first line of the message of a checkpoint.
const TITLE: &str = "Checkpoint of autoloop";

/// A checkout as it was before work began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Checkpoint {
    commit: String,
    /// The files.
    tree: String,
    /// The commit that was checked out.
    head: String,
    /// The index, as a tree; empty where it was not merged.
    index: String,
    /// The branch that was checked out.
    branch: Option<String>,
    /// The object that lists the files and directories that were ignored; empty where none were.
    ignored: String,
}

impl Repository {
    /// Remembers the checkout of the project in a commit, which a reference with this name keeps.
    ///
    /// # Errors
    ///
    /// When a file cannot be read, or git fails.
    pub fn checkpoint(&self, name: &str, except: &[&Path]) -> Result<String, GitError> {
        let tree = self.tree(&self.top)?;
        let head = tree.head()?;
        let commit =
            tree.with_captured(&head, except, |staged| remember(&tree, &head, staged, except))?;
        // The name itself, and not a branch that an agent made it stand for.
        self.git.run(["update-ref", "--no-deref", &kept_as(name), &commit])?;
        Ok(commit)
    }

    /// Forgets the checkpoints that were kept under a name.
    ///
    /// # Errors
    ///
    /// When git cannot be run.
    pub fn forget_checkpoint(&self, name: &str) -> Result<(), GitError> {
        self.git.ask(["update-ref", "--no-deref", "-d", &kept_as(name)]).map(drop)
    }

    /// The files of the checkout of the project as a tree object, without those that were ignored at a checkpoint: an
    /// agent that changes what is ignored makes no file of the user a part of its work.
    ///
    /// # Errors
    ///
    /// When a file cannot be read, or git fails.
    pub fn work(&self, checkpoint: &str, except: &[&Path]) -> Result<String, GitError> {
        let tree = self.tree(&self.top)?;
        tree.with_captured(checkpoint, except, |staged| {
            match Checkpoint::read(&self.git, checkpoint) {
                Ok(before) => without_ignored(staged, &before),
                // Of a run of an earlier version.
                Err(GitError::NoCheckpoint(_)) => Ok(staged.captured.tree.clone()),
                Err(error) => Err(error),
            }
        })
    }

    /// Commits work in the checkout of the project: the difference between a checkpoint and a tree object, and
    /// nothing that was there before. The files stay as they are.
    ///
    /// # Errors
    ///
    /// When git cannot do it for another reason than those that are outcomes.
    pub fn commit_work(
        &self,
        checkpoint: &str,
        tree: &str,
        message: &str,
    ) -> Result<Brought, GitError> {
        let (git, before) = self.begin_at(checkpoint)?;
        if let Some(what) = under_way(&self.git_dir) {
            return Ok(Brought::UnderWay(what));
        }
        let head = self.base()?;
        if tree == before.tree && head == before.head {
            return Ok(Brought::Nothing);
        }
        if before.index.is_empty() {
            return Ok(Brought::UnderWay("a merge"));
        }
        if !contains(&git, &head, &before.head)? {
            return Err(GitError::Rewritten { top: self.top.clone(), base: before.head });
        }
        let private = self.pinned.open(&self.git)?;
        private.check_objects([&before.tree, tree])?;
        let merging = private.with_attributes(&before.commit);
        let of_head = tree_of(&git, &before.head)?;
        let files = match apart(&merging, [&before.tree, &of_head, tree])? {
            Ok(files) => files,
            Err(conflict) => return Ok(Brought::Conflict(conflict)),
        };
        let staged = match apart(&merging, [&of_head, &before.index, &files])? {
            Ok(staged) => staged,
            Err(conflict) => return Ok(Brought::Conflict(conflict)),
        };
        let commit = match files == tree_of(&git, &head)? {
            true => head,
            false => {
                let commit = commit_tree(&identified(&git)?, &files, &[&head], message)?;
                git.run(["update-ref", "-m", message, "HEAD", &commit, &head])?;
                commit
            }
        };
        stage(&git, &staged)?;
        Ok(Brought::Merged(commit))
    }

    /// Keeps a checkpoint on a branch where work undid changes that the user had not committed. Returns the files with these
    /// changes.
    ///
    /// # Errors
    ///
    /// When git cannot say or do it.
    pub fn keep_discarded(
        &self,
        checkpoint: &str,
        tree: &str,
        branch: &str,
    ) -> Result<Vec<PathBuf>, GitError> {
        let before = Checkpoint::read(&self.git, checkpoint)?;
        let of_head = tree_of(&self.git, &before.head)?;
        if of_head == before.tree {
            return Ok(Vec::new());
        }
        let changed = |to: &str| {
            let words = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", &of_head, to];
            Ok::<_, GitError>(self.git.run(words)?.names())
        };
        let left: BTreeSet<PathBuf> = changed(tree)?.into_iter().collect();
        let mut discarded = changed(&before.tree)?;
        discarded.retain(|path| !left.contains(path));
        if !discarded.is_empty() {
            self.git.run(["update-ref", "--no-deref", &reference(branch), checkpoint])?;
        }
        Ok(discarded)
    }

    /// Moves work in the checkout of the project to a branch, and puts everything back as it was at a checkpoint.
    /// Returns the branches that have it, which are none where nothing was done.
    ///
    /// # Errors
    ///
    /// When something is in the way. What is not put back then is still there.
    pub fn set_aside(
        &self,
        checkpoint: &str,
        (branch, message): (&str, &str),
        except: &[&Path],
    ) -> Result<Vec<String>, GitError> {
        let (git, before) = self.begin_at(checkpoint)?;
        if let Some(what) = under_way(&self.git_dir) {
            return Err(GitError::UnderWay { what, top: self.top.clone() });
        }
        let (on, head) = (stands_for(&git, "HEAD")?, self.base()?);
        let is_there = on == before.branch && head == before.head;
        let tree = self.tree(&self.top)?;
        tree.with_captured(&before.commit, except, |staged| {
            let files = without_ignored(staged, &before)?;
            if files == before.tree && is_there {
                return Ok(());
            }
            let kept = Kept::of(&git, staged, &before, (&files, &head))?;
            self.keep_on(&git, (branch, message), &kept)?;
            // Refused as a whole where a file is no longer what was just read.
            staged.git.run(["read-tree", "-m", "-u", &files, &before.tree]).map(drop)
        })?;
        if !is_there {
            put_back_head(&git, &before, &head)?;
        }
        if !before.index.is_empty() {
            stage(&git, &before.index)?;
        }
        self.kept_on(branch)
    }

    /// Has a branch hold work. An agent can have made the branch, and one that was made before a crash need not have what
    /// was done since.
    fn keep_on(
        &self,
        git: &Git,
        (branch, message): (&str, &str),
        kept: &Kept,
    ) -> Result<(), GitError> {
        let tip = self.tip(branch)?;
        let mut parents = kept.parents();
        if let Some(tip) = &tip {
            if tree_of(git, tip)? == kept.tree {
                return Ok(());
            }
            // Git leaves out a parent that is named twice.
            parents.insert(0, tip);
        }
        let commit = commit_tree(&identified(git)?, &kept.tree, &parents, message)?;
        let tip = tip.as_deref().unwrap_or_default();
        git.run(["update-ref", "--no-deref", &reference(branch), &commit, tip]).map(drop)
    }

    /// Takes the lock of the project, and reads a checkpoint.
    fn begin_at(&self, checkpoint: &str) -> Result<(Git, Checkpoint), GitError> {
        let lock = repo_lock::lock(&self.common.join("autoloop.lock"), self.git.world())?;
        let git = self.git.holding(lock);
        let git = git.with("GIT_DIR", &self.git_dir).with("GIT_WORK_TREE", &self.top);
        let git = self.pinned.without_new_filters(&git)?;
        let before = Checkpoint::read(&git, checkpoint)?;
        Ok((git, before))
    }
}

/// What a branch is to have of work that was set aside.
struct Kept {
    tree: String,
    /// The commit that the work began from.
    base: String,
    /// The commit that was checked out when it ended.
    head: String,
    /// Whether that one follows from the first.
    follows: bool,
}

impl Kept {
    /// Without what was there before, where it can be told apart.
    fn of(
        git: &Git,
        staged: &Staged<'_>,
        before: &Checkpoint,
        (files, head): (&str, &str),
    ) -> Result<Kept, GitError> {
        let merging = staged.private.with_attributes(&before.commit);
        let of_head = tree_of(git, &before.head)?;
        let (tree, base) = match apart(&merging, [&before.tree, &of_head, files])? {
            Ok(tree) => (tree, &before.head),
            Err(_) => (files.to_owned(), &before.commit),
        };
        let follows = contains(git, head, base)?;
        Ok(Kept { tree, base: base.clone(), head: head.to_owned(), follows })
    }

    /// The commits of the work itself stay reachable, whatever history they are in.
    fn parents(&self) -> Vec<&str> {
        match self.follows {
            true => vec![&self.head],
            false => vec![&self.base, &self.head],
        }
    }
}

impl Checkpoint {
    fn read(git: &Git, commit: &str) -> Result<Checkpoint, GitError> {
        let text = git.run(["cat-file", "commit", commit])?.out.text();
        let (headers, message) = text.split_once("\n\n").unwrap_or_default();
        let of = |text: &str, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.map(str::to_owned)
        };
        if !message.starts_with(TITLE) {
            return Err(GitError::NoCheckpoint(commit.to_owned()));
        }
        Ok(Checkpoint {
            commit: commit.to_owned(),
            tree: of(headers, "tree").unwrap_or_default(),
            head: of(headers, "parent").unwrap_or_default(),
            index: of(message, "index").unwrap_or_default(),
            branch: of(message, "branch"),
            ignored: of(message, "ignored").unwrap_or_default(),
        })
    }
}

fn remember(
    tree: &Tree,
    head: &str,
    staged: &Staged<'_>,
    except: &[&Path],
) -> Result<String, GitError> {
    let git = &as_nobody(&tree.git);
    let words = [
        "ls-files",
        "-z",
        "--others",
        "--ignored",
        "--exclude-standard",
        "--directory",
        "--",
        ":/",
    ];
    let except = except.iter().map(|path| literal(":(exclude,top,literal)", path));
    let ignored = staged.git.run(words.map(OsString::from).into_iter().chain(except))?;
    let ignored = [&ignored.out.head[..], &ignored.out.tail].concat();
    let mut message = format!("{TITLE}\n\n");
    if !ignored.is_empty() {
        let fed = staged.private.fed(&staged.git, &ignored)?;
        let list = fed.run(["hash-object", "-w", "--no-filters", "--stdin"])?.line();
        message += &format!("ignored {list}\n");
    }
    if let Some(branch) = stands_for(git, "HEAD")? {
        message += &format!("branch {branch}\n");
    }
    let mut parents = vec![head.to_owned()];
    let index = git.ask(["write-tree"])?;
    if index.code == 0 {
        let index = index.line();
        message += &format!("index {index}\n");
        if index != staged.captured.tree {
            parents.push(commit_tree(git, &index, &[head], "index")?);
        }
    }
    let parents: Vec<&str> = parents.iter().map(String::as_str).collect();
    commit_tree(git, &staged.captured.tree, &parents, &message)
}

/// What differs between two trees, applied to a third: `[from, onto, to]`. Otherwise the files that do not go
/// together.
fn apart(git: &Git, [from, onto, to]: [&str; 3]) -> Result<Result<String, Vec<PathBuf>>, GitError> {
    if from == onto || onto == to {
        return Ok(Ok(to.to_owned()));
    }
    if from == to {
        return Ok(Ok(onto.to_owned()));
    }
    let git = &as_nobody(git);
    let from = commit_tree(git, from, &[], "from")?;
    let [one, other] = [(onto, "onto"), (to, "to")]
        .map(|(tree, message)| commit_tree(git, tree, &[&from], message));
    Ok(match merge(git, &one?, &other?)? {
        Merge::FastForward => Ok(to.to_owned()),
        Merge::Tree(tree) => Ok(tree),
        Merge::Conflict(files) => Err(files),
    })
}

/// The tree of all files but those that were ignored before, which an agent can have made seem new.
fn without_ignored(staged: &Staged<'_>, before: &Checkpoint) -> Result<String, GitError> {
    let files = staged.captured.tree.clone();
    if before.ignored.is_empty() || files == before.tree {
        return Ok(files);
    }
    let words = ["diff-tree", "-r", "-z", "--name-only", "--diff-filter=A", "--no-renames"];
    let words = words.into_iter().chain([&*before.tree, &*files]);
    let ignored = staged.git.run(["cat-file", "blob", &before.ignored])?.names();
    let ignored: BTreeSet<PathBuf> = ignored.into_iter().collect();
    let was_ignored = |path: &PathBuf| path.ancestors().any(|above| ignored.contains(above));
    let mut input = Vec::new();
    for path in staged.git.run(words)?.names().iter().filter(|path| was_ignored(path)) {
        input.extend([path.as_os_str().as_bytes(), b"\0"].concat());
    }
    if input.is_empty() {
        return Ok(files);
    }
    let fed = staged.private.fed(&staged.git, &input)?;
    fed.run(["update-index", "-z", "--force-remove", "--stdin"])?;
    Ok(staged.git.run(["write-tree"])?.line())
}

/// Has the branch and the commit be checked out that were.
fn put_back_head(git: &Git, before: &Checkpoint, head: &str) -> Result<(), GitError> {
    const WHY: &str = "moved to a branch";
    let Some(branch) = &before.branch else {
        return git.run(["update-ref", "--no-deref", "-m", WHY, "HEAD", &before.head]).map(drop);
    };
    git.run(["symbolic-ref", "-m", WHY, "HEAD", branch])?;
    let now = git.ask(["rev-parse", "--verify", "--quiet", branch])?.line();
    if now == before.head {
        return Ok(());
    }
    // Only what the branch of the work has is taken from it.
    match now.is_empty() || now == head {
        true => {
            let words = ["update-ref", "--no-deref", "-m", WHY, branch, &before.head, &now];
            git.run(words).map(drop)
        }
        false => Ok(()),
    }
}

/// Has the index hold a tree. No file is touched.
fn stage(git: &Git, tree: &str) -> Result<(), GitError> {
    git.run(["reset", "--quiet", tree, "--", ":/"]).map(drop)
}

fn kept_as(name: &str) -> String {
    format!("refs/autoloop/checkpoint/{}", super::name::plain(name))
}

#[cfg(test)]
mod tests;
