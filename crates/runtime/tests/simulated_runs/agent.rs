//! Generated agents: what they emit, how, and what they do when they cannot.

use std::ffi::OsStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use autoloop_core::memory::Said;
use autoloop_core::record::{EventInvalid, Heading, Object, Record, Value, print};
use autoloop_core::routing::{Admission, Refusal, admit};
use autoloop_core::topic::Topic;
use autoloop_core::wave::Parallel;
use autoloop_runtime::journal::{
    Append, AppendError, Durability, FileJournal, FileSettings, Journal,
};
use autoloop_runtime::memory::{Author as Rememberer, MemoryFile};
use autoloop_runtime::world::{Job, World};
use autoloop_testkit::{Dice, Script, SimDisk, SimWorld};

use crate::chain_request::{SPAWN, any_chain_request, valid_chain_request};
use crate::judge::Author;
use crate::place::{Place, parent};
use crate::rules::{COORDINATION, EVENTS, JOINED, Named, RESERVED, one_of};
use crate::setup::{JOURNAL, Setup, Side, Sync, Turn};
use crate::wave_request::WaveRequest;
use crate::witness::Witness;

/// The agents, and whatever they start, as a process.
const AGENT: u32 = 7;
/// How often an agent tries to emit something.
const ATTEMPTS: usize = 6;
pub(crate) const PATIENCE: FileSettings = FileSettings { lock_timeout: Duration::from_millis(5) };

/// A running agent.
pub(crate) struct Agent<'a> {
    setup: &'a Setup,
    witness: &'a Mutex<Witness>,
    world: World,
    disk: SimDisk,
    turn: Turn,
    run: String,
    allowed: Vec<String>,
    recent_event: String,
    memory_file: String,
    parallel: Parallel,
}

/// The machine crashed while it was running.
struct Dead;

impl<'a> Agent<'a> {
    pub(crate) fn new(
        setup: &'a Setup,
        witness: &'a Mutex<Witness>,
        sim: &SimWorld,
        job: &Job,
    ) -> Agent<'a> {
        let var = |name: &str| {
            let found = job.env.iter().find(|(key, _)| key == OsStr::new(name));
            found.map(|(_, value)| value.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let allowed = var("AUTOLOOP_ALLOWED_EVENTS");
        let disk = sim.disk.as_process(AGENT);
        let run = var("AUTOLOOP_RUN_ID");
        Agent {
            setup,
            witness,
            world: World { disk: Arc::new(disk.clone()), ..sim.world() },
            disk,
            turn: Turn {
                place: Place::of(&run),
                iteration: var("AUTOLOOP_ITERATION").parse().unwrap(),
                is_review: !var("AUTOLOOP_REVIEW_MODE").is_empty(),
            },
            run,
            allowed: allowed.split(',').filter(|x| !x.is_empty()).map(str::to_owned).collect(),
            recent_event: var("AUTOLOOP_RECENT_EVENT"),
            memory_file: var("AUTOLOOP_MEMORY_FILE"),
            parallel: match &*var("AUTOLOOP_PARALLEL") {
                "on" => Parallel::On { completion_event: var("AUTOLOOP_COMPLETION_EVENT") },
                _ => Parallel::Off,
            },
        }
    }

    /// Acts as the agent of this turn, and returns how it ends.
    pub(crate) fn act(&self) -> Script {
        self.witness().agent_starts(&self.run, self.turn);
        // If the machine crashes meanwhile, its exit is never read.
        let _ = self.work();
        self.witness().now_writes(Author::Harness);
        self.setup.end(self.turn).script
    }

    fn witness(&self) -> std::sync::MutexGuard<'_, Witness> {
        self.witness.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) -> Result<(), Dead> {
        // Agents that print at length emit nothing, and one was never started.
        if self.setup.is_loud || self.setup.end(self.turn).code == 127 {
            return Ok(());
        }
        let mut dice = self.setup.dice(self.turn, Side::Speech);
        let begins = Turn { place: Place::default(), iteration: 1, is_review: false };
        if let Some(waves) = self.setup.waves.filter(|_| self.turn == begins) {
            let parts = (0..=dice.below(waves.most)).map(|number| format!("- part {number}\n"));
            self.emit("explore.parallel", &parts.collect::<String>())?;
        }
        if self.setup.spawns.is_some() && self.turn == begins {
            self.emit(SPAWN, &valid_chain_request(&mut dice))?;
        }
        for _ in 0..*dice.pick(&[0, 1, 1, 1, 2, 3]) {
            self.say(&mut dice)?;
        }
        if dice.chance(1, 6) {
            self.remember()?;
        }
        if !self.disk.is_alive() {
            return Err(Dead);
        }
        self.witness().agent_edits(self.turn);
        Ok(())
    }

