//! Looks at the journal after every call to the disk, and has each new record [judged](super::judge).

use std::collections::BTreeMap;

use autoloop_core::record::pieces;
use autoloop_testkit::SimDisk;
use autoloop_testkit::sandbox::tell;

use super::judge::Judge;
use super::part::Turn;
use super::setup::Setup;
use crate::setup::Sync;
use crate::terms::Author;
use crate::track::{Line, Track};

pub(crate) struct Witness {
    setup: Setup,
    track: Track,
    pub(crate) judge: Judge,
    /// The end of the journal when a harness died: all harnesses, or that of one side.
    restarts: Vec<(usize, Option<&'static str>)>,
    /// How many of them were heard of.
    heard: usize,
    /// Where the last record of a harness ends that it has to be able to rely on.
    settled: usize,
    /// How many harnesses there were, and the last one that started an agent for each turn.
    lives: u64,
    started: BTreeMap<Turn, u64>,
    /// The agent that a user stopped, so that its result is unknown.
    stopped: Option<Turn>,
    pub(crate) records: u64,
}

impl Witness {
    pub(crate) fn new(setup: &Setup, disk: &SimDisk) -> Witness {
        Witness {
            setup: setup.clone(),
            track: Track::new(disk),
            judge: Judge::new(setup),
            restarts: Vec::new(),
            heard: 0,
            settled: 0,
            lives: 0,
            started: BTreeMap::new(),
            stopped: None,
            records: 0,
        }
    }

    /// Reads new records.
    pub(crate) fn look(&mut self) {
        for line in self.track.look() {
            self.judge_line(&line);
        }
    }

    fn judge_line(&mut self, line: &Line) {
        while let Some((_, side)) =
            self.restarts.get(self.heard).filter(|(at, _)| *at <= line.start)
        {
            self.judge.lost_their_harness(*side);
            self.heard += 1;
        }
        for piece in pieces(&line.bytes) {
            let Ok(record) = &piece.content else { continue };
            self.records += 1;
            self.judge.hear(line.author, record);
            let topic = record.topic();
            if line.author == Author::Harness && topic.starts_with("slot.") && topic != "slot.phase"
            {
                self.settled = line.start + line.bytes.len() + 1;
                let field = |name: &str| record.field(name).unwrap_or_default().into_owned();
                let is_its_end = self.stopped.as_ref().is_some_and(|turn| {
                    turn.run == record.run() && turn.slot.to_string() == field("slot")
                });
                assert!(!is_its_end, "it was stopped, and has no end: {topic}");
            }
        }
    }

    /// Another process writes from now on. Returns the previous writer.
    pub(crate) fn now_writes(&mut self, author: Author) -> Author {
        self.look();
        self.track.now_writes(author)
    }

    /// An agent is started, once for each harness. What led to it is on the disk.
    pub(crate) fn agent_starts(&mut self, mut turn: Turn) -> Turn {
        self.now_writes(Author::Agent);
        self.judge.agent_starts(&mut turn);
        if self.setup.sync != Sync::Never {
            self.track.acknowledge(self.settled);
        }
        let before = self.started.insert(turn.clone(), self.lives);
        assert_ne!(before, Some(self.lives), "it was started already: {turn:?}");
        turn
    }

    /// A person stops an agent.
    pub(crate) fn stops(&mut self, turn: &Turn) {
        self.stopped = Some(turn.clone());
    }

    /// An agent has no program, and did nothing.
    pub(crate) fn has_no_program(&mut self, turn: &Turn) {
        self.stopped = Some(turn.clone());
        self.judge.unmanned.push(turn.clone());
    }

    /// The harness of one side is no more, and that of the other is.
    pub(crate) fn loses(&mut self, side: &'static str) {
        self.look();
        self.restarts.push((self.track.end(), Some(side)));
        self.started.retain(|turn, _| !turn.run.starts_with(side));
        self.stopped = None;
    }

    /// No harness is any more; this is the disk that the next one finds.
    pub(crate) fn resumes_with(&mut self, disk: &SimDisk) {
        self.look();
        let end = self.track.resumes_with(disk);
        self.restarts.retain(|(at, _)| *at < end);
        self.restarts.push((end, None));
        (self.lives, self.stopped) = (self.lives + 1, None);
        let unmanned = std::mem::take(&mut self.judge.unmanned);
        self.judge = Judge::new(&self.setup);
        self.judge.unmanned = unmanned;
        (self.heard, self.settled) = (0, 0);
        for line in self.track.again() {
            self.judge_line(&line);
        }
    }
}

impl Drop for Witness {
    /// A failing test prints the journal.
    fn drop(&mut self) {
        if std::thread::panicking() {
            tell(&format!("{}\n{:?}", self.track.shown(), self.setup));
        }
    }
}
