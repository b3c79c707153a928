//! Real processes, each supervised by a shim.

mod shim_process;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::child::{cannot_start, this_program};
use crate::which::{Found, find};
use crate::world::{
    Job, NeverStarted, OsEntropy, RealDisk, Running, Secret, Spawner, SystemClock, World,
};
use shim_process::{IdleShim, Request};

const MOST_IDLE: usize = 8;

impl World {
    /// The world as the operating system presents it. Shims of this program supervise its jobs.
    pub fn real() -> Self {
        World {
            clock: Arc::new(SystemClock::default()),
            disk: Arc::new(RealDisk),
            entropy: Arc::new(OsEntropy),
            spawner: Arc::new(OsSpawner::default()),
            secret: Arc::new(Secret::in_file(Secret::default_path())),
        }
    }
}

/// Starts processes of the operating system through `autoloop __shim`.
///
/// A shim whose job left nothing behind is reused: to start a shim takes as long as to start its job. Idle shims end
/// with the last clone of the spawner.
#[derive(Clone, Debug, Default)]
pub struct OsSpawner {
    /// `None`: this very program.
    shim: Option<PathBuf>,
    idle: Arc<IdleShimsGuard>,
}

impl OsSpawner {
    /// Takes the shims of another executable, for programs that are not `autoloop` themselves.
    pub fn through(shim: impl Into<PathBuf>) -> Self {
        OsSpawner { shim: Some(shim.into()), ..OsSpawner::default() }
    }
}

impl Spawner for OsSpawner {
    fn spawn(&self, job: Job) -> io::Result<Running> {
        let program = self.shim.clone().map_or_else(this_program, Ok)?;
        let (finished, received) = channel();
        let (signals, to_send) = channel();
        let (started, start) = channel();
        let idle = self.idle.0.take(&job);
        let job = job.with_environment(std::env::vars_os().collect());
        let request = Request { job, signals: to_send, finished, started };
        let unsent = match idle {
            // It may have died meanwhile.
            Some(idle) => idle.requests.send(request).err().map(|unsent| unsent.0),
            None => Some(request),
        };
        if let Some(request) = unsent {
            shim_process::start(program, request, self.idle.0.clone())?;
        }
        let id = start.recv().map_err(io::Error::other)??;
        Ok(Running { id, finished: received, signals })
    }

    fn look_up(&self, job: &Job) -> Result<(), NeverStarted> {
        let own = job.env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone());
        // Without one the system has a default.
        let Some(path) = own.or_else(|| std::env::var_os("PATH")) else { return Ok(()) };
        let dir = job.dir.as_deref().unwrap_or(Path::new("."));
        let errno = match find(&job.program, &path, dir) {
            Found::At(_) => return Ok(()),
            Found::NotExecutable(_) => Errno::ACCESS,
            Found::Nowhere => Errno::NOENT,
        };
        Err(cannot_start(job, &errno.into()))
    }
}

/// Idle shims, shared with the threads that run them; `None` once the spawner is dropped.
#[derive(Clone, Debug)]
struct IdleShims(Arc<Mutex<Option<Vec<IdleShim>>>>);

impl IdleShims {
    /// One that can run a job. A job with a token of its own gets a shim of its own.
    fn take(&self, job: &Job) -> Option<IdleShim> {
        let mut idle = self.lock();
        let idle = idle.as_mut().filter(|_| job.token.is_empty())?;
        let fits = idle.iter().rposition(|shim| shim.notes == job.notes)?;
        Some(idle.swap_remove(fits))
    }

    /// Whether there was room for it.
    fn add(&self, shim: IdleShim) -> bool {
        let mut idle = self.lock();
        let room = idle.as_mut().filter(|idle| idle.len() < MOST_IDLE);
        room.map(|idle| idle.push(shim)).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<IdleShim>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the idle shims, and waits until they are gone, when the last clone of a spawner is dropped.
#[derive(Debug)]
struct IdleShimsGuard(IdleShims);

impl Default for IdleShimsGuard {
    fn default() -> Self {
        IdleShimsGuard(IdleShims(Arc::new(Mutex::new(Some(Vec::new())))))
    }
}

impl Drop for IdleShimsGuard {
    fn drop(&mut self) {
        let idle = self.0.lock().take().unwrap_or_default();
        let ending: Vec<_> = idle.into_iter().map(|shim| shim.gone).collect();
        for gone in ending {
            // Nothing is sent: the channel closes.
            let _ = gone.recv();
        }
    }
}
