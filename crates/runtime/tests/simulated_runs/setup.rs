//! A generated loop, and what each of its agents does: a function of the seed and the turn.

use std::time::Duration;

use autoloop_testkit::{Dice, Script, Seed, SimDisk};

use crate::chain_request::Limits;
use crate::chained::Chained;
use crate::fault_plan::Manners;
use crate::place::Place;
use crate::rules::{Cadence, Cast, Rules, one_of};

pub(crate) const CONFIG: &str = "/p/autoloops.toml";
pub(crate) const TOPOLOGY: &str = "/p/topology.toml";
pub(crate) const STATE: &str = "/p/.autoloop";
pub(crate) const JOURNAL: &str = "/p/.autoloop/journal.jsonl";
/// The objective of a run that is no part of another.
pub(crate) const OBJECTIVE: &str = "build it";
/// How long a backend may take.
const DEADLINE: Duration = Duration::from_secs(300);

/// A loop.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) seed: Seed,
    /// Its rules at the start.
    pub(crate) rules: Rules,
    pub(crate) promise: &'static str,
    pub(crate) sync: Sync,
    /// Whether agents forge reserved records.
    pub(crate) forges: bool,
    /// Whether agents edit the files of the loop.
    pub(crate) edits: bool,
    /// Whether agents print more than can be held in memory.
    pub(crate) is_loud: bool,
    /// The limits of waves, if there are any.
    pub(crate) waves: Option<Waves>,
    /// The chain that such loops are the steps of, if there is one.
    pub(crate) chain: Option<Chained>,
    /// The limits of chains that agents request, if they do.
    pub(crate) spawns: Option<Limits>,
}

/// The limits of waves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waves {
    /// The most branches.
    pub(crate) most: u64,
    /// How long a branch may take.
    pub(crate) timeout: Duration,
}

/// When records are forced to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sync {
    Always,
    Iteration,
    Never,
}

/// An agent started for an iteration, or for the review before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    pub(crate) place: Place,
    pub(crate) iteration: u64,
    pub(crate) is_review: bool,
}

/// How an agent ends.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) script: Script,
    pub(crate) code: i32,
    pub(crate) timed_out: bool,
    pub(crate) output: Vec<u8>,
}

/// What an agent does to the files of the loop.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    To(Rules),
    /// Contents that cannot be used.
    Broken(&'static str),
}

impl Setup {
    pub(crate) fn any(seed: Seed, dice: &mut Dice) -> Self {
        Setup {
            seed,
            rules: Rules::any(dice),
            promise: one_of(dice, &["LOOP_COMPLETE", "LOOP_COMPLETE", "all done", ""]),
            sync: *dice.pick(&[Sync::Always, Sync::Always, Sync::Iteration, Sync::Never]),
            forges: dice.chance(1, 5),
            edits: dice.chance(1, 3),
            is_loud: false,
            waves: None,
            chain: None,
            spawns: None,
        }
    }

    /// A loop whose agents request waves. No agent edits its files: branches would race each other.
    pub(crate) fn with_waves(seed: Seed, dice: &mut Dice) -> Self {
        let mut setup = Setup::any(seed, dice);
        setup.edits = false;
        setup.rules.max = 2 + dice.below(2);
        setup.waves = Some(Waves {
            most: 1 + dice.below(5),
            timeout: Duration::from_secs(*dice.pick(&[2, 30, 90, 600])),
        });
        setup
    }

    /// Loops in sequence, with waves in some.
    pub(crate) fn with_chain(seed: Seed, dice: &mut Dice) -> Self {
        let mut setup = Setup::any(seed, dice);
        setup.edits = false;
        setup.rules.max = setup.rules.max.min(3);
        if dice.chance(1, 4) {
            setup.waves = Some(Waves { most: 2, timeout: Duration::from_secs(30) });
        }
        setup.chain = Some(Chained::any(dice));
        setup
    }

    /// A loop whose agents request chains of such loops, which request chains too.
    pub(crate) fn with_spawns(seed: Seed, dice: &mut Dice) -> Self {
        let mut setup = Setup::any(seed, dice);
        setup.edits = false;
        setup.rules.max = 2 + dice.below(2);
        setup.spawns = Some(Limits::any(dice));
        setup
    }

    /// The behaviour of its agents that decides which faults are possible.
    pub(crate) fn manners(&self) -> Manners {
        match (self.edits, self.forges) {
            (false, false) => Manners::Good,
            (true, false) => Manners::Editing,
            (false, true) => Manners::Forging,
            (true, true) => Manners::Both,
        }
    }

    /// How long the backend of a turn may take.
    pub(crate) fn deadline(&self, turn: Turn) -> Duration {
        let of_branches = self.waves.filter(|_| turn.place.is_branch());
        of_branches.map_or(DEADLINE, |waves| waves.timeout.min(DEADLINE))
    }

