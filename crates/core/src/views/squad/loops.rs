//! The groups of a squad, with the state of each loop.

use std::fmt::Write;

use serde::Serialize;

use crate::coordinator::Status;
use crate::format::{Format, json_text, tokens};
use crate::limits::Amounts;
use crate::squad::{Loop, LoopState, Squad};
use crate::{table, text};

const TITLE: usize = 100;
const REASON: usize = 240;

const HEADER: [&str; 8] =
    ["group", "loop", "task", "state", "review", "iteration", "usage", "about"];

pub fn render(squad: &Squad, status: Status, format: Format) -> String {
    match format {
        Format::Markdown => markdown(squad, status),
        Format::Terminal => terminal(squad, status),
        Format::Json => json_text(&facts(squad, status)),
    }
}

/// A task in its group, and its loop.
struct Row<'s> {
    /// Counted from 1.
    group: usize,
    task: &'s str,
    title: &'s str,
    /// `None` before it begins.
    it: Option<&'s Loop>,
}

fn rows(squad: &Squad) -> impl Iterator<Item = Row<'_>> {
    let groups = (1..).zip(&squad.groups);
    groups.flat_map(move |(group, tasks)| {
        tasks.iter().map(move |task| Row {
            group,
            task,
            title: squad.task(task).map_or("", |task| &task.title),
            it: squad.loop_of(task),
        })
    })
}

fn merged(squad: &Squad) -> usize {
    squad.loops.iter().filter(|it| it.state == LoopState::Merged).count()
}

/// The progress, and what all agents used.
fn summary(squad: &Squad, status: Status) -> String {
    let end = squad.finish.as_ref().map(|finish| finish.outcome.as_str());
    let status = match end.filter(|end| *end != status.name()) {
        Some(end) => format!("{status} ({})", text::one_line(end)),
        None => status.to_string(),
    };
    let (merged, tasks) = (merged(squad), squad.tasks.len());
    let noun = if tasks == 1 { "task" } else { "tasks" };
    let usage = used(squad, squad.ledger.taken);
    let usage = usage.map(|usage| format!(": {usage}")).unwrap_or_default();
    format!("{status}, {merged} of {tasks} {noun} merged{usage}")
}

/// `None` where no client reports what it uses.
fn used(squad: &Squad, taken: Amounts) -> Option<String> {
    let is_known = squad.ledger.is_reported() && taken != Amounts::default();
    is_known.then(|| format!("{}, {}", taken.cost, tokens(taken.tokens)))
}

/// Why the run ended, where that needs a reason.
fn reason(squad: &Squad) -> Option<String> {
    let reason = &squad.finish.as_ref()?.reason;
    (!reason.is_empty()).then(|| text::first_line(reason, REASON))
}

fn terminal(squad: &Squad, status: Status) -> String {
    let mut out = format!("squad {}: {}\n", squad.id, summary(squad, status));
    let rows = rows(squad).map(|row| {
        let [group, id, task, state, review, iteration, usage, about] = row.cells(squad);
        let done = match iteration.as_str() {
            "" => String::new(),
            "1" => "1 iteration".to_owned(),
            count => format!("{count} iterations"),
        };
        let done = [done, usage].into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>();
        [format!("  {group}"), id, task, state, review, done.join(", "), about]
    });
    out.push_str(&table::print(rows.collect()));
    for line in blocked(squad) {
        let _ = writeln!(out, "{line}");
    }
    out
}

fn markdown(squad: &Squad, status: Status) -> String {
    let mut out = format!("# Squad {}\n\n{}\n\n", squad.id, summary(squad, status));
    let _ = writeln!(out, "| {} |\n{}|", HEADER.join(" | "), "|---".repeat(HEADER.len()));
    for row in rows(squad).map(|row| row.cells(squad)) {
        let _ = writeln!(out, "| {} |", row.map(|cell| cell.replace('|', "\\|")).join(" | "));
    }
    for (place, line) in blocked(squad).iter().enumerate() {
        let _ = writeln!(out, "{}- {line}", if place == 0 { "\n" } else { "" });
    }
    out
}

/// Why the run ended, and how the user resolves the loops that block it.
fn blocked(squad: &Squad) -> Vec<String> {
    let commands = squad.loops.iter().filter_map(|it| {
        let command = resolution(it)?;
        Some(format!("resolve {} with `{command}`", it.id))
    });
    // The reason of a squad that is blocked is that of its loops.
    let has_blocked = squad.loops.iter().any(|it| it.state.is_blocked());
    let reason = reason(squad).filter(|_| !has_blocked);
    reason.into_iter().chain(commands).collect()
}

