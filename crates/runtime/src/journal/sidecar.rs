//! Views kept beside the journal, so that a big one need not be read whole.
//!
//! Beside `journal.jsonl` there may be a directory `journal.jsonl.idx` with one file per view: the state
//! of the view, the position up to which it was folded, the identity of the journal, and a keyed digest of
//! all that. It is a cache: a file that is damaged, that belongs to another version or another journal, that
//! was not sealed with the key of the user, or whose journal has changed since is ignored, and the view is
//! folded again. Commands that change the queue or resume a run read the journal itself.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use autoloop_core::view::View;
use autoloop_core::views::latest_run::LatestRun;

use super::reader::{line_start, read_lines};
use super::{FileJournal, Journal, Position, ReadError};
use crate::files::{self, Links};
use crate::world::{DiskFile, FileKind, FileStat, Key};

/// How many bytes have to be folded before it is worth keeping the view.
const SAVE_AFTER: u64 = 256 * 1024;
/// How many bytes of the journal before the position are sealed as well.
const ANCHOR: u64 = 16 * 1024;
/// How many bytes are read in one step backward.
const STEP: u64 = 1024 * 1024;
const MAGIC: &[u8; 8] = b"ALVIEW4\n";
/// Magic, version, position; device, inode, length and time of change of the journal.
const HEADER: usize = 8 + 4 + 12 + 40;
/// The part of the header that stays the same while the journal grows.
const IDENTITY: usize = 8 + 4 + 12 + 16;
/// The header and the seal.
const BEGINNING: usize = HEADER + 16;
/// A larger view is not kept.
const LARGEST: u64 = 256 * 1024 * 1024;
/// A journal that was changed so recently may be changed again without another timestamp, in nanoseconds:
/// file systems count in ticks.
const TICK: i128 = 20_000_000;

/// What may have happened to the journal since a view was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    Nothing,
    /// Records were appended. Whether something before them was edited is not known.
    Growth,
}

/// A view and how far it was folded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept<V> {
    pub view: V,
    /// The position behind the last line that is in it.
    pub position: Position,
}

impl FileJournal {
    /// Folds a view over the whole journal, or uses the one that was kept if the journal is unchanged.
    pub fn fold<V: View>(&self) -> Result<Kept<V>, ReadError> {
        let Some((file, _)) = self.open_to_read()? else {
            return Ok(Kept::default());
        };
        let before = file.stat().ok();
        let kept: Kept<V> = self.kept(file.as_ref(), Since::Nothing).unwrap_or_default();
        let from = kept.position.at;
        let kept = (self as &dyn Journal).fold_on(kept)?;
        let is_settled = before.is_some() && self.world.disk.stat(self.path()).ok() == before;
        if is_settled && kept.position.at.saturating_sub(from) >= SAVE_AFTER {
            self.keep(file.as_ref(), &kept.view, kept.position);
        }
        Ok(kept)
    }

