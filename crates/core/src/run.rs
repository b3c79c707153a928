//! What a run has come to: the fold of its records.
//!
//! A [`Run`] knows nothing of settings. It says what happened; [`next_step`](crate::step::next_step)
//! says what follows from it.

mod runs;
mod spawn;

pub use runs::{Miss, OtherRun, Runs, SomeRun};
pub use spawn::{Asker, LONGEST_REQUEST, Returned, SpawnRequest, Spawns};

pub use crate::record::StopReason;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::config::BackendKind;
use crate::coordinator::{Fold, Kind, Status};
use crate::failure::TurnFailure;
use crate::record::{
    ChainSpawned, Event, EventInvalid, ExitCode, Glance, LoopComplete, LoopStart, LoopStop, Text,
};
use crate::topic::{JOINED, TopicClass};
use crate::topology::OPENING_EVENT;
use crate::views::scratchpad::Scratchpad;
use crate::wave::{self, Request, Waves};
use crate::wire_enum::Word;

/// How many refused events of an iteration are remembered by name.
pub const REFUSALS_KEPT: usize = 1_000;

/// The state of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// What it was started with. `None` for records that no `loop.start` came before.
    pub start: Option<LoopStart>,
    /// When it began and when it was last heard of, as written.
    pub times: (String, String),
    /// How far it is.
    pub stage: Stage,
    /// How many iterations are done.
    pub done: u64,
    /// The last event that was accepted, or [`OPENING_EVENT`].
    pub recent_event: String,
    /// The events that were accepted in iterations that are over.
    pub seen: BTreeSet<String>,
    /// How many events were refused.
    pub invalid_count: u64,
    /// The last of them, as long as the run lasts.
    pub last_rejected: Option<String>,
    /// The refusal that the next prompt has to tell of.
    pub backpressure: Option<EventInvalid>,
    /// The iteration before which a metareview was done last; 0 when none was.
    pub reviewed_before: u64,
    /// What happened in the iteration under way, or in the last one.
    pub turn: Turn,
    /// What the iteration before the one under way came to.
    pub before: Option<Previous>,
    /// What was and is done in parallel.
    pub waves: Waves,
    /// The chains that were asked for.
    pub spawns: Spawns,
}

/// How far a run is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Nothing has happened.
    New,
    /// No iteration is under way.
    Between,
    /// The iteration after those that are done began and did not end.
    Iterating,
    /// A metareview before that iteration began and did not end.
    Reviewing,
    /// The run is over.
    Ended(Ending),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// It reached its goal.
    Complete {
        /// `completion_event` or `completion_promise`.
        reason: Word<StopReason>,
    },
    /// It did not.
    Stop {
        /// Why.
        reason: Word<StopReason>,
    },
}

/// One iteration, as far as decisions depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// The event that routed it.
    pub opening_event: String,
    /// The refusal that its prompt told of.
    pub opening_backpressure: Option<EventInvalid>,
    /// Whether its agent only says again what was said in another run.
    pub replayed: bool,
    /// The events that were emitted in it and not withdrawn, in order.
    pub events: Vec<String>,
    /// The waves that were asked for in it.
    pub requests: Vec<Request>,
    /// The chains that were asked for in it.
    pub asked: Vec<SpawnRequest>,
    /// The events that were refused in it, in order, up to [`REFUSALS_KEPT`].
    pub refusals: Vec<String>,
    /// Whether an event was refused at the door.
    pub refused: bool,
    /// Whether an event that had been stored was found not to be allowed.
    pub withdrawn: bool,
    /// How its backend ended; `None` while it runs.
    pub exit: Option<TurnExit>,
}

/// What an iteration that did not fail came to, as far as the next one is told of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Previous {
    /// Its number.
    pub iteration: u64,
    /// The events that were accepted, requests for chains included.
    pub events: Vec<String>,
    /// The events that were refused.
    pub refusals: Vec<String>,
    /// Whether one of them had been stored before.
    pub withdrawn: bool,
    /// Whether its output holds the completion promise.
    pub promised: bool,
}

/// How the backend of an iteration ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnExit {
    /// Its status.
    pub code: i32,
    /// Why it failed; `None` where it did not.
    pub failure: Option<TurnFailure>,
    /// Whether its output holds the completion promise.
    pub promised: bool,
}

impl Turn {
    /// Whether its backend failed or was ended because its time was up.
    pub fn has_failed(&self) -> bool {
        self.exit.as_ref().is_some_and(|exit| exit.failure.is_some())
    }
}

