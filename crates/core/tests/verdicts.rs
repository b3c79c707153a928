//! What reviewers printed, and what it has to be taken for: `corpus/verdicts.jsonl`, a case in every line.
//!
//! The cases were collected for the contract of the slot review: `output` is what a reviewer printed, `why`
//! says what is special about it. Where the contract leaves something open (`ambiguous`), its literal words
//! hold: one JSON value from the first `{`, whatever follows.

use autoloop_core::verdict::{self, Printed};
use serde_json::Value;

#[test]
fn every_case_is_taken_for_what_it_is() {
    let cases = include_str!("corpus/verdicts.jsonl");
    let mut wrong = Vec::new();
    for line in cases.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let result = verdict::read(case["output"].as_str().unwrap());
        let printed: Value = serde_json::from_str(&Printed(&result).to_string()).unwrap();
        let is_told = printed["reason"].is_string() == result.is_err();
        let is_right = printed["verdict"] == case["expected"]
            && printed["followUpPrompt"] == case["followUpPrompt"];
        if !is_right || !is_told {
            wrong.push(format!("{}: {} gave {printed}", case["id"], case["why"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cases.lines().count() > 150, "they are all there");
}
