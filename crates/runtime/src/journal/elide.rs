//! Leaves the middle of long strings out of a line that is too long for memory.
//!
//! An agent may print a hundred megabytes, and its output is one string in one record. A view needs the
//! other fields of that record and a little of the string. So a giant line is processed piece by piece, and
//! the result is the same JSON with its long strings shortened.

use autoloop_core::record::BadLine;

/// How much of the beginning of a string is kept.
const HEAD: usize = 64 * 1024;
/// How much of its end is kept: enough for the brace of a record that follows a torn one in the middle of a
/// string. Recovery finds such records.
const TAIL: usize = 32;

/// Begins a record, and occurs nowhere else in one, not even in a string.
const BEGINNING: &[u8] = b"{\"run\": \"";

/// Shortens one line, piece by piece.
#[derive(Debug, Default)]
pub(super) struct Elider {
    kept: Vec<u8>,
    state: State,
    /// Where in `kept` the current string begins.
    start: usize,
    /// Where in `kept` it can be cut: not in an escape, and not in a surrogate pair.
    boundary: usize,
    /// Whether some of the string was left out.
    is_cut: bool,
    /// The end of what was left out, without escapes.
    tail: Vec<u8>,
    /// The offset of the first half of a surrogate pair that was read last.
    half: Option<u64>,
    check: Check,
    /// How many bytes were read.
    taken: u64,
    /// The last of them before the current piece, as many as may begin a record.
    recent: Vec<u8>,
    elisions: Vec<Elision>,
}

/// Something that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Elision {
    /// The bytes kept of the end of the string, as a range of what is kept.
    tail: std::ops::Range<usize>,
    /// Where that range ends in the line.
    end: u64,
    pub(super) defects: Defects,
}

