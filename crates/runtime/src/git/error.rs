//! Why a git operation failed.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git is not on PATH; install git 2.38 or later")]
    Missing,
    #[error("git 2.38 or later is required, found {0}")]
    TooOld(String),
    #[error("{} is a bare repository, without files to work on; use a clone or a worktree of it", .0.display())]
    Bare(PathBuf),
    #[error("{} is not in a git repository; run `git init` there and commit the files", .0.display())]
    Outside(PathBuf),
    #[error("git uses {} as the worktree of {}; check `git config core.worktree` there", top.display(), dir.display())]
    Elsewhere { dir: PathBuf, top: PathBuf },
    #[error("{dir} belongs to another user, so git refuses to use it; if you trust it, run `git config --global --add safe.directory {dir}`", dir = .0.display())]
    Untrusted(PathBuf),
    #[error("the repository {} has no commit; create one", .0.display())]
    Unborn(PathBuf),
    #[error("{} is no longer a git worktree; its files were not changed", .0.display())]
    NotATree(PathBuf),
    #[error("{} is a symbolic link, which is not followed; remove it and resume", .0.display())]
    Link(PathBuf),
    #[error("{} is not a file, and git would wait for it; remove it and resume", .0.display())]
    Pipe(PathBuf),
    /// A file of a worktree that would be lost with it.
    #[error("{} in {} exists nowhere else; save what you need and remove the worktree", path.display(), tree.display())]
    NotCommitted { tree: PathBuf, path: PathBuf },
    #[error("git is locked by {}; if no git process is running there, remove the file and resume", .0.display())]
    Locked(PathBuf),
    #[error("another process has held the lock of merges for {} s: {}", waited.as_secs(), path.display())]
    Busy { path: PathBuf, waited: Duration },
    #[error("the branch that is checked out in {} moved during every attempt to merge; resume when no other process commits there", .0.display())]
    BranchMoved(PathBuf),
    /// Another branch was checked out, or the history of this one was rewritten.
    #[error("the commit checked out in {} does not contain {}, the base of the work; merge its branch by hand", top.display(), short(base))]
    Rewritten { top: PathBuf, base: String },
    #[error("{what} is in progress in {}; finish or abort it", top.display())]
    InProgress { what: &'static str, top: PathBuf },
    #[error("{} is not a checkpoint of the project", short(.0))]
    NoCheckpoint(String),
    #[error("corrupt objects in the tree {}; list them with `git fsck`", short(.0))]
    Forged(String),
    #[error("`git {command}` timed out after {} s", deadline.as_secs())]
    Deadline { command: String, deadline: Duration },
    #[error("`git {command}` failed in {}: {said}", dir.display())]
    Failed { command: String, dir: PathBuf, said: String },
    #[error("cannot {what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
}

/// The beginning of the name of a commit, for messages.
pub(crate) fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

impl GitError {
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
            GitError::Pipe("/p/.gitignore".into()),
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
        git 2.38 or later is required, found 2.34.1
        /p is a bare repository, without files to work on; use a clone or a worktree of it
        /p is not in a git repository; run `git init` there and commit the files
        git uses /q as the worktree of /p; check `git config core.worktree` there
        /p belongs to another user, so git refuses to use it; if you trust it, run `git config --global --add safe.directory /p`
        the repository /p has no commit; create one
        /p is no longer a git worktree; its files were not changed
        /p is a symbolic link, which is not followed; remove it and resume
        /p/.gitignore is not a file, and git would wait for it; remove it and resume
        clone/ in /p exists nowhere else; save what you need and remove the worktree
        git is locked by /p/.git/index.lock; if no git process is running there, remove the file and resume
        another process has held the lock of merges for 60 s: /p
        the branch that is checked out in /p moved during every attempt to merge; resume when no other process commits there
        the commit checked out in /p does not contain 0123456789ab, the base of the work; merge its branch by hand
        a merge is in progress in /p; finish or abort it
        0123456789ab is not a checkpoint of the project
        `git status` timed out after 300 s
        `git add` failed in /p: no
        cannot remove /p: permission denied
        ");
    }
}
