//! Everything that is below the shim: who is there, who died, who is to be signalled.

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

/// Wakes the shim when a child dies or when somebody asks the shim itself to end.
pub(super) struct Wake {
    pub(super) bell: UnixStream,
    asked_to_end: Arc<AtomicBool>,
    harness_died: Arc<AtomicBool>,
}

impl Wake {
    /// Whether somebody asked the shim itself to end, since the last time this was asked.
    pub(super) fn take_request(&self) -> bool {
        self.asked_to_end.swap(false, Ordering::Relaxed)
    }

    /// Whether the kernel told that the harness is dying, since the last time this was asked.
    pub(super) fn take_death(&self) -> bool {
        self.harness_died.swap(false, Ordering::Relaxed)
    }

    /// Takes notice of all that woke us.
    pub(super) fn attend(&self, buffer: &mut [u8]) {
        while matches!((&self.bell).read(buffer), Ok(1..)) {}
    }
}

/// Makes this process the one that inherits orphans, and hears of deaths.
pub(super) fn prepare() -> io::Result<Wake> {
    let (bell, ring) = UnixStream::pair()?;
    bell.set_nonblocking(true)?;
    let (asked_to_end, harness_died) = (Arc::default(), Arc::default());
    let flags = [SIGTERM, SIGINT, SIGHUP].map(|signal| (signal, &asked_to_end));
    for (signal, flag) in flags.into_iter().chain([(SIGUSR1, &harness_died)]) {
        // The flag first: it must be set when the bell is heard.
        signal_hook::flag::register(signal, Arc::clone(flag))?;
        signal_hook::low_level::pipe::register(signal, ring.try_clone()?)?;
    }
    signal_hook::low_level::pipe::register(SIGCHLD, ring)?;
    // A limit on the size of files must not kill us over a spool file: as an error it is known there.
    signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    #[cfg(target_os = "linux")]
    {
        rustix::process::set_child_subreaper(Some(getpid()))?;
        // Not SIGTERM: the kernel sends it for each thread of the harness that we were a child of, one after
        // another, and they would count as a person who asks twice.
        rustix::process::set_parent_process_death_signal(Some(Signal::USR1))?;
    }
    Ok(Wake { bell, asked_to_end, harness_died })
}

/// Whether the harness is still our parent. It may have died before we could ask to be told.
pub(super) fn parent_is(harness: u32) -> bool {
    rustix::process::getppid().map(procfs::id) == Some(harness)
}

/// Whether the kernel knows of no child of ours any more. Without a subreaper nobody knows.
pub(super) fn is_childless() -> bool {
    cfg!(target_os = "linux")
        && loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                result => break result.is_err(),
            }
        }
}

/// The agent and all that came from it.
#[derive(Debug)]
pub(super) struct Family {
    agent: Pid,
    /// How the agent ended. From then on its process id may be somebody else's.
    exit: Option<Exit>,
    /// How many others died.
    pub(super) others: u64,
}

impl Family {
    pub(super) fn of(agent: Pid) -> Self {
        Family { agent, exit: None, others: 0 }
    }

    pub(super) fn agent(&self) -> Pid {
        self.agent
    }

    pub(super) fn exit(&self) -> Option<Exit> {
        self.exit
    }

    /// Buries the dead; whether anybody is left alive.
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

    /// Signals the agent's process group, and every child. A group is only signalled while one of
    /// its members is a child of ours: so long its number cannot be given to anybody else.
    pub(super) fn signal(&self, signal: Signal) {
        let children = procfs::children(getpid());
        let agent = self.agent.as_raw_nonzero().get();
        let group_is_ours = self.exit.is_none() || children.iter().any(|seen| seen.group == agent);
        // Whoever cannot be signalled is dead, or is a survivor that the report will name.
        if group_is_ours || cfg!(not(target_os = "linux")) {
            let _ = kill_process_group(self.agent, signal);
        }
        for child in children {
            if signal == Signal::KILL || child.pid != self.agent {
                let _ = kill_process(child.pid, signal);
            }
        }
    }

    /// The process ids of those who are there.
    pub(super) fn members(&self) -> Vec<u32> {
        procfs::children(getpid()).into_iter().map(|seen| procfs::id(seen.pid)).collect()
    }
}

fn exit(status: WaitStatus) -> Option<Exit> {
    let code = status.exit_status().map(Exit::Code);
    code.or_else(|| status.terminating_signal().map(Exit::Signal))
}
