//! Output of agents, made safe for a table: without escape sequences and direction marks.

use autoloop_core::duration;
use autoloop_core::table;
use autoloop_core::text::{clip, without_escapes};
use autoloop_core::timestamp::Timestamp;
use autoloop_core::views::board::Row;
use autoloop_core::views::usage::Sum;
use ratatui::style::Style;
use ratatui::text::Span;

/// Removes escape sequences and replaces control characters. Of a line that overwrites itself, the last text is kept.
pub(crate) fn tame(line: &str) -> String {
    let line = line.trim_end_matches('\r');
    let line = line.rsplit('\r').next().unwrap_or(line);
    let mut tamed = String::with_capacity(line.len());
    for c in without_escapes(line).chars() {
        match c {
            '\t' => tamed.push_str("    "),
            c if is_invisible(c) => {}
            c if c.is_control() => tamed.push('\u{fffd}'),
            c => tamed.push(c),
        }
    }
    tamed
}

/// The texts of a row: its name, badge, time, cost, review, item and last line. The time of a row that waits is the time
/// left. Of a loop that the user has to resolve, the item says why.
pub(crate) fn row_texts(row: &Row, usage: Option<Sum>, line: &str, now: Timestamp) -> [String; 7] {
    let time = match &row.parked {
        Some(parked) => parked.left(now),
        None => row.elapsed(now),
    };
    let (what, line) = if row.is_blocked() { (&row.note, "") } else { (&row.title, line) };
    let indent = "  ".repeat(usize::try_from(row.level.min(8)).unwrap_or_default());
    [
        tame(&format!("{indent}{}", row.name)),
        row.badge(),
        time.map(duration::print_short).unwrap_or_default(),
        usage.map(|usage| usage.cost_text()).unwrap_or_default(),
        row.review_in_words(),
        tame(format!("{} {what}", row.item).trim()),
        tame(line),
    ]
}

/// Maximum number of characters of a last line.
const LONGEST_LINE: usize = 300;

/// The last line that is not blank, cut at a maximum length.
pub(crate) fn last_line(text: &str) -> String {
    let lines = text.lines().rev().map(tame);
    let line = lines.map(|line| line.trim().to_owned()).find(|line| !line.is_empty());
    clip(&line.unwrap_or_default(), LONGEST_LINE).into_owned()
}

/// Breaks a text into lines of at most `width` columns.
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

/// Characters without width that change the layout of what follows.
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
