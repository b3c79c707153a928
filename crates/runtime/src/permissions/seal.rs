//! Directories that a process sees and cannot change.
//!
//! A directory is mounted onto itself, for reading only, in a mount namespace of the process's own. What
//! is mounted over a part of it afterwards is not held by that.

use std::io;
use std::path::Path;

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::mount::{MountFlags, mount_bind_recursive, mount_remount};

/// Seals a directory for this process and those that it starts. The mounts have to be its own already.
///
/// # Errors
///
/// When the system does not let us.
pub(super) fn seal(directory: &Path) -> io::Result<()> {
    mount_bind_recursive(directory, directory)?;
    let flags = MountFlags::BIND | MountFlags::RDONLY | kept(statvfs(directory)?.f_flag);
    Ok(mount_remount(directory, flags, "")?)
}

/// What was forbidden there already. Somebody without privileges may not take it back, not even by
/// leaving it out.
fn kept(flags: StatVfsMountFlags) -> MountFlags {
    let same = [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ];
    let found = same.into_iter().filter(|(flag, _)| flags.contains(*flag));
    let kept = found.fold(MountFlags::empty(), |kept, (_, flag)| kept | flag);
    match kept.intersects(MountFlags::NOATIME | MountFlags::RELATIME) {
        true => kept,
        false => kept | MountFlags::STRICTATIME,
    }
}
