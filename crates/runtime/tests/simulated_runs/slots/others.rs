//! Other users of the same queue, both people and programs.

use autoloop_core::queue::{New, Priority};
use autoloop_core::record::{Heading, Object};
use autoloop_runtime::journal::{Append, Durability, FileJournal, Journal};
use autoloop_runtime::queue::{Builtin, Queue, QueueError};
use autoloop_runtime::world::World;
use autoloop_testkit::Dice;

use super::setup::{MOST_ITEMS, Setup};
use crate::agent::PATIENCE;
use crate::rules::one_of;
use crate::setup::JOURNAL;

/// The name of a user.
const ANN: &str = "ann";

/// Changes the queue, lets time pass, or forges a record of a run. The lock may be held, the disk
/// full, the machine crashed, and the change refused.
pub(crate) fn interfere(setup: &Setup, (run, world): (&str, &World), dice: &mut Dice) {
    if dice.chance(1, 6) {
        world.clock.sleep(setup.lasting);
        return;
    }
    if setup.forges && dice.chance(1, 4) {
        return forge(run, world, dice);
    }
    let journal = FileJournal::new(JOURNAL, world, PATIENCE);
    let queue = Builtin::new(&journal, world, Durability::Cached, setup.lasting);
    let _ = change(&queue, dice);
}

fn change(queue: &Builtin<'_>, dice: &mut Dice) -> Result<(), QueueError> {
    let (ids, own) = queue.look(|tasks, _| {
        let ids: Vec<String> = tasks.iter().map(|task| task.id.clone()).collect();
        let claims = tasks.iter().filter_map(|task| task.claim.clone());
        (ids, claims.filter(|claim| claim.owner == ANN).collect::<Vec<_>>())
    })?;
    let may_add = ids.len() < MOST_ITEMS;
    let mut any = || if ids.is_empty() { String::new() } else { dice.pick(&ids).clone() };
    let (id, after) = (any(), any());
    match (dice.below(9), own.first()) {
        (0, _) if may_add => {
            let priority = Priority::new(dice.below(5)).unwrap_or_default();
            queue.add(&New { title: "more".to_owned(), priority, ..New::default() }).map(drop)
        }
        (1 | 2, Some(claim)) => queue.close(claim, "done by hand"),
        (3, Some(claim)) => queue.release(claim, "no time"),
        (0..4, _) => queue.claim_next(ANN).map(drop),
        (4, _) => queue.claim(&id, ANN).map(drop),
        (5, _) => queue.step(|tasks, now| tasks.close_as(&id, ANN, "by hand", now)),
        (6, _) => queue.release_task(&id, None, ANN, "give it back"),
        _ => queue.step(|tasks, now| tasks.link(&id, &after, now)),
    }
}

/// Forges a record of a run.
fn forge(run: &str, world: &World, dice: &mut Dice) {
    let heading = Heading { run: run.into(), iteration: "1".into(), now: world.clock.now() };
    let topic = one_of(dice, &["slot.run.finish", "slot.finish", "slot.start", "slot.run.resume"]);
    let record = heading.system(topic, Object::new());
    let journal = FileJournal::new(JOURNAL, world, PATIENCE);
    let _ = journal.append(&[record.into()], Append::default());
}
