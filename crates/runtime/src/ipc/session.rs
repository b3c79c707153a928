//! One session with a client, from the ticket to the answer.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use autoloop_core::duration;
use autoloop_core::text;
use autoloop_core::topic::Topic;

use super::protocol::{Answer, LARGEST_CALL, LARGEST_REQUEST, LARGEST_TICKET, Request};
use super::tools::{EMIT, MEMORY_ADD, emit_spec, entry_of, event_of, memory_spec};
use super::{Ticket, Timeouts, ToolBox, ToolSpec};
use crate::emit::{Emitter, Event, LARGEST_PAYLOAD, without_secrets};
use crate::failure::Failure;
use crate::journal::Spooled;
use crate::memory::Tiers;
use crate::message;
use crate::world::{Clock, DiskFile};

/// Payloads up to this size are held in memory.
const SHORT: u64 = 64 * 1024;
/// The event that means the same as the tool.
const COMPLETED: &str = "task.complete";
const COMPLETE_TASK: &str = "complete_task";

pub(super) struct Service {
    pub(super) handler: Handler,
    pub(super) timeouts: Timeouts,
    /// Where long payloads are kept for a moment.
    pub(super) dir: Box<Path>,
    /// One long payload at a time, so that the disk holds no more than one.
    pub(super) spooling: Mutex<()>,
}

/// What the harness knows about the agent that it started, and where it writes for it.
pub struct Handler {
    /// Given to the agent and to no other process.
    pub ticket: Ticket,
    /// The agent, the events that it may emit, and the journal that they go to.
    pub emitter: Emitter,
    pub memory: Tiers,
    /// `None` for an agent without tools.
    pub tools: Option<Arc<dyn ToolBox>>,
}

impl Handler {
    /// Stores an event. One that says that a task is complete is a call of `complete_task`, where the agent has that
    /// tool: the call comes first, because it may be refused.
    fn emit(&self, event: Event) -> Answer {
        if event.topic == COMPLETED && self.specs().iter().any(|tool| tool.name == COMPLETE_TASK) {
            self.call(COMPLETE_TASK, "{}")?;
        }
        self.emitter.emit(event)
    }

    /// An agent with tools has two more, which are carried out here.
    fn specs(&self) -> Vec<ToolSpec> {
        let own = self.tools.iter().flat_map(|tools| tools.tools());
        let common = self.tools.iter().flat_map(|_| [emit_spec(), memory_spec()]);
        own.chain(common).collect()
    }

    fn call(&self, tool: &str, arguments: &str) -> Answer {
        let shown = || text::shown(tool, 60);
        let Some(tools) = &self.tools else {
            let message = format!("unknown tool '{}': this agent has no tools", shown());
            return Err(Failure::refused(message));
        };
        // Everything in them may be stored.
        let arguments = &without_secrets(arguments);
        match tool {
            EMIT => self.emit(event_of(arguments)?),
            MEMORY_ADD => self.memory.change(entry_of(arguments)?),
            _ if self.specs().iter().any(|spec| spec.name == tool) => tools.call(tool, arguments),
            _ => {
                let names: Vec<_> = self.specs().into_iter().map(|spec| spec.name).collect();
                let names = names.join(", ");
                Err(Failure::refused(format!(
                    "unknown tool '{}': the tools of this agent are {names}",
                    shown()
                )))
            }
        }
    }
}

impl Service {
    pub(super) fn serve(&self, mut stream: &UnixStream) {
        let answer: Answer = match self.answer(stream) {
            Ok(text) => Ok(text),
            Err(Some(failure)) => Err(failure),
            Err(None) => return,
        };
        // The request was carried out, whether or not the client waits for the answer.
        let _ = stream
            .set_write_timeout(Some(self.timeouts.idle))
            .and_then(|()| message::write(&mut stream, &answer));
    }

    /// The answer; the error is `None` where the client closed before its request was complete.
    fn answer(&self, stream: &UnixStream) -> Result<String, Option<Failure>> {
        same_user(stream)?;
        let clock = &*self.handler.emitter.clock;
        let deadline = clock.elapsed().saturating_add(self.timeouts.total);
        let mut socket = TimedSocket { stream, clock, idle: self.timeouts.idle, deadline };
        let failed = |error: io::Error| self.not_received(&error);

        let sent: Vec<u8> =
            message::read(&mut socket, LARGEST_TICKET).map_err(failed)?.ok_or(None)?;
        if !self.handler.ticket.is(&sent) {
            return Err(without_ticket(&sent).into());
        }
        match message::read(&mut socket, LARGEST_REQUEST).map_err(failed)?.ok_or(None)? {
            Request::Change(change) => Ok(self.handler.memory.change(change)?),
            Request::Emit { topic, bytes } => {
                // A client that is this program has checked its topic already.
                let topic =
                    Topic::check(&topic).map_err(|error| Failure::usage(error.to_string()))?;
                self.emit(topic, bytes, &mut socket)
            }
            Request::Tools => Ok(serde_json::to_string(&self.handler.specs())
                .map_err(|error| Failure::failed(format!("cannot list the tools: {error}")))?),
            Request::Call { bytes, .. } if bytes > LARGEST_CALL => Err(too_large(bytes).into()),
            Request::Call { tool, bytes } => {
                let arguments = self.text(bytes, &mut socket)?;
                Ok(self.handler.call(&tool, &arguments)?)
            }
        }
    }

