//! Views kept beside the journal, so that a big one need not be read whole.
//!
//! Beside `journal.jsonl` there may be a directory `journal.jsonl.idx` with one file a view: the state
//! of the view, the position up to which it was folded, and checksums. All of it can be deleted at any
//! time. A file that is damaged, that belongs to another version, or whose position does not fit the
//! journal any more is ignored, and the view is folded anew.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use autoloop_core::view::View;

use super::reader::read_at;
use super::{FileJournal, Journal, Position, ReadError};
use crate::files::{self, Links};
use crate::world::{DiskFile, FileKind};

/// How much has to be folded before it is worth keeping.
pub(super) const SAVE_AFTER: u64 = 256 * 1024;
/// How much of the journal before the position is compared: an edit close to the end is noticed, and so
/// is another file, as most editors leave one.
const ANCHOR: u64 = 16 * 1024;
/// The first bytes of every sidecar.
const MAGIC: &[u8; 8] = b"ALVIEW2\n";
/// Magic, version, position, anchor, checksum.
const HEADER: usize = 8 + 4 + 12 + 4 + 4;
/// A view larger than this is not kept.
const LARGEST: u64 = 256 * 1024 * 1024;

/// A view and how far it was folded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept<V> {
    /// The view.
    pub view: V,
    /// The position behind the last line that is in it.
    pub position: Position,
}

/// How the sidecars of a journal are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SidecarState {
    /// There is none.
    Absent,
    /// It fits the journal.
    Good,
    /// It is damaged, of another version, or does not fit the journal: it is ignored.
    Ignored,
}

impl FileJournal {
    /// Folds a view over the whole journal, reading only what came since it was last kept.
    pub fn fold<V: View>(&self) -> Result<Kept<V>, ReadError> {
        let Some((file, _)) = self.open_to_read()? else {
            return Ok(Kept::default());
        };
        let kept: Kept<V> = self.kept(file.as_ref()).unwrap_or_default();
        let from = kept.position.at;
        let kept = self.fold_on(kept)?;
        if kept.position.at.saturating_sub(from) >= SAVE_AFTER {
            self.keep(file.as_ref(), &kept.view, kept.position);
        }
        Ok(kept)
    }

    /// Takes in what came since a view was folded. Where the journal is not the one that it was folded
    /// from, it is folded anew.
    pub fn fold_on<V: View>(&self, kept: Kept<V>) -> Result<Kept<V>, ReadError> {
        let Kept { mut view, position } = kept;
        let read_on = |view: &mut V, from| {
            self.read(from, &mut |line| {
                line.records(|record| view.apply(record));
                ControlFlow::Continue(())
            })
        };
        match read_on(&mut view, position) {
            Err(ReadError::Changed { .. }) => {
                view = V::default();
                let position = read_on(&mut view, Position::START)?;
                Ok(Kept { view, position })
            }
            read => Ok(Kept { view, position: read? }),
        }
    }

    /// Whether a view is kept, and fits.
    pub fn sidecar_state<V: View>(&self) -> Result<SidecarState, ReadError> {
        let Some((file, _)) = self.open_to_read()? else { return Ok(SidecarState::Absent) };
        match self.disk().stat(&self.sidecar::<V>()) {
            Err(_) => Ok(SidecarState::Absent),
            Ok(_) if self.kept::<V>(file.as_ref()).is_some() => Ok(SidecarState::Good),
            Ok(_) => Ok(SidecarState::Ignored),
        }
    }

    fn sidecar<V: View>(&self) -> PathBuf {
        sidecar_dir(self.path()).join(V::NAME)
    }

    /// What was kept of a view, if it can be used.
    pub(super) fn kept<V: View>(&self, file: &dyn DiskFile) -> Option<Kept<V>> {
        let path = self.sidecar::<V>();
        self.is_own(path.parent()?).then_some(())?;
        let bytes = files::read(self.disk(), &path, Links::Refuse, LARGEST).ok()??;
        let (position, anchored, state) = unpack::<V>(&bytes)?;
        self.check(file, position).ok()?;
        (anchor(file, position)? == anchored).then_some(())?;
        Some(Kept { view: V::load(state)?, position })
    }

    /// Keeps a view. Failing to do so costs time later and nothing else, so nobody is told.
    pub(super) fn keep<V: View>(&self, file: &dyn DiskFile, view: &V, position: Position) {
        let path = self.sidecar::<V>();
        let Some(anchor) = anchor(file, position) else { return };
        let Some(dir) = path.parent() else { return };
        let bytes = pack(view, position, anchor);
        let _ = self.disk().create_dir(dir);
        if bytes.len() as u64 <= LARGEST && self.is_own(dir) {
            let _ = self.disk().replace(&path, &bytes);
        }
    }

    /// Whether the directory of the sidecars is one, and not a link to somebody else's.
    fn is_own(&self, dir: &Path) -> bool {
        self.disk().stat(dir).is_ok_and(|stat| stat.kind == FileKind::Directory)
    }
}

fn anchor(file: &dyn DiskFile, position: Position) -> Option<u32> {
    let length = position.at.min(ANCHOR);
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    let count = read_at(file, &mut bytes, position.at - length).ok()?;
    let stat = file.stat().ok()?;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&stat.device.to_le_bytes());
    hasher.update(&stat.inode.to_le_bytes());
    hasher.update(&bytes);
    (count as u64 == length).then(|| hasher.finalize())
}

fn pack<V: View>(view: &V, position: Position, anchor: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4096);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&V::VERSION.to_le_bytes());
    bytes.extend_from_slice(&position.to_bytes());
    bytes.extend_from_slice(&anchor.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    view.save(&mut bytes);
    let checksum = checksum(&bytes);
    bytes[HEADER - 4..HEADER].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

fn unpack<V: View>(bytes: &[u8]) -> Option<(Position, u32, &[u8])> {
    let (header, state) = bytes.split_at_checked(HEADER)?;
    let (magic, rest) = header.split_first_chunk::<8>()?;
    let (version, rest) = rest.split_first_chunk::<4>()?;
    let (position, rest) = rest.split_first_chunk::<12>()?;
    let (anchor, rest) = rest.split_first_chunk::<4>()?;
    let (sum, _) = rest.split_first_chunk::<4>()?;
    let fits = magic == MAGIC
        && u32::from_le_bytes(*version) == V::VERSION
        && u32::from_le_bytes(*sum) == checksum(bytes);
    fits.then(|| (Position::from_bytes(*position), u32::from_le_bytes(*anchor), state))
}

/// Of everything but the checksum itself.
fn checksum(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..HEADER - 4]);
    hasher.update(&bytes[HEADER..]);
    hasher.finalize()
}

/// Where the sidecars of a journal are.
pub fn sidecar_dir(journal: &Path) -> PathBuf {
    let mut dir = journal.as_os_str().to_owned();
    dir.push(".idx");
    PathBuf::from(dir)
}
