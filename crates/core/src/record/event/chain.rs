//! Chains: loops in sequence, also those that agents request.

use super::wire::system_events;
use crate::record::{ChainOutcome, StopReason, Text};
use crate::wire_enum::Word;

system_events! {
    ChainStart = "chain.start" {
        name: String,
        /// Presets, separated by commas.
        steps: String,
        step_count: u64,
        objective: Option<String>,
        /// The run that requested the chain.
        parent_id: Option<String>,
    }

    ChainResume = "chain.resume" {
        resumed_from_step: u64,
        /// Empty where the chain had not ended.
        previous_outcome: Word<ChainOutcome>,
        /// How long that step had run when it was interrupted, by the last record of its run.
        elapsed_ms: Option<u64>,
    }

    ChainStepStart = "chain.step.start" {
        step: u64,
        preset: String,
        preset_dir: String,
        work_dir: String,
        run_id: Option<String>,
    }

    ChainStepFinish = "chain.step.finish" {
        step: u64,
        preset: String,
        stop_reason: Word<StopReason>,
        elapsed_ms: Option<u64>,
        /// Why the step could not begin, or why its agent failed.
        detail: Option<String>,
        /// The changed files, one per line, where they are known.
        files: Option<String>,
    }

    ChainComplete = "chain.complete" {
        name: String,
        steps_completed: u64,
        outcome: Word<ChainOutcome>,
    }

    /// The harness granted a chain that an agent requested; a record of the run that requested it.
    #[derive(serde::Serialize, serde::Deserialize)]
    ChainSpawned = "chain.spawn" {
        chain_id: String,
        parent_id: String,
        /// As requested, separated by commas.
        steps: String,
        justification: String,
    }

    /// A granted chain ended, and the run that requested it continues.
    ChainSpawnFinish<'a> = "chain.spawn.finish" {
        chain_id: String,
        outcome: Word<ChainOutcome>,
        steps_completed: u64,
        /// The reports of its steps.
        output: Text<'a>,
    }

    /// A requested chain was refused.
    ChainInvalid = "chain.invalid" {
        trigger_topic: String,
        /// One word.
        reason: String,
        /// The limit that the chain would exceed.
        limit: Option<u64>,
        /// The reason as the agent reads it.
        detail: String,
    }
}
