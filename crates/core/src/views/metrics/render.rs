//! The table of iterations, in the formats of the specification.

use std::fmt::Write;
use std::str::FromStr;

use serde::Serialize;

use super::{Iteration, Metrics};
use crate::format::{NumberOrText, json_text};

/// The columns, in every format. Where several runs are shown, the run comes first.
const COLUMNS: [&str; 8] =
    ["run", "iteration", "role", "event", "elapsed_s", "exit_code", "timed_out", "outcome"];

/// How a table of metrics is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A Markdown table with a summary.
    Markdown,
    /// RFC 4180.
    Csv,
    /// An array of objects.
    Json,
}

impl FromStr for Format {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "md" => Ok(Format::Markdown),
            "csv" => Ok(Format::Csv),
            "json" => Ok(Format::Json),
            _ => Err("the formats are md, csv and json"),
        }
    }
}

impl Metrics {
    /// The table of one run, or of all.
    pub fn render(&self, run: Option<&str>, format: Format) -> String {
        let rows: Vec<_> = self.iterations(run).collect();
        let first = if run.is_some() { 1 } else { 0 };
        match format {
            Format::Markdown => markdown(&rows, first),
            Format::Csv => csv(&rows, first),
            Format::Json => json(&rows, first),
        }
    }
}

/// The cells of one row, as text.
fn cells(row: &Iteration<'_>) -> [String; 8] {
    let shown = |value: Option<&dyn ToString>| value.map(ToString::to_string).unwrap_or_default();
    [
        row.run.to_owned(),
        row.number.to_owned(),
        row.role.to_owned(),
        row.event.to_owned(),
        shown(row.elapsed_s.as_ref().map(|value| value as &dyn ToString)),
        shown(row.exit_code.as_ref().map(|value| value as &dyn ToString)),
        shown(row.timed_out.as_ref().map(|value| value as &dyn ToString)),
        row.outcome.to_owned(),
    ]
}

fn markdown(rows: &[Iteration<'_>], first: usize) -> String {
    if rows.is_empty() {
        return "No metrics data available.\n".to_owned();
    }
    let mut out = format!("| {} |\n", COLUMNS[first..].join(" | "));
    out.push_str(&"|---".repeat(COLUMNS[first..].len()));
    out.push_str("|\n");
    for row in rows {
        let cells = cells(row).map(|cell| cell.replace('|', "\\|").replace(['\n', '\r'], " "));
        let _ = writeln!(out, "| {} |", cells[first..].join(" | "));
    }
    let seconds = rows.iter().filter_map(|row| row.elapsed_s).fold(0, u64::saturating_add);
    let failed = rows.iter().filter(|row| row.exit_code.is_some_and(|code| code != 0)).count();
    let timed_out = rows.iter().filter(|row| row.timed_out == Some(true)).count();
    let _ = writeln!(
        out,
        "\nSummary: {} {}, {seconds} s, {failed} with a failing exit, {timed_out} timed out",
        rows.len(),
        if rows.len() == 1 { "iteration" } else { "iterations" },
    );
    out
}

fn csv(rows: &[Iteration<'_>], first: usize) -> String {
    let mut out = COLUMNS[first..].join(",") + "\r\n";
    for row in rows {
        out.push_str(&cells(row).map(|cell| csv_cell(&cell))[first..].join(","));
        out.push_str("\r\n");
    }
    out
}

fn csv_cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn json(rows: &[Iteration<'_>], first: usize) -> String {
    let known = |text| Some(text).filter(|text: &&str| !text.is_empty());
    let rows = rows.iter().map(|row| JsonRow {
        run: (first == 0).then_some(row.run),
        iteration: NumberOrText(row.number),
        role: known(row.role),
        event: known(row.event),
        elapsed_s: row.elapsed_s,
        exit_code: row.exit_code,
        timed_out: row.timed_out,
        outcome: known(row.outcome),
    });
    json_text(&rows.collect::<Vec<_>>())
}

#[derive(Serialize)]
struct JsonRow<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<&'a str>,
    iteration: NumberOrText<'a>,
    role: Option<&'a str>,
    event: Option<&'a str>,
    elapsed_s: Option<u64>,
    exit_code: Option<i32>,
    timed_out: Option<bool>,
    outcome: Option<&'a str>,
}
