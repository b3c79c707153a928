//! The built-in queue on a simulated disk: other processes act between any two calls, claims
//! expire, and the machine crashes at any call.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use autoloop_core::queue::{Claim, New, Refusal};
use autoloop_runtime::failure::Failure;
use autoloop_runtime::journal::{Durability, FileJournal, FileSettings, Journal, Position};
use autoloop_runtime::queue::{BeadsError, Builtin, Queue, QueueError};
use autoloop_runtime::world::World;
use autoloop_testkit::{Dice, Faults, Seed, SimDisk, SimWorld, simulate};

const JOURNAL: &str = "/project/.autoloop/journal.jsonl";
const LASTING: Duration = Duration::from_secs(60);

fn journal(world: &World) -> FileJournal {
    FileJournal::new(JOURNAL, world, FileSettings::default())
}

fn queue<'a>(journal: &'a FileJournal, world: &World) -> Builtin<'a> {
    Builtin::new(journal, world, Durability::Synced, LASTING)
}

fn titled(title: &str) -> New {
    New { title: title.to_owned(), ..New::default() }
}

/// A field of all records of one sort, in order.
fn all(world: &World, topic: &str, field: &str) -> Vec<String> {
    let mut found = Vec::new();
    journal(world)
        .read(Position::START, &mut |line| {
            line.records(|record| {
                if record.topic() == topic {
                    found.push(record.field(field).unwrap().into_owned());
                }
            });
            ControlFlow::Continue(())
        })
        .unwrap();
    found
}

/// How often each task was closed, by the records.
fn closed(world: &World) -> BTreeMap<String, usize> {
    all(world, "queue.task.closed", "task").into_iter().fold(BTreeMap::new(), |mut closed, task| {
        *closed.entry(task).or_default() += 1;
        closed
    })
}

#[test]
fn a_claim_expires_by_the_clock_and_its_owner_gets_an_error() {
    let sim = SimWorld::new(Seed(1));
    let world = sim.world();
    let (ours, theirs) = (journal(&world), journal(&world));
    let (ann, bob) = (queue(&ours, &world), queue(&theirs, &world));
    ann.add(&titled("a")).unwrap();
    let late = ann.claim_next("ann").unwrap().unwrap();
    assert_eq!(bob.claim_next("bob").unwrap(), None);
    assert!(matches!(bob.claim("t-1", "bob"), Err(QueueError::Refused(Refusal::Held { .. }))));
    sim.clock.advance(LASTING - Duration::from_millis(1));
    let late = ann.renew(&late.claim).unwrap();
    sim.clock.advance(LASTING - Duration::from_millis(1));
    assert_eq!(bob.claim_next("bob").unwrap(), None, "it was renewed");
    sim.clock.advance(Duration::from_millis(1));
    let taken = bob.claim_next("bob").unwrap().unwrap();
    for late in [ann.renew(&late).map(|_| ()), ann.close(&late, ""), ann.release(&late, "")] {
        assert!(matches!(late, Err(QueueError::Refused(Refusal::Lost { .. }))), "{late:?}");
    }
    bob.close(&taken.claim, "").unwrap();
    assert!(ann.progress().unwrap().is_done());
}

#[test]
fn a_task_closed_by_another_after_a_claim_expired_stays_closed() {
    let sim = SimWorld::new(Seed(1));
    let world = sim.world();
    let journal = journal(&world);
    let queue = queue(&journal, &world);
    queue.add(&titled("a")).unwrap();
    let late = queue.claim_next("run-s1").unwrap().unwrap().claim;
    sim.clock.advance(LASTING);
    queue.step(|tasks, now| tasks.close_as("t-1", "ann", "by hand", now)).unwrap();
    for refused in [
        queue.claim("t-1", "run-s1").map(drop),
        queue.renew(&late).map(drop),
        queue.release(&late, "it did not pass"),
        queue.close(&late, ""),
    ] {
        assert!(matches!(refused, Err(QueueError::Refused(Refusal::Closed { .. }))), "{refused:?}");
    }
    assert!(queue.progress().unwrap().is_done());
}

