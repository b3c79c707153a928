//! The memory files that a command is about.

use std::fmt;
use std::path::{Path, PathBuf};

use autoloop_core::config::Config;
use autoloop_core::env::Env;
use autoloop_core::memory::{Memory, Places};
use autoloop_runtime::journal::FileSettings;
use autoloop_runtime::memory::{Author, MemoryFile};
use autoloop_runtime::world::World;
use clap::ValueEnum;

use super::not_read;
use crate::commands::settings::{self, Located};
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
    /// How many characters a prompt has for both; 0 is no limit.
    pub(crate) budget: usize,
    /// Who adds something: a run and an iteration, or nobody in particular.
    source: String,
}

impl Tiers {
    /// Those that the environment names, for adding to.
    pub(crate) fn of_environment(world: &World) -> Result<Tiers, Failure> {
        let env = settings::environment()?;
        let located = settings::locate(None, world)?;
        let run = Places::of(&env).run;
        Ok(Tiers::at(&located, run, &env, world))
    }

    /// Those that a person asks about: outside of a loop, the run tier is that of a named run, or of
    /// the latest if it has one.
    pub(crate) fn to_look_at(
        project: Option<&Path>,
        run: Option<&str>,
        world: &World,
    ) -> Result<Tiers, Failure> {
        let located = settings::locate(project, world)?;
        let env = match project {
            None => settings::environment()?,
            Some(_) => Env::default(),
        };
        let own = Places::of(&env).run;
        if own.is_some() && run.is_none() {
            return Ok(Tiers::at(&located, own, &env, world));
        }
        let run = match run.filter(|run| *run != "latest") {
            Some(run) => run.to_owned(),
            None => located.journal(world).latest_run()?.0,
        };
        let file = Places::of_run(&located.files.state_dir, &run).run;
        // Before its first entry a run has no file, and nothing can be asked about it.
        let file = file.filter(|file| world.disk.stat(file).is_ok());
        Ok(Tiers::at(&located, file, &env, world))
    }

    fn at(located: &Located, run: Option<PathBuf>, env: &Env, world: &World) -> Tiers {
        let config = Config::from(&located.settings);
        let settings = FileSettings { lock_timeout: config.journal.lock_timeout };
        let file = |path| MemoryFile::new(path, world, settings);
        let source = match (&env.run_id, &env.iteration) {
            (Some(run), Some(iteration)) => format!("{run}#{iteration}"),
            (Some(run), None) => run.clone(),
            (None, _) => String::new(),
        };
        let project = located.files.memory.clone();
        Tiers {
            run: run.filter(|run| *run != project).map(file),
            project: file(project),
            budget: located.memory_budget(),
            source,
        }
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
            Some(file) => file.read().map_err(not_read),
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
