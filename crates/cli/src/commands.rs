//! One module per command, with its arguments.

pub(crate) mod acp;
pub(crate) mod agents;
pub(crate) mod args;
pub(crate) mod chain;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod emit;
pub(crate) mod init;
pub(crate) mod inspect;
pub(crate) mod journal;
pub(crate) mod loops;
pub(crate) mod mail;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod memory;
pub(crate) mod presets;
mod progress;
pub(crate) mod replay;
pub(crate) mod review;
pub(crate) mod run;
pub(crate) mod script;
mod session;
pub(crate) mod settings;
pub(crate) mod shim;
pub(crate) mod slots;
pub(crate) mod squad;
pub(crate) mod store;
pub(crate) mod tasks;
pub(crate) mod watch;

use std::io::{self, Write};

use autoloop_runtime::world::World;

use self::args::{Args, Command};
use crate::failure::Failure;

pub(crate) fn run(args: Args, world: &World) -> Result<(), Failure> {
    match args.command {
        Command::Run(args) => run::run(&args, world),
        Command::Chain(args) => chain::run(&args, world),
        Command::Presets(args) => presets::run(&args),
        Command::Agents(args) => agents::run(&args, world),
        Command::Init(args) => init::run(&args),
        Command::Emit(args) => emit::run(&args, world),
        Command::Inspect(args) => inspect::run(&args, world),
        Command::Loops(args) => loops::run(&args, world),
        Command::Watch(args) => watch::run(&args, world),
        Command::Journal(args) => journal::run(&args, world),
        Command::Config(args) => config::run(&args, world),
        Command::Memory(args) => memory::run(&args, world),
        Command::Tasks(args) => tasks::run(&args, world),
        Command::Mail(args) => mail::run(&args, world),
        Command::Mcp(args) => mcp::run(&args),
        Command::Review(args) => review::run(&args, world),
        Command::Slots(args) => slots::run(&args, world),
        Command::Squad(args) => squad::run(&args, world),
        Command::Store(args) => store::run(&args, world),
        Command::Doctor(args) => doctor::run(&args, world),
        Command::Demo(args) => demo::run(&args, world),
        Command::Version => Ok(writeln!(io::stdout(), "autoloop {}", env!("CARGO_PKG_VERSION"))?),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Script(args) => script::run(&args, world),
        Command::Replay(args) => replay::run(&args, world),
        Command::Acp(args) => acp::run(&args, world),
    }
}
