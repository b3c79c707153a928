//! The built-in queue: claims in the journal.
//!
//! A change folds the journal, decides, and appends the decision only if nothing was appended in between; otherwise it
//! is decided again. So of any number of processes that want one item, one gets it. The threads of a process take
//! turns instead of racing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use autoloop_core::queue::{Claim, Item, New, Progress, Refusal, Status, Task, Tasks, Wanted};
use autoloop_core::record::Record;
use autoloop_core::timestamp::Timestamp;

use super::{Claimed, Queue, QueueError};
use crate::journal::sidecar::Kept;
use crate::journal::{Append, AppendError, Durability, Journal, NewRecord, Position};
use crate::world::{Clock, Entropy, World};

/// How long a change is tried. In each round one writer succeeds, so the queue makes progress however many race for it;
/// this is for a journal that other processes fill without a pause.
const PATIENCE: Duration = Duration::from_secs(60);
/// Minimum number of attempts: the time may have passed while this process was stopped.
const FEWEST_ATTEMPTS: u64 = 5;
/// Maximum pause after the first failed attempt; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_micros(200);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

pub struct Builtin<'a> {
    journal: &'a dyn Journal,
    durability: Durability,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    /// How long a claim lasts unless it is renewed.
    lasting: Duration,
    folded: Mutex<Folded>,
}

#[derive(Default)]
struct Folded {
    tasks: Kept<Tasks>,
    origin: Origin,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Origin {
    /// The records of the journal. Changes are decided only from those.
    #[default]
    Journal,
    /// A kept view, and the records since: good enough to be shown.
    Sidecar,
}

impl<'a> Builtin<'a> {
    pub const USUAL: Duration = Duration::from_secs(15 * 60);

    pub fn new(
        journal: &'a dyn Journal,
        world: &World,
        durability: Durability,
        lasting: Duration,
    ) -> Self {
        Builtin {
            journal,
            durability,
            clock: Arc::clone(&world.clock),
            entropy: Arc::clone(&world.entropy),
            lasting,
            folded: Mutex::default(),
        }
    }

    /// Shows all tasks at the current time.
    pub fn look<T>(&self, look: impl FnOnce(&Tasks, Timestamp) -> T) -> Result<T, QueueError> {
        let mut folded = self.folded.lock().unwrap_or_else(PoisonError::into_inner);
        self.read_on(&mut folded, Origin::Sidecar)?;
        Ok(look(&folded.tasks.view, self.clock.now()))
    }

    pub fn add(&self, new: &New) -> Result<String, QueueError> {
        self.change(|tasks, now| tasks.add(new.clone(), now).map(Some))
            .map(Option::unwrap_or_default)
    }

    /// Appends one record that is decided from all tasks.
    pub fn step(
        &self,
        mut decide: impl FnMut(&Tasks, Timestamp) -> Result<Record, Refusal>,
    ) -> Result<(), QueueError> {
        self.change(|tasks, now| Ok(Some((decide(tasks, now)?, ())))).map(|_| ())
    }

    /// Releases the claim of `owner` on a task, or of any owner without one, in the name of `by`.
    pub fn release_task(
        &self,
        id: &str,
        owner: Option<&str>,
        by: &str,
        reason: &str,
    ) -> Result<(), QueueError> {
        self.step(|tasks, now| tasks.release(tasks.claim_to_release(id, owner)?, by, reason, now))
    }

