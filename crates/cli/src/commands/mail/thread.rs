//! Lists the messages of a workspace, or verifies its reviews.

use std::path::PathBuf;

use autoloop_core::format::json_line;
use autoloop_core::message::{AgentName, Filed, Note, Notes, print_moment, verify};
use autoloop_core::table;
use autoloop_runtime::mailbox;
use autoloop_runtime::world::World;

use super::check::unreadable;
use super::home::Home;
use crate::failure::{Failure, Kind};
use crate::terminal;

/// List the messages of a workspace by thread, or verify all its reviews.
///
/// --verify checks all messages and packets, and for each review: the order of its messages, rounds, counts, ids and
/// commits, one terminal response per request, and that the gate was open for every approval.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Id of a thread or number of a pull request [default: all]
    #[arg(conflicts_with = "verify")]
    thread: Option<String>,
    /// Verify the workspace in DIR, the directory that contains agents/ and packets/
    #[arg(long, value_name = "DIR")]
    verify: Option<PathBuf>,
    /// Print JSON
    #[arg(long, requires = "verify")]
    json: bool,
}

impl Args {
    pub(crate) fn run(&self, home: &Home, world: &World) -> Result<(), Failure> {
        let dir = match &self.verify {
            Some(dir) => dir.clone(),
            None => home.workspace(world)?.dir().to_owned(),
        };
        let mut notes = Notes::default();
        world.disk.list(&dir.join("agents")).map_err(|error| {
            unreadable(&dir.join("agents"), &error).hint("name the directory of a workspace")
        })?;
        let history = mailbox::read_history(&*world.disk, &dir, &mut notes)
            .map_err(|error| unreadable(&dir, &error))?;
        if self.verify.is_none() {
            return Ok(terminal::print(&self.list(history.messages))?);
        }
        let found = verify(&history);
        notes.errors.extend(found.errors);
        notes.warnings.extend(found.warnings);
        let report = match self.json {
            true => json_line(&notes) + "\n",
            false => as_text(&notes, history.messages.len()),
        };
        terminal::print(&report)?;
        match notes.errors.len() {
            0 => Ok(()),
            count => {
                let message =
                    format!("the history has {}", terminal::counted(count as u64, "error"));
                Err(Failure::new(Kind::Refused, message))
            }
        }
    }

    /// One line per message, by thread and time.
    fn list(&self, mut messages: Vec<Filed>) -> String {
        let thread =
            |filed: &Filed| filed.message.envelope.conversation_id.clone().unwrap_or_default();
        messages.retain(|filed| {
            let pr = filed.message.envelope.related_pr.map(|pr| pr.to_string());
            self.thread
                .as_ref()
                .is_none_or(|wanted| thread(filed) == *wanted || pr.as_deref() == Some(wanted))
        });
        messages.sort_by_key(|filed| {
            let envelope = &filed.message.envelope;
            (thread(filed), envelope.created_at, envelope.id.clone())
        });
        messages.dedup_by_key(|filed| filed.message.envelope.id.clone());
        let row = |filed: &Filed| {
            let envelope = &filed.message.envelope;
            let to: Vec<&str> = envelope.to.iter().map(AgentName::as_str).collect();
            [
                thread(filed),
                print_moment(envelope.created_at),
                envelope.id.clone(),
                envelope.kind.to_string(),
                format!("{} to {}", envelope.from, to.join(", ")),
                terminal::one_line(&envelope.subject, 60),
            ]
        };
        table::print(messages.iter().map(row).collect())
    }
}

fn as_text(notes: &Notes, messages: usize) -> String {
    let line = |kind: &str, note: &Note| {
        format!("{}: {kind}: {}\n", note.file, note.message.replace('\n', " "))
    };
    let mut text: String = notes.errors.iter().map(|note| line("error", note)).collect();
    text.extend(notes.warnings.iter().map(|note| line("warning", note)));
    if notes.errors.is_empty() {
        text.push_str(&format!("{}, no errors\n", terminal::counted(messages as u64, "message")));
    }
    text
}
