//! Keys, as a terminal sends them.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// How long the rest of a sequence may take. An escape character that stands alone is a key.
const REST: Duration = Duration::from_millis(50);

/// What was pressed, as far as a view knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    /// A letter with the control key, in lower case.
    Ctrl(char),
    Enter,
    Escape,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
}

/// What came of waiting for keys.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pressed {
    Keys(Vec<Key>),
    /// The terminal is gone.
    Gone,
}

/// The keyboard of this process.
pub(super) struct Keyboard(File);

impl Keyboard {
    /// Standard input, or the terminal of the process where that is something else.
    pub(super) fn open() -> io::Result<Keyboard> {
        let stdin = io::stdin();
        match stdin.is_terminal() {
            true => Ok(Keyboard(stdin.as_fd().try_clone_to_owned()?.into())),
            false => File::open("/dev/tty").map(Keyboard),
        }
    }

    /// Returns as soon as keys are pressed, or when the time is up.
    pub(super) fn wait(&mut self, time: Duration) -> io::Result<Pressed> {
        let mut bytes = Vec::new();
        let mut time = time;
        while self.is_ready(time)? {
            let mut piece = [0; 1024];
            match self.0.read(&mut piece) {
                Ok(count @ 1..) => bytes.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return Ok(Pressed::Gone),
            }
            // Whatever is there already is taken at once; a sequence may still be on its way.
            time = if bytes.last() == Some(&0x1b) { REST } else { Duration::ZERO };
            if bytes.len() > 64 * 1024 {
                break;
            }
        }
        Ok(Pressed::Keys(keys(&bytes)))
    }

    fn is_ready(&self, time: Duration) -> io::Result<bool> {
        let time = Timespec::try_from(time).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        match poll(&mut fds, Some(&time)) {
            Err(Errno::INTR) => Ok(false),
            ready => Ok(ready? > 0),
        }
    }
}

/// The keys that bytes stand for. What is unknown is left out.
fn keys(bytes: &[u8]) -> Vec<Key> {
    let text = String::from_utf8_lossy(bytes);
    let mut keys = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let key = match c {
            '\u{1b}' => match chars.next_if(|c| matches!(c, '[' | 'O')) {
                Some(_) => sequence(&mut chars),
                // With the alt key a character comes behind an escape: that is no key of ours.
                None => match chars.next_if(|c| *c != '\u{1b}') {
                    Some(_) => None,
                    None => Some(Key::Escape),
                },
            },
            '\r' | '\n' => Some(Key::Enter),
            '\u{1}'..='\u{1a}' => char::from_u32(u32::from(c) + 0x60).map(Key::Ctrl),
            c if c.is_control() => None,
            c => Some(Key::Char(c)),
        };
        keys.extend(key);
    }
    keys
}

/// What follows `ESC [` or `ESC O`: parameters, and a character that ends it.
fn sequence(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<Key> {
    let mut parameters = String::new();
    while let Some(c) = chars.next_if(|c| ('\u{20}'..='\u{3f}').contains(c)) {
        parameters.push(c);
    }
    match (chars.next()?, parameters.as_str()) {
        ('A', _) => Some(Key::Up),
        ('B', _) => Some(Key::Down),
        ('C', _) => Some(Key::Right),
        ('D', _) => Some(Key::Left),
        ('H', _) | ('~', "1" | "7") => Some(Key::Home),
        ('F', _) | ('~', "4" | "8") => Some(Key::End),
        ('M', _) => Some(Key::Enter),
        ('~', "5") => Some(Key::PageUp),
        ('~', "6") => Some(Key::PageDown),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_keys() {
        use Key::*;
        let cases: [(&[u8], &[Key]); 9] = [
            (b"qj", &[Char('q'), Char('j')]),
            (b"\x1b[A\x1bOB\x1b[1;5C\x1b[D", &[Up, Down, Right, Left]),
            (b"\x1b[5~\x1b[6~\x1b[H\x1b[4~", &[PageUp, PageDown, Home, End]),
            (b"\x1b", &[Escape]),
            (b"\x1b\x1b[A", &[Escape, Up]),
            (b"\x03\x1a\r\x0c", &[Ctrl('c'), Ctrl('z'), Enter, Ctrl('l')]),
            (b"\x1bx\x1b[200~\x1b[99;3u?", &[Char('?')]),
            ("\u{e4}\u{7f}\0".as_bytes(), &[Char('ä')]),
            (b"\x1b[", &[]),
        ];
        for (bytes, expected) in cases {
            assert_eq!(keys(bytes), expected, "{bytes:?}");
        }
    }
}
