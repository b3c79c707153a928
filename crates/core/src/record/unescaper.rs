//! The text of a JSON string that is too long to be held.

use super::escape::escaped_character;
use super::lossy::Lossy;

/// Unescapes the bytes between the quotes of a JSON string as they arrive, piece by piece.
///
/// The text is the same as that of [`unescape`](super::unescape) for the whole, wherever it is cut:
/// an escape or a character that straddles two pieces is held back until its end arrives.
#[derive(Debug, Default)]
pub struct Unescaper {
    /// A backslash and what came behind it, as long as more bytes could change what it stands for.
    held: Vec<u8>,
    text: Lossy,
}

impl Unescaper {
    /// Takes the next piece and adds its text.
    pub fn push(&mut self, piece: &[u8], out: &mut String) {
        let mut rest = piece;
        while !self.held.is_empty() {
            if !is_undecided(&self.held[1..]) {
                self.take_held(out);
                continue;
            }
            let Some((&next, after)) = rest.split_first() else { return };
            self.held.push(next);
            rest = after;
        }
        while let Some(backslash) = memchr::memchr(b'\\', rest) {
            self.plain(&rest[..backslash], out);
            let after = &rest[backslash + 1..];
            if is_undecided(after) {
                self.held.extend_from_slice(&rest[backslash..]);
                return;
            }
            let (character, taken) = escaped_character(after);
            self.plain(character.encode_utf8(&mut [0; 4]).as_bytes(), out);
            rest = &after[taken..];
        }
        self.plain(rest, out);
    }

    /// Says that nothing more comes.
    pub fn finish(mut self, out: &mut String) {
        while !self.held.is_empty() {
            self.take_held(out);
        }
        self.text.finish(&mut |text| out.push_str(text));
    }

    /// Takes the escape at the beginning of what is held, and what is plain behind it.
    fn take_held(&mut self, out: &mut String) {
        let (character, taken) = escaped_character(&self.held[1..]);
        self.plain(character.encode_utf8(&mut [0; 4]).as_bytes(), out);
        let behind = self.held.split_off(1 + taken);
        let plain = memchr::memchr(b'\\', &behind).unwrap_or(behind.len());
        self.plain(&behind[..plain], out);
        self.held.clear();
        self.held.extend_from_slice(&behind[plain..]);
    }

    fn plain(&mut self, bytes: &[u8], out: &mut String) {
        self.text.push(bytes, &mut |text| out.push_str(text));
    }
}

/// Whether more bytes could change what a backslash, with these bytes behind it, stands for.
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
    use super::super::unescape;
    use super::*;
    use proptest::prelude::*;

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
        fn pieces_make_the_same_text_as_the_whole(
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
