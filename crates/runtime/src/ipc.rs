//! The socket of the harness, through which a sandboxed agent emits events and changes memory.
//!
//! A sandboxed agent cannot open the journal or the memory for writing. Its `emit` and `memory` send a
//! request to a unix socket instead. The harness decides by what it knows itself, not by what the agent's
//! environment claims, and carries the request out. [`Server`] is the socket and its threads, [`Handler`]
//! carries requests out, [`Client`] is the side of the agent.
//!
//! A client must run as the same user and send the [`Ticket`] that was drawn for this server. A client that
//! is silent, slow, malformed or gone costs a thread for a while and nothing else: the number of threads is
//! bounded, so are time and memory for each, and further clients wait in the queue of the socket. Large
//! payloads are copied to a file without a name, one at a time. They are not read from a descriptor that a
//! client passes, because the harness would read it with the journal locked, and a client could make that
//! last for ever.
//!
//! Sockets and threads are used directly, beside the seams of the [world](crate::world): a server is only
//! opened for processes in a sandbox of the kernel, and nothing of that is simulated.

mod address;
mod client;
mod handler;
mod protocol;
mod server;
mod session;
mod ticket;

use std::time::Duration;

pub use client::{Client, Payload};
pub use handler::Handler;
pub use server::Server;
pub use ticket::Ticket;

/// How long a client is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until its next bytes.
    pub idle: Duration,
    /// Until its whole request.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts { idle: Duration::from_secs(10), total: Duration::from_secs(120) }
    }
}
