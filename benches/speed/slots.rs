//! What a slot adds to agents that do nothing: an implementer and a reviewer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Fallible;
use crate::bench::{Bench, Case};
use crate::options::Effort;
use crate::table::{Finding, Quantity, Reach};
use crate::timing::{alternate, process};

/// Implements nothing.
const NO_OP: &str = "/bin/true";
/// A verdict that passes.
const VERDICT: &str = r#"{"verdict": "pass", "followUpPrompt": ""}"#;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "slot",
        what: "one slot, review included, no-op agents",
        against: "sh: append, sync -d, an agent, twice; append, sync -d",
        reach: Reach::AtMost(2.0),
        measure: |bench| {
            let steps = [LINE, "$no_op", LINE, "/bin/echo $verdict", LINE];
            slot(&Queue::new(bench)?, bench.effort, &steps)
        },
    },
    Case {
        name: "slot-bare",
        what: "the same",
        against: "sh: the two agents and nothing else",
        reach: Reach::Nothing,
        measure: |bench| slot(&Queue::new(bench)?, bench.effort, &["$no_op", "/bin/echo $verdict"]),
    },
    Case {
        name: "slot-git",
        what: "the same in a clean git repository of 40 files",
        against: "sh: the same as for slot, and git status before and after the first agent",
        reach: Reach::AtMost(2.0),
        measure: |bench| {
            let steps = [STATUS, LINE, "$no_op", LINE, STATUS, "/bin/echo $verdict", LINE];
            slot(&Queue::in_git(bench)?, bench.effort, &steps)
        },
    },
];

/// How many files the repository has.
const FILES: u32 = 40;
/// How many slots one sample is.
const BLOCK: u32 = 50;
/// Appends a line and waits until it is on the disk. A shell can sync only by starting a program.
const LINE: &str = "echo a line of the journal >> log; sync -d log";
/// Prints the commit that is checked out, and uncommitted changes.
const STATUS: &str = "git status --porcelain=v2 --branch --untracked-files=all";

fn slot(queue: &Queue, effort: Effort, steps: &[&str]) -> Fallible<Finding> {
    let body = steps.join("; ");
    let script = format!(
        "set -e; no_op={NO_OP}; verdict='{VERDICT}'; i=0; while [ $i -lt {BLOCK} ]; do {body}; i=$((i+1)); done"
    );
    let mut floor = Command::new("sh");
    floor.args(["-c", &script]).current_dir(&queue.dir).stdout(Stdio::null());
    let blocks = match effort {
        Effort::Full => 30,
        Effort::Quick => 2,
    };
    let [ours, theirs] = alternate(
        blocks,
        || Ok(process(&mut queue.work_off()?)? / BLOCK),
        || Ok(process(&mut floor)? / BLOCK),
    )?;
    Ok(Finding { ours: Quantity::Time(ours), theirs: Some(Quantity::Time(theirs)) })
}

/// A project with as many tasks as a sample has slots.
struct Queue {
    dir: PathBuf,
    /// The journal before any task is done.
    fresh: PathBuf,
}

impl Queue {
    fn new(bench: &Bench) -> Fallible<Queue> {
        let dir = bench.project("slot")?.dir().to_owned();
        if dir.ancestors().any(|above| above.join(".git").exists()) {
            return Err(
                format!(
                    "{} is inside a git repository, where `slot` cannot be measured; set AUTOLOOP_BENCH_DIR \
                     to a directory outside of one",
                    dir.display()
                )
                .into(),
            );
        }
        Queue::fill(dir)
    }

    /// In a repository with a few files.
    fn in_git(bench: &Bench) -> Fallible<Queue> {
        let dir = bench.project("slot-git")?.dir().to_owned();
        fs::write(dir.join(".gitignore"), ".autoloop/\nautoloops.toml\nfresh.jsonl\nlog\n")?;
        for number in 0..FILES {
            fs::write(dir.join(format!("file-{number}")), format!("file {number}\n"))?;
        }
        let who = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"];
        let commit = ["commit", "-q", "-m", "begin"];
        for words in [&["init", "-q"][..], &["add", "."], &[&who[..], &commit].concat()] {
            process(Command::new("git").args(words).current_dir(&dir))?;
        }
        Queue::fill(dir)
    }

    fn fill(dir: PathBuf) -> Fallible<Queue> {
        let reviewer =
            format!("command = \"/bin/echo\"\nargs = ['{VERDICT}']\nprompt_mode = \"stdin\"\n");
        let settings = format!("[backend]\ncommand = \"{NO_OP}\"\n[slots.reviewer]\n{reviewer}");
        fs::write(dir.join("autoloops.toml"), settings)?;
        for number in 0..BLOCK {
            let mut add = Command::new(env!("CARGO_BIN_EXE_autoloop"));
            add.args(["tasks", "add", &format!("task {number}")]).current_dir(&dir);
            process(add.stdout(Stdio::null()))?;
        }
        let fresh = dir.join("fresh.jsonl");
        fs::copy(journal(&dir), &fresh)?;
        Ok(Queue { dir, fresh })
    }

    /// The command that processes the queue, from the initial journal.
    fn work_off(&self) -> Fallible<Command> {
        fs::remove_dir_all(self.dir.join(".autoloop"))?;
        fs::create_dir(self.dir.join(".autoloop"))?;
        fs::copy(&self.fresh, journal(&self.dir))?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_autoloop"));
        command.args(["slots", "--review"]).current_dir(&self.dir);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command)
    }
}

fn journal(dir: &Path) -> PathBuf {
    dir.join(".autoloop/journal.jsonl")
}
