//! Renders a run of slots.

use std::fmt::Write;

use serde::Serialize;

use super::iteration::ItemOutcome;
use super::{End, FinishedIteration, Outcome, Phase, Reviewed, Slot, Slots, Tally, Turn};
use crate::coordinator::Status;
use crate::format::{Format, json_text};
use crate::table;
use crate::text;
use crate::wire_enum::Word;

const TITLE: usize = 100;
const REASON: usize = 240;

const HEADER: [&str; 6] = ["slot", "item", "state", "reviews", "fixes", "about"];

impl Slots {
    pub fn render(&self, status: Status, format: Format) -> String {
        match format {
            Format::Markdown => self.markdown(status),
            Format::Terminal => self.terminal(status),
            Format::Json => json_text(&self.json(status)),
        }
    }

    pub fn summary(&self, status: Status) -> String {
        let Tally { taken, passed } = Tally::of(self);
        let status = match &self.finish {
            Some(finish) if finish.reason != End::Interrupted => {
                format!("{status} ({})", text::one_line(&finish.reason.to_string()))
            }
            _ => status.to_string(),
        };
        match taken {
            0 => format!("{status}, no item was taken"),
            1 => format!("{status}, {passed} of 1 item passed"),
            _ => format!("{status}, {passed} of {taken} items passed"),
        }
    }

    fn terminal(&self, status: Status) -> String {
        let mut out = format!("slots {}: {}\n", self.id, self.summary(status));
        let counted = |count: String, [one, many]: [&str; 2]| {
            format!("{count} {}", if count == "1" { one } else { many })
        };
        let rows = self.slots.iter().map(|slot| {
            let [slot, item, state, reviews, fixes, about] = slot.row();
            let done = [counted(reviews, ["review", "reviews"]), counted(fixes, ["fix", "fixes"])];
            [format!("  {slot}"), item, state, done.join(", "), about]
        });
        out.push_str(&table::print(rows.collect()));
        for failure in self.finished.iter().filter_map(FinishedIteration::failure) {
            let _ = writeln!(out, "{failure}");
        }
        out
    }

    fn markdown(&self, status: Status) -> String {
        let mut out = format!("# Slots {}\n\n{}\n\n", self.id, self.summary(status));
        let _ = writeln!(out, "| {} |\n|---|---|---|---|---|---|", HEADER.join(" | "));
        for row in self.slots.iter().map(Slot::row) {
            let _ = writeln!(out, "| {} |", row.map(|cell| cell.replace('|', "\\|")).join(" | "));
        }
        let failures = self.finished.iter().filter_map(FinishedIteration::failure);
        for (place, failure) in failures.enumerate() {
            let _ = writeln!(out, "{}- {failure}", if place == 0 { "\n" } else { "" });
        }
        out
    }

    pub(super) fn json(&self, status: Status) -> Facts<'_> {
        let Tally { taken, passed } = Tally::of(self);
        let finished = self.finished.iter().map(|it| IterationFacts {
            iteration: it.iteration,
            passed: it.passed(),
            failed: it.failed(),
            items: &it.items,
        });
        Facts {
            run: &self.id,
            status: status.name(),
            reason: self.finish.as_ref().map(|finish| finish.reason.to_string()),
            iterations: self.iteration(),
            taken,
            passed,
            began: &self.times.0,
            last: &self.times.1,
            finished_iterations: finished.collect(),
            slots: self.slots.iter().map(Slot::json).collect(),
        }
    }
}

#[derive(Serialize)]
pub(super) struct Facts<'a> {
    run: &'a str,
    status: &'static str,
    reason: Option<String>,
    iterations: u64,
    taken: u64,
    passed: u64,
    began: &'a str,
    last: &'a str,
    finished_iterations: Vec<IterationFacts<'a>>,
    slots: Vec<SlotFacts<'a>>,
}

#[derive(Serialize)]
struct IterationFacts<'a> {
    iteration: u64,
    passed: u64,
    failed: u64,
    items: &'a [ItemOutcome],
}

#[derive(Serialize)]
struct SlotFacts<'a> {
    iteration: u64,
    slot: u64,
    item: &'a str,
    title: &'a str,
    phase: Option<String>,
    picked: Option<&'a str>,
    reviews: &'a [Reviewed],
    fixes: &'a [Turn],
    branch: &'a str,
    commit: Option<&'a str>,
    outcome: Option<String>,
    reason: Option<&'a str>,
}

impl Slot {
    fn row(&self) -> [String; 6] {
        let item = if self.has_item() { &self.start.item_id } else { "-" };
        let about = match &self.finish {
            Some(finish) if self.outcome() != Some(Outcome::Passed) => {
                text::first_line(&finish.reason, REASON)
            }
            _ => text::first_line(&self.start.title, TITLE),
        };
        [
            format!("{}.{}", self.iteration, self.start.slot),
            text::one_line(item),
            text::one_line(&self.state()),
            self.reviews.len().to_string(),
            self.fixes.len().to_string(),
            about,
        ]
    }

    pub fn state(&self) -> String {
        match (&self.finish, &self.phase) {
            (Some(finish), _) => finish.outcome.to_string(),
            (None, Some((Word::Known(Phase::Fix), attempt))) => format!("fix {attempt}"),
            (None, Some((phase, _))) => phase.to_string(),
            (None, None) => "begun".to_owned(),
        }
    }

    fn json(&self) -> SlotFacts<'_> {
        SlotFacts {
            iteration: self.iteration,
            slot: self.start.slot,
            item: &self.start.item_id,
            title: &self.start.title,
            phase: self.phase.as_ref().map(|(phase, _)| phase.to_string()),
            picked: self.implement.as_ref().map(|implement| implement.picked.word()),
            reviews: &self.reviews,
            fixes: &self.fixes,
            branch: &self.start.branch,
            commit: self.merge.as_ref().map(|merge| &*merge.commit),
            outcome: self.finish.as_ref().map(|finish| finish.outcome.to_string()),
            reason: self.finish.as_ref().map(|finish| &*finish.reason),
        }
    }
}
