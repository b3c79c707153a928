//! The command line. The doc comments are the help texts.

#![expect(clippy::disallowed_methods, reason = "reads the arguments")]

use std::path::Path;

use autoloop_core::suggest::suggest;
use autoloop_runtime::launch::presets::Preset;
use clap::error::{ContextKind, ErrorKind};
use clap::{Args as _, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use super::{
    acp, agents, chain, completions, config, demo, doctor, emit, init, inspect, journal, loops,
    mail, man, mcp, memory, presets, replay, review, run, script, settings, slots, squad, store,
    tasks, watch,
};
use crate::failure::Failure;

/// Run coding agents in loops that can be trusted.
///
/// Every step is a record in an append-only journal, and every view is read from it.
#[derive(Debug, Parser)]
#[command(name = "autoloop", version, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::Args),
    #[command(subcommand)]
    Chain(chain::Args),
    Presets(presets::Args),
    Agents(agents::Args),
    Init(init::Args),
    Emit(emit::Args),
    #[command(subcommand)]
    Inspect(inspect::Args),
    Loops(loops::Args),
    Watch(watch::Args),
    #[command(subcommand)]
    Journal(journal::Args),
    #[command(subcommand)]
    Config(config::Args),
    #[command(subcommand)]
    Memory(memory::Args),
    Tasks(tasks::Args),
    Mail(mail::Args),
    Mcp(mcp::Args),
    #[command(subcommand)]
    Review(review::Args),
    Slots(slots::Args),
    Squad(squad::Args),
    #[command(subcommand)]
    Store(store::Args),
    Doctor(doctor::Args),
    Demo(demo::Args),
    /// Print the version.
    Version,
    Completions(completions::Args),
    Man(man::Args),
    #[command(name = "__script", hide = true)]
    Script(script::Args),
    #[command(name = "__replay", hide = true)]
    Replay(replay::Args),
    #[command(name = "__acp", hide = true)]
    Acp(acp::Args),
}

/// Reads the command line.
///
/// Agents call `emit` for every event, and building the parser of all commands takes longer than storing one. So `emit`
/// has a parser of its own, which accepts and prints the same.
pub(crate) fn read() -> Result<Args, Failure> {
    if std::env::args_os().nth(1).is_some_and(|word| word == "emit") {
        let parser = emit::Args::augment_args(clap::Command::new("emit").bin_name("autoloop emit"));
        let words = parser.get_matches_from(std::env::args_os().skip(1));
        let emit = emit::Args::from_arg_matches(&words).unwrap_or_else(|error| error.exit());
        return Ok(Args { command: Command::Emit(emit) });
    }
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(failure) = mistyped(&words) {
        return Err(failure);
    }
    Args::try_parse().or_else(|error| match without_run(&words, &error) {
        Some(failure) => Err(failure),
        None => error.exit(),
    })
}

/// The failure of a command line that lacks only the word `run`.
fn without_run(words: &[String], error: &clap::Error) -> Option<Failure> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let invalid = error.get(ContextKind::InvalidSubcommand)?.to_string();
    if words.first() != Some(&invalid) {
        return None;
    }
    // Settings that cannot be read are reported by the commands that need them.
    let presets = Preset::all(&settings::settings_environment().ok()?);
    run::suggest::without_run(words, &presets)
}

/// The failure of a mistyped subcommand where the parser has no suggestion: after `help`, and where the parser takes it
/// for a directory.
fn mistyped(words: &[String]) -> Option<Failure> {
    let (command, rest) = words.split_first()?;
    let place = rest.first()?;
    match command.as_str() {
        "loops" | "slots" | "squad" if !Path::new(place).exists() => {
            unknown_among(Args::command().find_subcommand(command)?, &words[..1], place)
        }
        "help" => {
            let mut found = &Args::command();
            for (at, word) in rest.iter().enumerate() {
                match found.find_subcommand(word) {
                    Some(next) => found = next,
                    None => return unknown_among(found, &words[..=at], word),
                }
            }
            None
        }
        _ => None,
    }
}

/// The failure of a word that is similar to a subcommand; `None` where it is one, or similar to none.
fn unknown_among(parent: &clap::Command, before: &[String], word: &str) -> Option<Failure> {
    let visible = parent.get_subcommands().filter(|command| !command.is_hide_set());
    let known: Vec<&str> = visible.map(clap::Command::get_name).collect();
    if known.contains(&word) {
        return None;
    }
    let near = suggest(word, known)?;
    let message = format!("unrecognized subcommand '{}'", word.escape_debug());
    let meant = format!("autoloop {} {near}", before.join(" "));
    Some(Failure::usage(message).hint(format!("did you mean `{meant}`?")))
}
