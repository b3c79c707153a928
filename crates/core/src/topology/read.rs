//! `topology.toml`, read with every mistake named.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Handoff, Role, RoleBackend, RolePrompt, Topology};
use crate::pattern::{BadPattern, Pattern};
use crate::topic::{BadTopic, Topic, TopicClass};

/// A topology that cannot be used, and where in its text that is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct BadTopology {
    /// The bytes of the text that are meant.
    pub span: Range<usize>,
    /// What is wrong with them.
    pub fault: Fault,
}

/// What can be wrong with a topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Not TOML.
    #[error("this is not TOML: {0}")]
    Syntax(String),
    /// Something else than what belongs there.
    #[error("'{key}' has to be {expected}")]
    Type {
        /// Where.
        key: &'static str,
        /// What belongs there.
        expected: &'static str,
    },
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
    #[error("there is no role '{}'; the roles are {}", .role.escape_debug(), .roles.join(", "))]
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
}

impl Fault {
    fn at(self, span: Range<usize>) -> BadTopology {
        BadTopology { span, fault: self }
    }
}

type Value<'t> = Spanned<DeValue<'t>>;

impl Topology {
    /// Reads the text of a topology file.
    ///
    /// # Errors
    ///
    /// With the first mistake in it. A topology that was understood in part would enforce something
    /// that nobody wrote.
    pub fn parse(text: &str) -> Result<Topology, BadTopology> {
        let root = DeTable::parse(text).map_err(|error| {
            let problem = error.message().lines().collect::<Vec<_>>().join("; ");
            Fault::Syntax(problem).at(error.span().unwrap_or_default())
        })?;
        let root = root.get_ref();
        let mut topology = Topology {
            name: text_of(root, "name")?.unwrap_or_default(),
            completion: text_of(root, "completion")?.filter(|event| !event.is_empty()),
            ..Topology::default()
        };
        for role in list_of(root, "role", "a list of tables: [[role]]")? {
            let role = read_role(role)?;
            if topology.role(&role.1.id).is_some() {
                return Err(Fault::Twice(role.1.id).at(role.0));
            }
            topology.roles.push(role.1);
        }
        if let Some(map) = root.get("handoff") {
            let DeValue::Table(entries) = map.get_ref() else {
                return Err(wrong_type("handoff", "a table: [handoff]", map));
            };
            topology.handoff = read_handoffs(entries, &topology)?;
        }
        Ok(topology)
    }
}

/// A role, and where it stands.
fn read_role(value: &Value<'_>) -> Result<(Range<usize>, Role), BadTopology> {
    let DeValue::Table(table) = value.get_ref() else {
        return Err(wrong_type("role", "a list of tables: [[role]]", value));
    };
    let id = text_of(table, "id")?.ok_or_else(|| Fault::NoId.at(value.span()))?;
    let span = table.get("id").map_or(value.span(), Spanned::span);
    if Topic::check(&id).is_err() {
        return Err(Fault::BadId(id).at(span));
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
        timeout_ms: number_of(table, "backend_timeout_ms")?,
    };
    Ok((span, Role { id, emits, prompt, backend }))
}

fn read_emitted(value: &Value<'_>) -> Result<Pattern, BadTopology> {
    let Some(text) = value.get_ref().as_str() else {
        return Err(wrong_type("emits", "a list of events", value));
    };
    let at = |fault: Fault| fault.at(value.span());
    let pattern = Pattern::parse(text).map_err(|error| at(error.into()))?;
    if let Some(event) = pattern.exact() {
        let topic = Topic::check(event).map_err(|error| at(error.into()))?;
        if topic.class() == TopicClass::Reserved {
            return Err(at(Fault::Reserved(event.to_owned())));
        }
    }
    Ok(pattern)
}

fn read_handoffs(entries: &DeTable<'_>, topology: &Topology) -> Result<Vec<Handoff>, BadTopology> {
    let mut handoffs = Vec::new();
    for (event, value) in entries {
        let pattern =
            Pattern::parse(event.get_ref()).map_err(|error| Fault::from(error).at(event.span()))?;
        let names = match value.get_ref() {
            // One role need not be put into a list.
            DeValue::String(_) => std::slice::from_ref(value),
            DeValue::Array(list) => &list[..],
            _ => return Err(wrong_type("handoff", "a role or a list of roles", value)),
        };
        let mut roles = Vec::new();
        for name in names {
            let Some(role) = name.get_ref().as_str() else {
                return Err(wrong_type("handoff", "a role or a list of roles", name));
            };
            if topology.role(role).is_none() {
                let roles = topology.roles.iter().map(|role| role.id.clone()).collect();
                return Err(Fault::NoSuchRole { role: role.to_owned(), roles }.at(name.span()));
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
    let Some(value) = table.get(key) else { return Ok(None) };
    match value.get_ref().as_str() {
        Some(text) => Ok(Some(text.to_owned())),
        None => Err(wrong_type(key, "a text in quotes", value)),
    }
}

fn number_of(table: &DeTable<'_>, key: &'static str) -> Result<Option<u64>, BadTopology> {
    let Some(value) = table.get(key) else { return Ok(None) };
    let number = match value.get_ref() {
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
        DeValue::String(text) => text.parse().ok(),
        _ => None,
    };
    number.map(Some).ok_or_else(|| wrong_type(key, "a whole number", value))
}

fn texts_of(
    table: &DeTable<'_>,
    key: &'static str,
    expected: &'static str,
) -> Result<Vec<String>, BadTopology> {
    let texts = list_of(table, key, expected)?.iter().map(|value| match value.get_ref().as_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(wrong_type(key, expected, value)),
    });
    texts.collect()
}

fn list_of<'a, 't>(
    table: &'a DeTable<'t>,
    key: &'static str,
    expected: &'static str,
) -> Result<&'a [Value<'t>], BadTopology> {
    match table.get(key) {
        None => Ok(&[]),
        Some(value) => match value.get_ref() {
            DeValue::Array(list) => Ok(&list[..]),
            _ => Err(wrong_type(key, expected, value)),
        },
    }
}

fn wrong_type(key: &'static str, expected: &'static str, value: &Value<'_>) -> BadTopology {
    Fault::Type { key, expected }.at(value.span())
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
        insta::assert_snapshot!(mistake("[[role]]\nid = \"a\"\n[handoff]\n\"x\" = [\"b\"]"), @r#"there is no role 'b'; the roles are a <- "b""#);
        insta::assert_snapshot!(mistake("[handoff]\n\"x\" = 1"), @"'handoff' has to be a role or a list of roles <- 1");
        insta::assert_snapshot!(mistake("[[role]]\nid = \"a\"\nbackend_timeout_ms = \"soon\""), @r#"'backend_timeout_ms' has to be a whole number <- "soon""#);
        assert!(
            mistake("[handoff]\n\"/x(/\" = []").starts_with("'/x(/' is not a regular expression")
        );
        assert!(mistake("name = ").starts_with("this is not TOML"));
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