/// The offset in the line of an index in what is kept of it.
pub(super) fn offset_in_line(elisions: &[Elision], kept: usize) -> u64 {
    match elisions.iter().rev().find(|elision| elision.tail.start <= kept) {
        None => kept as u64,
        Some(Elision { tail, end, .. }) if kept < tail.end => end - (tail.end - kept) as u64,
        Some(Elision { tail, end, .. }) => end + (kept - tail.end) as u64,
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Outside,
    Inside,
    /// Inside an escape of which `length` bytes were read; `code` has its hexadecimal digits.
    Escape {
        length: u8,
        code: u16,
    },
}

impl Elider {
    /// Takes the next piece, which has no newline in it.
    pub(super) fn push(&mut self, piece: &[u8]) {
        let mut done = 0;
        while done < piece.len() {
            let rest = &piece[done..];
            let taken = match self.state {
                State::Outside => self.outside(rest),
                State::Inside => self.inside(rest),
                State::Escape { length, code } => self.escape(rest[0], length, code),
            };
            done += taken;
            self.taken += taken as u64;
            // A record before this one may have been torn in a string. Then every quote since was
            // misread, and the whole new record would be.
            if self.state == State::Outside && self.is_beginning(&piece[..done]) {
                self.begin_string();
            }
        }
        self.recent.extend_from_slice(&piece[piece.len().saturating_sub(BEGINNING.len())..]);
        let excess = self.recent.len().saturating_sub(BEGINNING.len());
        self.recent.drain(..excess);
    }

    /// Whether the bytes read end with the beginning of a record, given those of the current piece.
    fn is_beginning(&self, piece: &[u8]) -> bool {
        piece.ends_with(BEGINNING)
            || BEGINNING.strip_suffix(piece).is_some_and(|before| self.recent.ends_with(before))
    }

    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }

    pub(super) fn finish(mut self) -> (Vec<u8>, Vec<Elision>) {
        self.end_string(self.taken);
        (self.kept, self.elisions)
    }

    fn outside(&mut self, piece: &[u8]) -> usize {
        let end = memchr::memchr(b'"', piece);
        let taken = end.map_or(piece.len(), |quote| quote + 1);
        self.kept.extend_from_slice(&piece[..taken]);
        if end.is_some() {
            self.begin_string();
        }
        taken
    }

    fn begin_string(&mut self) {
        self.state = State::Inside;
        (self.start, self.boundary) = (self.kept.len(), self.kept.len());
    }

    fn inside(&mut self, piece: &[u8]) -> usize {
        let end = memchr::memchr2(b'"', b'\\', piece);
        let plain = end.unwrap_or(piece.len());
        if plain > 0 {
            self.end_half();
            self.check.text(&piece[..plain], self.taken);
            let was_cut = self.is_cut;
            let left_out = self.keep(&piece[..plain]);
            if !was_cut {
                self.boundary = self.kept.len();
            }
            self.tail.extend_from_slice(&left_out[left_out.len().saturating_sub(TAIL)..]);
            let excess = self.tail.len().saturating_sub(TAIL);
            self.tail.drain(..excess);
        }
        match end.map(|at| piece[at]) {
            Some(b'"') => {
                self.end_string(self.taken + plain as u64);
                self.kept.push(b'"');
                self.state = State::Outside;
                plain + 1
            }
            Some(_) => {
                self.check.end_of_text();
                self.keep(b"\\");
                self.tail.clear();
                self.state = State::Escape { length: 1, code: 0 };
                plain + 1
            }
            None => plain,
        }
    }

    /// Behind a backslash: reads one byte, or none if the escape ends without it.
    fn escape(&mut self, byte: u8, length: u8, code: u16) -> usize {
        let digit = char::from(byte).to_digit(16).filter(|_| length > 1);
        let belongs = digit.is_some() || (length == 1 && b"u\"\\/bfnrt".contains(&byte));
        if !belongs {
            self.check.defects.note(Flaw::Escape, self.taken);
            self.end_escape(None);
            return 0;
        }
        self.keep(&[byte]);
        let code = (code << 4) | digit.and_then(|digit| u16::try_from(digit).ok()).unwrap_or(0);
        match length {
            1 if byte != b'u' => self.end_escape(None),
            5 => self.end_escape(Some(code)),
            _ => self.state = State::Escape { length: length + 1, code },
        }
        1
    }

    /// Ends an escape, with its code if it is that of one UTF-16 unit.
    fn end_escape(&mut self, code: Option<u16>) {
        self.state = State::Inside;
        // Of the six bytes of such an escape, the last one is not counted yet.
        let begin = self.taken.saturating_sub(5);
        match code {
            Some(0xd800..=0xdbff) => {
                self.end_half();
                self.half = Some(begin);
                return;
            }
            Some(0xdc00..=0xdfff) => {
                if self.half.take().is_none() {
                    self.check.defects.note(Flaw::HalfSurrogate, begin);
                }
            }
            _ => self.end_half(),
        }
        if !self.is_cut {
            self.boundary = self.kept.len();
        }
    }

    /// Rejects the first half of a surrogate pair that was not followed by the second.
    fn end_half(&mut self) {
        if let Some(offset) = self.half.take() {
            self.check.defects.note(Flaw::HalfSurrogate, offset);
        }
    }

    /// Keeps bytes of a string while there is room, and returns the others.
    fn keep<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let room = HEAD - (self.kept.len() - self.start);
        let (head, left_out) = bytes.split_at(room.min(bytes.len()));
        self.kept.extend_from_slice(head);
        self.is_cut |= !left_out.is_empty();
        left_out
    }

    /// Ends a string whose last byte lies before `end` in the line.
    fn end_string(&mut self, end: u64) {
        self.end_half();
        let defects = self.check.finish();
        // Defects of a string that was kept whole are still there.
        if self.is_cut {
            self.kept.truncate(self.boundary);
            trim_to_character(&mut self.kept);
            self.kept.extend_from_slice(" […] ".as_bytes());
            let whole = self.tail.iter().position(|byte| byte & 0xc0 != 0x80);
            let begin = self.kept.len();
            self.kept.extend_from_slice(&self.tail[whole.unwrap_or(self.tail.len())..]);
            let tail = begin..self.kept.len();
            self.elisions.push(Elision { tail, end, defects });
        }
        self.tail.clear();
        self.is_cut = false;
    }
}

/// Removes an incomplete character from the end.
fn trim_to_character(text: &mut Vec<u8>) {
    let from = text.len().saturating_sub(4);
    // It begins with the last byte that is no continuation byte.
    if let Some(begin) = text[from..].iter().rposition(|byte| byte & 0xc0 != 0x80)
        && let Err(error) = std::str::from_utf8(&text[from + begin..])
        && error.error_len().is_none()
    {
        text.truncate(from + begin);
    }
}

/// Something that is invalid in a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    NotUtf8,
    HalfSurrogate,
    Control,
    Escape,
}

/// A flaw and its offset in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Defect {
    pub(super) offset: u64,
    flaw: Flaw,
}

impl Defect {
    /// The error for a record that begins at an offset, in the words of the strict parser.
    pub(super) fn reason(self, begin: u64) -> BadLine {
        let at = usize::try_from(self.offset.saturating_sub(begin)).unwrap_or(usize::MAX);
        let not_json = |reason: &str| BadLine::NotJson { reason: reason.to_owned(), at: at + 1 };
        match self.flaw {
            Flaw::NotUtf8 => BadLine::NotUtf8 { at },
            Flaw::HalfSurrogate => not_json("lone leading surrogate in hex escape"),
            Flaw::Control => {
                not_json("control character (\\u0000-\\u001F) found while parsing a string")
            }
            Flaw::Escape => not_json("invalid escape"),
        }
    }
}

