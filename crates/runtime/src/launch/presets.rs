//! Presets: loops with a name. Some are compiled into the binary, others are the user's own.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use autoloop_core::suggest::suggest;

use super::LaunchError;
use crate::files::{self, Links, Unreadable, read_text};
use crate::layout::StateDir;
use crate::private_files;
use crate::project::{Environment, LoadError};
use crate::world::RealDisk;

/// Of a README only the first line is shown; a longer file is ignored.
const MAX_README: u64 = 1024 * 1024;
/// Limits of the user's own presets.
const MAX_FILES: usize = 1_000;
const MAX_BYTES: usize = 16 * 1024 * 1024;
const MAX_DEPTH: usize = 8;

#[derive(Clone, Debug)]
pub enum Preset {
    Shipped(&'static Shipped),
    /// In the user's directory of presets.
    Own {
        name: String,
        dir: PathBuf,
    },
}

#[derive(Debug)]
pub struct Shipped {
    name: &'static str,
    /// Paths relative to the directory of the loop, and their contents.
    texts: &'static [(&'static str, &'static str)],
}

macro_rules! shipped {
    ($($name:literal: $($role:literal),+;)+) => {
        const SHIPPED: &[Shipped] = &[$(Shipped {
            name: $name,
            texts: &[
                ("README.md", shipped!(@text $name, "README.md")),
                ("autoloops.toml", shipped!(@text $name, "autoloops.toml")),
                ("topology.toml", shipped!(@text $name, "topology.toml")),
                ("harness.md", shipped!(@text $name, "harness.md")),
                $((concat!("roles/", $role, ".md"), shipped!(@text $name, "roles/", $role, ".md")),)+
            ],
        },)+];
    };
    (@text $name:literal, $($path:literal),+) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/presets/", $name, "/", $($path),+))
    };
}

shipped! {
    "autocode": "planner", "builder", "critic", "finalizer";
    "autodoc": "auditor", "writer", "checker", "publisher";
    "autofix": "diagnoser", "fixer", "verifier", "closer";
    "autoreview": "reader", "checker", "reporter";
    "autospec": "researcher", "author", "challenger", "planner";
    "autotest": "surveyor", "writer", "breaker", "finisher";
}

impl Shipped {
    fn readme(&self) -> &'static str {
        self.texts.iter().find(|(path, _)| *path == "README.md").map_or("", |(_, text)| text)
    }
}

impl Preset {
    /// All presets, sorted by name. The user's own take precedence over shipped ones of the same name.
    pub fn all(env: &Environment) -> Vec<Preset> {
        let mut presets = own(env);
        let is_taken = |name: &str| presets.iter().any(|preset| preset.name() == name);
        let shipped: Vec<_> = SHIPPED.iter().filter(|shipped| !is_taken(shipped.name)).collect();
        presets.extend(shipped.into_iter().map(Preset::Shipped));
        presets.sort_by(|a, b| a.name().cmp(b.name()));
        presets
    }

    pub fn named(name: &str, env: &Environment) -> Result<Preset, LaunchError> {
        let all = Preset::all(env);
        all.iter().find(|preset| preset.name() == name).cloned().ok_or_else(|| {
            let meant = suggest(name, all.iter().map(Preset::name)).map(str::to_owned);
            LaunchError::UnknownPreset { name: name.to_owned(), meant }
        })
    }

    pub fn name(&self) -> &str {
        match self {
            Preset::Shipped(shipped) => shipped.name,
            Preset::Own { name, .. } => name,
        }
    }

    /// The first line of its README, without the name.
    pub fn about(&self) -> String {
        let readme = match self {
            Preset::Shipped(shipped) => shipped.readme().to_owned(),
            // A preset works without a README.
            Preset::Own { dir, .. } => {
                let text = read_text(&RealDisk, &dir.join("README.md"), MAX_README);
                text.ok().flatten().unwrap_or_default()
            }
        };
        let line = readme.lines().next().unwrap_or_default().trim_start_matches(['#', ' ']);
        let line = line.strip_prefix(self.name()).unwrap_or(line);
        line.trim_start_matches([':', ' ']).to_owned()
    }

    pub fn files(&self) -> Result<Vec<LoopFile>, LaunchError> {
        match self {
            Preset::Shipped(shipped) => {
                Ok(shipped.texts.iter().map(|(path, text)| LoopFile::text(path, text)).collect())
            }
            Preset::Own { dir, .. } => read_files(dir),
        }
    }

