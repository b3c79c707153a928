//! The grammar of strings.

use super::{Flaw, expect};

/// What was taken of a string last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escape {
    /// Its opening quote, or something that is whole.
    None,
    /// A backslash.
    Begun,
    /// A part of `\u1234`, of which so many digits are missing.
    Hex(u8),
}

impl Escape {
    /// Takes the next byte; none when it is the quote that ends the string.
    pub(super) fn next(self, byte: u8) -> Result<Option<Escape>, Flaw> {
        let next = match (self, byte) {
            (Escape::None, b'"') => return Ok(None),
            (Escape::None, b'\\') => Escape::Begun,
            (Escape::None, control @ 0..0x20) => return Err(Flaw::RawControl(control)),
            (Escape::None, _) => Escape::None,
            (Escape::Begun, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Escape::None,
            (Escape::Begun, b'u') => Escape::Hex(4),
            (Escape::Begun, other) => return Err(Flaw::BadEscape(other)),
            (Escape::Hex(missing), digit) => {
                expect(digit.is_ascii_hexdigit(), "a hexadecimal digit behind \\u", digit)?;
                if missing == 1 { Escape::None } else { Escape::Hex(missing - 1) }
            }
        };
        Ok(Some(next))
    }
}
