//! The text of JSON strings: the escaping rule of the journal, and reading strings of any writer, whole or in
//! pieces.
//!
//! Inside a string, `\`, `"`, newline, carriage return, tab and every other control character below U+0020 are
//! written as `\u00xx`; everything else is written as it is, in UTF-8. Therefore:
//!
//! * a record is one line, whatever text it contains;
//! * a raw `"` never occurs inside a string, so a string ends at the next `"`, and one `memchr` skips it;
//! * `{"run": "` never occurs inside a string, so a record that was appended to a torn one can be found.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::de::StrRead;
use serde_json::value::RawValue;

const HEX: &[u8; 16] = b"0123456789abcdef";

const fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Appends text to a line, escaped.
pub fn escape(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    let mut plain = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if is_special(byte) {
            out.extend_from_slice(&bytes[plain..at]);
            out.extend_from_slice(b"\\u00");
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 0xf)]);
            plain = at + 1;
        }
    }
    out.extend_from_slice(&bytes[plain..]);
}

/// Escapes bytes that arrive in pieces, such as the output of a program. Bytes that are not UTF-8
/// become U+FFFD, as if the whole text were escaped at once: a character that straddles two pieces
/// is held back until its end arrives.
#[derive(Debug, Default)]
pub struct Escaper {
    held: Held,
}

impl Escaper {
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let escape = |bytes: &[u8]| escape(&String::from_utf8_lossy(bytes), out);
        self.held.push(piece, end_of_characters, escape);
    }

    pub fn finish(self, out: &mut Vec<u8>) {
        escape(&String::from_utf8_lossy(&self.held.0), out);
    }
}

/// The text between the quotes of a JSON string of any writer. Total: what cannot be text (bytes
/// that are not UTF-8, half a surrogate pair) becomes U+FFFD, and a backslash that begins no escape
/// stands for itself.
pub fn unescape(raw: &[u8]) -> Cow<'_, str> {
    let Some(first) = memchr::memchr(b'\\', raw) else {
        return String::from_utf8_lossy(raw);
    };
    let mut text: Vec<u8> = Vec::with_capacity(raw.len());
    text.extend_from_slice(&raw[..first]);
    let mut rest = &raw[first..];
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'\\' {
            let (character, taken) = escaped_character(after);
            text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            rest = &after[taken..];
        } else {
            let plain = memchr::memchr(b'\\', rest).unwrap_or(rest.len());
            text.extend_from_slice(&rest[..plain]);
            rest = &rest[plain..];
        }
    }
    match String::from_utf8(text) {
        Ok(text) => Cow::Owned(text),
        Err(error) => Cow::Owned(String::from_utf8_lossy(error.as_bytes()).into_owned()),
    }
}

/// The character of an escape, and how many bytes it takes after the backslash.
pub(crate) fn escaped_character(after: &[u8]) -> (char, usize) {
    match after.first() {
        Some(b'u') => match hex4(after, 1) {
            Some(high @ 0xd800..=0xdbff) => match (after.get(5..7), hex4(after, 7)) {
                (Some(b"\\u"), Some(low @ 0xdc00..=0xdfff)) => {
                    let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                    (char::from_u32(code).unwrap_or('\u{fffd}'), 11)
                }
                _ => ('\u{fffd}', 5),
            },
            Some(code) => (char::from_u32(code).unwrap_or('\u{fffd}'), 5),
            None => ('\\', 0),
        },
        Some(b'n') => ('\n', 1),
        Some(b't') => ('\t', 1),
        Some(b'r') => ('\r', 1),
        Some(b'b') => ('\u{8}', 1),
        Some(b'f') => ('\u{c}', 1),
        Some(&same @ (b'"' | b'\\' | b'/')) => (char::from(same), 1),
        _ => ('\\', 0),
    }
}

fn hex4(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 4)?;
    digits.iter().try_fold(0, |code, &digit| Some(code * 16 + char::from(digit).to_digit(16)?))
}

/// Whether every string in a line is valid, UTF-8 aside, and ends at the next `"`. It checks a
/// whole line at once instead of each string, because the scanner accepts neither a control
/// character nor a backslash outside of strings.
pub(crate) fn is_orderly(line: &[u8]) -> bool {
    is_to_the_rule(line) || (line.iter().all(|&byte| byte >= 0x20) && has_only_plain_escapes(line))
}

