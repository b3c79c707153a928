//! The names of all files below the state directory. The runtime reads and writes them.

use std::fmt::Display;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use crate::coordinator::Kind;
use crate::run_id::RunId;

/// Declares directories, each with the names of the files in it.
macro_rules! directories {
    ($( $(#[$about:meta])* $dir:ident { $( $(#[$doc:meta])* $file:ident = $name:expr, )* } )*) => { $(
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $dir(PathBuf);

        impl $dir { $(
            $(#[$doc])*
            pub fn $file(&self) -> PathBuf {
                self.join($name)
            }
        )* }

        impl Deref for $dir {
            type Target = Path;

            fn deref(&self) -> &Path {
                &self.0
            }
        }

        impl AsRef<Path> for $dir {
            fn as_ref(&self) -> &Path {
                self
            }
        }
    )* };
}

directories! {
    StateDir {
        journal = StateDir::JOURNAL,
        memory = StateDir::MEMORY,
        tool = "autoloops",
        /// The tables that follow from the journal.
        store = "autoloop.db",
        /// The plan of a loop. A run that has one needs no objective.
        plan = "plan.md",
        /// Notes about started jobs that have not ended.
        shims = "shims",
        /// Files that a restore moved out of the way.
        put_aside = "put-aside",
    }
    RunDir {
        lock = "lock",
        flags = "flags",
        /// A copy of [`RunDir::flags`].
        request = "request",
        /// The unsealed records that the harness wrote.
        own_records = "own-records",
        memory = StateDir::MEMORY,
        /// The run's own copy of the files of a preset. A metareview may edit them without affecting
        /// other runs, and a resumed run uses them again.
        loop_copy = "loop",
        handoff = "handoff.md",
        /// The list of empty files that were created for a reviewer.
        placeholders = "placeholders",
        /// The name of the private directory of a review.
        scratch = "scratch",
        /// The name of the private directory with a checkout.
        checkout = "checkout",
    }
    WaveDir {}
}

impl StateDir {
    /// The default name in a project.
    pub const NAME: &str = ".autoloop";
    pub const JOURNAL: &str = "journal.jsonl";
    /// The name of a memory file, of a project and of a run.
    pub const MEMORY: &str = "memory.jsonl";

    pub fn new(path: impl Into<PathBuf>) -> Self {
        StateDir(path.into())
    }

    pub fn of_project(project: Option<&Path>) -> Self {
        StateDir(project.map_or_else(|| StateDir::NAME.into(), |dir| dir.join(StateDir::NAME)))
    }

    pub fn runs(&self, kind: Kind) -> PathBuf {
        self.join(kind.dir())
    }

    pub fn run(&self, kind: Kind, id: &RunId) -> RunDir {
        RunDir(self.runs(kind).join(id.as_str()))
    }

    pub fn wave(&self, id: &RunId) -> WaveDir {
        WaveDir(self.join(WAVES).join(id.as_str()))
    }
}

impl RunDir {
    /// The directory of a run that was found by listing.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        RunDir(path.into())
    }

    pub fn step(&self, number: u64) -> PathBuf {
        self.join(format!("step-{number}"))
    }

    pub fn slot(&self, iteration: u64, number: u64) -> RunDir {
        RunDir(self.join(slot_name(iteration, number)))
    }

    /// The directory of a loop of a squad.
    pub fn squad_loop(&self, id: &str) -> RunDir {
        RunDir(self.join(LOOPS).join(id))
    }

    /// The directory of a turn of a squad.
    pub fn squad_turn(&self, number: u64) -> RunDir {
        RunDir(self.join(turn_name(number)))
    }

    /// The directory of a check of a squad.
    pub fn squad_check(&self, number: u64) -> RunDir {
        RunDir(self.join(format!("check-{number}")))
    }

    pub fn prompt(&self, turn: &str) -> PathBuf {
        self.join(format!("{turn}.prompt.md"))
    }

    /// The socket of the harness for the agent of a turn.
    pub fn door(&self, turn: &str) -> PathBuf {
        self.join(format!("{turn}.door"))
    }

    /// What a client reads to keep its tools from changing files.
    pub fn policy(&self) -> PathBuf {
        self.join("read-only.toml")
    }

    pub fn stdout(&self, turn: &str) -> PathBuf {
        self.join(format!("{turn}.out"))
    }

    pub fn stderr(&self, turn: &str) -> PathBuf {
        self.join(format!("{turn}.err"))
    }
}

impl WaveDir {
    pub fn branch(&self, id: &str) -> RunDir {
        RunDir(self.join(BRANCHES).join(id))
    }
}

const WAVES: &str = "waves";
const BRANCHES: &str = "branches";
const LOOPS: &str = "loops";

fn slot_name(iteration: impl Display, number: u64) -> String {
    format!("{iteration}-{number}")
}

fn turn_name(number: u64) -> String {
    format!("turn-{number}")
}

/// The directory of a run, relative to the state directory; empty where `id` is no id.
pub(crate) fn run_path(kind: Kind, id: &str) -> String {
    let id = id.parse::<RunId>();
    id.map(|id| format!("{}/{id}", kind.dir())).unwrap_or_default()
}

pub(crate) fn slot_path(run: &str, iteration: &str, number: u64) -> String {
    match run_path(Kind::Slots, run) {
        run if run.is_empty() => run,
        run => format!("{run}/{}", slot_name(iteration, number)),
    }
}

pub(crate) fn squad_turn_path(run: &str, number: u64) -> String {
    match run_path(Kind::Squad, run) {
        run if run.is_empty() => run,
        run => format!("{run}/{}", turn_name(number)),
    }
}

pub(crate) fn branch_path(wave: &str, number: u64) -> String {
    let wave = wave.parse::<RunId>();
    wave.map(|wave| format!("{WAVES}/{wave}/{BRANCHES}/branch-{number}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_earlier_versions() {
        let state = StateDir::of_project(Some(Path::new("/p")));
        let id: RunId = "calm-heron".parse().unwrap();
        let run = state.run(Kind::Loop, &id);
        let slot = state.run(Kind::Slots, &id).slot(2, 1);
        let branch = state.wave(&id).branch("branch-3");
        for (path, name) in [
            (run.lock(), "runs/calm-heron/lock"),
            (run.stdout("iteration-1"), "runs/calm-heron/iteration-1.out"),
            (state.run(Kind::Chain, &id).step(1), "chains/calm-heron/step-1"),
            (slot.prompt("implement"), "slots/calm-heron/2-1/implement.prompt.md"),
            (branch.lock(), "waves/calm-heron/branches/branch-3/lock"),
            (state.journal(), "journal.jsonl"),
        ] {
            assert_eq!(path, Path::new("/p/.autoloop").join(name));
        }
        assert_eq!(state.join(run_path(Kind::Loop, "calm-heron")), *run);
        assert_eq!(state.join(slot_path("calm-heron", "2", 1)), *slot);
        assert_eq!(state.join(branch_path("calm-heron", 3)), *branch);
        assert_eq!(
            run_path(Kind::Loop, "../x") + &slot_path("..", "1", 1) + &branch_path("/", 1),
            ""
        );
    }
}
