//! Empty files and directories in the places that a sandboxed reviewer may write.
//!
//! Landlock lets a file be written only if it is there when the rules are made, and the right to make
//! files in a directory reaches everything beneath it. So what a reviewer may make is made for it,
//! empty, and taken away again if it stayed empty.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use autoloop_core::permissions::{AllowList, Place, Shape};

use super::openat;
use super::scratch;
use super::walk::Ground;
use crate::world::Overlay;

/// What is missing and has to be made, but for what is in a view of its own.
pub(super) fn missing<'a>(
    project: &Path,
    allow: &'a AllowList,
    view: Option<&Overlay>,
) -> Vec<&'a Place> {
    let is_missing = |place: &&Place| {
        let path = project.join(&place.path);
        let is_in_view = view.is_some_and(|view| path.starts_with(&view.project));
        place.shape != Shape::Growing && !is_in_view && fs::symlink_metadata(path).is_err()
    };
    allow.places().iter().filter(is_missing).collect()
}

/// Makes these, and lists what was made as seen from the project.
pub(super) fn make(project: &Path, missing: &[&Place]) -> io::Result<Vec<PathBuf>> {
    let mut made = Vec::new();
    for place in missing {
        let path = project.join(&place.path);
        let result = match place.shape {
            Shape::Growing => continue,
            Shape::Children(_) | Shape::Beneath => fs::create_dir(&path),
            Shape::File => {
                let mut options = fs::OpenOptions::new();
                options.write(true).create_new(true).mode(0o644).open(&path).map(drop)
            }
        };
        match result {
            Ok(()) => made.push(place.path.clone()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            // Where we may not write, the reviewer may not either.
            Err(error) if is_closed(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(made)
}

fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Writes down what is about to be made, for a later harness to [remove](sweep) if this one is killed.
pub(super) fn note(note: &Path, missing: &[&Place]) -> io::Result<()> {
    let paths = missing.iter().map(|place| place.path.as_os_str().as_bytes());
    scratch::write_note(note, &paths.collect::<Vec<_>>().join(&0))
}

/// Removes what a killed harness made by such a note and no reviewer filled. Only what an allow list
/// names is touched: any process of the user can write a note.
pub(super) fn sweep(note: &Path, project: &Path, allow: &AllowList) {
    let Ok(noted) = scratch::read_note(note) else { return };
    let noted: Vec<&Path> =
        noted.split(|byte| *byte == 0).map(|path| Path::new(OsStr::from_bytes(path))).collect();
    for place in allow.places() {
        let path = project.join(&place.path);
        if place.shape == Shape::Growing || !noted.contains(&place.path.as_path()) {
            continue;
        }
        // Without following links: a place that is reached by one was not made by us.
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        let _ = match found.is_dir() {
            true => fs::remove_dir(&path),
            false if found.is_file() && found.len() == 0 => fs::remove_file(&path),
            false => continue,
        };
    }
    let _ = fs::remove_file(note);
}

/// Takes one away, if it stayed empty; tells whether it is gone.
pub(super) fn clear(ground: &Ground, seen: &Path) -> bool {
    let Some((root, way)) = ground.locate(seen) else { return false };
    openat::open_root(root)
        .and_then(|root| openat::open_parent(&root, &way, &mut Vec::new()))
        .and_then(|(dir, name)| {
            let stat = openat::stat_at(&dir, &name)?;
            let kind = rustix::fs::FileType::from_raw_mode(stat.st_mode);
            let flags = match kind {
                rustix::fs::FileType::Directory => rustix::fs::AtFlags::REMOVEDIR,
                _ if stat.st_size == 0 => rustix::fs::AtFlags::empty(),
                _ => return Err(io::ErrorKind::DirectoryNotEmpty.into()),
            };
            Ok(rustix::fs::unlinkat(&dir, &name, flags)?)
        })
        .is_ok()
}
