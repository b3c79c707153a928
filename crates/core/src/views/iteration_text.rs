//! The two long texts of an iteration: what the agent was told, and what it printed.

use crate::record::{Glance, IterationFinish, IterationStart, SlotFix, SlotImplement, SlotReview};

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IterationText {
    /// What the agent was told.
    Prompt,
    /// What it printed.
    Output,
}

impl IterationText {
    /// The field that holds it.
    pub fn field(self) -> &'static str {
        match self {
            IterationText::Prompt => "prompt",
            IterationText::Output => "output",
        }
    }

    fn topic(self) -> &'static str {
        match self {
            IterationText::Prompt => IterationStart::TOPIC,
            IterationText::Output => IterationFinish::TOPIC,
        }
    }

    /// The number of the iteration whose text this record holds, as written, if it holds one. What an
    /// agent says about an iteration does not count.
    pub fn held_by(self, record: &Glance<'_>) -> Option<String> {
        let is_own = record.topic() == self.topic() || self.turn_of_slot(record).is_some();
        (is_own && record.payload().is_none()).then(|| record.iteration().into_owned())
    }

    /// The turn of a slot whose output this record holds, if it is one.
    pub fn turn_of_slot(self, record: &Glance<'_>) -> Option<String> {
        let topic = record.topic();
        let topics = [SlotImplement::TOPIC, SlotReview::TOPIC, SlotFix::TOPIC];
        let is_turn = self == IterationText::Output && topics.contains(&topic.as_ref());
        let field = |name| record.field(name).unwrap_or_default();
        let attempt = field("attempt");
        let attempt = if attempt.is_empty() { attempt } else { format!(" {attempt}").into() };
        let phase = topic.trim_start_matches("slot.");
        is_turn.then(|| format!("slot {}, {phase}{attempt}", field("slot")))
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
