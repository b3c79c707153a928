//! `autoloop init`: writes a new loop.

#![expect(clippy::disallowed_methods, reason = "writes a new project for the user")]

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use autoloop_core::config::shell_words;
use autoloop_runtime::launch::presets::{self, LoopFile, Preset};

use super::settings;
use crate::failure::Failure;

/// Write a new loop, with comments.
///
/// autoloops.toml holds the settings with what each is for, topology.toml the roles and who follows
/// whom, harness.md what every agent is told, and roles/ a prompt for each role. With --preset they are
/// those of a preset, to be changed to your liking. Nothing that exists is ever overwritten: if one of
/// the files is there already, none is written, and the exit code is 2.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to; it is made if it does not exist [default: this directory].
    dir: Option<PathBuf>,
    /// Begin with the files of this preset.
    #[arg(short, long, value_name = "NAME")]
    preset: Option<String>,
}

/// The loop that is written when nobody names a preset.
const LOOP: &[(&str, &str)] = &[
    ("autoloops.toml", include_str!("init/loop/autoloops.toml")),
    ("topology.toml", include_str!("init/loop/topology.toml")),
    ("harness.md", include_str!("init/loop/harness.md")),
    ("roles/planner.md", include_str!("init/loop/roles/planner.md")),
    ("roles/builder.md", include_str!("init/loop/roles/builder.md")),
    ("roles/critic.md", include_str!("init/loop/roles/critic.md")),
];

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let dir = args.dir.as_deref().unwrap_or(Path::new("."));
    let files = files(args.preset.as_deref())?;
    refuse_to_overwrite(&files, dir)?;
    write(&files, dir)?;
    tell(&files, dir)
}

fn files(preset: Option<&str>) -> Result<Vec<LoopFile>, Failure> {
    let Some(name) = preset else {
        return Ok(LOOP.iter().map(|(path, text)| LoopFile::text(path, text)).collect());
    };
    let mut files = Preset::named(name, &settings::settings_environment()?)?.files()?;
    // It is about the preset, and the one of a project is about the project.
    files.retain(|file| file.path != Path::new("README.md"));
    Ok(files)
}

fn refuse_to_overwrite(files: &[LoopFile], dir: &Path) -> Result<(), Failure> {
    let is_there = |file: &&LoopFile| fs::symlink_metadata(within(dir, &file.path)).is_ok();
    let there: Vec<_> = files.iter().filter(is_there).collect();
    let Some(first) = there.first() else { return Ok(()) };
    let more = match there.len() - 1 {
        0 => String::new(),
        1 => " and another file".to_owned(),
        more => format!(" and {more} other files"),
    };
    let verb = if there.len() == 1 { "is" } else { "are" };
    Err(Failure::usage(format!(
        "{}{more} {verb} there already; nothing was written",
        within(dir, &first.path).display()
    ))
    .hint("name another directory, or move away what is there"))
}

/// Writes all files or, where that fails, none.
fn write(files: &[LoopFile], dir: &Path) -> Result<(), Failure> {
    for (place, file) in files.iter().enumerate() {
        if let Err(error) = file.write_new(dir) {
            for written in &files[..place] {
                // What cannot be removed again was at least named.
                let _ = fs::remove_file(within(dir, &written.path));
            }
            let path = within(dir, &file.path);
            return Err(Failure::failed(format!("cannot write {}: {error}", path.display())));
        }
    }
    Ok(())
}

fn tell(files: &[LoopFile], dir: &Path) -> Result<(), Failure> {
    let mut out = io::stdout();
    for file in files {
        writeln!(out, "wrote {}", within(dir, &file.path).display())?;
    }
    let named = preset_name(dir).unwrap_or_else(|| dir.display().to_string());
    let named = shell_words::join([named.as_str()]);
    writeln!(out, "\nRun it with: autoloop run {named} \"what is to be done\"")?;
    Ok(())
}

/// The name of the preset that the directory is, if it is in the user's directory of presets.
fn preset_name(dir: &Path) -> Option<String> {
    let presets = presets::own_dir(&settings::settings_environment().ok()?)?.canonicalize().ok()?;
    let dir = dir.canonicalize().ok()?;
    if dir.parent() != Some(&presets) {
        return None;
    }
    dir.file_name()?.to_str().map(str::to_owned)
}

/// A file in a directory, named as a person would.
fn within(dir: &Path, file: &Path) -> PathBuf {
    if dir == Path::new(".") { file.to_owned() } else { dir.join(file) }
}
