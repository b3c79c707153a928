//! Processes that play a script.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use autoloop_runtime::world::{Exit, Job, Report, Running, Signal, Spawner};

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;
/// The id of the first process.
const FIRST_ID: u32 = 1000;

/// What a scripted process does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// What it prints before anything else.
    pub reports: Vec<Report>,
    /// How it ends.
    pub ending: Ending,
}

/// How a scripted process ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself, at once.
    Exits(Exit),
    /// Not before a signal comes.
    Hangs(OnTerminate),
    /// It never begins: the spawn fails with an error of this kind.
    NeverStarts(io::ErrorKind),
}

/// What a hanging process does when it is asked to end. A kill ends it in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnTerminate {
    /// It prints something more and ends.
    Ends(Vec<Report>, Exit),
    /// Nothing.
    Ignores,
}

impl Script {
    /// Ends by itself with this status.
    pub fn exits(code: i32) -> Self {
        Script { reports: Vec::new(), ending: Ending::Exits(Exit::Code(code)) }
    }

    /// Hangs, and ends by the first signal.
    pub fn hangs() -> Self {
        Script::exits(0).on_terminate(Vec::new(), Exit::Signal(SIGTERM))
    }

    /// Cannot be started.
    pub fn never_starts(kind: io::ErrorKind) -> Self {
        Script { reports: Vec::new(), ending: Ending::NeverStarts(kind) }
    }

    /// Prints something on standard output first.
    #[must_use]
    pub fn stdout(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.reports.push(Report::Stdout(bytes.into()));
        self
    }

    /// Prints something on standard error first.
    #[must_use]
    pub fn stderr(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.reports.push(Report::Stderr(bytes.into()));
        self
    }

    /// Hangs, and when asked to end prints these last words and ends so.
    #[must_use]
    pub fn on_terminate(self, last_words: Vec<Report>, exit: Exit) -> Self {
        Script { ending: Ending::Hangs(OnTerminate::Ends(last_words, exit)), ..self }
    }

    /// Hangs, and only a kill ends it.
    #[must_use]
    pub fn ignoring_terminate(self) -> Self {
        Script { ending: Ending::Hangs(OnTerminate::Ignores), ..self }
    }
}

/// Starts scripted processes. Clones share their script and their list of jobs.
#[derive(Clone)]
pub struct SimSpawner {
    script: Arc<dyn Fn(&Job) -> Script + Send + Sync>,
    jobs: Arc<Mutex<Vec<Job>>>,
}

impl SimSpawner {
    /// Asks `script` what each job does. It runs within `spawn`, so that whatever it does to the
    /// simulated disk has happened by the time that the process is seen to have started.
    pub fn new(script: impl Fn(&Job) -> Script + Send + Sync + 'static) -> Self {
        SimSpawner { script: Arc::new(script), jobs: Arc::default() }
    }

    /// All jobs so far, in the order in which they were to be started.
    pub fn jobs(&self) -> Vec<Job> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes a job down, and gives the process its id.
    fn note(&self, job: Job) -> u32 {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.push(job);
        u32::try_from(jobs.len()).map_or(u32::MAX, |count| FIRST_ID.saturating_add(count - 1))
    }
}

impl Default for SimSpawner {
    /// Knows no program at all.
    fn default() -> Self {
        SimSpawner::new(|_| Script::never_starts(io::ErrorKind::NotFound))
    }
}

impl Spawner for SimSpawner {
    fn spawn(&self, job: Job) -> io::Result<Running> {
        let script = (self.script)(&job);
        let id = self.note(job);
        let (report, reports) = channel();
        let (signals, signalled) = channel();
        send_all(&report, script.reports);
        match script.ending {
            Ending::Exits(exit) => send_all(&report, vec![Report::Exited(exit)]),
            Ending::Hangs(on_terminate) => {
                thread::spawn(move || hang(on_terminate, &signalled, &report));
            }
            Ending::NeverStarts(kind) => return Err(kind.into()),
        }
        Ok(Running { id, reports, signals })
    }
}

/// Waits for the signal that ends the process. When nobody can send one any more it would hang for
/// ever; its reports then stop without an exit, so that a test fails and does not hang too.
fn hang(on_terminate: OnTerminate, signals: &Receiver<Signal>, report: &Sender<Report>) {
    for signal in signals {
        match (signal, on_terminate.clone()) {
            (Signal::Kill, _) => {
                return send_all(report, vec![Report::Exited(Exit::Signal(SIGKILL))]);
            }
            (Signal::Terminate, OnTerminate::Ends(mut last, exit)) => {
                last.push(Report::Exited(exit));
                return send_all(report, last);
            }
            (Signal::Terminate, OnTerminate::Ignores) => {}
        }
    }
}

fn send_all(report: &Sender<Report>, reports: Vec<Report>) {
    for one in reports {
        // A process does not stop because nobody listens.
        let _ = report.send(one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: Script) -> Running {
        SimSpawner::new(move |_| script.clone()).spawn(Job::default()).unwrap()
    }

    /// All reports until the last sender is gone.
    fn all(running: &Running) -> Vec<Report> {
        running.reports.iter().collect()
    }

    #[test]
    fn a_process_prints_and_then_exits() {
        let running = start(Script::exits(3).stdout("out").stderr("err"));
        assert_eq!(
            all(&running),
            [
                Report::Stdout(b"out".to_vec()),
                Report::Stderr(b"err".to_vec()),
                Report::Exited(Exit::Code(3))
            ]
        );
    }

    #[test]
    fn a_hanging_process_ends_by_a_signal() {
        let running = start(Script::hangs().stdout("out"));
        assert_eq!(running.reports.recv(), Ok(Report::Stdout(b"out".to_vec())));
        running.signals.send(Signal::Terminate).unwrap();
        assert_eq!(all(&running), [Report::Exited(Exit::Signal(SIGTERM))]);
    }

    #[test]
    fn a_process_may_have_last_words_or_turn_a_deaf_ear() {
        let bye = Report::Stdout(b"bye".to_vec());
        let running = start(Script::hangs().on_terminate(vec![bye.clone()], Exit::Code(0)));
        running.signals.send(Signal::Terminate).unwrap();
        assert_eq!(all(&running), [bye, Report::Exited(Exit::Code(0))]);

        let running = start(Script::hangs().ignoring_terminate());
        running.signals.send(Signal::Terminate).unwrap();
        running.signals.send(Signal::Kill).unwrap();
        assert_eq!(all(&running), [Report::Exited(Exit::Signal(SIGKILL))]);
    }

    #[test]
    fn a_hanging_process_that_nobody_can_signal_never_exits() {
        let Running { reports, signals, .. } = start(Script::hangs());
        drop(signals);
        assert_eq!(reports.iter().next(), None);
    }

    #[test]
    fn the_script_sees_the_job_and_jobs_are_kept() {
        let spawner = SimSpawner::new(|job| match job.program.to_str() {
            Some("agent") => Script::exits(0),
            _ => Script::never_starts(io::ErrorKind::NotFound),
        });
        let job = |program: &str| Job { program: program.into(), ..Job::default() };
        assert_eq!(spawner.spawn(job("agent")).unwrap().id, FIRST_ID);
        let error = spawner.clone().spawn(job("other")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert_eq!(spawner.spawn(job("agent")).unwrap().id, FIRST_ID + 2);
        assert_eq!(spawner.jobs(), [job("agent"), job("other"), job("agent")]);
    }
}
