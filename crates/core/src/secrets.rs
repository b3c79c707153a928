//! Values that have to stay out of records, logs and views: how they are recognised, and masked in what agents print.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use aho_corasick::{AhoCorasick, Input, MatchKind};

/// What is in the names of variables with secrets.
const PARTS: [&str; 7] =
    ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "APIKEY"];

/// Shorter values occur in ordinary texts.
const SHORTEST: usize = 8;
/// How much of a key is read before it is decided that it is one.
const LOOKAHEAD: usize = 512;
/// The longest key that is masked as a whole.
const LONGEST: usize = 16 * 1024;

const MASK: &str = "[masked]";

/// Whether the name of a variable looks like that of a secret.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let is_word = |word: &str| matches!(word, "KEY" | "AUTH" | "PAT");
    name.split('_').any(is_word) || PARTS.iter().any(|part| name.contains(part))
}

/// The values of variables whose names look like those of secrets. Paths are no secrets.
pub fn secret_values<'v>(
    variables: impl IntoIterator<Item = &'v (OsString, OsString)>,
) -> Vec<Vec<u8>> {
    let is_secret = |name: &OsStr| {
        let name = name.to_string_lossy();
        !name.starts_with("AUTOLOOP_") && is_secret_name(&name)
    };
    let variables = variables.into_iter().filter(|(name, _)| is_secret(name));
    let values = variables.map(|(_, value)| value.as_bytes());
    let values = values.filter(|value| value.len() >= SHORTEST && !value.starts_with(b"/"));
    values.flat_map(spellings).collect()
}

/// A value as it is, and as it is inside of a JSON string, if that differs.
fn spellings(value: &[u8]) -> Vec<Vec<u8>> {
    let json = std::str::from_utf8(value).ok().and_then(|text| serde_json::to_string(text).ok());
    let json = json.map(|json| json.as_bytes()[1..json.len() - 1].to_owned());
    [value.to_owned()].into_iter().chain(json.filter(|json| json != value)).collect()
}

/// A kind of key that is known by its beginning.
struct Shape {
    prefix: &'static str,
    body: Body,
}

#[derive(Clone, Copy)]
enum Body {
    /// At least so many letters, digits, `_` and `-`, one of them a digit.
    Token(usize),
    /// At least so many letters and digits.
    Letters(usize),
    /// A JSON web token: three parts, of which the second begins like the first.
    Jwt,
    /// A private key in a PEM block.
    Pem,
}

const SHAPES: [Shape; 19] = [
    Shape { prefix: "sk-", body: Body::Token(20) },
    Shape { prefix: "sk-ant-", body: Body::Token(16) },
    Shape { prefix: "ghp_", body: Body::Letters(20) },
    Shape { prefix: "gho_", body: Body::Letters(20) },
    Shape { prefix: "ghu_", body: Body::Letters(20) },
    Shape { prefix: "ghs_", body: Body::Letters(20) },
    Shape { prefix: "ghr_", body: Body::Letters(20) },
    Shape { prefix: "github_pat_", body: Body::Token(20) },
    Shape { prefix: "AKIA", body: Body::Letters(16) },
    Shape { prefix: "ASIA", body: Body::Letters(16) },
    Shape { prefix: "AIza", body: Body::Token(30) },
    Shape { prefix: "xoxb-", body: Body::Token(16) },
    Shape { prefix: "xoxp-", body: Body::Token(16) },
    Shape { prefix: "xapp-", body: Body::Token(16) },
    Shape { prefix: "glpat-", body: Body::Token(16) },
    Shape { prefix: "npm_", body: Body::Letters(30) },
    Shape { prefix: "hf_", body: Body::Letters(30) },
    Shape { prefix: "eyJ", body: Body::Jwt },
    Shape { prefix: "-----BEGIN ", body: Body::Pem },
];

