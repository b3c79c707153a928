//! The quick look at a line that was written to the rule.
//!
//! In such a line a string ends at the next `"`, because the [escaping rule](super::escape) never
//! leaves one inside. If the byte before that `"` is a backslash, the line was written by somebody
//! else, and the scanner gives up: [`parse`](super::parse) reads it. It gives up as well on anything
//! unusual (a key it does not know, a nested value, white space elsewhere), so it never has to decide
//! anything. On every valid line that it does not give up, it finds what the parser finds; the tests
//! and a fuzz target hold it to that.

/// How many fields are compared with each other for duplicates before the parser has to do it.
const MOST_FIELDS: usize = 24;

/// Where the parts of a line are, still escaped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Scan<'a> {
    pub(super) run: &'a [u8],
    pub(super) iteration: &'a [u8],
    pub(super) topic: &'a [u8],
    /// What stands between the braces.
    pub(super) fields: Option<&'a [u8]>,
    pub(super) payload: Option<&'a [u8]>,
    pub(super) source: Option<&'a [u8]>,
    pub(super) ts: Option<&'a [u8]>,
}

/// A value inside `fields`, still escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar<'a> {
    Text(&'a [u8]),
    /// A number, `true`, `false` or `null`.
    Literal(&'a [u8]),
}

pub(super) fn scan(line: &[u8]) -> Option<Scan<'_>> {
    let mut at = Cursor { rest: line };
    let mut found = Scan::default();
    let (mut run, mut iteration, mut topic, mut version) = (None, None, None, None);
    at.expect(b"{")?;
    loop {
        // Two bytes tell the keys apart, and a comparison with a text of known length is a few
        // instructions: there are eight of each in every record of a gigabyte.
        let (slot, value) = match (at.rest.get(1)?, at.rest.get(2)?) {
            (b'r', _) => (&mut run, at.expect(br#""run": "#)?.text()?),
            (b'i', _) => (&mut iteration, at.expect(br#""iteration": "#)?.text()?),
            (b't', b'o') => (&mut topic, at.expect(br#""topic": "#)?.text()?),
            (b'f', _) => (&mut found.fields, at.expect(br#""fields": "#)?.flat_object()?),
            (b'p', _) => (&mut found.payload, at.expect(br#""payload": "#)?.text()?),
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
    // Both shapes at once, or neither, is for the parser to sort out.
    if !at.rest.is_empty() || found.fields.is_some() == found.payload.is_some() {
        return None;
    }
    Some(Scan { run: run?, iteration: iteration?, topic: topic?, ..found })
}

/// The pairs between the braces of `fields`.
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

    /// A string, without its quotes.
    fn text(&mut self) -> Option<&'a [u8]> {
        self.expect(b"\"")?;
        let end = memchr::memchr(b'"', self.rest)?;
        let text = self.take(end);
        self.next();
        (text.last() != Some(&b'\\')).then_some(text)
    }

    fn literal(&mut self) -> Option<&'a [u8]> {
        let is_literal = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
        let end = self.rest.iter().position(|byte| !is_literal(byte))?;
        (end > 0).then(|| self.take(end))
    }

    fn pair(&mut self) -> Option<(&'a [u8], Scalar<'a>)> {
        let key = self.text()?;
        self.expect(b": ")?;
        let value = match self.rest.first()? {
            b'"' => Scalar::Text(self.text()?),
            b'{' | b'[' => return None,
            _ => Scalar::Literal(self.literal_or_rest()),
        };
        Some((key, value))
    }

    /// A literal that may be the last thing between the braces.
    fn literal_or_rest(&mut self) -> &'a [u8] {
        match self.literal() {
            Some(literal) => literal,
            None => self.take(self.rest.len()),
        }
    }

    /// An object without nesting and without doubled keys; what stands between its braces.
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
            if keys[..count].contains(&key) || key.contains(&b'\\') {
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
