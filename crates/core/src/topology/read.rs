//! `topology.toml`, read with every mistake named.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Handoff, Role, RoleBackend, RolePrompt, Topology};
use crate::pattern::{BadPattern, Pattern};
use crate::tables::{
    self, Misplaced, Misread, UnknownKey, Value, at, list, number, table, text, unknown_keys, wrong,
};
use crate::topic::{BadTopic, Topic, TopicClass};

/// A topology that cannot be used, and where in its text that is.
pub type BadTopology = Misplaced<Fault>;

/// What can be wrong with a topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// What can be wrong with any file.
    #[error("{0}")]
    Misread(#[from] Misread),
    /// A role without a name.
    #[error("a role needs an 'id'")]
    NoId,
    /// A name that would be taken apart where names are listed.
    #[error("a role cannot be called '{}': names are listed with commas, and a name is a word", .0.escape_debug())]
    BadId(String),
    /// Two roles with one name.
    #[error("there are two roles called '{}'", .0.escape_debug())]
    Twice(String),
    /// A handoff to nobody.
    #[error("there is no role '{}'{}", .role.escape_debug(), there_are(.roles))]
    NoSuchRole {
        /// The name in the handoff.
        role: String,
        /// The names that there are.
        roles: Vec<String>,
    },
    /// Something that cannot be an event.
    #[error("{0}")]
    BadEvent(#[from] BadTopic),
    /// A regular expression that is none.
    #[error("{0}")]
    BadPattern(#[from] BadPattern),
    /// An event that no agent may emit.
    #[error("'{}' is written by the harness alone, so no role can emit it", .0.escape_debug())]
    Reserved(String),
    /// An event that completes nothing, because it never counts.
    #[error("'{}' cannot complete a run: {}", .event.escape_debug(), whose(.event))]
    Completion {
        /// The event.
        event: String,
    },
}

fn there_are(roles: &[String]) -> String {
    match roles {
        [] => "; no role is defined".to_owned(),
        [role] => format!("; the only role is '{role}'"),
        roles => format!("; the roles are {}", roles.join(", ")),
    }
}

/// Why an event is not an agent's to route with.
pub(super) fn whose(event: &str) -> &'static str {
    match Topic::new(event).class() {
        TopicClass::Reserved => "topics like this are written by the harness alone",
        TopicClass::Coordination => "events of coordination are bookkeeping and never count",
        TopicClass::Agent => "agents may emit it",
    }
}

/// The keys of the file itself.
const KEYS: [&str; 4] = ["name", "completion", "role", "handoff"];
/// The keys of a role.
const ROLE_KEYS: [&str; 10] = [
    "id",
    "emits",
    "prompt",
    "prompt_file",
    "backend_kind",
    "backend_command",
    "backend_args",
    "backend_prompt_mode",
    "backend_output",
    "backend_timeout_ms",
];

impl Topology {
    /// Reads the text of a topology file.
    ///
    /// # Errors
    ///
    /// With the first mistake in it. A topology that was understood in part would enforce something
    /// that nobody wrote.
    pub fn parse(text: &str) -> Result<Topology, BadTopology> {
        Topology::read(text).map(|(topology, _)| topology)
    }

    /// Reads the text of a topology file, and finds the keys in it that mean nothing.
    ///
    /// # Errors
    ///
    /// As [`Topology::parse`].
    pub fn read(text: &str) -> Result<(Topology, Vec<UnknownKey>), BadTopology> {
        let root = tables::parse(text)?;
        let root = root.get_ref();
        let mut unknown = unknown_keys(root, "", &KEYS);
        let mut topology = Topology {
            name: text_of(root, "name")?.unwrap_or_default(),
            completion: read_completion(root)?,
            ..Topology::default()
        };
        for value in list_of(root, "role", ROLES)? {
            let table = table(value, "role", ROLES)?;
            let (span, role) = read_role(table, value.span())?;
            if topology.role(&role.id).is_some() {
                return Err(at(Fault::Twice(role.id), span));
            }
            unknown.extend(unknown_keys(table, "role.", &ROLE_KEYS));
            topology.roles.push(role);
        }
        if let Some(map) = root.get("handoff") {
            topology.handoff =
                read_handoffs(table(map, "handoff", "a table: [handoff]")?, &topology)?;
        }
        // The parser sorts keys by name; people read from top to bottom.
        unknown.sort_by_key(|key| key.span.start);
        Ok((topology, unknown))
    }
}

const ROLES: &str = "a list of tables: [[role]]";

fn read_completion(root: &DeTable<'_>) -> Result<Option<String>, BadTopology> {
    let Some(value) = root.get("completion") else { return Ok(None) };
    let event: String = text(value, "completion")?;
    if event.is_empty() {
        return Ok(None);
    }
    let topic = Topic::check(&event).map_err(|error| at(error, value.span()))?;
    match topic.class() {
        TopicClass::Agent => Ok(Some(event)),
        TopicClass::Reserved | TopicClass::Coordination => {
            Err(at(Fault::Completion { event }, value.span()))
        }
    }
}

/// A role, and where it stands.
fn read_role(
    table: &DeTable<'_>,
    place: Range<usize>,
) -> Result<(Range<usize>, Role), BadTopology> {
    let id = text_of(table, "id")?.ok_or_else(|| at(Fault::NoId, place.clone()))?;
    let span = table.get("id").map_or(place, Spanned::span);
    if Topic::check(&id).is_err() {
        return Err(at(Fault::BadId(id), span));
    }
    let emits = list_of(table, "emits", "a list of events")?
        .iter()
        .map(read_emitted)
        .collect::<Result<_, _>>()?;
    let prompt = match (text_of(table, "prompt")?, text_of(table, "prompt_file")?) {
        (Some(inline), _) if !inline.is_empty() => RolePrompt::Inline(inline),
        (_, Some(file)) if !file.is_empty() => RolePrompt::File(file),
        _ => RolePrompt::None,
    };
    let backend = RoleBackend {
        kind: text_of(table, "backend_kind")?,
        command: text_of(table, "backend_command")?,
        args: match table.get("backend_args") {
            Some(_) => Some(texts_of(table, "backend_args", "a list of arguments")?),
            None => None,
        },
        prompt_mode: text_of(table, "backend_prompt_mode")?,
        output: text_of(table, "backend_output")?,
        timeout_ms: number_of(table, "backend_timeout_ms")?,
    };
    Ok((span, Role { id, emits, prompt, backend }))
}

fn read_emitted(value: &Value<'_>) -> Result<Pattern, BadTopology> {
    let Some(text) = value.get_ref().as_str() else {
        return Err(wrong(value, "emits", "a list of events"));
    };
    let pattern = Pattern::parse(text).map_err(|error| at(error, value.span()))?;
    if let Some(event) = pattern.exact() {
        let topic = Topic::check(event).map_err(|error| at(error, value.span()))?;
        if topic.class() == TopicClass::Reserved {
            return Err(at(Fault::Reserved(event.to_owned()), value.span()));
        }
    }
    Ok(pattern)
}

fn read_handoffs(entries: &DeTable<'_>, topology: &Topology) -> Result<Vec<Handoff>, BadTopology> {
    let mut handoffs = Vec::new();
    for (event, value) in entries {
        let pattern = Pattern::parse(event.get_ref()).map_err(|error| at(error, event.span()))?;
        let names = match value.get_ref() {
            // One role need not be put into a list.
            DeValue::String(_) => std::slice::from_ref(value),
            DeValue::Array(list) => &list[..],
            _ => return Err(wrong(value, "handoff", "a role or a list of roles")),
        };
        let mut roles = Vec::new();
        for name in names {
            let Some(role) = name.get_ref().as_str() else {
                return Err(wrong(name, "handoff", "a role or a list of roles"));
            };
            if topology.role(role).is_none() {
                let roles = topology.roles.iter().map(|role| role.id.clone()).collect();
                let fault = Fault::NoSuchRole { role: role.to_owned(), roles };
                return Err(at(fault, name.span()));
            }
            roles.push(role.to_owned());
        }
        handoffs.push((event.span().start, Handoff { event: pattern, roles }));
    }
    // The parser sorts keys by name; the order of the file is part of what was written.
    handoffs.sort_by_key(|(start, _)| *start);
    Ok(handoffs.into_iter().map(|(_, handoff)| handoff).collect())
}

fn text_of(table: &DeTable<'_>, key: &'static str) -> Result<Option<String>, BadTopology> {
    table.get(key).map(|value| text(value, key)).transpose()
}

/// A whole number, which may stand in quotes.
fn number_of(table: &DeTable<'_>, key: &'static str) -> Result<Option<u64>, BadTopology> {
    let Some(value) = table.get(key) else { return Ok(None) };
    match value.get_ref().as_str().map(str::parse) {
        Some(Ok(number)) => Ok(Some(number)),
        Some(Err(_)) | None => number(value, key).map(Some),
    }
}

fn texts_of(
    table: &DeTable<'_>,
    key: &'static str,
    expected: &'static str,
) -> Result<Vec<String>, BadTopology> {
    let texts = list_of(table, key, expected)?.iter().map(|value| match value.get_ref().as_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(wrong(value, key, expected)),
    });
    texts.collect()
}

