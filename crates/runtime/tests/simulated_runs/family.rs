//! All runs that belong together, each with a judge of its own: a run, the branches of its waves, the
//! steps of a chain. Here are the rules between them.

use std::collections::BTreeMap;

use autoloop_core::record::Glance;

use crate::chain::ChainJudge;
use crate::judge::{Author, Judge, Known, Loads};
use crate::place::{Place, parent};
use crate::rules::Rules;
use crate::setup::{Setup, Turn};
use crate::story::{Birth, Story};

pub(crate) struct Family {
    setup: Setup,
    /// The run, or the chain, that all others come from.
    root: String,
    chain: Option<ChainJudge>,
    runs: BTreeMap<String, Judge>,
    /// The run that the harness spoke of last.
    pub(crate) last: String,
}

/// What a family came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tale {
    /// How the chain ended, if it is one.
    outcome: Option<String>,
    /// What each run came to.
    runs: BTreeMap<Place, Story>,
}

impl Tale {
    /// How it ended.
    pub(crate) fn ending(&self) -> String {
        let run = || self.runs.get(&Place::default())?.ending.clone();
        self.outcome.clone().or_else(run).unwrap_or_default()
    }

    /// How many waves were joined.
    pub(crate) fn waves(&self) -> u64 {
        self.runs.values().map(|story| story.waves.len() as u64).sum()
    }

    /// The runs that began.
    pub(crate) fn runs(&self) -> u64 {
        self.runs.len() as u64
    }
}

impl Family {
    pub(crate) fn new(setup: &Setup, root: &str) -> Family {
        let chain = setup.chain.as_ref().map(ChainJudge::new);
        let mut runs = BTreeMap::new();
        if chain.is_none() {
            runs.insert(root.to_owned(), Judge::new(setup, root, Birth::default()));
        }
        Family { setup: setup.clone(), root: root.to_owned(), chain, runs, last: root.to_owned() }
    }

    pub(crate) fn knows(&self, run: &str) -> bool {
        run == self.root || self.runs.contains_key(run)
    }

    /// The judge of the run that all others come from; there is none where that is a chain.
    pub(crate) fn head(&self) -> Option<&Judge> {
        self.runs.get(&self.root)
    }

    /// How far it is.
    pub(crate) fn stage(&self) -> Known {
        match (&self.chain, self.head()) {
            (Some(chain), _) => chain.stage(),
            (None, head) => head.map_or(Known::New, Judge::stage),
        }
    }

    pub(crate) fn chain_outcome(&self) -> Option<&str> {
        self.chain.as_ref()?.outcome.as_deref()
    }

    /// Whether it got another chance where it would have ended had it been left alone.
    pub(crate) fn was_favoured(&self) -> bool {
        self.chain.as_ref().is_some_and(|chain| chain.was_favoured)
            || self.runs.values().any(Judge::was_favoured)
    }

    /// What every run that began came to.
    pub(crate) fn tale(&self) -> Tale {
        let begun = self.runs.iter().filter(|(_, judge)| judge.stage() != Known::New);
        let runs = begun.map(|(run, judge)| (Place::of(run), judge.story.clone())).collect();
        Tale { outcome: self.chain_outcome().map(str::to_owned), runs }
    }

    /// All runs that began, with what they came to.
    pub(crate) fn stories(&self) -> impl Iterator<Item = (&str, &Story)> {
        let begun = self.runs.iter().filter(|(_, judge)| judge.stage() != Known::New);
        begun.map(|(run, judge)| (run.as_str(), &judge.story))
    }

    pub(crate) fn lost_its_harness(&mut self) {
        self.runs.values_mut().for_each(Judge::lost_its_harness);
        self.chain.iter_mut().for_each(ChainJudge::lost_its_harness);
    }

    /// An agent is started: that has to be on record, and its run has to be the one whose turn it is.
    pub(crate) fn agent_starts(&self, run: &str, turn: Turn) {
        let judge = self.runs.get(run).unwrap_or_else(|| panic!("nobody knows {run}"));
        judge.agent_starts(turn);
        self.check_turn(run);
    }

    /// Hears the next record of a run that it knows.
    pub(crate) fn hear(&mut self, author: Author, record: &Glance<'_>, rules: &Rules) -> Loads {
        let run = record.run().into_owned();
        let is_harness = author == Author::Harness;
        if is_harness {
            self.last.clone_from(&run);
        }
        if self.chain.is_some() && run == self.root {
            if is_harness {
                self.hear_chain(record);
            }
            return Loads::No;
        }
        if is_harness {
            self.check_turn(&run);
            self.check_branch(&run, record);
        }
        let judge = self.runs.get_mut(&run).expect("a run that is known");
        let loads = judge.hear(author, record, rules);
        if is_harness && record.topic() == "wave.branch.start" {
            self.branch_is_born(&run, record);
        }
        loads
    }

    /// A branch is at work only between its beginning and its end on record, and a step only while it is
    /// its turn.
    fn check_turn(&self, run: &str) {
        let (place, head) = (Place::of(run), parent(run));
        if place.is_branch() {
            let waves = &self.runs[head].waves;
            assert!(waves.is_at_work(place.wave, place.branch), "{run} has no part in this");
        }
        if let Some(chain) = &self.chain {
            assert!(chain.is_at_work(head), "{run} is no step that is under way");
        }
    }

    /// A branch ends on record as its run did.
    fn check_branch(&self, run: &str, record: &Glance<'_>) {
        if record.topic() != "wave.branch.finish" {
            return;
        }
        let field = |name: &str| record.field(name).unwrap_or_default().into_owned();
        let name = branch_run(&field("wave_id"), &field("branch_id"));
        let branch = self.runs.get(&name).unwrap_or_else(|| panic!("{run} has no branch {name}"));
        assert_eq!(branch.stop_reason(), Some(&*field("stop_reason")), "{name}");
        let end = self.setup.end(Turn { place: Place::of(&name), iteration: 1, is_review: false });
        if !end.output.is_empty() && end.output.len() < 1_000 {
            assert_eq!(field("output"), String::from_utf8_lossy(&end.output), "{name}");
        }
    }

    fn branch_is_born(&mut self, run: &str, record: &Glance<'_>) {
        let field = |name: &str| record.field(name).unwrap_or_default().into_owned();
        let name = branch_run(&field("wave_id"), &field("branch_id"));
        let birth = Birth {
            parent: Some(run.to_owned()),
            opening_event: Some(field("routing_event")),
            objective: field("objective"),
            handoff: Vec::new(),
        };
        self.runs.insert(name.clone(), Judge::new(&self.setup, &name, birth));
    }

    fn hear_chain(&mut self, record: &Glance<'_>) {
        let Family { setup, chain, runs, .. } = self;
        let Some(chain) = chain else { return };
        let field = |name: &str| record.field(name).unwrap_or_default().into_owned();
        chain.hear(&record.topic(), &field, runs);
        if record.topic() == "chain.step.start" {
            let birth = Birth { handoff: chain.handoff(), ..Birth::default() };
            let run = field("run_id");
            runs.insert(run.clone(), Judge::new(setup, &run, birth));
        }
    }
}

/// The run of a branch.
fn branch_run(wave: &str, branch: &str) -> String {
    format!("{wave}-{}", branch.trim_start_matches("branch-"))
}
