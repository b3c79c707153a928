//! Opening many files of one tree.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::openat;
use super::walk::Ground;

/// What permission bits that forbid reading mean.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bits {
    /// The user set them: the file is not read.
    Respect,
    /// The reviewer may have set them.
    Force,
}

/// Opens files one after another; those of one directory cost one walk to it.
pub(super) struct Opener<'g> {
    ground: &'g Ground,
    last: Option<(PathBuf, OwnedFd)>,
}

impl<'g> Opener<'g> {
    pub(super) fn new(ground: &'g Ground) -> Self {
        Opener { ground, last: None }
    }

    pub(super) fn open(&mut self, seen: &Path, bits: Bits) -> io::Result<File> {
        let parent = seen.parent().map(Path::to_owned).unwrap_or_default();
        if self.last.as_ref().is_none_or(|(last, _)| *last != parent) {
            let Some((root, beneath)) = self.ground.locate(seen) else {
                return Err(io::ErrorKind::NotFound.into());
            };
            let mut names = openat::names(&beneath);
            names.pop();
            let mut dir = openat::open_root(root)?;
            for name in names {
                dir = openat::open_dir_at(&dir, &name)?;
            }
            self.last = Some((parent, dir));
        }
        match (&self.last, seen.file_name()) {
            (Some((_, dir)), Some(name)) => match bits {
                Bits::Respect => openat::open_file_at(dir, name),
                Bits::Force => openat::open_file_forced(dir, name),
            },
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}
