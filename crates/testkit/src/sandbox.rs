//! A temporary project and the real binary in it: how the tests talk to `autoloop` from outside.
//!
//! ```no_run
//! use autoloop_testkit::Sandbox;
//!
//! // In an integration test of the binary: env!("CARGO_BIN_EXE_autoloop").
//! let sandbox = Sandbox::new("/path/to/autoloop").env("AUTOLOOP_RUN_ID", "swift-agent");
//! assert_eq!(sandbox.emit(&["review.ready", "it works"]).code, Some(0));
//! assert!(sandbox.journal().contains("it works"));
//! ```

mod agents;
mod process;
mod small_disk;
mod story;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

pub use process::{Reaped, assert_success, meet_a_limit, part, skip, tell, until, write_program};

/// A temporary project, deleted at the end, in which commands are run.
#[derive(Debug)]
pub struct Sandbox {
    dir: TempDir,
    /// The canonical path of the directory.
    root: PathBuf,
    binary: PathBuf,
    env: Vec<(OsString, OsString)>,
}

/// The result of a command. Its text is what snapshots compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Standard output, with times and the directory filtered.
    pub stdout: String,
    /// Standard error, filtered as well.
    pub stderr: String,
}

impl Sandbox {
    /// An empty project for this binary.
    ///
    /// # Panics
    ///
    /// When no temporary directory can be made.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        let dir = tempfile::tempdir().expect("tests need a temporary directory");
        let root = dir.path().canonicalize().expect("it was just made");
        Sandbox { dir, root, binary: binary.into(), env: Vec::new() }
    }

    /// Sets a variable for every command from here on.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Runs `autoloop emit …`.
    pub fn emit(&self, args: &[impl AsRef<OsStr>]) -> Output {
        let mut command = self.command();
        command.arg("emit").args(args);
        self.finish(command)
    }

    /// Runs `autoloop …`.
    pub fn run(&self, args: &[impl AsRef<OsStr>]) -> Output {
        let mut command = self.command();
        command.args(args);
        self.finish(command)
    }

    /// The binary, about to be started in the project, for tests that start it in their own way.
    pub fn command(&self) -> Command {
        self.at_home(&self.binary)
    }

    /// Any program, prepared to run in the project with the same environment.
    pub fn at_home(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root).stdin(Stdio::null());
        // Variables of a run or of a hook that started these tests must not affect them, and git
        // gets the same settings everywhere.
        let astray: [&[u8]; 2] = [b"AUTOLOOP_", b"GIT_"];
        let leads = |name: &OsStr| astray.iter().any(|it| name.as_encoded_bytes().starts_with(it));
        for (name, _) in std::env::vars_os().filter(|(name, _)| leads(name)) {
            command.env_remove(name);
        }
        command.env("GIT_CONFIG_NOSYSTEM", "1");
        // Shells complain about a missing locale, and programs print in another language.
        command.env("LC_ALL", "C");
        // The user's settings must not apply.
        let home = self.root.join("home");
        command.env("HOME", &home).env("XDG_CONFIG_HOME", &home);
        // Colours must not depend on the environment.
        for name in ["CLICOLOR_FORCE", "CLICOLOR", "NO_COLOR"] {
            command.env_remove(name);
        }
        // The key that proves records is outside of the project, and all projects of a user share
        // it.
        let user = rustix::process::geteuid().as_raw();
        let state = std::env::temp_dir().join(format!("autoloop-tests-of-{user}"));
        command.env("XDG_STATE_HOME", state);
        // A backtrace differs between machines, and cargo's library path is not part of how the
        // binary is started.
        command.env_remove("RUST_BACKTRACE").env_remove("LD_LIBRARY_PATH");
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a prepared command to its end.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    pub fn finish(&self, mut command: Command) -> Output {
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Output {
            code: output.status.code(),
            stdout: self.filter(&String::from_utf8_lossy(&output.stdout)),
            stderr: self.filter(&String::from_utf8_lossy(&output.stderr)),
        }
    }

    /// The binary itself.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Something in the project; `""` is the project itself.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        match name.as_ref() {
            here if here.as_os_str().is_empty() => self.root.clone(),
            name => self.root.join(name),
        }
    }

    /// The default path of the journal.
    pub fn journal_path(&self) -> PathBuf {
        self.path(".autoloop/journal.jsonl")
    }

    /// The journal with its times filtered; empty when there is none.
    pub fn journal(&self) -> String {
        self.filter(&String::from_utf8_lossy(&self.read(".autoloop/journal.jsonl")))
    }

    /// A file of the project as it stands; empty when there is none.
    ///
    /// # Panics
    ///
    /// When it is there but cannot be read.
    pub fn read(&self, name: impl AsRef<Path>) -> Vec<u8> {
        let path = self.path(name);
        match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => panic!("{}: {error}", path.display()),
        }
    }

    /// Removes the seals of all records of the journal.
    ///
    /// # Panics
    ///
    /// When there is no journal.
    pub fn remove_seals(&self) {
        let journal = fs::read_to_string(self.journal_path()).expect("there is a journal");
        self.write_journal(without_seals(&journal));
    }

    /// Writes a file of the project and the directories on the way to it.
    ///
    /// # Panics
    ///
    /// When that is not possible.
    pub fn write(&self, name: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        let written = fs::create_dir_all(path.parent().expect("it is in the project"))
            .and_then(|()| fs::write(&path, bytes));
        written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        self
    }

    /// Writes the journal.
    pub fn write_journal(&self, bytes: impl AsRef<[u8]>) -> &Self {
        self.write(".autoloop/journal.jsonl", bytes)
    }

    /// Replaces times by `[TS]` and the directory of the project by `[DIR]`, and removes the
    /// elapsed time at the beginning of lines.
    pub fn filter(&self, text: &str) -> String {
        let mut text: String = text.split_inclusive('\n').map(without_elapsed).collect();
        text = text.replace(&self.root.display().to_string(), "[DIR]");
        text = text.replace(&self.dir.path().display().to_string(), "[DIR]");
        without_seals(&without_times(&text))
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => write!(f, "exit {code}")?,
            None => write!(f, "killed")?,
        }
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                write!(f, "\n--- {name}\n{}", text.strip_suffix('\n').unwrap_or(text))?;
            }
        }
        Ok(())
    }
}

