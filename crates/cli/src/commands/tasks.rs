//! `autoloop tasks`: the task queue of a project.

#![expect(clippy::disallowed_methods, reason = "reads the name of the user")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use autoloop_core::duration;
use autoloop_core::env::Env;
use autoloop_core::format::json_text;
use autoloop_core::queue::{
    Claim, LONGEST_CLAIM, LONGEST_TEXT, New, Priority, Refusal, Status, Task, Tasks, Wanted,
};
use autoloop_core::table;
use autoloop_core::timestamp::Timestamp;
use autoloop_runtime::project::read_text;
use autoloop_runtime::queue::{Builtin, Claimed, Queue as _, QueueError};
use autoloop_runtime::world::World;
use clap::Subcommand;
use serde_json::{Value, json};

use super::settings;
use crate::failure::{Failure, Kind};
use crate::terminal;

/// Manage the task queue of the project.
///
/// Tasks are added by you or by an agent, and processed one by one: by people, who claim and close them with these
/// commands, or by `autoloop slots`, which does so for its agents. A task is ready when it is open, not claimed, and
/// all its dependencies are closed. Ready tasks are ordered by priority, then by age.
///
/// A claim has an owner and an expiry time. Until it expires no other process can claim the task; after that the task
/// is ready again, and a late report of its former owner is refused.
///
/// The queue is part of the project's journal: every change is a record in it, and nothing else is stored.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    Add(AddArgs),
    /// List open tasks, in the order in which they were added.
    ///
    /// Prints the id, priority, status and title of each, and its owner or its open dependencies.
    List {
        /// List closed tasks too
        #[arg(long)]
        all: bool,
    },
    /// List tasks that can be claimed now, the next one first.
    Ready,
    /// Show one task.
    Show {
        /// Id of the task
        id: String,
    },
    Claim(ClaimArgs),
    Release(ReleaseArgs),
    /// Close a task that is done.
    ///
    /// Tasks that depend on it only become ready. The task need not be claimed; a claim of another owner is respected.
    Close(SettleArgs),
    /// Reopen a closed task.
    Reopen(SettleArgs),
    Dep(DepArgs),
}

/// Add a task and print its id.
///
/// The words of the title are joined by spaces. Description and acceptance criteria are part of the prompts of its
/// implementer and its reviewer; read longer ones from files. After the command has succeeded, the task survives a
/// power cut. An agent may add tasks too; they record its run.
#[derive(Debug, clap::Args)]
struct AddArgs {
    /// Title, in one line
    #[arg(required = true)]
    title: Vec<String>,
    /// Description, up to 256 KiB
    #[arg(long, value_name = "TEXT", conflicts_with = "description_file", allow_hyphen_values = true, value_parser = text)]
    description: Option<String>,
    /// Read the description from FILE
    #[arg(long, value_name = "FILE")]
    description_file: Option<PathBuf>,
    /// Acceptance criteria, up to 256 KiB
    #[arg(long, value_name = "TEXT", conflicts_with = "acceptance_file", allow_hyphen_values = true, value_parser = text)]
    acceptance: Option<String>,
    /// Read the acceptance criteria from FILE
    #[arg(long, value_name = "FILE")]
    acceptance_file: Option<PathBuf>,
    /// Priority; 0 is the most urgent
    #[arg(long, value_name = "0-4", default_value = "2", value_parser = priority)]
    priority: Priority,
    /// Id of a task that must be closed first; repeatable
    #[arg(long, value_name = "ID")]
    after: Vec<String>,
}

/// Claim a task for a limited time.
///
/// No other process can claim it until then, unless you release it. Claim it again to extend the time.
#[derive(Debug, clap::Args)]
struct ClaimArgs {
    /// Id of the task [default: the next ready one]
    id: Option<String>,
    #[command(flatten)]
    actor: Actor,
    /// Duration of the claim, like 30m or 2h, up to 30 days
    #[arg(long = "for", value_name = "DURATION", default_value = "2h", value_parser = claim_duration)]
    lasting: Duration,
}

