//! The ends of the job's three pipes that we hold, none of which may ever make us wait.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::capture::Capture;

/// How often a pipe is read before the others get their turn.
const TURN: usize = 16;

/// Makes reads and writes return at once.
pub(crate) fn never_wait(pipe: &impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfl(pipe)?;
    Ok(fcntl_setfl(pipe, flags | OFlags::NONBLOCK)?)
}

/// Makes reads and writes wait again.
pub(crate) fn may_wait(pipe: &impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfl(pipe)?;
    Ok(fcntl_setfl(pipe, flags - OFlags::NONBLOCK)?)
}

/// Standard input: what is still to be written to it.
#[derive(Debug)]
pub(crate) struct Feed<'a> {
    pipe: Option<File>,
    rest: &'a [u8],
}

impl<'a> Feed<'a> {
    /// Without a pipe there is nothing to be written.
    pub(crate) fn new(pipe: Option<OwnedFd>, bytes: &'a [u8]) -> io::Result<Self> {
        pipe.as_ref().map(never_wait).transpose()?;
        Ok(Feed { pipe: pipe.map(File::from), rest: bytes })
    }

    /// The pipe, as long as something is to be written.
    pub(crate) fn pipe(&self) -> Option<&File> {
        self.pipe.as_ref()
    }

    /// Writes as much as there is room for, and closes the pipe after the last byte. An agent that
    /// does not want its input is no error.
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

/// Standard output or standard error, and what came out of it.
#[derive(Debug)]
pub(crate) struct Drain {
    pipe: Option<File>,
    pub(crate) capture: Capture,
}

impl Drain {
    pub(crate) fn new(pipe: Option<OwnedFd>, capture: Capture) -> io::Result<Self> {
        pipe.as_ref().map(never_wait).transpose()?;
        Ok(Drain { pipe: pipe.map(File::from), capture })
    }

    /// The pipe, as long as somebody may write to it.
    pub(crate) fn pipe(&self) -> Option<&File> {
        self.pipe.as_ref()
    }

    /// Takes what is there, but not for ever.
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
