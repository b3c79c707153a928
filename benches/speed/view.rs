//! The cost of reading a big journal.

use std::fs;
use std::io;
use std::process::Command;
use std::time::Duration;

use crate::Fallible;
use crate::bench::{Bench, Case, Project};
use crate::corpus::Corpus;
use crate::peak::peak_memory;
use crate::table::{Finding, Quantity, Reach};
use crate::timing::{Better, alternate, calm, process};

const MOST_MEMORY: u64 = 16_000_000;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "view-mixed",
        what: "inspect metrics, 1 GB of whole iterations",
        against: "wc -l",
        reach: Reach::AtMost(3.0),
        measure: |bench| without_sidecar(bench, Corpus::Mixed),
    },
    Case {
        name: "view-small",
        what: "inspect metrics, 1 GB of short events",
        against: "wc -l",
        reach: Reach::Nothing,
        measure: |bench| without_sidecar(bench, Corpus::Small),
    },
    Case {
        name: "memory-mixed",
        what: "peak memory of it, whole iterations",
        against: "–",
        reach: Reach::Inside(MOST_MEMORY),
        measure: |bench| memory(bench, Corpus::Mixed),
    },
    Case {
        name: "memory-small",
        what: "peak memory of it, short events",
        against: "–",
        reach: Reach::Inside(MOST_MEMORY),
        measure: |bench| memory(bench, Corpus::Small),
    },
    Case {
        name: "sidecar-mixed",
        what: "inspect metrics with its sidecar, whole iterations",
        against: "–",
        reach: Reach::Within(Duration::from_millis(10)),
        measure: |bench| with_sidecar(bench, Corpus::Mixed),
    },
    Case {
        name: "sidecar-small",
        what: "inspect metrics with its sidecar, short events",
        against: "–",
        reach: Reach::Within(Duration::from_millis(10)),
        measure: |bench| with_sidecar(bench, Corpus::Small),
    },
];

fn inspect(project: &Project) -> Command {
    project.autoloop(&["inspect", "metrics"])
}

fn without_sidecar(bench: &Bench, corpus: Corpus) -> Fallible<Finding> {
    let project = bench.big(corpus)?;
    let mut inspect = inspect(project);
    let mut count = Command::new("wc");
    count.arg("-l").arg(project.journal());
    let ours = || {
        remove_sidecars(project)?;
        process(&mut inspect)
    };
    let [ours, theirs] = alternate(bench.rounds(), ours, || process(&mut count))?;
    Ok(Finding { ours: Quantity::Time(ours), theirs: Some(Quantity::Time(theirs)) })
}

fn memory(bench: &Bench, corpus: Corpus) -> Fallible<Finding> {
    let project = bench.big(corpus)?;
    remove_sidecars(project)?;
    let peak = peak_memory(&mut inspect(project))?;
    Ok(Finding { ours: Quantity::Bytes(peak), theirs: None })
}

fn with_sidecar(bench: &Bench, corpus: Corpus) -> Fallible<Finding> {
    let mut inspect = inspect(bench.big(corpus)?);
    // The first run writes the sidecar.
    process(&mut inspect)?;
    let mut times = Vec::new();
    for _ in 0..bench.starts() / 4 {
        times.push(process(&mut inspect)?.as_secs_f64());
    }
    let time = Duration::from_secs_f64(calm(times, Better::Less));
    Ok(Finding { ours: Quantity::Time(time), theirs: None })
}

fn remove_sidecars(project: &Project) -> Fallible<()> {
    match fs::remove_dir_all(project.sidecars()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
