//! The cost of starting the program when it has almost nothing to do.

use std::process::Command;

use crate::Fallible;
use crate::bench::{Bench, Case};
use crate::table::{Finding, Quantity, Reach};
use crate::timing::{alternate, process};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "start-version",
        what: "--version",
        against: "/bin/true",
        reach: Reach::AtMost(3.0),
        measure: |bench| start(bench, &["--version"]),
    },
    Case {
        name: "start-help",
        what: "emit --help",
        against: "/bin/true",
        reach: Reach::AtMost(3.0),
        measure: |bench| start(bench, &["emit", "--help"]),
    },
];

fn start(bench: &Bench, arguments: &[&str]) -> Fallible<Finding> {
    let project = bench.project("start")?;
    let mut ours = project.autoloop(arguments);
    let mut nothing = Command::new("/bin/true");
    nothing.envs(project.env().vars());
    let [ours, theirs] =
        alternate(bench.starts(), || process(&mut ours), || process(&mut nothing))?;
    Ok(Finding { ours: Quantity::Time(ours), theirs: Some(Quantity::Time(theirs)) })
}
