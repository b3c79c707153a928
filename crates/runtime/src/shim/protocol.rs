//! The protocol between harness and shim over two pipes.
//!
//! Signals are single bytes. An order is a byte of its own and a [message](crate::message), a report is a
//! message.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use crate::message;
use crate::world::{Finished, Job, Signal};

const ORDER: u8 = b'J';

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// Its process id, by which the shim checks that its parent is still alive.
    pub(crate) harness: u32,
    pub(crate) job: Job,
}

pub(crate) fn write_order(pipe: &mut impl Write, order: &Order) -> io::Result<()> {
    let message = message::encode(order)?;
    pipe.write_all(&[&[ORDER], &message[..]].concat())
}

/// `None` when the harness closed before the order was complete. Signals before it were for an earlier job.
pub(crate) fn read_order(pipe: &mut impl Read) -> io::Result<Option<Order>> {
    let mut first = [0];
    loop {
        match pipe.read(&mut first) {
            Ok(0) => return Ok(None),
            Ok(_) if first == [ORDER] => return message::read(pipe, u32::MAX),
            Ok(_) if signal(first[0]).is_some() => {}
            Ok(_) => return Err(message::malformed()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

pub(crate) fn write_signal(pipe: &mut impl Write, signal: Signal) -> io::Result<()> {
    let byte = match signal {
        Signal::Terminate => b'T',
        Signal::Kill => b'K',
    };
    pipe.write_all(&[byte])
}

pub(crate) fn signal(byte: u8) -> Option<Signal> {
    match byte {
        b'T' => Some(Signal::Terminate),
        b'K' => Some(Signal::Kill),
        _ => None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum After {
    Stays,
    Ends,
}

pub(crate) fn write_report(
    pipe: &mut impl Write,
    report: &Finished,
    after: After,
) -> io::Result<()> {
    message::write(pipe, &(report, after))
}

/// `None` when the shim is gone.
pub(crate) fn read_report(pipe: &mut impl Read) -> io::Result<Option<(Finished, After)>> {
    message::read(pipe, u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    use std::path::PathBuf;
    use std::time::Duration;

    use autoloop_core::agents::{Answer, Dollars, Outcome, Stream, Usage};
    use autoloop_core::config::Leftovers;
    use autoloop_core::env::Inherits;
    use autoloop_core::verdict::{Ruling, Verdict};
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;
    use crate::world::{
        Cause, Confinement, Ending, Exit, Limits, NeverStarted, Obstacle, Orphans, Output, Overlay,
        Reading, Rules, Spool,
    };

    fn outcome() -> impl Strategy<Value = Outcome> {
        prop_oneof![
            prop::sample::select(vec![
                Outcome::Done,
                Outcome::CutShort,
                Outcome::Aborted,
                Outcome::Unfinished,
                Outcome::Silent,
            ]),
            any::<String>().prop_map(|why| Outcome::Failed(why.as_str().into())),
            any::<String>().prop_map(Outcome::Unknown),
            any::<String>().prop_map(Outcome::Unrecognized),
        ]
    }

    prop_compose! {
        fn usage()(counts: [u64; 5], cost in option::of(any::<u64>().prop_map(Dollars))) -> Usage {
            let [input, output, cache_read, cache_write, total] = counts;
            Usage { input, output, cache_read, cache_write, total, cost }
        }
    }

    prop_compose! {
        fn answer()(
            text: String, outcome in outcome(), usage in option::of(usage()), unreadable: u64,
        ) -> Answer {
            Answer { text, outcome, usage, unreadable, ..Answer::default() }
        }
    }

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
                program, args, inherits: Inherits::default(), env, env_removed, secrets: Some(vec![b"x".to_vec()]), dir, stdin, token, notes, limits, spool, stream,
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
                orphans: Orphans { ended, kept, survivors },
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
        fn a_report_arrives_as_it_was_sent(finished in finished()) {
            for after in [After::Stays, After::Ends] {
                let mut pipe = Vec::new();
                write_report(&mut pipe, &finished, after).unwrap();
                let read = read_report(&mut &pipe[..]).unwrap();
                prop_assert_eq!(read, Some((finished.clone(), after)));
            }
        }

        #[test]
        fn garbage_is_an_error_and_no_panic(bytes in vec(any::<u8>(), 0..200)) {
            let _ = read_order(&mut &bytes[..]);
            let _ = read_report(&mut &bytes[..]);
            let length = u32::try_from(bytes.len()).unwrap().to_le_bytes();
            let message = [&length[..], &bytes].concat();
            let _ = read_order(&mut &[&[ORDER], &message[..]].concat()[..]);
            let _ = read_report(&mut &message[..]);
        }
    }

    #[test]
    fn both_signals_arrive() {
        for sent in [Signal::Terminate, Signal::Kill] {
            let mut pipe = Vec::new();
            write_signal(&mut pipe, sent).unwrap();
            assert_eq!(signal(pipe[0]), Some(sent));
        }
        assert_eq!(signal(ORDER), None);
    }
}
