//! Slots on a board: a row each, with the item that it has at the moment.

use super::{Board, End, Kind, Outcome, Phase, in_line};
use crate::layout::slot_path;
use crate::record::{
    self, Event, Glance, SlotFinish, SlotMerge, SlotOutcome, SlotPhase, SlotReview, SlotRunFinish,
};

/// Takes in a record of slots.
pub(super) fn apply(board: &mut Board, record: &Glance<'_>) {
    let iteration: u64 = record.iteration().parse().unwrap_or_default();
    board.progress.done = board.progress.done.max(iteration);
    match record.event() {
        Event::SlotRunStart(start) if board.kind.is_none() => {
            board.source = in_line(start.source.as_str());
            let title = format!("items from {}", board.source);
            board.begin(Kind::Slots, &title, record);
            board.progress.of = start.iterations;
            board.most_fixes = start.max_fix_attempts;
            board.numbered("slot", start.parallel_agents);
        }
        Event::SlotRunResume(_) => board.outcome = None,
        Event::SlotStart(start) => {
            if !start.item_id.is_empty() {
                board.items.take(in_line(&start.item_id));
                board.items.tell(&mut board.progress);
            }
            board.slot(start.slot, record, |row| {
                row.item = in_line(&start.item_id);
                row.title = in_line(&start.title);
                row.note.clear();
                row.began.clear();
                row.output = None;
                row.enter(Phase::Between, record);
            });
        }
        Event::SlotPhase(SlotPhase { slot, phase, attempt, .. }) => {
            let phase = match phase.known() {
                Some(record::Phase::Implement) => Phase::Implement,
                Some(record::Phase::Review) => Phase::Review { attempt },
                Some(record::Phase::Fix) => Phase::Fix { attempt },
                Some(record::Phase::Merge) => Phase::Merge,
                None => Phase::Between,
            };
            board.slot(slot, record, |row| {
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
        Event::SlotReview(SlotReview { slot, verdict, follow_up_prompt, reason, .. }) => {
            let note = format!("{verdict}: {follow_up_prompt} {reason}");
            board.slot(slot, record, |row| row.note = in_line(&note));
        }
        Event::SlotMerge(SlotMerge { slot, outcome, files, .. }) => {
            let note = format!("merge: {outcome} {files}");
            board.slot(slot, record, |row| row.note = in_line(&note));
        }
        Event::SlotFinish(finish) => finished(board, &finish, record),
        Event::SlotsIterationFinish(finish) => {
            let is_new = board.failed_iterations.last().is_none_or(|last| *last < iteration);
            if finish.failed > 0 && is_new {
                board.failed_iterations.push(iteration);
            }
        }
        Event::SlotRunFinish(SlotRunFinish { reason, taken, passed }) => {
            let end = if taken == passed { End::Done } else { End::Failed };
            board.outcome = Some(Outcome { word: reason.to_string(), end });
        }
        _ => {}
    }
}

fn finished(board: &mut Board, finish: &SlotFinish, record: &Glance<'_>) {
    let outcome = finish.outcome.known();
    board.items.settle(&in_line(&finish.item_id), outcome);
    board.items.tell(&mut board.progress);
    let end = match outcome {
        Some(SlotOutcome::Passed) => End::Done,
        Some(SlotOutcome::NoItem) => End::Idle,
        _ => End::Failed,
    };
    board.slot(finish.slot, record, |row| {
        if !finish.reason.is_empty() {
            row.note = in_line(&finish.reason);
        }
        row.end(Outcome { word: finish.outcome.to_string(), end }, record);
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
    fn slot(&mut self, slot: u64, record: &Glance<'_>, change: impl FnOnce(&mut super::Row)) {
        let most_fixes = self.most_fixes;
        let dir = slot_path(&self.id, &record.iteration(), slot);
        if let Some(row) = self.numbered("slot", slot) {
            row.limit = most_fixes;
            row.dir = dir;
            change(row);
        }
    }
}
