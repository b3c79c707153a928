//! The start of the agent, in a process group of its own.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::io::{Errno, ioctl_fionbio};

use super::exec_stage::{READY, UNCONFINED};
use super::{COMMAND, never_started};
use crate::message;
use crate::process::{TOKEN, set_pwd};
use crate::world::{Confinement, Job, NeverStarted, Obstacle};

/// Starts the agent of a job, or the stage that becomes it.
pub(super) fn start(job: &Job) -> Result<(Child, Launch), NeverStarted> {
    if let Some(dir) = job.dir.as_deref() {
        change_dir(dir)?;
    }
    let (launch, mut command) = Launch::prepare(job)
        .map_err(|error| never_started(&error, format!("cannot start a process: {error}")))?;
    command
        .env_clear()
        .envs(job.env.iter().map(|(name, value)| (name, value)))
        .stdin(if job.stdin.is_empty() { Stdio::null() } else { Stdio::piped() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    set_pwd(&mut command, Path::new("."));
    if !job.token.is_empty() {
        command.env(TOKEN, &job.token);
    }
    Ok((command.spawn().map_err(|error| cannot_start(job, &error))?, launch))
}

/// Changes to the directory of the agent, which inherits it. For `Command::current_dir` the standard library would
/// fork this process, and a missing directory would look like a missing program.
fn change_dir(dir: &Path) -> Result<(), NeverStarted> {
    std::env::set_current_dir(dir).map_err(|error| {
        // Not ENOENT as it is: the program may well be there.
        let message = format!("cannot start in {}: {error}", dir.display());
        never_started(&Errno::NOTDIR.into(), message)
    })
}

/// A program that cannot be started, and whether the program itself is the obstacle.
pub(super) fn cannot_start(job: &Job, error: &io::Error) -> NeverStarted {
    let is_missing = matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::ACCESS | Errno::NOEXEC | Errno::NOTDIR | Errno::LOOP)
    );
    let obstacle = if is_missing { Obstacle::Program } else { Obstacle::Surroundings };
    NeverStarted { obstacle, ..never_started(error, start_error(job, error)) }
}

fn start_error(job: &Job, error: &io::Error) -> String {
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
            format!(
                "cannot start '{program}': it is not an executable file, or permission is denied"
            )
        }
        io::ErrorKind::ArgumentListTooLong => format!(
            "cannot start '{program}': its arguments and variables are too long for the system; \
             pass the prompt on standard input or in a file"
        ),
        _ => format!("cannot start '{program}': {error}"),
    }
}

/// The step from the second stage of the shim to the agent.
#[derive(Default)]
pub(super) struct Launch {
    /// `None` at its end.
    pub(super) errors: Option<io::PipeReader>,
    /// The pipe, so that it does not end, and the confinement, until the stage has opened both.
    held: Option<(io::PipeWriter, Option<File>)>,
    received: Vec<u8>,
}

impl Launch {
    /// The command that becomes the agent, through the second stage where the system has a parent-death signal.
    #[cfg(target_os = "linux")]
    fn prepare(job: &Job) -> io::Result<(Self, Command)> {
        use std::os::fd::AsRawFd;

        let (errors, held) = io::pipe()?;
        ioctl_fionbio(&errors, true)?;
        let confinement = job.confinement.as_ref().map(in_memory).transpose()?;
        let descriptor = confinement.as_ref().map(|file| file.as_raw_fd().to_string());
        let mut command = Command::new(this_program()?);
        command
            .arg0("autoloop")
            .args([COMMAND, super::EXEC])
            .arg(std::process::id().to_string())
            .arg(held.as_raw_fd().to_string())
            .arg(descriptor.as_deref().unwrap_or(UNCONFINED))
            .arg(&job.program)
            .args(&job.args);
        let held = Some((held, confinement));
        let launch = Launch { errors: Some(errors), held, ..Launch::default() };
        Ok((launch, command))
    }

    #[cfg(not(target_os = "linux"))]
    fn prepare(job: &Job) -> io::Result<(Self, Command)> {
        if job.confinement.is_some() {
            return Err(io::Error::other("there is no sandbox on this system"));
        }
        let mut command = Command::new(&job.program);
        command.args(&job.args);
        Ok((Launch::default(), command))
    }

    /// Reads what the stage reports; `None` as long as it has not become the agent or failed to.
    pub(super) fn read(&mut self, job: &Job) -> Option<Result<(), NeverStarted>> {
        let mut buffer = [0; 16];
        while let Some(errors) = &mut self.errors {
            match errors.read(&mut buffer) {
                Ok(count @ 1..) => self.received.extend(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => self.errors = None,
            }
            if self.received.first() == Some(&READY) {
                self.held = None;
            }
        }
        let Some((errno, why)) = self.received.get(1..).and_then(<[u8]>::split_first_chunk) else {
            return Some(Ok(()));
        };
        let error = io::Error::from_raw_os_error(i32::from_le_bytes(*errno));
        Some(Err(match why {
            [] => cannot_start(job, &error),
            why => {
                let program = Path::new(&job.program).display();
                let why = String::from_utf8_lossy(why);
                never_started(&error, format!("cannot start '{program}': {why}"))
            }
        }))
    }
}

/// A confinement as a file for the stage: its lists may be too long for an argument.
#[cfg(target_os = "linux")]
fn in_memory(confinement: &Confinement) -> io::Result<File> {
    let file = rustix::fs::memfd_create("confinement", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = File::from(file);
    message::write(&mut file, confinement)?;
    Ok(file)
}

/// This very program, even if its file was replaced since it was started.
pub(super) fn this_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        Ok(PathBuf::from("/proc/self/exe"))
    } else {
        std::env::current_exe()
    }
}
