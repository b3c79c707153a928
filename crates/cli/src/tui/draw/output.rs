//! The output of one row, to be scrolled through.

use autoloop_core::text;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::{Output, Picture, put};
use crate::tui::text::wrap;

/// From this height on the end of an output is worth being shown below the rows.
const WORTHWHILE: u16 = 5;

/// Draws the end of the output of the row that is picked, where there is room for it.
pub(super) fn peek(picture: &Picture<'_>, picked: usize, area: Rect, buffer: &mut Buffer) {
    let Some(output) = picture.output.filter(|_| area.height >= WORTHWHILE) else { return };
    // Below an empty line. More cannot be seen, and reading everything takes too long.
    let area = Rect { y: area.y + 1, height: area.height - 1, ..area };
    let text = text::tail(output.text, usize::from(area.width) * usize::from(area.height));
    let output = Some(Output { text, left_out: 0, ..output });
    draw(&Picture { output, progress: String::new(), ..*picture }, picked, None, area, buffer);
}

/// Draws the output of the row that is picked, and says how many lines there are and how many can be
/// seen at once.
pub(super) fn draw(
    picture: &Picture<'_>,
    picked: usize,
    top: Option<usize>,
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
