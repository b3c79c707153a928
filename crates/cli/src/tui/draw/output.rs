//! The output of one row, to be scrolled through.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::{Picture, put};
use crate::tui::text::wrap;

/// Draws the output of the row that is picked, and says how many lines there are and how many can be
/// seen at once.
pub(super) fn draw(
    picture: &Picture<'_>,
    (picked, top): (usize, Option<usize>),
    area: Rect,
    buffer: &mut Buffer,
) -> (usize, usize) {
    let Some(row) = picture.board.rows.get(picked) else { return (0, 0) };
    let output = picture.output;
    let path = output.map_or("", |output| output.path);
    let heading = format!("{}  {}  {}  {path}", row.name, row.badge(), row.item);
    put(buffer, area.y, &heading, Modifier::UNDERLINED.into());

    let mut lines = match output {
        Some(output) => wrap(output.text, area.width.into()),
        None => Vec::new(),
    };
    match output {
        Some(output) if output.left_out > 0 => {
            lines.insert(0, format!("({} bytes before this are in the file)", output.left_out));
        }
        _ if lines.is_empty() => lines.push("(nothing was printed)".to_owned()),
        _ => {}
    }
    let height = usize::from(area.height.saturating_sub(1));
    let last = lines.len().saturating_sub(height);
    let first = top.unwrap_or(last).min(last);
    for (line, y) in lines[first..].iter().zip(area.y + 1..area.bottom()) {
        put(buffer, y, line, Style::new());
    }
    (lines.len(), height)
}
