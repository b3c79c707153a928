//! `autoloop man`: the help texts as manual pages.

#![expect(clippy::disallowed_methods, reason = "writes manual pages where the user wants them")]

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use autoloop_core::suggest::suggest;
use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::failure::Failure;

/// Print the manual page of a command.
///
/// `autoloop man run | man -l -` shows one; `autoloop man --dir ~/.local/share/man/man1` installs all.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Command, like `run` or `journal verify` [default: autoloop itself]
    command: Vec<String>,
    /// Write the pages of all commands into DIR
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.dir {
        Some(dir) => write_all(dir),
        None => print(&args.command),
    }
}

fn write_all(dir: &Path) -> Result<(), Failure> {
    let written = fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(super::args::Args::command(), dir));
    written.map_err(|error| {
        Failure::failed(format!("cannot write manual pages into {}: {error}", dir.display()))
            .hint("name a writable directory")
    })
}

fn print(words: &[String]) -> Result<(), Failure> {
    // Without the generated `help`, which would have a page for each command.
    let mut command = super::args::Args::command().disable_help_subcommand(true);
    command.build();
    let mut found = &command;
    for word in words {
        found = found.find_subcommand(word).ok_or_else(|| unknown(word, found))?;
    }
    let mut page = Vec::new();
    Man::new(found.clone()).render(&mut page)?;
    Ok(io::stdout().write_all(&page)?)
}

fn unknown(word: &str, parent: &Command) -> Failure {
    let name = parent.get_bin_name().unwrap_or("autoloop");
    let failure = Failure::usage(format!("'{name}' has no command '{}'", word.escape_debug()));
    let known = parent.get_subcommands().filter(|known| !known.is_hide_set());
    let names: Vec<&str> = known.map(Command::get_name).collect();
    let near = suggest(word, names.iter().copied());
    failure.did_you_mean(near, &format!("list the commands with `{name} --help`"))
}
