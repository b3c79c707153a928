//! Printing text that other programs wrote.
//!
//! Journals contain the output of agents, and agents print what they read. Escape sequences in it can set the title of
//! a terminal, write to its clipboard or hide lines. So no control character from outside is printed.

use std::borrow::Cow;
use std::io::{self, Write};

use autoloop_core::format::is_obeyed;
use autoloop_core::table;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::style::Color;

/// Prints a text without control characters: a terminal may be behind a pipe, or show a file later.
pub(crate) fn print(text: &str) -> io::Result<()> {
    io::stdout().write_all(harmless(text).as_bytes())
}

/// Prints a text that may be coloured. Where it is, the caller replaced control characters before.
pub(crate) fn print_painted(text: &str, color: Color) -> io::Result<()> {
    match color {
        Color::Yes => io::stdout().write_all(text.as_bytes()),
        Color::No => print(text),
    }
}

/// Prints a note on standard error, which may be closed.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "autoloop: {}", harmless(text));
}

/// Fails when the output was closed. A command that waits would otherwise notice only with its next line.
pub(crate) fn ensure_read() -> io::Result<()> {
    let stdout = io::stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    let polled = poll(&mut fds, Some(&Timespec::default()));
    match polled.is_ok() && fds[0].revents().contains(PollFlags::ERR) {
        true => Err(io::ErrorKind::BrokenPipe.into()),
        false => Ok(()),
    }
}

/// Replaces all control characters but tabs and line ends, and marks that change the direction of a text.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    let is_harmful = |c: char| is_obeyed(c) && c != '\n' && c != '\t';
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut characters = text.chars().peekable();
    let mut harmless = String::with_capacity(text.len());
    while let Some(character) = characters.next() {
        // CSV ends its lines with both.
        let ends_line = character == '\r' && characters.peek() == Some(&'\n');
        let shown = if is_harmful(character) && !ends_line { '\u{fffd}' } else { character };
        harmless.push(shown);
    }
    Cow::Owned(harmless)
}

/// The beginning of a text, in one line of at most `width` columns.
pub(crate) fn one_line(text: &str, width: usize) -> String {
    let (mut line, mut left) = (String::new(), width);
    for c in text.chars().map(|c| if is_obeyed(c) { ' ' } else { c }) {
        // A mark without width counts as one column, because there may be any number of them.
        let taken = table::width(c.encode_utf8(&mut [0; 4])).max(1);
        if taken > left {
            if left == 0 {
                line.pop();
            }
            line.push('…');
            break;
        }
        left -= taken;
        line.push(c);
    }
    line
}

/// A number and a noun, which gets an `s` unless the number is 1.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Words in lines of at most `width` columns. A word that is wider has a line of its own.
pub(crate) fn wrapped(words: impl Iterator<Item = String>, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if table::width(line) + 1 + table::width(&word) <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_never_get_through() {
        let clipboard = "a\u{1b}]52;c;ZXZpbA==\u{7}b\n\tc\u{9b}31m\u{7f}\r";
        assert_eq!(
            harmless(clipboard),
            "a\u{fffd}]52;c;ZXZpbA==\u{fffd}b\n\tc\u{fffd}31m\u{fffd}\u{fffd}"
        );
        assert!(matches!(harmless("plain ä \u{5d0}\u{627}\n"), Cow::Borrowed(_)));
        assert_eq!(harmless("\u{202e}evil\u{202c}"), "\u{fffd}evil\u{fffd}");
    }

    #[test]
    fn long_texts_are_cut_to_the_width() {
        assert_eq!(one_line("a\nb\u{1b}c\u{2066}", 10), "a b c ");
        assert_eq!(one_line("abcdef", 6), "abcdef");
        assert_eq!(one_line("abcdefg", 6), "abcde…");
        assert_eq!(one_line("漢字漢字", 8), "漢字漢字");
        assert_eq!(one_line("漢字漢字", 6), "漢字…");
        assert_eq!(one_line("漢字漢字", 5), "漢字…");
    }

    #[test]
    fn lines_are_broken_between_words() {
        let wrapped =
            |text: &str, width| super::wrapped(text.split_whitespace().map(str::to_owned), width);
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("unbreakable it is", 5), ["unbreakable", "it is"]);
        assert_eq!(wrapped("漢字 漢 字", 7), ["漢字 漢", "字"]);
        assert!(wrapped("  ", 5).is_empty());
    }
}