/// The quick check of what was written to the rule, where every escape is `\u00` and two digits.
/// There may be an escape every few bytes, and finding them one by one takes three times as long as
/// testing every byte. So the loop has no exit and no branch, and the compiler vectorizes it to
/// sixteen bytes at a time.
fn is_to_the_rule(line: &[u8]) -> bool {
    // In the last five bytes there is no room for such an escape.
    let Some((_, end)) = line.split_last_chunk::<5>() else { return false };
    let count = line.len() - end.len();
    let [at, u, zero, zero_too, high, low] = [0, 1, 2, 3, 4, 5].map(|from| &line[from..][..count]);
    let mut wrong = 0;
    for index in 0..count {
        // Zero if it is right, everywhere.
        let letters = (u[index] ^ b'u') | (zero[index] ^ b'0') | (zero_too[index] ^ b'0');
        let high_digit = (high[index] & !7) ^ b'0';
        let digit = low[index].wrapping_sub(b'0').saturating_sub(9);
        let letter = low[index].wrapping_sub(b'a').saturating_sub(5);
        let is_backslash = if at[index] == b'\\' { 0xff } else { 0 };
        wrong |= is_backslash & (letters | high_digit | digit.min(letter));
        wrong |= 0x20_u8.saturating_sub(at[index]);
    }
    wrong == 0 && end.iter().all(|&byte| byte >= 0x20 && byte != b'\\')
}

/// Whether every backslash in a line begins a JSON escape other than that of a quote.
pub(crate) fn has_only_plain_escapes(line: &[u8]) -> bool {
    let mut expected = 0;
    memchr::memchr_iter(b'\\', line).all(|at| {
        // The second one of a pair was seen with the first one.
        if at < expected {
            return true;
        }
        let length = match line.get(at + 1) {
            Some(b'u') if hex4(line, at + 2).is_some() => 6,
            Some(b'n' | b't' | b'r' | b'b' | b'f' | b'\\' | b'/') => 2,
            _ => return false,
        };
        expected = at + length;
        true
    })
}

/// Overwrites every half of a surrogate pair with `\ufffd`, so that a strict parser can read the
/// rest.
pub(crate) fn mend_surrogates(line: &mut [u8]) {
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &line[at..]) {
        let escape = at + found + 1;
        let (character, taken) = escaped_character(&line[escape..]);
        let is_half =
            character == '\u{fffd}' && matches!(hex4(line, escape + 1), Some(0xd800..=0xdfff));
        if is_half && taken == 5 {
            line[escape + 1..escape + 5].copy_from_slice(b"fffd");
        }
        at = escape + taken;
    }
}

/// Passes on the keys and values of the JSON object that a text begins with. `serde_json` checks their
/// grammar without recursion and works out neither numbers nor strings.
pub(crate) fn each_pair<'t>(
    parser: &mut serde_json::Deserializer<StrRead<'t>>,
    take: impl FnMut(&'t RawValue, &'t RawValue),
) -> Result<(), serde_json::Error> {
    struct Pairs<F>(F);

    impl<'t, F: FnMut(&'t RawValue, &'t RawValue)> Visitor<'t> for Pairs<F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'t>>(mut self, mut map: A) -> Result<(), A::Error> {
            while let Some((key, value)) = map.next_entry()? {
                (self.0)(key, value);
            }
            Ok(())
        }
    }

    parser.deserialize_map(Pairs(take))
}

/// Unescapes the bytes between the quotes of a JSON string that arrive in pieces. The text is that
/// of [`unescape`] for the whole, wherever it is cut: an escape or a character that straddles two
/// pieces is held back until its end arrives.
#[derive(Debug, Default)]
pub struct Unescaper {
    held: Held,
}

impl Unescaper {
    pub fn push(&mut self, piece: &[u8], out: &mut String) {
        self.held.push(piece, end_of_escapes, |bytes| out.push_str(&unescape(bytes)));
    }

    pub fn finish(self, out: &mut String) {
        out.push_str(&unescape(&self.held.0));
    }
}

