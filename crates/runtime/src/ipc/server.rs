//! The server: its socket, its threads, how many there are, and how they end.

#![expect(clippy::disallowed_methods, reason = "a socket is a name on the real file system")]

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Scope};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;

use super::address::{self, Address};
use super::session::Service;
use super::{Handler, Ticket, Timeouts};

/// How many clients may wait in the queue of the socket.
const QUEUE: i32 = 256;
/// How many sessions there are at a time.
const MOST: usize = 32;
/// How long to wait, in nanoseconds, when the system has no descriptor or thread for a client.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// A listening server. Dropping it closes it: requests that were received are still carried out, no further
/// client is accepted, and the socket is removed. That takes no longer than a writer waits for the lock of
/// the journal.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    sessions: Arc<Sessions>,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens at a path, in a directory that exists. A socket that a killed harness left there is
    /// replaced: a path belongs to one run, and a run to one harness.
    pub fn open(path: impl Into<PathBuf>, ticket: Ticket, handler: Handler) -> io::Result<Server> {
        Server::open_with(path, ticket, handler, Timeouts::default())
    }

    /// The same with other timeouts.
    pub fn open_with(
        path: impl Into<PathBuf>,
        ticket: Ticket,
        handler: Handler,
        timeouts: Timeouts,
    ) -> io::Result<Server> {
        let path = path.into();
        let listener = listen(&path)?;
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let dir = path.parent().unwrap_or(Path::new(".")).into();
        let service = Service { ticket, handler, timeouts, dir, spooling: Mutex::default() };
        let sessions = Arc::new(Sessions { service, open: Mutex::default(), wake });
        let served = Arc::clone(&sessions);
        let accepting = thread::Builder::new()
            .name("ipc".to_owned())
            .spawn(move || serve(&served, &listener, &woken))?;
        Ok(Server { path, sessions, accepting: Some(accepting) })
    }

    /// The path of the socket, for `AUTOLOOP_DOOR`.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Clients see from now on that the harness is gone. Should it fail, the next harness replaces it.
        let _ = fs::remove_file(&self.path);
        self.sessions.close();
        if let Some(accepting) = self.accepting.take() {
            // A panic of one of its threads was printed on standard error.
            let _ = accepting.join();
        }
    }
}

/// A socket that only our user can connect to. Its mode is set before it listens, so no other user
/// can connect at any moment.
fn listen(path: &Path) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(stat) if stat.file_type().is_socket() => fs::remove_file(path)?,
        Ok(_) | Err(_) => {}
    }
    let socket = address::socket()?;
    let address = Address::of(path)?;
    rustix::net::bind(&socket, address.get())?;
    rustix::fs::chmod(path, Mode::RUSR | Mode::WUSR)?;
    rustix::net::listen(&socket, QUEUE)?;
    let listener = UnixListener::from(socket);
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The sessions of a server.
struct Sessions {
    service: Service,
    open: Mutex<Open>,
    /// Wakes the thread that accepts clients.
    wake: UnixStream,
}

#[derive(Default)]
struct Open {
    closed: bool,
    clients: HashMap<u64, UnixStream>,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("open", &self.open().clients.len()).finish()
    }
}

impl Sessions {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops reading from clients. Requests that were received are still carried out and answered.
    fn close(&self) {
        let mut open = self.open();
        open.closed = true;
        for client in open.clients.values() {
            // It fails when the client has closed, which is as good.
            let _ = client.shutdown(Shutdown::Read);
        }
        drop(open);
        self.wake();
    }

    fn wake(&self) {
        // When the pipe is full, it holds enough to wake the thread.
        let _ = (&self.wake).write(&[0]);
    }
}

/// A session under way; dropping it makes room for another.
struct Session<'s> {
    sessions: &'s Sessions,
    number: u64,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.sessions.open().clients.remove(&self.number);
        self.sessions.wake();
    }
}

/// Accepts clients, a thread each, until the server is closed and all sessions have ended.
fn serve(sessions: &Sessions, listener: &UnixListener, woken: &UnixStream) {
    thread::scope(|scope| {
        for number in 0.. {
            empty(woken);
            let has_room = {
                let open = sessions.open();
                if open.closed {
                    return;
                }
                open.clients.len() < MOST
            };
            let mut fds = vec![PollFd::new(woken, PollFlags::IN)];
            if has_room {
                fds.push(PollFd::new(listener, PollFlags::IN));
            }
            // An interrupted wait looks again, like any other.
            let _ = poll(&mut fds, None);
            let is_waiting = fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
            if is_waiting && accept(sessions, listener, number, scope).is_err() {
                let _ = poll(&mut [PollFd::new(woken, PollFlags::IN)], Some(&PAUSE));
            }
        }
    });
}

/// Begins a session with the next client. An error means that the system is short of something now, and that
/// the next attempt should wait.
fn accept<'s>(
    sessions: &'s Sessions,
    listener: &UnixListener,
    number: u64,
    scope: &'s Scope<'s, '_>,
) -> io::Result<()> {
    use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};

    let stream = match listener.accept() {
        Ok((stream, _)) => stream,
        Err(error) if matches!(error.kind(), ConnectionAborted | Interrupted | WouldBlock) => {
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    stream.set_nonblocking(false)?;
    let to_shut_down = stream.try_clone()?;
    let mut open = sessions.open();
    if open.closed {
        return Ok(());
    }
    open.clients.insert(number, to_shut_down);
    drop(open);
    let session = Session { sessions, number };
    thread::Builder::new().name("ipc session".to_owned()).spawn_scoped(scope, move || {
        let session = session;
        session.sessions.service.serve(&stream);
    })?;
    Ok(())
}

fn empty(mut woken: &UnixStream) {
    let mut bytes = [0; 64];
    while woken.read(&mut bytes).is_ok_and(|count| count > 0) {}
}