/// Masks secrets in bytes that arrive in pieces of any size, in bounded memory.
///
/// A mask contains no quote and no backslash, and replaces none, so that JSON stays JSON.
#[derive(Debug)]
pub struct Masker {
    /// The values, then the prefixes of [`SHAPES`].
    needles: Vec<Vec<u8>>,
    finder: AhoCorasick,
    /// What may be the beginning of a secret.
    held: Vec<u8>,
    /// The two bytes before that.
    before: [u8; 2],
    skipping: Skipping,
}

/// What is left out until the end of a secret.
#[derive(Clone, Copy, Debug, Default)]
enum Skipping {
    #[default]
    Nothing,
    Token {
        is_jwt: bool,
        left: usize,
    },
    Pem {
        left: usize,
        /// How much of the end marker was seen.
        seen: usize,
        /// Backslashes that are left out only if they escape a line break.
        slashes: usize,
    },
}

enum Decision {
    Secret {
        kept: usize,
        skipping: Skipping,
    },
    Other,
    /// More has to be read.
    Open,
}

const PEM_END: &[u8] = b"PRIVATE KEY-----";

impl Masker {
    pub fn new(values: Vec<Vec<u8>>) -> Masker {
        let prefixes = SHAPES.iter().map(|shape| shape.prefix.as_bytes().to_owned());
        let needles: Vec<Vec<u8>> = values.into_iter().chain(prefixes).collect();
        let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&needles);
        let finder =
            finder.expect("it fails beyond 2^31 states, more than an environment has bytes");
        let skipping = Skipping::Nothing;
        Masker { needles, finder, held: Vec::new(), before: [0; 2], skipping }
    }

    /// Takes a piece, and passes on what is known to be no secret, and masks.
    pub fn push(&mut self, piece: &[u8], pass: &mut impl FnMut(&[u8])) {
        if self.held.is_empty() {
            let kept = self.mask(piece, false, pass);
            self.held.extend(&piece[kept..]);
        } else {
            let mut data = std::mem::take(&mut self.held);
            data.extend(piece);
            let kept = self.mask(&data, false, pass);
            data.drain(..kept);
            self.held = data;
        }
    }

    /// Passes on the rest.
    pub fn finish(&mut self, pass: &mut impl FnMut(&[u8])) {
        let data = std::mem::take(&mut self.held);
        self.mask(&data, true, pass);
        if let Skipping::Pem { slashes, .. } = std::mem::take(&mut self.skipping) {
            pass(&b"\\".repeat(slashes));
        }
    }

    /// Returns how much was dealt with; the rest is needed again.
    fn mask(&mut self, data: &[u8], is_last: bool, pass: &mut impl FnMut(&[u8])) -> usize {
        let mut at = self.skip(data, pass);
        let mut from = at;
        while let Some(found) = self.finder.find(Input::new(data).range(from..)) {
            let shape = found.pattern().as_usize().checked_sub(self.needles.len() - SHAPES.len());
            let decision = match shape {
                // In JSON it may be the rest of an escape.
                None if self.byte_before(data, found.start(), 1) == b'\\'
                    && b"\"\\/bfnrtu".contains(&data[found.start()]) =>
                {
                    Decision::Other
                }
                None => Decision::Secret { kept: found.start(), skipping: Skipping::Nothing },
                Some(shape) => {
                    let start = found.start();
                    match self.is_boundary(data, start) {
                        true => SHAPES[shape].decide(data, start, is_last),
                        false => Decision::Other,
                    }
                }
            };
            match decision {
                Decision::Secret { kept, skipping } => {
                    pass(&data[at..kept]);
                    pass(MASK.as_bytes());
                    self.skipping = skipping;
                    at = kept.max(found.end());
                    at += self.skip(&data[at..], pass);
                    from = at;
                }
                Decision::Other => from = found.start() + 1,
                Decision::Open => return self.hold(data, at, found.start(), pass),
            }
        }
        let end = if is_last { data.len() } else { self.partial_needle(data, at) };
        self.hold(data, at, end, pass)
    }

    fn hold(&mut self, data: &[u8], at: usize, end: usize, pass: &mut impl FnMut(&[u8])) -> usize {
        if at < end {
            pass(&data[at..end]);
        }
        self.before = [self.byte_before(data, end, 2), self.byte_before(data, end, 1)];
        end
    }

    fn byte_before(&self, data: &[u8], position: usize, back: usize) -> u8 {
        match position.checked_sub(back) {
            Some(index) => data[index],
            None => self.before[2 - (back - position)],
        }
    }

    /// Whether a key may begin here: not within a word, where `sk-` ends `task-`.
    fn is_boundary(&self, data: &[u8], start: usize) -> bool {
        let (second, last) = (self.byte_before(data, start, 2), self.byte_before(data, start, 1));
        let is_escape = second == b'\\' && b"nrt".contains(&last);
        is_escape || !(is_letter(last) || b"_-".contains(&last))
    }

    /// Where the beginning of a needle may be at the end.
    fn partial_needle(&self, data: &[u8], at: usize) -> usize {
        let longest = self.needles.iter().map(Vec::len).max().unwrap_or_default();
        let begins =
            |start: &usize| self.needles.iter().any(|needle| needle.starts_with(&data[*start..]));
        let first = at.max(data.len().saturating_sub(longest.saturating_sub(1)));
        (first..data.len()).find(begins).unwrap_or(data.len().max(at))
    }

    /// Returns how much of the beginning belongs to a secret.
    fn skip(&mut self, data: &[u8], pass: &mut impl FnMut(&[u8])) -> usize {
        for (at, byte) in data.iter().copied().enumerate() {
            match &mut self.skipping {
                Skipping::Nothing => return at,
                Skipping::Token { is_jwt, left } => {
                    if *left == 0 || !(is_token(byte) || *is_jwt && byte == b'.') {
                        self.skipping = Skipping::Nothing;
                        return at;
                    }
                    *left -= 1;
                }
                Skipping::Pem { left, seen, slashes } => {
                    let is_break = *slashes > 0 && b"nr".contains(&byte);
                    let is_inside = is_letter(byte) || b"+/=-:, \r\n\\".contains(&byte);
                    if *left == 0 || !is_inside || (*slashes > 0 && byte != b'\\' && !is_break) {
                        pass(&b"\\".repeat(*slashes));
                        self.skipping = Skipping::Nothing;
                        return at;
                    }
                    *slashes = if byte == b'\\' { *slashes + 1 } else { 0 };
                    *left -= 1;
                    *seen = match () {
                        () if is_break => 0,
                        () if PEM_END[*seen] == byte => *seen + 1,
                        () => usize::from(byte == PEM_END[0]),
                    };
                    if *seen == PEM_END.len() {
                        self.skipping = Skipping::Nothing;
                        return at + 1;
                    }
                }
            }
        }
        data.len()
    }
}

