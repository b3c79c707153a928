//! One job from its start to its report: a single poll loop, without threads.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal as Unix;

use super::child::{self, Launch, Launched};
use super::process_tree::{ProcessTree, Wake};
use super::{never_started, protocol, report};
use autoloop_core::config::Leftovers;

use crate::process::pipes::{Drain, Feed, set_nonblocking};
use crate::process::{Capture, Spooling};
use crate::procfs;
use crate::world::{
    Cause, Clock, Ending, Exit, Finished, Job, NeverStarted, Obstacle, Orphans, Report, Signal,
    SystemClock,
};

/// How long processes are killed repeatedly.
const GIVE_UP: Duration = Duration::from_secs(5);
/// How often orphans are looked for while killing. Deaths wake the shim sooner.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long a pipe that another process holds open is read after the end.
const DRAIN: Duration = Duration::from_millis(300);
const BUFFER: usize = 64 * 1024;

/// Times count from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    Ending { kill_at: Duration },
    Killing { give_up_at: Duration },
    Draining { until: Duration },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Wake,
    Control,
    Launch,
    Stdin,
    Stdout,
    Stderr,
}

pub(super) struct Supervisor<'a> {
    job: &'a Job,
    clock: SystemClock,
    wake: &'a Wake,
    /// `None` when the harness has died.
    control: Option<&'a File>,
    launch: Launch,
    launched: Option<Result<(), NeverStarted>>,
    stdin: Feed<'a>,
    stdout: Drain,
    stderr: Drain,
    processes: ProcessTree,
    phase: Phase,
    cause: Cause,
    requests: u32,
    elapsed: Option<Duration>,
    /// How many processes besides the agent had ended before the job was made to end.
    died_before: u64,
    orphans: Orphans,
}

impl<'a> Supervisor<'a> {
    pub(super) fn start(
        job: &'a Job,
        control: &'a File,
        wake: &'a Wake,
    ) -> Result<Self, NeverStarted> {
        let spool = |path: Option<&std::path::PathBuf>| {
            let Some(path) = path else { return Ok(Spooling::nowhere()) };
            Spooling::at(path, job.limits.spooled).map_err(|error| {
                let path = path.display();
                never_started(&error, format!("cannot write the output to {path}: {error}"))
            })
        };
        let out = spool(job.spool.as_ref().map(|spool| &spool.stdout))?;
        let err = spool(job.spool.as_ref().map(|spool| &spool.stderr))?;
        let clock = SystemClock::default();
        let started = child::start(job)?;
        // From here on there is a process: any failure ends the shim, and the process with it.
        let about_us = |error: io::Error| {
            never_started(&error, format!("cannot supervise a process: {error}"))
        };
        let agent = procfs::pid(started.id).ok_or_else(|| about_us(io::Error::other("no id")))?;
        set_nonblocking(control).map_err(about_us)?;
        let stdout =
            Capture::new(job.limits.kept, out).looking_for(&job.look_for).decoding(job.stream);
        let stdout = stdout.reading(job.reading);
        let stderr = Capture::new(job.limits.kept, err);
        Ok(Supervisor {
            job,
            clock,
            wake,
            control: Some(control),
            launch: started.launch,
            launched: None,
            stdin: Feed::new(started.stdin, &job.stdin).map_err(about_us)?,
            stdout: Drain::new(started.stdout, stdout).map_err(about_us)?,
            stderr: Drain::new(started.stderr, stderr).map_err(about_us)?,
            processes: ProcessTree::of(agent),
            phase: Phase::Running,
            cause: Cause::Itself,
            requests: 0,
            elapsed: None,
            died_before: 0,
            orphans: Orphans::default(),
        })
    }

    pub(super) fn run(mut self) -> io::Result<Finished> {
        let mut buffer = vec![0; BUFFER];
        while !self.advance()? {
            for source in self.wait()? {
                self.handle(source, &mut buffer)?;
            }
        }
        Ok(self.finish())
    }

