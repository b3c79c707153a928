//! Who there is in a loop, what each may say, and who speaks next.
//!
//! A topology is advice with teeth: the agent chooses its role, but only the events of the roles that
//! are suggested are accepted.

mod edges;
mod read;
mod warnings;

use std::collections::BTreeSet;

use serde::Deserialize;
use toml::Spanned;

use crate::pattern::Pattern;
use crate::topic::JOINED;

pub use edges::{Edge, Target};
pub use warnings::Warning;

/// The event before the first iteration.
pub const OPENING_EVENT: &str = "loop.start";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    pub name: String,
    /// The event that completes the run, if set.
    pub completion: Option<String>,
    pub roles: Vec<Role>,
    pub handoff: Vec<Handoff>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(expecting = "a table: [[role]]")]
pub struct Role {
    #[serde(deserialize_with = "read::role_id")]
    pub id: String,
    #[serde(default, deserialize_with = "read::emitted_events")]
    pub emits: Vec<Pattern>,
    prompt: Option<String>,
    prompt_file: Option<Spanned<String>>,
    /// The backend settings of the role, which override those of the loop.
    pub backend_kind: Option<Spanned<String>>,
    pub backend_command: Option<Spanned<String>>,
    pub backend_args: Option<Spanned<Vec<String>>>,
    pub backend_model: Option<Spanned<String>>,
    pub backend_prompt_mode: Option<Spanned<String>>,
    pub backend_output: Option<Spanned<String>>,
    #[serde(default, deserialize_with = "read::milliseconds")]
    pub backend_timeout_ms: Option<Spanned<u64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolePrompt<'r> {
    Inline(&'r str),
    /// Relative to the directory of the topology.
    File(&'r Spanned<String>),
    None,
}

impl Role {
    pub fn prompt(&self) -> RolePrompt<'_> {
        match (self.prompt.as_deref(), &self.prompt_file) {
            (Some(inline), _) if !inline.is_empty() => RolePrompt::Inline(inline),
            (_, Some(file)) if !file.get_ref().is_empty() => RolePrompt::File(file),
            _ => RolePrompt::None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handoff {
    pub event: Pattern,
    pub roles: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    pub roles: Vec<String>,
    /// Empty means any.
    pub events: Vec<String>,
}

impl Topology {
    /// The roles of every handoff of an event, in the order of the map; all roles if there is none. The
    /// events are those that any of these roles may emit, in the order of the roles.
    pub fn route(&self, recent_event: &str) -> Route {
        // A joined event without a handoff routes like the event that requested the wave.
        let recent_event = match recent_event.strip_suffix(JOINED) {
            Some(base) if !self.is_handled(recent_event) => base,
            _ => recent_event,
        };
        let mut roles = self.roles_after(|handoff| handoff.matches(recent_event));
        if roles.is_empty() {
            roles = self.roles.iter().map(|role| role.id.as_str()).collect();
        }
        let suggested = self.roles.iter().filter(|role| roles.contains(&role.id.as_str()));
        let events = distinct(suggested.flat_map(|role| &role.emits).map(Pattern::as_str));
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        Route { roles: owned(roles), events: owned(events) }
    }

    /// The roles of the handoffs that an event leads to, in the order of the map.
    fn roles_after(&self, leads: impl Fn(&Pattern) -> bool) -> Vec<&str> {
        let handoffs = self.handoff.iter().filter(|handoff| leads(&handoff.event));
        distinct(handoffs.flat_map(|handoff| &handoff.roles).map(String::as_str))
    }

    fn is_handled(&self, event: &str) -> bool {
        self.handoff.iter().any(|handoff| handoff.event.matches(event))
    }

    pub fn role(&self, id: &str) -> Option<&Role> {
        self.roles.iter().find(|role| role.id == id)
    }
}

/// The names in their order, each once.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    names.filter(|name| seen.insert(*name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology() -> Topology {
        Topology::parse(
            r#"
            name = "autocode"
            completion = "task.complete"
            [[role]]
            id = "planner"
            emits = ["tasks.ready"]
            [[role]]
            id = "builder"
            emits = ["review.ready", "build.blocked"]
            [[role]]
            id = "critic"
            emits = ["review.passed", "review.rejected", "build.blocked"]
            [handoff]
            "loop.start" = ["planner"]
            "tasks.ready" = "builder"
            "review.ready" = ["critic"]
            '/build\..*/' = ["planner", "critic"]
            "build.blocked" = ["builder", "planner"]
            "#,
        )
        .unwrap()
    }

    fn route(event: &str) -> (String, String) {
        let route = topology().route(event);
        (route.roles.join(","), route.events.join(","))
    }

    #[test]
    fn an_event_suggests_the_roles_of_the_map() {
        assert_eq!(route("loop.start"), ("planner".into(), "tasks.ready".into()));
        assert_eq!(route("tasks.ready"), ("builder".into(), "review.ready,build.blocked".into()));
    }

    #[test]
    fn several_entries_are_united_in_the_order_of_the_map() {
        // Roles in the order of the map, events in the order of the roles' declaration.
        assert_eq!(
            route("build.blocked"),
            (
                "planner,critic,builder".into(),
                "tasks.ready,review.ready,build.blocked,review.passed,review.rejected".into()
            )
        );
        assert_eq!(route("build.odd").0, "planner,critic");
    }

    #[test]
    fn an_unmapped_event_suggests_everybody() {
        assert_eq!(
            route("weather.fine"),
            (
                "planner,builder,critic".into(),
                "tasks.ready,review.ready,build.blocked,review.passed,review.rejected".into()
            )
        );
    }

    #[test]
    fn without_roles_anything_goes() {
        assert_eq!(Topology::default().route("loop.start"), Route::default());
    }
}
