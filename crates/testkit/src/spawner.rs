//! Processes that play a script.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use autoloop_core::agents::Stream;
use autoloop_core::verdict;
use autoloop_runtime::world::{
    Cause, Clock, Disk, Ending, Exit, Finished, Job, Limits, NeverStarted, Obstacle, Orphans,
    Output, Reading, Running, Signal, Spawner,
};

use crate::clock::SimClock;
use crate::disk::SimDisk;

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;
const ENOENT: i32 = 2;
/// The id of the first process.
const FIRST_ID: u32 = 1000;

/// What a scripted process does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Its standard output, printed first.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
    /// How long it takes.
    pub takes: Duration,
    /// How it ends.
    pub ending: Plot,
    pub orphans: Orphans,
}

/// How a scripted process ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plot {
    /// By itself.
    Exits(Exit),
    /// Only by a signal or its deadline.
    Hangs(OnTerminate),
    /// It never starts: the spawn fails with an error of this kind.
    NeverStarts(io::ErrorKind),
    /// It never starts: its program is missing.
    HasNoProgram,
    /// Its supervisor dies.
    IsLost,
    /// We end it, because a user asked us to stop.
    IsStopped,
}

/// What a hanging process does when it is asked to end. A kill always ends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnTerminate {
    /// It prints something more and ends.
    Ends(Vec<u8>, Exit),
    /// Nothing.
    Ignores,
}

impl Script {
    fn new(ending: Plot) -> Self {
        Script {
            stdout: Vec::new(),
            stderr: Vec::new(),
            takes: Duration::ZERO,
            ending,
            orphans: Orphans::default(),
        }
    }

    /// Ends by itself with this status.
    pub fn exits(code: i32) -> Self {
        Script::new(Plot::Exits(Exit::Code(code)))
    }

    /// Hangs, and ends by the first signal.
    pub fn hangs() -> Self {
        Script::exits(0).on_terminate("", Exit::Signal(SIGTERM))
    }

    /// Cannot be started.
    pub fn never_starts(kind: io::ErrorKind) -> Self {
        Script::new(Plot::NeverStarts(kind))
    }

    /// Cannot be started, because its program is missing.
    pub fn has_no_program() -> Self {
        Script::new(Plot::HasNoProgram)
    }

    /// Loses its supervisor.
    pub fn is_lost() -> Self {
        Script::new(Plot::IsLost)
    }

    /// Is ended by us as soon as it has started.
    pub fn is_stopped() -> Self {
        Script::new(Plot::IsStopped)
    }

    /// Prints something on standard output first.
    #[must_use]
    pub fn stdout(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.stdout.extend(bytes.as_ref());
        self
    }

    /// Prints something on standard error first.
    #[must_use]
    pub fn stderr(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.stderr.extend(bytes.as_ref());
        self
    }

    /// Takes some time, which passes on the virtual clock while it is started.
    #[must_use]
    pub fn taking(self, takes: Duration) -> Self {
        Script { takes, ..self }
    }

    /// Leaves processes behind.
    #[must_use]
    pub fn leaving(self, orphans: Orphans) -> Self {
        Script { orphans, ..self }
    }

    /// Hangs, and prints these last words when it is asked to end.
    #[must_use]
    pub fn on_terminate(self, last_words: impl Into<Vec<u8>>, exit: Exit) -> Self {
        Script { ending: Plot::Hangs(OnTerminate::Ends(last_words.into(), exit)), ..self }
    }

    /// Hangs, and only a kill ends it.
    #[must_use]
    pub fn ignoring_terminate(self) -> Self {
        Script { ending: Plot::Hangs(OnTerminate::Ignores), ..self }
    }
}

/// Starts scripted processes. Clones share their script and their list of jobs.
#[derive(Clone)]
pub struct SimSpawner {
    script: Arc<dyn Fn(&Job) -> Script + Send + Sync>,
    jobs: Arc<Mutex<Vec<Job>>>,
    stage: Option<(SimClock, SimDisk)>,
}

