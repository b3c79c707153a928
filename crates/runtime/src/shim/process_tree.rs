//! All processes below the shim.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group, wait,
};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};

use crate::procfs;
use crate::world::Exit;

/// Wakes the shim when a child dies or a signal arrives.
pub(super) struct Wake {
    pub(super) pipe: UnixStream,
    asked_to_end: Arc<AtomicBool>,
    harness_died: Arc<AtomicBool>,
}

impl Wake {
    /// Whether the shim itself was asked to end since the last call.
    pub(super) fn take_request(&self) -> bool {
        self.asked_to_end.swap(false, Ordering::Relaxed)
    }

    /// Whether the kernel reported the death of the harness since the last call.
    pub(super) fn take_harness_death(&self) -> bool {
        self.harness_died.swap(false, Ordering::Relaxed)
    }

    pub(super) fn drain(&self, buffer: &mut [u8]) {
        while matches!((&self.pipe).read(buffer), Ok(1..)) {}
    }
}

/// Makes this process a subreaper that is woken by deaths.
pub(super) fn prepare() -> io::Result<Wake> {
    let (pipe, waker) = UnixStream::pair()?;
    pipe.set_nonblocking(true)?;
    let (asked_to_end, harness_died) = (Arc::default(), Arc::default());
    let flags = [SIGTERM, SIGINT, SIGHUP].map(|signal| (signal, &asked_to_end));
    for (signal, flag) in flags.into_iter().chain([(SIGUSR1, &harness_died)]) {
        // The flag first: it must be set when the pipe wakes the shim.
        signal_hook::flag::register(signal, Arc::clone(flag))?;
        signal_hook::low_level::pipe::register(signal, waker.try_clone()?)?;
    }
    signal_hook::low_level::pipe::register(SIGCHLD, waker)?;
    // A limit on file sizes must not kill the shim: the spool handles it as an error.
    signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    #[cfg(target_os = "linux")]
    {
        rustix::process::set_child_subreaper(Some(getpid()))?;
        // Not SIGTERM: the kernel sends it for each thread of the harness that was our parent, and several would
        // count as repeated requests of a user.
        rustix::process::set_parent_process_death_signal(Some(Signal::USR1))?;
    }
    Ok(Wake { pipe, asked_to_end, harness_died })
}

/// Whether the harness is still our parent. It may have died before the death signal was requested.
pub(super) fn parent_is(harness: u32) -> bool {
    rustix::process::getppid().map(procfs::id) == Some(harness)
}

/// Whether there is no child left. Never known without a subreaper.
pub(super) fn is_childless() -> bool {
    cfg!(target_os = "linux")
        && loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                result => break result.is_err(),
            }
        }
}

/// The agent and all its descendants.
#[derive(Debug)]
pub(super) struct ProcessTree {
    pub(super) agent: Pid,
    /// How the agent ended. From then on its process id may be reused.
    pub(super) exit: Option<Exit>,
    /// How many other processes ended.
    pub(super) others: u64,
}

impl ProcessTree {
    pub(super) fn of(agent: Pid) -> Self {
        ProcessTree { agent, exit: None, others: 0 }
    }

    /// Reaps zombies; whether a process is left alive.
    pub(super) fn reap(&mut self) -> io::Result<bool> {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.agent && self.exit.is_none() => {
                    self.exit = exit(status);
                }
                Ok(Some(_)) => self.others += 1,
                Ok(None) => return Ok(true),
                Err(Errno::CHILD) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Signals the agent's process group, and every child. A group is signalled only while one of its members is a
    /// child of ours: until then its number cannot be reused.
    pub(super) fn signal(&self, signal: Signal) {
        let children = procfs::children(getpid());
        let agent = self.agent.as_raw_nonzero().get();
        let group_is_ours = self.exit.is_none() || children.iter().any(|seen| seen.group == agent);
        // A process that cannot be signalled is dead, or a survivor that the report will name.
        if group_is_ours || cfg!(not(target_os = "linux")) {
            let _ = kill_process_group(self.agent, signal);
        }
        for child in children {
            if signal == Signal::KILL || child.pid != self.agent {
                let _ = kill_process(child.pid, signal);
            }
        }
    }

    pub(super) fn members(&self) -> Vec<u32> {
        procfs::children(getpid()).into_iter().map(|seen| procfs::id(seen.pid)).collect()
    }
}

fn exit(status: WaitStatus) -> Option<Exit> {
    let code = status.exit_status().map(Exit::Code);
    code.or_else(|| status.terminating_signal().map(Exit::Signal))
}
