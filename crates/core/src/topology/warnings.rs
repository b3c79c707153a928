//! What in a topology works, but hardly as it was meant.

use serde::Serialize;

use super::read::whose;
use super::{Handoff, OPENING_EVENT, Role, Topology, distinct};
use crate::pattern::Pattern;
use crate::topic::{JOINED, TopicClass};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{message}")]
pub struct Warning {
    pub kind: &'static str,
    pub message: String,
}

fn warning(kind: &'static str, message: String) -> Warning {
    Warning { kind, message }
}

impl Topology {
    /// Finds probable mistakes. `completion` is the event that completes the run. Handoffs to unknown roles
    /// and invalid regular expressions are errors of the parser instead.
    pub fn warnings(&self, completion: &str) -> Vec<Warning> {
        if self.roles.is_empty() {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        if self.roles.len() > 1 && !self.is_handled(OPENING_EVENT) {
            let message =
                "loop.start is not in the handoff map: all roles are suggested at the beginning";
            warnings.push(warning("no_entry", message.to_owned()));
        }
        let reached = self.reached();
        for role in &self.roles {
            warnings.extend(self.about_role(role, &reached));
            let unhandled = role.emits.iter().filter_map(Pattern::exact).filter(|event| {
                *event != completion && is_agents(event) && !self.is_handled(event)
            });
            warnings.extend(unhandled.map(|event| {
                let message = format!(
                    "event '{event}' of role '{}' is not in the handoff map: all roles are suggested after it",
                    role.id
                );
                warning("unhandled_event", message)
            }));
        }
        if !is_agents(completion) {
            let why = whose(completion);
            let message = format!("'{completion}' cannot complete the run: {why}");
            warnings.push(warning("uncounted_completion", message));
        } else if !self.emits(completion) {
            let message = format!("no role may emit '{completion}', which completes the run");
            warnings.push(warning("no_completion", message));
        }
        for Handoff { event, roles } in &self.handoff {
            if roles.is_empty() {
                let message = format!(
                    "the handoff of '{event}' names no role: all roles are suggested after it"
                );
                warnings.push(warning("handoff_to_nobody", message));
            } else if !self.is_emitted(event) {
                let message = format!("no role emits '{event}', so its handoff is never used");
                warnings.push(warning("unheard_handoff", message));
            }
        }
        warnings
    }

    pub fn never_seen(&self, required: &[String]) -> Vec<Warning> {
        let is_missing = |event: &&String| !is_agents(event) || !self.emits(event);
        let missing = required.iter().filter(|_| !self.roles.is_empty()).filter(is_missing);
        let message = |event| {
            format!("no role may emit '{event}', which has to be seen before the run completes")
        };
        missing.map(|event| warning("required_never_seen", message(event))).collect()
    }

    fn about_role(&self, role: &Role, reached: &[&str]) -> Vec<Warning> {
        let (id, mut warnings) = (&role.id, Vec::new());
        if !self.handoff.iter().any(|handoff| handoff.roles.contains(id)) {
            // Where the map says nothing at all, everybody acts at any time.
            if !self.handoff.is_empty() {
                let message = format!(
                    "no event hands over to role '{id}': it acts only when an event is not in the map"
                );
                warnings.push(warning("unreachable_role", message));
            }
        } else if !reached.contains(&id.as_str()) {
            let message = format!(
                "role '{id}' is never reached from loop.start: no role on the way there emits an event that hands over to it"
            );
            warnings.push(warning("cut_off_role", message));
        }
        if role.emits.is_empty() {
            let message =
                format!("role '{id}' emits nothing: when it is alone, every event is accepted");
            warnings.push(warning("mute_role", message));
        }
        warnings
    }

    fn emits(&self, event: &str) -> bool {
        self.roles.iter().flat_map(|role| &role.emits).any(|pattern| pattern.matches(event))
    }

    /// Whether an event of a handoff can occur: the beginning, an event of a role, or the join of a wave.
    fn is_emitted(&self, event: &Pattern) -> bool {
        event.matches(OPENING_EVENT)
            || self.roles.iter().flat_map(|role| &role.emits).any(|emit| leads_to(emit, event))
    }

    /// The roles that can be reached from the beginning, event by event.
    fn reached(&self) -> Vec<&str> {
        if !self.is_handled(OPENING_EVENT) {
            return self.roles.iter().map(|role| role.id.as_str()).collect();
        }
        let mut reached = self.roles_after(|handoff| handoff.matches(OPENING_EVENT));
        let mut done = 0;
        while let Some(id) = reached.get(done) {
            let emits = self.role(id).map_or(&[][..], |role| &role.emits);
            let next = self.roles_after(|handoff| emits.iter().any(|emit| leads_to(emit, handoff)));
            reached = distinct(reached.into_iter().chain(next));
            done += 1;
        }
        reached
    }
}

/// Whether an emitted event can match a handoff. Two regular expressions are assumed to have a match in
/// common.
pub(super) fn leads_to(emit: &Pattern, handoff: &Pattern) -> bool {
    let joined = |event: &str| format!("{event}{JOINED}");
    match (emit.exact(), handoff.exact()) {
        (Some(event), _) => {
            (is_agents(event) && handoff.matches(event)) || handoff.matches(&joined(event))
        }
        (None, Some(event)) => {
            let base = event.strip_suffix(JOINED);
            base.map_or(is_agents(event) && emit.matches(event), |base| emit.matches(base))
        }
        (None, None) => true,
    }
}

/// Whether an event routes and counts when an agent emits it.
fn is_agents(event: &str) -> bool {
    TopicClass::of(event) == TopicClass::Agent
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(text: &str) -> String {
        let topology = Topology::parse(text).unwrap();
        let warnings: Vec<_> =
            topology.warnings("task.complete").iter().map(ToString::to_string).collect();
        warnings.join("\n")
    }

    #[test]
    fn each_oddity_is_named() {
        insta::assert_snapshot!(warnings(
            "[[role]]\nid = \"a\"\nemits = [\"one\", \"issue.resolved\"]\n[[role]]\nid = \"b\"\n[handoff]\n\"loop.start\" = \"a\"\n\"two\" = \"a\"\n",
        ), @r"
        event 'one' of role 'a' is not in the handoff map: all roles are suggested after it
        no event hands over to role 'b': it acts only when an event is not in the map
        role 'b' emits nothing: when it is alone, every event is accepted
        no role may emit 'task.complete', which completes the run
        no role emits 'two', so its handoff is never used
        ");
    }

    #[test]
    fn a_role_behind_a_gap_is_not_reached() {
        let text = "[[role]]\nid = \"a\"\nemits = [\"one\", \"task.complete\"]\n[[role]]\nid = \"b\"\nemits = [\"two\"]\n[[role]]\nid = \"c\"\nemits = [\"three\"]\n[handoff]\n\"loop.start\" = \"a\"\n\"one\" = \"a\"\n\"two\" = \"c\"\n\"three\" = \"b\"\n";
        insta::assert_snapshot!(warnings(text), @r"
        role 'b' is never reached from loop.start: no role on the way there emits an event that hands over to it
        role 'c' is never reached from loop.start: no role on the way there emits an event that hands over to it
        ");
        // A regular expression may be the bridge.
        assert_eq!(warnings(&text.replace("\"one\" = \"a\"", "\"/o.*/\" = [\"a\", \"b\"]")), "");
    }

    #[test]
    fn a_map_that_says_nothing_where_it_should_is_told() {
        insta::assert_snapshot!(warnings(
            "[[role]]\nid = \"a\"\nemits = [\"task.complete\", \"go\"]\n[[role]]\nid = \"b\"\nemits = [\"go\"]\n[handoff]\n\"go\" = [\"b\"]\n\"/never.*/\" = [\"a\"]\n\"task.complete\" = []\n\"issue.resolved\" = \"a\"\n",
        ), @r"
        loop.start is not in the handoff map: all roles are suggested at the beginning
        no role emits '/never.*/', so its handoff is never used
        the handoff of 'task.complete' names no role: all roles are suggested after it
        no role emits 'issue.resolved', so its handoff is never used
        ");
    }

    #[test]
    fn an_event_that_never_comes_or_never_counts_completes_nothing() {
        let topology =
            Topology::parse("[[role]]\nid = \"a\"\nemits = [\"x\", \"issue.resolved\"]\n").unwrap();
        let told = |warnings: Vec<Warning>| {
            warnings.iter().map(|it| format!("{}: {it}", it.kind)).collect::<Vec<_>>().join("\n")
        };
        insta::assert_snapshot!(told(topology.warnings("loop.complete")), @r"
        unhandled_event: event 'x' of role 'a' is not in the handoff map: all roles are suggested after it
        uncounted_completion: 'loop.complete' cannot complete the run: only the harness may write such topics
        ");
        let required = ["x", "y", "issue.resolved"].map(str::to_owned);
        insta::assert_snapshot!(told(topology.never_seen(&required)), @r"
        required_never_seen: no role may emit 'y', which has to be seen before the run completes
        required_never_seen: no role may emit 'issue.resolved', which has to be seen before the run completes
        ");
        assert_eq!(Topology::default().never_seen(&required), []);
    }

    #[test]
    fn a_sound_topology_gives_none() {
        let topology = Topology::parse(
            "[[role]]\nid = \"a\"\nemits = [\"task.complete\", \"/x.*/\"]\n[handoff]\n\"loop.start\" = \"a\"\n\"xy\" = \"a\"\n\"xy.parallel.joined\" = \"a\"\n",
        )
        .unwrap();
        assert_eq!(topology.warnings("task.complete"), []);
        assert_eq!(Topology::default().warnings("task.complete"), []);
    }
}
