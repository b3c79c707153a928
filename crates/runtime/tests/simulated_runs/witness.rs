//! Reads the journal after every call to the disk, and has each new record [judged](crate::judge).
//!
//! A witness knows what a journal cannot show: besides its [track](crate::track), the files of the
//! loop at each moment.

use std::collections::BTreeMap;

use autoloop_core::record::pieces;
use autoloop_testkit::SimDisk;
use autoloop_testkit::sandbox::tell;

use crate::family::Family;
use crate::judge::{Author, Judge, Loads};
use crate::rules::Rules;
use crate::setup::{CONFIG, Edit, Redo, Setup, Sync, Turn};
use crate::track::{Line, Track};

pub(crate) struct Witness {
    setup: Setup,
    track: Track,
    /// The observed run or chain, with all that belongs to it; others are ignored.
    pub(crate) run: String,
    pub(crate) family: Family,
    /// The rules in the files of the loop; none when they are invalid.
    files: Option<Rules>,
    /// The rules when the harness read them, by the record that shows it.
    loads: BTreeMap<usize, Rules>,
    /// The end of the journal when a harness died.
    restarts: Vec<usize>,
    /// The first byte that can be of the current harness.
    harness_since: usize,
    /// How often an agent was started for each turn.
    started: BTreeMap<Turn, u64>,
    /// Whether something was repeated under other circumstances.
    pub(crate) redo: Redo,
    pub(crate) records: u64,
}

impl Witness {
    pub(crate) fn new(setup: &Setup, disk: &SimDisk) -> Witness {
        setup.plant(&setup.rules, disk);
        Witness {
            setup: setup.clone(),
            track: Track::new(disk),
            run: String::new(),
            family: Family::new(setup, ""),
            files: Some(setup.rules.clone()),
            loads: BTreeMap::new(),
            restarts: Vec::new(),
            harness_since: 0,
            started: BTreeMap::new(),
            redo: Redo::Same,
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
        let Line { start, author, ref bytes } = *line;
        if self.restarts.iter().any(|&at| self.harness_since <= at && at <= start) {
            self.harness_since = start + 1;
            self.family.lost_its_harness();
        }
        for piece in pieces(bytes) {
            let Ok(record) = &piece.content else { continue };
            let run = record.run();
            if !self.family.knows(&run) {
                let is_ours = author == Author::Harness && run.starts_with(&self.run);
                assert!(!is_ours || run.is_empty(), "the harness speaks of {run}");
                continue;
            }
            self.records += 1;
            if author == Author::Stranger && self.setup.forges {
                // An undisturbed agent is not blamed for what others forge.
                self.redo = Redo::Differs;
            }
            let rules = self.loads.get(&start).or(self.files.as_ref());
            let rules = rules.cloned().unwrap_or_else(|| self.good_rules());
            if self.family.hear(author, record, &rules) == Loads::Yes {
                self.loads.insert(start, rules);
            }
        }
    }

    /// Another process writes from now on. Returns the previous writer.
    pub(crate) fn now_writes(&mut self, author: Author) -> Author {
        self.look();
        self.track.now_writes(author)
    }

    /// An agent is started. Everything before it is on the disk.
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

    /// The agent edits the files of the loop.
    pub(crate) fn agent_edits(&mut self, turn: Turn) {
        match self.edit(turn) {
            Some((Edit::To(rules), _)) => self.put_files(rules),
            Some((Edit::Broken(path), _)) => {
                self.track.disk.set_contents(path, b"][");
                self.files = None;
            }
            None => {}
        }
    }

    fn put_files(&mut self, rules: Rules) {
        self.setup.plant(&rules, &self.track.disk);
        self.files = Some(rules);
    }

    /// A user restores the rules in force, if the files are invalid.
    pub(crate) fn mend_files(&mut self) {
        assert_eq!(self.files, None, "the files are as they should be");
        self.put_files(self.good_rules());
    }

    /// The last valid rules.
    fn good_rules(&self) -> Rules {
        self.rules_in_force().unwrap_or(&self.setup.rules).clone()
    }

    fn rules_in_force(&self) -> Option<&Rules> {
        self.family.head().and_then(|judge: &Judge| judge.rules.as_ref())
    }

    /// A writer was told that its records are durable.
    pub(crate) fn acknowledge(&mut self) {
        self.track.acknowledge(self.track.end());
    }

    /// The harness has died; this is the disk that the next one finds.
    pub(crate) fn resumes_with(&mut self, disk: &SimDisk) {
        self.look();
        let end = self.track.resumes_with(disk);
        assert!(disk.exists(CONFIG));
        self.loads.retain(|at, _| *at < end);
        self.restarts.retain(|at| *at < end);
        self.restarts.push(end);
        self.watch(self.run.clone());
    }

    /// Judges a run from the first byte on.
    pub(crate) fn watch(&mut self, run: String) {
        self.family = Family::new(&self.setup, &run);
        self.run = run;
        self.harness_since = 0;
        for line in self.track.again() {
            self.judge_line(&line);
        }
    }
}

impl Drop for Witness {
    /// A failing test prints the journal.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        tell(&format!("{}\n{:?}", self.track.shown(), self.setup));
    }
}
