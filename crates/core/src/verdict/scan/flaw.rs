//! What is wrong with something that is no JSON.

use std::fmt;

/// Why something is no JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A byte that cannot stand there.
    Unexpected {
        /// What can.
        wanted: &'static str,
        /// The byte.
        found: u8,
    },
    /// A control character in a string.
    RawControl(u8),
    /// A backslash in a string, with something behind it that cannot be escaped.
    BadEscape(u8),
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Flaw::Unexpected { wanted, found } => {
                write!(f, "{} stands where {wanted} should", Shown(found))
            }
            Flaw::RawControl(byte) => {
                write!(f, "a string holds {}, which has to be escaped", Shown(byte))
            }
            Flaw::BadEscape(byte) => {
                write!(f, "a string holds a backslash before {}, which is no escape", Shown(byte))
            }
        }
    }
}

/// A byte as people know it.
struct Shown(u8);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            b' ' => f.write_str("a blank"),
            b'\'' => f.write_str("an apostrophe"),
            b'\n' => f.write_str("a line break"),
            b'\t' => f.write_str("a tab"),
            byte @ 0x21..=0x7e => write!(f, "'{}'", char::from(byte)),
            byte @ (0..0x20 | 0x7f) => write!(f, "the control character U+{byte:04X}"),
            _ => f.write_str("a character that is not ASCII"),
        }
    }
}
