//! `autoloop demo`: the product at work, in a project that can be thrown away.

mod story;

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use autoloop_core::config::Config;
use autoloop_core::env::Env;
use autoloop_core::project::metrics::{self, Metrics};
use autoloop_core::record::{Heading, Record};
use autoloop_core::run_id::{RunIdFormat, RunIdSeed};
use autoloop_runtime::journal::{Append, FileJournal, Journal, NewRecord, Position};
use autoloop_runtime::world::{Ending, Exit, Job, Report, Running, World};

use super::listing::{Filter, Format, Listing};
use super::settings;
use crate::failure::Failure;

/// Show in a throwaway project what the journal is good for.
///
/// Writes a short run as the harness would, with agents that are processes of their own: they emit at
/// the same time, one of them emits what it may not, and one dies in the middle of a record. Then it
/// shows what the journal says about all that, and which commands show it to you.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, world: &World) -> Result<(), Failure> {
    let stage = Stage::set(world)?;
    stage.say(&format!("A project to throw away: {}\n", stage.project.display()))?;
    story::tell(&stage)?;
    stage.show_what_happened()
}

/// Where the story takes place.
struct Stage<'a> {
    world: &'a World,
    project: PathBuf,
    journal: FileJournal,
    run: String,
    program: OsString,
}

impl<'a> Stage<'a> {
    fn set(world: &'a World) -> Result<Self, Failure> {
        let seed = |random| RunIdSeed { random, now: world.clock.now(), runs_so_far: 0 };
        let name = RunIdFormat::Compact.make(&seed(world.entropy.number()), &|_| false);
        let project = std::env::temp_dir().join(format!("autoloop-demo-{name}"));
        fs::create_dir(&project).map_err(|error| {
            Failure::failed(format!("cannot make {}: {error}", project.display()))
                .hint("set TMPDIR to a directory that can be written to")
        })?;
        let env = Env { project_dir: Some(project.clone()), ..Env::default() };
        let program = std::env::current_exe()
            .map_err(|error| Failure::failed(format!("cannot find this program: {error}")))?;
        Ok(Stage {
            world,
            journal: settings::journal(env.journal_path(), world, &Config::default()),
            project,
            run: RunIdFormat::Human.make(&seed(world.entropy.number()), &|_| false).to_string(),
            program: program.into_os_string(),
        })
    }

    fn say(&self, text: &str) -> Result<(), Failure> {
        Ok(writeln!(io::stdout(), "{text}")?)
    }

    fn heading(&self, iteration: u64) -> Heading {
        let iteration = if iteration == 0 { String::new() } else { iteration.to_string() };
        Heading { run: self.run.clone(), iteration, now: self.world.clock.now() }
    }

    /// Writes as the harness does: the records of a step in one append.
    fn append(&self, records: Vec<Record>) -> Result<(), Failure> {
        let records: Vec<NewRecord> = records.into_iter().map(NewRecord::from).collect();
        self.journal.append(&records, Append::default())?;
        Ok(())
    }

    /// Starts a process that emits, with the environment that the harness gives to an agent.
    fn start_agent(
        &self,
        iteration: u64,
        allowed: &[&str],
        words: &[&str],
    ) -> Result<Running, Failure> {
        let env = Env {
            run_id: Some(self.run.clone()),
            iteration: Some(iteration.to_string()),
            project_dir: Some(self.project.clone()),
            journal_file: Some(self.journal.path().to_owned()),
            recent_event: Some("loop.start".to_owned()),
            allowed_roles: vec!["planner".to_owned()],
            allowed_events: allowed.iter().map(|event| (*event).to_owned()).collect(),
            ..Env::default()
        };
        let job = Job {
            program: self.program.clone(),
            args: [&["emit"], words].concat().into_iter().map(OsString::from).collect(),
            env: env.vars().into_iter().map(|(name, value)| (name.into(), value)).collect(),
            ..Job::default()
        };
        self.world
            .spawner
            .spawn(job)
            .map_err(|error| Failure::failed(format!("cannot start an agent: {error}")))
    }

    fn show_what_happened(&self) -> Result<(), Failure> {
        self.say("\nWhat the journal says:\n")?;
        let mut listing = Listing::new(&self.journal, Format::Text, Filter::default());
        self.journal.read(Position::START, &mut |line| listing.show(line))?;
        listing.flush()?;
        drop(listing);
        let metrics = self.journal.fold::<Metrics>()?.view;
        self.say(&format!("\n{}", metrics.render(Some(&self.run), metrics::Format::Markdown)))?;
        let project = self.project.display();
        let autoloop = self.how_to_call_us();
        self.say(&format!(
            "See for yourself:\n\
             \x20 {autoloop} inspect journal {project}\n\
             \x20 {autoloop} inspect journal {project} --run {} --format json\n\
             \x20 {autoloop} inspect metrics {project} --format csv\n\
             \x20 {autoloop} journal verify {}\n\
             The directory is yours to delete.",
            self.run,
            self.journal.path().display(),
        ))
    }

    /// This program, as it can be typed from here.
    fn how_to_call_us(&self) -> String {
        let program = Path::new(&self.program);
        let here = std::env::current_dir().unwrap_or_default();
        program.strip_prefix(here).unwrap_or(program).display().to_string()
    }
}

/// Waits for a process to end; what it printed on standard error, and how it ended.
fn finish(agent: &Running) -> (String, Exit) {
    let finished = agent.reports.iter().find_map(|report| match report {
        Report::Started(_) => None,
        Report::Finished(finished) => Some(finished),
    });
    match finished.map(|finished| (finished.stderr.text(), finished.ending)) {
        Some((said, Ending::Exited(exit))) => (said.trim().to_owned(), exit),
        Some((_, Ending::NeverStarted(why))) => (why.to_string(), Exit::Code(-1)),
        Some((_, Ending::Lost(why))) => (why, Exit::Code(-1)),
        None => (String::new(), Exit::Code(-1)),
    }
}
