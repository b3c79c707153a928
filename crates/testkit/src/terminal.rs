//! A pseudo-terminal: shows the screen of a program, and presses keys.

mod picture;

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

use self::picture::Picture;
use crate::sandbox::{Reaped, until};

/// A terminal and the program in it.
#[derive(Debug)]
pub struct Terminal {
    /// The program.
    pub process: Reaped,
    keyboard: File,
    /// The program's side, kept open so that the terminal outlives the program.
    inside: File,
    picture: Arc<Mutex<Picture>>,
    /// Every byte that the program wrote.
    printed: Arc<Mutex<Vec<u8>>>,
    modes: String,
}

impl Terminal {
    /// Starts a program in a terminal of this many columns and rows.
    ///
    /// # Panics
    ///
    /// When the system has no pseudo-terminals, or the program cannot be started.
    pub fn start(mut command: Command, size: (u16, u16)) -> Terminal {
        let outside = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("tests of terminals need pseudo-terminals");
        grantpt(&outside).and_then(|()| unlockpt(&outside)).expect("it was just made");
        let name = ptsname(&outside, Vec::new()).expect("it has a name");
        let name = Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let inside = OpenOptions::new().read(true).write(true).open(name);
        let inside = inside.expect("it can be opened by its name");
        let end = || Stdio::from(inside.try_clone().expect("there are descriptors left"));
        command.stdin(end()).stdout(end()).stderr(end());
        command.env("TERM", "xterm-256color").env_remove("NO_COLOR");

        let keyboard = File::from(outside);
        let mut screen = keyboard.try_clone().expect("there are descriptors left");
        let picture = Arc::new(Mutex::new(Picture::default()));
        let seen = Arc::clone(&picture);
        let printed = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&printed);
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut piece) {
                kept.lock().unwrap_or_else(PoisonError::into_inner).extend(&piece[..count]);
                seen.lock().unwrap_or_else(PoisonError::into_inner).show(&piece[..count]);
            }
        });
        resize(&inside, size);
        let modes = modes(&inside);
        // The descriptors of the child are closed here as soon as it has its own.
        let process = Reaped::start(command);
        Terminal { process, keyboard, inside, picture, printed, modes }
    }

    /// Presses keys, as the bytes that a terminal sends for them.
    ///
    /// # Panics
    ///
    /// When the terminal is gone.
    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("the terminal is there");
    }

    /// Resizes the window.
    pub fn resize(&self, size: (u16, u16)) {
        resize(&self.inside, size);
    }

    /// What is on the screen, without the blanks at the end of lines.
    pub fn screen(&self) -> String {
        self.picture().text()
    }

    /// Everything that was printed so far, with its escape sequences.
    pub fn printed(&self) -> String {
        let printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&printed).into_owned()
    }

    /// Whether a program has the whole screen, and not the shell its lines.
    pub fn is_taken(&self) -> bool {
        self.picture().is_alternate
    }

    /// Waits until something is on the screen, and returns the screen.
    ///
    /// # Panics
    ///
    /// When it does not come.
    pub fn see(&self, what: &str) -> String {
        self.look(&format!("'{what}' on the screen"), |screen| screen.contains(what))
    }

    /// Waits until something is on the screen no more.
    ///
    /// # Panics
    ///
    /// When it stays.
    pub fn miss(&self, what: &str) -> String {
        self.look(&format!("'{what}' to go"), |screen| !screen.contains(what))
    }

    fn look(&self, what: &str, is_there: impl Fn(&str) -> bool) -> String {
        until(what, || Some(self.screen()).filter(|screen| is_there(screen)))
    }

    /// Asserts that the program left the terminal as it was: its modes, the cursor, and the screen.
    ///
    /// # Panics
    ///
    /// When it did not.
    pub fn assert_given_back(&self) {
        until("the terminal to be given back", || {
            let picture = self.picture();
            let is_back = !picture.is_alternate && !picture.is_cursor_hidden;
            (is_back && modes(&self.inside) == self.modes).then_some(())
        });
    }

    fn picture(&self) -> MutexGuard<'_, Picture> {
        self.picture.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn resize(inside: &File, (columns, rows): (u16, u16)) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(inside, size).expect("a terminal can be resized");
}

/// How the terminal treats what is typed and printed.
fn modes(inside: &File) -> String {
    format!("{:?}", tcgetattr(inside).expect("it is a terminal"))
}
