//! Parts of texts that are too long, or too free, to stand in a prompt or a view as they are.
//!
//! Lengths are counted in characters, and cuts fall between characters.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

pub fn length(text: &str) -> usize {
    text.chars().count()
}

pub fn head(text: &str, count: usize) -> &str {
    let end = text.char_indices().nth(count).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

pub fn tail(text: &str, count: usize) -> &str {
    let Some(skipped) = count.checked_sub(1) else { return "" };
    let begin = text.char_indices().rev().nth(skipped).map_or(0, |(at, _)| at);
    &text[begin..]
}

/// The text, or its first `limit` characters and `...`.
pub fn clip(text: &str, limit: usize) -> Cow<'_, str> {
    match head(text, limit) {
        whole if whole.len() == text.len() => Cow::Borrowed(text),
        part => Cow::Owned(format!("{part}...")),
    }
}

/// Escaped and shortened for a message.
pub fn shown(text: &str, limit: usize) -> String {
    let part = head(text, limit);
    let end = if part.len() < text.len() { "…" } else { "" };
    part.chars().flat_map(char::escape_debug).chain(end.chars()).collect()
}

/// The words in one line of at most `limit` characters and `...`.
pub fn clipped_line(text: &str, limit: usize) -> String {
    // Four times as much as can be shown is enough to find the words in it.
    clip(&one_line(head(text, limit.saturating_mul(4))), limit).into_owned()
}

/// Joins the words in one line: any white space and control characters become one space, without any at the
/// ends.
pub fn one_line(text: &str) -> String {
    let is_gap =
        |c: char| c.is_whitespace() || c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let mut line = String::with_capacity(text.len());
    for word in text.split(is_gap).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

/// Removes terminal escape sequences and direction marks.
pub fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => match rest.clone().next() {
                Some('[') => skip_control(&mut rest, 1),
                Some(']' | 'P' | 'X' | '^' | '_') => skip_string(&mut rest),
                // One of a few short sequences, such as the choice of a character set.
                _ => {
                    let is_between = |c: &char| matches!(c, ' '..='/');
                    let between = rest.clone().take_while(is_between).count();
                    rest.by_ref().take(between + 1).for_each(drop);
                }
            },
            '\u{9b}' => skip_control(&mut rest, 0),
            '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => {}
            c => plain.push(c),
        }
    }
    plain
}

/// Skips the opening of a control sequence up to the character that ends it.
fn skip_control(rest: &mut std::str::Chars<'_>, opening: usize) {
    rest.by_ref().take(opening).for_each(drop);
    rest.find(|c| !matches!(c, ' '..='?'));
}

/// Skips a string for the terminal, up to its terminator or the end of the line.
fn skip_string(rest: &mut std::str::Chars<'_>) {
    while let Some(c) = rest.next() {
        match c {
            '\u{7}' | '\u{9c}' | '\n' => return,
            '\u{1b}' => {
                rest.next();
                return;
            }
            _ => {}
        }
    }
}

/// The first line that is not blank, in at most `limit` characters and `...`.
pub fn first_line(text: &str, limit: usize) -> String {
    let mut spoken = text.lines().map(|line| clipped_line(line, limit));
    spoken.find(|line| !line.is_empty()).unwrap_or_default()
}

/// Encloses a text in fences that are longer than any in it, so that it cannot look like a part of the
/// document around it.
pub fn fenced(text: &str) -> String {
    let fence = "`".repeat(longest_run(text).saturating_add(1).max(3));
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}text\n{text}{end}{fence}\n")
}

fn longest_run(text: &str) -> usize {
    let runs = text.split(|c| c != '`').map(str::len);
    runs.max().unwrap_or(0)
}

