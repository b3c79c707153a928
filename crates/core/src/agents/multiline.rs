//! An event, or a list of events, that a printer spread over several lines.

const LONGEST: usize = 4 * 1024 * 1024;

/// Assembles an event that was printed on several lines. It begins with a bracket alone on a line and ends
/// with the matching one, and all lines between are indented, as `jq .` prints it.
#[derive(Debug, Default)]
pub(super) struct Spread {
    /// The lines so far, each with its newline.
    held: Vec<u8>,
}

/// How a line relates to the lines before it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    Within,
    /// The last line; this is the whole event.
    Whole(Vec<u8>),
    /// Not a part. These lines were no event.
    Apart(Vec<u8>),
}

impl Spread {
    pub(super) fn take(&mut self, line: &[u8]) -> Part {
        let opener = self.held.first().copied();
        let is_part = match (opener, line) {
            (None, b"{" | b"[") => true,
            (None, _) => false,
            (Some(b'{'), b"}") | (Some(b'['), b"]") => {
                let mut whole = self.give_up();
                whole.extend_from_slice(line);
                return Part::Whole(whole);
            }
            (Some(_), line) => line.first().is_none_or(u8::is_ascii_whitespace),
        };
        if !is_part || self.held.len() + line.len() > LONGEST {
            return Part::Apart(self.give_up());
        }
        self.held.extend_from_slice(line);
        self.held.push(b'\n');
        Part::Within
    }

    /// Returns the lines of an event that did not end.
    pub(super) fn give_up(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of lines: those that are put together, and those that come to nothing.
    fn sorted(text: &str) -> String {
        let mut spread = Spread::default();
        let mut sorted = String::new();
        for line in text.lines() {
            sorted += &match spread.take(line.as_bytes()) {
                Part::Within => continue,
                Part::Whole(whole) => format!("+{};", String::from_utf8_lossy(&whole)),
                Part::Apart(lines) => format!("-{}|{line};", String::from_utf8_lossy(&lines)),
            };
        }
        sorted + "?" + &String::from_utf8_lossy(&spread.give_up())
    }

    #[test]
    fn what_was_spread_is_put_together() {
        assert_eq!(sorted("{\n  \"a\": [\n  ]\n}\nx"), "+{\n  \"a\": [\n  ]\n};-|x;?");
        assert_eq!(sorted("[\n  {\n  }\n]"), "+[\n  {\n  }\n];?");
        assert_eq!(sorted("{\n]\n{\n"), "-{\n|];?{\n");
        assert_eq!(sorted("{\n {}\n{}"), "-{\n {}\n|{};?");
    }

    #[test]
    fn there_is_an_end_to_what_is_held() {
        let mut spread = Spread::default();
        assert_eq!(spread.take(b"{"), Part::Within);
        let line = [b' '; 1 << 20];
        let apart = (0..9).map(|_| spread.take(&line)).find(|part| *part != Part::Within);
        assert!(matches!(apart, Some(Part::Apart(lines)) if lines.len() <= LONGEST + 9));
    }
}
