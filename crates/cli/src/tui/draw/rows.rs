//! The rows of a board as a table.

use std::iter;

use autoloop_core::squad::LoopState;
use autoloop_core::table;
use autoloop_core::views::board::{Phase, Row};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::columns::{Column, Widest, fit};
use super::{Picture, ROOMY, output};
use crate::tui::text::row_texts;

/// Marks the selected row, which colours alone would not show everywhere.
const MARK: &str = "> ";
const HEADINGS: [&str; 7] = ["WHO", "PHASE", "TIME", "COST", "REVIEW", "WHAT", "LAST LINE"];

/// Draws the table and returns the number of visible rows and the area below them.
pub(super) fn draw(
    picture: &Picture<'_>,
    picked: usize,
    area: Rect,
    buffer: &mut Buffer,
) -> (usize, Rect) {
    let mut area = area;
    let rows: Vec<&Row> = picture.board.shown().collect();
    let lines = picture.last_lines.iter().map(String::as_str).chain(iter::repeat(""));
    let texts: Vec<[String; 7]> = rows
        .iter()
        .zip(lines)
        .map(|(row, line)| row_texts(row, (picture.usage_of)(row), line, picture.moment))
        .collect();
    let widest =
        |column: usize| texts.iter().map(|texts| table::width(&texts[column])).max().unwrap_or(0);
    let with_heading = |column: usize| match widest(column) {
        0 => 0,
        widest => widest.max(HEADINGS[column].len()),
    };
    let widest = Widest {
        name: widest(0).max(HEADINGS[0].len()),
        badge: widest(1).max(HEADINGS[1].len()),
        cost: with_heading(3),
        review: with_heading(4),
        item: widest(5),
    };
    let begin = u16::try_from(MARK.len()).unwrap_or_default();
    let columns = fit(area.x + begin, area.width - begin, widest);
    if area.height + 2 >= ROOMY {
        super::put(buffer, area.y, &picture.progress, Style::new());
        cells(columns, &HEADINGS.map(str::to_owned), [Modifier::DIM.into(); 7], area.y + 1, buffer);
        area = Rect { y: area.y + 2, height: area.height - 2, ..area };
    }
    let height = usize::from(table_height(picture, rows.len(), area.height));
    let picked = picked.min(rows.len().saturating_sub(1));
    let first = (picked + 1).saturating_sub(height);
    for (index, y) in (first..rows.len()).zip(area.y..area.bottom()).take(height) {
        let badge = (colour(rows[index]), Modifier::BOLD).into();
        let plain = Style::new();
        let mut styles = [plain, badge, plain, plain, plain, plain, Modifier::DIM.into()];
        if index == picked {
            buffer.set_string(buffer.area.x, y, MARK, Style::new());
            styles = styles.map(|style| style.add_modifier(Modifier::REVERSED));
        }
        cells(columns, &texts[index], styles, y, buffer);
    }
    let used = u16::try_from(rows.len().min(height)).unwrap_or(area.height);
    (height, Rect { y: area.y + used, height: area.height - used, ..area })
}

/// The lines for the table. Finished rows leave half of the window to the output, if that is enough for it.
fn table_height(picture: &Picture<'_>, rows: usize, height: u16) -> u16 {
    let narrow = |rows: usize| u16::try_from(rows).unwrap_or(height).min(height);
    let least = narrow(picture.board.rows.len()).max(height / 2);
    match narrow(rows) {
        all if all > least && picture.output.is_some() && height - least >= output::MIN_HEIGHT => {
            least
        }
        _ => height,
    }
}

/// Writes the cells of a line. A cell that is cut ends with an ellipsis.
fn cells(
    columns: [Option<Column>; 7],
    texts: &[String; 7],
    styles: [Style; 7],
    y: u16,
    buffer: &mut Buffer,
) {
    for ((column, text), style) in columns.into_iter().zip(texts).zip(styles) {
        let Some(Column { x, width }) = column else { continue };
        let room = usize::from(width);
        if table::width(text) <= room {
            buffer.set_stringn(x, y, text, room, style);
        } else {
            let (end, _) = buffer.set_stringn(x, y, text, room.saturating_sub(1), style);
            buffer.set_stringn(end, y, "…", 1, style);
        }
    }
}

fn colour(row: &Row) -> Color {
    match (row.phase, &row.outcome) {
        _ if row.is_blocked() => Color::Red,
        (Phase::Between, _) if row.state == Some(LoopState::Passed) => Color::Green,
        (Phase::Ended, Some(outcome)) if outcome.is_good() => Color::Green,
        (Phase::Ended, _) if row.badge() == "FAILED" => Color::Red,
        (Phase::Fix { .. } | Phase::Revise { .. } | Phase::Conflict, _) => Color::Yellow,
        (Phase::Review { .. } | Phase::Metareview { .. } | Phase::Checkpoint, _) => Color::Magenta,
        _ if row.parked.is_some() => Color::Yellow,
        (phase, _) if phase.is_busy() => Color::Cyan,
        _ => Color::Reset,
    }
}