impl SimSpawner {
    /// Calls `script` for each job. It runs inside `spawn`, so that its changes to the simulated
    /// disk have happened when the process is seen to have started.
    pub fn new(script: impl Fn(&Job) -> Script + Send + Sync + 'static) -> Self {
        SimSpawner { script: Arc::new(script), jobs: Arc::default(), stage: None }
    }

    /// Uses this clock for the time of its processes and this disk for their spooled output.
    #[must_use]
    pub fn on_stage(self, clock: SimClock, disk: SimDisk) -> Self {
        SimSpawner { stage: Some((clock, disk)), ..self }
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

    /// Lets time pass.
    fn pass(&self, time: Duration) {
        if let Some((clock, _)) = &self.stage {
            clock.sleep(time);
        }
    }
}

impl Default for SimSpawner {
    /// Knows no program.
    fn default() -> Self {
        SimSpawner::new(|_| Script::never_starts(io::ErrorKind::NotFound))
    }
}

impl Spawner for SimSpawner {
    fn is_simulated(&self) -> bool {
        true
    }

    fn spawn(&self, job: Job) -> io::Result<Running> {
        let script = (self.script)(&job);
        let id = self.note(job.clone());
        if let Plot::NeverStarts(kind) = script.ending {
            return Err(kind.into());
        }
        let (report, finished) = channel();
        let (signals, signalled) = channel();
        let play = Play { job, script, spawner: self.clone() };
        match play.script.ending.clone() {
            Plot::Hangs(on_terminate) if play.job.limits.deadline.is_none() => {
                thread::spawn(move || {
                    if let Some(finished) = play.hang(on_terminate, &signalled) {
                        let _ = report.send(finished);
                    }
                });
            }
            _ => drop(report.send(play.play_out())),
        }
        Ok(Running { id, finished, signals })
    }
}

/// A script being played.
struct Play {
    job: Job,
    script: Script,
    spawner: SimSpawner,
}

impl Play {
    /// Plays a script that ends by itself. Virtual time passes here and now, so a deadline is
    /// as sure as an exit.
    fn play_out(self) -> Finished {
        let Limits { deadline, grace, .. } = self.job.limits;
        let in_time = deadline.is_none_or(|deadline| self.script.takes < deadline);
        match (self.script.ending.clone(), deadline) {
            (Plot::Exits(exit), _) if in_time => {
                let takes = self.script.takes;
                self.end(Ending::Exited(exit), Cause::Itself, takes)
            }
            (Plot::HasNoProgram, _) => Finished::new(Ending::NeverStarted(NeverStarted {
                errno: ENOENT,
                message: "there is no such program".to_owned(),
                obstacle: Obstacle::Program,
            })),
            (Plot::IsLost, _) => {
                let takes = self.script.takes;
                let why = "its supervisor was killed by signal 9".to_owned();
                self.end(Ending::Lost(why), Cause::Itself, takes)
            }
            (Plot::IsStopped, _) => {
                let takes = self.script.takes;
                self.end(Ending::Exited(Exit::Signal(SIGTERM)), Cause::Interrupt, takes)
            }
            (Plot::Hangs(OnTerminate::Ends(last_words, exit)), Some(deadline)) => {
                self.saying(&last_words).end(Ending::Exited(exit), Cause::Deadline, deadline)
            }
            (Plot::Hangs(OnTerminate::Ignores), Some(deadline)) => {
                let exit = Ending::Exited(Exit::Signal(SIGKILL));
                self.end(exit, Cause::Deadline, deadline + grace)
            }
            (_, deadline) => {
                let exit = Ending::Exited(Exit::Signal(SIGTERM));
                self.end(exit, Cause::Deadline, deadline.unwrap_or_default())
            }
        }
    }

    /// Waits for the signal that ends the process. When all senders are gone it would hang for
    /// ever; its reports then stop without an end, so that a test fails and does not hang too.
    fn hang(self, on_terminate: OnTerminate, signals: &Receiver<Signal>) -> Option<Finished> {
        let takes = self.script.takes;
        for signal in signals {
            match (signal, &on_terminate) {
                (Signal::Kill, _) => {
                    let exit = Ending::Exited(Exit::Signal(SIGKILL));
                    return Some(self.end(exit, Cause::Interrupt, takes));
                }
                (Signal::Terminate, OnTerminate::Ends(last_words, exit)) => {
                    let ending = Ending::Exited(*exit);
                    return Some(self.saying(last_words).end(ending, Cause::Interrupt, takes));
                }
                (Signal::Terminate, OnTerminate::Ignores) => {}
            }
        }
        None
    }

