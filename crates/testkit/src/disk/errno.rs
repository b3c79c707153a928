//! The error numbers of Linux that a simulated call can fail with.

use std::io;

pub(super) const ENOENT: i32 = 2;
pub(super) const EBADF: i32 = 9;
pub(super) const EEXIST: i32 = 17;
pub(super) const ENOTDIR: i32 = 20;
pub(super) const EISDIR: i32 = 21;
pub(super) const EINVAL: i32 = 22;
pub(super) const ENOSPC: i32 = 28;
pub(super) const ESPIPE: i32 = 29;
pub(super) const ELOOP: i32 = 40;

/// The error that the call of the real disk would return.
pub(super) fn fail<T>(errno: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(errno))
}
