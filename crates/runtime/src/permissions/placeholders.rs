//! Empty files and directories in the places that a sandboxed reviewer may write.
//!
//! Landlock lets a file be written only if it is there when the rules are made, and the right to make
//! files in a directory reaches everything beneath it. So what a reviewer may make is made for it,
//! empty, and taken away again if it stayed empty.

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use autoloop_core::permissions::{AllowList, Shape};

use super::beneath;
use super::overlay::Overlay;
use super::walk::Ground;

/// Makes whatever is missing, but for what is in a view of its own, and lists it as seen from the
/// project.
pub(super) fn make(
    project: &Path,
    allow: &AllowList,
    view: Option<&Overlay>,
) -> io::Result<Vec<PathBuf>> {
    let mut made = Vec::new();
    for place in allow.places() {
        let path = project.join(&place.path);
        if view.is_some_and(|view| path.starts_with(&view.project)) {
            continue;
        }
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

/// Takes one away, if it stayed empty; tells whether it is gone.
pub(super) fn clear(ground: &Ground, seen: &Path) -> bool {
    let Some((root, way)) = ground.locate(seen) else { return false };
    beneath::open_root(root)
        .and_then(|root| beneath::open_parent(&root, &way, &mut Vec::new()))
        .and_then(|(dir, name)| {
            let stat = beneath::stat_at(&dir, &name)?;
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
