//! The payload of a coordination event: `id=issue-1; summary=fix login bug;`.
//!
//! In a value `\` is written `\\` and `;` is written `\;`, and every other character stands for itself, spaces and
//! line breaks included. A value begins right after its `=` and ends right before its `;`, so nothing is trimmed
//! or lost. A key is made of ASCII letters, digits, `_`, `.` and `-`.
//!
//! Agents write payloads by hand, so reading never fails and drops nothing:
//!
//! - whitespace around a key, the last `;`, and empty pieces between two `;` are optional;
//! - a backslash before any other character is a backslash;
//! - a piece without a key belongs to the value before it, because its `;` was not escaped;
//! - text before the first key is [`Payload::text`], and without any key it is the whole payload.

use std::ops::Range;

/// The pairs of a payload, in order, and the text before them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// As written, with escapes: in plain text a backslash has no meaning.
    text: Option<String>,
    pairs: Vec<(String, String)>,
}

impl Payload {
    pub fn parse(payload: &str) -> Self {
        let Found { pairs, text_end } = find(payload);
        let text = match text_end {
            None => Some(payload).filter(|text| !text.is_empty()),
            Some(end) => Some(&payload[..end])
                .filter(|text| text.contains(|c: char| c != ';' && !c.is_whitespace())),
        };
        Payload {
            text: text.map(str::to_owned),
            pairs: pairs
                .into_iter()
                .map(|pair| (payload[pair.key].to_owned(), unescape(&payload[pair.value])))
                .collect(),
        }
    }

    /// The value of a key: the first, if there are several. A writer puts the id first and free
    /// text after it. Free text that was not escaped may contain `; id=other`, which must not
    /// replace the id.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The text before the first key, as written; the whole payload if it has no key.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }
}

fn is_key(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

/// Where a pair is in a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PairSpan {
    pub(crate) key: Range<usize>,
    /// Still escaped.
    pub(crate) value: Range<usize>,
}

pub(crate) struct Found {
    pub(crate) pairs: Vec<PairSpan>,
    /// Where the text before the first pair ends; `None` without pairs.
    text_end: Option<usize>,
}

pub(crate) fn find(payload: &str) -> Found {
    let mut found = Found { pairs: Vec::new(), text_end: None };
    for piece in pieces(payload) {
        match (key_of(&payload[piece.clone()]), found.pairs.last_mut()) {
            (Some((key, value_at)), _) => {
                // The `;` before this piece, if there is one, ends the text in front.
                found.text_end.get_or_insert(piece.start.saturating_sub(1));
                found.pairs.push(PairSpan {
                    key: piece.start + key.start..piece.start + key.end,
                    value: piece.start + value_at..piece.end,
                });
            }
            (None, Some(pair)) if !payload[piece.clone()].trim().is_empty() => {
                pair.value.end = piece.end;
            }
            (None, _) => {}
        }
    }
    found
}

/// The key of a piece, and where its value begins.
fn key_of(piece: &str) -> Option<(Range<usize>, usize)> {
    let (before, _) = piece.split_once('=')?;
    let key = before.trim();
    let start = before.len() - before.trim_start().len();
    Some((start..start + key.len(), before.len() + 1)).filter(|_| is_key(key))
}

fn pieces(payload: &str) -> impl Iterator<Item = Range<usize>> {
    let mut start = Some(0);
    std::iter::from_fn(move || {
        let from = start?;
        let bytes = payload.as_bytes();
        let mut at = from;
        while at < bytes.len() && bytes[at] != b';' {
            // Skipping a byte is enough: only an ASCII byte behind a backslash could be a `;`.
            at += if bytes[at] == b'\\' { 2 } else { 1 };
        }
        start = (at < bytes.len()).then_some(at + 1);
        Some(from..at.min(bytes.len()))
    })
}

