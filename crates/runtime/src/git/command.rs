//! Git as a child process: with a deadline, in bounded memory, and without surprises.
//!
//! A person's settings hold (who commits, what is ignored, which filters there are), but nothing that
//! runs other programs, asks questions, signs, or goes on in the background. Whatever decides over what is
//! reviewed and merged is done with the settings of [`private`](super::private). Git is in a process group
//! of its own and is not ended when we are killed: what it has begun it ends, in a moment, instead of
//! leaving a lock and half of the files behind.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use super::GitError;
use super::lockfile::Lockfile;
use crate::process::pipes::Drain;
use crate::process::{Capture, Spooling, set_pwd};
use crate::signals;
use crate::world::{Clock, Output, World};

/// A checkout of a giant repository takes its time; a git that asks or hangs takes for ever.
const DEADLINE: Duration = Duration::from_secs(300);
/// After it, git has this long to take its locks away.
const GRACE: Duration = Duration::from_secs(5);
/// How often it is looked whether we are to stop.
const LOOK: Duration = Duration::from_millis(250);
/// How long one lock of another git is waited for. It may go from hand to hand for longer.
const LOCK_PATIENCE: Duration = Duration::from_secs(15);
/// Between two looks at it.
const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// A file that is not there, and cannot be.
const NOWHERE: &str = "/dev/null/none";
/// How much of what git says is kept from the beginning, and as much from the end.
const KEPT: usize = 8 * 1024 * 1024;

/// What holds whatever the settings say.
const SETTINGS: [&str; 18] = [
    "advice.mergeConflict=false",
    "branch.autoSetupMerge=false",
    "color.ui=false",
    "commit.gpgSign=false",
    "core.bigFileThreshold=16m",
    // It can say anything about what follows from what.
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

/// Variables of git that say who commits, where its settings are and how it is installed. All others
/// are about another repository or another command.
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

/// Variables that say which repository and which files are meant, whatever directory git is in. A
/// program that is started from a hook has them.
pub const LOCATING_VARIABLES: [&str; 7] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_NAMESPACE",
];

/// Takes the variables out of a command that would lead git elsewhere, but those that are to stay.
pub(crate) fn without_variables(command: &mut Command, kept: &[&[u8]]) {
    for (name, _) in std::env::vars_os() {
        if name.as_bytes().starts_with(b"GIT_") && !kept.contains(&name.as_bytes()) {
            command.env_remove(name);
        }
    }
}

/// Git, about to be run in a directory.
#[derive(Clone)]
pub(super) struct Git {
    world: World,
    dir: PathBuf,
    env: Vec<(OsString, OsString)>,
    kept: usize,
    /// Standard input. A lock that is held for git stays held until the last git has ended, even if
    /// we are killed before.
    held: Option<Arc<File>>,
}

impl Git {
    pub(super) fn new(dir: &Path, world: &World) -> Git {
        Git { world: world.clone(), dir: dir.to_owned(), env: Vec::new(), kept: KEPT, held: None }
    }

    pub(super) fn world(&self) -> &World {
        &self.world
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The same in another directory.
    pub(super) fn at(&self, dir: &Path) -> Git {
        Git { dir: dir.to_owned(), ..self.clone() }
    }

    /// The same with a variable set.
    pub(super) fn with(&self, name: &str, value: impl AsRef<OsStr>) -> Git {
        let mut git = self.clone();
        git.env.push((name.into(), value.as_ref().to_owned()));
        git
    }

    /// The same while a lock is held.
    pub(super) fn holding(&self, lock: Arc<File>) -> Git {
        Git { held: Some(lock), ..self.clone() }
    }

    /// The same, of whose output only so much is kept from either end.
    pub(super) fn keeping(&self, kept: usize) -> Git {
        Git { kept, ..self.clone() }
    }

    /// Runs git, and has it do what it is told.
    pub(super) fn run<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
    ) -> Result<Said, GitError> {
        let said = self.ask(args)?;
        if said.code == 0 { Ok(said) } else { Err(said.failure()) }
    }

