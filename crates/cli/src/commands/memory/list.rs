//! `autoloop memory list` and `find`: what is remembered.

use std::io::{self, Write};

use autoloop_core::format::json_line;
use autoloop_core::memory::{Block, Entry, Line as MemoryLine, Memory};
use autoloop_core::table;
use autoloop_runtime::world::World;
use clap::ValueEnum;

use super::{Tier, Tiers};
use crate::failure::Failure;
use crate::terminal;

/// How entries are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// As a prompt carries them, without a budget.
    Md,
    /// A line each.
    #[value(alias = "terminal")]
    Text,
    /// An array of objects.
    Json,
}

/// Show what is remembered, the newest first.
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// The run whose memory is shown beside the project's [default: that of the environment, or the
    /// latest].
    #[arg(long)]
    run: Option<String>,
    /// Only one tier.
    #[arg(long, value_parser = super::tiers::tier_by_name())]
    tier: Option<Tier>,
    /// How to print it.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Show entries that hold all of these words, in any case.
#[derive(Debug, clap::Args)]
pub(super) struct FindArgs {
    /// The run whose memory is searched beside the project's [default: that of the environment, or
    /// the latest].
    #[arg(long)]
    run: Option<String>,
    /// How to print them.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// What to look for.
    #[arg(required = true)]
    words: Vec<String>,
}

pub(super) fn list(args: &ListArgs, world: &World) -> Result<(), Failure> {
    let tiers = Tiers::to_look_at(None, args.run.as_deref(), world)?;
    show(&tiers, args.tier, args.format)
}

/// Prints what is live in one tier, or in both.
pub(crate) fn show(tiers: &Tiers, only: Option<Tier>, format: Format) -> Result<(), Failure> {
    let read = |tier: Tier| match only {
        Some(only) if only != tier => Ok(Memory::default()),
        _ => tiers.read(tier),
    };
    let (project, run) = (read(Tier::Project)?, read(Tier::Run)?);
    let bad = project.bad() + run.bad();
    if bad > 0 {
        // Where standard error is closed, nobody wanted to know.
        let _ = writeln!(
            io::stderr(),
            "autoloop: {bad} lines of memory cannot be understood and are passed over"
        );
    }
    if format == Format::Md {
        let block = Block::new(&project, &run, 0);
        let text = if block.text.is_empty() { "(empty)\n" } else { &block.text };
        return print(&format!("Loop memory:\n{text}"));
    }
    let mut entries: Vec<(Tier, &Entry)> = Vec::new();
    entries.extend(project.live().into_iter().map(|entry| (Tier::Project, entry)));
    entries.extend(run.live().into_iter().map(|entry| (Tier::Run, entry)));
    print_entries(&entries, format)
}

pub(super) fn find(args: &FindArgs, world: &World) -> Result<(), Failure> {
    let tiers = Tiers::to_look_at(None, args.run.as_deref(), world)?;
    let (project, run) = (tiers.read(Tier::Project)?, tiers.read(Tier::Run)?);
    let mut entries: Vec<(Tier, &Entry)> = Vec::new();
    entries.extend(project.find(&args.words).into_iter().map(|entry| (Tier::Project, entry)));
    entries.extend(run.find(&args.words).into_iter().map(|entry| (Tier::Run, entry)));
    print_entries(&entries, args.format)
}

fn print_entries(entries: &[(Tier, &Entry)], format: Format) -> Result<(), Failure> {
    if format == Format::Json {
        let objects: Vec<String> = entries
            .iter()
            .map(|(tier, entry)| json_line(&MemoryLine::new(entry, Some(tier.to_string()))))
            .collect();
        return print(&match objects.is_empty() {
            true => "[]\n".to_owned(),
            false => format!("[\n  {}\n]\n", objects.join(",\n  ")),
        });
    }
    if entries.is_empty() {
        return print("(empty)\n");
    }
    let rows = entries.iter().map(|(tier, entry)| {
        let kind = entry.said.kind().map(|kind| kind.to_string()).unwrap_or_default();
        let created = if entry.created.is_empty() { "unknown" } else { &entry.created };
        let said = format!("{} (created: {created})", entry.said);
        [entry.id.clone(), tier.to_string(), kind, said]
    });
    print(&table::print(rows.collect()))
}

/// Agents write memory, and a terminal obeys what it is sent.
fn print(text: &str) -> Result<(), Failure> {
    Ok(terminal::print(text)?)
}
