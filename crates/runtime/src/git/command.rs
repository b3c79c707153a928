//! Git as a child process: with a deadline, in bounded memory, and without prompts; and the plumbing commands that
//! the other modules share.
//!
//! The user's settings apply (identity, ignored files, filters), but nothing that runs other programs, asks
//! questions, signs, or continues in the background. Whatever decides what is reviewed and merged uses the
//! settings of [`private`](super::private). Git runs in a process group of its own and survives a kill of the
//! harness: it finishes instead of leaving a lock and half of the files behind.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process_group};

use super::GitError;
use super::lockfile::Lockfile;
use crate::process::pipes::{self, Drain};
use crate::process::{Capture, Spooling, set_pwd};
use crate::signals;
use crate::world::{Clock, Output, World};

/// Long enough for a checkout of a large repository.
const DEADLINE: Duration = Duration::from_secs(300);
/// Time to remove its locks after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);
/// How often a running git checks whether the harness was asked to stop.
const STOP_CHECK: Duration = Duration::from_millis(250);
/// How long to wait for one lock of another git. Several gits may hold it in turn for longer.
const LOCK_TIMEOUT: Duration = Duration::from_secs(15);
const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// How long to wait for another process of autoloop that holds a lock of ours.
const OWN_LOCK_TIMEOUT: Duration = Duration::from_secs(600);
/// Pauses between two attempts; short at first, because most hold it for a moment only.
const OWN_LOCK_PAUSES: [Duration; 2] = [Duration::from_micros(200), Duration::from_millis(5)];
/// A path that cannot exist.
const NOWHERE: &str = "/dev/null/none";
/// How many bytes of an output are kept from its beginning, and as many from its end.
const KEPT: usize = 8 * 1024 * 1024;

/// Name and address of the committer where git knows none.
const FALLBACK_IDENTITY: (&str, &str) = ("autoloop", "autoloop@localhost");

/// Settings that override those of the user and the repository.
const SETTINGS: [&str; 18] = [
    "advice.mergeConflict=false",
    "branch.autoSetupMerge=false",
    "color.ui=false",
    "commit.gpgSign=false",
    "core.bigFileThreshold=16m",
    // An agent can write any history into this file.
    "core.commitGraph=false",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.quotePath=false",
    "core.safecrlf=false",
    "diff.suppressBlankEmpty=false",
    "gc.auto=0",
    "log.showSignature=false",
    "maintenance.auto=false",
    "merge.autoStash=false",
    "merge.stat=false",
    "merge.verifySignatures=false",
    "submodule.recurse=false",
];

/// Variables for identity, settings and installation. All others are about another repository or command.
const KEPT_VARIABLES: [&[u8]; 10] = [
    b"GIT_AUTHOR_NAME",
    b"GIT_AUTHOR_EMAIL",
    b"GIT_COMMITTER_NAME",
    b"GIT_COMMITTER_EMAIL",
    b"GIT_CONFIG_GLOBAL",
    b"GIT_CONFIG_SYSTEM",
    b"GIT_CONFIG_NOSYSTEM",
    b"GIT_EXEC_PATH",
    b"GIT_SSH",
    b"GIT_SSH_COMMAND",
];

/// Variables that select a repository and its files, whatever directory git is in. A program that is started
/// from a hook has them.
pub const LOCATING_VARIABLES: [&str; 7] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_NAMESPACE",
];

/// Removes the `GIT_*` variables from the environment of a command, except `kept`.
pub(crate) fn without_variables(command: &mut Command, kept: &[&[u8]]) {
    for (name, _) in std::env::vars_os() {
        if name.as_bytes().starts_with(b"GIT_") && !kept.contains(&name.as_bytes()) {
            command.env_remove(name);
        }
    }
}

#[derive(Clone)]
pub(super) struct Git {
    world: World,
    dir: PathBuf,
    env: Vec<(OsString, OsString)>,
    kept: usize,
    /// Standard input: the input, or a lock, which so stays held until the last git has ended even if the
    /// harness is killed before.
    stdin: Option<Arc<File>>,
}

impl Git {
    pub(super) fn new(dir: &Path, world: &World) -> Git {
        Git { world: world.clone(), dir: dir.to_owned(), env: Vec::new(), kept: KEPT, stdin: None }
    }

