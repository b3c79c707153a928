//! The answers of the issue tracker `bd` and of compatible programs.
//!
//! Answers have several shapes: a list, a list in an envelope, a single object; errors are JSON on either
//! output, or plain text. A tracker may list hundreds of thousands of issues, so a list is never held as a tree
//! of values: each issue is read and passed on by itself.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{Item, Priority, Status};
use crate::text;
use crate::timestamp::Timestamp;

/// How many nested envelopes are opened.
const DEEPEST: usize = 4;
/// How many positions of a text that is not JSON as a whole are tried as the beginning of JSON.
const MOST_STARTS: usize = 16;
/// The keys of lists in an envelope, in this order.
const ENVELOPES: [&str; 6] = ["data", "issues", "items", "results", "closed", "claimed"];
/// The longest value that may be an error, in bytes.
const LONGEST_ERROR: usize = 1024 * 1024;
/// How many characters of an error are shown.
const SHOWN: usize = 400;
/// How many characters of a reason are passed to the tracker.
const REMARKED: usize = 2_000;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAnswer {
    #[error("its answer is not JSON: {0}")]
    NotJson(String),
    #[error("its answer contains no issues: {0}")]
    NoIssues(String),
    /// An error, although it exited with 0.
    #[error("it answered with an error: {0}")]
    Error(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Issue {
    pub item: Item,
    /// The tracker's own word.
    pub status: String,
    pub created: Option<Timestamp>,
}

impl Issue {
    /// Whether it is known to have been added after this time.
    pub fn is_newer_than(&self, mark: Timestamp) -> bool {
        self.created.is_some_and(|created| created > mark)
    }
}

/// Passes on the issues in an answer, one after another. An empty answer is an empty list.
pub fn each_issue(stdout: &str, keep: &mut dyn FnMut(Issue)) -> Result<(), BadAnswer> {
    if stdout.trim().is_empty() {
        return Ok(());
    }
    let values = values(stdout);
    let mut has_empty_list = false;
    for value in &values {
        let Some(elements) = elements(value, DEEPEST) else { continue };
        let found = elements.iter().filter_map(|element| Fields::of(element)?.issue());
        if found.map(&mut *keep).count() > 0 {
            return Ok(());
        }
        has_empty_list |= elements.is_empty();
    }
    if has_empty_list {
        return Ok(());
    }
    Err(match values.iter().rev().find_map(|raw| error_in(raw)) {
        Some(error) => BadAnswer::Error(clipped(&error)),
        None if values.is_empty() => BadAnswer::NotJson(clipped(stdout)),
        None => BadAnswer::NoIssues(clipped(stdout)),
    })
}

/// The error message of a failed call, on either output and in any shape.
pub fn complaint(stdout: &str, stderr: &str) -> String {
    // The last error is the reason of the failure.
    let spoken = [stdout, stderr]
        .into_iter()
        .find_map(|text| values(text).iter().rev().find_map(|raw| error_in(raw)));
    let plain = || [stderr, stdout].into_iter().find(|text| !text.trim().is_empty());
    match spoken {
        Some(error) => clipped(&error),
        None => plain().map_or_else(|| "it printed nothing".to_owned(), clipped),
    }
}

/// Whether a failed call reports an unknown option.
pub fn is_unknown_option(complaint: &str) -> bool {
    let said = complaint.to_ascii_lowercase();
    let is_unknown =
        ["unknown", "unexpected", "unrecognized", "unrecognised", "invalid", "no such"];
    let is_option = ["flag", "option", "argument", "--claim", "--limit"];
    is_unknown.iter().any(|word| said.contains(word))
        && is_option.iter().any(|word| said.contains(word))
}

/// A text as an argument for the tracker: one line of limited length that does not look like an option.
pub fn remark(text: &str) -> String {
    text::clipped_line(text, REMARKED).trim_start_matches(['-', ' ']).to_owned()
}

/// The JSON values in a text. Text before and after them is skipped, unless it is JSON too, as log lines may be.
fn values(text: &str) -> Vec<&RawValue> {
    if let Ok(whole) = serde_json::from_str(text.trim()) {
        return vec![whole];
    }
    let starts = text.match_indices(['{', '[']).map(|(at, _)| at);
    let at_line_start = starts.filter(|at| *at == 0 || text.as_bytes()[*at - 1] == b'\n');
    let (mut found, mut end) = (Vec::new(), 0);
    for at in at_line_start.take(MOST_STARTS) {
        let mut from_here = serde_json::Deserializer::from_str(&text[at..]).into_iter();
        // A start inside of the last value is skipped.
        if at >= end
            && let Some(Ok(value)) = from_here.next()
        {
            end = at + from_here.byte_offset();
            found.push(value);
        }
    }
    found
}

/// What a value may have issues among: the elements of a list, or a single issue, also in an envelope.
fn elements(raw: &RawValue, depth: usize) -> Option<Vec<&RawValue>> {
    match raw.get().as_bytes().first()? {
        b'[' => serde_json::from_str(raw.get()).ok(),
        b'n' if depth < DEEPEST => Some(Vec::new()),
        b'{' => {
            let fields = Fields::of(raw)?;
            if fields.0.contains_key("id") {
                return Some(vec![raw]);
            }
            let inside = ENVELOPES.iter().find_map(|name| fields.0.get(*name));
            elements(inside.filter(|_| depth > 0)?, depth - 1)
        }
        _ => None,
    }
}

/// The fields of an object, each parsed when it is asked for. A field of another type counts as missing.
struct Fields<'r>(BTreeMap<String, &'r RawValue>);

impl<'r> Fields<'r> {
    fn of(raw: &'r RawValue) -> Option<Self> {
        serde_json::from_str(raw.get()).ok().map(Fields)
    }

    fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_str(self.0.get(name)?.get()).ok()
    }

    fn issue(&self) -> Option<Issue> {
        let text = |name| self.get::<String>(name);
        let id = text("id").filter(|id| is_id(id))?;
        let status = text("status").unwrap_or_else(|| "open".to_owned());
        let dependencies: Vec<Value> = self.get("dependencies").unwrap_or_default();
        let dependencies = dependencies.iter().filter_map(|one| dependency(one.as_object()?));
        let dependencies: Vec<_> = dependencies.filter(|one| one.id != id).collect();
        let is_open = |one: &Dependency| {
            one.status.as_deref().is_some_and(|status| meaning(status) != Status::Closed)
        };
        let item = Item {
            title: text("title").unwrap_or_default(),
            description: text("description").unwrap_or_default(),
            acceptance: text("acceptance_criteria")
                .or_else(|| text("acceptance"))
                .unwrap_or_default(),
            priority: self.get("priority").and_then(Priority::new).unwrap_or_default(),
            status: match meaning(&status) {
                Status::Ready if dependencies.iter().any(is_open) => Status::Blocked,
                status => status,
            },
            dependencies: dependencies.into_iter().map(|one| one.id).collect(),
            owner: text("assignee").filter(|owner| !owner.is_empty()),
            id,
        };
        let created = text("created_at").and_then(|created| created.parse().ok());
        Some(Issue { item, status, created })
    }
}