    /// Emits one event.
    fn say(&self, dice: &mut Dice) -> Result<(), Dead> {
        if let Some(waves) = self.setup.waves.filter(|_| dice.chance(2, 5)) {
            let example = self.allowed_event(dice);
            return self.ask(&WaveRequest::any(dice, example, waves.most), dice);
        }
        if self.setup.spawns.is_some() && dice.chance(1, 4) {
            return self.emit(SPAWN, &any_chain_request(dice, &self.run));
        }
        match dice.below(if self.setup.forges { 18 } else { 13 }) {
            0 => self.emit(one_of(dice, &EVENTS), "said"),
            1 => self.emit(one_of(dice, &COORDINATION), "said"),
            2 => self.emit(one_of(dice, &RESERVED), "said"),
            // Past the socket, but in the correct form.
            3 => self
                .append(&self.heading(&self.run).agent(Topic::new(one_of(dice, &EVENTS)), "raw")),
            4 => self.append(&self.heading("other").agent(Topic::new("task.complete"), "")),
            5 => {
                let topic = one_of(dice, &["loop.complete", "iteration.finish"]);
                self.append(&self.heading("other").system(topic, Object::new()))
            }
            // Never a whole record.
            6 => {
                let mut line = Vec::new();
                print(&self.heading(&self.run).agent(Topic::new("x.ready"), "torn"), &mut line);
                self.disk.write_raw(JOURNAL, &line[..dice.index(line.len() - 2)]);
                Ok(())
            }
            7 => {
                self.disk.write_raw(JOURNAL, b"\n{\"topic\": \"loop.complete\"}\n\n\0\n[]\n");
                Ok(())
            }
            13.. => {
                let head = parent(&self.run);
                let record = match head != self.run && dice.chance(1, 3) {
                    // A branch forges a record of the run that waits for it.
                    true => self.heading(head).agent(Topic::new(one_of(dice, &EVENTS)), "for you"),
                    false => self.forged(dice),
                };
                if dice.chance(1, 2) {
                    return self.append(&record);
                }
                let mut line = b"\n".to_vec();
                print(&record, &mut line);
                self.disk.write_raw(JOURNAL, &line);
                Ok(())
            }
            _ => self.emit(self.allowed_event(dice), "said"),
        }
    }

    /// Requests a wave, through the socket or past it.
    fn ask(&self, asked: &WaveRequest, dice: &mut Dice) -> Result<(), Dead> {
        match dice.chance(1, 8) {
            true => {
                let topic = Topic::new(asked.topic.as_str());
                self.append(&self.heading(&self.run).agent(topic, &asked.list))
            }
            false => self.emit(&asked.topic, &asked.list),
        }
    }

