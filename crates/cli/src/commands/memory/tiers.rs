//! The memory files that a command is about.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use autoloop_core::config::Config;
use autoloop_core::env::Env;
use autoloop_core::memory::{Memory, Places};
use autoloop_core::plan::Files;
use autoloop_runtime::ipc::Client;
use autoloop_runtime::journal::FileSettings;
use autoloop_runtime::memory::{self, Change, MemoryFile};
use autoloop_runtime::world::World;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::commands::inspect::one_run;
use crate::commands::settings::{self, Located};
use crate::failure::Failure;

pub(crate) use autoloop_runtime::memory::Tier;

/// Reads the name of a tier.
pub(super) fn tier_by_name() -> impl TypedValueParser<Value = Tier> {
    PossibleValuesParser::new([
        PossibleValue::new("project").help("The memory of the project"),
        PossibleValue::new("run").help("The memory of a run"),
    ])
    .map(|name| if name == "run" { Tier::Run } else { Tier::Project })
}

/// The files of both tiers.
pub(crate) struct Tiers {
    files: memory::Tiers,
    /// How many characters a prompt has for both; 0 is no limit.
    pub(crate) budget: usize,
    /// Where the project keeps things, and where it is.
    places: Files,
    project: PathBuf,
}

impl Tiers {
    /// Those that the environment names, for adding to.
    pub(super) fn of_environment(env: &Env, world: &World) -> Result<Tiers, Failure> {
        let located = settings::locate(None, world)?;
        Ok(Tiers::at(&located, Places::of(env).run, env, world))
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
        // Before its first entry a run has no file, and nothing can be asked about it.
        let file_of = |run: &str| {
            let file = Places::of_run(&located.files.state_dir, run).run;
            file.filter(|file| world.disk.stat(file).is_ok())
        };
        // A memory is there without a journal, too.
        let file = match run.and_then(file_of) {
            None => file_of(&one_run(&*located.journal(world), run)?),
            file => file,
        };
        Ok(Tiers::at(&located, file, &env, world))
    }

    fn at(located: &Located, run: Option<PathBuf>, env: &Env, world: &World) -> Tiers {
        let config = Config::from(&located.settings);
        let settings = FileSettings { lock_timeout: config.journal.lock_timeout };
        let project = located.files.memory.clone();
        let places = Places { run: run.filter(|run| *run != project), project };
        let files = memory::Tiers::at(places, world, settings)
            .for_author(env.run_id.as_deref(), env.iteration.as_deref());
        let (places, project) = (located.files.clone(), located.dir.clone());
        Tiers { files, budget: located.memory_budget(), places, project }
    }

    /// The file of a tier, if there is one.
    pub(crate) fn file(&self, tier: Tier) -> Option<&MemoryFile> {
        self.files.file(tier)
    }

    /// What is in a tier; nothing where there is no file.
    pub(crate) fn read(&self, tier: Tier) -> Result<Memory, Failure> {
        Ok(self.files.read(tier)?)
    }

    /// Makes a change.
    pub(super) fn change(&self, change: Change) -> Result<(), Failure> {
        let changed = self.files.change(change);
        settings::protect(&self.places, &self.project);
        told(&changed?)
    }
}

/// Has a change made by the harness, where this process may not write.
pub(super) fn change_through(client: &Client, change: &Change) -> Result<(), Failure> {
    told(&client.change(change)?)
}

fn told(what: &str) -> Result<(), Failure> {
    writeln!(io::stdout(), "{what}")?;
    Ok(())
}
