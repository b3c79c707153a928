//! Leaving the middle of long strings out of a line that is too long to be held.
//!
//! An agent may print a hundred megabytes, and its output is one string in one record. A view wants
//! the other fields of that record and a little of the string. So a giant line goes through here piece
//! by piece, and what comes out is the same JSON with its long strings cut short.

/// How much of the beginning of a string is kept.
const HEAD: usize = 64 * 1024;
/// How much of its end is kept. It has to be enough for the brace of a record that was glued to a torn
/// one in the middle of a string; see the salvage of records.
const TAIL: usize = 32;

/// Takes the bytes of one line, piece by piece, and keeps what is worth keeping.
#[derive(Debug, Default)]
pub(super) struct Elider {
    kept: Vec<u8>,
    state: State,
    /// How many bytes of the string that is being read were kept.
    head: usize,
    /// Whether something of it was left out.
    is_cut: bool,
    /// The end of what was left out, none of it from an escape.
    tail: Vec<u8>,
    /// How many bytes came in.
    taken: u64,
    elisions: Vec<Elision>,
}

/// A place where something was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Elision {
    /// The bytes kept of the end of the string, as a range of what is kept.
    tail: std::ops::Range<usize>,
    /// Where in the line that range ends.
    end: u64,
}

/// Where in the line a place in what is kept of it lies.
pub(super) fn place_in_line(elisions: &[Elision], kept: usize) -> u64 {
    match elisions.iter().rev().find(|elision| elision.tail.start <= kept) {
        None => kept as u64,
        Some(Elision { tail, end }) if kept < tail.end => end - (tail.end - kept) as u64,
        Some(Elision { tail, end }) => end + (kept - tail.end) as u64,
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Outside,
    Inside,
    /// Inside, behind a backslash.
    Escape,
}

impl Elider {
    /// Takes the next piece, which has no newline in it.
    pub(super) fn push(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() {
            let taken = match self.state {
                State::Outside => self.outside(piece),
                State::Inside => self.inside(piece),
                State::Escape => self.escape(piece),
            };
            piece = &piece[taken..];
            self.taken += taken as u64;
        }
    }

    /// How much is kept so far.
    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// What is kept of the line, and where something was left out.
    pub(super) fn finish(mut self) -> (Vec<u8>, Vec<Elision>) {
        self.end_string(self.taken);
        (self.kept, self.elisions)
    }

    fn outside(&mut self, piece: &[u8]) -> usize {
        let end = memchr::memchr(b'"', piece);
        let taken = end.map_or(piece.len(), |quote| quote + 1);
        self.kept.extend_from_slice(&piece[..taken]);
        if end.is_some() {
            self.state = State::Inside;
            self.head = 0;
        }
        taken
    }

    fn inside(&mut self, piece: &[u8]) -> usize {
        let end = memchr::memchr2(b'"', b'\\', piece);
        let plain = end.unwrap_or(piece.len());
        self.keep_plain(&piece[..plain]);
        match end.map(|at| piece[at]) {
            Some(b'"') => {
                self.end_string(self.taken + plain as u64);
                self.kept.push(b'"');
                self.state = State::Outside;
                plain + 1
            }
            Some(_) => {
                self.state = State::Escape;
                plain + 1
            }
            None => plain,
        }
    }

    /// Behind a backslash: both bytes are kept or left out together.
    fn escape(&mut self, piece: &[u8]) -> usize {
        // Six bytes of room, so that the digits of `\u0022` are kept with it.
        if self.head + 6 <= HEAD {
            self.kept.extend_from_slice(&[b'\\', piece[0]]);
            self.head += 2;
        } else {
            self.head = HEAD;
            self.is_cut = true;
            self.tail.clear();
        }
        self.state = State::Inside;
        1
    }

    fn keep_plain(&mut self, plain: &[u8]) {
        let room = (HEAD - self.head).min(plain.len());
        self.kept.extend_from_slice(&plain[..room]);
        self.head += room;
        let left_out = &plain[room..];
        self.is_cut |= !left_out.is_empty();
        self.tail.extend_from_slice(&left_out[left_out.len().saturating_sub(TAIL)..]);
        let excess = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..excess);
    }

    /// Ends a string whose last byte lies before `end` in the line.
    fn end_string(&mut self, end: u64) {
        if self.is_cut {
            trim_to_character(&mut self.kept);
            self.kept.extend_from_slice(" […] ".as_bytes());
            let whole = self.tail.iter().position(|byte| byte & 0xc0 != 0x80);
            let begin = self.kept.len();
            self.kept.extend_from_slice(&self.tail[whole.unwrap_or(self.tail.len())..]);
            let tail = begin..self.kept.len();
            self.elisions.push(Elision { tail, end });
        }
        self.tail.clear();
        self.is_cut = false;
        self.head = 0;
    }
}

