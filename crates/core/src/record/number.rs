//! JSON numbers, kept as they are written.
//!
//! JSON limits neither the size nor the precision of a number, but most types do. `1e309` and an integer of 400
//! digits are valid in a record, so numbers stay text.

use std::fmt;
use std::str::FromStr;

/// A number as written: `1.50` and `1.5` are different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number(Box<str>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a JSON number")]
pub struct NotANumber;

impl Number {
    /// `None` for infinities and NaN.
    pub fn from_f64(number: f64) -> Option<Number> {
        Some(Number(serde_json::Number::from_f64(number)?.to_string().into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn as_u64(&self) -> Option<u64> {
        self.0.parse().ok()
    }
}

impl From<u64> for Number {
    fn from(number: u64) -> Self {
        Number(number.to_string().into())
    }
}

impl From<i64> for Number {
    fn from(number: i64) -> Self {
        Number(number.to_string().into())
    }
}

impl FromStr for Number {
    type Err = NotANumber;

    fn from_str(text: &str) -> Result<Self, NotANumber> {
        match is_number(text.as_bytes()) {
            true => Ok(Number(text.into())),
            false => Err(NotANumber),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(super) fn is_number(number: &[u8]) -> bool {
    let is_digits = |digits: &[u8]| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let number = number.strip_prefix(b"-").unwrap_or(number);
    let (number, exponent) = cut(number, |byte| matches!(byte, b'e' | b'E'));
    let (whole, fraction) = cut(number, |byte| byte == b'.');
    let has_needless_zero = whole.len() > 1 && whole[0] == b'0';
    let is_exponent = |exponent: &[u8]| match exponent {
        [b'+' | b'-', digits @ ..] => is_digits(digits),
        digits => is_digits(digits),
    };
    is_digits(whole)
        && !has_needless_zero
        && fraction.is_none_or(is_digits)
        && exponent.is_none_or(is_exponent)
}

/// Splits at the first matching byte.
fn cut(bytes: &[u8], is_it: impl Fn(u8) -> bool) -> (&[u8], Option<&[u8]>) {
    match bytes.iter().position(|byte| is_it(*byte)) {
        Some(place) => (&bytes[..place], Some(&bytes[place + 1..])),
        None => (bytes, None),
    }
}

/// A JSON text whose numbers are replaced by their indexes, which every parser can hold. Invalid
/// JSON stays invalid.
pub(super) struct TakenOut<'a> {
    pub(super) text: String,
    pub(super) numbers: Vec<&'a str>,
}

impl<'a> TakenOut<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let bytes = text.as_bytes();
        let mut taken = TakenOut { text: String::with_capacity(text.len()), numbers: Vec::new() };
        let mut at = 0;
        let mut copied = 0;
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'"' => at = end_of_string(bytes, at + 1),
                b'-' | b'0'..=b'9' => {
                    let is_part =
                        |byte: &&u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
                    let end = at + bytes[at..].iter().take_while(is_part).count();
                    if is_number(&bytes[at..end]) {
                        taken.text.push_str(&text[copied..at]);
                        taken.text.push_str(&taken.numbers.len().to_string());
                        taken.numbers.push(&text[at..end]);
                        copied = end;
                    }
                    at = end;
                }
                _ => at += 1,
            }
        }
        taken.text.push_str(&text[copied..]);
        taken
    }

    pub(super) fn number(&self, index: &Number) -> Option<Number> {
        let index = usize::try_from(index.as_u64()?).ok()?;
        Some(Number((*self.numbers.get(index)?).into()))
    }
}

/// Where the string ends: the position after its closing quote.
fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    while let Some(offset) = memchr::memchr2(b'"', b'\\', &bytes[at.min(bytes.len())..]) {
        match bytes[at + offset] {
            b'"' => return at + offset + 1,
            _ => at += offset + 2,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_from_what_looks_like_one() {
        for number in ["0", "-0", "10", "1.50", "1e5", "1E+999", "-2.5e-300", "0e0"] {
            assert!(is_number(number.as_bytes()), "{number}");
        }
        for other in [
            "", "-", "01", "-01", "1.", ".5", "1.e3", "1e", "1e+", "+1", "--1", "1e5e5", "0x1",
            "1 ",
        ] {
            assert!(!is_number(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn numbers_are_taken_out_of_a_text_and_not_out_of_its_strings() {
        let taken = TakenOut::of(r#"{"a1": [1e309, -2], "b": "3 \\" , "c\"4": 01, "d": 5x"#);
        assert_eq!(taken.text, r#"{"a1": [0, 1], "b": "3 \\" , "c\"4": 01, "d": 2x"#);
        assert_eq!(taken.numbers, ["1e309", "-2", "5"]);
    }
}