#[derive(Debug)]
struct Dependency {
    id: String,
    status: Option<String>,
}

/// Whether a text can be an id. It is passed to the tracker and must not look like an option.
fn is_id(text: &str) -> bool {
    let is_odd = |c: char| c.is_whitespace() || c.is_control();
    !text.is_empty() && !text.starts_with('-') && !text.contains(is_odd)
}

/// The meaning of a status of the tracker. An issue with an unknown one is not taken.
fn meaning(status: &str) -> Status {
    match status {
        "open" => Status::Ready,
        "in_progress" | "hooked" => Status::InWork,
        "closed" | "tombstone" => Status::Closed,
        _ => Status::Blocked,
    }
}

/// Reads a reference or a whole issue. Other relations, such as a parent, block nothing.
fn dependency(one: &Map<String, Value>) -> Option<Dependency> {
    let kind = text(one, &["dependency_type", "dep_type", "type"]);
    let blocks = ["blocks", "conditional-blocks", "waits-for"];
    if kind.is_some_and(|kind| !blocks.contains(&kind.as_str())) {
        return None;
    }
    let id = text(one, &["depends_on_id", "id"])?;
    Some(Dependency { id, status: text(one, &["status"]) })
}

fn error_in(raw: &RawValue) -> Option<String> {
    let text = Some(raw.get()).filter(|text| text.len() <= LONGEST_ERROR)?;
    error_text(&serde_json::from_str(text).ok()?)
}

/// The text of an error object: `{"error": "…"}`, `{"error": {"message": …}}` or `{"message": …}`, with its hint.
fn error_text(value: &Value) -> Option<String> {
    let object = value.as_object()?;
    match object
        .get("error")
        .or_else(|| object.get("data").filter(|data| data["error"] != Value::Null))
    {
        Some(Value::String(error)) => Some(with_hint(error, object)),
        Some(inner @ Value::Object(_)) => error_text(inner),
        _ => text(object, &["message"]).map(|message| with_hint(&message, object)),
    }
}

fn with_hint(error: &str, object: &Map<String, Value>) -> String {
    match text(object, &["hint"]) {
        Some(hint) => format!("{error} ({hint})"),
        None => error.to_owned(),
    }
}

fn text(object: &Map<String, Value>, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| object.get(*name)?.as_str()).map(str::to_owned)
}

fn clipped(text: &str) -> String {
    text::clipped_line(text, SHOWN)
}
