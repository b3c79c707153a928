//! A command line, split into words without a shell.
//!
//! Blanks separate words. Single quotes keep everything, double quotes keep everything but `\"` and
//! `\\`, and a backslash outside of quotes keeps the next character. Nothing else means anything: no
//! variables, no globs, no pipes.

/// Why a text is not a list of words; `at` is the offset of the quote or backslash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct BadWords {
    pub at: usize,
    reason: &'static str,
}

pub fn split(text: &str) -> Result<Vec<String>, BadWords> {
    let mut words = Vec::new();
    // Set while a word is being read: `''` is a word too.
    let mut word: Option<String> = None;
    let mut rest = text.char_indices();
    while let Some((at, character)) = rest.next() {
        let bad = |reason| BadWords { at, reason };
        match character {
            blank if blank.is_whitespace() => words.extend(word.take()),
            '\\' => {
                let (_, kept) = rest.next().ok_or(bad("nothing follows this backslash"))?;
                word.get_or_insert_default().push(kept);
            }
            '\'' | '"' => quoted(character, &mut rest, word.get_or_insert_default())
                .ok_or(bad("this quote is not closed"))?,
            plain => word.get_or_insert_default().push(plain),
        }
    }
    words.extend(word);
    Ok(words)
}

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
        for (text, (at, reason)) in [
            ("a 'b", (2, "this quote is not closed")),
            ("é\"b\\", (2, "this quote is not closed")),
            ("a \\", (2, "nothing follows this backslash")),
        ] {
            assert_eq!(split(text), Err(BadWords { at, reason }), "{text}");
            assert!(text.is_char_boundary(at) && text.is_char_boundary(at + 1));
        }
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
                prop_assert!(matches!(text.as_bytes()[bad.at], b'\'' | b'"' | b'\\'));
            }
        }
    }
}
