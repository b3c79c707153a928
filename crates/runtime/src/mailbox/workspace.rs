//! A workspace: the mailboxes of its agents, and how a message is delivered, claimed and archived.
//!
//! A message is first written beside the outbox of its sender. The rename to its final name in `.sending` is the
//! moment from which it is sent: whatever happens then, it is delivered to every recipient once, by its sender or by
//! the next command of any process, and moved to the outbox. Unfinished files are locked by the process that writes
//! them, so a file whose lock is free was left by a killed process. Nothing is ever replaced: all moves are to new
//! names.

use std::io;
use std::path::{Path, PathBuf};

use autoloop_core::message::{
    AgentName, Envelope, Header, MAX_BYTES, Message, Problems, USUAL_HEAD, print_moment,
};
use autoloop_core::timestamp::Timestamp;

use super::FINDINGS;
use crate::files::{self, Links};
use crate::world::{Access, DiskFile, FileKind, World};

const INBOX: &str = "inbox";
const CLAIMED: &str = "inbox/claimed";
const ARCHIVE: &str = "inbox/archive";
const OUTBOX: &str = "outbox";
/// Messages that are being sent.
const SENDING: &str = ".sending";
/// Copies that are being written for the inbox.
const INCOMING: &str = ".incoming";
const DIRECTORIES: [&str; 7] = [INBOX, CLAIMED, ARCHIVE, OUTBOX, "dead_letter", SENDING, INCOMING];
const UNFINISHED: &str = "tmp-";
/// How often an unfinished file is written again after another process took it for a left one.
const ATTEMPTS: usize = 20;

#[derive(Debug, thiserror::Error)]
pub enum MailError {
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("there is no agent '{name}' in {}", workspace.display())]
    NoAgent { name: AgentName, workspace: PathBuf, known: Vec<String> },
    #[error("there is no message '{id}' for '{agent}'")]
    NoMessage { id: String, agent: AgentName },
    #[error("the message '{id}' is {place} already")]
    Taken { id: String, place: &'static str },
    #[error("the message is invalid")]
    Invalid(Problems),
}

/// Where a received message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Unread,
    Claimed,
    Archived,
}

impl Place {
    const ALL: [Place; 3] = [Place::Unread, Place::Claimed, Place::Archived];

    fn directory(self) -> &'static str {
        match self {
            Place::Unread => INBOX,
            Place::Claimed => CLAIMED,
            Place::Archived => ARCHIVE,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Place::Unread => "unread",
            Place::Claimed => "claimed",
            Place::Archived => "archived",
        }
    }
}

/// One message in a mailbox.
#[derive(Clone, Debug)]
pub struct Listed {
    pub path: PathBuf,
    pub place: Place,
    /// `None` if the message is invalid.
    pub header: Option<Header>,
}

impl Listed {
    pub fn name(&self) -> String {
        file_name(&self.path)
    }
}

#[derive(Clone)]
pub struct Workspace {
    dir: PathBuf,
    world: World,
}

/// A file that was placed, locked until this is dropped.
struct Placed {
    path: PathBuf,
    _lock: Box<dyn DiskFile>,
}