    pub(super) fn world(&self) -> &World {
        &self.world
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn at(&self, dir: &Path) -> Git {
        Git { dir: dir.to_owned(), ..self.clone() }
    }

    pub(super) fn with(&self, name: &str, value: impl AsRef<OsStr>) -> Git {
        let mut git = self.clone();
        git.env.push((name.into(), value.as_ref().to_owned()));
        git
    }

    pub(super) fn with_stdin(&self, file: File) -> Git {
        Git { stdin: Some(Arc::new(file)), ..self.clone() }
    }

    /// The same, keeping only so many bytes from either end of its output.
    pub(super) fn keeping(&self, kept: usize) -> Git {
        Git { kept, ..self.clone() }
    }

    /// The same with a lock of ours held, which is waited for. It is released when the last copy of the file is
    /// closed, also in children.
    pub(super) fn locked(&self, path: &Path) -> Result<Git, GitError> {
        // An agent may have put a link there, which is not followed, or a pipe, which is not waited for.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = OpenOptions::new().create(true).append(true).custom_flags(flags).open(path);
        let file = file.map_err(GitError::io("open", path))?;
        let clock = &*self.world.clock;
        let begin = clock.elapsed();
        let [mut pause, longest_pause] = OWN_LOCK_PAUSES;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(self.with_stdin(file)),
                Err(TryLockError::Error(error)) => return Err(GitError::io("lock", path)(error)),
                Err(TryLockError::WouldBlock) => {}
            }
            let waited = clock.elapsed().saturating_sub(begin);
            if waited > OWN_LOCK_TIMEOUT || signals::requested() {
                return Err(GitError::Busy { path: path.to_owned(), waited });
            }
            clock.sleep(pause);
            pause = (2 * pause).min(longest_pause);
        }
    }

    /// Runs git; any exit code but 0 is an error.
    pub(super) fn run<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
    ) -> Result<GitOutput, GitError> {
        let output = self.try_run(args)?;
        if output.code == 0 { Ok(output) } else { Err(output.failure()) }
    }

    /// Runs git and returns its output, whatever its exit code. A lock of another git is waited for, and removed
    /// when no process holds it any more.
    pub(super) fn try_run<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
    ) -> Result<GitOutput, GitError> {
        let args: Vec<OsString> = args.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
        let clock = &*self.world.clock;
        let begin = clock.elapsed();
        let mut seen: Option<Lockfile> = None;
        loop {
            let output = self.run_once(&args)?;
            let Some(path) = output.lock() else { return Ok(output) };
            let now = clock.elapsed();
            let lock = seen.take().filter(|lock| lock.is(&path));
            let lock = lock.unwrap_or_else(|| Lockfile::seen(path, now));
            let is_over = now.saturating_sub(begin) > DEADLINE;
            if is_over || lock.waited(now) > LOCK_TIMEOUT && !lock.remove_if_stale()? {
                return Err(GitError::Locked(lock.into_path()));
            }
            seen = Some(lock);
            clock.sleep(LOCK_PAUSE);
        }
    }

    fn run_once(&self, args: &[OsString]) -> Result<GitOutput, GitError> {
        let name = args.first().map(|arg| arg.to_string_lossy().into_owned()).unwrap_or_default();
        let failed =
            |said: String| GitError::Failed { command: name.clone(), dir: self.dir.clone(), said };
        let mut child = self.command(args)?.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => GitError::Missing,
            _ => failed(error.to_string()),
        })?;
        let clock = &*self.world.clock;
        let read = Pipes::of(&mut child, self.kept).and_then(|mut pipes| {
            let in_time = pipes.read_to_end(clock, DEADLINE)?;
            if !in_time {
                pipes.end(&child, clock)?;
            }
            Ok(in_time.then_some(pipes))
        });
        let status = child.wait().map_err(|error| failed(error.to_string()))?;
        let Some(Pipes { out, err }) = read.map_err(|error| failed(error.to_string()))? else {
            return Err(match signals::requested() {
                true => failed("it was stopped, because autoloop was interrupted".to_owned()),
                false => GitError::Deadline { command: name, deadline: DEADLINE },
            });
        };
        let (out, err) = (out.capture.into_output(), err.capture.into_output());
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
        Ok(GitOutput { command: name.clone(), dir: self.dir.clone(), code, out, err: err.text() })
    }

    fn command(&self, args: &[OsString]) -> Result<Command, GitError> {
        let mut command = Command::new("git");
        // Git changes directory itself: the standard library would fork this process for that.
        command.arg("-C").arg(&self.dir);
        set_pwd(&mut command, &self.dir);
        without_variables(&mut command, &KEPT_VARIABLES);
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        let stdin = match &self.stdin {
            Some(file) => file
                .try_clone()
                .map_err(GitError::io("open the input of git in", &self.dir))?
                .into(),
            None => Stdio::null(),
        };
        command
            .args(args)
            .env("LC_ALL", "C")
            // No replaced objects, and no parents but those that commits name.
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_GRAFT_FILE", NOWHERE)
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_EDITOR", "true")
            .env("GIT_PAGER", "cat")
            // What agents are shown must not depend on the width of a terminal.
            .env_remove("COLUMNS")
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        Ok(command)
    }
}

