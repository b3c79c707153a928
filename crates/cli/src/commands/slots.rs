//! `autoloop slots`: processes a task queue.

mod prompts;
mod verdict;

use std::path::{Path, PathBuf};

use autoloop_core::chain::Budget;
use autoloop_core::config::{Isolation, ItemSource, Key};
use autoloop_core::coordinator::{self, Holder};
use autoloop_core::format::Format;
use autoloop_core::slot::{Slots, Tally};
use autoloop_core::views::usage::Usages;
use autoloop_runtime::drive::SlotsDriver;
use autoloop_runtime::journal::{Durability, Journal};
use autoloop_runtime::launch::{Launch, Launcher};
use autoloop_runtime::project::Overrides;
use autoloop_runtime::queue::{Beads, BeadsSettings, Builtin, Queue};
use autoloop_runtime::site::Progress;
use autoloop_runtime::world::World;
use clap::Subcommand;
use clap::builder::PossibleValuesParser;

use super::progress::{Detail, ProgressUi};
use super::session::{
    ResumeArgs, Session, budget_setting, model_setting, not_finished, not_opened, project_argument,
    resume_command, spent,
};
use super::settings;
use crate::failure::Failure;
use crate::{terminal, tui};

/// Process a task queue: implement, review and fix each item.
///
/// In every iteration each slot claims an item and an agent implements it. With --review a reviewer then judges the
/// work: it passes, or it is fixed and reviewed again, up to a maximum number of fixes. Items that passed are closed
/// in the queue; items that failed are returned to it with the reason. Items come from `autoloop tasks`, or from beads
/// with --source beads.
///
/// With more than one slot, each works in a git worktree of its own, and work that passed is merged back into the
/// project, one slot at a time.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    flags: Flags,
}

#[derive(Debug, Subcommand)]
enum What {
    Verdict(verdict::Args),
    Prompts(prompts::Args),
}

#[derive(Debug, clap::Args)]
struct Flags {
    /// Project directory [default: the current project].
    dir: Option<PathBuf>,
    /// Review the work [overrides: slots.reviewEnabled].
    #[arg(long, overrides_with = "no_review")]
    review: bool,
    /// Do not review the work [overrides: slots.reviewEnabled].
    #[arg(long, overrides_with = "review")]
    no_review: bool,
    /// Maximum number of fixes after a review [default: 5].
    #[arg(long, value_name = "N")]
    review_max_fix_attempts: Option<u32>,
    /// Prompt file for implementers and fixers.
    ///
    /// [default: `.ai_agents/prompts/developer.md` or `.ai_agents/prompt.md`, from here up to the top of the
    /// repository; then `prompts/developer.md` beside your own settings; then a built-in one]
    #[arg(long, value_name = "PATH")]
    developer_prompt: Option<String>,
    /// Prompt file for reviewers; an empty path turns reviews off.
    ///
    /// [default: found like the prompt for developers]
    #[arg(long, value_name = "PATH")]
    reviewer_prompt: Option<String>,
    /// Number of slots that work at once [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    parallel_agents: Option<u32>,
    /// Maximum number of iterations; 0 for no limit [default: 0].
    #[arg(short = 'i', long, value_name = "N")]
    iterations: Option<u32>,
    /// Source of the items [default: builtin].
    #[arg(long, value_name = "SOURCE", value_parser = PossibleValuesParser::new(ItemSource::WORDS))]
    source: Option<String>,
    /// Where slots work: in the project, or each in its own git worktree.
    ///
    /// [default: worktree with more than one slot, shared with one]
    #[arg(long, value_name = "WHERE", value_parser = PossibleValuesParser::new(Isolation::WORDS))]
    isolation: Option<String>,
    /// Agent command with its arguments [overrides: backend.command].
    ///
    /// It implements and fixes, and reviews unless `slots.reviewer` names another agent.
    #[arg(long, short, visible_alias = "backend", value_name = "COMMAND")]
    provider: Option<String>,
    /// Model of the client [overrides: backend.model].
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Stop after an iteration in which an agent printed this text.
    ///
    /// [default: no_beads_available] Only the output of implementers and fixers is searched.
    #[arg(long, value_name = "TEXT")]
    stop_marker: Option<String>,
    /// Maximum cost in dollars [overrides: limits.max_cost_usd].
    #[arg(long, value_name = "DOLLARS")]
    budget: Option<String>,
    /// Set any setting; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Ignore settings that limit a run and are not enforced by this version.
    #[arg(long)]
    ignore_unenforced: bool,
    /// Do not warn about other active runs in the same directory.
    #[arg(long)]
    allow_concurrent: bool,
    #[command(flatten)]
    resume: ResumeArgs,
    /// Print progress lines instead of opening the live view.
    #[arg(long)]
    no_watch: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    match &args.what {
        Some(What::Verdict(args)) => verdict::run(args),
        Some(What::Prompts(args)) => prompts::run(args, world),
        None => run_slots(&args.flags, world),
    }
}