impl Run {
    /// A run of which nothing is known yet.
    pub fn new(id: impl Into<String>) -> Self {
        Run {
            id: id.into(),
            start: None,
            times: Default::default(),
            stage: Stage::New,
            done: 0,
            recent_event: OPENING_EVENT.to_owned(),
            seen: BTreeSet::new(),
            invalid_count: 0,
            last_rejected: None,
            backpressure: None,
            reviewed_before: 0,
            turn: Turn::default(),
            before: None,
            waves: Waves::default(),
            spawns: Spawns::default(),
        }
    }

    /// How it is by its records, which cannot tell a run that crashed from one that is running.
    pub fn status(&self) -> Status {
        match &self.stage {
            Stage::Ended(Ending::Complete { .. }) => Status::Completed,
            Stage::Ended(Ending::Stop { reason }) => Status::of_reason(reason.as_str()),
            Stage::New | Stage::Between | Stage::Iterating | Stage::Reviewing => Status::Running,
        }
    }

    /// The flag that raises the limit that it reached, if it ended there.
    pub fn raised_limit(&self) -> String {
        let most = self.start.as_ref().map_or(0, |start| start.max_iterations);
        let reason = self.stop_reason().map_or("", Word::as_str);
        Kind::Loop.raised_limit(reason, self.done, most)
    }

    /// How many iterations are done when it is resumed: the one that failed is retried.
    pub fn done_on_resume(&self) -> u64 {
        let is_over = self.stage != Stage::Iterating;
        self.done - u64::from(is_over && self.turn.has_failed()).min(self.done)
    }

    /// What the last iteration that ended without a failure came to; on a retry, the one before it.
    pub fn previous(&self) -> Option<Previous> {
        let exit = self.turn.exit.as_ref().filter(|exit| exit.failure.is_none());
        let Some(exit) = exit.filter(|_| self.stage != Stage::Iterating) else {
            return self.before.clone();
        };
        let asked = self.turn.asked.iter().map(|_| ChainSpawned::TOPIC.to_owned());
        Some(Previous {
            iteration: self.done,
            events: self.turn.events.iter().cloned().chain(asked).collect(),
            refusals: self.turn.refusals.clone(),
            withdrawn: self.turn.withdrawn,
            promised: exit.promised,
        })
    }

    /// Why it ended; `None` while it has not, and when it was interrupted, which is no end to whatever
    /// it is a part of.
    pub fn stop_reason(&self) -> Option<&Word<StopReason>> {
        match &self.stage {
            Stage::Ended(Ending::Complete { reason }) => Some(reason),
            Stage::Ended(Ending::Stop { reason }) if *reason != StopReason::Interrupted => {
                Some(reason)
            }
            _ => None,
        }
    }

    /// Why its last turn failed, if it did.
    pub fn failure(&self) -> Option<&TurnFailure> {
        self.turn.exit.as_ref()?.failure.as_ref()
    }

    /// Whether it is a run of its own: it was begun, and not as a branch of another.
    pub fn stands_alone(&self) -> bool {
        self.start.as_ref().is_some_and(|start| start.parent.is_none())
    }

    /// Takes in a record of this run. Records of other runs have to be kept away by the caller, and so
    /// have records that claim to be the harness's and are not.
    pub fn apply(&mut self, record: &Glance<'_>) {
        if let Some(ts) = record.ts() {
            self.times.1 = ts.into_owned();
        }
        if record.has_payload() {
            return self.emitted(record);
        }
        let iteration: u64 = record.iteration().parse().unwrap_or_default();
        match record.event() {
            // A run begins once, and reaches its goal between two iterations. Whatever says otherwise is
            // not its harness.
            Event::LoopStart(_) if self.start.is_some() => {}
            Event::LoopComplete(_) if self.stage == Stage::Iterating => {}
            Event::LoopStart(start) => {
                self.began(start, record.ts().unwrap_or_default().into_owned());
            }
            Event::LoopResume(_) => self.resumed(),
            Event::IterationStart(start) => {
                self.before = self.previous();
                self.stage = Stage::Iterating;
                self.done = iteration.saturating_sub(1);
                self.turn = Turn {
                    opening_event: start.recent_event,
                    opening_backpressure: self.backpressure.clone(),
                    ..Turn::default()
                };
            }
            Event::BackendStart(start) => {
                self.turn.replayed = start.backend_kind == BackendKind::Replay;
            }
            Event::BackendFinish(end) => {
                self.ended_turn(&end.exit_code, end.failure(), self.is_promise_in(&end.output));
            }
            Event::IterationFinish(end) => {
                let promised = end.promised == Some(true) || self.is_promise_in(&end.output);
                self.ended_turn(&end.exit_code, end.failure(), promised);
                self.ended_iteration(iteration);
            }
            Event::ReviewStart(_) => {
                self.stage = Stage::Reviewing;
                self.done = iteration.saturating_sub(1);
            }
            Event::ReviewFinish(_) => {
                self.reviewed_before = iteration;
                self.stage = Stage::Between;
            }
            Event::EventInvalid(invalid) => self.refused(invalid),
            Event::LoopComplete(LoopComplete { reason }) => {
                self.stage = Stage::Ended(Ending::Complete { reason });
            }
            Event::LoopStop(LoopStop { reason, .. }) => {
                self.stage = Stage::Ended(Ending::Stop { reason });
            }
            event => {
                self.waves.apply(&event);
                self.spawns.apply(&event);
                self.heard_of_parallel_work(event);
            }
        }
    }

