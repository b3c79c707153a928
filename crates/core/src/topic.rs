//! The names of events, and who may write them.

use std::fmt;

use crate::text;

/// The name of an event, such as `review.ready`. A topic that was read from a journal may be any
/// text; [`Topic::check`] is the rule for topics that are about to be emitted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(String);

/// Who may write a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopicClass {
    /// Only the harness; from any other writer it is forged.
    Reserved,
    /// Agents, at any time: bookkeeping, which is a claim and never evidence.
    Coordination,
    /// Agents: an event that routes.
    Agent,
}

/// The maximum length of an emitted topic, in bytes.
pub const LONGEST: usize = 200;

/// Prefixes of the harness.
const RESERVED_FAMILIES: [&str; 11] = [
    "loop.",
    "iteration.",
    "backend.",
    "wave.",
    "chain.",
    "slot.",
    "slots.",
    "queue.task.",
    "exchange.",
    "squad.",
    "journal.",
];

/// Topics of the harness under prefixes that agents may use.
const RESERVED_TOPICS: [&str; 5] =
    ["check.finish", "review.start", "review.finish", "review.violation", "event.invalid"];

/// The suffix of the event that the harness emits when a wave has joined.
pub(crate) const JOINED: &str = ".parallel.joined";

const COORDINATION: [&str; 7] = [
    "issue.discovered",
    "issue.resolved",
    "slice.started",
    "slice.verified",
    "slice.committed",
    "context.archived",
    "chain.spawn",
];

impl Topic {
    /// Any text as a topic, unchecked: history is kept as it is.
    pub fn new(text: impl Into<String>) -> Self {
        Topic(text.into())
    }

