//! The live view: a board that fills a terminal.
//!
//! It only reads the journal and the output of agents, so it can run in the process that carries out the run or in
//! another. One thread waits for keys and reads the journal in between; the effect of keys ([`view`]) and the drawing
//! ([`mod@draw`]) do not depend on a terminal.

#![expect(clippy::disallowed_methods, reason = "asks the environment about the terminal")]

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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use autoloop_core::coordinator::Status;
use signal_hook::consts::SIGINT;

use self::draw::{Output, Picture, draw};
use self::input::Keyboard;
use self::model::Feed;
use self::screen::Screen;
use self::view::{CLOSED, Pane, Role, View, Wish};
use crate::failure::Failure;
use crate::style::Color;

/// How often the journal and the outputs are read and drawn. Keys are handled at once.
const TICK: Duration = Duration::from_millis(200);
/// The same for a run that is not running.
const QUIET: Duration = Duration::from_millis(500);
/// How often to check whether the harness has exited, which no record announces.
const CHECK_STATUS: Duration = Duration::from_secs(2);

/// Shows a run of another process until the user closes the view.
pub(crate) fn show(feed: Feed) -> Result<(), Failure> {
    Session::open(feed, Role::Watcher)?.run(&AtomicBool::new(false))
}

/// Whether standard output is a terminal that can show a view.
pub(crate) fn is_possible() -> bool {
    io::stdout().is_terminal()
        && std::env::var_os("TERM").is_some_and(|term| term != "dumb" && !term.is_empty())
}

/// The view of a run of this process, closed at first. Any thread may use it.
#[derive(Default)]
pub(crate) struct Background(Mutex<Option<Open>>);

struct Open {
    is_done: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), Failure>>,
}

impl Background {
    /// Opens the view in a thread. Ctrl-C in it sends SIGINT to this process.
    pub(crate) fn open(&self, feed: Feed) -> Result<(), Failure> {
        let session = Session::open(feed, Role::Harness)?;
        let is_done = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&is_done);
        let thread = thread::Builder::new()
            .name("view".to_owned())
            .spawn(move || session.run(&shared))
            .map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))?;
        *self.view() = Some(Open { is_done, thread });
        Ok(())
    }

    pub(crate) fn is_open(&self) -> bool {
        self.view().as_ref().is_some_and(|open| !open.thread.is_finished())
    }

    /// Closes the view if it was opened, so that the terminal can be written to. Returns the failure of the view.
    pub(crate) fn close(&self) -> Result<(), Failure> {
        let Some(Open { is_done, thread }) = self.view().take() else { return Ok(()) };
        is_done.store(true, Ordering::SeqCst);
        thread.join().unwrap_or_else(|_| Err(Failure::bug()))
    }

    fn view(&self) -> MutexGuard<'_, Option<Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Session {
    feed: Feed,
    view: View,
    colours: Color,
    screen: Screen,
    keyboard: Keyboard,
    status: Status,
}

impl Session {
    fn open(feed: Feed, role: Role) -> Result<Session, Failure> {
        let no_terminal = |error: io::Error| {
            Failure::failed(format!("cannot open the live view on this terminal: {error}"))
                .hint("print lines instead with `autoloop watch | cat`")
        };
        Ok(Session {
            view: View::new(role),
            colours: Color::of(&io::stdout()),
            keyboard: Keyboard::open().map_err(no_terminal)?,
            screen: Screen::take(role).map_err(no_terminal)?,
            status: feed.status(),
            feed,
        })
    }

    fn run(mut self, is_done: &AtomicBool) -> Result<(), Failure> {
        let mut checked = self.feed.elapsed();
        while !self.screen.is_over() && !is_done.load(Ordering::SeqCst) {
            let is_changed = self.feed.read_on(&mut |_, _| {})?;
            let now = self.feed.elapsed();
            if is_changed || now.saturating_sub(checked) >= CHECK_STATUS {
                self.status = self.feed.settle(&mut |_, _| {})?;
                checked = now;
            }
            self.draw()?;
            let tick = if self.status == Status::Running { TICK } else { QUIET };
            let Some(keys) = self.keyboard.wait(tick) else { return Ok(()) };
            for key in keys {
                match self.view.press(key) {
                    Wish::Stay => {}
                    Wish::Leave => {
                        drop(self.screen);
                        if self.view.role == Role::Harness {
                            // The run continues whether or not this can be printed.
                            let _ = writeln!(io::stderr(), "{CLOSED}");
                        }
                        return Ok(());
                    }
                    Wish::Stop => {
                        drop(self.screen);
                        signal_hook::low_level::raise(SIGINT)?;
                        return Ok(());
                    }
                    Wish::Suspend => self.screen.suspend()?,
                    Wish::Redraw => self.screen.clear()?,
                }
            }
        }
        Ok(())
    }

    fn draw(&mut self) -> Result<(), Failure> {
        let last_lines = self.feed.last_lines();
        let board = self.feed.board();
        self.view.follow(board.rows.len(), board.finished_count);
        self.view.picked = self.view.picked.min(board.shown().count().saturating_sub(1));
        let row = board.shown().nth(self.view.picked).filter(|_| self.view.pane != Pane::Help);
        let path = row.and_then(|row| self.feed.outputs.path(row));
        let output = path.as_deref().map(|path| self.feed.outputs.page(path).clone());
        let path = from_here(&path.unwrap_or_default()).display().to_string();
        let picture = Picture {
            board: self.feed.board(),
            status: self.status,
            progress: self.feed.progress(self.status),
            moment: self.feed.moment(self.status),
            usage: self.feed.usage(),
            usage_of: &|row| self.feed.usage_of(row),
            last_lines: &last_lines,
            output: output.as_ref().map(|tail| Output {
                text: &tail.text,
                left_out: tail.left_out,
                path: &path,
            }),
        };
        let room = self.screen.draw(|buffer| draw(&picture, &self.view, self.colours, buffer))?;
        self.view.room = room.unwrap_or_default();
        Ok(())
    }
}

/// A path relative to the current directory, which leaves more room for its end.
fn from_here(path: &Path) -> &Path {
    let here = std::env::current_dir().ok();
    here.and_then(|here| path.strip_prefix(here).ok()).unwrap_or(path)
}
