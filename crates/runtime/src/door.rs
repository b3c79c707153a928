//! The door of the harness: how an agent that may not write says something all the same.
//!
//! A sandboxed agent cannot open the journal or the memory for writing. Its `emit` and `memory` come to
//! a unix socket instead and say what they want; the harness decides, by what it knows itself and not by
//! what the agent's environment claims, and does it. [`Door`] is the socket and its threads, [`Keeper`]
//! what is done for whoever comes, [`Visitor`] the side of the agent.
//!
//! Whoever comes must run as the same user and show the [`Ticket`] that was drawn for this door. A
//! visitor that is silent, slow, garbled or gone costs a thread for a while and nothing else: the number
//! of threads is bounded, so are time and memory for each, and what is left over waits in the queue of
//! the socket. Large payloads are copied to a file without a name, one at a time. They are not taken
//! from a descriptor that a visitor hands over, because the harness would read it with the journal
//! locked, and a visitor could make that last for ever.
//!
//! This uses sockets and threads as they are, beside the seams of the [world](crate::world): a door is
//! only opened for processes in a sandbox of the kernel, and nothing of that is simulated.

mod address;
mod hall;
mod keeper;
mod talk;
mod ticket;
mod visitor;
mod wire;

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::fs::Mode;

use hall::Hall;

pub use keeper::Keeper;
pub use ticket::Ticket;
pub use visitor::{Payload, Visitor};

/// How many may wait in the queue of the socket.
const QUEUE: i32 = 256;

/// How long a visitor is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Until it says something, or more.
    pub idle: Duration,
    /// Until it has said everything.
    pub total: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience { idle: Duration::from_secs(10), total: Duration::from_secs(120) }
    }
}

/// An open door. Dropped, it is closed: what has been said is still done, nobody else is listened to,
/// and the socket is gone. That takes no longer than a writer waits for the lock of the journal.
#[derive(Debug)]
pub struct Door {
    path: PathBuf,
    hall: Arc<Hall>,
    attending: Option<JoinHandle<()>>,
}

impl Door {
    /// Opens a door at a path, in a directory that exists. What a killed harness has left there is
    /// replaced: a path belongs to one run, and a run to one harness.
    ///
    /// # Errors
    ///
    /// When there is something else at the path, or no socket or thread can be made.
    pub fn open(path: impl Into<PathBuf>, ticket: Ticket, keeper: Keeper) -> io::Result<Door> {
        Door::open_with(path, ticket, keeper, Patience::default())
    }

    /// The same with another patience.
    ///
    /// # Errors
    ///
    /// As for [`Door::open`].
    pub fn open_with(
        path: impl Into<PathBuf>,
        ticket: Ticket,
        keeper: Keeper,
        patience: Patience,
    ) -> io::Result<Door> {
        let path = path.into();
        let listener = listen(&path)?;
        let (hall, woken) = Hall::new(ticket, keeper, patience, &path)?;
        let hall = Arc::new(hall);
        let there = Arc::clone(&hall);
        let attending = thread::Builder::new()
            .name("door".to_owned())
            .spawn(move || hall::attend(&there, &listener, &woken))?;
        Ok(Door { path, hall, attending: Some(attending) })
    }

    /// Where it is, for `AUTOLOOP_DOOR`.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // Whoever comes now sees that nobody is there. Should it fail, the next harness replaces it.
        let _ = fs::remove_file(&self.path);
        self.hall.close();
        if let Some(attending) = self.attending.take() {
            // A panic of one of its threads has been told of on standard error.
            let _ = attending.join();
        }
    }
}

/// A socket that only our user can connect to. Its mode is set before it listens, so there is no moment
/// at which anybody else could.
fn listen(path: &Path) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(stat) if stat.file_type().is_socket() => fs::remove_file(path)?,
        Ok(_) | Err(_) => {}
    }
    let socket = address::socket()?;
    let address = address::Address::of(path)?;
    rustix::net::bind(&socket, address.get())?;
    rustix::fs::chmod(path, Mode::RUSR | Mode::WUSR)?;
    rustix::net::listen(&socket, QUEUE)?;
    let listener = UnixListener::from(socket);
    listener.set_nonblocking(true)?;
    Ok(listener)
}
