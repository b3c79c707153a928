//! One output of a process as it arrives: spooled, kept in part, searched.

use std::collections::VecDeque;

use autoloop_core::agents::{Answer, Decoder, Stream};
use autoloop_core::secrets::Masker;
use autoloop_core::verdict::{self, Verdict};
use memchr::memmem::Finder;

use super::spool::Spooling;
use crate::world::{Output, Reading};

/// Accepts an output in pieces of any size, in bounded memory.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    kept: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    bytes: u64,
    spool: Spooling,
    search: Option<Search>,
    decoder: Option<Decoder>,
    verdict: Option<verdict::Reader>,
    masker: Option<Masker>,
}

impl Capture {
    /// Keeps `kept` bytes of the beginning, and of the end.
    pub(crate) fn new(kept: usize, spool: Spooling) -> Self {
        Capture { kept, spool, ..Capture::default() }
    }

    /// An empty text is not looked for.
    pub(crate) fn looking_for(self, text: &[u8]) -> Self {
        let search = (!text.is_empty()).then(|| Search::new(text));
        Capture { search, ..self }
    }

    /// Reads an answer from a stream, or a verdict from what is none.
    pub(crate) fn reading(self, stream: Stream, reading: Reading) -> Self {
        let decoder = stream.decoder();
        let is_verdict = reading == Reading::Verdict && decoder.is_none();
        let verdict = is_verdict.then(|| verdict::Reader::new(Stream::Plain));
        Capture { decoder, verdict, ..self }
    }

    /// Masks these values, and what looks like a key, before anything else is done with the output.
    pub(crate) fn masking(self, secrets: Option<&[Vec<u8>]>) -> Self {
        Capture { masker: secrets.map(|values| Masker::new(values.to_vec())), ..self }
    }

    pub(crate) fn take(&mut self, piece: &[u8]) {
        match self.masker.take() {
            Some(mut masker) => {
                masker.push(piece, &mut |piece| self.store(piece));
                self.masker = Some(masker);
            }
            None => self.store(piece),
        }
    }

    /// Takes what was held back because it might have been the beginning of a secret.
    pub(crate) fn end(&mut self) {
        if let Some(mut masker) = self.masker.take() {
            masker.finish(&mut |piece| self.store(piece));
        }
    }

    fn store(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        self.spool.take(piece);
        if let Some(search) = &mut self.search {
            search.take(piece);
        }
        if let Some(decoder) = &mut self.decoder {
            decoder.push(piece);
        }
        if let Some(verdict) = &mut self.verdict {
            verdict.push(piece);
        }
        let (head, rest) = piece.split_at(piece.len().min(self.kept - self.head.len()));
        self.head.extend(head);
        let rest = &rest[rest.len().saturating_sub(self.kept)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.kept);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    pub(crate) fn found_at(&self) -> Option<u64> {
        self.search.as_ref().and_then(|search| search.found_at)
    }

    pub(crate) fn take_answer(&mut self) -> Option<Answer> {
        self.decoder.take().map(Decoder::finish)
    }

    pub(crate) fn take_verdict(&mut self) -> Option<Result<Verdict, String>> {
        let read = self.verdict.take()?.finish();
        Some(read.map_err(|violation| violation.to_string()))
    }

    pub(crate) fn into_output(self) -> Output {
        Output {
            head: self.head,
            tail: self.tail.into(),
            bytes: self.bytes,
            spooled: self.spool.spooled,
            digest: self.spool.digest(),
        }
    }
}

/// A search for a text that may be split between pieces.
#[derive(Debug)]
struct Search {
    finder: Finder<'static>,
    /// The end of the previous pieces: one byte less than the text.
    overlap: Vec<u8>,
    bytes: u64,
    found_at: Option<u64>,
}

impl Search {
    fn new(text: &[u8]) -> Self {
        Search {
            finder: Finder::new(text).into_owned(),
            overlap: Vec::new(),
            bytes: 0,
            found_at: None,
        }
    }

    fn take(&mut self, piece: &[u8]) {
        if self.found_at.is_some() {
            return;
        }
        let reach = self.finder.needle().len() - 1;
        // Across the border, then within the piece.
        let before = self.bytes - self.overlap.len() as u64;
        self.overlap.extend(&piece[..piece.len().min(reach)]);
        let straddling = self.finder.find(&self.overlap).map(|at| before + at as u64);
        self.found_at =
            straddling.or_else(|| self.finder.find(piece).map(|at| self.bytes + at as u64));
        self.bytes += piece.len() as u64;
        if piece.len() >= reach {
            self.overlap.clear();
            self.overlap.extend(&piece[piece.len() - reach..]);
        } else {
            self.overlap.drain(..self.overlap.len().saturating_sub(reach));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            pieces in prop::collection::vec(prop::collection::vec(0_u8..3, 0..12), 0..12),
            text in prop::collection::vec(0_u8..3, 1..5),
            kept in 0_usize..20,
            room in 0_u64..60,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("spool");
            let whole = pieces.concat();
            let spool = Spooling::at(&path, room).unwrap();
            let mut capture = Capture::new(kept, spool).looking_for(&text);
            for piece in &pieces {
                capture.take(piece);
            }
            prop_assert_eq!(
                capture.found_at(),
                whole.windows(text.len()).position(|window| window == &text[..]).map(|at| at as u64)
            );
            let output = capture.into_output();
            let head = whole.len().min(kept);
            let tail = whole.len().saturating_sub(kept).max(head);
            prop_assert_eq!(&output.head, &whole[..head]);
            prop_assert_eq!(&output.tail, &whole[tail..]);
            prop_assert_eq!(output.bytes, whole.len() as u64);
            let stored = std::fs::read(&path).unwrap_or_default();
            prop_assert_eq!(output.spooled, stored.len() as u64);
            prop_assert_eq!(output.spooled, room.min(whole.len() as u64));
            prop_assert!(whole.starts_with(&stored));
            let digest = (!stored.is_empty()).then(|| *blake3::hash(&stored).as_bytes());
            prop_assert_eq!(output.digest, digest);
        }
    }
}
