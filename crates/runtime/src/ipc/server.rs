//! The server: its socket, its threads, how many there are, and how they end.

#![expect(clippy::disallowed_methods, reason = "a socket is a name on the real file system")]

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::Shutdown;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Scope};
use std::time::Duration;

use autoloop_core::env::{DOOR, TICKET};
use rustix::fs::Mode;

use super::session::Service;
use super::{Handler, Timeouts, address, socket};

/// How many clients may wait in the queue of the socket.
const QUEUE: i32 = 256;
/// How many sessions there are at a time.
const MOST: usize = 32;
/// How long to wait when the system has no descriptor or thread for a client.
const PAUSE: Duration = Duration::from_millis(50);

/// A listening server. Dropping it closes it: requests that were received are still carried out, no further
/// client is accepted, and the socket is removed. That takes no longer than a writer waits for the lock of
/// the journal.
pub struct Server {
    path: PathBuf,
    sessions: Arc<Sessions>,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens at a path, in a directory that exists. A socket that a killed harness left there is
    /// replaced: a path belongs to one run, and a run to one harness.
    pub fn open(path: impl Into<PathBuf>, handler: Handler) -> io::Result<Server> {
        Server::open_with(path, handler, Timeouts::default())
    }

    pub fn open_with(
        path: impl Into<PathBuf>,
        handler: Handler,
        timeouts: Timeouts,
    ) -> io::Result<Server> {
        let path = path.into();
        let listener = listen(&path)?;
        let dir = path.parent().unwrap_or(Path::new(".")).into();
        let service = Service { handler, timeouts, dir, spooling: Mutex::default() };
        let sessions =
            Sessions { service, listener, open: Mutex::default(), ended: Condvar::new() };
        let sessions = Arc::new(sessions);
        let served = Arc::clone(&sessions);
        let accepting =
            thread::Builder::new().name("ipc".to_owned()).spawn(move || served.serve())?;
        Ok(Server { path, sessions, accepting: Some(accepting) })
    }

    /// The variables by which its agent finds it.
    pub fn variables(&self) -> [(OsString, OsString); 2] {
        let ticket = self.sessions.service.handler.ticket.as_str();
        [(DOOR.into(), self.path.clone().into()), (TICKET.into(), ticket.into())]
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
    let socket = socket()?;
    let (address, _dir) = address(path)?;
    rustix::net::bind(&socket, &address)?;
    rustix::fs::chmod(path, Mode::RUSR | Mode::WUSR)?;
    rustix::net::listen(&socket, QUEUE)?;
    Ok(UnixListener::from(socket))
}

struct Sessions {
    service: Service,
    listener: UnixListener,
    open: Mutex<Open>,
    /// Notified when a session ends, and when the server is closed.
    ended: Condvar,
}

#[derive(Default)]
struct Open {
    closed: bool,
    clients: HashMap<u64, UnixStream>,
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
        self.ended.notify_all();
        // On Linux, the only system with a sandbox, this ends a call that waits for the next client.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Read);
    }

    /// Accepts clients, a thread each, until the server is closed and all sessions have ended.
    fn serve(&self) {
        let wait = |most: Duration, until: fn(&Open) -> bool| {
            let waited = self.ended.wait_timeout_while(self.open(), most, |open| !until(open));
            waited.unwrap_or_else(PoisonError::into_inner).0.closed
        };
        thread::scope(|scope| {
            for number in 0.. {
                if wait(Duration::MAX, |open| open.closed || open.clients.len() < MOST) {
                    return;
                }
                if self.accept(number, scope).is_err() {
                    wait(PAUSE, |open| open.closed);
                }
            }
        });
    }

    /// Begins a session with the next client. An error means that the system is short of something now, and that
    /// the next attempt should wait.
    fn accept<'s>(&'s self, number: u64, scope: &'s Scope<'s, '_>) -> io::Result<()> {
        use io::ErrorKind::{ConnectionAborted, Interrupted};

        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if matches!(error.kind(), ConnectionAborted | Interrupted) => return Ok(()),
            Err(error) => return Err(error),
        };
        let to_shut_down = stream.try_clone()?;
        let mut open = self.open();
        if open.closed {
            return Ok(());
        }
        open.clients.insert(number, to_shut_down);
        drop(open);
        let session = Session { sessions: self, number };
        thread::Builder::new().name("ipc session".to_owned()).spawn_scoped(scope, move || {
            let session = session;
            session.sessions.service.serve(&stream);
        })?;
        Ok(())
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
        self.sessions.ended.notify_all();
    }
}
