//! Killing what a crash left behind.
//!
//! When a shim is killed, processes of its job that had left the agent go on. They carry the job's
//! token in their environment, and the note about the job is still there.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid};

use super::{TOKEN, job_note};
use crate::procfs;
use crate::world::{Clock, SystemClock};

/// So many looks in a row must find nobody: one look may miss a process that forks just then.
const CLEAN_LOOKS: u32 = 3;
/// A process that was killed may be seen until it is taken down.
const MOMENT: Duration = Duration::from_millis(50);
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

/// Ends the processes of jobs whose harness is gone, and removes the notes about them. Each process is
/// asked to end and killed after `grace`.
///
/// A job of a harness that is still there, this one or another, is left alone. So is this process, and
/// whatever it was started from, should it come from such a job itself.
pub fn sweep(notes: &Path, grace: Duration) -> io::Result<Swept> {
    let mut swept = Swept::default();
    for (token, harness) in job_note::all(notes)? {
        match Fate::of(harness.as_ref()) {
            Fate::UnderWay => continue,
            Fate::Over => {}
            Fate::LeftOver => {
                swept.jobs += 1;
                swept.killed.extend(kill_marked(&token, grace));
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
    fn of(harness: Option<&job_note::Harness>) -> Fate {
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
pub fn left_over(notes: &Path) -> io::Result<Vec<LeftOver>> {
    let all = job_note::all(notes)?.into_iter();
    let left = all.filter(|(_, harness)| matches!(Fate::of(harness.as_ref()), Fate::LeftOver));
    let found = left.map(|(token, _)| {
        let marked = procfs::all().filter(|pid| procfs::carries(*pid, TOKEN, &token));
        LeftOver { processes: marked.map(procfs::id).collect(), note: notes.join(&token) }
    });
    Ok(found.collect())
}

/// Ends every process that carries the token; their ids. No token marks nobody.
///
/// Each is asked to end before it is killed: a git that is killed leaves its locks behind, and whoever
/// works in the repository next would wait for them in vain.
pub(crate) fn kill_marked(token: &str, grace: Duration) -> Vec<u32> {
    if token.is_empty() {
        return Vec::new();
    }
    let spared = line_of_ancestors();
    let marked = || -> Vec<Pid> {
        let others = procfs::all().filter(|pid| !spared.contains(pid));
        others.filter(|pid| procfs::carries(*pid, TOKEN, token)).collect()
    };
    let asked = marked();
    end_all(&asked, token, Signal::TERM, grace);
    let mut killed: BTreeSet<u32> = asked.into_iter().map(procfs::id).collect();
    let mut clean = 0;
    for _ in 0..LOOKS {
        let found = marked();
        clean = if found.is_empty() { clean + 1 } else { 0 };
        if clean == CLEAN_LOOKS {
            break;
        }
        end_all(&found, token, Signal::KILL, MOMENT);
        killed.extend(found.into_iter().map(procfs::id));
    }
    killed.into_iter().collect()
}

/// This process, its parent, and so on.
fn line_of_ancestors() -> Vec<Pid> {
    let mut line = vec![getpid()];
    while let Some(parent) = line
        .last()
        .and_then(|pid| Pid::from_raw(procfs::look(*pid)?.parent))
        .filter(|pid| !line.contains(pid))
    {
        line.push(parent);
    }
    line
}

/// Signals processes and waits for their end, as long as patience lasts. Each is held by a descriptor
/// while it is looked at once more, so that the signal cannot hit another that was given the same id.
#[cfg(target_os = "linux")]
fn end_all(found: &[Pid], token: &str, signal: Signal, patience: Duration) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

    let signalled = found.iter().filter_map(|pid| {
        let process = pidfd_open(*pid, PidfdFlags::empty()).ok()?;
        let is_marked = procfs::carries(*pid, TOKEN, token);
        (is_marked && pidfd_send_signal(&process, signal).is_ok()).then_some(process)
    });
    let clock = SystemClock::default();
    for process in signalled.collect::<Vec<_>>() {
        let left = Timespec::try_from(patience.saturating_sub(clock.elapsed())).ok();
        let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], left.as_ref());
    }
}

/// Without `/proc` nobody is ever found.
#[cfg(not(target_os = "linux"))]
fn end_all(_: &[Pid], _: &str, _: Signal, _: Duration) {}
