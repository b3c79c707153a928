//! Chains: `chains.toml`, and the steps of a chain as runs that begin or are resumed.

use std::path::Path;

use autoloop_core::chain::{Budget, Chain, Definitions, StepDefinition};
use autoloop_core::config::{LONGEST, Problem, Severity};
use autoloop_core::coordinator::Kind;
use autoloop_core::record::ChainStart;
use autoloop_core::run_id::RunId;
use autoloop_core::suggest::suggest;

use super::request::KeptRequest;
use super::{Launch, Launcher, Opening, RunRequest, claim_id, find_resumable};
use crate::error::{DriveError, LaunchError};
use crate::project::{LoadError, Overrides, Project, Sources, Text, read_text};
use crate::runs;
use crate::world::World;

/// Reads the chains of a project, with warnings about unknown keys. Without a file there are none.
pub fn read_chains(dir: &Path, world: &World) -> Result<(Definitions, Vec<Problem>), LoadError> {
    let path = dir.join("chains.toml");
    let text = read_text(&*world.disk, &path, LONGEST as u64);
    let text = text.map_err(|why| LoadError::Unreadable { path: path.clone(), why })?;
    let text = text.unwrap_or_default().into();
    let file = Text { name: path.display().to_string(), text };
    match Definitions::read(&file.text) {
        Ok((definitions, mut unknown)) => {
            // A limit of a run is no limit here, whatever it is called.
            unknown.iter_mut().for_each(|key| key.is_unenforced = false);
            Ok((definitions, file.unknown(unknown).collect()))
        }
        Err(bad) => {
            let message = bad.to_string();
            let error = file.problem(Severity::Error, bad.span, message, String::new());
            Err(LoadError::Problems(vec![error]))
        }
    }
}

/// The limits in the `chains.toml` of a project; a file that cannot be used changes none of the defaults.
pub fn chain_limits(dir: &Path, world: &World) -> Budget {
    read_chains(dir, world).map(|(chains, _)| chains.budget).unwrap_or_default()
}

/// The steps of a chain of `chains.toml`, with those of the chains in it.
pub fn chain_named(
    definitions: &Definitions,
    name: &str,
    dir: &Path,
) -> Result<Vec<StepDefinition>, LaunchError> {
    let Some(chain) = definitions.named(name) else {
        let names = definitions.chains.iter().map(|chain| chain.name.as_str());
        return Err(LaunchError::UnknownChain {
            name: name.to_owned(),
            file: dir.join("chains.toml"),
            meant: suggest(name, names).map(str::to_owned),
        });
    };
    Ok(definitions.expand(&chain.name, &chain.steps)?)
}

#[derive(Debug)]
pub struct ChainLaunch {
    pub launch: Launch,
    pub start: ChainStart,
    pub steps: Vec<StepDefinition>,
}

impl ChainLaunch {
    /// Keeps the request for a resume. The flags are those of the command that resumes the chain.
    pub(crate) fn keep_request(&self, world: &World) -> Result<(), DriveError> {
        let request = KeptRequest {
            objective: self.start.objective.clone(),
            preset: Some(self.start.name.clone()),
            steps: Some(self.start.steps.clone()),
            ..KeptRequest::default()
        };
        request.keep(&self.launch.place(world))
    }
}

impl Launcher<'_> {
    /// Prepares a chain: one of `chains.toml`, or one that is named by the list of its steps. The project has the flags
    /// of all steps. They are checked, and need an objective.
    pub fn begin_chain(
        &self,
        name: &str,
        project: Project,
        objective: Option<String>,
        steps: Vec<StepDefinition>,
    ) -> Result<ChainLaunch, DriveError> {
        let sources = Sources::new(&*self.world.disk);
        self.check_agents(&project, &steps, &sources)?;
        check_steps(&project, &steps, |step| {
            let step = RunRequest { objective: objective.clone(), ..step };
            Ok(step.require_objective(&step.preview(&sources)?)?)
        })?;
        let outline = project.outline(&sources)?;
        let id = claim_id(&outline, Kind::Chain, self.world)?;
        let start = chain_start(name.to_owned(), names(&steps), objective);
        let launch = Launch::new(Kind::Chain, id, Opening::Begin, project, outline);
        Ok(ChainLaunch { launch, start, steps })
    }

    /// Prepares to resume a chain. An empty name means the latest that can be resumed. The settings that
    /// `chains.toml` contains for its steps apply as they are now.
    pub fn resume_chain(
        &self,
        project: Project,
        name: &str,
        definitions: &Definitions,
    ) -> Result<ChainLaunch, DriveError> {
        let sources = Sources::new(&*self.world.disk);
        let outline = project.outline(&sources)?;
        let journal = outline.journal(self.world);
        let site = self.site(&outline, &journal);
        let (id, mut notes) = find_resumable(&site, Kind::Chain, name)?;
        let start = match runs::state::<Chain>(&site, id.as_str())? {
            Some(chain) if chain.start.is_none() => {
                let dir = outline.files.state_dir.run(Kind::Chain, &id);
                let (request, note) = self.kept_request(Kind::Chain, &dir, &id)?;
                notes.extend(note);
                let steps = request.steps.unwrap_or_default();
                chain_start(request.preset.unwrap_or_default(), steps, request.objective)
            }
            Some(Chain { start: Some(ChainStart { parent_id: Some(parent), .. }), .. }) => {
                return Err(LaunchError::PartOfRun { chain: id.to_string(), parent }.into());
            }
            Some(chain) if chain.status().can_resume() => chain.start.unwrap_or_default(),
            _ => {
                return Err(LaunchError::Completed { kind: Kind::Chain, id: id.to_string() }.into());
            }
        };
        let steps = recorded_steps(&id, &start, definitions)?;
        self.check_agents(&project, &steps, &sources)?;
        let launch = Launch::new(Kind::Chain, id, Opening::Resume, project, outline);
        Ok(ChainLaunch { launch: Launch { notes, ..launch }, start, steps })
    }

    fn check_agents(
        &self,
        project: &Project,
        steps: &[StepDefinition],
        sources: &Sources<'_>,
    ) -> Result<(), DriveError> {
        check_steps(project, steps, |step| {
            let preview = step.preview(sources)?;
            Ok(super::agents::check(&preview, &step.project.dir, self.world)?)
        })
    }
}

