//! What the issue tracker `bd` answers, and programs that are like it.
//!
//! Their answers come in several shapes: a bare list, a list in an envelope, a single object; errors as
//! JSON on either output, or as plain text. One reader takes them all, and what it cannot use it says.

use serde_json::{Map, Value};

use super::{Item, Priority, Status};
use crate::excerpt;
use crate::stamp::Stamp;

/// How many envelopes are opened.
const DEEPEST: usize = 4;
/// At so many places of a text that is not JSON as a whole JSON is looked for.
const MOST_STARTS: usize = 16;
/// Where lists are found in an object, in this order.
const ENVELOPES: [&str; 6] = ["data", "issues", "items", "results", "closed", "claimed"];
/// How much of an error is told.
const TOLD: usize = 400;
/// How much of a reason is told to the tracker.
const REMARKED: usize = 2_000;

/// An answer that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAnswer {
    /// No JSON.
    #[error("it answered with something that is not JSON: {0}")]
    NotJson(String),
    /// JSON, but no issues.
    #[error("it answered with JSON in which there are no issues: {0}")]
    NoIssues(String),
    /// An error, although it exited with 0.
    #[error("it answered with an error: {0}")]
    Error(String),
}

/// An issue of the tracker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Issue {
    /// What it is.
    pub item: Item,
    /// Its status in the tracker's own word.
    pub status: String,
    /// When it was added, where the tracker says so.
    pub created: Option<Stamp>,
}

impl Issue {
    /// Whether it was added after this moment, as far as the tracker says.
    pub fn is_newer_than(&self, mark: Stamp) -> bool {
        self.created.is_some_and(|created| created > mark)
    }
}

/// The issues in an answer.
///
/// # Errors
///
/// When it holds none of the shapes in which issues come. Nothing at all is an empty list: a tracker
/// that has nothing to say about issues has none.
pub fn issues(stdout: &str) -> Result<Vec<Issue>, BadAnswer> {
    if stdout.trim().is_empty() {
        return Ok(Vec::new());
    }
    let values = values(stdout);
    let lists: Vec<Vec<&Value>> =
        values.iter().filter_map(|value| list(value, DEEPEST).ok()).collect();
    let of = |list: &Vec<&Value>| list.iter().filter_map(|value| issue(value)).collect::<Vec<_>>();
    if let Some(issues) = lists.iter().map(of).find(|issues| !issues.is_empty()) {
        return Ok(issues);
    }
    if lists.iter().any(Vec::is_empty) {
        return Ok(Vec::new());
    }
    Err(match values.iter().rev().find_map(error_text) {
        Some(error) => BadAnswer::Error(told(&error)),
        None if values.is_empty() => BadAnswer::NotJson(told(stdout)),
        None => BadAnswer::NoIssues(told(stdout)),
    })
}

/// What a failed call says about itself, on whichever output and in whichever shape.
pub fn complaint(stdout: &str, stderr: &str) -> String {
    // The last word is what it failed of.
    let spoken = [stdout, stderr]
        .into_iter()
        .find_map(|text| values(text).iter().rev().find_map(error_text));
    let plain = || [stderr, stdout].into_iter().find(|text| !text.trim().is_empty());
    match spoken {
        Some(error) => told(&error),
        None => plain().map_or_else(|| "it said nothing".to_owned(), told),
    }
}

/// Whether a failed call says that it does not know what it was asked for, as programs do that lack an
/// option.
pub fn is_unknown_option(complaint: &str) -> bool {
    let said = complaint.to_ascii_lowercase();
    let is_unknown =
        ["unknown", "unexpected", "unrecognized", "unrecognised", "invalid", "no such"];
    let is_option = ["flag", "option", "argument", "--claim", "--limit"];
    is_unknown.iter().any(|word| said.contains(word))
        && is_option.iter().any(|word| said.contains(word))
}

/// A text as an argument for the tracker: one line, of a length that any system passes on, without the
/// characters that none does, and nothing that could be taken for an option.
pub fn remark(text: &str) -> String {
    let line = in_line(text, REMARKED);
    line.trim_start_matches(['-', ' ']).to_owned()
}

