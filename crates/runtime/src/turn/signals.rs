//! Distinguishes agents that were interrupted with the run from agents that failed by a signal.
//!
//! A service manager that stops a service signals all of its processes, and an agent that ends by that has not failed.
//! But an agent can also signal its own supervisor: if that counted as a request to stop, it would be started again for
//! ever.

use std::time::Duration;

use crate::process::Interrupts;
use crate::world::{Cause, Clock, Ending, Exit, Finished};

/// A signal to all processes may end an agent before this process receives it.
const MOMENT: Duration = Duration::from_secs(1);
/// The signals that ask a program to end: SIGHUP, SIGINT and SIGTERM.
const REQUESTS: [i32; 3] = [1, 2, 15];
const BY_OTHERS: &str = "a signal ended its supervisor";

/// How a job ended whose end these interrupts could have caused.
pub(super) fn attributed(finished: Finished, ends: &Interrupts, clock: &dyn Clock) -> Finished {
    let is_asked = was_signalled(&finished) && is_soon(|| ends.are_raised(), clock);
    meant(finished, is_asked)
}

/// Whether a condition holds, or does within [`MOMENT`].
fn is_soon(is_so: impl Fn() -> bool, clock: &dyn Clock) -> bool {
    let begin = clock.elapsed();
    while !is_so() {
        if clock.elapsed().saturating_sub(begin) > MOMENT {
            return false;
        }
        clock.sleep(MOMENT / 50);
    }
    true
}

/// Whether an agent ended by a signal that may have been sent to all processes.
fn was_signalled(finished: &Finished) -> bool {
    match (finished.cause, &finished.ending) {
        (Cause::Interrupt, _) => true,
        (Cause::Itself, Ending::Exited(Exit::Signal(signal))) => REQUESTS.contains(signal),
        (Cause::Itself | Cause::Deadline, _) => false,
    }
}

/// How such an agent ended: it was interrupted if the run was asked to stop, and failed if not.
fn meant(finished: Finished, is_asked: bool) -> Finished {
    match finished.cause {
        _ if is_asked => Finished { cause: Cause::Interrupt, ..finished },
        Cause::Interrupt => {
            let ending = Ending::Lost(BY_OTHERS.to_owned());
            Finished { ending, cause: Cause::Itself, ..finished }
        }
        Cause::Itself | Cause::Deadline => finished,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(cause: Cause, exit: Exit) -> Finished {
        Finished { cause, ..Finished::new(Ending::Exited(exit)) }
    }

    #[test]
    fn an_end_by_a_signal_is_an_interrupt_only_where_requested() {
        let cases = [
            (ended(Cause::Interrupt, Exit::Code(0)), Cause::Interrupt, 125),
            (ended(Cause::Itself, Exit::Signal(15)), Cause::Interrupt, 143),
            (ended(Cause::Itself, Exit::Signal(9)), Cause::Itself, 137),
            (ended(Cause::Itself, Exit::Code(1)), Cause::Itself, 1),
            (ended(Cause::Deadline, Exit::Signal(15)), Cause::Deadline, 143),
        ];
        for (finished, asked, code) in cases {
            let is_signalled = was_signalled(&finished);
            assert_eq!(meant(finished.clone(), is_signalled).cause, asked, "{finished:?}");
            let unasked = meant(finished.clone(), false);
            assert_ne!(unasked.cause, Cause::Interrupt);
            assert_eq!(unasked.exit_code(), code, "{finished:?}");
        }
    }
}