    fn began(&mut self, start: LoopStart, at: String) {
        let times = (at.clone(), at);
        *self = Run { times, stage: Stage::Between, ..Run::new(std::mem::take(&mut self.id)) };
        if let Some(event) = &start.opening_event {
            self.recent_event.clone_from(event);
        }
        self.start = Some(start);
    }

    /// What waves and chains have to say to the run itself.
    fn heard_of_parallel_work(&mut self, event: Event<'_>) {
        match event {
            // What asks for a wave counts when there is one.
            Event::WaveStart(start) => drop(self.seen.insert(start.trigger_topic)),
            Event::WaveInvalid(invalid) if invalid.reason == wave::DISABLED => {
                self.refused_wave(invalid.trigger_topic, invalid.opening_recent_event);
            }
            Event::WaveInvalid(invalid) => self.refused(EventInvalid {
                recent_event: invalid.opening_recent_event,
                emitted: invalid.trigger_topic,
                reason: Some(invalid.reason),
                ..EventInvalid::default()
            }),
            Event::ChainInvalid(invalid) => self.refused(EventInvalid {
                recent_event: self.turn.opening_event.clone(),
                emitted: invalid.trigger_topic,
                reason: Some(invalid.detail),
                ..EventInvalid::default()
            }),
            _ => {}
        }
    }

    /// An iteration that did not end, or that failed, is retried: routed as it was, as if its agent had
    /// said nothing.
    fn resumed(&mut self) {
        let done = self.done_on_resume();
        if self.stage == Stage::Iterating || self.turn.has_failed() {
            let Turn { opening_event, opening_backpressure, .. } = std::mem::take(&mut self.turn);
            self.recent_event.clone_from(&opening_event);
            self.backpressure.clone_from(&opening_backpressure);
            self.turn = Turn { opening_event, opening_backpressure, ..Turn::default() };
            self.spawns.requests.clear();
        }
        self.done = done;
        self.stage = Stage::Between;
    }

    fn emitted(&mut self, record: &Glance<'_>) {
        let topic = record.topic();
        if topic.ends_with(JOINED) {
            self.seen.insert(topic.clone().into_owned());
            self.recent_event = self.waves.join().unwrap_or_else(|| topic.into_owned());
            return;
        }
        if topic == ChainSpawned::TOPIC {
            return self.asked_for_a_chain(&record.payload().unwrap_or_default());
        }
        // A review says nothing that counts, and nobody speaks for a run that waits for others.
        let is_waiting = self.waves.open.is_some() || self.spawns.open.is_some();
        let is_heard = self.stage != Stage::Reviewing && !is_waiting;
        if TopicClass::of(&topic) != TopicClass::Agent || !is_heard {
            return;
        }
        topic.as_ref().clone_into(&mut self.recent_event);
        self.turn.events.push(topic.clone().into_owned());
        self.backpressure = None;
        if wave::base_of(&topic).is_some() {
            let payload = record.payload().unwrap_or_default();
            self.turn.requests.push(Request::new(&topic, &payload));
        }
        if self.stage != Stage::Iterating {
            self.seen.insert(topic.into_owned());
        }
    }

    /// A chain is considered between iterations, and what nobody waits for any more is bookkeeping.
    fn asked_for_a_chain(&mut self, payload: &str) {
        match self.stage {
            Stage::Iterating => {
                let asker = if self.turn.replayed { Asker::Replay } else { Asker::Agent };
                self.turn.asked.push(SpawnRequest::new(payload, asker));
            }
            Stage::Reviewing => {
                self.spawns.requests.push(SpawnRequest::new(payload, Asker::Review));
            }
            Stage::New | Stage::Between | Stage::Ended(_) => {}
        }
    }

