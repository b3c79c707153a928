//! The live view: a board on a whole terminal, until somebody leaves.
//!
//! Everything that is shown is read from the journal and from what agents print, so the view needs
//! nothing from whoever does the work, and can be in another process or beside it. One thread waits for
//! keys and looks at the journal in between; what keys do ([`view`]) and what is seen ([`mod@draw`]) is
//! decided without a terminal.

#![expect(clippy::disallowed_methods, reason = "asks the environment about the terminal")]

mod background;
mod draw;
mod input;
pub(crate) mod model;
mod output_tail;
mod screen;
pub(crate) mod text;
mod view;

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use autoloop_core::coordinator::Status;
use signal_hook::consts::SIGINT;

pub(crate) use self::background::Beside;

use self::draw::{Ink, Output, Picture, draw};
use self::input::{Keyboard, Pressed};
use self::model::Feed;
use self::screen::Screen;
use self::view::{CLOSED, Pane, Role, View, Wish};
use crate::failure::Failure;

/// How often the journal and the outputs are looked at, and so how often something new is drawn. Keys
/// are answered at once.
const TICK: Duration = Duration::from_millis(200);
/// The same when nobody works and only the terminal can change.
const QUIET: Duration = Duration::from_millis(500);
/// How often it is looked whether the harness is still there, which nobody announces.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Shows a board that another process works on, until the person at the terminal leaves.
pub(crate) fn show(feed: Feed) -> Result<(), Failure> {
    Session::open(feed, Role::Watcher)?.run(&AtomicBool::new(false))
}

/// Whether there is a terminal that a view can be shown on.
pub(crate) fn is_possible() -> bool {
    io::stdout().is_terminal()
        && std::env::var_os("TERM").is_some_and(|term| term != "dumb" && !term.is_empty())
}

/// A view that is open.
struct Session {
    feed: Feed,
    view: View,
    ink: Ink,
    screen: Screen,
    keyboard: Keyboard,
    status: Status,
    /// What was drawn last, to see whether something else has to be.
    shown: Option<Shown>,
}

/// What decides how a picture looks, beside the board.
#[derive(PartialEq, Eq)]
struct Shown {
    view: View,
    status: Status,
    progress: String,
    last_lines: Vec<String>,
    /// The second, where times can be seen.
    second: i64,
    /// How much the row that is picked has printed.
    printed: u64,
    size: (u16, u16),
}

impl Session {
    fn open(feed: Feed, role: Role) -> Result<Session, Failure> {
        let no_terminal = |error: io::Error| {
            Failure::failed(format!("cannot show anything on this terminal: {error}"))
                .hint("`autoloop watch | cat` prints lines instead")
        };
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        Ok(Session {
            view: View::new(role),
            ink: if is_set("NO_COLOR") { Ink::Plain } else { Ink::Colour },
            keyboard: Keyboard::open().map_err(no_terminal)?,
            screen: Screen::take(role).map_err(no_terminal)?,
            status: feed.status(),
            shown: None,
            feed,
        })
    }

    fn run(mut self, is_done: &AtomicBool) -> Result<(), Failure> {
        let mut looked = self.feed.elapsed();
        while !self.screen.is_over() && !is_done.load(Ordering::SeqCst) {
            let heard = self.feed.read_on(&mut |_, _| {})?;
            let now = self.feed.elapsed();
            if heard || now.saturating_sub(looked) >= LOOK_AGAIN {
                self.status = self.feed.settle(&mut |_, _| {})?;
                looked = now;
            }
            self.draw(heard)?;
            let tick = if self.status == Status::Running { TICK } else { QUIET };
            let Pressed::Keys(keys) = self.keyboard.wait(tick) else { return Ok(()) };
            for key in keys {
                match self.view.press(key) {
                    Wish::Stay => {}
                    Wish::Leave => {
                        drop(self.screen);
                        if self.view.role == Role::Beside {
                            // The work goes on whether or not that can be said.
                            let _ = writeln!(io::stderr(), "{CLOSED}");
                        }
                        return Ok(());
                    }
                    Wish::Stop => {
                        drop(self.screen);
                        signal_hook::low_level::raise(SIGINT)?;
                        return Ok(());
                    }
                    Wish::Suspend => {
                        self.screen.suspend()?;
                        self.shown = None;
                    }
                    Wish::Redraw => {
                        self.screen.clear()?;
                        self.shown = None;
                    }
                }
            }
        }
        Ok(())
    }

    /// Draws the picture if it is another one than before.
    fn draw(&mut self, heard: bool) -> Result<(), Failure> {
        let was_lost = self.screen.was_lost()?;
        let moment = self.feed.moment(self.status);
        let last_lines = self.feed.last_lines();
        let rows = &self.feed.board().rows;
        self.view.picked = self.view.picked.min(rows.len().saturating_sub(1));
        let path = match self.view.pane {
            Pane::Board | Pane::Output { .. } => {
                rows.get(self.view.picked).and_then(|row| self.feed.output_path(row))
            }
            Pane::Help => None,
        };
        let output = path.as_deref().map(|path| self.feed.output(path));
        let path = from_here(&path.unwrap_or_default()).display().to_string();
        let shown = Shown {
            view: self.view,
            status: self.status,
            progress: self.feed.progress(self.status),
            last_lines,
            second: if self.view.pane == Pane::Board { moment.millis() / 1_000 } else { 0 },
            printed: output.as_ref().map_or(0, |tail| tail.length),
            size: ratatui::crossterm::terminal::size()?,
        };
        if !heard && !was_lost && self.shown.as_ref() == Some(&shown) {
            return Ok(());
        }
        let picture = Picture {
            board: self.feed.board(),
            status: self.status,
            progress: shown.progress.clone(),
            moment,
            last_lines: &shown.last_lines,
            output: output.as_ref().map(|tail| Output {
                text: &tail.text,
                left_out: tail.left_out,
                path: &path,
            }),
        };
        let room = self.screen.draw(|buffer| draw(&picture, &self.view, self.ink, buffer))?;
        self.view.room = room.unwrap_or_default();
        self.shown = Some(Shown { view: self.view, ..shown });
        Ok(())
    }
}

/// A path as it is written where the view was opened, which leaves more room for its end.
fn from_here(path: &Path) -> &Path {
    let here = std::env::current_dir().ok();
    here.and_then(|here| path.strip_prefix(here).ok()).unwrap_or(path)
}
