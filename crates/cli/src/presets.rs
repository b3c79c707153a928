//! Presets: loops with a name. Some are part of this program, others are a person's own.

mod files;
mod shipped;

use std::path::{Path, PathBuf};

use autoloop_core::suggest::suggest;
use autoloop_runtime::files::read_text;
use autoloop_runtime::project::Surroundings;
use autoloop_runtime::world::RealDisk;

use crate::failure::Failure;

pub(crate) use files::{LoopFile, place};
pub(crate) use shipped::{SHIPPED, Shipped};

/// Of a README only the first line is shown; one that is longer than this is something else.
const LONGEST_README: u64 = 1024 * 1024;

/// A loop with a name.
#[derive(Clone, Debug)]
pub(crate) enum Preset {
    /// Part of this program.
    Shipped(&'static Shipped),
    /// In the person's own directory of presets.
    Own { name: String, dir: PathBuf },
}

impl Preset {
    /// Every preset there is, by name. Of two with one name, the person's own counts.
    pub(crate) fn all(surroundings: &Surroundings) -> Vec<Preset> {
        let mut presets = own(surroundings);
        let is_taken = |name: &str| presets.iter().any(|preset| preset.name() == name);
        let shipped: Vec<_> = SHIPPED.iter().filter(|shipped| !is_taken(shipped.name)).collect();
        presets.extend(shipped.into_iter().map(Preset::Shipped));
        presets.sort_by(|a, b| a.name().cmp(b.name()));
        presets
    }

    /// The preset of a name.
    pub(crate) fn named(name: &str, surroundings: &Surroundings) -> Result<Preset, Failure> {
        let all = Preset::all(surroundings);
        match all.iter().find(|preset| preset.name() == name) {
            Some(preset) => Ok(preset.clone()),
            None => Err(unknown(name, &all)),
        }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Preset::Shipped(shipped) => shipped.name,
            Preset::Own { name, .. } => name,
        }
    }

    /// What it is for, in one line: the first line of its README, behind the name.
    pub(crate) fn about(&self) -> String {
        let readme = match self {
            Preset::Shipped(shipped) => shipped.readme().to_owned(),
            // One that cannot be read says nothing about itself, and runs all the same.
            Preset::Own { dir, .. } => {
                let text = read_text(&RealDisk, &dir.join("README.md"), LONGEST_README);
                text.ok().flatten().unwrap_or_default()
            }
        };
        let line = readme.lines().next().unwrap_or_default().trim_start_matches(['#', ' ']);
        let line = line.strip_prefix(self.name()).unwrap_or(line);
        line.trim_start_matches([':', ' ']).to_owned()
    }

    /// Its files, with everything that it brings along.
    pub(crate) fn files(&self) -> Result<Vec<LoopFile>, Failure> {
        match self {
            Preset::Shipped(shipped) => Ok(shipped.files()),
            Preset::Own { dir, .. } => files::read(dir),
        }
    }
}

/// Whether a directory holds a loop.
pub(crate) fn is_loop(dir: &Path) -> bool {
    ["autoloops.toml", "autoloops.conf", "topology.toml"].iter().any(|it| dir.join(it).is_file())
}

/// The directory of a person's own presets: beside the person's settings.
pub(crate) fn own_dir(surroundings: &Surroundings) -> Option<PathBuf> {
    Some(surroundings.user_file.as_deref()?.parent()?.join("presets"))
}

fn own(surroundings: &Surroundings) -> Vec<Preset> {
    let Some(dir) = own_dir(surroundings) else { return Vec::new() };
    // Most people have none.
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| is_loop(&entry.path()))
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some(Preset::Own { name, dir: entry.path() })
        })
        .collect()
}

fn unknown(name: &str, all: &[Preset]) -> Failure {
    let failure =
        Failure::usage(format!("'{}' is neither a directory nor a preset", name.escape_debug()));
    let failure = match suggest(name, all.iter().map(Preset::name)) {
        Some(near) => failure.hint(format!("did you mean '{near}'?")),
        None => failure,
    };
    failure
        .hint("`autoloop presets` lists the presets; a loop of your own is named by its directory")
}