    /// Copies its files to `dir`, which must not exist yet, readable by the user only.
    pub(super) fn copy_to(&self, dir: &Path) -> Result<(), LaunchError> {
        let files = self.files()?;
        place(&files, dir).map_err(|source| LaunchError::Copy {
            preset: self.name().to_owned(),
            dir: dir.to_owned(),
            source,
        })
    }
}

pub fn is_loop(dir: &Path) -> bool {
    ["autoloops.toml", "autoloops.conf", "topology.toml"].iter().any(|it| dir.join(it).is_file())
}

/// The directory of the user's own presets: beside the user's settings.
pub fn own_dir(env: &Environment) -> Option<PathBuf> {
    Some(env.user_file.as_deref()?.parent()?.join("presets"))
}

fn own(env: &Environment) -> Vec<Preset> {
    // Most users have none.
    let Some(Ok(entries)) = own_dir(env).map(fs::read_dir) else { return Vec::new() };
    let loops = entries.flatten().filter(|entry| is_loop(&entry.path()));
    let named = loops.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some(Preset::Own { name, dir: entry.path() })
    });
    named.collect()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopFile {
    /// Relative to the directory of the loop.
    pub path: PathBuf,
    pub bytes: Vec<u8>,
    mode: u32,
}

impl LoopFile {
    pub fn text(path: &str, text: &str) -> Self {
        LoopFile { path: path.into(), bytes: text.into(), mode: 0o644 }
    }

    /// Writes it into a directory, in which it must not exist yet, and syncs it.
    pub fn write_new(&self, dir: &Path) -> io::Result<()> {
        let path = dir.join(&self.path);
        fs::create_dir_all(path.parent().unwrap_or(dir))?;
        let options =
            OpenOptions::new().write(true).create_new(true).mode(self.mode).open(&path)?;
        self.fill(options, &path)
    }

    /// The same, readable by the user only.
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

fn place(files: &[LoopFile], dir: &Path) -> io::Result<()> {
    if let Some(parent) = dir.parent() {
        private_files::create_dirs(parent)?;
    }
    private_files::create_dir(dir)?;
    files.iter().try_for_each(|file| file.write_private(dir))
}

/// Reads all files in the directory of a preset, sorted by path.
fn read_files(dir: &Path) -> Result<Vec<LoopFile>, LaunchError> {
    let mut found = Found { root: dir, files: Vec::new(), bytes: 0 };
    found.read_dir(dir, 0)?;
    found.files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found.files)
}

struct Found<'a> {
    root: &'a Path,
    files: Vec<LoopFile>,
    bytes: usize,
}

impl Found<'_> {
    fn read_dir(&mut self, dir: &Path, depth: usize) -> Result<(), LaunchError> {
        let unreadable = |error| unreadable(dir, Unreadable::Io(error));
        for entry in fs::read_dir(dir).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let path = entry.path();
            // Links to files are followed, because users link their settings; links to directories
            // could form a cycle.
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_dir && !is_no_part(&path) {
                if depth == MAX_DEPTH {
                    return Err(self.too_large());
                }
                self.read_dir(&path, depth + 1)?;
            } else if path.is_file() {
                self.read_file(path)?;
            }
        }
        Ok(())
    }

    fn read_file(&mut self, path: PathBuf) -> Result<(), LaunchError> {
        let meta = fs::metadata(&path).map_err(|error| unreadable(&path, Unreadable::Io(error)))?;
        let room = (MAX_BYTES - self.bytes) as u64;
        let bytes = match files::read(&RealDisk, &path, Links::Follow, room) {
            _ if self.files.len() == MAX_FILES => return Err(self.too_large()),
            Err(Unreadable::TooLong { .. }) => return Err(self.too_large()),
            // Removed or replaced since the directory was listed.
            Ok(None) | Err(Unreadable::NotAFile) => return Ok(()),
            Err(why) => return Err(unreadable(&path, why)),
            Ok(Some(bytes)) => bytes,
        };
        self.bytes += bytes.len();
        let relative = path.strip_prefix(self.root).unwrap_or(&path).to_owned();
        let mode = meta.permissions().mode() & 0o755 | 0o600;
        self.files.push(LoopFile { path: relative, bytes, mode });
        Ok(())
    }

    fn too_large(&self) -> LaunchError {
        LaunchError::PresetTooLarge(self.root.to_owned())
    }
}

/// Whether a directory is no part of a loop even if it is in one.
fn is_no_part(dir: &Path) -> bool {
    dir.file_name().is_some_and(|name| name == ".git" || name == StateDir::NAME)
}

fn unreadable(path: &Path, why: Unreadable) -> LaunchError {
    LaunchError::Load(LoadError::Unreadable { path: path.to_owned(), why })
}

#[cfg(test)]
mod tests;
