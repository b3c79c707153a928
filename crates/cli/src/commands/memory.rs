//! `autoloop memory`: entries that outlive an iteration.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use autoloop_core::env::Env;
use autoloop_core::format::{Format, json_line};
use autoloop_core::memory::{Block, Counts, Entry, Line as MemoryLine, Memory, Places, Said};
use autoloop_core::table;
use autoloop_runtime::journal::FileSettings;
use autoloop_runtime::memory::{self, Change, Reach, Tier};
use autoloop_runtime::world::World;
use clap::Subcommand;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use super::inspect::{format, one_run};
use super::settings::{self, Located};
use crate::failure::{Failure, Kind};
use crate::terminal;

/// Manage memory across iterations and runs.
///
/// There are two tiers: the memory of the project, which every run reads, and that of one run. In a run, learnings
/// and notes go to the run unless --project is given; preferences always go to the project. Nothing is deleted from
/// the files: a removed entry is hidden by a tombstone.
#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    /// List entries, the newest first.
    List {
        #[command(flatten)]
        run: RunArg,
        /// List one tier only
        #[arg(long, value_parser = tier_by_name())]
        tier: Option<Tier>,
        /// Output format; md is the text of a prompt
        #[arg(long, default_value = "terminal", value_parser = format())]
        format: Format,
    },
    /// Show the size of the memory and how much of it fits into a prompt.
    Status {
        #[command(flatten)]
        run: RunArg,
        /// Characters of a prompt for memory; 0 is no limit [default: memory.prompt_budget_chars]
        #[arg(long, value_name = "CHARS")]
        budget: Option<usize>,
    },
    /// Find entries that contain all of the words, in any case.
    Find {
        #[command(flatten)]
        run: RunArg,
        /// Output format; md is the text of a prompt
        #[arg(long, default_value = "terminal", value_parser = format())]
        format: Format,
        /// Words to find
        #[arg(required = true)]
        words: Vec<String>,
    },
    /// Add an entry.
    #[command(subcommand)]
    Add(Add),
    /// Remove an entry: hide it behind a tombstone.
    Remove {
        #[command(flatten)]
        run: RunArg,
        /// Tier of the entry [default: the run's, if it has this id]
        #[arg(long, value_parser = tier_by_name())]
        tier: Option<Tier>,
        /// Id of the entry: mem-3, meta-7
        id: String,
        /// Reason
        reason: Vec<String>,
    },
    /// Move an entry from the memory of a run to that of the project.
    Promote {
        #[command(flatten)]
        run: RunArg,
        /// Id of the entry: mem-3, meta-7
        id: String,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunArg {
    /// Run whose memory is used beside the project's [default: AUTOLOOP_RUN_ID, or the latest run]
    #[arg(long)]
    run: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Add {
    /// Add something learned.
    Learning {
        /// Add it for all runs of the project
        #[arg(long)]
        project: bool,
        /// Text of the entry
        #[arg(required = true, value_name = "TEXT")]
        text: Vec<String>,
    },
    /// Add a preference, for all runs of the project.
    Preference {
        /// Category: a word like `style`
        category: String,
        /// Text of the entry
        #[arg(required = true, value_name = "TEXT")]
        text: Vec<String>,
    },
    /// Add a note under a key; the last one of a key counts.
    Meta {
        /// Add it for all runs of the project
        #[arg(long)]
        project: bool,
        /// Key: a word like `branch`
        key: String,
        /// Text of the note
        #[arg(required = true, value_name = "VALUE")]
        value: Vec<String>,
    },
}

fn tier_by_name() -> impl TypedValueParser<Value = Tier> {
    PossibleValuesParser::new([
        PossibleValue::new("project").help("The memory of the project"),
        PossibleValue::new("run").help("The memory of a run"),
    ])
    .map(|name| if name == "run" { Tier::Run } else { Tier::Project })
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let tiers = |run: &RunArg| Tiers::to_read(None, run.run.as_deref(), world);
    match args {
        Args::List { run, tier, format } => list(&tiers(run)?, *tier, *format),
        Args::Status { run, budget } => status(&tiers(run)?, *budget),
        Args::Find { run, format, words } => {
            let tiers = tiers(run)?;
            let (project, run) = (tiers.read(Tier::Project)?, tiers.read(Tier::Run)?);
            print_entries(project.find(words), run.find(words), *format)
        }
        Args::Add(entry) => change(entry.change(), None, world),
        Args::Remove { run, tier, id, reason } => {
            let removal = Change::Remove { id: id.clone(), tier: *tier, reason: reason.join(" ") };
            change(removal, run.run.as_deref(), world)
        }
        Args::Promote { run, id } => {
            change(Change::Promote { id: id.clone() }, run.run.as_deref(), world)
        }
    }
}

/// Prints the live entries of one tier, or of both.
pub(crate) fn list(tiers: &Tiers, only: Option<Tier>, format: Format) -> Result<(), Failure> {
    let read = |tier: Tier| match only {
        Some(only) if only != tier => Ok(Memory::default()),
        _ => tiers.read(tier),
    };
    let (project, run) = (read(Tier::Project)?, read(Tier::Run)?);
    let bad = project.bad() + run.bad();
    if bad > 0 {
        terminal::note(&format!("skipped {bad} invalid lines of memory"));
    }
    if format == Format::Markdown {
        let block = Block::new(&project, &run, 0);
        let text = if block.text.is_empty() { "(empty)\n" } else { &block.text };
        return Ok(terminal::print(&format!("Loop memory:\n{text}"))?);
    }
    print_entries(project.live(), run.live(), format)
}

fn print_entries(project: Vec<&Entry>, run: Vec<&Entry>, format: Format) -> Result<(), Failure> {
    let project = project.into_iter().map(|entry| (Tier::Project, entry));
    let entries: Vec<(Tier, &Entry)> =
        project.chain(run.into_iter().map(|entry| (Tier::Run, entry))).collect();
    let text = match format {
        Format::Json if entries.is_empty() => "[]\n".to_owned(),
        Format::Json => {
            let line = |(tier, entry): &(Tier, &Entry)| {
                json_line(&MemoryLine::new(entry, Some(tier.to_string())))
            };
            let lines: Vec<String> = entries.iter().map(line).collect();
            format!("[\n  {}\n]\n", lines.join(",\n  "))
        }
        _ if entries.is_empty() => "(empty)\n".to_owned(),
        _ => table::print(entries.iter().map(|(tier, entry)| cells(*tier, entry)).collect()),
    };
    Ok(terminal::print(&text)?)
}

fn cells(tier: Tier, entry: &Entry) -> [String; 4] {
    let kind = entry.said.kind().map(|kind| kind.to_string()).unwrap_or_default();
    let created = if entry.created.is_empty() { "unknown" } else { &entry.created };
    [entry.id.clone(), tier.to_string(), kind, format!("{} (created: {created})", entry.said)]
}

fn status(tiers: &Tiers, budget: Option<usize>) -> Result<(), Failure> {
    let (project, run) = (tiers.read(Tier::Project)?, tiers.read(Tier::Run)?);
    let mut out = String::new();
    for (tier, memory) in [(Tier::Project, &project), (Tier::Run, &run)] {
        let path = tiers.files.file(tier).map(|file| file.path().display().to_string());
        let path = path.unwrap_or_else(|| "(none)".to_owned());
        out.push_str(&format!("{tier} memory: {path}\n  {}\n", counts(memory)));
    }
    let budget = budget.unwrap_or_else(|| tiers.located.memory_budget());
    let block = Block::new(&project, &run, budget);
    let of = if budget == 0 { String::new() } else { format!(" of {budget}") };
    let dropped = match block.is_truncated() {
        true => format!("dropped {}", counted(&block.dropped)),
        false => "nothing dropped".to_owned(),
    };
    out.push_str(&format!("prompt: {}{of} characters, {dropped}\n", block.chars));
    Ok(terminal::print(&out)?)
}

fn counts(memory: &Memory) -> String {
    let bad = match memory.bad() {
        0 => String::new(),
        bad => format!("; {}", terminal::counted(bad, "invalid line")),
    };
    format!("{}{bad}", counted(&Block::new(memory, &Memory::default(), 0).entries))
}

fn counted(counts: &Counts) -> String {
    let (total, Counts { preferences, learnings, meta }) = (counts.total(), counts);
    format!("{total} entries: {preferences} preferences, {learnings} learnings, {meta} meta")
}

impl Add {
    fn change(&self) -> Change {
        let reach = |project: bool| if project { Reach::Project } else { Reach::Usual };
        let (said, reach) = match self {
            Add::Learning { project, text } => {
                (Said::Learning { text: text.join(" ") }, reach(*project))
            }
            Add::Preference { category, text } => {
                let (category, text) = (category.clone(), text.join(" "));
                (Said::Preference { category, text }, Reach::Project)
            }
            Add::Meta { project, key, value } => {
                (Said::Meta { key: key.clone(), value: value.join(" ") }, reach(*project))
            }
        };
        Change::Add { said, reach }
    }
}

/// Adds a learning of a scripted agent.
pub(super) fn learn(text: &str, world: &World) -> Result<(), Failure> {
    change(Add::Learning { project: false, text: vec![text.to_owned()] }.change(), None, world)
}

fn change(change: Change, run: Option<&str>, world: &World) -> Result<(), Failure> {
    let env = settings::environment()?;
    let changed = match settings::client(&env) {
        // The harness knows which run the request comes from, and changes the memory of no other.
        Some(client) => match run.filter(|run| Some(*run) != env.run_id.as_deref()) {
            Some(run) => {
                let message = format!("the memory of run '{run}' cannot be changed from here");
                return Err(Failure::new(Kind::Refused, message)
                    .hint("omit --run: the harness changes the memory of this run"));
            }
            None => client.change(&change)?,
        },
        None => {
            let Tiers { files, located } = match &change {
                Change::Add { .. } => {
                    let located = settings::locate(None, world)?;
                    Tiers::at(located, Places::of(&env).run, &env, world)
                }
                _ => Tiers::to_read(None, run, world)?,
            };
            let changed = files.change(change);
            settings::protect(&located.files, &located.dir);
            changed?
        }
    };
    Ok(writeln!(io::stdout(), "{changed}")?)
}

pub(crate) struct Tiers {
    files: memory::Tiers,
    located: Located,
}

impl Tiers {
    /// The tiers to read or edit. Outside of a run, the run tier is that of the named or the latest run, if it has one.
    pub(crate) fn to_read(
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
            return Ok(Tiers::at(located, own, &env, world));
        }
        // A run has no file before its first entry.
        let file_of = |run: &str| {
            let file = Places::of_run(&located.files.state_dir, run).run;
            file.filter(|file| world.disk.stat(file).is_ok())
        };
        // A memory can exist without a journal.
        let file = match run.and_then(file_of) {
            None => file_of(&one_run(&*located.journal(world), run)?),
            file => file,
        };
        Ok(Tiers::at(located, file, &env, world))
    }

    fn at(located: Located, run: Option<PathBuf>, env: &Env, world: &World) -> Tiers {
        let settings = FileSettings { lock_timeout: located.settings.journal().lock_timeout };
        let project = located.files.memory.clone();
        let places = Places { run: run.filter(|run| *run != project), project };
        let files = memory::Tiers::at(places, world, settings)
            .for_author(env.run_id.as_deref(), env.iteration.as_deref());
        Tiers { files, located }
    }

    fn read(&self, tier: Tier) -> Result<Memory, Failure> {
        Ok(self.files.read(tier)?)
    }
}