/// The end of a piece, as long as more bytes could change its meaning.
#[derive(Debug, Default)]
struct Held(Vec<u8>);

impl Held {
    /// Takes a piece up to where its meaning is certain, and holds the rest.
    fn push(&mut self, piece: &[u8], end: fn(&[u8]) -> usize, take: impl FnOnce(&[u8])) {
        let joined = match self.0.is_empty() {
            true => Cow::Borrowed(piece),
            false => Cow::Owned([&self.0, piece].concat()),
        };
        let (certain, rest) = joined.split_at(end(&joined));
        take(certain);
        self.0 = rest.to_vec();
    }
}

/// Where an unfinished character at the end begins.
fn end_of_characters(bytes: &[u8]) -> usize {
    let is_unfinished = |from: &usize| {
        std::str::from_utf8(&bytes[*from..])
            .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    };
    (bytes.len().saturating_sub(3)..bytes.len()).find(is_unfinished).unwrap_or(bytes.len())
}

/// Where an unfinished escape or character at the end begins.
fn end_of_escapes(bytes: &[u8]) -> usize {
    let is_unfinished = |at: &usize| {
        // Two backslashes are one escape, so after an odd number of them there begins none.
        let before = bytes[..*at].iter().rev().take_while(|byte| **byte == b'\\').count();
        bytes[*at] == b'\\' && before.is_multiple_of(2) && is_undecided(&bytes[*at + 1..])
    };
    let mut last = bytes.len().saturating_sub(LONGEST_ESCAPE)..bytes.len();
    last.find(is_unfinished).unwrap_or_else(|| end_of_characters(bytes))
}

/// A surrogate pair.
const LONGEST_ESCAPE: usize = 12;