/// The first defects of a string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Defects {
    /// Rejected by every reader.
    pub(super) refused: Option<Defect>,
    /// Rejected only by a strict reader.
    pub(super) forgiven: Option<Defect>,
}

impl Defects {
    fn note(&mut self, flaw: Flaw, offset: u64) {
        let first = match flaw {
            Flaw::NotUtf8 | Flaw::HalfSurrogate => &mut self.forgiven,
            Flaw::Control | Flaw::Escape => &mut self.refused,
        };
        first.get_or_insert(Defect { offset, flaw });
    }
}

/// Validates one string except for its escapes, because no other reader sees what is left out.
#[derive(Debug, Default)]
struct Check {
    defects: Defects,
    /// The beginning of a character that is not complete yet: at most three bytes.
    held: Vec<u8>,
    held_at: u64,
}

impl Check {
    /// Checks text without escapes that begins at `place`.
    fn text(&mut self, text: &[u8], place: u64) {
        // The minimum is vectorized; the search for a control character is not.
        if text.iter().fold(u8::MAX, |least, &byte| least.min(byte)) < 0x20 {
            let at = text.iter().take_while(|&&byte| byte >= 0x20).count();
            self.defects.note(Flaw::Control, place + at as u64);
        }
        let mut rest = text;
        while !self.held.is_empty() {
            let Some((&first, after)) = rest.split_first() else { return };
            self.held.push(first);
            match std::str::from_utf8(&self.held) {
                Ok(_) => {
                    self.held.clear();
                    rest = after;
                }
                Err(error) if error.error_len().is_none() => rest = after,
                // The byte begins another character: it is checked below.
                Err(_) => self.end_of_text(),
            }
        }
        // Only the first one is reported.
        if self.defects.forgiven.is_some() {
            return;
        }
        if let Err(error) = std::str::from_utf8(rest) {
            let begin = text.len() - rest.len() + error.valid_up_to();
            let at = place + begin as u64;
            if error.error_len().is_some() {
                self.defects.note(Flaw::NotUtf8, at);
            } else {
                self.held.extend_from_slice(&text[begin..]);
                self.held_at = at;
            }
        }
    }

    /// Rejects an incomplete character: no more bytes of it can follow.
    fn end_of_text(&mut self) {
        if !self.held.is_empty() {
            self.defects.note(Flaw::NotUtf8, self.held_at);
            self.held.clear();
        }
    }

