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

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The longest time that a group waits for writers that were there before.
const GATHERING: Duration = Duration::from_micros(500);
/// How often a waiting writer offers the processor to others before it goes to sleep. A crowd of
/// writers passes the time of a quick sync with it, and none of them has to be woken; where few wait,
/// or the disk is slow, it is over in some microseconds.
const OFFERS: usize = 64;

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
    /// Set when there is news, for those who have not gone to sleep yet.
    has_news: AtomicBool,
}

#[derive(Debug)]
struct News<Outcome> {
    /// What came of each work, in their order, until its writer takes it.
    outcomes: Vec<Option<Outcome>>,
    /// Whether one of the group is to see to it that somebody leads.
    gather: bool,
    /// Whether whoever led the group is done with it, well or badly.
    is_over: bool,
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
    /// Give up: whoever led the group came to grief, and nobody knows what became of the work.
    Mourn,
}

impl<Work, Outcome> Default for Commit<Work, Outcome> {
    fn default() -> Self {
        let group = Arc::default();
        Commit { queue: Mutex::new(Queue { works: Vec::new(), group, is_led: false, about: 1 }) }
    }
}

impl<Outcome> Default for Group<Outcome> {
    fn default() -> Self {
        let news = News { outcomes: Vec::new(), gather: false, is_over: false };
        Group { news: Mutex::new(news), told: Condvar::new(), has_news: AtomicBool::new(false) }
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
                Turn::Mourn => panic!("the thread that wrote for this one panicked"),
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

        let mut led = Led { commit: self, group, size: works.len(), outcomes: Vec::new() };
        led.outcomes = commit(works);
    }
}

/// A group under way. Its end is told when this is dropped, so also when its leader panics.
struct Led<'a, Work, Outcome> {
    commit: &'a Commit<Work, Outcome>,
    group: Arc<Group<Outcome>>,
    size: usize,
    outcomes: Vec<Outcome>,
}

impl<Work, Outcome> Drop for Led<'_, Work, Outcome> {
    fn drop(&mut self) {
        let mut queue = lock(&self.commit.queue);
        queue.is_led = false;
        queue.about = self.size + queue.works.len();
        if !queue.works.is_empty() {
            lock(&queue.group.news).gather = true;
            queue.group.has_news.store(true, Ordering::Release);
            queue.group.told.notify_one();
        }
        drop(queue);
        let mut news = lock(&self.group.news);
        news.outcomes = self.outcomes.drain(..).map(Some).collect();
        news.is_over = true;
        drop(news);
        self.group.has_news.store(true, Ordering::Release);
        self.group.told.notify_all();
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
        for _ in 0..OFFERS {
            if self.has_news.load(Ordering::Acquire) {
                break;
            }
            std::thread::yield_now();
        }
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
        self.gather || self.is_over || self.outcomes.get(place).is_some()
    }

    fn take(&mut self, place: usize) -> Turn<Outcome> {
        match self.outcomes.get_mut(place).and_then(Option::take) {
            Some(outcome) => Turn::Return(outcome),
            None if self.is_over => Turn::Mourn,
            None => {
                self.gather = false;
                Turn::Gather
            }
        }
    }
}

/// Nothing is left half done under these locks, so a panic elsewhere does not matter here.
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

    /// Nobody waits for ever for a leader that panicked: its group panics with it, and those who come
    /// later are served.
    #[test]
    fn a_panic_takes_its_group_along_and_nobody_else() {
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
