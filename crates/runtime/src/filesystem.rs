//! What a directory is like to keep a journal in.

#![expect(clippy::disallowed_methods, reason = "asks about the real file system")]

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Access, access};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    pub system: FileSystem,
    pub free: u64,
    pub is_writable: bool,
    /// The user it belongs to, if that is not us.
    pub other_owner: Option<u32>,
}

/// A file system, and what it means for what is kept there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// On a disk of this machine.
    Local(&'static str),
    /// On another machine: locks and what was synced are what that machine makes of them.
    Network(&'static str),
    /// Served by a program, which may do anything with locks and syncs.
    Program(&'static str),
    /// In memory: gone after a restart.
    Memory(&'static str),
    /// One that we do not know, or whose kind the system does not tell.
    Unknown,
}

pub fn volume(dir: &Path) -> io::Result<Volume> {
    let space = rustix::fs::statvfs(dir)?;
    let owner = fs::metadata(dir)?.uid();
    let us = rustix::process::geteuid().as_raw();
    Ok(Volume {
        system: file_system(dir)?,
        free: space.f_bavail.saturating_mul(space.f_frsize),
        is_writable: access(dir, Access::WRITE_OK | Access::EXEC_OK).is_ok(),
        other_owner: (owner != us).then_some(owner),
    })
}

#[cfg(target_os = "linux")]
fn file_system(dir: &Path) -> io::Result<FileSystem> {
    // The kernel's numbers have 32 bits; the field is wider on most machines, and signed.
    let number = u32::try_from(rustix::fs::statfs(dir)?.f_type);
    Ok(number.map_or(FileSystem::Unknown, by_number))
}

#[cfg(not(target_os = "linux"))]
fn file_system(_: &Path) -> io::Result<FileSystem> {
    Ok(FileSystem::Unknown)
}

/// By the number that the kernel gives to a kind of file system.
#[cfg(target_os = "linux")]
fn by_number(number: u32) -> FileSystem {
    use FileSystem::{Local, Memory, Network, Program, Unknown};

    match number {
        0xEF53 => Local("ext4"),
        0x5846_5342 => Local("xfs"),
        0x9123_683E => Local("btrfs"),
        0x2FC1_2FC1 => Local("zfs"),
        0xF2F5_2010 => Local("f2fs"),
        0xCA45_1A4E => Local("bcachefs"),
        0x794C_7630 => Local("overlayfs"),
        0x0102_1994 => Memory("tmpfs"),
        0x8584_58F6 => Memory("ramfs"),
        0x6969 => Network("nfs"),
        0x517B | 0xFE53_4D42 | 0xFF53_4D42 => Network("smb"),
        0x0102_1997 => Network("9p"),
        0x00C3_6400 => Network("ceph"),
        0x5346_414F | 0x6B41_4653 => Network("afs"),
        0x0BD0_0BD0 => Network("lustre"),
        0x0116_1970 => Network("gfs2"),
        0x7461_636F => Network("ocfs2"),
        0x786F_4256 => Network("vboxsf"),
        0x6573_5546 => Program("fuse"),
        _ => Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_ours_can_be_written_and_one_that_is_missing_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let seen = volume(dir.path()).unwrap();
        assert!(seen.is_writable);
        assert_eq!(seen.other_owner, None);
        assert!(seen.free > 0);
        assert!(volume(&dir.path().join("missing")).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn file_systems_are_told_apart() {
        assert_eq!(by_number(0x6969), FileSystem::Network("nfs"));
        assert_eq!(by_number(0xFE53_4D42), FileSystem::Network("smb"));
        assert_eq!(by_number(0x0102_1994), FileSystem::Memory("tmpfs"));
        assert_eq!(by_number(0xEF53), FileSystem::Local("ext4"));
        assert_eq!(by_number(7), FileSystem::Unknown);
        assert!(matches!(volume("/proc".as_ref()).unwrap().system, FileSystem::Unknown));
    }
}
