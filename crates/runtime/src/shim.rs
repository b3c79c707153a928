//! The process that stands between the harness and an agent: `autoloop __shim`.
//!
//! # Why a process
//!
//! An agent starts tools, tools start servers, and some of them leave the agent's process group, its
//! session and their parent on purpose. Only the kernel knows them all, and it tells only a
//! *subreaper*: whatever loses its parent below the shim becomes a child of the shim. So
//! `waitpid` saying that there is no child means that nothing is left, exactly; no look at a list of
//! processes can promise that. One such process for each job under way keeps the families of several
//! jobs apart, and outlives a harness that is killed. When it has no child left it can do another job;
//! else it ends with the one that left something behind.
//!
//! # The two pipes
//!
//! Standard input is the control pipe. The harness writes an order, which holds the job, and later
//! signals; its end means that the harness is gone, and everything is ended within two seconds: it is
//! asked first, because a git that is killed leaves its locks behind. Standard output carries the
//! reports back. Nothing of a job is ever on a command line but its own command line.
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
//! every child, and again to the orphans that this brings up, until the kernel says that no child is
//! left, for five seconds at most. *Draining* reads what is still in the pipes; a pipe that somebody
//! holds open is not waited for longer than 300 ms.
//!
//! # When we are the ones to die
//!
//! The agent is started by a second small stage of this program, because SIGKILL at its parent's death
//! is something that a process can only ask for itself, before it becomes the agent. So a killed shim
//! takes the agent with it. What the agent had started is found by a token in the environment: at once
//! by the harness, when it sees the shim die, or at its next start ([`crate::process::sweep`]).
//!
//! The shim asks for SIGTERM at the death of the harness, not for SIGKILL: killed on the spot it could
//! not clean up. As the control pipe ends at the same moment, nothing is lost when the system has no
//! such signal.
//!
//! # Other systems
//!
//! Without a subreaper and `/proc` the process group is all that can be killed. Processes that left
//! it go unseen.

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

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::process::pipes::may_wait;
use crate::shim::protocol::{After, Order};
pub use spawner::OsSpawner;

use crate::world::{Cause, Confinement, Ending, Finished, NeverStarted, Obstacle, Overlay, Report};

/// The word on the command line that makes this program a shim.
pub const COMMAND: &str = "__shim";
/// And the word behind it that makes it the stage which becomes the agent.
const EXEC: &str = "--exec";
/// And the one that makes it find out whether a process can be bound in a given way.
const TRY: &str = "--try";

/// Does the work of a shim, or of its second stage, with the arguments behind [`COMMAND`].
pub fn run(args: impl IntoIterator<Item = OsString>) -> io::Result<()> {
    let mut args = args.into_iter();
    match args.next() {
        Some(word) if word == EXEC => exec_stage::become_agent(args),
        Some(word) if word == TRY => exec_stage::try_bounds(args),
        _ => watch_over_jobs(),
    }
}

/// Does one job after another, as long as none leaves anything behind: so whatever is below the shim
/// comes from the job that it does.
fn watch_over_jobs() -> io::Result<()> {
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
        // The paths of the next job are seen from where we were.
        let is_fit = finished.cause != Cause::Interrupt
            && process_tree::is_childless()
            && rustix::process::fchdir(&here).is_ok();
        let after = if is_fit { After::Stays } else { After::Ends };
        tell(&Report::Finished(Box::new(finished)), after)?;
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
            [PollFd::new(control, PollFlags::IN), PollFd::new(&wake.bell, PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [has_order, is_woken] = polled.map(|it| !it.revents().is_empty());
        if is_woken {
            wake.attend(&mut [0; 64]);
            if wake.take_request() || wake.take_death() {
                return Ok(None);
            }
        }
        if has_order {
            may_wait(control)?;
            return protocol::read_order(&mut control);
        }
    }
}

/// Reports to the harness. When there is none any more, there is nobody to be told.
fn tell(report: &Report, after: After) -> io::Result<()> {
    let mut reports = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    match protocol::write_report(&mut reports, report, after) {
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
    Command::new(program)
        .args([COMMAND, TRY])
        .args(tried.to_args())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// An error about one thing, with a text that names it.
fn never_started(error: &io::Error, message: impl FnOnce(&io::Error) -> String) -> NeverStarted {
    let (errno, message) = (error.raw_os_error().unwrap_or_default(), message(error));
    NeverStarted { errno, message, obstacle: Obstacle::Surroundings }
}
