//! A process to start, and how it ended.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use autoloop_core::agents::{Answer, Stream};
use autoloop_core::config::Leftovers;
use autoloop_core::env::Inherits;
use autoloop_core::secrets::secret_values;
use autoloop_core::text::Shortened;
use autoloop_core::verdict::Verdict;
use serde::{Deserialize, Serialize};

use crate::message::bytes;

/// A process to start, and how it is supervised.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The executable: a path (a relative one is looked up from `dir`), or a name to be looked up in
    /// the job's own `PATH`.
    pub program: OsString,
    /// Never interpreted by a shell.
    pub args: Vec<OsString>,
    /// What it inherits of the harness's environment. A shim is told the result.
    #[serde(skip)]
    pub inherits: Inherits,
    /// Variables set on top of that.
    pub env: Vec<(OsString, OsString)>,
    pub env_removed: Vec<OsString>,
    /// Values that are masked in its output, with what looks like a key; `None`: nothing is masked. The spawner sets
    /// it for agents.
    pub secrets: Option<Vec<Vec<u8>>>,
    /// The directory to start in; `None` is the current one.
    #[serde(with = "bytes")]
    pub dir: Option<PathBuf>,
    /// Standard input, which is closed after it.
    #[serde(with = "bytes")]
    pub stdin: Vec<u8>,
    /// Marks the process and all its descendants, in their environment, so that a sweep finds them. Empty: the
    /// spawner draws one.
    pub token: String,
    #[serde(with = "bytes")]
    pub notes: Option<PathBuf>,
    pub limits: Limits,
    pub spool: Option<Spool>,
    /// The format of its standard output.
    pub stream: Stream,
    /// A text to look for in its answer: on its standard output, unless that is a stream.
    #[serde(with = "bytes")]
    pub look_for: Vec<u8>,
    pub reading: Reading,
    pub leftovers: Leftovers,
    pub confinement: Option<Confinement>,
}

impl Job {
    /// The job with its whole environment, for a shim, which has none of it.
    pub(crate) fn with_environment(self, harness: Vec<(OsString, OsString)>) -> Job {
        let Job { inherits, env, env_removed, .. } = self;
        let is_agent = inherits != Inherits::All;
        let secrets = is_agent.then(|| secret_values(harness.iter().chain(&env)));
        let mut all: BTreeMap<_, _> = inherits.select(harness).into_iter().chain(env).collect();
        all.retain(|name, _| !env_removed.contains(name));
        let env = all.into_iter().collect();
        Job { env, inherits, env_removed: Vec::new(), secrets, ..self }
    }
}

/// The bounds of a process: where it may write, and in which view of the project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    pub rules: Rules,
    /// The view that stands in the place of the project.
    pub overlay: Option<Overlay>,
    /// With such a view: files and directories that are for reading only, wherever else it may write.
    #[serde(with = "bytes")]
    pub sealed: Vec<PathBuf>,
}

/// Where a reviewer may write. It may read everything that its user may.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    #[serde(with = "bytes")]
    pub files: Vec<PathBuf>,
    /// Directories in which files may be made, written and deleted, but nothing else.
    #[serde(with = "bytes")]
    pub directories: Vec<PathBuf>,
    /// Directories in which anything may be done: a private one for temporary files, and those in
    /// which the agent keeps its own state. These may be links; the others may not.
    #[serde(with = "bytes")]
    pub free: Vec<PathBuf>,
}

/// A view of a project that can be written without changing it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlay {
    /// The project, without links in its path.
    #[serde(with = "bytes")]
    pub project: PathBuf,
    /// What is written goes here.
    #[serde(with = "bytes")]
    pub upper: PathBuf,
    /// The kernel works here. On the same file system.
    #[serde(with = "bytes")]
    pub work: PathBuf,
}

/// How long the processes of a harness that has died may take to end, unless a job says otherwise.
pub const CRASH_GRACE: Duration = Duration::from_secs(2);

/// How long a job may take, and how much of its output is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// After this time it gets SIGTERM.
    pub deadline: Option<Duration>,
    /// And this much later SIGKILL.
    pub grace: Duration,
    /// The grace of processes that outlive the agent, unless `grace` is shorter.
    pub orphan_grace: Duration,
    /// The grace once the harness itself has died.
    pub crash_grace: Duration,
    /// The maximum size of each spool file in bytes. What comes after is read and discarded.
    pub spooled: u64,
    /// How many bytes of each output are kept in memory from its beginning, and as many from its end.
    pub kept: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            deadline: None,
            grace: Duration::from_secs(5),
            orphan_grace: Duration::from_millis(500),
            crash_grace: CRASH_GRACE,
            spooled: 256 * 1024 * 1024,
            kept: 1024 * 1024,
        }
    }
}