/// Release a claimed task.
///
/// With --force, a claim of another owner is released too, and a late report of that owner is refused.
#[derive(Debug, clap::Args)]
struct ReleaseArgs {
    #[command(flatten)]
    settle: SettleArgs,
    /// Release the claim of another owner
    #[arg(long)]
    force: bool,
}

#[derive(Debug, clap::Args)]
struct SettleArgs {
    /// Id of the task
    id: String,
    #[command(flatten)]
    actor: Actor,
    /// Reason, stored with the task
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true, value_parser = text)]
    reason: String,
}

#[derive(Debug, clap::Args)]
struct Actor {
    /// Name of the actor [default: your user name]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
}

/// Manage dependencies of tasks.
///
/// A task is not ready before all its dependencies are closed. Cycles are refused. `dep ID AFTER` is short for
/// `dep add ID AFTER`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct DepArgs {
    #[command(subcommand)]
    what: Option<Dep>,
    #[command(flatten)]
    pair: Option<Pair>,
}

#[derive(Debug, Subcommand)]
enum Dep {
    /// Add a dependency.
    Add(Pair),
    /// Remove a dependency.
    Rm(Pair),
    /// List the dependencies of a task.
    List {
        /// Id of the task
        id: String,
    },
}

#[derive(Debug, clap::Args)]
struct Pair {
    /// Id of the dependent task
    id: String,
    /// Id of the task that must be closed first
    after: String,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let env = settings::environment()?;
    args.what.check_allowed(&env)?;
    let located = settings::locate(None, world)?;
    check_project(&env)?;
    let journal = located.journal(world);
    let queue = Builtin::new(&*journal, world, located.durability(), Builtin::USUAL);
    let done = Command { queue, json: args.json }.run(&args.what, &env, world);
    if !args.what.only_reads() {
        settings::protect(&located.files, &located.dir);
    }
    done
}

impl What {
    fn only_reads(&self) -> bool {
        match self {
            What::List { .. } | What::Ready | What::Show { .. } => true,
            What::Dep(args) => matches!(args.what, Some(Dep::List { .. })),
            _ => false,
        }
    }

    /// The harness claims and closes tasks; its agents may read the queue, and builders may add to it.
    fn check_allowed(&self, env: &Env) -> Result<(), Failure> {
        if self.only_reads() {
            return Ok(());
        }
        if env.door.is_some() {
            return Err(Failure::new(Kind::Refused, "a reviewer cannot change the queue")
                .hint("report the task in your verdict"));
        }
        match (&env.run_id, self) {
            (None, _) | (_, What::Add(_)) => Ok(()),
            (Some(run), _) => Err(Failure::new(
                Kind::Refused,
                format!("an agent of run '{run}' cannot claim, change or close tasks"),
            )
            .hint("add a new task with `autoloop tasks add`; the harness claims and closes")),
        }
    }
}

fn check_project(env: &Env) -> Result<(), Failure> {
    let Some(dir) = env.project_dir.as_ref().filter(|dir| !dir.is_dir()) else { return Ok(()) };
    let message = format!("AUTOLOOP_PROJECT_DIR is not a directory: {}", dir.display());
    Err(Failure::usage(message).hint("set it to the directory of a project, or unset it"))
}

struct Command<'a> {
    queue: Builtin<'a>,
    json: bool,
}

