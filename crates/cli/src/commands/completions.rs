//! `autoloop completions`: the completion script of a shell.

use std::io::{self, Write};

use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate};

use crate::failure::Failure;

/// Print the completion script of a shell.
///
/// For bash: `autoloop completions bash > ~/.local/share/bash-completion/completions/autoloop`. For zsh, write it
/// to the file `_autoloop` in a directory of `$fpath`; for fish, to `~/.config/fish/completions/autoloop.fish`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Shell
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let all = super::args::Args::command();
    let visible = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let mut shown =
        Command::new("autoloop").version(env!("CARGO_PKG_VERSION")).subcommands(visible);
    let mut script = Vec::new();
    generate(args.shell, &mut shown, "autoloop", &mut script);
    Ok(io::stdout().write_all(&script)?)
}
