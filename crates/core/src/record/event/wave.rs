//! Waves: branches begun, ended and joined.

use super::table::system_events;
use crate::merge::MergeOutcome;
use crate::record::{StopReason, Text};
use crate::wire_enum::Word;

system_events! {
    /// A wave of parallel branches begins.
    WaveStart = "wave.start" {
        /// Which wave.
        wave_id: String,
        /// The event that asked for it.
        trigger_topic: String,
        /// How many branches.
        branch_count: u64,
        /// The event that routed the parent.
        opening_recent_event: String,
        /// The parent's roles, separated by commas.
        opening_roles: String,
        /// The parent's events, separated by commas.
        opening_events: String,
        /// What the branches are to do.
        objectives: String,
        /// The commit that branches begin at, where each has a working tree of its own.
        base: Option<String>,
    }

    /// One branch begins.
    WaveBranchStart = "wave.branch.start" {
        /// Which wave.
        wave_id: String,
        /// Which branch.
        branch_id: String,
        /// What it is to do.
        objective: String,
        /// The event that routes it.
        routing_event: String,
        /// Its roles, separated by commas.
        branch_roles: String,
        /// Its events, separated by commas.
        branch_events: String,
    }

    /// One branch ended.
    WaveBranchFinish<'a> = "wave.branch.finish" {
        /// Which wave.
        wave_id: String,
        /// Which branch.
        branch_id: String,
        /// How it ended.
        stop_reason: Word<StopReason>,
        /// How long it took.
        elapsed_ms: Option<u64>,
        /// The git tree object that it left in a working tree of its own; nothing else is merged.
        tree: Option<String>,
        /// What it printed.
        output: Text<'a>,
        /// Why its agent failed, where it did.
        detail: Option<String>,
    }

    /// The work of a branch that had a working tree of its own was brought back, or was not.
    WaveBranchMerge = "wave.branch.merge" {
        /// Which wave.
        wave_id: String,
        /// Which branch.
        branch_id: String,
        /// What became of it.
        outcome: Word<MergeOutcome>,
        /// The git branch that has its commits, as long as it is there.
        branch: String,
        /// The commit from which they are reachable, or the last of them.
        commit: String,
        /// The git tree object that was merged, or that is on the branch.
        tree: Option<String>,
        /// The files that were in the way, separated by commas.
        files: String,
        /// More about why not.
        detail: Option<String>,
    }

    /// All branches ended; their outcomes are being put together.
    WaveJoinStart = "wave.join.start" {
        /// Which wave.
        wave_id: String,
        /// The event that asked for it.
        trigger_topic: String,
        /// How many branches.
        branch_count: u64,
        /// How long the slowest took.
        elapsed_ms: Option<u64>,
        /// How each ended.
        branch_outcomes: String,
    }

    /// The parent can go on.
    WaveJoinFinish = "wave.join.finish" {
        /// Which wave.
        wave_id: String,
        /// The event that asked for it.
        trigger_topic: String,
        /// The event that the harness emits for it.
        joined_topic: String,
        /// What the parent is routed by.
        routing_basis: String,
        /// The event that routes the parent.
        resume_recent_event: String,
        /// The parent's roles, separated by commas.
        resume_roles: String,
        /// The parent's events, separated by commas.
        resume_events: String,
        /// How long the join took.
        elapsed_ms: u64,
    }

    /// Branches took too long.
    WaveTimeout = "wave.timeout" {
        /// Which wave.
        wave_id: String,
        /// Which branches.
        timed_out_branches: String,
    }

    /// Branches failed.
    WaveFailed = "wave.failed" {
        /// Which wave.
        wave_id: String,
        /// Which branches.
        failed_branches: String,
    }

    /// A wave was asked for in a way that cannot be.
    WaveInvalid = "wave.invalid" {
        /// The event that asked for it.
        trigger_topic: String,
        /// Why not.
        reason: String,
        /// The wave that is under way, if one is.
        active_wave_id: String,
        /// The event that routed the parent.
        opening_recent_event: String,
    }
}
