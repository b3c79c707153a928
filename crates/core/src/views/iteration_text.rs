//! The two long texts of an iteration: the prompt and the output of its agent.

use crate::record::{
    Event, Glance, IterationFinish, IterationStart, SlotFix, SlotImplement, SlotReview,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IterationText {
    Prompt,
    Output,
}

impl IterationText {
    /// The field that contains it.
    pub fn field(self) -> &'static str {
        match self {
            IterationText::Prompt => "prompt",
            IterationText::Output => "output",
        }
    }

    /// The iteration whose text this record of the harness contains, as written.
    pub fn held_by(self, record: &Glance<'_>) -> Option<String> {
        let topics: &[&str] = match self {
            IterationText::Prompt => &[IterationStart::TOPIC],
            IterationText::Output => {
                &[IterationFinish::TOPIC, SlotImplement::TOPIC, SlotReview::TOPIC, SlotFix::TOPIC]
            }
        };
        let is_own = topics.contains(&record.topic().as_ref()) && !record.has_payload();
        is_own.then(|| record.iteration().into_owned())
    }

    /// The name of the slot's turn whose output this record contains.
    pub fn turn_of_slot(self, record: &Glance<'_>) -> Option<String> {
        match record.event() {
            _ if self == IterationText::Prompt => None,
            Event::SlotImplement(turn) => Some(format!("slot {}, implement", turn.slot)),
            Event::SlotReview(turn) => Some(format!("slot {}, review {}", turn.slot, turn.attempt)),
            Event::SlotFix(turn) => Some(format!("slot {}, fix {}", turn.slot, turn.attempt)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_harness_says_what_an_iteration_was() {
        let held = |line: &str| {
            let glance = Glance::read(line.as_bytes()).unwrap();
            [IterationText::Prompt, IterationText::Output].map(|text| text.held_by(&glance))
        };
        let start = r#"{"run": "r", "iteration": "2", "topic": "iteration.start", "fields": {"prompt": "p"}}"#;
        assert_eq!(held(start), [Some("2".to_owned()), None]);
        let finish = r#"{"run": "r", "iteration": 2, "topic": "iteration.finish", "fields": {}}"#;
        assert_eq!(held(finish), [None, Some("2".to_owned())]);
        let forged = r#"{"run": "r", "iteration": "2", "topic": "iteration.finish", "payload": "p", "source": "agent"}"#;
        assert_eq!(held(forged), [None, None]);
    }
}
