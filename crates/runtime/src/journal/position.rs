//! A place between two lines.

/// A place in a journal, behind some line. Opaque: what it counts is the journal's own affair.
///
/// A position carries a mark of the line before it, so a journal that was cut, replaced or edited
/// there is noticed when somebody reads on from an old position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    pub(super) at: u64,
    pub(super) mark: u32,
}

/// How many bytes before a position its mark is made of, at most.
pub(super) const MARKED: usize = 64;

impl Position {
    /// The beginning of every journal.
    pub const START: Position = Position { at: 0, mark: 0 };

    /// The place behind a line of which these are the last bytes, its newline included.
    pub(super) fn behind(at: u64, ending: &[u8]) -> Position {
        Position { at, mark: crc32fast::hash(marked(ending)) }
    }

    /// For keeping it outside.
    pub(super) fn to_bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&self.at.to_le_bytes());
        bytes[8..].copy_from_slice(&self.mark.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: [u8; 12]) -> Position {
        let [a, b, c, d, e, f, g, h, mark @ ..] = bytes;
        Position {
            at: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            mark: u32::from_le_bytes(mark),
        }
    }
}

impl Default for Position {
    fn default() -> Self {
        Position::START
    }
}

/// The bytes that a mark is made of: the end of the last line, given the end of the file before the
/// position.
fn marked(ending: &[u8]) -> &[u8] {
    let ending = &ending[ending.len().saturating_sub(MARKED)..];
    let Some(body) = ending.len().checked_sub(1) else { return ending };
    match memchr::memrchr(b'\n', &ending[..body]) {
        Some(newline) => &ending[newline + 1..],
        None => ending,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_made_of_the_last_line_alone() {
        let long = format!("{}\n", "x".repeat(200));
        assert_eq!(Position::behind(9, b"one\ntwo\n"), Position::behind(9, b"two\n"));
        assert_ne!(Position::behind(9, b"one\n"), Position::behind(9, b"two\n"));
        assert_eq!(
            Position::behind(9, long.as_bytes()),
            Position::behind(9, &long.as_bytes()[long.len() - MARKED..])
        );
        assert_eq!(Position::behind(0, b""), Position::START);
    }

    #[test]
    fn keeping_a_position_outside_changes_nothing() {
        let position = Position::behind(0x0102_0304_0506_0708, b"line\n");
        assert_eq!(Position::from_bytes(position.to_bytes()), position);
    }
}
