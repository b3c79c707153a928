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
/// autoloops.toml contains the settings, topology.toml the roles and their handoffs, harness.md instructions for every
/// agent, and roles/ a prompt for each role. With --preset, the files of a preset are written. Existing files are not
/// overwritten: if one of the files exists, none is written.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory, created if necessary [default: the current directory]
    dir: Option<PathBuf>,
    /// Write the files of this preset
    #[arg(short, long, value_name = "NAME")]
    preset: Option<String>,
}

/// The loop without --preset.
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
    report(&files, dir)
}

fn files(preset: Option<&str>) -> Result<Vec<LoopFile>, Failure> {
    let Some(name) = preset else {
        return Ok(LOOP.iter().map(|(path, text)| LoopFile::text(path, text)).collect());
    };
    let mut files = Preset::named(name, &settings::settings_environment()?)?.files()?;
    // It describes the preset, not the project.
    files.retain(|file| file.path != Path::new("README.md"));
    Ok(files)
}

fn refuse_to_overwrite(files: &[LoopFile], dir: &Path) -> Result<(), Failure> {
    let exists = |file: &&LoopFile| fs::symlink_metadata(within(dir, &file.path)).is_ok();
    let existing: Vec<_> = files.iter().filter(exists).collect();
    let Some(first) = existing.first() else { return Ok(()) };
    let more = match existing.len() - 1 {
        0 => String::new(),
        1 => " and another file".to_owned(),
        more => format!(" and {more} other files"),
    };
    let verb = if existing.len() == 1 { "exists" } else { "exist" };
    let first = within(dir, &first.path);
    Err(Failure::usage(format!("{}{more} {verb}; nothing was written", first.display()))
        .hint("name another directory, or move the existing files"))
}

/// Writes all files or, after an error, none.
fn write(files: &[LoopFile], dir: &Path) -> Result<(), Failure> {
    for (place, file) in files.iter().enumerate() {
        if let Err(error) = file.write_new(dir) {
            for written in &files[..place] {
                // A file that cannot be removed remains; the error below is reported in any case.
                let _ = fs::remove_file(within(dir, &written.path));
            }
            let path = within(dir, &file.path);
            return Err(Failure::failed(format!("cannot write {}: {error}", path.display()))
                .hint("name a writable directory"));
        }
    }
    Ok(())
}

fn report(files: &[LoopFile], dir: &Path) -> Result<(), Failure> {
    let mut out = io::stdout();
    for file in files {
        writeln!(out, "wrote {}", within(dir, &file.path).display())?;
    }
    let named = preset_name(dir).unwrap_or_else(|| dir.display().to_string());
    let named = shell_words::join([named.as_str()]);
    writeln!(out, "\nRun it with: autoloop run {named} \"what to do\"")?;
    Ok(())
}

/// The name of the directory as a preset, if it is in the user's directory of presets.
fn preset_name(dir: &Path) -> Option<String> {
    let presets = presets::own_dir(&settings::settings_environment().ok()?)?.canonicalize().ok()?;
    let dir = dir.canonicalize().ok()?;
    if dir.parent() != Some(&presets) {
        return None;
    }
    dir.file_name()?.to_str().map(str::to_owned)
}

fn within(dir: &Path, file: &Path) -> PathBuf {
    if dir == Path::new(".") { file.to_owned() } else { dir.join(file) }
}