    /// Runs git, and takes whatever exit code it has for an answer. A lock of another git is waited for,
    /// and removed when it turns out to be nobody's.
    pub(super) fn ask<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
    ) -> Result<Said, GitError> {
        let args: Vec<OsString> = args.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
        let clock = &*self.world.clock;
        let begin = clock.elapsed();
        let mut seen: Option<Lockfile> = None;
        loop {
            let said = self.once(&args)?;
            let Some(path) = said.lock() else { return Ok(said) };
            let now = clock.elapsed();
            let lock = seen.take().filter(|lock| lock.is(&path));
            let lock = lock.unwrap_or_else(|| Lockfile::seen(path, now));
            let is_over = now.saturating_sub(begin) > DEADLINE;
            if is_over || lock.waited(now) > LOCK_PATIENCE && !lock.remove_if_left()? {
                return Err(GitError::Locked(lock.into_path()));
            }
            seen = Some(lock);
            clock.sleep(LOCK_PAUSE);
        }
    }

    fn once(&self, args: &[OsString]) -> Result<Said, GitError> {
        let name = args.first().map(|arg| arg.to_string_lossy().into_owned()).unwrap_or_default();
        let failed =
            |said: String| GitError::Failed { command: name.clone(), dir: self.dir.clone(), said };
        let mut child = self.command(args)?.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => GitError::Missing,
            _ => failed(error.to_string()),
        })?;
        let clock = &*self.world.clock;
        let listened = Outputs::of(&mut child, self.kept).and_then(|mut outputs| {
            let in_time = outputs.listen(clock, DEADLINE)?;
            if !in_time {
                outputs.end(&child, clock)?;
            }
            Ok(in_time.then_some(outputs))
        });
        let status = child.wait().map_err(|error| failed(error.to_string()))?;
        let Some(Outputs { out, err }) = listened.map_err(|error| failed(error.to_string()))?
        else {
            return Err(match signals::requested() {
                true => failed("it was ended, because autoloop was asked to stop".to_owned()),
                false => GitError::Deadline { command: name, deadline: DEADLINE },
            });
        };
        let (out, err) = (out.capture.into_output(), err.capture.into_output());
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
        Ok(Said { command: name.clone(), dir: self.dir.clone(), code, out, err: err.text() })
    }

    fn command(&self, args: &[OsString]) -> Result<Command, GitError> {
        let mut command = Command::new("git");
        // Git goes there itself: the standard library starts a program elsewhere by a copy of this one.
        command.arg("-C").arg(&self.dir);
        set_pwd(&mut command, &self.dir);
        without_variables(&mut command, &KEPT_VARIABLES);
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        let stdin = match &self.held {
            Some(lock) => lock.try_clone().map_err(GitError::io("hold", &self.dir))?.into(),
            None => Stdio::null(),
        };
        command
            .args(args)
            .env("LC_ALL", "C")
            // Objects are what their names say, and commits have the parents that they name.
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_GRAFT_FILE", NOWHERE)
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_EDITOR", "true")
            .env("GIT_PAGER", "cat")
            // What is shown to agents does not depend on the width of somebody's terminal.
            .env_remove("COLUMNS")
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        Ok(command)
    }
}

/// What git prints, read as it comes and in bounded memory.
struct Outputs {
    out: Drain,
    err: Drain,
}

impl Outputs {
    fn of(child: &mut Child, kept: usize) -> io::Result<Outputs> {
        let drain =
            |pipe: Option<OwnedFd>, kept| Drain::new(pipe, Capture::new(kept, Spooling::nowhere()));
        let out = drain(child.stdout.take().map(OwnedFd::from), kept)?;
        Ok(Outputs { out, err: drain(child.stderr.take().map(OwnedFd::from), KEPT)? })
    }

    /// Reads both to their end; whether that came in time.
    fn listen(&mut self, clock: &dyn Clock, patience: Duration) -> io::Result<bool> {
        let mut until = clock.elapsed() + patience;
        let mut buffer = vec![0; 64 * 1024];
        loop {
            // A git that waits for a pipe in the place of one of its files must not keep us from stopping.
            if signals::requested() {
                until = until.min(clock.elapsed() + GRACE);
            }
            let pipes = [&self.out, &self.err].into_iter().filter_map(Drain::pipe);
            let mut polled: Vec<_> = pipes.map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
            let left = until.saturating_sub(clock.elapsed());
            if polled.is_empty() || left.is_zero() {
                return Ok(polled.is_empty());
            }
            let left = Timespec::try_from(left.min(LOOK)).map_err(io::Error::other)?;
            match poll(&mut polled, Some(&left)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            // One that has nothing says so, and makes nobody wait.
            self.out.read(&mut buffer);
            self.err.read(&mut buffer);
        }
    }

    /// Ends a git that takes too long: asked first, so that it takes its locks away.
    fn end(&mut self, child: &Child, clock: &dyn Clock) -> io::Result<()> {
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        for signal in [Signal::TERM, Signal::KILL] {
            if let Some(group) = group {
                // It may be gone.
                let _ = kill_process_group(group, signal);
            }
            if self.listen(clock, GRACE)? {
                break;
            }
        }
        Ok(())
    }
}

/// What git answered.
#[derive(Clone, Debug)]
pub(super) struct Said {
    command: String,
    dir: PathBuf,
    pub(super) code: i32,
    pub(super) out: Output,
    pub(super) err: String,
}

impl Said {
    /// The answer, where it is one line.
    pub(super) fn line(&self) -> String {
        self.out.text().trim_end_matches('\n').to_owned()
    }

    /// The answer, where it is a list with zeros in between.
    pub(super) fn names(&self) -> Vec<PathBuf> {
        let all = [&self.out.head[..], &self.out.tail].concat();
        let names = all.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        names.map(|name| PathBuf::from(OsStr::from_bytes(name))).collect()
    }

    /// That it failed.
    pub(super) fn failure(&self) -> GitError {
        let told = self.err.lines().map(str::trim).find(|line| !line.is_empty());
        let said = match told {
            Some(line) => {
                line.trim_start_matches("fatal: ").trim_start_matches("error: ").to_owned()
            }
            None => format!("it exits with {}", self.code),
        };
        GitError::Failed { command: self.command.clone(), dir: self.dir.clone(), said }
    }

    /// The lock of another git that it failed for.
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
        // The second is a working tree that another git is just making or removing.
        between("nable to create '", "': File exists")
            .or_else(|| between("failed to read ", "/commondir: "))
    }
}
