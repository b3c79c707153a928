//! `autoloop presets`: lists and prints presets.

use autoloop_core::table;
use autoloop_runtime::launch::presets::Preset;
use clap::Subcommand;

use super::settings;
use crate::failure::Failure;
use crate::terminal;

/// List the presets: loops that can be run by their name.
///
/// `autoloop run autofix "it crashes on an empty file"` runs one of them in this directory. Some are part of this
/// program. Your own are directories in `presets` beside your settings, usually ~/.config/autoloop/presets; they
/// take precedence over presets of the same name.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Print the files of a preset.
    Show {
        /// Name of the preset
        name: String,
    },
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.what {
        None => list(),
        Some(What::Show { name }) => show(name),
    }
}

fn list() -> Result<(), Failure> {
    let presets = Preset::all(&settings::settings_environment()?);
    let rows = presets.iter().map(|preset| {
        let own = if matches!(preset, Preset::Own { .. }) { "(yours) " } else { "" };
        [preset.name().to_owned(), format!("{own}{}", preset.about())]
    });
    Ok(terminal::print(&table::print(rows.collect()))?)
}

fn show(name: &str) -> Result<(), Failure> {
    let preset = Preset::named(name, &settings::settings_environment()?)?;
    for (place, file) in preset.files()?.iter().enumerate() {
        let gap = if place == 0 { "" } else { "\n" };
        let text = String::from_utf8_lossy(&file.bytes);
        let end = if text.ends_with('\n') { "" } else { "\n" };
        terminal::print(&format!("{gap}==> {} <==\n{text}{end}", file.path.display()))?;
    }
    Ok(())
}