    /// Puts the files of the loop in place.
    pub(crate) fn plant(&self, rules: &Rules, disk: &SimDisk) {
        let sync = match self.sync {
            Sync::Always => "always",
            Sync::Iteration => "iteration",
            Sync::Never => "never",
        };
        let rest = format!(
            "event_loop.stall_iterations = 0\nevent_loop.completion_promise = {:?}\njournal.sync = {sync:?}\n\
             backend.command = \"agent\"\nbackend.kind = \"command\"\nbackend.timeout_ms = {}\n\
             review.timeout_ms = {}\n",
            self.promise,
            DEADLINE.as_millis(),
            DEADLINE.as_millis()
        );
        let waves = self.waves.map_or_else(String::new, |waves| {
            format!(
                "parallel.enabled = true\nparallel.max_branches = {}\n\
                 parallel.branch_timeout_ms = {}\n",
                waves.most,
                waves.timeout.as_millis()
            )
        });
        disk.set_contents(CONFIG, (rules.config() + &rest + &waves).as_bytes());
        disk.set_contents(TOPOLOGY, rules.topology().as_bytes());
    }

    /// The dice of one side of an agent: the same whenever it is started for the same turn.
    pub(crate) fn dice(&self, turn: Turn, side: Side) -> Dice {
        let number = turn.iteration * 8 + u64::from(turn.is_review) * 4 + side as u64;
        let mut dice = Seed(self.seed.0 ^ (number << 20) ^ (turn.place.number() << 36)).dice();
        dice.fork()
    }

    /// How the agent of a turn ends.
    pub(crate) fn end(&self, turn: Turn) -> End {
        let mut dice = self.dice(turn, Side::End);
        let word = if self.promise.is_empty() { "nothing" } else { self.promise };
        let output = match dice.below(9) {
            _ if self.is_loud => {
                // A record too long for memory, with the relevant text in the middle.
                let mut output = vec![b'\n'; 800_000];
                output.splice(400_000..400_000, word.bytes());
                output
            }
            0 => word.as_bytes().to_vec(),
            1 => format!("so {word} then").into_bytes(),
            2 => dice.bytes(20),
            3 => Vec::new(),
            // More than a prompt has room for.
            4 if turn.place.is_branch() && dice.chance(1, 4) => b"much ado\n".repeat(8_000),
            _ => b"worked on it\n".to_vec(),
        };
        let deadline = self.deadline(turn);
        let sides = if turn.place.is_branch() { 24 } else { 60 };
        let (script, code, timed_out) = match dice.below(sides) {
            0 => (Script::hangs(), 143, true),
            1 => (Script::hangs().ignoring_terminate(), 137, true),
            2 => (Script::is_lost(), 125, false),
            3 => (Script::exits(1), 1, false),
            4 => (Script::never_starts(std::io::ErrorKind::NotFound), 127, false),
            5..8 => {
                let takes = Duration::from_secs(dice.below(400));
                match takes < deadline {
                    true => (Script::exits(0).taking(takes), 0, false),
                    false => (Script::exits(0).taking(takes), 143, true),
                }
            }
            _ => (Script::exits(0), 0, false),
        };
        // Their output was never read.
        let output = if matches!(code, 125 | 127) { Vec::new() } else { output };
        End { script: script.stdout(&output), code, timed_out, output }
    }

    pub(crate) fn is_promised(&self, turn: Turn) -> bool {
        let output = self.end(turn).output;
        let word = self.promise.as_bytes();
        !word.is_empty() && output.windows(word.len()).any(|at| at == word)
    }

    /// What the agent of a turn does to the files under these rules; and whether that does not
    /// affect its own turn, should it be repeated.
    pub(crate) fn edit(&self, turn: Turn, rules: &Rules) -> Option<(Edit, Redo)> {
        let mut dice = self.dice(turn, Side::Edit);
        if !self.edits || !dice.chance(1, 3) {
            return None;
        }
        let mut rules = rules.clone();
        let mut redo = Redo::Same;
        match dice.below(7) {
            0 => return Some((Edit::Broken(one_of(&mut dice, &[CONFIG, TOPOLOGY])), redo)),
            1 | 2 => rules.max = turn.iteration + dice.below(4),
            3 | 4 if turn.is_review => rules.cast = rules.cast.shuffled(&mut dice),
            3 => {
                rules.cast = Cast::any(dice.index(4), &mut dice);
                redo = Redo::Differs;
            }
            4 => {
                rules.review = *dice.pick(&[Cadence::Never, Cadence::Every(1), Cadence::Every(2)]);
                redo = Redo::Differs;
            }
            5 if !turn.is_review => rules.required = Rules::any_required(&mut dice),
            6 if !turn.is_review => {
                rules.completion = one_of(&mut dice, &["task.complete", "done.now"]);
            }
            _ => return None,
        }
        Some((Edit::To(rules), redo))
    }
}

impl Setup {
    /// The rules that apply to a run.
    pub(crate) fn rules_of(&self, place: Place, rules: &Rules) -> Rules {
        match place.is_branch() {
            true => Rules { max: 1, review: Cadence::Never, ..rules.clone() },
            false => rules.clone(),
        }
    }
}

/// What there are dice for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    Speech,
    End,
    Edit,
}

/// Whether a repeated turn runs under the same circumstances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Redo {
    Same,
    Differs,
}
