//! The rules of one run of slots: every record is allowed where it is, and is true.

use std::collections::BTreeMap;

use autoloop_core::record::Glance;

use super::part::Turn;
use super::queue::{Queue, What};
use super::said::Heard;
use super::setup::{Review, Rules, Setup};
use super::slot_model::{Due, SlotModel};
use crate::terms::Known;

/// The state of a run.
pub(crate) struct RunModel {
    setup: Setup,
    run: String,
    pub(crate) slot_models: Vec<SlotModel>,
    /// The items claimed for slots that have not started, and whether another process changed them.
    taken: BTreeMap<u64, (String, bool)>,
    /// How many items the queue held when the run started.
    held: u64,
    /// Whether its prompts are recorded.
    has_prompts: bool,
    /// The last iteration whose end is recorded.
    finished: u64,
    /// How it ended: the reason, and how many items were taken and passed.
    pub(crate) finish: Option<(String, u64, u64)>,
    /// Whether its harness died and the next one has to record a resume.
    is_returning: bool,
    /// Whether an iteration started with fewer slots than planned.
    pub(crate) was_halved: bool,
    /// How often it was resumed, and how often an item was lost.
    pub(crate) resumed: u64,
    pub(crate) lost: u64,
}

/// The number of the slot that an actor of a run is.
fn number(run: &str, actor: &str) -> u64 {
    let rest = actor.strip_prefix(run).and_then(|rest| rest.strip_prefix("-s"));
    rest.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{actor} is no slot"))
}

impl RunModel {
    pub(crate) fn begins(setup: &Setup, record: &Glance<'_>) -> RunModel {
        let Rules { slots, iterations, review, fixes, marker, .. } = setup.rules;
        let said = |name: &str| record.field(name).unwrap_or_default().into_owned();
        assert_eq!(said("iterations"), iterations.to_string());
        assert_eq!(said("parallel_agents"), slots.to_string());
        assert_eq!(said("review"), (review == Review::On).to_string());
        assert_eq!(said("max_fix_attempts"), fixes.to_string());
        assert_eq!(said("stop_marker"), marker);
        assert_eq!((&*said("source"), &*said("isolation")), ("builtin", "shared"));
        RunModel {
            setup: setup.clone(),
            run: record.run().into_owned(),
            slot_models: Vec::new(),
            taken: BTreeMap::new(),
            held: said("queue_mark").parse().unwrap(),
            has_prompts: false,
            finished: 0,
            finish: None,
            is_returning: false,
            was_halved: false,
            resumed: 0,
            lost: 0,
        }
    }

    pub(crate) fn stage(&self) -> Known {
        if self.finish.is_some() { Known::Over } else { Known::Begun }
    }

    pub(crate) fn lost_its_harness(&mut self) {
        self.is_returning = true;
        self.slot_models.iter_mut().for_each(|slot_model| slot_model.is_cut_off = true);
        let is_fresh = self.slot_models.last().is_some_and(SlotModel::is_blank);
        self.was_halved |= is_fresh && !self.taken.is_empty();
    }

    pub(crate) fn iteration(&self) -> u64 {
        self.slot_models.last().map_or(0, |slot_model| slot_model.iteration)
    }

    fn of_last_iteration(&self) -> impl Iterator<Item = &SlotModel> {
        self.slot_models.iter().filter(|slot_model| slot_model.iteration == self.iteration())
    }

    pub(crate) fn open(&self) -> impl Iterator<Item = &SlotModel> {
        self.slot_models.iter().filter(|slot_model| slot_model.is_open())
    }

    pub(crate) fn open_mut(&mut self) -> impl Iterator<Item = &mut SlotModel> {
        self.slot_models.iter_mut().filter(|slot_model| slot_model.is_open())
    }

