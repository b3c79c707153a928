//! The address of a socket, however long its path is.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// A socket that no child inherits.
pub(super) fn socket() -> io::Result<OwnedFd> {
    #[cfg(target_os = "linux")]
    let flags = SocketFlags::CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = SocketFlags::empty();
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// An address to bind or to connect to, for as long as it lives.
pub(super) struct Address {
    address: SocketAddrUnix,
    /// What the address leads through.
    _dir: Option<OwnedFd>,
}

impl Address {
    /// The address of a path. The kernel takes 107 bytes, and projects lie deeper: a longer path is
    /// reached through its open directory.
    pub(super) fn of(path: &Path) -> io::Result<Address> {
        if let Ok(address) = SocketAddrUnix::new(path) {
            return Ok(Address { address, _dir: None });
        }
        let parent = path.parent().unwrap_or(Path::new("."));
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let dir = rustix::fs::open(parent, flags, Mode::empty())?;
        let short = through(&dir, path.file_name().unwrap_or_default());
        Ok(Address { address: SocketAddrUnix::new(&short)?, _dir: Some(dir) })
    }

    pub(super) fn get(&self) -> &SocketAddrUnix {
        &self.address
    }
}

fn through(dir: &OwnedFd, name: &OsStr) -> PathBuf {
    Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(name)
}
