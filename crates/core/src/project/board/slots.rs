//! Slots on a board: a row each, with the item that it has at the moment.

use super::{Board, Kind, Outcome, Phase, in_line, number, text};
use crate::layout::slot_path;
use crate::record::{
    Glance, SlotFinish, SlotMerge, SlotPhase, SlotReview, SlotRunFinish, SlotRunResume,
    SlotRunStart, SlotStart, SlotsIterationFinish,
};
use crate::slot;

/// Takes in a record of slots.
pub(super) fn apply(board: &mut Board, record: &Glance<'_>) {
    let iteration: u64 = record.iteration().parse().unwrap_or_default();
    board.progress.done = board.progress.done.max(iteration);
    match record.topic().as_ref() {
        SlotRunStart::TOPIC if board.kind == Kind::Unknown => {
            board.source = in_line(&text(record, "source"));
            let title = format!("items from {}", board.source);
            board.begin(Kind::Slots, &title, record);
            board.progress.of = number(record, "iterations");
            board.most_fixes = number(record, "max_fix_attempts");
            board.numbered("slot", number(record, "parallel_agents"));
        }
        SlotRunResume::TOPIC => board.outcome = None,
        SlotStart::TOPIC => {
            let item = text(record, "item_id");
            if !item.is_empty() {
                board.items.take(in_line(&item));
                board.items.tell(&mut board.progress);
            }
            board.slot(record, |row| {
                row.item = in_line(&item);
                row.title = in_line(&text(record, "title"));
                row.note.clear();
                row.began.clear();
                row.output = None;
                row.enter(Phase::Between, record);
            });
        }
        SlotPhase::TOPIC => {
            let attempt = number(record, "attempt");
            let phase = match slot::Phase::from_word(&text(record, "phase")) {
                Some(slot::Phase::Implement) => Phase::Implement,
                Some(slot::Phase::Review) => Phase::Review { attempt },
                Some(slot::Phase::Fix) => Phase::Fix { attempt },
                Some(slot::Phase::Merge) => Phase::Merge,
                None => Phase::Between,
            };
            board.slot(record, |row| {
                row.enter(phase, record);
                // What a review said is what the fix is about, and nothing else.
                if !matches!(phase, Phase::Fix { .. }) {
                    row.note.clear();
                }
                if let Some(file) = file(phase) {
                    row.prints_to(&file);
                }
            });
        }
        SlotReview::TOPIC => {
            let said = [text(record, "follow_up_prompt"), text(record, "reason")];
            let note = format!("{}: {}", text(record, "verdict"), said.join(" "));
            board.slot(record, |row| row.note = in_line(&note));
        }
        SlotMerge::TOPIC => {
            let note = format!("merge: {} {}", text(record, "outcome"), text(record, "files"));
            board.slot(record, |row| row.note = in_line(&note));
        }
        SlotFinish::TOPIC => finish(board, record),
        SlotsIterationFinish::TOPIC => {
            let is_new = board.failed_iterations.last().is_none_or(|last| *last < iteration);
            if number(record, "failed") > 0 && is_new {
                board.failed_iterations.push(iteration);
            }
        }
        SlotRunFinish::TOPIC => {
            let is_good = number(record, "taken") == number(record, "passed");
            board.outcome = Some(Outcome { word: text(record, "reason"), is_good });
        }
        _ => {}
    }
}

fn finish(board: &mut Board, record: &Glance<'_>) {
    let (word, reason) = (text(record, "outcome"), text(record, "reason"));
    let outcome = slot::Outcome::from_word(&word);
    board.items.settle(&in_line(&text(record, "item_id")), outcome);
    board.items.tell(&mut board.progress);
    board.slot(record, |row| {
        if !reason.is_empty() {
            row.note = in_line(&reason);
        }
        row.end(Outcome { is_good: outcome == Some(slot::Outcome::Passed), word }, record);
    });
}

/// Where the agent of a phase prints to.
fn file(phase: Phase) -> Option<String> {
    match phase {
        Phase::Implement => Some("implement.out".to_owned()),
        Phase::Review { attempt } => Some(format!("review-{attempt}.out")),
        Phase::Fix { attempt } => Some(format!("fix-{attempt}.out")),
        _ => None,
    }
}

impl Board {
    /// Changes the row of the slot that a record is about.
    fn slot(&mut self, record: &Glance<'_>, change: impl FnOnce(&mut super::Row)) {
        let (slot, most_fixes) = (number(record, "slot"), self.most_fixes);
        let dir = slot_path(&self.id, &record.iteration(), slot);
        if let Some(row) = self.numbered("slot", slot) {
            row.limit = most_fixes;
            row.dir = dir;
            change(row);
        }
    }
}
