//! The output of a reviewer, plain or in the stream of a client.
//!
//! Any input has a verdict or a reason why there is none. The result does not depend on the pieces
//! in which the output arrives, and printing and reading it again returns the same.
#![no_main]

use autoloop_core::agents::Stream;
use autoloop_core::format::json_line;
use autoloop_core::verdict::{self, Printed, Reader, Verdict, Violation};
use libfuzzer_sys::fuzz_target;

const CLIENTS: [Stream; 7] = [
    Stream::Plain,
    Stream::Claude,
    Stream::Codex,
    Stream::Gemini,
    Stream::Opencode,
    Stream::Pi,
    Stream::Acp,
];

fuzz_target!(|output: &[u8]| {
    let step = output.first().map_or(1, |byte| usize::from(*byte) + 1);
    for client in CLIENTS {
        let whole = read(client, output, usize::MAX);
        assert_eq!(read(client, output, step), whole);
        let again = verdict::read(&json_line(&Printed::new(&whole)));
        assert_eq!(again.ok(), whole.ok());
    }
    let text = String::from_utf8_lossy(output);
    assert_eq!(verdict::read(&text).ok(), read(Stream::Plain, output, step).ok());
});

fn read(client: Stream, output: &[u8], step: usize) -> Result<Verdict, Violation> {
    let mut reader = Reader::new(client);
    output.chunks(step).for_each(|piece| reader.push(piece));
    reader.finish()
}
