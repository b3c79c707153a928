//! One session with a client, from the ticket to the answer.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use autoloop_core::duration;

use super::handler::{Handler, Received, checked};
use super::protocol::{self, Request};
use super::{Ticket, Timeouts};
use crate::emit::LARGEST_PAYLOAD;
use crate::failure::Failure;
use crate::world::Clock;

/// Payloads up to this size are held in memory.
const SHORT: u64 = 64 * 1024;

/// What every session of a server needs.
pub(super) struct Service {
    pub(super) ticket: Ticket,
    pub(super) handler: Handler,
    pub(super) timeouts: Timeouts,
    /// Where long payloads are kept for a moment.
    pub(super) dir: Box<Path>,
    /// One long payload at a time, so that the disk holds no more than one.
    pub(super) spooling: Mutex<()>,
}

/// Why a request was not carried out.
enum SessionError {
    /// The client closed before its request was complete.
    Closed,
    /// Nothing arrived in time, or a malformed message did.
    Socket(io::Error),
    /// The request was refused, or failed.
    Refused(Failure),
}

impl From<io::Error> for SessionError {
    fn from(error: io::Error) -> Self {
        SessionError::Socket(error)
    }
}

impl From<Failure> for SessionError {
    fn from(complaint: Failure) -> Self {
        SessionError::Refused(complaint)
    }
}

impl Service {
    /// Reads a request, carries it out, and answers.
    pub(super) fn serve(&self, mut stream: &UnixStream) {
        let answer = match self.answer(stream) {
            Ok(text) => Ok(text),
            Err(SessionError::Closed) => return,
            Err(SessionError::Socket(error)) => Err(self.not_received(&error)),
            Err(SessionError::Refused(complaint)) => Err(complaint),
        };
        // The request was carried out, whether or not the client waits for the answer.
        let _ = stream
            .set_write_timeout(Some(self.timeouts.idle))
            .and_then(|()| protocol::write_answer(&mut stream, &answer));
    }

    fn answer(&self, stream: &UnixStream) -> Result<String, SessionError> {
        same_user(stream)?;
        let clock = &*self.handler.emitter.clock;
        let deadline = clock.elapsed().saturating_add(self.timeouts.total);
        let mut socket = TimedSocket { stream, clock, idle: self.timeouts.idle, deadline };

        let sent = protocol::read_ticket(&mut socket)?.ok_or(SessionError::Closed)?;
        if !self.ticket.is(&sent) {
            return Err(without_ticket(&sent).into());
        }
        match protocol::read_request(&mut socket)?.ok_or(SessionError::Closed)? {
            Request::Change(change) => Ok(self.handler.change(change)?),
            Request::Emit { topic, bytes } => self.emit(&topic, bytes, &mut socket),
        }
    }

    fn emit(
        &self,
        topic: &str,
        bytes: u64,
        socket: &mut impl Read,
    ) -> Result<String, SessionError> {
        checked(topic)?;
        if bytes > LARGEST_PAYLOAD {
            let message =
                format!("the payload has {bytes} bytes; it has at most {LARGEST_PAYLOAD}");
            return Err(Failure::usage(message)
                .hint("emit the path of a file instead of its text")
                .into());
        }
        if bytes <= SHORT {
            let mut text = Vec::new();
            socket.take(bytes).read_to_end(&mut text)?;
            if (text.len() as u64) < bytes {
                return Err(SessionError::Closed);
            }
            let text = String::from_utf8_lossy(&text).into_owned();
            return Ok(self.handler.emit(topic, Received::Short(text), &self.dir)?);
        }
        let _one_at_a_time = self.spooling.lock().unwrap_or_else(PoisonError::into_inner);
        let file = tempfile::tempfile_in(&self.dir).map_err(|error| self.no_room(&error))?;
        self.spool(&file, bytes, socket)?;
        Ok(self.handler.emit(topic, Received::Long(file), &self.dir)?)
    }

    fn spool(
        &self,
        mut file: &File,
        bytes: u64,
        socket: &mut impl Read,
    ) -> Result<(), SessionError> {
        let mut buffer = vec![0; 64 * 1024];
        let mut left = bytes;
        while left > 0 {
            let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let count = match socket.read(&mut buffer[..most]) {
                Ok(0) => return Err(SessionError::Closed),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            file.write_all(&buffer[..count]).map_err(|error| self.no_room(&error))?;
            left -= count as u64;
        }
        Ok(())
    }

    fn no_room(&self, error: &io::Error) -> Failure {
        let dir = self.dir.display();
        Failure::failed(format!("not stored: the payload cannot be kept in {dir}: {error}"))
    }

    fn not_received(&self, error: &io::Error) -> Failure {
        use io::ErrorKind::{TimedOut, WouldBlock};

        let message = match error.kind() {
            TimedOut | WouldBlock => {
                let Timeouts { idle, total } = self.timeouts;
                let (idle, total) = (duration::print(idle), duration::print(total));
                format!("the harness waits {idle} for a word and {total} for all of them")
            }
            _ => format!("the harness did not understand: {error}"),
        };
        Failure::failed(format!("not stored: {message}"))
    }
}

fn without_ticket(sent: &[u8]) -> Failure {
    let message = match sent {
        [] => "not stored: the harness wants to see a ticket, and AUTOLOOP_TICKET is not set",
        _ => "not stored: what AUTOLOOP_TICKET holds is not the ticket for this harness",
    };
    Failure::refused(message)
        .hint("leave AUTOLOOP_DOOR and AUTOLOOP_TICKET as they were when you were started")
}

/// Other users are refused even if the mode of the socket was changed behind our back.
#[cfg(target_os = "linux")]
fn same_user(stream: &UnixStream) -> Result<(), SessionError> {
    let peer = rustix::net::sockopt::socket_peercred(stream).map_err(io::Error::from)?;
    let (theirs, ours) = (peer.uid.as_raw(), rustix::process::geteuid().as_raw());
    if theirs == ours {
        return Ok(());
    }
    let message = format!("not stored: this is user {theirs}; the harness listens to user {ours}");
    Err(Failure::refused(message).into())
}

/// Elsewhere there is no sandbox, and the mode of the socket keeps other users away.
#[cfg(not(target_os = "linux"))]
fn same_user(_: &UnixStream) -> Result<(), SessionError> {
    Ok(())
}

/// A socket that is read with a limit for every read and one for all of them.
struct TimedSocket<'a> {
    stream: &'a UnixStream,
    clock: &'a dyn Clock,
    idle: Duration,
    deadline: Duration,
}

impl Read for TimedSocket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_sub(self.clock.elapsed());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(self.idle.min(left)))?;
        self.stream.read(buffer)
    }
}
