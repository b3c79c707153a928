//! One slot of one iteration, by what its agents really did, and what is due in it.

use super::part::{End, Phase};
use super::queue::Queue;
use super::setup::{Review, Rules};

/// What is due in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Agent(Phase, u64),
    Finish(&'static str),
}

/// A slot.
#[derive(Clone, Debug)]
pub(crate) struct SlotModel {
    pub(crate) iteration: u64,
    pub(crate) slot: u64,
    pub(crate) item: String,
    pub(crate) actor: String,
    /// Whether another worker changed its item since it was claimed.
    pub(crate) is_disturbed: bool,
    /// Whether its harness died since it last claimed its item.
    pub(crate) is_cut_off: bool,
    /// The phase that was announced last.
    pub(crate) announced: Option<(Phase, u64)>,
    pub(crate) implemented: Option<End>,
    /// The reviews, with their attempts.
    pub(crate) reviews: Vec<(u64, &'static str)>,
    /// The fixes: whether they went well.
    pub(crate) fixes: Vec<bool>,
    /// Whether one of its agents printed what ends the run.
    pub(crate) is_marked: bool,
    pub(crate) outcome: Option<String>,
}

impl SlotModel {
    pub(crate) fn begins(
        (iteration, slot): (u64, u64),
        (item, actor): (String, String),
        is_disturbed: bool,
    ) -> SlotModel {
        SlotModel {
            iteration,
            slot,
            item,
            actor,
            is_disturbed,
            is_cut_off: false,
            announced: None,
            implemented: None,
            reviews: Vec::new(),
            fixes: Vec::new(),
            is_marked: false,
            outcome: None,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.outcome.is_none()
    }

    /// Nothing was done in it yet.
    pub(crate) fn is_blank(&self) -> bool {
        self.implemented.is_none() && self.announced.is_none() && self.is_open()
    }

    /// How often the reviewer of an attempt was asked already.
    pub(crate) fn asked(&self, attempt: u64) -> u64 {
        self.reviews.iter().filter(|(of, _)| *of == attempt).count() as u64
    }

    /// How often the agent of a phase was asked the same already.
    pub(crate) fn asked_of(&self, (phase, attempt): (Phase, u64)) -> u64 {
        if phase == Phase::Review { self.asked(attempt) } else { 0 }
    }

    /// What is due, by the rules as they are written for people.
    pub(crate) fn due(&self, rules: &Rules) -> Due {
        if self.item.is_empty() {
            return Due::Finish("no_item");
        }
        let Some(implemented) = &self.implemented else {
            return Due::Agent(Phase::Implement, 0);
        };
        if !implemented.is_success() {
            return Due::Finish("failed");
        }
        // Without git the changes are unknown, so a stop marker always means "nothing to do".
        if implemented.picked == "none" || implemented.is_marked {
            return Due::Finish("no_item");
        }
        if rules.review != Review::On {
            return Due::Finish("passed");
        }
        let Some(&(attempt, verdict)) = self.reviews.last() else {
            return Due::Agent(Phase::Review, 0);
        };
        let fixes = self.fixes.len() as u64;
        match verdict {
            "pass" => Due::Finish("passed"),
            "violation" if self.asked(attempt) <= rules.repairs => {
                Due::Agent(Phase::Review, attempt)
            }
            "violation" => Due::Finish("violation"),
            "drift" if self.fixes.last() == Some(&false) => Due::Finish("failed"),
            "drift" if fixes > attempt => Due::Agent(Phase::Review, attempt + 1),
            "drift" if fixes < rules.fixes => Due::Agent(Phase::Fix, fixes + 1),
            "drift" => Due::Finish("drift"),
            _ => Due::Finish("failed"),
        }
    }

    /// At most so many fixes and one review more, each behind a fix of its own and asked for again only
    /// where the contract was broken; and none where there was nothing to review.
    fn check_limits(&self, rules: &Rules, shown: &str) {
        let mut attempts: Vec<u64> = self.reviews.iter().map(|(attempt, _)| *attempt).collect();
        attempts.dedup();
        let reviews = attempts.len() as u64;
        assert_eq!(attempts, (0..reviews).collect::<Vec<_>>(), "{shown}");
        assert!(self.fixes.len() as u64 <= rules.fixes, "{:?}: {shown}", self.fixes);
        assert!(reviews <= self.fixes.len() as u64 + 1, "{attempts:?}: {shown}");
        assert!(attempts.iter().all(|of| self.asked(*of) <= rules.repairs + 1), "{shown}");
        let is_done = |end: &End| end.is_success() && end.picked != "none" && !end.is_marked;
        let may_be = rules.review == Review::On && !self.item.is_empty();
        let may_be = may_be && self.implemented.as_ref().is_some_and(is_done);
        assert!(may_be || self.reviews.is_empty(), "nothing was to be reviewed: {shown}");
    }

    /// It ends as it has to by what was done in it. Says whether its item was lost.
    pub(crate) fn finishes(
        &mut self,
        (rules, queue): (&Rules, &Queue),
        outcome: &str,
        shown: &str,
    ) -> bool {
        self.check_limits(rules, shown);
        let due = self.due(rules);
        let is_due = matches!(due, Due::Finish(how) if how == outcome);
        let is_lost = self.is_disturbed && outcome == "failed" && !is_due;
        assert!(is_due || is_lost, "{due:?}, not {outcome}: {shown}");
        if let Some(item) = queue.get(&self.item) {
            let closed_by = item.closed_by.as_deref();
            match outcome {
                "passed" if self.is_disturbed => assert!(closed_by.is_some(), "open: {shown}"),
                "passed" => assert_eq!(closed_by, Some(&*self.actor), "not closed: {shown}"),
                _ if self.is_disturbed => {}
                _ => assert_eq!(closed_by, None, "closed: {shown}"),
            }
            let owner = queue.owner(&self.item);
            assert_ne!(owner, Some(&*self.actor), "not released: {shown}");
        }
        self.outcome = Some(outcome.to_owned());
        is_lost
    }
}
