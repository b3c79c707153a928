//! Our ends of a child's three pipes, none of which ever blocks.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::capture::Capture;

/// Reads of one pipe before the others get their turn.
const TURN: usize = 16;

pub(crate) fn set_nonblocking(pipe: &impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfl(pipe)?;
    Ok(fcntl_setfl(pipe, flags | OFlags::NONBLOCK)?)
}

pub(crate) fn set_blocking(pipe: &impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfl(pipe)?;
    Ok(fcntl_setfl(pipe, flags - OFlags::NONBLOCK)?)
}

/// Standard input and the bytes still to be written.
#[derive(Debug)]
pub(crate) struct Feed<'a> {
    pipe: Option<File>,
    rest: &'a [u8],
}

impl<'a> Feed<'a> {
    pub(crate) fn new(pipe: Option<OwnedFd>, bytes: &'a [u8]) -> io::Result<Self> {
        pipe.as_ref().map(set_nonblocking).transpose()?;
        Ok(Feed { pipe: pipe.map(File::from), rest: bytes })
    }

    /// `None` when everything is written.
    pub(crate) fn pipe(&self) -> Option<&File> {
        self.pipe.as_ref()
    }

    /// Writes as much as fits, and closes the pipe after the last byte. An agent that closes its input is no error.
    pub(crate) fn write(&mut self) {
        while let Some(pipe) = &mut self.pipe {
            match pipe.write(self.rest) {
                Ok(count @ 1..) => self.rest = &self.rest[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => self.rest = &[],
            }
            if self.rest.is_empty() {
                self.pipe = None;
            }
        }
    }
}

/// Standard output or standard error, and what was read from it.
#[derive(Debug)]
pub(crate) struct Drain {
    pipe: Option<File>,
    pub(crate) capture: Capture,
}

impl Drain {
    pub(crate) fn new(pipe: Option<OwnedFd>, capture: Capture) -> io::Result<Self> {
        pipe.as_ref().map(set_nonblocking).transpose()?;
        Ok(Drain { pipe: pipe.map(File::from), capture })
    }

    /// `None` at its end.
    pub(crate) fn pipe(&self) -> Option<&File> {
        self.pipe.as_ref()
    }

    /// Reads what is available, up to [`TURN`] buffers.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) {
        for _ in 0..TURN {
            let Some(pipe) = &mut self.pipe else { return };
            match pipe.read(buffer) {
                Ok(count @ 1..) => self.capture.take(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => self.pipe = None,
            }
        }
    }
}
