//! Looks at the journal after every call to the disk, and has each new record [judged](crate::judge).
//!
//! A witness knows what a journal cannot show: who wrote which byte, what stood in the files of the
//! loop at the time, and what had been promised to be there to stay.

use std::collections::BTreeMap;

use autoloop_core::record::pieces;
use autoloop_testkit::SimDisk;
use autoloop_testkit::sandbox::tell;

use crate::family::Family;
use crate::judge::{Author, Judge, Loads};
use crate::rules::Rules;
use crate::setup::{CONFIG, Edit, JOURNAL, Redo, Setup, Sync, Turn};

/// More calls than any harness needs to drive a run.
const MOST_LOOKS: u64 = 100_000;

pub(crate) struct Witness {
    setup: Setup,
    disk: SimDisk,
    /// The run or chain that is watched, with all that belongs to it; others are none of our business.
    pub(crate) run: String,
    pub(crate) family: Family,
    author: Author,
    /// Who wrote from which byte on.
    spans: Vec<(usize, Author)>,
    /// How many bytes were judged, and those behind them: the beginning of a line.
    judged: usize,
    fragment: Vec<u8>,
    /// How many bytes nobody may ever take away again.
    acknowledged: usize,
    /// What the files of the loop say; nothing when they cannot be used.
    files: Option<Rules>,
    /// What they said when the harness read them, by the record that tells of it.
    loads: BTreeMap<usize, Rules>,
    /// Where the journal ended when a harness was no more.
    restarts: Vec<usize>,
    /// The first byte that may be of the harness whose records are judged now.
    harness_since: usize,
    /// How often an agent was started for each turn.
    started: BTreeMap<Turn, u64>,
    /// Whether something was done again in other circumstances.
    pub(crate) redo: Redo,
    looks: u64,
    pub(crate) records: u64,
}

impl Witness {
    pub(crate) fn new(setup: &Setup, disk: &SimDisk) -> Witness {
        setup.plant(&setup.rules, disk);
        Witness {
            setup: setup.clone(),
            disk: disk.clone(),
            run: String::new(),
            family: Family::new(setup, ""),
            author: Author::Harness,
            spans: Vec::new(),
            judged: 0,
            fragment: Vec::new(),
            acknowledged: 0,
            files: Some(setup.rules.clone()),
            loads: BTreeMap::new(),
            restarts: Vec::new(),
            harness_since: 0,
            started: BTreeMap::new(),
            redo: Redo::Same,
            looks: 0,
            records: 0,
        }
    }

    /// Looks whether there is anything new.
    pub(crate) fn look(&mut self) {
        self.looks += 1;
        assert!(self.looks < MOST_LOOKS, "it never ends");
        let known = self.judged + self.fragment.len();
        match self.disk.contents_from(JOURNAL, known) {
            Some(new) if new.is_empty() => return,
            Some(new) => {
                if self.spans.last().is_none_or(|(_, author)| *author != self.author) {
                    self.spans.push((known, self.author));
                }
                self.fragment.extend(new);
            }
            None => {
                let rest = self.disk.contents_from(JOURNAL, self.judged);
                assert!(rest.is_some() || self.judged == 0, "a whole line was taken away");
                self.fragment = rest.unwrap_or_default();
                let len = self.judged + self.fragment.len();
                self.spans.retain(|(start, _)| *start < len);
            }
        }
        self.judge_lines();
    }

