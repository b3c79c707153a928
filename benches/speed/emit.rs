//! The cost of one event for an agent.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use autoloop_core::env::Env;
use autoloop_core::record::{LoopStart, print};

use crate::Fallible;
use crate::bench::{Bench, Case, Project};
use crate::corpus::{self, Corpus};
use crate::table::{Finding, Quantity, Reach};
use crate::timing::{alternate, process};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "emit-synced",
        what: "emit, synced",
        against: "minimal C program: open, lock, append 300 bytes, sync",
        reach: Reach::AtMost(1.5),
        measure: synced,
    },
    Case {
        name: "emit-unsynced",
        what: "emit, journal.sync = \"never\"",
        against: "/bin/true",
        reach: Reach::AtMost(1.5),
        measure: unsynced,
    },
    Case {
        name: "emit-big",
        what: "emit, synced, on 1 GB",
        against: "the same on an empty journal",
        reach: Reach::AtMost(1.05),
        measure: big,
    },
    Case {
        name: "emit-big-lookup",
        what: "emit on 1 GB, the run looked up",
        against: "the same on an empty journal",
        reach: Reach::AtMost(1.05),
        measure: big_with_lookup,
    },
];

/// Makes a record of about 300 bytes.
const PAYLOAD: &str = "the parser takes escaped quotes now; summary=all 214 tests pass, two \
                       of them new; files=src/parse.rs,src/lex.rs; next=review the error texts again";

fn emit(project: &Project) -> Command {
    project.autoloop(&["emit", "review.ready", PAYLOAD])
}

fn compare(bench: &Bench, mut ours: Command, mut theirs: Command) -> Fallible<Finding> {
    let [ours, theirs] = alternate(bench.starts(), || process(&mut ours), || process(&mut theirs))?;
    Ok(Finding { ours: Quantity::Time(ours), theirs: Some(Quantity::Time(theirs)) })
}

fn synced(bench: &Bench) -> Fallible<Finding> {
    let project = bench.project("synced")?;
    let mut floor = Command::new(floor(bench.place.path())?);
    // The same variables, because passing them costs time too.
    floor.arg(project.dir().join("floor.jsonl")).envs(project.env().vars());
    compare(bench, emit(&project), floor)
}

fn unsynced(bench: &Bench) -> Fallible<Finding> {
    let project = bench.project("unsynced")?;
    fs::write(project.dir().join("autoloops.toml"), "[journal]\nsync = \"never\"\n")?;
    let mut nothing = Command::new("/bin/true");
    nothing.envs(project.env().vars());
    compare(bench, emit(&project), nothing)
}

fn big(bench: &Bench) -> Fallible<Finding> {
    let big = bench.big(Corpus::Mixed)?;
    let empty = bench.project("empty")?;
    compare(bench, emit(big), emit(&empty))
}

/// Both journals have one `loop.start`, at the very beginning. The first call reads back to it, and
/// does not count.
fn big_with_lookup(bench: &Bench) -> Fallible<Finding> {
    let big = bench.big(Corpus::Small)?;
    let empty = bench.project("empty-lookup")?;
    let mut line = Vec::new();
    print(&LoopStart::default().record(&corpus::heading(0)), &mut line);
    fs::write(empty.journal(), line)?;
    let without_run = |project: &Project| {
        let mut command = emit(project);
        command.envs(Env { run_id: None, ..project.env() }.vars());
        command
    };
    compare(bench, without_run(big), without_run(&empty))
}

/// Compiles the minimal program.
fn floor(place: &Path) -> Fallible<PathBuf> {
    let program = place.join("floor");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/speed/floor.c");
    let is_compiled = |link: &[&str]| {
        let mut compiler = Command::new("cc");
        compiler.arg("-O2").args(link).arg(&source).arg("-o").arg(&program);
        compiler.status().is_ok_and(|status| status.success())
    };
    if is_compiled(&["-static"]) || is_compiled(&[]) {
        Ok(program)
    } else {
        Err("there is no C compiler `cc`".into())
    }
}
