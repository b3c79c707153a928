//! `autoloop slots` itself: a run over a queue, begun or taken up again.

use std::fs;
use std::path::{Path, PathBuf};

use autoloop_core::config::{Config, Isolation, ItemSource, Key};
use autoloop_core::coordinator::{self, Status};
use autoloop_core::run_id::RunId;
use autoloop_core::slot::{Slots, Tally};
use autoloop_runtime::drive::{DriveError, Request, SlotDrive};
use autoloop_runtime::journal::{Durability, Journal};
use autoloop_runtime::process::{Interrupts, sweep};
use autoloop_runtime::project::{Loaded, Outline, Overrides, Project};
use autoloop_runtime::queue::{Beads, BeadsSettings, Builtin, Queue};
use autoloop_runtime::runs::{self, RunList};
use autoloop_runtime::site::{Progress, Site, Trust};
use autoloop_runtime::world::{CRASH_GRACE, World};
use clap::builder::PossibleValuesParser;

use super::progress_ui::Audience;
use super::report;
use crate::commands::resume;
use crate::commands::run::resolve_args::existing;
use crate::commands::run::{
    WRITABLE, claim_slots_id, drive_failure, install_tool, listen, warn_of_others,
};
use crate::commands::settings;
use crate::commands::trust::{ResumedRun, TrustArgs, kept_request};
use crate::diagnostic;
use crate::failure::{Failure, Kind};
use crate::tui;

#[derive(Debug, clap::Args)]
pub(super) struct Flags {
    /// The project [default: the current one].
    dir: Option<PathBuf>,
    /// Have the work reviewed, in place of `slots.reviewEnabled`.
    #[arg(long, overrides_with = "no_review")]
    review: bool,
    /// Do not have it reviewed.
    #[arg(long, overrides_with = "review")]
    no_review: bool,
    /// How often work may be fixed after a review [default: 5].
    #[arg(long, value_name = "N")]
    review_max_fix_attempts: Option<u32>,
    /// A file that tells implementers and fixers what to do [default: `.ai_agents/prompts/developer.md`
    /// or `.ai_agents/prompt.md`, from here up to the top of the repository; then
    /// `prompts/developer.md` beside your own settings; then a built-in one].
    #[arg(long, value_name = "PATH")]
    developer_prompt: Option<String>,
    /// A file that tells reviewers what to do, found like the one for developers; an empty path means
    /// that there is none, and then nothing is reviewed.
    #[arg(long, value_name = "PATH")]
    reviewer_prompt: Option<String>,
    /// How many slots work at once [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    parallel_agents: Option<u32>,
    /// The most iterations; 0 is until nothing is left to take [default: 0].
    #[arg(short = 'i', long, value_name = "N")]
    iterations: Option<u32>,
    /// Where items come from [default: builtin].
    #[arg(long, value_name = "SOURCE", value_parser = PossibleValuesParser::new(ItemSource::WORDS))]
    source: Option<String>,
    /// Where slots work: all in the project, or each in a git working tree of its own [default:
    /// worktree with more than one slot, shared with one].
    #[arg(long, value_name = "WHERE", value_parser = PossibleValuesParser::new(Isolation::WORDS))]
    isolation: Option<String>,
    /// The agent that implements and fixes, and reviews where `slots.reviewer` names no other: a
    /// command with its arguments, in place of `backend.command`.
    #[arg(long, short, visible_alias = "backend", value_name = "COMMAND")]
    provider: Option<String>,
    /// The text in an implementer's or fixer's output after which no further iteration begins
    /// [default: no_beads_available].
    #[arg(long, value_name = "TEXT")]
    stop_marker: Option<String>,
    /// Any setting, as `key=value`. Can be given more than once.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Continue although this version does not enforce a setting that limits the run
    #[arg(long)]
    ignore_unenforced: bool,
    /// Do not warn about other active runs in the same directory
    #[arg(long)]
    allow_concurrent: bool,
    /// Resume RUN, or the latest run that did not complete, with its original flags but for those given
    /// now; failed items are retried, and what was implemented, reviewed and fixed is not repeated.
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "", require_equals = true)]
    resume: Option<String>,
    #[command(flatten)]
    trust: TrustArgs,
    /// Tell on a terminal what goes on a line at a time, without the live view.
    #[arg(long)]
    no_watch: bool,
    /// Print how the run ended as JSON.
    #[arg(long)]
    json: bool,
}