impl Command<'_> {
    fn run(&self, what: &What, env: &Env, world: &World) -> Result<(), Failure> {
        match what {
            What::Add(args) => self.add(args, env, world),
            What::List { all } => self.look(|tasks, now| Ok(self.list(tasks, now, *all))),
            What::Ready => self.look(|tasks, now| Ok(self.ready(tasks, now))),
            What::Show { id } => self.look(|tasks, now| {
                let row = Row { tasks, task: tasks.known(id)?, now };
                Ok(if self.json { json_text(&row.json()) } else { row.describe() })
            }),
            What::Claim(args) => self.claim(args),
            What::Release(ReleaseArgs { settle, force }) => {
                let who = settle.actor.name();
                let owner = (!force).then_some(who.as_str());
                self.queue.release_task(&settle.id, owner, &who, &settle.reason)?;
                self.changed(&settle.id, "is released")
            }
            What::Close(SettleArgs { id, actor, reason }) => {
                let who = actor.name();
                self.queue.step(|tasks, now| tasks.close_as(id, &who, reason, now))?;
                self.changed(id, "is closed")
            }
            What::Reopen(SettleArgs { id, actor, reason }) => {
                let who = actor.name();
                self.queue.step(|tasks, now| tasks.reopen(id, &who, reason, now))?;
                self.changed(id, "is open again")
            }
            What::Dep(args) => self.dep(args),
        }
    }

    fn look(
        &self,
        text: impl FnOnce(&Tasks, Timestamp) -> Result<String, Refusal>,
    ) -> Result<(), Failure> {
        let text = self.queue.look(text)?.map_err(QueueError::from)?;
        Ok(terminal::print(&text)?)
    }

    fn print(&self, text: &str, facts: Value) -> Result<(), Failure> {
        let text = if self.json { json_text(&facts) } else { format!("{text}\n") };
        Ok(terminal::print(&text)?)
    }

    fn changed(&self, id: &str, how: &str) -> Result<(), Failure> {
        self.print(&format!("{id} {how}"), json!({ "id": id }))
    }

    fn add(&self, args: &AddArgs, env: &Env, world: &World) -> Result<(), Failure> {
        let text = |given: &Option<String>, file: &Option<PathBuf>| match file {
            Some(path) => text_of_file(path, world).map(Some),
            None => Ok(given.clone()),
        };
        let by = env.run_id.as_ref().map(|run| match &env.iteration {
            Some(iteration) => format!("{run}#{iteration}"),
            None => run.clone(),
        });
        let id = self.queue.add(&New {
            title: args.title.join(" ").trim().to_owned(),
            description: text(&args.description, &args.description_file)?,
            acceptance: text(&args.acceptance, &args.acceptance_file)?,
            priority: args.priority,
            after: args.after.clone(),
            by,
        })?;
        self.print(&id, json!({ "id": id }))
    }

    fn claim(&self, args: &ClaimArgs) -> Result<(), Failure> {
        let who = args.actor.name();
        let claimed = match &args.id {
            Some(id) => Some(self.queue.claim_for(id, &who, args.lasting)?),
            None => self.queue.claim_next_for(&who, args.lasting, &Wanted::default())?,
        };
        let Some(Claimed { item, claim }) = claimed else {
            let progress = self.queue.progress()?;
            return Err(Failure::failed(match progress.is_done() {
                true => "no task is left".to_owned(),
                false => nothing_ready(progress.in_work, progress.blocked),
            }));
        };
        let Claim { owner, fence, until, .. } = claim;
        let expiry = until.map(|until| format!(" until {until}")).unwrap_or_default();
        let until = until.map(|until| until.to_string());
        let facts = json!({ "id": item.id, "owner": owner, "until": until, "fence": fence });
        self.print(&format!("{} is claimed{expiry}", item.id), facts)
    }

    fn dep(&self, args: &DepArgs) -> Result<(), Failure> {
        match (&args.what, &args.pair) {
            (Some(Dep::Add(Pair { id, after })), _) | (None, Some(Pair { id, after })) => {
                self.queue.step(|tasks, now| tasks.link(id, after, now))?;
                self.print(&format!("{id} waits for {after}"), json!({ "id": id, "after": after }))
            }
            (Some(Dep::Rm(Pair { id, after })), _) => {
                self.queue.step(|tasks, now| tasks.unlink(id, after, now))?;
                let facts = json!({ "id": id, "after": after });
                self.print(&format!("{id} no longer waits for {after}"), facts)
            }
            (Some(Dep::List { id }), _) => self.look(|tasks, now| {
                let after = tasks.known(id)?.after.iter().filter_map(|id| tasks.get(id));
                let rows = Row::all(after, tasks, now);
                Ok(self.table(&rows, || format!("{id} waits for nothing\n")))
            }),
            // The parser requires both ids where no subcommand is given.
            (None, None) => unreachable!("neither a subcommand nor two tasks"),
        }
    }

    fn list(&self, tasks: &Tasks, now: Timestamp, all: bool) -> String {
        let wanted = tasks.iter().filter(|task| all || !task.is_closed);
        let rows = Row::all(wanted, tasks, now);
        let closed = tasks.iter().count() - rows.len();
        let text = self.table(&rows, || none_open(closed));
        match closed {
            0 => text,
            _ if self.json || rows.is_empty() => text,
            closed => {
                let closed = terminal::counted(closed as u64, "closed task");
                format!("{text}({closed}; list them with --all)\n")
            }
        }
    }

    fn ready(&self, tasks: &Tasks, now: Timestamp) -> String {
        let rows = Row::all(tasks.ready(now), tasks, now);
        let progress = tasks.progress(now);
        self.table(&rows, || match progress.is_done() {
            true => none_open(progress.done),
            false => nothing_ready(progress.in_work, progress.blocked) + "\n",
        })
    }

    fn table(&self, rows: &[Row<'_>], empty: impl FnOnce() -> String) -> String {
        match self.json {
            true => json_text(&rows.iter().map(Row::json).collect::<Vec<_>>()),
            false if rows.is_empty() => empty(),
            false => table::print(rows.iter().map(Row::cells).collect()),
        }
    }
}

