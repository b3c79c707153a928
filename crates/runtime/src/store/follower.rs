//! A thread that keeps the database up to date while a run is carried out.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use super::{Store, StoreError};
use crate::journal::Journal;
use crate::layout::StateDir;
use crate::site::Site;
use crate::world::World;

/// How long one attempt waits for a lock, and how soon the next one follows.
const ATTEMPT: Duration = Duration::from_millis(250);
/// How long the last attempt waits for a lock.
const LAST: Duration = Duration::from_secs(2);
/// How long the end of a run waits for the last rows.
const END: Duration = Duration::from_secs(4);

const CONTINUES: &str = "`autoloop store sql` continues it";

/// Folds the journal into the database in the background. The run neither waits for it nor fails with it.
pub struct Follower {
    /// Holds one poke: more of them would say the same.
    pokes: SyncSender<()>,
    note: Receiver<Option<String>>,
}

impl Follower {
    /// Starts to follow the journal of a site; `None` in a simulated world, where SQLite has no files.
    pub fn start(site: &Site<'_>) -> Option<Follower> {
        if site.world.spawner.is_simulated() {
            return None;
        }
        let (pokes, poked) = mpsc::sync_channel(1);
        let (done, note) = mpsc::sync_channel(1);
        let (journal, state_dir, world) =
            (site.journal.handle(), site.state_dir.clone(), site.world.clone());
        let follow = move || {
            let error = follow(&*journal, &state_dir, &world, &poked).err();
            // Without a receiver the run ended without waiting.
            let _ = done.send(error.map(|error| note_about(&error)));
        };
        // Where no thread can be started, the next reader folds the journal.
        thread::Builder::new().name("store".to_owned()).spawn(follow).ok()?;
        Some(Follower { pokes, note })
    }

    /// Says that the journal has grown. Never blocks.
    pub fn poke(&self) {
        let _ = self.pokes.try_send(());
    }

    /// Waits for the last rows, but only a few seconds. Returns a note for the user if the database is not up to date.
    pub fn finish(self) -> Option<String> {
        drop(self.pokes);
        match self.note.recv_timeout(END) {
            Ok(note) => note,
            Err(_) => Some(note("it is still being written", CONTINUES)),
        }
    }
}

fn note_about(error: &StoreError) -> String {
    let hint = match error {
        StoreError::Damaged { .. } | StoreError::Failed { .. } => {
            "build it again with `autoloop store rebuild`"
        }
        _ => CONTINUES,
    };
    note(&error.to_string(), hint)
}

fn note(why: &str, hint: &str) -> String {
    format!("the store is not up to date: {why}; {hint}")
}

/// Updates the database after each poke, and once more at the end. Another process that holds its lock is no error
/// before that.
fn follow(
    journal: &dyn Journal,
    state_dir: &StateDir,
    world: &World,
    poked: &Receiver<()>,
) -> Result<(), StoreError> {
    let mut store = None;
    let mut update = |patience| {
        let mut open = match store.take() {
            Some(open) => open,
            None => Store::open_waiting(state_dir, world, patience)?,
        };
        let updated = open.update_waiting(journal, patience);
        store = Some(open);
        updated
    };
    loop {
        let is_behind = match update(ATTEMPT) {
            Err(StoreError::Locked(_)) => true,
            updated => {
                updated?;
                false
            }
        };
        let next = match is_behind {
            true => poked.recv_timeout(ATTEMPT),
            false => poked.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        if next == Err(RecvTimeoutError::Disconnected) {
            return update(LAST);
        }
    }
}