/// The maximum length of [`fenced`] for a text of at most `length` characters.
pub const fn longest_fenced(length: usize) -> usize {
    // Two fences, each as long as the text and one more, or three; `text`, and three newlines.
    2 * (length + 3) + "text".len() + 3 + length
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortened {
    /// The beginning; the whole text if nothing was left out.
    pub head: String,
    pub tail: String,
    pub left_out: u64,
}

impl Shortened {
    /// Keeps at most `limit` characters: a quarter from the beginning and the rest from the end, where a
    /// program reports its result.
    pub fn new(text: &str, limit: usize) -> Self {
        let length = length(text);
        if length <= limit {
            return Shortened { head: text.to_owned(), ..Shortened::default() };
        }
        let first = limit / 4;
        Shortened {
            head: head(text, first).to_owned(),
            tail: tail(text, limit - first).to_owned(),
            left_out: (length - limit) as u64,
        }
    }

    pub fn length(&self) -> usize {
        length(&self.head) + length(&self.tail)
    }

    #[must_use]
    pub fn shortened(&self, limit: usize) -> Self {
        if self.left_out == 0 {
            return Shortened::new(&self.head, limit);
        }
        if self.length() <= limit {
            return self.clone();
        }
        let head = head(&self.head, limit / 4).to_owned();
        let tail = tail(&self.tail, limit - length(&head)).to_owned();
        let less = self.length() - length(&head) - length(&tail);
        Shortened { head, tail, left_out: self.left_out.saturating_add(less as u64) }
    }
}

impl fmt::Display for Shortened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.head)?;
        if self.left_out > 0 {
            write!(f, "\n[{} characters left out]\n{}", self.left_out, self.tail)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cuts_fall_between_characters() {
        assert_eq!(head("häßlich", 2), "hä");
        assert_eq!(tail("häß漢", 2), "ß漢");
        assert_eq!((head("ab", 0), tail("ab", 0), tail("ab", 9)), ("", "", "ab"));
        assert_eq!(clip("漢字", 2), "漢字");
        assert_eq!(clip("漢字x", 2), "漢字...");
    }

    #[test]
    fn the_first_line_that_says_something() {
        assert_eq!(first_line("\n \t\n  two\u{1b}[0m  words \nmore", 80), "two [0m words");
        assert_eq!(first_line("", 80), "");
        assert_eq!(first_line(&"x".repeat(121), 120), "x".repeat(120) + "...");
        assert_eq!(first_line(&"x".repeat(120), 120), "x".repeat(120));
    }

    #[test]
    fn a_fence_is_longer_than_any_in_the_text() {
        assert_eq!(fenced("plain"), "```text\nplain\n```\n");
        assert_eq!(fenced("a ```` b\n"), "`````text\na ```` b\n`````\n");
        assert_eq!(fenced(""), "```text\n```\n");
    }

    #[test]
    fn the_end_of_a_long_text_says_more_than_its_beginning() {
        let kept = Shortened::new("0123456789", 4);
        assert_eq!((kept.head.as_str(), kept.tail.as_str(), kept.left_out), ("0", "789", 6));
        let less = kept.shortened(2);
        assert_eq!((less.head.as_str(), less.tail.as_str(), less.left_out), ("", "89", 8));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_invented(text in any::<String>(), limit in 0..30usize, less in 0..30usize) {
            let kept = Shortened::new(&text, limit);
            prop_assert!(kept.length() <= limit.max(length(&text).min(limit)));
            prop_assert_eq!(kept.length() as u64 + kept.left_out, length(&text) as u64);
            prop_assert!(text.starts_with(&kept.head) && text.ends_with(&kept.tail));
            let shorter = kept.shortened(less);
            prop_assert!(shorter.length() <= less);
            prop_assert_eq!(shorter.length() as u64 + shorter.left_out, length(&text) as u64);
        }

        #[test]
        fn no_line_of_a_fenced_text_is_its_fence(text in "[a`\n#]{0,30}") {
            let fenced = fenced(&text);
            let fence = fenced.split("text").next().unwrap();
            let closing = fenced.lines().skip(1).position(|line| line.trim() == fence);
            prop_assert_eq!(closing, Some(fenced.lines().count() - 2));
            prop_assert!(length(&fenced) <= longest_fenced(length(&text)));
        }

        #[test]
        fn one_line_is_one_line(text in any::<String>()) {
            let line = one_line(&text);
            prop_assert!(line.lines().count() <= 1 && !line.contains(char::is_control));
        }
    }
}