impl Actor {
    fn name(&self) -> String {
        let user = || {
            let set = ["USER", "LOGNAME"].into_iter().filter_map(|name| std::env::var(name).ok());
            let mut names = set.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
            names.next().unwrap_or_else(|| "unknown".to_owned())
        };
        self.name.clone().unwrap_or_else(user)
    }
}

fn nothing_ready(claimed: usize, blocked: usize) -> String {
    format!("no task is ready: {claimed} claimed, {blocked} blocked")
}

fn none_open(closed: usize) -> String {
    match closed {
        0 => "no tasks\n".to_owned(),
        closed => format!("no open tasks, {}\n", terminal::counted(closed as u64, "closed task")),
    }
}

#[derive(Clone, Copy)]
struct Row<'a> {
    tasks: &'a Tasks,
    task: &'a Task,
    now: Timestamp,
}

impl<'a> Row<'a> {
    /// Columns of a title, or of an owner, in a table.
    const WIDTH: usize = 60;

    fn all(
        of: impl IntoIterator<Item = &'a Task>,
        tasks: &'a Tasks,
        now: Timestamp,
    ) -> Vec<Row<'a>> {
        of.into_iter().map(|task| Row { tasks, task, now }).collect()
    }

    fn status(&self) -> Status {
        self.tasks.status(self.task, self.now)
    }

    fn waits_for(&self) -> Vec<&str> {
        self.tasks.open_dependencies(self.task).collect()
    }

    /// The owner of its claim, or its open dependencies.
    fn detail(&self) -> String {
        match (self.status(), self.task.live_claim(self.now)) {
            (Status::InWork, Some(claim)) => {
                let until = claim.until.map(|until| format!(" until {until}")).unwrap_or_default();
                terminal::one_line(&format!("{}{until}", claim.owner), Self::WIDTH)
            }
            (Status::Blocked, _) => format!("waits for {}", self.waits_for().join(", ")),
            _ => String::new(),
        }
    }

    fn cells(&self) -> [String; 5] {
        [
            self.task.id.clone(),
            format!("P{}", self.task.priority.number()),
            self.status().to_string(),
            terminal::one_line(&self.task.title, Self::WIDTH),
            self.detail(),
        ]
    }

    fn json(&self) -> Value {
        let Row { task, now, .. } = *self;
        let claim = task.live_claim(now);
        json!({
            "id": task.id,
            "title": task.title,
            "description": task.description,
            "acceptance": task.acceptance,
            "priority": task.priority.number(),
            "status": self.status().name(),
            "after": task.after,
            "waits_for": self.waits_for(),
            "owner": claim.map(|claim| &claim.owner),
            "until": claim.and_then(|claim| claim.until).map(|until| until.to_string()),
            "fence": claim.map(|claim| claim.fence),
            "by": task.by,
            "reason": task.reason,
        })
    }

    fn describe(&self) -> String {
        let Row { tasks, task, .. } = *self;
        let status = match self.status() {
            Status::InWork => format!("claimed by {}", self.detail()),
            status => status.to_string(),
        };
        let after = task.after.iter().map(|id| match tasks.get(id) {
            Some(Task { is_closed: true, .. }) => format!("{id} (closed)"),
            _ => id.clone(),
        });
        let mut text = format!("{}  {}\n\n", task.id, terminal::one_line(&task.title, 500));
        for (name, value) in [
            ("status", status),
            ("priority", task.priority.number().to_string()),
            ("waits for", after.collect::<Vec<_>>().join(", ")),
            ("added by", terminal::one_line(task.by.as_deref().unwrap_or_default(), 200)),
            ("reason", terminal::one_line(&task.reason, 500)),
        ] {
            if !value.is_empty() {
                text.push_str(&format!("{name:<10} {value}\n"));
            }
        }
        for (heading, body) in
            [("Description", &task.description), ("Acceptance", &task.acceptance)]
        {
            if !body.is_empty() {
                text.push_str(&format!("\n{heading}:\n{}\n", body.trim_end()));
            }
        }
        text
    }
}

