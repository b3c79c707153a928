//! `autoloop memory status`: how much is remembered, and how much of it a prompt carries.

use std::io::{self, Write};

use autoloop_core::memory::{Block, Memory};
use autoloop_runtime::world::World;

use super::{Tier, Tiers};
use crate::failure::Failure;

/// Show how much is remembered, and how much of it a prompt carries.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The run whose memory counts beside the project's [default: that of the environment, or the
    /// latest].
    #[arg(long)]
    run: Option<String>,
    /// How many characters a prompt has for memory; 0 is no limit [default: what
    /// memory.prompt_budget_chars says].
    #[arg(long, value_name = "CHARS")]
    budget: Option<usize>,
}

pub(super) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let tiers = Tiers::to_look_at(None, args.run.as_deref(), world)?;
    let (project, run) = (tiers.read(Tier::Project)?, tiers.read(Tier::Run)?);
    let mut out = String::new();
    for (tier, memory) in [(Tier::Project, &project), (Tier::Run, &run)] {
        let place = match tiers.file(tier) {
            Some(file) => file.path().display().to_string(),
            None => "(none)".to_owned(),
        };
        out.push_str(&format!("{tier} memory: {place}\n  {}\n", counted(memory)));
    }
    let budget = args.budget.unwrap_or(tiers.budget);
    let block = Block::new(&project, &run, budget);
    let of = if budget == 0 { String::new() } else { format!(" of {budget}") };
    out.push_str(&format!("prompt: {}{of} characters", block.chars));
    if block.is_truncated() {
        let dropped = block.dropped;
        out.push_str(&format!(
            ", so {} entries are left out: {} preferences, {} learnings, {} meta\n",
            dropped.total(),
            dropped.preferences,
            dropped.learnings,
            dropped.meta
        ));
    } else {
        out.push_str(", nothing is left out\n");
    }
    io::stdout().write_all(crate::terminal::harmless(&out).as_bytes())?;
    Ok(())
}

fn counted(memory: &Memory) -> String {
    let block = Block::new(memory, &Memory::default(), 0);
    let entries = block.entries;
    let bad = match memory.bad() {
        0 => String::new(),
        1 => "; 1 line cannot be understood".to_owned(),
        bad => format!("; {bad} lines cannot be understood"),
    };
    format!(
        "{} entries: {} preferences, {} learnings, {} meta{bad}",
        entries.total(),
        entries.preferences,
        entries.learnings,
        entries.meta
    )
}
