//! The parts of prompts about chains that agents may request.

use std::fmt::Write;

use crate::run::Returned;
use crate::text::{fenced, one_line};

pub fn offer(bin: &str, most: u64) -> String {
    format!(
        "A chain runs several loops in sequence in this directory while this run waits. \
         Each step costs as much as a run, so request one only for work that this run cannot do itself. This run may start {most} more.\n\
         - `{bin} emit chain.spawn \"steps=autofix,autotest; justification=what to do, and why in a chain;\"`\n\
         A step is a preset (`{bin} presets` lists them), a chain of chains.toml, or a directory of the project that contains a loop. \
         The justification is the objective of all steps. The chain starts after your turn; the next prompt contains its results.\n"
    )
}

pub fn left(chains: &[Returned], budget: usize) -> String {
    let share = budget / chains.len().max(1);
    chains.iter().fold(String::new(), |mut out, Returned { chain, outcome, output }| {
        let _ = writeln!(out, "Chain {} ended: {}", one_line(chain), one_line(outcome.as_str()));
        out.push_str(&fenced(&output.shortened(share).to_string()));
        out
    })
}
