//! Real processes, each below a shim of its own.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, kill_process};

use crate::process::{Note, kill_marked};
use crate::shim::wire::{self, Order};
use crate::shim::{TOKEN, shim_command, this_program};
use crate::world::{Ending, Finished, Job, Report, Running, Signal, Spawner};

/// How often a shim is woken, in case that somebody stopped it.
const WAKE: Duration = Duration::from_secs(1);

/// Starts processes of the operating system through `autoloop __shim`.
#[derive(Clone, Debug, Default)]
pub struct OsSpawner {
    /// `None`: this very program.
    shim: Option<PathBuf>,
}

impl OsSpawner {
    /// Has the shims of another executable, for programs that are not `autoloop` themselves.
    pub fn through(shim: impl Into<PathBuf>) -> Self {
        OsSpawner { shim: Some(shim.into()) }
    }
}

impl Spawner for OsSpawner {
    fn spawn(&self, job: Job) -> io::Result<Running> {
        let program = self.shim.clone().map_or_else(this_program, Ok)?;
        let (reports, received) = channel();
        let (signals, to_send) = channel();
        let (began, begun) = channel();
        // The thread that starts the shim stays until its end, because a parent's death signal is
        // really about the thread.
        thread::Builder::new().name("shim".to_owned()).spawn(move || {
            let note = job.notes.as_deref().map(|notes| Note::leave(notes, &job.token));
            let started = note.transpose().and_then(|note| {
                start(&program, &job).map(|(shim, control)| (shim, control, note))
            });
            match started {
                Ok((shim, control, note)) => {
                    let _ = began.send(Ok(shim.id()));
                    attend(Attended { shim, job, note }, control, to_send, &reports);
                }
                Err(error) => drop(began.send(Err(error))),
            }
        })?;
        let id = begun.recv().map_err(io::Error::other)??;
        Ok(Running { id, reports: received, signals })
    }
}

/// Starts a shim, which then waits for its order. Its group is not ours: the terminal's Ctrl-C is for
/// the harness, which knows what to do about it.
fn start(program: &Path, job: &Job) -> io::Result<(Child, io::PipeWriter)> {
    let (control, ours) = io::pipe()?;
    let mut command = shim_command(program);
    command.stdin(control).stdout(Stdio::piped()).process_group(0);
    if !job.token.is_empty() {
        command.env(TOKEN, &job.token);
    }
    Ok((command.spawn()?, ours))
}

/// A shim at work.
struct Attended {
    shim: Child,
    job: Job,
    note: Option<Note>,
}

/// Gives the order, and passes on what the shim says until it has nothing more to say.
fn attend(
    mut attended: Attended,
    mut control: io::PipeWriter,
    signals: Receiver<Signal>,
    reports: &Sender<Report>,
) {
    let order = Order { harness: std::process::id(), job: attended.job };
    // An order that does not arrive whole shows in the reports.
    let given = wire::write_order(&mut control, &order);
    let token = order.job.token;
    // Kept open until the end, also when nobody can send signals any more: its end would mean ours.
    let control = Arc::new(Mutex::new(Some(control)));
    thread::spawn({
        let control = Arc::clone(&control);
        let shim = i32::try_from(attended.shim.id()).ok().and_then(Pid::from_raw);
        move || deliver(shim, &signals, &control)
    });
    let finished = listen(&mut attended.shim, reports);
    drop(control.lock().unwrap_or_else(PoisonError::into_inner).take());
    let status = attended.shim.wait();
    let finished = finished.unwrap_or_else(|error| {
        let ended = match (error.or(given.err()), status) {
            (Some(error), _) => format!("could not be understood: {error}"),
            (None, Ok(status)) => match (status.code(), status.signal()) {
                (_, Some(signal)) => format!("was killed by signal {signal}"),
                (code, None) => format!("ended with status {}", code.unwrap_or_default()),
            },
            (None, Err(error)) => format!("cannot be waited for: {error}"),
        };
        let swept = kill_marked(&token).len();
        let lost = format!(
            "the process that watched over it {ended}; {swept} processes of the job were killed"
        );
        Box::new(Finished::new(Ending::Lost(lost)))
    });
    if let Some(note) = attended.note {
        note.remove();
    }
    let _ = reports.send(Report::Finished(finished));
}

/// Passes on the reports of a shim up to the last one. Without a last one the shim has failed us; the
/// error is there when something could be read and not be understood.
fn listen(shim: &mut Child, reports: &Sender<Report>) -> Result<Box<Finished>, Option<io::Error>> {
    let Some(mut pipe) = shim.stdout.take() else { return Err(None) };
    loop {
        match wire::read_report(&mut pipe) {
            Ok(Some(Report::Finished(finished))) => return Ok(finished),
            Ok(Some(report)) => drop(reports.send(report)),
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
            Ok(signal) => drop(wire::write_signal(pipe, signal)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if let Some(shim) = shim {
            let _ = kill_process(shim, rustix::process::Signal::CONT);
        }
    }
}
