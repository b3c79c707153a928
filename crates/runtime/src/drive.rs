//! Carries runs out: the driver of each coordinator asks for the next step, carries it out, and appends the result.
//!
//! Nothing is decided here. What to do is a value that core returns, from the state that the
//! `Harness` folds from the journal and from the plan that was last loaded; so a run that
//! crashed anywhere is resumed by asking again.

mod chain;
mod chain_records;
mod chain_requests;
mod exchange;
mod loop_driver;
mod loop_run;
mod parallel;
mod project_tree;
mod review_turn;
mod slots;
mod squad;
mod turn_records;
mod wave;
mod worktrees;

use std::path::Path;
use std::sync::Arc;

use autoloop_core::config::SyncPolicy;
use autoloop_core::env::Env;
use autoloop_core::memory::Places;
use autoloop_core::plan::Plan;

use crate::emit::{Caller, Emitter};
use crate::harness::create_dirs;
use crate::ipc::{Handler, Ticket};
use crate::journal::{Durability, FileSettings};
use crate::memory::Tiers;
use crate::project::Loaded;
use crate::site::Site;
use crate::world::World;

pub use crate::error::DriveError;
pub use crate::harness::Foreign;
pub use crate::turn::{PLAY_SCRIPT, REPLAY};
pub use chain::ChainDriver;
pub use exchange::{Change, ExchangeDriver, OpenRequest, Order, describe};
pub use loop_driver::LoopDriver;
pub use slots::SlotsDriver;
pub use squad::{Cleaned, KeptWork, SquadDriver, SquadOrder, SquadSpec, clean_squad};

/// What a record of the harness has to survive.
fn durability(plan: &Plan) -> Durability {
    match plan.journal.sync {
        SyncPolicy::Always | SyncPolicy::Iteration => Durability::Synced,
        SyncPolicy::Never => Durability::Cached,
    }
}

/// Stores for a reviewer what its sandbox keeps it from writing.
fn reviewer_handler(site: &Site<'_>, loaded: &Loaded, memory: Places, caller: Caller) -> Handler {
    let settings = FileSettings { lock_timeout: loaded.plan.journal.lock_timeout };
    let memory = Tiers::at(memory, site.world, settings);
    Handler {
        ticket: Ticket::draw(&*site.world.entropy),
        tools: None,
        memory: memory.for_author(caller.run.as_deref(), Some(&caller.iteration)),
        emitter: Emitter {
            caller,
            journal: site.journal.handle(),
            durability: durability(&loaded.plan),
            clock: Arc::clone(&site.world.clock),
        },
    }
}

fn environment(loaded: &Loaded, run: &str, iteration: u64) -> Env {
    let files = &loaded.files;
    Env {
        run_id: Some(run.to_owned()),
        iteration: Some(iteration.to_string()),
        state_dir: Some(files.state_dir.to_path_buf()),
        journal_file: Some(files.journal.clone()),
        bin: Some(files.state_dir.tool()),
        log_level: Some(loaded.plan.log_level.to_string()),
        ..Env::default()
    }
}

/// Writes a file for people and for later harnesses, and the directories above it.
fn write_file(path: &Path, text: &str, world: &World) -> Result<(), DriveError> {
    create_dirs(path.parent().unwrap_or(path), world)?;
    world
        .disk
        .replace(path, text.as_bytes())
        .map_err(|source| DriveError::Write { path: path.to_owned(), source })
}
