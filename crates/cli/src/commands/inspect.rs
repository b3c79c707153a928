//! `autoloop inspect`: views of a journal.

pub(super) mod excerpt;
pub(super) mod review;
mod scratchpad;
mod text;
mod topology;
mod usage;

use std::path::PathBuf;
use std::str::FromStr;

use autoloop_core::chain::{Chain, Tree};
use autoloop_core::coordinator::Status;
use autoloop_core::format::Format;
use autoloop_core::squad::Squad;
use autoloop_core::views::coordination::{Coordination, Coordinations};
use autoloop_core::views::iteration_text::IterationText;
use autoloop_core::views::metrics::{self, Metrics};
use autoloop_core::views::squad::{render_loops, render_reviews};
use autoloop_core::views::usage::Usages;
use autoloop_runtime::journal::{Journal, Position};
use autoloop_runtime::runs::{self, chains, slot_runs, squad, squads};
use autoloop_runtime::site::Site;
use autoloop_runtime::world::World;
use clap::Subcommand;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use self::excerpt::for_each_record;
use super::journal::{self, Filter, Listing};
use super::loops::Project;
use super::{memory, settings};
use crate::failure::Failure;
use crate::terminal;

/// Show views of a journal.
///
/// All views are read from the journal, so they work for running and for ended runs.
#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    /// Print records.
    ///
    /// With `--format json`, prints the lines of the journal unchanged. Prints all runs unless --run is given. Invalid
    /// lines are skipped; `autoloop journal verify` lists them.
    Journal {
        /// Project directory [default: the current project]
        project_dir: Option<PathBuf>,
        /// Print records of one run only: its id, a prefix, or `latest`
        #[arg(long)]
        run: Option<String>,
        /// Print records with this topic only; repeatable
        #[arg(long, value_name = "TOPIC")]
        topic: Vec<String>,
        /// Output format
        #[arg(long, value_enum, default_value = "text")]
        format: journal::Format,
    },
    /// Show the iterations of a run.
    Metrics {
        #[command(flatten)]
        source: Source,
        /// Show all runs
        #[arg(long, conflicts_with = "run")]
        all_runs: bool,
        /// Output format: md, csv or json
        #[arg(long, default_value = "md", value_parser = metrics::Format::from_str)]
        format: metrics::Format,
    },
    Scratchpad(scratchpad::Args),
    /// Show coordination events: issues, slices, commits, archives, chains.
    Coordination {
        #[command(flatten)]
        source: Source,
        /// Show the runs with the most recent events, the latest last
        #[arg(long, conflicts_with = "run")]
        all_runs: bool,
        /// Output format
        #[arg(long, default_value = "md", value_parser = format())]
        format: Format,
    },
    /// Show a chain: its steps, their runs and their status.
    ///
    /// Chains that a run started are shown below the step of that run.
    Chain {
        /// Project directory [default: the current project]
        project_dir: Option<PathBuf>,
        /// Chain id or prefix [default: the latest chain, with the chains that started it]
        #[arg(long, visible_alias = "run", value_name = "ID")]
        chain: Option<String>,
        /// Output format
        #[arg(long, default_value = "md", value_parser = format())]
        format: Format,
    },
    /// Show a run of slots: items, reviews, fixes and status of each slot.
    Slots {
        #[command(flatten)]
        source: Source,
        /// Output format
        #[arg(long, default_value = "terminal", value_parser = format())]
        format: Format,
    },
    /// Show a squad: its groups, and the state, reviews and cost of each loop.
    ///
    /// For a loop that is stuck or failed, prints the command that resolves it.
    Squad {
        #[command(flatten)]
        source: Source,
        /// Output format
        #[arg(long, default_value = "terminal", value_parser = format())]
        format: Format,
    },
    /// Show the reviews of a squad: their subjects, verdicts and issues.
    Reviews {
        #[command(flatten)]
        source: Source,
        /// Output format
        #[arg(long, default_value = "terminal", value_parser = format())]
        format: Format,
    },
    /// Show the memory of the project and of a run.
    ///
    /// In an agent, the default run is its own.
    Memory {
        #[command(flatten)]
        source: Source,
        /// Output format
        #[arg(long, default_value = "md", value_parser = format())]
        format: Format,
    },
    Topology(topology::Args),
    Usage(usage::Args),
    Review(review::Args),
    /// Print the prompt of an iteration, unchanged.
    Prompt(text::Args),
    /// Print the output of an iteration, unchanged.
    Output(text::Args),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Source {
    /// Project directory [default: the current project]
    pub(super) project_dir: Option<PathBuf>,
    /// Run id, prefix or `latest` [default: the latest run]
    #[arg(long)]
    run: Option<String>,
}

