//! Reads keys with crossterm.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyEvent};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// How often the reader checks whether the view was closed.
const POLL: Duration = Duration::from_millis(50);

/// The keyboard of this process.
///
/// A thread reads it until this is dropped. After an incomplete or unknown sequence (Alt-[ sends one) crossterm waits
/// for the next key without a timeout, which neither the view nor the end of a run may wait for.
pub(super) struct Keyboard {
    keys: Receiver<KeyEvent>,
    _is_open: Arc<()>,
}

impl Keyboard {
    /// Standard input, or the terminal of the process where that is something else.
    pub(super) fn open() -> io::Result<Keyboard> {
        let stdin = io::stdin();
        let terminal = match stdin.is_terminal() {
            true => stdin.as_fd().try_clone_to_owned()?,
            false => File::open("/dev/tty")?.into(),
        };
        let (sender, keys) = mpsc::channel();
        let is_open = Arc::new(());
        let watched = Arc::downgrade(&is_open);
        thread::Builder::new().name("keys".to_owned()).spawn(move || {
            // An error ends the thread and closes the channel.
            while watched.strong_count() > 0 && forward(&terminal, &sender).is_ok() {}
        })?;
        Ok(Keyboard { keys, _is_open: is_open })
    }

    /// Waits for keys, at most this long; `None` if the terminal is closed.
    pub(super) fn wait(&self, time: Duration) -> Option<Vec<KeyEvent>> {
        match self.keys.recv_timeout(time) {
            Ok(key) => Some([key].into_iter().chain(self.keys.try_iter()).collect()),
            Err(RecvTimeoutError::Timeout) => Some(Vec::new()),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }
}

/// Sends the keys of one interval. Polls the terminal first, because crossterm never returns from reading one that hung
/// up.
fn forward(terminal: &OwnedFd, keys: &Sender<KeyEvent>) -> io::Result<()> {
    let time = Timespec::try_from(POLL).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut fds = [PollFd::new(terminal, PollFlags::IN)];
    match poll(&mut fds, Some(&time)) {
        Ok(0) | Err(Errno::INTR) => return Ok(()),
        ready => ready?,
    };
    if fds[0].revents() != PollFlags::IN {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    // Crossterm reports the second half of a long paste only with the next key; without a timeout this thread would
    // spin until then.
    let mut time = POLL;
    while event::poll(time)? {
        time = Duration::ZERO;
        if let Event::Key(key) = event::read()? {
            keys.send(key).map_err(io::Error::other)?;
        }
    }
    Ok(())
}
