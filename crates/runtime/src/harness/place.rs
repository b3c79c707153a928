//! Where a run is: its id, its directory, its key and its lock.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use autoloop_core::coordinator::Kind;
use autoloop_core::provenance::{Provenance, Unsealed};
use autoloop_core::run_id::BadRunId;

use super::{notes, request_file};
use crate::error::DriveError;
use crate::layout::{RunDir, StateDir};
use crate::site::{Site, Trust};
use crate::world::{Access, DiskFile, World};

/// How long the lock of a run is waited for whose holder has ended. A child that a harness was just
/// starting when it was killed has a copy for a moment.
const LAST_COPY: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(crate) struct RunPlace<'a> {
    pub(crate) kind: Kind,
    pub(crate) dir: RunDir,
    pub(crate) run: &'a str,
    pub(crate) world: &'a World,
}

impl<'a> RunPlace<'a> {
    /// The place of a run whose id is maybe none.
    pub(crate) fn of(site: &Site<'a>, kind: Kind, run: &'a str) -> Result<Self, BadRunId> {
        Ok(RunPlace { kind, dir: run_dir(site.state_dir, kind, run)?, run, world: site.world })
    }

    /// Tells the records of the run apart for a process that decides from them.
    pub(crate) fn provenance(&self, trust: Trust) -> Result<Provenance, DriveError> {
        let unsealed = match trust {
            Trust::Proven => Unsealed::Noted(notes::read(self)?.marks),
            Trust::Journal => Unsealed::Claimed,
        };
        Ok(self.provenance_of(unsealed))
    }

    /// The same for a view. Of a run that no harness of this program carried out, all records are shown.
    pub(crate) fn provenance_to_show(&self) -> Provenance {
        let unsealed = match notes::read(self) {
            Ok(notes) if notes.is_there || request_file::is_sealed(self) => {
                Unsealed::Noted(notes.marks)
            }
            _ => Unsealed::ClaimedBeforeSeal,
        };
        self.provenance_of(unsealed)
    }

    fn provenance_of(&self, unsealed: Unsealed) -> Provenance {
        Provenance::new(self.world.key().map(|key| key.of_run(self.run)), unsealed)
    }

    /// Whether a harness of this program carried the run out, by its files.
    pub(crate) fn is_ours(&self) -> bool {
        request_file::is_sealed(self) || notes::read(self).is_ok_and(|notes| notes.is_there)
    }

    pub(super) fn write(&self, path: PathBuf, text: &str) -> Result<(), DriveError> {
        let written = self.world.disk.replace(&path, text.as_bytes());
        written.map_err(|source| DriveError::Write { path, source })
    }
}

/// The directory of a run whose id is maybe none.
pub(crate) fn run_dir(state_dir: &StateDir, kind: Kind, run: &str) -> Result<RunDir, BadRunId> {
    Ok(state_dir.run(kind, &run.parse()?))
}

/// Keeps other processes from carrying out a run, as long as it is held.
pub(crate) struct RunLock {
    _file: Box<dyn DiskFile>,
    was_used: bool,
}

impl RunLock {
    pub(crate) fn take(place: &RunPlace<'_>) -> Result<RunLock, DriveError> {
        let RunPlace { kind, dir, run, world } = place;
        create_dirs(dir, world)?;
        let path = dir.lock();
        let failed = |source| DriveError::Write { path: path.clone(), source };
        let was_used = world.disk.stat(&path).is_ok();
        let file = world.disk.open(&path, Access::Append).map_err(failed)?;
        let begin = world.clock.elapsed();
        while !file.try_lock().map_err(failed)? {
            let holder = file.lock_holder();
            if holder.is_some() || world.clock.elapsed().saturating_sub(begin) > LAST_COPY {
                return Err(DriveError::Busy { kind: *kind, run: (*run).to_owned(), holder });
            }
            world.clock.sleep(LAST_COPY / 500);
        }
        Ok(RunLock { _file: file, was_used })
    }

    /// Whether a process held it before.
    pub(crate) fn was_used(&self) -> bool {
        self.was_used
    }
}

pub(crate) fn create_dirs(dir: &Path, world: &World) -> Result<(), DriveError> {
    let missing: Vec<&Path> =
        dir.ancestors().take_while(|dir| world.disk.stat(dir).is_err()).collect();
    for dir in missing.into_iter().rev() {
        match world.disk.create_dir(dir) {
            Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
                return Err(DriveError::Write { path: dir.to_owned(), source });
            }
            _ => {}
        }
    }
    Ok(())
}
