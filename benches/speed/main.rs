//! The speed of the journal and the loop, each figure against the minimum on the same machine.
//!
//! `cargo bench` measures everything and prints one table; `cargo bench -- NAME` only the rows
//! whose name contains `NAME`. It shows figures and is not a test: it succeeds even when a figure
//! is missed. `docs/performance.md` explains the rows.

mod bench;
mod corpus;
mod emit;
mod iterations;
mod machine;
mod mail;
mod mcp;
mod options;
mod peak;
mod place;
mod prose;
mod slots;
mod starts;
mod table;
mod timing;
mod view;
mod waves;
mod writers;

use std::error::Error;
use std::io::{self, Write};

use bench::{Bench, Case};
use options::{Options, Wish};

type Fallible<T> = Result<T, Box<dyn Error>>;

fn main() -> Fallible<()> {
    match Wish::parse(std::env::args().skip(1))? {
        Wish::Measure(options) => measure(&options),
        Wish::List => list(),
        Wish::Write(writer) => writers::write(&writer),
        Wish::Nothing(why) => Ok(writeln!(io::stderr(), "{why}")?),
    }
}

/// Every row, in the order of the table.
fn cases() -> impl Iterator<Item = &'static Case> {
    let journal = emit::CASES.iter().chain(writers::CASES).chain(view::CASES);
    let loops = iterations::CASES.iter().chain(waves::CASES).chain(slots::CASES);
    journal.chain(loops).chain(mail::CASES).chain(mcp::CASES).chain(starts::CASES)
}

fn list() -> Fallible<()> {
    for case in cases() {
        writeln!(io::stdout(), "{:16} {}", case.name, case.what)?;
    }
    Ok(())
}

fn measure(options: &Options) -> Fallible<()> {
    let chosen: Vec<_> = cases().filter(|case| options.wants(case.name)).collect();
    if chosen.is_empty() {
        return Ok(writeln!(io::stderr(), "no row has such a name; `--list` shows them all")?);
    }
    let bench = Bench::new(options)?;
    let mut rows = Vec::new();
    for case in chosen {
        writeln!(io::stderr(), "measuring {} …", case.name)?;
        rows.push(table::Row { case, finding: (case.measure)(&bench) });
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{}", machine::facts(bench.place.path()))?;
    writeln!(out, "{}", table::render(&rows))?;
    Ok(())
}
