//! What agents and people are told about waves.

use std::fmt::Write;

use crate::excerpt::{fenced, one_line};
use crate::record::{WaveBranchFinish, WaveBranchStart, WaveStart};
use crate::wave::{Branch, Wave};

/// How a wave is asked for, for the prompt of a run that may.
pub fn offer(bin: &str, most: u64) -> String {
    format!(
        "Objectives that do not depend on each other can be worked on at once, each by a branch: a turn of its own in this same tree. \
         At most {most}. You go on when all of them have ended, with what each of them found.\n\
         - `{bin} emit explore.parallel \"$(printf -- '- first question\\n- second question')\"` to look into several things and come back here\n\
         - `{bin} emit <allowed event>.parallel \"$(printf -- '- first part\\n- second part')\"` to hand that event over once for each part\n\
         The list has one bullet (or number) a line, each another. A branch must not depend on another, nor edit the same files.\n"
    )
}

/// What the branches of the last wave found.
pub fn results(wave: &Wave, budget: usize) -> String {
    let mut out = format!(
        "Wave {} ({}): all {} branches have ended.\n",
        wave.id,
        wave.trigger,
        wave.branches.len()
    );
    let share = budget / wave.branches.len().max(1);
    for (place, Branch { objective, outcome, .. }) in wave.branches.iter().enumerate() {
        let Some(outcome) = outcome else { continue };
        let _ = writeln!(
            out,
            "\nbranch-{}: {} -> {}",
            place + 1,
            one_line(objective),
            outcome.stop_reason
        );
        out.push_str(&fenced(&outcome.output.shortened(share).to_string()));
    }
    out
}

/// `spec.md`: what a wave is to do.
pub fn spec_page(start: &WaveStart) -> String {
    format!(
        "# Wave {}\n\nAsked for by `{}`, after `{}`.\n\n{}",
        start.wave_id, start.trigger_topic, start.opening_recent_event, start.objectives
    )
}

/// `result.md`: what came of a branch.
pub fn result_page(start: &WaveBranchStart, finish: &WaveBranchFinish) -> String {
    format!(
        "# {} of {}\n\nObjective: {}\n\nIt ended with `{}`, after {} ms.\n\n{}",
        start.branch_id,
        start.wave_id,
        one_line(&start.objective),
        finish.stop_reason,
        finish.elapsed_ms.unwrap_or_default(),
        fenced(&finish.output)
    )
}

/// `join.md`: what came of all of them.
pub fn join_page(wave: &Wave) -> String {
    format!("# Wave {}\n\n{}", wave.id, results(wave, usize::MAX))
}
