//! One iteration: the agent acts, and what it did is put on record and checked.

use std::path::Path;

use autoloop_core::agents::Stream;
use autoloop_core::env::Env;
use autoloop_core::failure::TurnFailure;
use autoloop_core::memory::{Block, Places};
use autoloop_core::plan::BackendPlan;
use autoloop_core::prompt::iteration::{IterationOrder, render};
use autoloop_core::prompt::{Budgets, LoopContext, RoleText, Routing, Tools};
use autoloop_core::provenance::FORGED;
use autoloop_core::record::{
    BackendFinish, BackendStart, BackendUsage, ChainSpawned, EventInvalid, Heading,
    IterationFinish, IterationStart, Seconds, WaveInvalid,
};
use autoloop_core::routing::{Admission, InvalidEvent, Refusal, admit};
use autoloop_core::step::{Order, Remark, remark};
use autoloop_core::topic::Topic;
use autoloop_core::topology::Route;
use autoloop_core::wave::{DISABLED, Parallel, refused as refused_wave};

use super::{Drive, DriveError, Foreign, Progress};
use crate::harness::create_dirs;
use crate::journal::{FileSettings, NewRecord, Spooled};
use crate::memory::MemoryFile;
use crate::turn::{Launch, Place, Turn, failure, millis, notes, said, tail, usage};
use crate::world::{Ending, Finished};

/// How many characters of earlier outputs a prompt carries.
const SCRATCHPAD_BUDGET: usize = 24_000;
/// Readers of the journal are shown an output whole up to this many bytes, whatever is in it.
const LONG_OUTPUT: u64 = 64 * 1024;

/// What the agent of a loop is started for.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoopTurn<'t> {
    /// The iteration, or the one that a review comes before.
    pub(super) iteration: u64,
    pub(super) recent_event: &'t str,
    /// The roles that should act, and the events that they may emit.
    pub(super) route: &'t Route,
    /// Which sort of review it is; empty in an iteration.
    pub(super) review: &'t str,
    pub(super) prompt: &'t str,
}