/// The line without `[1:23] ` in front of it.
fn without_elapsed(line: &str) -> &str {
    let is_time =
        |text: &str| text.contains(':') && text.chars().all(|c| c == ':' || c.is_ascii_digit());
    let (time, rest) =
        line.strip_prefix('[').and_then(|line| line.split_once("] ")).unwrap_or(("", line));
    if is_time(time) { rest } else { line }
}

/// The text without the seals of records.
fn without_seals(text: &str) -> String {
    let mut parts = text.split(", \"seal\": \"");
    let mut rest: String = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('"') {
            Some((seal, behind)) if seal.contains(':') => rest.push_str(behind),
            _ => rest.push_str(part),
        }
    }
    rest
}

/// The text with everything of the shape `2026-01-31T23:59:59.999Z` replaced.
fn without_times(text: &str) -> String {
    const SHAPE: &[u8] = b"0000-00-00T00:00:00.000Z";
    let is_time = |bytes: &[u8]| {
        bytes.len() == SHAPE.len()
            && bytes.iter().zip(SHAPE).all(|(byte, shape)| match shape {
                b'0' => byte.is_ascii_digit(),
                shape => byte == shape,
            })
    };
    let mut filtered = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let is_here = rest.as_bytes().get(..SHAPE.len()).is_some_and(is_time);
        let taken = if is_here { SHAPE.len() } else { character.len_utf8() };
        filtered.push_str(if is_here { "[TS]" } else { &rest[..taken] });
        rest = &rest[taken..];
    }
    filtered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_times_are_filtered() {
        assert_eq!(without_elapsed("[0:01]   a [0:02] \n"), "  a [0:02] \n");
        assert_eq!(without_elapsed("[1:00:01] a"), "a");
        assert_eq!(without_elapsed("[12] a"), "[12] a");
        assert_eq!(without_times("ä 2026-01-31T23:59:59.999Z!"), "ä [TS]!");
        assert_eq!(without_times("2026-01-31T23:59:59Z"), "2026-01-31T23:59:59Z");
        assert_eq!(without_times("x2026-01-31T23:59:59.99"), "x2026-01-31T23:59:59.99");
    }

    #[test]
    fn an_output_is_printed_without_what_there_was_not() {
        let mut output = Output { code: Some(0), stdout: "a\nb\n".into(), stderr: String::new() };
        assert_eq!(output.to_string(), "exit 0\n--- stdout\na\nb");
        output.stderr = "c".into();
        output.code = None;
        assert_eq!(output.to_string(), "killed\n--- stdout\na\nb\n--- stderr\nc");
    }

    #[test]
    fn commands_run_in_the_project_and_hear_of_no_other_run() {
        let sandbox = Sandbox::new("/bin/sh").env("AUTOLOOP_RUN_ID", "mine");
        sandbox.write("sub/file", "text");
        let output = sandbox.run(&["-c", "pwd; cat sub/file; echo; env | grep ^AUTOLOOP_; exit 5"]);
        assert_eq!(output.to_string(), "exit 5\n--- stdout\n[DIR]\ntext\nAUTOLOOP_RUN_ID=mine");
        assert_eq!(sandbox.journal(), "");
    }
}
