//! Group commit: several writers of one process share a sync.
//!
//! One writer at a time leads: it takes all waiting work, commits it, and distributes the outcomes. Writers
//! that arrive meanwhile wait for the next group. So the more writers there are, the more records a sync
//! carries, and a single writer does not wait.
//!
//! Most writers of a group return at once with their next record. So the next group waits a moment for as
//! many as there were; without that, large groups and groups of one would alternate. The last one to
//! arrive leads, because it is awake already: waking all writers of a group takes half as long as a sync.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a group waits for the writers of the last one, at most.
const GATHERING: Duration = Duration::from_micros(500);
/// How often a waiting writer yields before it sleeps. With many writers a quick sync is over by then, and
/// none of them has to be woken; with few, or a slow disk, this takes some microseconds.
const YIELDS: usize = 64;

/// Commits the work of several threads in groups.
#[derive(Debug)]
pub(super) struct Commit<Work, Outcome> {
    queue: Mutex<Queue<Work, Outcome>>,
}

#[derive(Debug)]
struct Queue<Work, Outcome> {
    works: Vec<Work>,
    group: Arc<Group<Outcome>>,
    /// Whether a writer leads this group, or the one before is not finished.
    is_led: bool,
    /// How many writers there were when the last group ended: those in it and those waiting.
    expected: usize,
}

/// Where the writers of a group wait.
#[derive(Debug)]
struct Group<Outcome> {
    state: Mutex<GroupState<Outcome>>,
    changed: Condvar,
    /// For writers that do not sleep yet.
    has_changed: AtomicBool,
}

#[derive(Debug, Default)]
enum GroupState<Outcome> {
    #[default]
    Waiting,
    /// One writer of the group should gather others and find a leader.
    Gather,
    /// In the order of the works, until each writer takes its own; empty if the leader panicked.
    Over(Vec<Option<Outcome>>),
}

/// How a wait ended.
enum Waited<Outcome> {
    /// Without an outcome if the leader panicked.
    Over(Option<Outcome>),
    Gather,
    TimedOut,
}

impl<Work, Outcome> Default for Commit<Work, Outcome> {
    fn default() -> Self {
        let group = Arc::default();
        Commit { queue: Mutex::new(Queue { works: Vec::new(), group, is_led: false, expected: 1 }) }
    }
}

impl<Outcome> Default for Group<Outcome> {
    fn default() -> Self {
        let (changed, has_changed) = (Condvar::new(), AtomicBool::new(false));
        Group { state: Mutex::default(), changed, has_changed }
    }
}

impl<Work, Outcome> Commit<Work, Outcome> {
    /// Commits `work`, alone or with that of other threads, and returns its outcome. `commit` gets all works
    /// of a group and returns one outcome each, in the same order.
    pub(super) fn run(&self, work: Work, commit: impl Fn(Vec<Work>) -> Vec<Outcome>) -> Outcome {
        let mut queue = lock(&self.queue);
        let index = queue.works.len();
        queue.works.push(work);
        let group = Arc::clone(&queue.group);
        // The first writer of a group waits a moment for others, then leads unless another one does.
        let mut timeout = (index == 0 && !queue.is_led).then_some(GATHERING);
        if !queue.is_led && queue.works.len() >= queue.expected {
            self.lead(queue, &commit);
        } else {
            drop(queue);
        }
        loop {
            match group.wait(index, timeout) {
                Waited::Over(Some(outcome)) => return outcome,
                Waited::Over(None) => panic!("the thread that wrote for this one panicked"),
                Waited::Gather => timeout = Some(GATHERING),
                Waited::TimedOut => {
                    timeout = None;
                    let queue = lock(&self.queue);
                    if !queue.is_led && Arc::ptr_eq(&queue.group, &group) {
                        self.lead(queue, &commit);
                    }
                }
            }
        }
    }

    fn lead(
        &self,
        mut queue: MutexGuard<'_, Queue<Work, Outcome>>,
        commit: &impl Fn(Vec<Work>) -> Vec<Outcome>,
    ) {
        queue.is_led = true;
        let works = std::mem::take(&mut queue.works);
        let group = std::mem::take(&mut queue.group);
        drop(queue);

        let mut led = LedGroup { commit: self, group, size: works.len(), outcomes: Vec::new() };
        led.outcomes = commit(works);
    }
}

