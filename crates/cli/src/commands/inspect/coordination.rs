//! `autoloop inspect coordination`: what agents said about their work.

use std::path::PathBuf;

use autoloop_core::format::Format;
use autoloop_core::views::coordination::{Coordination, Coordinations};
use autoloop_runtime::world::World;

use super::excerpt::Out;
use super::{for_run, one_run};
use crate::commands::settings;
use crate::failure::Failure;
use crate::terminal;

/// What agents said about their work: issues, slices, commits, archives and chains.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Project whose journal is read [default: the current one].
    project_dir: Option<PathBuf>,
    /// The run [default: the one that began last].
    #[arg(long, conflicts_with = "all_runs")]
    run: Option<String>,
    /// The runs that were heard of last, the latest at the end.
    #[arg(long)]
    all_runs: bool,
    /// How to print it: md, terminal or json.
    #[arg(long, default_value = "md", value_parser = parse_format)]
    format: Format,
}

fn parse_format(text: &str) -> Result<Format, &'static str> {
    text.parse()
}

pub(super) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let journal = settings::locate(args.project_dir.as_deref(), world)?.journal(world);
    let kept = journal.fold::<Coordinations>()?.view;
    let mut out = Out::new();
    if args.all_runs {
        out.text(&terminal::harmless(&all_runs(&kept, args.format)))?;
        return out.finish();
    }
    let run = one_run(&*journal, args.run.as_deref())?;
    let text = match kept.of(&run) {
        Some(coordination) => coordination.render(args.format),
        // Nothing was said, or long ago: its records are looked for again.
        None => {
            let mut coordination = Coordination::default();
            for_run(&*journal, &run, |record| {
                coordination.apply(record);
            })?;
            coordination.render(args.format)
        }
    };
    out.text(&terminal::harmless(&text))?;
    out.finish()
}

fn all_runs(kept: &Coordinations, format: Format) -> String {
    match format {
        Format::Json => kept.json_by_run(),
        _ if kept.iter().next().is_none() => Coordination::default().render(format),
        _ => kept
            .iter()
            .map(|(run, coordination)| format!("# Run {run}\n\n{}", coordination.render(format)))
            .collect::<Vec<_>>()
            .join("\n"),
    }
}