    /// Reads, decides and appends, until no other writer is faster. Appends nothing where nothing is decided.
    fn change<T>(
        &self,
        mut decide: impl FnMut(&Tasks, Timestamp) -> Result<Option<(Record, T)>, Refusal>,
    ) -> Result<Option<T>, QueueError> {
        let mut folded = self.folded.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = self.clock.elapsed();
        let mut attempts = 0;
        loop {
            self.read_on(&mut folded, Origin::Journal)?;
            let now = self.clock.now();
            let Some((record, told)) = decide(&folded.tasks.view, now)? else { return Ok(None) };
            let records = [NewRecord::from(record)];
            let how = Append { expect: Some(folded.tasks.position), durability: self.durability };
            match self.journal.append(&records, how) {
                Ok(_) => return Ok(Some(told)),
                Err(AppendError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            attempts += 1;
            let waited = self.clock.elapsed().saturating_sub(begin);
            if waited >= PATIENCE && attempts >= FEWEST_ATTEMPTS {
                return Err(QueueError::Busy { attempts, waited });
            }
            self.clock.sleep(self.pause(attempts));
        }
    }

    /// Reads what was appended since. If reading fails, the next call starts with an empty queue.
    fn read_on(&self, folded: &mut Folded, wanted: Origin) -> Result<(), QueueError> {
        let Folded { tasks, origin } = std::mem::take(folded);
        let (tasks, origin) = match (tasks.position, origin, wanted) {
            (Position::START, _, Origin::Sidecar) => (self.journal.fold()?, wanted),
            (_, Origin::Sidecar, Origin::Journal) => {
                (self.journal.fold_on(Kept::default())?, wanted)
            }
            (_, origin, _) => (self.journal.fold_on(tasks)?, origin),
        };
        *folded = Folded { tasks, origin };
        Ok(())
    }

    /// A random pause, so that processes that collided do not collide again.
    fn pause(&self, attempts: u64) -> Duration {
        let doublings = u32::try_from(attempts.min(8)).unwrap_or(8);
        let longest = (FIRST_PAUSE * 2_u32.pow(doublings)).min(LONGEST_PAUSE);
        let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX).max(1);
        Duration::from_micros(self.entropy.number() % micros)
    }

    /// Claims the next wanted task for an actor.
    pub fn claim_next_for(
        &self,
        actor: &str,
        lasting: Duration,
        wanted: &Wanted,
    ) -> Result<Option<Claimed>, QueueError> {
        self.change(|tasks, now| {
            let Some(task) = tasks.next(now, wanted) else { return Ok(None) };
            let (change, claim) = tasks.claim(&task.id, actor, now, end(now, lasting))?;
            let item = owned(tasks, task, actor, now);
            Ok(Some((change, Claimed { item, claim })))
        })
    }

    pub fn claim_for(
        &self,
        id: &str,
        actor: &str,
        lasting: Duration,
    ) -> Result<Claimed, QueueError> {
        let mut closed = None;
        let taken = self.change(|tasks, now| {
            let item = |task| owned(tasks, task, actor, now);
            // The process of the actor ended after its agent had closed the task.
            let task = tasks.known(id)?;
            if let Some(claim) = task.closed_under.clone().filter(|claim| claim.owner == actor) {
                closed = Some(Claimed { item: item(task), claim });
                return Ok(None);
            }
            let (change, claim) = tasks.claim(id, actor, now, end(now, lasting))?;
            Ok(Some((change, Claimed { item: item(task), claim })))
        })?;
        taken.or(closed).ok_or_else(|| Refusal::Unknown { id: id.to_owned() }.into())
    }
}

fn end(now: Timestamp, lasting: Duration) -> Timestamp {
    let millis = i64::try_from(lasting.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(now.millis().saturating_add(millis))
}

fn owned(tasks: &Tasks, task: &Task, actor: &str, now: Timestamp) -> Item {
    Item { owner: Some(actor.to_owned()), status: Status::InWork, ..tasks.item(task, now) }
}

impl Queue for Builtin<'_> {
    fn claim_next_of(&self, actor: &str, wanted: &Wanted) -> Result<Option<Claimed>, QueueError> {
        self.claim_next_for(actor, self.lasting, wanted)
    }

    fn mark(&self) -> Result<String, QueueError> {
        self.look(|tasks, _| tasks.mark())
    }

    fn added_since(&self, mark: &str) -> Result<Vec<String>, QueueError> {
        self.look(|tasks, now| tasks.added_since(mark, now).map(|task| task.id.clone()).collect())
    }

    fn claim(&self, id: &str, actor: &str) -> Result<Claimed, QueueError> {
        self.claim_for(id, actor, self.lasting)
    }

    fn renew(&self, claim: &Claim) -> Result<Claim, QueueError> {
        let renewed = self.change(|tasks, now| match tasks.is_closed_under(claim) {
            true => Ok(None),
            false => tasks.renew(claim, now, end(now, self.lasting)).map(Some),
        })?;
        // A closed task cannot be claimed, so nothing has to be written.
        let kept = || Claim { until: Some(end(self.clock.now(), self.lasting)), ..claim.clone() };
        Ok(renewed.unwrap_or_else(kept))
    }

    fn release(&self, claim: &Claim, reason: &str) -> Result<(), QueueError> {
        self.step(|tasks, now| match tasks.is_closed_under(claim) {
            true => tasks.reopen(&claim.item, &claim.owner, reason, now),
            false => tasks.release(claim, &claim.owner, reason, now),
        })
    }

    fn close(&self, claim: &Claim, reason: &str) -> Result<(), QueueError> {
        let closed = self.change(|tasks, now| match tasks.is_closed_under(claim) {
            true => Ok(None),
            false => Ok(Some((tasks.close(claim, reason, now)?, ()))),
        });
        closed.map(drop)
    }

    fn show(&self, id: &str) -> Result<Item, QueueError> {
        let item = self.look(|tasks, now| tasks.known(id).map(|task| tasks.item(task, now)))?;
        Ok(item?)
    }

    fn progress(&self) -> Result<Progress, QueueError> {
        self.look(Tasks::progress)
    }

    fn release_all(
        &self,
        is_dead: &dyn Fn(&str) -> bool,
        reason: &str,
    ) -> Result<Vec<String>, QueueError> {
        let mut released = Vec::new();
        let next = |tasks: &Tasks| {
            let mut claims = tasks.iter().filter_map(|task| task.claim.clone());
            claims.find(|claim| is_dead(&claim.owner))
        };
        while let Some(id) = self.change(|tasks, now| {
            let Some(claim) = next(tasks) else { return Ok(None) };
            Ok(Some((tasks.release(&claim, &claim.owner, reason, now)?, claim.item)))
        })? {
            released.push(id);
        }
        Ok(released)
    }
}
