//! `autoloop config`: the settings of a loop and their origins.

use std::path::PathBuf;

use autoloop_core::config::{Detail, as_json, as_toml};
use autoloop_core::table;
use autoloop_runtime::project::Project;
use autoloop_runtime::world::World;
use clap::Subcommand;

use super::settings;
use crate::diagnostic;
use crate::failure::Failure;
use crate::terminal;

/// Show the settings of a loop.
///
/// Settings come in layers, and later ones take precedence: the defaults, your own settings, the project's
/// autoloops.toml, your overrides for the preset, the repository's overrides for it, the variable AUTOLOOP_SET, and
/// the command line.
#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    Show(ShowArgs),
    /// Print the files that settings are read from.
    ///
    /// Prints one per line, in the order of the layers; missing files are marked. Later files take precedence.
    Path(ProjectArgs),
}

/// Print all settings with their values.
///
/// The output is a settings file with the same meaning. Unknown keys and other problems are reported on standard error;
/// where the settings cannot be used, nothing else is printed.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    project: ProjectArgs,
    /// Print the layer and the line of each value
    #[arg(long)]
    explain: bool,
    /// Print JSON, with null for settings that are not set
    #[arg(long)]
    json: bool,
    /// Set any setting; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ProjectArgs {
    /// Project directory [default: the current project]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Name of the preset in override files [default: the name of DIR]
    #[arg(long, short, value_name = "NAME")]
    preset: Option<String>,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let text = match args {
        Args::Show(args) => show(args, world)?,
        Args::Path(args) => path(args, world)?,
    };
    Ok(terminal::print(&text)?)
}

fn show(args: &ShowArgs, world: &World) -> Result<String, Failure> {
    let mut project = project(&args.project)?;
    project.overrides.set.clone_from(&args.set);
    let loaded = project.load(&*world.disk)?;
    diagnostic::show(&loaded.warnings);
    let detail = if args.explain { Detail::Provenance } else { Detail::Value };
    Ok(match args.json {
        true => as_json(&loaded.settings, detail),
        false => as_toml(&loaded.settings, detail),
    })
}

fn path(args: &ProjectArgs, world: &World) -> Result<String, Failure> {
    let files = project(args)?.layer_files(&*world.disk)?;
    let rows = files.iter().map(|file| {
        let missing = if world.disk.stat(&file.path).is_ok() { "" } else { "  (missing)" };
        [file.origin.to_string(), format!("{}{missing}", file.path.display())]
    });
    Ok(table::print(rows.collect()))
}

fn project(args: &ProjectArgs) -> Result<Project, Failure> {
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => settings::environment()?.project_dir_or_here(),
    };
    let mut project = settings::project(&dir)?;
    if let Some(preset) = &args.preset {
        project.preset.clone_from(preset);
    }
    Ok(project)
}
