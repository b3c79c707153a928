//! The outputs of reviewers and the expected verdicts: a case in every line of `corpus`.
//!
//! The cases of `verdicts.jsonl` were collected for the contract of the slot review: `output` is
//! what a reviewer printed, `why` says what is special about it. Where the contract leaves
//! something open (`ambiguous`), it is read literally: one JSON value from the first `{`, whatever
//! follows. Those of `more_verdicts.jsonl` were made up to break the reader.

#![expect(clippy::unwrap_used, reason = "a case that cannot be read fails the test")]

use autoloop_core::format::json_line;
use autoloop_core::verdict::{self, Printed};
use serde_json::Value;

fn check(cases: &str) {
    let mut wrong = Vec::new();
    for line in cases.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let result = verdict::read(case["output"].as_str().unwrap());
        let printed: Value = serde_json::from_str(&json_line(&Printed::new(&result))).unwrap();
        let is_told = printed["reason"].is_string() == result.is_err();
        let is_right = printed["verdict"] == case["expected"]
            && printed["followUpPrompt"] == case["followUpPrompt"];
        if !is_right || !is_told {
            wrong.push(format!("{case} gave {printed}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_case_is_taken_for_what_it_is() {
    let (collected, more) =
        (include_str!("corpus/verdicts.jsonl"), include_str!("corpus/more_verdicts.jsonl"));
    check(collected);
    check(more);
    let counts = (collected.lines().count(), more.lines().count());
    assert!(counts.0 > 150 && counts.1 > 80, "they are all there: {counts:?}");
}
