//! One shim and the jobs that it does one after another, in a thread of their own.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, kill_process};

use super::Waiting;
use crate::process::{Note, TOKEN, kill_marked, token};
use crate::shim::child::shim_command;
use crate::shim::protocol::{self, After, Order};
use crate::world::{CRASH_GRACE, Ending, Finished, Job, OsEntropy, Report, Signal};

/// How often a shim is woken, in case that somebody stopped it.
const WAKE: Duration = Duration::from_secs(1);

/// A job to be done, and who is told about it.
pub(super) struct Errand {
    pub(super) job: Job,
    pub(super) signals: Receiver<Signal>,
    pub(super) reports: Sender<Report>,
    /// The id of the shim, or why there is none.
    pub(super) began: Sender<io::Result<u32>>,
}

/// A shim that waits for another job.
#[derive(Debug)]
pub(super) struct Parked {
    /// Where the note about it is kept.
    pub(super) notes: Option<PathBuf>,
    errands: Sender<Errand>,
    gone: Receiver<()>,
}

impl Parked {
    /// Has it do a job; the job, if that cannot be.
    pub(super) fn hand_over(self, errand: Errand) -> Option<Errand> {
        self.errands.send(errand).err().map(|unsent| unsent.0)
    }

    /// Sends it away. The answer ends when it is gone.
    pub(super) fn dismiss(self) -> Receiver<()> {
        self.gone
    }
}

/// A shim, and everything that it is held by.
struct Shim {
    child: Child,
    reports: Option<ChildStdout>,
    control: io::PipeWriter,
    token: String,
    note: Option<Note>,
}

/// Starts a shim for a job, and for others after it.
pub(super) fn start(program: PathBuf, errand: Errand, waiting: Waiting) -> io::Result<()> {
    // The thread that starts the shim stays until its end, because a parent's death signal is really
    // about the thread.
    let keep = move || keep(&program, errand, &waiting);
    thread::Builder::new().name("shim".to_owned()).spawn(keep).map(drop)
}

fn keep(program: &Path, mut errand: Errand, waiting: &Waiting) {
    let mut idle = None;
    loop {
        let shim = match ready(idle, program, &errand.job) {
            Ok(shim) => shim,
            Err(error) => return drop(errand.began.send(Err(error))),
        };
        let _ = errand.began.send(Ok(shim.child.id()));
        let Errand { job, signals, reports, .. } = errand;
        let (notes, is_marked) = (job.notes.clone(), !job.token.is_empty());
        let (finished, left) = shim.attend(job, signals, &reports);
        let (errands, received) = channel();
        // Dropped when this thread is over, and the shim with it.
        let (_is_there, gone) = channel();
        idle = left.and_then(|shim| {
            let parked = Parked { notes, errands, gone };
            // Before the job is over for others: the next one may follow at once.
            if !is_marked && waiting.park(parked) {
                return Some(shim);
            }
            shim.end();
            None
        });
        let _ = reports.send(Report::Finished(finished));
        // Whoever reads to the end is not to wait for the next job.
        drop(reports);
        match (received.recv(), idle.take()) {
            (Ok(next), shim) => (errand, idle) = (next, shim),
            (Err(_), Some(shim)) => return shim.end(),
            (Err(_), None) => return,
        }
    }
}

/// The shim that is there, if it is good for another job, or else a new one.
fn ready(idle: Option<Shim>, program: &Path, job: &Job) -> io::Result<Shim> {
    let Some(mut shim) = idle else { return Shim::start(program, job) };
    let is_there = matches!(shim.child.try_wait(), Ok(None));
    // An agent may have taken its note away, without which nothing would be swept after a crash.
    if is_there && shim.note.as_ref().is_none_or(Note::is_there) {
        // Somebody may have stopped it, and a long order goes through the pipe only while it reads.
        wake(pid(&shim.child));
        return Ok(shim);
    }
    shim.end();
    Shim::start(program, job)
}

