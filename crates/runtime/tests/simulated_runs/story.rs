//! How a run starts, and its outcome.

use std::collections::BTreeSet;

use crate::rules::Rules;
use crate::wave::Outcomes;

/// The outcome of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Story {
    pub(crate) ending: Option<String>,
    pub(crate) done: Vec<Done>,
    /// The iterations before which there was a review.
    pub(crate) reviews: BTreeSet<u64>,
    /// The events that were accepted.
    pub(crate) seen: BTreeSet<String>,
    /// The event that routes.
    pub(crate) recent: String,
    /// The waves that were joined: the request of each, and how its branches ended.
    pub(crate) waves: Vec<(String, Outcomes)>,
    /// How the chains ended that it requested.
    pub(crate) chains: Vec<String>,
}

/// How a run starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Birth {
    /// The run that it is a branch of, and the event that routes it at first.
    pub(crate) parent: Option<String>,
    pub(crate) opening_event: Option<String>,
    /// What its prompts must contain beyond the common parts.
    pub(crate) objective: String,
    pub(crate) handoff: Vec<String>,
}

/// An iteration that was finished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) opening: String,
    pub(crate) accepted: Vec<String>,
    pub(crate) code: i32,
    pub(crate) timed_out: bool,
    pub(crate) promised: bool,
    pub(crate) withdrawn: bool,
    pub(crate) refused: bool,
    pub(crate) asked_for_chains: bool,
    /// Whether its prompt reported a refusal.
    pub(crate) was_pressed: bool,
}

impl Done {
    pub(crate) fn has_failed(&self) -> bool {
        self.timed_out || self.code != 0
    }
}

impl Story {
    /// An event of the last iteration that was accepted so far is refused.
    pub(crate) fn take_back(&mut self, event: &str) {
        let last = self.done.last_mut().expect("an iteration emitted it");
        let place = last.accepted.iter().rposition(|accepted| accepted == event);
        last.accepted.remove(place.expect("it was accepted so far"));
        last.withdrawn = true;
        self.recent = last.accepted.last().unwrap_or(&last.opening).clone();
    }

    /// How the run has to end now, if it has to, whatever the outcome of the last iteration.
    pub(crate) fn verdict(&self, last: Option<&Done>, rules: &Rules) -> Option<String> {
        let Story { done, seen, .. } = self;
        let is_over =
            || (done.len() as u64 >= rules.max).then(|| "loop.stop max_iterations".to_owned());
        let Some(last) = last else { return is_over() };
        let may_complete =
            !last.withdrawn && rules.required.iter().all(|&event| seen.contains(event));
        let is_alone = last.accepted.is_empty() && !last.refused && !last.asked_for_chains;
        let is_promised = last.promised && is_alone;
        Some(match last {
            Done { timed_out: true, .. } => "loop.stop backend_timeout".to_owned(),
            Done { code: 1.., .. } => "loop.stop backend_failed".to_owned(),
            _ if may_complete && seen.contains(rules.completion) => {
                "loop.complete completion_event".to_owned()
            }
            _ if may_complete && is_promised => "loop.complete completion_promise".to_owned(),
            _ => return is_over(),
        })
    }
}

impl Birth {
    /// A prompt has the objective of the run and the results of earlier steps.
    pub(crate) fn check_prompt(&self, prompt: &str) {
        let Birth { objective, handoff, .. } = self;
        assert!(prompt.contains(objective), "{objective:?} is not in {prompt}");
        for line in handoff {
            assert!(prompt.contains(&format!("{line}\n")), "{line:?} is not in {prompt}");
        }
    }
}
