//! Shows and moves the messages of an agent.

use std::collections::HashSet;
use std::io::{self, Write as _};
use std::time::Duration;

use autoloop_core::duration;
use autoloop_core::format::json_line;
use autoloop_core::message::{AgentName, Header, Message, print_moment};
use autoloop_core::table;
use autoloop_core::timestamp::Timestamp;
use autoloop_runtime::mailbox::{self, Listed, Place, Workspace};
use autoloop_runtime::world::World;
use serde_json::{Value, json};

use super::check::unreadable;
use super::home::{self, Home};
use crate::failure::{Failure, Kind};
use crate::terminal;

/// How long to wait for a message before checking whether the output is still read.
const POLL: Duration = Duration::from_secs(2);
const WIDEST_SUBJECT: usize = 60;

/// Create mailboxes.
///
/// Those that exist are kept as they are.
#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// Names of agents
    #[arg(required = true, value_name = "AGENT")]
    agents: Vec<AgentName>,
}

/// List the unread messages of an agent, oldest first.
///
/// Prints the id, type, sender, thread, age, expiry and subject of each. Reads only the heads of the messages.
#[derive(Debug, clap::Args)]
pub(crate) struct InboxArgs {
    #[command(flatten)]
    owner: Owner,
    /// List claimed and archived messages too
    #[arg(long)]
    all: bool,
    /// Print one JSON object per message
    #[arg(long)]
    json: bool,
}

/// Print a message as it is in its file.
#[derive(Debug, clap::Args)]
pub(crate) struct ReadArgs {
    /// Id of the message
    id: String,
    #[command(flatten)]
    owner: Owner,
}

/// Claim a message and print its id.
///
/// Of several processes that claim a message, one succeeds. A claimed message is moved to inbox/claimed.
#[derive(Debug, clap::Args)]
pub(crate) struct ClaimArgs {
    /// Id of the message [default: the oldest unread one]
    id: Option<String>,
    #[command(flatten)]
    owner: Owner,
    /// Make a claimed message unread again
    #[arg(long, requires = "id")]
    release: bool,
}

/// Archive a message that is done.
///
/// It is moved to inbox/archive, under the same name.
#[derive(Debug, clap::Args)]
pub(crate) struct ArchiveArgs {
    /// Id of the message
    id: String,
    #[command(flatten)]
    owner: Owner,
}

/// Print unread messages, and new ones as they arrive.
///
/// Prints one JSON object per message until interrupted.
#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    owner: Owner,
    /// Skip existing messages
    #[arg(long)]
    new: bool,
}

#[derive(Debug, clap::Args)]
struct Owner {
    /// Agent [env: OACP_AGENT]
    #[arg(long, value_name = "AGENT")]
    agent: Option<AgentName>,
}

/// A mailbox, after what killed processes left was finished.
struct Mailbox {
    workspace: Workspace,
    agent: AgentName,
}

impl Owner {
    fn open(&self, home: &Home, world: &World) -> Result<Mailbox, Failure> {
        let agent = home::agent(self.agent.as_ref(), "--agent")?;
        let workspace = home.workspace(world)?;
        workspace.ensure_agent(&agent)?;
        workspace.sweep()?;
        Ok(Mailbox { workspace, agent })
    }
}

impl InitArgs {
    pub(crate) fn run(&self, home: &Home, world: &World) -> Result<(), Failure> {
        let workspace = home.workspace(world)?;
        workspace.init(&self.agents)?;
        Ok(terminal::print(&format!("{}\n", workspace.dir().display()))?)
    }
}

impl InboxArgs {
    pub(crate) fn run(&self, home: &Home, world: &World) -> Result<(), Failure> {
        let Mailbox { workspace, agent } = self.owner.open(home, world)?;
        let places = [Place::Unread, Place::Claimed, Place::Archived];
        let places = if self.all { &places[..] } else { &places[..1] };
        let listed = workspace.list(&agent, places)?;
        let now = world.clock.now();
        let text = match self.json {
            true => listed.iter().map(|listed| line(listed, now)).collect(),
            false => table::print(listed.iter().map(|listed| row(listed, now)).collect()),
        };
        Ok(terminal::print(&text)?)
    }
}

impl ReadArgs {
    pub(crate) fn run(&self, home: &Home, world: &World) -> Result<(), Failure> {
        let Mailbox { workspace, agent } = self.owner.open(home, world)?;
        let path = workspace.find(&agent, &self.id)?.path;
        let mut text = String::new();
        let checked = mailbox::check(&*world.disk, &path, |bytes| {
            text = String::from_utf8_lossy(bytes).into_owned();
            Message::read(bytes)
        });
        let checked = checked.map_err(|error| unreadable(&path, &error))?;
        terminal::print(&text)?;
        match checked.problems.errors.first() {
            None => Ok(()),
            Some(first) => {
                let message = format!("the message is invalid: {}", first.message);
                let hint =
                    format!("list all problems with `autoloop mail validate {}`", path.display());
                Err(Failure::new(Kind::Refused, message).hint(hint))
            }
        }
    }
}

