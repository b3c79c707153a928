//! One iteration: the agent acts, and what it did is put on record and checked.

use autoloop_core::agents::Outcome;
use autoloop_core::failure::TurnFailure;
use autoloop_core::memory::{Block, Places};
use autoloop_core::plan::BackendPlan;
use autoloop_core::prompt::iteration::{IterationOrder, render};
use autoloop_core::prompt::{Budgets, Cast, Completion, Pressure, RoleText, Tools};
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

use super::failure::failure;
use super::launch::{Turn, mode_name};
use super::signalled::attributed;
use super::{Drive, DriveError, Foreign, Progress, output};
use crate::journal::{FileSettings, NewRecord, Spooled};
use crate::memory::MemoryFile;
use crate::process;
use crate::world::{Ending, Finished, Job};

/// How many characters of earlier outputs a prompt carries.
const SCRATCHPAD_BUDGET: usize = 24_000;
/// Readers of the journal are shown an output whole up to this many bytes, whatever is in it.
const LONG_OUTPUT: u64 = 64 * 1024;
/// How much of the output a stopping run shows.
const TAIL_SHOWN: usize = 500;

impl Drive<'_> {
    /// Lets the agent act once.
    pub(super) fn iterate(&mut self, order: &Order) -> Result<(), DriveError> {
        (self.tell)(Progress::Iteration {
            number: order.iteration,
            of: self.loaded.plan.max_iterations,
            roles: &order.route.roles,
            event: &order.recent_event,
        });
        let backend = self.backend(&order.route);
        let prompt = render(&self.iteration_order(order)?);
        let turn = Turn {
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
            backend_kind: backend.kind.to_string(),
            command: backend.command.clone(),
            prompt_mode: mode_name(launch.delivery),
            timeout_ms: millis(backend.timeout),
            prompt_detour: launch.delivery.detour.map(|detour| detour.to_string()),
        };
        let heading = self.harness.heading(order.iteration, self.world.clock.now());
        self.harness.append(self.durability(), |_| {
            vec![start.record(&heading).into(), backend_start.record(&heading).into()]
        })?;

        let spool = launch.job.spool.clone();
        let finished = self.carry_out_job(launch.job);
        let output = output::spooled(spool.as_ref(), &finished, self.world);
        let end = TurnEnd::new(&finished, failure(&finished, &backend).as_ref(), output);
        self.record_end(order, &finished, &end)
    }

    /// Runs the job of an agent to its end, or until the harness is asked to stop.
    pub(super) fn carry_out_job(&self, job: Job) -> Finished {
        let finished = process::run(job, self.world, self.interrupts);
        attributed(finished, self.interrupts, &*self.world.clock)
    }

    /// Puts on record how the iteration ended, together with what was not allowed in it.
    fn record_end(
        &mut self,
        order: &Order,
        finished: &Finished,
        end: &TurnEnd,
    ) -> Result<(), DriveError> {
        let heading = self.harness.heading(order.iteration, self.world.clock.now());
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
            (self.tell)(Progress::Note(note));
        }
        (self.tell)(Progress::Iterated(self.harness.run()));
        let rules = self.loaded.plan.rules();
        if let Some(Remark::NotCounted { claim, why, .. }) = remark(self.harness.run(), &rules) {
            (self.tell)(Progress::Note(&format!("the {claim} did not count: {why}")));
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
        let memory = self.memory()?;
        Ok(IterationOrder {
            run: run.id.clone(),
            iteration: order.iteration,
            max_iterations: plan.max_iterations,
            objective: self.objective.clone(),
            handoff: self.handoff.clone(),
            harness_instructions: self.loaded.harness.clone().unwrap_or_default(),
            notices: remark(run, &plan.rules())
                .iter()
                .map(Remark::notice)
                .chain(self.notices.iter().cloned())
                .collect(),
            pressure: self.pressure(&memory),
            backpressure: backpressure(order),
            memory,
            cast: self.cast(&order.recent_event, &order.route),
            completion: Completion {
                event: plan.completion.event.clone(),
                promise: plan.completion.promise.clone().unwrap_or_default(),
                required_events: plan.completion.required.clone(),
            },
            parallel: plan.parallel,
            own_tree: self.own_tree().cloned(),
            joined: run.waves.joined.clone(),
            chains: self.chains_left()?,
            returned: run.spawns.returned.clone(),
            scratchpad: self.harness.scratchpad().compact(SCRATCHPAD_BUDGET),
            tools: self.tools(),
            budgets: Budgets::default(),
        })
    }

    pub(super) fn scratchpad(&self) -> String {
        self.harness.scratchpad().compact(SCRATCHPAD_BUDGET)
    }

    pub(super) fn tools(&self) -> Tools {
        Tools {
            bin: self.loaded.files.state_dir.tool().display().to_string(),
            state_dir: self.loaded.files.state_dir.display().to_string(),
            loop_dir: match self.project.is_preset() {
                true => self.project.loop_dir.display().to_string(),
                false => String::new(),
            },
        }
    }

    pub(super) fn cast(&self, recent_event: &str, route: &Route) -> Cast {
        let roles = self.loaded.topology.roles.iter().map(|role| RoleText {
            id: role.id.clone(),
            emits: role.emits.iter().map(ToString::to_string).collect(),
            prompt: self.loaded.role_prompt(&role.id).to_owned(),
        });
        Cast { recent_event: recent_event.to_owned(), route: route.clone(), roles: roles.collect() }
    }

    pub(super) fn pressure(&self, memory: &Block) -> Pressure {
        let run = self.harness.run();
        Pressure::new(memory, run.invalid_count, run.last_rejected.clone())
    }

    /// What is remembered, within the budget of a prompt.
    pub(super) fn memory(&self) -> Result<Block, DriveError> {
        let settings = FileSettings { lock_timeout: self.loaded.plan.journal.lock_timeout };
        let Places { project, run } = self.memory_places();
        let read = |path| MemoryFile::new(path, self.world, settings).read();
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
                timed_out,
                elapsed_s,
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

/// What the backend answered, or why it could not.
pub(super) fn said(finished: &Finished) -> String {
    match (&finished.ending, &finished.answer) {
        (Ending::Exited(_), None) => finished.stdout.text(),
        (Ending::Exited(_), Some(answer)) if answer.outcome == Outcome::Silent => {
            let complaint = tail(finished.stderr.text().trim_end());
            [answer.told(), complaint].join("\n").trim_end().to_owned()
        }
        (Ending::Exited(_), Some(answer)) => answer.told(),
        (Ending::NeverStarted(why), _) => why.message.clone(),
        (Ending::Lost(why), _) => why.clone(),
    }
}

/// What the backend cost, where its answer tells.
pub(super) fn usage(finished: &Finished) -> Option<BackendUsage> {
    finished.answer.as_ref()?.usage.map(BackendUsage::from)
}

fn tail(text: &str) -> String {
    let skipped = text.chars().count().saturating_sub(TAIL_SHOWN);
    text.chars().skip(skipped).collect()
}

pub(super) fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What a person should know about the way a job ended.
pub(super) fn notes(finished: &Finished) -> Vec<String> {
    let mut notes = Vec::new();
    if let Ending::NeverStarted(why) = &finished.ending {
        notes.push(why.message.clone());
    }
    let output = &finished.stdout;
    if output.spooled < output.bytes && !matches!(finished.ending, Ending::NeverStarted(_)) {
        let (kept, all) = (output.spooled, output.bytes);
        notes.push(format!("the agent printed {all} bytes, and its file holds the first {kept}"));
    }
    let unreadable = finished.answer.as_ref().map_or(0, |answer| answer.unreadable);
    if unreadable > 0 {
        notes.push(format!("{unreadable} lines of the agent's stream could not be read"));
    }
    if !finished.left.kept.is_empty() {
        notes.push(format!("the agent left processes behind: {:?}", finished.left.kept));
    }
    if !finished.left.survivors.is_empty() {
        notes.push(format!("processes could not be ended: {:?}", finished.left.survivors));
    }
    notes
}
