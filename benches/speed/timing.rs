//! Samples and their evaluation.
//!
//! Other work on the machine only makes a sample worse. So the two sides of a comparison take
//! turns, the better half of each side is kept, and its median counts.

use std::io;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Fallible;

/// Which way is better.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Less,
    More,
}

/// The median of the better half.
pub(crate) fn calm(mut samples: Vec<f64>, better: Better) -> f64 {
    samples.sort_unstable_by(f64::total_cmp);
    if better == Better::More {
        samples.reverse();
    }
    let half = samples.len().div_ceil(2);
    samples.get(half.saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

/// Runs both sides in turn and returns the stable time of each.
pub(crate) fn alternate(
    rounds: usize,
    mut ours: impl FnMut() -> Fallible<Duration>,
    mut theirs: impl FnMut() -> Fallible<Duration>,
) -> Fallible<[Duration; 2]> {
    // The first run of each is slower for reasons that do not last: cold pages, new files.
    ours()?;
    theirs()?;
    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        our_times.push(ours()?.as_secs_f64());
        their_times.push(theirs()?.as_secs_f64());
    }
    let calm = |times| Duration::from_secs_f64(calm(times, Better::Less));
    Ok([calm(our_times), calm(their_times)])
}

/// The time of a process from its start to its exit, which must be successful.
pub(crate) fn process(command: &mut Command) -> Fallible<Duration> {
    process_ending_with(0, command)
}

/// The same for a process that must exit with this code.
pub(crate) fn process_ending_with(code: i32, command: &mut Command) -> Fallible<Duration> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let begin = Instant::now();
    let status = command.status()?;
    let time = begin.elapsed();
    if status.code() == Some(code) {
        Ok(time)
    } else {
        Err(io::Error::other(format!("{:?} ended with {status}", command.get_program())).into())
    }
}