    /// Advances from phase to phase as far as possible now; whether the job has ended.
    fn advance(&mut self) -> io::Result<bool> {
        let now = self.clock.elapsed();
        let any_alive = self.processes.reap()?;
        if self.processes.exit().is_some() && self.elapsed.is_none() {
            self.note_exit(now, any_alive)?;
        }
        match self.phase {
            Phase::Running if self.job.limits.deadline.is_some_and(|deadline| deadline <= now) => {
                self.set_cause(Cause::Deadline);
                self.end(now);
            }
            Phase::Running => {}
            Phase::Ending { .. } | Phase::Killing { .. } if !any_alive => self.drain(now),
            Phase::Ending { kill_at } if kill_at <= now => self.kill(now),
            Phase::Ending { .. } => {}
            Phase::Killing { give_up_at } if give_up_at <= now => {
                self.orphans.survivors = self.processes.members();
                self.drain(now);
            }
            Phase::Killing { .. } => self.processes.signal(Unix::KILL),
            Phase::Draining { .. } => {}
        }
        Ok(match self.phase {
            Phase::Draining { until } => {
                until <= now || (self.stdout.pipe().is_none() && self.stderr.pipe().is_none())
            }
            _ => false,
        })
    }

    fn note_exit(&mut self, now: Duration, any_alive: bool) -> io::Result<()> {
        self.elapsed = Some(now);
        self.read_launch()?;
        if self.phase == Phase::Running {
            self.died_before = self.processes.others;
        }
        match (self.phase, self.job.leftovers) {
            (Phase::Running, Leftovers::Kill) if any_alive => {
                self.processes.signal(Unix::TERM);
                let limits = &self.job.limits;
                let grace = limits.orphan_grace.min(limits.grace);
                self.phase = Phase::Ending { kill_at: now.saturating_add(grace) };
            }
            (Phase::Running, Leftovers::Kill) => {
                if cfg!(not(target_os = "linux")) {
                    self.processes.signal(Unix::KILL);
                }
                self.drain(now);
            }
            (Phase::Running, Leftovers::Warn) => {
                if any_alive {
                    self.orphans.kept = self.processes.members();
                }
                self.drain(now);
            }
            (Phase::Running, Leftovers::Keep) => self.drain(now),
            (Phase::Ending { kill_at }, _) if any_alive => {
                self.processes.signal(Unix::TERM);
                let kill_at = kill_at.min(now.saturating_add(self.job.limits.orphan_grace));
                self.phase = Phase::Ending { kill_at };
            }
            _ => {}
        }
        Ok(())
    }

    fn set_cause(&mut self, cause: Cause) {
        self.cause = cause;
        self.died_before = self.processes.others;
    }

    fn end(&mut self, now: Duration) {
        self.processes.signal(Unix::TERM);
        self.phase = Phase::Ending { kill_at: now.saturating_add(self.job.limits.grace) };
    }

    fn kill(&mut self, now: Duration) {
        self.processes.signal(Unix::KILL);
        self.phase = Phase::Killing { give_up_at: now + GIVE_UP };
    }

    fn drain(&mut self, now: Duration) {
        let time = if self.control.is_some() { DRAIN } else { Duration::ZERO };
        self.phase = Phase::Draining { until: now + time };
    }

    fn request_end(&mut self, signal: Signal) {
        let now = self.clock.elapsed();
        self.requests += 1;
        match self.phase {
            Phase::Running => {
                self.set_cause(Cause::Interrupt);
                match signal {
                    Signal::Terminate => self.end(now),
                    Signal::Kill => self.kill(now),
                }
            }
            // The sweep after the death of the harness sends another request, which changes nothing.
            Phase::Ending { .. } if self.control.is_none() => {}
            Phase::Ending { .. } if signal == Signal::Kill || self.requests > 1 => self.kill(now),
            Phase::Ending { .. } | Phase::Killing { .. } | Phase::Draining { .. } => {}
        }
    }

    fn harness_died(&mut self) {
        let now = self.clock.elapsed();
        if self.phase == Phase::Running {
            self.set_cause(Cause::Interrupt);
            self.end(now);
        }
        if let Phase::Ending { kill_at } = self.phase {
            let crash = now.saturating_add(self.job.limits.crash_grace);
            self.phase = Phase::Ending { kill_at: kill_at.min(crash) };
        }
    }