pub(super) enum Merge {
    /// The second is a descendant of the first.
    FastForward,
    Tree(String),
    Conflict(Conflict),
}

/// A merge that git cannot complete.
pub(super) struct Conflict {
    /// What git can merge, with markers in the files that were changed differently.
    pub(super) tree: String,
    /// Of each of these files the versions that there are.
    pub(super) stages: Vec<Stage>,
}

pub(super) struct Stage {
    pub(super) mode: String,
    pub(super) object: String,
    /// `1` is the common ancestor, `2` and `3` are the two sides.
    pub(super) number: u8,
    pub(super) path: PathBuf,
}

impl Conflict {
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = self.stages.iter().map(|stage| stage.path.clone()).collect();
        files.sort();
        files.dedup();
        files
    }
}

impl Stage {
    pub(super) fn is_file(&self) -> bool {
        self.mode.starts_with("100")
    }

    /// Reads `100644 0123… 2\tpath`.
    fn read(line: &Path) -> Option<Stage> {
        let (about, path) = split_at_tab(line)?;
        let mut words = about.split(' ').map(str::to_owned);
        let (mode, object) = (words.next()?, words.next()?);
        Some(Stage { mode, object, number: words.next()?.parse().ok()?, path: path.to_owned() })
    }
}

/// What git says about a path, and the path.
pub(super) fn split_at_tab(line: &Path) -> Option<(&str, &Path)> {
    let line = line.as_os_str().as_bytes();
    let (about, path) = line.split_at(line.iter().position(|byte| *byte == b'\t')?);
    Some((str::from_utf8(about).ok()?, Path::new(OsStr::from_bytes(&path[1..]))))
}

impl Git {
    pub(super) fn commit(&self, name: &str) -> Result<Option<String>, GitError> {
        let name = format!("{name}^{{commit}}");
        let output = self.try_run(["rev-parse", "--verify", "--quiet", &name])?;
        Ok((output.code == 0).then(|| output.line()))
    }

    pub(super) fn tree_of(&self, commit: &str) -> Result<String, GitError> {
        Ok(self.run(["rev-parse", "--verify", &format!("{commit}^{{tree}}")])?.line())
    }

    pub(super) fn first_parent(&self, commit: &str) -> Result<String, GitError> {
        Ok(self.run(["rev-parse", "--verify", &format!("{commit}^1^{{commit}}")])?.line())
    }

    /// Whether `earlier` is `later` or one of its ancestors.
    pub(super) fn contains(&self, later: &str, earlier: &str) -> Result<bool, GitError> {
        if later == earlier {
            return Ok(true);
        }
        let output = self.try_run(["merge-base", "--is-ancestor", earlier, later])?;
        match output.code {
            0 => Ok(true),
            1 => Ok(false),
            _ => Err(output.failure()),
        }
    }

    /// The branch that a symbolic reference leads to; `None` if it is not symbolic.
    pub(super) fn symbolic_ref(&self, name: &str) -> Result<Option<String>, GitError> {
        let output = self.try_run(["symbolic-ref", "--quiet", name])?;
        Ok((output.code == 0).then(|| output.line()))
    }

    /// Points a reference at a commit: the name itself, not a branch that an agent made it a symbolic name for.
    /// The reason goes to the log of the reference.
    pub(super) fn update_ref(&self, name: &str, commit: &str, why: &str) -> Result<(), GitError> {
        self.run(["update-ref", "--no-deref", "-m", why, name, commit]).map(drop)
    }

    /// Deletes a reference if it still has this value.
    pub(super) fn delete_ref(&self, name: &str, value: &str) -> Result<(), GitError> {
        self.run(["update-ref", "--no-deref", "-d", name, value]).map(drop)
    }

    pub(super) fn commit_tree(
        &self,
        tree: &str,
        parents: &[&str],
        message: &str,
    ) -> Result<String, GitError> {
        let parents = parents.iter().flat_map(|parent| ["-p", *parent]);
        let words = ["commit-tree", tree].into_iter().chain(parents).chain(["-m", message]);
        Ok(self.run(words)?.line())
    }

    pub(super) fn merge(&self, head: &str, tip: &str) -> Result<Merge, GitError> {
        if self.contains(tip, head)? {
            return Ok(Merge::FastForward);
        }
        let words = ["merge-tree", "--write-tree", "-z", "--no-messages", head, tip];
        let output = self.try_run(words)?;
        let answer = output.names();
        match (output.code, &*answer) {
            (0, [tree]) => Ok(Merge::Tree(tree.to_string_lossy().into_owned())),
            (1, [tree, stages @ ..]) => Ok(Merge::Conflict(Conflict {
                tree: tree.to_string_lossy().into_owned(),
                stages: stages.iter().filter_map(|line| Stage::read(line)).collect(),
            })),
            _ => Err(output.failure()),
        }
    }

