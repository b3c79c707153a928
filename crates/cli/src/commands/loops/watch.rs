//! `autoloop loops watch`: a run as it goes on.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use autoloop_core::failure::TurnFailure;
use autoloop_core::record::{Event, ExitCode, Glance, IterationStart, Seconds};
use autoloop_core::run::{Run, Stage};
use autoloop_runtime::drive::driver;
use autoloop_runtime::journal::{Journal, Position};
use autoloop_runtime::world::World;

use super::state::State;
use super::{Scene, named};
use crate::failure::Failure;
use crate::terminal;

/// The journal itself wakes us when it grows; this is how often it is looked whether the harness is
/// still there, which nobody announces.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// The same when the end is on record and the harness is about to go.
const ABOUT_TO_GO: Duration = Duration::from_millis(100);
/// How wide a line may be.
const WIDTH: usize = 160;

/// Follow a run until it ends.
///
/// Prints a line for every iteration, event and metareview as it comes. Exits with 0 when the run
/// reaches its goal, and with 1 when it ends otherwise or is cut off.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Its id, the beginning of it, or `latest` [default: the run that is under way, or else the
    /// latest].
    run: Option<String>,
    /// The project [default: the current one].
    project_dir: Option<PathBuf>,
}

pub(super) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let scene = Scene::of(args.project_dir.as_deref(), world)?;
    let run = match &args.run {
        Some(name) => scene.named(name)?,
        None => usual(&scene, world)?,
    };
    let mut watched = Watched { run: run.clone(), position: scene.position, said: Ok(()) };
    watched.say(&standing(&watched.run, &scene.state(&watched.run, world)))?;
    let driver = |run: &Run| driver(&scene.located.files, &run.id, &*world.disk);
    loop {
        watched.read_on(&scene)?;
        let state = State::of(&watched.run, driver(&watched.run));
        // Where the system does not tell who is there, only the journal can tell of an end.
        if !matches!(state, State::Running(_) | State::Unfinished) {
            // What its harness wrote before it went.
            watched.read_on(&scene)?;
            return conclude(&watched, &State::of(&watched.run, driver(&watched.run)));
        }
        let is_over = matches!(watched.run.stage, Stage::Ended(_));
        let time = if is_over { ABOUT_TO_GO } else { LOOK_AGAIN };
        scene.journal.wait(watched.position, time)?;
        terminal::ensure_read()?;
    }
}

/// A run that is watched, and how far it was read.
struct Watched {
    run: Run,
    position: Position,
    said: io::Result<()>,
}

