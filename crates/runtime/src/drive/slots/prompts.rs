//! The prompts of a run: read when it begins, recorded, and the same until it ends.
//!
//! An agent that works in the project can write its prompt files. The prompt of reviewers decides how its work
//! is judged, so a change during the run is reported and has no effect, also after a resume.

use autoloop_core::config::Key;
use autoloop_core::prompt::slot::instructions;
use autoloop_core::record::SlotRunPrompts;

use crate::project::{LoadError, SlotPrompt, SlotPrompts};

/// The prompts of a run, and what was last reported about their files.
pub(super) struct RunPrompts {
    pub(super) in_force: SlotRunPrompts,
    reported: Vec<String>,
}

impl RunPrompts {
    /// The prompts that a run uses: those on record, except for those that the user names now, or those that were
    /// read.
    pub(super) fn of(
        recorded: Option<&SlotRunPrompts>,
        read: Result<SlotPrompts, LoadError>,
        named_now: &[Key],
    ) -> Result<RunPrompts, LoadError> {
        let in_force = match recorded {
            Some(recorded) if named_now.is_empty() => recorded.clone(),
            None => as_recorded(&read?),
            Some(recorded) => {
                let mut kept = recorded.clone();
                let read = as_recorded(&read?);
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

    /// What differs in the prompt files and was not reported yet.
    pub(super) fn changes(&mut self, read: Result<SlotPrompts, LoadError>) -> Vec<String> {
        let kept = "this run continues with the original one";
        let changes = match read {
            Err(error) => vec![format!("a prompt can no longer be read ({error}); {kept}")],
            Ok(prompts) => {
                let read = as_recorded(&prompts);
                let is_changed = [
                    ("developer", read.developer_prompt != self.in_force.developer_prompt),
                    ("reviewer", read.reviewer_prompt != self.in_force.reviewer_prompt),
                ];
                let changed = is_changed.into_iter().filter(|(_, is_changed)| *is_changed);
                changed.map(|(who, _)| format!("the {who} prompt changed; {kept}")).collect()
            }
        };
        let is_new = |change: &&String| !self.reported.contains(change);
        let new = changes.iter().filter(is_new).cloned().collect();
        self.reported = changes;
        new
    }
}

fn as_recorded(prompts: &SlotPrompts) -> SlotRunPrompts {
    let text = |prompt: &SlotPrompt| instructions(&prompt.text);
    SlotRunPrompts {
        developer_prompt: text(&prompts.developer),
        reviewer_prompt: prompts.reviewer.as_ref().map(text),
    }
}
