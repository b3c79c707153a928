//! Why git did not do something.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why git did not do something.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// There is no git.
    #[error("git is not on PATH; install git 2.38 or later")]
    Missing,
    /// It cannot do what is needed.
    #[error("git 2.38 or later is needed, and this is {0}")]
    TooOld(String),
    /// There are no files to work on.
    #[error("{} is a bare repository, without files to work on; use a clone or a worktree of it", .0.display())]
    Bare(PathBuf),
    /// There is no repository.
    #[error("{} is in no git repository; run `git init` there and commit what there is", .0.display())]
    Outside(PathBuf),
    /// Its settings say that the files are somewhere else.
    #[error("git takes {} for the working tree of {}; see what `git config core.worktree` says there", top.display(), dir.display())]
    Elsewhere {
        /// The directory.
        dir: PathBuf,
        /// What git takes for the top of its working tree.
        top: PathBuf,
    },
    /// Git refuses to work there.
    #[error("{dir} belongs to somebody else, so git does not touch it; if you trust what is in it, `git config --global --add safe.directory {dir}`", dir = .0.display())]
    Untrusted(PathBuf),
    /// There is nothing to begin from.
    #[error("there is no commit in {} yet; make a first one", .0.display())]
    Unborn(PathBuf),
    /// A tree is not, or no longer, a working tree of its own.
    #[error("{} is not a working tree of its own any more; what is in it was left alone", .0.display())]
    NotATree(PathBuf),
    /// Somebody has a path of ours lead elsewhere.
    #[error("{} is a link to elsewhere, where nothing is touched; remove it and go on", .0.display())]
    Link(PathBuf),
    /// Something in a tree would be lost with it.
    #[error("{} in {} is kept nowhere else; save what you need of it and remove the tree", path.display(), tree.display())]
    NotCommitted {
        /// The tree.
        tree: PathBuf,
        /// What is in it, relative to the top.
        path: PathBuf,
    },
    /// A lock of git itself did not go away.
    #[error("git waits for {}; if no other git is at work there, one was killed: remove the file and go on", .0.display())]
    Locked(PathBuf),
    /// Another process brings work back.
    #[error("another process has been bringing work back for {} s, and holds {}", waited.as_secs(), path.display())]
    Busy {
        /// The lock.
        path: PathBuf,
        /// How long we waited.
        waited: Duration,
    },
    /// The branch that is checked out moved whenever we had made a merge for it.
    #[error("the branch that is checked out in {} does not stand still; go on when nobody commits there", .0.display())]
    Restless(PathBuf),
    /// Somebody checked out another branch, or made the history of this one anew.
    #[error("what is checked out in {} does not have {}, from which the work began; merge its branch by hand where that is", top.display(), short(base))]
    Rewritten {
        /// The top of the working tree.
        top: PathBuf,
        /// The commit.
        base: String,
    },
    /// A merge or the like was begun in the checkout of the project and not ended.
    #[error("{what} is under way in {}; end it, or undo it", top.display())]
    UnderWay {
        /// What was begun.
        what: &'static str,
        /// The top of the working tree.
        top: PathBuf,
    },
    /// A commit is none that remembers a checkout.
    #[error("{} does not say how the project was before the work began", short(.0))]
    NoCheckpoint(String),
    /// The files of objects hold something else than their names say.
    #[error("objects of the tree {} are not what their names say; `git fsck` names them", short(.0))]
    Forged(String),
    /// It took too long.
    #[error("`git {command}` did not end within {} s, and was ended", deadline.as_secs())]
    Deadline {
        /// What it was to do.
        command: String,
        /// How long it had.
        deadline: Duration,
    },
    /// It said no.
    #[error("`git {command}` failed in {}: {said}", dir.display())]
    Failed {
        /// What it was to do.
        command: String,
        /// Where.
        dir: PathBuf,
        /// The first thing that it complained about.
        said: String,
    },
    /// The system said no.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

impl GitError {
    /// For `map_err`, where something was done to a file.
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
            GitError::Restless(path()),
            GitError::Rewritten { top: path(), base: "0123456789abcdef".into() },
            GitError::UnderWay { what: "a merge", top: path() },
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
        git takes /q for the working tree of /p; see what `git config core.worktree` says there
        /p belongs to somebody else, so git does not touch it; if you trust what is in it, `git config --global --add safe.directory /p`
        there is no commit in /p yet; make a first one
        /p is not a working tree of its own any more; what is in it was left alone
        /p is a link to elsewhere, where nothing is touched; remove it and go on
        clone/ in /p is kept nowhere else; save what you need of it and remove the tree
        git waits for /p/.git/index.lock; if no other git is at work there, one was killed: remove the file and go on
        another process has been bringing work back for 60 s, and holds /p
        the branch that is checked out in /p does not stand still; go on when nobody commits there
        what is checked out in /p does not have 0123456789ab, from which the work began; merge its branch by hand where that is
        a merge is under way in /p; end it, or undo it
        0123456789ab does not say how the project was before the work began
        `git status` did not end within 300 s, and was ended
        `git add` failed in /p: no
        cannot remove /p: permission denied
        ");
    }
}
