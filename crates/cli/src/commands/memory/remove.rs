//! `autoloop memory remove` and `promote`: what becomes of an entry.

use std::io::{self, Write};

use autoloop_core::memory::{Entry, Fate, LONGEST_TEXT, Memory, Said};
use autoloop_runtime::world::World;

use super::{Tier, Tiers, not_stored};
use crate::failure::Failure;

const LOOK: &str = "`autoloop memory list` shows what there is";

/// Hide an entry behind a tombstone. The files keep it.
#[derive(Debug, clap::Args)]
pub(super) struct RemoveArgs {
    /// The run whose memory is meant beside the project's [default: that of the environment, or the
    /// latest].
    #[arg(long)]
    run: Option<String>,
    /// Where the entry is, should both tiers have one of this name [default: the run, if it has it].
    #[arg(long, value_enum)]
    tier: Option<Tier>,
    /// The name of the entry: mem-3, meta-7.
    id: String,
    /// Why it is not wanted any more.
    reason: Vec<String>,
}

/// Move an entry from the memory of a run to that of the project.
#[derive(Debug, clap::Args)]
pub(super) struct PromoteArgs {
    /// The run [default: that of the environment, or the latest].
    #[arg(long)]
    run: Option<String>,
    /// The name of the entry: mem-3, meta-7.
    id: String,
}

pub(super) fn remove(args: &RemoveArgs, world: &World) -> Result<(), Failure> {
    let tiers = Tiers::to_look_at(None, args.run.as_deref(), world)?;
    let reason: String = args.reason.join(" ").chars().take(LONGEST_TEXT).collect();
    let tier = match args.tier {
        Some(tier) => tier,
        None => tier_of(&tiers, &args.id)?,
    };
    bury(&tiers, tier, &args.id, &reason)?;
    writeln!(io::stdout(), "removed {} from {tier} memory", args.id)?;
    Ok(())
}

/// Where an entry is: the run comes first, should both tiers have one of this name.
fn tier_of(tiers: &Tiers, id: &str) -> Result<Tier, Failure> {
    let (project, run) = (tiers.read(Tier::Project)?, tiers.read(Tier::Run)?);
    match (run.fate(id), project.fate(id)) {
        (Fate::Live(_), _) | (Fate::Gone, Fate::Unknown) => Ok(Tier::Run),
        (_, Fate::Live(_) | Fate::Gone) => Ok(Tier::Project),
        (Fate::Unknown, Fate::Unknown) => {
            Err(Failure::failed(format!("there is no entry '{id}' in memory")).hint(LOOK))
        }
    }
}

/// Puts a tombstone on a live entry.
fn bury(tiers: &Tiers, tier: Tier, id: &str, reason: &str) -> Result<(), Failure> {
    let Some(file) = tiers.file(tier) else { return Err(not_there(Fate::Unknown, tier, id)) };
    let author = tiers.author(tier)?;
    let mut problem = None;
    file.add(&author, &mut |memory| match memory.fate(id) {
        Fate::Live(_) => Some(Said::Tombstone { target: id.to_owned(), reason: reason.to_owned() }),
        fate => {
            problem = Some(not_there(fate, tier, id));
            None
        }
    })
    .map_err(not_stored)?;
    problem.map_or(Ok(()), Err)
}

pub(super) fn promote(args: &PromoteArgs, world: &World) -> Result<(), Failure> {
    let tiers = Tiers::to_look_at(None, args.run.as_deref(), world)?;
    let memory = tiers.read(Tier::Run)?;
    let entry = match memory.fate(&args.id) {
        Fate::Live(entry) => entry,
        fate => return Err(not_there(fate, Tier::Run, &args.id)),
    };
    // The copy comes first: a crash in between leaves the entry in both tiers, and in none never.
    let mut author = tiers.author(Tier::Project)?;
    author.source = format!("promoted {} {}", args.id, entry.source).trim_end().to_owned();
    let mut known = None;
    let added = tiers.project.add(&author, &mut |project| {
        known = copy_of(project, entry, &author.source).map(|copy| copy.id.clone());
        known.is_none().then(|| entry.said.clone())
    });
    let added = added.map_err(not_stored)?;
    let id = known.or(added.map(|entry| entry.id)).unwrap_or_default();
    bury(&tiers, Tier::Run, &args.id, &format!("promoted to the project as {id}"))?;
    writeln!(io::stdout(), "promoted {} to project memory as {id}", args.id)?;
    Ok(())
}

/// What an earlier attempt, which did not come to its end, has left in the project.
fn copy_of<'a>(project: &'a Memory, entry: &Entry, source: &str) -> Option<&'a Entry> {
    project.live().into_iter().find(|copy| copy.said == entry.said && copy.source == source)
}

fn not_there(fate: Fate<'_>, tier: Tier, id: &str) -> Failure {
    let failure = match fate {
        Fate::Gone => Failure::failed(format!("'{id}' was removed from {tier} memory already")),
        _ => Failure::failed(format!("there is no entry '{id}' in {tier} memory")),
    };
    failure.hint(LOOK)
}