impl Drive<'_> {
    /// Lets the agent act once.
    pub(super) fn iterate(&mut self, order: &Order) -> Result<(), DriveError> {
        self.site.report(Progress::Iteration {
            number: order.iteration,
            of: self.loaded.plan.max_iterations,
            roles: &order.route.roles,
            event: &order.recent_event,
        });
        let backend = self.backend(&order.route);
        let prompt = render(&self.iteration_order(order)?);
        let turn = LoopTurn {
            iteration: order.iteration,
            recent_event: &order.recent_event,
            route: &order.route,
            review: "",
            prompt: &prompt,
        };
        let launch = self.launch(&backend, &turn)?;
        let start = IterationStart {
            recent_event: order.recent_event.clone(),
            suggested_roles: order.route.roles.join(","),
            allowed_events: order.route.events.join(","),
            backpressure: backpressure(order).unwrap_or_default(),
            prompt: prompt.as_str().into(),
        };
        let backend_start = BackendStart {
            backend_kind: backend.kind.into(),
            command: backend.command.clone(),
            prompt_mode: launch.prompt_mode(),
            timeout_ms: millis(backend.timeout),
            prompt_detour: launch.delivery.fallback.map(|why| why.to_string()),
        };
        let heading = self.harness.heading(order.iteration, self.site.world.clock.now());
        self.harness.append(self.durability(), |_| {
            vec![start.record(&heading).into(), backend_start.record(&heading).into()]
        })?;

        let ended = launch.run(self.site.world, &self.site.interrupts);
        let (output, finished) = (ended.long_output(self.site.world), ended.finished);
        let end = TurnEnd::new(&finished, failure(&finished, &backend).as_ref(), output);
        self.record_end(order, &finished, &end)
    }

    /// Prepares a turn of this run: an iteration, or a review before one.
    pub(super) fn launch(
        &self,
        backend: &BackendPlan,
        turn: &LoopTurn<'_>,
    ) -> Result<Launch, DriveError> {
        create_dirs(&self.dir, self.site.world)?;
        let (name, stream) = match turn.review {
            "" => ("iteration", "stream"),
            review => (review, "review"),
        };
        let turn = Turn {
            backend,
            prompt: turn.prompt,
            dir: &self.dir,
            name: format!("{name}-{}", turn.iteration),
            stdout: match backend.stream() {
                Stream::Plain => None,
                client => Some(format!("{client}-{stream}.{}.jsonl", turn.iteration)),
            },
            place: match self.own_tree() {
                Some(tree) => {
                    Place::Worktree { dir: Path::new(&tree.dir), project: &self.project.dir }
                }
                None => Place::Project(&self.project.dir),
            },
            env: self.environment(turn),
            look_for: self.loaded.plan.completion.promise.as_deref(),
        };
        Ok(turn.prepare(self.site.program, &self.loaded.files.state_dir, self.site.world)?)
    }

    fn environment(&self, turn: &LoopTurn<'_>) -> Env {
        let plan = &self.loaded.plan;
        let files = &self.loaded.files;
        let offers_waves = plan.parallel.is_some() && turn.review.is_empty();
        Env {
            run_id: Some(self.harness.run().id.clone()),
            iteration: Some(turn.iteration.to_string()),
            project_dir: Some(self.project.dir.clone()),
            state_dir: Some(files.state_dir.to_path_buf()),
            journal_file: Some(files.journal.clone()),
            memory_file: self.memory_places().run,
            bin: Some(files.state_dir.tool()),
            recent_event: Some(turn.recent_event.to_owned()),
            allowed_roles: turn.route.roles.clone(),
            allowed_events: turn.route.events.clone(),
            required_events: plan.completion.required.clone(),
            completion_event: Some(plan.completion.event.clone()),
            completion_promise: plan.completion.promise.clone(),
            log_level: Some(plan.log_level.to_string()),
            review_mode: Some(turn.review.to_owned()),
            parallel: offers_waves.then(|| "on".to_owned()),
            ..Env::default()
        }
    }

    /// Puts on record how the iteration ended, together with what was not allowed in it.
    fn record_end(
        &mut self,
        order: &Order,
        finished: &Finished,
        end: &TurnEnd,
    ) -> Result<(), DriveError> {
        let heading = self.harness.heading(order.iteration, self.site.world.clock.now());
        let parallel = self.loaded.plan.waves();
        self.output_tail = tail(&said(finished));
        self.harness.append(self.durability(), |foreign| {
            let allowed = (&order.route, &parallel);
            let events = invalid_events(&order.recent_event, allowed, foreign);
            let waves = invalid_waves(&order.recent_event, allowed, foreign);
            let events = events.iter().map(|invalid| invalid.record(&heading).into());
            let waves = waves.iter().map(|invalid| invalid.record(&heading).into());
            end.records(&heading, events.chain(waves).collect())
        })?;
        // Why an agent could not be started is why the iteration failed.
        let was_started = !matches!(finished.ending, Ending::NeverStarted(_));
        for note in notes(finished).iter().filter(|_| was_started) {
            self.site.note(note);
        }
        self.site.report(Progress::Iterated(self.harness.run()));
        let rules = self.loaded.plan.rules();
        if let Some(Remark::NotCounted { claim, why, .. }) = remark(self.harness.run(), &rules) {
            self.site.note(&format!("the {claim} did not count: {why}"));
        }
        Ok(())
    }

    /// The agent of the first role that is suggested.
    fn backend(&self, route: &Route) -> BackendPlan {
        let role = route.roles.first().and_then(|role| self.loaded.topology.role(role));
        match role {
            Some(role) => self.loaded.plan.backend_for(role).clone(),
            None => self.loaded.plan.backend.clone(),
        }
    }

    fn iteration_order(&self, order: &Order) -> Result<IterationOrder, DriveError> {
        let plan = &self.loaded.plan;
        let run = self.harness.run();
        let remarks = remark(run, &plan.rules());
        let notices = remarks.iter().map(Remark::notice).chain(self.notices.iter().cloned());
        let routing = self.routing(&order.recent_event, order.route.clone());
        Ok(IterationOrder {
            context: LoopContext {
                notices: notices.collect(),
                backpressure: backpressure(order),
                ..self.context(order.iteration, routing)?
            },
            max_iterations: plan.max_iterations,
            objective: self.objective.clone(),
            handoff: self.handoff.clone(),
            harness_instructions: self.loaded.harness.clone().unwrap_or_default(),
            completion: plan.completion.clone(),
            parallel: plan.parallel,
            own_tree: self.own_tree().cloned(),
            joined: run.waves.joined.clone(),
            chains: self.chains_left()?,
            returned: run.spawns.returned.clone(),
        })
    }

    /// What the prompts of iterations and metareviews have in common.
    pub(super) fn context(
        &self,
        iteration: u64,
        routing: Routing,
    ) -> Result<LoopContext, DriveError> {
        let run = self.harness.run();
        Ok(LoopContext {
            run: run.id.clone(),
            iteration,
            notices: self.notices.clone(),
            invalid_emits: run.invalid_count,
            last_rejected: run.last_rejected.clone(),
            backpressure: run.backpressure.as_ref().map(told_of),
            memory: self.memory()?,
            routing,
            scratchpad: self.harness.scratchpad().compact(SCRATCHPAD_BUDGET),
            tools: self.tools(),
            budgets: Budgets::default(),
        })
    }

    fn tools(&self) -> Tools {
        Tools {
            bin: self.loaded.files.state_dir.tool().display().to_string(),
            state_dir: self.loaded.files.state_dir.display().to_string(),
            loop_dir: match self.project.is_preset() {
                true => self.project.loop_dir.display().to_string(),
                false => String::new(),
            },
        }
    }

    pub(super) fn routing(&self, recent_event: &str, route: Route) -> Routing {
        let roles = self.loaded.topology.roles.iter().map(|role| RoleText {
            id: role.id.clone(),
            emits: role.emits.iter().map(ToString::to_string).collect(),
            prompt: self.loaded.role_prompt(&role.id).to_owned(),
        });
        Routing { recent_event: recent_event.to_owned(), route, roles: roles.collect() }
    }

    /// What is remembered, within the budget of a prompt.
    pub(super) fn memory(&self) -> Result<Block, DriveError> {
        let settings = FileSettings { lock_timeout: self.loaded.plan.journal.lock_timeout };
        let Places { project, run } = self.memory_places();
        let read = |path| MemoryFile::new(path, self.site.world, settings).read();
        let project = read(project)?;
        let run = run.map(read).transpose()?.unwrap_or_default();
        Ok(Block::new(&project, &run, self.loaded.plan.memory_budget.unwrap_or(0)))
    }
}

