//! What is on record about a wave.

use serde::{Deserialize, Serialize};

use crate::excerpt::Shortened;
use crate::failure::last_line;
use crate::merge::Merge;
use crate::record::{
    Glance, WaveBranchFinish, WaveBranchMerge, WaveBranchStart, WaveFailed, WaveInvalid,
    WaveJoinFinish, WaveJoinStart, WaveStart, WaveTimeout,
};
use crate::run::ended_well;

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
    /// Takes in a record of the run that is about waves.
    pub fn apply(&mut self, record: &Glance<'_>) {
        match record.topic().as_ref() {
            WaveStart::TOPIC => {
                let wave = Wave::opened_by(record);
                self.forget(&wave.trigger);
                self.count += 1;
                self.open = Some(wave);
            }
            WaveInvalid::TOPIC => {
                self.forget(&record.field("trigger_topic").unwrap_or_default());
            }
            _ => {
                if let Some(wave) = &mut self.open {
                    wave.apply(record);
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
    pub stop_reason: String,
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
        ended_well(&self.stop_reason)
    }

    /// Whether its time was up.
    pub fn is_timeout(&self) -> bool {
        self.stop_reason == "backend_timeout"
    }
}

impl Wave {
    /// The wave that a record opens.
    fn opened_by(record: &Glance<'_>) -> Wave {
        let text = |name: &str| record.field(name).unwrap_or_default().into_owned();
        let listed = text("objectives");
        let objectives = super::objectives(&listed, u64::MAX).unwrap_or_default();
        let branch = |objective| Branch { objective, is_begun: false, outcome: None, merge: None };
        Wave {
            id: text("wave_id"),
            trigger: text("trigger_topic"),
            opening_event: text("opening_recent_event"),
            base: text("base"),
            branches: objectives.into_iter().map(branch).collect(),
            told: Told::default(),
            resume_event: String::new(),
        }
    }

    /// Takes in a record of the run about this wave.
    fn apply(&mut self, record: &Glance<'_>) {
        let text = |name: &str| record.field(name).unwrap_or_default().into_owned();
        if text("wave_id") != self.id {
            return;
        }
        let branch = |wave: &mut Wave| {
            let number: usize = text("branch_id").strip_prefix("branch-")?.parse().ok()?;
            let place = number.checked_sub(1)?;
            (place < wave.branches.len()).then_some(place)
        };
        match record.topic().as_ref() {
            WaveBranchStart::TOPIC => {
                if let Some(place) = branch(self) {
                    self.branches[place].is_begun = true;
                }
            }
            WaveBranchFinish::TOPIC => {
                if let Some(place) = branch(self) {
                    self.branches[place].outcome = Some(Outcome {
                        stop_reason: text("stop_reason"),
                        elapsed_ms: text("elapsed_ms").parse().unwrap_or_default(),
                        tree: text("tree"),
                        output: Shortened::new(&text("output"), OUTPUT_KEPT),
                        detail: last_line(&text("detail")),
                    });
                }
            }
            WaveBranchMerge::TOPIC => {
                if let Some(place) = branch(self) {
                    self.branches[place].merge = Some(Merge::on_record(record));
                }
            }
            WaveJoinStart::TOPIC => self.told.start = true,
            WaveTimeout::TOPIC => self.told.timeout = true,
            WaveFailed::TOPIC => self.told.failed = true,
            WaveJoinFinish::TOPIC => self.resume_event = text("resume_recent_event"),
            _ => {}
        }
    }
}

/// The name of a branch, by its place.
pub(super) fn branch_id(place: usize) -> String {
    format!("branch-{}", place + 1)
}
