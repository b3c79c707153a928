//! What agents print, made fit for a table: no escape sequence, no mark that turns a line around.

use autoloop_core::table;
use autoloop_core::text::clip;
use ratatui::style::Style;
use ratatui::text::Span;

/// How wide a tab is made.
const TAB: &str = "    ";

/// A line without anything that a terminal obeys. Escape sequences are left out whole, because agents
/// love colours; a line that was written over itself shows what was written last.
pub(crate) fn tame(line: &str) -> String {
    let line = line.trim_end_matches('\r');
    let line = line.rsplit('\r').next().unwrap_or(line);
    let mut tamed = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_sequence(&mut chars),
            '\u{9b}' => skip_until(&mut chars, is_final),
            '\t' => tamed.push_str(TAB),
            c if is_invisible(c) => {}
            c if c.is_control() => tamed.push('\u{fffd}'),
            c => tamed.push(c),
        }
    }
    tamed
}

/// So many characters of a line are shown where there is room for one line.
const LONGEST_LINE: usize = 300;

/// The last line of a text that has something on it, or the beginning of that.
pub(crate) fn last_line(text: &str) -> String {
    let lines = text.lines().rev().map(tame);
    let line = lines.map(|line| line.trim().to_owned()).find(|line| !line.is_empty());
    clip(&line.unwrap_or_default(), LONGEST_LINE).into_owned()
}

/// A text in lines that are no wider than this many columns.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        wrap_line(&tame(line), width.max(2), &mut lines);
    }
    lines
}

fn wrap_line(line: &str, width: usize, lines: &mut Vec<String>) {
    let (mut piece, mut used) = (String::new(), 0);
    for grapheme in Span::raw(line).styled_graphemes(Style::default()) {
        let wide = table::width(grapheme.symbol);
        if used + wide > width {
            lines.push(std::mem::take(&mut piece));
            used = 0;
        }
        piece.push_str(grapheme.symbol);
        used += wide;
    }
    lines.push(piece);
}

/// Leaves out what follows an escape character: `[…m`, `]…` to its end, or one character.
fn skip_sequence(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.next() {
        Some('[') => skip_until(chars, is_final),
        Some(']' | 'P' | '_' | '^' | 'X') => {
            while let Some(c) = chars.next() {
                if c == '\u{7}' || c == '\u{9c}' {
                    return;
                }
                if c == '\u{1b}' {
                    chars.next_if_eq(&'\\');
                    return;
                }
            }
        }
        Some('(' | ')' | '#' | '%') => drop(chars.next()),
        _ => {}
    }
}

fn skip_until(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, end: fn(char) -> bool) {
    for c in chars.by_ref() {
        if end(c) {
            return;
        }
    }
}

/// Whether a character ends a control sequence.
fn is_final(c: char) -> bool {
    ('\u{40}'..='\u{7e}').contains(&c)
}

/// Marks that take no room and change how what follows is laid out.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        for (line, tamed) in [
            ("\u{1b}[1;31mred\u{1b}[0m alert", "red alert"),
            ("\u{1b}]52;c;ZXZpbA==\u{7}title", "title"),
            ("\u{1b}]8;;http://x\u{1b}\\link", "link"),
            ("\u{9b}31mred", "red"),
            ("\u{1b}(Bplain\u{1b}7", "plain"),
            ("10%\r20%\r100%\r", "100%"),
            ("a\tb\u{8}\0c", "a    b\u{fffd}\u{fffd}c"),
            ("\u{202e}evil\u{202c} \u{2066}x\u{2069}\u{200f}\u{feff}", "evil x"),
            ("cut \u{1b}[31", "cut "),
            ("漢字 e\u{301} 🦀", "漢字 e\u{301} 🦀"),
        ] {
            assert_eq!(tame(line), tamed, "{line:?}");
        }
    }

    #[test]
    fn the_last_line_is_one_with_something_on_it() {
        assert_eq!(last_line("one\n  two \n\n \u{1b}[0m\n"), "two");
        assert_eq!(last_line(""), "");
        assert_eq!(last_line(&"x".repeat(9_000)), format!("{}...", "x".repeat(LONGEST_LINE)));
    }

    #[test]
    fn lines_are_wrapped_by_what_they_take_on_the_screen() {
        assert_eq!(wrap("abcdef\n\nxy", 4), ["abcd", "ef", "", "xy"]);
        assert_eq!(wrap("漢字漢字", 5), ["漢字", "漢字"]);
        assert_eq!(wrap("e\u{301}e\u{301}e\u{301}", 2), ["e\u{301}e\u{301}", "e\u{301}"]);
    }
}