/// How an iteration ended, as it is put on record.
struct TurnEnd {
    backend: BackendFinish<'static>,
    usage: Option<BackendUsage>,
    iteration: IterationFinish<'static>,
    /// The output, where it is too long to be held in memory.
    output: Option<Spooled>,
}

impl TurnEnd {
    fn new(finished: &Finished, failure: Option<&TurnFailure>, output: Option<Spooled>) -> Self {
        let text = if output.is_some() { String::new() } else { said(finished) };
        let (exit_code, timed_out) = (finished.exit_code(), finished.timed_out());
        let elapsed_s = Seconds(finished.elapsed.as_secs());
        let is_long = finished.stdout.bytes > LONG_OUTPUT;
        let promised = (finished.found_at.is_some() && is_long).then_some(true);
        let interrupted = failure.filter(|failure| failure.is_interrupt()).map(|_| true);
        let detail = failure.and_then(TurnFailure::cause);
        TurnEnd {
            backend: BackendFinish {
                exit_code: exit_code.into(),
                timed_out,
                output: text.clone().into(),
                interrupted,
                detail: detail.clone(),
            },
            usage: usage(finished),
            iteration: IterationFinish {
                exit_code: exit_code.into(),
                timed_out: Some(timed_out),
                elapsed_s: Some(elapsed_s),
                output: text.into(),
                promised,
                interrupted,
                detail,
            },
            output,
        }
    }

    /// In the order of the specification: the backend, what was not allowed, the iteration. What it
    /// cost follows the backend.
    fn records(&self, heading: &Heading, invalid: Vec<NewRecord>) -> Vec<NewRecord> {
        let with_output = |record| NewRecord { record, spooled: self.output.clone() };
        let mut records = vec![with_output(self.backend.record(heading))];
        records.extend(self.usage.iter().map(|usage| usage.record(heading).into()));
        records.extend(invalid);
        records.push(with_output(self.iteration.record(heading)));
        records
    }
}

/// The second look at what was emitted: by the topology itself, not by what the agent was told.
pub(super) fn invalid_events(
    recent_event: &str,
    (route, parallel): (&Route, &Parallel),
    foreign: &Foreign,
) -> Vec<EventInvalid> {
    let invalid = |emitted: &str, reason: Option<&str>| EventInvalid {
        recent_event: recent_event.to_owned(),
        emitted: emitted.to_owned(),
        suggested_roles: route.roles.join(","),
        allowed_events: route.events.join(","),
        reason: reason.map(str::to_owned),
    };
    let refusal = Admission::Refused(Refusal::NotAllowed);
    let is_refused = |topic: &&Topic| admit(topic, &route.events, parallel) == refusal;
    let refused =
        foreign.events.iter().filter(is_refused).map(|topic| invalid(topic.as_str(), None));
    let forged = foreign.forged.iter().map(|topic| invalid(topic, Some(FORGED)));
    refused.chain(forged).collect()
}

/// The waves that were asked for where waves are off.
fn invalid_waves(
    recent_event: &str,
    (route, parallel): (&Route, &Parallel),
    foreign: &Foreign,
) -> Vec<WaveInvalid> {
    let off = Admission::Refused(Refusal::WavesOff);
    let asked = foreign.events.iter().filter(|topic| admit(topic, &route.events, parallel) == off);
    let invalid = asked.map(|topic| WaveInvalid {
        trigger_topic: topic.to_string(),
        reason: DISABLED.to_owned(),
        opening_recent_event: recent_event.to_owned(),
        ..WaveInvalid::default()
    });
    invalid.collect()
}

/// What the agent is told about the refusal that the order carries.
fn backpressure(order: &Order) -> Option<String> {
    order.backpressure.as_ref().map(told_of)
}

pub(super) fn told_of(invalid: &EventInvalid) -> String {
    let list =
        |text: &str| text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let refusal = match invalid.reason.as_deref() {
        Some(FORGED) => Refusal::Reserved,
        Some(reason) if invalid.emitted == ChainSpawned::TOPIC => {
            return format!("the chain was not started: {reason}");
        }
        // Of a wave that could not be.
        Some(reason) => return refused_wave(&invalid.emitted, reason),
        None => Refusal::NotAllowed,
    };
    InvalidEvent {
        emitted: Topic::new(invalid.emitted.clone()),
        recent_event: Topic::new(invalid.recent_event.clone()),
        suggested_roles: list(&invalid.suggested_roles),
        allowed_events: list(&invalid.allowed_events),
        refusal,
    }
    .to_string()
}
