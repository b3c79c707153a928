//! A command line in one text, taken apart without a shell.
//!
//! Blanks separate words. Single quotes keep everything, double quotes keep everything but `\"` and
//! `\\`, and a backslash outside of quotes keeps the next character. Nothing else means anything: no
//! variables, no globs, no pipes.

/// Why a text is not a list of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadWords {
    /// A quote that is opened and not closed.
    #[error("this quote is never closed")]
    Open {
        /// The byte at which it stands.
        at: usize,
    },
    /// A backslash with nothing behind it.
    #[error("there is nothing behind this backslash")]
    Trailing {
        /// The byte at which it stands.
        at: usize,
    },
}

impl BadWords {
    /// The byte that the problem begins at. It is one byte long.
    pub fn at(self) -> usize {
        match self {
            BadWords::Open { at } | BadWords::Trailing { at } => at,
        }
    }
}

/// Takes a text apart.
///
/// # Errors
///
/// When a quote is not closed, or the text ends in a backslash.
pub fn split(text: &str) -> Result<Vec<String>, BadWords> {
    let mut words = Vec::new();
    // Set while a word is under way: `''` is a word too.
    let mut word: Option<String> = None;
    let mut rest = text.char_indices();
    while let Some((at, character)) = rest.next() {
        match character {
            blank if blank.is_whitespace() => words.extend(word.take()),
            '\\' => {
                let (_, kept) = rest.next().ok_or(BadWords::Trailing { at })?;
                word.get_or_insert_default().push(kept);
            }
            '\'' | '"' => quoted(character, &mut rest, word.get_or_insert_default())
                .ok_or(BadWords::Open { at })?,
            plain => word.get_or_insert_default().push(plain),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Adds what stands up to the closing quote; `None` if there is none.
fn quoted(quote: char, rest: &mut std::str::CharIndices<'_>, word: &mut String) -> Option<()> {
    loop {
        match rest.next()?.1 {
            end if end == quote => return Some(()),
            '\\' if quote == '"' => match rest.next()?.1 {
                escaped @ ('"' | '\\') => word.push(escaped),
                other => word.extend(['\\', other]),
            },
            kept => word.push(kept),
        }
    }
}

/// Writes words so that [`split`] reads the same ones.
pub fn join<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let quoted = words.into_iter().map(|word| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
        if !word.is_empty() && word.chars().all(is_plain) {
            word.to_owned()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn takes_words_apart() {
        for (text, words) in [
            ("", &[][..]),
            ("  \t\n", &[]),
            ("claude", &["claude"]),
            (" claude  -p\t--model x ", &["claude", "-p", "--model", "x"]),
            ("sh -c 'echo \"$HOME\" | cat'", &["sh", "-c", "echo \"$HOME\" | cat"]),
            (r#"a "b \"c\" \\ \n" d"#, &["a", r#"b "c" \ \n"#, "d"]),
            (r"a\ b \' \\", &["a b", "'", r"\"]),
            (r#"one"two"'three'"#, &["onetwothree"]),
            ("a '' \"\"", &["a", "", ""]),
            ("é 'ü ß'", &["é", "ü ß"]),
        ] {
            assert_eq!(split(text).unwrap(), words, "{text}");
        }
    }

    #[test]
    fn says_what_is_not_closed() {
        for (text, error) in [
            ("a 'b", BadWords::Open { at: 2 }),
            ("é\"b\\", BadWords::Open { at: 2 }),
            ("a \\", BadWords::Trailing { at: 2 }),
        ] {
            assert_eq!(split(text), Err(error), "{text}");
            assert!(text.is_char_boundary(error.at()) && text.is_char_boundary(error.at() + 1));
        }
        insta::assert_snapshot!(BadWords::Open { at: 0 }, @"this quote is never closed");
        insta::assert_snapshot!(BadWords::Trailing { at: 0 }, @"there is nothing behind this backslash");
    }

    proptest! {
        #[test]
        fn what_is_joined_is_split(words in prop::collection::vec("[a-z '\"\\\\$é\n]{0,8}", 0..6)) {
            let joined = join(words.iter().map(String::as_str));
            prop_assert_eq!(split(&joined), Ok(words));
        }

        #[test]
        fn nothing_panics(text in "[a '\"\\\\é]{0,20}") {
            if let Err(bad) = split(&text) {
                prop_assert!(matches!(text.as_bytes()[bad.at()], b'\'' | b'"' | b'\\'));
            }
        }
    }
}
