//! Signals to the harness, turned into requests to stop.

#![expect(clippy::disallowed_methods, reason = "/proc is not simulated")]

use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::process::Interrupts;

/// The maximum number of requests that are handled. The next one ends the process at once; shims
/// notice that, and clean up.
const MOST_REQUESTS: usize = 2;

/// The thread calls little, and its stack counts as memory of the process.
const STACK: usize = 256 * 1024;

/// Signals are sent to the process, so there is one answer for all of it.
static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Whether this process was asked to stop. Whatever waits for another program, with no request of its own to look at,
/// asks here.
pub(crate) fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Turns Ctrl-C, SIGTERM and SIGHUP into requests from now on. Who starts us with `nohup` wants us to go on
/// when the terminal goes away.
pub fn listen(interrupts: &Interrupts) -> io::Result<()> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let hangup = Some(SIGHUP).filter(|hangup| !is_ignored(*hangup, &status));
    let mut signals = Signals::new([SIGINT, SIGTERM].into_iter().chain(hangup))?;
    let interrupts = interrupts.clone();
    thread::Builder::new().name("signals".to_owned()).stack_size(STACK).spawn(move || {
        for signal in signals.forever() {
            REQUESTED.store(true, Ordering::Relaxed);
            if interrupts.count() >= MOST_REQUESTS {
                // The default is to end by the signal; should it be ignored, so is it here.
                let _ = emulate_default_handler(signal);
            }
            interrupts.raise(signal);
        }
    })?;
    Ok(())
}

/// Whether a process ignores a signal, by what Linux tells of it.
fn is_ignored(signal: i32, status: &str) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_bits() {
        let status = "Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        let ignored = [1, 2, 13, 15].map(|signal| is_ignored(signal, status));
        assert_eq!(ignored, [true, false, true, false]);
        assert!(!is_ignored(SIGHUP, ""));
    }
}
