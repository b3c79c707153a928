//! The memory files that a command is about.

use std::io::{self, Write};
use std::path::Path;

use autoloop_core::config::Config;
use autoloop_core::env::Env;
use autoloop_core::memory::{Memory, Places};
use autoloop_runtime::door::Visitor;
use autoloop_runtime::journal::FileSettings;
use autoloop_runtime::memory::{self, Change, MemoryFile};
use autoloop_runtime::world::World;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::commands::settings;
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
pub(crate) struct Tiers(memory::Tiers);

impl Tiers {
    /// Those that the environment names, for adding to.
    pub(super) fn of_environment(env: &Env, world: &World) -> Tiers {
        Tiers::at(Places::of(env), env, world)
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
        let tiers = memory::Tiers::at(places, world, settings);
        Tiers(tiers.for_author(env.run_id.as_deref(), env.iteration.as_deref()))
    }

    /// The file of a tier, if there is one.
    pub(crate) fn file(&self, tier: Tier) -> Option<&MemoryFile> {
        self.0.file(tier)
    }

    /// What is in a tier; nothing where there is no file.
    pub(crate) fn read(&self, tier: Tier) -> Result<Memory, Failure> {
        Ok(self.0.read(tier)?)
    }

    /// Makes a change.
    pub(super) fn change(&self, change: Change) -> Result<(), Failure> {
        told(&self.0.change(change)?)
    }
}

/// Has a change made by the harness, where this process may not write.
pub(super) fn change_at(door: &Visitor, change: &Change) -> Result<(), Failure> {
    told(&door.change(change)?)
}

fn told(what: &str) -> Result<(), Failure> {
    writeln!(io::stdout(), "{what}")?;
    Ok(())
}