    /// The run that began last, found by reading backward to the most recent `loop.start`. A long search is
    /// kept, so that the next one ends where this one began.
    pub fn latest_run(&self) -> Result<LatestRun, ReadError> {
        let Some((file, len)) = self.open_to_read()? else { return Ok(LatestRun::default()) };
        let failed = |error| ReadError::io(self.path(), error);
        // It only names the run of an event without one, so it may be older than the journal.
        let kept: Option<Kept<LatestRun>> = self.kept(file.as_ref(), Since::Growth);
        let floor = kept.as_ref().map_or(0, |kept| kept.position.at);
        let end = line_start(file.as_ref(), 0..len).map_err(failed)?;

        let mut begin = end;
        let mut latest = None;
        while latest.is_none() && begin > floor {
            let stop = begin;
            let step = stop.saturating_sub(STEP).max(floor);
            begin = line_start(file.as_ref(), floor..step).map_err(failed)?;
            let mut visit = |line: &super::Line<'_>| {
                line.records(|record| latest = LatestRun::begun_by(record).or(latest.take()));
                ControlFlow::Continue(())
            };
            read_lines(file.as_ref(), begin..stop, &mut visit).map_err(failed)?;
        }
        let latest = latest.or(kept.map(|kept| kept.view)).unwrap_or_default();
        if end - begin >= SAVE_AFTER {
            self.keep(file.as_ref(), &latest, self.position(file.as_ref(), end)?);
        }
        Ok(latest)
    }

    /// Whether a view is kept that [`fold`](Self::fold) uses.
    pub fn has_sidecar<V: View>(&self) -> Result<bool, ReadError> {
        let file = self.open_to_read()?;
        Ok(file.is_some_and(|(file, _)| self.kept::<V>(&*file, Since::Nothing).is_some()))
    }

    fn sidecar<V: View>(&self) -> PathBuf {
        sidecar_dir(self.path()).join(V::NAME)
    }

    fn kept<V: View>(&self, file: &dyn DiskFile, since: Since) -> Option<Kept<V>> {
        let path = self.sidecar::<V>();
        self.is_own(path.parent()?).then_some(())?;
        let bytes = files::read(&*self.world.disk, &path, Links::Refuse, LARGEST).ok()??;
        let (header, rest) = bytes.split_at_checked(HEADER)?;
        let (seal, state) = rest.split_first_chunk::<16>()?;
        let position = Position::from_bytes(*header[12..].first_chunk()?);
        let found = file.stat().ok()?;
        let compared = match since {
            Since::Nothing => HEADER,
            Since::Growth => IDENTITY,
        };
        let fits = header[..compared] == header_of::<V>(position, &found)[..compared];
        (fits && position.at <= found.len).then_some(())?;
        self.check(file, position).ok()?;
        let anchor = anchor(file, position)?;
        (*seal == sealed::<V>(&self.world.key()?, header, &anchor, state)).then_some(())?;
        Some(Kept { view: V::decode(state)?, position })
    }

    fn keep<V: View>(&self, file: &dyn DiskFile, view: &V, position: Position) {
        let path = self.sidecar::<V>();
        let Some(anchor) = anchor(file, position) else { return };
        let (Some(dir), Some(key), Ok(stat)) = (path.parent(), self.world.key(), file.stat())
        else {
            return;
        };
        let now = i128::from(self.world.clock.now().millis()) * 1_000_000;
        if now - stat.changed < TICK {
            return;
        }
        let mut bytes = Vec::with_capacity(4096);
        bytes.extend_from_slice(&header_of::<V>(position, &stat));
        bytes.extend_from_slice(&[0; 16]);
        let Some(mut bytes) = view.encode(bytes) else { return };
        let seal = sealed::<V>(&key, &bytes[..HEADER], &anchor, &bytes[BEGINNING..]);
        bytes[HEADER..BEGINNING].copy_from_slice(&seal);
        let _ = self.world.disk.create_dir(dir);
        if bytes.len() as u64 <= LARGEST && self.is_own(dir) {
            let _ = self.world.disk.replace(&path, &bytes);
        }
    }

    /// Whether the directory of the sidecars is not a link to another one.
    fn is_own(&self, dir: &Path) -> bool {
        self.world.disk.stat(dir).is_ok_and(|stat| stat.kind == FileKind::Directory)
    }
}

fn header_of<V: View>(position: Position, stat: &FileStat) -> Vec<u8> {
    let FileStat { device, inode, len, changed, .. } = stat;
    [
        &MAGIC[..],
        &V::VERSION.to_le_bytes(),
        &position.to_bytes(),
        &device.to_le_bytes(),
        &inode.to_le_bytes(),
        &len.to_le_bytes(),
        &changed.to_le_bytes(),
    ]
    .concat()
}

fn anchor(file: &dyn DiskFile, position: Position) -> Option<Vec<u8>> {
    let begin = position.at.saturating_sub(ANCHOR);
    let bytes = file.read_range(begin..position.at).ok()?;
    (bytes.len() as u64 == position.at - begin).then_some(bytes)
}

fn sealed<V: View>(key: &Key, header: &[u8], anchor: &[u8], state: &[u8]) -> [u8; 16] {
    key.seal("sidecar", &[V::NAME.as_bytes(), header, anchor, state]).to_le_bytes()
}

pub fn sidecar_dir(journal: &Path) -> PathBuf {
    let mut dir = journal.as_os_str().to_owned();
    dir.push(".idx");
    PathBuf::from(dir)
}
