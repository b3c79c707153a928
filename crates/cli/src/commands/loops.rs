//! `autoloop loops`: the runs of a project and their status.

mod artifacts;
mod show;
mod watch;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use autoloop_core::coordinator::{Kind, Status};
use autoloop_core::duration;
use autoloop_core::format::json_text;
use autoloop_core::run::{Run, SomeRun};
use autoloop_core::table;
use autoloop_core::timestamp::Timestamp;
use autoloop_core::views::board::{Board, Boards, Parked};
use autoloop_core::views::usage::{Sum, Usages};
use autoloop_runtime::journal::Journal;
use autoloop_runtime::runs::RunList;
use autoloop_runtime::world::World;
use clap::Subcommand;
use serde_json::{Value, json};

use super::settings::{self, Located};
use crate::failure::Failure;
use crate::style::{Color, Tone};
use crate::terminal;

/// Ended runs that are listed without --all.
const RECENT: usize = 5;

/// List runs.
///
/// Lists loops, chains and slots, the latest first: all that are running, crashed or interrupted, and the last five
/// that ended. A run is running while a process holds its lock; it crashed when no process does and the journal
/// records no end of it. Branches of waves, and chains started by runs, are listed with --all.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// Project directory [default: the current project]
    project_dir: Option<PathBuf>,
    /// List all runs of the journal
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show one run.
    Show(RunArgs),
    Watch(watch::Args),
    /// List the files of a run, with their sizes.
    ///
    /// The journal and the memory of the project, which all runs share, come first.
    Artifacts(RunArgs),
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    /// Run id, prefix or `latest`
    run: String,
    /// Project directory [default: the current project]
    project_dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    match &args.what {
        None => list(args, world),
        Some(What::Show(args)) => show::run(args, world),
        Some(What::Watch(args)) => watch::run(args, world),
        Some(What::Artifacts(args)) => artifacts::run(args, world),
    }
}

fn list(args: &Args, world: &World) -> Result<(), Failure> {
    let project = Project::of(args.project_dir.as_deref(), world)?;
    let runs: Vec<&SomeRun> = match args.all {
        true => project.list.runs.iter().rev().collect(),
        false => project.recent().collect(),
    };
    let activity = project.activity()?;
    let rows: Vec<Row<'_>> =
        runs.into_iter().map(|run| project.row(run, &activity, world)).collect();
    let text = match args.json {
        true => json_text(&rows.iter().map(Row::json).collect::<Vec<_>>()),
        false if rows.is_empty() => {
            format!("no run in {} yet\n", project.journal.path().display())
        }
        false => {
            let color = Color::of(&io::stdout());
            let text = print(&rows, color) + &omitted(&project, rows.len());
            return Ok(terminal::print_painted(&text, color)?);
        }
    };
    Ok(terminal::print(&text)?)
}

fn omitted(project: &Project, shown: usize) -> String {
    match project.list.runs.iter().count().saturating_sub(shown) {
        0 => String::new(),
        more => format!("{more} more ended; list them with --all\n"),
    }
}

/// A project and the runs in its journal.
pub(super) struct Project {
    pub(super) located: Located,
    pub(super) journal: Box<dyn Journal>,
    pub(super) list: RunList,
}

impl Project {
    pub(super) fn of(project: Option<&Path>, world: &World) -> Result<Project, Failure> {
        let located = settings::locate(project, world)?;
        let journal = located.journal(world);
        let list = RunList::read(&*journal, &located.files.state_dir, world)?;
        Ok(Project { located, journal, list })
    }

    /// The unfinished runs and the most recently ended, the latest first.
    fn recent(&self) -> impl Iterator<Item = &SomeRun> {
        let mut ended = 0;
        let is_part = |run: &&SomeRun| run.kind().is_some() && !run.stands_alone();
        self.list.runs.iter().rev().filter(move |run| !is_part(run)).filter(move |run| {
            let is_open = self.list.runs.status(run).is_some_and(Status::is_unfinished);
            ended += usize::from(!is_open);
            is_open || ended <= RECENT
        })
    }

