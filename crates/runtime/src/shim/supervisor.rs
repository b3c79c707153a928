//! One job from its start to its report: a single poll loop, without threads.

use std::fs::File;
use std::io::{self, Read};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::ioctl_fionbio;
use rustix::process::Signal as Unix;

use super::child::{self, Launch};
use super::process_tree::{ProcessTree, Wake};
use super::{never_started, protocol};
use autoloop_core::config::Leftovers;

use crate::process::pipes::{self, Drain, Feed};
use crate::process::{Capture, Spooling};
use crate::procfs;
use crate::world::{
    Cause, Clock, Ending, Exit, Finished, Job, NeverStarted, Orphans, Signal, SystemClock,
};

/// How long processes are killed repeatedly.
const GIVE_UP: Duration = Duration::from_secs(5);
/// How often orphans are looked for while killing. Deaths wake the shim sooner.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long a pipe that another process holds open is read after the end.
const DRAIN: Duration = Duration::from_millis(300);
const BUFFER: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    Ending,
    Killing,
    Draining,
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
    /// When the phase is over at the latest, from the start.
    until: Option<Duration>,
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
        let (mut child, launch) = child::start(job)?;
        // From here on there is a process: any failure ends the shim, and the process with it.
        let about_us = |error: io::Error| {
            never_started(&error, format!("cannot supervise a process: {error}"))
        };
        let agent = procfs::pid(child.id()).ok_or_else(|| about_us(io::Error::other("no id")))?;
        ioctl_fionbio(control, true).map_err(|errno| about_us(errno.into()))?;
        let stdout = Capture::new(job.limits.kept, out);
        let stdout = stdout.looking_for(&job.look_for).reading(job.stream, job.reading);
        let stdout = stdout.masking(job.secrets.as_deref());
        let stderr = Capture::new(job.limits.kept, err).masking(job.secrets.as_deref());
        Ok(Supervisor {
            job,
            clock,
            wake,
            control: Some(control),
            launch,
            launched: None,
            stdin: Feed::new(child.stdin.take(), &job.stdin).map_err(about_us)?,
            stdout: Drain::new(child.stdout.take(), stdout).map_err(about_us)?,
            stderr: Drain::new(child.stderr.take(), stderr).map_err(about_us)?,
            processes: ProcessTree::of(agent),
            phase: Phase::Running,
            until: job.limits.deadline,
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
            self.wait()?;
            self.serve(&mut buffer)?;
        }
        Ok(self.finish())
    }

    /// Advances from phase to phase as far as possible now; whether the job has ended.
    fn advance(&mut self) -> io::Result<bool> {
        let now = self.clock.elapsed();
        let any_alive = self.processes.reap()?;
        if self.processes.exit.is_some() && self.elapsed.is_none() {
            self.note_exit(now, any_alive);
        }
        match self.phase {
            Phase::Ending | Phase::Killing if !any_alive => self.drain(now),
            Phase::Killing if !self.is_over(now) => self.processes.signal(Unix::KILL),
            _ if !self.is_over(now) => {}
            Phase::Running => {
                self.set_cause(Cause::Deadline);
                self.end(now);
            }
            Phase::Ending => self.kill(now),
            Phase::Killing => {
                self.orphans.survivors = self.processes.members();
                self.drain(now);
            }
            Phase::Draining => {}
        }
        let are_closed = self.stdout.pipe.is_none() && self.stderr.pipe.is_none();
        Ok(self.phase == Phase::Draining && (are_closed || self.is_over(now)))
    }

    fn is_over(&self, now: Duration) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    fn note_exit(&mut self, now: Duration, any_alive: bool) {
        self.elapsed = Some(now);
        self.read_launch();
        if self.phase == Phase::Running {
            self.died_before = self.processes.others;
        }
        match (self.phase, self.job.leftovers) {
            (Phase::Running, Leftovers::Kill) if any_alive => {
                self.processes.signal(Unix::TERM);
                let limits = &self.job.limits;
                self.enter(Phase::Ending, now, limits.orphan_grace.min(limits.grace));
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
            (Phase::Ending, _) if any_alive => {
                self.processes.signal(Unix::TERM);
                self.shorten_phase(now, self.job.limits.orphan_grace);
            }
            _ => {}
        }
    }

    fn set_cause(&mut self, cause: Cause) {
        self.cause = cause;
        self.died_before = self.processes.others;
    }

    fn enter(&mut self, phase: Phase, now: Duration, time: Duration) {
        self.phase = phase;
        self.until = Some(now.saturating_add(time));
    }

    /// Ends the phase sooner.
    fn shorten_phase(&mut self, now: Duration, time: Duration) {
        let until = now.saturating_add(time);
        self.until = Some(self.until.map_or(until, |earlier| earlier.min(until)));
    }

    fn end(&mut self, now: Duration) {
        self.processes.signal(Unix::TERM);
        self.enter(Phase::Ending, now, self.job.limits.grace);
    }

    fn kill(&mut self, now: Duration) {
        self.processes.signal(Unix::KILL);
        self.enter(Phase::Killing, now, GIVE_UP);
    }

    fn drain(&mut self, now: Duration) {
        let time = if self.control.is_some() { DRAIN } else { Duration::ZERO };
        self.enter(Phase::Draining, now, time);
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
            Phase::Ending if self.control.is_none() => {}
            Phase::Ending if signal == Signal::Kill || self.requests > 1 => self.kill(now),
            Phase::Ending | Phase::Killing | Phase::Draining => {}
        }
    }

    fn harness_died(&mut self) {
        let now = self.clock.elapsed();
        if self.phase == Phase::Running {
            self.set_cause(Cause::Interrupt);
            self.end(now);
        }
        if self.phase == Phase::Ending {
            self.shorten_phase(now, self.job.limits.crash_grace);
        }
    }

    /// Waits until a pipe is ready or the time of the phase is over.
    fn wait(&self) -> io::Result<()> {
        let left = self.until.map(|until| until.saturating_sub(self.clock.elapsed()));
        let left = match self.phase {
            Phase::Killing => left.map(|left| left.min(POLL_INTERVAL)),
            _ => left,
        };
        let outputs = [&self.stdout.pipe, &self.stderr.pipe].into_iter().flatten();
        let mut polled: Vec<_> = outputs.map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
        polled.push(PollFd::new(&self.wake.pipe, PollFlags::IN));
        polled.extend(self.control.map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        polled.extend(self.launch.errors.iter().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        polled.extend(self.stdin.pipe.iter().map(|pipe| PollFd::new(pipe, PollFlags::OUT)));
        pipes::poll(&mut polled, left)
    }

    /// Reads and writes what is possible now: no pipe blocks.
    fn serve(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        self.wake.drain(buffer);
        if self.wake.take_harness_death() {
            self.harness_died();
        }
        let is_requested = self.wake.take_request();
        self.read_control(buffer)?;
        // The sweep of the next harness sends a request too, once ours has died. The control pipe has closed by
        // then, so it is read first: the request of a sweep is not one of a user.
        if is_requested {
            self.request_end(Signal::Terminate);
        }
        self.read_launch();
        self.stdin.write();
        self.stdout.read(buffer);
        self.stderr.read(buffer);
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

    fn read_launch(&mut self) {
        if self.launched.is_none() {
            self.launched = self.launch.read(self.job);
        }
    }

    fn finish(mut self) -> Finished {
        self.orphans.ended = self.processes.others - self.died_before;
        let ending = match (self.launched, self.processes.exit) {
            (Some(Err(why)), _) => Ending::NeverStarted(why),
            (_, None) => Ending::Lost(format!(
                "process {} could not be killed within {} seconds",
                procfs::id(self.processes.agent),
                GIVE_UP.as_secs()
            )),
            // The second stage failed before it could report.
            (None, Some(Exit::Code(_))) => {
                let message = "cannot become the agent: /proc cannot be used";
                Ending::NeverStarted(NeverStarted {
                    message: message.to_owned(),
                    ..Default::default()
                })
            }
            (_, Some(exit)) => Ending::Exited(exit),
        };
        self.stdout.capture.end();
        self.stderr.capture.end();
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
