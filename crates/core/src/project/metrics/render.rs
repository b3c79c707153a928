//! The table of iterations, in the formats of the specification.

use std::fmt::Write;
use std::str::FromStr;

use super::{Iteration, Metrics};

/// The columns, in every format.
const COLUMNS: [&str; 7] =
    ["iteration", "role", "event", "elapsed_s", "exit_code", "timed_out", "outcome"];

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
        match format {
            Format::Markdown => markdown(&rows),
            Format::Csv => csv(&rows),
            Format::Json => json(&rows),
        }
    }
}

/// The cells of one row, as text.
fn cells(row: &Iteration<'_>) -> [String; 7] {
    let shown = |value: Option<&dyn ToString>| value.map(ToString::to_string).unwrap_or_default();
    [
        row.number.to_owned(),
        row.role.to_owned(),
        row.event.to_owned(),
        shown(row.elapsed_s.as_ref().map(|value| value as &dyn ToString)),
        shown(row.exit_code.as_ref().map(|value| value as &dyn ToString)),
        shown(row.timed_out.as_ref().map(|value| value as &dyn ToString)),
        row.outcome.to_owned(),
    ]
}

fn markdown(rows: &[Iteration<'_>]) -> String {
    if rows.is_empty() {
        return "No metrics data available.\n".to_owned();
    }
    let mut out = format!("| {} |\n", COLUMNS.join(" | "));
    out.push_str(&"|---".repeat(COLUMNS.len()));
    out.push_str("|\n");
    for row in rows {
        let cells = cells(row).map(|cell| cell.replace('|', "\\|").replace(['\n', '\r'], " "));
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    let seconds: u64 = rows.iter().filter_map(|row| row.elapsed_s).sum();
    let failed = rows.iter().filter(|row| row.exit_code.is_some_and(|code| code != 0)).count();
    let timed_out = rows.iter().filter(|row| row.timed_out == Some(true)).count();
    let _ = writeln!(
        out,
        "\nSummary: {} iterations, {seconds} s, {failed} with a failing exit, {timed_out} timed out",
        rows.len()
    );
    out
}

fn csv(rows: &[Iteration<'_>]) -> String {
    let mut out = COLUMNS.join(",") + "\r\n";
    for row in rows {
        out.push_str(&cells(row).map(|cell| csv_cell(&cell)).join(","));
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

fn json(rows: &[Iteration<'_>]) -> String {
    let rows: Vec<_> = rows.iter().map(json_row).collect();
    serde_json::to_string_pretty(&rows).unwrap_or_default() + "\n"
}

fn json_row(row: &Iteration<'_>) -> serde_json::Value {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    // A number where it is one: journals of other writers may number their iterations differently.
    let number: serde_json::Value =
        row.number.parse::<u64>().map_or_else(|_| row.number.into(), Into::into);
    serde_json::json!({
        "iteration": number,
        "role": text(row.role),
        "event": text(row.event),
        "elapsed_s": row.elapsed_s,
        "exit_code": row.exit_code,
        "timed_out": row.timed_out,
        "outcome": text(row.outcome),
    })
}
