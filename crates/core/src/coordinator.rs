//! What all coordinators have in common.

use std::fmt;

/// A coordinator: what decides the steps of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Iterations of one loop.
    Loop,
    /// Loops in sequence.
    Chain,
    /// Slots that work on a queue.
    Slots,
}

/// What is known of a coordinator by its name.
struct Names {
    word: &'static str,
    dir: &'static str,
    topics: &'static [&'static str],
    command: &'static str,
}

impl Kind {
    /// Every coordinator.
    pub const ALL: [Kind; 3] = [Kind::Loop, Kind::Chain, Kind::Slots];

    const fn names(self) -> Names {
        match self {
            Kind::Loop => {
                Names { word: "loop", dir: "runs", topics: &["loop"], command: "autoloop run" }
            }
            Kind::Chain => Names {
                word: "chain",
                dir: "chains",
                topics: &["chain"],
                command: "autoloop chain run",
            },
            Kind::Slots => Names {
                word: "slots",
                dir: "slots",
                topics: &["slot", "slots"],
                command: "autoloop slots",
            },
        }
    }

    /// The word for a run of this coordinator.
    pub fn word(self) -> &'static str {
        self.names().word
    }

    /// The name of the directory, below the state directory, that holds its runs.
    pub fn dir(self) -> &'static str {
        self.names().dir
    }

    /// The first words of the topics that begin, resume and end its runs.
    pub fn topics(self) -> &'static [&'static str] {
        self.names().topics
    }

    /// The command that begins its runs, and resumes them with `--resume`.
    pub fn command(self) -> &'static str {
        self.names().command
    }

    /// The command that resumes a run.
    pub fn resume_command(self, run: &str) -> String {
        format!("{} --resume={run}", self.command())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}
