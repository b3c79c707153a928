//! One shim process and the jobs that it runs one after another, in a thread of their own.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use autoloop_core::env::Inherits;
use rustix::process::{Pid, kill_process};

use super::IdleShims;
use crate::process::{Note, TOKEN, kill_marked, token};
use crate::procfs;
use crate::shim::COMMAND;
use crate::shim::protocol::{self, After, Order};
use crate::world::{CRASH_GRACE, Ending, Finished, Job, OsEntropy, Signal};

/// How often a shim is woken, in case that it was stopped.
const WAKE: Duration = Duration::from_secs(1);

/// The thread of a shim mostly waits, and its stack counts as memory of the process.
const STACK: usize = 256 * 1024;

/// A job to run, and where its end is reported.
pub(super) struct Request {
    pub(super) job: Job,
    pub(super) signals: Receiver<Signal>,
    pub(super) finished: Sender<Finished>,
    /// The id of the shim, or why there is none.
    pub(super) started: Sender<io::Result<u32>>,
}

#[derive(Debug)]
pub(super) struct IdleShim {
    /// The directory of its note.
    pub(super) notes: Option<PathBuf>,
    pub(super) requests: Sender<Request>,
    /// Closes when the shim has ended, which it does when it can get no more requests.
    pub(super) gone: Receiver<()>,
}

struct Shim {
    child: Child,
    reports: io::PipeReader,
    control: io::PipeWriter,
    token: String,
    note: Option<Note>,
}

/// Starts a shim for a job, and for others after it.
pub(super) fn start(program: PathBuf, request: Request, idle: IdleShims) -> io::Result<()> {
    // The thread that starts the shim stays until its end, because the parent-death signal is bound to the thread.
    let run = move || run_jobs(&program, request, &idle);
    thread::Builder::new().name("shim".to_owned()).stack_size(STACK).spawn(run).map(drop)
}

fn run_jobs(program: &Path, mut request: Request, idle: &IdleShims) {
    let mut waiting = None;
    loop {
        let shim = match ready(waiting, program, &request.job) {
            Ok(shim) => shim,
            Err(error) => return drop(request.started.send(Err(error))),
        };
        let _ = request.started.send(Ok(shim.child.id()));
        let Request { job, signals, finished, .. } = request;
        let (notes, is_marked) = (job.notes.clone(), !job.token.is_empty());
        let (report, left) = shim.run(job, signals);
        let (requests, received) = channel();
        // Dropped at the end of this thread, and so of the shim.
        let (_alive, gone) = channel();
        waiting = left.and_then(|shim| {
            // Before the report is sent: the next job may follow at once.
            if !is_marked && idle.add(IdleShim { notes, requests, gone }) {
                return Some(shim);
            }
            shim.end();
            None
        });
        let _ = finished.send(report);
        // A reader to the end of the channel must not wait for the next job.
        drop(finished);
        match (received.recv(), waiting.take()) {
            (Ok(next), shim) => (request, waiting) = (next, shim),
            (Err(_), Some(shim)) => return shim.end(),
            (Err(_), None) => return,
        }
    }
}

/// The waiting shim if it can run another job, or else a new one.
fn ready(waiting: Option<Shim>, program: &Path, job: &Job) -> io::Result<Shim> {
    let Some(mut shim) = waiting else { return Shim::start(program, job) };
    let is_alive = matches!(shim.child.try_wait(), Ok(None));
    // An agent may have removed its note, without which nothing would be swept after a crash.
    if is_alive && shim.note.as_ref().is_none_or(Note::exists) {
        // It may have been stopped, and a long order fits through the pipe only while it reads.
        wake(procfs::pid(shim.child.id()));
        return Ok(shim);
    }
    shim.end();
    Shim::start(program, job)
}