    /// The same with the dates of a commit, so that the same commit can be made again.
    pub(super) fn with_dates_of(&self, commit: &str) -> Result<Git, GitError> {
        let date = self.run(["show", "--no-patch", "--format=@%ct +0000", commit, "--"])?.line();
        Ok(self.with("GIT_AUTHOR_DATE", &date).with("GIT_COMMITTER_DATE", &date))
    }

    /// The same with a committer: the user, or autoloop where git does not know the user.
    pub(super) fn with_identity(&self) -> Result<Git, GitError> {
        let known =
            self.try_run(["-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT"])?;
        Ok(if known.code == 0 { self.clone() } else { self.as_autoloop() })
    }

    pub(super) fn as_autoloop(&self) -> Git {
        let (name, email) = FALLBACK_IDENTITY;
        let author = self.with("GIT_AUTHOR_NAME", name).with("GIT_AUTHOR_EMAIL", email);
        author.with("GIT_COMMITTER_NAME", name).with("GIT_COMMITTER_EMAIL", email)
    }
}

/// The full name of a branch, which cannot be confused with a tag or file of the same name.
pub(super) fn reference(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

/// The outputs of a running git, read in bounded memory.
struct Pipes {
    out: Drain,
    err: Drain,
}

impl Pipes {
    fn of(child: &mut Child, kept: usize) -> io::Result<Pipes> {
        let drain =
            |pipe: Option<OwnedFd>, kept| Drain::new(pipe, Capture::new(kept, Spooling::nowhere()));
        let out = drain(child.stdout.take().map(OwnedFd::from), kept)?;
        Ok(Pipes { out, err: drain(child.stderr.take().map(OwnedFd::from), KEPT)? })
    }

    /// Reads both to their end; whether that came in time.
    fn read_to_end(&mut self, clock: &dyn Clock, timeout: Duration) -> io::Result<bool> {
        let mut until = clock.elapsed() + timeout;
        let mut buffer = vec![0; 64 * 1024];
        loop {
            // A git that waits for a pipe in place of one of its files must not delay a stop.
            if signals::requested() {
                until = until.min(clock.elapsed() + GRACE);
            }
            let pipes = [&self.out.pipe, &self.err.pipe].into_iter().flatten();
            let mut polled: Vec<_> = pipes.map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
            let left = until.saturating_sub(clock.elapsed());
            if polled.is_empty() || left.is_zero() {
                return Ok(polled.is_empty());
            }
            pipes::poll(&mut polled, Some(left.min(STOP_CHECK)))?;
            // Neither blocks.
            self.out.read(&mut buffer);
            self.err.read(&mut buffer);
        }
    }

    /// Ends a git that takes too long: by SIGTERM first, so that it removes its locks.
    fn end(&mut self, child: &Child, clock: &dyn Clock) -> io::Result<()> {
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        for signal in [Signal::TERM, Signal::KILL] {
            if let Some(group) = group {
                let _ = kill_process_group(group, signal);
            }
            if self.read_to_end(clock, GRACE)? {
                break;
            }
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
pub(super) struct GitOutput {
    command: String,
    dir: PathBuf,
    pub(super) code: i32,
    pub(super) out: Output,
    pub(super) err: String,
}

impl GitOutput {
    pub(super) fn line(&self) -> String {
        self.out.text().trim_end_matches('\n').to_owned()
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        [&self.out.head[..], &self.out.tail].concat()
    }

    pub(super) fn names(&self) -> Vec<PathBuf> {
        let all = self.bytes();
        let names = all.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        names.map(|name| PathBuf::from(OsStr::from_bytes(name))).collect()
    }

    pub(super) fn failure(&self) -> GitError {
        let first = self.err.lines().map(str::trim).find(|line| !line.is_empty());
        let said = match first {
            Some(line) => {
                line.trim_start_matches("fatal: ").trim_start_matches("error: ").to_owned()
            }
            None => format!("exit code {}", self.code),
        };
        GitError::Failed { command: self.command.clone(), dir: self.dir.clone(), said }
    }

    /// The lock of another git because of which it failed.
    fn lock(&self) -> Option<PathBuf> {
        if self.code == 0 {
            return None;
        }
        let between = |before: &str, after: &str| {
            let line =
                self.err.lines().find(|line| line.contains(before) && line.contains(after))?;
            let (path, _) = line.split_once(before)?.1.split_once(after)?;
            Some(self.dir.join(path))
        };
        // The second is a worktree that another git is adding or removing.
        between("nable to create '", "': File exists")
            .or_else(|| between("failed to read ", "/commondir: "))
    }
}
