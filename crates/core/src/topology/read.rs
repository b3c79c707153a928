//! `topology.toml`, read with the place of every mistake.

use std::collections::BTreeMap;

use serde::de::{Deserialize, Deserializer, Error};
use toml::Spanned;

use super::{Handoff, Role, Topology};
use crate::pattern::Pattern;
use crate::toml_file::{Invalid, TomlFile, UnknownKey, fields};
use crate::topic::{Topic, TopicClass};

#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct TopologyFile {
    name: String,
    #[serde(deserialize_with = "completion")]
    completion: Option<String>,
    role: Vec<Role>,
    handoff: BTreeMap<String, RoleNames>,
}

/// A single role need not be in a list.
#[derive(serde::Deserialize)]
#[serde(untagged, expecting = "expected a role or a list of roles")]
enum RoleNames {
    One(String),
    Several(Vec<String>),
}

impl Topology {
    /// Parses a topology file. The first mistake is an error: a topology that was read in part would enforce
    /// other rules than the written ones.
    pub fn parse(text: &str) -> Result<Topology, Invalid> {
        Topology::read(text).map(|(topology, _)| topology)
    }

    pub fn read(text: &str) -> Result<(Topology, Vec<UnknownKey>), Invalid> {
        let file = TomlFile::parse(text)?;
        let (TopologyFile { name, completion, role: roles, handoff: names }, unknown) =
            file.read(&[("role", fields::<Role>())])?;
        for (index, role) in roles.iter().enumerate() {
            if roles[..index].iter().any(|other| other.id == role.id) {
                let id = file.locate(&["role", &index.to_string(), "id"]);
                return Err(id.invalid(format!("duplicate role '{}'", role.id.escape_debug())));
            }
        }
        let mut handoff = Vec::new();
        for (event, names) in names {
            let key = file.locate(&["handoff", &event]).key;
            let pattern = Pattern::parse(&event)
                .map_err(|bad| Invalid { span: key.clone(), message: bad.to_string() })?;
            let names = match names {
                RoleNames::One(name) => vec![name],
                RoleNames::Several(names) => names,
            };
            let is_missing = |name: &String| !roles.iter().any(|role| role.id == *name);
            if let Some(index) = names.iter().position(is_missing) {
                let name = file.locate(&["handoff", &event, &index.to_string()]);
                return Err(name.invalid(no_such_role(&names[index], &roles)));
            }
            handoff.push((key.start, Handoff { event: pattern, roles: names }));
        }
        // The parser sorts keys by name; the order of the file is part of what was written.
        handoff.sort_by_key(|(start, _)| *start);
        let handoff = handoff.into_iter().map(|(_, handoff)| handoff).collect();
        Ok((Topology { name, completion, roles, handoff }, unknown))
    }
}

fn no_such_role(name: &str, roles: &[Role]) -> String {
    let known: Vec<_> = roles.iter().map(|role| role.id.as_str()).collect();
    let known = match known[..] {
        [] => "no role is defined".to_owned(),
        [role] => format!("the only role is '{role}'"),
        _ => format!("the roles are {}", known.join(", ")),
    };
    format!("unknown role '{}': {known}", name.escape_debug())
}

/// Why an agent cannot route with an event.
pub(super) fn whose(event: &str) -> &'static str {
    match TopicClass::of(event) {
        TopicClass::Reserved => "only the harness may write such topics",
        TopicClass::Coordination => "coordination events never complete a run",
        TopicClass::Agent => "agents may emit it",
    }
}

fn completion<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let event = String::deserialize(deserializer)?;
    if event.is_empty() {
        return Ok(None);
    }
    match Topic::check(&event).map_err(D::Error::custom)?.class() {
        TopicClass::Agent => Ok(Some(event)),
        TopicClass::Reserved | TopicClass::Coordination => Err(D::Error::custom(format!(
            "'{}' cannot complete a run: {}",
            event.escape_debug(),
            whose(&event)
        ))),
    }
}

/// A name without characters that separate names in lists.
pub(super) fn role_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let id = String::deserialize(deserializer)?;
    match Topic::check(&id) {
        Ok(_) => Ok(id),
        Err(_) => Err(D::Error::custom(format!(
            "invalid name '{}': expected one word without commas",
            id.escape_debug()
        ))),
    }
}

