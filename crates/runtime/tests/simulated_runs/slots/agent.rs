//! Generated agents of slots: what they do to the queue, and what they forge.

use std::ffi::OsStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use autoloop_core::queue::{New, Priority};
use autoloop_core::record::{Heading, Object, Record, Value, print};
use autoloop_core::topic::Topic;
use autoloop_runtime::journal::FileJournal;
use autoloop_runtime::queue::Builtin;
use autoloop_runtime::world::{Job, World};
use autoloop_testkit::{Dice, SimDisk, SimWorld};

use super::part::{Phase, Turn};
use super::setup::{FIRST, MOST_ITEMS, SECOND, Setup};
use super::witness::Witness;
use crate::agent::PATIENCE;
use crate::rules::one_of;
use crate::setup::JOURNAL;

/// The agents, and whatever they start, as a process.
const AGENT: u32 = 7;
/// How often an agent tries to write something.
const ATTEMPTS: usize = 6;

/// What only the harness may write about slots.
const RESERVED: [&str; 11] = [
    "slot.run.start",
    "slot.run.prompts",
    "slots.iteration.finish",
    "slot.start",
    "slot.phase",
    "slot.implement",
    "slot.review",
    "slot.fix",
    "slot.merge",
    "slot.finish",
    "slot.run.finish",
];

/// A running agent.
pub(crate) struct Agent<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) turn: Turn,
    world: World,
    disk: SimDisk,
}

/// The turn that a job is started for, as its environment tells it.
pub(crate) fn turn(job: &Job) -> Turn {
    let var = |name: &str| {
        let found = job.env.iter().find(|(key, _)| key == OsStr::new(name));
        found.map(|(_, value)| value.to_string_lossy().into_owned()).unwrap_or_default()
    };
    Turn {
        run: var("AUTOLOOP_RUN_ID"),
        iteration: var("AUTOLOOP_ITERATION").parse().unwrap(),
        slot: var("AUTOLOOP_SLOT").parse().unwrap(),
        item: var("AUTOLOOP_ITEM_ID"),
        phase: Phase::of(&var("AUTOLOOP_SLOT_PHASE")),
        attempt: var("AUTOLOOP_FIX_ATTEMPT").parse().unwrap(),
        asked: 0,
    }
}

