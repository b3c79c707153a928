//! The files of a preset: read from where it is, and written to where a loop shall be.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use autoloop_runtime::files::{self, Links, Unreadable};
use autoloop_runtime::layout::StateDir;
use autoloop_runtime::private_files;
use autoloop_runtime::world::RealDisk;

use crate::failure::Failure;

/// What a preset brings along at most. More than this is something else than a preset.
const MOST_FILES: usize = 1_000;
const MOST_BYTES: usize = 16 * 1024 * 1024;
const DEEPEST: usize = 8;

/// A file of a preset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoopFile {
    /// Relative to the directory of the loop.
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
    /// What may be done to it, as the system counts it.
    mode: u32,
}

impl LoopFile {
    pub(crate) fn text(path: &str, text: &str) -> Self {
        LoopFile { path: path.into(), bytes: text.into(), mode: 0o644 }
    }

    /// Writes it into a directory, in which it must not exist yet, so that it survives a power cut
    /// together with what is said about it in a journal.
    pub(crate) fn write_new(&self, dir: &Path) -> io::Result<()> {
        let path = dir.join(&self.path);
        fs::create_dir_all(path.parent().unwrap_or(dir))?;
        self.fill(
            OpenOptions::new().write(true).create_new(true).mode(self.mode).open(&path)?,
            &path,
        )
    }

    /// The same where only the user may read it.
    fn write_private(&self, dir: &Path) -> io::Result<()> {
        let path = dir.join(&self.path);
        private_files::create_dirs(path.parent().unwrap_or(dir))?;
        let is_program = self.mode & 0o100 != 0;
        let used = if is_program { private_files::Use::Program } else { private_files::Use::Data };
        self.fill(private_files::create_file(&path, used)?, &path)
    }

    fn fill(&self, mut file: File, path: &Path) -> io::Result<()> {
        file.write_all(&self.bytes)?;
        file.sync_all()?;
        File::open(path.parent().unwrap_or(path))?.sync_all()
    }
}

/// Writes all files of a preset to where a run keeps them. The place must not exist yet: whoever makes
/// it first has it.
pub(crate) fn place(files: &[LoopFile], dir: &Path) -> io::Result<()> {
    if let Some(parent) = dir.parent() {
        private_files::create_dirs(parent)?;
    }
    private_files::create_dir(dir)?;
    files.iter().try_for_each(|file| file.write_private(dir))
}

/// Everything in the directory of a preset that can be part of one.
pub(super) fn read(dir: &Path) -> Result<Vec<LoopFile>, Failure> {
    let mut files = Vec::new();
    let mut found = Found { root: dir, files: &mut files, bytes: 0 };
    found.look_into(dir, 0)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

struct Found<'a> {
    root: &'a Path,
    files: &'a mut Vec<LoopFile>,
    bytes: usize,
}

impl Found<'_> {
    fn look_into(&mut self, dir: &Path, depth: usize) -> Result<(), Failure> {
        let entries = fs::read_dir(dir).map_err(|error| unreadable(dir, &error))?;
        for entry in entries {
            let entry = entry.map_err(|error| unreadable(dir, &error))?;
            let path = entry.path();
            // Links to files are followed, for people keep their settings in all sorts of places;
            // links to directories could lead in circles.
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_dir && !is_beside_the_point(&path) {
                if depth == DEEPEST {
                    return Err(self.too_much());
                }
                self.look_into(&path, depth + 1)?;
            } else if path.is_file() {
                self.take(path)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, path: PathBuf) -> Result<(), Failure> {
        let meta = fs::metadata(&path).map_err(|error| unreadable(&path, &error))?;
        let room = (MOST_BYTES - self.bytes) as u64;
        let bytes = match files::read(&RealDisk, &path, Links::Follow, room) {
            _ if self.files.len() == MOST_FILES => return Err(self.too_much()),
            Err(Unreadable::TooLong { .. }) => return Err(self.too_much()),
            // Removed or replaced since the directory was listed.
            Ok(None) | Err(Unreadable::NotAFile) => return Ok(()),
            Err(why) => return Err(unreadable(&path, &why.into())),
            Ok(Some(bytes)) => bytes,
        };
        self.bytes += bytes.len();
        let relative = path.strip_prefix(self.root).unwrap_or(&path).to_owned();
        let mode = meta.permissions().mode() & 0o755 | 0o600;
        self.files.push(LoopFile { path: relative, bytes, mode });
        Ok(())
    }

    fn too_much(&self) -> Failure {
        Failure::usage(format!(
            "{} holds more than a preset may: {MOST_FILES} files, 16 MB, {DEEPEST} directories deep",
            self.root.display()
        ))
        .hint("move what is no part of the loop somewhere else")
    }
}

/// Directories that are no part of a loop even if they lie in it.
fn is_beside_the_point(dir: &Path) -> bool {
    dir.file_name().is_some_and(|name| name == ".git" || name == StateDir::NAME)
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(dir: &Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            fs::create_dir_all(dir.join(path).parent().unwrap()).unwrap();
            fs::write(dir.join(path), text).unwrap();
        }
    }

    #[test]
    fn a_copy_is_like_the_original_without_what_is_no_part_of_it() {
        let temp = tempfile::tempdir().unwrap();
        let (from, to) = (temp.path().join("from"), temp.path().join("a/b/to"));
        written(&from, &[("topology.toml", "x"), ("roles/a.md", "y"), (".git/config", "z")]);
        written(&from, &[("tools/check", "#!/bin/sh")]);
        fs::set_permissions(from.join("tools/check"), fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink(&from, from.join("circle")).unwrap();
        std::os::unix::fs::symlink("roles/a.md", from.join("link.md")).unwrap();
        let files = read(&from).unwrap();
        let paths: Vec<_> = files.iter().map(|file| file.path.display().to_string()).collect();
        assert_eq!(paths, ["link.md", "roles/a.md", "tools/check", "topology.toml"]);
        place(&files, &to).unwrap();
        let private =
            files.iter().cloned().map(|file| LoopFile { mode: file.mode & 0o700, ..file });
        assert_eq!(read(&to).unwrap(), private.collect::<Vec<_>>());
        let again = place(&files, &to).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn what_is_no_preset_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        File::create(temp.path().join("film")).unwrap().set_len(MOST_BYTES as u64 + 1).unwrap();
        let shown = read(temp.path()).unwrap_err().to_string();
        insta::assert_snapshot!(shown.replace(&temp.path().display().to_string(), "DIR"), @r"
        autoloop: DIR holds more than a preset may: 1000 files, 16 MB, 8 directories deep
          hint: move what is no part of the loop somewhere else
        ");
    }
}
