//! What in a topology works, but hardly as it was meant.

use super::read::whose;
use super::{Handoff, OPENING_EVENT, Role, Topology};
use crate::pattern::Pattern;
use crate::topic::{Topic, TopicClass};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// No event leads to the role.
    #[error("no event hands over to role '{0}': it acts only when an event is not in the map")]
    Unreachable(String),
    /// Only events that no role on the path from the beginning emits lead to the role.
    #[error(
        "role '{0}' is never reached from loop.start: no role on the way there emits an event that hands over to it"
    )]
    CutOff(String),
    /// An event without a handoff.
    #[error(
        "event '{event}' of role '{role}' is not in the handoff map: all roles are suggested after it"
    )]
    Unhandled { event: String, role: String },
    /// No handoff for the beginning.
    #[error("loop.start is not in the handoff map: all roles are suggested at the beginning")]
    NoEntry,
    /// A role without events.
    #[error("role '{0}' emits nothing: when it is alone, every event is accepted")]
    Mute(String),
    /// No role emits the completion event.
    #[error("no role may emit '{0}', which completes the run")]
    NoCompletion(String),
    /// The completion event is one that never counts.
    #[error("'{0}' cannot complete the run: {why}", why = whose(.0))]
    Uncounted(String),
    /// A required event that no role emits.
    #[error("no role may emit '{0}', which has to be seen before the run completes")]
    NeverSeen(String),
    /// A handoff for an event that no role emits.
    #[error("no role emits '{0}', so its handoff is never used")]
    Unheard(String),
    /// A handoff without roles.
    #[error("the handoff of '{0}' names nobody: all roles are suggested after it")]
    ToNobody(String),
}

impl Warning {
    /// The name in JSON output.
    pub fn kind(&self) -> &'static str {
        match self {
            Warning::Unreachable(_) => "unreachable_role",
            Warning::CutOff(_) => "cut_off_role",
            Warning::Unhandled { .. } => "unhandled_event",
            Warning::NoEntry => "no_entry",
            Warning::Mute(_) => "mute_role",
            Warning::NoCompletion(_) => "no_completion",
            Warning::Uncounted(_) => "uncounted_completion",
            Warning::NeverSeen(_) => "required_never_seen",
            Warning::Unheard(_) => "unheard_handoff",
            Warning::ToNobody(_) => "handoff_to_nobody",
        }
    }
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
            warnings.push(Warning::NoEntry);
        }
        let reached = self.reached();
        for role in &self.roles {
            warnings.extend(self.about_role(role, &reached));
            let unhandled = role.emits.iter().filter_map(Pattern::exact).filter(|event| {
                *event != completion && is_agents(event) && !self.is_handled(event)
            });
            warnings.extend(unhandled.map(|event| Warning::Unhandled {
                event: event.to_owned(),
                role: role.id.clone(),
            }));
        }
        if !is_agents(completion) {
            warnings.push(Warning::Uncounted(completion.to_owned()));
        } else if !self.emits(completion) {
            warnings.push(Warning::NoCompletion(completion.to_owned()));
        }
        for handoff in &self.handoff {
            let event = handoff.event.to_string();
            if handoff.roles.is_empty() {
                warnings.push(Warning::ToNobody(event));
            } else if !self.is_heard(handoff) {
                warnings.push(Warning::Unheard(event));
            }
        }
        warnings
    }

    /// The required events that no role may emit.
    pub fn never_seen(&self, required: &[String]) -> Vec<Warning> {
        let is_missing = |event: &&String| !is_agents(event) || !self.emits(event);
        let missing = required.iter().filter(|_| !self.roles.is_empty()).filter(is_missing);
        missing.map(|event| Warning::NeverSeen(event.clone())).collect()
    }

    fn about_role(&self, role: &Role, reached: &[&str]) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if !self.handoff.iter().any(|handoff| handoff.roles.contains(&role.id)) {
            // Where the map says nothing at all, everybody acts at any time.
            if !self.handoff.is_empty() {
                warnings.push(Warning::Unreachable(role.id.clone()));
            }
        } else if !reached.contains(&role.id.as_str()) {
            warnings.push(Warning::CutOff(role.id.clone()));
        }
        if role.emits.is_empty() {
            warnings.push(Warning::Mute(role.id.clone()));
        }
        warnings
    }

    fn emits(&self, event: &str) -> bool {
        self.roles.iter().flat_map(|role| &role.emits).any(|pattern| pattern.matches(event))
    }

    fn is_handled(&self, event: &str) -> bool {
        self.handoff.iter().any(|handoff| handoff.event.matches(event))
    }

    /// Whether an event of a handoff can occur: the beginning, an event of a role, or the join of a wave.
    fn is_heard(&self, handoff: &Handoff) -> bool {
        let event = &handoff.event;
        event.matches(OPENING_EVENT)
            || self.roles.iter().flat_map(|role| &role.emits).any(|emit| leads_to(emit, event))
    }

    /// The roles that can be reached from the beginning, event by event.
    fn reached(&self) -> Vec<&str> {
        if !self.is_handled(OPENING_EVENT) {
            return self.roles.iter().map(|role| role.id.as_str()).collect();
        }
        let mut reached: Vec<&str> = Vec::new();
        let mut next: Vec<&Handoff> =
            self.handoff.iter().filter(|handoff| handoff.event.matches(OPENING_EVENT)).collect();
        while let Some(handoff) = next.pop() {
            for id in &handoff.roles {
                if reached.contains(&id.as_str()) {
                    continue;
                }
                reached.push(id);
                let emits = self.role(id).map_or(&[][..], |role| &role.emits);
                let follow =
                    |handoff: &&Handoff| emits.iter().any(|emit| leads_to(emit, &handoff.event));
                next.extend(self.handoff.iter().filter(follow));
            }
        }
        reached
    }
}

/// Whether an emitted event can match a handoff. Two regular expressions are assumed to have a match in
/// common.
pub(super) fn leads_to(emit: &Pattern, handoff: &Pattern) -> bool {
    let joined = |event: &str| format!("{event}.parallel.joined");
    match (emit.exact(), handoff.exact()) {
        (Some(event), _) => {
            (is_agents(event) && handoff.matches(event)) || handoff.matches(&joined(event))
        }
        (None, Some(event)) => {
            let base = event.strip_suffix(".parallel.joined");
            base.map_or(is_agents(event) && emit.matches(event), |base| emit.matches(base))
        }
        (None, None) => true,
    }
}

/// Whether an event routes and counts when an agent emits it.
fn is_agents(event: &str) -> bool {
    Topic::new(event).class() == TopicClass::Agent
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
        the handoff of 'task.complete' names nobody: all roles are suggested after it
        no role emits 'issue.resolved', so its handoff is never used
        ");
    }

    #[test]
    fn an_event_that_never_comes_or_never_counts_completes_nothing() {
        let topology =
            Topology::parse("[[role]]\nid = \"a\"\nemits = [\"x\", \"issue.resolved\"]\n").unwrap();
        let told = |warnings: Vec<Warning>| {
            warnings.iter().map(|it| format!("{}: {it}", it.kind())).collect::<Vec<_>>().join("\n")
        };
        insta::assert_snapshot!(told(topology.warnings("loop.complete")), @r"
        unhandled_event: event 'x' of role 'a' is not in the handoff map: all roles are suggested after it
        uncounted_completion: 'loop.complete' cannot complete the run: topics like this are written by the harness alone
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
