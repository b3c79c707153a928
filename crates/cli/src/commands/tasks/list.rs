//! `autoloop tasks list` and `ready`: what there is to be done.

use autoloop_runtime::queue::Builtin;

use super::row::{Row, array, table};
use crate::failure::Failure;
use crate::terminal;

/// List the tasks that are not closed.
///
/// In the order in which they were added: id, priority, how it stands, title, and who has it or what
/// it waits for.
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// Those that are closed as well.
    #[arg(long)]
    all: bool,
    /// Print an array of objects.
    #[arg(long)]
    json: bool,
}

/// List the tasks that could be taken now, the next one first.
#[derive(Debug, clap::Args)]
pub(super) struct ReadyArgs {
    /// Print an array of objects.
    #[arg(long)]
    json: bool,
}

pub(super) fn list(args: &ListArgs, queue: &Builtin<'_>) -> Result<(), Failure> {
    let text = queue.look(|tasks, now| {
        let wanted = tasks.iter().filter(|task| args.all || !task.is_closed);
        let rows: Vec<Row<'_>> = wanted.map(|task| Row { tasks, task, now }).collect();
        let closed = tasks.iter().count() - rows.len();
        match args.json {
            true => array(&rows),
            false if rows.is_empty() && closed == 0 => "there are no tasks\n".to_owned(),
            false if rows.is_empty() => format!("all is done: {}\n", number(closed, "closed")),
            false if closed == 0 => table(&rows),
            false => format!("{}({}; --all shows them)\n", table(&rows), number(closed, "closed")),
        }
    })?;
    Ok(terminal::print(&text)?)
}

pub(super) fn ready(args: &ReadyArgs, queue: &Builtin<'_>) -> Result<(), Failure> {
    let text = queue.look(|tasks, now| {
        let ready = tasks.ready(now);
        let rows: Vec<Row<'_>> = ready.into_iter().map(|task| Row { tasks, task, now }).collect();
        let progress = tasks.progress(now);
        match args.json {
            true => array(&rows),
            false if !rows.is_empty() => table(&rows),
            false if progress.total() == 0 => "there are no tasks\n".to_owned(),
            false if progress.is_done() => {
                format!("all is done: {}\n", number(progress.done, "closed"))
            }
            false => format!(
                "nothing is ready: {} claimed, {} blocked\n",
                progress.in_work, progress.blocked
            ),
        }
    })?;
    Ok(terminal::print(&text)?)
}

fn number(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 task is {what}"),
        many => format!("{many} tasks are {what}"),
    }
}
