//! The ids of runs, and the three ways to choose one.

mod words;

use std::fmt;
use std::str::FromStr;

use self::words::{ADJECTIVES, NOUNS};
use crate::timestamp::Timestamp;
use crate::wire_enum::words;

/// The id of a run, such as `swift-otter`. It is always safe as part of a path. A journal may
/// contain any text as an id, so a fold keeps text; a caller that needs the directory of the run
/// parses it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(String);

const LONGEST: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid run id '{}'", .0.escape_debug())]
pub struct BadRunId(pub String);

impl RunId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RunId {
    type Err = BadRunId;

    /// Accepts lower-case letters, digits, `.`, `_` and `-`, beginning with a letter or a digit, at
    /// most 64 bytes, and never `..`.
    fn from_str(text: &str) -> Result<Self, BadRunId> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_safe = text.len() <= LONGEST
            && text.bytes().next().is_some_and(plain)
            && text.bytes().all(|byte| plain(byte) || matches!(byte, b'.' | b'_' | b'-'))
            && !text.contains("..");
        is_safe.then(|| RunId(text.to_owned())).ok_or_else(|| BadRunId(text.to_owned()))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

words! {
    /// How the id of a new run is chosen (`core.run_id_format`).
    RunIdFormat {
        /// Two words: `swift-otter`.
        Human = "human",
        /// The time and random digits, which sorts by time: `run-mwibyljj-3fa9`.
        Compact = "compact",
        /// The number of the run: `run-7`.
        Counter = "counter",
    }
}

/// The inputs to the choice of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunIdSeed {
    pub random: u64,
    pub now: Timestamp,
    pub runs_so_far: u64,
}

impl RunIdFormat {
    /// The first candidate of this format that is not taken. There is no last candidate, so `taken`
    /// must be a test for membership in a finite set.
    pub fn make(self, seed: &RunIdSeed, taken: &dyn Fn(&str) -> bool) -> RunId {
        RunId(match self {
            RunIdFormat::Human => human(seed, taken),
            RunIdFormat::Compact => compact(seed, taken),
            RunIdFormat::Counter => counter(seed, taken),
        })
    }
}

/// A power of two, so that a walk with any odd stride visits every pair once before it repeats one.
const PAIRS: u16 = 128 * 128;
const _: () = assert!(ADJECTIVES.len() * NOUNS.len() == PAIRS as usize);

fn human(seed: &RunIdSeed, taken: &dyn Fn(&str) -> bool) -> String {
    let [a, b, c, d, ..] = seed.random.to_le_bytes();
    let first = u16::from_le_bytes([a, b]);
    let stride = u16::from_le_bytes([c, d]) | 1;
    let nth = |n: u16| pair(first.wrapping_add(stride.wrapping_mul(n)) % PAIRS);
    let numbered = (2_u64..).map(|number| format!("{}-{number}", nth(0)));
    first_free((0..PAIRS).map(nth).chain(numbered), taken)
}

fn first_free(mut ids: impl Iterator<Item = String>, taken: &dyn Fn(&str) -> bool) -> String {
    ids.find(|id| !taken(id)).unwrap_or_default()
}

fn pair(index: u16) -> String {
    let adjective = ADJECTIVES[usize::from(index) / NOUNS.len()];
    let noun = NOUNS[usize::from(index) % NOUNS.len()];
    format!("{adjective}-{noun}")
}

fn compact(seed: &RunIdSeed, taken: &dyn Fn(&str) -> bool) -> String {
    let [a, b, ..] = seed.random.to_le_bytes();
    let first = u16::from_le_bytes([a, b]);
    // A clock before 1970 is wrong anyway, and a sign would not fit the format.
    let now = u64::try_from(seed.now.millis()).unwrap_or(0);
    let ids = (now..).map(base36).flat_map(|moment| {
        (0..=u16::MAX).map(move |n| format!("run-{moment}-{:04x}", first.wrapping_add(n)))
    });
    first_free(ids, taken)
}