    fn refused(&mut self, invalid: EventInvalid) {
        // What a metareview tried is nothing that the agent did.
        if self.stage == Stage::Reviewing {
            return;
        }
        self.invalid_count += 1;
        self.last_rejected = Some(invalid.emitted.clone());
        if self.turn.refusals.len() < REFUSALS_KEPT {
            self.turn.refusals.push(invalid.emitted.clone());
        }
        let stored = self.turn.events.iter().rposition(|event| *event == invalid.emitted);
        match stored {
            Some(place) => {
                // The harness takes back before it ends the iteration: somebody else had ended it. Or it
                // refuses a wave, and what asked for it did not count yet.
                if self.stage != Stage::Iterating && wave::base_of(&invalid.emitted).is_none() {
                    self.seen.remove(&invalid.emitted);
                }
                self.turn.events.remove(place);
                self.turn.requests.retain(|request| request.topic != invalid.emitted);
                self.turn.withdrawn = true;
                let recent = self.turn.events.last().unwrap_or(&self.turn.opening_event);
                self.recent_event.clone_from(recent);
            }
            None => self.turn.refused = true,
        }
        self.backpressure = Some(invalid);
    }

    /// Waves are off, which the agent was told at once, as of an event that is refused at the door: an event
    /// that it emitted afterwards makes good for it.
    fn refused_wave(&mut self, emitted: String, recent_event: String) {
        let Turn { events, requests, refusals, .. } = &mut self.turn;
        let place = events.iter().rposition(|event| *event == emitted);
        let is_last = place.is_none_or(|place| place + 1 == events.len());
        place.map(|place| events.remove(place));
        requests.retain(|request| request.topic != emitted);
        if refusals.len() < REFUSALS_KEPT {
            refusals.push(emitted.clone());
        }
        self.turn.refused = true;
        self.invalid_count += 1;
        self.last_rejected = Some(emitted.clone());
        let recent = self.turn.events.last().unwrap_or(&self.turn.opening_event);
        self.recent_event.clone_from(recent);
        if is_last {
            let reason = Some(wave::DISABLED.to_owned());
            self.backpressure =
                Some(EventInvalid { recent_event, emitted, reason, ..EventInvalid::default() });
        }
    }

    /// Whether an output holds the completion promise.
    fn is_promise_in(&self, output: &Text<'_>) -> bool {
        let promise = self.start.as_ref().map(|start| start.completion_promise.as_str());
        let promise = promise.filter(|promise| !promise.is_empty());
        promise.is_some_and(|promise| output.read().contains(promise))
    }

    fn ended_turn(&mut self, code: &ExitCode, failure: Option<TurnFailure>, promised: bool) {
        self.turn.exit = Some(TurnExit { code: code.known().unwrap_or(-1), failure, promised });
    }

    fn ended_iteration(&mut self, iteration: u64) {
        self.stage = Stage::Between;
        self.done = iteration;
        self.spawns.requests.clone_from(&self.turn.asked);
        // What a failed iteration said does not count, and its retry is told what it was told.
        if !self.turn.has_failed() {
            let is_plain = |event: &&String| wave::base_of(event).is_none();
            self.seen.extend(self.turn.events.iter().filter(is_plain).cloned());
            self.waves.requests = std::mem::take(&mut self.turn.requests);
            self.waves.joined = None;
            self.spawns.returned.clear();
        }
    }
}

impl Fold for Run {
    const KIND: Kind = Kind::Loop;

    fn new(id: &str) -> Self {
        Run::new(id)
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn apply(&mut self, record: &Glance<'_>) {
        Run::apply(self, record);
    }

    fn apply_foreign(&mut self, record: &Glance<'_>) {
        Run::apply(self, record);
    }
}

/// The state of a loop.
#[derive(Clone, Debug)]
pub struct LoopFold {
    /// How far it is.
    pub run: Run,
    /// What its iterations printed.
    pub scratchpad: Scratchpad,
}

impl Fold for LoopFold {
    const KIND: Kind = Kind::Loop;

    fn new(id: &str) -> Self {
        LoopFold { run: Run::new(id), scratchpad: Scratchpad::default() }
    }

    fn id(&self) -> &str {
        &self.run.id
    }

    fn apply(&mut self, record: &Glance<'_>) {
        self.run.apply(record);
        self.scratchpad.apply(record);
    }

    fn apply_foreign(&mut self, record: &Glance<'_>) {
        self.run.apply(record);
    }
}

#[cfg(test)]
mod tests;
