//! The output of a row.

use autoloop_core::text;
use autoloop_core::views::squad::resolve_command;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::{Output, Picture, put};
use crate::tui::text::wrap;

/// The minimum height of an output below the rows.
pub(super) const MIN_HEIGHT: u16 = 5;

/// Draws the end of the output of the selected row, if the area is high enough.
pub(super) fn peek(picture: &Picture<'_>, picked: usize, area: Rect, buffer: &mut Buffer) {
    let Some(output) = picture.output.filter(|_| area.height >= MIN_HEIGHT) else { return };
    // Below an empty line. Wrapping more than is visible would take too long.
    let area = Rect { y: area.y + 1, height: area.height - 1, ..area };
    let text = text::tail(output.text, usize::from(area.width) * usize::from(area.height));
    let output = Some(Output { text, left_out: 0, ..output });
    draw(&Picture { output, progress: String::new(), ..*picture }, picked, None, area, buffer);
}

/// Draws the output of the selected row and returns the number of its lines and of visible ones.
pub(super) fn draw(
    picture: &Picture<'_>,
    picked: usize,
    top: Option<usize>,
    area: Rect,
    buffer: &mut Buffer,
) -> (usize, usize) {
    let Some(row) = picture.board.shown().nth(picked) else { return (0, 0) };
    let output = picture.output;
    let path = output.map_or("", |output| output.path);
    let review = row.review_in_words();
    let review = if review.is_empty() { review } else { format!("{review}  ") };
    let heading = format!("{}  {}  {}  {review}{path}", row.name, row.badge(), row.item);
    put(buffer, area.y, &heading, Modifier::UNDERLINED.into());

    let mut lines = match output {
        Some(output) => wrap(output.text, area.width.into()),
        None => Vec::new(),
    };
    match output {
        Some(output) if output.left_out > 0 => {
            lines.insert(0, format!("({} earlier bytes are in the file)", output.left_out));
        }
        _ if lines.is_empty() => lines.push("(no output)".to_owned()),
        _ => {}
    }
    if row.is_blocked() {
        let why = format!("{}: {}", row.badge().to_lowercase(), row.note);
        let command = resolve_command(&row.name, row.iteration > 0);
        let resolve = format!("resolve it with `{command}`");
        lines.extend(wrap(&format!("\n{why}\n{resolve}"), area.width.into()));
    }
    let height = usize::from(area.height.saturating_sub(1));
    let last = lines.len().saturating_sub(height);
    let first = top.unwrap_or(last).min(last);
    for (line, y) in lines[first..].iter().zip(area.y + 1..area.bottom()) {
        put(buffer, y, line, Style::new());
    }
    (lines.len(), height)
}