    /// Waits until a source is ready or the time of the phase is over.
    fn wait(&self) -> io::Result<Vec<Source>> {
        let now = self.clock.elapsed();
        let until = match self.phase {
            Phase::Running => self.job.limits.deadline,
            Phase::Ending { kill_at } => Some(kill_at),
            Phase::Killing { give_up_at } => Some(give_up_at.min(now + LOOK_AGAIN)),
            Phase::Draining { until } => Some(until),
        };
        let timeout = until
            .map(|until| Timespec::try_from(until.saturating_sub(now)).map_err(io::Error::other))
            .transpose()?;
        let sources = self.sources();
        let mut polled: Vec<PollFd<'_>> = sources
            .iter()
            .map(|(_, pipe, flags)| PollFd::from_borrowed_fd(*pipe, *flags))
            .collect();
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = sources.iter().zip(&polled).filter(|(_, polled)| !polled.revents().is_empty());
        Ok(ready.map(|((source, ..), _)| *source).collect())
    }

    fn sources(&self) -> Vec<(Source, BorrowedFd<'_>, PollFlags)> {
        fn of<T: AsFd>(
            source: Source,
            pipe: Option<&T>,
            flags: PollFlags,
        ) -> Option<(Source, BorrowedFd<'_>, PollFlags)> {
            pipe.map(|pipe| (source, pipe.as_fd(), flags))
        }
        let sources = [
            of(Source::Wake, Some(&self.wake.pipe), PollFlags::IN),
            of(Source::Control, self.control, PollFlags::IN),
            of(Source::Launch, self.launch.pipe(), PollFlags::IN),
            of(Source::Stdin, self.stdin.pipe(), PollFlags::OUT),
            of(Source::Stdout, self.stdout.pipe(), PollFlags::IN),
            of(Source::Stderr, self.stderr.pipe(), PollFlags::IN),
        ];
        sources.into_iter().flatten().collect()
    }

    fn handle(&mut self, source: Source, buffer: &mut [u8]) -> io::Result<()> {
        match source {
            Source::Wake => {
                self.wake.drain(buffer);
                if self.wake.take_harness_death() {
                    self.harness_died();
                }
                if self.wake.take_request() {
                    // The sweep of the next harness sends a request too, once ours has died. The control pipe has
                    // closed by then, so it is read first: the request of a sweep is not one of a user.
                    self.read_control(buffer)?;
                    self.request_end(Signal::Terminate);
                }
            }
            Source::Control => self.read_control(buffer)?,
            Source::Launch => self.read_launch()?,
            Source::Stdin => self.stdin.write(),
            Source::Stdout => self.stdout.read(buffer),
            Source::Stderr => self.stderr.read(buffer),
        }
        Ok(())
    }

    fn read_control(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let Some(control) = &mut self.control else { return Ok(()) };
        match control.read(buffer) {
            Ok(0) => {
                self.control = None;
                self.harness_died();
            }
            Ok(count) => {
                for signal in buffer[..count].iter().filter_map(|byte| protocol::signal(*byte)) {
                    self.request_end(signal);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn read_launch(&mut self) -> io::Result<()> {
        if self.launched.is_some() {
            return Ok(());
        }
        match self.launch.read(self.job) {
            Launched::NotYet => {}
            Launched::Running => {
                self.launched = Some(Ok(()));
                report(
                    &Report::Started(procfs::id(self.processes.agent())),
                    protocol::After::Stays,
                )?;
            }
            Launched::Failed(why) => self.launched = Some(Err(why)),
        }
        Ok(())
    }

    fn finish(mut self) -> Finished {
        self.orphans.ended = self.processes.others - self.died_before;
        let ending = match (self.launched, self.processes.exit()) {
            (Some(Err(why)), _) => Ending::NeverStarted(why),
            (_, None) => Ending::Lost(format!(
                "process {} could not be killed within {} seconds",
                procfs::id(self.processes.agent()),
                GIVE_UP.as_secs()
            )),
            // The second stage failed before it could report.
            (None, Some(Exit::Code(_))) => Ending::NeverStarted(NeverStarted {
                errno: 0,
                message: "cannot become the agent: /proc cannot be used".to_owned(),
                obstacle: Obstacle::Surroundings,
            }),
            (_, Some(exit)) => Ending::Exited(exit),
        };
        let answer = self.stdout.capture.take_answer();
        let verdict = self.stdout.capture.take_verdict();
        Finished {
            ending,
            cause: self.cause,
            elapsed: self.elapsed.unwrap_or_else(|| self.clock.elapsed()),
            found_at: match &answer {
                Some(answer) => answer.find(&self.job.look_for),
                None => self.stdout.capture.found_at(),
            },
            answer,
            verdict,
            stdout: self.stdout.capture.into_output(),
            stderr: self.stderr.capture.into_output(),
            orphans: self.orphans,
        }
    }
}
