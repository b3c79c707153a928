//! The fold of the records of one run of a loop.
//!
//! A [`Run`] does not depend on settings; [`next_step`](crate::step::next_step) decides what follows from it.

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
use crate::limits::Ledger;
use crate::record::{
    ChainSpawned, Event, EventInvalid, ExitCode, Glance, LoopComplete, LoopStart, LoopStop, Text,
};
use crate::topic::{JOINED, TopicClass};
use crate::topology::{OPENING_EVENT, Topology};
use crate::views::scratchpad::Scratchpad;
use crate::wave::{self, Request, Waves};
use crate::wire_enum::Word;

/// How many refused events of an iteration are kept.
pub const REFUSALS_KEPT: usize = 1_000;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub id: String,
    /// `None` without a `loop.start`.
    pub start: Option<LoopStart>,
    pub times: (String, String),
    pub stage: Stage,
    /// How many iterations ended.
    pub done: u64,
    /// The last accepted event, or [`OPENING_EVENT`].
    pub recent_event: String,
    pub seen: BTreeSet<String>,
    pub invalid_count: u64,
    pub last_rejected: Option<String>,
    /// The refusal that the next prompt reports.
    pub backpressure: Option<EventInvalid>,
    /// The iteration that the last metareview preceded; 0 where there was none.
    pub reviewed_before: u64,
    pub turn: Turn,
    /// The result of the iteration before the current one.
    pub before: Option<Turn>,
    pub waves: Waves,
    pub spawns: Spawns,
    /// The last iterations, as far as they brought nothing new.
    pub idle: Idle,
    /// Why it stopped, where the reason needs more than a word, and the flag that raises the limit that it reached.
    pub stop: Stop,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    pub detail: String,
    pub raise: String,
}

/// How many iterations in a row brought nothing new.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idle {
    /// How many emitted no event, and had none refused.
    pub silent: u64,
    /// How many ended in the same way and left the project as it was.
    pub same: u64,
    /// In which way the last one ended; empty where it brought something new.
    pub why: String,
    /// What it left; empty where that is unknown.
    tree: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    #[default]
    New,
    Between,
    /// The iteration after the last ended one started and did not end.
    Iterating,
    /// The metareview before that iteration started and did not end.
    Reviewing,
    Ended(Ending),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    Complete { reason: Word<StopReason> },
    Stop { reason: Word<StopReason> },
}

/// One iteration, as far as decisions depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    pub iteration: u64,
    /// The event that routed it.
    pub opening_event: String,
    /// The refusal that its prompt reported.
    pub opening_backpressure: Option<EventInvalid>,
    /// Whether its agent replays another run.
    pub replayed: bool,
    pub events: Vec<String>,
    pub requests: Vec<Request>,
    pub asked: Vec<SpawnRequest>,
    pub refusals: Vec<String>,
    /// Whether `emit` refused an event.
    pub refused: bool,
    /// Whether the harness refused an event that was already in the journal.
    pub withdrawn: bool,
    /// `None` while the agent runs.
    pub exit: Option<TurnExit>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnExit {
    pub code: i32,
    pub failure: Option<TurnFailure>,
    /// Whether the output contains the completion promise.
    pub promised: bool,
}

impl Idle {
    /// How many iterations in a row count towards a stall. Roles report by events, so that an iteration without one
    /// counts whatever it changed; a loop without roles may work by the completion promise alone.
    pub fn in_a_row(&self, topology: &Topology) -> u64 {
        if topology.roles.is_empty() { self.same } else { self.same.max(self.silent) }
    }
}

impl Turn {
    /// In which way it ended without anything new: no event, only refused ones, or only a completion event that did
    /// not count.
    fn brought_nothing(&self, completion_event: &str) -> Option<String> {
        if !self.asked.is_empty() || self.events.iter().any(|event| event != completion_event) {
            return None;
        }
        Some(match (self.events.is_empty(), self.refusals.is_empty()) {
            (true, true) => "no event".to_owned(),
            (true, false) => format!("refused {}", self.refusals.join(", ")),
            (false, _) => format!("{completion_event} did not count"),
        })
    }

