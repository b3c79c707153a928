//! The screen of a terminal after some output, as far as tests need it.

/// Larger than any window of a test.
const WIDTH: usize = 250;
const HEIGHT: usize = 60;

/// The screen. Characters are taken to be one column wide each.
#[derive(Debug)]
pub(super) struct Picture {
    cells: Vec<[char; WIDTH]>,
    /// The screen before a program took it over.
    before: Vec<[char; WIDTH]>,
    row: usize,
    column: usize,
    /// An incomplete character or sequence.
    rest: Vec<u8>,
    pub(super) is_alternate: bool,
    pub(super) is_cursor_hidden: bool,
}

impl Default for Picture {
    fn default() -> Self {
        Picture {
            cells: blank(),
            before: blank(),
            row: 0,
            column: 0,
            rest: Vec::new(),
            is_alternate: false,
            is_cursor_hidden: false,
        }
    }
}

fn blank() -> Vec<[char; WIDTH]> {
    vec![[' '; WIDTH]; HEIGHT]
}

impl Picture {
    pub(super) fn text(&self) -> String {
        let line = |cells: &[char; WIDTH]| String::from_iter(cells).trim_end().to_owned();
        let text = self.cells.iter().map(line).collect::<Vec<_>>().join("\n");
        text.trim_end().to_owned()
    }

    /// Processes output, in pieces of any size.
    pub(super) fn show(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.rest);
        let whole = match std::str::from_utf8(&bytes) {
            Ok(_) => bytes.len(),
            Err(error) => error.valid_up_to(),
        };
        let text = String::from_utf8_lossy(&bytes[..whole]).into_owned();
        let mut left = text.as_str();
        while let Some(c) = left.chars().next() {
            let Some(used) = self.show_one(c, left) else { break };
            left = &left[used..];
        }
        self.rest = [left.as_bytes(), &bytes[whole..]].concat();
    }

    /// Shows a character or carries a sequence out; `None` if it is incomplete.
    fn show_one(&mut self, c: char, text: &str) -> Option<usize> {
        match c {
            '\u{1b}' => return self.obey(text),
            '\r' => self.column = 0,
            '\n' => self.next_line(),
            '\u{8}' => self.column = self.column.saturating_sub(1),
            c if c.is_control() => {}
            c => {
                if self.column < WIDTH {
                    self.cells[self.row][self.column] = c;
                    self.column += 1;
                }
            }
        }
        Some(c.len_utf8())
    }

    fn next_line(&mut self) {
        self.row += 1;
        if self.row == HEIGHT {
            self.cells.remove(0);
            self.cells.push([' '; WIDTH]);
            self.row -= 1;
        }
    }

    fn obey(&mut self, text: &str) -> Option<usize> {
        let Some(sequence) = text.strip_prefix("\u{1b}[") else {
            // Two characters, such as those that save the cursor.
            return text.chars().nth(1).map(|c| 1 + c.len_utf8());
        };
        let end = sequence.find(|c: char| ('\u{40}'..='\u{7e}').contains(&c))?;
        let (parameters, command) = (&sequence[..end], &sequence[end..=end]);
        let number = |place: usize| {
            let number = parameters.split(';').nth(place).and_then(|text| text.parse().ok());
            number.unwrap_or(1_usize).max(1)
        };
        match (command, parameters) {
            ("H", _) => {
                self.row = (number(0) - 1).min(HEIGHT - 1);
                self.column = (number(1) - 1).min(WIDTH);
            }
            ("C", _) => self.column = (self.column + number(0)).min(WIDTH),
            ("J", _) => self.cells = blank(),
            ("K", _) => self.cells[self.row][self.column.min(WIDTH)..].fill(' '),
            ("h", "?1049") => {
                self.is_alternate = true;
                self.before = std::mem::replace(&mut self.cells, blank());
            }
            ("l", "?1049") => {
                self.is_alternate = false;
                self.cells.clone_from(&self.before);
            }
            ("h", "?25") => self.is_cursor_hidden = false,
            ("l", "?25") => self.is_cursor_hidden = true,
            _ => {}
        }
        Some("\u{1b}[".len() + end + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_text_is_shown_in_its_place() {
        let mut picture = Picture::default();
        for byte in "one\r\ntwo\u{1b}[1;6Hä\u{1b}[31mred\u{1b}[?25l".as_bytes() {
            picture.show(&[*byte]);
        }
        assert_eq!(picture.text(), "one  äred\ntwo");
        assert!(picture.is_cursor_hidden && !picture.is_alternate);
        picture.show(b"\x1b[?1049h\x1b[Hfull");
        assert_eq!((picture.text().as_str(), picture.is_alternate), ("full", true));
        picture.show(b"\x1b[?1049l");
        assert_eq!((picture.text().as_str(), picture.is_alternate), ("one  äred\ntwo", false));
    }
}
