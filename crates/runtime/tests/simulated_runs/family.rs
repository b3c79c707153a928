//! All runs that belong together, each with its own judge: a run, the branches of its waves, the
//! steps of a chain. This file has the rules between them.

use std::collections::BTreeMap;

use autoloop_core::record::Glance;

use crate::chain::ChainJudge;
use crate::chain_request::{Grant, Kin, SPAWN};
use crate::chained::Outline;
use crate::judge::{Author, Judge, Known, Loads};
use crate::place::{Place, parent};
use crate::rules::Rules;
use crate::setup::{OBJECTIVE, Setup, Turn};
use crate::story::{Birth, Story};

pub(crate) struct Family {
    setup: Setup,
    /// The run, or the chain, that all others come from.
    root: String,
    /// The chain that is the root, and those that runs requested.
    chains: BTreeMap<String, ChainJudge>,
    runs: BTreeMap<String, Judge>,
    /// The run of the harness's last record.
    pub(crate) last: String,
}

/// The outcome of a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    /// How the chain ended, if it is one.
    outcome: Option<String>,
    /// The outcome of each run.
    runs: BTreeMap<Place, Story>,
}

impl Summary {
    /// How it ended.
    pub(crate) fn ending(&self) -> String {
        let run = || self.runs.get(&Place::default())?.ending.clone();
        self.outcome.clone().or_else(run).unwrap_or_default()
    }

    /// How many waves were joined.
    pub(crate) fn waves(&self) -> u64 {
        self.runs.values().map(|story| story.waves.len() as u64).sum()
    }

    /// How many requested chains ended.
    pub(crate) fn chains(&self) -> u64 {
        self.runs.values().map(|story| story.chains.len() as u64).sum()
    }

    /// The runs that began.
    pub(crate) fn runs(&self) -> u64 {
        self.runs.len() as u64
    }
}

impl Family {
    pub(crate) fn new(setup: &Setup, root: &str) -> Family {
        let (mut chains, mut runs) = (BTreeMap::new(), BTreeMap::new());
        match &setup.chain {
            Some(chained) => {
                chains.insert(root.to_owned(), ChainJudge::new(chained.outline()));
            }
            None => {
                let birth = Birth { objective: OBJECTIVE.to_owned(), ..Birth::default() };
                runs.insert(root.to_owned(), Judge::new(setup, root, birth));
            }
        }
        let root = root.to_owned();
        Family { setup: setup.clone(), last: root.clone(), root, chains, runs }
    }

    pub(crate) fn knows(&self, run: &str) -> bool {
        run == self.root || self.runs.contains_key(run) || self.chains.contains_key(run)
    }

    /// The judge of the run that all others come from; there is none where that is a chain.
    pub(crate) fn head(&self) -> Option<&Judge> {
        self.runs.get(&self.root)
    }

    /// How far it has progressed.
    pub(crate) fn stage(&self) -> Known {
        match (self.chains.get(&self.root), self.head()) {
            (Some(chain), _) => chain.stage(),
            (None, head) => head.map_or(Known::New, Judge::stage),
        }
    }

    pub(crate) fn chain_outcome(&self) -> Option<&str> {
        self.chains.get(&self.root)?.outcome.as_deref()
    }

    /// Whether a resume continued it where it would otherwise have ended.
    pub(crate) fn was_favoured(&self) -> bool {
        self.chains.values().any(|chain| chain.was_favoured)
    }

    /// The outcome of every run that started.
    pub(crate) fn summary(&self) -> Summary {
        let begun = self.runs.iter().filter(|(_, judge)| judge.stage() != Known::New);
        let runs = begun.map(|(run, judge)| (Place::of(run), judge.story.clone())).collect();
        Summary { outcome: self.chain_outcome().map(str::to_owned), runs }
    }

    /// All runs that started, with their outcomes.
    pub(crate) fn stories(&self) -> impl Iterator<Item = (&str, &Story)> {
        let begun = self.runs.iter().filter(|(_, judge)| judge.stage() != Known::New);
        begun.map(|(run, judge)| (run.as_str(), &judge.story))
    }

