//! Every run of a journal, as a view that can be kept.

use std::collections::HashMap;

use super::{Ending, Previous, Run, Stage, Turn, TurnExit};
use crate::chain::spawn::Spawns;
use crate::chain::{load_asked, save_asked};
use crate::failure::{FailureKind, TurnFailure};
use crate::record::{EventInvalid, Glance, LoopStart};
use crate::view::View;
use crate::view::bytes::{Taker, put_number, put_text};
use crate::wave::{Waves, load_requests, save_requests};

/// The runs of a journal, in the order in which they began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    runs: Vec<Run>,
    places: HashMap<String, usize>,
}

impl Runs {
    /// All of them.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Run> {
        self.runs.iter()
    }

    /// A run by its id.
    pub fn get(&self, id: &str) -> Option<&Run> {
        self.places.get(id).map(|&place| &self.runs[place])
    }

    fn run(&mut self, id: &str) -> &mut Run {
        let place = match self.places.get(id) {
            Some(&place) => place,
            None => {
                self.places.insert(id.to_owned(), self.runs.len());
                self.runs.push(Run::new(id));
                self.runs.len() - 1
            }
        };
        &mut self.runs[place]
    }
}

impl View for Runs {
    const NAME: &'static str = "runs";
    const VERSION: u32 = 11;

    fn apply(&mut self, record: &Glance<'_>) {
        let id = record.run();
        // What concerns the journal as a whole belongs to no run.
        if !id.is_empty() && (self.places.contains_key(&*id) || !is_of_a_chain(record)) {
            self.run(&id).apply(record);
        }
    }

    fn save(&self, out: &mut Vec<u8>) {
        put_number(self.runs.len() as u64, out);
        for run in &self.runs {
            save_run(run, out);
        }
    }

    fn load(bytes: &[u8]) -> Option<Self> {
        let mut taker = Taker::new(bytes);
        let mut runs = Runs::default();
        for _ in 0..taker.count()? {
            let run = load_run(&mut taker)?;
            let place = runs.run(&run.id);
            *place = run;
        }
        taker.is_done().then_some(runs)
    }
}

/// A chain has an id of its own, which is not the id of a run.
fn is_of_a_chain(record: &Glance<'_>) -> bool {
    !record.has_payload() && record.topic().starts_with("chain.")
}

fn save_run(run: &Run, out: &mut Vec<u8>) {
    for text in [&run.id, &run.times.0, &run.times.1, &run.recent_event] {
        put_text(text, out);
    }
    for number in [run.done, run.invalid_count, run.reviewed_before] {
        put_number(number, out);
    }
    put_number(run.last_rejected.is_some().into(), out);
    put_text(run.last_rejected.as_deref().unwrap_or_default(), out);
    put_number(run.start.is_some().into(), out);
    if let Some(start) = &run.start {
        put_number(start.max_iterations, out);
        put_number(start.review_every, out);
        for text in [&start.completion_promise, &start.completion_event, &start.objective] {
            put_text(text, out);
        }
        for text in [&start.preset, &start.preset_dir, &start.parent, &start.opening_event] {
            put_text(text.as_deref().unwrap_or_default(), out);
        }
    }
    let (stage, reason) = match &run.stage {
        Stage::New => (0, ""),
        Stage::Between => (1, ""),
        Stage::Iterating => (2, ""),
        Stage::Reviewing => (3, ""),
        Stage::Ended(Ending::Complete { reason }) => (4, reason.as_str()),
        Stage::Ended(Ending::Stop { reason }) => (5, reason.as_str()),
    };
    put_number(stage, out);
    put_text(reason, out);
    save_texts(run.seen.iter(), run.seen.len(), out);
    save_invalid(run.backpressure.as_ref(), out);
    save_turn(&run.turn, out);
    save_previous(run.before.as_ref(), out);
    run.waves.save(out);
    run.spawns.save(out);
}

fn load_run(taker: &mut Taker<'_>) -> Option<Run> {
    let mut run = Run::new(taker.text()?);
    run.times = (taker.text()?.to_owned(), taker.text()?.to_owned());
    run.recent_event = taker.text()?.to_owned();
    run.done = taker.number()?;
    run.invalid_count = taker.number()?;
    run.reviewed_before = taker.number()?;
    let was_rejected = taker.number()? == 1;
    run.last_rejected = Some(taker.text()?.to_owned()).filter(|_| was_rejected);
    if taker.number()? == 1 {
        run.start = Some(LoopStart {
            max_iterations: taker.number()?,
            review_every: taker.number()?,
            completion_promise: taker.text()?.to_owned(),
            completion_event: taker.text()?.to_owned(),
            objective: taker.text()?.to_owned(),
            preset: maybe(taker.text()?),
            preset_dir: maybe(taker.text()?),
            parent: maybe(taker.text()?),
            opening_event: maybe(taker.text()?),
        });
    }
    let stage = taker.number()?;
    let reason = taker.text()?.to_owned();
    run.stage = match stage {
        0 => Stage::New,
        1 => Stage::Between,
        2 => Stage::Iterating,
        3 => Stage::Reviewing,
        4 => Stage::Ended(Ending::Complete { reason }),
        5 => Stage::Ended(Ending::Stop { reason }),
        _ => return None,
    };
    run.seen = load_texts(taker)?.into_iter().collect();
    run.backpressure = load_invalid(taker)?;
    run.turn = load_turn(taker)?;
    run.before = load_previous(taker)?;
    run.waves = Waves::load(taker)?;
    run.spawns = Spawns::load(taker)?;
    Some(run)
}