pub(super) fn emitted_events<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Pattern>, D::Error> {
    /// A type of its own, so that the position of a mistake is that of one event and not of the whole list.
    #[derive(serde::Deserialize)]
    struct Emitted(#[serde(deserialize_with = "emitted_event")] Pattern);

    let events = Vec::<Emitted>::deserialize(deserializer)?;
    Ok(events.into_iter().map(|event| event.0).collect())
}

fn emitted_event<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Pattern, D::Error> {
    let pattern = Pattern::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)?;
    if let Some(event) = pattern.exact()
        && Topic::check(event).map_err(D::Error::custom)?.class() == TopicClass::Reserved
    {
        return Err(D::Error::custom(format!(
            "only the harness may write '{}', so no role can emit it",
            event.escape_debug()
        )));
    }
    Ok(pattern)
}

/// A whole number, also in quotes.
pub(super) fn milliseconds<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Spanned<u64>>, D::Error> {
    let written = Spanned::<toml::Value>::deserialize(deserializer)?;
    let number = match written.get_ref() {
        toml::Value::Integer(number) => u64::try_from(*number).ok(),
        toml::Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let number = number.ok_or_else(|| D::Error::custom("expected a whole number"))?;
    Ok(Some(Spanned::new(written.span(), number)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::RolePrompt;

    /// The message, and the text that it is about.
    fn mistake(text: &str) -> String {
        let bad = Topology::parse(text).unwrap_err();
        format!("{bad} <- {}", &text[bad.span.clone()])
    }

    #[test]
    fn every_mistake_is_named_and_found() {
        insta::assert_snapshot!(mistake("role = 3"), @"invalid type: integer `3`, expected a sequence, in `role` <- 3");
        insta::assert_snapshot!(mistake("[[role]]\nemits = []").lines().next().unwrap(), @"missing field `id`, in `role` <- [[role]]");
        insta::assert_snapshot!(mistake("[[role]]\nid = \"a,b\""), @r#"invalid name 'a,b': expected one word without commas, in `role.id` <- "a,b""#);
        insta::assert_snapshot!(mistake("[[role]]\nid = \"a\"\n[[role]]\nid = \"a\""), @r#"duplicate role 'a' <- "a""#);
        insta::assert_snapshot!(mistake("[[role]]\nid = \"a\"\nemits = [1]"), @"invalid type: integer `1`, expected a string, in `role.emits` <- 1");
        insta::assert_snapshot!(mistake("[[role]]\nid = \"a\"\nemits = [\"loop.complete\"]"), @r#"only the harness may write 'loop.complete', so no role can emit it, in `role.emits` <- "loop.complete""#);
        insta::assert_snapshot!(mistake("[[role]]\nid = \"a\"\nemits = [\"a b\"]"), @r#"topic 'a b' contains whitespace (' '); a topic is a word like review.ready, in `role.emits` <- "a b""#);
        insta::assert_snapshot!(mistake("[[role]]\nid = \"a\"\n[handoff]\n\"x\" = [\"b\"]"), @r#"unknown role 'b': the only role is 'a' <- "b""#);
        insta::assert_snapshot!(mistake("[handoff]\n\"x\" = [\"b\"]"), @r#"unknown role 'b': no role is defined <- "b""#);
        insta::assert_snapshot!(mistake("completion = \"loop.complete\""), @r#"'loop.complete' cannot complete a run: only the harness may write such topics, in `completion` <- "loop.complete""#);
        insta::assert_snapshot!(mistake("completion = \"issue.resolved\""), @r#"'issue.resolved' cannot complete a run: coordination events never complete a run, in `completion` <- "issue.resolved""#);
        insta::assert_snapshot!(mistake("completion = \"all done\""), @r#"topic 'all done' contains whitespace (' '); a topic is a word like review.ready, in `completion` <- "all done""#);
        insta::assert_snapshot!(mistake("[handoff]\n\"x\" = 1"), @"expected a role or a list of roles, in `handoff.x` <- 1");
        insta::assert_snapshot!(mistake("[[role]]\nid = \"a\"\nbackend_timeout_ms = \"soon\""), @r#"expected a whole number, in `role.backend_timeout_ms` <- "soon""#);
        assert!(
            mistake("[handoff]\n\"/x(/\" = []").starts_with("'/x(/' is not a regular expression")
        );
        assert!(mistake("name = ").starts_with("invalid TOML"));
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
        assert_eq!(a.prompt(), RolePrompt::Inline("do it"));
        let RolePrompt::File(file) = b.prompt() else { panic!("a file") };
        assert_eq!(file.get_ref(), "roles/b.md");
        assert_eq!(a.backend_args.as_ref().unwrap().get_ref(), &["x,y"]);
        assert_eq!(a.backend_timeout_ms.as_ref().unwrap().get_ref(), &500);
        assert_eq!((&b.backend_command, &b.backend_timeout_ms), (&None, &None));
    }
}
