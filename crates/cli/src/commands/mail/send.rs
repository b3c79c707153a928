//! Sends a message.

use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

use autoloop_core::duration;
use autoloop_core::format::json_text;
use autoloop_core::message::{AgentName, Envelope, MAX_BYTES, Telemetry, Type};
use autoloop_core::review::Severity;
use autoloop_core::timestamp::Timestamp;
use autoloop_runtime::files::{self, Links};
use autoloop_runtime::mailbox::Place;
use autoloop_runtime::world::World;
use serde_json::json;

use super::check::unreadable;
use super::home::{self, Home};
use crate::failure::Failure;
use crate::terminal;

/// Send a message and print its id.
///
/// The message is checked like by `mail validate`, and every recipient must have a mailbox. After the command has
/// succeeded, the message survives a power cut. If the command is killed, the message is sent completely or not at all.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Sender [env: OACP_AGENT]
    #[arg(long, value_name = "AGENT")]
    from: Option<AgentName>,
    /// Recipient; repeatable
    #[arg(long, value_name = "AGENT", required = true, value_delimiter = ',')]
    to: Vec<AgentName>,
    /// Type of the message, such as review_request
    #[arg(long = "type", value_name = "TYPE", value_parser = kind)]
    kind: Type,
    /// Subject, in one line
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    subject: String,
    /// Body
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        required_unless_present = "body_file"
    )]
    body: Option<String>,
    /// Read the body from FILE; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "body")]
    body_file: Option<PathBuf>,
    /// Priority: P0, P1, P2 or P3
    #[arg(long, value_name = "P0-P3", default_value = "P2", value_parser = priority)]
    priority: Severity,
    /// Number of the pull request
    #[arg(long, value_name = "NUMBER")]
    related_pr: Option<u64>,
    /// Packet, relative to the workspace
    #[arg(long, value_name = "PATH")]
    related_packet: Option<String>,
    /// Id of the message that this one answers; the thread is that of the message
    #[arg(long, value_name = "ID")]
    in_reply_to: Option<String>,
    /// Id of the thread [default: a new one]
    #[arg(long, value_name = "ID")]
    conversation_id: Option<String>,
    /// Time until the message expires, like 30m or 2d
    #[arg(long, value_name = "DURATION", value_parser = lifetime)]
    expires: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn kind(word: &str) -> Result<Type, String> {
    Type::from_word(word).ok_or_else(|| format!("expected one of {}", Type::WORDS.join(", ")))
}

fn priority(word: &str) -> Result<Severity, String> {
    Severity::from_word(word).ok_or_else(|| "expected P0, P1, P2 or P3".to_owned())
}

fn lifetime(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

impl Args {
    pub(crate) fn run(&self, home: &Home, world: &World) -> Result<(), Failure> {
        let from = home::agent(self.from.as_ref(), "--from")?;
        let workspace = home.workspace(world)?;
        let now = world.clock.now();
        let conversation_id = match (&self.conversation_id, &self.in_reply_to) {
            (Some(id), _) => Some(id.clone()),
            (None, None) => Some(new_thread(&from, now, world)),
            // A message without a thread has none to continue.
            (None, Some(id)) => {
                workspace.find(&from, id)?.header.and_then(|header| header.conversation_id)
            }
        };
        let sent = workspace.send(Envelope {
            id: String::new(),
            from,
            to: self.to.clone(),
            kind: self.kind,
            priority: self.priority,
            created_at: now,
            expires_at: self.expires.map(|time| whole_second(now.plus(time))),
            channel: None,
            auto_proceed: false,
            related_packet: self.related_packet.clone(),
            related_pr: self.related_pr,
            conversation_id,
            parent_message_id: self.in_reply_to.clone(),
            context_keys: None,
            subject: self.subject.clone(),
            body: self.body(world)?,
            telemetry: Telemetry::default(),
        })?;
        let text = match self.json {
            false => format!("{}\n", sent.id),
            true => json_text(&json!({
                "message_id": sent.id,
                "from": sent.from.as_str(),
                "to": sent.to.iter().map(AgentName::as_str).collect::<Vec<_>>(),
                "type": sent.kind.name(),
                "conversation_id": sent.conversation_id,
                "state": Place::Unread.name(),
            })),
        };
        Ok(terminal::print(&text)?)
    }

    fn body(&self, world: &World) -> Result<String, Failure> {
        let Some(path) = &self.body_file else { return Ok(self.body.clone().unwrap_or_default()) };
        let most = MAX_BYTES as u64;
        let bytes = if path.as_os_str() == "-" {
            let mut bytes = Vec::new();
            let read = std::io::stdin().lock().take(most).read_to_end(&mut bytes);
            read.map_err(|error| unreadable(path, &error))?;
            bytes
        } else {
            let read = files::read(&*world.disk, path, Links::Follow, most);
            let missing =
                || std::io::Error::new(std::io::ErrorKind::NotFound, "there is no such file");
            let read = read.map_err(Into::into).and_then(|bytes| bytes.ok_or_else(missing));
            read.map_err(|error| unreadable(path, &error))?
        };
        String::from_utf8(bytes).map_err(|_| {
            Failure::usage(format!("{} is not UTF-8", path.display())).hint("save it as UTF-8")
        })
    }
}

fn whole_second(moment: Timestamp) -> Timestamp {
    Timestamp::from_millis(moment.millis().div_euclid(1000) * 1000)
}

fn new_thread(from: &AgentName, now: Timestamp, world: &World) -> String {
    let date: String = now.to_string().chars().filter(char::is_ascii_digit).take(8).collect();
    format!("conv-{date}-{from}-{:06}", world.entropy.number() % 1_000_000)
}