impl ClaimArgs {
    pub(crate) fn run(&self, home: &Home, world: &World) -> Result<(), Failure> {
        let Mailbox { workspace, agent } = self.owner.open(home, world)?;
        let moved = match &self.id {
            Some(id) if self.release => workspace.release(&agent, id)?,
            Some(id) => workspace.claim(&agent, id)?,
            None => workspace.claim_next(&agent)?.ok_or_else(|| {
                Failure::new(Kind::Refused, format!("'{agent}' has no unread message"))
            })?,
        };
        Ok(terminal::print(&format!("{}\n", id(&moved)))?)
    }
}

impl ArchiveArgs {
    pub(crate) fn run(&self, home: &Home, world: &World) -> Result<(), Failure> {
        let Mailbox { workspace, agent } = self.owner.open(home, world)?;
        let moved = workspace.archive(&agent, &self.id)?;
        Ok(terminal::print(&format!("{}\n", id(&moved)))?)
    }
}

impl WatchArgs {
    pub(crate) fn run(&self, home: &Home, world: &World) -> Result<(), Failure> {
        let Mailbox { workspace, agent } = self.owner.open(home, world)?;
        // Started before the first look, so that nothing arrives unseen.
        let mut watch = workspace.watch(&agent)?;
        let later = [Place::Claimed, Place::Archived];
        let mut seen: HashSet<String> = HashSet::new();
        for place in later.iter().chain(self.new.then_some(&Place::Unread)) {
            seen.extend(names(&workspace, &agent, *place)?);
        }
        loop {
            // A message that another process claims or archives at once is printed too.
            let mut places = vec![Place::Unread];
            for place in later {
                if names(&workspace, &agent, place)?.iter().any(|name| !seen.contains(name)) {
                    places.push(place);
                }
            }
            for listed in workspace.list(&agent, &places)? {
                if seen.insert(listed.name()) {
                    terminal::print(&line(&listed, world.clock.now()))?;
                }
            }
            io::stdout().flush()?;
            watch
                .changed(POLL)
                .map_err(|error| Failure::failed(format!("cannot wait: {error}")))?;
            terminal::ensure_read()?;
            workspace.sweep()?;
        }
    }
}

fn names(workspace: &Workspace, agent: &AgentName, place: Place) -> Result<Vec<String>, Failure> {
    let paths = workspace.paths(agent, place)?;
    let name = |path: &std::path::PathBuf| {
        path.file_name().map(|name| name.to_string_lossy().into_owned())
    };
    Ok(paths.iter().filter_map(name).collect())
}

fn id(listed: &Listed) -> String {
    listed.header.as_ref().map_or_else(|| listed.name(), |header| header.id.clone())
}

fn age(header: &Header, now: Timestamp) -> String {
    let millis = now.millis().saturating_sub(header.created_at.millis()).max(0);
    duration::print_short(Duration::from_millis(millis.unsigned_abs()))
}

fn row(listed: &Listed, now: Timestamp) -> [String; 7] {
    let Some(header) = &listed.header else {
        let cells = [listed.name(), "invalid".to_owned()];
        let [name, invalid] = cells;
        return [
            name,
            invalid,
            String::new(),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
        ];
    };
    let expiry = match header.expires_at {
        Some(expires) if expires <= now => "expired".to_owned(),
        Some(expires) => format!("expires {}", print_moment(expires)),
        None => String::new(),
    };
    [
        header.id.clone(),
        header.kind.to_string(),
        header.from.to_string(),
        header.conversation_id.clone().unwrap_or_default(),
        age(header, now),
        expiry,
        terminal::one_line(&header.subject, WIDEST_SUBJECT),
    ]
}

fn line(listed: &Listed, now: Timestamp) -> String {
    let value = match &listed.header {
        None => json!({"file": listed.name(), "state": listed.place.name(), "invalid": true}),
        Some(header) => json!({
            "id": header.id,
            "state": listed.place.name(),
            "type": header.kind.name(),
            "priority": header.priority.name(),
            "from": header.from.as_str(),
            "conversation_id": header.conversation_id,
            "related_pr": header.related_pr,
            "created_at_utc": print_moment(header.created_at),
            "expires_at": header.expires_at.map_or(Value::Null, |moment| print_moment(moment).into()),
            "expired": header.expires_at.is_some_and(|moment| moment <= now),
            "subject": header.subject,
            "file": listed.name(),
        }),
    };
    json_line(&value) + "\n"
}
