//! The object in a message: where it begins, and the two keys of it that count.

use super::scan::{Flaw, Kind, Progress, Scanner, Token};
use super::text::Text;
use super::{Ruling, Verdict, Violation};
use crate::config::Place;
use crate::text;

/// The keys of the contract.
const VERDICT: &str = "verdict";
const FOLLOW_UP: &str = "followUpPrompt";

/// How many characters of it are shown to a person.
const SHOWN: usize = 40;
/// How many bytes before the first `{` are quoted, and how many from it on.
const QUOTED: (usize, usize) = (60, 80);
/// How many keys are shown of an object that is no verdict.
const KEYS: usize = 5;

/// Reads a message in pieces.
#[derive(Debug)]
pub(super) struct Message {
    /// Behind what was taken, until the object has ended.
    place: Place,
    /// Whether there was anything but white space.
    spoken: bool,
    object: Option<Object>,
    around: Around,
}

/// What stands around the first `{`: the end of the text before it, and its own beginning.
#[derive(Debug, Default)]
struct Around {
    before: Vec<u8>,
    from: Vec<u8>,
}

impl Around {
    fn push_before(&mut self, piece: &[u8]) {
        self.before.extend_from_slice(&piece[piece.len().saturating_sub(QUOTED.0)..]);
        self.before.drain(..self.before.len().saturating_sub(QUOTED.0));
    }

    fn push_from(&mut self, piece: &[u8]) {
        let left = QUOTED.1.saturating_sub(self.from.len());
        self.from.extend_from_slice(&piece[..piece.len().min(left)]);
    }

    /// In one line, where there is text before the brace.
    fn quote(&self) -> Option<String> {
        let is_spoken = !self.before.trim_ascii().is_empty();
        let text = [&self.before[..], &self.from].concat();
        is_spoken.then(|| text::one_line(String::from_utf8_lossy(&text).trim_matches('\u{fffd}')))
    }
}

/// The object, from the first `{` on.
#[derive(Debug)]
struct Object {
    begin: Place,
    scanner: Scanner,
    fields: Fields,
    state: State,
}

#[derive(Debug)]
enum State {
    Open,
    Closed,
    Broken { at: Place, flaw: Flaw },
}

/// What the object holds, as far as it matters.
#[derive(Debug, Default)]
struct Fields {
    /// The first keys, for people.
    names: Vec<String>,
    /// The key that is being read.
    key: Text,
    /// The key whose value comes next.
    name: String,
    /// Where a text goes that is being read.
    part: Part,
    verdict: Option<Value>,
    follow_up: Option<Value>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Nowhere,
    Key,
    Verdict,
    FollowUp,
}

#[derive(Debug)]
enum Value {
    Text(Text),
    Other(Kind),
}

impl Default for Message {
    fn default() -> Self {
        Message { place: Place::START, spoken: false, object: None, around: Around::default() }
    }
}

impl Message {
    pub(super) fn push(&mut self, piece: &[u8]) {
        let mut rest = piece;
        if self.object.is_none() {
            let preamble = memchr::memchr(b'{', rest).unwrap_or(rest.len());
            self.spoken |= !rest.trim_ascii().is_empty();
            self.place = self.place.behind(&rest[..preamble]);
            self.around.push_before(&rest[..preamble]);
            let Some(behind) = rest.get(preamble + 1..) else { return };
            self.object = Some(Object::new(self.place));
            self.place = self.place.behind(b"{");
            self.around.push_from(b"{");
            rest = behind;
        }
        self.around.push_from(rest);
        if let Some(object) = &mut self.object {
            self.place = object.push(rest, self.place);
        }
    }

    pub(super) fn finish(self) -> Result<Verdict, Violation> {
        match self.object {
            None if self.spoken => Err(Violation::NoObject),
            None => Err(Violation::Empty),
            Some(object) => object.finish(self.around.quote()),
        }
    }
}

impl Object {
    fn new(begin: Place) -> Self {
        let (scanner, fields) = (Scanner::default(), Fields::default());
        Object { begin, scanner, fields, state: State::Open }
    }

    /// Takes what stands here, and says where it ends.
    fn push(&mut self, piece: &[u8], here: Place) -> Place {
        if !matches!(self.state, State::Open) {
            return here;
        }
        let Object { scanner, fields, .. } = self;
        let Progress { taken, result } = scanner.push(piece, &mut |token| fields.take(token));
        let at = here.behind(&piece[..taken]);
        match result {
            Ok(false) => {}
            Ok(true) => self.state = State::Closed,
            Err(flaw) => self.state = State::Broken { at, flaw },
        }
        at
    }

    fn finish(self, quote: Option<String>) -> Result<Verdict, Violation> {
        match self.state {
            State::Open => Err(Violation::CutOff(self.begin)),
            State::Closed => self.fields.verdict(quote),
            State::Broken { at, flaw } => {
                Err(Violation::NotJson { begin: self.begin, at, flaw, quote })
            }
        }
    }
}

impl Fields {
    fn take(&mut self, token: Token<'_>) {
        match token {
            Token::Key => {
                self.key = Text::default();
                self.part = Part::Key;
            }
            Token::Value(kind) => self.begin(kind),
            Token::Text(raw) => match self.part {
                Part::Nowhere => {}
                Part::Key => self.key.push_beginning(raw),
                Part::Verdict => {
                    if let Some(Value::Text(text)) = &mut self.verdict {
                        text.push_beginning(raw);
                    }
                }
                Part::FollowUp => {
                    if let Some(Value::Text(text)) = &mut self.follow_up {
                        text.push_ends(raw);
                    }
                }
            },
            Token::TextEnd => {
                if self.part == Part::Key {
                    self.end_of_key();
                }
            }
        }
    }

    /// The value of a key begins; of a key that was there before, nothing is left.
    fn begin(&mut self, kind: Kind) {
        let value = match kind {
            Kind::Text => Value::Text(Text::default()),
            other => Value::Other(other),
        };
        self.part = match self.name.as_str() {
            VERDICT => {
                self.verdict = Some(value);
                Part::Verdict
            }
            FOLLOW_UP => {
                self.follow_up = Some(value);
                Part::FollowUp
            }
            _ => Part::Nowhere,
        };
    }

    fn end_of_key(&mut self) {
        let key = std::mem::take(&mut self.key).finish();
        if self.names.len() < KEYS {
            self.names.push(text::clip(&key, SHOWN).into_owned());
        }
        self.name = key;
    }

    fn verdict(self, quote: Option<String>) -> Result<Verdict, Violation> {
        let word = match self.verdict {
            None => {
                return Err(Violation::Missing { key: VERDICT, found: self.names, quote });
            }
            Some(value) => value.text(VERDICT)?,
        };
        let Some(ruling) = Ruling::from_word(&word) else {
            return Err(Violation::BadVerdict(text::clip(&word, SHOWN).into_owned()));
        };
        match self.follow_up {
            None => Err(Violation::Missing { key: FOLLOW_UP, found: self.names, quote }),
            Some(value) => Ok(Verdict { ruling, follow_up: value.text(FOLLOW_UP)? }),
        }
    }
}

impl Value {
    fn text(self, key: &'static str) -> Result<String, Violation> {
        match self {
            Value::Text(text) => Ok(text.finish()),
            Value::Other(found) => Err(Violation::NotText { key, found }),
        }
    }
}
