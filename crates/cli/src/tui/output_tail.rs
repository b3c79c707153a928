//! The output of the agents of a board, read from its files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use autoloop_core::agents::transcript;
use autoloop_core::views::board::Row;
use autoloop_runtime::files::{Tail, tail};
use autoloop_runtime::world::Disk;

use super::text::last_line;

/// Bytes of an output that are searched for its last line.
const LINE: u32 = 16 * 1024;
/// Bytes of an output that can be scrolled through.
const PAGE: u32 = 256 * 1024;

pub(super) struct Outputs {
    disk: Arc<dyn Disk>,
    state_dir: PathBuf,
    /// The length and the last line of each file at the last reading.
    lines: HashMap<PathBuf, (u64, String)>,
    /// The page that was read last.
    page: (PathBuf, Tail),
}

impl Outputs {
    pub(super) fn new(disk: Arc<dyn Disk>, state_dir: PathBuf) -> Outputs {
        Outputs { disk, state_dir, lines: HashMap::new(), page: Default::default() }
    }

    /// The last line of each row: of its agent while that runs, otherwise of the journal.
    pub(super) fn last_lines<'r>(&mut self, rows: impl Iterator<Item = &'r Row>) -> Vec<String> {
        let mut before = std::mem::take(&mut self.lines);
        let mut said = Vec::new();
        for row in rows {
            if let Some(parked) = &row.parked {
                said.push(parked.to_string());
                continue;
            }
            let path = if row.phase.is_busy() { self.path(row) } else { None };
            let Some(path) = path else {
                said.push(if row.phase.is_busy() { String::new() } else { row.note.clone() });
                continue;
            };
            let length = self.disk.stat(&path).map_or(0, |stat| stat.len);
            let line = match before.remove(&path) {
                Some((kept, line)) if kept == length => line,
                _ => self.last_said(&path),
            };
            said.push(line.clone());
            self.lines.insert(path, (length, line));
        }
        said
    }

    /// The last line of an output. Where one line fills the searched bytes it may be an event, and more of the stream is
    /// needed to parse it.
    fn last_said(&self, path: &Path) -> String {
        let end = |most| tail(path, most, &*self.disk).unwrap_or_default();
        let Tail { text, left_out, .. } = end(LINE);
        match said_last(&text) {
            line if left_out > 0 && (line.is_empty() || text.lines().count() == 1) => {
                Some(said_last(&end(PAGE).text)).filter(|said| !said.is_empty()).unwrap_or(line)
            }
            line => line,
        }
    }

    /// The file with the output of a row, which may not exist yet.
    pub(super) fn path(&self, row: &Row) -> Option<PathBuf> {
        let paths = || row.outputs().into_iter().map(|output| self.state_dir.join(output));
        paths().find(|path| self.disk.stat(path).is_ok()).or_else(|| paths().next())
    }

    /// The end of an output, read again only when the file has grown; empty where it does not exist.
    pub(super) fn page(&mut self, path: &Path) -> &Tail {
        let length = self.disk.stat(path).map_or(0, |stat| stat.len);
        if self.page.0 != path || self.page.1.length != length {
            let mut tail = tail(path, PAGE, &*self.disk).unwrap_or_default();
            tail.text = transcript(&tail.text).unwrap_or(tail.text);
            self.page = (path.to_owned(), tail);
        }
        &self.page.1
    }
}

/// The last line of an output; in the stream of a client, of what its agent said and did.
fn said_last(text: &str) -> String {
    match transcript(text) {
        Some(said) => last_line(&said),
        None => last_line(text),
    }
}

#[cfg(test)]
mod tests {
    use autoloop_runtime::world::RealDisk;

    use super::*;

    #[test]
    fn an_event_of_any_length_does_not_hide_what_was_said() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let outputs = Outputs::new(Arc::new(RealDisk), PathBuf::new());
        let last = |text: String| {
            std::fs::write(&path, text).unwrap();
            outputs.last_said(&path)
        };
        let said =
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"I look."}]}}"#;
        let giant = format!(r#"{{"type":"user","message":"{}"}}"#, "x".repeat(100_000));
        assert_eq!(last(format!("{said}\n{giant}\n")), "I look.");
        assert!(last("x".repeat(100_000)).starts_with("xxx"));
        assert_eq!(last(format!("{giant}\nplain\n")), "plain");
    }

    #[test]
    fn the_stream_of_a_client_says_what_its_agent_said() {
        for (text, said) in [
            ("one\ntwo\n", "two"),
            ("{not an event\n", "{not an event"),
            (r#"{"type":"unheard.of"}"#, r#"{"type":"unheard.of"}"#),
            (
                concat!(
                    r#"{"type":"assistant","message":{"content":[{"type":"text","text":"I look.\nI see."}]}}"#,
                    "\n",
                    r#"{"type":"user","message":{"content":[]}}"#
                ),
                "I see.",
            ),
            (
                r#"{"type":"item.completed","item":{"type":"agent_message","text":"It is done."}}"#,
                "It is done.",
            ),
        ] {
            assert_eq!(said_last(text), said, "{text}");
        }
    }
}
