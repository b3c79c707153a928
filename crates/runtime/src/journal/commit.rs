//! Group commit: many writers of one process share a sync.
//!
//! One writer at a time leads: it takes everything that is waiting, commits it, and hands out the
//! results. Whoever comes meanwhile waits for the next group. So the more writers there are, the more
//! records a sync carries, and a single writer waits for nobody.
//!
//! A group is told of its end all at once, and most of its writers come straight back with their next
//! record. So the next group waits a moment for as many as there were; without that, large groups and
//! groups of one would take turns. Whoever comes last leads, because it is awake already. To wake all
//! writers of a group takes half as long as a sync, so nobody is ever woken in vain.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The longest time that a group waits for writers that were there before.
const GATHERING: Duration = Duration::from_micros(500);

/// Work of several threads, done in groups.
#[derive(Debug)]
pub(super) struct Commit<Work, Outcome> {
    queue: Mutex<Queue<Work, Outcome>>,
}

/// Those who wait for the next group.
#[derive(Debug)]
struct Queue<Work, Outcome> {
    works: Vec<Work>,
    group: Arc<Group<Outcome>>,
    /// Whether the group before is still at it.
    is_led: bool,
    /// How many writers were about when the last group ended: those in it and those waiting.
    about: usize,
}

/// Where the writers of a group wait to be told something.
#[derive(Debug)]
struct Group<Outcome> {
    news: Mutex<News<Outcome>>,
    told: Condvar,
}

#[derive(Debug)]
struct News<Outcome> {
    /// What came of each work, in their order, until its writer takes it.
    outcomes: Vec<Option<Outcome>>,
    /// Whether one of the group is to see to it that somebody leads.
    gather: bool,
}

/// What a writer is to do next.
enum Turn<Outcome> {
    /// Nothing: this came of its work.
    Return(Outcome),
    /// Wait to be told.
    Listen,
    /// Wait for others for a moment, and then lead unless somebody does.
    Gather,
    /// Lead the group, which is as large as it is going to be.
    Lead,
}

impl<Work, Outcome> Default for Commit<Work, Outcome> {
    fn default() -> Self {
        let group = Arc::default();
        Commit { queue: Mutex::new(Queue { works: Vec::new(), group, is_led: false, about: 1 }) }
    }
}

impl<Outcome> Default for Group<Outcome> {
    fn default() -> Self {
        let news = News { outcomes: Vec::new(), gather: false };
        Group { news: Mutex::new(news), told: Condvar::new() }
    }
}

impl<Work, Outcome> Commit<Work, Outcome> {
    /// Has `work` done, alone or with others', and returns what came of it. `commit` gets everything
    /// that is to be done and returns one outcome each, in the same order.
    pub(super) fn run(&self, work: Work, commit: impl Fn(Vec<Work>) -> Vec<Outcome>) -> Outcome {
        let (group, place, mut turn) = self.join(work);
        loop {
            turn = match turn {
                Turn::Return(outcome) => return outcome,
                Turn::Listen => group.listen(place),
                Turn::Gather => group
                    .listen_for(place, GATHERING)
                    .unwrap_or_else(|| self.lead_unless_led(&group)),
                Turn::Lead => {
                    self.lead(&commit);
                    Turn::Listen
                }
            };
        }
    }

    /// Queues for the next group.
    fn join(&self, work: Work) -> (Arc<Group<Outcome>>, usize, Turn<Outcome>) {
        let mut queue = lock(&self.queue);
        let place = queue.works.len();
        queue.works.push(work);
        let turn = match queue.works.len() {
            _ if queue.is_led => Turn::Listen,
            all if all >= queue.about => queue.take_lead(),
            1 => Turn::Gather,
            _ => Turn::Listen,
        };
        (Arc::clone(&queue.group), place, turn)
    }

    fn lead_unless_led(&self, group: &Arc<Group<Outcome>>) -> Turn<Outcome> {
        let mut queue = lock(&self.queue);
        let is_waiting = !queue.is_led && Arc::ptr_eq(&queue.group, group);
        if is_waiting { queue.take_lead() } else { Turn::Listen }
    }

    fn lead(&self, commit: &impl Fn(Vec<Work>) -> Vec<Outcome>) {
        let mut queue = lock(&self.queue);
        let works = std::mem::take(&mut queue.works);
        let group = std::mem::take(&mut queue.group);
        drop(queue);

        let size = works.len();
        let outcomes = commit(works);

        let mut queue = lock(&self.queue);
        queue.is_led = false;
        queue.about = size + queue.works.len();
        if !queue.works.is_empty() {
            lock(&queue.group.news).gather = true;
            queue.group.told.notify_one();
        }
        drop(queue);
        lock(&group.news).outcomes = outcomes.into_iter().map(Some).collect();
        group.told.notify_all();
    }
}

impl<Work, Outcome> Queue<Work, Outcome> {
    fn take_lead(&mut self) -> Turn<Outcome> {
        self.is_led = true;
        Turn::Lead
    }
}

impl<Outcome> Group<Outcome> {
    fn listen(&self, place: usize) -> Turn<Outcome> {
        let news = self.told.wait_while(lock(&self.news), |news| !news.concern(place));
        news.unwrap_or_else(PoisonError::into_inner).take(place)
    }

    /// `None` when the time is up.
    fn listen_for(&self, place: usize, time: Duration) -> Option<Turn<Outcome>> {
        let news =
            self.told.wait_timeout_while(lock(&self.news), time, |news| !news.concern(place));
        let (mut news, _) = news.unwrap_or_else(PoisonError::into_inner);
        news.concern(place).then(|| news.take(place))
    }
}

impl<Outcome> News<Outcome> {
    fn concern(&self, place: usize) -> bool {
        self.gather || self.outcomes.get(place).is_some()
    }

    fn take(&mut self, place: usize) -> Turn<Outcome> {
        match self.outcomes.get_mut(place).and_then(Option::take) {
            Some(outcome) => Turn::Return(outcome),
            None => {
                self.gather = false;
                Turn::Gather
            }
        }
    }
}

/// A writer that panicked took its group with it; the journal itself is as good as before.
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