    /// Why there is no further iteration, if there is none.
    fn is_over(&self) -> Option<&'static str> {
        let Rules { iterations, most_items, .. } = self.setup.rules;
        let taken =
            self.slot_models.iter().filter(|slot_model| !slot_model.item.is_empty()).count() as u64;
        match self.iteration() {
            0 => None,
            _ if self.slot_models.iter().any(|slot_model| slot_model.is_marked) => {
                Some("stop_marker")
            }
            _ if self.of_last_iteration().all(|slot_model| slot_model.item.is_empty()) => {
                Some("no_items")
            }
            _ if most_items > 0 && taken >= most_items => Some("max_items"),
            last if iterations > 0 && last >= iterations => Some("iterations"),
            _ => None,
        }
    }

    /// A new iteration starts only when the one before has ended and the run continues.
    fn may_open(&self, shown: &str) {
        assert!(!self.is_returning, "it has to say first that it goes on: {shown}");
        assert_eq!(self.open().next().map(|slot_model| slot_model.slot), None, "not yet: {shown}");
        assert_eq!(self.finished, self.iteration(), "the last iteration has no end: {shown}");
        assert!(self.has_prompts, "its prompts are not on record: {shown}");
        assert_eq!(self.is_over(), None, "it was to end: {shown}");
    }

    /// What the harness did to the queue.
    pub(crate) fn queue_step(&mut self, what: What, (item, ahead): (&str, &[String]), actor: &str) {
        let shown = format!("{what:?} {item} by {actor}");
        assert!(self.finish.is_none(), "after the end: {shown}");
        let slot = number(&self.run, actor);
        let rules = self.setup.rules;
        let is_returning = self.is_returning;
        let mut open = self.open_mut();
        let Some(slot_model) =
            open.find(|slot_model| slot_model.slot == slot && slot_model.item == item)
        else {
            drop(open);
            assert!(
                what != What::Claimed || !ahead.iter().any(|ahead| self.would_take(ahead)),
                "another one comes first: {shown}"
            );
            return self.beside_slots(what, (slot, item), &shown);
        };
        let due = slot_model.due(&rules);
        match what {
            What::Claimed => {
                assert!(slot_model.is_cut_off && !is_returning, "it has its item: {shown}");
                slot_model.is_cut_off = false;
            }
            What::Renewed => {}
            What::Released => {
                let is_failed = matches!(due, Due::Finish(how) if how != "passed");
                assert!(is_failed || slot_model.is_disturbed, "it is at work: {shown}");
            }
            What::Closed => assert_eq!(due, Due::Finish("passed"), "not passed: {shown}"),
            What::Added | What::Linked => panic!("not requested: {shown}"),
        }
    }

    /// Changes of items that no slot has.
    fn beside_slots(&mut self, what: What, (slot, item): (u64, &str), shown: &str) {
        match what {
            What::Claimed => {
                self.may_open(shown);
                self.taken.retain(|_, (taken, _)| taken != item);
                self.taken.insert(slot, (item.to_owned(), false));
            }
            What::Released => self.taken.retain(|_, (taken, _)| taken != item),
            What::Renewed | What::Closed | What::Added | What::Linked => {
                panic!("no slot has it: {shown}");
            }
        }
    }

    /// Another process changed an item.
    pub(crate) fn changed_by_others(&mut self, item: &str, by: &str) {
        let slot_models =
            self.open_mut().filter(|slot_model| slot_model.item == item && slot_model.actor != by);
        slot_models.for_each(|slot_model| slot_model.is_disturbed = true);
        for (slot, (taken, is_disturbed)) in &mut self.taken {
            *is_disturbed |= taken == item && format!("{}-s{slot}", self.run) != by;
        }
    }

    /// The agent that is due in a slot, which may be started for it.
    pub(crate) fn agent_starts(&self, turn: &mut Turn) {
        let slot_model = self.open().find(|slot_model| {
            (slot_model.iteration, slot_model.slot) == (turn.iteration, turn.slot)
        });
        let slot_model = slot_model.unwrap_or_else(|| panic!("there is no such slot: {turn:?}"));
        let due = (turn.phase, turn.attempt);
        assert_eq!(
            slot_model.due(&self.setup.rules),
            Due::Agent(due.0, due.1),
            "not now: {turn:?}"
        );
        assert_eq!(slot_model.announced, Some(due), "this agent was not announced: {turn:?}");
        assert_eq!(slot_model.item, turn.item, "it has another item: {turn:?}");
        assert!(!self.is_returning, "it has to say first that it goes on: {turn:?}");
        assert!(
            !slot_model.is_cut_off || slot_model.is_disturbed,
            "it has not taken its item up: {turn:?}"
        );
        turn.asked = slot_model.asked_of(due);
    }

    /// Hears the next record of the harness about this run.
    pub(crate) fn hear(&mut self, record: &Glance<'_>, queue: &Queue) {
        let topic = record.topic();
        let said = |name: &str| record.field(name).unwrap_or_default().into_owned();
        let iteration: u64 = record.iteration().parse().unwrap_or_default();
        let slot: u64 = said("slot").parse().unwrap_or_default();
        let shown = format!("{topic} {iteration}.{slot} {}", said("attempt"));
        assert!(self.finish.is_none(), "after the end: {shown}");
        assert_eq!(self.is_returning, topic == "slot.run.resume", "{shown}");
        match &*topic {
            "slot.run.resume" => {
                assert_eq!(said("resumed_from_iteration"), self.iteration().to_string());
                let mut left = self.taken.values().filter(|(_, is_disturbed)| !is_disturbed);
                assert_eq!(left.next(), None, "it was not released: {shown}");
                self.taken.clear();
                (self.is_returning, self.resumed) = (false, self.resumed + 1);
            }
            "slot.run.prompts" => {
                assert!(!self.has_prompts, "prompts do not change: {shown}");
                assert_eq!(
                    said("reviewer_prompt").is_empty(),
                    self.setup.rules.review == Review::NoPrompt
                );
                self.has_prompts = true;
            }
            "slot.start" => self.slot_begins((iteration, slot), &said, &shown),
            "slots.iteration.finish" => self.iteration_ends(iteration, &said, &shown),
            "slot.run.finish" => self.ends(&said, &shown),
            _ => {
                let rules = self.setup.rules;
                let place = |slot_model: &&mut SlotModel| {
                    (slot_model.iteration, slot_model.slot) == (iteration, slot)
                };
                let slot_model = self
                    .slot_models
                    .iter_mut()
                    .filter(|slot_model| slot_model.is_open())
                    .find(place);
                let slot_model =
                    slot_model.unwrap_or_else(|| panic!("there is no such slot: {shown}"));
                assert_eq!(said("item_id"), slot_model.item, "{shown}");
                if topic == "slot.finish" {
                    let lost = slot_model.finishes((&rules, queue), &said("outcome"), &shown);
                    self.lost += u64::from(lost);
                } else {
                    let heard = Heard { setup: &self.setup, run: &self.run, said: &said };
                    heard.of_phase(slot_model, &topic, &shown);
                }
            }
        }
    }

    /// A slot begins once, with what was claimed for it.
    fn slot_begins(
        &mut self,
        (iteration, slot): (u64, u64),
        said: &dyn Fn(&str) -> String,
        shown: &str,
    ) {
        let (item, actor) = (said("item_id"), said("actor"));
        let rules = self.setup.rules;
        if iteration == self.iteration() {
            let mut others = self.of_last_iteration();
            assert!(
                others.all(|slot_model| slot_model.is_blank() && slot_model.slot < slot),
                "twice: {shown}"
            );
        } else {
            assert_eq!(iteration, self.iteration() + 1, "{shown}");
            self.may_open(shown);
        }
        assert!((1..=rules.slots).contains(&slot), "{shown}");
        assert_eq!(actor, format!("{}-s{slot}", self.run), "{shown}");
        assert_eq!((&*said("branch"), &*said("base"), &*said("tree")), ("", "", "/p"), "{shown}");
        let taken = self.taken.remove(&slot);
        let (claimed, is_disturbed) = taken.unwrap_or_default();
        assert_eq!(item, claimed, "that was not claimed: {shown}");
        assert!(!item.is_empty() || iteration == 1, "for nothing: {shown}");
        let is_again =
            self.slot_models.iter().any(|slot_model| !item.is_empty() && slot_model.item == item);
        assert!(!is_again || rules.iterations > 0, "{item} is spent: {shown}");
        assert!(item.is_empty() || self.may_take(&item), "{item} is new: {shown}");
        let begun =
            self.slot_models.iter().filter(|slot_model| !slot_model.item.is_empty()).count() as u64;
        let is_within = rules.most_items == 0 || begun < rules.most_items || item.is_empty();
        assert!(is_within, "{item} is one too many: {shown}");
        let passed = |slot_model: &SlotModel| {
            slot_model.item == item && slot_model.outcome.as_deref() == Some("passed")
        };
        assert!(!self.slot_models.iter().any(passed), "{item} has passed: {shown}");
        self.slot_models.push(SlotModel::begins((iteration, slot), (item, actor), is_disturbed));
    }

    /// An iteration ends once, when all of its slots have ended, with their outcomes.
    fn iteration_ends(&mut self, iteration: u64, said: &dyn Fn(&str) -> String, shown: &str) {
        assert_eq!(self.open().next().map(|slot_model| slot_model.slot), None, "not yet: {shown}");
        assert_eq!((iteration, self.finished), (self.iteration(), iteration - 1), "{shown}");
        self.finished = iteration;
        let with_items = self.of_last_iteration().filter(|slot_model| !slot_model.item.is_empty());
        let ends: Vec<(&str, &str)> = with_items
            .map(|slot_model| {
                (slot_model.item.as_str(), slot_model.outcome.as_deref().unwrap_or_default())
            })
            .collect();
        let listed: Vec<String> = ends.iter().map(|(id, end)| format!("{id}={end}")).collect();
        assert_eq!(said("items"), listed.join(","), "{shown}");
        let passed = ends.iter().filter(|(_, end)| *end == "passed").count();
        let idle = ends.iter().filter(|(_, end)| *end == "no_item").count();
        assert_eq!(said("passed"), passed.to_string(), "{shown}");
        assert_eq!(said("failed"), (ends.len() - passed - idle).to_string(), "{shown}");
    }

    /// The numbers of the end follow from the slots.
    fn ends(&mut self, said: &dyn Fn(&str) -> String, shown: &str) {
        // An interrupt may come at any time.
        let is_interrupted = said("reason") == "interrupted";
        // A run that may continue and does not has found nothing to take.
        let reason = self.is_over().unwrap_or("no_items");
        if !is_interrupted {
            assert_eq!(self.finished, self.iteration(), "the last iteration has no end: {shown}");
            let open = self.open().next().map(|slot_model| slot_model.slot);
            assert_eq!(open, None, "not yet: {shown}");
            assert_eq!(said("reason"), reason, "{shown}");
        }
        let mut last = BTreeMap::new();
        for slot_model in &self.slot_models {
            let outcome = slot_model.outcome.as_deref().unwrap_or_default();
            if !slot_model.item.is_empty() && outcome != "no_item" {
                last.insert(slot_model.item.as_str(), outcome);
            }
        }
        let passed = last.values().filter(|outcome| **outcome == "passed").count() as u64;
        let numbers = (last.len() as u64, passed);
        assert_eq!(said("taken"), numbers.0.to_string(), "{shown}");
        assert_eq!(said("passed"), numbers.1.to_string(), "{shown}");
        match is_interrupted {
            true => self.is_returning = true,
            false => self.finish = Some((reason.to_owned(), numbers.0, numbers.1)),
        }
    }

    /// Whether an iteration that does not begin would have had something to do.
    pub(crate) fn would_take(&self, item: &str) -> bool {
        let is_spent = self.slot_models.iter().any(|slot_model| slot_model.item == item);
        self.may_take(item) && (self.setup.rules.iterations > 0 || !is_spent)
    }

    /// Whether an item was there when the run began, or new ones are taken too.
    fn may_take(&self, item: &str) -> bool {
        let number = item.strip_prefix("t-").and_then(|number| number.parse::<u64>().ok());
        self.setup.rules.takes_new || number.is_some_and(|number| number <= self.held)
    }
}
