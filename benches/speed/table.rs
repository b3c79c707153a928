//! The table that is printed.

use std::fmt::{self, Write};
use std::time::Duration;

use crate::Fallible;
use crate::bench::Case;

/// The target of a row.
#[derive(Clone, Copy)]
pub(crate) enum Reach {
    /// At most so many times what it is compared with.
    AtMost(f64),
    /// At least so many times what it is compared with.
    AtLeast(f64),
    /// At most this time.
    Within(Duration),
    /// At most so much more than what it is compared with.
    Above(Duration),
    /// At most so many bytes.
    Inside(u64),
    /// At most so many.
    AsMany(u64),
    /// No target: for information.
    Nothing,
}

/// What was measured.
#[derive(Clone, Copy)]
pub(crate) struct Finding {
    pub(crate) ours: Quantity,
    pub(crate) theirs: Option<Quantity>,
}

/// A measured amount.
#[derive(Clone, Copy)]
pub(crate) enum Quantity {
    Time(Duration),
    /// Records a second.
    Rate(f64),
    Bytes(u64),
    Count(u64),
}

/// A row, measured or not.
pub(crate) struct Row {
    pub(crate) case: &'static Case,
    pub(crate) finding: Fallible<Finding>,
}

impl Quantity {
    #[expect(clippy::cast_precision_loss, reason = "a ratio of sizes needs no more than 53 bits")]
    fn number(self) -> f64 {
        match self {
            Quantity::Time(time) => time.as_secs_f64(),
            Quantity::Rate(rate) => rate,
            Quantity::Bytes(number) | Quantity::Count(number) => number as f64,
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantity::Time(time) => write!(f, "{:.3} ms", time.as_secs_f64() * 1e3),
            Quantity::Rate(rate) => write!(f, "{rate:.0}/s"),
            Quantity::Bytes(_) => write!(f, "{:.1} MB", self.number() / 1e6),
            Quantity::Count(count) => write!(f, "{count}"),
        }
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reach::AtMost(times) => write!(f, "≤ {times} ×"),
            Reach::AtLeast(times) => write!(f, "≥ {times} ×"),
            Reach::Within(time) => write!(f, "≤ {} ms", time.as_millis()),
            Reach::Above(time) => write!(f, "≤ {} ms more", time.as_millis()),
            Reach::Inside(bytes) => write!(f, "≤ {} MB", bytes / 1_000_000),
            Reach::AsMany(count) => write!(f, "≤ {count}"),
            Reach::Nothing => write!(f, "–"),
        }
    }
}

impl Finding {
    /// A figure without a comparison.
    pub(crate) fn alone(ours: Quantity) -> Finding {
        Finding { ours, theirs: None }
    }

    fn ratio(&self) -> Option<f64> {
        self.theirs.map(|theirs| self.ours.number() / theirs.number())
    }

    fn verdict(&self, reach: Reach) -> &'static str {
        let is_reached = match (reach, self.ratio(), self.ours) {
            (Reach::AtMost(times), Some(ratio), _) => ratio <= times,
            (Reach::AtLeast(times), Some(ratio), _) => ratio >= times,
            (Reach::Within(most), _, Quantity::Time(time)) => time <= most,
            (Reach::Above(most), Some(_), Quantity::Time(time)) => {
                let theirs = self.theirs.map(Quantity::number).unwrap_or_default();
                time.as_secs_f64() <= theirs + most.as_secs_f64()
            }
            (Reach::Inside(most), _, Quantity::Bytes(bytes)) => bytes <= most,
            (Reach::AsMany(most), _, Quantity::Count(count)) => count <= most,
            _ => return "–",
        };
        if is_reached { "ok" } else { "missed" }
    }
}

const HEADINGS: [&str; 7] = ["row", "what", "against", "measured", "ratio", "reach", ""];

impl Row {
    fn cells(&self) -> [String; 7] {
        let Case { name, what, against, reach, .. } = self.case;
        let (measured, ratio, verdict) = match &self.finding {
            Ok(finding) => (
                match finding.theirs {
                    Some(theirs) => format!("{} : {theirs}", finding.ours),
                    None => finding.ours.to_string(),
                },
                finding.ratio().map_or("–".to_owned(), |ratio| format!("{ratio:.2} ×")),
                finding.verdict(*reach).to_owned(),
            ),
            Err(error) => (format!("not measured: {error}"), "–".to_owned(), "–".to_owned()),
        };
        [
            (*name).to_owned(),
            (*what).to_owned(),
            (*against).to_owned(),
            measured,
            ratio,
            reach.to_string(),
            verdict,
        ]
    }
}

/// The rows as a readable Markdown table.
pub(crate) fn render(rows: &[Row]) -> String {
    let mut lines = vec![HEADINGS.map(str::to_owned)];
    lines.extend(rows.iter().map(Row::cells));
    let width =
        |column: usize| lines.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 7] = std::array::from_fn(width);
    let mut text = String::new();
    for (number, cells) in lines.iter().enumerate() {
        for (cell, width) in cells.iter().zip(widths) {
            let _ = write!(text, "| {cell:width$} ");
        }
        text.push_str("|\n");
        if number == 0 {
            for width in widths {
                let _ = write!(text, "|{}", "-".repeat(width + 2));
            }
            text.push_str("|\n");
        }
    }
    text
}
