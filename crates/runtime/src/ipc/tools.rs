//! The tools of an agent, as its server offers and calls them.

use autoloop_core::memory::Said;
use autoloop_core::tool::BadArguments;
use autoloop_core::topic::Topic;
use serde::Deserialize;
use serde_json::json;

use crate::emit::Event;
use crate::failure::Failure;
use crate::memory::{Change, Reach};

pub use autoloop_core::tool::ToolSpec;

pub(super) const EMIT: &str = "emit";
pub(super) const MEMORY_ADD: &str = "memory_add";

/// The tools of one agent. Calls come from several threads, one for each connection.
///
/// A [`Server`](super::Server) waits for its calls when it is dropped, so the thread that answers them must not be the
/// one that drops it.
pub trait ToolBox: Send + Sync {
    fn tools(&self) -> Vec<ToolSpec>;

    /// Carries out one call; the arguments are JSON. The failure says what would be valid.
    fn call(&self, tool: &str, arguments: &str) -> Result<String, Failure>;
}

pub(super) fn emit_spec() -> ToolSpec {
    ToolSpec {
        name: EMIT.to_owned(),
        description: "Append an event to the journal".to_owned(),
        schema: json!({
            "type": "object",
            "properties": {
                "topic": { "type": "string", "description": "Such as issue.discovered" },
                "payload": { "type": "string", "description": "A short text" }
            },
            "required": ["topic"]
        }),
    }
}

pub(super) fn memory_spec() -> ToolSpec {
    ToolSpec {
        name: MEMORY_ADD.to_owned(),
        description: "Add an entry to the memory that later agents read".to_owned(),
        schema: json!({
            "type": "object",
            "properties": {
                "type": {
                    "type": "string",
                    "enum": ["learning", "preference", "meta"],
                    "description": "A learning by default"
                },
                "text": { "type": "string" },
                "key": {
                    "type": "string",
                    "description": "The category of a preference, or the key of a meta entry"
                },
                "project": {
                    "type": "boolean",
                    "description": "For all runs of the project, not for this one only"
                }
            },
            "required": ["text"]
        }),
    }
}

/// The event of a call of `emit`.
pub(super) fn event_of(arguments: &str) -> Result<Event, Failure> {
    #[derive(Deserialize)]
    struct Arguments {
        topic: String,
        payload: Option<String>,
    }

    let Arguments { topic, payload } = emit_spec().read(arguments)?;
    let topic = Topic::check(&topic).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(Event { topic, payload: payload.unwrap_or_default(), spooled: None })
}

/// The change of a call of `memory_add`.
pub(super) fn entry_of(arguments: &str) -> Result<Change, Failure> {
    #[derive(Deserialize)]
    struct Arguments {
        r#type: Option<String>,
        text: String,
        key: Option<String>,
        project: Option<bool>,
    }

    let Arguments { r#type, text, key, project } = memory_spec().read(arguments)?;
    let key = key.unwrap_or_default();
    let said = match r#type.as_deref() {
        Some("preference") => Said::Preference { category: key, text },
        Some("meta") => Said::Meta { key, value: text },
        _ => Said::Learning { text },
    };
    let reach = if project == Some(true) { Reach::Project } else { Reach::Usual };
    Ok(Change::Add { said, reach })
}

impl From<BadArguments> for Failure {
    fn from(error: BadArguments) -> Self {
        Failure::usage(error.to_string())
    }
}
