//! The terminal as a whole: taken when a view opens, and given back as it was, whatever happens.

use std::fs::File;
use std::io::{self, Stdout, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::thread;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::Command;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::view::Role;

/// Whether the terminal is ours at this moment. There is one terminal a process.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// A panic has to be read, so the terminal is given back before it is told.
static PANICS: Once = Once::new();

/// The terminal of this process, taken.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    news: Arc<News>,
}

/// What signals told.
#[derive(Default)]
struct News {
    /// Somebody else had the terminal.
    is_stale: AtomicBool,
    /// The work is to stop, so the view is in the way.
    is_over: AtomicBool,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn take(role: Role) -> io::Result<Screen> {
        PANICS.call_once(|| {
            let told = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                told(panic);
            }));
        });
        let news = Arc::new(News::default());
        let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGTSTP, SIGCONT])?;
        let heard = Arc::clone(&news);
        // It listens on when the view is closed: once a signal has a handler, nothing else would do what
        // the system does without one.
        thread::Builder::new().name("screen".to_owned()).spawn(move || {
            for signal in signals.forever() {
                hear(signal, role, &heard);
            }
        })?;
        take()?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(Screen { terminal, news })
    }

    /// Whether the view has to go.
    pub(super) fn is_over(&self) -> bool {
        self.news.is_over.load(Ordering::SeqCst)
    }

    /// Whether what is on the screen cannot be relied upon; asked once.
    pub(super) fn was_lost(&mut self) -> io::Result<bool> {
        let was_lost = self.news.is_stale.swap(false, Ordering::SeqCst);
        if was_lost {
            self.clear()?;
        }
        Ok(was_lost)
    }

    /// Forgets what is on the screen. To clear it in the usual way, the terminal would be asked where its
    /// cursor is, and the answer would come among the keys.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        let size = self.terminal.size()?;
        self.terminal.resize(size.into())
    }

    /// Draws what is different.
    pub(super) fn draw<T>(&mut self, draw: impl FnOnce(&mut Buffer) -> T) -> io::Result<Option<T>> {
        // Between a signal and the end of the process the terminal is somebody else's again.
        if !TAKEN.load(Ordering::SeqCst) {
            return Ok(None);
        }
        let mut drawn = None;
        self.terminal.draw(|frame| drawn = Some(draw(frame.buffer_mut())))?;
        Ok(drawn)
    }

    /// Lets the shell have the terminal until somebody says `fg`.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        suspend()?;
        self.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// What a signal does to the terminal. This is done here and not by whoever draws, who may be waiting
/// for a disk or for the terminal itself.
fn hear(signal: i32, role: Role, news: &News) {
    match signal {
        SIGTSTP => {
            // Where the terminal cannot be had again, the next attempt to draw will tell.
            let _ = suspend();
            news.is_stale.store(true, Ordering::SeqCst);
        }
        SIGCONT => {
            if TAKEN.load(Ordering::SeqCst) {
                let _ = enable_raw_mode();
                news.is_stale.store(true, Ordering::SeqCst);
            }
        }
        _ => {
            give_back();
            match role {
                // Whoever does the work hears of it as well, and says what comes of it.
                Role::Beside => news.is_over.store(true, Ordering::SeqCst),
                Role::Watcher => drop(emulate_default_handler(signal)),
            }
        }
    }
}

fn suspend() -> io::Result<()> {
    let was_taken = give_back();
    emulate_default_handler(SIGTSTP)?;
    if was_taken { take() } else { Ok(()) }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    tell(EnterAlternateScreen, Hide)
}

/// Gives the terminal back, if it is ours, and says whether it was. Can be called from anywhere and as
/// often as one likes.
fn give_back() -> bool {
    let was_taken = TAKEN.swap(false, Ordering::SeqCst);
    if was_taken {
        // A terminal that cannot be told any more needs nothing.
        let _ = tell(Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
    was_taken
}

/// Past the lock and the buffer of standard output, which a thread in trouble may hold.
fn tell(first: impl Command, second: impl Command) -> io::Result<()> {
    let mut text = String::new();
    let written = first.write_ansi(&mut text).and_then(|()| second.write_ansi(&mut text));
    written.map_err(io::Error::other)?;
    File::from(io::stdout().as_fd().try_clone_to_owned()?).write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use autoloop_testkit::Terminal;
    use autoloop_testkit::sandbox::until;

    use super::*;

    /// Set for the process that is to panic.
    const PART: &str = "SCREEN_TEST_PANICS";

    #[test]
    fn part_of_a_child() {
        if std::env::var_os(PART).is_some() {
            let _screen = Screen::take(Role::Watcher).unwrap();
            panic!("this has to be read");
        }
    }

    #[test]
    fn a_panic_can_be_read_and_the_terminal_is_given_back() {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "tui::screen::tests::part_of_a_child", "--nocapture"]);
        command.env(PART, "1").env_remove("RUST_BACKTRACE");
        let mut terminal = Terminal::start(command, (80, 24));
        let ended = until("the end", || terminal.process.0.try_wait().unwrap());
        assert!(!ended.success());
        terminal.see("this has to be read");
        terminal.assert_given_back();
    }
}