impl Workspace {
    pub fn new(dir: PathBuf, world: &World) -> Self {
        Workspace { dir, world: world.clone() }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Creates the mailboxes of agents, as far as they are missing.
    pub fn init(&self, agents: &[AgentName]) -> Result<(), MailError> {
        self.create(&self.dir.join(FINDINGS))?;
        for agent in agents {
            for directory in DIRECTORIES {
                self.create(&self.agent_dir(agent).join(directory))?;
            }
        }
        Ok(())
    }

    /// The agents that have a mailbox, sorted.
    pub fn agents(&self) -> Result<Vec<AgentName>, MailError> {
        let names = self.names(&self.dir.join("agents"))?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    pub fn ensure_agent(&self, name: &AgentName) -> Result<(), MailError> {
        let is_directory = |path: &Path| {
            self.world.disk.stat(path).is_ok_and(|found| found.kind == FileKind::Directory)
        };
        let dir = self.agent_dir(name);
        if is_directory(&dir) && is_directory(&dir.join(INBOX)) {
            return Ok(());
        }
        let known = self.agents().unwrap_or_default().iter().map(ToString::to_string).collect();
        Err(MailError::NoAgent { name: name.clone(), workspace: self.dir.clone(), known })
    }

    /// Sends a message and returns its final form. Its id and time are set here.
    pub fn send(&self, mut envelope: Envelope) -> Result<Envelope, MailError> {
        self.ensure_agent(&envelope.from)?;
        envelope.to.iter().try_for_each(|agent| self.ensure_agent(agent))?;
        let name = self.stamp(&mut envelope);
        self.deliver(&name, envelope.print().as_bytes())?;
        Ok(envelope)
    }

    /// Delivers a message as the file `name`, unless that was delivered before.
    pub fn deliver(&self, name: &str, bytes: &[u8]) -> Result<(), MailError> {
        let checked = Message::read(bytes);
        let Some(Message { envelope, .. }) = checked.value else {
            return Err(MailError::Invalid(checked.problems));
        };
        self.init(std::slice::from_ref(&envelope.from))?;
        self.init(&envelope.to)?;
        self.sweep()?;
        let dir = self.agent_dir(&envelope.from);
        if self.world.disk.stat(&dir.join(OUTBOX).join(name)).is_ok() {
            return Ok(());
        }
        let sending = dir.join(SENDING);
        let placed = self.place(&sending, &sending.join(name), bytes)?;
        self.finish(&envelope, &placed.path, bytes)
    }

    /// Sets the id and the time, and returns the name of the file.
    fn stamp(&self, envelope: &mut Envelope) -> String {
        let now = self.world.clock.now().millis();
        let (second, fraction) = (now.div_euclid(1000), now.rem_euclid(1000));
        envelope.created_at = Timestamp::from_millis(second * 1000);
        let random = format!("{:012x}", self.world.entropy.number() >> 16);
        let digits: String =
            print_moment(envelope.created_at).chars().filter(char::is_ascii_digit).collect();
        envelope.id = format!("msg-{digits}-{}-{random}", envelope.from);
        // The part that is random in the public tool orders the messages of one second here.
        format!("{}_{:04x}_{random}.yaml", envelope.file_stem(), fraction * 65)
    }

    /// Delivers a message that is in `.sending`, and moves it to the outbox.
    fn finish(&self, envelope: &Envelope, path: &Path, bytes: &[u8]) -> Result<(), MailError> {
        let name = file_name(path);
        for agent in &envelope.to {
            let dir = self.agent_dir(agent);
            let exists = |place: Place| {
                self.world.disk.stat(&dir.join(place.directory()).join(&name)).is_ok()
            };
            // Moved away while it is looked for, it is found further on.
            if Place::ALL.into_iter().any(exists) {
                continue;
            }
            self.init(std::slice::from_ref(agent))?;
            match self.place(&dir.join(INCOMING), &dir.join(INBOX).join(&name), bytes) {
                // Another process delivered it first.
                Err(MailError::Io { source, .. })
                    if source.kind() == io::ErrorKind::AlreadyExists => {}
                placed => drop(placed?),
            }
        }
        self.rename(path, &self.agent_dir(&envelope.from).join(OUTBOX).join(name))
    }

    /// Writes a file in `dir` and moves it to a new name.
    fn place(&self, dir: &Path, to: &Path, bytes: &[u8]) -> Result<Placed, MailError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let path = dir.join(format!("{UNFINISHED}{:016x}", self.world.entropy.number()));
            let written = self.write(&path, bytes).map_err(io_error("write", &path));
            let placed = match written {
                // A sweep locked it before this process did, and removes it.
                Ok(None) if attempts < ATTEMPTS => continue,
                Ok(None) => Err(io_error("lock", &path)(io::ErrorKind::ResourceBusy.into())),
                Ok(Some(lock)) => {
                    self.rename(&path, to).map(|()| Placed { path: to.to_owned(), _lock: lock })
                }
                Err(error) => Err(error),
            };
            if placed.is_err() {
                // It is of no use. Where this fails, the next sweep removes it.
                let _ = self.world.disk.remove(&path);
            }
            return placed;
        }
    }