    /// Checks a topic that is about to be emitted.
    pub fn check(text: &str) -> Result<Topic, BadTopic> {
        if text.is_empty() {
            return Err(BadTopic::Empty);
        }
        if text.len() > LONGEST {
            return Err(BadTopic::TooLong { topic: text.to_owned() });
        }
        match text.chars().find_map(fault) {
            None => Ok(Topic(text.to_owned())),
            Some(fault) => Err(BadTopic::Character { topic: text.to_owned(), fault }),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn class(&self) -> TopicClass {
        TopicClass::of(self.as_str())
    }
}

impl TopicClass {
    pub fn of(name: &str) -> TopicClass {
        // Coordination comes first because `chain.spawn` lies inside a reserved family.
        if COORDINATION.contains(&name) {
            TopicClass::Coordination
        } else if RESERVED_TOPICS.contains(&name)
            || RESERVED_FAMILIES.iter().any(|family| name.starts_with(family))
            || name.ends_with(JOINED)
        {
            TopicClass::Reserved
        } else {
            TopicClass::Agent
        }
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl PartialEq<str> for Topic {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for Topic {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTopic {
    #[error("the topic is empty; a topic is a word like review.ready")]
    Empty,
    #[error(
        "topic '{}' has {} bytes: the limit is {LONGEST}; a topic is a word like review.ready",
        shown(.topic),
        .topic.len()
    )]
    TooLong { topic: String },
    #[error("topic '{}' contains {fault}; a topic is a word like review.ready", shown(.topic))]
    Character { topic: String, fault: String },
}

/// Describes a character that a topic may not contain.
fn fault(character: char) -> Option<String> {
    match character {
        ',' => Some("a comma, and lists of events are separated by commas".to_owned()),
        c if c.is_whitespace() => Some(format!("whitespace ('{}')", escaped(c))),
        c if c.is_control() => Some(format!("the control character '{}'", escaped(c))),
        c if is_invisible(c) => Some(format!("the invisible character '{}'", escaped(c))),
        _ => None,
    }
}

/// Format characters (Unicode category Cf) and other characters that a font may draw as nothing
/// (Default_Ignorable_Code_Point): zero-width, bidi controls, fillers, variation selectors, tags.
fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{8e2}' | '\u{3164}'
        | '\u{feff}' | '\u{ffa0}' | '\u{110bd}' | '\u{110cd}'
        | '\u{600}'..='\u{605}' | '\u{890}'..='\u{891}' | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{fff0}'..='\u{fffb}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

fn shown(topic: &str) -> String {
    text::shown(topic, 60)
}

/// Escapes a character that would not be visible otherwise; a space stays.
fn escaped(character: char) -> String {
    match character {
        ' ' => " ".to_owned(),
        _ if is_invisible(character) => character.escape_unicode().to_string(),
        _ => character.escape_debug().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(text: &str) -> String {
        Topic::check(text).unwrap_err().to_string()
    }

    #[test]
    fn accepts_words() {
        for text in ["review.ready", "done", "a", "tasks/ready-2", "größe.geprüft", "検査.済", "🎉"]
        {
            assert_eq!(Topic::check(text).unwrap(), text, "{text}");
        }
        assert!(Topic::check(&"x".repeat(LONGEST)).is_ok());
    }

    #[test]
    fn says_what_is_wrong() {
        insta::assert_snapshot!(message(""), @"the topic is empty; a topic is a word like review.ready");
        insta::assert_snapshot!(message("review ready"), @"topic 'review ready' contains whitespace (' '); a topic is a word like review.ready");
        insta::assert_snapshot!(message("review.ready\n"), @r"topic 'review.ready\n' contains whitespace ('\n'); a topic is a word like review.ready");
        insta::assert_snapshot!(message("a\u{2028}b"), @r"topic 'a\u{2028}b' contains whitespace ('\u{2028}'); a topic is a word like review.ready");
        insta::assert_snapshot!(message("\u{1b}[31mred"), @r"topic '\u{1b}[31mred' contains the control character '\u{1b}'; a topic is a word like review.ready");
        insta::assert_snapshot!(message("a\u{9b}b"), @r"topic 'a\u{9b}b' contains the control character '\u{9b}'; a topic is a word like review.ready");
        insta::assert_snapshot!(message("loop\u{200b}.start"), @r"topic 'loop\u{200b}.start' contains the invisible character '\u{200b}'; a topic is a word like review.ready");
        insta::assert_snapshot!(message("a,b"), @"topic 'a,b' contains a comma, and lists of events are separated by commas; a topic is a word like review.ready");
        insta::assert_snapshot!(message(&"é".repeat(101)), @"topic 'éééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé…' has 202 bytes: the limit is 200; a topic is a word like review.ready");
    }

    #[test]
    fn refuses_what_cannot_be_seen() {
        for character in [
            '\u{0}',
            '\u{7f}',
            '\u{85}',
            '\u{9f}',
            '\u{a0}',
            '\u{ad}',
            '\u{200b}',
            '\u{200d}',
            '\u{200e}',
            '\u{2028}',
            '\u{2029}',
            '\u{202e}',
            '\u{2060}',
            '\u{2066}',
            '\u{2069}',
            '\u{3000}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{fff9}',
            '\u{e0041}',
            '\u{e0100}',
        ] {
            let text = format!("a{character}b");
            assert!(Topic::check(&text).is_err(), "{}", character.escape_unicode());
        }
    }

    #[test]
    fn knows_whose_a_topic_is() {
        use TopicClass::{Agent, Coordination, Reserved};
        for (name, class) in [
            ("loop.start", Reserved),
            ("loop.anything.at.all", Reserved),
            ("iteration.finish", Reserved),
            ("backend.usage", Reserved),
            ("check.finish", Reserved),
            ("check.passed", Agent),
            ("review.start", Reserved),
            ("review.finish", Reserved),
            ("review.violation", Reserved),
            ("event.invalid", Reserved),
            ("wave.branch.finish", Reserved),
            ("chain.step.start", Reserved),
            ("chain.spawned", Reserved),
            ("slot.start", Reserved),
            ("slots.iteration.finish", Reserved),
            ("slots", Agent),
            ("queue.task.closed", Reserved),
            ("exchange.sent", Reserved),
            ("queue.advance", Agent),
            ("queue.task", Agent),
            ("journal.repaired", Reserved),
            ("explore.parallel.joined", Reserved),
            ("a.b.parallel.joined", Reserved),
            ("issue.discovered", Coordination),
            ("issue.resolved", Coordination),
            ("slice.started", Coordination),
            ("slice.verified", Coordination),
            ("slice.committed", Coordination),
            ("context.archived", Coordination),
            ("chain.spawn", Coordination),
            ("review.ready", Agent),
            ("review.passed", Agent),
            ("review.started", Agent),
            ("review.start.later", Agent),
            ("event.invalidated", Agent),
            ("issue.reopened", Agent),
            ("explore.parallel", Agent),
            ("parallel.joined", Agent),
            ("explore.parallel.joined.late", Agent),
            ("loop", Agent),
            ("loops.start", Agent),
            ("Loop.start", Agent),
            ("task.complete", Agent),
            ("", Agent),
        ] {
            assert_eq!(Topic::new(name).class(), class, "{name}");
        }
    }

    proptest! {
        #[test]
        fn what_passes_is_one_visible_word(text in any_text()) {
            match Topic::check(&text) {
                Ok(topic) => {
                    prop_assert_eq!(topic.as_str(), &text);
                    prop_assert!(!text.is_empty() && text.len() <= LONGEST);
                    prop_assert!(!text.chars().any(|c| c.is_whitespace() || c.is_control() || c == ','));
                    // An event list of one is read back as one.
                    prop_assert_eq!(text.split(',').map(str::trim).collect::<Vec<_>>(), vec![&text]);
                }
                Err(error) => {
                    let message = error.to_string();
                    let obeyed = |c: char| c.is_control() || matches!(c, '\u{2028}'..='\u{202e}');
                    prop_assert!(!message.chars().any(obeyed), "{message:?}");
                    prop_assert!(message.ends_with("a topic is a word like review.ready"));
                    prop_assert!(message.len() < 1_000);
                }
            }
        }

        #[test]
        fn one_bad_character_is_enough(
            before in "[a-z.]{0,20}",
            bad in prop::sample::select(vec![' ', ',', '\t', '\u{1b}', '\u{85}', '\u{200b}', '\u{feff}']),
            after in "[a-z.]{0,20}",
        ) {
            prop_assert!(Topic::check(&(before.clone() + &after + "x")).is_ok());
            let text = format!("{before}{bad}{after}");
            prop_assert!(Topic::check(&text).is_err());
        }

        #[test]
        fn families_are_reserved(
            family in prop::sample::select(RESERVED_FAMILIES.to_vec()),
            rest in "[a-z.]{0,12}",
        ) {
            let topic = Topic::new(format!("{family}{rest}"));
            let expected = if topic == "chain.spawn" { TopicClass::Coordination } else { TopicClass::Reserved };
            prop_assert_eq!(topic.class(), expected);
        }
    }

    /// Text in which the forbidden characters are as likely as the others.
    fn any_text() -> impl Strategy<Value = String> {
        let character = prop_oneof![
            8 => "[a-z.]".prop_map(|text| text.chars().next().unwrap()),
            1 => any::<char>(),
            1 => prop::sample::select(vec![' ', ',', '\n', '\u{1b}', '\u{9b}', '\u{202e}', '\u{200b}']),
        ];
        prop_oneof![
            9 => prop::collection::vec(character.clone(), 0..12),
            1 => prop::collection::vec(character, 150..250),
        ]
        .prop_map(|characters| characters.into_iter().collect())
    }
}
