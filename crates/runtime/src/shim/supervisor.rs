//! One job from its start to its report: a single poll loop, without threads.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal as Unix;

use super::child::{self, Launch, Launched};
use super::process_tree::{Family, Wake};
use super::{never_started, protocol, tell};
use crate::process::pipes::{Drain, Feed, never_wait};
use crate::process::{Capture, Spooling};
use crate::procfs;
use crate::world::{
    Cause, Clock, Ending, Exit, Finished, Job, Left, Leftovers, NeverStarted, Obstacle, Report,
    Signal, SystemClock,
};

/// How long we go on killing.
const GIVE_UP: Duration = Duration::from_secs(5);
/// How often we look again for orphans while killing. Deaths wake us sooner.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long a pipe that somebody holds open is read after the end.
const DRAIN: Duration = Duration::from_millis(300);
const BUFFER: usize = 64 * 1024;

/// Where a job is between start and report. Times count from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    Ending { kill_at: Duration },
    Killing { give_up_at: Duration },
    Draining { until: Duration },
}

/// What can wake us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Bell,
    Control,
    Launch,
    Stdin,
    Stdout,
    Stderr,
}

/// Watches over one job.
pub(super) struct Supervisor<'a> {
    job: &'a Job,
    clock: SystemClock,
    wake: &'a Wake,
    /// `None` when the harness is gone.
    control: Option<&'a File>,
    launch: Launch,
    launched: Option<Result<(), NeverStarted>>,
    stdin: Feed<'a>,
    stdout: Drain,
    stderr: Drain,
    family: Family,
    phase: Phase,
    cause: Cause,
    /// How often we were asked to end the job.
    requests: u32,
    elapsed: Option<Duration>,
    /// How many had died besides the agent when the end began.
    died_before: u64,
    left: Left,
}

