//! What the issue tracker `bd` answers, and programs that are like it.
//!
//! Their answers come in several shapes: a bare list, a list in an envelope, a single object; errors as
//! JSON on either output, or as plain text. One reader takes them all, and what it cannot use it says.

mod stream;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{Item, Priority, Status};
use crate::text;
use crate::timestamp::Timestamp;

/// How many envelopes are opened.
const DEEPEST: usize = 4;
/// At so many places of a text that is not JSON as a whole JSON is looked for.
const MOST_STARTS: usize = 16;
/// Where lists are found in an object, in this order.
const ENVELOPES: [&str; 6] = ["data", "issues", "items", "results", "closed", "claimed"];
/// The longest value that may be an error.
const LONGEST_ERROR: usize = 1024 * 1024;
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
    pub created: Option<Timestamp>,
}

impl Issue {
    /// Whether it was added after this moment, as far as the tracker says.
    pub fn is_newer_than(&self, mark: Timestamp) -> bool {
        self.created.is_some_and(|created| created > mark)
    }
}

/// The issues in an answer.
///
/// # Errors
///
/// As [`each_issue`].
pub fn issues(stdout: &str) -> Result<Vec<Issue>, BadAnswer> {
    let mut issues = Vec::new();
    each_issue(stdout, &mut |issue| issues.push(issue))?;
    Ok(issues)
}

/// Hands over the issues in an answer, one after another: of hundreds of thousands nothing is held but
/// what the caller keeps.
///
/// # Errors
///
/// When it holds none of the shapes in which issues come. Nothing at all is an empty list: a tracker
/// that has nothing to say about issues has none.
pub fn each_issue(stdout: &str, keep: &mut dyn FnMut(Issue)) -> Result<(), BadAnswer> {
    if stdout.trim().is_empty() {
        return Ok(());
    }
    let values = values(stdout);
    let mut has_empty_list = false;
    for value in &values {
        match stream::listed(value, DEEPEST, keep) {
            Some(counted) if counted.issues > 0 => return Ok(()),
            Some(counted) => has_empty_list |= counted.elements == 0,
            None => {}
        }
    }
    if has_empty_list {
        return Ok(());
    }
    Err(match values.iter().rev().find_map(|raw| error_in(raw)) {
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
        .find_map(|text| values(text).iter().rev().find_map(|raw| error_in(raw)));
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

/// The JSON in a text, unread. What a tracker says before and behind it is passed over, unless that is JSON
/// too, as log lines may be.
fn values(text: &str) -> Vec<&RawValue> {
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

/// What is read of an issue.
#[derive(Debug, Default)]
struct Parts {
    id: Option<String>,
    status: Option<String>,
    title: Option<String>,
    description: Option<String>,
    criteria: Option<String>,
    acceptance: Option<String>,
    assignee: Option<String>,
    created: Option<String>,
    priority: Option<u64>,
    dependencies: Vec<Dependency>,
}

/// An issue that has to be done first, with its status where that is said.
#[derive(Debug)]
struct Dependency {
    id: String,
    status: Option<String>,
}

impl Parts {
    fn issue(self) -> Option<Issue> {
        let id = self.id.filter(|id| is_id(id))?;
        let status = self.status.unwrap_or_else(|| "open".to_owned());
        let dependencies: Vec<Dependency> =
            self.dependencies.into_iter().filter(|one| one.id != id).collect();
        let mut standing = standing(&status);
        let is_open = |one: &Dependency| {
            one.status.as_deref().is_some_and(|status| self::standing(status) != Status::Closed)
        };
        if standing == Status::Ready && dependencies.iter().any(is_open) {
            standing = Status::Blocked;
        }
        let item = Item {
            title: self.title.unwrap_or_default(),
            description: self.description.unwrap_or_default(),
            acceptance: self.criteria.or(self.acceptance).unwrap_or_default(),
            priority: self.priority.and_then(Priority::new).unwrap_or_default(),
            status: standing,
            dependencies: dependencies.into_iter().map(|one| one.id).collect(),
            owner: self.assignee.filter(|owner| !owner.is_empty()),
            id,
        };
        let created = self.created.and_then(|created| created.parse().ok());
        Some(Issue { item, status, created })
    }
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

/// An issue that has to be done first: a reference in a list, a whole issue where one is shown. Other
/// relations, to a parent for one, block nothing by themselves.
fn dependency(one: &Map<String, Value>) -> Option<Dependency> {
    let kind = text(one, &["dependency_type", "dep_type", "type"]);
    let blocks = ["blocks", "conditional-blocks", "waits-for"];
    if kind.is_some_and(|kind| !blocks.contains(&kind.as_str())) {
        return None;
    }
    let id = text(one, &["depends_on_id", "id"])?;
    Some(Dependency { id, status: text(one, &["status"]) })
}

/// The error in a value. One as long as a list of issues is no error.
fn error_in(raw: &RawValue) -> Option<String> {
    let text = Some(raw.get()).filter(|text| text.len() <= LONGEST_ERROR)?;
    error_text(&serde_json::from_str(text).ok()?)
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
    text::clip(&text::one_line(text::head(text, 4 * limit)), limit).into_owned()
}