/// The renewal thread uses the expiry of claims to know when to renew next.
#[test]
fn a_claim_under_which_a_task_was_closed_is_kept_like_any_other() {
    let sim = SimWorld::new(Seed(1));
    let world = sim.world();
    let journal = journal(&world);
    let queue = queue(&journal, &world);
    queue.add(&titled("a")).unwrap();
    let claim = queue.claim_next("run-s1").unwrap().unwrap().claim;
    queue.step(|tasks, now| tasks.close_as("t-1", "run-s1", "says the agent", now)).unwrap();
    sim.clock.advance(2 * LASTING);
    let kept = queue.renew(&claim).unwrap();
    assert!(kept.until > Some(world.clock.now()), "{kept:?}");
    queue.release(&kept, "it did not pass").unwrap();
    assert_eq!(queue.progress().unwrap().ready, 1);
}

#[test]
fn claims_of_dead_workers_are_released() {
    let sim = SimWorld::new(Seed(1));
    let world = sim.world();
    let journal = journal(&world);
    let queue = queue(&journal, &world);
    for title in ["a", "b", "c"] {
        queue.add(&titled(title)).unwrap();
    }
    for actor in ["old-s1", "new-s1", "old-s2"] {
        queue.claim_next(actor).unwrap().unwrap();
    }
    let dead = |actor: &str| actor.starts_with("old-s");
    assert_eq!(queue.release_all(&dead, "its process is dead").unwrap(), ["t-1", "t-3"]);
    assert_eq!(queue.release_all(&dead, "again").unwrap(), [""; 0]);
    assert_eq!(queue.progress().unwrap().ready, 2);
    assert_eq!(queue.show("t-2").unwrap().owner.as_deref(), Some("new-s1"));
}

#[test]
fn a_release_without_a_note_keeps_the_earlier_note() {
    let sim = SimWorld::new(Seed(1));
    let world = sim.world();
    let journal = journal(&world);
    let queue = queue(&journal, &world);
    let id = queue.add(&titled("a")).unwrap();
    let said = || queue.look(|tasks, _| tasks.get(&id).unwrap().reason.clone()).unwrap();
    for (reason, last) in [("", ""), ("it is red", "it is red"), ("", "it is red")] {
        let taken = queue.claim_next("ann").unwrap().unwrap();
        queue.release(&taken.claim, reason).unwrap();
        assert_eq!(said(), last);
    }
}