    pub(crate) fn lost_its_harness(&mut self) {
        self.runs.values_mut().for_each(Judge::lost_its_harness);
        self.chains.values_mut().for_each(ChainJudge::lost_its_harness);
    }

    /// An agent is started: its start has to be recorded, and it has to be its run's turn.
    pub(crate) fn agent_starts(&self, run: &str, turn: Turn) {
        let judge = self.runs.get(run).unwrap_or_else(|| panic!("unknown run {run}"));
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
        if self.chains.contains_key(&run) {
            if is_harness {
                self.hear_chain(&run, record);
            }
            return Loads::No;
        }
        if is_harness {
            self.check_turn(&run);
            self.check_branch(&run, record);
        }
        let kin = self.kin(&run);
        let judge = self.runs.get_mut(&run).expect("a run that is known");
        judge.kin = kin;
        let loads = judge.hear(author, record, rules);
        match &*record.topic() {
            _ if !is_harness => {}
            "wave.branch.start" => self.branch_is_born(&run, record),
            SPAWN => self.chain_is_granted(&run, record),
            "chain.spawn.finish" => {
                let field = |name: &str| record.field(name).unwrap_or_default().into_owned();
                self.chains[&field("chain_id")].check_return(&field);
            }
            _ => {}
        }
        loads
    }

    /// A branch runs only between its recorded start and end, and a step only while it is its turn.
    fn check_turn(&self, run: &str) {
        let (place, head) = (Place::of(run), parent(run));
        if place.is_branch() {
            let waves = &self.runs[head].waves;
            assert!(waves.is_at_work(place.wave, place.branch), "{run} has no part in this");
        }
        if let Some((id, _)) = head.rsplit_once("-step-") {
            assert_eq!(
                self.chains[id].at_work(),
                Some(head),
                "{run} is no step that is in progress"
            );
            self.check_chain(id);
        }
    }

    /// A requested chain is carried out while its run waits for it.
    fn check_chain(&self, id: &str) {
        let Some(parent) = self.chains[id].parent() else { return };
        assert_eq!(self.runs[parent].spawns.open.as_deref(), Some(id), "{parent} waits for others");
        self.check_turn(parent);
    }

    /// How a run relates to the others.
    fn kin(&self, run: &str) -> Kin {
        let above = self.chains.values().find(|chain| chain.has_run(run));
        let depth =
            above.map_or(0, |chain| 1 + chain.parent().map_or(0, |run| self.kin(run).depth));
        let steps = self.chains.values().map(ChainJudge::steps).sum();
        Kin { depth, steps, ..Kin::default() }
    }

    /// Once granted, a chain is known by its id, and never granted again.
    fn chain_is_granted(&mut self, run: &str, record: &Glance<'_>) {
        let field = |name: &str| record.field(name).unwrap_or_default().into_owned();
        let grant =
            Grant { id: field("chain_id"), steps: field("steps"), why: field("justification") };
        let outline = Outline::granted(&grant, run, self.runs[run].objective());
        let known = self.chains.insert(grant.id, ChainJudge::new(outline));
        assert!(known.is_none(), "granted again");
    }

    /// The recorded end of a branch is the end of its run.
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

    fn hear_chain(&mut self, id: &str, record: &Glance<'_>) {
        self.check_chain(id);
        let Family { setup, chains, runs, .. } = self;
        let Some(chain) = chains.get_mut(id) else { return };
        let field = |name: &str| record.field(name).unwrap_or_default().into_owned();
        chain.hear(&record.topic(), &field, runs);
        if record.topic() == "chain.step.start" {
            let objective = chain.objective().to_owned();
            let birth = Birth { handoff: chain.handoff(), objective, ..Birth::default() };
            let run = field("run_id");
            runs.insert(run.clone(), Judge::new(setup, &run, birth));
        }
    }
}

/// The run of a branch.
fn branch_run(wave: &str, branch: &str) -> String {
    format!("{wave}-{}", branch.trim_start_matches("branch-"))
}
