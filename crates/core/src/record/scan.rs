//! The fast scanner for lines that were written to the rule.
//!
//! In such a line a string ends at the next `"`, because the [escaping rule](crate::json) never leaves one inside.
//! A backslash before a `"` means that another program wrote the line: the scanner gives up, and
//! [`parse`](super::parse) reads it. It also gives up on anything unusual (an unknown key, a nested value, white
//! space elsewhere) and anything invalid (a control character, an escape, a literal), so it never decides
//! anything. On every other line the parser reads the same values, except for what a [`Glance`](super::Glance)
//! accepts in addition; tests and a fuzz target compare the two.

use crate::json::is_orderly;

/// How many fields are checked for duplicate keys before the scanner leaves the line to the parser.
const MOST_FIELDS: usize = 24;

/// The parts of a line, still escaped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Scan<'a> {
    pub(super) run: &'a [u8],
    pub(super) iteration: &'a [u8],
    pub(super) topic: &'a [u8],
    /// Without the braces.
    pub(super) fields: Option<&'a [u8]>,
    pub(super) payload: Option<&'a [u8]>,
    pub(super) source: Option<&'a [u8]>,
    pub(super) ts: Option<&'a [u8]>,
    pub(super) seal: Option<&'a [u8]>,
}

/// A value inside `fields`, still escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar<'a> {
    Text(&'a [u8]),
    Literal(&'a [u8]),
}

pub(super) fn scan(line: &[u8]) -> Option<Scan<'_>> {
    // The first bytes tell most lines of other programs apart, before the whole line is checked.
    if !line.starts_with(b"{\"run\": ") || !is_orderly(line) {
        return None;
    }
    let mut at = Cursor { rest: line };
    let mut found = Scan::default();
    let (mut run, mut iteration, mut topic, mut version) = (None, None, None, None);
    at.expect(b"{")?;
    loop {
        // Two bytes tell the keys apart, and a comparison with a text of known length is a few
        // instructions: every record of a gigabyte has up to eight of them.
        let (slot, value) = match (at.rest.get(1)?, at.rest.get(2)?) {
            (b'r', _) => (&mut run, at.expect(br#""run": "#)?.text()?),
            (b'i', _) => (&mut iteration, at.expect(br#""iteration": "#)?.text()?),
            (b't', b'o') => (&mut topic, at.expect(br#""topic": "#)?.text()?),
            (b'f', _) => (&mut found.fields, at.expect(br#""fields": "#)?.flat_object()?),
            (b'p', _) => (&mut found.payload, at.expect(br#""payload": "#)?.text()?),
            (b's', b'e') => (&mut found.seal, at.expect(br#""seal": "#)?.text()?),
            (b's', _) => (&mut found.source, at.expect(br#""source": "#)?.text()?),
            (b't', b's') => (&mut found.ts, at.expect(br#""ts": "#)?.text()?),
            (b'v', _) => (&mut version, at.expect(br#""v": "#)?.literal()?),
            _ => return None,
        };
        if slot.replace(value).is_some() {
            return None;
        }
        match at.next()? {
            b',' => at.expect(b" ")?,
            b'}' => break,
            _ => return None,
        };
    }
    // The parser decides about records with both shapes, or neither.
    if !at.rest.is_empty() || found.fields.is_some() == found.payload.is_some() {
        return None;
    }
    Some(Scan { run: run?, iteration: iteration?, topic: topic?, ..found })
}

fn is_literal(literal: &[u8]) -> bool {
    matches!(literal, b"true" | b"false" | b"null") || is_number(literal)
}

fn is_number(number: &[u8]) -> bool {
    let is_digits = |digits: &[u8]| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let number = number.strip_prefix(b"-").unwrap_or(number);
    let (number, exponent) = cut(number, |byte| matches!(byte, b'e' | b'E'));
    let (whole, fraction) = cut(number, |byte| byte == b'.');
    let has_needless_zero = whole.len() > 1 && whole[0] == b'0';
    let is_exponent = |exponent: &[u8]| match exponent {
        [b'+' | b'-', digits @ ..] => is_digits(digits),
        digits => is_digits(digits),
    };
    is_digits(whole)
        && !has_needless_zero
        && fraction.is_none_or(is_digits)
        && exponent.is_none_or(is_exponent)
}

/// Splits at the first matching byte.
fn cut(bytes: &[u8], is_it: impl Fn(u8) -> bool) -> (&[u8], Option<&[u8]>) {
    match bytes.iter().position(|byte| is_it(*byte)) {
        Some(place) => (&bytes[..place], Some(&bytes[place + 1..])),
        None => (bytes, None),
    }
}

pub(super) fn pairs(fields: &[u8]) -> impl Iterator<Item = (&[u8], Scalar<'_>)> {
    let mut at = Cursor { rest: fields };
    std::iter::from_fn(move || {
        let pair = at.pair()?;
        if !at.rest.is_empty() {
            at.expect(b", ")?;
        }
        Some(pair)
    })
}

struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn next(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    fn expect<const N: usize>(&mut self, bytes: &[u8; N]) -> Option<&mut Self> {
        let (found, rest) = self.rest.split_first_chunk()?;
        if found != bytes {
            return None;
        }
        self.rest = rest;
        Some(self)
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count);
        self.rest = rest;
        taken
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        self.expect(b"\"")?;
        let end = memchr::memchr(b'"', self.rest)?;
        let text = self.take(end);
        self.next();
        Some(text)
    }

    /// Ends at a comma, a brace or the end.
    fn literal(&mut self) -> Option<&'a [u8]> {
        let is_end = |byte: &u8| matches!(byte, b',' | b'}');
        let end = self.rest.iter().position(is_end).unwrap_or(self.rest.len());
        is_literal(&self.rest[..end]).then(|| self.take(end))
    }

    fn pair(&mut self) -> Option<(&'a [u8], Scalar<'a>)> {
        let key = self.text()?;
        self.expect(b": ")?;
        let value = match self.rest.first()? {
            b'"' => Scalar::Text(self.text()?),
            _ => Scalar::Literal(self.literal()?),
        };
        Some((key, value))
    }

    /// The inside of an object without nesting and without duplicate keys.
    fn flat_object(&mut self) -> Option<&'a [u8]> {
        self.expect(b"{")?;
        let inside = self.rest;
        let mut keys: [&[u8]; MOST_FIELDS] = [&[]; MOST_FIELDS];
        if self.rest.first() == Some(&b'}') {
            self.next();
            return Some(&inside[..0]);
        }
        for count in 0..MOST_FIELDS {
            let (key, _) = self.pair()?;
            // Different bytes may be the same key, by other escapes or as invalid UTF-8.
            let is_plain = !key.contains(&b'\\') && std::str::from_utf8(key).is_ok();
            if !is_plain || keys[..count].contains(&key) {
                return None;
            }
            keys[count] = key;
            let length = inside.len() - self.rest.len();
            match self.next()? {
                b',' => self.expect(b" ")?,
                b'}' => return Some(&inside[..length]),
                _ => return None,
            };
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_from_what_looks_like_one() {
        for number in ["0", "-0", "10", "1.50", "1e5", "1E+999", "-2.5e-300", "0e0"] {
            assert!(is_number(number.as_bytes()), "{number}");
        }
        for other in [
            "", "-", "01", "-01", "1.", ".5", "1.e3", "1e", "1e+", "+1", "--1", "1e5e5", "0x1",
            "1 ",
        ] {
            assert!(!is_number(other.as_bytes()), "{other}");
        }
    }
}
