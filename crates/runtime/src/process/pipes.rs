//! Our ends of a child's three pipes, none of which ever blocks.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, Timespec};
use rustix::io::{Errno, ioctl_fionbio};

use super::capture::Capture;

/// Reads of one pipe before the others get their turn.
const TURN: usize = 16;

/// Waits until a descriptor is ready or the timeout has passed. A signal ends the wait too.
pub(crate) fn poll(polled: &mut [PollFd<'_>], time: Option<Duration>) -> io::Result<()> {
    let time = time.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
    match rustix::event::poll(polled, time.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn nonblocking(pipe: Option<impl Into<OwnedFd>>) -> io::Result<Option<File>> {
    let pipe = pipe.map(|pipe| File::from(pipe.into()));
    pipe.as_ref().map(|pipe| ioctl_fionbio(pipe, true)).transpose()?;
    Ok(pipe)
}

/// Standard input and the bytes still to be written.
#[derive(Debug)]
pub(crate) struct Feed<'a> {
    /// `None` when everything is written.
    pub(crate) pipe: Option<File>,
    rest: &'a [u8],
}

impl<'a> Feed<'a> {
    pub(crate) fn new(pipe: Option<impl Into<OwnedFd>>, rest: &'a [u8]) -> io::Result<Self> {
        Ok(Feed { pipe: nonblocking(pipe)?, rest })
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
    /// `None` at its end.
    pub(crate) pipe: Option<File>,
    pub(crate) capture: Capture,
}

impl Drain {
    pub(crate) fn new(pipe: Option<impl Into<OwnedFd>>, capture: Capture) -> io::Result<Self> {
        Ok(Drain { pipe: nonblocking(pipe)?, capture })
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
