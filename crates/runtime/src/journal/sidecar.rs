//! Views kept beside the journal, so that a big one need not be read whole.
//!
//! Beside `journal.jsonl` there may be a directory `journal.jsonl.idx` with one file a view: the state
//! of the view, the position up to which it was folded, what the journal was then, and a keyed digest of all
//! that. It is a cache: a file that is damaged, that belongs to another version or another journal, that was not
//! sealed with the key of the user, or whose journal was changed since in any way is ignored, and the view is
//! folded anew. What changes the queue or resumes a run reads the journal itself.

use std::path::{Path, PathBuf};

use autoloop_core::view::View;

use super::reader::read_at;
use super::{FileJournal, Journal, Position, ReadError};
use crate::files::{self, Links};
use crate::world::{DiskFile, FileKind, FileStat, Key, KeyedDigest};

/// How much has to be folded before it is worth keeping.
pub(super) const SAVE_AFTER: u64 = 256 * 1024;
/// How much of the journal before the position is sealed as well.
const ANCHOR: u64 = 16 * 1024;
/// The first bytes of every sidecar.
const MAGIC: &[u8; 8] = b"ALVIEW4\n";
/// Magic, version, position, what the journal was.
const HEADER: usize = 8 + 4 + 12 + 40;
/// The header and the seal.
const BEGINNING: usize = HEADER + 16;
/// A view larger than this is not kept.
const LARGEST: u64 = 256 * 1024 * 1024;
/// A journal that was changed so recently may be changed again without another time of its last change, in
/// nanoseconds: file systems count in ticks.
const TICK: i128 = 20_000_000;

/// What may have become of the journal since a view was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Since {
    /// Nothing.
    Unchanged,
    /// Records were appended. That nothing before them was edited is not known.
    Grown,
}

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
    /// Folds a view over the whole journal. One that was kept is used if the journal is as it was then.
    pub fn fold<V: View>(&self) -> Result<Kept<V>, ReadError> {
        let Some((file, _)) = self.open_to_read()? else {
            return Ok(Kept::default());
        };
        let before = file.stat().ok();
        let kept: Kept<V> = self.kept(file.as_ref(), Since::Unchanged).unwrap_or_default();
        let from = kept.position.at;
        let kept = (self as &dyn Journal).fold_on(kept)?;
        let is_settled = before.is_some() && self.disk().stat(self.path()).ok() == before;
        if is_settled && kept.position.at.saturating_sub(from) >= SAVE_AFTER {
            self.keep(file.as_ref(), &kept.view, kept.position);
        }
        Ok(kept)
    }

    /// Whether a view is kept, and fits.
    pub fn sidecar_state<V: View>(&self) -> Result<SidecarState, ReadError> {
        let Some((file, _)) = self.open_to_read()? else { return Ok(SidecarState::Absent) };
        match self.disk().stat(&self.sidecar::<V>()) {
            Err(_) => Ok(SidecarState::Absent),
            Ok(_) if self.kept::<V>(file.as_ref(), Since::Unchanged).is_some() => {
                Ok(SidecarState::Good)
            }
            Ok(_) => Ok(SidecarState::Ignored),
        }
    }

    fn sidecar<V: View>(&self) -> PathBuf {
        sidecar_dir(self.path()).join(V::NAME)
    }

    /// What was kept of a view, if it can be used.
    pub(super) fn kept<V: View>(&self, file: &dyn DiskFile, since: Since) -> Option<Kept<V>> {
        let path = self.sidecar::<V>();
        self.is_own(path.parent()?).then_some(())?;
        let bytes = files::read(self.disk(), &path, Links::Refuse, LARGEST).ok()??;
        let Unpacked { header, position, journal, seal, state } = unpack::<V>(&bytes)?;
        let found = file.stat().ok()?;
        let fits = match since {
            Since::Unchanged => journal == identity(&found),
            Since::Grown => journal[..16] == identity(&found)[..16] && position.at <= found.len,
        };
        fits.then_some(())?;
        self.check(file, position).ok()?;
        let anchor = anchor(file, position)?;
        (seal == sealed::<V>(&self.key()?, header, (&anchor, state))).then_some(())?;
        Some(Kept { view: V::decode(state)?, position })
    }

    /// Keeps a view. Failing to do so costs time later and nothing else, so no error is reported.
    pub(super) fn keep<V: View>(&self, file: &dyn DiskFile, view: &V, position: Position) {
        let path = self.sidecar::<V>();
        let Some(anchor) = anchor(file, position) else { return };
        let (Some(dir), Some(key), Ok(stat)) = (path.parent(), self.key(), file.stat()) else {
            return;
        };
        let now = i128::from(self.clock().now().millis()) * 1_000_000;
        if now - stat.changed < TICK {
            return;
        }
        let mut bytes = Vec::with_capacity(4096);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&V::VERSION.to_le_bytes());
        bytes.extend_from_slice(&position.to_bytes());
        bytes.extend_from_slice(&identity(&stat));
        bytes.extend_from_slice(&[0; 16]);
        let Some(mut bytes) = view.encode(bytes) else { return };
        let (header, state) = (&bytes[..HEADER], &bytes[BEGINNING..]);
        let seal = sealed::<V>(&key, header, (&anchor, state));
        bytes[HEADER..BEGINNING].copy_from_slice(&seal.to_le_bytes());
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

/// Which file it is, and in which state.
fn identity(stat: &FileStat) -> [u8; 40] {
    let mut bytes = [0; 40];
    bytes[..8].copy_from_slice(&stat.device.to_le_bytes());
    bytes[8..16].copy_from_slice(&stat.inode.to_le_bytes());
    bytes[16..24].copy_from_slice(&stat.len.to_le_bytes());
    bytes[24..].copy_from_slice(&stat.changed.to_le_bytes());
    bytes
}

/// The bytes before a position.
fn anchor(file: &dyn DiskFile, position: Position) -> Option<Vec<u8>> {
    let length = position.at.min(ANCHOR);
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    let count = read_at(file, &mut bytes, position.at - length).ok()?;
    (count as u64 == length).then_some(bytes)
}

fn sealed<V: View>(key: &Key, header: &[u8], (anchor, state): (&[u8], &[u8])) -> KeyedDigest {
    key.seal("sidecar", &[V::NAME.as_bytes(), header, anchor, state])
}

/// The parts of a sidecar.
struct Unpacked<'a> {
    header: &'a [u8],
    position: Position,
    /// What the journal was.
    journal: &'a [u8],
    seal: KeyedDigest,
    state: &'a [u8],
}

fn unpack<V: View>(bytes: &[u8]) -> Option<Unpacked<'_>> {
    let (header, rest) = bytes.split_at_checked(HEADER)?;
    let (seal, state) = rest.split_first_chunk::<16>()?;
    let (magic, fields) = header.split_first_chunk::<8>()?;
    let (version, fields) = fields.split_first_chunk::<4>()?;
    let (position, journal) = fields.split_first_chunk::<12>()?;
    let fits = magic == MAGIC && u32::from_le_bytes(*version) == V::VERSION;
    fits.then(|| Unpacked {
        header,
        position: Position::from_bytes(*position),
        journal,
        seal: KeyedDigest::from_le_bytes(*seal),
        state,
    })
}

/// Where the sidecars of a journal are.
pub fn sidecar_dir(journal: &Path) -> PathBuf {
    let mut dir = journal.as_os_str().to_owned();
    dir.push(".idx");
    PathBuf::from(dir)
}
