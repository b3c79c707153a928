//! `autoloop mail`: messages between agents, and the mailboxes that contain them.

mod boxes;
pub(crate) mod check;
pub(crate) mod home;
mod send;
mod thread;

use std::path::Path;

use autoloop_core::message::{Checked, Message, Place};
use autoloop_runtime::mailbox::MailError;
use autoloop_runtime::world::World;
use clap::Subcommand;

use crate::failure::{Failure, Kind};

/// Exchange messages between agents.
///
/// Messages and mailboxes have the format of the public protocol OACP. Everything is checked before it is sent, and
/// what is sent is delivered once.
///
/// The workspace is that of --home and --project, else of OACP_HOME and OACP_PROJECT, else the one above the current
/// directory, else .autoloop/mail/projects/default in the current project.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    home: home::Home,
}

#[derive(Debug, Subcommand)]
enum What {
    Init(boxes::InitArgs),
    Send(send::Args),
    Inbox(boxes::InboxArgs),
    Read(boxes::ReadArgs),
    Claim(boxes::ClaimArgs),
    Archive(boxes::ArchiveArgs),
    /// Check message files and print all their problems.
    ///
    /// Needs no project. Prints each problem with its line and column.
    Validate(check::Args),
    Watch(boxes::WatchArgs),
    Thread(thread::Args),
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let home = &args.home;
    match &args.what {
        What::Init(args) => args.run(home, world),
        What::Send(args) => args.run(home, world),
        What::Inbox(args) => args.run(home, world),
        What::Read(args) => args.run(home, world),
        What::Claim(args) => args.run(home, world),
        What::Archive(args) => args.run(home, world),
        What::Watch(args) => args.run(home, world),
        What::Validate(args) => check::run(args, world, "messages", read_message),
        What::Thread(args) => args.run(home, world),
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

impl From<MailError> for Failure {
    fn from(error: MailError) -> Self {
        let message = error.to_string();
        match error {
            MailError::Io { .. } => {
                Failure::failed(message).hint("make the workspace readable and writable")
            }
            MailError::NoAgent { name, known, .. } => {
                let known =
                    (!known.is_empty()).then(|| format!("its agents are {}", known.join(", ")));
                Failure::usage(message)
                    .maybe_hint(known)
                    .hint(format!("create the mailbox with `autoloop mail init {name}`"))
            }
            MailError::NoMessage { agent, .. } => Failure::usage(message).hint(format!(
                "list the messages with `autoloop mail inbox --agent {agent} --all`"
            )),
            MailError::Taken { .. } => Failure::new(Kind::Refused, message),
            MailError::Invalid(problems) => {
                let found = problems.errors.iter().map(|problem| problem.message.clone());
                let refused = Failure::new(Kind::Refused, format!("{message}, so it was not sent"));
                found.fold(refused, Failure::hint)
            }
        }
    }
}
