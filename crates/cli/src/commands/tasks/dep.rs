//! `autoloop tasks dep`: what waits for what.

use autoloop_runtime::queue::{Builtin, QueueError};
use clap::Subcommand;
use serde::Serialize;

use super::row::{Row, array, table};
use super::tell;
use crate::failure::Failure;
use crate::terminal;

/// Say what waits for what.
///
/// A task is not taken before everything that it waits for is closed. Tasks cannot wait for each other
/// in a circle. With two tasks and nothing else, the first is to wait for the second.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    pair: Option<Pair>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Let a task wait for another.
    Add(Pair),
    /// Let it not wait for it any more.
    Rm(Pair),
    /// Show what a task waits for.
    List {
        /// Which one.
        id: String,
        /// Print an array of objects.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args, Serialize)]
struct Pair {
    /// The task that waits.
    id: String,
    /// The task that it waits for.
    after: String,
    /// Print an object.
    #[arg(long)]
    #[serde(skip)]
    json: bool,
}

impl Args {
    /// Whether nothing is changed by it.
    pub(super) fn is_look(&self) -> bool {
        matches!(self.what, Some(What::List { .. }))
    }
}

pub(super) fn run(args: &Args, queue: &Builtin<'_>) -> Result<(), Failure> {
    match (&args.what, &args.pair) {
        (Some(What::Add(pair)), _) | (None, Some(pair)) => {
            queue.step(|tasks, now| tasks.link(&pair.id, &pair.after, now))?;
            pair.tell("waits for")
        }
        (Some(What::Rm(pair)), _) => {
            queue.step(|tasks, now| tasks.unlink(&pair.id, &pair.after, now))?;
            pair.tell("does not wait any more for")
        }
        (Some(What::List { id, json }), _) => list(id, *json, queue),
        // Both are required of whoever names no subcommand.
        (None, None) => unreachable!("neither a subcommand nor two tasks"),
    }
}

impl Pair {
    fn tell(&self, how: &str) -> Result<(), Failure> {
        let said = format!("{} {how} {}", self.id, self.after);
        tell(&said, self.json.then_some(self))
    }
}

fn list(id: &str, json: bool, queue: &Builtin<'_>) -> Result<(), Failure> {
    let text = queue.look(|tasks, now| {
        let after = tasks.known(id)?.after.iter().filter_map(|id| tasks.get(id));
        let rows: Vec<Row<'_>> = after.map(|task| Row { tasks, task, now }).collect();
        Ok::<_, QueueError>(match json {
            true => array(&rows),
            false if rows.is_empty() => format!("{id} waits for nothing\n"),
            false => table(&rows),
        })
    })??;
    Ok(terminal::print(&text)?)
}
