//! What a loop goes by: settings and topology, resolved, with no default left open.

mod backend;
mod slots;
mod squad;

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::{AgentKeys, Check, Isolation, JournalConfig, Key, LogLevel, Sandbox, Settings};
use crate::layout::StateDir;
use crate::limits::{Limit, Limits, RunLimits, Scope, Spent, TimeLeft};
use crate::run_id::RunIdFormat;
use crate::step::Rules;
use crate::topology::{Role, Topology};
use crate::wave::Parallel;

pub use backend::{BackendPlan, BadRole};
pub use slots::{PromptPath, SlotsPlan};
pub use squad::SquadPlan;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub completion: Completion,
    pub max_iterations: u64,
    pub limits: RunLimits,
    /// After how many iterations without progress a run has stalled; `None` for never.
    pub stall_iterations: Option<u64>,
    /// Where the objective is.
    pub objective: PromptSource,
    pub backend: BackendPlan,
    /// `None` if metareviews are disabled.
    pub review: Option<ReviewPlan>,
    /// In characters; `None` is no limit.
    pub memory_budget: Option<usize>,
    /// The instructions for every iteration, relative to the directory of the loop.
    pub harness: Option<PathBuf>,
    pub files: Files,
    /// `None` if waves are disabled.
    pub parallel: Option<ParallelPlan>,
    pub slots: SlotsPlan,
    pub squad: SquadPlan,
    pub checks: Vec<Check>,
    pub journal: JournalConfig,
    pub run_id_format: RunIdFormat,
    pub log_level: LogLevel,
    /// The roles with a different agent, by name.
    role_backends: Vec<(String, BackendPlan)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    pub event: String,
    /// The text in an agent's output that completes a run.
    pub promise: Option<String>,
    /// The events that must have been seen before either counts.
    pub required: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptSource {
    Inline(String),
    File(PathBuf),
    None,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewPlan {
    /// The number of iterations between metareviews.
    pub every: NonZeroU64,
    pub backend: BackendPlan,
    pub prompt: PromptSource,
    pub sandbox: Sandbox,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParallelPlan {
    pub max_branches: u64,
    pub branch_timeout: Duration,
    pub isolation: Isolation,
}

/// Relative to the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    pub state_dir: StateDir,
    pub journal: PathBuf,
    pub memory: PathBuf,
}

impl Files {
    pub fn of(settings: &Settings) -> Files {
        let state_dir = StateDir::new(settings.text(Key::StateDir).unwrap_or_default());
        let file = |key, usual| settings.text(key).map_or(usual, PathBuf::from);
        Files {
            journal: file(Key::JournalFile, state_dir.journal()),
            memory: file(Key::MemoryFile, state_dir.memory()),
            state_dir,
        }
    }

    /// The same paths below a project's directory.
    pub fn under(&self, project: &Path) -> Files {
        Files {
            state_dir: StateDir::new(project.join(&self.state_dir)),
            journal: project.join(&self.journal),
            memory: project.join(&self.memory),
        }
    }
}

impl Plan {
    /// Returns every invalid backend setting of a role as an error.
    pub fn resolve(settings: &Settings, topology: &Topology) -> Result<Plan, Vec<BadRole>> {
        let backend = BackendPlan::new(settings, &AgentKeys::LOOP);
        let role_backends = role_backends(settings, &backend, topology)?;
        let limit = settings.number(Key::MemoryBudget);
        Ok(Plan {
            completion: completion(settings, topology),
            max_iterations: count(settings, Key::MaxIterations),
            limits: RunLimits {
                run: limits(settings, Scope::Run),
                iteration: limits(settings, Scope::Iteration),
                slot: limits(settings, Scope::Slot),
                review: limits(settings, Scope::Review),
                earlier: Spent::default(),
            },
            stall_iterations: Some(count(settings, Key::StallIterations)).filter(|most| *most > 0),
            objective: prompt(settings, Key::Prompt, Key::PromptFile),
            review: settings.flag(Key::ReviewEnabled).then(|| review(settings, topology)),
            slots: SlotsPlan::resolve(settings),
            squad: SquadPlan::resolve(settings),
            checks: settings.checks().cloned().collect(),
            backend,
            memory_budget: usize::try_from(limit).ok().filter(|limit| *limit > 0),
            harness: settings.text(Key::HarnessFile).map(PathBuf::from),
            files: Files::of(settings),
            parallel: settings.flag(Key::ParallelEnabled).then(|| ParallelPlan {
                max_branches: count(settings, Key::ParallelBranches),
                branch_timeout: settings.time(Key::ParallelTimeout),
                isolation: settings.word(Key::ParallelIsolation),
            }),
            journal: settings.journal(),
            run_id_format: settings.word(Key::RunIdFormat),
            log_level: settings.word(Key::LogLevel),
            role_backends,
        })
    }

    pub fn backend_for(&self, role: &Role) -> &BackendPlan {
        let own = self.role_backends.iter().find(|(id, _)| *id == role.id);
        own.map_or(&self.backend, |(_, backend)| backend)
    }

    /// What the decisions of a run depend on.
    pub fn rules(&self) -> Rules {
        Rules {
            max_iterations: self.max_iterations,
            stall_iterations: self.stall_iterations,
            completion_event: self.completion.event.clone(),
            required_events: self.completion.required.clone(),
            review_every: self.review.as_ref().map(|review| review.every.get()),
            max_branches: self.parallel.map(|parallel| parallel.max_branches),
        }
    }

    /// The plan of a branch of a wave: one iteration with the timeout of branches, without reviews and waves. The
    /// run that requested the wave keeps its limits for all branches.
    #[must_use]
    pub fn for_branch(mut self, timeout: Duration, left: Option<TimeLeft>) -> Plan {
        self.max_iterations = 1;
        self.review = None;
        self.parallel = None;
        self.limits = RunLimits::default();
        let roles = self.role_backends.iter_mut().map(|(_, backend)| backend);
        for backend in roles.chain([&mut self.backend]) {
            if timeout < backend.timeout {
                backend.timeout = timeout;
                Key::ParallelTimeout.name().clone_into(&mut backend.timeout_key);
            }
            *backend = backend.clone().within(left);
        }
        self
    }

    pub fn waves(&self) -> Parallel {
        match self.parallel {
            Some(_) => Parallel::On { completion_event: self.completion.event.clone() },
            None => Parallel::Off,
        }
    }

    /// Whether a metareview precedes an iteration.
    pub fn review_due(&self, next_iteration: u64) -> bool {
        self.rules().review_due(next_iteration)
    }
}

fn role_backends(
    settings: &Settings,
    backend: &BackendPlan,
    topology: &Topology,
) -> Result<Vec<(String, BackendPlan)>, Vec<BadRole>> {
    let mut backends = Vec::new();
    let mut bad = Vec::new();
    for role in &topology.roles {
        match backend.for_role(settings, role) {
            Ok(own) if own == *backend => {}
            Ok(own) => backends.push((role.id.clone(), own)),
            Err(mistakes) => bad.extend(mistakes),
        }
    }
    if bad.is_empty() { Ok(backends) } else { Err(bad) }
}

/// The limits of a run or a part of one; 0 is no limit.
fn limits(settings: &Settings, scope: Scope) -> Limits {
    let tokens = settings.number(Limit::Tokens.key(scope));
    let limits = Limits {
        cost: Some(settings.cost(Limit::Cost.key(scope))),
        tokens: u64::try_from(tokens).ok(),
        runtime: Some(settings.time(Limit::Runtime.key(scope))),
    };
    Limits {
        cost: limits.cost.filter(|cost| cost.0 > 0),
        tokens: limits.tokens.filter(|tokens| *tokens > 0),
        runtime: limits.runtime.filter(|time| !time.is_zero()),
    }
}

fn completion(settings: &Settings, topology: &Topology) -> Completion {
    let set = settings.text(Key::CompletionEvent).unwrap_or_default();
    let event = topology.completion.as_deref().unwrap_or(set);
    Completion {
        event: event.to_owned(),
        promise: settings.text(Key::CompletionPromise).map(str::to_owned),
        required: settings.list(Key::RequiredEvents).unwrap_or_default().to_vec(),
    }
}

fn review(settings: &Settings, topology: &Topology) -> ReviewPlan {
    let roles = u64::try_from(topology.roles.len()).unwrap_or(u64::MAX);
    let every = NonZeroU64::new(count(settings, Key::ReviewEvery))
        // One review for each full turn of the roles.
        .or_else(|| NonZeroU64::new(roles))
        .unwrap_or(NonZeroU64::MIN);
    ReviewPlan {
        every,
        backend: BackendPlan::new(settings, &AgentKeys::REVIEW),
        prompt: prompt(settings, Key::ReviewPrompt, Key::ReviewPromptFile),
        sandbox: settings.word(Key::ReviewSandbox),
    }
}

fn prompt(settings: &Settings, inline: Key, file: Key) -> PromptSource {
    match (settings.text(inline), settings.text(file)) {
        (Some(text), _) => PromptSource::Inline(text.to_owned()),
        (None, Some(file)) => PromptSource::File(PathBuf::from(file)),
        (None, None) => PromptSource::None,
    }
}

/// A number that the table of keys keeps from being negative.
fn count(settings: &Settings, key: Key) -> u64 {
    settings.number(key).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::Waits;
    use crate::config::Origin;
    use crate::config::{BackendKind, Layer, Leftovers, PromptMode, SyncPolicy};
    use proptest::prelude::*;

    fn settings(text: &str) -> Settings {
        let reading = Settings::resolve(&[Layer::file(Origin::Project, "autoloops.toml", text)]);
        assert_eq!(reading.problems, []);
        reading.settings
    }

    fn plan_of(text: &str, topology: &str) -> Plan {
        Plan::resolve(&settings(text), &Topology::parse(topology).unwrap()).unwrap()
    }

    fn plan(text: &str) -> Plan {
        plan_of(text, "")
    }

    const THREE: &str =
        "completion = 'all.done'\n[[role]]\nid = 'a'\n[[role]]\nid = 'b'\n[[role]]\nid = 'c'";

    #[test]
    fn without_settings_everything_is_as_documented() {
        let plan = plan("");
        assert_eq!(
            plan.completion,
            Completion {
                event: "task.complete".into(),
                promise: Some("LOOP_COMPLETE".into()),
                required: vec![],
            }
        );
        assert_eq!(plan.max_iterations, 3);
        assert_eq!(plan.objective, PromptSource::None);
        let backend = BackendPlan {
            kind: BackendKind::Claude,
            command: "claude".into(),
            args: vec![],
            model: None,
            env: vec![],
            prompt_mode: PromptMode::Stdin,
            output: None,
            timeout: Duration::from_secs(1800),
            timeout_key: "backend.timeout_ms".into(),
            grace: Duration::from_secs(5),
            leftovers: Leftovers::Kill,
            output_cap: 256_000_000,
            waits: Waits { first: Duration::from_secs(15), most: Duration::from_secs(6 * 3600) },
            time_left: None,
        };
        assert_eq!(plan.backend, backend);
        let review = plan.review.unwrap();
        assert_eq!(review.every.get(), 1);
        let (timeout, timeout_key) = (Duration::from_secs(300), "review.timeout_ms".into());
        assert_eq!(review.backend, BackendPlan { timeout, timeout_key, ..backend.clone() });
        assert_eq!(review.prompt, PromptSource::File("metareview.md".into()));
        assert_eq!(review.sandbox, Sandbox::Auto);
        assert_eq!(plan.memory_budget, Some(8_000));
        assert_eq!(plan.harness, Some("harness.md".into()));
        assert_eq!(plan.parallel, None);
        assert_eq!(plan.journal.sync, SyncPolicy::Always);
        assert_eq!(plan.journal.lock_timeout, Duration::from_secs(30));
        assert_eq!(plan.run_id_format, RunIdFormat::Human);
        assert_eq!(plan.log_level, LogLevel::Info);
        let files = plan.files.under(Path::new("/p"));
        assert_eq!(*files.state_dir, *Path::new("/p/.autoloop"));
        assert_eq!(files.journal, Path::new("/p/.autoloop/journal.jsonl"));
        assert_eq!(files.memory, Path::new("/p/.autoloop/memory.jsonl"));
        assert_eq!(files.state_dir.tool(), Path::new("/p/.autoloop/autoloops"));
    }

    #[test]
    fn the_completing_event_is_that_of_the_topology_then_the_configured_one() {
        let event = |text, topology| plan_of(text, topology).completion.event;
        assert_eq!(event("", ""), "task.complete");
        assert_eq!(event("", THREE), "all.done");
        assert_eq!(event("event_loop.completion_event = 'mine'", ""), "mine");
        assert_eq!(event("event_loop.completion_event = 'mine'", THREE), "all.done");
    }

    #[test]
    fn a_blank_promise_is_none() {
        assert_eq!(plan("event_loop.completion_promise = ''").completion.promise, None);
    }

    #[test]
    fn reviews_come_once_a_turn_unless_told_otherwise() {
        let due = |text, topology| {
            let plan = plan_of(text, topology);
            (0..=8).filter(|next| plan.review_due(*next)).collect::<Vec<_>>()
        };
        assert_eq!(due("", ""), [2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(due("", THREE), [4, 7]);
        assert_eq!(due("review.every_iterations = 0", THREE), [4, 7]);
        assert_eq!(due("review.every_iterations = 2", THREE), [3, 5, 7]);
        assert_eq!(due("review.every_iterations = 1", THREE), [2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(due("review.enabled = 'no'", THREE), [0; 0]);
    }

    #[test]
    fn a_prompt_in_the_settings_comes_before_one_in_a_file() {
        let plan = plan("event_loop = { prompt = 'a', prompt_file = 'b' }\nreview.prompt = 'c'");
        assert_eq!(plan.objective, PromptSource::Inline("a".into()));
        assert_eq!(plan.review.unwrap().prompt, PromptSource::Inline("c".into()));
        let off = super::tests::plan("review.prompt_file = ''\nharness.instructions_file = ' '");
        assert_eq!(off.review.unwrap().prompt, PromptSource::None);
        assert_eq!(off.harness, None);
    }

    #[test]
    fn files_follow_the_state_dir_unless_named() {
        let files = plan("core = { state_dir = 'state', memory_file = '/m' }").files;
        let files = files.under(Path::new("/p"));
        assert_eq!(files.journal, Path::new("/p/state/journal.jsonl"));
        assert_eq!(files.memory, Path::new("/m"));
    }

    #[test]
    fn a_budget_of_nothing_is_no_limit() {
        for (text, budget) in [("0", None), ("-1", None), ("1", Some(1)), ("8000", Some(8_000))] {
            let text = format!("memory.prompt_budget_chars = {text}");
            assert_eq!(plan(&text).memory_budget, budget, "{text}");
        }
    }

    proptest! {
        #[test]
        fn reviews_fall_exactly_on_the_formula(every in 1..20_u64, next in 0..200_u64) {
            let plan = plan(&format!("review.every_iterations = {every}"));
            prop_assert_eq!(plan.review_due(next), next > 1 && (next - 1) % every == 0);
        }
    }
}
