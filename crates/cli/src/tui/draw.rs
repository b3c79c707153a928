//! A picture of a board, drawn into a buffer of any size.

mod columns;
mod output;
mod rows;

use autoloop_core::coordinator::Status;
use autoloop_core::timestamp::Timestamp;
use autoloop_core::views::board::Board;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::text::tame;
use super::view::{Pane, Role, Room, View};

/// Below this nothing can be shown but a word.
const SMALLEST: (u16, u16) = (20, 4);
/// What can be pressed where all rows are shown.
const BOARD_KEYS: &str = "q quit  j/k pick  Enter output  ? keys";
/// From this height on there is room for more than rows.
const ROOMY: u16 = 6;

/// What can be seen.
pub(super) struct Picture<'p> {
    pub(super) board: &'p Board,
    pub(super) status: Status,
    /// How far the whole is, in words.
    pub(super) progress: String,
    /// The moment that it is seen at.
    pub(super) moment: Timestamp,
    /// What was said last, row by row.
    pub(super) last_lines: &'p [String],
    /// The output of the row that is picked, in a text.
    pub(super) output: Option<Output<'p>>,
}

/// The output of a row.
#[derive(Clone, Copy)]
pub(super) struct Output<'p> {
    pub(super) text: &'p str,
    /// How many bytes before it are not shown.
    pub(super) left_out: u64,
    /// The file that has all of it.
    pub(super) path: &'p str,
}

/// Whether colours are wanted. Nothing is said by colour alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    Colour,
    Plain,
}

impl Ink {
    fn coloured(self, colour: Color) -> Style {
        match self {
            Ink::Colour => Style::new().fg(colour),
            Ink::Plain => Style::new(),
        }
    }
}

/// The keys. What the two say that leave depends on whose the work is.
fn help(role: Role) -> [&'static str; 8] {
    let (leave, interrupt) = match role {
        Role::Watcher => ("q, Esc, left    back, or quit", "Ctrl-C          quit"),
        Role::Beside => ("q, Esc, left    back, or close this", "Ctrl-C          stop the work"),
    };
    [
        "up, down, j, k  pick a row, scroll",
        "PgUp, PgDn      a page at a time",
        "g, G            the first, the last",
        "Enter, right    the output of a row",
        leave,
        interrupt,
        "Ctrl-Z          to the shell, for now",
        "Ctrl-L          draw all of it anew",
    ]
}

/// Draws a picture, and says how much there was to see.
pub(super) fn draw(picture: &Picture<'_>, view: &View, ink: Ink, buffer: &mut Buffer) -> Room {
    let area = buffer.area;
    let mut room = Room { rows: picture.board.rows.len(), ..Room::default() };
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let (width, height) = SMALLEST;
        put(buffer, 0, &format!("needs {width}x{height}"), Style::new());
        return room;
    }
    let body = Rect { y: 1, height: area.height - 2, ..area };
    header(picture, ink, buffer);
    match view.pane {
        Pane::Board => {
            let below;
            (room.height, below) = rows::draw(picture, view.picked, ink, body, buffer);
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
    footer(view, room, ink, buffer);
    room
}

/// Which run it is, and how it is.
fn header(picture: &Picture<'_>, ink: Ink, buffer: &mut Buffer) {
    let Board { id, title, .. } = picture.board;
    let word = picture.board.word();
    let end = put(buffer, 0, &format!("{word} {id}  "), Modifier::BOLD.into());
    let (state, colour) = state(picture);
    let right = usize::from(buffer.area.right());
    let room = |x: u16| right.saturating_sub(x.into());
    let (end, _) = buffer.set_stringn(end, 0, tame(&state), room(end), ink.coloured(colour));
    buffer.set_stringn(end, 0, format!("  {}", tame(title)), room(end), Style::new());
}

/// How the whole is, in words.
fn state(picture: &Picture<'_>) -> (String, Color) {
    let status = picture.status;
    let colour = match status {
        Status::Running => Color::Cyan,
        Status::Completed => Color::Green,
        Status::Stopped | Status::Failed | Status::Crashed => Color::Red,
        Status::Interrupted => Color::Yellow,
    };
    let ended = matches!(status, Status::Completed | Status::Stopped | Status::Failed);
    match picture.board.outcome.as_ref().filter(|_| ended) {
        Some(outcome) => (format!("{status}: {}", outcome.word), colour),
        None => (status.to_string(), colour),
    }
}

fn footer(view: &View, room: Room, ink: Ink, buffer: &mut Buffer) {
    let y = buffer.area.bottom() - 1;
    if let Some(notice) = view.notice {
        put(buffer, y, notice, ink.coloured(Color::Yellow).add_modifier(Modifier::BOLD));
        return;
    }
    let keys = match view.pane {
        Pane::Board if room.rows > room.height => {
            let last = (view.picked + 1).max(room.height);
            let first = last - room.height + 1;
            &format!("{BOARD_KEYS}  {first}-{last} of {}", room.rows)
        }
        Pane::Board => BOARD_KEYS,
        Pane::Help => "any key goes back",
        Pane::Output { top: None } => "q back  j/k scroll  (at the end)",
        Pane::Output { top: Some(_) } => "q back  j/k scroll  G to the end",
    };
    put(buffer, y, keys, Modifier::DIM.into());
}

/// Writes a line from the left, as far as there is room, and says where it ends.
fn put(buffer: &mut Buffer, y: u16, text: &str, style: Style) -> u16 {
    let width = usize::from(buffer.area.width);
    buffer.set_stringn(buffer.area.x, y, tame(text), width, style).0
}

#[cfg(test)]
mod tests;