    pub fn has_failed(&self) -> bool {
        self.exit.as_ref().is_some_and(|exit| exit.failure.is_some())
    }
}

impl Run {
    /// The status by the records, which cannot tell a crashed run from a running one.
    pub fn status(&self) -> Status {
        match &self.stage {
            Stage::Ended(Ending::Complete { .. }) => Status::Completed,
            Stage::Ended(Ending::Stop { reason }) => Status::of_reason(reason.as_str()),
            Stage::New | Stage::Between | Stage::Iterating | Stage::Reviewing => Status::Running,
        }
    }

    /// The flag, with a leading space, that raises the limit that the run reached; empty where it ended otherwise.
    pub fn raised_limit(&self) -> String {
        if !self.stop.raise.is_empty() {
            return format!(" {}", self.stop.raise);
        }
        let most = self.start.as_ref().map_or(0, |start| start.max_iterations);
        let reason = self.stop_reason().map_or("", Word::as_str);
        Kind::Loop.raised_limit(reason, self.done, most)
    }

    /// How many iterations count as ended when the run is resumed: a failed one is retried.
    pub fn done_on_resume(&self) -> u64 {
        let is_over = self.stage != Stage::Iterating;
        self.done - u64::from(is_over && self.turn.has_failed()).min(self.done)
    }

    /// The result of the last iteration that ended without a failure; on a retry, of the one before
    /// it.
    pub fn previous(&self) -> Option<&Turn> {
        let is_ended = self.stage != Stage::Iterating && self.turn.exit.is_some();
        match is_ended && !self.turn.has_failed() {
            true => Some(&self.turn),
            false => self.before.as_ref(),
        }
    }

    /// Why it ended; `None` before the end, and where it was interrupted, which does not end the
    /// wave or chain that it is a part of.
    pub fn stop_reason(&self) -> Option<&Word<StopReason>> {
        match &self.stage {
            Stage::Ended(Ending::Complete { reason }) => Some(reason),
            Stage::Ended(Ending::Stop { reason }) if *reason != StopReason::Interrupted => {
                Some(reason)
            }
            _ => None,
        }
    }

    pub fn failure(&self) -> Option<&TurnFailure> {
        self.turn.exit.as_ref()?.failure.as_ref()
    }

    /// Whether it started, and not as a branch of another run.
    pub fn stands_alone(&self) -> bool {
        self.start.as_ref().is_some_and(|start| start.parent.is_none())
    }

    fn began(&mut self, start: LoopStart, at: String) {
        let times = (at.clone(), at);
        *self = Run { times, stage: Stage::Between, ..Run::new(&self.id) };
        if let Some(event) = &start.opening_event {
            self.recent_event.clone_from(event);
        }
        self.start = Some(start);
    }

