//! Empty files and directories for a reviewer to fill.
//!
//! Landlock lets a file be written only if it exists when the rules are made, and the right to create
//! files in a directory holds for everything beneath it. So what a reviewer may create is created for it,
//! empty, and removed if it stayed empty.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use autoloop_core::permissions::{AllowList, Place, Shape};
use rustix::fs::{AtFlags, FileType};

use super::listing::Trees;
use super::openat;
use super::scratch;
use crate::world::Overlay;

#[derive(Debug, Default)]
pub(super) struct Placeholders {
    /// Relative to the project.
    made: Vec<PathBuf>,
    /// A file that names them, for a later harness to [remove](sweep_placeholders) if this one is killed.
    note: Option<PathBuf>,
}

impl Placeholders {
    /// Creates what is missing, except in an overlay.
    pub(super) fn make(
        project: &Path,
        allow: &AllowList,
        view: Option<&Overlay>,
        note: &Path,
    ) -> io::Result<Placeholders> {
        let is_missing = |place: &&Place| {
            let path = project.join(&place.path);
            let is_in_view = view.is_some_and(|view| path.starts_with(&view.project));
            place.shape != Shape::Growing && !is_in_view && fs::symlink_metadata(path).is_err()
        };
        let missing: Vec<&Place> = allow.places().iter().filter(is_missing).collect();
        if missing.is_empty() {
            return Ok(Placeholders::default());
        }
        let paths = missing.iter().map(|place| place.path.as_os_str().as_bytes());
        scratch::write_note(note, &paths.collect::<Vec<_>>().join(&0))?;
        let mut made = Vec::new();
        for place in missing {
            let path = project.join(&place.path);
            let result = match place.shape {
                Shape::Children(_) | Shape::Beneath => fs::create_dir(&path),
                Shape::File | Shape::Growing => {
                    let mut options = fs::OpenOptions::new();
                    options.write(true).create_new(true).mode(0o644).open(&path).map(drop)
                }
            };
            use io::ErrorKind::{AlreadyExists, PermissionDenied, ReadOnlyFilesystem};
            match result.map_err(|error| (error.kind(), error)) {
                Ok(()) => made.push(place.path.clone()),
                // Where the harness cannot write, the reviewer cannot either.
                Err((AlreadyExists | PermissionDenied | ReadOnlyFilesystem, _)) => {}
                Err((_, error)) => return Err(error),
            }
        }
        Ok(Placeholders { made, note: Some(note.to_owned()) })
    }

    /// Removes a path if it is a placeholder that stayed empty; whether it was removed.
    pub(super) fn clear(&self, trees: &Trees, path: &Path) -> bool {
        let is_made = self.made.iter().any(|made| made == path);
        let Some((root, beneath)) = trees.locate(path).filter(|_| is_made) else { return false };
        openat::open_root(root)
            .and_then(|root| openat::open_parent(&root, &beneath, &mut Vec::new()))
            .and_then(|(dir, name)| {
                let stat = openat::stat_at(&dir, &name)?;
                let flags = match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Directory => AtFlags::REMOVEDIR,
                    _ if stat.st_size == 0 => AtFlags::empty(),
                    _ => return Err(io::ErrorKind::DirectoryNotEmpty.into()),
                };
                Ok(rustix::fs::unlinkat(&dir, &name, flags)?)
            })
            .is_ok()
    }

    pub(super) fn remove_note(&self) {
        if let Some(note) = &self.note {
            let _ = fs::remove_file(note);
        }
    }
}

/// Removes the empty files and directories that a killed harness noted. Only what an allow list names is
/// touched: any process of the user can write a note.
pub fn sweep_placeholders(note: &Path, project: &Path, allow: &AllowList) {
    let Some(noted) = scratch::read_note(note) else { return };
    let noted: Vec<&Path> =
        noted.split(|byte| *byte == 0).map(|path| Path::new(OsStr::from_bytes(path))).collect();
    let places = allow.places().iter().filter(|place| place.shape != Shape::Growing);
    for place in places.filter(|place| noted.contains(&place.path.as_path())) {
        let path = project.join(&place.path);
        // Links are not followed: the harness creates none.
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        let _ = match found.is_dir() {
            true => fs::remove_dir(&path),
            false if found.is_file() && found.len() == 0 => fs::remove_file(&path),
            false => continue,
        };
    }
    let _ = fs::remove_file(note);
}
