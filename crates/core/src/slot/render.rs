//! Renders a run of slots.

use std::fmt::Write;

use serde::Serialize;

use super::iteration::ItemOutcome;
use super::{End, FinishedIteration, Outcome, Phase, Reviewed, Slot, Slots, Tally, Turn};
use crate::coordinator::Status;
use crate::format::{Format, json_text};
use crate::table;
use crate::text;
use crate::views::usage::{self, Part, Sum, Usages};
use crate::wire_enum::Word;

const TITLE: usize = 100;
const REASON: usize = 240;

const HEADER: [&str; 7] = ["slot", "item", "state", "reviews", "fixes", "usage", "about"];

impl Slots {
    pub fn render(&self, status: Status, usages: &Usages, format: Format) -> String {
        match format {
            Format::Markdown => self.markdown(status, usages),
            Format::Terminal => self.terminal(status, usages),
            Format::Json => json_text(&self.json(status, usages)),
        }
    }

    /// The progress, and what all agents used.
    fn heading(&self, status: Status, usages: &Usages) -> String {
        let usage = usages.total(Some(&self.id)).known();
        let usage = usage.map(|usage| format!(": {usage}")).unwrap_or_default();
        self.summary(status) + &usage
    }

    fn usage_of(&self, slot: &Slot, usages: &Usages) -> Option<Sum> {
        usages.of_part(&self.id, slot.iteration, Part::Slot(slot.start.slot)).known()
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

    fn terminal(&self, status: Status, usages: &Usages) -> String {
        let mut out = format!("slots {}: {}\n", self.id, self.heading(status, usages));
        let counted = |count: String, [one, many]: [&str; 2]| {
            format!("{count} {}", if count == "1" { one } else { many })
        };
        let rows = self.slots.iter().map(|slot| {
            let [slot, item, state, reviews, fixes, usage, about] =
                slot.row(self.usage_of(slot, usages));
            let done = [counted(reviews, ["review", "reviews"]), counted(fixes, ["fix", "fixes"])];
            let done = done.into_iter().chain(Some(usage).filter(|usage| !usage.is_empty()));
            let done = done.collect::<Vec<_>>().join(", ");
            [format!("  {slot}"), item, state, done, about]
        });
        out.push_str(&table::print(rows.collect()));
        for failure in self.finished.iter().filter_map(FinishedIteration::failure) {
            let _ = writeln!(out, "{failure}");
        }
        out
    }

    fn markdown(&self, status: Status, usages: &Usages) -> String {
        let mut out = format!("# Slots {}\n\n{}\n\n", self.id, self.heading(status, usages));
        let _ = writeln!(out, "| {} |\n{}|", HEADER.join(" | "), "|---".repeat(HEADER.len()));
        for row in self.slots.iter().map(|slot| slot.row(self.usage_of(slot, usages))) {
            let _ = writeln!(out, "| {} |", row.map(|cell| cell.replace('|', "\\|")).join(" | "));
        }
        let failures = self.finished.iter().filter_map(FinishedIteration::failure);
        for (place, failure) in failures.enumerate() {
            let _ = writeln!(out, "{}- {failure}", if place == 0 { "\n" } else { "" });
        }
        out
    }

    fn json(&self, status: Status, usages: &Usages) -> Facts<'_> {
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
            usage: usages.total(Some(&self.id)).known().map(|usage| usage.facts()),
            finished_iterations: finished.collect(),
            slots: self.slots.iter().map(|it| it.json(self.usage_of(it, usages))).collect(),
        }
    }
}

#[derive(Serialize)]
struct Facts<'a> {
    run: &'a str,
    status: &'static str,
    reason: Option<String>,
    iterations: u64,
    taken: u64,
    passed: u64,
    began: &'a str,
    last: &'a str,
    usage: Option<usage::Facts>,
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
    usage: Option<usage::Facts>,
}

impl Slot {
    fn row(&self, usage: Option<Sum>) -> [String; 7] {
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
            usage.map(|usage| usage.to_string()).unwrap_or_default(),
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

    fn json(&self, usage: Option<Sum>) -> SlotFacts<'_> {
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
            usage: usage.map(|usage| usage.facts()),
        }
    }
}
