//! What the harness adds to an agent that does nothing at all.

use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Fallible;
use crate::bench::{Bench, Case};
use crate::options::Effort;
use crate::peak::peak_now;
use crate::table::{Finding, Quantity, Reach};
use crate::timing::{Better, alternate, calm, process, process_ending_with};

const NO_OP: &str = "/bin/true";
/// A run that comes to the end of its iterations is not a completed one.
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
        let watched = watch(&mut project.run(length))?;
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
    let watched = watch(&mut project.run(length))?;
    Ok(Finding { ours: Quantity::Bytes(watched.peak), theirs: None })
}

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

    /// Not by way of an agent's environment: this is a person who starts a loop.
    fn run(&self, iterations: u64) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_autoloop"));
        command
            .args(["run", ".", "--set", "review.enabled=false", "-i"])
            .args([&iterations.to_string(), "do nothing"])
            .current_dir(&self.dir);
        command
    }
}

/// When the iterations of a run began, and what the harness needed at the last of them.
struct Watched {
    begins: Vec<Instant>,
    peak: u64,
}

impl Watched {
    /// What iterations cost in seconds, each from its beginning to that of the next one.
    fn costs(&self, iterations: RangeInclusive<u64>) -> impl Iterator<Item = f64> {
        let skipped = usize::try_from(iterations.start() - 1).unwrap_or(usize::MAX);
        let pairs = self.begins.windows(2).skip(skipped).zip(iterations);
        pairs.map(|(pair, _)| pair[1].duration_since(pair[0]).as_secs_f64())
    }
}

/// Follows a run by what it tells about itself.
fn watch(command: &mut Command) -> Fallible<Watched> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let watched = listen(&mut child);
    let status = child.wait()?;
    match status.code() {
        Some(STOPPED) => watched,
        _ => Err(format!("the run ended with {status}").into()),
    }
}

fn listen(child: &mut Child) -> Fallible<Watched> {
    let told = child.stderr.take().ok_or("nothing can be heard of the run")?;
    let mut watched = Watched { begins: Vec::new(), peak: 0 };
    for line in BufReader::new(told).lines() {
        let line = line?;
        let Some(number) = line.strip_prefix("iteration ") else { continue };
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
