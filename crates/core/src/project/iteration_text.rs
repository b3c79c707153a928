//! The two long texts of an iteration: what the agent was told, and what it printed.

use crate::record::{Glance, IterationFinish, IterationStart};

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
        let holds = record.topic() == self.topic() && record.payload().is_none();
        holds.then(|| record.iteration().into_owned())
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
