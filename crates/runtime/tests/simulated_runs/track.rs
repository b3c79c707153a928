//! The journal as bytes: which lines are new, and who wrote them.
//!
//! A track knows what a journal cannot show: the author of each byte, which bytes were acknowledged
//! as durable, and where one harness followed another.

use autoloop_testkit::SimDisk;

use crate::setup::JOURNAL;
use crate::terms::Author;

/// More calls than any harness needs to drive a run.
const MOST_LOOKS: u64 = 100_000;

/// The bytes of a journal, so far.
pub(crate) struct Track {
    pub(crate) disk: SimDisk,
    author: Author,
    /// Who wrote from which byte on.
    spans: Vec<(usize, Author)>,
    /// How many bytes were returned as lines, and the rest: the beginning of a line.
    told: usize,
    fragment: Vec<u8>,
    /// How many bytes must never disappear.
    acknowledged: usize,
    looks: u64,
}

/// A whole line.
pub(crate) struct Line {
    /// Its first byte.
    pub(crate) start: usize,
    pub(crate) author: Author,
    pub(crate) bytes: Vec<u8>,
}

impl Track {
    pub(crate) fn new(disk: &SimDisk) -> Track {
        Track {
            disk: disk.clone(),
            author: Author::Harness,
            spans: Vec::new(),
            told: 0,
            fragment: Vec::new(),
            acknowledged: 0,
            looks: 0,
        }
    }

    /// The lines that are whole by now and were not before.
    pub(crate) fn look(&mut self) -> Vec<Line> {
        self.looks += 1;
        assert!(self.looks < MOST_LOOKS, "it never ends");
        let known = self.told + self.fragment.len();
        match self.disk.contents_from(JOURNAL, known) {
            Some(new) if new.is_empty() => return Vec::new(),
            Some(new) => {
                if self.spans.last().is_none_or(|(_, author)| *author != self.author) {
                    self.spans.push((known, self.author));
                }
                self.fragment.extend(new);
            }
            None => {
                let rest = self.disk.contents_from(JOURNAL, self.told);
                assert!(rest.is_some() || self.told == 0, "a whole line was taken away");
                self.fragment = rest.unwrap_or_default();
                let len = self.told + self.fragment.len();
                self.spans.retain(|(start, _)| *start < len);
            }
        }
        self.lines()
    }

    fn lines(&mut self) -> Vec<Line> {
        let Some(end) = self.fragment.iter().rposition(|&byte| byte == b'\n') else {
            return Vec::new();
        };
        let rest = self.fragment.split_off(end + 1);
        let whole = std::mem::replace(&mut self.fragment, rest);
        let lines = whole.split_inclusive(|&byte| byte == b'\n').map(|line| {
            let start = self.told;
            self.told += line.len();
            // What the harness truncated may be back after a power cut.
            let span = self.spans.iter().rfind(|(from, _)| *from <= start);
            let author = span.map_or(Author::Harness, |(_, author)| *author);
            Line { start, author, bytes: line[..line.len() - 1].to_vec() }
        });
        lines.collect()
    }

    /// Another process writes from now on. Returns the previous writer, whose bytes were read.
    pub(crate) fn now_writes(&mut self, author: Author) -> Author {
        std::mem::replace(&mut self.author, author)
    }

    /// A writer was told that the bytes before `end` are durable.
    pub(crate) fn acknowledge(&mut self, end: usize) {
        let durable = self.disk.durable_contents(JOURNAL).unwrap_or_default();
        assert!(durable.len() >= end, "something that was acknowledged may still be lost");
        self.acknowledged = self.acknowledged.max(end);
    }

    /// Where the journal ends.
    pub(crate) fn end(&self) -> usize {
        self.all().len()
    }

    pub(crate) fn all(&self) -> Vec<u8> {
        self.disk.contents_from(JOURNAL, 0).unwrap_or_default()
    }

    /// The harness has died; this is the disk that the next one finds. Returns the end of its
    /// journal.
    pub(crate) fn resumes_with(&mut self, disk: &SimDisk) -> usize {
        let before = self.all();
        self.disk = disk.clone();
        let after = self.all();
        let kept = &before[..self.acknowledged];
        assert!(after.starts_with(kept), "something that was acknowledged is lost");
        self.author = Author::Harness;
        self.spans.retain(|(start, _)| *start < after.len());
        self.looks = 0;
        after.len()
    }

    /// All lines once more, from the first byte on.
    pub(crate) fn again(&mut self) -> Vec<Line> {
        self.told = 0;
        self.fragment = self.all();
        self.lines()
    }

    /// The journal as text, for a failing test.
    pub(crate) fn shown(&self) -> String {
        let all = self.all();
        let short = |line: &str| match line.find("\"prompt\"") {
            Some(at) => format!("{}…", &line[..at]),
            None => line.chars().take(300).collect(),
        };
        let lines: Vec<_> = String::from_utf8_lossy(&all).lines().map(short).collect();
        format!("{}\nspans {:?}", lines.join("\n"), self.spans)
    }
}
