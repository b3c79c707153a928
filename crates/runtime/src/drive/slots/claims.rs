//! The items that a run holds, each under the name of its slot.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use autoloop_core::queue::{Item, Status, Wanted};

use crate::drive::DriveError;
use crate::process::Interrupts;
use crate::queue::{Claimed, Queue, QueueError};
use crate::world::World;

/// Sent to an agent whose item is lost.
const SIGTERM: i32 = 15;
/// The longest and the shortest time between two renewals of a claim.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

pub(super) fn actor(run: &str, slot: u64) -> String {
    format!("{run}-s{slot}")
}

pub(super) fn is_of(name: &str, run: &str) -> bool {
    let slot = name.strip_prefix(run).and_then(|rest| rest.strip_prefix("-s"));
    slot.is_some_and(|slot| !slot.is_empty() && slot.bytes().all(|byte| byte.is_ascii_digit()))
}

pub(super) struct Claims<'a> {
    queue: &'a dyn Queue,
    world: &'a World,
    held: Mutex<BTreeMap<u64, Held>>,
    /// Ends the agent that a slot started last. Locked only after `held`, so that no two threads wait for each
    /// other.
    ends: Mutex<BTreeMap<u64, Interrupts>>,
}

/// The item of a slot. One that is lost has the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Held {
    Ours(Claimed),
    Lost(Item, String),
    Closed(Item),
}

impl Held {
    fn item(&self) -> &Item {
        match self {
            Held::Ours(claimed) => &claimed.item,
            Held::Lost(item, _) | Held::Closed(item) => item,
        }
    }

    fn claimed(&self) -> Option<&Claimed> {
        match self {
            Held::Ours(claimed) => Some(claimed),
            Held::Lost(..) | Held::Closed(_) => None,
        }
    }
}

impl<'a> Claims<'a> {
    pub(super) fn new(queue: &'a dyn Queue, world: &'a World) -> Self {
        Claims { queue, world, held: Mutex::default(), ends: Mutex::default() }
    }

