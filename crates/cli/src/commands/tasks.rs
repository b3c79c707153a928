//! `autoloop tasks`: the queue of things to be done.

mod add;
mod claim;
mod close;
mod dep;
mod list;
mod place;
mod row;
mod show;
mod words;

use autoloop_core::config::Config;
use autoloop_core::env::Env;
use autoloop_core::format::json_text;
use autoloop_runtime::complaint::Complaint;
use autoloop_runtime::queue::{Builtin, QueueError};
use autoloop_runtime::world::World;
use clap::Subcommand;
use serde::Serialize;

use super::settings;
use crate::failure::{Failure, Kind};
use crate::terminal;

/// Keep a queue of things to be done.
///
/// Tasks are added here, by you or by an agent at work, and worked off one by one: by people, who claim
/// and close them with these commands, or by `autoloop slots`, which does so for its agents. A task is
/// ready when it is open, nobody has claimed it, and everything that it waits for is closed. The most
/// urgent comes first, and of several the one that was added first.
///
/// A claim has an owner and an end. Nobody else gets the task before that, in whichever process; then
/// it is ready again, and what its late owner still says about it is refused.
///
/// The queue is part of the journal of the current project: every step is a record in it, and nothing else is
/// kept.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Add(add::Args),
    List(list::ListArgs),
    Ready(list::ReadyArgs),
    Show(show::Args),
    Claim(claim::ClaimArgs),
    Release(claim::ReleaseArgs),
    Close(close::CloseArgs),
    Reopen(close::ReopenArgs),
    Dep(dep::Args),
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let env = settings::environment()?;
    args.what.may_be_done(&env)?;
    let located = settings::locate(None, world)?;
    place::check(&env)?;
    let journal = located.journal(world);
    let durability = settings::durability_of_events(&Config::from(&located.settings));
    let queue = Builtin::new(&*journal, world, (durability, Builtin::USUAL));
    let done = match &args.what {
        What::Add(args) => add::run(args, &queue, (&env, world)),
        What::List(args) => list::list(args, &queue),
        What::Ready(args) => list::ready(args, &queue),
        What::Show(args) => show::run(args, &queue),
        What::Claim(args) => claim::claim(args, &queue),
        What::Release(args) => claim::release(args, &queue),
        What::Close(args) => close::close(args, &queue),
        What::Reopen(args) => close::reopen(args, &queue),
        What::Dep(args) => dep::run(args, &queue),
    };
    if !args.what.is_look() {
        settings::protect(&located.files, &located.dir);
    }
    done
}

impl What {
    /// Whether nothing is written.
    fn is_look(&self) -> bool {
        match self {
            What::List(_) | What::Ready(_) | What::Show(_) => true,
            What::Dep(args) => args.is_look(),
            _ => false,
        }
    }

    /// The harness claims and closes, not its agents; they may look, and add what they find.
    fn may_be_done(&self, env: &Env) -> Result<(), Failure> {
        if self.is_look() {
            return Ok(());
        }
        if env.door.is_some() {
            return Err(Failure::new(Kind::Refused, "a reviewer cannot change the queue")
                .hint("say in your verdict what is to be done"));
        }
        match (&env.run_id, self) {
            (None, _) | (_, What::Add(_)) => Ok(()),
            (Some(run), _) => Err(Failure::new(
                Kind::Refused,
                format!("an agent of run '{run}' cannot change what becomes of a task"),
            )
            .hint("the harness claims and closes; `autoloop tasks add` takes what you found")),
        }
    }
}

impl From<QueueError> for Failure {
    fn from(error: QueueError) -> Self {
        Complaint::from(error).into()
    }
}

/// Prints what came of a command: for a person, or as JSON.
fn tell(said: &str, json: Option<impl Serialize>) -> Result<(), Failure> {
    let text = json.map_or_else(|| format!("{said}\n"), |json| json_text(&json));
    Ok(terminal::print(&text)?)
}

/// What other programs read of a change that needs no more words.
#[derive(Serialize)]
struct Changed<'a> {
    id: &'a str,
}

/// Who acts: the name that was given, or the user's.
fn who(name: Option<&str>) -> String {
    let user = || {
        let set = ["USER", "LOGNAME"].into_iter().filter_map(|name| std::env::var(name).ok());
        let mut names = set.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        names.next().unwrap_or_else(|| "somebody".to_owned())
    };
    name.map_or_else(user, str::to_owned)
}