impl Watched {
    /// Takes in what came since, and tells of it.
    fn read_on(&mut self, scene: &Scene) -> Result<(), Failure> {
        let Watched { run, position, said } = self;
        *position = scene.journal.read(*position, &mut |line| {
            line.records(|record| {
                if record.run() == run.id.as_str() {
                    run.apply(record);
                    if let Some(line) = told(record, run) {
                        *said = print(&line);
                    }
                }
            });
            if said.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(std::mem::replace(said, Ok(()))?)
    }

    fn say(&self, line: &str) -> Result<(), Failure> {
        Ok(print(line)?)
    }
}

/// Whoever reads along sees every line at once.
fn print(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(format!("{}\n", terminal::one_line(line, WIDTH)).as_bytes())?;
    out.flush()
}

/// How far the run is when the watch begins.
fn standing(run: &Run, state: &State) -> String {
    let of = run.start.as_ref().map(|start| format!(" of {}", start.max_iterations));
    let under_way = match run.stage {
        Stage::Iterating => format!(", iteration {} is under way", run.done + 1),
        Stage::Reviewing => ", a metareview is under way".to_owned(),
        Stage::New | Stage::Between | Stage::Ended(_) => String::new(),
    };
    format!(
        "run {}: {state}, {}{} iterations done{under_way}",
        run.id,
        run.done,
        of.unwrap_or_default()
    )
}

/// What a record tells, if it is worth a line.
fn told(record: &Glance<'_>, run: &Run) -> Option<String> {
    let number = record.iteration();
    let what = match record.payload() {
        Some(payload) => format!("  emitted {}  {payload}", record.topic()),
        None => match record.event() {
            Event::IterationStart(IterationStart { suggested_roles, recent_event, .. }) => {
                let of = run.start.as_ref().map_or(0, |start| start.max_iterations);
                let roles = match suggested_roles.as_str() {
                    "" => "no roles",
                    roles => roles,
                };
                format!("iteration {number}/{of}  {roles}  after {recent_event}")
            }
            Event::IterationFinish(finish) => {
                let time = finish.elapsed_s.map(|Seconds(seconds)| format!(" after {seconds} s"));
                let failure = failed(&finish.exit_code, finish.failure());
                format!("  ended{}{failure}", time.unwrap_or_default())
            }
            Event::EventInvalid(invalid) => format!("  refused {}", invalid.emitted),
            Event::ReviewStart(_) => format!("metareview before iteration {number}"),
            Event::ReviewFinish(finish) => {
                format!("  ended{}", failed(&finish.exit_code, finish.failure()))
            }
            Event::LoopResume(_) => format!("run {} goes on", run.id),
            _ => return None,
        },
    };
    let time = record.ts().unwrap_or_default();
    Some(format!("{}  {}", time.get(11..19).unwrap_or("--:--:--"), what.trim_end()))
}

/// Why an agent failed. A record without an exit code says nothing about it.
fn failed(exit_code: &ExitCode, failure: Option<TurnFailure>) -> String {
    let failure = failure.filter(|_| !exit_code.is_missing());
    failure.map(|failure| format!(": {failure}")).unwrap_or_default()
}

fn conclude(watched: &Watched, state: &State) -> Result<(), Failure> {
    let run = &watched.run;
    let Run { id, done, .. } = run;
    let iterations = if *done == 1 { "iteration" } else { "iterations" };
    let resume = || format!("resume it with `autoloop run --resume={id}`");
    match state {
        State::Complete(reason) => {
            watched.say(&format!("run {id}: complete ({reason}) after {done} {iterations}"))
        }
        State::CutOff => Err(Failure::failed(format!("run '{id}' was cut off")).hint(resume())),
        State::Interrupted => {
            Err(Failure::failed(format!("run '{id}' was interrupted")).hint(resume()))
        }
        State::Stopped(reason) => {
            let why = run.failure().map_or_else(|| reason.to_string(), ToString::to_string);
            Err(Failure::failed(format!("run '{id}' stopped: {why}")).hint(resume()))
        }
        State::Unbegun | State::Unfinished | State::Running(_) => {
            Err(Failure::failed(format!("run '{id}' cannot be followed: {state}")))
        }
    }
}

/// The run that is meant when nobody says: one that is under way, or else the one that began last.
fn usual<'s>(scene: &'s Scene, world: &World) -> Result<&'s Run, Failure> {
    let is_running = |run: &&Run| matches!(scene.state(run, world), State::Running(_));
    let open = scene.runs.iter().rev().filter(|run| run.is_unfinished());
    open.into_iter().find(is_running).or_else(|| named::latest(&scene.runs)).ok_or_else(|| {
        Failure::failed(format!("no run has begun in {} yet", scene.journal.path().display()))
            .hint("`autoloop run DIR` begins one")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use autoloop_core::record::{
        EventInvalid, Heading, IterationFinish, LoopResume, LoopStart, Record, ReviewFinish,
        ReviewStart, print,
    };
    use autoloop_core::stamp::Stamp;
    use autoloop_core::topic::Topic;

    /// What is told of records, one after another.
    fn story(records: &[Record]) -> String {
        let mut run = Run::new("r");
        let mut lines = Vec::new();
        for record in records {
            let mut line = Vec::new();
            print(record, &mut line);
            let record = Glance::read(line.trim_ascii_end()).unwrap();
            run.apply(&record);
            lines.extend(told(&record, &run));
        }
        lines.join("\n")
    }

    #[test]
    fn everything_that_people_wait_for_has_a_line() {
        let at = |iteration: &str| Heading {
            run: "r".into(),
            iteration: iteration.into(),
            now: Stamp::from_millis(3_723_000),
        };
        let start = LoopStart { max_iterations: 9, ..LoopStart::default() };
        let begin = IterationStart {
            recent_event: "loop.start".into(),
            suggested_roles: "a,b".into(),
            ..IterationStart::default()
        };
        let end = |exit_code: i32, timed_out| IterationFinish {
            exit_code: exit_code.into(),
            timed_out: Some(timed_out),
            elapsed_s: Some(Seconds(4)),
            ..IterationFinish::default()
        };
        let refused = EventInvalid { emitted: "x".into(), ..EventInvalid::default() };
        insta::assert_snapshot!(story(&[
            start.record(&at("")),
            begin.record(&at("1")),
            at("1").agent(Topic::new("tasks.ready"), "three\nof them"),
            refused.record(&at("1")),
            end(0, false).record(&at("1")),
            end(7, false).record(&at("2")),
            end(143, true).record(&at("3")),
            ReviewStart::default().record(&at("4")),
            ReviewFinish::default().record(&at("4")),
            LoopResume::default().record(&at("")),
        ]), @r"
        01:02:03  iteration 1/9  a,b  after loop.start
        01:02:03    emitted tasks.ready  three
        of them
        01:02:03    refused x
        01:02:03    ended after 4 s
        01:02:03    ended after 4 s: the agent failed (exit code 7)
        01:02:03    ended after 4 s: the agent timed out
        01:02:03  metareview before iteration 4
        01:02:03    ended
        01:02:03  run r goes on
        ");
    }
}
