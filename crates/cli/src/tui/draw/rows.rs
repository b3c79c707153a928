//! The rows of a board as a table.

use std::iter;

use autoloop_core::duration;
use autoloop_core::table;
use autoloop_core::timestamp::Timestamp;
use autoloop_core::views::board::{Phase, Row};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::columns::{Column, Columns, Widest};
use super::{Ink, Picture, ROOMY};
use crate::tui::text::tame;

/// What stands before the row that is picked, so that it can be told without colours.
const MARK: &str = "> ";

/// Draws the table, and says how many rows can be seen at once, and where there is nothing below them.
pub(super) fn draw(
    picture: &Picture<'_>,
    picked: usize,
    ink: Ink,
    area: Rect,
    buffer: &mut Buffer,
) -> (usize, Rect) {
    let mut area = area;
    let rows = &picture.board.rows;
    let lines = picture.last_lines.iter().map(String::as_str).chain(iter::repeat(""));
    let texts: Vec<Texts> =
        rows.iter().zip(lines).map(|(row, line)| Texts::of(row, line, picture.moment)).collect();
    let widest = |text: fn(&Texts) -> &str| {
        texts.iter().map(|texts| table::width(text(texts))).max().unwrap_or_default()
    };
    let widest = Widest {
        name: widest(|texts| &texts.name).max("WHO".len()),
        badge: widest(|texts| &texts.badge).max("PHASE".len()),
        item: widest(|texts| &texts.item),
    };
    let begin = u16::try_from(MARK.len()).unwrap_or_default();
    let columns = Columns::fit(area.x + begin, area.width - begin, widest);
    if area.height + 2 >= ROOMY {
        super::put(buffer, area.y, &picture.progress, Style::new());
        headings(columns, area.y + 1, buffer);
        area = Rect { y: area.y + 2, height: area.height - 2, ..area };
    }
    let height = usize::from(area.height);
    let picked = picked.min(rows.len().saturating_sub(1));
    let first = (picked + 1).saturating_sub(height);
    for (index, y) in (first..rows.len()).zip(area.y..area.bottom()) {
        let line = Line { columns, y, ink, is_picked: index == picked };
        line.draw(&rows[index], &texts[index], buffer);
    }
    let used = u16::try_from(rows.len()).unwrap_or(u16::MAX).min(area.height);
    (height, Rect { y: area.y + used, height: area.height - used, ..area })
}

fn headings(columns: Columns, y: u16, buffer: &mut Buffer) {
    let Columns { name, badge, time, item, line } = columns;
    let all = [
        (Some(name), "WHO"),
        (Some(badge), "PHASE"),
        (time, "TIME"),
        (item, "WHAT"),
        (line, "LAST LINE"),
    ];
    for (column, heading) in all {
        if let Some(Column { x, width }) = column {
            buffer.set_stringn(x, y, heading, width.into(), Modifier::DIM);
        }
    }
}

/// What a row says, made fit for a terminal.
struct Texts {
    name: String,
    badge: String,
    item: String,
    time: String,
    /// The last line of its output.
    line: String,
}

impl Texts {
    fn of(row: &Row, line: &str, now: Timestamp) -> Texts {
        let indent = "  ".repeat(usize::try_from(row.level.min(8)).unwrap_or_default());
        Texts {
            name: tame(&format!("{indent}{}", row.name)),
            badge: row.badge(),
            item: tame(format!("{} {}", row.item, row.title).trim()),
            time: row.elapsed(now).map(duration::print_short).unwrap_or_default(),
            line: tame(line),
        }
    }
}

/// Where and how a row is drawn.
struct Line {
    columns: Columns,
    y: u16,
    ink: Ink,
    is_picked: bool,
}

impl Line {
    fn draw(&self, row: &Row, texts: &Texts, buffer: &mut Buffer) {
        let Columns { name, badge, time, item, line } = self.columns;
        if self.is_picked {
            buffer.set_string(buffer.area.x, self.y, MARK, Style::new());
        }
        let badge_style = self.ink.coloured(colour(row)).add_modifier(Modifier::BOLD);
        let cells = [
            (Some(name), texts.name.as_str(), Style::new()),
            (Some(badge), &texts.badge, badge_style),
            (time, &texts.time, Style::new()),
            (item, &texts.item, Style::new()),
            (line, &texts.line, Modifier::DIM.into()),
        ];
        for (column, text, style) in cells {
            if let Some(column) = column {
                self.cell(column, text, style, buffer);
            }
        }
    }

    /// One cell; what does not fit ends with a mark that says so.
    fn cell(&self, column: Column, text: &str, style: Style, buffer: &mut Buffer) {
        let Column { x, width } = column;
        let style = if self.is_picked { style.add_modifier(Modifier::REVERSED) } else { style };
        let room = usize::from(width);
        if table::width(text) <= room {
            buffer.set_stringn(x, self.y, text, room, style);
        } else {
            let (end, _) = buffer.set_stringn(x, self.y, text, room.saturating_sub(1), style);
            buffer.set_stringn(end, self.y, "…", 1, style);
        }
    }
}

fn colour(row: &Row) -> Color {
    match (row.phase, &row.outcome) {
        (Phase::Ended, Some(outcome)) if outcome.is_good() => Color::Green,
        (Phase::Ended, _) if row.badge() == "FAILED" => Color::Red,
        (Phase::Fix { .. }, _) => Color::Yellow,
        (Phase::Review { .. } | Phase::Metareview { .. }, _) => Color::Magenta,
        (phase, _) if phase.is_busy() => Color::Cyan,
        _ => Color::Reset,
    }
}