/// The JSON in a text. What a tracker says before and behind it is passed over, unless that is JSON too, as
/// log lines may be.
fn values(text: &str) -> Vec<Value> {
    if let Ok(whole) = serde_json::from_str(text.trim()) {
        return vec![whole];
    }
    let starts = text.match_indices(['{', '[']).map(|(at, _)| at);
    let at_line_start = starts.filter(|at| *at == 0 || text.as_bytes()[*at - 1] == b'\n');
    let (mut found, mut end) = (Vec::new(), 0);
    for at in at_line_start.take(MOST_STARTS) {
        let mut from_here = serde_json::Deserializer::from_str(&text[at..]).into_iter();
        // What is inside of another value was seen.
        if at >= end
            && let Some(Ok(value)) = from_here.next()
        {
            end = at + from_here.byte_offset();
            found.push(value);
        }
    }
    found
}

fn list(value: &Value, depth: usize) -> Result<Vec<&Value>, ()> {
    match value {
        Value::Array(items) => Ok(items.iter().collect()),
        Value::Null if depth < DEEPEST => Ok(Vec::new()),
        Value::Object(object) if object.contains_key("id") => Ok(vec![value]),
        Value::Object(object) if depth > 0 => {
            let inside = ENVELOPES.iter().find_map(|name| object.get(*name)).ok_or(())?;
            list(inside, depth - 1)
        }
        _ => Err(()),
    }
}

fn issue(value: &Value) -> Option<Issue> {
    let object = value.as_object()?;
    let id = text(object, &["id"]).filter(|id| is_id(id))?;
    let status = text(object, &["status"]).unwrap_or_else(|| "open".to_owned());
    let dependencies = dependencies(object, &id);
    let mut standing = standing(&status);
    let is_open = |(_, status): &(String, Option<String>)| {
        status.as_deref().is_some_and(|status| self::standing(status) != Status::Closed)
    };
    if standing == Status::Ready && dependencies.iter().any(is_open) {
        standing = Status::Blocked;
    }
    let priority = object.get("priority").and_then(Value::as_u64).and_then(Priority::new);
    let item = Item {
        title: text(object, &["title"]).unwrap_or_default(),
        description: text(object, &["description"]).unwrap_or_default(),
        acceptance: text(object, &["acceptance_criteria", "acceptance"]).unwrap_or_default(),
        priority: priority.unwrap_or_default(),
        status: standing,
        dependencies: dependencies.into_iter().map(|(id, _)| id).collect(),
        owner: text(object, &["assignee"]).filter(|owner| !owner.is_empty()),
        id,
    };
    let created = text(object, &["created_at"]).and_then(|created| created.parse().ok());
    Some(Issue { item, status, created })
}

/// Whether a text can be an id. It is passed to the tracker, which must not take it for an option.
fn is_id(text: &str) -> bool {
    let is_odd = |c: char| c.is_whitespace() || c.is_control();
    !text.is_empty() && !text.starts_with('-') && !text.contains(is_odd)
}

/// What a status of the tracker comes to. Of one that is not known, nothing is to be taken.
fn standing(status: &str) -> Status {
    match status {
        "open" => Status::Ready,
        "in_progress" | "hooked" => Status::InWork,
        "closed" | "tombstone" => Status::Closed,
        _ => Status::Blocked,
    }
}

/// The issues that have to be done first, with their status where that is said: references in lists,
/// whole issues where one is shown. Other relations, to a parent for one, block nothing by themselves.
fn dependencies(object: &Map<String, Value>, of: &str) -> Vec<(String, Option<String>)> {
    let all = object.get("dependencies").and_then(Value::as_array).into_iter().flatten();
    all.filter_map(Value::as_object)
        .filter(|one| {
            let kind = text(one, &["dependency_type", "dep_type", "type"]);
            let blocks = ["blocks", "conditional-blocks", "waits-for"];
            kind.is_none_or(|kind| blocks.contains(&kind.as_str()))
        })
        .filter_map(|one| {
            let id = text(one, &["depends_on_id", "id"]).filter(|id| id != of)?;
            Some((id, text(one, &["status"])))
        })
        .collect()
}

/// What an error object says: `{"error": "…"}`, `{"error": {"message": …}}`, `{"message": …}`, with a
/// hint where there is one.
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

fn told(text: &str) -> String {
    in_line(text, TOLD)
}

fn in_line(text: &str, limit: usize) -> String {
    // A long text is cut before it is looked at.
    excerpt::clip(&excerpt::one_line(excerpt::head(text, 4 * limit)), limit).into_owned()
}
