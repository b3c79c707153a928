//! `autoloop inspect usage`: the tokens and the cost of agents.

use autoloop_core::format::Format;
use autoloop_core::views::usage::{GroupBy, Usages};
use autoloop_runtime::world::World;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::{Source, format};
use crate::failure::Failure;
use crate::terminal;

/// Show the tokens and the cost of a run.
///
/// Costs marked with `~` are estimated from a table of prices, because the client reports none.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Show all runs
    #[arg(long, conflicts_with = "run")]
    all_runs: bool,
    /// Group the usage
    #[arg(long, value_name = "GROUP", default_value = "role", value_parser = group())]
    by: GroupBy,
    /// Output format
    #[arg(long, default_value = "terminal", value_parser = format())]
    format: Format,
}

fn group() -> impl TypedValueParser<Value = GroupBy> {
    PossibleValuesParser::new(GroupBy::WORDS)
        .map(|word| GroupBy::from_word(&word).unwrap_or(GroupBy::Role))
}

pub(super) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let journal = args.source.journal(world)?;
    let run = if args.all_runs { None } else { Some(args.source.run(&*journal)?) };
    let usages = journal.fold::<Usages>()?.view;
    let text = match args.format {
        Format::Json => usages.json(run.as_deref(), args.by),
        _ if usages.groups(run.as_deref(), args.by).is_empty() => {
            "no usage was reported\n".to_owned()
        }
        _ => usages.text(run.as_deref(), args.by),
    };
    Ok(terminal::print(&text)?)
}
