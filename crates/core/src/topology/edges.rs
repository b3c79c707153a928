//! What each role can say, and where that leads.

use super::warnings::leads_to;
use super::{OPENING_EVENT, Topology};
use crate::pattern::Pattern;
use crate::topic::TopicClass;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge<'t> {
    /// `None` for the beginning.
    pub role: Option<&'t str>,
    /// The event or pattern, as written.
    pub event: &'t str,
    pub to: Target<'t>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target<'t> {
    Roles(Vec<&'t str>),
    /// All roles, because the map does not contain the event.
    AnyRole,
    Completion,
    /// None: coordination events do not route.
    Nowhere,
}

impl Topology {
    /// All edges: the beginning first, then role by role. `completion` is the event that completes the run.
    pub fn edges(&self, completion: &str) -> Vec<Edge<'_>> {
        if self.roles.is_empty() {
            return Vec::new();
        }
        let mut edges = vec![Edge {
            role: None,
            event: OPENING_EVENT,
            to: self.target(|handoff| handoff.matches(OPENING_EVENT)),
        }];
        for role in &self.roles {
            for emit in &role.emits {
                let edge = |to| Edge { role: Some(&role.id), event: emit.as_str(), to };
                if emit.matches(completion) {
                    edges.push(edge(Target::Completion));
                }
                if emit.exact() != Some(completion) {
                    edges.push(edge(self.target_of(emit)));
                }
            }
        }
        edges
    }

    fn target_of(&self, emit: &Pattern) -> Target<'_> {
        match emit.exact() {
            Some(event) if TopicClass::of(event) == TopicClass::Coordination => Target::Nowhere,
            Some(event) => self.target(|handoff| handoff.matches(event)),
            None => self.target(|handoff| leads_to(emit, handoff)),
        }
    }

    fn target(&self, leads: impl Fn(&Pattern) -> bool) -> Target<'_> {
        match self.roles_after(leads) {
            none if none.is_empty() => Target::AnyRole,
            roles => Target::Roles(roles),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_leads_where_it_would_route() {
        let topology = Topology::parse(
            r#"
            [[role]]
            id = "a"
            emits = ["one", "issue.resolved", "lost"]
            [[role]]
            id = "b"
            emits = ["task.complete", "/task.*/", "one"]
            [handoff]
            "loop.start" = ["a"]
            "one" = ["b", "a"]
            "task.more" = "a"
            '/o.*/' = "b"
            "#,
        )
        .unwrap();
        let told: Vec<String> = topology
            .edges("task.complete")
            .iter()
            .map(|edge| format!("{} {} {:?}", edge.role.unwrap_or("-"), edge.event, edge.to))
            .collect();
        insta::assert_snapshot!(told.join("\n"), @r#"
        - loop.start Roles(["a"])
        a one Roles(["b", "a"])
        a issue.resolved Nowhere
        a lost AnyRole
        b task.complete Completion
        b /task.*/ Completion
        b /task.*/ Roles(["a", "b"])
        b one Roles(["b", "a"])
        "#);
        for edge in topology.edges("task.complete") {
            // What is drawn for a single event is what happens.
            if let Target::Roles(roles) = edge.to
                && !edge.event.starts_with('/')
            {
                assert_eq!(topology.route(edge.event).roles, roles, "{}", edge.event);
            }
        }
        assert_eq!(Topology::default().edges("x"), []);
    }
}
