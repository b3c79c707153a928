//! The remark about the last iteration: it emitted no event, or its claim of completion did not count.

use super::{Rules, completion};
use crate::record::ChainSpawned;
use crate::run::Run;
use crate::text;
use crate::topology::Topology;

/// How many events one sentence lists.
const NAMES: usize = 5;
/// How many characters of an event are shown.
const NAME: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// It emitted no event, and none was refused. The run ends with the last one of so many in a row.
    NoEvent { iteration: u64, in_a_row: u64, most: Option<u64> },
    /// It claimed completion by an event or by the promise in its output, and that did not count.
    NotCounted { iteration: u64, claim: &'static str, why: String },
}

impl Remark {
    /// The sentence in the next prompt.
    pub fn notice(&self) -> String {
        match self {
            Remark::NoEvent { iteration, in_a_row, most } => {
                let limit = most.filter(|_| *in_a_row > 1).map(|most| {
                    format!(" {in_a_row} iterations in a row brought nothing: after {most} the run ends.")
                });
                format!(
                    "Iteration {iteration} emitted no event, so this one is routed as it was. Emit an event before you end your turn.{}",
                    limit.unwrap_or_default()
                )
            }
            Remark::NotCounted { iteration, claim, why } => {
                format!("The {claim} of iteration {iteration} did not count: {why}.")
            }
        }
    }
}

pub fn remark(run: &Run, rules: &Rules, topology: &Topology) -> Option<Remark> {
    let turn = run.previous()?;
    if completion(run, rules).is_some() {
        return None;
    }
    let (iteration, refusals) = (turn.iteration, &turn.refusals);
    let asked = turn.asked.iter().map(|_| ChainSpawned::TOPIC.to_owned());
    let events: Vec<String> = turn.events.iter().cloned().chain(asked).collect();
    let promised = turn.exit.as_ref().is_some_and(|exit| exit.promised);
    let missing = || rules.required_events.iter().filter(|event| !run.seen.contains(*event));
    let mut why = Vec::new();
    let is_event = events.contains(&rules.completion_event);
    let claim = match is_event {
        true => "completion event",
        false if promised => "completion promise",
        false if events.is_empty() && refusals.is_empty() => {
            let in_a_row = run.idle.in_a_row(topology);
            return Some(Remark::NoEvent { iteration, in_a_row, most: rules.stall_iterations });
        }
        false => return None,
    };
    if turn.withdrawn || !is_event && !refusals.is_empty() {
        let were = if refusals.len() == 1 { "was" } else { "were" };
        why.push(format!("{} {were} refused in the turn", listed(refusals.iter())));
    }
    if !is_event && !events.is_empty() {
        why.push(format!("the turn also emitted {}", listed(events.iter())));
    }
    if missing().next().is_some() {
        let missing: Vec<&str> = missing().map(String::as_str).collect();
        why.push(format!("required events were not seen yet: {}", missing.join(", ")));
    }
    (!why.is_empty()).then(|| Remark::NotCounted { iteration, claim, why: why.join("; ") })
}

/// Topics that agents chose, in one line.
fn listed<'a>(names: impl ExactSizeIterator<Item = &'a String>) -> String {
    let more = names.len().saturating_sub(NAMES);
    let name = |name: &String| {
        let seen = text::one_line(text::head(name, NAME * 4)).replace('`', "'");
        format!("`{}`", text::clip(&seen, NAME))
    };
    let mut shown: Vec<String> = names.take(NAMES).map(name).collect();
    if more > 0 {
        shown.push(format!("{more} more"));
    }
    shown.join(", ")
}