    fn saying(mut self, last_words: &[u8]) -> Self {
        self.script.stdout.extend(last_words);
        self
    }

    /// Lets the time pass, spools the output, and reports.
    fn end(self, ending: Ending, cause: Cause, elapsed: Duration) -> Finished {
        self.spawner.pass(elapsed);
        let spool = self.job.spool.as_ref();
        let answer = self.job.stream.decoder().map(|mut decoder| {
            decoder.push(&self.script.stdout);
            decoder.finish()
        });
        let look_for = &self.job.look_for[..];
        let found_at = match &answer {
            Some(answer) => answer.find(look_for),
            None => {
                let mut places = self.script.stdout.windows(look_for.len().max(1));
                let at = places.position(|at| at == look_for);
                at.filter(|_| !look_for.is_empty()).map(|at| at as u64)
            }
        };
        let is_read = self.job.reading == Reading::Verdict && answer.is_none();
        let verdict = is_read.then(|| {
            let mut reader = verdict::Reader::new(Stream::Plain);
            reader.push(&self.script.stdout);
            reader.finish().map_err(|violation| violation.to_string())
        });
        Finished {
            ending,
            cause,
            elapsed,
            verdict,
            stdout: self.output(&self.script.stdout, spool.map(|spool| &*spool.stdout)),
            stderr: self.output(&self.script.stderr, spool.map(|spool| &*spool.stderr)),
            answer,
            found_at,
            orphans: self.script.orphans,
        }
    }

