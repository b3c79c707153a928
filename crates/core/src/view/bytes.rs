//! How views write themselves down: numbers of variable length, texts with their length before them.

/// Writes a number: seven bits a byte, the lowest first.
pub fn put_number(mut number: u64, out: &mut Vec<u8>) {
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or(0x7f);
        number >>= 7;
        if number == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

/// Writes a text.
pub fn put_text(text: &str, out: &mut Vec<u8>) {
    put_number(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

/// Reads back what was put, in the same order. Every step may find that the bytes are of another make.
#[derive(Debug)]
pub struct Taker<'a> {
    rest: &'a [u8],
}

impl<'a> Taker<'a> {
    /// Begins at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Taker { rest: bytes }
    }

    /// The next number.
    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            let bits = u64::from(byte & 0x7f);
            if (bits << shift) >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// The next number, as the length of something whose items take at least one byte each: so damaged
    /// bytes cannot ask for more memory than there are bytes.
    pub fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.rest.len()).then_some(count)
    }

    /// The next text.
    pub fn text(&mut self) -> Option<&'a str> {
        let length = self.count()?;
        let (text, rest) = self.rest.split_at(length);
        self.rest = rest;
        std::str::from_utf8(text).ok()
    }

    /// Whether everything was taken.
    pub fn is_done(&self) -> bool {
        self.rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_put_is_taken(number in any::<u64>(), text in any::<String>()) {
            let mut out = Vec::new();
            put_number(number, &mut out);
            put_text(&text, &mut out);
            let mut taker = Taker::new(&out);
            prop_assert_eq!(taker.number(), Some(number));
            prop_assert_eq!(taker.text(), Some(text.as_str()));
            prop_assert!(taker.is_done());
        }

        #[test]
        fn any_bytes_can_be_tried(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut taker = Taker::new(&bytes);
            while taker.number().is_some() || taker.text().is_some() {}
        }
    }
}
