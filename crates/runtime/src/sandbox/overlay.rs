//! A writable view of the project that leaves the project unchanged.
//!
//! Landlock alone cannot allow one file at the top of the project to be replaced by renaming another over
//! it, as most editors do: the right to create files in a directory holds for everything beneath it. So
//! where the system permits it, the reviewer works in an overlay: everything it writes goes to a directory
//! elsewhere. Afterwards what the allow list permits is [taken over](Overlay::take_over), and the rest is
//! listed and discarded.
//!
//! The view is mounted by the process that becomes the reviewer, in its own mount namespace; without
//! privileges it enters a user namespace first. Landlock keeps it from being unmounted.

use std::{fs, io};

use crate::world::Overlay;

impl Overlay {
    /// The same with another working directory: the kernel refuses to reuse one of a volatile overlay.
    pub(crate) fn for_a_try(&self) -> io::Result<Overlay> {
        let work = self.work.with_extension("tried");
        fs::create_dir_all(&work)?;
        Ok(Overlay { work, ..self.clone() })
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn enter(&self, _sealed: &[std::path::PathBuf]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(target_os = "linux")]
mod mount {
    use std::collections::BTreeSet;
    use std::ffi::{CString, OsString};
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::os::unix::ffi::OsStringExt;
    use std::path::{Path, PathBuf};
    use std::{fs, io};

    use rustix::fs::{Mode, OFlags, StatVfsMountFlags, statvfs};
    use rustix::io::Errno;
    use rustix::mount::{
        MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change, mount_remount,
    };

    use crate::world::Overlay;

    impl Overlay {
        /// Mounts the view over the project, for this process and its children, and enters it. The sealed
        /// files and directories become read-only, and none of them can be moved; inside the project they
        /// are the real ones, not those of the view. The process must have a single thread.
        pub(crate) fn enter(&self, sealed: &[PathBuf]) -> io::Result<()> {
            // Before the namespace changes, which may show some files as another user's.
            std::env::set_current_dir(&self.project)?;
            own_namespace()?;
            mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
            let (inside, outside): (Vec<PathBuf>, Vec<PathBuf>) =
                sealed.iter().cloned().partition(|path| path.starts_with(&self.project));
            for directory in above(&self.project, &outside) {
                // The kernel renames no mount point.
                mount_bind_recursive(directory, directory)?;
            }
            outside.iter().try_for_each(|path| mount_read_only(path, path))?;
            // Opened before the view covers them.
            let inside: Vec<(OwnedFd, PathBuf)> = inside
                .into_iter()
                .map(|path| {
                    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    Ok((rustix::fs::open(&path, flags, Mode::empty())?, path))
                })
                .collect::<io::Result<_>>()?;
            // The former current directory is covered by these mounts.
            std::env::set_current_dir(&self.project)?;
            mount("overlay", ".", "overlay", MountFlags::empty(), self.options()?.as_c_str())?;
            for (opened, path) in &inside {
                let real = Path::new("/proc/self/fd").join(opened.as_raw_fd().to_string());
                mount_read_only(&real, path)?;
            }
            // And by the view.
            std::env::set_current_dir(&self.project)
        }

        /// The mount options. The project is `.`, so that its name may contain anything.
        fn options(&self) -> io::Result<CString> {
            let has_separator = |path: &Path| {
                path.as_os_str().as_encoded_bytes().iter().any(|byte| b",:\\".contains(byte))
            };
            if has_separator(&self.upper) || has_separator(&self.work) {
                return Err(io::ErrorKind::InvalidFilename.into());
            }
            let mut options = OsString::from("lowerdir=.,upperdir=");
            options.push(&self.upper);
            options.push(",workdir=");
            options.push(&self.work);
            // `userxattr` needs no privileges, so that the harness can read the attributes as well.
            // `volatile`: the layer is worthless after a power cut, and without it the unmount would
            // wait until everything written to this file system is on the disk.
            options.push(",userxattr,volatile");
            Ok(CString::new(options.into_vec())?)
        }
    }

    /// Enters a new mount namespace. A process that may mount needs no user namespace, and keeps its
    /// rights on files.
    #[expect(
        deprecated,
        reason = "its danger is in sharing descriptors, which is not requested here"
    )]
    fn own_namespace() -> io::Result<()> {
        use rustix::thread::{UnshareFlags, unshare};

        match unshare(UnshareFlags::NEWNS) {
            Err(Errno::PERM) => {}
            result => return Ok(result?),
        }
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{user} {user} 1", user = user.as_raw()))?;
        fs::write("/proc/self/gid_map", format!("{group} {group} 1", group = group.as_raw()))
    }

    /// The directories above a tree and above sealed directories, the top first, since later mounts cover
    /// earlier ones. Nothing can be moved inside of what is sealed.
    fn above<'d>(tree: &'d Path, sealed: &'d [PathBuf]) -> BTreeSet<&'d Path> {
        let below = sealed.iter().map(PathBuf::as_path).chain([tree]);
        let above = below.flat_map(|directory| directory.ancestors().skip(1));
        let is_sealed = |directory: &Path| sealed.iter().any(|other| directory.starts_with(other));
        above.filter(|above| above.parent().is_some() && !is_sealed(above)).collect()
    }

    /// Mounts a file or directory read-only at a path. File systems mounted beneath it stay writable.
    fn mount_read_only(what: &Path, path: &Path) -> io::Result<()> {
        mount_bind_recursive(what, path)?;
        let flags = MountFlags::BIND | MountFlags::RDONLY | kept(statvfs(path)?.f_flag);
        Ok(mount_remount(path, flags, "")?)
    }

    /// The flags that were set there already: a process without privileges may not clear them.
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
}