    fn output(&self, bytes: &[u8], spool: Option<&Path>) -> Output {
        let Limits { kept, spooled, .. } = self.job.limits;
        let (head, rest) = bytes.split_at(bytes.len().min(kept));
        let stored = &bytes[..bytes.len().min(usize::try_from(spooled).unwrap_or(usize::MAX))];
        let spooled = match (&self.spawner.stage, spool) {
            (Some((_, disk)), Some(path)) if disk.replace(path, stored).is_ok() => stored.len(),
            _ => 0,
        };
        Output {
            head: head.to_vec(),
            tail: rest[rest.len().saturating_sub(kept)..].to_vec(),
            bytes: bytes.len() as u64,
            digest: (spooled > 0).then(|| *blake3::hash(stored).as_bytes()),
            spooled: spooled as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use autoloop_runtime::process::{Interrupts, run};
    use autoloop_runtime::world::Spool;

    use super::*;
    use crate::{Seed, SimWorld};

    fn start(script: Script) -> Running {
        SimSpawner::new(move |_| script.clone()).spawn(Job::default()).unwrap()
    }

    /// How it ended, if it did.
    fn end(running: &Running) -> Option<Finished> {
        running.finished.recv().ok()
    }

    /// Runs a job in a world where programs play this script; the time it took there.
    fn play(script: Script, job: Job) -> (Finished, SimWorld) {
        let sim = SimWorld::new(Seed(1)).with_script(move |_| script.clone());
        (run(job, &sim.world(), &Interrupts::default()), sim)
    }

    fn until(deadline: u64) -> Job {
        let limits = Limits { deadline: Some(Duration::from_secs(deadline)), ..Limits::default() };
        Job { limits, ..Job::default() }
    }

    #[test]
    fn a_process_prints_and_then_exits() {
        let running = start(Script::exits(3).stdout("out").stderr("err"));
        assert_eq!(running.id, FIRST_ID);
        let finished = end(&running).unwrap();
        assert_eq!(finished.ending, Ending::Exited(Exit::Code(3)));
        assert_eq!((finished.stdout.text(), finished.stderr.text()), ("out".into(), "err".into()));
    }

    #[test]
    fn a_hanging_process_ends_by_a_signal() {
        let running = start(Script::hangs().stdout("out"));
        running.signals.send(Signal::Terminate).unwrap();
        let finished = end(&running).unwrap();
        assert_eq!(finished.ending, Ending::Exited(Exit::Signal(SIGTERM)));
        assert_eq!(finished.cause, Cause::Interrupt);
    }

    #[test]
    fn a_process_may_have_last_words_or_turn_a_deaf_ear() {
        let running = start(Script::hangs().stdout("hi, ").on_terminate("bye", Exit::Code(0)));
        running.signals.send(Signal::Terminate).unwrap();
        let finished = end(&running).unwrap();
        assert_eq!((finished.exit_code(), finished.stdout.text()), (0, "hi, bye".into()));

        let running = start(Script::hangs().ignoring_terminate());
        running.signals.send(Signal::Terminate).unwrap();
        running.signals.send(Signal::Kill).unwrap();
        assert_eq!(end(&running).unwrap().exit_code(), 128 + SIGKILL);
    }

    #[test]
    fn a_process_may_be_stopped_by_us() {
        let finished = end(&start(Script::is_stopped().stdout("hi"))).unwrap();
        assert_eq!((finished.cause, finished.exit_code()), (Cause::Interrupt, 128 + SIGTERM));
    }

    #[test]
    fn a_hanging_process_without_a_signal_never_exits() {
        let Running { finished, signals, .. } = start(Script::hangs());
        drop(signals);
        assert_eq!(finished.iter().collect::<Vec<_>>(), []);
    }

    #[test]
    fn a_deadline_ends_what_hangs_or_takes_too_long_in_virtual_time() {
        let cases = [
            (Script::hangs(), SIGTERM, 10),
            (Script::hangs().ignoring_terminate(), SIGKILL, 15),
            (Script::exits(0).taking(Duration::from_secs(60)), SIGTERM, 10),
        ];
        for (script, signal, seconds) in cases {
            let (finished, sim) = play(script, until(10));
            assert!(finished.timed_out());
            assert_eq!(finished.ending, Ending::Exited(Exit::Signal(signal)));
            assert_eq!(sim.clock.elapsed(), Duration::from_secs(seconds));
        }
        let (finished, sim) = play(Script::exits(0).taking(Duration::from_secs(9)), until(10));
        assert!(!finished.timed_out());
        assert_eq!(sim.clock.elapsed(), Duration::from_secs(9));
    }

    #[test]
    fn output_is_spooled_kept_and_searched_as_in_the_real_world() {
        let spool = Spool { stdout: "/out".into(), stderr: "/err".into() };
        let limits = Limits { kept: 2, spooled: 5, ..Limits::default() };
        let job = Job { spool: Some(spool), limits, look_for: b"DONE".to_vec(), ..Job::default() };
        let (finished, sim) = play(Script::exits(0).stdout("abcDONExyz"), job);
        assert_eq!(finished.found_at, Some(3));
        assert_eq!(finished.stdout.text(), "ab\n[... 6 bytes left out ...]\nyz");
        assert_eq!(finished.stdout.spooled, 5);
        assert_eq!(sim.disk.contents("/out"), b"abcDO");
        assert_eq!(sim.disk.contents("/err"), b"");
    }

    #[test]
    fn a_job_may_never_start_or_be_lost() {
        let (finished, _) = play(Script::never_starts(io::ErrorKind::NotFound), Job::default());
        assert_eq!(finished.exit_code(), 127);
        let (finished, _) = play(Script::has_no_program(), Job::default());
        assert_eq!(finished.exit_code(), 127);
        let (finished, _) = play(Script::is_lost(), Job::default());
        assert_eq!(finished.exit_code(), 125);
    }

    #[test]
    fn interrupts_reach_a_job_also_from_before_its_start() {
        let sim = SimWorld::new(Seed(1)).with_script(|_| Script::hangs().ignoring_terminate());
        let interrupts = Interrupts::default();
        interrupts.raise(2);
        interrupts.raise(2);
        let finished = run(Job::default(), &sim.world(), &interrupts);
        assert_eq!(finished.ending, Ending::Exited(Exit::Signal(SIGKILL)));
        assert_eq!(finished.cause, Cause::Interrupt);
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
