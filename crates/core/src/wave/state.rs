//! What is on record about a wave.

use serde::{Deserialize, Serialize};

use crate::failure::last_line;
use crate::merge::Merge;
use crate::record::{Event, StopReason, WaveStart};
use crate::text::Shortened;
use crate::wire_enum::Word;

/// How many characters of a branch's output are kept for the parent.
const OUTPUT_KEPT: usize = 8_000;
/// How many bytes of a request are kept; one that is longer is refused anyway.
const REQUEST_KEPT: usize = super::list::LONGEST + 1;

/// Somebody asks for a wave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The event that asks for it.
    pub topic: String,
    /// The list of objectives.
    pub payload: String,
}

impl Request {
    /// The request that an event makes.
    pub fn new(topic: &str, payload: &str) -> Request {
        let mut end = payload.len().min(REQUEST_KEPT);
        while !payload.is_char_boundary(end) {
            end -= 1;
        }
        Request { topic: topic.to_owned(), payload: payload[..end].to_owned() }
    }
}

/// The waves of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waves {
    /// What was asked for in the iteration that ended last, and is not decided yet.
    pub requests: Vec<Request>,
    /// The one that is under way.
    pub open: Option<Wave>,
    /// The last one, until the run has gone on from it.
    pub joined: Option<Wave>,
    /// How many there were.
    pub count: u64,
}

impl Waves {
    /// Takes in an event of the run's harness.
    pub fn apply(&mut self, event: &Event<'_>) {
        match event {
            Event::WaveStart(start) => {
                self.forget(&start.trigger_topic);
                self.count += 1;
                self.open = Some(Wave::opened_by(start));
            }
            Event::WaveInvalid(invalid) => self.forget(&invalid.trigger_topic),
            event => {
                if let Some(wave) = &mut self.open {
                    wave.apply(event);
                }
            }
        }
    }

    /// The run goes on from the wave under way; returns the event that routes it.
    pub fn join(&mut self) -> Option<String> {
        self.joined = self.open.take();
        self.joined.as_ref().map(|wave| wave.resume_event.clone())
    }

    /// The first request of this topic is decided.
    pub fn forget(&mut self, topic: &str) {
        if let Some(place) = self.requests.iter().position(|request| request.topic == topic) {
            self.requests.remove(place);
        }
    }
}

/// A wave that was opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wave {
    /// Its id.
    pub id: String,
    /// The event that asked for it.
    pub trigger: String,
    /// The event that routed the iteration in which it was asked for.
    pub opening_event: String,
    /// The commit that its branches begin at, each in a tree of its own; empty where they share one.
    pub base: String,
    /// What is done in it.
    pub branches: Vec<Branch>,
    /// How much of its join is on record.
    pub told: Told,
    /// The event that routes the run after it; empty until the join is finished.
    pub resume_event: String,
}

/// How much of a join is on record before its end: a crash can leave a part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// The outcomes.
    pub start: bool,
    /// Which branches took too long.
    pub timeout: bool,
    /// Which branches failed.
    pub failed: bool,
}

/// One branch of a wave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// What it is for.
    pub objective: String,
    /// Whether it was begun.
    pub is_begun: bool,
    /// How it ended; `None` as long as it did not.
    pub outcome: Option<Outcome>,
    /// What became of its work; `None` as long as that was not tried, and in a shared tree.
    pub merge: Option<Merge>,
}

/// How a branch ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Why it stopped, in the words of its run.
    pub stop_reason: Word<StopReason>,
    /// How long it took.
    pub elapsed_ms: u64,
    /// The tree object that it left in a working tree of its own; empty where there is none.
    pub tree: String,
    /// What it printed, shortened.
    pub output: Shortened,
    /// Why its agent failed; empty where it did not.
    pub detail: String,
}

impl Outcome {
    /// Whether it did what a branch is to do: act once, or reach its goal.
    pub fn is_success(&self) -> bool {
        self.stop_reason.is_success()
    }

    /// Whether its time was up.
    pub fn is_timeout(&self) -> bool {
        self.stop_reason == StopReason::BackendTimeout
    }
}

impl Wave {
    /// The wave that a record opens.
    fn opened_by(start: &WaveStart) -> Wave {
        let objectives = super::objectives(&start.objectives, u64::MAX).unwrap_or_default();
        let branch = |objective| Branch { objective, is_begun: false, outcome: None, merge: None };
        Wave {
            id: start.wave_id.clone(),
            trigger: start.trigger_topic.clone(),
            opening_event: start.opening_recent_event.clone(),
            base: start.base.clone().unwrap_or_default(),
            branches: objectives.into_iter().map(branch).collect(),
            told: Told::default(),
            resume_event: String::new(),
        }
    }

    /// Takes in an event of the run's harness, if it is about this wave.
    fn apply(&mut self, event: &Event<'_>) {
        match event {
            Event::WaveBranchStart(start) => {
                if let Some(branch) = self.branch_mut(&start.wave_id, &start.branch_id) {
                    branch.is_begun = true;
                }
            }
            Event::WaveBranchFinish(finish) => {
                if let Some(branch) = self.branch_mut(&finish.wave_id, &finish.branch_id) {
                    branch.outcome = Some(Outcome {
                        stop_reason: finish.stop_reason.clone(),
                        elapsed_ms: finish.elapsed_ms.unwrap_or_default(),
                        tree: finish.tree.clone().unwrap_or_default(),
                        output: Shortened::new(&finish.output.read(), OUTPUT_KEPT),
                        detail: finish.detail.as_deref().map(last_line).unwrap_or_default(),
                    });
                }
            }
            Event::WaveBranchMerge(merge) => {
                if let Some(branch) = self.branch_mut(&merge.wave_id, &merge.branch_id) {
                    branch.merge = Some(Merge::on_record(merge));
                }
            }
            Event::WaveJoinStart(join) if join.wave_id == self.id => self.told.start = true,
            Event::WaveTimeout(timeout) if timeout.wave_id == self.id => self.told.timeout = true,
            Event::WaveFailed(failed) if failed.wave_id == self.id => self.told.failed = true,
            Event::WaveJoinFinish(join) if join.wave_id == self.id => {
                self.resume_event.clone_from(&join.resume_recent_event);
            }
            _ => {}
        }
    }

    /// A branch of a wave, if the wave is this one.
    fn branch_mut(&mut self, wave_id: &str, branch_id: &str) -> Option<&mut Branch> {
        let number: usize = branch_id.strip_prefix("branch-")?.parse().ok()?;
        let place = number.checked_sub(1).filter(|_| wave_id == self.id)?;
        self.branches.get_mut(place)
    }
}

/// The name of a branch, by its place.
pub(super) fn branch_id(place: usize) -> String {
    format!("branch-{}", place + 1)
}