#[test]
fn rare_failures_are_reported_too() {
    let told = |error: QueueError| {
        let complaint = Failure::from(error);
        format!("{:?}: {}\n{}", complaint.kind, complaint.message, complaint.hints.join("\n"))
    };
    let busy = QueueError::Busy { attempts: 900, waited: Duration::from_secs(60) };
    insta::assert_snapshot!(told(busy), @"
    Failed: other processes appended to the journal during all 900 attempts to change the queue, in 1m
    try again later
    ");
    let unknown = BeadsError::Unknown { id: "bd-1".to_owned() };
    insta::assert_snapshot!(told(unknown.into()), @"Failed: the issue tracker has no issue 'bd-1'");
}

/// Another process that acts between two calls of ours.
struct Other {
    dice: Dice,
    claims: Vec<Claim>,
}

impl Other {
    fn act(&mut self, world: &World) {
        // While we hold the lock it times out, which is fine.
        let settings = FileSettings { lock_timeout: Duration::from_millis(100) };
        let journal = FileJournal::new(JOURNAL, world, settings);
        let queue = queue(&journal, world);
        match self.dice.below(4) {
            0 => drop(queue.add(&titled("theirs"))),
            1 | 2 => self.claims.extend(queue.claim_next("other").ok().flatten().map(|c| c.claim)),
            _ => {
                if let Some(claim) = self.claims.pop() {
                    let _ = queue.close(&claim, "by the other");
                }
            }
        }
    }
}

#[test]
fn others_may_come_between_any_two_calls() {
    simulate("queue others", 40, |seed, dice| {
        let sim = SimWorld::new(seed);
        let world = sim.world();
        let journal = journal(&world);
        let queue = queue(&journal, &world);
        for _ in 0..4 {
            queue.add(&titled("ours")).unwrap();
        }
        let other = Arc::new(Mutex::new(Other { dice: dice.fork(), claims: Vec::new() }));
        let theirs = SimWorld { disk: sim.disk.as_process(2), ..sim.clone() }.world();
        let (mut chance, acting) = (dice.fork(), Arc::clone(&other));
        sim.disk.interleave(move |_, _| {
            if chance.chance(1, 12) {
                acting.lock().unwrap().act(&theirs);
            }
        });
        let mut done = 0;
        for _ in 0..12 {
            let Ok(Some(mine)) = queue.claim_next("us") else { continue };
            match queue.close(&mine.claim, "by us") {
                Ok(()) => done += 1,
                Err(error) => assert!(error.is_refusal(), "{error}"),
            }
        }
        sim.disk.interleave(|_, _| {});
        let fences = all(&world, "queue.task.claimed", "fence");
        let counted: Vec<String> = (1..=fences.len()).map(|fence| fence.to_string()).collect();
        assert_eq!(fences, counted, "every claim that was written counts");
        let closed = closed(&world);
        assert!(closed.values().all(|times| *times == 1), "{closed:?}");
        assert_eq!(closed.len(), queue.progress().unwrap().done);
        assert!(done > 0 && closed.len() >= done);
    });
}

/// What was acknowledged before the crash.
#[derive(Default)]
struct Told {
    added: Vec<String>,
    claimed: Option<Claim>,
    closed: Vec<String>,
}

/// Adds some tasks and closes them, until all are closed or the machine crashes.
fn work(world: &World, told: &mut Told) -> Result<(), QueueError> {
    let journal = journal(world);
    let queue = queue(&journal, world);
    for title in ["a", "b", "c"] {
        told.added.push(queue.add(&titled(title))?);
    }
    while let Some(mine) = queue.claim_next("us-s1")? {
        told.claimed = Some(mine.claim.clone());
        queue.close(&mine.claim, "done")?;
        told.claimed = None;
        told.closed.push(mine.item.id);
    }
    Ok(())
}

#[test]
fn acknowledged_changes_survive_a_power_cut_at_any_call() {
    let calls = {
        let sim = SimWorld::new(Seed(1));
        work(&sim.world(), &mut Told::default()).unwrap();
        sim.disk.calls().total()
    };
    for call in 1..=calls {
        let mut sim = SimWorld::new(Seed(1));
        sim.disk.set_faults(Faults::none().die_at_call(call));
        let mut told = Told::default();
        let died = work(&sim.world(), &mut told).is_err();
        assert!(died || call == calls, "call {call} of {calls}");
        let disk: SimDisk = sim.disk.crash(&mut Seed(call).dice());
        sim = SimWorld { disk, ..sim };
        go_on(&sim.world(), &told, call);
    }
}

/// After the crash: no acknowledged change is lost, and the rest can be done.
fn go_on(world: &World, told: &Told, call: u64) {
    let journal = journal(world);
    let queue = queue(&journal, world);
    for id in &told.added {
        queue.show(id).unwrap_or_else(|error| panic!("call {call}: {error}"));
    }
    let before = closed(world);
    for id in &told.closed {
        assert_eq!(before.get(id), Some(&1), "call {call}: {id} was closed");
    }
    if let Some(claim) = &told.claimed
        && !before.contains_key(&claim.item)
    {
        let again = queue.claim(&claim.item, "us-s1").unwrap();
        assert!(again.claim.fence > claim.fence, "call {call}: its dead self is told apart");
        queue.release(&again.claim, "it begins anew").unwrap();
    }
    queue.release_all(&|actor| actor.starts_with("us-s"), "its process is dead").unwrap();
    while let Some(mine) = queue.claim_next("us-s1").unwrap() {
        queue.close(&mine.claim, "done").unwrap();
    }
    let after = closed(world);
    assert!(after.values().all(|times| *times == 1), "call {call}: {after:?}");
    assert!(queue.progress().unwrap().is_done());
}