    fn activity(&self) -> Result<Activity, Failure> {
        Ok(Activity { usages: self.journal.fold()?.view, boards: self.journal.fold()?.view })
    }

    fn row<'r>(&self, run: &'r SomeRun, activity: &'r Activity, world: &World) -> Row<'r> {
        let (status, process) = (self.list.status(run), self.list.holder(run).process());
        let board = activity.boards.iter().find(|board| board.id == run.id());
        let parked = board.filter(|_| status == Some(Status::Running)).and_then(Board::parked);
        let usage = activity.usages.total(Some(run.id()));
        Row { run, usage, parked, status, process, now: world.clock.now() }
    }
}

/// What the agents of runs used, and what they wait for.
struct Activity {
    usages: Usages,
    boards: Boards,
}

struct Row<'r> {
    run: &'r SomeRun,
    usage: Sum,
    /// What it waits for, if it is running and its agents do.
    parked: Option<&'r Parked>,
    /// `None` where no record starts the run.
    status: Option<Status>,
    /// The process of its harness.
    process: Option<u32>,
    now: Timestamp,
}

impl Row<'_> {
    fn elapsed(&self) -> Option<Duration> {
        let (began, heard) = self.run.times();
        let end = match self.status {
            Some(Status::Running) => self.now,
            _ => stamp(heard)?,
        };
        Some(end.since(stamp(began)?))
    }

    fn silence(&self) -> Option<Duration> {
        Some(self.now.since(stamp(&self.run.times().1)?))
    }

    fn progress(&self) -> String {
        match self.run.progress() {
            (done, Some(of)) => format!("{done}/{of}"),
            (done, None) => done.to_string(),
        }
    }

    /// The status, with the reason of a stop or a failure.
    fn status(&self) -> String {
        match (self.status, self.reason()) {
            (None, _) => "no start record".to_owned(),
            (Some(status @ (Status::Stopped | Status::Failed)), Some(reason)) => {
                format!("{status}: {reason}")
            }
            (Some(status @ Status::Waiting), Some(side)) => format!("{status} {side}"),
            (Some(status), _) => format!("{status}{}", self.parked_text()),
        }
    }

    fn parked_text(&self) -> String {
        let left = |parked: &Parked| format!(": {}", parked.left_in_words(self.now));
        self.parked.map(left).unwrap_or_default()
    }

    /// Why it ended, unless it was resumed.
    fn reason(&self) -> Option<&str> {
        self.run.reason().filter(|_| self.status != Some(Status::Running))
    }

    fn tone(&self) -> Tone {
        match self.status {
            Some(Status::Running | Status::Completed) => Tone::Good,
            Some(Status::Stopped | Status::Failed) => Tone::Bad,
            Some(Status::Interrupted | Status::Crashed | Status::Waiting) => Tone::Warning,
            None => Tone::Faint,
        }
    }

    fn json(&self) -> Value {
        let Row { run, status, process, .. } = self;
        let known = |text| Some(text).filter(|text: &&str| !text.is_empty());
        let (began, heard) = run.times();
        let (iterations, max_iterations) = run.progress();
        json!({
            "run": run.id(),
            "kind": run.kind().map(Kind::name),
            "status": status.map(Status::name),
            "reason": self.reason(),
            "detail": run.as_loop().and_then(Run::failure).map(ToString::to_string),
            "pid": process,
            "iterations": iterations,
            "max_iterations": max_iterations,
            "last_event": run.last_event(),
            "began": known(began),
            "last_heard": known(heard),
            "elapsed_s": self.elapsed().map(|time| time.as_secs()),
            "usage": self.usage.known().map(|usage| usage.facts()),
            "parked": self.parked,
            "objective": run.objective(),
        })
    }

    fn cells(&self) -> [String; 10] {
        let began = self.run.times().0.get(..16).unwrap_or("-").replace('T', " ");
        let time =
            |time: Option<Duration>| time.map_or_else(|| "-".to_owned(), duration::print_short);
        let objective = self.run.objective().unwrap_or_default().trim().lines().next();
        [
            terminal::one_line(self.run.id(), 32),
            self.run.kind().map_or("-", Kind::name).to_owned(),
            self.status(),
            self.progress(),
            terminal::one_line(self.run.last_event(), 24),
            began,
            time(self.elapsed()),
            time(self.silence()),
            self.usage.known().map_or_else(|| "-".to_owned(), |usage| usage.cost_text()),
            terminal::one_line(objective.unwrap_or_default(), 40),
        ]
    }
}