impl Shim {
    /// Starts one, which then waits for its order. It has a process group of its own: the terminal's Ctrl-C is for
    /// the harness.
    fn start(program: &Path, job: &Job) -> io::Result<Shim> {
        let token = match job.token.as_str() {
            "" => token(&OsEntropy),
            marked => marked.to_owned(),
        };
        let note = job.notes.as_deref().map(|notes| Note::create(notes, &token)).transpose()?;
        let (orders, control) = io::pipe()?;
        let mut command = Command::new(program);
        command.arg0("autoloop").arg(COMMAND).process_group(0);
        // Secrets of the harness are not for agents, which can read the environment of a shim.
        let usual = Inherits::Agent { client: None, more: Vec::new() };
        command.env_clear().envs(usual.select(std::env::vars_os().collect())).env(TOKEN, &token);
        let (reports, output) = io::pipe()?;
        let child = command.stdin(orders).stdout(output).spawn()?;
        Ok(Shim { child, reports, control, token, note })
    }

    /// Sends the order, and waits until the job has ended. Returns how it ended, and the shim if it waits for another
    /// job.
    fn run(self, job: Job, signals: Receiver<Signal>) -> (Finished, Option<Shim>) {
        let Shim { mut child, mut reports, mut control, token, note } = self;
        let job = Job { token: token.clone(), ..job };
        // An order that does not arrive shows in the reports.
        let sent = protocol::write_order(&mut control, &Order { harness: std::process::id(), job });
        // Kept open until the end even when no signal can be sent any more: its end means that the harness died.
        let shared = Arc::new(Mutex::new(Some(control)));
        thread::spawn({
            let control = Arc::clone(&shared);
            let shim = procfs::pid(child.id());
            move || send_signals(shim, &signals, &control)
        });
        let received = protocol::read_report(&mut reports);
        let control = shared.lock().unwrap_or_else(PoisonError::into_inner).take();
        let received = match (received, control) {
            (Ok(Some((finished, After::Stays))), Some(control)) => {
                return (finished, Some(Shim { child, reports, control, token, note }));
            }
            (Ok(Some((finished, _))), _) => Ok(finished),
            (Ok(None), _) => Err(None),
            (Err(error), _) => Err(Some(error)),
        };
        let status = child.wait();
        let finished = received.unwrap_or_else(|error| {
            let ended = match (error.or(sent.err()), status) {
                (Some(error), _) => format!("sent a malformed report: {error}"),
                (None, Ok(status)) => match (status.code(), status.signal()) {
                    (_, Some(signal)) => format!("was killed by signal {signal}"),
                    (code, None) => format!("ended with status {}", code.unwrap_or_default()),
                },
                (None, Err(error)) => format!("cannot be waited for: {error}"),
            };
            let swept = kill_marked(&token, CRASH_GRACE).len();
            let lost = format!("its supervisor {ended}; {swept} processes of the job were killed");
            Finished::new(Ending::Lost(lost))
        });
        note.into_iter().for_each(Note::remove);
        (finished, None)
    }

    /// Kills one that waits: it has nothing to lose, and if it was stopped, it would read nothing.
    fn end(self) {
        let Shim { mut child, note, .. } = self;
        let _ = child.kill();
        let _ = child.wait();
        note.into_iter().for_each(Note::remove);
    }
}

/// Sends signals, and wakes a shim that was stopped: it would supervise nothing, and an agent could live forever.
fn send_signals(
    shim: Option<Pid>,
    signals: &Receiver<Signal>,
    control: &Mutex<Option<io::PipeWriter>>,
) {
    loop {
        let signal = signals.recv_timeout(WAKE);
        // While it is locked the shim is not reaped, so its id is not reused.
        let mut control = control.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pipe) = control.as_mut() else { return };
        match signal {
            // A shim that is gone needs no signal.
            Ok(signal) => drop(protocol::write_signal(pipe, signal)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        wake(shim);
    }
}

fn wake(shim: Option<Pid>) {
    if let Some(shim) = shim {
        let _ = kill_process(shim, rustix::process::Signal::CONT);
    }
}
