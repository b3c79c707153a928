//! Any bytes can be read as a message. One that is accepted reads back identically after it was written.
#![no_main]

use autoloop_core::message::{Header, Message};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = Header::of_head(bytes);
    let checked = Message::read(bytes);
    assert_eq!(checked.value.is_some(), checked.problems.is_accepted());
    let Some(message) = checked.value else { return };
    let written = message.envelope.print();
    let again = Message::read(written.as_bytes());
    let envelope = again.value.unwrap_or_else(|| panic!("{written}\n{:?}", again.problems)).envelope;
    assert_eq!(envelope, message.envelope);
});
