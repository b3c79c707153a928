//! What harness and shim say to each other over their two pipes.
//!
//! Messages are [frames](crate::frame); a signal is a single byte.

mod answer;

use std::io::{self, Read, Write};

use autoloop_core::agents::Stream;
use autoloop_core::verdict::{Ruling, Verdict};

use crate::frame::{Body, Text, garbled, read_frame, write_frame};
use crate::permissions::Confinement;
use crate::world::{
    Cause, Ending, Exit, Finished, Job, Left, Leftovers, Limits, NeverStarted, Obstacle, Output,
    Reading, Report, Signal, Spool,
};

/// What the harness says first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// The process id of the harness, so that the shim knows whether its parent still is the same.
    pub(crate) harness: u32,
    pub(crate) job: Job,
}

/// Writes the order.
pub(crate) fn write_order(pipe: &mut impl Write, order: &Order) -> io::Result<()> {
    let mut body = Body::default();
    body.number(order.harness.into());
    body.job(&order.job);
    write_frame(pipe, b'J', &body.0)
}

/// Reads the order; `None` when the harness went away before it was complete. Signals before it were
/// for a job that is over.
pub(crate) fn read_order(pipe: &mut impl Read) -> io::Result<Option<Order>> {
    let mut first = [0];
    loop {
        match pipe.read(&mut first) {
            Ok(0) => return Ok(None),
            Ok(_) if signal(first[0]).is_some() => {}
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let Some((name, body)) = read_frame(&mut first.chain(pipe), u32::MAX)? else { return Ok(None) };
    if name != b'J' {
        return Err(garbled());
    }
    let mut body = Text(&body);
    Ok(Some(Order { harness: body.small()?, job: body.job()? }))
}

/// Writes a signal. One write of few bytes, so that it is never seen in part.
pub(crate) fn write_signal(pipe: &mut impl Write, signal: Signal) -> io::Result<()> {
    let byte = match signal {
        Signal::Terminate => b'T',
        Signal::Kill => b'K',
    };
    pipe.write_all(&[byte])
}

/// Reads a signal.
pub(crate) fn signal(byte: u8) -> Option<Signal> {
    match byte {
        b'T' => Some(Signal::Terminate),
        b'K' => Some(Signal::Kill),
        _ => None,
    }
}

/// What becomes of a shim after a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// It is there for more.
    Stays,
    /// It ends, and says nothing more.
    Ends,
}

/// Writes a report.
pub(crate) fn write_report(pipe: &mut impl Write, report: &Report, after: After) -> io::Result<()> {
    let mut body = Body::default();
    match report {
        Report::Started(pid) => {
            body.number((*pid).into());
            write_frame(pipe, b'S', &body.0)
        }
        Report::Finished(finished) => {
            body.finished(finished);
            let name = if after == After::Stays { b'F' } else { b'L' };
            write_frame(pipe, name, &body.0)
        }
    }
}

/// Reads a report; `None` when the shim is gone.
pub(crate) fn read_report(pipe: &mut impl Read) -> io::Result<Option<(Report, After)>> {
    let Some((name, body)) = read_frame(pipe, u32::MAX)? else { return Ok(None) };
    let mut body = Text(&body);
    match name {
        b'S' => Ok(Some((Report::Started(body.small()?), After::Stays))),
        b'F' => Ok(Some((Report::Finished(Box::new(body.finished()?)), After::Stays))),
        b'L' => Ok(Some((Report::Finished(Box::new(body.finished()?)), After::Ends))),
        _ => Err(garbled()),
    }
}

impl Body {
    fn job(&mut self, job: &Job) {
        self.os(&job.program);
        self.list(&job.args, |body, arg| body.os(arg));
        self.list(&job.env, |body, (name, value)| {
            body.os(name);
            body.os(value);
        });
        self.list(&job.env_removed, |body, name| body.os(name));
        self.maybe(job.dir.as_ref(), |body, dir| body.os(dir));
        self.bytes(&job.stdin);
        self.bytes(job.token.as_bytes());
        self.maybe(job.notes.as_ref(), |body, notes| body.os(notes));
        self.maybe(job.limits.deadline.as_ref(), |body, time| body.time(*time));
        self.time(job.limits.grace);
        self.time(job.limits.orphan_grace);
        self.time(job.limits.crash_grace);
        self.number(job.limits.spooled);
        self.number(job.limits.kept as u64);
        self.maybe(job.spool.as_ref(), |body, spool| {
            body.os(&spool.stdout);
            body.os(&spool.stderr);
        });
        self.number(match job.stream {
            Stream::Plain => 0,
            Stream::Pi => 1,
            Stream::Claude => 2,
            Stream::Codex => 3,
        });
        self.bytes(&job.look_for);
        self.number(match job.reading {
            Reading::Nothing => 0,
            Reading::Verdict => 1,
        });
        self.number(match job.leftovers {
            Leftovers::Kill => 0,
            Leftovers::Warn => 1,
            Leftovers::Keep => 2,
        });
        self.maybe(job.confinement.as_ref(), |body, bounds| {
            body.list(&bounds.to_args(), |body, word| body.os(word));
        });
    }

    fn finished(&mut self, finished: &Finished) {
        match &finished.ending {
            Ending::Exited(Exit::Code(code)) => {
                self.number(0);
                self.signed(*code);
            }
            Ending::Exited(Exit::Signal(signal)) => {
                self.number(1);
                self.signed(*signal);
            }
            Ending::NeverStarted(NeverStarted { errno, message, obstacle }) => {
                self.number(match obstacle {
                    Obstacle::Surroundings => 2,
                    Obstacle::Program => 4,
                });
                self.signed(*errno);
                self.bytes(message.as_bytes());
            }
            Ending::Lost(why) => {
                self.number(3);
                self.bytes(why.as_bytes());
            }
        }
        self.number(match finished.cause {
            Cause::Itself => 0,
            Cause::Deadline => 1,
            Cause::Interrupt => 2,
        });
        self.time(finished.elapsed);
        self.output(&finished.stdout);
        self.output(&finished.stderr);
        self.maybe(finished.answer.as_ref(), Body::answer);
        self.maybe(finished.found_at.as_ref(), |body, at| body.number(*at));
        self.maybe(finished.verdict.as_ref(), |body, verdict| {
            let (number, text) = match verdict {
                Ok(Verdict { ruling: Ruling::Pass, follow_up }) => (0, follow_up),
                Ok(Verdict { ruling: Ruling::Drift, follow_up }) => (1, follow_up),
                Err(why) => (2, why),
            };
            body.number(number);
            body.bytes(text.as_bytes());
        });
        self.number(finished.left.ended);
        self.list(&finished.left.kept, |body, pid| body.number((*pid).into()));
        self.list(&finished.left.survivors, |body, pid| body.number((*pid).into()));
    }

    fn output(&mut self, output: &Output) {
        self.bytes(&output.head);
        self.bytes(&output.tail);
        self.number(output.bytes);
        self.number(output.spooled);
        self.maybe(output.digest.as_ref(), |body, digest| body.bytes(digest));
    }
}

impl Text<'_> {
    fn job(&mut self) -> io::Result<Job> {
        Ok(Job {
            program: self.os()?,
            args: self.list(Text::os)?,
            env: self.list(|body| Ok((body.os()?, body.os()?)))?,
            env_removed: self.list(Text::os)?,
            dir: self.maybe(Text::path)?,
            stdin: self.bytes()?,
            token: self.string()?,
            notes: self.maybe(Text::path)?,
            limits: Limits {
                deadline: self.maybe(Text::time)?,
                grace: self.time()?,
                orphan_grace: self.time()?,
                crash_grace: self.time()?,
                spooled: self.number()?,
                kept: usize::try_from(self.number()?).map_err(|_| garbled())?,
            },
            spool: self.maybe(|body| Ok(Spool { stdout: body.path()?, stderr: body.path()? }))?,
            stream: match self.number()? {
                0 => Stream::Plain,
                1 => Stream::Pi,
                2 => Stream::Claude,
                3 => Stream::Codex,
                _ => return Err(garbled()),
            },
            look_for: self.bytes()?,
            reading: match self.number()? {
                0 => Reading::Nothing,
                1 => Reading::Verdict,
                _ => return Err(garbled()),
            },
            leftovers: match self.number()? {
                0 => Leftovers::Kill,
                1 => Leftovers::Warn,
                2 => Leftovers::Keep,
                _ => return Err(garbled()),
            },
            confinement: self.maybe(|body| {
                Confinement::from_args(body.list(Text::os)?).map_err(|_| garbled())
            })?,
        })
    }

    fn never_started(&mut self, obstacle: Obstacle) -> io::Result<Ending> {
        let (errno, message) = (self.signed()?, self.string()?);
        Ok(Ending::NeverStarted(NeverStarted { errno, message, obstacle }))
    }

    fn finished(&mut self) -> io::Result<Finished> {
        Ok(Finished {
            ending: match self.number()? {
                0 => Ending::Exited(Exit::Code(self.signed()?)),
                1 => Ending::Exited(Exit::Signal(self.signed()?)),
                2 => self.never_started(Obstacle::Surroundings)?,
                3 => Ending::Lost(self.string()?),
                4 => self.never_started(Obstacle::Program)?,
                _ => return Err(garbled()),
            },
            cause: match self.number()? {
                0 => Cause::Itself,
                1 => Cause::Deadline,
                2 => Cause::Interrupt,
                _ => return Err(garbled()),
            },
            elapsed: self.time()?,
            stdout: self.output()?,
            stderr: self.output()?,
            answer: self.maybe(Text::answer)?,
            found_at: self.maybe(Text::number)?,
            verdict: self.maybe(|body| {
                let (number, text) = (body.number()?, body.string()?);
                Ok(match number {
                    0 => Ok(Verdict { ruling: Ruling::Pass, follow_up: text }),
                    1 => Ok(Verdict { ruling: Ruling::Drift, follow_up: text }),
                    2 => Err(text),
                    _ => return Err(garbled()),
                })
            })?,
            left: Left {
                ended: self.number()?,
                kept: self.list(Text::small)?,
                survivors: self.list(Text::small)?,
            },
        })
    }

    fn output(&mut self) -> io::Result<Output> {
        Ok(Output {
            head: self.bytes()?,
            tail: self.bytes()?,
            bytes: self.number()?,
            spooled: self.number()?,
            digest: self.maybe(|body| body.bytes()?.try_into().map_err(|_| garbled()))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    use std::path::PathBuf;
    use std::time::Duration;

    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::answer::tests::answer;
    use super::*;
    use crate::permissions::{Overlay, Rules};

    fn os() -> impl Strategy<Value = OsString> {
        vec(any::<u8>(), 0..20).prop_map(OsString::from_vec)
    }

    fn path() -> impl Strategy<Value = PathBuf> {
        os().prop_map(PathBuf::from)
    }

    fn time() -> impl Strategy<Value = Duration> {
        any::<u64>().prop_map(Duration::from_nanos)
    }

    prop_compose! {
        fn limits()(
            deadline in option::of(time()),
            (grace, orphan_grace, crash_grace) in (time(), time(), time()),
            spooled in any::<u64>(),
            kept in any::<usize>(),
        ) -> Limits {
            Limits { deadline, grace, orphan_grace, crash_grace, spooled, kept }
        }
    }

    prop_compose! {
        fn job()(
            (program, args) in (os(), vec(os(), 0..4)),
            (env, env_removed) in (vec((os(), os()), 0..4), vec(os(), 0..4)),
            (dir, notes) in (option::of(path()), option::of(path())),
            (stdin, look_for) in (vec(any::<u8>(), 0..200), vec(any::<u8>(), 0..9)),
            token in "[0-9a-f]{0,32}",
            limits in limits(),
            spool in option::of(
                (path(), path()).prop_map(|(stdout, stderr)| Spool { stdout, stderr })
            ),
            reading in prop::sample::select(vec![Reading::Nothing, Reading::Verdict]),
            stream in prop::sample::select(vec![Stream::Plain, Stream::Pi, Stream::Claude, Stream::Codex]),
            leftovers in prop::sample::select(
                vec![Leftovers::Kill, Leftovers::Warn, Leftovers::Keep]
            ),
            confinement in option::of(confinement()),
        ) -> Job {
            Job {
                program, args, env, env_removed, dir, stdin, token, notes, limits, spool, stream,
                look_for, reading, leftovers, confinement,
            }
        }
    }

    prop_compose! {
        fn confinement()(
            (files, directories) in (vec(path(), 0..3), vec(path(), 0..3)),
            (free, sealed) in (vec(path(), 0..3), vec(path(), 0..3)),
            overlay in option::of((path(), path(), path())),
        ) -> Confinement {
            let overlay = overlay.map(|(project, upper, work)| Overlay { project, upper, work });
            Confinement { rules: Rules { files, directories, free }, overlay, sealed }
        }
    }

    fn ending() -> impl Strategy<Value = Ending> {
        prop_oneof![
            any::<i32>().prop_map(|code| Ending::Exited(Exit::Code(code))),
            any::<i32>().prop_map(|signal| Ending::Exited(Exit::Signal(signal))),
            (any::<i32>(), any::<String>(), any::<bool>()).prop_map(
                |(errno, message, is_there)| {
                    let obstacle =
                        if is_there { Obstacle::Surroundings } else { Obstacle::Program };
                    Ending::NeverStarted(NeverStarted { errno, message, obstacle })
                }
            ),
            any::<String>().prop_map(Ending::Lost),
        ]
    }

    fn verdict() -> impl Strategy<Value = Result<Verdict, String>> {
        let ruling = prop::sample::select(vec![Some(Ruling::Pass), Some(Ruling::Drift), None]);
        (ruling, any::<String>()).prop_map(|(ruling, text)| match ruling {
            Some(ruling) => Ok(Verdict { ruling, follow_up: text }),
            None => Err(text),
        })
    }

    prop_compose! {
        fn output()(
            head in vec(any::<u8>(), 0..50),
            tail in vec(any::<u8>(), 0..50),
            bytes in any::<u64>(),
            spooled in any::<u64>(),
            digest in option::of(any::<[u8; 32]>()),
        ) -> Output {
            Output { head, tail, bytes, spooled, digest }
        }
    }

    prop_compose! {
        fn finished()(
            ending in ending(),
            cause in prop::sample::select(vec![Cause::Itself, Cause::Deadline, Cause::Interrupt]),
            elapsed in time(),
            (stdout, stderr, answer) in (output(), output(), option::of(answer())),
            found_at in option::of(any::<u64>()),
            verdict in option::of(verdict()),
            (ended, kept, survivors) in (any::<u64>(), vec(any::<u32>(), 0..3), vec(any::<u32>(), 0..3)),
        ) -> Finished {
            Finished {
                ending, cause, elapsed, stdout, stderr, answer, found_at, verdict,
                left: Left { ended, kept, survivors },
            }
        }
    }

    proptest! {
        #[test]
        fn an_order_arrives_as_it_was_sent(harness: u32, job in job()) {
            let order = Order { harness, job };
            let mut pipe = Vec::new();
            // What was meant for the job before it counts for nothing.
            write_signal(&mut pipe, Signal::Terminate).unwrap();
            write_signal(&mut pipe, Signal::Kill).unwrap();
            write_order(&mut pipe, &order).unwrap();
            prop_assert_eq!(read_order(&mut &pipe[..]).unwrap(), Some(order));
            // Whatever is cut off is noticed.
            prop_assert_eq!(read_order(&mut &pipe[..pipe.len() - 1]).unwrap(), None);
        }

        #[test]
        fn a_report_arrives_as_it_was_sent(pid: u32, finished in finished()) {
            let finished = Report::Finished(Box::new(finished));
            for (report, after) in [
                (Report::Started(pid), After::Stays),
                (finished.clone(), After::Stays),
                (finished, After::Ends),
            ] {
                let mut pipe = Vec::new();
                write_report(&mut pipe, &report, after).unwrap();
                prop_assert_eq!(read_report(&mut &pipe[..]).unwrap(), Some((report, after)));
            }
        }

        #[test]
        fn garbage_is_an_error_and_no_panic(bytes in vec(any::<u8>(), 0..200)) {
            let _ = read_order(&mut &bytes[..]);
            let _ = read_report(&mut &bytes[..]);
            let mut framed = Vec::new();
            write_frame(&mut framed, b'J', &bytes).unwrap();
            let _ = read_order(&mut &framed[..]);
            let mut framed = Vec::new();
            write_frame(&mut framed, b'F', &bytes).unwrap();
            let _ = read_report(&mut &framed[..]);
        }
    }

    #[test]
    fn both_signals_arrive() {
        for sent in [Signal::Terminate, Signal::Kill] {
            let mut pipe = Vec::new();
            write_signal(&mut pipe, sent).unwrap();
            assert_eq!(signal(pipe[0]), Some(sent));
        }
        assert_eq!(signal(b'J'), None);
    }
}
