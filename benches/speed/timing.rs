//! Samples, and what is made of them.
//!
//! The machine does other things meanwhile, and they only ever make a sample worse. So the two sides of
//! a comparison take turns, and of each side the better half is kept, of which the median counts.

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

/// Does two things in turn and gives the calm time of each.
pub(crate) fn alternate(
    rounds: usize,
    mut ours: impl FnMut() -> Fallible<Duration>,
    mut theirs: impl FnMut() -> Fallible<Duration>,
) -> Fallible<[Duration; 2]> {
    // The first of each is slower for reasons that do not last: pages to be read, files to be made.
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

/// How long a process takes from its start to its end, which has to be a good one.
pub(crate) fn process(command: &mut Command) -> Fallible<Duration> {
    process_ending_with(0, command)
}

/// The same of a process that is to end with this code.
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
