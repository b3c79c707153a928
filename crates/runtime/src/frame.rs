//! Messages between two processes of this program, over a pipe or a socket.
//!
//! A message is a frame: one byte that names it, the length of its body in four bytes, and the body.
//! Bodies are numbers of eight bytes and byte strings behind their length. Both sides are the same
//! executable, so there are no versions; and arguments, variables and paths need not be UTF-8, which
//! is why this is not JSON.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

/// A name and a length.
const HEADER: usize = 5;

/// Writes one frame.
pub(crate) fn write_frame(pipe: &mut impl Write, name: u8, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len()).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidInput, "a message is larger than 4 GB")
    })?;
    let mut header = [name; HEADER];
    header[1..].copy_from_slice(&length.to_le_bytes());
    pipe.write_all(&header)?;
    pipe.write_all(body)
}

/// Reads one frame with a body of at most so many bytes; `None` when the other side went away before
/// it was complete.
pub(crate) fn read_frame(pipe: &mut impl Read, most: u32) -> io::Result<Option<(u8, Vec<u8>)>> {
    let mut header = [0; HEADER];
    if !fill(pipe, &mut header)? {
        return Ok(None);
    }
    let [name, length @ ..] = header;
    let length = u32::from_le_bytes(length);
    if length > most {
        return Err(garbled());
    }
    let length = u64::from(length);
    // Memory is taken as bytes arrive: a garbled length does not ask for 4 GB.
    let mut body = Vec::with_capacity(usize::try_from(length).unwrap_or_default().min(64 * 1024));
    pipe.take(length).read_to_end(&mut body)?;
    Ok((body.len() as u64 == length).then_some((name, body)))
}

/// `false` when the pipe ends first.
fn fill(pipe: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match pipe.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// What came is no message.
pub(crate) fn garbled() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not what this program says to itself")
}

/// A body to be written.
#[derive(Default)]
pub(crate) struct Body(pub(crate) Vec<u8>);

impl Body {
    pub(crate) fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    pub(crate) fn signed(&mut self, number: i32) {
        self.number(u64::from(number.cast_unsigned()));
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
    }

    pub(crate) fn os(&mut self, text: impl AsRef<OsStr>) {
        self.bytes(text.as_ref().as_bytes());
    }

    pub(crate) fn list<T>(&mut self, items: &[T], mut one: impl FnMut(&mut Self, &T)) {
        self.number(items.len() as u64);
        for item in items {
            one(self, item);
        }
    }

    pub(crate) fn maybe<T>(&mut self, item: Option<&T>, one: impl FnMut(&mut Self, &T)) {
        self.list(item.map_or(&[], std::slice::from_ref), one);
    }

    pub(crate) fn time(&mut self, time: Duration) {
        self.number(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }
}

/// A body to be read.
pub(crate) struct Text<'a>(pub(crate) &'a [u8]);

impl Text<'_> {
    pub(crate) fn number(&mut self) -> io::Result<u64> {
        let (number, rest) = self.0.split_first_chunk().ok_or_else(garbled)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*number))
    }

    pub(crate) fn small(&mut self) -> io::Result<u32> {
        u32::try_from(self.number()?).map_err(|_| garbled())
    }

    pub(crate) fn signed(&mut self) -> io::Result<i32> {
        Ok(self.small()?.cast_signed())
    }

    pub(crate) fn bytes(&mut self) -> io::Result<Vec<u8>> {
        let length = usize::try_from(self.number()?).map_err(|_| garbled())?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(garbled)?;
        self.0 = rest;
        Ok(bytes.to_vec())
    }

    pub(crate) fn os(&mut self) -> io::Result<OsString> {
        self.bytes().map(OsString::from_vec)
    }

    pub(crate) fn path(&mut self) -> io::Result<PathBuf> {
        self.os().map(PathBuf::from)
    }

    pub(crate) fn string(&mut self) -> io::Result<String> {
        String::from_utf8(self.bytes()?).map_err(|_| garbled())
    }

    pub(crate) fn list<T>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> io::Result<T>,
    ) -> io::Result<Vec<T>> {
        let count = self.number()?;
        (0..count).map(|_| one(self)).collect()
    }

    pub(crate) fn maybe<T>(
        &mut self,
        one: impl FnMut(&mut Self) -> io::Result<T>,
    ) -> io::Result<Option<T>> {
        Ok(self.list(one)?.pop())
    }

    pub(crate) fn time(&mut self) -> io::Result<Duration> {
        self.number().map(Duration::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_is_too_long_is_refused_before_its_body_is_read() {
        let mut pipe = Vec::new();
        write_frame(&mut pipe, b'x', b"four").unwrap();
        assert_eq!(read_frame(&mut &pipe[..], 4).unwrap(), Some((b'x', b"four".to_vec())));
        // Not even the body has to be there.
        let refused = read_frame(&mut &pipe[..HEADER], 3).unwrap_err();
        insta::assert_snapshot!(refused, @"not what this program says to itself");
    }
}
