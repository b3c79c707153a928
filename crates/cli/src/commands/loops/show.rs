//! `autoloop loops show`: one run.

use autoloop_core::coordinator::{Kind, Status};
use autoloop_core::duration;
use autoloop_core::format::json_text;
use autoloop_core::run::{Run, SomeRun, Stage};
use autoloop_runtime::world::World;
use serde_json::json;

use super::{Project, Row, RunArgs};
use crate::commands::session::resume_recorded;
use crate::failure::Failure;
use crate::terminal;

const WIDTH: usize = 14;

pub(super) fn run(args: &RunArgs, world: &World) -> Result<(), Failure> {
    let project = Project::of(args.project_dir.as_deref(), world)?;
    let run = project.list.find(&args.run)?;
    let activity = project.activity()?;
    let row = project.row(run, &activity, world);
    let text = match args.json {
        true => json(&row, &project),
        false => facts(&row, &project),
    };
    Ok(terminal::print(&text)?)
}

fn places(run: &SomeRun, project: &Project) -> [(&'static str, String); 2] {
    let dir = project.list.dir(run).map_or_else(String::new, |dir| dir.display().to_string());
    [("journal", project.located.files.journal.display().to_string()), ("files", dir)]
}

fn json(row: &Row<'_>, project: &Project) -> String {
    let mut facts = row.json();
    if let Some(run) = row.run.as_loop() {
        let start = run.start.as_ref();
        facts["completion_event"] = json!(start.map(|start| &start.completion_event));
        facts["completion_promise"] = json!(start.map(|start| &start.completion_promise));
        facts["review_every"] = json!(start.map(|start| start.review_every));
        facts["reviewed_before"] = json!(Some(run.reviewed_before).filter(|before| *before > 0));
        facts["events"] = json!(run.seen);
        facts["refused"] = json!(run.invalid_count);
        facts["last_refused"] = json!(run.last_rejected);
    }
    for (name, path) in places(row.run, project) {
        facts[name] = json!(path);
    }
    json_text(&facts)
}

fn facts(row: &Row<'_>, project: &Project) -> String {
    let run = row.run;
    let mut facts = vec![("run", run.id().to_owned())];
    facts.extend(run.kind().map(|kind| ("kind", kind.to_string())));
    facts.push(("status", full_status(row)));
    if let SomeRun::Loop(run) = run {
        let failure = run.failure().filter(|failure| !failure.is_interrupt());
        facts.extend(failure.map(|failure| ("failure", failure.to_string())));
    }
    if let Some(objective) = run.objective() {
        // Further lines are indented as the first.
        let lines: Vec<&str> = objective.trim().lines().collect();
        facts.push(("objective", lines.join(&format!("\n{:WIDTH$}", ""))));
    }
    let known = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let ago = row
        .silence()
        .map(|time| format!(", {} ago", duration::print_short(time)))
        .unwrap_or_default();
    let (began, heard) = run.times();
    facts.push(("started", known(began)));
    facts.push(("last record", known(heard) + &ago));
    facts.extend(row.elapsed().map(|time| ("time", duration::print_short(time))));
    facts.extend(row.usage.known().map(|usage| ("usage", usage.to_string())));
    facts.extend(row.parked.map(|parked| ("waits for", parked.to_string())));
    let counted = if run.kind() == Some(Kind::Chain) { "steps" } else { "iterations" };
    facts.push((counted, row.progress()));
    match run {
        SomeRun::Loop(run) => of_loop(run, &mut facts),
        SomeRun::Other(run) => facts.push(("last event", run.last_event.clone())),
    }
    facts.extend(places(run, project));
    let can_resume = row.status.is_some_and(|status| status.can_resume() && row.process.is_none());
    if let (true, Some(command)) = (can_resume, resume_recorded(run, &project.located.dir)) {
        facts.push(("to resume", command));
    }
    facts.iter().map(|(name, fact)| format!("{name:<WIDTH$}{fact}\n")).collect()
}

fn of_loop(run: &Run, facts: &mut Vec<(&'static str, String)>) {
    facts.extend(under_way(run).map(|what| ("current", what)));
    facts.push(("last event", run.recent_event.clone()));
    let seen: Vec<&str> = run.seen.iter().map(String::as_str).collect();
    facts.push(("events", if seen.is_empty() { "none yet".to_owned() } else { seen.join(", ") }));
    if run.invalid_count > 0 {
        facts.push(("refused", refused(run)));
    }
    if let Some(start) = &run.start {
        facts.push((
            "completes on",
            completes_on(&start.completion_event, &start.completion_promise),
        ));
        facts.push(("metareviews", reviews(start.review_every, run.reviewed_before)));
    }
}

fn full_status(row: &Row<'_>) -> String {
    match (row.status, row.process, row.reason()) {
        (Some(Status::Running), Some(process), _) => {
            format!("running, in process {process}{}", row.parked_text())
        }
        (Some(Status::Completed), _, Some(reason)) => format!("completed: {reason}"),
        (Some(Status::Crashed), ..) => {
            "crashed: no end is recorded, and no process holds its lock".to_owned()
        }
        _ => row.status(),
    }
}

fn under_way(run: &Run) -> Option<String> {
    let next = run.done + 1;
    match &run.stage {
        Stage::Iterating => {
            let emitted = match run.turn.events.as_slice() {
                [] => String::new(),
                events => format!(", emitted {}", events.join(", ")),
            };
            Some(format!("iteration {next}, after {}{emitted}", run.turn.opening_event))
        }
        Stage::Reviewing => Some(format!("metareview before iteration {next}")),
        Stage::New | Stage::Between | Stage::Ended(_) => None,
    }
}

fn refused(run: &Run) -> String {
    match &run.last_rejected {
        Some(event) => format!("{}, the last one {event}", run.invalid_count),
        None => run.invalid_count.to_string(),
    }
}

fn completes_on(event: &str, promise: &str) -> String {
    match promise {
        "" => format!("event {event}"),
        promise => format!("event {event}, or {promise} in the output"),
    }
}

fn reviews(every: u64, before: u64) -> String {
    let last = match before {
        0 => String::new(),
        before => format!(", the last one before iteration {before}"),
    };
    match every {
        0 => "none".to_owned(),
        1 => format!("before every iteration{last}"),
        every => format!("every {every} iterations{last}"),
    }
}
