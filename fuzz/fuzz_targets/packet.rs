//! Any bytes can be read as a findings packet. One that is accepted has the same gate after it was written.
#![no_main]

use autoloop_core::message::{Packet, gate};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let checked = Packet::read(bytes);
    assert_eq!(checked.value.is_some(), checked.problems.is_accepted());
    let Some(packet) = checked.value else { return };
    let written = packet.print();
    let again = Packet::read(written.as_bytes());
    let again = again.value.unwrap_or_else(|| panic!("{written}\n{:?}", again.problems));
    assert_eq!(gate(&again, None), gate(&packet, None));
    assert_eq!(again.print(), written);
});
