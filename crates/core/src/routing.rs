//! Which events an agent may emit.

use std::fmt;

use crate::pattern::Pattern;
use crate::topic::{Topic, TopicClass};
use crate::wave::{self, Parallel};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Admission {
    /// Appended; it routes.
    Accepted,
    /// Appended as bookkeeping; it does not route.
    Coordination,
    /// Not appended; `event.invalid` is.
    Refused(Refusal),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Only the harness writes such topics.
    Reserved,
    /// Not among the allowed events.
    NotAllowed,
    /// It requests a wave, and waves are off: the harness records `wave.invalid`.
    WavesOff,
}

/// The allowed list of a metareview: no event is allowed, not even one of this name.
pub const METAREVIEW_DISABLED: &str = "__metareview_disabled__";

/// Decides about an event of an agent. A reserved topic is refused even where the allowed list
/// names it; coordination is always accepted; an empty list allows everything else. An entry `/…/`
/// is a regular expression. Where waves are on, a wave may be requested for any allowed event, and
/// to explore.
pub fn admit(topic: &Topic, allowed: &[String], parallel: &Parallel) -> Admission {
    if let Some(base) = wave::base_of(topic.as_str()) {
        let is_nothing = allowed == [METAREVIEW_DISABLED];
        return match parallel.admit(base) && !is_nothing {
            false if *parallel == Parallel::Off && !is_nothing => {
                Admission::Refused(Refusal::WavesOff)
            }
            true if base == wave::EXPLORE => Admission::Accepted,
            true => admit(&Topic::new(base), allowed, parallel),
            false => Admission::Refused(Refusal::NotAllowed),
        };
    }
    match topic.class() {
        TopicClass::Reserved => Admission::Refused(Refusal::Reserved),
        TopicClass::Coordination => Admission::Coordination,
        TopicClass::Agent if allowed.is_empty() => Admission::Accepted,
        TopicClass::Agent if allowed.iter().any(|event| allows(event, topic)) => {
            Admission::Accepted
        }
        TopicClass::Agent => Admission::Refused(Refusal::NotAllowed),
    }
}

fn allows(event: &str, topic: &Topic) -> bool {
    let is_meant = |pattern: Pattern| pattern.matches(topic.as_str());
    event != METAREVIEW_DISABLED && Pattern::parse(event).is_ok_and(is_meant)
}

/// A refused event, with advice for the agent. The first words of the message are fixed by the
/// journal's reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidEvent {
    pub emitted: Topic,
    pub recent_event: Topic,
    pub suggested_roles: Vec<String>,
    /// Empty where any event is allowed.
    pub allowed_events: Vec<String>,
    pub refusal: Refusal,
}

impl fmt::Display for InvalidEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid event '{}'", self.emitted.as_str().escape_debug())?;
        match self.refusal {
            Refusal::NotAllowed => write!(
                f,
                "; recent event: '{}'; suggested roles: {}; allowed next events: {}",
                self.recent_event.as_str().escape_debug(),
                joined(&self.suggested_roles),
                joined(&self.allowed_events),
            ),
            Refusal::WavesOff => {
                write!(f, "; {}; allowed next events: {}", wave::OFF, joined(&self.allowed_events))
            }
            Refusal::Reserved => {
                f.write_str("; only the harness may write such topics; ")?;
                // The list may name reserved topics; they are refused all the same.
                let is_advice =
                    |event: &&String| Topic::new(event.as_str()).class() != TopicClass::Reserved;
                let advice: Vec<_> =
                    self.allowed_events.iter().filter(is_advice).cloned().collect();
                if advice.is_empty() {
                    f.write_str("emit a topic of your own, like review.ready")
                } else {
                    write!(f, "allowed next events: {}", joined(&advice))
                }
            }
        }
    }
}

impl std::error::Error for InvalidEvent {}