impl Flags {
    /// The project, and the run that is to go on, which is empty for the latest one. A name behind
    /// `--resume` that no directory has is that of a run.
    fn place(&self) -> (Option<&Path>, Option<String>) {
        match (self.dir.as_deref(), self.resume.as_deref()) {
            (Some(name), Some("")) if !name.exists() => (None, Some(name.display().to_string())),
            (dir, resume) => (dir, resume.map(str::to_owned)),
        }
    }

    /// Looks whether the prompts are there that were named.
    fn check(&self) -> Result<(), Failure> {
        let named = [
            ("--developer-prompt", &self.developer_prompt),
            ("--reviewer-prompt", &self.reviewer_prompt),
        ];
        for (flag, path) in named {
            if let Some(path) = path.as_ref().filter(|path| !path.is_empty())
                && !Path::new(path).exists()
            {
                let message = format!("{flag} names {path}, and there is no such file");
                return Err(Failure::usage(message).hint(
                    "`autoloop slots prompts --write` puts prompts into the project to begin with",
                ));
            }
        }
        Ok(())
    }

    /// What was said, as settings: they are looked up, checked and shown like all others.
    fn overrides(&self) -> Overrides {
        let mut set = self.set.clone();
        let mut say = |key: &str, value: String| set.push(format!("slots.{key}={value}"));
        if self.review || self.no_review {
            say("reviewEnabled", self.review.to_string());
        }
        let number = |number: &Option<u32>| number.as_ref().map(ToString::to_string);
        // From where the person is, not from where the project is; an empty one stays empty.
        let path = |path: &Option<String>| {
            let path = path.as_ref()?;
            let absolute = std::path::absolute(path).ok();
            Some(absolute.map_or_else(|| path.clone(), |path| path.display().to_string()))
        };
        let said = [
            ("reviewMaxFixAttempts", number(&self.review_max_fix_attempts)),
            ("developerPromptPath", path(&self.developer_prompt)),
            ("reviewerPromptPath", path(&self.reviewer_prompt)),
            ("parallelAgents", number(&self.parallel_agents)),
            ("iterations", number(&self.iterations)),
            ("source", self.source.clone()),
            ("isolation", self.isolation.clone()),
            ("stopMarker", self.stop_marker.clone()),
        ];
        for (key, value) in said {
            value.into_iter().for_each(|value| say(key, value));
        }
        let said = Overrides {
            backend: self.provider.clone(),
            set,
            unenforced: self.ignore_unenforced.into(),
            ..Overrides::default()
        };
        said.typed_in(Path::new("."))
    }
}

const SLOTS: coordinator::Kind = coordinator::Kind::Slots;

/// Said where a run cannot go on before something else is mended.
const GOES_ON: &str = "then `autoloop slots --resume` goes on with the run";

/// How a run is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// A line at a time.
    Lines,
    /// In the live view.
    View,
}

/// Which run it is.
enum Which {
    New(RunId),
    Old(RunId),
}