/// A text that was saved as nothing when there was none.
fn maybe(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn save_invalid(invalid: Option<&EventInvalid>, out: &mut Vec<u8>) {
    put_number(invalid.is_some().into(), out);
    let Some(invalid) = invalid else { return };
    let EventInvalid { recent_event, emitted, suggested_roles, allowed_events, reason } = invalid;
    for text in [recent_event, emitted, suggested_roles, allowed_events] {
        put_text(text, out);
    }
    put_text(reason.as_deref().unwrap_or_default(), out);
}

fn load_invalid(taker: &mut Taker<'_>) -> Option<Option<EventInvalid>> {
    if taker.number()? != 1 {
        return Some(None);
    }
    let mut text = || taker.text().map(str::to_owned);
    Some(Some(EventInvalid {
        recent_event: text()?,
        emitted: text()?,
        suggested_roles: text()?,
        allowed_events: text()?,
        reason: maybe(&text()?),
    }))
}

fn save_turn(turn: &Turn, out: &mut Vec<u8>) {
    put_text(&turn.opening_event, out);
    save_invalid(turn.opening_backpressure.as_ref(), out);
    save_requests(&turn.requests, out);
    save_asked(&turn.asked, out);
    save_texts(turn.events.iter(), turn.events.len(), out);
    save_texts(turn.refusals.iter(), turn.refusals.len(), out);
    let flags = [turn.refused, turn.withdrawn, turn.replayed];
    put_number(flags.iter().rev().fold(0, |bits, flag| bits << 1 | u64::from(*flag)), out);
    put_number(turn.exit.is_some().into(), out);
    if let Some(exit) = &turn.exit {
        put_number(exit.code.cast_unsigned().into(), out);
        put_number(exit.promised.into(), out);
        save_failure(exit.failure.as_ref(), out);
    }
}

fn load_turn(taker: &mut Taker<'_>) -> Option<Turn> {
    let opening_event = taker.text()?.to_owned();
    let opening_backpressure = load_invalid(taker)?;
    let requests = load_requests(taker)?;
    let asked = load_asked(taker)?;
    let events = load_texts(taker)?;
    let refusals = load_texts(taker)?;
    let flags = taker.number()?;
    let exit = match taker.number()? {
        0 => None,
        _ => {
            let code = u32::try_from(taker.number()?).ok()?.cast_signed();
            let promised = taker.number()? != 0;
            Some(TurnExit { code, promised, failure: load_failure(taker)? })
        }
    };
    let (refused, withdrawn, replayed) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
    Some(Turn {
        opening_event,
        opening_backpressure,
        requests,
        asked,
        replayed,
        events,
        refusals,
        refused,
        withdrawn,
        exit,
    })
}

fn save_failure(failure: Option<&TurnFailure>, out: &mut Vec<u8>) {
    let kind = match failure.map(|failure| failure.kind) {
        None => 0,
        Some(FailureKind::Timeout) => 1,
        Some(FailureKind::Interrupt) => 2,
        Some(FailureKind::Exit(code)) => 3 + u64::from(code.cast_unsigned()),
    };
    put_number(kind, out);
    if let Some(failure) = failure {
        put_text(&failure.detail, out);
    }
}

fn load_failure(taker: &mut Taker<'_>) -> Option<Option<TurnFailure>> {
    let kind = match taker.number()? {
        0 => return Some(None),
        1 => FailureKind::Timeout,
        2 => FailureKind::Interrupt,
        code => FailureKind::Exit(u32::try_from(code - 3).ok()?.cast_signed()),
    };
    Some(Some(TurnFailure { kind, detail: taker.text()?.to_owned() }))
}

fn save_previous(previous: Option<&Previous>, out: &mut Vec<u8>) {
    put_number(previous.is_some().into(), out);
    let Some(Previous { iteration, events, refusals, withdrawn, promised }) = previous else {
        return;
    };
    put_number(*iteration, out);
    save_texts(events.iter(), events.len(), out);
    save_texts(refusals.iter(), refusals.len(), out);
    put_number(u64::from(*withdrawn) | u64::from(*promised) << 1, out);
}

fn load_previous(taker: &mut Taker<'_>) -> Option<Option<Previous>> {
    if taker.number()? != 1 {
        return Some(None);
    }
    let iteration = taker.number()?;
    let (events, refusals) = (load_texts(taker)?, load_texts(taker)?);
    let flags = taker.number()?;
    let (withdrawn, promised) = (flags & 1 != 0, flags & 2 != 0);
    Some(Some(Previous { iteration, events, refusals, withdrawn, promised }))
}

fn save_texts<'a>(texts: impl Iterator<Item = &'a String>, count: usize, out: &mut Vec<u8>) {
    put_number(count as u64, out);
    texts.for_each(|text| put_text(text, out));
}

fn load_texts(taker: &mut Taker<'_>) -> Option<Vec<String>> {
    (0..taker.count()?).map(|_| taker.text().map(str::to_owned)).collect()
}
