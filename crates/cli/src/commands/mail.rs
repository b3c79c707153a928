//! `autoloop mail`: messages between agents, and the mailboxes that contain them.

pub(crate) mod check;
mod thread;

use std::path::Path;

use autoloop_core::message::{Checked, Message, Place};
use autoloop_runtime::world::World;
use clap::Subcommand;

use crate::failure::Failure;

/// Exchange messages between agents.
///
/// Messages and mailboxes have the format of the public protocol OACP. Everything is checked before it is sent, and
/// what is sent is delivered once.
#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    /// Check message files and print all their problems.
    ///
    /// Needs no project. Prints each problem with its line and column.
    Validate(check::Args),
    Thread(thread::Args),
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    match args {
        Args::Validate(args) => check::run(args, world, "messages", read_message),
        Args::Thread(args) => thread::run(args, world),
    }
}

/// Reads a message, whose file may have a name that contradicts it.
fn read_message(path: &Path, bytes: &[u8]) -> Checked<Message> {
    let mut checked = Message::read(bytes);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let message = checked.value.as_ref();
    if let Some(why) = message.and_then(|message| message.envelope.contradicts_name(&name)) {
        checked.problems.error(Place::START, why);
        checked.value = None;
    }
    checked
}