/// Files for the two outputs of a job. Each is created with its first byte; an existing one is removed when the job
/// starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spool {
    #[serde(with = "bytes")]
    pub stdout: PathBuf,
    #[serde(with = "bytes")]
    pub stderr: PathBuf,
}

/// What is extracted from the standard output of a job while it prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reading {
    #[default]
    Nothing,
    /// The verdict of a reviewer, unless its output is a stream, whose answer is the verdict.
    Verdict,
}

/// A running process: only channels, so that a scripted one is as good as a real one.
#[derive(Debug)]
pub struct Running {
    /// The id of the process that supervises the job, for messages.
    pub id: u32,
    /// Gets one value, when nothing that the job had started runs any more, unless the value says so.
    pub finished: Receiver<Finished>,
    /// Sending after the end has no effect.
    pub signals: Sender<Signal>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A request to end; after the grace of the job it is killed. The second one kills at once.
    Terminate,
    Kill,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    Exited(Exit),
    NeverStarted(NeverStarted),
    /// How the program ended is unknown; the text says why.
    Lost(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct NeverStarted {
    /// The number of the system's error; 0 where there is none.
    pub errno: i32,
    pub message: String,
    pub obstacle: Obstacle,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Obstacle {
    /// The program itself is missing or cannot be executed: no other start of it would succeed.
    Program,
    /// The directory, the confinement, or a lack of memory or processes.
    #[default]
    Surroundings,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    #[default]
    Itself,
    Deadline,
    /// A [`Signal`] from the harness.
    Interrupt,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    pub ending: Ending,
    pub cause: Cause,
    /// From the start of the program to its end.
    pub elapsed: Duration,
    pub stdout: Output,
    pub stderr: Output,
    /// The answer, where standard output is a stream.
    pub answer: Option<Answer>,
    /// The position of [`Job::look_for`] in its answer, in bytes.
    pub found_at: Option<u64>,
    /// What [`Reading::Verdict`] found on standard output, or why it found none. It is read as it is printed, because
    /// the file with the output can be changed by other agents.
    pub verdict: Option<Result<Verdict, String>>,
    pub orphans: Orphans,
}

impl Finished {
    /// A job of which only the ending is known.
    pub fn new(ending: Ending) -> Self {
        Finished {
            ending,
            cause: Cause::default(),
            elapsed: Duration::ZERO,
            stdout: Output::default(),
            stderr: Output::default(),
            answer: None,
            found_at: None,
            verdict: None,
            orphans: Orphans::default(),
        }
    }

    pub fn timed_out(&self) -> bool {
        self.cause == Cause::Deadline
    }

    /// The exit code as in a shell: 128 + n for a signal, 127 for a missing program and 126 for one that cannot be
    /// run. A job whose ending is unknown has 125, and one that exits with 0 although its stream reports a failure
    /// has 1.
    pub fn exit_code(&self) -> i32 {
        let failed = self.answer.as_ref().is_some_and(|answer| answer.outcome.is_failure());
        match &self.ending {
            Ending::Exited(Exit::Code(0)) if failed => 1,
            Ending::Exited(Exit::Code(code)) => *code,
            Ending::Exited(Exit::Signal(signal)) => 128 + signal,
            Ending::NeverStarted(why) if why.errno == rustix::io::Errno::NOENT.raw_os_error() => {
                127
            }
            Ending::NeverStarted(_) => 126,
            Ending::Lost(_) => 125,
        }
    }
}

/// One output of a job: all of it when it is short, else its beginning and its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    #[serde(with = "bytes")]
    pub head: Vec<u8>,
    /// The end, as far as it is not in `head`.
    #[serde(with = "bytes")]
    pub tail: Vec<u8>,
    pub bytes: u64,
    /// How many bytes are in the spool file. Less than `bytes` when the file's limit was reached or
    /// the disk was full.
    pub spooled: u64,
    /// The BLAKE3 digest of the spool file, which reveals a later change: agents can write to that file.
    pub digest: Option<[u8; 32]>,
}

/// How many bytes of an output its last line is looked for in.
const END: usize = 64 * 1024;

impl Output {
    pub fn whole(bytes: impl Into<Vec<u8>>) -> Self {
        let head = bytes.into();
        Output { bytes: head.len() as u64, head, ..Output::default() }
    }

    /// How many bytes between `head` and `tail` are missing.
    pub fn left_out(&self) -> u64 {
        self.bytes.saturating_sub((self.head.len() + self.tail.len()) as u64)
    }

    /// The output as text. What is not UTF-8 becomes replacement characters, and where the middle
    /// is missing a line says how much.
    pub fn text(&self) -> String {
        match self.parts() {
            Shortened { head, left_out: 0, .. } => head,
            Shortened { head, tail, left_out } => {
                format!("{head}\n[... {left_out} bytes left out ...]\n{tail}")
            }
        }
    }

    /// The last bytes of the output as text, for its last line.
    pub fn end(&self) -> String {
        let end = if self.tail.is_empty() { &self.head } else { &self.tail };
        String::from_utf8_lossy(&end[end.len().saturating_sub(END)..]).into_owned()
    }

    /// The output as text in one part, or in two with a gap between them.
    pub fn parts(&self) -> Shortened {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        match self.left_out() {
            0 => Shortened {
                head: text(&[&self.head[..], &self.tail].concat()),
                ..Shortened::default()
            },
            left_out => Shortened {
                head: text(without_split_end(&self.head)),
                tail: text(without_split_start(&self.tail)),
                left_out,
            },
        }
    }
}

/// Without the first bytes of a character whose other bytes were left out.
fn without_split_end(bytes: &[u8]) -> &[u8] {
    let invalid = bytes.utf8_chunks().last().map_or(&[][..], |last| last.invalid());
    match std::str::from_utf8(invalid) {
        Err(error) if error.error_len().is_none() => &bytes[..bytes.len() - invalid.len()],
        _ => bytes,
    }
}

/// Without the last bytes of a character whose first bytes were left out.
fn without_split_start(bytes: &[u8]) -> &[u8] {
    let strays = bytes.iter().take(3).take_while(|byte| *byte & 0xC0 == 0x80).count();
    &bytes[strays..]
}

/// The processes that a job left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orphans {
    /// How many were ended.
    pub ended: u64,
    /// Those that [`Job::leftovers`] keeps alive, for a warning.
    pub kept: Vec<u32>,
    /// Those that could not be killed.
    pub survivors: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use autoloop_core::agents::Outcome;

    use super::*;

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        let never =
            |errno| NeverStarted { errno, message: String::new(), obstacle: Obstacle::default() };
        let cases = [
            (Ending::Exited(Exit::Code(3)), 3),
            (Ending::Exited(Exit::Signal(9)), 137),
            (Ending::NeverStarted(never(2)), 127),
            (Ending::NeverStarted(never(13)), 126),
            (Ending::Lost("gone".into()), 125),
        ];
        for (ending, code) in cases {
            assert_eq!(Finished::new(ending).exit_code(), code);
        }
    }

