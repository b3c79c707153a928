//! One JSON object, checked byte by byte as it comes in.
//!
//! The grammar is that of RFC 8259, to the letter. How deep values are nested and how long numbers are makes no
//! difference: a level costs one bit, and a number is never worked out. Every byte is looked at once, but for
//! the one that ends a string, a number or a word, which is looked at twice.

mod escape;
mod flaw;
mod nest;
mod number;

use std::fmt;

pub use flaw::Flaw;

use escape::Escape;
use nest::{Bracket, Nest};
use number::Digits;

/// What stands in the outermost object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'p> {
    /// A key begins.
    Key,
    /// The value of that key begins.
    Value(Kind),
    /// A part of what stands between the quotes of a key, or of a value that is a string.
    Text(&'p [u8]),
    /// Its end.
    TextEnd,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `"…"`
    Text,
    /// A number.
    Number,
    /// `true` or `false`
    Flag,
    /// `null`
    Null,
    /// `[…]`
    List,
    /// `{…}`
    Object,
}

/// How far it went.
#[derive(Debug)]
pub(super) struct Progress {
    /// How many bytes were taken.
    pub(super) taken: usize,
    /// Whether the object has ended.
    pub(super) result: Result<bool, Flaw>,
}

/// Checks an object whose `{` has been taken.
#[derive(Debug)]
pub(super) struct Scanner {
    state: State,
    nest: Nest,
    /// How often a byte was looked at.
    #[cfg(test)]
    pub(super) looks: usize,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The first key of an object, or its end.
    FirstKey,
    /// A key.
    Key,
    /// The colon behind a key.
    Colon,
    /// A value.
    Value,
    /// The first value of a list, or its end.
    FirstItem,
    /// What stands behind a value.
    Behind,
    /// The rest of a string.
    Text(Use, Escape),
    /// The rest of a number.
    Number(Digits),
    /// The rest of `true`, `false` or `null`.
    Word(&'static [u8]),
    /// Nothing.
    Over,
}

/// What a string is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Key,
    Value,
}

impl Default for Scanner {
    fn default() -> Self {
        let mut nest = Nest::default();
        nest.push(Bracket::Object);
        Scanner {
            state: State::FirstKey,
            nest,
            #[cfg(test)]
            looks: 0,
        }
    }
}

