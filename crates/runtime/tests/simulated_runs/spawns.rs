//! The rules of the chains that a run requests, checked on the records of the run.

use crate::chain_request::{ChainRequest, Grant, Kin, Limits, SPAWN};

/// The chains of a run.
#[derive(Debug, Default)]
pub(crate) struct Spawns {
    /// The undecided requests.
    asked: Vec<ChainRequest>,
    /// The chain in progress.
    pub(crate) open: Option<String>,
    /// Those that ended since an iteration was done, and how.
    returned: Vec<(String, String)>,
    /// The ids of all that were granted.
    granted: Vec<String>,
    /// How many of the last ones failed.
    failures: u64,
}

/// What chains depend on.
pub(crate) struct Scene<'a> {
    pub(crate) run: &'a str,
    pub(crate) limits: Option<Limits>,
    /// How the run relates to others, without what it knows itself.
    pub(crate) kin: Kin,
    /// Whether it continues.
    pub(crate) goes_on: bool,
}

type Field<'a> = &'a dyn Fn(&str) -> String;

impl Spawns {
    /// Whether the run waits for something.
    pub(crate) fn is_pending(&self) -> bool {
        self.open.is_some() || !self.asked.is_empty()
    }

    /// A review requests a chain, which counts at once.
    pub(crate) fn review_asks(&mut self, payload: String) {
        self.asked.push(ChainRequest { payload, in_review: true });
    }

    /// An iteration requests a chain, which counts when it has ended.
    pub(crate) fn ask(&mut self, asked: Vec<String>) {
        let chain_request = |payload| ChainRequest { payload, in_review: false };
        self.asked = asked.into_iter().map(chain_request).collect();
    }

    /// The iteration that got the report about the last chains has ended.
    pub(crate) fn go_on(&mut self) {
        self.returned.clear();
    }

    /// The iteration that requested it is retried.
    pub(crate) fn forget_requests(&mut self) {
        self.asked.clear();
    }

    fn kin(&self, kin: Kin) -> Kin {
        Kin { children: self.granted.len() as u64, failures: self.failures, ..kin }
    }

    /// Applies a record about chains, and returns what was granted.
    pub(crate) fn hear(
        &mut self,
        topic: &str,
        field: Field<'_>,
        scene: &Scene<'_>,
    ) -> Option<Grant> {
        if topic == "chain.spawn.finish" {
            self.comes_back(field);
            return None;
        }
        assert_eq!(self.open, None, "{topic}: one at a time");
        assert!(!self.asked.is_empty(), "{topic}: not requested");
        let chain_request = self.asked.remove(0);
        let limits = scene.limits.expect("there are such chains");
        let fate = match scene.goes_on {
            true => chain_request.fate(scene.run, (self.kin(scene.kin), limits), &self.granted),
            false if chain_request.in_review => Err("in_review"),
            false => Err("run_ends"),
        };
        if topic == "chain.invalid" {
            assert_eq!(fate, Err(&*field("reason")), "{chain_request:?}");
            assert_eq!(field("trigger_topic"), SPAWN);
            return None;
        }
        assert_eq!(topic, SPAWN, "unexpected topic");
        let grant =
            Grant { id: field("chain_id"), steps: field("steps"), why: field("justification") };
        assert_eq!(fate.as_ref(), Ok(&grant), "{chain_request:?}");
        assert_eq!(field("parent_id"), scene.run);
        self.granted.push(grant.id.clone());
        self.open = Some(grant.id.clone());
        Some(grant)
    }

    fn comes_back(&mut self, field: Field<'_>) {
        let id = self.open.take().expect("a chain is in progress");
        assert_eq!(field("chain_id"), id);
        let outcome = field("outcome");
        self.failures = if outcome == "all_steps_complete" { 0 } else { self.failures + 1 };
        self.returned.push((id, outcome));
    }

    /// A prompt says whether chains can be requested, and how the requested ones ended.
    pub(crate) fn check_prompt(&self, prompt: &str, kin: Kin, limits: Option<Limits>) {
        let may_ask = limits.is_some_and(|limits| limits.leave_room(self.kin(kin)));
        assert_eq!(prompt.contains("\nChains:\n"), may_ask, "{self:?} {prompt}");
        let is_told = prompt.contains("\nResults of the chains:\n");
        assert_eq!(is_told, !self.returned.is_empty(), "{self:?} {prompt}");
        for (id, outcome) in &self.returned {
            let line = format!("\nChain {id} ended: {outcome}\n");
            assert!(prompt.contains(&line), "{line:?} is not in {prompt}");
        }
    }
}