impl Source {
    fn journal(&self, world: &World) -> Result<Box<dyn Journal>, Failure> {
        Ok(settings::locate(self.project_dir.as_deref(), world)?.journal(world))
    }

    pub(super) fn run(&self, journal: &dyn Journal) -> Result<String, Failure> {
        one_run(journal, self.run.as_deref())
    }
}

pub(super) fn format() -> impl TypedValueParser<Value = Format> {
    let terminal = PossibleValue::new("terminal").alias("text");
    PossibleValuesParser::new([PossibleValue::new("md"), terminal, PossibleValue::new("json")])
        .try_map(|name| name.parse::<Format>())
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    match args {
        Args::Journal { project_dir, run, topic, format } => {
            let journal = settings::locate(project_dir.as_deref(), world)?.journal(world);
            let run = run.as_deref().map(|run| one_run(&*journal, Some(run))).transpose()?;
            list_records(&*journal, Filter { run, topics: topic.clone() }, *format)
        }
        Args::Metrics { source, all_runs, format } => {
            let journal = source.journal(world)?;
            let metrics = journal.fold::<Metrics>()?.view;
            let usages = journal.fold::<Usages>()?.view;
            let run = if *all_runs { None } else { Some(source.run(&*journal)?) };
            Ok(terminal::print(&metrics.render(run.as_deref(), &usages, *format))?)
        }
        Args::Scratchpad(args) => scratchpad::run(args, world),
        Args::Coordination { source, all_runs, format } => {
            let journal = source.journal(world)?;
            let text = match all_runs {
                true => all_coordination(&*journal, *format)?,
                false => coordination(&*journal, &source.run(&*journal)?, *format)?,
            };
            Ok(terminal::print(&text)?)
        }
        Args::Chain { project_dir, chain, format } => {
            let project = Project::of(project_dir.as_deref(), world)?;
            print_chain(&project, chain.as_deref(), *format)
        }
        Args::Slots { source, format } => {
            let project = Project::of(source.project_dir.as_deref(), world)?;
            print_slots(&project, source.run.as_deref(), *format, world)
        }
        Args::Squad { source, format } => {
            print_squad(source, world, |squad, status| render_loops(squad, status, *format))
        }
        Args::Reviews { source, format } => {
            print_squad(source, world, |squad, _| render_reviews(squad, *format))
        }
        Args::Memory { source: Source { project_dir, run }, format } => {
            let tiers = memory::Tiers::to_read(project_dir.as_deref(), run.as_deref(), world)?;
            memory::list(&tiers, None, *format)
        }
        Args::Topology(args) => topology::run(args, world),
        Args::Usage(args) => usage::run(args, world),
        Args::Review(args) => review::run(args, world),
        Args::Prompt(args) => text::run(args, IterationText::Prompt, world),
        Args::Output(args) => text::run(args, IterationText::Output, world),
    }
}

fn list_records(
    journal: &dyn Journal,
    filter: Filter,
    format: journal::Format,
) -> Result<(), Failure> {
    let mut listing = Listing::new(journal, format, filter);
    let head = journal.read(Position::START, &mut |line| listing.show(line))?;
    listing.flush()?;
    if head == Position::START {
        terminal::note(&format!("{} is empty", journal.path().display()));
    }
    if listing.bad > 0 {
        let skipped = terminal::counted(listing.bad, "invalid record");
        terminal::note(&format!("skipped {skipped}; `autoloop journal verify` lists them"));
    }
    Ok(())
}

fn coordination(journal: &dyn Journal, run: &str, format: Format) -> Result<String, Failure> {
    if let Some(kept) = journal.fold::<Coordinations>()?.view.of(run) {
        return Ok(kept.render(format));
    }
    // The view keeps recent runs only.
    let mut coordination = Coordination::default();
    for_each_record(journal, |record, _| {
        if record.run() == run {
            coordination.apply(record);
        }
    })?;
    Ok(coordination.render(format))
}

