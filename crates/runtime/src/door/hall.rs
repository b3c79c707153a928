//! Who is inside: the threads of a door, how many there are, and how they end.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::talk::Desk;
use super::{Keeper, Patience, Ticket};

/// How many conversations are held at a time.
const MOST: usize = 32;
/// How long to wait, in nanoseconds, when the system has no descriptor or thread for a visitor.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Where visitors are while they are listened to.
pub(super) struct Hall {
    desk: Desk,
    inside: Mutex<Inside>,
    /// Wakes the thread that lets visitors in.
    wake: UnixStream,
}

#[derive(Default)]
struct Inside {
    closed: bool,
    visitors: HashMap<u64, UnixStream>,
}

impl fmt::Debug for Hall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hall").field("inside", &self.inside().visitors.len()).finish()
    }
}

impl Hall {
    /// An empty hall, and the other end of what wakes its attendant.
    pub(super) fn new(
        ticket: Ticket,
        keeper: Keeper,
        patience: Patience,
        path: &Path,
    ) -> io::Result<(Hall, UnixStream)> {
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let dir = path.parent().unwrap_or(Path::new(".")).into();
        let desk = Desk { ticket, keeper, patience, dir, spooling: Mutex::default() };
        Ok((Hall { desk, inside: Mutex::default(), wake }, woken))
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Listens to nobody any more. What was heard to its end is still done and answered.
    pub(super) fn close(&self) {
        let mut inside = self.inside();
        inside.closed = true;
        for visitor in inside.visitors.values() {
            // It fails when the visitor has left, which is as good.
            let _ = visitor.shutdown(Shutdown::Read);
        }
        drop(inside);
        self.wake();
    }

    fn wake(&self) {
        // When it is full, there is enough in it to wake somebody.
        let _ = (&self.wake).write(&[0]);
    }
}

/// A visitor's place, free again when it is dropped.
struct Seat<'h> {
    hall: &'h Hall,
    number: u64,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.hall.inside().visitors.remove(&self.number);
        self.hall.wake();
    }
}

/// Lets visitors in, a thread each, until the door is closed and all of them have left.
pub(super) fn attend(hall: &Hall, listener: &UnixListener, woken: &UnixStream) {
    thread::scope(|scope| {
        for number in 0.. {
            empty(woken);
            let room = {
                let inside = hall.inside();
                if inside.closed {
                    return;
                }
                inside.visitors.len() < MOST
            };
            let mut fds = vec![PollFd::new(woken, PollFlags::IN)];
            if room {
                fds.push(PollFd::new(listener, PollFlags::IN));
            }
            // An interrupted wait looks again, like any other.
            let _ = poll(&mut fds, None);
            let has_come = fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
            if has_come && let_in(hall, listener, number, scope).is_err() {
                let _ = poll(&mut [PollFd::new(woken, PollFlags::IN)], Some(&PAUSE));
            }
        }
    });
}

/// Begins a conversation with the next visitor. An error means that the system is short of something
/// now, and that the next attempt had better wait.
fn let_in<'s>(
    hall: &'s Hall,
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
    let for_the_end = stream.try_clone()?;
    let mut inside = hall.inside();
    if inside.closed {
        return Ok(());
    }
    inside.visitors.insert(number, for_the_end);
    drop(inside);
    let seat = Seat { hall, number };
    thread::Builder::new().name("visitor".to_owned()).spawn_scoped(scope, move || {
        let seat = seat;
        seat.hall.desk.talk(&stream);
    })?;
    Ok(())
}

fn empty(mut woken: &UnixStream) {
    let mut bytes = [0; 64];
    while woken.read(&mut bytes).is_ok_and(|count| count > 0) {}
}