fn run_slots(args: &Flags, world: &World) -> Result<(), Failure> {
    let session = Session::start(args.resume.trust(), world)?;
    let launch = args.launch(&session.launcher(Budget::default()))?;
    if !args.allow_concurrent {
        session.warn_of_concurrent_runs(&launch);
    }
    let wants_view = !args.no_watch && !args.json && tui::is_possible();
    let ui = ProgressUi::new(Detail::Brief, wants_view.then_some(&launch.loaded), world);
    let ended = carry_out(&session, &launch, &args.prompt_keys(), &|progress| ui.report(progress));
    ui.close();
    let slots = ended?;
    print_result(&slots, &launch.loaded.journal(world), args.json, &ui)?;
    conclude(&slots, &launch, &session)
}

impl Flags {
    fn launch(&self, launcher: &Launcher<'_>) -> Result<Launch, Failure> {
        // After `--resume`, a word that is not a directory is a run.
        let (dir, run) = match (self.dir.as_deref(), self.resume.run.as_deref()) {
            (Some(name), Some("")) if !name.exists() => (None, Some(name.display().to_string())),
            (dir, run) => (dir, run.map(str::to_owned)),
        };
        let dir = settings::project_dir(dir)?;
        self.check_prompts()?;
        let mut project = settings::project(&dir)?;
        project.overrides = self.overrides();
        Ok(match run {
            Some(name) => launcher.resume(coordinator::Kind::Slots, project, &name)?,
            None => launcher.begin_of(coordinator::Kind::Slots, project)?,
        })
    }

    fn check_prompts(&self) -> Result<(), Failure> {
        let named = [
            ("--developer-prompt", &self.developer_prompt),
            ("--reviewer-prompt", &self.reviewer_prompt),
        ];
        for (flag, path) in named {
            if let Some(path) = path.as_ref().filter(|path| !path.is_empty())
                && !Path::new(path).exists()
            {
                let message = format!("{flag}: no such file: {path}");
                return Err(Failure::usage(message)
                    .hint("write prompts to start from with `autoloop slots prompts --write`"));
            }
        }
        Ok(())
    }

    /// The flags as settings, which are validated and shown like all others.
    fn overrides(&self) -> Overrides {
        let number = |number: &Option<u32>| number.as_ref().map(ToString::to_string);
        // Relative to the current directory, not to the project; an empty path stays empty.
        let path = |path: &Option<String>| {
            let path = path.as_ref()?;
            let absolute = std::path::absolute(path).ok();
            Some(absolute.map_or_else(|| path.clone(), |path| path.display().to_string()))
        };
        let flags = [
            ("reviewEnabled", (self.review || self.no_review).then(|| self.review.to_string())),
            ("reviewMaxFixAttempts", number(&self.review_max_fix_attempts)),
            ("developerPromptPath", path(&self.developer_prompt)),
            ("reviewerPromptPath", path(&self.reviewer_prompt)),
            ("parallelAgents", number(&self.parallel_agents)),
            ("iterations", number(&self.iterations)),
            ("source", self.source.clone()),
            ("isolation", self.isolation.clone()),
            ("stopMarker", self.stop_marker.clone()),
        ];
        let set = flags
            .into_iter()
            .filter_map(|(key, value)| value.map(|value| format!("slots.{key}={value}")));
        let model = model_setting(self.model.as_deref());
        let budget = budget_setting(self.budget.as_deref());
        let overrides = Overrides {
            backend: self.provider.clone(),
            set: self.set.iter().cloned().chain(set).chain(model).chain(budget).collect(),
            unenforced: self.ignore_unenforced.into(),
            ..Overrides::default()
        };
        overrides.typed_in(Path::new("."))
    }