impl Scanner {
    /// Takes the next piece, up to the end of the object or to what is wrong with it.
    pub(super) fn push(&mut self, piece: &[u8], show: &mut impl FnMut(Token<'_>)) -> Progress {
        let mut taken = 0;
        while taken < piece.len() && self.state != State::Over {
            match self.step(&piece[taken..], show) {
                Ok(more) => taken += more,
                Err(flaw) => return Progress { taken, result: Err(flaw) },
            }
        }
        Progress { taken, result: Ok(self.state == State::Over) }
    }

    /// Takes some of the bytes, of which there is at least one, and says how many.
    fn step(&mut self, rest: &[u8], show: &mut impl FnMut(Token<'_>)) -> Result<usize, Flaw> {
        let taken = match self.state {
            State::Text(usage, escape) => {
                let taken = self.text(usage, escape, rest)?;
                if self.nest.depth == 1 {
                    show(match self.state {
                        State::Text(..) => Token::Text(&rest[..taken]),
                        _ => Token::TextEnd,
                    });
                }
                taken
            }
            State::Number(digits) => match digits.next(rest[0])? {
                Some(digits) => {
                    self.state = State::Number(digits);
                    1
                }
                None => {
                    self.state = State::Behind;
                    0
                }
            },
            State::Word([]) => {
                self.state = State::Behind;
                0
            }
            State::Word([next, left @ ..]) => {
                expect(rest[0] == *next, "true, false or null", rest[0])?;
                self.state = State::Word(left);
                1
            }
            _ => match rest.iter().take_while(|byte| is_blank(**byte)).count() {
                0 => {
                    self.structure(rest[0], show)?;
                    1
                }
                blanks => blanks,
            },
        };
        #[cfg(test)]
        {
            self.looks += taken + 1;
        }
        Ok(taken)
    }

    /// Takes a byte between values.
    fn structure(&mut self, byte: u8, show: &mut impl FnMut(Token<'_>)) -> Result<(), Flaw> {
        let is_outermost = self.nest.depth == 1;
        match (self.state, byte) {
            (State::FirstKey | State::Key, b'"') => {
                self.state = State::Text(Use::Key, Escape::None);
                if is_outermost {
                    show(Token::Key);
                }
            }
            (State::FirstKey, b'}') | (State::FirstItem, b']') => self.close(),
            (State::FirstKey, found) => expect(false, "a key in double quotes or '}'", found)?,
            (State::Key, found) => expect(false, "a key in double quotes", found)?,
            (State::Colon, found) => {
                expect(found == b':', "a colon", found)?;
                self.state = State::Value;
            }
            (State::Behind, b',') => {
                self.state = match self.nest.innermost() {
                    Bracket::Object => State::Key,
                    Bracket::List => State::Value,
                }
            }
            (State::Behind, found) => {
                match self.nest.innermost() {
                    Bracket::Object => expect(found == b'}', "a comma or '}'", found)?,
                    Bracket::List => expect(found == b']', "a comma or ']'", found)?,
                }
                self.close();
            }
            // All that is left are values.
            (_, first) => {
                let kind = self.value(first)?;
                if is_outermost {
                    show(Token::Value(kind));
                }
            }
        }
        Ok(())
    }

    /// Takes the first byte of a value.
    fn value(&mut self, first: u8) -> Result<Kind, Flaw> {
        let (kind, state) = match first {
            b'"' => (Kind::Text, State::Text(Use::Value, Escape::None)),
            b'{' => (Kind::Object, State::FirstKey),
            b'[' => (Kind::List, State::FirstItem),
            b't' => (Kind::Flag, State::Word(b"rue")),
            b'f' => (Kind::Flag, State::Word(b"alse")),
            b'n' => (Kind::Null, State::Word(b"ull")),
            first => match Digits::begun_by(first) {
                Some(digits) => (Kind::Number, State::Number(digits)),
                None => return Err(Flaw::Unexpected { wanted: "a value", found: first }),
            },
        };
        match kind {
            Kind::Object => self.nest.push(Bracket::Object),
            Kind::List => self.nest.push(Bracket::List),
            Kind::Text | Kind::Number | Kind::Flag | Kind::Null => {}
        }
        self.state = state;
        Ok(kind)
    }

    fn close(&mut self) {
        self.nest.pop();
        self.state = if self.nest.depth == 0 { State::Over } else { State::Behind };
    }

    /// Takes a part of a string, or the quote that ends it.
    fn text(&mut self, usage: Use, begun: Escape, rest: &[u8]) -> Result<usize, Flaw> {
        let mut escape = begun;
        for (at, &byte) in rest.iter().enumerate() {
            escape = match escape.next(byte) {
                Ok(Some(escape)) => escape,
                // Whatever ends the part is looked at again, by itself.
                _ if at > 0 => {
                    self.state = State::Text(usage, escape);
                    return Ok(at);
                }
                Ok(None) => {
                    self.state = match usage {
                        Use::Key => State::Colon,
                        Use::Value => State::Behind,
                    };
                    return Ok(1);
                }
                Err(flaw) => return Err(flaw),
            };
        }
        self.state = State::Text(usage, escape);
        Ok(rest.len())
    }
}

/// What JSON has for white space.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn expect(holds: bool, wanted: &'static str, found: u8) -> Result<(), Flaw> {
    if holds { Ok(()) } else { Err(Flaw::Unexpected { wanted, found }) }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Text => "a string",
            Kind::Number => "a number",
            Kind::Flag => "true or false",
            Kind::Null => "null",
            Kind::List => "a list",
            Kind::Object => "an object",
        })
    }
}