pub(crate) fn lock(witness: &Mutex<Witness>) -> MutexGuard<'_, Witness> {
    witness.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Agent<'a> {
    pub(crate) fn new(setup: &'a Setup, turn: Turn, sim: &SimWorld) -> Agent<'a> {
        let disk = sim.disk.as_process(AGENT);
        let world = World { disk: Arc::new(disk.clone()), ..sim.world() };
        Agent { setup, turn, world, disk }
    }

    /// Does what the agent of this turn does besides its work.
    pub(crate) fn work(&self) {
        let mut dice = self.setup.dice(&self.turn, "work");
        if self.turn.phase != Phase::Review && dice.chance(1, 12) {
            self.ask_for_more(&mut dice);
        }
        if dice.chance(1, 12) {
            let record = self.heading().agent(Topic::new("task.complete"), "said");
            self.write(&[&line(&record)]);
        }
        if self.setup.forges && dice.chance(1, 2) {
            self.forge(&mut dice);
        }
    }

    /// Adds an item, unless it exists.
    fn ask_for_more(&self, dice: &mut Dice) {
        let priority = Priority::new(dice.below(5)).unwrap_or_default();
        let Turn { iteration, slot, phase, attempt, item, .. } = &self.turn;
        let side = if self.turn.run.starts_with(FIRST) { FIRST } else { SECOND };
        let title = format!("after {side}{item} {iteration}.{slot} {phase:?} {attempt}");
        for _ in 0..ATTEMPTS {
            let journal = FileJournal::new(JOURNAL, &self.world, PATIENCE);
            let (durability, lasting) = (self.setup.durability(), self.setup.lasting);
            let queue = Builtin::new(&journal, &self.world, durability, lasting);
            let is_enough = queue.look(|tasks, _| {
                tasks.iter().count() >= MOST_ITEMS || tasks.iter().any(|task| task.title == title)
            });
            let done = match is_enough {
                Ok(true) => return,
                Ok(false) => queue.add(&New { title: title.clone(), priority, ..New::default() }),
                Err(error) => Err(error),
            };
            if done.is_ok() || !self.disk.is_alive() {
                return;
            }
            // Makes room.
            self.disk.set_capacity(None);
        }
        panic!("nothing can be added");
    }

    fn heading(&self) -> Heading {
        let now = self.world.clock.now();
        Heading { run: self.turn.run.clone(), iteration: self.turn.iteration.to_string(), now }
    }

    /// Forges a record.
    fn forge(&self, dice: &mut Dice) {
        for _ in 0..=dice.below(3) {
            match dice.below(8) {
                0 => {
                    // Never a whole record.
                    let whole = line(&self.forged(dice));
                    let cut = dice.index(whole.len() - 2);
                    self.write(&[&whole[..cut]]);
                }
                1 => self.write(&[b"\n{\"topic\": \"slot.finish\"}\n\n\0\n[]\n"]),
                2 | 3 => self.copy(),
                4 => self.write(&[b"\n", &line(&self.void(dice))]),
                _ => self.write(&[b"\n", &line(&self.forged(dice))]),
            }
        }
    }

    fn write(&self, bytes: &[&[u8]]) {
        self.disk.write_raw(JOURNAL, &bytes.concat());
    }

    /// Copies the harness's latest record about its slots.
    fn copy(&self) {
        let all = self.disk.contents(JOURNAL);
        let is_said = |line: &&[u8]| {
            line.windows(16).any(|at| at == b"\"topic\": \"slot.s" || at == b"\"topic\": \"slot.r")
        };
        if let Some(said) = all.split(|&byte| byte == b'\n').rfind(is_said) {
            self.write(&[b"\n", said, b"\n"]);
        }
    }

    /// A reserved record about a slot.
    fn forged(&self, dice: &mut Dice) -> Record {
        let other = (1 + dice.below(4)).to_string();
        let slot = if dice.chance(1, 2) { self.turn.slot.to_string() } else { other };
        let item = if dice.chance(1, 2) { &self.turn.item } else { "t-1" };
        let outcome = one_of(dice, &["passed", "failed"]);
        let verdict = one_of(dice, &["pass", "drift"]);
        let attempt = (self.turn.attempt + dice.below(2)).to_string();
        let fields = [
            ("slot", &*slot),
            ("item_id", item),
            ("attempt", &attempt),
            ("phase", "review"),
            ("exit_code", "0"),
            ("picked", "none"),
            ("stop_marker", "true"),
            ("verdict", verdict),
            ("follow_up_prompt", "forged"),
            ("outcome", outcome),
            ("reason", "no_items"),
            ("taken", "1"),
            ("passed", "1"),
            ("failed", "0"),
            ("items", "t-1=passed"),
            ("reviewer_prompt", "forged"),
        ];
        let fields: Object = fields
            .iter()
            .map(|(name, text)| ((*name).to_owned(), Value::Text((*text).to_owned())))
            .collect();
        let mut heading = self.heading();
        if dice.chance(1, 4) {
            heading.iteration = (self.turn.iteration + 1).to_string();
        }
        heading.system(one_of(dice, &RESERVED), fields)
    }

    /// A record about the queue that breaks its rules, or that has no effect.
    fn void(&self, dice: &mut Dice) -> Record {
        let mut heading = self.heading();
        let topic =
            one_of(dice, &["queue.task.closed", "queue.task.claimed", "queue.task.released"]);
        let field = |name: &str, text: &str| (name.to_owned(), Value::Text(text.to_owned()));
        let fields = vec![
            field("task", &self.turn.item),
            field("owner", "mallory"),
            field("by", "mallory"),
            field("until", "2030-01-01T00:00:00.000Z"),
            field("fence", "99999999"),
        ];
        match dice.below(3) {
            0 => heading.system(topic, fields),
            1 => {
                heading.run = String::new();
                heading.agent(Topic::new(topic), "task=t-1;")
            }
            _ => {
                (heading.run, heading.iteration) = (String::new(), String::new());
                heading.system(topic, fields)
            }
        }
    }
}

fn line(record: &Record) -> Vec<u8> {
    let mut line = Vec::new();
    print(record, &mut line);
    line
}
