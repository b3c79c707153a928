//! Why a git operation failed.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git is not on PATH; install git 2.38 or later")]
    Missing,
    #[error("git 2.38 or later is needed, and this is {0}")]
    TooOld(String),
    #[error("{} is a bare repository, without files to work on; use a clone or a worktree of it", .0.display())]
    Bare(PathBuf),
    #[error("{} is in no git repository; run `git init` there and commit what there is", .0.display())]
    Outside(PathBuf),
    #[error("git takes {} for the worktree of {}; see what `git config core.worktree` says there", top.display(), dir.display())]
    Elsewhere { dir: PathBuf, top: PathBuf },
    #[error("{dir} belongs to another user, so git does not touch it; if you trust what is in it, `git config --global --add safe.directory {dir}`", dir = .0.display())]
    Untrusted(PathBuf),
    #[error("there is no commit in {} yet; make a first one", .0.display())]
    Unborn(PathBuf),
    #[error("{} is not a worktree of its own any more; its files were left alone", .0.display())]
    NotATree(PathBuf),
    #[error("{} is a symbolic link, which is not followed; remove it and resume", .0.display())]
    Link(PathBuf),
    /// A file of a worktree that would be lost with it.
    #[error("{} in {} is stored nowhere else; save what you need of it and remove the worktree", path.display(), tree.display())]
    NotCommitted { tree: PathBuf, path: PathBuf },
    /// A lock of git itself.
    #[error("git waits for {}; if no other git is running there, one was killed: remove the file and resume", .0.display())]
    Locked(PathBuf),
    /// A lock of ours.
    #[error("another process has been merging for {} s, and holds {}", waited.as_secs(), path.display())]
    Busy { path: PathBuf, waited: Duration },
    #[error("the branch that is checked out in {} moved during every attempt to merge; resume when no one commits there", .0.display())]
    BranchMoved(PathBuf),
    /// Another branch was checked out, or the history of this one was rewritten.
    #[error("what is checked out in {} does not contain {}, from which the work began; merge its branch by hand where that is", top.display(), short(base))]
    Rewritten { top: PathBuf, base: String },
    #[error("{what} is in progress in {}; finish or abort it", top.display())]
    InProgress { what: &'static str, top: PathBuf },
    #[error("{} is not a checkpoint of the project", short(.0))]
    NoCheckpoint(String),
    #[error("objects of the tree {} do not match their names; `git fsck` names them", short(.0))]
    Forged(String),
    #[error("`git {command}` did not end within {} s, and was ended", deadline.as_secs())]
    Deadline { command: String, deadline: Duration },
    #[error("`git {command}` failed in {}: {said}", dir.display())]
    Failed { command: String, dir: PathBuf, said: String },
    #[error("cannot {what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

impl GitError {
    /// For `map_err`.
    pub(crate) fn io(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| GitError::Io { what, path, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_to_do() {
        let path = || PathBuf::from("/p");
        let told = [
            GitError::Missing,
            GitError::TooOld("2.34.1".into()),
            GitError::Bare(path()),
            GitError::Outside(path()),
            GitError::Elsewhere { dir: path(), top: "/q".into() },
            GitError::Untrusted(path()),
            GitError::Unborn(path()),
            GitError::NotATree(path()),
            GitError::Link(path()),
            GitError::NotCommitted { tree: path(), path: "clone/".into() },
            GitError::Locked("/p/.git/index.lock".into()),
            GitError::Busy { path: path(), waited: Duration::from_secs(60) },
            GitError::BranchMoved(path()),
            GitError::Rewritten { top: path(), base: "0123456789abcdef".into() },
            GitError::InProgress { what: "a merge", top: path() },
            GitError::NoCheckpoint("0123456789abcdef".into()),
            GitError::Deadline { command: "status".into(), deadline: Duration::from_secs(300) },
            GitError::Failed { command: "add".into(), dir: path(), said: "no".into() },
            GitError::io("remove", "/p")(io::ErrorKind::PermissionDenied.into()),
        ];
        let told: Vec<String> = told.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(told.join("\n"), @r"
        git is not on PATH; install git 2.38 or later
        git 2.38 or later is needed, and this is 2.34.1
        /p is a bare repository, without files to work on; use a clone or a worktree of it
        /p is in no git repository; run `git init` there and commit what there is
        git takes /q for the worktree of /p; see what `git config core.worktree` says there
        /p belongs to another user, so git does not touch it; if you trust what is in it, `git config --global --add safe.directory /p`
        there is no commit in /p yet; make a first one
        /p is not a worktree of its own any more; its files were left alone
        /p is a symbolic link, which is not followed; remove it and resume
        clone/ in /p is stored nowhere else; save what you need of it and remove the worktree
        git waits for /p/.git/index.lock; if no other git is running there, one was killed: remove the file and resume
        another process has been merging for 60 s, and holds /p
        the branch that is checked out in /p moved during every attempt to merge; resume when no one commits there
        what is checked out in /p does not contain 0123456789ab, from which the work began; merge its branch by hand where that is
        a merge is in progress in /p; finish or abort it
        0123456789ab is not a checkpoint of the project
        `git status` did not end within 300 s, and was ended
        `git add` failed in /p: no
        cannot remove /p: permission denied
        ");
    }
}
