//! Leaves the middle of long strings out of a line that is too long for memory.
//!
//! An agent may print a hundred megabytes, and its output is one string in one record. A view needs the
//! other fields of that record and a little of the string. So a giant line is processed in chunks, and the
//! result is the same JSON with its long strings shortened. A chunk never ends inside of a character or an
//! escape, so the parsers of records can check what no other reader sees.

use autoloop_core::record::{BadLine, Glance};

/// How much of the beginning of a string is kept.
const HEAD: usize = 64 * 1024;
/// How much of its end is kept: enough for the brace of a record that follows a torn one in the middle of a
/// string. Recovery finds such records.
const TAIL: usize = 32;
const CHUNK: usize = 64 * 1024;
/// No character takes more bytes than an escaped surrogate pair.
const LONGEST_CHARACTER: usize = 12;

/// Begins a record, and occurs nowhere else in one, not even in a string.
const BEGINNING: &[u8] = b"{\"run\": \"";

#[derive(Debug, Default)]
pub(super) struct Elider {
    /// What was read and is not processed yet.
    pending: Vec<u8>,
    /// How many bytes were processed.
    taken: u64,
    kept: Vec<u8>,
    /// Where in `kept` the current string begins; `None` outside of strings.
    string: Option<usize>,
    /// Whether some of the string was left out.
    is_cut: bool,
    /// The end of what was left out, without escapes.
    tail: Vec<u8>,
    defects: Defects,
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

impl Elider {
    /// Takes the next piece, which has no newline in it.
    pub(super) fn push(&mut self, piece: &[u8]) {
        for part in piece.chunks(CHUNK) {
            self.pending.extend_from_slice(part);
            if self.pending.len() >= CHUNK {
                self.process(LONGEST_CHARACTER);
            }
        }
    }

    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }

    pub(super) fn finish(mut self) -> (Vec<u8>, Vec<Elision>) {
        self.process(0);
        self.end_string();
        (self.kept, self.elisions)
    }

    /// Processes what is pending but for the last bytes, to which a character may extend that begins before
    /// them.
    fn process(&mut self, held_back: usize) {
        let mut bytes = std::mem::take(&mut self.pending);
        let limit = bytes.len() - held_back;
        let mut at = 0;
        while at < limit {
            at += match self.string {
                None => self.outside(&bytes[at..]),
                Some(start) => self.inside(&bytes[at..], limit - at, start),
            };
        }
        bytes.drain(..at);
        self.pending = bytes;
    }

    fn outside(&mut self, text: &[u8]) -> usize {
        let quote = memchr::memchr(b'"', text);
        let taken = quote.map_or(text.len(), |quote| quote + 1);
        self.kept.extend_from_slice(&text[..taken]);
        self.taken += taken as u64;
        self.string = quote.map(|_| self.kept.len());
        taken
    }

    /// Processes a string that begins at `start` in `kept`, up to its end or to the first character behind
    /// `limit`.
    fn inside(&mut self, text: &[u8], limit: usize, start: usize) -> usize {
        let mut at = 0;
        let is_open = loop {
            if at >= limit {
                break true;
            }
            let rest = &text[at..];
            let room = HEAD.saturating_sub(self.kept.len() - start);
            let special = memchr::memchr2(b'"', b'\\', rest);
            let (taken, kept) = match special.map(|special| (special, rest[special])) {
                Some((0, b'"')) => break false,
                Some((0, _)) => {
                    self.tail.clear();
                    let escape = escape_length(rest);
                    if is_half(&rest[..escape]) {
                        let reason = "lone leading surrogate in hex escape".to_owned();
                        let half =
                            Defect::new(self.taken + at as u64, BadLine::NotJson { reason, at: 1 });
                        self.defects.forgiven.get_or_insert(half);
                    }
                    (escape, if room > 0 { escape } else { 0 })
                }
                _ => {
                    let plain = &rest[..special.unwrap_or(rest.len())];
                    let plain = &plain[..character_end(plain, limit - at)];
                    let kept = character_end(plain, room);
                    let left_out = &plain[kept..];
                    self.tail.extend_from_slice(&left_out[left_out.len().saturating_sub(TAIL)..]);
                    self.tail.drain(..self.tail.len().saturating_sub(TAIL));
                    (plain.len(), kept)
                }
            };
            self.kept.extend_from_slice(&rest[..kept]);
            self.is_cut |= kept < taken;
            at += taken;
        };
        // A string that is kept whole is checked by its reader.
        if is_open || self.is_cut {
            self.check(&text[..at]);
        }
        self.taken += at as u64;
        if is_open {
            return at;
        }
        self.end_string();
        self.kept.push(b'"');
        self.taken += 1;
        // A record before this one may have been torn in a string. Then every quote since was misread, and
        // the whole new record would be.
        self.string = self.kept.ends_with(BEGINNING).then_some(self.kept.len());
        at + 1
    }

