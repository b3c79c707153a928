//! Waiting for a file to change, as reported by the kernel.

use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
use rustix::io::Errno;

use crate::world::Watch;

/// Watches the directory, because the file may be made, or replaced by rename, later.
pub(super) struct DirectoryWatch {
    events: OwnedFd,
    /// `None` for all names.
    name: Option<OsString>,
}

impl DirectoryWatch {
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        let is_directory = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
        let dir = match path.parent() {
            _ if is_directory => path,
            Some(dir) if !dir.as_os_str().is_empty() => dir,
            _ => Path::new("."),
        };
        let name = path.file_name().unwrap_or_default().to_owned();
        let events = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        add_watch(
            &events,
            dir,
            WatchFlags::CREATE
                | WatchFlags::MODIFY
                | WatchFlags::MOVED_TO
                | WatchFlags::DELETE
                | WatchFlags::DELETE_SELF,
        )?;
        Ok(DirectoryWatch { events, name: (!is_directory).then_some(name) })
    }

    /// Takes all events that have come in; whether one of them was about our file.
    fn drain(&self) -> io::Result<bool> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.events, &mut buffer);
        let mut ours = false;
        loop {
            match reader.next() {
                Ok(event) => {
                    // An event without a name is about the directory itself.
                    ours |= match (event.file_name(), &self.name) {
                        (Some(found), Some(name)) => found.to_bytes() == name.as_bytes(),
                        _ => true,
                    };
                }
                Err(Errno::AGAIN) => return Ok(ours),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl Watch for DirectoryWatch {
    fn changed(&mut self, timeout: Duration) -> io::Result<()> {
        let deadline = std::time::Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            match poll(&mut [PollFd::new(&self.events, PollFlags::IN)], Some(&left)) {
                Ok(0) => return Ok(()),
                Ok(_) if self.drain()? => return Ok(()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}
