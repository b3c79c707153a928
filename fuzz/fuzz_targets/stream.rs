//! The output of an agent, as a stream of events of each client.
//!
//! Any input has an answer or a reason why there is none, and the result does not depend on the pieces in which the
//! stream arrives. What a stream says about an error, and what a person is shown of it, can be read whatever it is.
#![no_main]

use autoloop_core::agents::{
    AcpEvent, Answer, ClientError, Outcome, Stream, said_in, transcript,
};
use libfuzzer_sys::fuzz_target;

const CLIENTS: [Stream; 6] =
    [Stream::Claude, Stream::Codex, Stream::Gemini, Stream::Opencode, Stream::Pi, Stream::Acp];

fuzz_target!(|stream: &[u8]| {
    let step = stream.first().map_or(1, |byte| usize::from(*byte) + 1);
    for client in CLIENTS {
        let whole = decode(client, stream, usize::MAX);
        assert_eq!(decode(client, stream, step), whole);
        let _ = whole.told();
        if let Outcome::Failed(error) = whole.outcome {
            assert!(!error.class.is_transient() || !error.class.is_permanent());
        }
    }
    let text = String::from_utf8_lossy(stream);
    let _ = (said_in(&text), transcript(&text));
    let _ = ClientError::from(&*text);
    if let Ok(data) = serde_json::from_slice(stream) {
        let _ = AcpEvent::refusal(i64::from(step as u32), &text, &data);
    }
});

fn decode(client: Stream, stream: &[u8], step: usize) -> Answer {
    let mut decoder = client.decoder().expect("all of them print a stream");
    stream.chunks(step).for_each(|piece| decoder.push(piece));
    decoder.finish()
}
