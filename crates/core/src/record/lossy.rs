//! Bytes that arrive in pieces, as text.

/// Decodes UTF-8 piece by piece, exactly as if the whole had been at hand: bytes that are not UTF-8
/// become U+FFFD, and a character that straddles two pieces is held back until its end arrives.
#[derive(Debug, Default)]
pub(super) struct Lossy {
    /// The beginning of a character whose end has not arrived: at most three bytes.
    held: Vec<u8>,
}

impl Lossy {
    /// Takes the next piece and shows the text in it.
    pub(super) fn push(&mut self, piece: &[u8], show: &mut dyn FnMut(&str)) {
        if self.held.is_empty()
            && let Ok(text) = std::str::from_utf8(piece)
        {
            return show(text);
        }
        let mut rest = piece;
        while !self.held.is_empty() {
            let Some((&first, after)) = rest.split_first() else { return };
            self.held.push(first);
            match std::str::from_utf8(&self.held) {
                Ok(character) => {
                    show(character);
                    self.held.clear();
                    rest = after;
                }
                Err(error) if error.error_len().is_none() => rest = after,
                Err(_) => {
                    // The new byte does not belong to the held ones: it is looked at afresh below.
                    self.held.clear();
                    show("\u{fffd}");
                }
            }
        }
        for chunk in rest.utf8_chunks() {
            show(chunk.valid());
            let invalid = chunk.invalid();
            let at_the_end = std::ptr::eq(invalid.as_ptr_range().end, rest.as_ptr_range().end);
            if at_the_end && is_unfinished(invalid) {
                self.held.extend_from_slice(invalid);
            } else if !invalid.is_empty() {
                show("\u{fffd}");
            }
        }
    }

    /// Says that nothing more comes.
    pub(super) fn finish(self, show: &mut dyn FnMut(&str)) {
        if !self.held.is_empty() {
            show("\u{fffd}");
        }
    }
}

/// Whether more bytes could make a character of these.
fn is_unfinished(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}
