//! What the harness adds to an agent that does nothing.

use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Fallible;
use crate::bench::{Bench, Case};
use crate::corpus::{self, Corpus};
use crate::options::Effort;
use crate::peak::peak_now;
use crate::table::{Finding, Quantity, Reach};
use crate::timing::{Better, alternate, calm, process, process_ending_with};

const NO_OP: &str = "/bin/true";
/// A run that uses all its iterations is stopped, not completed.
const STOPPED: i32 = 1;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "loop-iteration",
        what: "one iteration, synced, no-op agent",
        against: "sh: the no-op, append a line, sync -d",
        reach: Reach::AtMost(3.0),
        measure: |bench| iteration(bench, &["$no_op", LINE]),
    },
    Case {
        name: "loop-two-syncs",
        what: "the same",
        against: "sh: append, sync -d, the no-op, append, sync -d",
        reach: Reach::Nothing,
        measure: |bench| iteration(bench, &[LINE, "$no_op", LINE]),
    },
    Case {
        name: "loop-late",
        what: "iterations 1980 to 1999",
        against: "iterations 11 to 30 of the same runs",
        reach: Reach::AtMost(1.1),
        measure: late,
    },
    Case {
        name: "loop-memory",
        what: "peak memory of the harness, 2000 iterations",
        against: "–",
        reach: Reach::Inside(20_000_000),
        measure: memory,
    },
    Case {
        name: "chain-late",
        what: "a step of a chain, behind a big journal",
        against: "the same step in a new journal",
        reach: Reach::AtMost(1.1),
        measure: late_steps,
    },
];

/// How many iterations one sample is.
const BLOCK: u32 = 100;
/// Appends a line and waits until it is on the disk. A shell can sync only by starting a program.
const LINE: &str = "echo a line of the journal >> log; sync -d log";

fn iteration(bench: &Bench, steps: &[&str]) -> Fallible<Finding> {
    let project = Loop::new(bench, "loop-iteration")?;
    let mut ours = project.run(u64::from(BLOCK));
    ours.stderr(Stdio::null());
    let mut floor = Command::new("sh");
    let body = steps.join("; ");
    let script = format!(
        "set -e; no_op={NO_OP}; i=0; while [ $i -lt {BLOCK} ]; do {body}; i=$((i+1)); done"
    );
    floor.args(["-c", &script]).current_dir(project.dir());
    let blocks = match bench.effort {
        Effort::Full => 40,
        Effort::Quick => 2,
    };
    let [ours, theirs] = alternate(
        blocks,
        || Ok(process_ending_with(STOPPED, &mut ours)? / BLOCK),
        || Ok(process(&mut floor)? / BLOCK),
    )?;
    Ok(Finding { ours: Quantity::Time(ours), theirs: Some(Quantity::Time(theirs)) })
}

fn late(bench: &Bench) -> Fallible<Finding> {
    let project = Loop::new(bench, "loop-late")?;
    let (runs, length) = match bench.effort {
        Effort::Full => (8, 2_000),
        Effort::Quick => (1, 60),
    };
    let (mut early, mut late) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let watched = watch(&mut project.run(length), STOPPED)?;
        early.extend(watched.costs(11..=30));
        late.extend(watched.costs(length - 20..=length - 1));
    }
    let time = |costs| Quantity::Time(Duration::from_secs_f64(calm(costs, Better::Less)));
    Ok(Finding { ours: time(late), theirs: Some(time(early)) })
}

fn memory(bench: &Bench) -> Fallible<Finding> {
    let project = Loop::new(bench, "loop-memory")?;
    let length = match bench.effort {
        Effort::Full => 2_000,
        Effort::Quick => 60,
    };
    let watched = watch(&mut project.run(length), STOPPED)?;
    Ok(Finding { ours: Quantity::Bytes(watched.peak), theirs: None })
}