const HEADINGS: [&str; 10] = [
    "RUN",
    "KIND",
    "STATUS",
    "DONE",
    "LAST EVENT",
    "STARTED (UTC)",
    "TIME",
    "SILENT",
    "COST",
    "OBJECTIVE",
];

const STATUS: usize = 2;
const COST: usize = 8;

fn print(rows: &[Row<'_>], color: Color) -> String {
    let mut lines = vec![HEADINGS.map(str::to_owned)];
    // Coloured text is printed unchanged, so control characters are replaced before.
    lines.extend(rows.iter().map(|row| row.cells().map(|cell| terminal::harmless(&cell).into())));
    table::pad(&mut lines);
    lines[0] = lines[0].clone().map(|heading| color.paint(Tone::Strong, &heading));
    for (cells, row) in lines[1..].iter_mut().zip(rows) {
        cells[STATUS] = color.paint(row.tone(), &cells[STATUS]);
    }
    let has_cost = rows.iter().any(|row| row.usage.known().is_some());
    let line = |mut cells: Vec<String>| {
        // Agents that are no known clients report no cost.
        if !has_cost {
            cells.remove(COST);
        }
        table::line(&cells)
    };
    lines.into_iter().map(|cells| line(cells.into())).collect()
}

fn stamp(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use autoloop_core::coordinator::Fold;

    use super::*;
    use autoloop_core::record::LoopStart;
    use autoloop_core::run::{Ending, Stage};

    fn run(id: &str, objective: &str) -> SomeRun {
        let start = LoopStart {
            max_iterations: 10,
            objective: objective.to_owned(),
            ..LoopStart::default()
        };
        SomeRun::Loop(Box::new(Run {
            start: Some(start),
            stage: Stage::Ended(Ending::Stop { reason: "backend_failed".into() }),
            times: ("2026-11-15T21:12:06.031Z".into(), "2026-11-15T21:14:31.951Z".into()),
            done: 2,
            recent_event: "tasks.ready".into(),
            ..Run::new(id)
        }))
    }

    #[test]
    fn a_list_has_columns_that_fit() {
        let now = "2026-11-16T22:00:00.000Z".parse().unwrap();
        let (long, short) =
            (run("swift-otter", "write\u{1b} a parser that\nreads"), run("a", &"x".repeat(90)));
        let bare = SomeRun::Loop(Box::new(Run::new("calm-heron")));
        let (usage, parked) = (Sum::default(), None);
        let row = |run, status| Row { run, usage, parked, status, process: None, now };
        let rows = [
            row(&long, Some(Status::Running)),
            row(&short, Some(Status::Failed)),
            row(&bare, None),
        ];
        insta::assert_snapshot!(print(&rows, Color::No), @r"
        RUN          KIND  STATUS                  DONE  LAST EVENT   STARTED (UTC)     TIME   SILENT  OBJECTIVE
        swift-otter  loop  running                 2/10  tasks.ready  2026-11-15 21:12  1d     1d      write  a parser that
        a            loop  failed: backend_failed  2/10  tasks.ready  2026-11-15 21:12  2m25s  1d      xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…
        calm-heron   -     no start record         0     loop.start   -                 -      -
        ");
    }
}