pub(super) fn run(args: &Flags, world: &World) -> Result<(), Failure> {
    let (named, resume) = args.place();
    let dir = match named {
        Some(dir) => existing(dir)?,
        None => existing(&settings::default_project()?)?,
    };
    args.check()?;
    let mut project = settings::project(&dir).map_err(diagnostic::refuse)?;
    project.overrides = args.overrides();
    let named_now = prompts_named(&project.overrides);
    let outline = project.outline(&*world.disk).map_err(diagnostic::refuse)?;
    let which = match resume {
        Some(name) => {
            let trust = args.trust.trust();
            let run = run_to_resume(&outline, &name, (world, trust))?;
            let run: RunId = run.parse()?;
            let dir = outline.files.state_dir.run(SLOTS, &run);
            let resumed = ResumedRun { dir: &dir, run: run.as_str(), command: "slots", trust };
            project.overrides = project.overrides.above(kept_request(resumed, world)?.overrides);
            Which::Old(run)
        }
        None => Which::New(claim_slots_id(&outline, world)?),
    };
    if !args.allow_concurrent {
        let resumed = match &which {
            Which::Old(run) => Some(run),
            Which::New(_) => None,
        };
        warn_of_others(&outline.files, resumed, world);
    }
    let interrupts = listen()?;
    let wants_view = !args.no_watch && !args.json && tui::is_possible();
    let manner = if wants_view { Manner::View } else { Manner::Lines };
    let trust = args.trust.trust();
    let ended = carry_out((&project, manner), (&which, trust), (world, &interrupts), named_now)
        .inspect_err(|_| {
            if let Which::New(id) = &which {
                // A run that could not begin leaves nothing behind; one that did has a lock there.
                let dir = outline.files.state_dir.run(SLOTS, id);
                if !dir.lock().exists() {
                    let _ = fs::remove_dir_all(dir);
                }
            }
        })?;
    report::conclude(&ended, args.json, &interrupts)?;
    verdict(&ended, named.unwrap_or(Path::new(".")), &interrupts)
}

/// Carries a run out to its end, or until it is interrupted.
fn carry_out(
    (project, manner): (&Project, Manner),
    (which, trust): (&Which, Trust),
    (world, interrupts): (&World, &Interrupts),
    named_now: Vec<Key>,
) -> Result<Slots, Failure> {
    let loaded = project.load(&*world.disk).map_err(diagnostic::refuse)?;
    diagnostic::show(&loaded.warnings);
    // What a harness that was killed left running must not work in the trees of the run that goes on.
    let _ = sweep(&loaded.files.state_dir.shims(), CRASH_GRACE);
    let program = std::env::current_exe()
        .map_err(|error| Failure::failed(format!("cannot find this program: {error}")))?;
    install_tool(&loaded.files, &project.dir, &program)?;
    let config = Config::from(&loaded.settings);
    let journal = settings::journal(loaded.files.journal.clone(), world, &config);
    let queue = queue(&loaded, &*journal, (project, world));
    let to_view = || settings::journal(loaded.files.journal.clone(), world, &config);
    let audience = Audience::new(&loaded.files, world, (manner == Manner::View).then(to_view));
    let tell = |progress: Progress<'_>| audience.tell(progress);
    let site = Site {
        interrupts: interrupts.clone(),
        program: &program,
        trust,
        progress: &tell,
        ..Site::new(world, &*journal, &loaded.files.state_dir)
    };
    let read = loaded.clone();
    let (drive, run) = match which {
        Which::New(id) => (SlotDrive::begin(site, project, read, &*queue, id), id),
        Which::Old(id) => (SlotDrive::resume(site, project, read, &*queue, id, &named_now), id),
    };
    let drive = drive.map_err(failure)?;
    let request = Request { overrides: project.overrides.clone(), ..Request::default() };
    let dir = loaded.files.state_dir.run(SLOTS, run);
    request.keep(&dir, run.as_str(), world).map_err(|error| failure(error).hint(WRITABLE))?;
    let ended = drive.run();
    audience.leave();
    ended.map_err(|error| match error {
        DriveError::NoAgent { .. } => failure(error).hint(GOES_ON),
        error => failure(error),
    })
}

/// The prompts that are named on this command line.
fn prompts_named(overrides: &Overrides) -> Vec<Key> {
    let keys = overrides.set.iter().filter_map(|set| Key::named(set.split('=').next()?.trim()));
    let prompts = [Key::SlotsDeveloperPrompt, Key::SlotsReviewerPrompt];
    keys.filter(|key| prompts.contains(key)).collect()
}