impl<'a> Supervisor<'a> {
    /// Starts the job.
    pub(super) fn start(
        job: &'a Job,
        control: &'a File,
        wake: &'a Wake,
    ) -> Result<Self, NeverStarted> {
        let spool = |path: Option<&std::path::PathBuf>| {
            let Some(path) = path else { return Ok(Spooling::nowhere()) };
            Spooling::at(path, job.limits.spooled).map_err(|error| {
                never_started(&error, |error| {
                    format!("cannot write the output to {}: {error}", path.display())
                })
            })
        };
        let out = spool(job.spool.as_ref().map(|spool| &spool.stdout))?;
        let err = spool(job.spool.as_ref().map(|spool| &spool.stderr))?;
        let clock = SystemClock::default();
        let started = child::start(job)?;
        // From here on there is a process: whatever fails now ends us, and it with us.
        let about_us = |error: io::Error| {
            never_started(&error, |error| format!("cannot watch over a process: {error}"))
        };
        let agent = procfs::pid(started.id).ok_or_else(|| about_us(io::Error::other("no id")))?;
        never_wait(control).map_err(about_us)?;
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
            family: Family::of(agent),
            phase: Phase::Running,
            cause: Cause::Itself,
            requests: 0,
            elapsed: None,
            died_before: 0,
            left: Left::default(),
        })
    }

    /// Watches until it is over.
    pub(super) fn run(mut self) -> io::Result<Finished> {
        let mut buffer = vec![0; BUFFER];
        while !self.advance()? {
            for source in self.wait()? {
                self.attend(source, &mut buffer)?;
            }
        }
        Ok(self.finish())
    }

    /// Goes from phase to phase as far as possible now; whether it is over.
    fn advance(&mut self) -> io::Result<bool> {
        let now = self.clock.elapsed();
        let anybody = self.family.reap()?;
        if self.family.exit().is_some() && self.elapsed.is_none() {
            self.note_exit(now, anybody)?;
        }
        match self.phase {
            Phase::Running if self.job.limits.deadline.is_some_and(|deadline| deadline <= now) => {
                self.blame(Cause::Deadline);
                self.end(now);
            }
            Phase::Running => {}
            Phase::Ending { .. } | Phase::Killing { .. } if !anybody => self.drain(now),
            Phase::Ending { kill_at } if kill_at <= now => self.kill(now),
            Phase::Ending { .. } => {}
            Phase::Killing { give_up_at } if give_up_at <= now => {
                self.left.survivors = self.family.members();
                self.drain(now);
            }
            Phase::Killing { .. } => self.family.signal(Unix::KILL),
            Phase::Draining { .. } => {}
        }
        Ok(match self.phase {
            Phase::Draining { until } => {
                until <= now || (self.stdout.pipe().is_none() && self.stderr.pipe().is_none())
            }
            _ => false,
        })
    }

    /// The agent has just ended.
    fn note_exit(&mut self, now: Duration, anybody: bool) -> io::Result<()> {
        self.elapsed = Some(now);
        self.read_launch()?;
        if self.phase == Phase::Running {
            self.died_before = self.family.others;
        }
        match (self.phase, self.job.leftovers) {
            (Phase::Running, Leftovers::Kill) if anybody => {
                self.family.signal(Unix::TERM);
                let limits = &self.job.limits;
                let grace = limits.orphan_grace.min(limits.grace);
                self.phase = Phase::Ending { kill_at: now.saturating_add(grace) };
            }
            (Phase::Running, Leftovers::Kill) => {
                if cfg!(not(target_os = "linux")) {
                    self.family.signal(Unix::KILL);
                }
                self.drain(now);
            }
            (Phase::Running, Leftovers::Warn) => {
                if anybody {
                    self.left.kept = self.family.members();
                }
                self.drain(now);
            }
            (Phase::Running, Leftovers::Keep) => self.drain(now),
            (Phase::Ending { kill_at }, _) if anybody => {
                self.family.signal(Unix::TERM);
                let kill_at = kill_at.min(now.saturating_add(self.job.limits.orphan_grace));
                self.phase = Phase::Ending { kill_at };
            }
            _ => {}
        }
        Ok(())
    }

    /// The job will end, and not by itself.
    fn blame(&mut self, cause: Cause) {
        self.cause = cause;
        self.died_before = self.family.others;
    }

    /// Asks the job to end.
    fn end(&mut self, now: Duration) {
        self.family.signal(Unix::TERM);
        self.phase = Phase::Ending { kill_at: now.saturating_add(self.job.limits.grace) };
    }

    /// Ends the job.
    fn kill(&mut self, now: Duration) {
        self.family.signal(Unix::KILL);
        self.phase = Phase::Killing { give_up_at: now + GIVE_UP };
    }

    fn drain(&mut self, now: Duration) {
        let time = if self.control.is_some() { DRAIN } else { Duration::ZERO };
        self.phase = Phase::Draining { until: now + time };
    }

    /// Somebody wants the job to end.
    fn obey(&mut self, signal: Signal) {
        let now = self.clock.elapsed();
        self.requests += 1;
        match self.phase {
            Phase::Running => {
                self.blame(Cause::Interrupt);
                match signal {
                    Signal::Terminate => self.end(now),
                    Signal::Kill => self.kill(now),
                }
            }
            // Whoever sweeps up behind a harness that is gone asks too, and has been heard.
            Phase::Ending { .. } if self.control.is_none() => {}
            Phase::Ending { .. } if signal == Signal::Kill || self.requests > 1 => self.kill(now),
            Phase::Ending { .. } | Phase::Killing { .. } | Phase::Draining { .. } => {}
        }
    }

    /// The harness is gone, and the job ends soon.
    fn end_alone(&mut self) {
        let now = self.clock.elapsed();
        if self.phase == Phase::Running {
            self.blame(Cause::Interrupt);
            self.end(now);
        }
        if let Phase::Ending { kill_at } = self.phase {
            let crash = now.saturating_add(self.job.limits.crash_grace);
            self.phase = Phase::Ending { kill_at: kill_at.min(crash) };
        }
    }

    /// Waits until something is there to attend to, or until it is time for something.
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
            of(Source::Bell, Some(&self.wake.bell), PollFlags::IN),
            of(Source::Control, self.control, PollFlags::IN),
            of(Source::Launch, self.launch.pipe(), PollFlags::IN),
            of(Source::Stdin, self.stdin.pipe(), PollFlags::OUT),
            of(Source::Stdout, self.stdout.pipe(), PollFlags::IN),
            of(Source::Stderr, self.stderr.pipe(), PollFlags::IN),
        ];
        sources.into_iter().flatten().collect()
    }

    fn attend(&mut self, source: Source, buffer: &mut [u8]) -> io::Result<()> {
        match source {
            Source::Bell => {
                self.wake.attend(buffer);
                if self.wake.take_death() {
                    self.end_alone();
                }
                if self.wake.take_request() {
                    // The sweep of the next harness asks too, once ours is gone. The control pipe has closed by
                    // then, so it is read first: the request of a sweep is not one of a person.
                    self.read_control(buffer)?;
                    self.obey(Signal::Terminate);
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
                self.end_alone();
            }
            Ok(count) => {
                for signal in buffer[..count].iter().filter_map(|byte| protocol::signal(*byte)) {
                    self.obey(signal);
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
                tell(&Report::Started(procfs::id(self.family.agent())), protocol::After::Stays)?;
            }
            Launched::Failed(why) => self.launched = Some(Err(why)),
        }
        Ok(())
    }

    fn finish(mut self) -> Finished {
        self.left.ended = self.family.others - self.died_before;
        let ending = match (self.launched, self.family.exit()) {
            (Some(Err(why)), _) => Ending::NeverStarted(why),
            (_, None) => Ending::Lost(format!(
                "process {} could not be killed within {} seconds",
                procfs::id(self.family.agent()),
                GIVE_UP.as_secs()
            )),
            // Our own second stage could not do its part.
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
            left: self.left,
        }
    }
}
