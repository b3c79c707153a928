//! Verifies the history of a workspace.

use std::path::{Path, PathBuf};

use autoloop_core::format::json_line;
use autoloop_core::message::{Note, Notes, verify};
use autoloop_runtime::mailbox;
use autoloop_runtime::world::World;

use super::check::unreadable;
use crate::failure::{Failure, Kind};
use crate::terminal;

/// Verify all reviews of a workspace.
///
/// Checks all messages and packets, and for each review: the order of its messages, rounds, counts, ids and commits,
/// one terminal response per request, and that the gate was open for every approval.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Workspace to verify: the directory that contains agents/ and packets/
    #[arg(long, value_name = "DIR")]
    verify: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let dir = &args.verify;
    let mut notes = Notes::default();
    world.disk.list(&dir.join("agents")).map_err(|error| {
        unreadable(&dir.join("agents"), &error).hint("name the directory of a workspace")
    })?;
    let history = mailbox::read_history(&*world.disk, dir, &mut notes)
        .map_err(|error| unreadable(dir, &error))?;
    let found = verify(&history);
    notes.errors.extend(found.errors);
    notes.warnings.extend(found.warnings);
    let report = match args.json {
        true => json_line(&notes) + "\n",
        false => as_text(&notes, history.messages.len()),
    };
    terminal::print(&report)?;
    match notes.errors.len() {
        0 => Ok(()),
        count => {
            let message = format!("the history has {}", terminal::counted(count as u64, "error"));
            Err(Failure::new(Kind::Refused, message))
        }
    }
}

fn as_text(notes: &Notes, messages: usize) -> String {
    let line = |kind: &str, note: &Note| {
        format!(
            "{}: {kind}: {}\n",
            Path::new(&note.file).display(),
            note.message.replace('\n', " ")
        )
    };
    let mut text: String = notes.errors.iter().map(|note| line("error", note)).collect();
    text.extend(notes.warnings.iter().map(|note| line("warning", note)));
    if notes.errors.is_empty() {
        text.push_str(&format!("{}, no errors\n", terminal::counted(messages as u64, "message")));
    }
    text
}
