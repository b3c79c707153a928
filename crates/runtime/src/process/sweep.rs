//! Killing what a crash left behind.
//!
//! When a shim is killed, processes of its job that had left the agent continue to run. They carry the job's token in
//! their environment, and the note about the job is still there.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid};

use super::{TOKEN, job_note, pipes};
use crate::procfs;
use crate::world::{Clock, SystemClock};

/// So many passes in a row must find no process: one pass may miss a process that forks just then.
const CLEAN_PASSES: u32 = 3;
/// How long a killed process may remain visible.
const MOMENT: Duration = Duration::from_millis(50);
/// Processes that cannot be killed in so many passes stay.
const PASSES: u32 = 50;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub jobs: usize,
    pub killed: Vec<u32>,
}

/// Ends the processes of jobs whose harness has died, and removes the notes about them. Each process gets SIGTERM, and
/// SIGKILL after `grace`.
///
/// Jobs of a live harness, this one or another, are left alone. So are this process and its ancestors, should they
/// come from such a job themselves.
pub fn sweep(notes: &Path, grace: Duration) -> io::Result<Swept> {
    let mut swept = Swept::default();
    for (token, harness) in job_note::all(notes)? {
        match JobState::of(harness.as_ref()) {
            JobState::Running => continue,
            JobState::Rebooted => {}
            JobState::Crashed => {
                swept.jobs += 1;
                swept.killed.extend(kill_marked(&token, grace));
            }
        }
        fs::remove_file(notes.join(&token))?;
    }
    Ok(swept)
}

/// The state of a job that there is a note about.
#[derive(PartialEq)]
enum JobState {
    /// Its harness is alive.
    Running,
    /// Its harness has died, and processes of it may be left.
    Crashed,
    /// The machine was restarted since.
    Rebooted,
}

impl JobState {
    fn of(harness: Option<&job_note::Harness>) -> JobState {
        match harness {
            Some(harness) if !harness.is_of_this_boot() => JobState::Rebooted,
            Some(harness) if !harness.is_gone() => JobState::Running,
            // A note that cannot be read belongs to no live harness.
            Some(_) | None => JobState::Crashed,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashedJob {
    pub note: PathBuf,
    /// Its processes that are still running.
    pub processes: Vec<u32>,
}

/// What a [`sweep`] would find, left as it is.
pub fn crashed_jobs(notes: &Path) -> io::Result<Vec<CrashedJob>> {
    let all = job_note::all(notes)?.into_iter();
    let crashed = all.filter(|(_, harness)| JobState::of(harness.as_ref()) == JobState::Crashed);
    let found = crashed.map(|(token, _)| {
        let marked = procfs::all().filter(|pid| procfs::carries(*pid, TOKEN, &token));
        CrashedJob { processes: marked.map(procfs::id).collect(), note: notes.join(&token) }
    });
    Ok(found.collect())
}

/// Ends every process that carries the token, and returns their ids. An empty token marks no process.
///
/// Each gets SIGTERM before SIGKILL: a git that is killed leaves its locks behind, and every other git in the
/// repository would wait for them in vain.
pub(crate) fn kill_marked(token: &str, grace: Duration) -> Vec<u32> {
    if token.is_empty() {
        return Vec::new();
    }
    let spared = ancestors();
    let marked = || -> Vec<Pid> {
        let others = procfs::all().filter(|pid| !spared.contains(pid));
        others.filter(|pid| procfs::carries(*pid, TOKEN, token)).collect()
    };
    let asked = marked();
    end_all(&asked, token, Signal::TERM, grace);
    let mut killed: BTreeSet<u32> = asked.into_iter().map(procfs::id).collect();
    let mut clean = 0;
    for _ in 0..PASSES {
        let found = marked();
        clean = if found.is_empty() { clean + 1 } else { 0 };
        if clean == CLEAN_PASSES {
            break;
        }
        end_all(&found, token, Signal::KILL, MOMENT);
        killed.extend(found.into_iter().map(procfs::id));
    }
    killed.into_iter().collect()
}

fn ancestors() -> Vec<Pid> {
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

/// Signals processes and waits for their end. Each is held by a descriptor while its token is checked once more, so
/// that the signal cannot hit another process with the same id.
#[cfg(target_os = "linux")]
fn end_all(found: &[Pid], token: &str, signal: Signal, patience: Duration) {
    use rustix::event::{PollFd, PollFlags};
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

    let signalled = found.iter().filter_map(|pid| {
        let process = pidfd_open(*pid, PidfdFlags::empty()).ok()?;
        let is_marked = procfs::carries(*pid, TOKEN, token);
        (is_marked && pidfd_send_signal(&process, signal).is_ok()).then_some(process)
    });
    let clock = SystemClock::default();
    for process in signalled.collect::<Vec<_>>() {
        let left = patience.saturating_sub(clock.elapsed());
        let _ = pipes::poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(left));
    }
}

/// Without `/proc` no process is found.
#[cfg(not(target_os = "linux"))]
fn end_all(_: &[Pid], _: &str, _: Signal, _: Duration) {}
