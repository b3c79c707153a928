//! `autoloop config`: what the settings are, and where they come from.

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
/// Settings come in layers, and the later one wins: the defaults, your own settings, the project's
/// autoloops.toml, your overrides for this preset, the repository's overrides for it, the variable
/// AUTOLOOP_SET, and the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Show(ShowArgs),
    Path(PathArgs),
}

/// Print every setting with its value.
///
/// What is printed is a settings file that says the same. Unknown keys and other oddities are told of
/// on standard error; when the settings cannot be used, nothing is printed and the exit code is 2.
#[derive(Debug, clap::Args)]
struct ShowArgs {
    #[command(flatten)]
    project: ProjectArgs,
    /// Say behind each value which layer it came from, and where it stands there.
    #[arg(long)]
    explain: bool,
    /// Print one JSON object, with null for what is not set.
    #[arg(long)]
    json: bool,
    /// Show what the settings would be with this one. Can be given more than once.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// Print the files that settings are read from.
///
/// One a line, in the order of the layers, with those that are not there marked. A file further down
/// comes before one further up.
#[derive(Debug, clap::Args)]
struct PathArgs {
    #[command(flatten)]
    project: ProjectArgs,
}

#[derive(Debug, clap::Args)]
struct ProjectArgs {
    /// The project [default: the current one].
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The name that the overrides go by [default: that of the directory].
    #[arg(long, short, value_name = "NAME")]
    preset: Option<String>,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    match &args.what {
        What::Show(args) => show(args, world),
        What::Path(args) => path(args, world),
    }
}

fn show(args: &ShowArgs, world: &World) -> Result<(), Failure> {
    let mut project = project(&args.project)?;
    project.overrides.set.clone_from(&args.set);
    let loaded = project.load(&*world.disk).map_err(diagnostic::refuse)?;
    diagnostic::show(&loaded.warnings);
    let detail = if args.explain { Detail::Provenance } else { Detail::Value };
    let text = if args.json {
        as_json(&loaded.settings, detail)
    } else {
        as_toml(&loaded.settings, detail)
    };
    Ok(terminal::print(&text)?)
}

fn path(args: &PathArgs, world: &World) -> Result<(), Failure> {
    let project = project(&args.project)?;
    let files = project.layer_files(&*world.disk).map_err(diagnostic::refuse)?;
    let rows = files.iter().map(|file| {
        let missing = if world.disk.stat(&file.path).is_ok() { "" } else { "  (not there)" };
        [file.origin.to_string(), format!("{}{missing}", file.path.display())]
    });
    Ok(terminal::print(&table::print(rows.collect()))?)
}

/// The project that is asked about.
fn project(args: &ProjectArgs) -> Result<Project, Failure> {
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => settings::environment()?.project_dir_or_here(),
    };
    let mut project = Project::new(&dir).map_err(|error| {
        Failure::usage(format!("cannot tell where {} is: {error}", dir.display()))
    })?;
    project.env = settings::settings_environment()?;
    if let Some(preset) = &args.preset {
        project.preset.clone_from(preset);
    }
    Ok(project)
}
