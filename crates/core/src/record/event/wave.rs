//! Waves: branches that start, end and are joined.
//!
//! Lists of roles, events, branches and files are separated by commas.

use super::wire::system_events;
use crate::merge::MergeOutcome;
use crate::record::{StopReason, Text};
use crate::wire_enum::Word;

system_events! {
    WaveStart = "wave.start" {
        wave_id: String,
        /// The event that requested the wave.
        trigger_topic: String,
        branch_count: u64,
        /// The event that routed the parent.
        opening_recent_event: String,
        opening_roles: String,
        opening_events: String,
        /// A list item per branch.
        objectives: String,
        /// The commit that branches begin at, where each has a worktree.
        base: Option<String>,
    }

    WaveBranchStart = "wave.branch.start" {
        wave_id: String,
        branch_id: String,
        objective: String,
        routing_event: String,
        branch_roles: String,
        branch_events: String,
    }

    WaveBranchFinish<'a> = "wave.branch.finish" {
        wave_id: String,
        branch_id: String,
        stop_reason: Word<StopReason>,
        elapsed_ms: Option<u64>,
        /// The git tree object of the branch's worktree; nothing else is merged.
        tree: Option<String>,
        output: Text<'a>,
        /// Why its agent failed.
        detail: Option<String>,
    }

    /// The work in the worktree of a branch was merged back, or was not.
    WaveBranchMerge = "wave.branch.merge" {
        wave_id: String,
        branch_id: String,
        outcome: Word<MergeOutcome>,
        /// The git branch that has its commits, as long as it exists.
        branch: String,
        /// The commit from which they are reachable, or the last of them.
        commit: String,
        /// The git tree object that was merged, or that is on the branch.
        tree: Option<String>,
        /// The conflicting files.
        files: String,
        detail: Option<String>,
    }

    WaveJoinStart = "wave.join.start" {
        wave_id: String,
        trigger_topic: String,
        branch_count: u64,
        /// The time of the slowest branch.
        elapsed_ms: Option<u64>,
        /// As `branch-1:max_iterations,branch-2:backend_failed`.
        branch_outcomes: String,
    }

    WaveJoinFinish = "wave.join.finish" {
        wave_id: String,
        trigger_topic: String,
        /// The event that the harness emits for the join.
        joined_topic: String,
        /// `opening_context` or `joined_event`.
        routing_basis: String,
        /// The event that routes the parent.
        resume_recent_event: String,
        resume_roles: String,
        resume_events: String,
        /// The time of the join itself.
        elapsed_ms: u64,
    }

    WaveTimeout = "wave.timeout" {
        wave_id: String,
        timed_out_branches: String,
    }

    WaveFailed = "wave.failed" {
        wave_id: String,
        failed_branches: String,
    }

    /// A requested wave was refused.
    WaveInvalid = "wave.invalid" {
        trigger_topic: String,
        reason: String,
        /// The open wave, if there is one.
        active_wave_id: String,
        opening_recent_event: String,
    }
}
