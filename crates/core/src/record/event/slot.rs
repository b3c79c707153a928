//! Slots: items implemented, reviewed, fixed and merged back.

use super::wire::{ExitCode, system_events};
use crate::config::{Isolation, ItemSource};
use crate::merge::MergeOutcome;
use crate::record::{Changes, HeldBy, Phase, Picked, SlotOutcome, SlotsEnd, Text};
use crate::review::Verdict;
use crate::wire_enum::Word;

system_events! {
    SlotRunStart = "slot.run.start" {
        /// The maximum; 0 for no limit.
        iterations: u64,
        parallel_agents: u64,
        review: bool,
        max_fix_attempts: u64,
        source: Word<ItemSource>,
        isolation: Word<Isolation>,
        /// The text in an agent's output after which no further iteration begins.
        stop_marker: String,
        /// What the queue held when the run began: how many tasks the built-in queue had, or the time for
        /// other sources. Items beyond it are new.
        queue_mark: Option<String>,
    }

    /// The prompts that the run uses from here on, whatever their files say later.
    SlotRunPrompts = "slot.run.prompts" {
        developer_prompt: String,
        reviewer_prompt: Option<String>,
    }

    SlotRunResume = "slot.run.resume" {
        /// The last iteration that began.
        resumed_from_iteration: u64,
    }

    SlotStart = "slot.start" {
        /// Counted from 1.
        slot: u64,
        /// The item that the harness claimed; empty where the queue had none.
        item_id: String,
        title: String,
        /// The owner of the claim.
        actor: String,
        /// The commit that changes are compared with; empty outside of git.
        base: String,
        /// Empty in the shared worktree.
        branch: String,
        /// The working directory.
        tree: String,
    }

    SlotPhase = "slot.phase" {
        slot: u64,
        item_id: String,
        phase: Word<Phase>,
        /// The review, counted from 0, or the fix, counted from 1; 0 otherwise.
        attempt: u64,
    }

    SlotImplement<'a> = "slot.implement" {
        slot: u64,
        item_id: String,
        exit_code: ExitCode,
        timed_out: bool,
        elapsed_ms: u64,
        picked: Picked,
        /// Why the agent failed.
        reason: Option<String>,
        /// Written where the output contains the stop marker.
        stop_marker: Option<bool>,
        /// Since the slot began.
        changes: Option<Word<Changes>>,
        /// Shortened.
        output: Option<Text<'a>>,
    }

    SlotReview<'a> = "slot.review" {
        slot: u64,
        item_id: String,
        /// Counted from 0.
        attempt: u64,
        verdict: Word<Verdict>,
        follow_up_prompt: String,
        /// Why the reviewer gave no verdict.
        reason: String,
        elapsed_ms: u64,
        exit_code: Option<ExitCode>,
        enforcement: Option<Word<HeldBy>>,
        /// As the reviewer was told. A `pass` of an empty change set means that no change was needed.
        changes: Option<Word<Changes>>,
        /// The git tree object that was reviewed; nothing else is merged.
        tree: Option<String>,
        /// Shortened.
        output: Option<Text<'a>>,
    }

    SlotFix<'a> = "slot.fix" {
        slot: u64,
        item_id: String,
        /// Counted from 1.
        attempt: u64,
        exit_code: ExitCode,
        timed_out: bool,
        elapsed_ms: u64,
        /// Why the agent failed.
        reason: Option<String>,
        /// Written where the output contains the stop marker.
        stop_marker: Option<bool>,
        /// Shortened.
        output: Option<Text<'a>>,
    }

    SlotMerge = "slot.merge" {
        slot: u64,
        item_id: String,
        outcome: Word<MergeOutcome>,
        commit: String,
        /// The git tree object that was merged.
        tree: Option<String>,
        /// The conflicting files, separated by commas.
        files: String,
        detail: Option<String>,
    }

    SlotFinish = "slot.finish" {
        slot: u64,
        item_id: String,
        outcome: Word<SlotOutcome>,
        reason: String,
    }

    SlotsIterationFinish = "slots.iteration.finish" {
        passed: u64,
        /// An iteration with one of these has failed.
        failed: u64,
        /// As `t-1=passed,t-2=drift`.
        items: String,
    }

    SlotRunFinish = "slot.run.finish" {
        reason: Word<SlotsEnd>,
        taken: u64,
        passed: u64,
    }
}