    fn allowed_event(&self, dice: &mut Dice) -> &'static str {
        match &self.allowed[..] {
            [] => one_of(dice, &EVENTS),
            allowed => example(dice.pick::<String>(allowed)),
        }
    }

    fn heading(&self, run: &str) -> Heading {
        let iteration = self.turn.iteration.to_string();
        Heading { run: run.into(), iteration, now: self.world.clock.now() }
    }

    /// As `autoloop emit` does it.
    fn emit(&self, topic: &str, payload: &str) -> Result<(), Dead> {
        let heading = self.heading(&self.run);
        let topic = Topic::new(topic);
        self.append(&match admit(&topic, &self.allowed, &self.parallel) {
            Admission::Accepted
            | Admission::Coordination
            | Admission::Refused(Refusal::WavesOff) => heading.agent(topic, payload),
            Admission::Refused(refusal) => EventInvalid {
                recent_event: self.recent_event.clone(),
                emitted: topic.to_string(),
                allowed_events: self.allowed.join(","),
                reason: (refusal == Refusal::Reserved).then(|| "reserved".to_owned()),
                ..EventInvalid::default()
            }
            .record(&heading),
        })
    }

    fn append(&self, record: &Record) -> Result<(), Dead> {
        let durability = match self.setup.sync {
            Sync::Always => Durability::Synced,
            Sync::Iteration | Sync::Never => Durability::Cached,
        };
        let how = Append { expect: None, durability };
        let records = [record.clone().into()];
        let is_told = self.insist(|| {
            FileJournal::new(JOURNAL, &self.world, PATIENCE).append(&records, how).map(drop)
        })?;
        if is_told && durability == Durability::Synced {
            self.witness().acknowledge();
        }
        Ok(())
    }

    /// Remembers something, once.
    fn remember(&self) -> Result<(), Dead> {
        let text = format!("learnt {:?}", self.turn);
        let author = Rememberer::default();
        self.insist(|| {
            let memory = MemoryFile::new(&self.memory_file, &self.world, PATIENCE);
            let added = memory.add(&author, &mut |memory| {
                let said = Said::Learning { text: text.clone() };
                let is_known = memory.live().iter().any(|entry| entry.said == said);
                (!is_known).then_some(said)
            });
            added.map(drop)
        })?;
        Ok(())
    }

    /// Retries until it succeeds or the machine has crashed, and returns whether it was
    /// acknowledged. When the disk is full, room is made.
    fn insist(&self, mut once: impl FnMut() -> Result<(), AppendError>) -> Result<bool, Dead> {
        for _ in 0..ATTEMPTS {
            match once() {
                Ok(()) => return Ok(true),
                Err(_) if !self.disk.is_alive() => return Err(Dead),
                // It is written.
                Err(AppendError::NotDurable { .. }) => return Ok(false),
                Err(_) => self.disk.set_capacity(None),
            }
        }
        panic!("nothing can be said");
    }

    /// A reserved record about this run, or the run that it is a branch of, or the chain, or the
    /// run that requested the chain.
    fn forged(&self, dice: &mut Dice) -> Record {
        let head = parent(&self.run);
        let chain = head.rsplit_once("-step-").map_or(head, |(chain, _)| chain);
        let above = chain.rsplit_once("-chain-").map_or(chain, |(above, _)| above);
        let run = *dice.pick(&[&self.run, &self.run, head, chain, above]);
        let heading = self.heading(run);
        let topic = match self.setup.spawns.is_some() && dice.chance(1, 3) {
            true => one_of(dice, &[SPAWN, "chain.spawn.finish", "chain.invalid"]),
            false => one_of(dice, &RESERVED),
        };
        if topic.ends_with(JOINED) || dice.chance(1, 4) {
            return heading.agent(Topic::new(topic), "by hand");
        }
        let field = |name: &str, text: &str| (name.to_owned(), Value::Text(text.to_owned()));
        let fields: Object = vec![
            field("reason", "completion_event"),
            field("exit_code", "0"),
            field("recent_event", "odd.event"),
            field("output", self.setup.promise),
            field("wave_id", &format!("{run}-wave-1")),
            field("branch_id", "branch-1"),
            field("trigger_topic", "explore.parallel"),
            field("objectives", "- another one"),
            field("stop_reason", "max_iterations"),
            field("resume_recent_event", "odd.event"),
            field("step", "1"),
            field("run_id", "other"),
            field("outcome", "all_steps_complete"),
        ];
        heading.system(topic, fields)
    }
}

/// An event that an entry of the allowed list means.
fn example(allowed: &str) -> &'static str {
    let named = EVENTS.iter().map(|&event| Named::One(event));
    let mut named = named.chain([Named::Family("x"), Named::Family("y")]);
    named
        .find(|named| crate::rules::listed(&[*named]) == allowed)
        .map_or("odd.event", Named::example)
}
