//! `autoloop agents`: the known clients on this machine.

#![expect(clippy::disallowed_methods, reason = "reports on the real machine")]

use std::path::Path;

use autoloop_core::agents::{Adapter, Outcome};
use autoloop_core::config::{Layer, Settings};
use autoloop_core::format::json_text;
use autoloop_core::plan::{BackendPlan, Plan};
use autoloop_core::table;
use autoloop_core::topology::Topology;
use autoloop_runtime::clients::{Machine, too_old, why_failed};
use autoloop_runtime::process::Interrupts;
use autoloop_runtime::which::Found;
use autoloop_runtime::world::{Finished, World};
use clap::Subcommand;
use serde::Serialize;

use super::session::model_setting;
use crate::failure::Failure;
use crate::terminal;

/// List the known clients with their versions and problems.
///
/// A known client is started with the flags that it needs to work unattended: `autoloop run -b codex`. Credentials are
/// looked for in files and variables; no request is sent to a provider.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    Check(CheckArgs),
}

/// Prove a client with one short turn.
///
/// Asks it for one word, in the current directory. This sends a request to its provider, which may cost money.
#[derive(Debug, clap::Args)]
struct CheckArgs {
    /// Client, like `codex` or `codex:MODEL`, or a command line
    agent: String,
    /// Model of the client
    #[arg(long)]
    model: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let machine = Machine { variables: std::env::vars_os().collect(), dir: Path::new("."), world };
    match &args.what {
        Some(What::Check(check)) => {
            let proof = prove(check, &machine)?;
            let text = if check.json { json_text(&proof) } else { proof.report() };
            Ok(terminal::print(&text)?)
        }
        None => list(&machine, args.json),
    }
}

#[derive(Serialize)]
struct Client {
    name: &'static str,
    title: &'static str,
    path: Option<String>,
    version: Option<String>,
    offers: &'static [&'static str],
    problems: Vec<Problem>,
}

#[derive(Serialize)]
struct Problem {
    found: String,
    advice: String,
}

fn list(machine: &Machine<'_>, json: bool) -> Result<(), Failure> {
    let clients = Adapter::ALL.map(|adapter| client(adapter, machine));
    let text = if json { json_text(&clients) } else { report(&clients) };
    Ok(terminal::print(&text)?)
}

fn client(adapter: &'static Adapter, machine: &Machine<'_>) -> Client {
    let Adapter { program: name, title, offers, .. } = *adapter;
    let absent = Client { name, title, path: None, version: None, offers, problems: Vec::new() };
    let Found::At(path) = machine.find(name) else { return absent };
    let version = machine.version(&path);
    let old = version.as_deref().and_then(|version| too_old(adapter, version));
    let obstacles = machine.obstacles(adapter, &[]).into_iter().chain(old);
    let problems = obstacles.map(|it| Problem { found: it.found, advice: it.advice }).collect();
    Client { path: Some(path.display().to_string()), version, problems, ..absent }
}

fn report(clients: &[Client]) -> String {
    let row = |client: &Client| {
        let state = match (&client.path, client.problems.as_slice()) {
            (None, _) => "not installed",
            (_, []) => "ready",
            _ => "see below",
        };
        [
            client.name.to_owned(),
            client.version.clone().unwrap_or_else(|| "-".to_owned()),
            state.to_owned(),
            client.offers.join(", "),
        ]
    };
    let heading = ["AGENT", "VERSION", "STATE", "OFFERS"].map(str::to_owned);
    let rows = [heading].into_iter().chain(clients.iter().map(row));
    let mut text = table::print(rows.collect());
    for problem in clients.iter().flat_map(|client| &client.problems) {
        text.push_str(&format!("\n{}\n  hint: {}\n", problem.found, problem.advice));
    }
    text
}

#[derive(Serialize)]
struct Proof {
    agent: String,
    seconds: u64,
    model: Option<String>,
    session: Option<String>,
    total_tokens: Option<u64>,
    cost_usd: Option<f64>,
}

/// Asks the agent for one word. What it answers proves that it works, or why it does not.
fn prove(args: &CheckArgs, machine: &Machine<'_>) -> Result<Proof, Failure> {
    let backend = backend(args)?;
    if !matches!(machine.find(&backend.command), Found::At(_)) {
        return Err(Failure::failed(format!("'{}' is not on PATH", backend.command))
            .hint("list the installed clients with `autoloop agents`"));
    }
    let finished = machine.prove(&backend, &Interrupts::default());
    let Some(why) = why_failed(&finished, &backend) else {
        return Ok(Proof::of(&args.agent, backend, finished));
    };
    let class = finished.answer.as_ref().and_then(|answer| match &answer.outcome {
        Outcome::Failed(error) => error.class.advice(),
        _ => None,
    });
    let known = backend.kind.adapter().and_then(|client| {
        Some(machine.obstacles(client, &backend.args).into_iter().next()?.advice)
    });
    Err(Failure::failed(format!("{} does not work: {why}", args.agent))
        .maybe_hint(known.or(class.map(str::to_owned))))
}

fn backend(args: &CheckArgs) -> Result<BackendPlan, Failure> {
    let model = model_setting(args.model.as_deref());
    let layers = [Some(Layer::backend(&args.agent)), model.as_deref().map(Layer::set)];
    let reading = Settings::resolve(&layers.into_iter().flatten().collect::<Vec<_>>());
    if let Some(problem) = reading.problems.first() {
        return Err(Failure::usage(problem.to_string()));
    }
    let plan = Plan::resolve(&reading.settings, &Topology::default());
    let Ok(Plan { backend, .. }) = plan else { return Err(Failure::usage("invalid agent")) };
    backend.arguments().map_err(|bad| Failure::usage(bad.to_string()))?;
    Ok(backend)
}

impl Proof {
    fn of(agent: &str, backend: BackendPlan, finished: Finished) -> Proof {
        let answer = finished.answer.unwrap_or_default();
        Proof {
            agent: agent.to_owned(),
            seconds: finished.elapsed.as_secs(),
            model: answer.session.model.or(backend.model),
            session: answer.session.id,
            total_tokens: answer.usage.map(|usage| usage.total),
            cost_usd: answer.usage.and_then(|usage| usage.cost).map(|cost| cost.amount()),
        }
    }

    fn report(&self) -> String {
        let parts = [
            Some(format!("answered in {} s", self.seconds)),
            self.model.as_ref().map(|model| format!("model {model}")),
            self.total_tokens.map(|tokens| format!("{tokens} tokens")),
            self.cost_usd.map(|cost| format!("${cost:.4}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        format!("{} works: {}\n", self.agent, parts.join(", "))
    }
}
