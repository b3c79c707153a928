//! The process between the harness and an agent: `autoloop __shim`.
//!
//! # Why a process
//!
//! An agent starts tools, tools start servers, and some of them leave the agent's process group, its session and
//! their parent on purpose. Only the kernel knows them all, and it informs only a *subreaper*: every process that
//! loses its parent below the shim becomes a child of the shim. So when `waitpid` reports no child, nothing is left;
//! no list of processes can prove that. One shim for each running job keeps the processes of several jobs apart, and
//! outlives a harness that is killed. A shim without children can run another job; otherwise it ends.
//!
//! # The two pipes
//!
//! Standard input is the control pipe. The harness writes an order, which contains the job, and later signals; its end
//! means that the harness has died, and all processes are ended within two seconds: by SIGTERM first, because a git
//! that is killed leaves its locks behind. Standard output carries the reports. Nothing of a job is on the command
//! line of the shim.
//!
//! # From start to end
//!
//! ```text
//! harness ── autoloop __shim ── autoloop __shim --exec → agent
//!
//! running ──deadline, Terminate──▶ ending ──grace is over, second signal──▶ killing ─┐
//!    │                               ▲   └──────────no child is left──────────────┐  │
//!    │ the agent ends                │ it left processes behind                   ▼  ▼
//!    └───────────────────────────────┴──it left none, or may leave them──▶ draining ──▶ report
//! ```
//!
//! *Ending* has sent SIGTERM to the agent's process group. *Killing* sends SIGKILL to the group and to
//! every child, and again to new orphans, until no child is left, for five seconds at most. *Draining* reads what is
//! still in the pipes; a pipe that another process holds open is read for 300 ms at most.
//!
//! # When the shim or the harness is killed
//!
//! The agent is started by a second stage of this program, because a process must request SIGKILL at its parent's
//! death itself, before it becomes the agent. So the agent dies with the shim. What the agent had started is found by a
//! token in the environment: at once by the harness, or at its next start ([`crate::process::sweep`]).
//!
//! The shim requests SIGUSR1 at the death of the harness, so that it can clean up. The control pipe ends at the same
//! moment, so nothing is lost on systems without such a signal.
//!
//! # Other systems
//!
//! Without a subreaper and `/proc` only the process group can be killed. Processes that left it are not found.

#![expect(clippy::disallowed_methods, reason = "starts and supervises real processes")]

mod child;
mod exec_stage;
mod process_tree;
mod protocol;
mod spawner;
mod supervisor;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::ioctl_fionbio;

use crate::message;
use crate::process::pipes;
use crate::shim::protocol::{After, Order};
pub use spawner::OsSpawner;

use crate::world::{Cause, Confinement, Ending, Finished, NeverStarted, Obstacle, Overlay};

/// The argument that makes this program a shim.
pub const COMMAND: &str = "__shim";
/// After [`COMMAND`]: the stage that becomes the agent.
const EXEC: &str = "--exec";
/// After [`COMMAND`]: checks whether a process can be confined.
const TRY: &str = "--try";

/// Runs a shim, or its second stage, with the arguments behind [`COMMAND`]. Failures of a job are in its report.
pub fn run(args: impl IntoIterator<Item = OsString>) -> io::Result<()> {
    let mut args = args.into_iter();
    match args.next() {
        Some(word) if word == EXEC => exec_stage::become_agent(args),
        Some(word) if word == TRY => exec_stage::confine(io::stdin()),
        _ => run_jobs(),
    }
}

/// Runs one job after another, as long as none leaves a process behind: so all processes below the shim belong to the
/// current job.
fn run_jobs() -> io::Result<()> {
    let wake = process_tree::prepare()?;
    let here = rustix::fs::open(".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    // Not through the buffer of `io::stdin`: signals may follow the order at once, and stay in the
    // pipe for the poll loop.
    let control = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    while let Some(Order { harness, job }) = next_order(&control, &wake)? {
        if !process_tree::parent_is(harness) {
            break;
        }
        let finished = match supervisor::Supervisor::start(&job, &control, &wake) {
            Ok(supervisor) => supervisor.run()?,
            Err(why) => Finished::new(Ending::NeverStarted(why)),
        };
        // The next job has paths relative to the first directory.
        let is_reusable = finished.cause != Cause::Interrupt
            && process_tree::is_childless()
            && rustix::process::fchdir(&here).is_ok();
        let after = if is_reusable { After::Stays } else { After::Ends };
        report(&finished, after)?;
        if after == After::Ends {
            break;
        }
    }
    Ok(())
}

/// Waits for an order; `None` when there will be none.
fn next_order(mut control: &File, wake: &process_tree::Wake) -> io::Result<Option<Order>> {
    loop {
        let mut polled =
            [PollFd::new(control, PollFlags::IN), PollFd::new(&wake.pipe, PollFlags::IN)];
        pipes::poll(&mut polled, None)?;
        let [has_order, is_woken] = polled.map(|it| !it.revents().is_empty());
        if is_woken {
            wake.drain(&mut [0; 64]);
            if wake.take_request() || wake.take_harness_death() {
                return Ok(None);
            }
        }
        if has_order {
            ioctl_fionbio(control, false)?;
            return protocol::read_order(&mut control);
        }
    }
}

/// Reports to the harness, which may have died.
fn report(finished: &Finished, after: After) -> io::Result<()> {
    let mut reports = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    match protocol::write_report(&mut reports, finished, after) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Whether a process can be confined so, found out by confining one. `program` is this program.
pub(crate) fn can_confine(confinement: &Confinement, program: &Path) -> bool {
    let Ok(overlay) = confinement.overlay.as_ref().map(Overlay::for_a_try).transpose() else {
        return false;
    };
    let tried = Confinement { overlay, ..confinement.clone() };
    let mut command = Command::new(program);
    command.args([COMMAND, TRY]).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.stdin(Stdio::piped()).spawn() else { return false };
    let sent = child.stdin.take().map(|mut pipe| message::write(&mut pipe, &tried));
    matches!(sent, Some(Ok(()))) && child.wait().is_ok_and(|status| status.success())
}

fn never_started(error: &io::Error, message: String) -> NeverStarted {
    let errno = error.raw_os_error().unwrap_or_default();
    NeverStarted { errno, message, obstacle: Obstacle::Surroundings }
}
