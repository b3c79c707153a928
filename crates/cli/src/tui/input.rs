//! Keys, as crossterm reads them.

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

/// How soon the reader sees that the view was closed.
const MOMENT: Duration = Duration::from_millis(50);

/// What came of waiting for keys.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pressed {
    Keys(Vec<KeyEvent>),
    /// The terminal is gone.
    Gone,
}

/// The keyboard of this process, until it is dropped.
///
/// A thread of its own reads it. On an incomplete or unknown sequence (Alt-[ sends one) crossterm waits
/// for the next key however short the timeout, and neither the view nor the end of a run may wait for that.
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
            // An error ends the thread and with it the channel, which the view takes for `Gone`.
            while watched.strong_count() > 0 && forward(&terminal, &sender).is_ok() {}
        })?;
        Ok(Keyboard { keys, _is_open: is_open })
    }

    /// Returns as soon as keys are pressed, or when the time is up.
    pub(super) fn wait(&self, time: Duration) -> Pressed {
        match self.keys.recv_timeout(time) {
            Ok(key) => Pressed::Keys([key].into_iter().chain(self.keys.try_iter()).collect()),
            Err(RecvTimeoutError::Timeout) => Pressed::Keys(Vec::new()),
            Err(RecvTimeoutError::Disconnected) => Pressed::Gone,
        }
    }
}

/// Sends the keys pressed within a moment. Waits for the terminal itself, because crossterm reads one
/// that hung up without end.
fn forward(terminal: &OwnedFd, keys: &Sender<KeyEvent>) -> io::Result<()> {
    let time = Timespec::try_from(MOMENT).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut fds = [PollFd::new(terminal, PollFlags::IN)];
    match poll(&mut fds, Some(&time)) {
        Ok(0) | Err(Errno::INTR) => return Ok(()),
        ready => ready?,
    };
    if fds[0].revents() != PollFlags::IN {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    // Crossterm reports the second half of a long paste only with the next key. Waiting for it keeps this
    // thread from spinning until then.
    let mut time = MOMENT;
    while event::poll(time)? {
        time = Duration::ZERO;
        if let Event::Key(key) = event::read()? {
            keys.send(key).map_err(io::Error::other)?;
        }
    }
    Ok(())
}
