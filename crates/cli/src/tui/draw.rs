//! Draws a board into a buffer of any size.

mod columns;
mod output;
mod rows;

use autoloop_core::coordinator::Status;
use autoloop_core::timestamp::Timestamp;
use autoloop_core::views::board::{Board, Row};
use autoloop_core::views::usage::Sum;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::text::tame;
use super::view::{Pane, Role, Room, View};
use crate::style;

/// The minimum width and height.
const SMALLEST: (u16, u16) = (20, 4);
const BOARD_KEYS: &str = "q quit  j/k select  Enter output  ? keys";
/// The minimum height for headings.
const ROOMY: u16 = 6;

pub(super) struct Picture<'p> {
    pub(super) board: &'p Board,
    pub(super) status: Status,
    pub(super) progress: String,
    /// The time of the picture.
    pub(super) moment: Timestamp,
    /// What the agents of the run used.
    pub(super) usage: Option<Sum>,
    /// The same for a row.
    pub(super) usage_of: &'p dyn Fn(&Row) -> Option<Sum>,
    /// The last line of each shown row.
    pub(super) last_lines: &'p [String],
    /// The output of the selected row.
    pub(super) output: Option<Output<'p>>,
}

#[derive(Clone, Copy)]
pub(super) struct Output<'p> {
    pub(super) text: &'p str,
    /// The number of bytes before the text.
    pub(super) left_out: u64,
    pub(super) path: &'p str,
}

fn help(role: Role) -> [&'static str; 8] {
    let (leave, interrupt) = match role {
        Role::Watcher => ("q, Esc, left    back, or quit", "Ctrl-C          quit"),
        Role::Harness => ("q, Esc, left    back, or close view", "Ctrl-C          stop the run"),
    };
    [
        "up, down, j, k  select a row, scroll",
        "PgUp, PgDn      scroll by a page",
        "g, G            go to the start, end",
        "Enter, right    open the output",
        leave,
        interrupt,
        "Ctrl-Z          suspend",
        "Ctrl-L          redraw",
    ]
}

/// Draws a picture and returns the sizes of its parts. No colour has a meaning that is not in the text too.
pub(super) fn draw(
    picture: &Picture<'_>,
    view: &View,
    colours: style::Color,
    buffer: &mut Buffer,
) -> Room {
    let area = buffer.area;
    let mut room = Room { rows: picture.board.shown().count(), ..Room::default() };
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let (width, height) = SMALLEST;
        put(buffer, 0, &format!("needs {width}x{height}"), Style::new());
        return room;
    }
    let body = Rect { y: 1, height: area.height - 2, ..area };
    header(picture, buffer);
    match view.pane {
        Pane::Board => {
            let below;
            (room.height, below) = rows::draw(picture, view.picked, body, buffer);
            output::peek(picture, view.picked, below, buffer);
        }
        Pane::Help => {
            for (line, y) in help(view.role).iter().zip(body.y + 1..body.bottom()) {
                put(buffer, y, &format!(" {line}"), Style::new());
            }
        }
        Pane::Output { top } => {
            (room.lines, room.height) = output::draw(picture, view.picked, top, body, buffer);
        }
    }
    footer(view, room, buffer);
    if colours == style::Color::No {
        buffer.content.iter_mut().for_each(|cell| cell.fg = Color::Reset);
    }
    room
}

/// The run, its status and its title; at the right end what its agents used, as far as there is room for it.
fn header(picture: &Picture<'_>, buffer: &mut Buffer) {
    let Board { id, title, .. } = picture.board;
    let word = picture.board.word();
    let end = put(buffer, 0, &format!("{word} {id}  "), Modifier::BOLD.into());
    let (status, colour) = status(picture);
    let mut right = buffer.area.right();
    let room = |x: u16, right: u16| usize::from(right.saturating_sub(x));
    let (end, _) = buffer.set_stringn(end, 0, tame(&status), room(end, right), colour);
    let usages = picture.usage.map(|usage| [usage.to_string(), usage.cost_text()]);
    let fits = |usage: &String| usage.len() + 2 <= room(end, right);
    if let Some(usage) = usages.into_iter().flatten().find(fits) {
        right -= u16::try_from(usage.len()).unwrap_or_default();
        buffer.set_string(right, 0, usage, Modifier::BOLD);
        right -= 2;
    }
    buffer.set_stringn(end, 0, format!("  {}", tame(title)), room(end, right), Style::new());
}

fn status(picture: &Picture<'_>) -> (String, Color) {
    let status = picture.status;
    let parked = picture.board.parked().filter(|_| status == Status::Running);
    if let Some(parked) = parked {
        return (parked.left_in_words(picture.moment), Color::Yellow);
    }
    let colour = match status {
        Status::Running => Color::Cyan,
        Status::Completed => Color::Green,
        Status::Stopped | Status::Failed | Status::Crashed => Color::Red,
        Status::Interrupted | Status::Waiting => Color::Yellow,
    };
    let ended = matches!(status, Status::Completed | Status::Stopped | Status::Failed);
    match picture.board.outcome.as_ref().filter(|_| ended) {
        Some(outcome) => (format!("{status}: {}", outcome.word), colour),
        None => (status.to_string(), colour),
    }
}

fn footer(view: &View, room: Room, buffer: &mut Buffer) {
    let y = buffer.area.bottom() - 1;
    if let Some(notice) = view.notice {
        put(buffer, y, notice, (Color::Yellow, Modifier::BOLD).into());
        return;
    }
    let keys = match view.pane {
        Pane::Board if room.rows > room.height => {
            let last = (view.picked + 1).max(room.height);
            let first = last - room.height + 1;
            &format!("{BOARD_KEYS}  {first}-{last} of {}", room.rows)
        }
        Pane::Board => BOARD_KEYS,
        Pane::Help => "press any key to go back",
        Pane::Output { top: None } => "q back  j/k scroll  (at the end)",
        Pane::Output { top: Some(_) } => "q back  j/k scroll  G end",
    };
    put(buffer, y, keys, Modifier::DIM.into());
}

/// Writes a line, cut at the width of the buffer, and returns the column after it.
fn put(buffer: &mut Buffer, y: u16, text: &str, style: Style) -> u16 {
    let width = usize::from(buffer.area.width);
    buffer.set_stringn(buffer.area.x, y, tame(text), width, style).0
}

#[cfg(test)]
mod tests;
