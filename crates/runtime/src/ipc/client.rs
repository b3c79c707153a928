//! The side of the agent: sends a request to the harness.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use autoloop_core::duration;
use autoloop_core::topic::Topic;
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use super::protocol::{Answer, LARGEST_ANSWER, LARGEST_REQUEST, Request, encode};
use super::{ToolSpec, address, socket};
use crate::failure::Failure;
use crate::journal::Spooled;
use crate::memory::Change;
use crate::message;

/// How long the harness may take. It may have to wait for the journal, and it has other clients.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A process that knows the socket of its harness.
#[derive(Clone)]
pub struct Client {
    socket: PathBuf,
    ticket: String,
}

#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    Text(&'a str),
    /// The text of a file, of which so many bytes are sent.
    File(&'a Spooled, u64),
}

impl Client {
    /// A client of the server at a path. An empty ticket means that there is none.
    pub fn new(socket: &Path, ticket: impl Into<String>) -> Client {
        Client { socket: socket.to_owned(), ticket: ticket.into() }
    }

    pub fn emit(&self, topic: &Topic, payload: Payload<'_>) -> Answer {
        let bytes = match payload {
            Payload::Text(text) => text.len() as u64,
            Payload::File(_, bytes) => bytes,
        };
        self.ask(&Request::Emit { topic: topic.to_string(), bytes }, payload)
    }

    pub fn change(&self, change: &Change) -> Answer {
        self.ask(&Request::Change(change.clone()), Payload::Text(""))
    }

    /// The tools of this agent; none where its harness gave it none.
    pub fn tools(&self) -> Result<Vec<ToolSpec>, Failure> {
        let tools = self.ask(&Request::Tools, Payload::Text(""))?;
        serde_json::from_str(&tools)
            .map_err(|error| Failure::failed(format!("the harness sent malformed tools: {error}")))
    }

    /// Calls a tool; the arguments are JSON.
    pub fn call(&self, tool: &str, arguments: &str) -> Answer {
        let bytes = arguments.len() as u64;
        self.ask(&Request::Call { tool: tool.to_owned(), bytes }, Payload::Text(arguments))
    }

    fn ask(&self, request: &Request, payload: Payload<'_>) -> Answer {
        let request = encode(request).ok_or_else(too_large)?;
        let mut stream = self.connect().map_err(|error| self.unreachable(&error))?;
        let asked = message::write(&mut stream, &self.ticket.as_bytes())
            .and_then(|()| stream.write_all(&request));
        let sent = match asked {
            Ok(()) => send(&mut stream, payload)?,
            Err(error) => Err(error),
        };
        // A harness that refuses the request early has answered already.
        match (message::read(&mut stream, LARGEST_ANSWER), sent) {
            (Ok(Some(answer)), _) => answer,
            (_, Err(error)) => Err(Failure::failed(format!(
                "not stored: the harness closed the connection ({error})"
            ))),
            (Ok(None), Ok(())) => {
                Err(in_doubt("the harness closed the connection without an answer"))
            }
            (Err(error), Ok(())) => Err(in_doubt(no_answer(&error))),
        }
    }

    fn connect(&self) -> io::Result<UnixStream> {
        let socket = socket()?;
        // For a harness that is stopped: its queue may be full, and it does not read.
        set_socket_timeout(&socket, Timeout::Send, Some(TIMEOUT))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(TIMEOUT))?;
        let (address, _dir) = address(&self.socket)?;
        rustix::net::connect(&socket, &address)?;
        Ok(UnixStream::from(socket))
    }

    fn unreachable(&self, error: &io::Error) -> Failure {
        use io::ErrorKind::{ConnectionRefused, ConnectionReset, NotFound};

        let socket = self.socket.display();
        let message = match error.kind() {
            NotFound | ConnectionRefused | ConnectionReset => {
                format!("the harness has ended: no process listens at {socket} ({error})")
            }
            _ => format!("the harness cannot be reached at {socket}: {error}"),
        };
        Failure::failed(format!("not stored: {message}"))
            .hint("AUTOLOOP_DOOR must be the socket of a harness; it exists while the agent runs")
    }
}

/// Sends a payload. The inner error is that of the socket; a payload that cannot be read is a failure at once.
fn send(stream: &mut UnixStream, payload: Payload<'_>) -> Result<io::Result<()>, Failure> {
    let (file, bytes) = match payload {
        Payload::Text(text) => return Ok(stream.write_all(text.as_bytes())),
        Payload::File(file, bytes) => (file, bytes),
    };
    let failed = |why: &dyn std::fmt::Display| {
        Failure::failed(format!("not stored: cannot read {}: {why}", file.path.display()))
    };
    let mut buffer = vec![0; 64 * 1024];
    let mut sent = 0;
    while sent < bytes {
        let most = buffer.len().min(usize::try_from(bytes - sent).unwrap_or(usize::MAX));
        match file.text.read_at(&mut buffer[..most], sent) {
            Ok(0) => return Err(failed(&"it was truncated while it was read")),
            Ok(count) => {
                if let Err(error) = stream.write_all(&buffer[..count]) {
                    return Ok(Err(error));
                }
                sent += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(&error)),
        }
    }
    Ok(Ok(()))
}

fn no_answer(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            format!("the harness did not answer within {}", duration::print(TIMEOUT))
        }
        _ => format!("the answer of the harness was lost: {error}"),
    }
}

/// The request was sent, and may have been carried out.
fn in_doubt(message: impl Into<String>) -> Failure {
    Failure::failed(message)
        .hint("`autoloop inspect journal` and `autoloop memory list` show what was stored")
}

fn too_large() -> Failure {
    Failure::usage(format!("not stored: it has more than {LARGEST_REQUEST} bytes"))
        .hint("write it to a file of the project, and add the path of the file")
}
