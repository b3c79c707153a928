//! Reads a whole workspace: all messages of all agents, and all findings packets.

use std::io;
use std::path::{Path, PathBuf};

use autoloop_core::message::{
    AgentName, Checked, Filed, Folder, History, MAX_BYTES, Message, Notes, Packet, Place, Problems,
};

use super::FINDINGS;
use crate::files::{self, Links};
use crate::world::Disk;

/// Reads a message or a packet from a file, which must not be a symbolic link. `Err` if there is no such file.
pub fn check<T>(
    disk: &dyn Disk,
    path: &Path,
    read: impl FnOnce(&[u8]) -> Checked<T>,
) -> io::Result<Checked<T>> {
    match files::read(disk, path, Links::Refuse, MAX_BYTES as u64) {
        Ok(Some(bytes)) => Ok(read(&bytes)),
        Ok(None) => Err(io::Error::new(io::ErrorKind::NotFound, "there is no such file")),
        Err(files::Unreadable::Io(error)) => Err(error),
        Err(why) => {
            let mut problems = Problems::default();
            problems.error(Place::START, why.to_string());
            Ok(Checked { value: None, problems })
        }
    }
}

/// Reads the workspace in `dir`. What cannot be read is noted; the rest is returned.
pub fn read_history(disk: &dyn Disk, dir: &Path, notes: &mut Notes) -> io::Result<History> {
    let mut reader = Reader { disk, dir, notes, history: History::default() };
    for agent in reader.names("agents")? {
        let Ok(owner) = agent.parse::<AgentName>() else {
            if agent != ".gitkeep" {
                reader.notes.error(&format!("agents/{agent}"), "this is no name of an agent");
            }
            continue;
        };
        for (folder, kind) in [
            ("inbox", Folder::Inbox),
            ("inbox/claimed", Folder::Inbox),
            ("inbox/archive", Folder::Inbox),
            ("outbox", Folder::Outbox),
        ] {
            reader.read_messages(&owner, &format!("agents/{agent}/{folder}"), kind)?;
        }
    }
    reader.read_packets()?;
    Ok(reader.history)
}

struct Reader<'r> {
    disk: &'r dyn Disk,
    dir: &'r Path,
    notes: &'r mut Notes,
    history: History,
}

impl Reader<'_> {
    /// The sorted names in a directory; none if it does not exist.
    fn names(&mut self, path: &str) -> io::Result<Vec<String>> {
        match self.disk.list(&self.dir.join(path)) {
            Ok(names) => {
                let mut names: Vec<String> =
                    names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
                names.sort_unstable();
                Ok(names)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                self.notes.error(path, "it is not a directory");
                Ok(Vec::new())
            }
            Err(error) => Err(error),
        }
    }

    fn read_messages(&mut self, owner: &AgentName, dir: &str, folder: Folder) -> io::Result<()> {
        for path in self.documents(dir)? {
            if let Some(message) = self.read(&path, Message::read)? {
                self.history.messages.push(Filed { path, owner: owner.clone(), folder, message });
            }
        }
        Ok(())
    }

    fn read_packets(&mut self) -> io::Result<()> {
        for path in self.documents(FINDINGS)? {
            if let Some(packet) = self.read(&path, Packet::read)? {
                self.history.packets.insert(path, packet);
            }
        }
        Ok(())
    }

    /// The paths of the `*.yaml` files in a directory.
    fn documents(&mut self, dir: &str) -> io::Result<Vec<String>> {
        let names = self.names(dir)?.into_iter();
        let names = names.filter(|name| name.ends_with(".yaml") && !name.starts_with('.'));
        Ok(names.map(|name| format!("{dir}/{name}")).collect())
    }

    fn read<T>(
        &mut self,
        path: &str,
        read: impl FnOnce(&[u8]) -> Checked<T>,
    ) -> io::Result<Option<T>> {
        let full: PathBuf = self.dir.join(path);
        match check(self.disk, &full, read) {
            Ok(checked) => {
                for problem in &checked.problems.errors {
                    let message =
                        format!("{}:{}: {}", problem.line, problem.column, problem.message);
                    self.notes.error(path, message);
                }
                Ok(checked.value)
            }
            // Another process moved it after the directory was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}