/// Steps of a chain behind all the records that other runs have left, against steps without them. The first two
/// steps are left out: they fold the journal once.
fn late_steps(bench: &Bench) -> Fallible<Finding> {
    let (rounds, bytes) = match bench.effort {
        Effort::Full => (10, 200_000_000),
        Effort::Quick => (1, 4_000_000),
    };
    let behind = Loop::new(bench, "chain-behind")?;
    corpus::write(Corpus::Mixed, &behind.dir.join(".autoloop/journal.jsonl"), bytes)?;
    let alone = Loop::new(bench, "chain-alone")?;
    let steps = |project: &Loop| -> Fallible<Vec<f64>> {
        let watched = watch(&mut project.chain(CHAIN), 0)?;
        let pairs = watched.begins.windows(2).skip(2);
        Ok(pairs.map(|pair| pair[1].duration_since(pair[0]).as_secs_f64()).collect())
    };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        ours.extend(steps(&behind)?);
        theirs.extend(steps(&alone)?);
    }
    let time = |costs| Quantity::Time(Duration::from_secs_f64(calm(costs, Better::Less)));
    Ok(Finding { ours: time(ours), theirs: Some(time(theirs)) })
}

/// How many steps a measured chain has, each of one iteration.
const CHAIN: usize = 12;

/// A project whose agent does nothing.
struct Loop {
    dir: PathBuf,
}

impl Loop {
    fn new(bench: &Bench, name: &str) -> Fallible<Loop> {
        let dir = bench.project(name)?.dir().to_owned();
        let settings = format!("[backend]\nkind = \"command\"\ncommand = \"{NO_OP}\"\n");
        fs::write(dir.join("autoloops.toml"), settings)?;
        Ok(Loop { dir })
    }

    fn dir(&self) -> &Path {
        &self.dir
    }

    /// Without an agent's environment: a user starts the loop.
    fn run(&self, iterations: u64) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_autoloop"));
        command
            .args(["run", ".", "--set", "review.enabled=false", "-i"])
            .args([&iterations.to_string(), "do nothing"])
            .current_dir(&self.dir);
        command
    }

    /// A chain of this loop, of one iteration a step.
    fn chain(&self, steps: usize) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_autoloop"));
        command
            .args(["run", "--chain", &vec!["."; steps].join(","), ".", "do nothing"])
            .args(["--set", "review.enabled=false", "-i", "1"])
            .current_dir(&self.dir);
        command
    }
}

/// When the iterations of a run started, and the memory of the harness at the last of them.
struct Watched {
    begins: Vec<Instant>,
    peak: u64,
}

impl Watched {
    /// The cost of iterations in seconds, each from its start to that of the next one.
    fn costs(&self, iterations: RangeInclusive<u64>) -> impl Iterator<Item = f64> {
        let skipped = usize::try_from(iterations.start() - 1).unwrap_or(usize::MAX);
        let pairs = self.begins.windows(2).skip(skipped).zip(iterations);
        pairs.map(|(pair, _)| pair[1].duration_since(pair[0]).as_secs_f64())
    }
}

/// Follows a run by its progress lines.
fn watch(command: &mut Command, code: i32) -> Fallible<Watched> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let watched = listen(&mut child);
    let status = child.wait()?;
    match status.code() {
        Some(ended) if ended == code => watched,
        _ => Err(format!("the run ended with {status}").into()),
    }
}

fn listen(child: &mut Child) -> Fallible<Watched> {
    let told = child.stderr.take().ok_or("nothing can be heard of the run")?;
    let mut watched = Watched { begins: Vec::new(), peak: 0 };
    for line in BufReader::new(told).lines() {
        let line = line?;
        let Some((_, number)) = line.split_once("] iteration ") else { continue };
        watched.begins.push(Instant::now());
        let (number, of) = number
            .split_once(' ')
            .and_then(|(number, _)| number.split_once('/'))
            .unwrap_or_default();
        if number == of {
            watched.peak = peak_now(child.id())?;
        }
    }
    Ok(watched)
}