    fn heard_of_parallel_work(&mut self, event: Event<'_>) {
        match event {
            // The request counts as an event once the wave is open.
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

    /// An iteration that did not end, or that failed, is retried: routed as before, without the
    /// events of its agent.
    fn resumed(&mut self) {
        let done = self.done_on_resume();
        (self.idle, self.stop) = (Idle::default(), Stop::default());
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
            return self.add_chain_request(&record.payload().unwrap_or_default());
        }
        // Events of a review do not count, nor events while the run waits for a wave or a chain.
        let is_waiting = self.waves.open.is_some() || self.spawns.open.is_some();
        let is_emitted = self.stage != Stage::Reviewing && !is_waiting;
        if TopicClass::of(&topic) != TopicClass::Agent || !is_emitted {
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

    /// Chains are decided between iterations; a request outside of a turn is bookkeeping.
    fn add_chain_request(&mut self, payload: &str) {
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
        // Refusals of a metareview are not the agent's.
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
                // The harness withdraws events before it ends the iteration, so this iteration was ended
                // by a forged record. A refused wave was not counted yet.
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

    /// Waves are off, which the agent was told at once, as with an event that `emit` refuses: an
    /// event that it emitted afterwards replaces the refused one.
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

    fn is_promise_in(&self, output: &Text<'_>) -> bool {
        let promise = self.start.as_ref().map(|start| start.completion_promise.as_str());
        let promise = promise.filter(|promise| !promise.is_empty());
        promise.is_some_and(|promise| output.read().contains(promise))
    }

    fn ended_turn(&mut self, code: &ExitCode, failure: Option<TurnFailure>, promised: bool) {
        self.turn.exit = Some(TurnExit { code: code.known().unwrap_or(-1), failure, promised });
    }

    fn ended_iteration(&mut self, iteration: u64, tree: String) {
        let completion_event = self.start.as_ref().map_or("", |start| &start.completion_event);
        let why = self.turn.brought_nothing(completion_event).unwrap_or_default();
        let is_silent =
            !why.is_empty() && self.turn.events.is_empty() && self.turn.refusals.is_empty();
        let is_same = !why.is_empty() && why == self.idle.why && tree == self.idle.tree;
        self.idle = Idle {
            silent: if is_silent { self.idle.silent + 1 } else { 0 },
            same: match is_same && !tree.is_empty() {
                true => self.idle.same + 1,
                false => u64::from(!why.is_empty()),
            },
            why,
            tree,
        };
        self.stage = Stage::Between;
        self.done = iteration;
        self.turn.iteration = iteration;
        self.spawns.requests.clone_from(&self.turn.asked);
        // Events of a failed iteration do not count, and its retry gets the same prompt.
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
        Run { id: id.to_owned(), recent_event: OPENING_EVENT.to_owned(), ..Run::default() }
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn apply(&mut self, record: &Glance<'_>) {
        if let Some(ts) = record.ts() {
            self.times.1 = ts.into_owned();
        }
        if record.has_payload() {
            return self.emitted(record);
        }
        let iteration: u64 = record.iteration().parse().unwrap_or_default();
        match record.event() {
            // A run starts once, and completes between two iterations: other records are forged.
            Event::LoopStart(_) if self.start.is_some() => {}
            Event::LoopComplete(_) if self.stage == Stage::Iterating => {}
            Event::LoopStart(start) => {
                self.began(start, record.ts().unwrap_or_default().into_owned());
            }
            Event::LoopResume(_) => self.resumed(),
            Event::IterationStart(start) => {
                self.before = self.previous().cloned();
                self.stage = Stage::Iterating;
                self.done = iteration.saturating_sub(1);
                self.turn = Turn {
                    iteration,
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
                self.ended_iteration(iteration, end.tree.unwrap_or_default());
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
            Event::LoopStop(LoopStop { reason, detail, raise, .. }) => {
                let (detail, raise) = (detail.unwrap_or_default(), raise.unwrap_or_default());
                self.stop = Stop { detail, raise };
                self.stage = Stage::Ended(Ending::Stop { reason });
            }
            event => {
                self.waves.apply(&event);
                self.spawns.apply(&event);
                self.heard_of_parallel_work(event);
            }
        }
    }

    fn apply_foreign(&mut self, record: &Glance<'_>) {
        self.apply(record);
    }
}

#[derive(Clone, Debug)]
pub struct LoopFold {
    pub run: Run,
    pub ledger: Ledger,
    pub scratchpad: Scratchpad,
}

impl Fold for LoopFold {
    const KIND: Kind = Kind::Loop;

    fn new(id: &str) -> Self {
        LoopFold { run: Run::new(id), ledger: Ledger::default(), scratchpad: Scratchpad::default() }
    }

    fn id(&self) -> &str {
        &self.run.id
    }

    fn apply(&mut self, record: &Glance<'_>) {
        self.run.apply(record);
        self.ledger.apply(record);
        self.scratchpad.apply(record);
    }

    fn apply_foreign(&mut self, record: &Glance<'_>) {
        self.run.apply(record);
    }
}

#[cfg(test)]
mod tests;