/// Takes the beginning of a character whose end was left out off the end.
fn trim_to_character(text: &mut Vec<u8>) {
    let end = text.len().saturating_sub(4);
    if let Err(error) = std::str::from_utf8(&text[end..])
        && error.error_len().is_none()
    {
        text.truncate(end + error.valid_up_to());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use autoloop_core::record::{Glance, pieces};

    fn elide(line: &[u8], step: usize) -> Vec<u8> {
        let mut elider = Elider::default();
        for piece in line.chunks(step) {
            elider.push(piece);
        }
        elider.finish().0
    }

    fn record(output: &str) -> String {
        format!(
            r#"{{"run": "r", "iteration": "1", "topic": "iteration.finish", "fields": {{"exit_code": "0", "output": "{output}", "more": "x"}}, "v": 1}}"#
        )
    }

    #[test]
    fn short_strings_stay_as_they_are() {
        let line = record("a\\u0022b ä \\\" c");
        for step in [1, 2, 3, 7, 1000] {
            assert_eq!(elide(line.as_bytes(), step), line.as_bytes());
        }
    }

    #[test]
    fn a_long_string_is_cut_and_the_rest_can_be_read() {
        for unit in ["x", "\\u000a", "ä", "\\\\", "漢\\\""] {
            let line = record(&unit.repeat(200_000));
            for step in [997, 65_536] {
                let kept = elide(line.as_bytes(), step);
                assert!(kept.len() < HEAD + 300, "{unit}: {}", kept.len());
                let glance = Glance::read(&kept).unwrap();
                assert_eq!(glance.field("exit_code").unwrap(), "0");
                assert_eq!(glance.field("more").unwrap(), "x");
                assert!(glance.field("output").unwrap().contains("[…]"), "{unit}");
            }
        }
    }

    #[test]
    fn a_record_glued_to_a_giant_fragment_is_still_found() {
        let torn = &record(&"x".repeat(200_000))[..150_000];
        let line = format!("{torn}{}", record("short"));
        let kept = elide(line.as_bytes(), 4096);
        let found = pieces(&kept);
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].content.as_ref().unwrap().field("output").unwrap(), "short");
    }

    #[test]
    fn places_in_the_line_are_known_behind_what_was_left_out() {
        let long = "ä\\u000a".repeat(20_000);
        let line = format!("{}, {}, {}", record(&long), record(&long), record("short"));
        for step in [997, 65_536] {
            let mut elider = Elider::default();
            line.as_bytes().chunks(step).for_each(|piece| elider.push(piece));
            let (kept, elisions) = elider.finish();
            assert!(kept.len() < line.len());
            for begin in memchr::memmem::find_iter(&kept, b"\"more\"") {
                let place = usize::try_from(place_in_line(&elisions, begin)).unwrap();
                assert_eq!(&line[place..place + 6], "\"more\"");
            }
            assert_eq!(place_in_line(&elisions, kept.len()), line.len() as u64);
        }
    }
}
