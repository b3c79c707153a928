//! Killing what a crash left behind.
//!
//! When a shim is killed, processes of its job that had left the agent go on. They carry the job's
//! token in their environment, and the note about the job is still there.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, getpid};

use super::{note, proc};
use crate::shim::TOKEN;

/// So many looks in a row must find nobody: one look may miss a process that forks just then.
const CLEAN_LOOKS: u32 = 3;
/// Whoever cannot be killed in so many looks stays.
const LOOKS: u32 = 50;

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// How many jobs had been left unfinished.
    pub jobs: usize,
    /// The processes that were killed.
    pub killed: Vec<u32>,
}

/// Kills the processes of jobs whose harness is gone, and removes the notes about them.
///
/// A job of a harness that is still there, this one or another, is left alone. So is this process, and
/// whatever it was started from, should it come from such a job itself.
///
/// # Errors
///
/// When the directory of notes cannot be read, or a note cannot be removed.
pub fn sweep(notes: &Path) -> io::Result<Swept> {
    let mut swept = Swept::default();
    for (token, harness) in note::all(notes)? {
        match Fate::of(harness.as_ref()) {
            Fate::UnderWay => continue,
            Fate::Over => {}
            Fate::LeftOver => {
                swept.jobs += 1;
                swept.killed.extend(kill_marked(&token));
            }
        }
        fs::remove_file(notes.join(&token))?;
    }
    Ok(swept)
}

/// What became of a job that there is a note about.
enum Fate {
    /// Its harness is there, this one or another.
    UnderWay,
    /// Its harness is gone, and processes of it may be left.
    LeftOver,
    /// The machine was started anew since.
    Over,
}

impl Fate {
    fn of(harness: Option<&note::Harness>) -> Fate {
        match harness {
            Some(harness) if !harness.is_of_this_boot() => Fate::Over,
            Some(harness) if !harness.is_gone() => Fate::UnderWay,
            // A note that cannot be read is nobody's.
            Some(_) | None => Fate::LeftOver,
        }
    }
}

/// A job whose harness is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOver {
    /// The note about it.
    pub note: PathBuf,
    /// Its processes that are still there.
    pub processes: Vec<u32>,
}

/// What a [`sweep`] would find, left as it is.
///
/// # Errors
///
/// When the directory of notes cannot be read.
pub fn left_over(notes: &Path) -> io::Result<Vec<LeftOver>> {
    let all = note::all(notes)?.into_iter();
    let left = all.filter(|(_, harness)| matches!(Fate::of(harness.as_ref()), Fate::LeftOver));
    let found = left.map(|(token, _)| {
        let marked = proc::all().filter(|pid| proc::carries(*pid, TOKEN, &token));
        LeftOver { processes: marked.map(proc::id).collect(), note: notes.join(&token) }
    });
    Ok(found.collect())
}

/// Kills every process that carries the token; their ids. No token marks nobody.
pub(crate) fn kill_marked(token: &str) -> Vec<u32> {
    let mut killed = BTreeSet::new();
    if token.is_empty() {
        return Vec::new();
    }
    let spared = line_of_ancestors();
    let mut clean = 0;
    for _ in 0..LOOKS {
        let marked = proc::all().filter(|pid| !spared.contains(pid));
        let found: Vec<Pid> = marked.filter(|pid| proc::carries(*pid, TOKEN, token)).collect();
        clean = if found.is_empty() { clean + 1 } else { 0 };
        if clean == CLEAN_LOOKS {
            break;
        }
        kill_all(&found, token);
        killed.extend(found.into_iter().map(proc::id));
    }
    killed.into_iter().collect()
}

/// This process, its parent, and so on.
fn line_of_ancestors() -> Vec<Pid> {
    let mut line = vec![getpid()];
    while let Some(parent) = line
        .last()
        .and_then(|pid| Pid::from_raw(proc::look(*pid)?.parent))
        .filter(|pid| !line.contains(pid))
    {
        line.push(parent);
    }
    line
}

/// Kills processes and waits a moment for their end. Each is held by a descriptor while it is looked
/// at once more, so that the signal cannot hit another that was given the same id.
#[cfg(target_os = "linux")]
fn kill_all(found: &[Pid], token: &str) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    /// A dead process may be seen until it is taken down.
    const MOMENT: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

    for pid in found {
        let Ok(process) = pidfd_open(*pid, PidfdFlags::empty()) else { continue };
        if proc::carries(*pid, TOKEN, token) && pidfd_send_signal(&process, Signal::KILL).is_ok() {
            let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&MOMENT));
        }
    }
}

/// Without `/proc` nobody is ever found.
#[cfg(not(target_os = "linux"))]
fn kill_all(_: &[Pid], _: &str) {}