fn list_of<'a, 't>(
    table: &'a DeTable<'t>,
    key: &'static str,
    expected: &'static str,
) -> Result<&'a [Value<'t>], BadTopology> {
    table.get(key).map_or(Ok(&[]), |value| list(value, key, expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message, and the text that it is about.
    fn mistake(text: &str) -> String {
        let bad = Topology::parse(text).unwrap_err();
        format!("{bad} <- {}", &text[bad.span.clone()])
    }

    #[test]
    fn every_mistake_is_named_and_found() {
        insta::assert_snapshot!(mistake("role = 3"), @"'role' has to be a list of tables: [[role]] <- 3");
        insta::assert_snapshot!(mistake("[[role]]\nemits = []").lines().next().unwrap(), @"a role needs an 'id' <- [[role]]");
        insta::assert_snapshot!(mistake("[[role]]\nid = \"a,b\""), @r#"a role cannot be called 'a,b': names are listed with commas, and a name is a word <- "a,b""#);
        insta::assert_snapshot!(mistake("[[role]]\nid = \"a\"\n[[role]]\nid = \"a\""), @r#"there are two roles called 'a' <- "a""#);
        insta::assert_snapshot!(mistake("[[role]]\nid = \"a\"\nemits = [1]"), @"'emits' has to be a list of events <- 1");
        insta::assert_snapshot!(mistake("[[role]]\nid = \"a\"\nemits = [\"loop.complete\"]"), @r#"'loop.complete' is written by the harness alone, so no role can emit it <- "loop.complete""#);
        insta::assert_snapshot!(mistake("[[role]]\nid = \"a\"\nemits = [\"a b\"]"), @r#"topic 'a b' holds whitespace (' '); a topic is a word like review.ready <- "a b""#);
        insta::assert_snapshot!(mistake("[[role]]\nid = \"a\"\n[handoff]\n\"x\" = [\"b\"]"), @r#"there is no role 'b'; the only role is 'a' <- "b""#);
        insta::assert_snapshot!(mistake("[handoff]\n\"x\" = [\"b\"]"), @r#"there is no role 'b'; no role is defined <- "b""#);
        insta::assert_snapshot!(mistake("completion = \"loop.complete\""), @r#"'loop.complete' cannot complete a run: topics like this are written by the harness alone <- "loop.complete""#);
        insta::assert_snapshot!(mistake("completion = \"issue.resolved\""), @r#"'issue.resolved' cannot complete a run: events of coordination are bookkeeping and never count <- "issue.resolved""#);
        insta::assert_snapshot!(mistake("completion = \"all done\""), @r#"topic 'all done' holds whitespace (' '); a topic is a word like review.ready <- "all done""#);
        insta::assert_snapshot!(mistake("[handoff]\n\"x\" = 1"), @"'handoff' has to be a role or a list of roles <- 1");
        insta::assert_snapshot!(mistake("[[role]]\nid = \"a\"\nbackend_timeout_ms = \"soon\""), @r#"'backend_timeout_ms' has to be a whole number <- "soon""#);
        assert!(
            mistake("[handoff]\n\"/x(/\" = []").starts_with("'/x(/' is not a regular expression")
        );
        assert!(mistake("name = ").starts_with("this is not TOML"));
    }

    #[test]
    fn keys_that_mean_nothing_are_found_in_the_order_of_the_file() {
        let text = "nmae = 1\n[[role]]\nid = \"a\"\nemit = []\nbackend.command = \"x\"\n[[gate]]\nevent = \"x\"\n[handoff]\n\"any\" = \"a\"\n";
        let (_, unknown) = Topology::read(text).unwrap();
        let told: Vec<String> = unknown
            .iter()
            .map(|key| format!("{} ({:?}) <- {}", key.path, key.near, &text[key.span.clone()]))
            .collect();
        insta::assert_snapshot!(told.join("\n"), @r#"
        nmae (Some("name")) <- nmae
        role.emit (Some("emits")) <- emit
        role.backend (None) <- backend
        gate (None) <- gate
        "#);
    }

    #[test]
    fn roles_keep_what_was_said_of_them() {
        let topology = Topology::parse(
            "[[role]]\nid = \"a\"\nprompt = \"do it\"\nprompt_file = \"roles/a.md\"\nbackend_command = \"pi\"\nbackend_args = [\"x,y\"]\nbackend_timeout_ms = 500\n[[role]]\nid = \"b\"\nprompt_file = \"roles/b.md\"\n",
        )
        .unwrap();
        let [a, b] = topology.roles.as_slice() else { panic!("two roles") };
        assert_eq!(a.prompt, RolePrompt::Inline("do it".into()));
        assert_eq!(b.prompt, RolePrompt::File("roles/b.md".into()));
        assert_eq!(a.backend.args, Some(vec!["x,y".to_owned()]));
        assert_eq!(a.backend.timeout_ms, Some(500));
        assert_eq!(b.backend, RoleBackend::default());
    }
}
