//! Finds the records in a line, also in a torn one.
//!
//! A writer that dies in the middle of a record leaves a torn line. Our own writers end it before they continue;
//! others append to it, and their record shares a line with the fragment. `{"run": "` begins a record and occurs
//! nowhere else in one, so the line can be split again.

use memchr::memmem;

use super::{BadLine, Glance};

const BEGINNING: &[u8] = b"{\"run\": \"";
const BOM: &[u8] = b"\xef\xbb\xbf";

/// A part of a line: a record, or a fragment of one.
#[derive(Debug)]
pub struct Piece<'a> {
    pub at: usize,
    pub bytes: &'a [u8],
    pub content: Result<Glance<'a>, BadLine>,
}

/// Splits a line, given without its newline, into records. A blank line has none; nearly every
/// other line has one.
pub fn pieces(line: &[u8]) -> Vec<Piece<'_>> {
    let (at, bytes) = trim(line);
    if bytes.is_empty() {
        return Vec::new();
    }
    let whole = Piece { at, bytes, content: Glance::read(bytes) };
    if whole.content.is_ok() {
        return vec![whole];
    }
    let mut cuts: Vec<usize> = memmem::find_iter(bytes, BEGINNING).collect();
    if cuts.first().is_none_or(|&first| first > 0) {
        cuts.insert(0, 0);
    }
    if cuts.len() == 1 {
        return vec![whole];
    }
    cuts.push(bytes.len());
    cuts.windows(2)
        .map(|cut| (cut[0], trim(&bytes[cut[0]..cut[1]])))
        .filter(|(_, (_, part))| !part.is_empty())
        .map(|(from, (skipped, part))| Piece {
            at: at + from + skipped,
            bytes: part,
            content: Glance::read(part),
        })
        .collect()
}

/// Removes what may surround a record: white space, a carriage return, a byte order mark, and the
/// NULs that some file systems leave after a power cut.
fn trim(line: &[u8]) -> (usize, &[u8]) {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | 0);
    let without_mark = line.strip_prefix(BOM).unwrap_or(line);
    let blank = without_mark.iter().take_while(|byte| is_blank(byte)).count();
    let rest = &without_mark[blank..];
    let end = rest.iter().rposition(|byte| !is_blank(byte)).map_or(0, |last| last + 1);
    (line.len() - rest.len(), &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str =
        r#"{"run": "r", "iteration": "1", "topic": "a.b", "payload": "p", "source": "agent"}"#;

    fn topics(line: &str) -> Vec<Result<String, usize>> {
        pieces(line.as_bytes())
            .iter()
            .map(|piece| match &piece.content {
                Ok(glance) => Ok(glance.topic().into_owned()),
                Err(_) => Err(piece.at),
            })
            .collect()
    }

    #[test]
    fn blank_lines_and_harmless_surroundings() {
        assert!(topics("").is_empty());
        assert!(topics(" \t\r").is_empty());
        assert_eq!(topics(&format!("\u{feff}{RECORD}\r")), [Ok("a.b".into())]);
        assert_eq!(topics(&format!("\0\0\0{RECORD}")), [Ok("a.b".into())]);
    }

    #[test]
    fn a_record_glued_to_any_fragment_is_found() {
        for torn in 1..RECORD.len() {
            let line = format!("{}{RECORD}", &RECORD[..torn]);
            assert_eq!(topics(&line), [Err(0), Ok("a.b".into())], "torn at {torn}");
        }
        assert_eq!(topics(&format!("{RECORD}{RECORD}")), [Ok("a.b".into()), Ok("a.b".into())]);
    }

    #[test]
    fn nothing_is_invented() {
        let quoting =
            r#"{"run": "r", "iteration": "", "topic": "t", "payload": "{\u0022run\u0022: \u0022"#;
        assert_eq!(topics(quoting), [Err(0)]);
        assert_eq!(topics("no JSON at all"), [Err(0)]);
        // A hand-written record that holds another one is torn: what it held is not a record.
        let nested = format!(r#"{{"topic": "t", "inner": {RECORD}}}"#);
        assert_eq!(topics(&nested[..nested.len()]).len(), 2);
        assert!(topics(&nested).iter().all(Result::is_err));
    }
}
