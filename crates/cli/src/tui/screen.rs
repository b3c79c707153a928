//! The terminal: taken when a view opens, and restored in every case.

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

/// Whether the view has the terminal. A process has one terminal.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// Installs the hook that restores the terminal before a panic is printed.
static PANICS: Once = Once::new();

pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    signals: Arc<Received>,
}

/// What signals require.
#[derive(Default)]
struct Received {
    /// Another program had the terminal.
    is_stale: AtomicBool,
    /// The run stops, so the view is closed.
    is_over: AtomicBool,
}

impl Screen {
    pub(super) fn take(role: Role) -> io::Result<Screen> {
        PANICS.call_once(|| {
            let print = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                print(panic);
            }));
        });
        let received = Arc::new(Received::default());
        let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGTSTP, SIGCONT])?;
        let shared = Arc::clone(&received);
        // The thread continues after the view is closed: a signal with a handler has no default action any more.
        thread::Builder::new().name("screen".to_owned()).spawn(move || {
            for signal in signals.forever() {
                handle(signal, role, &shared);
            }
        })?;
        take()?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(Screen { terminal, signals: received })
    }

    /// Whether the view has to be closed.
    pub(super) fn is_over(&self) -> bool {
        self.signals.is_over.load(Ordering::SeqCst)
    }

    /// Has the next drawing write every cell. `Terminal::clear` asks the terminal for the position of its cursor, and the
    /// answer would arrive among the keys.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        let size = self.terminal.size()?;
        self.terminal.resize(size.into())
    }

    /// Writes the cells that changed.
    pub(super) fn draw<T>(&mut self, draw: impl FnOnce(&mut Buffer) -> T) -> io::Result<Option<T>> {
        if self.signals.is_stale.swap(false, Ordering::SeqCst) {
            self.clear()?;
        }
        // Between a signal and the end of the process the shell has the terminal.
        if !TAKEN.load(Ordering::SeqCst) {
            return Ok(None);
        }
        let mut drawn = None;
        self.terminal.draw(|frame| drawn = Some(draw(frame.buffer_mut())))?;
        Ok(drawn)
    }

    /// Returns the terminal to the shell until SIGCONT.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        suspend()?;
        self.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Carries out a signal. The thread that draws may be waiting for a disk or for the terminal.
fn handle(signal: i32, role: Role, received: &Received) {
    match signal {
        SIGTSTP => {
            // Where the terminal cannot be taken again, the next drawing fails.
            let _ = suspend();
            received.is_stale.store(true, Ordering::SeqCst);
        }
        SIGCONT => {
            if TAKEN.load(Ordering::SeqCst) {
                let _ = enable_raw_mode();
                received.is_stale.store(true, Ordering::SeqCst);
            }
        }
        _ => {
            restore();
            match role {
                // The harness receives the signal too and stops the run.
                Role::Harness => received.is_over.store(true, Ordering::SeqCst),
                Role::Watcher => drop(emulate_default_handler(signal)),
            }
        }
    }
}

fn suspend() -> io::Result<()> {
    let was_taken = restore();
    emulate_default_handler(SIGTSTP)?;
    if was_taken { take() } else { Ok(()) }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    send(EnterAlternateScreen, Hide)
}

/// Restores the terminal if the view has it, and returns whether it had. Any thread may call it, repeatedly.
fn restore() -> bool {
    let was_taken = TAKEN.swap(false, Ordering::SeqCst);
    if was_taken {
        // A terminal that cannot be written to is closed.
        let _ = send(Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
    was_taken
}

/// Writes commands without the lock and the buffer of standard output, which a thread that panicked may hold.
fn send(first: impl Command, second: impl Command) -> io::Result<()> {
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
