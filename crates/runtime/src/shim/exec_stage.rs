//! The second stage: a process that confines itself and becomes the agent.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::process_tree;
use crate::message;
use crate::world::{Clock, Confinement, SystemClock};

/// The first byte that the stage writes to the shim.
pub(super) const READY: u8 = b'R';
/// In the place of a confinement where there is none.
pub(super) const UNCONFINED: &str = "-";
/// How long a program file that is open for writing is retried.
const BUSY: Duration = Duration::from_millis(500);
const TRY_AGAIN: Duration = Duration::from_millis(10);

/// Requests SIGKILL at the death of the shim, and becomes the agent.
///
/// The arguments are the shim's process id, the descriptors there of the pipe for errors and of the confinement or `-`,
/// the program and its arguments. The pipe is opened by its name in `/proc`, because an inherited descriptor could not
/// be closed at exec without `unsafe`; that it closes then is how the shim learns of success.
pub(super) fn become_agent(mut args: impl Iterator<Item = OsString>) -> io::Result<()> {
    let mut word = || args.next().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput));
    let shim = number(&word()?)?;
    let path = |word: OsString| io::Result::Ok(format!("/proc/{shim}/fd/{}", number(&word)?));
    let mut errors = OpenOptions::new().write(true).open(path(word()?)?)?;
    let confinement = Some(word()?).filter(|word| word != UNCONFINED);
    let confinement = confinement.map(|word| File::open(path(word)?)).transpose()?;
    let program = word()?;
    errors.write_all(&[READY])?;
    if let Some(message) = confinement
        && let Err(why) = confine(message)
    {
        errors.write_all(&rustix::io::Errno::PERM.raw_os_error().to_le_bytes())?;
        errors.write_all(why.to_string().as_bytes())?;
        std::process::exit(126);
    }
    // Not before: entering a namespace clears the parent-death signal.
    die_with_parent()?;
    if !process_tree::parent_is(shim) {
        return Ok(());
    }
    let mut command = Command::new(program);
    let error = exec(command.args(args));
    errors.write_all(&error.raw_os_error().unwrap_or_default().to_le_bytes())?;
    std::process::exit(127);
}

/// Confines this process as a message says.
pub(super) fn confine(mut message: impl Read) -> io::Result<()> {
    let confinement: Option<Confinement> = message::read(&mut message, u32::MAX)?;
    confinement.ok_or_else(message::malformed)?.bind_self().map_err(io::Error::other)
}

fn exec(command: &mut Command) -> io::Error {
    let clock = SystemClock::default();
    loop {
        let error = command.exec();
        match error.kind() {
            io::ErrorKind::ExecutableFileBusy if clock.elapsed() <= BUSY => {}
            io::ErrorKind::PermissionDenied if is_nowhere(command.get_program()) => {
                return rustix::io::Errno::NOENT.into();
            }
            _ => return error,
        }
        clock.sleep(TRY_AGAIN);
    }
}

/// Whether no directory of PATH has this program. The system reports "permission denied" instead as soon as one of
/// them cannot be read.
fn is_nowhere(program: &OsStr) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_in = |dir: PathBuf| dir.join(program).symlink_metadata().is_ok();
    !program.as_encoded_bytes().contains(&b'/') && !std::env::split_paths(&path).any(is_in)
}

fn die_with_parent() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    Ok(())
}

fn number(word: &OsString) -> io::Result<u32> {
    let number = word.to_str().and_then(|word| word.parse().ok());
    number.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}
