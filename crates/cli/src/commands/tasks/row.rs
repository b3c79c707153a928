//! A task, as a row of a table and as JSON.

use autoloop_core::format::json_text;
use autoloop_core::queue::{Status, Task, Tasks};
use autoloop_core::timestamp::Timestamp;
use serde::Serialize;

use crate::terminal;

/// How much of a title stands in a row.
const TITLE: usize = 60;

/// A task among the others, at a time.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) tasks: &'a Tasks,
    pub(super) task: &'a Task,
    pub(super) now: Timestamp,
}

impl Row<'_> {
    pub(super) fn status(&self) -> Status {
        self.tasks.status(self.task, self.now)
    }

    /// Those that it still waits for.
    pub(super) fn waits_for(&self) -> Vec<&str> {
        self.tasks.open_dependencies(self.task).collect()
    }

    /// Who has it and until when, or what it waits for.
    pub(super) fn standing(&self) -> String {
        let claim = self.task.live_claim(self.now);
        let until =
            |stamp: Option<Timestamp>| stamp.map(|s| format!(" until {s}")).unwrap_or_default();
        match (self.status(), claim) {
            (Status::InWork, Some(claim)) => {
                terminal::one_line(&format!("{}{}", claim.owner, until(claim.until)), TITLE)
            }
            (Status::Blocked, _) => format!("waits for {}", self.waits_for().join(", ")),
            _ => String::new(),
        }
    }

    fn cells(&self) -> [String; 5] {
        [
            self.task.id.clone(),
            format!("P{}", self.task.priority.number()),
            self.status().to_string(),
            terminal::one_line(&self.task.title, TITLE),
            self.standing(),
        ]
    }

    /// Everything that is known of it.
    pub(super) fn facts(&self) -> Facts<'_> {
        let Row { task, now, .. } = *self;
        let claim = task.live_claim(now);
        Facts {
            id: &task.id,
            title: &task.title,
            description: &task.description,
            acceptance: &task.acceptance,
            priority: task.priority.number(),
            status: self.status().as_str(),
            after: task.after.iter().collect(),
            waits_for: self.waits_for(),
            owner: claim.map(|claim| &*claim.owner),
            until: claim.and_then(|claim| claim.until).map(|until| until.to_string()),
            fence: claim.map(|claim| claim.fence),
            by: task.by.as_deref(),
            reason: &task.reason,
        }
    }
}

/// What other programs read of a task.
#[derive(Serialize)]
pub(super) struct Facts<'a> {
    id: &'a str,
    title: &'a str,
    description: &'a str,
    acceptance: &'a str,
    priority: u64,
    status: &'static str,
    after: Vec<&'a String>,
    waits_for: Vec<&'a str>,
    owner: Option<&'a str>,
    until: Option<String>,
    fence: Option<u64>,
    by: Option<&'a str>,
    reason: &'a str,
}

/// An array of objects.
pub(super) fn array(rows: &[Row<'_>]) -> String {
    json_text(&rows.iter().map(Row::facts).collect::<Vec<_>>())
}

/// A line each, in columns.
pub(super) fn table(rows: &[Row<'_>]) -> String {
    autoloop_core::table::print(rows.iter().map(Row::cells).collect())
}
