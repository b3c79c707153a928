//! The view of what this process itself works on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::Session;
use super::model::Feed;
use super::view::Role;
use crate::failure::Failure;

/// A view beside the work, closed at first. It only reads the journal: the work is to be put on record
/// as ever, and whoever does it may tell of it in other ways while nobody looks. Any thread may ask.
#[derive(Default)]
pub(crate) struct Beside(Mutex<Option<Open>>);

struct Open {
    is_done: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), Failure>>,
}

impl Beside {
    /// Opens the view in a thread of its own. Ctrl-C in it is a SIGINT to this process.
    pub(crate) fn open(&self, feed: Feed) -> Result<(), Failure> {
        let session = Session::open(feed, Role::Beside)?;
        let is_done = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_done);
        let thread = thread::Builder::new()
            .name("view".to_owned())
            .spawn(move || session.run(&told))
            .map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))?;
        *self.view() = Some(Open { is_done, thread });
        Ok(())
    }

    /// Whether somebody looks at it.
    pub(crate) fn is_open(&self) -> bool {
        self.view().as_ref().is_some_and(|open| !open.thread.is_finished())
    }

    /// Closes the view if it was opened, so that the terminal can be written to, and says what went
    /// wrong with it: that was no part of the work.
    pub(crate) fn close(&self) -> Result<(), Failure> {
        let Some(Open { is_done, thread }) = self.view().take() else { return Ok(()) };
        is_done.store(true, Ordering::SeqCst);
        thread.join().unwrap_or_else(|_| Err(Failure::bug()))
    }

    fn view(&self) -> MutexGuard<'_, Option<Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