fn text_of_file(path: &Path, world: &World) -> Result<String, Failure> {
    let failed = |why: String| Failure::usage(format!("cannot read {}: {why}", path.display()));
    match read_text(&*world.disk, path, LONGEST_TEXT as u64) {
        Ok(Some(text)) => Ok(text),
        Ok(None) => Err(failed("no such file".to_owned())),
        Err(why) => Err(failed(why.to_string())),
    }
}

fn priority(text: &str) -> Result<Priority, &'static str> {
    text.parse().ok().and_then(Priority::new).ok_or("expected 0 (most urgent) to 4")
}

fn claim_duration(text: &str) -> Result<Duration, String> {
    match duration::parse(text) {
        Ok(Duration::ZERO) => Err("expected more than 0".to_owned()),
        Ok(lasting) if lasting > LONGEST_CLAIM => {
            Err(format!("expected at most {}", duration::print(LONGEST_CLAIM)))
        }
        lasting => lasting.map_err(|bad| bad.to_string()),
    }
}

/// Accepts a text that begins with a hyphen, as a list does, but not a flag in the place of a missing text.
fn text(given: &str) -> Result<String, &'static str> {
    let name = given.trim_start_matches('-');
    let is_flag = name.len() < given.len()
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && !name.contains(char::is_whitespace);
    match is_flag {
        true => {
            Err("expected a text, found a flag; put a space before a text that begins with '-'")
        }
        false => Ok(given.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_a_text_and_a_flag_is_none() {
        for list in
            ["", "plain", "- one\n- two", "--", "---\n# Heading", "-5 degrees", "--all of it"]
        {
            assert_eq!(text(list).as_deref(), Ok(list));
        }
        for flag in ["--json", "-h", "--after=t-1"] {
            assert!(text(flag).is_err(), "{flag}");
        }
    }
}