impl Shape {
    fn decide(&self, data: &[u8], start: usize, is_last: bool) -> Decision {
        let body = start + self.prefix.len();
        let window = &data[body..data.len().min(body + LOOKAHEAD)];
        let is_cut = body + window.len() == data.len() && window.len() < LOOKAHEAD && !is_last;
        let length = |is_inside: fn(u8) -> bool| {
            window.iter().position(|byte| !is_inside(*byte)).unwrap_or(window.len())
        };
        let (is_secret, is_open) = match self.body {
            Body::Token(least) => {
                let length = length(is_token);
                let has_digit = window[..length].iter().any(u8::is_ascii_digit);
                (length >= least && has_digit, length == window.len())
            }
            Body::Letters(least) => {
                let length = length(is_letter);
                (length >= least, length == window.len())
            }
            Body::Jwt => {
                let length = length(|byte| is_token(byte) || byte == b'.');
                let second = window[..length].windows(4).any(|part| part == b".eyJ");
                (second, length == window.len())
            }
            Body::Pem => {
                let near = &window[..window.len().min(40)];
                let end = near.windows(PEM_END.len()).position(|part| part == PEM_END);
                let is_label = |byte: &u8| byte.is_ascii_uppercase() || *byte == b' ';
                if let Some(end) = end.filter(|end| near[..*end].iter().all(is_label)) {
                    let skipping = Skipping::Pem { left: LONGEST, seen: 0, slashes: 0 };
                    return Decision::Secret { kept: body + end + PEM_END.len(), skipping };
                }
                (false, near.len() < 40)
            }
        };
        let is_jwt = matches!(self.body, Body::Jwt);
        match (is_secret, is_open && is_cut) {
            (true, _) => {
                Decision::Secret { kept: body, skipping: Skipping::Token { is_jwt, left: LONGEST } }
            }
            (false, true) => Decision::Open,
            (false, false) => Decision::Other,
        }
    }
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn is_token(byte: u8) -> bool {
    is_letter(byte) || b"_-".contains(&byte)
}

/// A text without its secrets: these values, and what looks like a key.
pub fn masked(text: &str, values: Vec<Vec<u8>>) -> Cow<'_, str> {
    let mut masker = Masker::new(values);
    let mut bytes = Vec::with_capacity(text.len());
    let mut pass = |piece: &[u8]| bytes.extend_from_slice(piece);
    masker.push(text.as_bytes(), &mut pass);
    masker.finish(&mut pass);
    match bytes == text.as_bytes() {
        true => Cow::Borrowed(text),
        false => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VALUES: [&str; 3] = ["hunter2-hunter2", "a \"quoted\"\nvalue", "sk-ant-short 1 of mine"];

    fn values() -> Vec<Vec<u8>> {
        let variables = VALUES.map(|value| ("MY_TOKEN".into(), value.into()));
        secret_values(&variables)
    }

    fn in_pieces(text: &[u8], size: usize) -> Vec<u8> {
        let (mut masker, mut out) = (Masker::new(values()), Vec::new());
        for piece in text.chunks(size) {
            masker.push(piece, &mut |piece| out.extend_from_slice(piece));
        }
        masker.finish(&mut |piece| out.extend_from_slice(piece));
        out
    }

    fn mask(text: &str) -> String {
        masked(text, values()).into_owned()
    }

    #[test]
    fn names_of_secrets_are_known_by_their_words() {
        for name in [
            "ANTHROPIC_API_KEY",
            "GITHUB_TOKEN",
            "npm_config__authToken",
            "DB_PASSWORD",
            "KEY",
            "MY_SECRET_1",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["PATH", "KEYBOARD", "XDG_CACHE_HOME", "GIT_AUTHOR_NAME", "CARGO_HOME"] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn only_long_values_of_secret_variables_are_secrets() {
        let variables = [
            ("MY_TOKEN", "short"),
            ("MY_TOKEN", "long enough"),
            ("HOME", "long enough too"),
            ("SSH_AUTH_SOCK", "/run/user/1/agent"),
            ("AUTOLOOP_SLOT_TOKEN", "0123456789"),
        ];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        assert_eq!(secret_values(&variables), [b"long enough"]);
    }

    #[test]
    fn keys_are_masked_after_their_prefix() {
        let jwt =
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P";
        for (text, expected) in [
            ("key: sk-ant-api03-abcdefghij0123456789.", "key: sk-ant-[masked]."),
            ("sk-proj-abcdefghijklmnop0123", "sk-[masked]"),
            ("\"text\":\"line\\nsk-abcdefghijklmnop0123\"", "\"text\":\"line\\nsk-[masked]\""),
            ("ghp_abcdefghijklmnopqrst0123456789abcdef", "ghp_[masked]"),
            ("github_pat_11ABCDEFG0123456789_abc", "github_pat_[masked]"),
            ("AKIAIOSFODNN7EXAMPLE", "AKIA[masked]"),
            ("AIzaSyA1234567890abcdefghijklmnopqrstuv", "AIza[masked]"),
            ("xoxb-123456789012-abcdefghijkl", "xoxb-[masked]"),
            ("glpat-abcdefghij0123456789", "glpat-[masked]"),
            ("npm_abcdefghijklmnopqrstuvwxyz0123456789", "npm_[masked]"),
            ("hf_abcdefghijklmnopqrstuvwxyzABCDEFGH", "hf_[masked]"),
            (jwt, "eyJ[masked]"),
            ("is hunter2-hunter2!", "is [masked]!"),
            ("\"a \\\"quoted\\\"\\nvalue\"", "\"[masked]\""),
        ] {
            assert_eq!(mask(text), expected);
        }
    }

    #[test]
    fn blocks_of_private_keys_are_masked_in_text_and_in_json() {
        let block = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nnNn/+=\n-----END RSA PRIVATE KEY-----";
        let text = format!("before {block}\nafter");
        assert_eq!(mask(&text), "before -----BEGIN RSA PRIVATE KEY-----[masked]\nafter");
        let json = serde_json::to_string(&text).unwrap();
        let back: String = serde_json::from_str(&mask(&json)).unwrap();
        assert_eq!(back, "before -----BEGIN RSA PRIVATE KEY-----[masked]\nafter");
        let nested = serde_json::to_string(&json).unwrap();
        let back: String = serde_json::from_str(&mask(&nested)).unwrap();
        let back: String = serde_json::from_str(&back).unwrap();
        assert_eq!(back, "before -----BEGIN RSA PRIVATE KEY-----[masked]\nafter");
        let cut = "{\"text\": \"-----BEGIN PRIVATE KEY-----\\nMIIE\\\"\"}";
        assert!(serde_json::from_str::<serde_json::Value>(&mask(cut)).is_ok(), "{}", mask(cut));
    }

    #[test]
    fn ordinary_text_is_not_changed() {
        for text in [
            "task-abcdefghijklmnopqrstuvw0123",
            "sk-short1",
            "sk-circle-with-a-long-name-of-css",
            "npm_config_registry_and_more_words_after_it",
            "eyJust a word.eyJ",
            "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
            "3f583f4e0b3a1c2d4e5f60718293a4b5c6d7e8f9",
            "hunter2-hunter",
            "",
        ] {
            assert!(matches!(masked(text, values()), Cow::Borrowed(_)), "{text}");
        }
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference_and_json_stays_json(
            parts in prop::collection::vec(prop::sample::select(vec![
                "sk-ant-api03-abcdefghij0123456789", "sk-", "sk-ant-", "ghp_abcdefghijklmnopqrst0123456789",
                "hunter2-hunter2", "hunter2", "-----BEGIN PRIVATE KEY-----\nMIIE\nnn==\n-----END PRIVATE KEY-----",
                "-----BEGIN ", "PRIVATE KEY-----", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "eyJ", " ", "\n",
                "\"", "\\", "é", "a \"quoted\"\nvalue", "task", "n", "x1",
            ]), 0..12),
            size in 1_usize..40,
        ) {
            let text = parts.concat();
            let whole = mask(&text);
            prop_assert_eq!(String::from_utf8(in_pieces(text.as_bytes(), size)).unwrap(), whole.clone());
            for value in &VALUES[..2] {
                prop_assert!(!whole.contains(value), "{whole}");
            }
            let json = serde_json::to_string(&text).unwrap();
            let read = serde_json::from_str::<String>(&mask(&json));
            prop_assert!(read.is_ok(), "{json}: {}", mask(&json));
        }

        #[test]
        fn any_bytes_are_taken(text in prop::collection::vec(any::<u8>(), 0..2000), size in 1_usize..99) {
            prop_assert_eq!(in_pieces(&text, size), in_pieces(&text, usize::MAX));
        }
    }
}
