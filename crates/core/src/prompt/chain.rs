//! What agents are told about the chains that they may ask for.

use std::fmt::Write;

use crate::run::Returned;
use crate::text::{fenced, one_line};

/// How to request a chain.
pub fn offer(bin: &str, most: u64) -> String {
    format!(
        "A part of the work that is a loop of its own can be handed to a chain: loops that run one after another in this tree while this run waits. \
         Every step costs as much as a run, so ask only for what this run cannot do itself. This run may start {most} more.\n\
         - `{bin} emit chain.spawn \"steps=autofix,autotest; justification=what is to be done, and why by a chain;\"`\n\
         A step is a preset (`{bin} presets` lists them), a chain of chains.toml, or a directory of the project that holds a loop. \
         The justification is the objective of all steps. The chain begins when your turn has ended; the next turn is told what it left.\n"
    )
}

/// The outcomes and outputs of the chains that have ended.
pub fn left(chains: &[Returned], budget: usize) -> String {
    let share = budget / chains.len().max(1);
    chains.iter().fold(String::new(), |mut out, Returned { chain, outcome, output }| {
        let _ = writeln!(out, "Chain {} ended: {}", one_line(chain), one_line(outcome.as_str()));
        out.push_str(&fenced(&output.shortened(share).to_string()));
        out
    })
}
