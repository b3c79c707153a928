//! A string of the object as it comes in, of which no more is held than matters.

use crate::json::Unescaper;

/// How many bytes of a text are held of which only the beginning can matter.
const SHORT: usize = 512;
/// How many bytes are held of the beginning of a long text, and of its end.
const HALF: usize = 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Text {
    unescaper: Unescaper,
    text: String,
    raw_bytes: usize,
    /// Where the middle was left out, and how many characters that were.
    gap: Option<(usize, u64)>,
}

impl Text {
    /// Holds only so much of it that it can be told from what it might have been.
    pub(super) fn push_beginning(&mut self, raw: &[u8]) {
        let room = SHORT - self.raw_bytes;
        let beginning = &raw[..raw.len().min(room)];
        self.raw_bytes += beginning.len();
        self.unescaper.push(beginning, &mut self.text);
    }

    /// Holds all of it, or the beginning and the end of what is longer than anybody writes.
    pub(super) fn push_ends(&mut self, raw: &[u8]) {
        self.unescaper.push(raw, &mut self.text);
        if self.text.len() > 3 * HALF {
            self.leave_out();
        }
    }

    fn leave_out(&mut self) {
        let border = |at: usize| (0..=at).rev().find(|at| self.text.is_char_boundary(*at));
        let (begin, before) = self.gap.unwrap_or((border(HALF).unwrap_or(0), 0));
        let end = border(self.text.len().saturating_sub(HALF)).unwrap_or(0).max(begin);
        let count = self.text[begin..end].chars().count() as u64;
        self.text.replace_range(begin..end, "");
        self.gap = Some((begin, before + count));
    }

    pub(super) fn finish(mut self) -> String {
        std::mem::take(&mut self.unescaper).finish(&mut self.text);
        if self.gap.is_some() {
            self.leave_out();
        }
        if let Some((begin, count)) = self.gap {
            self.text.insert_str(begin, &format!("\n[{count} characters left out]\n"));
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is held of a text that comes in pieces of this size, and the most that was held meanwhile.
    fn held(whole: &str, size: usize) -> (String, usize) {
        let mut text = Text::default();
        let most = whole.as_bytes().chunks(size).map(|piece| {
            text.push_ends(piece);
            text.text.len()
        });
        let most = most.max().unwrap_or(0);
        (text.finish(), most)
    }

    #[test]
    fn of_a_giant_text_the_ends_are_held_however_it_comes() {
        let whole = format!("first{}last", "漢".repeat(2_000_000));
        let (text, most) = held(&whole, 64 * 1024);
        assert!(most < 4 * HALF, "{most}");
        let (head, rest) = text.split_once("\n[").unwrap();
        let (count, tail) = rest.split_once(" characters left out]\n").unwrap();
        assert!(head.starts_with("first漢") && head.len() <= HALF && head.len() > HALF - 4);
        assert!(tail.ends_with("漢last") && tail.len() >= HALF && tail.len() < HALF + 4);
        let kept = head.chars().count() + tail.chars().count();
        assert_eq!(kept + count.parse::<usize>().unwrap(), whole.chars().count());
        for size in [1001, 1024 * 1024, whole.len()] {
            assert_eq!(held(&whole, size).0, text, "in pieces of {size}");
        }
    }

    #[test]
    fn a_long_text_is_held_whole() {
        let whole = "x".repeat(3 * HALF);
        assert_eq!(held(&whole, 1000).0, whole);
    }
}
