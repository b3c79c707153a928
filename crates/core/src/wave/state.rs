//! The fold of the waves of a run.

use serde::{Deserialize, Serialize};

use crate::failure::last_line;
use crate::merge::{Merge, MergeOutcome};
use crate::record::{Event, StopReason, WaveBranchMerge, WaveStart};
use crate::text::Shortened;
use crate::wire_enum::Word;

/// How many characters of a branch's output are kept for the parent.
const OUTPUT_KEPT: usize = 8_000;
/// In bytes; a longer request is refused anyway.
const REQUEST_KEPT: usize = super::LONGEST + 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub topic: String,
    pub payload: String,
}

impl Request {
    pub fn new(topic: &str, payload: &str) -> Request {
        let mut end = payload.len().min(REQUEST_KEPT);
        while !payload.is_char_boundary(end) {
            end -= 1;
        }
        Request { topic: topic.to_owned(), payload: payload[..end].to_owned() }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waves {
    /// The undecided requests of the last iteration.
    pub requests: Vec<Request>,
    /// The wave that has not been joined.
    pub open: Option<Wave>,
    /// The last wave, until the next iteration ends.
    pub joined: Option<Wave>,
    pub count: u64,
}

impl Waves {
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

    pub fn join(&mut self) -> Option<String> {
        self.joined = self.open.take();
        self.joined.as_ref().map(|wave| wave.resume_event.clone())
    }

    pub fn forget(&mut self, topic: &str) {
        if let Some(place) = self.requests.iter().position(|request| request.topic == topic) {
            self.requests.remove(place);
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wave {
    pub id: String,
    pub trigger: String,
    pub opening_event: String,
    /// The commit that its branches begin at, each in a worktree; empty where they share the
    /// project.
    pub base: String,
    pub branches: Vec<Branch>,
    /// How much of its join is recorded.
    pub told: JoinProgress,
    /// The event that routes the run after it; empty until the join ends.
    pub resume_event: String,
}

/// The recorded parts of a join: a crash can leave some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinProgress {
    pub start: bool,
    pub timeout: bool,
    pub failed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    pub objective: String,
    pub is_begun: bool,
    pub outcome: Option<Outcome>,
    pub merge: Option<Merge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    pub stop_reason: Word<StopReason>,
    pub elapsed_ms: u64,
    pub tree: String,
    /// Shortened.
    pub output: Shortened,
    /// Why its agent failed; empty where it did not.
    pub detail: String,
}

impl Outcome {
    /// Whether it reached its goal or its limit.
    pub fn is_success(&self) -> bool {
        self.stop_reason.is_success()
    }

    pub fn is_timeout(&self) -> bool {
        self.stop_reason == StopReason::BackendTimeout
    }
}

impl Wave {
    fn opened_by(start: &WaveStart) -> Wave {
        let objectives = super::objectives(&start.objectives, u64::MAX).unwrap_or_default();
        let branch = |objective| Branch { objective, is_begun: false, outcome: None, merge: None };
        Wave {
            id: start.wave_id.clone(),
            trigger: start.trigger_topic.clone(),
            opening_event: start.opening_recent_event.clone(),
            base: start.base.clone().unwrap_or_default(),
            branches: objectives.into_iter().map(branch).collect(),
            told: JoinProgress::default(),
            resume_event: String::new(),
        }
    }

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

    /// `None` for a branch of another wave.
    fn branch_mut(&mut self, wave_id: &str, branch_id: &str) -> Option<&mut Branch> {
        let number: usize = branch_id.strip_prefix("branch-")?.parse().ok()?;
        let place = number.checked_sub(1).filter(|_| wave_id == self.id)?;
        self.branches.get_mut(place)
    }
}

pub(super) fn branch_id(place: usize) -> String {
    format!("branch-{}", place + 1)
}

impl Merge {
    /// An unknown outcome counts as a failure, so that the work is kept.
    fn on_record(merge: &WaveBranchMerge) -> Merge {
        Merge {
            outcome: merge.outcome.known().unwrap_or(MergeOutcome::Failed),
            branch: merge.branch.clone(),
            commit: merge.commit.clone(),
            tree: merge.tree.clone().unwrap_or_default(),
            files: merge.files.clone(),
            detail: merge.detail.clone().unwrap_or_default(),
        }
    }

    pub fn record_of(self, wave_id: &str, branch_id: &str) -> WaveBranchMerge {
        WaveBranchMerge {
            wave_id: wave_id.to_owned(),
            branch_id: branch_id.to_owned(),
            outcome: self.outcome.into(),
            branch: self.branch,
            commit: self.commit,
            tree: Some(self.tree).filter(|tree| !tree.is_empty()),
            files: self.files,
            detail: Some(self.detail).filter(|detail| !detail.is_empty()),
        }
    }
}
