//! The texts about waves, for agents and people.

use std::fmt::Write;

use crate::config::Isolation;
use crate::merge::{Merge, MergeOutcome};
use crate::plan::ParallelPlan;
use crate::record::{WaveBranchFinish, WaveBranchStart, WaveStart};
use crate::text::{fenced, head, one_line};
use crate::wave::{Branch, Wave};

/// How many characters of the names of conflicting files are shown; the record has more.
const FILES_SHOWN: usize = 300;
/// How many characters of a reason are shown.
const DETAIL_SHOWN: usize = 500;

pub fn offer(bin: &str, parallel: &ParallelPlan) -> String {
    let most = parallel.max_branches;
    let (place, care) = match parallel.isolation {
        Isolation::Shared => {
            ("in this directory", "A branch must not depend on another or edit the same files.")
        }
        Isolation::Worktree => (
            "in its own git worktree, created from the last commit",
            "Commit what branches need first. A branch must not depend on another; its commits are merged when all have ended. \
             Commits that conflict stay on a git branch, and the next prompt names it.",
        ),
    };
    format!(
        "Independent objectives can be worked on in parallel, each by a branch: one turn {place}. \
         The maximum is {most} branches. The run continues when all have ended; the next prompt contains their results.\n\
         - `{bin} emit explore.parallel \"$(printf -- '- first question\\n- second question')\"` to examine several questions and return to this role\n\
         - `{bin} emit <allowed event>.parallel \"$(printf -- '- first part\\n- second part')\"` to hand over that event once for each part\n\
         The list has one bullet (or number) per line, without duplicates. {care}\n"
    )
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnTree {
    pub dir: String,
    pub branch: String,
}

pub fn own_tree(tree: &OwnTree) -> String {
    format!(
        "You work in {}, your own git worktree, on the branch {}. Change files only there, and stay on that branch. \
         You may commit, but need not. When all branches of the wave have ended, everything in the worktree except for ignored files \
         becomes one commit that is merged into the project.\n",
        one_line(&tree.dir),
        one_line(&tree.branch)
    )
}

fn outcome_sentence(merge: &Merge) -> String {
    let Merge { outcome, branch, commit, files, detail, .. } = merge;
    let files = one_line(head(files, FILES_SHOWN)).replace(',', ", ");
    let detail = one_line(head(detail, DETAIL_SHOWN));
    let why = match outcome {
        MergeOutcome::Nothing => return "It changed no file.".to_owned(),
        MergeOutcome::Merged => {
            return format!("Its work is merged ({}).", short(commit));
        }
        MergeOutcome::Conflict => format!("the checked-out commit changes {files} differently"),
        MergeOutcome::Uncommitted => {
            format!("the project has uncommitted changes in {files}")
        }
        MergeOutcome::Busy => format!("{detail} is in progress in the project"),
        MergeOutcome::Unfinished => format!("{detail} was left unfinished in its worktree"),
        MergeOutcome::Changed => "its files were changed after the branch had ended".to_owned(),
        MergeOutcome::InPlace => return "It is in the files of the project.".to_owned(),
        MergeOutcome::NotTried => format!("it ended with {detail}"),
        MergeOutcome::Failed => {
            format!("{}. Its worktree is kept", detail.trim_end_matches('.'))
        }
    };
    format!(
        "NOT merged: {why}. Its work is on the git branch {} (up to {}).",
        one_line(branch),
        short(commit)
    )
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

/// The payload of the event after a wave: its id, and how the work of its branches was merged.
pub fn joined_payload(wave: &Wave) -> String {
    let branch = |(place, merge): (usize, &Merge)| {
        let files = match merge.files.is_empty() {
            true => String::new(),
            false => format!(" in {}", one_line(head(&merge.files, FILES_SHOWN))),
        };
        let kept = match merge.outcome.is_settled() {
            true => String::new(),
            false => format!(" (kept on {})", one_line(&merge.branch)),
        };
        format!("branch-{} {}{files}{kept}", place + 1, merge.outcome)
    };
    let merges = wave.branches.iter().map(|branch| branch.merge.as_ref()).enumerate();
    let merges: Vec<String> =
        merges.filter_map(|(place, merge)| Some(branch((place, merge?)))).collect();
    match merges.is_empty() {
        true => wave.id.clone(),
        false => format!("{}: {}", wave.id, merges.join("; ")),
    }
}

pub fn results(wave: &Wave, budget: usize) -> String {
    let mut out = format!(
        "Wave {} ({}): all {} branches have ended.\n",
        wave.id,
        wave.trigger,
        wave.branches.len()
    );
    let share = budget / wave.branches.len().max(1);
    for (place, Branch { objective, outcome, merge, .. }) in wave.branches.iter().enumerate() {
        let Some(outcome) = outcome else { continue };
        let _ = writeln!(
            out,
            "\nbranch-{}: {} -> {}",
            place + 1,
            one_line(objective),
            outcome.stop_reason
        );
        if !outcome.detail.is_empty() {
            let _ = writeln!(out, "why: {}", one_line(&outcome.detail));
        }
        if let Some(merge) = merge {
            let _ = writeln!(out, "{}", outcome_sentence(merge));
        }
        out.push_str(&fenced(&outcome.output.shortened(share).to_string()));
    }
    out
}

/// `spec.md`: the objectives of a wave.
pub fn spec_page(start: &WaveStart) -> String {
    format!(
        "# Wave {}\n\nRequested by `{}`, after `{}`.\n\n{}",
        start.wave_id, start.trigger_topic, start.opening_recent_event, start.objectives
    )
}

/// `result.md`: the outcome of a branch.
pub fn result_page(start: &WaveBranchStart, finish: &WaveBranchFinish) -> String {
    format!(
        "# {} of {}\n\nObjective: {}\n\nIt ended with `{}`, after {} ms.{}\n\n{}",
        start.branch_id,
        start.wave_id,
        one_line(&start.objective),
        finish.stop_reason,
        finish.elapsed_ms.unwrap_or_default(),
        finish.detail.iter().map(|why| format!("\n\nWhy: {why}")).collect::<String>(),
        fenced(&finish.output.read())
    )
}

/// `join.md`: the outcomes of all branches.
pub fn join_page(wave: &Wave) -> String {
    format!("# Wave {}\n\n{}", wave.id, results(wave, usize::MAX))
}
