//! A second model of the queue: which worker holds which item, and which records are valid changes.

use autoloop_core::record::Glance;
use autoloop_core::timestamp::Timestamp;

/// How far the number of a claim may jump.
const LARGEST_LEAP: u64 = 1_000;

/// Every item, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    items: Vec<Item>,
    fence: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Item {
    pub(crate) id: String,
    pub(crate) title: String,
    priority: u64,
    after: Vec<String>,
    claim: Option<Claim>,
    /// The worker that closed it, if any.
    pub(crate) closed_by: Option<String>,
}

#[derive(Clone, Debug)]
struct Claim {
    owner: String,
    until: Timestamp,
    fence: u64,
}

/// What a record means for the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Nothing.
    Nothing,
    /// It would be a change, but it breaks the rules and has no effect.
    Void,
    Step(Step),
}

/// A change of the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) what: What,
    pub(crate) item: String,
    /// The worker that claims, renews, releases or closes.
    pub(crate) by: String,
    /// The items that could have been claimed before it, for a claim.
    pub(crate) ahead: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Added,
    Claimed,
    Renewed,
    Released,
    Closed,
    Linked,
}

impl Queue {
    pub(crate) fn get(&self, id: &str) -> Option<&Item> {
        self.items.iter().find(|item| item.id == id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Item> {
        self.items.iter()
    }

    /// The worker that claimed an item last and has not released it.
    pub(crate) fn owner(&self, id: &str) -> Option<&str> {
        self.get(id)?.claim.as_ref().map(|claim| claim.owner.as_str())
    }

    fn is_ready(&self, item: &Item, now: Timestamp) -> bool {
        let is_held = item.claim.as_ref().is_some_and(|claim| now < claim.until);
        item.closed_by.is_none() && !is_held && self.waits_for_nothing(item)
    }

    fn waits_for_nothing(&self, item: &Item) -> bool {
        item.after.iter().all(|id| self.get(id).is_none_or(|item| item.closed_by.is_some()))
    }

    /// The items that can be claimed, in the order in which they were added.
    pub(crate) fn ready(&self, now: Timestamp) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(move |item| self.is_ready(item, now))
    }

    /// Applies a record of any author.
    pub(crate) fn hear(&mut self, record: &Glance<'_>) -> Heard {
        let topic = record.topic();
        let Some(verb) = topic.strip_prefix("queue.task.") else { return Heard::Nothing };
        if record.has_payload() || !record.run().is_empty() {
            return Heard::Nothing;
        }
        let field = |name: &str| record.field(name).unwrap_or_default().into_owned();
        let now: Timestamp = record.ts().unwrap_or_default().parse().unwrap();
        let id = field("task");
        let ahead = self.ahead_of(&id, now);
        match self.step(verb, &id, (&field, now)) {
            Some((what, by)) => Heard::Step(Step { what, item: id, by, ahead }),
            None => Heard::Void,
        }
    }

    /// The items that can be taken and are to be taken before one.
    fn ahead_of(&self, id: &str, now: Timestamp) -> Vec<String> {
        let mut ready: Vec<&Item> = self.ready(now).collect();
        ready.sort_by_key(|item| item.priority);
        ready.iter().map(|item| item.id.clone()).take_while(|ahead| ahead != id).collect()
    }

    fn step(
        &mut self,
        verb: &str,
        id: &str,
        (field, now): (&dyn Fn(&str) -> String, Timestamp),
    ) -> Option<(What, String)> {
        let fence: Option<u64> = field("fence").parse().ok();
        if verb == "added" {
            let after: Vec<String> =
                field("after").split(',').filter(|id| !id.is_empty()).map(str::to_owned).collect();
            let is_known = |id: &String| self.get(id).is_some();
            let is_good = self.get(id).is_none() && after.iter().all(is_known);
            let item = Item {
                id: id.to_owned(),
                title: field("title"),
                priority: field("priority").parse().ok()?,
                after,
                ..Item::default()
            };
            return is_good.then(|| {
                self.items.push(item);
                (What::Added, field("by"))
            });
        }
        let place = self.items.iter().position(|item| item.id == id)?;
        let item = &self.items[place];
        if item.closed_by.is_some() {
            return (verb == "reopened").then(|| {
                self.items[place].closed_by = None;
                (What::Released, field("by"))
            });
        }
        let holds = item.claim.as_ref().map(|claim| claim.fence) == fence;
        Some(match verb {
            "claimed" => {
                let (owner, until) = (field("owner"), field("until").parse().ok()?);
                let fence = fence?;
                // Its owner may claim it again, whatever it depends on by now.
                let is_free = match &item.claim {
                    Some(claim) if claim.owner == owner => true,
                    Some(claim) if now < claim.until => false,
                    _ => self.waits_for_nothing(item),
                };
                let is_counted = fence > self.fence && fence - self.fence <= LARGEST_LEAP;
                if !(is_free && is_counted) {
                    return None;
                }
                self.fence = fence;
                self.items[place].claim = Some(Claim { owner: owner.clone(), until, fence });
                (What::Claimed, owner)
            }
            "renewed" if holds => {
                let claim = self.items[place].claim.as_mut()?;
                claim.until = field("until").parse().ok()?;
                (What::Renewed, claim.owner.clone())
            }
            "released" if holds && item.claim.is_some() => {
                self.items[place].claim = None;
                (What::Released, field("by"))
            }
            "closed" if holds => {
                self.items[place].claim = None;
                self.items[place].closed_by = Some(field("by"));
                (What::Closed, field("by"))
            }
            "linked" => {
                let after = field("after");
                let is_good = self.get(&after).is_some() && !self.leads_to(&after, id);
                if !is_good || item.after.contains(&after) {
                    return None;
                }
                self.items[place].after.push(after);
                (What::Linked, String::new())
            }
            _ => return None,
        })
    }

    /// Whether an item waits for another, or is it.
    fn leads_to(&self, from: &str, to: &str) -> bool {
        let waits = || self.get(from).into_iter().flat_map(|item| &item.after);
        from == to || waits().any(|after| self.leads_to(after, to))
    }
}
