//! What the record of an agent holds of its output.

use autoloop_core::excerpt::Shortened;
use autoloop_core::prompt::slot::CAP;

use crate::drive::iteration::said;
use crate::world::{Ending, Finished};

/// So many characters has the line that says how much is missing, at most.
pub(super) const LINE: usize = 60;

/// The output, shortened. Reviewers are shown it as it is, so the line that says how much is missing has
/// to have room among the characters that they are shown.
pub(super) fn recorded(finished: &Finished) -> String {
    let output = match (&finished.ending, &finished.answer) {
        (Ending::Exited(_), None) => finished.stdout.parts(),
        _ => Shortened { head: said(finished), ..Shortened::default() },
    };
    output.shortened(CAP - LINE).to_string()
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