fn joined(names: &[String]) -> String {
    if names.is_empty() {
        return "(none)".to_owned();
    }
    let names: Vec<_> = names.iter().map(|name| name.escape_debug().to_string()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn admits_by_class_and_then_by_list() {
        let reserved = Admission::Refused(Refusal::Reserved);
        let not_allowed = Admission::Refused(Refusal::NotAllowed);
        let two = &["review.ready", "build.blocked"][..];
        for (topic, allowed, admission) in [
            ("review.ready", two, Admission::Accepted),
            ("build.blocked", two, Admission::Accepted),
            ("task.complete", two, not_allowed),
            ("review", two, not_allowed),
            ("review.ready.now", two, not_allowed),
            ("Review.ready", two, not_allowed),
            ("", two, not_allowed),
            ("task.complete", &[], Admission::Accepted),
            ("issue.discovered", two, Admission::Coordination),
            ("issue.discovered", &[], Admission::Coordination),
            ("chain.spawn", two, Admission::Coordination),
            ("chain.start", &[], reserved),
            ("loop.complete", two, reserved),
            ("loop.complete", &[], reserved),
            ("loop.complete", &["loop.complete"], reserved),
            ("x.parallel.joined", &["x.parallel.joined"], reserved),
            ("task.complete", &["__metareview_disabled__"], not_allowed),
            ("__metareview_disabled__", &["__metareview_disabled__"], not_allowed),
            ("context.archived", &["__metareview_disabled__"], Admission::Coordination),
            ("build.blocked", &["/build\\..*/"], Admission::Accepted),
            ("rebuild.blocked", &["/build\\..*/"], not_allowed),
            ("/build(/", &["/build(/"], not_allowed),
        ] {
            assert_eq!(
                admit(&Topic::new(topic), &owned(allowed), &Parallel::Off),
                admission,
                "{topic} {allowed:?}"
            );
        }
    }

    fn invalid(emitted: &str, roles: &[&str], events: &[&str], refusal: Refusal) -> String {
        InvalidEvent {
            emitted: Topic::new(emitted),
            recent_event: Topic::new("tasks.ready"),
            suggested_roles: owned(roles),
            allowed_events: owned(events),
            refusal,
        }
        .to_string()
    }

    #[test]
    fn tells_the_agent_what_it_may_do() {
        use Refusal::{NotAllowed, Reserved};
        insta::assert_snapshot!(
            invalid("task.complete", &["builder", "critic"], &["review.ready", "build.blocked"], NotAllowed),
            @"invalid event 'task.complete'; recent event: 'tasks.ready'; suggested roles: builder, critic; allowed next events: review.ready, build.blocked"
        );
        insta::assert_snapshot!(
            invalid("x", &[], &[], NotAllowed),
            @"invalid event 'x'; recent event: 'tasks.ready'; suggested roles: (none); allowed next events: (none)"
        );
        insta::assert_snapshot!(
            invalid("loop.complete", &["builder"], &["review.ready", "build.blocked"], Reserved),
            @"invalid event 'loop.complete'; only the harness may write such topics; allowed next events: review.ready, build.blocked"
        );
        insta::assert_snapshot!(
            invalid("loop.stop", &[], &["loop.stop", "review.ready"], Reserved),
            @"invalid event 'loop.stop'; only the harness may write such topics; allowed next events: review.ready"
        );
        insta::assert_snapshot!(
            invalid("loop.complete", &[], &[], Reserved),
            @"invalid event 'loop.complete'; only the harness may write such topics; emit a topic of your own, like review.ready"
        );
        insta::assert_snapshot!(
            invalid("it's\n\u{1b}[2J", &["a\u{202e}"], &["b\r"], NotAllowed),
            @r"invalid event 'it\'s\n\u{1b}[2J'; recent event: 'tasks.ready'; suggested roles: a\u{202e}; allowed next events: b\r"
        );
    }

    fn any_topic() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-c]",
            "(loop|wave|review|chain|issue)\\.(start|ready|spawn|discovered)",
            "[a-c]\\.parallel(\\.joined)?",
        ]
    }

    proptest! {
        #[test]
        fn the_list_decides_only_about_topics_of_the_agent(
            topic in any_topic(),
            allowed in prop::collection::vec(any_topic(), 0..4),
        ) {
            let topic = Topic::new(topic);
            let listed = allowed.is_empty() || allowed.iter().any(|event| event == topic.as_str());
            let asks_for_wave = topic.as_str().ends_with(".parallel");
            let expected = match (topic.class(), listed) {
                (TopicClass::Agent, _) if asks_for_wave => Admission::Refused(Refusal::WavesOff),
                (TopicClass::Reserved, _) => Admission::Refused(Refusal::Reserved),
                (TopicClass::Coordination, _) => Admission::Coordination,
                (TopicClass::Agent, true) => Admission::Accepted,
                (TopicClass::Agent, false) => Admission::Refused(Refusal::NotAllowed),
            };
            prop_assert_eq!(admit(&topic, &allowed, &Parallel::Off), expected);
        }

        #[test]
        fn a_wave_may_be_asked_for_about_what_may_be_said(
            base in "[a-c]|explore|[a-c]\\.parallel|explore\\.parallel|task\\.complete|loop\\.stop|issue\\.discovered",
            allowed in prop::collection::vec("[a-c]|task\\.complete", 0..4),
        ) {
            let on = Parallel::On { completion_event: "task.complete".to_owned() };
            let of = |topic: &str| admit(&Topic::new(topic), &allowed, &on) == Admission::Accepted;
            let never = ["task.complete", "loop.stop", "issue.discovered"];
            let is_event = !never.contains(&base.as_str()) && !base.ends_with(".parallel");
            let expected = is_event && (base == "explore" || of(&base));
            prop_assert_eq!(of(&format!("{base}.parallel")), expected);
        }

        #[test]
        fn a_message_is_one_line_that_no_terminal_obeys(
            names in prop::collection::vec(prop::collection::vec(any::<char>(), 0..8).prop_map(String::from_iter), 2..5),
            reserved: bool,
        ) {
            let message = InvalidEvent {
                emitted: Topic::new(&names[0]),
                recent_event: Topic::new(&names[1]),
                suggested_roles: names.clone(),
                allowed_events: names.clone(),
                refusal: if reserved { Refusal::Reserved } else { Refusal::NotAllowed },
            }
            .to_string();
            let obeyed = |c: char| c.is_control() || matches!(c, '\u{2028}'..='\u{202e}');
            prop_assert!(!message.contains(obeyed), "{message:?}");
        }
    }
}
