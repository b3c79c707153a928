//! One checkout: what is left lying in it, and what changed in it.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::command::{Git, Said};
use super::{GitError, contains, guard, reference, under_way};

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
    pub(super) fn at(git: &Git, dir: &Path) -> Result<Tree, GitError> {
        let git = git.at(dir);
        let not_a_tree = || GitError::NotATree(dir.to_owned());
        let real = dir.canonicalize().map_err(|_| not_a_tree())?;
        let said = git.ask(["rev-parse", "--absolute-git-dir", "--show-toplevel"])?;
        let answers = said.line();
        // Where the tree has lost its link, git takes the one around it for the one that is meant.
        match answers.split_once('\n') {
            Some((git_dir, top)) if said.code == 0 && Path::new(top) == real => {
                Ok(Tree { git, git_dir: git_dir.into() })
            }
            _ => Err(not_a_tree()),
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
        let branch = self.git.ask(["symbolic-ref", "--quiet", "HEAD"])?;
        let branch = (branch.code == 0).then(|| branch.line());
        Ok(Stand { branch, commit: self.head()? })
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
    /// in the end, and is told as unfinished. Locks that a killed git left are removed.
    ///
    /// # Errors
    ///
    /// When something cannot be committed. Nothing is lost then, and the tree has it.
    pub fn gather(
        &self,
        branch: &str,
        message: &str,
        except: &[&Path],
    ) -> Result<Gathered, GitError> {
        // A git that we started before we were killed may still be at it.
        let lock = guard::lock(&self.git_dir.join("autoloop.lock"), self.git.world())?;
        let tree = Tree { git: self.git.holding(lock), ..self.clone() };
        let git = &tree.git;
        tree.break_locks()?;
        let unmerged = git.run(["ls-files", "-z", "--unmerged"])?.out.bytes > 0;
        let unfinished = under_way(&tree.git_dir).or(unmerged.then_some("a merge"));
        tree.commit_all(message, except)?;
        let head = tree.head()?;
        let set = |name: &str| git.run(["update-ref", "-m", "gathered", &reference(name), &head]);
        let said = git.ask(["rev-parse", "--verify", "--quiet", &reference(branch)])?;
        let tip = said.line();
        if said.code != 0 || contains(git, &head, &tip)? {
            set(branch)?;
            return Ok(Gathered { tip: head, unfinished: unfinished.map(str::to_owned) });
        }
        if contains(git, &tip, &head)? {
            return Ok(Gathered { tip, unfinished: unfinished.map(str::to_owned) });
        }
        let beside = format!("{branch}-beside");
        set(&beside)?;
        let unfinished = Some(format!("work beside its branch (kept on {beside})"));
        Ok(Gathered { tip, unfinished })
    }

    /// What is neither committed nor ignored even after [`Tree::gather`]: repositories in the tree.
    ///
    /// # Errors
    ///
    /// When git cannot say.
    pub fn left_over(&self, except: &[&Path]) -> Result<Vec<PathBuf>, GitError> {
        let mut left = untracked(&self.git)?;
        left.retain(|path| !except.iter().any(|except| path.starts_with(except)));
        Ok(left)
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

fn shown(git: &Git, base: &str) -> Result<Said, GitError> {
    let plain =
        ["--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/"];
    let words = ["diff", "--cached", "--patch-with-stat", "--submodule=short"].into_iter();
    git.run(words.chain(plain).chain([base, "--"]))
}

/// Stages everything but what is ignored, excepted, or in a repository of its own, of which git would
/// keep nothing but the name of a commit.
fn add_all(git: &Git, except: &[&Path]) -> Result<(), GitError> {
    let nested = untracked(git)?.into_iter().filter(|path| is_repository(path));
    let nested = nested.map(|path| spec(":(exclude,top,literal)", &path));
    let words = ["add", "--all", "--ignore-errors", "--", ":/"].map(OsString::from);
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
mod tests {
    use super::super::Repository;
    use super::super::scene::Scene;
    use super::*;

    fn tree(scene: &Scene) -> (Repository, Tree, String) {
        let repository = scene.repository();
        let base = repository.base().unwrap();
        let tree = repository.add_worktree(&scene.place("tree"), "autoloop/x", &base).unwrap();
        (repository, tree, base)
    }

    #[test]
    fn what_is_left_becomes_one_commit() {
        let scene = Scene::new();
        let (_, tree, base) = tree(&scene);
        assert_eq!(tree.commit_all("nothing", &[]).unwrap(), None);
        scene.write("state/tree/file", "changed").write("state/tree/new", "untracked");
        scene.write("state/tree/ignored", "no").write("state/tree/kept/out", "no");
        scene.git_in(tree.dir(), &["rm", "-q", "--cached", ".gitignore"]);
        let commit = tree.commit_all("left", &[Path::new("kept")]).unwrap().unwrap();
        let names = scene.git(&["diff", "--name-status", &base, &commit]);
        assert_eq!(names, "M\tfile\nA\tnew");
        assert_eq!(scene.git(&["log", "-1", "--format=%s %an", &commit]), "left A Person");
        assert_eq!(tree.commit_all("again", &[Path::new("kept")]).unwrap(), None);
    }

    #[test]
    fn a_failing_hook_a_missing_name_and_a_stale_lock_stop_nobody() {
        let scene = Scene::new();
        let (_, tree, _) = tree(&scene);
        scene.write(".git/hooks/pre-commit", "#!/bin/sh\nexit 1\n");
        scene.git(&["config", "core.hooksPath", &format!("{}/.git/hooks", scene.top.display())]);
        let made_executable = std::process::Command::new("chmod")
            .args(["+x", ".git/hooks/pre-commit"])
            .current_dir(&scene.top)
            .status();
        assert!(made_executable.unwrap().success());
        scene.git(&["config", "commit.gpgSign", "true"]);
        scene.git(&["config", "user.name", ""]);
        scene.write("state/tree/new", "x");
        fs::write(tree.git_dir.join("index.lock"), "").unwrap();
        let gathered = tree.gather("autoloop/x", "left", &[]).unwrap();
        assert_eq!(gathered.unfinished, None);
        assert_eq!(scene.git(&["log", "-1", "--format=%s %an", &gathered.tip]), "left autoloop");
    }

    #[test]
    fn work_is_found_wherever_somebody_went() {
        let scene = Scene::new();
        let (repository, tree, base) = tree(&scene);
        let git = |args: &[&str]| scene.git_in(tree.dir(), args);
        let gather = || tree.gather("autoloop/x", "left", &[]).unwrap();
        let subjects = |name: &str| scene.git(&["log", "--format=%s", name]);
        // On to another branch: the one of the tree goes along.
        git(&["checkout", "-q", "-b", "elsewhere"]);
        scene.write("state/tree/first", "1");
        let first = gather();
        assert_eq!(repository.tip("autoloop/x").unwrap(), Some(first.tip.clone()));
        assert_eq!(subjects("autoloop/x"), "left\nbegin");
        // Back, only to look.
        git(&["checkout", "-q", "--detach", &base]);
        assert_eq!(gather(), first);
        // Back, and on in another direction: both are kept.
        scene.write("state/tree/second", "2");
        let told = "work beside its branch (kept on autoloop/x-beside)".to_owned();
        for _ in 0..2 {
            assert_eq!(gather(), Gathered { unfinished: Some(told.clone()), ..first.clone() });
        }
        let names = |name| scene.git(&["ls-tree", "--name-only", name]);
        assert_eq!(names("autoloop/x"), ".gitignore\nfile\nfirst");
        assert_eq!(names("autoloop/x-beside"), ".gitignore\nfile\nsecond");
    }

    #[test]
    fn a_tree_is_put_back_to_where_it_stood() {
        let scene = Scene::new();
        let (repository, tree, base) = tree(&scene);
        let stood = tree.stand().unwrap();
        scene.write("state/tree/new", "x");
        scene.git_in(tree.dir(), &["add", "-A"]);
        scene.git_in(tree.dir(), &["commit", "-q", "-m", "sneaked in"]);
        scene.git_in(tree.dir(), &["checkout", "-q", "--detach"]);
        assert_ne!(tree.stand().unwrap(), stood);
        tree.stand_at(&stood).unwrap();
        assert_eq!(tree.stand().unwrap(), stood);
        assert_eq!(repository.tip("autoloop/x").unwrap(), Some(base));
        assert_eq!(scene.git_in(tree.dir(), &["status", "--porcelain"]), "?? new");
    }

    #[test]
    fn an_unfinished_merge_is_told_and_kept() {
        let scene = Scene::new();
        let (_, tree, base) = tree(&scene);
        scene.git(&["branch", "other", &base]);
        scene.write("file", "their\ntwo\nthree\n").commit("theirs");
        scene.write("state/tree/file", "our\ntwo\nthree\n");
        scene.git_in(tree.dir(), &["commit", "-q", "-a", "-m", "ours"]);
        let merging = std::process::Command::new("git")
            .args(["merge", "-q", "main"])
            .current_dir(tree.dir())
            .output();
        assert!(!merging.unwrap().status.success());
        let gathered = tree.gather("autoloop/x", "left", &[]).unwrap();
        assert_eq!(gathered.unfinished.as_deref(), Some("a merge"));
        assert!(scene.git(&["show", &format!("{}:file", gathered.tip)]).contains("<<<<<<<"));
    }

    #[test]
    fn repositories_in_a_tree_are_no_part_of_it() {
        let scene = Scene::new();
        let (_, tree, base) = tree(&scene);
        scene.write("state/tree/new", "n").write("state/tree/state/x", "s");
        for name in ["empty", "deep/full"] {
            scene.git_in(tree.dir(), &["init", "-q", name]);
        }
        let full = tree.dir().join("deep/full");
        scene.write("state/tree/deep/full/file", "f").write("state/tree/deep/beside", "b");
        scene.git_in(&full, &["add", "-A"]);
        let who = ["-c", "user.name=a", "-c", "user.email=b"];
        scene.git_in(&full, &[&who[..], &["commit", "-q", "-m", "f"]].concat());
        let gathered = tree.gather("autoloop/x", "left", &[]).unwrap();
        let names = scene.git(&["diff", "--name-only", &base, &gathered.tip]);
        assert_eq!(names, "deep/beside\nnew");
        let left = tree.left_over(&[]).unwrap();
        assert_eq!(left, [Path::new("deep/full"), Path::new("empty")]);
        assert_eq!(tree.left_over(&[Path::new("deep"), Path::new("empty")]).unwrap().len(), 0);
    }

    #[test]
    fn a_tree_without_its_link_is_not_taken_for_the_one_around_it() {
        let scene = Scene::new();
        let (repository, tree, _) = tree(&scene);
        fs::remove_file(tree.dir().join(".git")).unwrap();
        assert!(matches!(repository.tree(tree.dir()), Err(GitError::NotATree(_))));
    }

    #[test]
    fn a_diff_has_all_that_changed_and_changes_nothing() {
        let scene = Scene::new();
        let (_, tree, base) = tree(&scene);
        let git = |args: &[&str]| scene.git_in(tree.dir(), args);
        scene.write("state/tree/committed", "c\n");
        git(&["add", "-A"]);
        git(&["commit", "-q", "-m", "c"]);
        scene.write("state/tree/staged", "s\n");
        git(&["add", "-A"]);
        scene.write("state/tree/file", "one\n2\nthree\n").write("state/tree/new", "u\n");
        fs::write(tree.dir().join("binary"), b"\0\x01\xff").unwrap();
        // Somebody else's work is none of it.
        scene.write("foreign", "f\n").commit("foreign");
        let before = git(&["status", "--porcelain"]);
        let diff = tree.diff(&base, 100_000, &[]).unwrap();
        let diff: Vec<&str> = diff.lines().filter(|line| !line.starts_with("index ")).collect();
        insta::assert_snapshot!(diff.join("\n"), @r"
         binary    | Bin 0 -> 3 bytes
         committed |   1 +
         file      |   2 +-
         new       |   1 +
         staged    |   1 +
         5 files changed, 4 insertions(+), 1 deletion(-)

        diff --git a/binary b/binary
        new file mode 100644
        Binary files /dev/null and b/binary differ
        diff --git a/committed b/committed
        new file mode 100644
        --- /dev/null
        +++ b/committed
        @@ -0,0 +1 @@
        +c
        diff --git a/file b/file
        --- a/file
        +++ b/file
        @@ -1,3 +1,3 @@
         one
        -two
        +2
         three
        diff --git a/new b/new
        new file mode 100644
        --- /dev/null
        +++ b/new
        @@ -0,0 +1 @@
        +u
        diff --git a/staged b/staged
        new file mode 100644
        --- /dev/null
        +++ b/staged
        @@ -0,0 +1 @@
        +s
        ");
        assert_eq!(git(&["status", "--porcelain"]), before);
        let anchor = tree.anchor("now", &[]).unwrap();
        assert_eq!(tree.diff(&anchor, 100_000, &[]).unwrap(), "");
        scene.write("state/tree/new", "u\nv\n");
        let later = tree.diff(&anchor, 100_000, &[]).unwrap();
        assert!(later.ends_with("@@ -1 +1,2 @@\n u\n+v\n"), "{later}");
        assert_eq!(git(&["status", "--porcelain"]), before);
        let short = tree.diff(&base, 200, &[]).unwrap();
        assert!(short.len() < 260 && short.contains("bytes left out"), "{short}");
    }
}