    /// The prompts that this command line names.
    fn prompt_keys(&self) -> Vec<Key> {
        let set = self.overrides().set;
        let keys = set.iter().filter_map(|set| Key::named(set.split('=').next()?.trim()));
        let prompts = [Key::SlotsDeveloperPrompt, Key::SlotsReviewerPrompt];
        keys.filter(|key| prompts.contains(key)).collect()
    }
}

/// Carries a run out to its end, or until it is interrupted.
fn carry_out(
    session: &Session<'_>,
    launch: &Launch,
    prompt_keys: &[Key],
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Slots, Failure> {
    let journal = launch.loaded.journal(session.world);
    let queue = queue(launch, &journal, session.world);
    let site = session.site(launch, &journal, progress);
    let drive = SlotsDriver::open(site, launch, &*queue, prompt_keys)
        .map_err(|error| not_opened(error, launch))?;
    drive.run().map_err(|error| not_finished(error, launch))
}

fn queue<'a>(launch: &Launch, journal: &'a dyn Journal, world: &'a World) -> Box<dyn Queue + 'a> {
    let plan = &launch.loaded.plan.slots;
    match plan.source {
        // A record of the run follows every claim and every close in the same file, and syncs it.
        ItemSource::Builtin => {
            Box::new(Builtin::new(journal, world, Durability::Cached, Builtin::USUAL))
        }
        ItemSource::Beads => {
            let mut words = plan.beads.iter();
            let mut beads = BeadsSettings::new(launch.project.dir.clone());
            if let Some(program) = words.next() {
                beads.program = program.into();
            }
            beads.args = words.map(Into::into).collect();
            Box::new(Beads::new(beads, world))
        }
    }
}

fn print_result(
    slots: &Slots,
    journal: &dyn Journal,
    as_json: bool,
    ui: &ProgressUi<'_>,
) -> Result<(), Failure> {
    let status = slots.status().with_holder(Holder::None);
    let usages = journal.fold::<Usages>()?.view;
    let text = match as_json {
        true => slots.render(status, &usages, Format::Json),
        false => {
            let spent = spent(&slots.times.0, &slots.times.1, usages.total(Some(&slots.id)));
            format!("slots {}: {}{spent}\n", slots.id, slots.summary(status))
        }
    };
    terminal::print(&text)?;
    let is_builtin = slots.start.as_ref().is_some_and(|start| start.source == ItemSource::Builtin);
    if !as_json && is_builtin && !status.is_unfinished() && Tally::of(slots).taken == 0 {
        ui.report(Progress::Note(
            "`autoloop tasks list` shows the queue, and `autoloop tasks add` adds to it",
        ));
    }
    Ok(())
}

/// Exits with 0 only if every claimed item passed.
fn conclude(slots: &Slots, launch: &Launch, session: &Session<'_>) -> Result<(), Failure> {
    if slots.status().is_unfinished() {
        return Err(session.unfinished(launch));
    }
    let (resume, limit) = (resume_command(launch), slots.raised_limit());
    let finish = slots.finish.as_ref();
    if let Some(why) = finish.and_then(|finish| finish.detail.as_ref()) {
        return Err(Failure::failed(format!("run '{}' {}: {why}", slots.id, slots.status()))
            .hint(format!("items that are not done were returned to the queue; allow more with `{resume}{limit}`")));
    }
    let tally = Tally::of(slots);
    if tally.is_success() {
        return Ok(());
    }
    let Tally { taken, passed } = tally;
    let failed = taken - passed;
    let project = project_argument(&launch.project.dir);
    let inspect = format!("autoloop inspect slots{project} --run {}", slots.id);
    Err(Failure::failed(format!("{failed} of {} did not pass", terminal::counted(taken, "item")))
        .hint(format!("`{inspect}` shows why; failed items were returned to the queue"))
        .hint(format!("retry failed items with `{resume}{limit}`")))
}
