//! The grammar of numbers.

use super::{Flaw, expect};

/// What was taken of a number last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Digits {
    /// The minus in front.
    Minus,
    /// A zero that begins it, behind which no digit can stand.
    Zero,
    /// Digits in front of the point.
    Whole,
    /// The point.
    Point,
    /// Digits behind it.
    Fraction,
    /// `e` or `E`
    Exponent,
    /// The sign behind that.
    Sign,
    /// The digits of the exponent.
    Power,
}

impl Digits {
    /// What a byte begins.
    pub(super) fn begun_by(byte: u8) -> Option<Digits> {
        match byte {
            b'-' => Some(Digits::Minus),
            b'0' => Some(Digits::Zero),
            b'1'..=b'9' => Some(Digits::Whole),
            _ => None,
        }
    }

    /// Takes the next byte; none when the number has ended in front of it.
    pub(super) fn next(self, byte: u8) -> Result<Option<Digits>, Flaw> {
        let next = match (self, byte) {
            (Digits::Minus, b'0') => Digits::Zero,
            (Digits::Minus | Digits::Whole, b'0'..=b'9') => Digits::Whole,
            (Digits::Zero | Digits::Whole, b'.') => Digits::Point,
            (Digits::Zero | Digits::Whole | Digits::Fraction, b'e' | b'E') => Digits::Exponent,
            (Digits::Point | Digits::Fraction, b'0'..=b'9') => Digits::Fraction,
            (Digits::Exponent, b'+' | b'-') => Digits::Sign,
            (Digits::Exponent | Digits::Sign | Digits::Power, b'0'..=b'9') => Digits::Power,
            (digits, found) => {
                let is_whole = matches!(
                    digits,
                    Digits::Zero | Digits::Whole | Digits::Fraction | Digits::Power
                );
                expect(is_whole, "a digit", found)?;
                return Ok(None);
            }
        };
        Ok(Some(next))
    }
}