fn all_coordination(journal: &dyn Journal, format: Format) -> Result<String, Failure> {
    let kept = journal.fold::<Coordinations>()?.view;
    Ok(match format {
        Format::Json => kept.json_by_run(),
        _ if kept.iter().next().is_none() => Coordination::default().render(format),
        _ => kept
            .iter()
            .map(|(run, coordination)| format!("# Run {run}\n\n{}", coordination.render(format)))
            .collect::<Vec<_>>()
            .join("\n"),
    })
}

fn print_chain(project: &Project, name: Option<&str>, format: Format) -> Result<(), Failure> {
    let Project { journal, list, .. } = project;
    let chains = chains(&**journal)?;
    let status = |chain: &Chain| {
        let listed = list.runs.get(&chain.id).and_then(|run| list.status(run));
        listed.unwrap_or_else(|| chain.status())
    };
    let usages = journal.fold::<Usages>()?.view;
    let tree = Tree::new(&chains, &status, &usages);
    let id = name.map(|name| list.find(name)).transpose()?.map(|run| run.id());
    let text = match id {
        Some(id) => {
            let found = chains.iter().find(|chain| chain.id == id);
            found.map(|chain| tree.render(chain, format))
        }
        None => tree.render_latest(format),
    };
    print_found(text, id, "chain", "start one with `autoloop chain run NAME`", &**journal)
}

fn print_slots(
    project: &Project,
    name: Option<&str>,
    format: Format,
    world: &World,
) -> Result<(), Failure> {
    let Project { located, journal, list } = project;
    let slots = slot_runs(&Site::new(world, &**journal, &located.files.state_dir))?;
    let id = match name {
        Some(name) => Some(list.find(name)?.id()),
        None => slots.last().map(|run| run.id.as_str()),
    };
    let found = id.and_then(|id| slots.iter().find(|run| run.id == id));
    let usages = journal.fold::<Usages>()?.view;
    let text = found.map(|run| {
        // The list believes records without a seal, so only the holder of the lock is read from it.
        let holder = list.runs.get(&run.id).map(|listed| list.holder(listed));
        let status = holder.map_or(run.status(), |holder| run.status().with_holder(holder));
        run.render(status, &usages, format)
    });
    print_found(text, id, "run of slots", "start one with `autoloop slots`", &**journal)
}

fn print_squad(
    source: &Source,
    world: &World,
    render: impl FnOnce(&Squad, Status) -> String,
) -> Result<(), Failure> {
    let Project { located, journal, list } = &Project::of(source.project_dir.as_deref(), world)?;
    let site = Site::new(world, &**journal, &located.files.state_dir);
    let id = match &source.run {
        Some(name) => Some(list.find(name)?.id().to_owned()),
        None => squads(&site)?.pop().map(|squad| squad.id),
    };
    let found = id.as_deref().map(|id| squad(&site, id)).transpose()?.flatten();
    let text = found.map(|squad| {
        // As for slots.
        let holder = list.runs.get(&squad.id).map(|listed| list.holder(listed));
        let status = holder.map_or(squad.status(), |holder| squad.status().with_holder(holder));
        render(&squad, status)
    });
    print_found(text, id.as_deref(), "squad", "start one with `autoloop squad`", &**journal)
}

/// Prints a view of the run with this id, or fails where there is none.
fn print_found(
    text: Option<String>,
    id: Option<&str>,
    kind: &str,
    hint: &str,
    journal: &dyn Journal,
) -> Result<(), Failure> {
    match (text, id) {
        (Some(text), _) => Ok(terminal::print(&text)?),
        (None, Some(id)) => Err(Failure::failed(format!("'{id}' is not a {kind}"))
            .hint(format!("show it with `autoloop loops show {id}`"))),
        (None, None) => {
            let path = journal.path().display();
            Err(Failure::failed(format!("no {kind} in {path} yet")).hint(hint))
        }
    }
}

pub(super) fn one_run(journal: &dyn Journal, name: Option<&str>) -> Result<String, Failure> {
    match name {
        None => Ok(journal.latest_run()?.0),
        Some(name) => Ok(runs::find(journal, name)?.id().to_owned()),
    }
}
