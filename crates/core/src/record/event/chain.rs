//! Chains: loops in sequence, also those that agents ask for.

use super::table::system_events;
use crate::record::{ChainOutcome, StopReason, Text};
use crate::wire_enum::Word;

system_events! {
    /// A chain of loops begins.
    ChainStart = "chain.start" {
        /// Which chain.
        name: String,
        /// Its steps, separated by commas.
        steps: String,
        /// How many.
        step_count: u64,
        /// What all of them are for, if that was said.
        objective: Option<String>,
        /// The run that asked for it, where one did.
        parent_id: Option<String>,
    }

    /// A chain that was cut off or ended is taken up again.
    ChainResume = "chain.resume" {
        /// The step that is done next.
        resumed_from_step: u64,
        /// How it had ended; empty when it was cut off.
        previous_outcome: Word<ChainOutcome>,
        /// How long that step had been at work when it was cut off, as far as its run was heard of.
        elapsed_ms: Option<u64>,
    }

    /// One step of a chain begins.
    ChainStepStart = "chain.step.start" {
        /// Which step.
        step: u64,
        /// The loop that it runs.
        preset: String,
        /// Where that loop is described.
        preset_dir: String,
        /// Where it works.
        work_dir: String,
        /// The run that it is.
        run_id: Option<String>,
    }

    /// One step of a chain ended.
    ChainStepFinish = "chain.step.finish" {
        /// Which step.
        step: u64,
        /// The loop that it ran.
        preset: String,
        /// How it ended.
        stop_reason: Word<StopReason>,
        /// How long its harness was at it.
        elapsed_ms: Option<u64>,
        /// Why it could not begin, or why its agent failed.
        detail: Option<String>,
        /// The files that changed meanwhile, one a line, where that is known.
        files: Option<String>,
    }

    /// A chain ended.
    ChainComplete = "chain.complete" {
        /// Which chain.
        name: String,
        /// How many steps were done.
        steps_completed: u64,
        /// How it ended.
        outcome: Word<ChainOutcome>,
    }

    /// A chain that an agent asked for is granted, in the run that asked.
    #[derive(serde::Serialize, serde::Deserialize)]
    ChainSpawned = "chain.spawn" {
        /// Which chain.
        chain_id: String,
        /// The run that asked.
        parent_id: String,
        /// Its steps as they were asked for, separated by commas.
        steps: String,
        /// Why it was asked for.
        justification: String,
    }

    /// A chain that an agent asked for ended, and its run can go on.
    ChainSpawnFinish<'a> = "chain.spawn.finish" {
        /// Which chain.
        chain_id: String,
        /// How it ended.
        outcome: Word<ChainOutcome>,
        /// How many steps were done.
        steps_completed: u64,
        /// What its steps left.
        output: Text<'a>,
    }

    /// A chain was asked for that cannot be.
    ChainInvalid = "chain.invalid" {
        /// The event that asked for it.
        trigger_topic: String,
        /// Why not, in a word.
        reason: String,
        /// The limit that it would go beyond, where that is why.
        limit: Option<u64>,
        /// Why not, as the agent is told.
        detail: String,
    }
}
