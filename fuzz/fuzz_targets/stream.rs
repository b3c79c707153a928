//! The output of an agent, as a stream of events.
//!
//! Any input has an answer or a reason why there is none, and the result does not depend on the
//! pieces in which the stream arrives.
#![no_main]

use autoloop_core::agents::{Answer, Stream};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|stream: &[u8]| {
    let step = stream.first().map_or(1, |byte| usize::from(*byte) + 1);
    for client in [Stream::Claude, Stream::Codex, Stream::Pi] {
        let whole = decode(client, stream, usize::MAX);
        assert_eq!(decode(client, stream, step), whole);
        let _ = whole.told();
    }
});

fn decode(client: Stream, stream: &[u8], step: usize) -> Answer {
    let mut decoder = client.decoder().expect("all of them print a stream");
    stream.chunks(step).for_each(|piece| decoder.push(piece));
    decoder.finish()
}