    fn judge_lines(&mut self) {
        let fragment = std::mem::take(&mut self.fragment);
        let mut rest = &fragment[..];
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            self.judge_line(&rest[..end]);
            self.judged += end + 1;
            rest = &rest[end + 1..];
        }
        self.fragment = rest.to_vec();
    }

    fn judge_line(&mut self, line: &[u8]) {
        let start = self.judged;
        if self.restarts.iter().any(|&at| self.harness_since <= at && at <= start) {
            self.harness_since = start + 1;
            self.family.lost_its_harness();
        }
        // What the harness cut off again may come back with the power.
        let span = self.spans.iter().rfind(|(from, _)| *from <= start);
        let author = span.map_or(Author::Harness, |(_, author)| *author);
        for piece in pieces(line) {
            let Ok(record) = &piece.content else { continue };
            let run = record.run();
            if !self.family.knows(&run) {
                let is_ours = author == Author::Harness && run.starts_with(&self.run);
                assert!(!is_ours || run.is_empty(), "the harness speaks of {run}");
                continue;
            }
            self.records += 1;
            if author == Author::Stranger && self.setup.forges {
                // An agent that is left alone is not blamed for what others forge.
                self.redo = Redo::Differs;
            }
            let rules = self.loads.get(&start).or(self.files.as_ref());
            let rules = rules.cloned().unwrap_or_else(|| self.good_rules());
            if self.family.hear(author, record, &rules) == Loads::Yes {
                self.loads.insert(start, rules);
            }
        }
    }

    /// Somebody else writes from now on. Says who did so far.
    pub(crate) fn now_writes(&mut self, author: Author) -> Author {
        self.look();
        std::mem::replace(&mut self.author, author)
    }

    /// An agent is started. Everything that led to it is on the disk.
    pub(crate) fn agent_starts(&mut self, run: &str, turn: Turn) {
        self.now_writes(Author::Agent);
        self.family.agent_starts(run, turn);
        if self.setup.sync != Sync::Never {
            self.acknowledge();
        }
        *self.started.entry(turn).or_default() += 1;
        if self.started[&turn] > 1
            && let Some((_, Redo::Differs)) = self.edit(turn)
        {
            self.redo = Redo::Differs;
        }
    }

    fn edit(&self, turn: Turn) -> Option<(Edit, Redo)> {
        self.setup.edit(turn, self.rules_in_force()?)
    }

    /// The agent does to the files of the loop what it does.
    pub(crate) fn agent_edits(&mut self, turn: Turn) {
        match self.edit(turn) {
            Some((Edit::To(rules), _)) => self.put_files(rules),
            Some((Edit::Broken(path), _)) => {
                self.disk.set_contents(path, b"][");
                self.files = None;
            }
            None => {}
        }
    }

    fn put_files(&mut self, rules: Rules) {
        self.setup.plant(&rules, &self.disk);
        self.files = Some(rules);
    }

    /// A person puts back what was in force, if the files cannot be used.
    pub(crate) fn mend_files(&mut self) {
        assert_eq!(self.files, None, "the files are as they should be");
        self.put_files(self.good_rules());
    }

    /// The last ones that could be used.
    fn good_rules(&self) -> Rules {
        self.rules_in_force().unwrap_or(&self.setup.rules).clone()
    }

    fn rules_in_force(&self) -> Option<&Rules> {
        self.family.head().and_then(|judge: &Judge| judge.rules.as_ref())
    }

    /// Somebody was told that what he wrote is there to stay.
    pub(crate) fn acknowledge(&mut self) {
        let durable = self.disk.durable_contents(JOURNAL).unwrap_or_default();
        let all = self.disk.contents(JOURNAL);
        assert_eq!(durable.len(), all.len(), "something that was acknowledged may still be lost");
        self.acknowledged = all.len();
    }

    /// The harness is no more; this is the disk that the next one finds.
    pub(crate) fn goes_on_with(&mut self, disk: &SimDisk) {
        self.look();
        let all = |disk: &SimDisk| disk.contents_from(JOURNAL, 0).unwrap_or_default();
        let (before, after) = (all(&self.disk), all(disk));
        let kept = &before[..self.acknowledged];
        assert!(after.starts_with(kept), "something that was acknowledged is lost");
        assert!(disk.exists(CONFIG));
        self.disk = disk.clone();
        self.author = Author::Harness;
        self.spans.retain(|(start, _)| *start < after.len());
        self.loads.retain(|at, _| *at < after.len());
        self.restarts.retain(|at| *at < after.len());
        self.restarts.push(after.len());
        self.looks = 0;
        self.watch(self.run.clone());
    }

    /// Judges a run from the first byte on.
    pub(crate) fn watch(&mut self, run: String) {
        self.family = Family::new(&self.setup, &run);
        self.run = run;
        (self.judged, self.harness_since) = (0, 0);
        self.fragment = self.disk.contents_from(JOURNAL, 0).unwrap_or_default();
        self.judge_lines();
    }
}

impl Drop for Witness {
    /// Whoever finds fault with a run wants to see it.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let journal = self.disk.contents_from(JOURNAL, 0).unwrap_or_default();
        let text = String::from_utf8_lossy(&journal);
        let short = |line: &str| match line.find("\"prompt\"") {
            Some(at) => format!("{}…", &line[..at]),
            None => line.chars().take(300).collect(),
        };
        let lines: Vec<_> = text.lines().map(short).collect();
        tell(&format!("{}\n{:?}\nspans {:?}", lines.join("\n"), self.setup, self.spans));
    }
}