    fn emit(
        &self,
        topic: Topic,
        bytes: u64,
        socket: &mut impl Read,
    ) -> Result<String, Option<Failure>> {
        if bytes > LARGEST_PAYLOAD {
            let message = format!("the payload has {bytes} bytes: the limit is {LARGEST_PAYLOAD}");
            return Err(Failure::usage(message)
                .hint("emit the path of a file instead of its text")
                .into());
        }
        let emit = |payload, spooled| self.handler.emit(Event { topic, payload, spooled });
        if bytes <= SHORT {
            return Ok(emit(self.text(bytes, socket)?, None)?);
        }
        let _one_at_a_time = self.spooling.lock().unwrap_or_else(PoisonError::into_inner);
        let file = tempfile::tempfile_in(&self.dir).map_err(|error| self.no_room(&error))?;
        self.spool(&file, bytes, socket)?;
        let text: Arc<dyn DiskFile> = Arc::from(Box::<dyn DiskFile>::from(file));
        let spooled = Spooled { path: self.dir.to_path_buf(), text, secrets: None };
        Ok(emit(String::new(), Some(spooled))?)
    }

    /// A text that is held in memory.
    fn text(&self, bytes: u64, socket: &mut impl Read) -> Result<String, Option<Failure>> {
        let mut text = Vec::new();
        let read = socket.take(bytes).read_to_end(&mut text);
        let read = read.map_err(|error| self.not_received(&error))?;
        match (read as u64) < bytes {
            true => Err(None),
            false => Ok(String::from_utf8_lossy(&text).into_owned()),
        }
    }

    fn spool(
        &self,
        mut file: &File,
        bytes: u64,
        socket: &mut impl Read,
    ) -> Result<(), Option<Failure>> {
        let mut buffer = vec![0; 64 * 1024];
        let mut left = bytes;
        while left > 0 {
            let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let count = match socket.read(&mut buffer[..most]) {
                Ok(0) => return Err(None),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.not_received(&error).into()),
            };
            file.write_all(&buffer[..count]).map_err(|error| self.no_room(&error))?;
            left -= count as u64;
        }
        Ok(())
    }

    fn no_room(&self, error: &io::Error) -> Failure {
        let dir = self.dir.display();
        Failure::failed(format!("not stored: the payload cannot be written to {dir}: {error}"))
    }

    fn not_received(&self, error: &io::Error) -> Failure {
        use io::ErrorKind::{TimedOut, WouldBlock};

        let message = match error.kind() {
            TimedOut | WouldBlock => {
                let Timeouts { idle, total } = self.timeouts;
                let (idle, total) = (duration::print(idle), duration::print(total));
                format!(
                    "the request timed out: the limits are {idle} without data and {total} in total"
                )
            }
            _ => format!("invalid request: {error}"),
        };
        Failure::failed(format!("not stored: {message}"))
    }
}

fn too_large(bytes: u64) -> Failure {
    Failure::usage(format!("the arguments have {bytes} bytes: the limit is {LARGEST_CALL}"))
}

fn without_ticket(sent: &[u8]) -> Failure {
    let message = match sent {
        [] => "not stored: the harness requires a ticket, but AUTOLOOP_TICKET is not set",
        _ => "not stored: AUTOLOOP_TICKET is not the ticket of this harness",
    };
    Failure::refused(message).hint("do not change AUTOLOOP_DOOR and AUTOLOOP_TICKET")
}

/// Other users are refused even if the mode of the socket was changed behind our back.
#[cfg(target_os = "linux")]
fn same_user(stream: &UnixStream) -> Result<(), Failure> {
    let failed = |error| Failure::failed(format!("not stored: the user is unknown: {error}"));
    let peer = rustix::net::sockopt::socket_peercred(stream).map_err(failed)?;
    let (theirs, ours) = (peer.uid.as_raw(), rustix::process::geteuid().as_raw());
    if theirs == ours {
        return Ok(());
    }
    let message = format!(
        "not stored: user {theirs} sent the request, but the harness accepts only user {ours}"
    );
    Err(Failure::refused(message))
}

/// Elsewhere there is no sandbox, and the mode of the socket keeps other users away.
#[cfg(not(target_os = "linux"))]
fn same_user(_: &UnixStream) -> Result<(), Failure> {
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
