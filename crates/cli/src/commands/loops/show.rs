//! `autoloop loops show`: everything about one run.

use std::path::PathBuf;

use autoloop_core::coordinator::Kind;
use autoloop_core::duration;
use autoloop_core::run::{Run, Stage};
use autoloop_runtime::world::World;

use super::Scene;
use super::row::Row;
use super::state::State;
use crate::commands::json::Json;
use crate::failure::Failure;
use crate::terminal;

/// Show everything about one run.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Its id, the beginning of it, or `latest`.
    run: String,
    /// The project [default: the current one].
    project_dir: Option<PathBuf>,
    /// Print one object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let scene = Scene::of(args.project_dir.as_deref(), world)?;
    let run = scene.named(&args.run)?;
    let row = scene.row(run, world);
    let text = match args.json {
        true => format!("{}\n", json(&row, &scene)),
        false => facts(&row, &scene),
    };
    Ok(terminal::print(&text)?)
}

fn json(row: &Row<'_>, scene: &Scene) -> Json {
    let run = row.run;
    let files = &scene.located.files;
    let start = run.start.as_ref();
    let mut facts = row.facts();
    facts.extend([
        ("completion_event", start.map(|start| start.completion_event.as_str()).into()),
        ("completion_promise", start.map(|start| start.completion_promise.as_str()).into()),
        ("review_every", start.map(|start| start.review_every).into()),
        ("reviewed_before", Some(run.reviewed_before).filter(|before| *before > 0).into()),
        ("events", Json::texts(&run.seen)),
        ("refused", run.invalid_count.into()),
        ("last_refused", run.last_rejected.as_deref().into()),
        ("journal", files.journal.display().to_string().into()),
        ("files", files.state_dir.runs(Kind::Loop).join(&run.id).display().to_string().into()),
    ]);
    Json::Object(facts)
}

fn facts(row: &Row<'_>, scene: &Scene) -> String {
    let run = row.run;
    let files = &scene.located.files;
    let mut facts = vec![("run", run.id.clone()), ("state", told_state(&row.state))];
    let failure = run.failure().filter(|failure| !failure.is_interrupt());
    facts.extend(failure.map(|failure| ("failure", failure.to_string())));
    if let Some(start) = &run.start {
        // A long objective stands under the beginning of its first line.
        let lines: Vec<&str> = start.objective.trim().lines().collect();
        facts.push(("objective", lines.join(&format!("\n{:WIDTH$}", ""))));
    }
    let known = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let ago = row
        .silence()
        .map(|time| format!(", {} ago", duration::print_short(time)))
        .unwrap_or_default();
    facts.push(("began", known(&run.times.0)));
    facts.push(("last heard", known(&run.times.1) + &ago));
    facts.extend(row.elapsed().map(|time| ("took", duration::print_short(time))));
    facts.push(("iterations", row.iterations()));
    facts.extend(under_way(run).map(|what| ("under way", what)));
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
    facts.push(("journal", files.journal.display().to_string()));
    facts.push(("files", files.state_dir.runs(Kind::Loop).join(&run.id).display().to_string()));
    if row.state.can_go_on() {
        let dir = scene.located.dir.display();
        facts.push(("to go on", format!("autoloop run --resume={} {dir}", run.id)));
    }
    facts.iter().map(|(name, fact)| format!("{name:<WIDTH$}{fact}\n")).collect()
}

/// The width of the column of names.
const WIDTH: usize = 14;

fn told_state(state: &State) -> String {
    match state {
        State::Running(pid) => format!("running, driven by process {pid}"),
        State::Complete(reason) => format!("complete: {reason}"),
        State::CutOff => "cut off: it has no end, and nobody drives it".to_owned(),
        State::Unfinished => {
            "unfinished; this system does not tell whether somebody drives it".to_owned()
        }
        State::Unbegun => "there are records of it, but none that begins it".to_owned(),
        state => state.to_string(),
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