/// Whether more bytes could change the escape that begins with these.
fn is_undecided(after: &[u8]) -> bool {
    match after {
        [] => true,
        [b'u', digits @ ..] if digits.len() < 4 => digits.iter().all(u8::is_ascii_hexdigit),
        // Half of a surrogate pair waits for the other half.
        [b'u', b'd' | b'D', b'8' | b'9' | b'a'..=b'b' | b'A'..=b'B', x, y, low @ ..] => {
            let is_half = x.is_ascii_hexdigit() && y.is_ascii_hexdigit();
            is_half
                && match low {
                    [] | [b'\\'] => true,
                    [b'\\', b'u', digits @ ..] if digits.len() < 4 => {
                        digits.iter().all(u8::is_ascii_hexdigit)
                    }
                    _ => false,
                }
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn escaped(text: &str) -> String {
        let mut out = Vec::new();
        escape(text, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_rule_to_the_letter() {
        assert_eq!(escaped("a\\b"), "a\\u005cb");
        assert_eq!(escaped("a\"b"), "a\\u0022b");
        assert_eq!(escaped("a\nb\rc\td"), "a\\u000ab\\u000dc\\u0009d");
        assert_eq!(escaped("\0\u{1b}[0m\u{7f}"), "\\u0000\\u001b[0m\u{7f}");
        assert_eq!(escaped("häß 漢字 🦀 \u{2028}"), "häß 漢字 🦀 \u{2028}");
    }

    #[test]
    fn unescape_reads_what_other_writers_write() {
        assert_eq!(unescape(br#"\n\t\r\b\f\"\\\/"#), "\n\t\r\u{8}\u{c}\"\\/");
        assert_eq!(unescape(br"\ud83e\udd80 \u00E4"), "🦀 ä");
        assert_eq!(unescape(br"\ud83e \udd80"), "\u{fffd} \u{fffd}");
        assert_eq!(unescape(br"\ud83e\ud83e\udd80"), "\u{fffd}🦀");
        assert_eq!(unescape(br"\q \u12 \"), r"\q \u12 \");
        assert_eq!(unescape(b"a\xffb"), "a\u{fffd}b");
    }

    #[test]
    fn half_pairs_are_mended_in_place() {
        let mut line = br#"{"a": "\\ud800 \ud800 \ud83e\udd80 \udc00"}"#.to_vec();
        mend_surrogates(&mut line);
        assert_eq!(line, br#"{"a": "\\ud800 \ufffd \ud83e\udd80 \ufffd"}"#);
    }

    #[test]
    fn the_quick_answer_is_right_at_every_place_and_for_every_byte() {
        let line = br#"{"a": "\u000a\u0022 bcdefghijklm \u005c\u001f"}     "#;
        assert!(is_to_the_rule(line) && has_only_plain_escapes(line));
        for place in 0..line.len() {
            for byte in 0..=u8::MAX {
                let mut other = line.to_vec();
                other[place] = byte;
                let slow = byte >= 0x20 && has_only_plain_escapes(&other);
                assert_eq!(is_orderly(&other), slow, "{}", String::from_utf8_lossy(&other));
                assert!(slow || !is_to_the_rule(&other));
            }
        }
        for (line, expected) in [
            (br"\".as_slice(), false),
            (br"\\", true),
            (br"\n", true),
            (br"\u00", false),
            (br"\u00e4", true),
            (br#"\""#, false),
            (br#"\\""#, true),
            (br#"\\\""#, false),
            (b"", true),
        ] {
            assert_eq!(is_orderly(line), expected, "{}", String::from_utf8_lossy(line));
        }
    }

    proptest! {
        #[test]
        fn text_round_trips_and_never_shows_a_quote_or_a_newline(text in any::<String>()) {
            let line = escaped(&text);
            prop_assert!(line.bytes().all(|byte| byte >= 0x20 && byte != b'"'));
            prop_assert_eq!(unescape(line.as_bytes()), text);
        }

        #[test]
        fn unescape_agrees_with_serde_json(raw in r#"(\\u[0-9a-fA-F]{4}|\\["\\/bfnrt]|[a-zä漢 ]){0,12}"#) {
            if let Ok(text) = serde_json::from_str::<String>(&format!("\"{raw}\"")) {
                prop_assert_eq!(unescape(raw.as_bytes()), text);
            }
        }

        #[test]
        fn pieces_make_the_same_text_as_the_whole(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0xc0..=0xf7u8, 0x80..=0xbfu8], 0..40),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let mut whole = Vec::new();
            escape(&String::from_utf8_lossy(&bytes), &mut whole);

            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut escaper = Escaper::default();
            for pair in cuts.windows(2) {
                escaper.push(&bytes[pair[0]..pair[1]], &mut pieces);
            }
            escaper.finish(&mut pieces);
            prop_assert_eq!(pieces, whole);
        }
    }

    fn in_pieces(raw: &[u8], cuts: &[usize]) -> String {
        let mut out = String::new();
        let mut unescaper = Unescaper::default();
        let mut begin = 0;
        for &cut in cuts.iter().chain([&raw.len()]) {
            unescaper.push(&raw[begin..cut], &mut out);
            begin = cut;
        }
        unescaper.finish(&mut out);
        out
    }

    #[test]
    fn every_cut_of_every_escape() {
        for raw in [
            r"a\u0022b\ud83e\udd80c".as_bytes(),
            br"\ud83e\ud83e\udd80",
            br"\ud83e\n\ud83e",
            br"\ud83e\u12",
            br"\ud83e\u12g4\",
            br"\u12\\\u00e4\q\",
            b"\xe2\\u0082\xac\xe2\x82",
            "ä漢🦀".as_bytes(),
        ] {
            for first in 0..=raw.len() {
                for second in first..=raw.len() {
                    assert_eq!(in_pieces(raw, &[first, second]), unescape(raw), "{raw:?}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn unescaped_pieces_make_the_same_text_as_the_whole(
            parts in prop::collection::vec(
                prop_oneof![
                    r"\\u[0-9a-fA-F]{0,4}".prop_map(String::into_bytes),
                    r"\\u[dD][89abcdefABCDEF][0-9a-f]{2}".prop_map(String::into_bytes),
                    r#"\\[nrtbf/"\\q]?"#.prop_map(String::into_bytes),
                    prop::collection::vec(any::<u8>(), 0..4),
                    "[aäß漢🦀]{0,3}".prop_map(String::into_bytes),
                ],
                0..10,
            ),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let raw = parts.concat();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(raw.len() + 1)).collect();
            cuts.sort_unstable();
            prop_assert_eq!(in_pieces(&raw, &cuts), unescape(&raw));
        }
    }
}
