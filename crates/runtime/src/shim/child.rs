//! The start of the agent, in a process group of its own.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::io::Errno;

use super::exec_stage::READY;
use super::{COMMAND, never_started};
use crate::process::pipes::never_wait;
use crate::process::{TOKEN, set_pwd};
use crate::world::{Confinement, Job, NeverStarted, Obstacle};

/// An agent that was started, with our ends of its pipes.
pub(super) struct Started {
    pub(super) id: u32,
    pub(super) stdin: Option<OwnedFd>,
    pub(super) stdout: Option<OwnedFd>,
    pub(super) stderr: Option<OwnedFd>,
    pub(super) launch: Launch,
}

/// Starts the agent.
pub(super) fn start(job: &Job) -> Result<Started, NeverStarted> {
    if let Some(dir) = job.dir.as_deref() {
        go_to(dir)?;
    }
    let about_us = |error: &io::Error| format!("cannot start a process: {error}");
    let (launch, mut command) =
        Launch::prepare(job).map_err(|error| never_started(&error, about_us))?;
    command
        .envs(job.env.iter().map(|(name, value)| (name, value)))
        .stdin(if job.stdin.is_empty() { Stdio::null() } else { Stdio::piped() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    // The agent works where this process is by now.
    set_pwd(&mut command, Path::new("."));
    for name in &job.env_removed {
        command.env_remove(name);
    }
    if !job.token.is_empty() {
        command.env(TOKEN, &job.token);
    }
    let mut child = command.spawn().map_err(|error| unable(job, &error))?;
    Ok(Started {
        id: child.id(),
        stdin: child.stdin.take().map(OwnedFd::from),
        stdout: child.stdout.take().map(OwnedFd::from),
        stderr: child.stderr.take().map(OwnedFd::from),
        launch,
    })
}

/// Goes where the agent is to work, which then begins where we are. A process that is to be started
/// elsewhere costs more: the standard library makes it by a copy of this one. And a directory that is
/// not there would look like a program that is not there.
fn go_to(dir: &Path) -> Result<(), NeverStarted> {
    std::env::set_current_dir(dir).map_err(|error| {
        // Not ENOENT as it is: the program may well be there.
        let message = format!("cannot start in {}: {error}", dir.display());
        let errno = Errno::NOTDIR.raw_os_error();
        NeverStarted { errno, message, obstacle: Obstacle::Surroundings }
    })
}

/// A program that cannot be started, and whether that is its own fault.
pub(crate) fn unable(job: &Job, error: &io::Error) -> NeverStarted {
    let is_missing = matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::ACCESS | Errno::NOEXEC | Errno::NOTDIR | Errno::LOOP)
    );
    let obstacle = if is_missing { Obstacle::Program } else { Obstacle::Surroundings };
    NeverStarted { obstacle, ..never_started(error, |error| cannot_start(job, error)) }
}

/// What to tell people about a program that cannot be started.
fn cannot_start(job: &Job, error: &io::Error) -> String {
    let program = Path::new(&job.program).display();
    let is_path = job.program.as_encoded_bytes().contains(&b'/');
    match error.kind() {
        io::ErrorKind::NotFound if is_path => {
            format!(
                "cannot start '{program}': there is no such file, or its interpreter is missing"
            )
        }
        io::ErrorKind::NotFound => format!("cannot start '{program}': not found in PATH"),
        io::ErrorKind::PermissionDenied => {
            format!("cannot start '{program}': it is not an executable file, or not for us")
        }
        io::ErrorKind::ArgumentListTooLong => format!(
            "cannot start '{program}': its arguments and variables are too long for the system; \
             pass the prompt on standard input or in a file"
        ),
        _ => format!("cannot start '{program}': {error}"),
    }
}

/// What is known about the step from our second stage to the agent.
pub(super) struct Launch {
    errors: Option<io::PipeReader>,
    /// Held until the stage has opened its own; else the pipe would seem to have ended.
    held: Option<io::PipeWriter>,
    said: Vec<u8>,
}

/// What became of a launch.
pub(super) enum Launched {
    /// Nothing yet.
    NotYet,
    /// The agent runs.
    Running,
    /// The agent cannot be run.
    Failed(NeverStarted),
}

impl Launch {
    /// The command that becomes the agent, by way of the second stage where a parent's death can be
    /// told by a signal.
    #[cfg(target_os = "linux")]
    fn prepare(job: &Job) -> io::Result<(Self, Command)> {
        use std::os::fd::AsRawFd;

        let (errors, held) = io::pipe()?;
        never_wait(&errors)?;
        let bounds = job.confinement.as_ref().map(Confinement::to_args).unwrap_or_default();
        let mut command = Command::new(this_program()?);
        command
            .arg0("autoloop")
            .args([COMMAND, super::EXEC])
            .arg(std::process::id().to_string())
            .arg(held.as_raw_fd().to_string())
            .arg(bounds.len().to_string())
            .args(bounds)
            .arg(&job.program)
            .args(&job.args);
        Ok((Launch { errors: Some(errors), held: Some(held), said: Vec::new() }, command))
    }

    #[cfg(not(target_os = "linux"))]
    fn prepare(job: &Job) -> io::Result<(Self, Command)> {
        if job.confinement.is_some() {
            return Err(io::Error::other("there is no sandbox on this system"));
        }
        let mut command = Command::new(&job.program);
        command.args(&job.args);
        Ok((Launch { errors: None, held: None, said: Vec::new() }, command))
    }

    /// The pipe that tells, until it has told all.
    pub(super) fn pipe(&self) -> Option<&io::PipeReader> {
        self.errors.as_ref()
    }

    /// Reads what the stage says about itself.
    pub(super) fn read(&mut self, job: &Job) -> Launched {
        let mut buffer = [0; 16];
        while let Some(errors) = &mut self.errors {
            match errors.read(&mut buffer) {
                Ok(count @ 1..) => self.said.extend(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Launched::NotYet,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => self.errors = None,
            }
            if self.said.first() == Some(&READY) {
                self.held = None;
            }
        }
        let Some((errno, why)) = self.said.get(1..).and_then(<[u8]>::split_first_chunk) else {
            return Launched::Running;
        };
        let error = io::Error::from_raw_os_error(i32::from_le_bytes(*errno));
        Launched::Failed(match why {
            [] => unable(job, &error),
            why => never_started(&error, |_| {
                let program = Path::new(&job.program).display();
                format!("cannot start '{program}': {}", String::from_utf8_lossy(why))
            }),
        })
    }
}

/// This very program, also when its file was replaced since it was started.
pub(crate) fn this_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        Ok(PathBuf::from("/proc/self/exe"))
    } else {
        std::env::current_exe()
    }
}

/// The command line of a shim.
pub(crate) fn shim_command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg0("autoloop").arg(OsString::from(COMMAND));
    command
}
