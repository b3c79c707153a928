//! Processes of the tests themselves: restarted in another part, waited for, never left behind.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use autoloop_runtime::world::World;

use super::Sandbox;

/// The part that the test binary plays when it was started by itself.
const PART: &str = "TESTKIT_PART";

/// A child process that is killed when this is dropped.
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

    /// Kills it with SIGKILL, and waits until it is gone.
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

/// Polls until `what` is there: for things that are not announced.
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

/// Tries something with longer and longer time limits, in milliseconds, until it comes to where the limit
/// is to meet it. How long the way there takes is the business of the machine.
///
/// # Panics
///
/// When half a minute is not enough, which no load explains.
pub fn meet_a_limit<T>(tried: impl FnMut(u64) -> Option<T>) -> T {
    let met = [300, 3_000, 30_000].into_iter().find_map(tried);
    met.expect("half a minute is enough to come to where the limit is met")
}

/// Writes a program. Another process does it: while this one has a file open for writing, so has every
/// process that a test beside it starts just then, and the system starts no program that is being written.
///
/// # Panics
///
/// When that is not possible.
pub fn write_program(path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
    let mut command = Command::new("sh");
    command.args(["-c", "mkdir -p \"${1%/*}\" && cat > \"$1\" && chmod +x \"$1\"", "sh"]);
    command.arg(path.as_ref()).stdin(Stdio::piped());
    let mut writer = Reaped::start(command);
    let mut input = writer.0.stdin.take().expect("it was asked for");
    input.write_all(text.as_ref()).expect("it reads");
    drop(input);
    let status = writer.0.wait().expect("it is our child");
    assert!(status.success(), "{}: {status}", path.as_ref().display());
}

/// Prints loudly that a test could not run here.
pub fn skip(test: &str, reason: &str) {
    tell(&format!("SKIPPED {test}: {reason}"));
}

/// Prints something worth knowing even if nothing fails: a seed, a count. The test harness captures
/// what is printed, so this writes past it.
pub fn tell(text: &str) {
    // A closed standard error is no failure.
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