    fn finish(&mut self) -> Defects {
        self.end_of_text();
        std::mem::take(&mut self.defects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use autoloop_core::record::{Glance, parse, pieces};

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
        let units = [
            "x",
            "\\u000a",
            "ä",
            "\\\\",
            "漢\\\"",
            "漢",
            "a漢",
            "🦀",
            "\\ud83e\\uDD80",
            "a\\ud83e\\udd80",
        ];
        for unit in units {
            let line = record(&unit.repeat(200_000));
            for step in [997, 65_536] {
                let kept = elide(line.as_bytes(), step);
                assert!(kept.len() < HEAD + 300, "{unit}: {}", kept.len());
                assert!(parse(&kept).is_ok(), "{unit}: {:?}", parse(&kept));
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
                let place = usize::try_from(offset_in_line(&elisions, begin)).unwrap();
                assert_eq!(&line[place..place + 6], "\"more\"");
            }
            assert_eq!(offset_in_line(&elisions, kept.len()), line.len() as u64);
        }
    }

    /// What is wrong with the strings of a line that were cut.
    fn flaws(line: &[u8], step: usize) -> Vec<(Option<BadLine>, Option<BadLine>)> {
        let mut elider = Elider::default();
        line.chunks(step).for_each(|piece| elider.push(piece));
        let reason = |defect: Option<Defect>| defect.map(|defect| defect.reason(0));
        let defects = elider.finish().1.into_iter().map(|elision| elision.defects);
        defects.map(|found| (reason(found.refused), reason(found.forgiven))).collect()
    }

    #[test]
    fn what_is_wrong_in_what_was_left_out_is_known() {
        let cases: [(&[u8], bool); 16] = [
            (b"\x01", false),
            (b"\x1f", false),
            (b"\\q", false),
            (b"\\u00g0", false),
            (b"\\u12", false),
            (b"\xff", true),
            (b"\xc3", true),
            (b"\xe6\xbc", true),
            (b"\xed\xa0\x80", true),
            (b"\xf0\x9f\xa6\\u000a", true),
            (b"\\ud83e", true),
            (b"\\ud83e\\n", true),
            (b"\\ud83e\\ud83e\\udd80", true),
            (b"\\udd80", true),
            (b"\\udd80\\ud83e", true),
            (b"\\uD83Ex\\uDD80", true),
        ];
        for (flaw, is_forgiven) in cases {
            for (before, after) in [(80_000, 80_000), (80_000, 0), (HEAD - 3, 80_000)] {
                let output = ["ä".repeat(before / 2).as_bytes(), flaw, &vec![b'z'; after]].concat();
                let empty = record("");
                let (start, end) = empty.split_at(empty.find("\", \"more").unwrap());
                let line = [start.as_bytes(), &output, end.as_bytes()].concat();
                let bad = parse(&line).unwrap_err();
                for step in [1, 65_536] {
                    let [(refused, forgiven)] = &flaws(&line, step)[..] else { panic!() };
                    let shown = String::from_utf8_lossy(flaw);
                    assert_eq!(refused.is_none(), is_forgiven, "{shown}");
                    assert_eq!(forgiven.is_some(), is_forgiven, "{shown}");
                    match (&bad, refused.as_ref().or(forgiven.as_ref()).unwrap()) {
                        (BadLine::NotUtf8 { at }, BadLine::NotUtf8 { at: found }) => {
                            assert_eq!(at, found, "{shown}");
                        }
                        (BadLine::NotJson { at, .. }, BadLine::NotJson { at: found, .. }) => {
                            assert!(at.abs_diff(*found) <= 12, "{shown}: {at} {found}");
                        }
                        (bad, found) => panic!("{shown}: {bad}, {found}"),
                    }
                }
            }
        }
        let fine = record(&"漢🦀\\ud83e\\udd80\\u000a\\\\\\\"\u{7f}".repeat(9_000));
        assert!(parse(fine.as_bytes()).is_ok());
        for step in [1, 2, 3, 5, 7, 65_536] {
            assert_eq!(flaws(fine.as_bytes(), step), [(None, None)]);
        }
    }

    /// Wherever a record is torn, a giant behind it is found, and where it is.
    #[test]
    fn a_giant_glued_to_a_fragment_is_found_wherever_that_was_torn() {
        let short = record("a\\u0022b ä");
        let long = record(&"ä\\u000a".repeat(20_000));
        let giant = record(&"y".repeat(400_000));
        let cuts = (1..short.len()).map(|cut| &short.as_bytes()[..cut]);
        let long_cuts = (100_000..100_016).map(|cut| &long.as_bytes()[..cut]);
        for torn in cuts.chain(long_cuts) {
            let (giant, again) = (giant.as_bytes(), b"{\"run\": \"torn \\u00");
            let line = [torn, giant, again, giant, giant].concat();
            let mut elider = Elider::default();
            line.chunks(1_009).for_each(|piece| elider.push(piece));
            let (kept, elisions) = elider.finish();
            assert!(kept.len() < 5 * HEAD, "{}", kept.len());
            let found: Vec<_> =
                pieces(&kept).into_iter().filter(|piece| piece.content.is_ok()).collect();
            assert_eq!(found.len(), 3, "{}", String::from_utf8_lossy(torn));
            for piece in found {
                let place = |at| usize::try_from(offset_in_line(&elisions, at)).unwrap();
                let range = place(piece.at)..place(piece.at + piece.bytes.len());
                assert!(line[range] == *giant);
                assert_eq!(piece.content.unwrap().field("more").unwrap(), "x");
            }
        }
    }

    #[test]
    fn the_beginning_of_a_record_is_seen_across_pieces() {
        let giant = record(&"y".repeat(150_000));
        for torn in
            ["{\"run\": \"in a str", "{\"run\": \"r\", ", "{\"run\": \"r\\", "\"\"\"", "{\"run\": "]
        {
            let line = [torn.as_bytes(), giant.as_bytes()].concat();
            for cut in 0..torn.len() + 12 {
                for width in [1, 2, 3, 5] {
                    let mut elider = Elider::default();
                    let (before, after) = line.split_at(cut);
                    let (between, after) = after.split_at(width);
                    [before, between, after].into_iter().for_each(|piece| elider.push(piece));
                    let (kept, _) = elider.finish();
                    assert!(kept.len() < 2 * HEAD, "{torn} {cut} {width}: {}", kept.len());
                    assert!(pieces(&kept).last().unwrap().content.is_ok(), "{torn} {cut} {width}");
                }
            }
        }
    }
}