pub(crate) fn unescape(written: &str) -> String {
    let mut value = String::with_capacity(written.len());
    let mut characters = written.chars().peekable();
    while let Some(character) = characters.next() {
        let escaped = match character {
            '\\' => characters.next_if(|next| matches!(next, '\\' | ';')),
            _ => None,
        };
        value.push(escaped.unwrap_or(character));
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn payload(pairs: &[(&str, &str)]) -> Payload {
        let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Payload { text: None, pairs: pairs.collect() }
    }

    fn written(payload: &Payload) -> String {
        let escaped = |value: &str| value.replace('\\', r"\\").replace(';', r"\;");
        let pairs = payload.pairs().map(|(key, value)| format!("{key}={}", escaped(value)));
        payload.text().map(str::to_owned).into_iter().chain(pairs).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn reads_pairs() {
        let issue = [
            ("id", "issue-1"),
            ("summary", "fix login bug"),
            ("disposition", "open"),
            ("owner", "builder"),
        ];
        for (written, pairs) in [
            ("id=issue-1; summary=fix login bug; disposition=open; owner=builder;", &issue[..]),
            ("id=issue-1; summary=fix login bug; disposition=open; owner=builder", &issue),
            ("id=issue-1;summary=fix login bug;disposition=open;owner=builder;", &issue),
            (
                " id =issue-1;\n summary\t=fix login bug;;; disposition=open; owner=builder; \n",
                &issue,
            ),
            (";; id=1;", &[("id", "1")]),
            (" \n; id=1;", &[("id", "1")]),
            (
                r"id=issue-1; summary=a\; b\\c; note=;",
                &[("id", "issue-1"), ("summary", r"a; b\c"), ("note", "")],
            ),
            ("id=", &[("id", "")]),
            ("id =", &[("id", "")]),
            ("id= 1 ;", &[("id", " 1 ")]),
            ("a=b=c;d==;", &[("a", "b=c"), ("d", "=")]),
            (r"path=C:\new\;x\\;y=1", &[("path", r"C:\new;x\"), ("y", "1")]),
            (r"end=\", &[("end", r"\")]),
            (r"end=é\é;b=1", &[("end", r"é\é"), ("b", "1")]),
            (
                "summary=first this; then that; owner=me;",
                &[("summary", "first this; then that"), ("owner", "me")],
            ),
            ("summary=a;;b;", &[("summary", "a;;b")]),
            ("id=1; two words=2; id=3", &[("id", "1; two words=2"), ("id", "3")]),
        ] {
            assert_eq!(Payload::parse(written), payload(pairs), "{written:?}");
        }
    }

    #[test]
    fn keeps_plain_text() {
        for text in
            ["initial implementation complete", "done; all of it", r"C:\;x", " ", ";", "= y"]
        {
            let read = Payload::parse(text);
            assert_eq!((read.text(), read.pairs().count()), (Some(text), 0), "{text:?}");
        }
        assert_eq!(Payload::parse(""), Payload::default());
    }

    #[test]
    fn keeps_words_in_front_of_pairs() {
        let read = Payload::parse(r"all fine; see \log; id=7");
        assert_eq!(read.text(), Some(r"all fine; see \log"));
        assert_eq!(read.get("id"), Some("7"));
    }

    #[test]
    fn the_first_value_wins() {
        let read = Payload::parse("id=issue-1; summary=harmless; id=issue-9;");
        assert_eq!(read.get("id"), Some("issue-1"));
        assert_eq!(read.get("owner"), None);
        assert_eq!(read.pairs().count(), 3);
    }

    /// Text made mostly of the characters that mean something here.
    fn tricky() -> impl Strategy<Value = String> {
        let character = prop_oneof![
            6 => prop::sample::select(vec![';', '\\', '=', ' ', '\n', 'a', 'k', '.', 'é']),
            1 => any::<char>(),
        ];
        prop::collection::vec(character, 0..24).prop_map(String::from_iter)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn what_is_written_is_read(pairs in prop::collection::vec(("[A-Za-z0-9_.-]{1,8}", tricky()), 0..6)) {
            let pairs: Vec<_> = pairs.iter().map(|(key, value)| (&key[..], &value[..])).collect();
            let payload = payload(&pairs);
            let read = Payload::parse(&written(&payload));
            prop_assert_eq!(&read, &payload);
            prop_assert_eq!(read.pairs().collect::<Vec<_>>(), pairs);
        }

        #[test]
        fn anything_is_read_and_reading_settles(text in tricky()) {
            let once = Payload::parse(&text);
            prop_assert_eq!(Payload::parse(&written(&once)), once);
        }

        #[test]
        fn no_word_is_lost(text in tricky()) {
            let read = Payload::parse(&text);
            let kept: String = read.text().into_iter().map(str::to_owned)
                .chain(read.pairs().map(|(key, value)| format!("{key}{value}"))).collect();
            let words = |text: &str| {
                text.chars().filter(|c| !c.is_whitespace() && !matches!(c, ';' | '\\' | '=')).collect::<String>()
            };
            prop_assert_eq!(words(&kept), words(&text));
        }
    }
}