    #[test]
    fn a_stream_that_tells_of_a_failure_is_believed_more_than_an_exit_code_of_0() {
        let exit = |code, outcome| {
            let answer = Some(Answer { outcome, ..Answer::default() });
            Finished { answer, ..Finished::new(Ending::Exited(Exit::Code(code))) }.exit_code()
        };
        assert_eq!(exit(0, Outcome::Done), 0);
        assert_eq!(exit(0, Outcome::CutShort), 0);
        assert_eq!(exit(0, Outcome::Aborted), 1);
        assert_eq!(exit(0, Outcome::Silent), 1);
        assert_eq!(exit(7, Outcome::Done), 7);
        assert_eq!(exit(7, Outcome::Silent), 7);
    }

    #[test]
    fn a_short_output_is_decoded_as_a_whole() {
        let split = Output {
            head: b"caf\xC3".to_vec(),
            tail: b"\xA9 \xFF".to_vec(),
            bytes: 7,
            ..Output::default()
        };
        assert_eq!(split.text(), "caf\u{e9} \u{fffd}");
        assert_eq!(Output::whole("all").text(), "all");
    }

    #[test]
    fn a_long_output_says_what_is_missing_and_splits_no_character() {
        let long = Output {
            head: b"caf\xC3".to_vec(),
            tail: b"\xA9 end".to_vec(),
            bytes: 100,
            ..Output::default()
        };
        assert_eq!(long.text(), "caf\n[... 91 bytes left out ...]\n end");
        let invalid =
            Output { head: b"a\xFF".to_vec(), tail: b"b".to_vec(), bytes: 9, ..Output::default() };
        assert_eq!(invalid.text(), "a\u{fffd}\n[... 6 bytes left out ...]\nb");
    }
}
