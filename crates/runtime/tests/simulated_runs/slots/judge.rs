//! The judge of all records about a queue and the runs that process it.
//!
//! It gets the records one by one, with their authors. It shares nothing with the driver: what it
//! expects follows from the [setup](super::setup), from what [each agent](super::part) really does,
//! and from the rules of a [queue](super::queue), a [slot](super::slot_model) and a [run](super::run_model).

use std::collections::BTreeMap;

use autoloop_core::record::Glance;
use autoloop_core::timestamp::Timestamp;

use super::part::{Phase, Turn};
use super::queue::{Heard, Queue, Step, What};
use super::run_model::RunModel;
use super::setup::Setup;
use crate::terms::{Author, Known};

pub(crate) struct Judge {
    setup: Setup,
    pub(crate) queue: Queue,
    pub(crate) runs: BTreeMap<String, RunModel>,
    /// Records that others forged in the name of each run, until they are reported.
    forged: BTreeMap<String, Vec<(Author, String)>>,
    /// Whether only one run changes the queue.
    is_alone: bool,
    /// The agents whose program was missing.
    pub(crate) unmanned: Vec<Turn>,
}

impl Judge {
    pub(crate) fn new(setup: &Setup) -> Judge {
        Judge {
            setup: setup.clone(),
            queue: Queue::default(),
            runs: BTreeMap::new(),
            forged: BTreeMap::new(),
            is_alone: true,
            unmanned: Vec::new(),
        }
    }

    /// How far the run of a side has progressed.
    pub(crate) fn stage(&self, side: &str) -> Known {
        self.of(side).map_or(Known::New, |(_, run_model)| run_model.stage())
    }

    /// The run of a side, once it started.
    pub(crate) fn of(&self, side: &str) -> Option<(&String, &RunModel)> {
        self.runs.iter().find(|(run, _)| run.starts_with(side))
    }

    pub(crate) fn hear(&mut self, author: Author, record: &Glance<'_>) {
        let run = record.run().into_owned();
        if run.is_empty() {
            match self.queue.hear(record) {
                Heard::Nothing => {}
                Heard::Void => assert_ne!(author, Author::Harness, "that is no step of a queue"),
                Heard::Step(step) => self.hear_of_queue(author, &step),
            }
            return;
        }
        let topic = record.topic();
        // Forged records do not affect a run.
        if author != Author::Harness {
            if !record.has_payload() && topic != "event.invalid" {
                self.forged.entry(run).or_default().push((author, topic.into_owned()));
            }
            return;
        }
        if topic == "event.invalid" {
            self.hear_of_forgery(&run, record);
            return;
        }
        if topic == "backend.failed" {
            let is_unmanned = self.unmanned.iter().any(|turn| turn.run == run);
            assert!(is_unmanned, "no program of {run} is missing");
            return;
        }
        let is_ours = topic.starts_with("slot.") || topic == "slots.iteration.finish";
        assert!(!record.has_payload() && is_ours, "unexpected topic {topic}");
        match self.runs.get_mut(&run) {
            Some(run_model) => run_model.hear(record, &self.queue),
            None => {
                assert_eq!(topic, "slot.run.start", "{run} has not begun");
                self.is_alone &= self.runs.is_empty();
                self.runs.insert(run.clone(), RunModel::begins(&self.setup, record));
            }
        }
        if topic == "slot.run.finish" && record.field("reason").as_deref() != Some("interrupted") {
            self.check_end(&run, record);
        }
    }

    /// Every forged record is reported once, and nothing else is.
    fn hear_of_forgery(&mut self, run: &str, record: &Glance<'_>) {
        assert_eq!(record.field("reason").as_deref(), Some("forged"));
        let emitted = record.field("emitted").unwrap_or_default();
        let untold = self.forged.entry(run.to_owned()).or_default();
        let place = untold.iter().position(|(_, topic)| *topic == emitted);
        untold.remove(place.unwrap_or_else(|| panic!("{emitted} was not forged")));
    }

    fn hear_of_queue(&mut self, author: Author, step: &Step) {
        let Step { what, item, by, ahead } = step;
        if !matches!(what, What::Added | What::Renewed) {
            self.runs.values_mut().for_each(|run_model| run_model.changed_by_others(item, by));
        }
        match author {
            Author::Harness => {
                let run = by.rsplit_once("-s").map_or("", |(run, _)| run);
                // An item whose agent could not be started is released.
                let is_unmanned = |turn: &Turn| {
                    turn.phase == Phase::Implement && turn.run == run && turn.item == *item
                };
                let run_model = self.runs.get_mut(run);
                let is_begun = run_model
                    .as_ref()
                    .is_some_and(|known| known.open().any(|slot_model| slot_model.item == *item));
                if *what == What::Released && is_begun && self.unmanned.iter().any(is_unmanned) {
                    return;
                }
                let run_model = run_model.unwrap_or_else(|| panic!("{by} is unknown"));
                run_model.queue_step(*what, (item, ahead), by);
            }
            Author::Stranger => {
                let is_claim = matches!(what, What::Claimed);
                self.is_alone &= self.runs.is_empty() && !is_claim;
            }
            Author::Agent => {}
        }
    }

    /// A run that ends for lack of items leaves none that it could have taken, and holds none.
    fn check_end(&self, run: &str, record: &Glance<'_>) {
        let now: Timestamp = record.ts().unwrap_or_default().parse().unwrap();
        let run_model = &self.runs[run];
        // Another process may write at the last moment.
        let mut untold = self.forged.get(run).into_iter().flatten();
        let untold = untold.find(|(author, _)| *author == Author::Agent);
        assert_eq!(untold, None, "forged, and not told of");
        let is_of_run = |owner: &str| owner.rsplit_once("-s").is_some_and(|(of, _)| of == run);
        for item in self.queue.iter() {
            let owner = self.queue.owner(&item.id);
            assert!(!owner.is_some_and(is_of_run), "{} is not given back", item.id);
        }
        if record.field("reason").as_deref() == Some("no_items") && self.is_alone {
            let mut left = self.queue.ready(now).filter(|item| run_model.would_take(&item.id));
            assert_eq!(left.next().map(|item| &item.id), None, "there was something to take");
        }
    }

    pub(crate) fn lost_their_harness(&mut self, side: Option<&str>) {
        let lost = |run: &str| side.is_none_or(|side| run.starts_with(side));
        let runs = self.runs.iter_mut().filter(|(run, _)| lost(run));
        let unfinished = runs.filter(|(_, run_model)| run_model.stage() != Known::Over);
        unfinished.for_each(|(_, run_model)| run_model.lost_its_harness());
    }

    /// An agent is started for a turn: it has to be due, and its slot has to hold the item.
    pub(crate) fn agent_starts(&self, turn: &mut Turn) {
        let run_model = self.runs.get(&turn.run);
        run_model.unwrap_or_else(|| panic!("{turn:?} of which run?")).agent_starts(turn);
        let open = self.runs.values().flat_map(RunModel::open);
        let mut having =
            open.filter(|slot_model| slot_model.item == turn.item && !slot_model.is_disturbed);
        if let Some(slot_model) = having.next() {
            let owner = self.queue.owner(&turn.item);
            assert_eq!(
                owner,
                Some(&*slot_model.actor),
                "its slot does not hold the item: {turn:?}"
            );
        }
        let two = having.next().map(|slot_model| &slot_model.actor);
        assert_eq!(two, None, "two have the item: {turn:?}");
    }
}
