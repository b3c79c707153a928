//! Real processes, each below a shim.

mod shim_process;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::child::{this_program, unable};
use crate::which::{Found, find};
use crate::world::{
    Job, NeverStarted, OsEntropy, RealDisk, Running, Secret, Spawner, SystemClock, World,
};
use shim_process::{Errand, Parked};

/// So many shims wait for another job at most.
const MOST: usize = 8;

impl World {
    /// The world as the operating system presents it. Jobs run below shims of this program.
    pub fn real() -> Self {
        World {
            clock: Arc::new(SystemClock::default()),
            disk: Arc::new(RealDisk),
            entropy: Arc::new(OsEntropy),
            spawner: Arc::new(OsSpawner::default()),
            secret: Arc::new(Secret::in_file(Secret::usual_place())),
        }
    }
}

/// Starts processes of the operating system through `autoloop __shim`.
///
/// A shim whose job left nothing behind waits for the next one: to start a process that watches takes
/// as long as to start one that works. Those that wait end with the last clone of the spawner.
#[derive(Clone, Debug, Default)]
pub struct OsSpawner {
    /// `None`: this very program.
    shim: Option<PathBuf>,
    bench: Arc<Bench>,
}

impl OsSpawner {
    /// Has the shims of another executable, for programs that are not `autoloop` themselves.
    pub fn through(shim: impl Into<PathBuf>) -> Self {
        OsSpawner { shim: Some(shim.into()), ..OsSpawner::default() }
    }
}

impl Spawner for OsSpawner {
    fn spawn(&self, job: Job) -> io::Result<Running> {
        let program = self.shim.clone().map_or_else(this_program, Ok)?;
        let (reports, received) = channel();
        let (signals, to_send) = channel();
        let (began, begun) = channel();
        let parked = self.bench.waiting.take(&job);
        let errand = Errand { job, signals: to_send, reports, began };
        let left = match parked {
            Some(parked) => parked.hand_over(errand),
            None => Some(errand),
        };
        if let Some(errand) = left {
            shim_process::start(program, errand, self.bench.waiting.clone())?;
        }
        let id = begun.recv().map_err(io::Error::other)??;
        Ok(Running { id, reports: received, signals })
    }

    fn look_up(&self, job: &Job) -> Result<(), NeverStarted> {
        let own = job.env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone());
        // Without one the system has places of its own.
        let Some(path) = own.or_else(|| std::env::var_os("PATH")) else { return Ok(()) };
        let dir = job.dir.as_deref().unwrap_or(Path::new("."));
        let errno = match find(&job.program, &path, dir) {
            Found::At(_) => return Ok(()),
            Found::NotExecutable(_) => Errno::ACCESS,
            Found::Nowhere => Errno::NOENT,
        };
        Err(unable(job, &errno.into()))
    }
}

/// The shims that wait, as long as there is a spawner.
#[derive(Debug, Default)]
struct Bench {
    waiting: Waiting,
}

impl Drop for Bench {
    /// Sends them away and waits until they are gone.
    fn drop(&mut self) {
        let parked = std::mem::take(&mut *self.waiting.places()).unwrap_or_default();
        let leaving: Vec<_> = parked.into_iter().map(Parked::dismiss).collect();
        for gone in leaving {
            // Nothing is ever said: it ends.
            let _ = gone.recv();
        }
    }
}

/// Places for shims that wait; none when there is no spawner any more.
#[derive(Clone, Debug)]
struct Waiting(Arc<Mutex<Option<Vec<Parked>>>>);

impl Default for Waiting {
    fn default() -> Self {
        Waiting(Arc::new(Mutex::new(Some(Vec::new()))))
    }
}

impl Waiting {
    /// One that can do a job. Whoever marks a job himself has a shim of its own for it.
    fn take(&self, job: &Job) -> Option<Parked> {
        let mut places = self.places();
        let parked = places.as_mut().filter(|_| job.token.is_empty())?;
        let fits = parked.iter().rposition(|parked| parked.notes == job.notes)?;
        Some(parked.swap_remove(fits))
    }

    /// Whether there was a place for it.
    fn park(&self, one: Parked) -> bool {
        match self.places().as_mut().filter(|parked| parked.len() < MOST) {
            Some(parked) => {
                parked.push(one);
                true
            }
            None => false,
        }
    }

    fn places(&self) -> MutexGuard<'_, Option<Vec<Parked>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
