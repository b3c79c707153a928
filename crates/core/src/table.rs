//! Tables: columns as wide as their widest cell, measured in the columns of a terminal.

use unicode_width::UnicodeWidthStr;

pub fn width(text: &str) -> usize {
    text.width()
}

pub fn padded(text: &str, to: usize) -> String {
    format!("{text}{}", " ".repeat(to.saturating_sub(width(text))))
}

/// Pads the cells of every column but the last to the same width.
pub fn pad<const N: usize>(rows: &mut [[String; N]]) {
    for column in 0..N.saturating_sub(1) {
        let widest = rows.iter().map(|row| width(&row[column])).max().unwrap_or_default();
        for row in &mut *rows {
            row[column] = padded(&row[column], widest);
        }
    }
}

/// Prints one line per row, with two spaces between columns and none at the end.
pub fn print<const N: usize>(mut rows: Vec<[String; N]>) -> String {
    pad(&mut rows);
    rows.iter().map(|row| line(row)).collect()
}

pub fn line(cells: &[String]) -> String {
    format!("{}\n", cells.join("  ").trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_a_terminal_shows_them() {
        let rows = [["漢字", "a", "x"], ["e\u{301}", "", "wide"], ["abc", "🦀", ""]];
        let rows = rows.map(|row| row.map(str::to_owned)).to_vec();
        assert_eq!(print(rows), "漢字  a   x\ne\u{301}         wide\nabc   🦀\n");
    }
}
