//! The socket of the harness, through which an agent emits events, changes memory and calls tools.
//!
//! A sandboxed agent cannot open the journal or the memory for writing. Its `emit` and `memory` send a
//! request to a unix socket instead. Agents that have tools reach them in the same way, sandboxed or not. The
//! harness decides by what it knows itself, not by what the agent's environment claims, and carries the
//! request out: the socket and its ticket say who asks. [`Server`] is the socket and its threads, [`Handler`]
//! carries requests out, [`ToolBox`] has the tools, [`Client`] is the side of the agent.
//!
//! A client must run as the same user and send the [`Ticket`] that was drawn for this server. A client that
//! is silent, slow, malformed or gone costs a thread for a while and nothing else: the number of threads is
//! bounded, so are time and memory for each, and further clients wait in the queue of the socket. Large
//! payloads are copied to a file without a name, one at a time. They are not read from a descriptor that a
//! client passes, because the harness would read it with the journal locked, and a client could make that
//! last forever.
//!
//! Sockets and threads are used directly, beside the seams of the [world](crate::world): a server is only
//! opened for real processes, and nothing of that is simulated.

mod client;
mod protocol;
mod server;
mod session;
mod tools;

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::world::Entropy;

pub use client::{Client, Payload};
pub use server::Server;
pub use session::Handler;
pub use tools::{ToolBox, ToolSpec};

/// How long a client is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    pub idle: Duration,
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts { idle: Duration::from_secs(10), total: Duration::from_secs(120) }
    }
}

/// 128 random bits that only the harness and the agent it started know.
#[derive(Clone, PartialEq, Eq)]
pub struct Ticket(String);

impl Ticket {
    pub fn draw(entropy: &dyn Entropy) -> Ticket {
        let mut bits = [0; 16];
        entropy.fill(&mut bits);
        Ticket(bits.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What the journal has of it: the agent that this ticket was given to.
    pub fn digest(&self) -> String {
        blake3::hash(self.0.as_bytes()).to_hex().to_string()
    }

    /// Whether this is what was sent. Every byte is compared, so the time it takes does not tell how
    /// much of a guess was right.
    fn is(&self, sent: &[u8]) -> bool {
        let ours = self.0.as_bytes();
        let differing = |sum: u8, (a, b): (&u8, &u8)| std::hint::black_box(sum | (a ^ b));
        ours.len() == sent.len() && ours.iter().zip(sent).fold(0, differing) == 0
    }
}

/// Never shown by accident.
impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket(…)")
    }
}

/// A socket that no child inherits.
fn socket() -> io::Result<OwnedFd> {
    #[cfg(target_os = "linux")]
    let flags = SocketFlags::CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = SocketFlags::empty();
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// The address of a path, and what it leads through, which has to stay open. The kernel takes 107 bytes, and projects
/// lie deeper: a longer path is reached through its open directory.
fn address(path: &Path) -> io::Result<(SocketAddrUnix, Option<OwnedFd>)> {
    if let Ok(address) = SocketAddrUnix::new(path) {
        return Ok((address, None));
    }
    let parent = path.parent().unwrap_or(Path::new("."));
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let dir = rustix::fs::open(parent, flags, Mode::empty())?;
    let short = Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string());
    let short = short.join(path.file_name().unwrap_or_default());
    Ok((SocketAddrUnix::new(&short)?, Some(dir)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::OsEntropy;

    #[test]
    fn only_the_whole_ticket_is_the_ticket() {
        let ticket = Ticket::draw(&OsEntropy);
        assert_eq!(ticket.as_str().len(), 32);
        assert!(ticket.is(ticket.as_str().as_bytes()));
        assert_ne!(ticket, Ticket::draw(&OsEntropy));
        assert!(!ticket.is(b""));
        assert!(!ticket.is(&ticket.as_str().as_bytes()[1..]));
        for at in 0..32 {
            let mut guess = ticket.as_str().as_bytes().to_vec();
            guess[at] ^= 1;
            assert!(!ticket.is(&guess), "{at}");
        }
        assert_eq!(format!("{ticket:?}"), "Ticket(…)");
        assert_eq!(ticket.digest().len(), 64);
        assert_eq!(ticket.digest(), ticket.clone().digest());
        assert_ne!(ticket.digest(), Ticket::draw(&OsEntropy).digest());
    }
}
