//! Group commit: many writers of one process share a sync.
//!
//! Whoever comes first leads: it takes everything that is waiting, commits it, and hands out the
//! results. Whoever comes meanwhile waits, and one of those leads next. So the more writers there are,
//! the more records a sync carries, and a single writer waits for nobody.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The longest time that a leader waits for writers it has seen before.
const GATHERING: Duration = Duration::from_micros(500);

/// Work of several threads, done in groups.
#[derive(Debug)]
pub(super) struct Commit<Work, Outcome> {
    state: Mutex<State<Work, Outcome>>,
    /// Something was added, or a group is done.
    changed: Condvar,
}

#[derive(Debug)]
struct State<Work, Outcome> {
    waiting: Vec<(Ticket, Work)>,
    done: HashMap<Ticket, Outcome>,
    next: Ticket,
    is_led: bool,
    /// How many writers were about when the last group ended: those in it and those waiting.
    about: usize,
}

type Ticket = u64;

impl<Work, Outcome> Default for Commit<Work, Outcome> {
    fn default() -> Self {
        let state =
            State { waiting: Vec::new(), done: HashMap::new(), next: 0, is_led: false, about: 1 };
        Commit { state: Mutex::new(state), changed: Condvar::new() }
    }
}

impl<Work, Outcome> Commit<Work, Outcome> {
    /// Has `work` done, alone or with others', and returns what came of it. `group` gets everything
    /// that is to be done and returns one outcome each, in the same order.
    pub(super) fn run(&self, work: Work, group: impl Fn(Vec<Work>) -> Vec<Outcome>) -> Outcome {
        let mut state = self.lock();
        let mine = state.next;
        state.next += 1;
        state.waiting.push((mine, work));
        self.changed.notify_all();
        loop {
            if let Some(outcome) = state.done.remove(&mine) {
                return outcome;
            }
            if state.is_led {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.is_led = true;
            state = self.gather(state);
            let (tickets, works): (Vec<_>, Vec<_>) = state.waiting.drain(..).unzip();
            drop(state);
            let outcomes = group(works);
            state = self.lock();
            state.about = tickets.len() + state.waiting.len();
            state.done.extend(tickets.into_iter().zip(outcomes));
            state.is_led = false;
            self.changed.notify_all();
        }
    }

    /// Gives the writers of the last group, which are just being told of its end, a moment to come
    /// with their next record. Without it, large groups and groups of one would take turns.
    fn gather<'a>(
        &self,
        state: MutexGuard<'a, State<Work, Outcome>>,
    ) -> MutexGuard<'a, State<Work, Outcome>> {
        let about = state.about;
        let gathered =
            self.changed.wait_timeout_while(state, GATHERING, |state| state.waiting.len() < about);
        gathered.unwrap_or_else(PoisonError::into_inner).0
    }

    fn lock(&self) -> MutexGuard<'_, State<Work, Outcome>> {
        // A leader that panicked took its group with it; the journal itself is as good as before.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