    /// Claims a wanted item for each slot, as far as there are any.
    pub(super) fn take(&self, run: &str, slots: &[u64], wanted: &Wanted) -> Result<(), DriveError> {
        self.held().clear();
        for slot in slots {
            match self.queue.claim_next_of(&actor(run, *slot), wanted) {
                Ok(Some(claimed)) => {
                    let mut held = self.held();
                    // Where a claim has expired meanwhile, the slot that claims the item last has it.
                    held.retain(|_, held| held.item().id != claimed.item.id);
                    held.insert(*slot, Held::Ours(claimed));
                }
                // The other slots would find nothing either.
                Ok(None) => break,
                Err(error) => {
                    for held in std::mem::take(&mut *self.held()).into_values() {
                        // What cannot be released now is released when the run is resumed.
                        let _ = held.claimed().map(|held| self.queue.release(&held.claim, ""));
                    }
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Claims the item of a resumed slot again; a slot that just began has it.
    pub(super) fn again(&self, slot: u64, id: &str, actor: &str) -> Result<Held, DriveError> {
        if let Some(held) = self.held().get(&slot) {
            return Ok(held.clone());
        }
        let held = match self.queue.claim(id, actor) {
            Ok(claimed) => Held::Ours(claimed),
            Err(error) if error.is_refusal() => {
                let item = match self.queue.show(id) {
                    Err(error) if error.is_refusal() => Item::default(),
                    shown => shown?,
                };
                match item.status == Status::Closed {
                    true => Held::Closed(item),
                    false => Held::Lost(item, error.to_string()),
                }
            }
            Err(error) => return Err(error.into()),
        };
        self.held().insert(slot, held.clone());
        Ok(held)
    }

    pub(super) fn item(&self, slot: u64) -> Option<Item> {
        self.held().get(&slot).map(|held| held.item().clone())
    }

    /// Asks the queue whether a slot still has its item, before a step that cannot be undone.
    pub(super) fn confirm(&self, slot: u64) {
        self.renew(|held| held == slot);
    }

    /// Requests to end the agent of a slot: those to the whole run, and one when the item is lost.
    pub(super) fn ends(&self, slot: u64, of_run: &Interrupts) -> Interrupts {
        let ends = of_run.child();
        let held = self.held();
        if matches!(held.get(&slot), Some(Held::Lost(..))) {
            ends.raise(SIGTERM);
        }
        self.ends_at_work().insert(slot, ends.clone());
        ends
    }

    pub(super) fn lost(&self, slot: u64) -> Option<String> {
        match self.held().get(&slot) {
            Some(Held::Lost(_, why)) => Some(why.clone()),
            _ => None,
        }
    }

    /// Closes the item of a slot; the inner error is the reason why the queue refused it.
    pub(super) fn close(&self, slot: u64, reason: &str) -> Result<Result<(), String>, DriveError> {
        self.give_up(slot, |claimed| self.queue.close(&claimed.claim, reason))
    }

    pub(super) fn release(&self, slot: u64, reason: &str) -> Result<(), DriveError> {
        // An item that another worker has by now is not ours to release.
        self.give_up(slot, |claimed| self.queue.release(&claimed.claim, reason)).map(drop)
    }

    fn give_up(
        &self,
        slot: u64,
        how: impl FnOnce(&Claimed) -> Result<(), QueueError>,
    ) -> Result<Result<(), String>, DriveError> {
        let held = self.held().get(&slot).cloned();
        let done = match &held {
            None | Some(Held::Closed(_)) => Ok(()),
            Some(Held::Lost(_, why)) => return Ok(Err(why.clone())),
            Some(Held::Ours(claimed)) => how(claimed),
        };
        match done {
            Ok(()) => {
                self.held().remove(&slot);
                Ok(Ok(()))
            }
            Err(error) if error.is_refusal() => Ok(Err(error.to_string())),
            Err(error) => Err(error.into()),
        }
    }

    /// Renews all claims periodically, until the sender is dropped.
    pub(super) fn keep(&self, is_over: &Receiver<()>) {
        while is_over.recv_timeout(self.pause()) == Err(RecvTimeoutError::Timeout) {
            self.renew_all();
        }
    }

    /// A third of the time until the first claim expires, so that one failed renewal loses no item.
    fn pause(&self) -> Duration {
        let now = self.world.clock.now();
        let held = self.held();
        let ends = held.values().filter_map(|held| held.claimed()?.claim.until).min();
        let left = ends.map(|end| u64::try_from(end.millis() - now.millis()).unwrap_or(0));
        let third = left.map_or(LONGEST_PAUSE, |left| Duration::from_millis(left / 3));
        third.clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
    }

    pub(super) fn renew_all(&self) {
        self.renew(|_| true);
    }

    fn renew(&self, of: impl Fn(u64) -> bool) {
        let held = self.held();
        let ours = held.iter().filter(|(slot, _)| of(**slot));
        let ours = ours.filter_map(|(slot, held)| Some((*slot, held.claimed()?.clone())));
        let ours: Vec<(u64, Claimed)> = ours.collect();
        drop(held);
        for (slot, claimed) in ours {
            let renewed = self.queue.renew(&claimed.claim);
            let mut held = self.held();
            // It may have been given up meanwhile.
            let Some(Held::Ours(now)) = held.get_mut(&slot) else { continue };
            if now.claim.fence != claimed.claim.fence {
                continue;
            }
            match renewed {
                Ok(claim) => now.claim = claim,
                Err(error) if error.is_refusal() => {
                    held.insert(slot, Held::Lost(claimed.item, error.to_string()));
                    if let Some(ends) = self.ends_at_work().get(&slot) {
                        ends.raise(SIGTERM);
                    }
                }
                // There is time for another attempt.
                Err(_) => {}
            }
        }
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<u64, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ends_at_work(&self) -> MutexGuard<'_, BTreeMap<u64, Interrupts>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::sync::{Arc, mpsc};
    use std::thread;

    use autoloop_core::queue::New;
    use autoloop_core::timestamp::Timestamp;

    use super::*;
    use crate::journal::{Durability, FileJournal, FileSettings};
    use crate::queue::Builtin;
    use crate::world::{Clock, SystemClock};

    /// Shows the time that it was set to, however busy the machine is.
    #[derive(Default)]
    struct ByHand {
        millis: AtomicI64,
        real: SystemClock,
    }

    impl ByHand {
        fn advance(&self, millis: i64) {
            self.millis.fetch_add(millis, Ordering::SeqCst);
        }
    }

    impl Clock for ByHand {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(self.millis.load(Ordering::SeqCst))
        }

        fn elapsed(&self) -> Duration {
            self.real.elapsed()
        }

        fn sleep(&self, time: Duration) {
            self.real.sleep(time);
        }
    }

    #[test]
    fn names_are_those_of_one_run() {
        assert!(is_of(&actor("calm-otter", 12), "calm-otter"));
        for name in ["calm-otter-s", "calm-otter-sx", "calm-otter", "calm-otter-s1-s2", "ann"] {
            assert!(!is_of(name, "calm-otter"), "{name}");
        }
    }

    #[test]
    fn a_claim_lasts_as_long_as_the_work_and_no_longer() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(ByHand::default());
        let world = World { clock: clock.clone(), ..World::real() };
        let path = dir.path().join("journal.jsonl");
        let journal = FileJournal::new(path, &world, FileSettings::default());
        let lasting = Duration::from_millis(300);
        let queue = Builtin::new(&journal, &world, Durability::Cached, lasting);
        queue.add(&New { title: "one".into(), ..New::default() }).unwrap();
        let claims = Claims::new(&queue, &world);
        claims.take("r", &[1, 2], &Wanted::default()).unwrap();
        assert_eq!((claims.item(1).unwrap().title.as_str(), claims.item(2)), ("one", None));
        let (over, is_over) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let claims = &claims;
            scope.spawn(move || claims.keep(&is_over));
            for _ in 0..9 {
                clock.advance(100);
                let end = Timestamp::from_millis(clock.now().millis() + 300);
                let is_renewed = || matches!(claims.held().get(&1), Some(Held::Ours(one)) if one.claim.until == Some(end));
                while !is_renewed() {
                    assert!(clock.elapsed() < Duration::from_secs(60), "it is not renewed");
                    clock.sleep(Duration::from_millis(1));
                }
            }
            assert_eq!(queue.claim_next("other").unwrap(), None);
            drop(over);
        });
        assert_eq!(claims.lost(1), None);
        clock.advance(301);
        assert!(queue.claim_next("other").unwrap().is_some());
        claims.confirm(1);
        assert!(claims.lost(1).is_some());
        assert!(claims.close(1, "done").unwrap().is_err());
    }
}