/// The command that resolves a loop. Only work that exists can be accepted.
pub fn resolve_command(id: &str, has_work: bool) -> String {
    let accept = if has_work { "|--accept" } else { "" };
    format!("autoloop squad resolve {id} --retry|--skip{accept} \"reason\"")
}

/// The same, if the loop waits for the user.
fn resolution(it: &Loop) -> Option<String> {
    it.state.is_blocked().then(|| resolve_command(&it.id, it.work.is_some()))
}

impl Row<'_> {
    fn cells(&self, squad: &Squad) -> [String; 8] {
        let about = match self.it {
            Some(it) if it.state.is_blocked() || it.state == LoopState::Reopened => {
                text::first_line(&it.reason, REASON)
            }
            _ => text::first_line(self.title, TITLE),
        };
        let of_loop = |cell: &dyn Fn(&Loop) -> String| self.it.map(cell).unwrap_or_default();
        [
            self.group.to_string(),
            self.it.map_or("-".to_owned(), |it| text::one_line(&it.id)),
            text::one_line(self.task),
            self.it.map_or("waiting", |it| it.state.name()).to_owned(),
            of_loop(&|it| review(it, squad)),
            of_loop(&|it| it.iteration.to_string()),
            of_loop(&|it| used(squad, squad.ledger.taken_by(&it.id)).unwrap_or_default()),
            about,
        ]
    }
}

fn review(it: &Loop, squad: &Squad) -> String {
    let status = it.review_status(squad).name().replace('_', " ");
    match it.revision_attempts(squad) {
        0 => format!("review {status}"),
        revision => format!("review {status}, revision {revision}/{}", squad.effort().revisions()),
    }
}

fn facts(squad: &Squad, status: Status) -> Facts<'_> {
    let mut groups: Vec<GroupFacts<'_>> =
        (1..).zip(&squad.groups).map(|(group, _)| GroupFacts { group, loops: vec![] }).collect();
    for row in rows(squad) {
        if let Some(group) = groups.get_mut(row.group - 1) {
            group.loops.push(LoopFacts::of(&row, squad));
        }
    }
    let taken = squad.ledger.taken;
    Facts {
        run: &squad.id,
        status: status.name(),
        outcome: squad.finish.as_ref().map(|finish| finish.outcome.as_str()),
        reason: squad.finish.as_ref().map(|finish| &*finish.reason),
        effort: squad.effort().name(),
        tasks: squad.tasks.len(),
        merged: merged(squad),
        head: squad.head(),
        cost_usd: taken.cost.amount(),
        tokens: taken.tokens,
        groups,
    }
}

#[derive(Serialize)]
struct Facts<'s> {
    run: &'s str,
    status: &'static str,
    outcome: Option<&'s str>,
    reason: Option<&'s str>,
    effort: &'static str,
    tasks: usize,
    merged: usize,
    head: &'s str,
    cost_usd: f64,
    tokens: u64,
    groups: Vec<GroupFacts<'s>>,
}

#[derive(Serialize)]
struct GroupFacts<'s> {
    group: usize,
    loops: Vec<LoopFacts<'s>>,
}

#[derive(Serialize)]
struct LoopFacts<'s> {
    task: &'s str,
    title: &'s str,
    id: Option<&'s str>,
    status: &'static str,
    reason: Option<&'s str>,
    review_status: Option<&'static str>,
    last_review: Option<&'s str>,
    revision: u64,
    max_revisions: u64,
    iteration: u64,
    branch: Option<&'s str>,
    worktree: Option<&'s str>,
    base: Option<&'s str>,
    commit: Option<&'s str>,
    cost_usd: f64,
    tokens: u64,
    resolve: Option<String>,
}

impl<'s> LoopFacts<'s> {
    fn of(row: &Row<'s>, squad: &Squad) -> LoopFacts<'s> {
        let it = row.it;
        let taken = it.map(|it| squad.ledger.taken_by(&it.id)).unwrap_or_default();
        LoopFacts {
            task: row.task,
            title: row.title,
            id: it.map(|it| &*it.id),
            status: it.map_or("waiting", |it| it.state.name()),
            reason: it.map(|it| &*it.reason).filter(|reason| !reason.is_empty()),
            review_status: it.map(|it| it.review_status(squad).name()),
            last_review: it.and_then(|it| it.last_review.as_deref()),
            revision: it.map_or(0, |it| it.revision_attempts(squad)),
            max_revisions: squad.effort().revisions(),
            iteration: it.map_or(0, |it| it.iteration),
            branch: it.map(|it| &*it.branch),
            worktree: it.map(|it| &*it.tree),
            base: it.map(|it| &*it.base),
            commit: it.and_then(|it| it.work.as_ref()).map(|work| &*work.commit),
            cost_usd: taken.cost.amount(),
            tokens: taken.tokens,
            resolve: it.and_then(resolution),
        }
    }
}
