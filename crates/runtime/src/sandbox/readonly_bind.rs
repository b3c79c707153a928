//! Files and directories that a process sees and cannot change.
//!
//! A file or directory is mounted onto itself, for reading only, in a mount namespace of the process's own. What
//! is mounted over a part of it afterwards is not held by that, and neither are other file systems that
//! were mounted beneath it before.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, StatVfsMountFlags, statvfs};
use rustix::mount::{MountFlags, mount_bind_recursive, mount_remount};

/// Has a directory stay where it is, for this process and those that it starts: the kernel renames
/// nothing on which something is mounted. The mounts have to be its own already.
///
/// # Errors
///
/// When the system does not let us.
pub(super) fn pin(directory: &Path) -> io::Result<()> {
    Ok(mount_bind_recursive(directory, directory)?)
}

/// What is to stay where it is, if a tree is to stay, and directories that are sealed: whatever is above
/// them, the top first, since what is mounted later lies over what was before. Nothing is moved in what
/// is sealed.
pub(super) fn above<'d>(tree: &'d Path, sealed: &'d [PathBuf]) -> BTreeSet<&'d Path> {
    let held = sealed.iter().map(PathBuf::as_path).chain([tree]);
    let above = held.flat_map(|directory| directory.ancestors().skip(1));
    let is_sealed = |directory: &Path| sealed.iter().any(|other| directory.starts_with(other));
    above.filter(|above| above.parent().is_some() && !is_sealed(above)).collect()
}

/// Holds a file or directory, to be sealed at a path that something is mounted over in between.
///
/// # Errors
///
/// When it is not there, or is a link.
pub(super) fn hold(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Seals a file or directory at a path, for this process and those that it starts. The mounts have to be
/// its own already.
///
/// # Errors
///
/// When the system does not let us.
pub(super) fn seal(what: &Path, path: &Path) -> io::Result<()> {
    mount_bind_recursive(what, path)?;
    let flags = MountFlags::BIND | MountFlags::RDONLY | kept(statvfs(path)?.f_flag);
    Ok(mount_remount(path, flags, "")?)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_above_comes_from_the_top_down_and_once() {
        let above = |tree: &'static str, sealed: &[&str]| {
            let sealed: Vec<PathBuf> = sealed.iter().map(PathBuf::from).collect();
            let above = above(Path::new(tree), &sealed);
            above.iter().map(|directory| directory.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(above("/a/b/c", &["/a/d", "/a/b/e"]), ["/a", "/a/b"]);
        assert_eq!(above("/a/b/state/tree", &["/a/b"]), ["/a"]);
    }
}
