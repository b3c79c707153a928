//! One line of a journal, of any writer.
//!
//! Compares the two readers with each other and the printer with the parser, and checks that
//! recovery of glued records loses no record, hides no byte and invents nothing.
#![no_main]

use std::borrow::Cow;

use autoloop_core::record::{BadLine, Body, Glance, Record, parse, pieces, print};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|journal: &[u8]| {
    let lines: Vec<&[u8]> = journal.split(|byte| *byte == b'\n').collect();
    for line in &lines {
        both_readers_agree(line);
        pieces_cover_the_line(line);
        if let Ok(record) = parse(line) {
            let printed = printing_changes_nothing(&record);
            a_glued_record_is_found(lines[0], &printed);
            a_glued_record_is_found(&printed[..line.len() % printed.len()], &printed);
        }
    }
});

/// The fast reader and the strict one see the same record, or the fast one accepts only its
/// documented deviations.
fn both_readers_agree(line: &[u8]) {
    let glance = Glance::read(line);
    // Whatever the record means, reading it must be possible.
    let _ = glance.as_ref().map(Glance::event);
    match (parse(line), glance) {
        (Ok(record), Ok(glance)) => same_record(&record, &glance),
        (Ok(record), Err(bad)) => panic!("only the strict reader sees {record:?}: {bad}"),
        (Err(bad @ (BadLine::NotUtf8 { .. } | BadLine::NotJson { .. })), Ok(glance)) => {
            match parse(&mended(line)) {
                Ok(record) => same_record(&record, &glance),
                Err(_) => panic!("{bad}, but the quick reader sees {glance:?}"),
            }
        }
        (Err(bad), Ok(glance)) => panic!("{bad}, but the quick reader sees {glance:?}"),
        (Err(_), Err(_)) => {}
    }
}

fn same_record(record: &Record, glance: &Glance<'_>) {
    assert_eq!(glance.run(), record.run);
    assert_eq!(glance.iteration(), record.iteration);
    assert_eq!(glance.topic(), record.topic.as_str());
    assert_eq!(glance.ts().as_deref(), record.ts.as_deref());
    match &record.body {
        Body::System(fields) => {
            assert_eq!((glance.payload(), glance.source()), (None, None));
            for (name, value) in fields {
                assert_eq!(glance.field(name).map(Cow::into_owned), value.to_text(), "{name:?}");
            }
        }
        Body::Agent { payload, source } => {
            assert_eq!(glance.payload().as_deref(), Some(payload.as_str()));
            assert_eq!(glance.source().as_deref(), Some(source.as_str()));
            assert_eq!(glance.field("output"), None);
        }
    }
}

/// Repairs what the fast reader accepts, and nothing else: bytes that are not UTF-8, and halves of
/// surrogate pairs.
fn mended(line: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(line);
    let mut out = String::new();
    let mut rest = text.as_ref();
    while let Some(at) = rest.find('\\') {
        let (plain, escape) = rest.split_at(at);
        out.push_str(plain);
        let unit = |from: usize| {
            let digits = escape.get(from..from + 6)?.strip_prefix("\\u")?;
            let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)
        };
        let taken = match (unit(0), unit(6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                out.push('\u{fffd}');
                rest = &escape[6..];
                continue;
            }
            (Some(_), _) => 6,
            (None, _) => 1 + escape[1..].chars().next().map_or(0, char::len_utf8),
        };
        out.push_str(&escape[..taken]);
        rest = &escape[taken..];
    }
    out.push_str(rest);
    out.into_bytes()
}

/// Pieces follow each other in the line, only blanks are between them, and each piece reported as a
/// record is one by itself.
fn pieces_cover_the_line(line: &[u8]) {
    let found = pieces(line);
    let mut end = 0;
    for piece in &found {
        assert!(piece.at >= end, "pieces overlap");
        assert!(is_blank(&line[end..piece.at]), "bytes before a piece are hidden");
        end = piece.at + piece.bytes.len();
        assert_eq!(&line[piece.at..end], piece.bytes);
        match (&piece.content, Glance::read(piece.bytes)) {
            (Ok(said), Ok(seen)) => {
                assert_eq!((said.run(), said.topic()), (seen.run(), seen.topic()));
                assert_eq!(said.payload(), seen.payload());
            }
            (Err(_), Err(_)) => {}
            (said, seen) => panic!("a piece is {said:?}, by itself {seen:?}"),
        }
    }
    assert!(is_blank(&line[end..]), "bytes behind the last piece are hidden");
    if parse(line).is_ok() {
        assert_eq!(found.len(), 1, "a record was taken apart");
    }
}

/// Only what may surround a record: white space, a byte order mark, NULs.
fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| b" \t\r\0\xef\xbb\xbf".contains(byte))
}

/// The printed record is one line that is read back as the same; returned without its newline.
fn printing_changes_nothing(record: &Record) -> Vec<u8> {
    let mut printed = Vec::new();
    print(record, &mut printed);
    assert_eq!(printed.pop(), Some(b'\n'));
    assert!(printed.iter().all(|byte| *byte >= b' '), "a control character was printed");
    let again = parse(&printed);
    assert_eq!(again.as_ref(), Ok(record), "{}", String::from_utf8_lossy(&printed));
    both_readers_agree(&printed);
    printed
}

/// A record directly after something torn is found, whatever was torn.
fn a_glued_record_is_found(torn: &[u8], printed: &[u8]) {
    let line = [torn, printed].concat();
    let found = pieces(&line);
    let last = found.last().expect("a printed record is not blank");
    assert_eq!(
        (last.bytes, last.content.is_ok()),
        (printed, true),
        "{}",
        String::from_utf8_lossy(&line)
    );
}
