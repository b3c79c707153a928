//! One row per iteration: roles, event, exit and outcome.

use std::collections::HashMap;
use std::fmt::Write;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

use crate::format::{NumberOrText, json_text};
use crate::record::{
    Amount, Event, EventInvalid, Glance, IterationFinish, IterationStart, WaveInvalid,
};
use crate::topic::TopicClass;
use crate::view::View;
use crate::views::usage::{Part, Sum, Usages};

/// The rows of every run in the journal, in the order in which the iterations began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "KeptMetrics")]
pub struct Metrics {
    names: Names,
    rows: Vec<Row>,
    /// The last row of each run.
    #[serde(skip)]
    open: HashMap<Name, usize>,
}

/// One iteration. Texts are interned, because a journal has few different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    run: Name,
    iteration: Name,
    role: Name,
    event: Name,
    outcome: Name,
    elapsed_s: Option<u64>,
    exit_code: Option<i32>,
    timed_out: Option<bool>,
}

impl Metrics {
    fn begin(&mut self, record: &Glance<'_>, start: &IterationStart<'_>) {
        let run = self.names.name(&record.run());
        let iteration = self.names.name(&record.iteration());
        let row = Row {
            run,
            iteration,
            role: self.names.name(&start.suggested_roles),
            event: self.names.name(""),
            outcome: self.names.name(""),
            elapsed_s: None,
            exit_code: None,
            timed_out: None,
        };
        let is_restart = |open: &&usize| {
            let open = &self.rows[**open];
            open.iteration == iteration && open.exit_code.is_none()
        };
        match self.open.get(&run).filter(is_restart) {
            // A resumed run starts its unfinished iteration a second time.
            Some(&open) => self.rows[open] = row,
            None => {
                self.open.insert(run, self.rows.len());
                self.rows.push(row);
            }
        }
    }

    /// The row of a record: the last one of its run.
    fn row(&mut self, record: &Glance<'_>) -> Option<&mut Row> {
        let run = record.run();
        // Runs seldom overlap, so it is nearly always the last row of all.
        let is_last = self.rows.last().is_some_and(|last| self.names.text(last.run) == run);
        if is_last {
            return self.rows.last_mut();
        }
        let row = *self.open.get(&self.names.find(&run)?)?;
        self.rows.get_mut(row)
    }

    fn set_outcome(&mut self, record: &Glance<'_>, outcome: &str) {
        let outcome = self.names.name(outcome);
        if let Some(row) = self.row(record) {
            row.outcome = outcome;
        }
    }

    /// An event of the iteration was refused. The refusals of the metareview before the next iteration
    /// do not count.
    fn reject(&mut self, record: &Glance<'_>, topic: &str) {
        let Some(iteration) = self.names.find(&record.iteration()) else { return };
        if self.row(record).is_some_and(|row| row.iteration == iteration) {
            self.set_outcome(record, &format!("rejected:{topic}"));
        }
    }

    fn finish(&mut self, record: &Glance<'_>, finish: &IterationFinish<'_>) {
        let [none, plain, routed] =
            ["", "continue", "continue:routed_event"].map(|name| self.names.name(name));
        let Some(iteration) = self.names.find(&record.iteration()) else { return };
        let Some(row) = self.row(record).filter(|row| row.iteration == iteration) else { return };
        row.elapsed_s = finish.elapsed_s.map(|Amount(seconds)| seconds);
        row.exit_code = finish.exit_code.known();
        row.timed_out = finish.timed_out;
        if row.outcome == none {
            row.outcome = if row.event == none { plain } else { routed };
        }
    }

    fn note_event(&mut self, record: &Glance<'_>, topic: &str) {
        if TopicClass::of(topic) != TopicClass::Agent {
            return;
        }
        // Only shown topics are interned: agents choose them, and there may be millions.
        let iteration = self.names.find(&record.iteration());
        let is_open = |row: &Row| Some(row.iteration) == iteration && row.exit_code.is_none();
        if !self.row(record).is_some_and(|row| is_open(row)) {
            return;
        }
        let [event, none] = [topic, ""].map(|name| self.names.name(name));
        if let Some(row) = self.row(record) {
            row.event = event;
            // An accepted event replaces an earlier refusal.
            row.outcome = none;
        }
    }
}

#[derive(Deserialize)]
struct KeptMetrics(Names, Vec<Row>);

impl From<KeptMetrics> for Metrics {
    fn from(KeptMetrics(names, rows): KeptMetrics) -> Self {
        let open = rows.iter().enumerate().map(|(place, row)| (row.run, place)).collect();
        Metrics { names, rows, open }
    }
}

impl View for Metrics {
    const NAME: &'static str = "metrics";
    const VERSION: u32 = 3;

    fn apply(&mut self, record: &Glance<'_>) {
        if record.has_payload() {
            return self.note_event(record, &record.topic());
        }
        // `iteration.finish` tells how the agent ended, and these records are long.
        if record.topic().starts_with("backend.") {
            return;
        }
        match record.event() {
            Event::IterationStart(start) => self.begin(record, &start),
            Event::IterationFinish(finish) => self.finish(record, &finish),
            Event::EventInvalid(_) => self.reject(record, EventInvalid::TOPIC),
            Event::WaveInvalid(_) => self.reject(record, WaveInvalid::TOPIC),
            Event::LoopComplete(complete) => {
                self.set_outcome(record, &format!("complete:{}", complete.reason));
            }
            Event::LoopStop(stop) => self.set_outcome(record, &format!("stop:{}", stop.reason)),
            _ => {}
        }
    }
}

/// An index into [`Names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Name(u32);

/// Interned texts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<String>")]
struct Names {
    texts: Vec<String>,
    #[serde(skip)]
    places: HashMap<String, Name>,
}

