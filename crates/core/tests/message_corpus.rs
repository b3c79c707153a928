//! Every message and packet of the corpus is accepted or refused as its manifest says.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::path::{Path, PathBuf};

use autoloop_core::message::{Message, Packet, Problems, gate};
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    file: String,
    kind: String,
    expected: String,
    expected_gate: Option<String>,
    strength: String,
    mutation: String,
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/messages")
}

fn cases() -> Vec<Case> {
    serde_json::from_slice(&std::fs::read(corpus().join("manifest.json")).unwrap()).unwrap()
}

/// The long messages are the usual ones with one long field.
fn bytes(case: &Case) -> Vec<u8> {
    let read = |file: &str| std::fs::read(corpus().join(file)).unwrap();
    let (base, field, length) = match case.file.as_str() {
        "messages/lax_comment_2mb.yaml" => ("ok_review_request", "#", 2_000_000),
        "messages/lax_context_keys_1mb.yaml" => ("ok_review_request", "context_keys:", 1_000_000),
        "messages/lax_related_packet_100k.yaml" => {
            ("ok_review_request", "related_packet:", 100_000)
        }
        "messages/lax_model_100k.yaml" => ("ok_review_feedback", "model:", 100_000),
        file => return read(file),
    };
    let mut bytes = read(&format!("messages/{base}.yaml"));
    bytes.extend_from_slice(format!("{field} {}\n", "x".repeat(length)).as_bytes());
    bytes
}

/// What contradicts the manifest; an open case contradicts nothing.
fn contradiction(case: &Case, problems: &Problems) -> Option<String> {
    let is_fine = match (case.strength.as_str(), case.expected.as_str()) {
        ("either", _) => true,
        (_, "accept") => problems.is_accepted(),
        ("should", "reject") => !problems.is_accepted() || !problems.warnings.is_empty(),
        _ => !problems.is_accepted(),
    };
    let told =
        || format!("{} ({}): {} expected: {problems:#?}", case.file, case.mutation, case.expected);
    (!is_fine).then(told)
}

#[test]
fn messages_and_packets_are_judged_as_the_manifest_says() {
    let mut wrong = Vec::new();
    let mut judged = 0;
    for case in cases() {
        let problems = match case.kind.as_str() {
            "message" => Message::read(&bytes(&case)).problems,
            "findings_packet" => {
                let checked = Packet::read(&bytes(&case));
                let reasons = checked.value.as_ref().map(|packet| gate(packet, None));
                let is_open = reasons.as_ref().is_some_and(Vec::is_empty);
                let expected = case.expected_gate.as_deref() == Some("pass");
                // An invalid packet is closed, whatever it would be without its defect.
                if case.strength == "must" && case.expected == "accept" && is_open != expected {
                    wrong.push(format!("{} ({}): gate {reasons:?}", case.file, case.mutation));
                }
                assert!(expected || !is_open || case.strength == "either", "{}", case.file);
                checked.problems
            }
            _ => continue,
        };
        judged += 1;
        wrong.extend(contradiction(&case, &problems));
    }
    assert_eq!(judged, 366);
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}
