//! A disk in user space that records what happens to it.

use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use crate::recording::{Event, Recording};

/// The name of the image.
pub(crate) const DISK: &str = "disk";
/// The name of the file in which acknowledgements are marked: `3..5` says that records 3 and 4 were
/// acknowledged. It goes through the same queue as the writes, so its place among them is certain.
pub(crate) const MARKS: &str = "marks";

const DISK_NODE: INodeNo = INodeNo(2);
const MARKS_NODE: INodeNo = INodeNo(3);
/// Nothing here ever changes its name or size.
const FOR_EVER: Duration = Duration::from_secs(3600);

/// The disk, as long as it is served.
pub(crate) struct Disk {
    base: Vec<u8>,
    state: Arc<Mutex<State>>,
    _session: BackgroundSession,
}

/// What is on the disk, and how it got there.
struct State {
    image: Vec<u8>,
    events: Vec<Event>,
}

impl Disk {
    /// Serves an image in a directory.
    pub(crate) fn serve(base: Vec<u8>, dir: &Path) -> io::Result<Disk> {
        let state = Arc::new(Mutex::new(State { image: base.clone(), events: Vec::new() }));
        let server = Server { state: Arc::clone(&state), size: base.len() };
        let session = fuser::spawn_mount(server, dir, &Config::default())?;
        Ok(Disk { base, state, _session: session })
    }

    /// Ends the service and returns what was recorded.
    pub(crate) fn finish(self) -> Recording {
        let events = std::mem::take(&mut lock(&self.state).events);
        Recording { base: self.base, events }
    }
}

/// A panic in the server would block other threads, so it continues with the current state.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers the kernel, one question at a time.
struct Server {
    state: Arc<Mutex<State>>,
    size: usize,
}

impl Server {
    fn attributes(&self, node: INodeNo) -> Option<FileAttr> {
        let (kind, size) = match node {
            INodeNo::ROOT => (FileType::Directory, 0),
            DISK_NODE => (FileType::RegularFile, self.size as u64),
            MARKS_NODE => (FileType::RegularFile, 0),
            _ => return None,
        };
        Some(FileAttr {
            ino: node,
            size,
            blocks: size / 512,
            atime: SystemTime::UNIX_EPOCH,
            mtime: SystemTime::UNIX_EPOCH,
            ctime: SystemTime::UNIX_EPOCH,
            crtime: SystemTime::UNIX_EPOCH,
            kind,
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn store(&self, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        let range = range(offset, bytes.len()).ok_or(Errno::EFBIG)?;
        let offset = range.start;
        state.image.get_mut(range).ok_or(Errno::ENOSPC)?.copy_from_slice(bytes);
        state.events.push(Event::Write { offset, bytes: bytes.to_vec() });
        Ok(())
    }

    fn mark(&self, text: &[u8]) -> Result<(), Errno> {
        let records = parse_mark(text).ok_or(Errno::EINVAL)?;
        lock(&self.state).events.push(Event::Acknowledged(records));
        Ok(())
    }
}

fn range(offset: u64, length: usize) -> Option<Range<usize>> {
    let start = usize::try_from(offset).ok()?;
    Some(start..start.checked_add(length)?)
}

fn parse_mark(text: &[u8]) -> Option<Range<usize>> {
    let (start, end) = std::str::from_utf8(text).ok()?.split_once("..")?;
    Some(start.parse().ok()?..end.parse().ok()?)
}

impl Filesystem for Server {
    fn lookup(&self, _: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let node = match name.to_str() {
            Some(DISK) => DISK_NODE,
            Some(MARKS) => MARKS_NODE,
            _ => return reply.error(Errno::ENOENT),
        };
        match self.attributes(node) {
            Some(attributes) => reply.entry(&FOR_EVER, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(node) {
            Some(attributes) => reply.attr(&FOR_EVER, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    // Times and modes do not matter, but setting them must not fail.
    fn setattr(
        &self,
        request: &Request,
        node: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        _size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.getattr(request, node, handle, reply);
    }

    fn open(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = match node {
            MARKS_NODE => FopenFlags::FOPEN_DIRECT_IO,
            _ => FopenFlags::FOPEN_KEEP_CACHE,
        };
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let state = lock(&self.state);
        let wanted = range(offset, size as usize).unwrap_or_default();
        let end = wanted.end.min(state.image.len());
        match state.image.get(wanted.start..end) {
            Some(bytes) if node == DISK_NODE => reply.data(bytes),
            _ => reply.data(&[]),
        }
    }

    fn write(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let outcome = match node {
            DISK_NODE => self.store(offset, bytes),
            _ => self.mark(bytes),
        };
        match (outcome, u32::try_from(bytes.len())) {
            (Ok(()), Ok(written)) => reply.written(written),
            (Err(error), _) => reply.error(error),
            (_, Err(_)) => reply.error(Errno::EFBIG),
        }
    }

    // The kernel asks for this when a file is closed. It has nothing to do with a flush of the disk.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    // A flush of the loop device arrives as a sync of the file behind it.
    fn fsync(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        if node == DISK_NODE {
            lock(&self.state).events.push(Event::Flush);
        }
        reply.ok();
    }

    // Zeros have to come as writes, or the recording would lack them.
    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u64,
        _: i32,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EOPNOTSUPP);
    }
}