/// A group that is being committed. Its writers are notified when this is dropped, so also when its leader
/// panics.
struct LedGroup<'a, Work, Outcome> {
    commit: &'a Commit<Work, Outcome>,
    group: Arc<Group<Outcome>>,
    size: usize,
    outcomes: Vec<Outcome>,
}

impl<Work, Outcome> Drop for LedGroup<'_, Work, Outcome> {
    fn drop(&mut self) {
        let mut queue = lock(&self.commit.queue);
        queue.is_led = false;
        queue.expected = self.size + queue.works.len();
        if !queue.works.is_empty() {
            queue.group.change(GroupState::Gather);
            queue.group.changed.notify_one();
        }
        drop(queue);
        self.group.change(GroupState::Over(self.outcomes.drain(..).map(Some).collect()));
        self.group.changed.notify_all();
    }
}

impl<Outcome> Group<Outcome> {
    fn change(&self, state: GroupState<Outcome>) {
        *lock(&self.state) = state;
        self.has_changed.store(true, Ordering::Release);
    }

    fn wait(&self, index: usize, timeout: Option<Duration>) -> Waited<Outcome> {
        if timeout.is_none() {
            let has_changed = || self.has_changed.load(Ordering::Acquire);
            (0..YIELDS).take_while(|_| !has_changed()).for_each(|_| std::thread::yield_now());
        }
        let is_waiting = |state: &mut GroupState<Outcome>| matches!(state, GroupState::Waiting);
        let state = lock(&self.state);
        let mut state = match timeout {
            None => {
                self.changed.wait_while(state, is_waiting).unwrap_or_else(PoisonError::into_inner)
            }
            Some(time) => {
                let waited = self.changed.wait_timeout_while(state, time, is_waiting);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        match &mut *state {
            GroupState::Waiting => Waited::TimedOut,
            GroupState::Over(all) => Waited::Over(all.get_mut(index).and_then(Option::take)),
            GroupState::Gather => {
                *state = GroupState::Waiting;
                Waited::Gather
            }
        }
    }
}

/// No state is inconsistent while these locks are held, so a panic of another thread does no harm.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn every_writer_gets_what_came_of_its_own_work() {
        const WRITERS: usize = 16;
        let commit = Commit::default();
        let (groups, works_done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let double = |works: Vec<usize>| {
            groups.fetch_add(1, Ordering::Relaxed);
            works_done.fetch_add(works.len(), Ordering::Relaxed);
            thread::yield_now();
            works.into_iter().map(|work| work * 2).collect()
        };
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (commit, double) = (&commit, &double);
                scope.spawn(move || {
                    for round in 0..500 {
                        let work = round * WRITERS + writer;
                        assert_eq!(commit.run(work, double), work * 2);
                    }
                });
            }
        });
        assert_eq!(works_done.into_inner(), 500 * WRITERS);
        assert!(groups.into_inner() < 500 * WRITERS, "nothing was done in groups");
    }

    /// No writer waits forever for a leader that panicked: its group panics with it, and those who come
    /// later are served.
    #[test]
    fn a_panic_fails_only_its_own_group() {
        let commit = Commit::default();
        let panics = |_: Vec<u8>| -> Vec<u8> { panic!("on purpose") };
        let alone = thread::scope(|scope| scope.spawn(|| commit.run(1, panics)).join());
        assert!(alone.is_err());
        assert_eq!(commit.run(2, |works| works), 2);
        let short = thread::scope(|scope| scope.spawn(|| commit.run(3, |_| Vec::new())).join());
        assert!(short.is_err());
        assert_eq!(commit.run(4, |works| works), 4);
    }

    #[test]
    fn who_comes_while_a_group_is_under_way_is_in_the_next_one() {
        let commit = Commit::default();
        let (begun, may_end) = (Barrier::new(2), Barrier::new(2));
        let slowly = |works: Vec<&'static str>| {
            begun.wait();
            may_end.wait();
            works
        };
        thread::scope(|scope| {
            let first = scope.spawn(|| commit.run("first", slowly));
            begun.wait();
            let late = scope.spawn(|| commit.run("late", |works| works));
            while lock(&commit.queue).works.is_empty() {
                thread::yield_now();
            }
            may_end.wait();
            assert_eq!(first.join().unwrap(), "first");
            assert_eq!(late.join().unwrap(), "late");
        });
    }
}
