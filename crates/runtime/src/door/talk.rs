//! One conversation at the door, from the ticket to the answer.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use autoloop_core::duration;

use super::keeper::{Heard, Keeper, checked};
use super::wire::{self, Request};
use super::{Patience, Ticket};
use crate::complaint::Complaint;
use crate::emit::LARGEST_PAYLOAD;
use crate::permissions::nameless;
use crate::world::Clock;

/// Payloads up to this size are held in memory.
const SHORT: u64 = 64 * 1024;

/// What every conversation of a door needs.
pub(super) struct Desk {
    pub(super) ticket: Ticket,
    pub(super) keeper: Keeper,
    pub(super) patience: Patience,
    /// Where long payloads are kept for a moment.
    pub(super) dir: Box<Path>,
    /// One long payload at a time, so that the disk holds no more than one.
    pub(super) spooling: Mutex<()>,
}

/// Why there is nothing to do.
enum Trouble {
    /// The visitor left in the middle of a sentence.
    Gone,
    /// It said nothing, or nothing that can be understood.
    Socket(io::Error),
    /// It was understood.
    Complaint(Complaint),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Trouble::Socket(error)
    }
}

impl From<Complaint> for Trouble {
    fn from(complaint: Complaint) -> Self {
        Trouble::Complaint(complaint)
    }
}

impl Desk {
    /// Listens to a visitor, does what it wants, and answers.
    pub(super) fn talk(&self, mut stream: &UnixStream) {
        let answer = match self.hear(stream) {
            Ok(said) => Ok(said),
            Err(Trouble::Gone) => return,
            Err(Trouble::Socket(error)) => Err(self.not_understood(&error)),
            Err(Trouble::Complaint(complaint)) => Err(complaint),
        };
        // What was done is done; whoever does not wait for the answer does not want it.
        let _ = stream
            .set_write_timeout(Some(self.patience.idle))
            .and_then(|()| wire::write_answer(&mut stream, &answer));
    }

    fn hear(&self, stream: &UnixStream) -> Result<String, Trouble> {
        same_user(stream)?;
        let clock = &*self.keeper.emitter.clock;
        let deadline = clock.elapsed().saturating_add(self.patience.total);
        let mut socket = Patient { stream, clock, idle: self.patience.idle, deadline };

        let shown = wire::read_ticket(&mut socket)?.ok_or(Trouble::Gone)?;
        if !self.ticket.is(&shown) {
            return Err(without_ticket(&shown).into());
        }
        match wire::read_request(&mut socket)?.ok_or(Trouble::Gone)? {
            Request::Change(change) => Ok(self.keeper.change(change)?),
            Request::Emit { topic, bytes } => self.emit(&topic, bytes, &mut socket),
        }
    }

    fn emit(&self, topic: &str, bytes: u64, socket: &mut impl Read) -> Result<String, Trouble> {
        checked(topic)?;
        if bytes > LARGEST_PAYLOAD {
            let message =
                format!("the payload has {bytes} bytes; it has at most {LARGEST_PAYLOAD}");
            return Err(Complaint::usage(message)
                .hint("emit the path of a file instead of its text")
                .into());
        }
        if bytes <= SHORT {
            let mut text = Vec::new();
            socket.take(bytes).read_to_end(&mut text)?;
            if (text.len() as u64) < bytes {
                return Err(Trouble::Gone);
            }
            let text = String::from_utf8_lossy(&text).into_owned();
            return Ok(self.keeper.emit(topic, Heard::Short(text), &self.dir)?);
        }
        let _one_at_a_time = self.spooling.lock().unwrap_or_else(PoisonError::into_inner);
        let file = nameless(&self.dir).map_err(|error| self.no_room(&error))?;
        self.spool(&file, bytes, socket)?;
        Ok(self.keeper.emit(topic, Heard::Long(file), &self.dir)?)
    }

    fn spool(&self, mut file: &File, bytes: u64, socket: &mut impl Read) -> Result<(), Trouble> {
        let mut buffer = vec![0; 64 * 1024];
        let mut left = bytes;
        while left > 0 {
            let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let count = match socket.read(&mut buffer[..most]) {
                Ok(0) => return Err(Trouble::Gone),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            file.write_all(&buffer[..count]).map_err(|error| self.no_room(&error))?;
            left -= count as u64;
        }
        Ok(())
    }

    fn no_room(&self, error: &io::Error) -> Complaint {
        let dir = self.dir.display();
        Complaint::failed(format!("not stored: the payload cannot be kept in {dir}: {error}"))
    }

    fn not_understood(&self, error: &io::Error) -> Complaint {
        use io::ErrorKind::{TimedOut, WouldBlock};

        let message = match error.kind() {
            TimedOut | WouldBlock => {
                let Patience { idle, total } = self.patience;
                let (idle, total) = (duration::print(idle), duration::print(total));
                format!("the harness waits {idle} for a word and {total} for all of them")
            }
            _ => format!("the harness did not understand: {error}"),
        };
        Complaint::failed(format!("not stored: {message}"))
    }
}

fn without_ticket(shown: &[u8]) -> Complaint {
    let message = match shown {
        [] => "not stored: the harness wants to see a ticket, and AUTOLOOP_TICKET is not set",
        _ => "not stored: what AUTOLOOP_TICKET holds is not the ticket for this harness",
    };
    Complaint::refused(message)
        .hint("leave AUTOLOOP_DOOR and AUTOLOOP_TICKET as they were when you were started")
}

/// Other users are turned away even if the mode of the socket was changed behind our back.
#[cfg(target_os = "linux")]
fn same_user(stream: &UnixStream) -> Result<(), Trouble> {
    let peer = rustix::net::sockopt::socket_peercred(stream).map_err(io::Error::from)?;
    let (theirs, ours) = (peer.uid.as_raw(), rustix::process::geteuid().as_raw());
    if theirs == ours {
        return Ok(());
    }
    let message = format!("not stored: this is user {theirs}; the harness listens to user {ours}");
    Err(Complaint::refused(message).into())
}

/// Elsewhere there is no sandbox to come from, and the mode of the socket keeps other users away.
#[cfg(not(target_os = "linux"))]
fn same_user(_: &UnixStream) -> Result<(), Trouble> {
    Ok(())
}

/// A socket that is read with a limit for every read and one for all of them.
struct Patient<'a> {
    stream: &'a UnixStream,
    clock: &'a dyn Clock,
    idle: Duration,
    deadline: Duration,
}

impl Read for Patient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_sub(self.clock.elapsed());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(self.idle.min(left)))?;
        self.stream.read(buffer)
    }
}
