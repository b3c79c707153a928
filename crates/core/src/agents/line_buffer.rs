//! The lines of a stream that comes in pieces; unwanted ones are not kept.

/// How many bytes decide whether a line is wanted.
const PREFIX: usize = 64;
pub(super) const LONGEST: usize = 4 * 1024 * 1024;

/// Assembles lines in bounded memory.
#[derive(Debug, Default)]
pub(super) struct Lines {
    held: Vec<u8>,
    state: LineState,
}

/// The state of the current line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LineState {
    /// Not enough bytes to decide.
    #[default]
    Open,
    Wanted,
    /// Wanted but too long; only its beginning is kept.
    TooLong,
    Passed,
}

/// A wanted line without its newline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Whole(&'a [u8]),
    /// Only the beginning.
    TooLong(&'a [u8]),
}

impl Lines {
    /// Takes the next piece and shows the lines that end in it. `wants` is called once for each line, with
    /// its beginning.
    pub(super) fn push(
        &mut self,
        piece: &[u8],
        wants: impl Fn(&[u8]) -> bool,
        mut show: impl FnMut(Line<'_>),
    ) {
        let mut rest = piece;
        while let Some(newline) = memchr::memchr(b'\n', rest) {
            self.take(&rest[..newline], &wants);
            self.end(&wants, &mut show);
            rest = &rest[newline + 1..];
        }
        self.take(rest, &wants);
    }

    /// Shows the last line, which has no newline.
    pub(super) fn finish(mut self, wants: impl Fn(&[u8]) -> bool, mut show: impl FnMut(Line<'_>)) {
        self.end(&wants, &mut show);
    }

    fn take(&mut self, bytes: &[u8], wants: &impl Fn(&[u8]) -> bool) {
        if matches!(self.state, LineState::Passed | LineState::TooLong) {
            return;
        }
        let room = LONGEST - self.held.len();
        // A line is held only until it is known to be unwanted.
        let (first, rest) = match self.state {
            LineState::Open => {
                bytes.split_at(bytes.len().min(PREFIX.saturating_sub(self.held.len())))
            }
            _ => (&[][..], bytes),
        };
        self.held.extend_from_slice(first);
        if self.state == LineState::Open && self.held.len() >= PREFIX {
            self.state = if wants(&self.held) { LineState::Wanted } else { LineState::Passed };
        }
        if self.state == LineState::Wanted {
            if bytes.len() > room {
                self.state = LineState::TooLong;
                self.held.truncate(PREFIX);
            } else {
                self.held.extend_from_slice(rest);
            }
        }
    }

    fn end(&mut self, wants: &impl Fn(&[u8]) -> bool, show: &mut impl FnMut(Line<'_>)) {
        let line = self.held.strip_suffix(b"\r").unwrap_or(&self.held);
        match self.state {
            LineState::Open if !line.is_empty() && wants(line) => show(Line::Whole(line)),
            LineState::Wanted => show(Line::Whole(line)),
            LineState::TooLong => show(Line::TooLong(line)),
            LineState::Open | LineState::Passed => {}
        }
        self.held.clear();
        self.state = LineState::Open;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(bytes: &[u8], step: usize, wants: impl Fn(&[u8]) -> bool) -> Vec<(Vec<u8>, bool)> {
        let mut shown = Vec::new();
        let mut show = |line: Line<'_>| match line {
            Line::Whole(line) => shown.push((line.to_vec(), true)),
            Line::TooLong(line) => shown.push((line.to_vec(), false)),
        };
        let mut lines = Lines::default();
        for piece in bytes.chunks(step) {
            lines.push(piece, &wants, &mut show);
            assert!(lines.held.len() <= LONGEST);
        }
        lines.finish(&wants, &mut show);
        shown
    }

    #[test]
    fn a_line_is_held_to_its_limit_and_not_beyond() {
        for (length, is_whole) in [(LONGEST, true), (LONGEST + 1, false)] {
            let mut bytes = vec![b'x'; length];
            bytes.extend(b"\nlast");
            for step in [4096, 1 << 20, bytes.len()] {
                let shown = lines(&bytes, step, |_| true);
                assert_eq!(shown.len(), 2);
                assert_eq!(shown[0].1, is_whole, "{length} by {step}");
                assert_eq!(shown[0].0.len(), if is_whole { length } else { PREFIX });
                assert_eq!(shown[1], (b"last".to_vec(), true));
            }
        }
    }

    #[test]
    fn unwanted_lines_are_not_held() {
        let mut unwanted = Lines::default();
        for _ in 0..100 {
            unwanted.push(&[b'x'; 1000], |_| false, |_| panic!("unwanted"));
        }
        assert_eq!(unwanted.held.len(), PREFIX);
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            text in prop::collection::vec(prop::sample::select(b"ab\n".to_vec()), 0..600),
            step in 1..200usize,
        ) {
            let wants = |line: &[u8]| line.first() == Some(&b'a');
            let expected: Vec<_> = text
                .split(|byte| *byte == b'\n')
                .filter(|line| wants(line))
                .map(|line| (line.to_vec(), true))
                .collect();
            prop_assert_eq!(lines(&text, step, wants), expected);
        }
    }
}
