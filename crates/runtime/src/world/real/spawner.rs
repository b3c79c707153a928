//! Real processes, watched by plain threads that only report.

use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::process::{Pid, WaitId, WaitIdOptions, kill_process, waitid};

use crate::world::{Exit, Job, Report, Running, Signal, Spawner};

/// Starts processes of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsSpawner;

impl Spawner for OsSpawner {
    fn spawn(&self, job: Job) -> io::Result<Running> {
        let mut command = Command::new(&job.program);
        command
            .args(&job.args)
            .envs(job.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for name in &job.env_removed {
            command.env_remove(name);
        }
        if let Some(dir) = &job.dir {
            command.current_dir(dir);
        }
        let mut child = command.spawn()?;
        let id = child.id();

        if let Some(mut stdin) = child.stdin.take() {
            // A process that does not read its input is no error; it simply did not want it.
            thread::spawn(move || drop(stdin.write_all(&job.stdin)));
        }
        let (reports, received) = channel();
        let drains = [
            child.stdout.take().map(|pipe| drain(pipe, reports.clone(), Report::Stdout)),
            child.stderr.take().map(|pipe| drain(pipe, reports.clone(), Report::Stderr)),
        ];
        let child = Arc::new(Mutex::new(child));
        let (signals, to_send) = channel();
        thread::spawn({
            let child = Arc::clone(&child);
            move || deliver(&child, &to_send)
        });
        thread::spawn(move || {
            let exit = wait(id, &child);
            for drain in drains.into_iter().flatten() {
                // A panic in a drain has nowhere to go; the exit is reported all the same.
                let _ = drain.join();
            }
            let _ = reports.send(Report::Exited(exit));
        });
        Ok(Running { id, reports: received, signals })
    }
}

fn drain(
    mut pipe: impl Read + Send + 'static,
    reports: Sender<Report>,
    wrap: fn(Vec<u8>) -> Report,
) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        // Reading goes on when nobody listens any more: a full pipe would stop the process.
        while let Ok(count @ 1..) = pipe.read(&mut buffer) {
            let _ = reports.send(wrap(buffer[..count].to_vec()));
        }
    })
}

/// Waits without reaping, so that the process id stays ours until the lock is held and no signal
/// can hit a stranger who got the same id.
fn wait(id: u32, child: &Mutex<Child>) -> Exit {
    if let Some(pid) = pid(id) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), options) {}
    }
    match child.lock().unwrap_or_else(PoisonError::into_inner).wait() {
        Ok(status) => exit(status),
        Err(_) => Exit::Code(-1),
    }
}

fn deliver(child: &Mutex<Child>, signals: &Receiver<Signal>) {
    for signal in signals {
        let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(None) = child.try_wait() else { return };
        // The process is there, unreaped, while we hold it; a failing signal has no remedy.
        let _ = match (signal, pid(child.id())) {
            (Signal::Terminate, Some(pid)) => {
                kill_process(pid, rustix::process::Signal::TERM).map_err(io::Error::from)
            }
            _ => child.kill(),
        };
    }
}

fn pid(id: u32) -> Option<Pid> {
    i32::try_from(id).ok().and_then(Pid::from_raw)
}

fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Code(-1),
    }
}
