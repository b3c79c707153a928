//! The memory files that a command is about.

use std::fmt;
use std::path::Path;

use autoloop_core::config::Config;
use autoloop_core::env::Env;
use autoloop_core::memory::{Memory, Places};
use autoloop_runtime::journal::FileSettings;
use autoloop_runtime::memory::{Author, MemoryFile};
use autoloop_runtime::world::World;
use clap::ValueEnum;

use crate::commands::settings;
use crate::failure::Failure;

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tier {
    /// The memory of the project.
    Project,
    /// The memory of a run.
    Run,
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Tier::Project => "project",
            Tier::Run => "run",
        })
    }
}

/// The files of both tiers.
pub(crate) struct Tiers {
    pub(crate) project: MemoryFile,
    pub(crate) run: Option<MemoryFile>,
    /// Who adds something: a run and an iteration, or nobody in particular.
    source: String,
}

impl Tiers {
    /// Those that the environment names, for adding to.
    pub(crate) fn of_environment(world: &World) -> Result<Tiers, Failure> {
        let env = settings::environment()?;
        Ok(Tiers::at(Places::of(&env), &env, world))
    }

    /// Those that a person asks about: outside of a loop, the run tier is that of a named run, or of
    /// the latest if it has one.
    pub(crate) fn to_look_at(
        project: Option<&Path>,
        run: Option<&str>,
        world: &World,
    ) -> Result<Tiers, Failure> {
        let journal_path = settings::journal_path(project)?;
        let env = match project {
            None => settings::environment()?,
            Some(dir) => Env { project_dir: Some(dir.to_owned()), ..Env::default() },
        };
        let places = Places::of(&env);
        if places.run.is_some() && run.is_none() {
            return Ok(Tiers::at(places, &env, world));
        }
        let run = match run.filter(|run| *run != "latest") {
            Some(run) => run.to_owned(),
            None => settings::journal(journal_path, world, &Config::default()).latest_run()?.0,
        };
        let state = places.project.parent().unwrap_or(Path::new("."));
        let mut places = Places::of_run(state, &run);
        // Before its first entry a run has no file, and nothing can be asked about it.
        places.run = places.run.filter(|file| world.disk.stat(file).is_ok());
        Ok(Tiers::at(places, &env, world))
    }

    fn at(places: Places, env: &Env, world: &World) -> Tiers {
        let config = settings::config_or_default(&env.project_dir_or_here(), world);
        let settings = FileSettings { lock_timeout: config.journal.lock_timeout };
        let file = |path| MemoryFile::new(path, world, settings);
        let source = match (&env.run_id, &env.iteration) {
            (Some(run), Some(iteration)) => format!("{run}#{iteration}"),
            (Some(run), None) => run.clone(),
            (None, _) => String::new(),
        };
        Tiers { project: file(places.project), run: places.run.map(file), source }
    }

    /// The file of a tier, if there is one.
    pub(crate) fn file(&self, tier: Tier) -> Option<&MemoryFile> {
        match tier {
            Tier::Project => Some(&self.project),
            Tier::Run => self.run.as_ref(),
        }
    }

    /// What is in a tier; nothing where there is no file.
    pub(crate) fn read(&self, tier: Tier) -> Result<Memory, Failure> {
        match self.file(tier) {
            Some(file) => Ok(file.read()?),
            None => Ok(Memory::default()),
        }
    }

    /// Who adds to a tier. Names that the other tier has are left to it, as far as can be seen: so a
    /// name means one entry.
    pub(crate) fn author(&self, tier: Tier) -> Result<Author, Failure> {
        let other = match tier {
            Tier::Project => self.read(Tier::Run)?,
            Tier::Run => self.read(Tier::Project)?,
        };
        Ok(Author { source: self.source.clone(), first_number: other.next_number() })
    }
}
