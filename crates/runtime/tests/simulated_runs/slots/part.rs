//! What each agent of slots does: a function of the seed and its turn.

use std::time::Duration;

use autoloop_testkit::{Dice, Script, Seed};

use super::setup::{DEADLINE, FIRST, GRACE, NOTHING_LEFT, Setup};
use crate::rules::one_of;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Implement,
    Review,
    Fix,
}

impl Phase {
    pub(crate) fn of(word: &str) -> Phase {
        match word {
            "implement" => Phase::Implement,
            "review" => Phase::Review,
            "fix" => Phase::Fix,
            _ => panic!("there is no phase {word}"),
        }
    }
}

/// An agent started for a slot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    pub(crate) run: String,
    pub(crate) iteration: u64,
    pub(crate) slot: u64,
    pub(crate) item: String,
    pub(crate) phase: Phase,
    pub(crate) attempt: u64,
    /// How often the reviewer was asked the same before and broke the contract.
    pub(crate) asked: u64,
}

/// How an agent ends, and what that means.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) script: Script,
    pub(crate) code: i32,
    pub(crate) timed_out: bool,
    pub(crate) elapsed: Duration,
    /// The item that it reports to have picked.
    pub(crate) picked: String,
    /// Whether it printed a stop marker.
    pub(crate) is_marked: bool,
    /// What it ruled, if it is a reviewer.
    pub(crate) verdict: &'static str,
}

impl End {
    pub(crate) fn is_success(&self) -> bool {
        self.code == 0 && !self.timed_out
    }
}

/// Verdicts within the contract, and outputs that break it.
const PASSES: [&str; 4] = [
    r#"{"verdict": "pass", "followUpPrompt": "good"}"#,
    "I looked at it.\n{\"followUpPrompt\": \"\", \"verdict\": \"pass\"}\nThat is all.",
    "{\n  \"verdict\": \"pass\",\n  \"more\": {\"verdict\": \"drift\"},\n  \"followUpPrompt\": \"}\"\n}\n",
    "```json\n{\"verdict\": \"pass\", \"followUpPrompt\": \"no \\\"drift\\\"\"}\n```\n",
];
const DRIFTS: [&str; 3] = [
    r#"{"verdict": "drift", "followUpPrompt": "add a test"}"#,
    "It would pass, but: {\"followUpPrompt\": \"{\\\"verdict\\\": \\\"pass\\\"}\", \"verdict\": \"drift\"}",
    "{\"verdict\":\"drift\",\"followUpPrompt\":\"x\"}{\"verdict\":\"pass\",\"followUpPrompt\":\"y\"}",
];
const VIOLATIONS: [&str; 9] = [
    "",
    "LGTM, it should pass",
    r#"{"verdict": "maybe", "followUpPrompt": "hm"}"#,
    r#"{"verdict": "PASS", "followUpPrompt": "good"}"#,
    r#"{"verdict": "pass"}"#,
    r#"{"verdict": "pass", "followUpPrompt": 1}"#,
    r#"{"verdict": "pass", "followUpPrompt": "go"#,
    "use {x}: {\"verdict\": \"pass\", \"followUpPrompt\": \"good\"}",
    r#"["pass"]"#,
];

impl Setup {
    /// The dice of one side of an agent: the same whenever it is started for the same turn.
    pub(crate) fn dice(&self, turn: &Turn, side: &str) -> Dice {
        let is_first = turn.run.starts_with(FIRST);
        let Turn { iteration, slot, item, phase, attempt, asked, .. } = turn;
        let name =
            format!("{side} {is_first} {iteration} {slot} {item} {phase:?} {attempt} {asked}");
        let mixed = |number, byte| Seed(number ^ u64::from(byte)).dice().number();
        Seed(name.bytes().fold(self.seed.0, mixed)).dice()
    }

    /// How the agent of a turn ends.
    pub(crate) fn end(&self, turn: &Turn) -> End {
        let mut dice = self.dice(turn, "end");
        let (mut text, mut verdict, mut picked) = match turn.phase {
            Phase::Implement => implemented(&mut dice, &turn.item),
            Phase::Review => reviewed(&mut dice),
            Phase::Fix => ("mended\n".to_owned(), "", ""),
        };
        let word = if self.rules.marker.is_empty() { NOTHING_LEFT } else { self.rules.marker };
        let mut has_word = dice.chance(1, 14);
        if has_word {
            text = format!("they said {word}\n{text}");
        }
        if dice.chance(1, 30) {
            text = "much ado\n".repeat(8_000) + &text;
        }
        let hangs = |script: Script| (script, 143, true, DEADLINE);
        let takes = Duration::from_secs(*dice.pick(&[0, 0, 1, 30, 100]));
        let (script, code, timed_out, elapsed) = match dice.below(40) {
            0 => hangs(Script::hangs()),
            1 => (Script::hangs().ignoring_terminate(), 137, true, DEADLINE + GRACE),
            2 => (Script::is_lost(), 125, false, Duration::ZERO),
            3 => {
                let kind = std::io::ErrorKind::OutOfMemory;
                (Script::never_starts(kind), 126, false, Duration::ZERO)
            }
            4..7 => {
                let code = *dice.pick(&[1, 2, 3]);
                (Script::exits(code), code, false, Duration::ZERO)
            }
            7 => hangs(Script::exits(0).taking(2 * DEADLINE)),
            _ => (Script::exits(0).taking(takes), 0, false, takes),
        };
        if matches!(code, 125 | 126) {
            // Their output was never read.
            (text, picked, has_word) = (String::new(), "", false);
        }
        if code != 0 && turn.phase == Phase::Review {
            verdict = "failed";
        }
        End {
            script: script.stdout(&text),
            code,
            timed_out,
            elapsed,
            picked: picked.replace("IT", &turn.item),
            is_marked: has_word && !self.rules.marker.is_empty(),
            verdict,
        }
    }
}

type Said = (String, &'static str, &'static str);

/// The output of an implementer; `IT` is its item.
fn implemented(dice: &mut Dice, item: &str) -> Said {
    let picked = match dice.below(12) {
        0 | 1 => "IT",
        2 => "t-99",
        3 => "none",
        _ => return (one_of(dice, &["done\n", "", "\u{fffd}\0"]).to_owned(), "", ""),
    };
    let text = format!("picked: {}\nthen I worked\n", picked.replace("IT", item));
    (text, "", picked)
}

fn reviewed(dice: &mut Dice) -> Said {
    let (text, verdict) = match dice.below(20) {
        0..9 => (one_of(dice, &PASSES), "pass"),
        9..17 => (one_of(dice, &DRIFTS), "drift"),
        _ => (one_of(dice, &VIOLATIONS), "violation"),
    };
    (text.to_owned(), verdict, "")
}
