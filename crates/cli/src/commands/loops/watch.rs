//! `autoloop loops watch`: a line per event of a run.

use std::ops::ControlFlow;
use std::path::PathBuf;

use autoloop_core::coordinator::{Fold, Holder, Status};
use autoloop_core::failure::TurnFailure;
use autoloop_core::record::{Amount, Event, ExitCode, Glance, IterationStart};
use autoloop_core::run::{Ending, Run, SomeRun, Stage};
use autoloop_core::views::usage::Usages;
use autoloop_runtime::journal::{Journal, Position};
use autoloop_runtime::runs::holder;
use autoloop_runtime::world::World;

use super::Project;
use crate::commands::session::{resume_recorded, spent};
use crate::commands::watch;
use crate::failure::Failure;
use crate::terminal;

const WIDTH: usize = 160;

/// Print the iterations, events and metareviews of a run until it ends.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Run id, prefix or `latest` [default: the running run, or the latest]
    run: Option<String>,
    /// Project directory [default: the current project]
    project_dir: Option<PathBuf>,
}

pub(super) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let project = Project::of(args.project_dir.as_deref(), world)?;
    let found = project.list.named_or_current(args.run.as_deref())?;
    let mut run = match found {
        SomeRun::Loop(run) => Run::clone(run),
        SomeRun::Other(run) => return watch::follow(&project.located, &run.id, world),
    };
    let dir = project.list.dir(found);
    let status = |run: &Run| {
        let holder = dir.as_ref().map_or(Holder::None, |dir| holder(dir, &*world.disk));
        run.status().with_holder(holder)
    };
    let mut position = project.list.position;
    print(&progress(&run, status(&run)))?;
    loop {
        position = read_on(&*project.journal, position, &mut run)?;
        if status(&run) != Status::Running {
            // The last records of the harness.
            read_on(&*project.journal, position, &mut run)?;
            let resume = resume_recorded(found, &project.located.dir);
            let usages = project.journal.fold::<Usages>()?.view;
            let spent = spent(&run.times.0, &run.times.1, usages.total(Some(&run.id)));
            return conclude(&run, status(&run), &spent, resume);
        }
        let is_over = matches!(run.stage, Stage::Ended(_));
        project.journal.wait(position, watch::poll_interval(is_over))?;
        terminal::ensure_read()?;
    }
}

fn read_on(journal: &dyn Journal, from: Position, run: &mut Run) -> Result<Position, Failure> {
    let mut lines = Vec::new();
    let position = journal.read(from, &mut |line| {
        line.records(|record| {
            if record.run() == run.id.as_str() {
                run.apply(record);
                lines.extend(line_of(record, run));
            }
        });
        ControlFlow::Continue(())
    })?;
    lines.iter().try_for_each(|line| print(line))?;
    Ok(position)
}

fn print(line: &str) -> Result<(), Failure> {
    Ok(terminal::print(&format!("{}\n", terminal::one_line(line, WIDTH)))?)
}

fn progress(run: &Run, status: Status) -> String {
    let of = run.start.as_ref().map(|start| format!(" of {}", start.max_iterations));
    let under_way = match run.stage {
        Stage::Iterating => format!(", iteration {} running", run.done + 1),
        Stage::Reviewing => ", metareview running".to_owned(),
        Stage::New | Stage::Between | Stage::Ended(_) => String::new(),
    };
    let of = of.unwrap_or_default();
    format!("run {}: {status}, {}{of} iterations done{under_way}", run.id, run.done)
}

fn line_of(record: &Glance<'_>, run: &Run) -> Option<String> {
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
                let time = finish.elapsed_s.map(|Amount(seconds)| format!(" after {seconds} s"));
                let failure = failed(&finish.exit_code, finish.failure());
                format!("  ended{}{failure}", time.unwrap_or_default())
            }
            Event::EventInvalid(invalid) => format!("  refused {}", invalid.emitted),
            Event::ReviewStart(_) => format!("metareview before iteration {number}"),
            Event::ReviewFinish(finish) => {
                format!("  ended{}", failed(&finish.exit_code, finish.failure()))
            }
            Event::LoopResume(_) => format!("run {} resumed", run.id),
            _ => return None,
        },
    };
    let time = record.ts().unwrap_or_default();
    Some(format!("{}  {}", watch::clock(&time), what.trim_end()))
}

/// Why an agent failed; unknown without an exit code.
fn failed(exit_code: &ExitCode, failure: Option<TurnFailure>) -> String {
    let failure = failure.filter(|_| !exit_code.is_missing());
    failure.map(|failure| format!(": {failure}")).unwrap_or_default()
}

fn conclude(run: &Run, status: Status, spent: &str, resume: Option<String>) -> Result<(), Failure> {
    let Run { id, done, .. } = run;
    let reason = match &run.stage {
        Stage::Ended(Ending::Complete { reason } | Ending::Stop { reason }) => reason.as_str(),
        _ => "",
    };
    if status == Status::Completed {
        let iterations = terminal::counted(*done, "iteration");
        return print(&format!("run {id}: completed ({reason}) after {iterations}{spent}"));
    }
    let why = run.failure().map_or_else(|| reason.to_owned(), ToString::to_string);
    let hint = resume.map(|command| format!("resume it with `{command}`"));
    Err(watch::not_completed("run", id, status, Some(&why)).maybe_hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use autoloop_core::record::{
        EventInvalid, Heading, IterationFinish, LoopResume, LoopStart, Record, ReviewFinish,
        ReviewStart, print,
    };
    use autoloop_core::timestamp::Timestamp;
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
            lines.extend(line_of(&record, &run));
        }
        lines.join("\n")
    }

    #[test]
    fn everything_that_people_wait_for_has_a_line() {
        let at = |iteration: &str| Heading {
            run: "r".into(),
            iteration: iteration.into(),
            now: Timestamp::from_millis(3_723_000),
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
            elapsed_s: Some(Amount(4)),
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
        01:02:03  run r resumed
        ");
    }
}
