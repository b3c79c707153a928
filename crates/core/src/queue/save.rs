//! The tasks of the queue, as bytes that can be kept.

use super::{Claim, Priority, Task, Tasks};
use crate::stamp::Stamp;
use crate::view::bytes::{Taker, put_number, put_text};

pub(super) fn save(tasks: &Tasks, out: &mut Vec<u8>) {
    put_number(tasks.fence, out);
    put_number(tasks.all.len() as u64, out);
    for task in &tasks.all {
        for text in [&task.id, &task.title, &task.description, &task.acceptance, &task.reason] {
            put_text(text, out);
        }
        put_number(task.priority.number(), out);
        put_number(task.after.len() as u64, out);
        task.after.iter().for_each(|after| put_text(after, out));
        let (by, claim, closed_under) = (&task.by, &task.claim, &task.closed_under);
        let flags = u64::from(task.is_closed)
            | u64::from(by.is_some()) << 1
            | u64::from(claim.is_some()) << 2
            | u64::from(closed_under.is_some()) << 3;
        put_number(flags, out);
        by.iter().for_each(|by| put_text(by, out));
        for claim in claim.iter().chain(closed_under) {
            put_text(&claim.owner, out);
            put_number(claim.fence, out);
            put_text(&claim.until.map(|until| until.to_string()).unwrap_or_default(), out);
        }
    }
}

pub(super) fn load(taker: &mut Taker<'_>) -> Option<Tasks> {
    let mut tasks = Tasks { fence: taker.number()?, ..Tasks::default() };
    for place in 0..taker.count()? {
        let task = load_task(taker)?;
        let is_new = tasks.places.insert(task.id.clone(), place).is_none();
        is_new.then_some(())?;
        tasks.all.push(task);
    }
    Some(tasks)
}

fn load_task(taker: &mut Taker<'_>) -> Option<Task> {
    let mut text = || taker.text().map(str::to_owned);
    let (id, title, description, acceptance, reason) =
        (text()?, text()?, text()?, text()?, text()?);
    let priority = Priority::new(taker.number()?)?;
    let count = taker.count()?;
    let after = (0..count).map(|_| taker.text().map(str::to_owned)).collect::<Option<_>>()?;
    let flags = taker.number()?;
    let by = match flags & 2 {
        0 => None,
        _ => Some(taker.text()?.to_owned()),
    };
    let claim = match flags & 4 {
        0 => None,
        _ => Some(load_claim(&id, taker)?),
    };
    let closed_under = match flags & 8 {
        0 => None,
        _ => Some(load_claim(&id, taker)?),
    };
    Some(Task {
        id,
        title,
        description,
        acceptance,
        priority,
        after,
        by,
        claim,
        is_closed: flags & 1 == 1,
        closed_under,
        reason,
    })
}

fn load_claim(item: &str, taker: &mut Taker<'_>) -> Option<Claim> {
    let (owner, fence) = (taker.text()?.to_owned(), taker.number()?);
    let until = match taker.text()? {
        "" => None,
        until => Some(until.parse::<Stamp>().ok()?),
    };
    Some(Claim { item: item.to_owned(), owner, until, fence })
}