fn counter(seed: &RunIdSeed, taken: &dyn Fn(&str) -> bool) -> String {
    // Wider than the count, so that one more is always possible.
    let number = u128::from(seed.runs_so_far) + 1;
    first_free((number..).map(|number| format!("run-{number}")), taken)
}

const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

fn base36(mut number: u64) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from(DIGITS[(number % 36) as usize]));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::{Cell, RefCell};
    use std::collections::HashSet;

    const FREE: &dyn Fn(&str) -> bool = &|_| false;

    fn seed(random: u64, millis: i64, runs_so_far: u64) -> RunIdSeed {
        RunIdSeed { random, now: Timestamp::from_millis(millis), runs_so_far }
    }

    #[test]
    fn each_format_looks_as_documented() {
        let seed = seed(0x0000_0000_0003_0081, 1_794_777_126_031, 6);
        for (format, id) in [
            (RunIdFormat::Human, format!("{}-{}", ADJECTIVES[1], NOUNS[1])),
            (RunIdFormat::Compact, "run-mwibyljj-0081".to_owned()),
            (RunIdFormat::Counter, "run-7".to_owned()),
        ] {
            assert_eq!(format.make(&seed, FREE).as_str(), id, "{format}");
        }
    }

    #[test]
    fn base36_counts() {
        for (number, text) in [
            (0, "0"),
            (9, "9"),
            (10, "a"),
            (35, "z"),
            (36, "10"),
            (36 * 36, "100"),
            (u64::MAX, "3w5e11264sgsf"),
        ] {
            assert_eq!(base36(number), text);
        }
    }

    #[test]
    fn words_are_fit_to_be_said() {
        for list in [&ADJECTIVES, &NOUNS] {
            for word in list {
                assert!((3..=9).contains(&word.len()), "{word}");
                assert!(word.bytes().all(|b| b.is_ascii_lowercase()), "{word}");
            }
        }
        let all: HashSet<_> = ADJECTIVES.iter().chain(&NOUNS).collect();
        assert_eq!(all.len(), ADJECTIVES.len() + NOUNS.len(), "a word is there twice");
        assert!(ADJECTIVES.is_sorted() && NOUNS.is_sorted());
    }

    #[test]
    fn names_three_formats() {
        for (text, format) in [
            ("human", RunIdFormat::Human),
            ("compact", RunIdFormat::Compact),
            ("counter", RunIdFormat::Counter),
        ] {
            assert_eq!(RunIdFormat::from_word(text), Some(format));
            assert_eq!(format.to_string(), text);
        }
        for text in ["", "Human", "human "] {
            assert_eq!(RunIdFormat::from_word(text), None, "{text:?}");
        }
    }

    #[test]
    fn only_plain_texts_are_ids() {
        let longest = "a".repeat(64);
        for text in ["swift-otter", "run-7", "7", "a.b_c-d", "a.", &longest] {
            assert!(text.parse::<RunId>().is_ok(), "{text}");
        }
        let too_long = "a".repeat(65);
        for text in [
            "", ".", "..", "a..b", ".hidden", "-rf", "_a", "A", "a/b", "a b", "a\n", "ü", "a\0",
            &too_long,
        ] {
            assert!(text.parse::<RunId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn numbers_follow_when_every_pair_is_taken() {
        let two_words = |id: &str| id.split('-').count() == 2;
        let id = RunIdFormat::Human.make(&seed(0, 0, 0), &two_words);
        assert_eq!(id.as_str(), format!("{}-{}-2", ADJECTIVES[0], NOUNS[0]));
        let up_to_two = |id: &str| two_words(id) || id.ends_with("-2");
        let id = RunIdFormat::Human.make(&seed(0, 0, 0), &up_to_two);
        assert_eq!(id.as_str(), format!("{}-{}-3", ADJECTIVES[0], NOUNS[0]));
    }

    #[test]
    fn the_walk_meets_every_pair_once() {
        for random in [0, 0x0002_0000, 0x8000_ffff, 0xffff_3fff, u64::MAX] {
            let met = RefCell::new(Vec::new());
            let taken = |id: &str| {
                met.borrow_mut().push(id.to_owned());
                id.split('-').count() == 2
            };
            let numbered = RunIdFormat::Human.make(&seed(random, 0, 0), &taken);
            let mut met = met.into_inner();
            assert_eq!(met.pop().as_deref(), Some(numbered.as_str()));
            assert_eq!(met.len(), usize::from(PAIRS), "{random:x}");
            assert_eq!(met.iter().collect::<HashSet<_>>().len(), met.len(), "{random:x}");
        }
    }

    #[test]
    fn a_moment_that_is_used_up_gives_way_to_the_next() {
        let asked = Cell::new(0);
        let taken = |id: &str| {
            asked.set(asked.get() + 1);
            id.starts_with("run-z-")
        };
        let id = RunIdFormat::Compact.make(&seed(0xffff, 35, 0), &taken);
        assert_eq!((id.as_str(), asked.get()), ("run-10-ffff", 65_537));
    }

    #[test]
    fn a_clock_before_1970_and_a_full_counter_still_give_ids() {
        assert_eq!(RunIdFormat::Compact.make(&seed(1, -5, 0), FREE).as_str(), "run-0-0001");
        let id = RunIdFormat::Counter.make(&seed(0, 0, u64::MAX), FREE);
        assert_eq!(id.as_str(), "run-18446744073709551616");
    }

    fn is_well_formed(format: RunIdFormat, id: &str) -> bool {
        let parts: Vec<_> = id.split('-').collect();
        match (format, &parts[..]) {
            (RunIdFormat::Human, [adjective, noun]) => {
                ADJECTIVES.contains(adjective) && NOUNS.contains(noun)
            }
            (RunIdFormat::Compact, ["run", moment, chance]) => {
                u64::from_str_radix(moment, 36).is_ok()
                    && chance.len() == 4
                    && u16::from_str_radix(chance, 16).is_ok()
            }
            (RunIdFormat::Counter, ["run", number]) => number.parse::<u128>().is_ok_and(|n| n > 0),
            _ => false,
        }
    }

    fn any_format() -> impl Strategy<Value = RunIdFormat> {
        prop::sample::select(vec![RunIdFormat::Human, RunIdFormat::Compact, RunIdFormat::Counter])
    }

    proptest! {
        #[test]
        fn ids_are_unique_well_formed_and_safe(
            format in any_format(),
            random: u64,
            millis: i64,
            runs_so_far: u64,
        ) {
            let seed = seed(random, millis, runs_so_far);
            let mut ids = HashSet::new();
            for _ in 0..20 {
                let id = format.make(&seed, &|id| ids.contains(id));
                prop_assert!(is_well_formed(format, id.as_str()), "{id}");
                prop_assert_eq!(id.as_str().parse(), Ok(id.clone()));
                prop_assert!(ids.insert(id.as_str().to_owned()), "{id} was taken");
            }
        }

        #[test]
        fn compact_carries_the_moment(random: u64, millis in 0..253_402_207_200_000_i64) {
            let id = RunIdFormat::Compact.make(&seed(random, millis, 0), FREE);
            let moment = id.as_str().split('-').nth(1).unwrap();
            prop_assert_eq!(i64::from_str_radix(moment, 36), Ok(millis));
        }

        #[test]
        fn safe_means_one_plain_path_segment(text in "[a-z0-9A-Z._/ü-]{0,70}") {
            let by_rule = text.len() <= 64
                && text.starts_with(|c: char| matches!(c, 'a'..='z' | '0'..='9'))
                && !text.contains(|c: char| !matches!(c, 'a'..='z' | '0'..='9' | '.' | '_' | '-'))
                && !text.contains("..");
            prop_assert_eq!(text.parse::<RunId>().is_ok(), by_rule);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]

        #[test]
        fn the_walk_finds_the_only_free_pair(random: u64, free in 0..PAIRS) {
            let free = pair(free);
            // A walk that misses the pair ends at a numbered one instead of going on forever.
            let taken = |id: &str| id != free && id.split('-').count() == 2;
            let id = RunIdFormat::Human.make(&seed(random, 0, 0), &taken);
            prop_assert_eq!(id.as_str(), free);
        }
    }
}
