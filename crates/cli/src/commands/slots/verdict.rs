//! `autoloop slots verdict`: parses the output of a reviewer.

use std::io::{self, BufWriter, Read, Write};
use std::path::PathBuf;

use autoloop_core::agents::Stream;
use autoloop_core::format::write_json_line;
use autoloop_core::verdict::{Printed, Reader, Ruling, Verdict, Violation};
use autoloop_runtime::files::{self, Links};
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::failure::{Failure, Kind};

/// The default maximum size of an output that a run keeps.
const LONGEST: u64 = 256 * 1024 * 1024;
const PIECE: usize = 64 * 1024;

/// Parse the output of a reviewer and print its verdict.
///
/// Prints one JSON object with "verdict" ("pass", "drift" or "violation"), "followUpPrompt" and, for a
/// violation of the contract, the "reason". The exit code differs for each verdict, so that a prompt can be tried
/// out: claude -p "$(cat reviewer.md)" | autoloop slots verdict.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// File with the output of the reviewer [default: standard input, as with `-`].
    file: Option<PathBuf>,
    /// Client whose stream contains the final message, or plain text.
    #[arg(long, value_name = "CLIENT", default_value = Stream::Plain.name(), value_parser = client())]
    client: Stream,
}

fn client() -> impl TypedValueParser<Value = Stream> {
    PossibleValuesParser::new(Stream::WORDS)
        .try_map(|word| Stream::from_word(&word).ok_or("unknown client"))
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let reader = Reader::new(args.client);
    let file = args.file.as_ref().filter(|path| path.as_os_str() != "-");
    let read = match file {
        None => read(reader, io::stdin().lock()),
        Some(path) => files::open_here(path, Links::Follow, LONGEST)
            .map_err(io::Error::from)
            .and_then(|file| read(reader, file)),
    };
    // A usage failure, because the exit code of other failures means drift.
    let result = read.map_err(|error| {
        let what = match file {
            None => "standard input".to_owned(),
            Some(path) => path.display().to_string(),
        };
        Failure::usage(format!("cannot read {what}: {error}"))
            .hint("name the file with the output of the reviewer, or pipe the output in")
    })?;
    let mut out = BufWriter::new(io::stdout().lock());
    write_json_line(&Printed::new(&result), &mut out)?;
    writeln!(out)?;
    out.flush()?;
    match result {
        Ok(Verdict { ruling: Ruling::Pass, .. }) => Ok(()),
        Ok(Verdict { ruling: Ruling::Drift, .. }) => Err(Failure::failed("the verdict is drift")),
        Err(violation) => Err(complain(&violation, args.client)),
    }
}

fn read(mut reader: Reader, mut from: impl Read) -> io::Result<Result<Verdict, Violation>> {
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return Ok(reader.finish()),
            Ok(length) => reader.push(&piece[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn complain(violation: &Violation, client: Stream) -> Failure {
    let hint = match violation {
        Violation::Unanswered(_) => {
            format!("if this is not the stream of {client}, name another client with --client")
        }
        violation if violation.looks_like_a_stream() => {
            "this looks like the stream of a client: name it with --client".to_owned()
        }
        _ => "the reviewer must print {\"verdict\": \"pass\" or \"drift\", \"followUpPrompt\": \"…\"}, \
              with no other '{' before it"
            .to_owned(),
    };
    Failure::new(Kind::Refused, format!("no verdict: {violation}")).hint(hint)
}