fn chain_start(name: String, steps: String, objective: Option<String>) -> ChainStart {
    let step_count = steps.split(',').count() as u64;
    ChainStart { name, steps, step_count, objective, parent_id: None }
}

fn names(steps: &[StepDefinition]) -> String {
    steps.iter().map(|step| step.preset.as_str()).collect::<Vec<_>>().join(",")
}

fn recorded_steps(
    id: &RunId,
    start: &ChainStart,
    definitions: &Definitions,
) -> Result<Vec<StepDefinition>, LaunchError> {
    let steps = match definitions.named(&start.name) {
        Some(known) => definitions.expand(&known.name, &known.steps)?,
        None => definitions.listed(&start.steps)?,
    };
    match names(&steps) {
        now if now == start.steps => Ok(steps),
        now => {
            let (chain, recorded) = (id.to_string(), start.steps.clone());
            Err(LaunchError::StepsChanged { chain, recorded, now })
        }
    }
}

/// Applies a check to each step; an error names the step.
fn check_steps(
    project: &Project,
    steps: &[StepDefinition],
    check: impl Fn(RunRequest) -> Result<(), DriveError>,
) -> Result<(), DriveError> {
    for (step, number) in steps.iter().zip(1..) {
        let checked = step_request(project, step).map_err(DriveError::from).and_then(&check);
        checked.map_err(|error| DriveError::Step { number, source: Box::new(error) })?;
    }
    Ok(())
}

/// The run of a step, in the project and with the flags of its chain.
fn step_request(project: &Project, step: &StepDefinition) -> Result<RunRequest, LaunchError> {
    let Project { dir, env, overrides, .. } = project;
    let mut request = RunRequest::named(&step.preset, dir, dir, env)?;
    request.project.env = env.clone();
    request.project.overrides = step_overrides(overrides, step);
    Ok(request)
}

/// The flags of the command line take precedence over the agent of the step.
fn step_overrides(flags: &Overrides, step: &StepDefinition) -> Overrides {
    let mut overrides = flags.clone();
    if overrides.backend.is_none() {
        overrides.backend.clone_from(&step.backend);
        overrides.set.splice(0..0, step.settings.iter().cloned());
    }
    overrides
}

#[derive(Clone, Copy, Debug)]
pub struct ChainStep<'s> {
    pub chain: &'s str,
    pub number: u64,
    pub definition: &'s StepDefinition,
    pub objective: Option<&'s str>,
    /// The project of the chain, or of the run that requested it, with its flags.
    pub project: &'s Project,
}

/// Prepares the runs of the steps of chains. A simulation prepares them without presets and directories.
pub trait StepLauncher {
    /// The chains of the project and the limits of any, as `chains.toml` is now.
    fn definitions(&self, project: &Project) -> Result<Definitions, LoadError>;

    fn check(&self, project: &Project, steps: &[StepDefinition]) -> Result<(), DriveError>;

    fn begin(&self, step: ChainStep<'_>) -> Result<Launch, DriveError>;

    fn resume(&self, step: ChainStep<'_>, run: &str) -> Result<Launch, DriveError>;
}

impl StepLauncher for Launcher<'_> {
    fn definitions(&self, project: &Project) -> Result<Definitions, LoadError> {
        let (definitions, _) = read_chains(&project.dir, self.world)?;
        Ok(Definitions { budget: definitions.budget.within(self.limits), ..definitions })
    }

    fn check(&self, project: &Project, steps: &[StepDefinition]) -> Result<(), DriveError> {
        self.check_agents(project, steps, &Sources::new(&*self.world.disk))
    }

    fn begin(&self, step: ChainStep<'_>) -> Result<Launch, DriveError> {
        let request = step_request(step.project, step.definition)?;
        let objective = step.objective.map(str::to_owned);
        Launcher::begin(self, RunRequest { objective, ..request })
    }

    fn resume(&self, step: ChainStep<'_>, run: &str) -> Result<Launch, DriveError> {
        let Project { dir, env, overrides, .. } = step.project;
        let mut project = RunRequest::of_loop(dir, dir)?.project;
        project.env = env.clone();
        project.overrides = step_overrides(overrides, step.definition);
        Launcher::resume(self, Kind::Loop, project, run)
    }
}
