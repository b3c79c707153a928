//! The object in a message: kept from its first `{`, then read by `serde_json`.

use serde_json::Deserializer;
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::{Ruling, Verdict, Violation};
use crate::config::Place;
use crate::{json, text};

/// The most bytes from the first `{` on that are kept; an object that is longer is a violation.
pub const LONGEST: usize = 8 * 1024 * 1024;

const VERDICT: &str = "verdict";
const FOLLOW_UP: &str = "followUpPrompt";

/// How many characters of a key or a verdict are shown.
const SHOWN: usize = 40;
/// How many keys are shown of an object that is no verdict.
const KEYS: usize = 5;
/// How many bytes before the first `{` are quoted, and how many from it on.
const QUOTED_BEFORE: usize = 60;
const QUOTED_FROM: usize = 80;

/// Collects a message that arrives in pieces.
#[derive(Debug)]
pub struct Message {
    /// The position after the text before the first `{`.
    begin: Place,
    /// Whether there was anything but white space.
    spoken: bool,
    /// The end of the text before the first `{`.
    before: Vec<u8>,
    object: Vec<u8>,
    is_truncated: bool,
}

impl Default for Message {
    fn default() -> Self {
        let (before, object) = (Vec::new(), Vec::new());
        Message { begin: Place::START, spoken: false, before, object, is_truncated: false }
    }
}

impl Message {
    pub(super) fn push(&mut self, piece: &[u8]) {
        let mut object = piece;
        if self.object.is_empty() {
            let (before, from) = piece.split_at(memchr::memchr(b'{', piece).unwrap_or(piece.len()));
            self.spoken |= !piece.trim_ascii().is_empty();
            self.begin = self.begin.behind(before);
            self.before.extend_from_slice(&before[before.len().saturating_sub(QUOTED_BEFORE)..]);
            self.before.drain(..self.before.len().saturating_sub(QUOTED_BEFORE));
            object = from;
        }
        let room = LONGEST - self.object.len();
        self.is_truncated |= object.len() > room;
        self.object.extend_from_slice(&object[..object.len().min(room)]);
    }

    pub(super) fn finish(self) -> Result<Verdict, Violation> {
        if self.object.is_empty() {
            return Err(if self.spoken { Violation::NoObject } else { Violation::Empty });
        }
        let object = String::from_utf8_lossy(&self.object);
        match Fields::read(&object) {
            Ok(fields) => fields.verdict(|| self.quote()),
            Err(error) if error.classify() == Category::Eof && self.is_truncated => {
                Err(Violation::TooLong(self.begin))
            }
            Err(error) if error.classify() == Category::Eof => {
                Err(Violation::Incomplete(self.begin))
            }
            Err(error) => Err(self.not_json(&object, &error)),
        }
    }

    fn not_json(&self, object: &str, error: &serde_json::Error) -> Violation {
        let lines = object.split_inclusive('\n').take(error.line() - 1).map(str::len);
        // The column is the number of bytes up to and including the wrong one.
        let offset = (lines.sum::<usize>() + error.column()).saturating_sub(1);
        let at = self.begin.behind(&object.as_bytes()[..offset]);
        let position = format!(" at line {} column {}", error.line(), error.column());
        let problem = error.to_string().replace(&position, "");
        Violation::NotJson { begin: self.begin, at, problem, quote: self.quote() }
    }

    /// The text around the first `{` in one line, if text comes before it.
    fn quote(&self) -> Option<String> {
        let from = &self.object[..self.object.len().min(QUOTED_FROM)];
        let around = [&self.before, from].concat();
        let is_spoken = !self.before.trim_ascii().is_empty();
        is_spoken.then(|| text::one_line(String::from_utf8_lossy(&around).trim_matches('\u{fffd}')))
    }
}

/// The fields of the object as JSON text, so that depth, size and halves of surrogate pairs make no
/// difference.
#[derive(Default)]
struct Fields<'t> {
    /// The first keys, to be shown.
    names: Vec<String>,
    verdict: Option<&'t RawValue>,
    follow_up: Option<&'t RawValue>,
}

impl<'t> Fields<'t> {
    fn read(object: &'t str) -> Result<Self, serde_json::Error> {
        let mut fields = Fields::default();
        json::each_pair(&mut Deserializer::from_str(object), |key, value| {
            let key = string(key).unwrap_or_default();
            match key.as_str() {
                VERDICT => fields.verdict = Some(value),
                FOLLOW_UP => fields.follow_up = Some(value),
                _ => {}
            }
            if fields.names.len() < KEYS {
                fields.names.push(text::clip(&key, SHOWN).into_owned());
            }
        })?;
        Ok(fields)
    }

    fn verdict(self, quote: impl Fn() -> Option<String>) -> Result<Verdict, Violation> {
        let missing = |key| Violation::Missing { key, found: self.names.clone(), quote: quote() };
        let word = field(VERDICT, self.verdict.ok_or_else(|| missing(VERDICT))?)?;
        let Some(ruling) = Ruling::from_word(&word) else {
            return Err(Violation::BadVerdict(text::clip(&word, SHOWN).into_owned()));
        };
        let follow_up = field(FOLLOW_UP, self.follow_up.ok_or_else(|| missing(FOLLOW_UP))?)?;
        Ok(Verdict { ruling, follow_up })
    }
}

fn field(key: &'static str, value: &RawValue) -> Result<String, Violation> {
    string(value).ok_or_else(|| {
        let found = match value.get().as_bytes().first() {
            Some(b'{') => "an object",
            Some(b'[') => "a list",
            Some(b't' | b'f') => "true or false",
            Some(b'n') => "null",
            _ => "a number",
        };
        Violation::NotText { key, found }
    })
}

fn string(value: &RawValue) -> Option<String> {
    let raw = value.get().strip_prefix('"')?.strip_suffix('"')?;
    Some(json::unescape(raw.as_bytes()).into_owned())
}
