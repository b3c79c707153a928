//! The prompts of a run: read when it begins, recorded, and the same until it ends.
//!
//! An agent that works in the project can write its prompt files. What reviewers are told decides how its work
//! is judged, so a change during the run is reported and does not count, also after a resume.

use autoloop_core::config::Key;
use autoloop_core::prompt::slot::instructions;
use autoloop_core::record::SlotRunPrompts;

use super::SlotDrive;
use crate::drive::DriveError;
use crate::project::{LoadError, SlotPrompt, SlotPrompts};

/// The prompts of a run, and what was last reported about their files.
pub(super) struct RunPrompts {
    pub(super) in_force: SlotRunPrompts,
    reported: Vec<String>,
}

impl RunPrompts {
    /// The prompts that a run uses: those on record, but for those that the user names now, or those that were
    /// read.
    ///
    /// # Errors
    ///
    /// When a prompt has to be read and cannot be.
    pub(super) fn of(
        recorded: Option<&SlotRunPrompts>,
        read: Result<SlotPrompts, LoadError>,
        named_now: &[Key],
    ) -> Result<RunPrompts, LoadError> {
        let in_force = match recorded {
            Some(recorded) if named_now.is_empty() => recorded.clone(),
            None => taken(&read?),
            Some(recorded) => {
                let mut kept = recorded.clone();
                let read = taken(&read?);
                if named_now.contains(&Key::SlotsDeveloperPrompt) {
                    kept.developer_prompt = read.developer_prompt;
                }
                if named_now.contains(&Key::SlotsReviewerPrompt) {
                    kept.reviewer_prompt = read.reviewer_prompt;
                }
                kept
            }
        };
        Ok(RunPrompts { in_force, reported: Vec::new() })
    }

    /// What is to be reported about prompt files that are not what they were; nothing that was reported
    /// already.
    fn news(&mut self, read: Result<SlotPrompts, LoadError>) -> Vec<String> {
        let kept = "this run uses the one that it began with";
        let changes = match read {
            Err(error) => vec![format!("a prompt cannot be read any more ({error}); {kept}")],
            Ok(prompts) => {
                let read = taken(&prompts);
                let is_changed = [
                    ("developer", read.developer_prompt != self.in_force.developer_prompt),
                    ("reviewer", read.reviewer_prompt != self.in_force.reviewer_prompt),
                ];
                let changed = is_changed.into_iter().filter(|(_, is_changed)| *is_changed);
                changed.map(|(who, _)| format!("the {who} prompt changed; {kept}")).collect()
            }
        };
        let news =
            changes.iter().filter(|change| !self.reported.contains(change)).cloned().collect();
        self.reported = changes;
        news
    }
}

/// Prompts as they are recorded.
fn taken(prompts: &SlotPrompts) -> SlotRunPrompts {
    let text = |prompt: &SlotPrompt| instructions(&prompt.text);
    SlotRunPrompts {
        developer_prompt: text(&prompts.developer),
        reviewer_prompt: prompts.reviewer.as_ref().map(text),
    }
}

impl SlotDrive<'_> {
    /// Reports prompt files that are not what the run uses.
    pub(super) fn compare_prompts(&mut self) {
        let read = self.project.slot_prompts(&self.loaded, &*self.site.world.disk);
        for change in self.prompts.news(read) {
            self.site.note(&change);
        }
    }

    /// Records the prompts that the run uses, unless these are on record.
    pub(super) fn record_prompts(&self) -> Result<(), DriveError> {
        let prompts = &self.prompts.in_force;
        if self.look(|slots| slots.prompts.as_ref() == Some(prompts)) {
            return Ok(());
        }
        self.put(0, |heading| vec![prompts.record(heading)])
    }
}
