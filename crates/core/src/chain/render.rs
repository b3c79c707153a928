//! A chain, written out for people and for programs.

use std::fmt::Write;
use std::str::FromStr;

use serde_json::json;

use super::Chain;
use crate::excerpt;

/// How a chain is written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For prompts and notes.
    Markdown,
    /// For a person.
    Terminal,
    /// For programs.
    Json,
}

impl FromStr for Format {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "md" => Ok(Format::Markdown),
            "terminal" | "text" => Ok(Format::Terminal),
            "json" => Ok(Format::Json),
            _ => Err("the formats are md, terminal and json"),
        }
    }
}

/// A step in a table: its number, its loop, its run, and how far it is.
type Row = [String; 4];

impl Chain {
    /// The chain, written out.
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Markdown => self.markdown(),
            Format::Terminal => self.terminal(),
            Format::Json => serde_json::to_string_pretty(&self.json()).unwrap_or_default() + "\n",
        }
    }

    fn state(&self) -> &str {
        self.outcome.as_deref().unwrap_or("unfinished")
    }

    fn name(&self) -> &str {
        self.start.as_ref().map_or("", |start| &start.name)
    }

    /// All steps, also those that did not begin.
    fn rows(&self) -> Vec<Row> {
        let presets = self.presets();
        let last = self.steps.last().map_or(0, |step| step.number).min(10_000);
        (1..=last.max(presets.len() as u64))
            .map(|number| {
                let place = usize::try_from(number - 1).unwrap_or(usize::MAX);
                let known = presets.get(place).copied().unwrap_or_default();
                let step = self.step(number);
                let preset = step.map(|step| step.preset.as_str()).filter(|it| !it.is_empty());
                let state = step
                    .map_or("not begun", |step| step.stop_reason.as_deref().unwrap_or("under way"));
                let run = step.and_then(|step| step.run.as_deref()).unwrap_or("-");
                [&number.to_string(), preset.unwrap_or(known), run, state].map(excerpt::one_line)
            })
            .collect()
    }

    fn markdown(&self) -> String {
        let mut out = format!(
            "# Chain {}\n\n- name: {}\n- outcome: {}\n",
            self.id,
            excerpt::one_line(self.name()),
            excerpt::one_line(self.state()),
        );
        if let Some(objective) = self.start.as_ref().and_then(|start| start.objective.as_deref()) {
            let _ = writeln!(out, "- objective: {}", excerpt::one_line(objective));
        }
        out.push_str("\n| step | preset | run | ended with |\n|---|---|---|---|\n");
        for row in self.rows() {
            let _ = writeln!(out, "| {} |", row.map(|cell| cell.replace('|', "\\|")).join(" | "));
        }
        out
    }

    fn terminal(&self) -> String {
        let name = excerpt::one_line(self.name());
        let mut out = format!("chain {} ({name}): {}\n", self.id, excerpt::one_line(self.state()));
        let rows = self.rows();
        let width = |column: usize| rows.iter().map(|row| excerpt::length(&row[column])).max();
        let (presets, runs) = (width(1).unwrap_or(0), width(2).unwrap_or(0));
        for [number, preset, run, state] in &rows {
            let _ = writeln!(out, "{number:>3}  {preset:presets$}  {run:runs$}  {state}");
        }
        out
    }

    fn json(&self) -> serde_json::Value {
        let step = |[number, preset, run, state]: Row| {
            let known = number.parse().ok().and_then(|number| self.step(number));
            json!({
                "step": number.parse::<u64>().unwrap_or_default(),
                "preset": preset,
                "run": (run != "-").then_some(run),
                "begun": known.is_some(),
                "stop_reason": known.and_then(|step| step.stop_reason.as_deref()).map(|_| state),
            })
        };
        json!({
            "chain": self.id,
            "name": self.name(),
            "objective": self.start.as_ref().and_then(|start| start.objective.as_deref()),
            "outcome": self.outcome,
            "began": self.times.0,
            "last": self.times.1,
            "steps": self.rows().into_iter().map(step).collect::<Vec<_>>(),
        })
    }
}
