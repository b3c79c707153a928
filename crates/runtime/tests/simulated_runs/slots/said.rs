//! What is on record about the agents of a slot is what they really did.

use super::part::{Phase, Turn};
use super::setup::Setup;
use super::slot_model::{Due, SlotModel};

/// What is said about an agent of a slot.
pub(crate) struct Heard<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) run: &'a str,
    pub(crate) said: &'a dyn Fn(&str) -> String,
}

impl Heard<'_> {
    pub(crate) fn of_phase(&self, slot_model: &mut SlotModel, topic: &str, shown: &str) {
        let said = self.said;
        let attempt: u64 = said("attempt").parse().unwrap_or_default();
        let phase = match topic {
            "slot.phase" => Phase::of(&said("phase")),
            "slot.implement" => Phase::Implement,
            "slot.review" => Phase::Review,
            "slot.fix" => Phase::Fix,
            _ => panic!("unexpected record: {shown}"),
        };
        let due = slot_model.due(&self.setup.rules);
        assert_eq!(due, Due::Agent(phase, attempt), "not now: {shown}");
        if topic == "slot.phase" {
            slot_model.announced = Some((phase, attempt));
            return;
        }
        let end = self.setup.end(&Turn {
            run: self.run.to_owned(),
            iteration: slot_model.iteration,
            slot: slot_model.slot,
            item: slot_model.item.clone(),
            phase,
            attempt,
            asked: slot_model.asked_of((phase, attempt)),
        });
        assert_eq!(said("exit_code"), end.code.to_string(), "{shown}");
        assert_eq!(said("elapsed_ms"), end.elapsed.as_millis().to_string(), "{shown}");
        if phase == Phase::Review {
            assert_eq!(said("verdict"), end.verdict, "{shown}");
            assert_eq!(said("stop_marker"), "", "{shown}");
            slot_model.reviews.push((attempt, end.verdict));
            return;
        }
        assert_eq!(said("timed_out"), end.timed_out.to_string(), "{shown}");
        assert_eq!(said("stop_marker") == "true", end.is_marked, "{shown}");
        slot_model.is_marked |= end.is_marked;
        match phase {
            Phase::Implement => {
                assert_eq!(said("picked"), end.picked, "{shown}");
                slot_model.implemented = Some(end);
            }
            Phase::Review | Phase::Fix => slot_model.fixes.push(end.is_success()),
        }
    }
}
