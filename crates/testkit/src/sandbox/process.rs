//! Processes of the tests themselves: started again in another part, waited for, never left behind.

use std::io::Write;
use std::process::{Child, Command, Output};
use std::time::Duration;

use autoloop_runtime::world::World;

use super::Sandbox;

/// Which part the test binary plays when it was started by itself.
const PART: &str = "TESTKIT_PART";

/// A child process that is gone when this is dropped, whatever happened.
#[derive(Debug)]
pub struct Reaped(pub Child);

impl Reaped {
    /// Starts a process.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    pub fn start(mut command: Command) -> Self {
        Reaped(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// Kills it, without a chance to clean up, and waits until it is gone.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Reaped {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Sandbox {
    /// The test binary itself, about to be started in the project in another part. It has to have a
    /// test of the name `part_of_a_child` that asks for [`part`] and does nothing unless there is one.
    ///
    /// # Panics
    ///
    /// When the system does not tell which binary this is.
    pub fn play(&self, part: &str) -> Command {
        let mut command = self.at_home(std::env::current_exe().expect("the system knows us"));
        command.args(["--exact", "part_of_a_child", "--nocapture", "--test-threads=1", "--quiet"]);
        command.env(PART, part);
        command
    }
}

/// The part that this process was started to play.
pub fn part() -> Option<String> {
    std::env::var(PART).ok()
}

/// Waits until `what` is there, and looks often: for things that nobody announces.
///
/// # Panics
///
/// When it does not come for two minutes, which no load explains.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let clock = World::real().clock;
    let begin = clock.elapsed();
    loop {
        if let Some(found) = look() {
            return found;
        }
        let waited = clock.elapsed() - begin;
        assert!(waited < Duration::from_secs(120), "waited in vain for {what}");
        clock.sleep(Duration::from_millis(2));
    }
}

/// Says loudly that a test could not do its work here.
pub fn skip(test: &str, reason: &str) {
    tell(&format!("SKIPPED {test}: {reason}"));
}

/// Tells the person who runs the tests something that is worth knowing even if nothing fails: a seed,
/// a count. The test harness captures what is printed, but not what is written past it.
pub fn tell(text: &str) {
    // Where standard error is closed, nobody wants to know.
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Asserts that a child that plays a part came to its end, and shows what it said if it did not.
///
/// # Panics
///
/// When it did not.
pub fn assert_success(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
