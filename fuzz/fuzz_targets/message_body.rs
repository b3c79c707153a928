//! Any text can be read as the body of a review. One that is accepted reads back identically.
#![no_main]

use autoloop_core::message::{Body, Message, Type};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &str)| {
    let (kind, text) = input;
    let kinds = [Type::ReviewRequest, Type::ReviewFeedback, Type::ReviewAddressed, Type::ReviewLgtm];
    let kind = kinds[usize::from(kind) % kinds.len()];
    let Some(body) = read(kind, text) else { return };
    let written = body.print();
    let again = read(kind, &written).unwrap_or_else(|| panic!("{written}"));
    // Places differ, so the texts are compared.
    assert_eq!(again.print(), written);
});

fn read(kind: Type, body: &str) -> Option<Body> {
    let quoted = serde_json::to_string(body).ok()?;
    let file = format!(
        "id: a\nfrom: claude\nto: codex\ntype: {kind}\npriority: P1\ncreated_at_utc: 2026-02-13T10:00:00Z\nsubject: s\nbody: {quoted}\n"
    );
    Message::read(file.as_bytes()).value.map(|message| message.body)
}