    /// Writes a new file and locks it; `None` if another process locked it first.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<Option<Box<dyn DiskFile>>> {
        let file = self.world.disk.open(path, Access::Append)?;
        // Once it is locked under its name, no sweep removes it.
        if !file.try_lock()? || !self.is_at(&*file, path) {
            return Ok(None);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = &rest[file.append(rest)?..];
        }
        file.sync()?;
        Ok(Some(file))
    }

    /// Whether a path still names an open file.
    fn is_at(&self, file: &dyn DiskFile, path: &Path) -> bool {
        let named = self.world.disk.stat(path);
        named.is_ok_and(|named| file.stat().is_ok_and(|own| own.is_same_file(&named)))
    }

    /// Moves a file to a new name, durably.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), MailError> {
        let disk = &self.world.disk;
        disk.rename_new(from, to).map_err(io_error("move", from))?;
        for path in [to, from] {
            let dir = path.parent().unwrap_or(Path::new("."));
            disk.sync_dir(dir).map_err(io_error("sync", dir))?;
        }
        Ok(())
    }

    /// Finishes what killed processes left: delivers what was sent, and removes what was not.
    pub fn sweep(&self) -> Result<(), MailError> {
        for agent in self.agents()? {
            let dir = self.agent_dir(&agent);
            for path in self.files(&dir.join(SENDING))? {
                self.sweep_file(&path)?;
            }
            self.sweep_unfinished(&dir.join(INCOMING))?;
        }
        self.sweep_unfinished(&self.dir.join(FINDINGS))
    }

    fn sweep_unfinished(&self, dir: &Path) -> Result<(), MailError> {
        let mut paths = self.files(dir)?;
        paths.retain(|path| file_name(path).starts_with(UNFINISHED));
        paths.iter().try_for_each(|path| self.sweep_file(path))
    }

    fn sweep_file(&self, path: &Path) -> Result<(), MailError> {
        let disk = &self.world.disk;
        let Ok(Some(file)) = files::open(&**disk, path, Links::Refuse) else { return Ok(()) };
        let is_left = file.try_lock().map_err(io_error("lock", path))?;
        if !is_left || !self.is_at(&*file, path) {
            return Ok(());
        }
        if file_name(path).starts_with(UNFINISHED) {
            return or_gone(disk.remove(path)).map_err(io_error("remove", path));
        }
        let bytes = file.read_range(0..MAX_BYTES as u64).map_err(io_error("read", path))?;
        match Message::read(&bytes).value {
            Some(message) => self.finish(&message.envelope, path, &bytes),
            None => Ok(()),
        }
    }

    /// The messages of an agent in these places, oldest first.
    pub fn list(&self, agent: &AgentName, places: &[Place]) -> Result<Vec<Listed>, MailError> {
        self.ensure_agent(agent)?;
        let mut listed = Vec::new();
        for place in places {
            for path in self.paths(agent, *place)? {
                if let Some(header) = self.header(&path)? {
                    listed.push(Listed { path, place: *place, header });
                }
            }
        }
        listed.sort_by_cached_key(order);
        Ok(listed)
    }

    /// The files of an agent in one place, sorted by name.
    pub fn paths(&self, agent: &AgentName, place: Place) -> Result<Vec<PathBuf>, MailError> {
        let dir = self.agent_dir(agent).join(place.directory());
        let names = self.names(&dir)?.into_iter();
        let names = names.filter(|name| name.ends_with(".yaml") && !name.starts_with('.'));
        Ok(names.map(|name| dir.join(name)).collect())
    }

    /// Reads the head of a file; `None` if it was moved meanwhile, `Some(None)` if it is invalid.
    fn header(&self, path: &Path) -> Result<Option<Option<Header>>, MailError> {
        let disk = &*self.world.disk;
        let file = match files::open(disk, path, Links::Refuse) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(None),
            Err(files::Unreadable::Io(error)) => return Err(io_error("open", path)(error)),
            Err(_) => return Ok(Some(None)),
        };
        let head = file.read_range(0..USUAL_HEAD as u64).map_err(io_error("read", path))?;
        if let Some(header) = Header::of_head(&head) {
            return Ok(Some(Some(header)));
        }
        let bytes = file.read_range(0..MAX_BYTES as u64 + 1).map_err(io_error("read", path))?;
        Ok(Some(Header::of_file(&bytes)))
    }

    /// Finds a message of an agent by its id or by the name of its file.
    pub fn find(&self, agent: &AgentName, id: &str) -> Result<Listed, MailError> {
        self.ensure_agent(agent)?;
        // The names of our own files end with the random part of the id.
        let end = format!("_{}.yaml", id.rsplit('-').next().unwrap_or_default());
        for is_likely in [true, false] {
            for place in Place::ALL {
                for path in self.paths(agent, place)? {
                    let name = file_name(&path);
                    if is_likely != (name == id || name.ends_with(&end)) {
                        continue;
                    }
                    let Some(header) = self.header(&path)? else { continue };
                    if name == id || header.as_ref().is_some_and(|header| header.id == id) {
                        return Ok(Listed { path, place, header });
                    }
                }
            }
        }
        Err(MailError::NoMessage { id: id.to_owned(), agent: agent.clone() })
    }

    /// Claims a message. Of several processes that claim it, one succeeds.
    pub fn claim(&self, agent: &AgentName, id: &str) -> Result<Listed, MailError> {
        self.transfer(agent, id, &[Place::Unread], Place::Claimed)
    }

    /// Claims the oldest unread message, if there is one.
    pub fn claim_next(&self, agent: &AgentName) -> Result<Option<Listed>, MailError> {
        for listed in self.list(agent, &[Place::Unread])? {
            match self.move_to(agent, &listed, Place::Claimed) {
                // Another process claimed it first.
                Err(MailError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                moved => return moved.map(Some),
            }
        }
        Ok(None)
    }

    /// Makes a claimed message unread again.
    pub fn release(&self, agent: &AgentName, id: &str) -> Result<Listed, MailError> {
        self.transfer(agent, id, &[Place::Claimed], Place::Unread)
    }

    pub fn archive(&self, agent: &AgentName, id: &str) -> Result<Listed, MailError> {
        self.transfer(agent, id, &[Place::Claimed, Place::Unread], Place::Archived)
    }

    fn transfer(
        &self,
        agent: &AgentName,
        id: &str,
        from: &[Place],
        to: Place,
    ) -> Result<Listed, MailError> {
        loop {
            let found = self.find(agent, id)?;
            if !from.contains(&found.place) {
                return Err(MailError::Taken { id: id.to_owned(), place: found.place.name() });
            }
            match self.move_to(agent, &found, to) {
                // Another process moved it: look where it is now.
                Err(MailError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                moved => return moved,
            }
        }
    }

    fn move_to(&self, agent: &AgentName, listed: &Listed, to: Place) -> Result<Listed, MailError> {
        let dir = self.agent_dir(agent).join(to.directory());
        self.create(&dir)?;
        let path = dir.join(listed.name());
        self.rename(&listed.path, &path)?;
        Ok(Listed { path, place: to, header: listed.header.clone() })
    }

    /// Waits until the inbox of an agent may have changed.
    pub fn watch(&self, agent: &AgentName) -> Result<Box<dyn crate::world::Watch>, MailError> {
        let dir = self.agent_dir(agent).join(INBOX);
        self.world.disk.watch(&dir).map_err(io_error("watch", &dir))
    }

    fn agent_dir(&self, agent: &AgentName) -> PathBuf {
        self.dir.join("agents").join(agent.as_str())
    }

    fn files(&self, dir: &Path) -> Result<Vec<PathBuf>, MailError> {
        Ok(self.names(dir)?.into_iter().map(|name| dir.join(name)).collect())
    }

    /// The sorted names in a directory; none if it does not exist.
    fn names(&self, dir: &Path) -> Result<Vec<String>, MailError> {
        let names = match self.world.disk.list(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            names => names.map_err(io_error("list", dir))?,
        };
        let mut names: Vec<String> =
            names.into_iter().filter_map(|name| name.into_string().ok()).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Writes a findings packet, which must not exist yet, and returns its path.
    pub fn add_packet(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, MailError> {
        let dir = self.dir.join(FINDINGS);
        self.create(&dir)?;
        let path = dir.join(name);
        Ok(self.place(&dir, &path, bytes)?.path)
    }

    /// Creates a directory below the workspace with those on the way to it. A link on the way is refused.
    fn create(&self, dir: &Path) -> Result<(), MailError> {
        let disk = &self.world.disk;
        let is_there = |dir: &Path| disk.stat(dir).map(|found| found.kind == FileKind::Directory);
        match is_there(dir) {
            Ok(true) => return Ok(()),
            Ok(false) => {
                let error = io::Error::new(io::ErrorKind::NotADirectory, "it is not a directory");
                return Err(io_error("use", dir)(error));
            }
            Err(_) => {}
        }
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Some(parent) = parent {
            // Above the workspace a link is the user's own choice.
            if parent.starts_with(&self.dir) || is_there(parent).is_err() {
                self.create(parent)?;
            }
        }
        match disk.create_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return self.create(dir),
            created => created.map_err(io_error("create", dir))?,
        }
        disk.sync_dir(parent.unwrap_or(Path::new("."))).map_err(io_error("sync", dir))
    }
}

/// Another process may have removed it first.
fn or_gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn io_error<'p>(action: &'static str, path: &'p Path) -> impl Fn(io::Error) -> MailError + 'p {
    move |source| MailError::Io { action, path: path.to_owned(), source }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Oldest first: by time, then by the part of the name that orders the messages of one second.
fn order(listed: &Listed) -> impl Ord + use<> {
    let name = listed.name();
    let created = listed.header.as_ref().map(|header| header.created_at);
    let fraction = name.rsplit('_').nth(1).unwrap_or_default().to_owned();
    (created, fraction, name)
}
