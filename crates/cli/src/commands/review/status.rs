//! `autoloop review status`: the rounds of a review by message.

use std::path::{Path, PathBuf};
use std::time::Duration;

use autoloop_core::coordinator::Status;
use autoloop_core::duration;
use autoloop_core::exchange::{Exchange, RoundRow, rows};
use autoloop_core::format::{Format, json_text};
use autoloop_core::table;
use autoloop_core::views::usage::Usages;
use autoloop_runtime::drive::Change;
use autoloop_runtime::runs::RunList;
use autoloop_runtime::world::World;
use serde_json::json;

use super::exchange::{self, turn};
use crate::commands::settings::{self, Located};
use crate::failure::Failure;
use crate::terminal;

/// Show the rounds of a review: findings, checks, whose turn it is, time and cost.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Project directory [default: the current project]
    dir: Option<PathBuf>,
    /// Review by its id, a prefix, or `latest` [default: the latest]
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Print the review as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let dir = settings::project_dir(args.dir.as_deref())?;
    let located = settings::locate(Some(&dir), world)?;
    let exchanges = exchange::exchanges(&located, world)?;
    let wanted = args.run.as_deref().filter(|name| *name != "latest");
    let found = match wanted {
        None => exchanges.last(),
        Some(name) => exchanges.iter().rfind(|exchange| exchange.id.starts_with(name)),
    };
    let Some(found) = found else {
        let name = wanted.map(|name| format!(" '{name}'")).unwrap_or_default();
        return Err(Failure::failed(format!("no review by message{name}"))
            .hint("request one with `autoloop review request`"));
    };
    let text = match args.json {
        true => json(found, &located, world)?,
        false => text(found, &located, world)?,
    };
    Ok(terminal::print(&text)?)
}

/// The status of a run, if it is a review by message.
pub(crate) fn of_run(
    dir: Option<&Path>,
    run: &str,
    format: Format,
    world: &World,
) -> Result<Option<String>, Failure> {
    let located = settings::locate(dir, world)?;
    let exchanges = exchange::exchanges(&located, world)?;
    let found = exchanges.iter().find(|exchange| exchange.id == run);
    let found = found.map(|exchange| match format {
        Format::Json => json(exchange, &located, world),
        Format::Markdown | Format::Terminal => text(exchange, &located, world),
    });
    found.transpose()
}

/// The review in one line.
pub(super) fn summary(exchange: &Exchange) -> String {
    let start = exchange.start.clone().unwrap_or_default();
    let round = exchange.round().map_or(0, |round| round.number);
    let state = match (&exchange.finish, turn(exchange)) {
        (Some(finish), _) => finish.outcome.to_string(),
        (None, Some(side)) => format!("waiting for the {side}"),
        (None, None) => "begun".to_owned(),
    };
    format!("review {}: {} round {round}/{}, {state}\n", exchange.id, start.branch, start.rounds)
}

fn text(exchange: &Exchange, located: &Located, world: &World) -> Result<String, Failure> {
    let heading = ["ROUND", "COMMIT", "FINDINGS", "CHECKS", "RESPONSE", "ADDRESSED", "TIME"];
    let row = |row: &RoundRow| {
        let dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        [
            row.round.to_string(),
            row.commit.get(..12).unwrap_or(&row.commit).to_owned(),
            dash(&row.findings),
            dash(&row.checks),
            dash(&row.response),
            dash(&row.addressed.join(",")),
            duration::print(Duration::from_secs(row.elapsed_ms / 1_000)),
        ]
    };
    let rows = rows(exchange);
    let table = [heading.map(str::to_owned)].into_iter().chain(rows.iter().map(row));
    let mut text = summary(exchange) + "\n" + &table::print(table.collect());
    let usage = located.journal(world).fold::<Usages>()?.view.total(Some(&exchange.id));
    if usage.turns > 0 {
        let (tokens, cost) = (usage.total_tokens, usage.cost_text());
        text.push_str(&format!("\ncost: {cost}, {tokens} tokens\n"));
    }
    if let Some(moved) = moved(exchange, located, world) {
        text.push_str(&format!("\nthe approval is void: the branch moved to {moved}\n"));
    }
    Ok(text)
}

pub(super) fn json(
    exchange: &Exchange,
    located: &Located,
    world: &World,
) -> Result<String, Failure> {
    let start = exchange.start.clone().unwrap_or_default();
    let journal = located.journal(world);
    let usage = journal.fold::<Usages>()?.view.total(Some(&exchange.id));
    let list = RunList::read(&*journal, &located.files.state_dir, world)?;
    let status = list.find(&exchange.id).ok().and_then(|run| list.status(run));
    let moved = moved(exchange, located, world);
    Ok(json_text(&json!({
        "exchange": exchange.id,
        "status": status.unwrap_or(Status::Running).name(),
        "outcome": exchange.finish.as_ref().map(|finish| finish.outcome.to_string()),
        "reason": exchange.finish.as_ref().map(|finish| &finish.reason),
        "turn": turn(exchange).map(|side| side.name()),
        "author": start.author,
        "reviewer": start.reviewer,
        "pr": start.pr,
        "branch": start.branch,
        "base": start.base,
        "max_rounds": start.rounds,
        "approved": exchange.approved().filter(|_| moved.is_none()),
        "moved_to": moved,
        "cost_usd": usage.cost.amount(),
        "tokens": usage.total_tokens,
        "rounds": rows(exchange),
    })))
}

/// The commit that the branch moved to since it was approved.
fn moved(exchange: &Exchange, located: &Located, world: &World) -> Option<String> {
    let approved = exchange.approved()?;
    let branch = &exchange.start.as_ref()?.branch;
    let tip = Change::tip(&located.dir, branch, world).ok().flatten()?;
    (tip != approved).then_some(tip)
}
