//! What the agents of a slot are told.

use autoloop_core::prompt::slot::{
    Again, Fixed, Ground, ImplementOrder, ItemText, ReviewOrder, UnderReview,
};
use autoloop_core::queue::Item;
use autoloop_core::slot::{Slot, Verdict};

use super::SlotDrive;

impl SlotDrive<'_> {
    pub(super) fn implement_order(&self, slot: &Slot) -> ImplementOrder {
        ImplementOrder {
            instructions: self.prompts.in_force.developer_prompt.clone(),
            item: self.item_text(slot),
            ground: self.ground(slot),
        }
    }

    pub(super) fn review_order(
        &self,
        slot: &Slot,
        attempt: u64,
        work: &Result<UnderReview, String>,
    ) -> ReviewOrder {
        let implement = slot.implement.as_ref();
        let asked = slot.reviews.iter().rfind(|review| review.attempt + 1 == attempt);
        let fixed = slot.fixes.iter().find(|fix| fix.attempt == attempt);
        let before = slot.reviews.iter().rfind(|review| review.attempt == attempt);
        let again = before.map(|review| match review.verdict.known() {
            Some(Verdict::Pass) => Again::Changed,
            _ => Again::Unusable(review.reason.clone()),
        });
        ReviewOrder {
            instructions: self.prompts.in_force.reviewer_prompt.clone().unwrap_or_default(),
            item: self.item_text(slot),
            ground: self.ground(slot),
            output: implement.map(|implement| implement.turn.output.clone()).unwrap_or_default(),
            diff: self.grounds.diff(work),
            fix: asked.zip(fixed).map(|(asked, fixed)| Fixed {
                attempt,
                most: self.rules().max_fix_attempts,
                follow_up: asked.follow_up.clone(),
                output: fixed.output.clone(),
            }),
            reviewed: work.as_ref().ok().cloned(),
            again,
        }
    }

    fn item_text(&self, slot: &Slot) -> ItemText {
        let item = self.claims.item(slot.start.slot).unwrap_or_else(|| Item {
            id: slot.start.item_id.clone(),
            title: slot.start.title.clone(),
            ..Item::default()
        });
        ItemText {
            id: item.id,
            title: item.title,
            status: item.status.to_string(),
            priority: item.priority.number().to_string(),
            description: item.description,
            acceptance: item.acceptance,
        }
    }

    /// Where a slot works. Others may work there too although there is to be only one by now.
    fn ground(&self, slot: &Slot) -> Ground {
        match self.grounds.told(slot) {
            Ground::Alone if self.is_shared(slot) => Ground::Shared,
            ground => ground,
        }
    }
}
