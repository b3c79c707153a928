//! The second stage: a process that becomes the agent, and does before what only it can do.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::process_tree;
use crate::world::{Clock, Confinement, SystemClock};

/// What the stage writes when it has found its way to the shim.
pub(super) const READY: u8 = b'R';
/// A program that somebody still writes to is tried again for so long.
const BUSY: Duration = Duration::from_millis(500);
const TRY_AGAIN: Duration = Duration::from_millis(10);

/// Asks to die with the shim, and becomes the agent.
///
/// The arguments are the shim's process id, the number of the pipe there that takes our errors, how
/// many words follow about the bounds of the agent, these words, the program and its arguments. The pipe is opened by its name in `/proc`, because a descriptor that
/// was merely inherited could not be closed at exec without `unsafe`; and that it closes then is how
/// the shim learns that all went well.
pub(super) fn become_agent(mut args: impl Iterator<Item = OsString>) -> io::Result<()> {
    let mut word = || args.next().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput));
    let (shim, descriptor, count) = (number(&word()?)?, number(&word()?)?, number(&word()?)?);
    let bounds = (0..count).map(|_| word()).collect::<io::Result<Vec<_>>>()?;
    let program = word()?;
    let mut errors: File =
        OpenOptions::new().write(true).open(format!("/proc/{shim}/fd/{descriptor}"))?;
    errors.write_all(&[READY])?;
    if !bounds.is_empty()
        && let Err(why) = confine(bounds)
    {
        errors.write_all(&rustix::io::Errno::PERM.raw_os_error().to_le_bytes())?;
        errors.write_all(why.as_bytes())?;
        std::process::exit(126);
    }
    // Not before: who enters a namespace of his own forgets this wish.
    die_with_parent()?;
    if !process_tree::parent_is(shim) {
        return Ok(());
    }
    let mut command = Command::new(program);
    let error = exec(command.args(args));
    errors.write_all(&error.raw_os_error().unwrap_or_default().to_le_bytes())?;
    std::process::exit(127);
}

/// Finds out whether a process can be bound so, by binding this one.
pub(super) fn try_bounds(args: impl Iterator<Item = OsString>) -> io::Result<()> {
    confine(args.collect()).map_err(io::Error::other)
}

fn confine(bounds: Vec<OsString>) -> Result<(), String> {
    let bounds = Confinement::from_args(bounds)
        .map_err(|word| format!("'{}' says nothing about bounds", word.display()))?;
    bounds.bind_self().map_err(|error| error.to_string())
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

/// Whether no directory of PATH has this program. The system tells of a lack of permission instead as soon
/// as it may not look into one of them, like that of another user whose PATH it is.
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