impl Shim {
    /// Starts one, which then waits for its order. Its group is not ours: the terminal's Ctrl-C is for
    /// the harness, which knows what to do about it.
    fn start(program: &Path, job: &Job) -> io::Result<Shim> {
        let token = match job.token.as_str() {
            "" => token(&OsEntropy),
            marked => marked.to_owned(),
        };
        let note = job.notes.as_deref().map(|notes| Note::leave(notes, &token)).transpose()?;
        let (orders, control) = io::pipe()?;
        let mut command = shim_command(program);
        command.stdin(orders).stdout(Stdio::piped()).process_group(0).env(TOKEN, &token);
        let mut child = command.spawn()?;
        let reports = child.stdout.take();
        Ok(Shim { child, reports, control, token, note })
    }

    /// Gives the order, and passes on what the shim says until the job is over. How it ended, and the
    /// shim, if it waits for more.
    fn attend(
        self,
        job: Job,
        signals: Receiver<Signal>,
        reports: &Sender<Report>,
    ) -> (Box<Finished>, Option<Shim>) {
        let Shim { mut child, reports: mut pipe, mut control, token, note } = self;
        let job = Job { token: token.clone(), ..job };
        // An order that does not arrive whole shows in the reports.
        let given =
            protocol::write_order(&mut control, &Order { harness: std::process::id(), job });
        // Kept open until the end, also when nobody can send signals any more: its end would mean ours.
        let shared = Arc::new(Mutex::new(Some(control)));
        thread::spawn({
            let control = Arc::clone(&shared);
            let shim = pid(&child);
            move || deliver(shim, &signals, &control)
        });
        let heard = listen(pipe.as_mut(), reports);
        let control = shared.lock().unwrap_or_else(PoisonError::into_inner).take();
        let told = match (heard, control) {
            (Ok((finished, After::Stays)), Some(control)) => {
                return (finished, Some(Shim { child, reports: pipe, control, token, note }));
            }
            (heard, _) => heard.map(|(finished, _)| finished),
        };
        let status = child.wait();
        let finished = told.unwrap_or_else(|error| {
            let ended = match (error.or(given.err()), status) {
                (Some(error), _) => format!("could not be understood: {error}"),
                (None, Ok(status)) => match (status.code(), status.signal()) {
                    (_, Some(signal)) => format!("was killed by signal {signal}"),
                    (code, None) => format!("ended with status {}", code.unwrap_or_default()),
                },
                (None, Err(error)) => format!("cannot be waited for: {error}"),
            };
            let swept = kill_marked(&token, CRASH_GRACE).len();
            let lost = format!(
                "the process that watched over it {ended}; {swept} processes of the job were killed"
            );
            Box::new(Finished::new(Ending::Lost(lost)))
        });
        note.into_iter().for_each(Note::remove);
        (finished, None)
    }

    /// Ends one that waits. It has nothing to lose, and if somebody stopped it, it would not hear a word.
    fn end(self) {
        let Shim { mut child, note, .. } = self;
        let _ = child.kill();
        let _ = child.wait();
        note.into_iter().for_each(Note::remove);
    }
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Passes on the reports of a shim up to the last one about a job. Without a last one the shim has
/// failed us; the error is there when something could be read and not be understood.
fn listen(
    pipe: Option<&mut ChildStdout>,
    reports: &Sender<Report>,
) -> Result<(Box<Finished>, After), Option<io::Error>> {
    let Some(pipe) = pipe else { return Err(None) };
    loop {
        match protocol::read_report(pipe) {
            Ok(Some((Report::Finished(finished), after))) => return Ok((finished, after)),
            Ok(Some((report, _))) => drop(reports.send(report)),
            Ok(None) => return Err(None),
            Err(error) => return Err(Some(error)),
        }
    }
}

/// Passes signals on, and wakes a shim that somebody stopped: it would watch over nothing, and an agent
/// could live for ever.
fn deliver(shim: Option<Pid>, signals: &Receiver<Signal>, control: &Mutex<Option<io::PipeWriter>>) {
    loop {
        let signal = signals.recv_timeout(WAKE);
        // Whoever holds it keeps the shim from being reaped, so its id is nobody else's.
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

/// Has a shim go on that somebody stopped. It is not reaped yet, so its id is nobody else's.
fn wake(shim: Option<Pid>) {
    if let Some(shim) = shim {
        let _ = kill_process(shim, rustix::process::Signal::CONT);
    }
}
