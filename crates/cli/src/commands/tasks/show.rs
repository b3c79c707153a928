//! `autoloop tasks show`: all about one task.

use autoloop_core::format::json_text;
use autoloop_core::queue::{Status, Task};
use autoloop_runtime::queue::{Builtin, QueueError};

use super::row::Row;
use crate::failure::Failure;
use crate::terminal;

/// Show all about one task.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Which one.
    id: String,
    /// Print an object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, queue: &Builtin<'_>) -> Result<(), Failure> {
    let text = queue.look(|tasks, now| {
        let task = tasks.known(&args.id)?;
        let row = Row { tasks, task, now };
        Ok::<_, QueueError>(match args.json {
            true => json_text(&row.facts()),
            false => told(&row),
        })
    })??;
    Ok(terminal::print(&text)?)
}

fn told(row: &Row<'_>) -> String {
    let Row { tasks, task, .. } = *row;
    let mut text = format!("{}  {}\n\n", task.id, terminal::one_line(&task.title, 500));
    let mut line = |name: &str, said: &str| {
        if !said.is_empty() {
            text.push_str(&format!("{name:<10} {said}\n"));
        }
    };
    let status = match row.status() {
        Status::InWork => format!("claimed by {}", row.standing()),
        status => status.to_string(),
    };
    line("status", &status);
    line("priority", &task.priority.number().to_string());
    let after = task.after.iter().map(|id| match tasks.get(id) {
        Some(Task { is_closed: true, .. }) => format!("{id} (closed)"),
        _ => id.clone(),
    });
    line("waits for", &after.collect::<Vec<_>>().join(", "));
    line("added by", &terminal::one_line(task.by.as_deref().unwrap_or_default(), 200));
    line("last said", &terminal::one_line(&task.reason, 500));
    for (heading, body) in [("Description", &task.description), ("Acceptance", &task.acceptance)] {
        if !body.is_empty() {
            text.push_str(&format!("\n{heading}:\n{}\n", body.trim_end()));
        }
    }
    text
}
