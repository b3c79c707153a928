//! What in a topology works, but hardly as it was meant.

use super::{OPENING_EVENT, Topology};
use crate::pattern::Pattern;
use crate::topic::{Topic, TopicClass};

/// Something that a person should look at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// No event leads to a role.
    #[error("no event hands over to role '{0}': it acts only when an event is not in the map")]
    Unreachable(String),
    /// An event that is not in the map.
    #[error(
        "event '{event}' of role '{role}' is not in the handoff map: all roles are suggested after it"
    )]
    Unhandled {
        /// The event.
        event: String,
        /// Who may emit it.
        role: String,
    },
    /// A role that cannot say anything.
    #[error("role '{0}' emits nothing: when it is alone, every event is accepted")]
    Mute(String),
    /// Nobody can complete the run.
    #[error("no role may emit '{0}', which completes the run")]
    NoCompletion(String),
    /// A handoff for an event that nobody can emit.
    #[error("no role emits '{0}', so its handoff is never used")]
    Unheard(String),
}

impl Topology {
    /// Looks for what was hardly meant. `completion` is the event that completes the run.
    pub fn warnings(&self, completion: &str) -> Vec<Warning> {
        if self.roles.is_empty() {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        let emits = |event: &str| {
            self.roles.iter().flat_map(|role| &role.emits).any(|pattern| pattern.matches(event))
        };
        for role in &self.roles {
            let is_named = |roles: &[String]| roles.contains(&role.id);
            if !self.handoff.iter().any(|handoff| is_named(&handoff.roles)) {
                warnings.push(Warning::Unreachable(role.id.clone()));
            }
            if role.emits.is_empty() {
                warnings.push(Warning::Mute(role.id.clone()));
            }
            let unhandled = role.emits.iter().filter_map(Pattern::exact).filter(|event| {
                *event != completion
                    && Topic::new(*event).class() == TopicClass::Agent
                    && !self.handoff.iter().any(|handoff| handoff.event.matches(event))
            });
            warnings.extend(unhandled.map(|event| Warning::Unhandled {
                event: event.to_owned(),
                role: role.id.clone(),
            }));
        }
        if !emits(completion) {
            warnings.push(Warning::NoCompletion(completion.to_owned()));
        }
        let heard =
            |event: &str| event == OPENING_EVENT || event.ends_with(".joined") || emits(event);
        let exact = self.handoff.iter().filter_map(|handoff| handoff.event.exact());
        warnings.extend(
            exact.filter(|event| !heard(event)).map(|event| Warning::Unheard(event.to_owned())),
        );
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_oddity_is_named() {
        let topology = Topology::parse(
            "[[role]]\nid = \"a\"\nemits = [\"one\", \"issue.resolved\"]\n[[role]]\nid = \"b\"\n[handoff]\n\"loop.start\" = \"a\"\n\"two\" = \"a\"\n",
        )
        .unwrap();
        let warnings: Vec<_> =
            topology.warnings("task.complete").iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(warnings.join("\n"), @r"
        event 'one' of role 'a' is not in the handoff map: all roles are suggested after it
        no event hands over to role 'b': it acts only when an event is not in the map
        role 'b' emits nothing: when it is alone, every event is accepted
        no role may emit 'task.complete', which completes the run
        no role emits 'two', so its handoff is never used
        ");
    }

    #[test]
    fn a_sound_topology_gives_none() {
        let topology = Topology::parse(
            "[[role]]\nid = \"a\"\nemits = [\"task.complete\", \"/x.*/\"]\n[handoff]\n\"loop.start\" = \"a\"\n\"xy\" = \"a\"\n",
        )
        .unwrap();
        assert_eq!(topology.warnings("task.complete"), []);
        assert_eq!(Topology::default().warnings("task.complete"), []);
    }
}
