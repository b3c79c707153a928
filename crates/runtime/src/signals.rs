//! Signals to the harness, turned into requests to stop.

use std::io;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::process::Interrupts;

/// So many requests are heard. The next one ends the program where it stands: somebody who asks a
/// third time has seen that it does not listen. Shims notice, and clean up.
const HEARD: usize = 2;

/// Turns Ctrl-C, SIGTERM and SIGHUP into requests from now on.
///
/// # Errors
///
/// When the system refuses the handlers or the thread.
pub fn listen(interrupts: &Interrupts) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let interrupts = interrupts.clone();
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            if interrupts.count() >= HEARD {
                // The default is to end by the signal; should it be ignored, so is it here.
                let _ = emulate_default_handler(signal);
            }
            interrupts.raise(signal);
        }
    })?;
    Ok(())
}