impl From<Vec<String>> for Names {
    fn from(texts: Vec<String>) -> Self {
        let place = |(text, place): (&String, u32)| (text.clone(), Name(place));
        Names { places: texts.iter().zip(0..).map(place).collect(), texts }
    }
}

impl Names {
    fn name(&mut self, text: &str) -> Name {
        if let Some(&name) = self.places.get(text) {
            return name;
        }
        let name = Name(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        self.texts.push(text.to_owned());
        self.places.insert(text.to_owned(), name);
        name
    }

    fn find(&self, text: &str) -> Option<Name> {
        self.places.get(text).copied()
    }

    fn text(&self, name: Name) -> &str {
        self.texts.get(name.0 as usize).map_or("", String::as_str)
    }
}

/// The columns of both tables. The run is shown where there are several.
const COLUMNS: [&str; 8] =
    ["run", "iteration", "role", "event", "elapsed_s", "exit_code", "timed_out", "outcome"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Markdown,
    /// RFC 4180.
    Csv,
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

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Iteration<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<&'a str>,
    iteration: NumberOrText<'a>,
    role: Option<&'a str>,
    /// The last accepted event.
    event: Option<&'a str>,
    elapsed_s: Option<u64>,
    exit_code: Option<i32>,
    timed_out: Option<bool>,
    outcome: Option<&'a str>,
    /// `None` where no client reported it.
    #[serde(serialize_with = "as_facts")]
    usage: Option<Sum>,
}

impl Iteration<'_> {
    fn cells(&self) -> Vec<String> {
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let mut cells = vec![
            self.iteration.0.to_owned(),
            text(self.role),
            text(self.event),
            self.elapsed_s.map(|seconds| seconds.to_string()).unwrap_or_default(),
            self.exit_code.map(|code| code.to_string()).unwrap_or_default(),
            self.timed_out.map(|flag| flag.to_string()).unwrap_or_default(),
            text(self.outcome),
        ];
        if let Some(run) = self.run {
            cells.insert(0, run.to_owned());
        }
        cells
    }
}

impl Metrics {
    pub fn iterations<'a>(
        &'a self,
        run: Option<&'a str>,
        usages: &'a Usages,
    ) -> impl Iterator<Item = Iteration<'a>> {
        let known = |name| Some(self.names.text(name)).filter(|text| !text.is_empty());
        let rows = self.rows.iter();
        let rows = rows.filter(move |row| run.is_none_or(|run| run == self.names.text(row.run)));
        rows.map(move |row| Iteration {
            run: run.is_none().then(|| self.names.text(row.run)),
            iteration: NumberOrText(self.names.text(row.iteration)),
            role: known(row.role),
            event: known(row.event),
            elapsed_s: row.elapsed_s,
            exit_code: row.exit_code,
            timed_out: row.timed_out,
            outcome: known(row.outcome),
            usage: self.usage(row, usages),
        })
    }

    fn usage(&self, row: &Row, usages: &Usages) -> Option<Sum> {
        let iteration = self.names.text(row.iteration).parse().ok()?;
        usages.of_part(self.names.text(row.run), iteration, Part::Loop).known()
    }

    pub fn render(&self, run: Option<&str>, usages: &Usages, format: Format) -> String {
        let rows: Vec<_> = self.iterations(run, usages).collect();
        let columns = &COLUMNS[usize::from(run.is_some())..];
        match format {
            Format::Markdown => markdown(columns, &rows, &usages.total(run)),
            Format::Csv => csv(columns, &rows),
            Format::Json => json_text(&rows),
        }
    }
}

fn as_facts<S: Serializer>(usage: &Option<Sum>, to: S) -> Result<S::Ok, S::Error> {
    usage.map(|usage| usage.facts()).serialize(to)
}

/// The usage has no column where none is known.
fn markdown(columns: &[&str], rows: &[Iteration<'_>], total: &Sum) -> String {
    if rows.is_empty() {
        return "No metrics data available.\n".to_owned();
    }
    let is_known = rows.iter().any(|row| row.usage.is_some());
    let mut columns = columns.to_vec();
    columns.extend(is_known.then_some("usage"));
    let mut out = format!("| {} |\n{}|\n", columns.join(" | "), "|---".repeat(columns.len()));
    for row in rows {
        let cell = |cell: String| cell.replace('|', "\\|").replace(['\n', '\r'], " ");
        let usage = || row.usage.map(|usage| usage.to_string()).unwrap_or_default();
        let cells = row.cells().into_iter().chain(is_known.then(usage));
        let cells: Vec<String> = cells.map(cell).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
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
    if let Some(total) = total.known() {
        let _ = writeln!(out, "\nUsage with metareviews and branches: {total}");
    }
    out
}

/// As in the table, the usage has no columns where none is known: readers of the public format expect the others only.
fn csv(columns: &[&str], rows: &[Iteration<'_>]) -> String {
    let cell = |cell: String| match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    };
    let is_known = rows.iter().any(|row| row.usage.is_some());
    let usage_columns = if is_known { ",tokens,cost_usd,estimated" } else { "" };
    let mut out = columns.join(",") + usage_columns + "\r\n";
    for row in rows {
        let usage = |usage: Sum| {
            let Sum { total_tokens, cost, estimated, .. } = usage;
            [total_tokens.to_string(), cost.amount().to_string(), estimated.to_string()]
        };
        let usage = is_known.then(|| row.usage.map(usage).unwrap_or_default());
        let cells = row.cells().into_iter().chain(usage.into_iter().flatten());
        let cells: Vec<String> = cells.map(cell).collect();
        out.push_str(&(cells.join(",") + "\r\n"));
    }
    out
}

#[cfg(test)]
mod tests;
