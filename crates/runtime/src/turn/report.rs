//! The end of a turn, for records and for people.

use std::time::Duration;

use autoloop_core::agents::Outcome;
use autoloop_core::plan::BackendPlan;
use autoloop_core::prompt::slot::CAP;
use autoloop_core::record::BackendUsage;
use autoloop_core::text::Shortened;

use crate::world::{Ending, Finished};

/// Maximum number of characters of an output in the record of a stop.
const TAIL_SHOWN: usize = 500;
/// Maximum number of characters of the line that says how much is missing.
pub(crate) const LINE: usize = 60;

/// The output, shortened so that a reviewer is shown all of it, including the line that says how much is missing.
pub(crate) fn recorded(finished: &Finished) -> String {
    let output = match (&finished.ending, &finished.answer) {
        (Ending::Exited(_), None) => finished.stdout.parts(),
        _ => Shortened { head: said(finished), ..Shortened::default() },
    };
    output.shortened(CAP - LINE).to_string()
}

/// The answer of the agent, or why there is none.
pub(crate) fn said(finished: &Finished) -> String {
    match (&finished.ending, &finished.answer) {
        (Ending::Exited(_), None) => finished.stdout.text(),
        (Ending::Exited(_), Some(answer)) if answer.outcome == Outcome::Silent => {
            let complaint = tail(finished.stderr.text().trim_end());
            [answer.told(), complaint].join("\n").trim_end().to_owned()
        }
        (Ending::Exited(_), Some(answer)) => answer.told(),
        (Ending::NeverStarted(why), _) => why.message.clone(),
        (Ending::Lost(why), _) => why.clone(),
    }
}

/// The end of what the agent said.
pub(crate) fn said_last(finished: &Finished) -> String {
    match (&finished.ending, &finished.answer) {
        // A long output is not copied for its end.
        (Ending::Exited(_), None) => tail(&finished.stdout.end()),
        _ => tail(&said(finished)),
    }
}

/// The usage, where the agent reports it.
pub(crate) fn usage(
    finished: &Finished,
    backend: &BackendPlan,
    role: &str,
) -> Option<BackendUsage> {
    BackendUsage::of_answer(finished.answer.as_ref()?, backend.model.as_deref(), role)
}

pub(crate) fn tail(text: &str) -> String {
    let skipped = text.chars().count().saturating_sub(TAIL_SHOWN);
    text.chars().skip(skipped).collect()
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Remarks for the user about the end of a job.
pub(crate) fn notes(finished: &Finished) -> Vec<String> {
    let mut notes = Vec::new();
    if let Ending::NeverStarted(why) = &finished.ending {
        notes.push(why.message.clone());
    }
    let output = &finished.stdout;
    if output.spooled < output.bytes && !matches!(finished.ending, Ending::NeverStarted(_)) {
        let (kept, all) = (output.spooled, output.bytes);
        notes.push(format!("the agent printed {all} bytes, only the first {kept} are stored"));
    }
    let unreadable = finished.answer.as_ref().map_or(0, |answer| answer.unreadable);
    if unreadable > 0 {
        notes.push(format!("{unreadable} lines of the agent's stream could not be read"));
    }
    if !finished.orphans.kept.is_empty() {
        notes.push(format!("the agent left processes behind: {:?}", finished.orphans.kept));
    }
    if !finished.orphans.survivors.is_empty() {
        notes.push(format!("processes could not be ended: {:?}", finished.orphans.survivors));
    }
    notes
}

#[cfg(test)]
mod tests {
    use autoloop_core::prompt::slot::{ReviewOrder, review};

    use super::*;
    use crate::world::{Exit, Output};

    #[test]
    fn a_record_says_how_much_of_a_long_output_it_lacks_and_a_reviewer_is_told_the_same() {
        let mut finished = Finished::new(Ending::Exited(Exit::Code(0)));
        let (head, tail) = ("a".repeat(60_000).into(), "z".repeat(60_000).into());
        finished.stdout = Output { head, tail, bytes: 7_000_000, ..Output::default() };
        let record = recorded(&finished);
        let line = format!("\n[{} characters left out]\n", 7_000_000 - 49_940);
        assert!(record.contains(&line), "{}", record.len());
        let told = review(&ReviewOrder { output: record.clone(), ..ReviewOrder::default() });
        assert!(told.contains(&record));
        finished.stdout = Output { head: "short".into(), bytes: 5, ..Output::default() };
        assert_eq!(recorded(&finished), "short");
    }
}
