//! Files and directories that only their owner can use, whatever the umask.
//!
//! A umask takes bits away, so a mode alone never gives too many; but a umask such as 0277 takes the owner's bits
//! as well. So the bits are looked at once the file is made, and set where they differ.

#![expect(
    clippy::disallowed_methods,
    reason = "creates files with the modes that every caller should use"
)]

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

const DIRECTORY: u32 = 0o700;
const BITS: u32 = 0o777;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Data,
    Program,
}

impl Use {
    fn bits(self) -> u32 {
        match self {
            Use::Data => 0o600,
            Use::Program => 0o700,
        }
    }
}

pub fn create_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(DIRECTORY).create(path)?;
    close(path)
}

/// Creates a directory and those on the way to it, as far as they are missing.
pub fn create_dirs(path: &Path) -> io::Result<()> {
    let is_missing =
        |dir: &&Path| !dir.as_os_str().is_empty() && fs::symlink_metadata(dir).is_err();
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    for dir in missing.into_iter().rev() {
        match create_dir(dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Creates a file, which must not exist yet.
pub fn create_file(path: &Path, used: Use) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(used.bits()).open(path)?;
    set_file_bits(&file, used)?;
    Ok(file)
}

/// Gives a file that was just created its bits, where a umask took some of them.
pub(crate) fn set_file_bits(file: &File, used: Use) -> io::Result<()> {
    if file.metadata()?.mode() & BITS == used.bits() {
        return Ok(());
    }
    where_there_are_bits(file.set_permissions(Permissions::from_mode(used.bits())))
}

/// Takes all rights to a directory from others than its owner. What belongs to another user stays as it is, and so
/// does what a link leads to.
pub fn close(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    let is_ours = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    match is_ours && found.mode() & BITS != DIRECTORY {
        true => where_there_are_bits(set_bits(path)),
        false => Ok(()),
    }
}

/// Some file systems give every file the same bits, and refuse to change them.
fn where_there_are_bits(set: io::Result<()>) -> io::Result<()> {
    use io::ErrorKind::{PermissionDenied, Unsupported};

    match set {
        Err(error) if matches!(error.kind(), PermissionDenied | Unsupported) => Ok(()),
        set => set,
    }
}

/// Sets the bits of a directory through a descriptor, so that no link put in its place is followed. The owner may
/// have no right to open it, for which `O_PATH` asks none.
#[cfg(target_os = "linux")]
fn set_bits(path: &Path) -> io::Result<()> {
    use std::os::fd::AsRawFd;

    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::open(path, flags, Mode::empty())?;
    let itself = format!("/proc/self/fd/{}", dir.as_raw_fd());
    fs::set_permissions(itself, Permissions::from_mode(DIRECTORY))
}

#[cfg(not(target_os = "linux"))]
fn set_bits(path: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::open(path, flags, Mode::empty())?;
    Ok(rustix::fs::fchmod(dir, Mode::from_raw_mode(0o700))?)
}