    fn end_string(&mut self) {
        let defects = std::mem::take(&mut self.defects);
        if self.is_cut {
            self.kept.extend_from_slice(" […] ".as_bytes());
            let begin = self.kept.len();
            let whole = self.tail.iter().position(|byte| !is_continuation(*byte));
            self.kept.extend_from_slice(&self.tail[whole.unwrap_or(self.tail.len())..]);
            self.elisions.push(Elision { tail: begin..self.kept.len(), end: self.taken, defects });
        }
        self.tail.clear();
        self.is_cut = false;
    }

    /// Checks whole characters of a string, surrogates aside, by reading a record that consists of them.
    fn check(&mut self, text: &[u8]) {
        const BEFORE: &[u8] = br#"{"run": "", "iteration": "", "topic": "", "payload": ""#;

        // Most of a giant text has nothing in it that a parser could refuse.
        let is_plain = memchr::memchr(b'\\', text).is_none()
            && text.iter().fold(u8::MAX, |least, byte| least.min(*byte)) >= b' ';
        let read = || Glance::read(&[BEFORE, text, br#""}"#].concat()).map(drop);
        if let Err(bad) = if is_plain { Ok(()) } else { read() } {
            let bad = placed(bad, |at| at.saturating_sub(BEFORE.len()));
            self.defects.refused.get_or_insert_with(|| Defect::new(self.taken, bad));
        } else if let Err(error) = std::str::from_utf8(text) {
            let bad = BadLine::NotUtf8 { at: error.valid_up_to() };
            self.defects.forgiven.get_or_insert_with(|| Defect::new(self.taken, bad));
        }
    }
}

/// The length of the escape, or the pair of them, that a text begins with. An invalid one ends before the first byte
/// that does not belong to it.
fn escape_length(text: &[u8]) -> usize {
    let hex = |from: usize| {
        from + text.iter().skip(from).take(4).take_while(|byte| byte.is_ascii_hexdigit()).count()
    };
    match text {
        [_, b'u', ..] => {
            let is_pair = hex(2) == 6
                && matches!(text[2..4], [b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B'])
                && text[6..].starts_with(b"\\u")
                && hex(8) == 12
                && matches!(text[8..10], [b'd' | b'D', b'c'..=b'f' | b'C'..=b'F']);
            if is_pair { 12 } else { hex(2) }
        }
        [_, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
        _ => 1,
    }
}

/// Whether an escape is one half of a surrogate pair.
fn is_half(escape: &[u8]) -> bool {
    let is_surrogate =
        matches!(escape, [_, _, b'd' | b'D', b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F', ..]);
    is_surrogate && escape.len() == 6
}

/// The first end of a character at or behind an index, if that is not behind the end of the text.
fn character_end(text: &[u8], index: usize) -> usize {
    match index {
        0 => 0,
        _ if index >= text.len() => text.len(),
        _ => {
            index + text[index..].iter().take(3).take_while(|byte| is_continuation(**byte)).count()
        }
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// The first error in a string, and its offset in the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Defect {
    pub(super) offset: u64,
    bad: BadLine,
}

impl Defect {
    /// An error in a text that begins at an offset.
    fn new(begin: u64, bad: BadLine) -> Self {
        let at = match bad {
            BadLine::NotUtf8 { at } | BadLine::NotJson { at, .. } => at as u64,
            _ => 0,
        };
        Defect { offset: begin + at, bad }
    }

    /// The error for a record that begins at an offset.
    pub(super) fn reason(&self, begin: u64) -> BadLine {
        let at = usize::try_from(self.offset.saturating_sub(begin)).unwrap_or(usize::MAX);
        placed(self.bad.clone(), |_| at)
    }
}

/// The same error at another place.
pub(super) fn placed(bad: BadLine, place: impl FnOnce(usize) -> usize) -> BadLine {
    match bad {
        BadLine::NotUtf8 { at } => BadLine::NotUtf8 { at: place(at) },
        BadLine::NotJson { reason, at } => BadLine::NotJson { reason, at: place(at) },
        other => other,
    }
}

/// What is invalid in a string.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Defects {
    /// Rejected by every reader.
    pub(super) refused: Option<Defect>,
    /// Rejected only by a strict reader.
    pub(super) forgiven: Option<Defect>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use autoloop_core::record::{parse, pieces};

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