/// Where items come from.
fn queue<'a>(
    loaded: &Loaded,
    journal: &'a dyn Journal,
    (project, world): (&Project, &'a World),
) -> Box<dyn Queue + 'a> {
    let plan = &loaded.plan.slots;
    match plan.source {
        ItemSource::Builtin => {
            // A record of the run follows every claim and every close, in the same file, and brings
            // it to the disk.
            Box::new(Builtin::new(journal, world, (Durability::Cached, Builtin::USUAL)))
        }
        ItemSource::Beads => {
            let mut words = plan.beads.iter();
            let mut beads = BeadsSettings::new(project.dir.clone());
            if let Some(program) = words.next() {
                beads.program = program.into();
            }
            beads.args = words.map(Into::into).collect();
            Box::new(Beads::new(beads, world))
        }
    }
}

/// The run that is to go on.
fn run_to_resume(
    outline: &Outline,
    name: &str,
    (world, trust): (&World, Trust),
) -> Result<String, Failure> {
    let journal = settings::journal(outline.files.journal.clone(), world, &outline.config);
    let state_dir = &outline.files.state_dir;
    let list = RunList::read(&*journal, state_dir, world)?;
    let site = Site { trust, ..Site::new(world, &*journal, state_dir) };
    let id = match name {
        "" => {
            let latest = runs::latest_resumable(&site, SLOTS);
            resume::latest(latest.map_err(failure)?, (&list, SLOTS), journal.path())?
        }
        name => resume::named(&list, name, SLOTS)?,
    };
    match runs::state::<Slots>(&site, &id).map_err(failure)? {
        Some(run) if run.status().can_resume() || run.start.is_none() => Ok(id),
        _ => Err(resume::completed(SLOTS, &id)),
    }
}

/// The exit code tells the truth: 0 only when every item that was taken passed.
fn verdict(slots: &Slots, dir: &Path, interrupts: &Interrupts) -> Result<(), Failure> {
    let project = match dir == Path::new(".") {
        true => String::new(),
        false => format!("{} ", dir.display()),
    };
    let resume = resume::command_of(SLOTS, &slots.id, dir);
    match (slots.status() == Status::Running, interrupts.first()) {
        (true, Some(signal)) => {
            let signal = u8::try_from(signal).unwrap_or(u8::MAX);
            let message = format!("run '{}' was interrupted", slots.id);
            Err(Failure::new(Kind::Interrupted(signal), message)
                .hint(format!("resume it with `{resume}`")))
        }
        (true, None) => Err(Failure::failed(format!("run '{}' did not end", slots.id))
            .hint(format!("resume it with `{resume}`"))),
        (false, _) => {
            let tally = Tally::of(slots);
            if tally.is_well() {
                return Ok(());
            }
            let Tally { taken, passed } = tally;
            let failed = taken - passed;
            let items = if taken == 1 { "item" } else { "items" };
            let limit = slots.raised_limit();
            Err(Failure::failed(format!("{failed} of {taken} {items} did not pass"))
                .hint(format!(
                    "`autoloop inspect slots {project}--run {}` shows why; failed items were returned to the queue",
                    slots.id
                ))
                .hint(format!("retry failed items with `{resume}{limit}`")))
        }
    }
}

fn failure(error: DriveError) -> Failure {
    match error {
        DriveError::NoWorktrees(_) => Failure::usage(error.to_string())
            .hint("`--isolation shared` lets all slots work in the project"),
        DriveError::OtherSource { ref began, .. } => {
            Failure::usage(error.to_string()).hint(format!(
                "`--source {}` goes on with it; `autoloop slots` begins another run",
                began.to_string().escape_debug()
            ))
        }
        DriveError::Sandbox(_) => Failure::usage(error.to_string())
            .hint("set review.sandbox = \"auto\", which puts back what a reviewer changed"),
        DriveError::Append(error) => Failure::from(error).hint(GOES_ON),
        ref full if full.is_full_disk() => Failure::failed(full.to_string())
            .hint("make room, then `autoloop slots --resume` goes on where it was"),
        DriveError::Git(_) | DriveError::Write { .. } => Failure::failed(error.to_string())
            .hint("see to it, then `autoloop slots --resume` goes on with the run"),
        DriveError::Queue(error) => {
            Failure::from(error).hint("`autoloop slots --resume` goes on with the run")
        }
        error => drive_failure(error),
    }
}
