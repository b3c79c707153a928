//! A run of a loop and its iterations: started, reviewed, refused, ended.
//!
//! Lists of roles, events and files are separated by commas.

use super::wire::{ExitCode, Seconds, Tokens, system_events};
use crate::agents::{Answer, Dollars, ErrorClass, prices};
use crate::config::BackendKind;
use crate::record::{StopReason, Text, ViolationOutcome};
use crate::wire_enum::Word;

system_events! {
    #[derive(serde::Serialize, serde::Deserialize)]
    LoopStart = "loop.start" {
        max_iterations: u64,
        /// The text in an agent's output that completes the run.
        completion_promise: String,
        completion_event: String,
        /// How many iterations lie between two metareviews.
        review_every: u64,
        objective: String,
        /// Absent for the project's own loop.
        preset: Option<String>,
        /// Where the files of the preset are, unless the run has its own copy.
        preset_dir: Option<String>,
        /// The run that this one is a branch of.
        parent: Option<String>,
        /// The event that routes the first iteration of a branch.
        opening_event: Option<String>,
    }

    LoopResume = "loop.resume" {
        /// The last completed iteration.
        resumed_from_iteration: u64,
        /// Empty where the run had not ended.
        previous_stop_reason: Word<StopReason>,
    }

    /// The run reached its goal.
    LoopComplete = "loop.complete" {
        reason: Word<StopReason>,
    }

    /// The run ended without reaching its goal.
    LoopStop = "loop.stop" {
        reason: Word<StopReason>,
        /// With `max_iterations`, as the next two.
        completed_iterations: Option<u64>,
        stopped_before_iteration: Option<u64>,
        max_iterations: Option<u64>,
        /// With a failing backend, as the next two.
        iteration: Option<u64>,
        output_tail: Option<String>,
        detail: Option<String>,
    }

    IterationStart<'a> = "iteration.start" {
        /// The event that routes the iteration.
        recent_event: String,
        suggested_roles: String,
        /// What those roles may emit.
        allowed_events: String,
        /// What the prompt says about a refused event.
        backpressure: String,
        prompt: Text<'a>,
    }

    IterationFinish<'a> = "iteration.finish" {
        exit_code: ExitCode,
        timed_out: Option<bool>,
        elapsed_s: Option<Seconds>,
        output: Text<'a>,
        /// Written where the output contains the completion promise and is too long for a reader to look.
        promised: Option<bool>,
        /// Written where it failed because the harness was asked to stop.
        interrupted: Option<bool>,
        /// Why the agent failed.
        detail: Option<String>,
    }

    BackendStart = "backend.start" {
        backend_kind: Word<BackendKind>,
        command: String,
        prompt_mode: String,
        timeout_ms: u64,
        /// Why the prompt is not delivered in the configured mode.
        prompt_detour: Option<String>,
    }

    BackendFinish<'a> = "backend.finish" {
        exit_code: ExitCode,
        timed_out: bool,
        output: Text<'a>,
        /// Written where it failed because the harness was asked to stop.
        interrupted: Option<bool>,
        /// Why the agent failed.
        detail: Option<String>,
    }

    /// What a turn cost, where the client reports it.
    BackendUsage = "backend.usage" {
        input_tokens: Tokens,
        output_tokens: Tokens,
        cache_read_tokens: Tokens,
        cache_write_tokens: Tokens,
        total_tokens: Tokens,
        cost_usd: Option<Dollars>,
        /// Written where the cost is computed from a table of prices.
        estimated: Option<bool>,
        model: Option<String>,
        /// The roles of the iteration, or the phase of the slot.
        role: Option<String>,
        /// How often the model was asked.
        turns: Option<u64>,
        /// With which the client can resume the conversation.
        session_id: Option<String>,
    }

    /// A turn waits because its client is unavailable.
    BackendParked = "backend.parked" {
        client: String,
        class: Word<ErrorClass>,
        detail: String,
        wait_ms: u64,
        /// When the client is asked again.
        until: String,
    }

    /// A turn that waited begins again.
    BackendResumed = "backend.resumed" {
        client: String,
        /// Since the turn began.
        waited_ms: u64,
    }

    ReviewStart<'a> = "review.start" {
        /// The contract, such as `metareview`.
        kind: String,
        backend_kind: Word<BackendKind>,
        command: String,
        prompt_mode: String,
        prompt: Text<'a>,
        timeout_ms: u64,
        /// The layers of the sandbox, such as `landlock abi 6, overlay`.
        enforcement: Option<String>,
    }

    ReviewFinish<'a> = "review.finish" {
        kind: String,
        exit_code: ExitCode,
        timed_out: bool,
        output: Text<'a>,
        /// The allowed changes, as a unified diff.
        diff: Option<Text<'a>>,
        /// Written where it failed because the harness was asked to stop.
        interrupted: Option<bool>,
        /// Why the agent failed.
        detail: Option<String>,
    }

    /// A reviewer changed what it may not change.
    ReviewViolation = "review.violation" {
        kind: String,
        /// Relative to the project.
        path: String,
        what: String,
        outcome: Word<ViolationOutcome>,
        /// How many changes below this path are part of the violation.
        beneath: Option<u64>,
    }

    /// A user reverted the changes of a metareview.
    LoopReverted = "loop.reverted" {
        /// The iteration that the review preceded.
        review: Option<u64>,
        files: String,
    }

    /// An event of an agent was refused.
    #[derive(serde::Serialize, serde::Deserialize)]
    EventInvalid = "event.invalid" {
        /// The event that routed the iteration.
        recent_event: String,
        /// The refused topic.
        emitted: String,
        suggested_roles: String,
        allowed_events: String,
        /// Absent where the event was not in the list of allowed ones.
        reason: Option<String>,
    }

    /// A writer ended a line that another writer left torn.
    JournalRepaired = "journal.repaired" {
        /// Where the torn line begins.
        offset: u64,
        /// Its length.
        bytes: u64,
    }
}

impl BackendUsage {
    /// What a turn used; `None` if the client does not report it. `model` is the one that was asked for.
    pub fn of_answer(answer: &Answer, model: Option<&str>) -> Option<BackendUsage> {
        let usage = answer.usage?;
        let model = answer.session.model.as_deref().or(model);
        let estimated = usage.cost.is_none().then_some(true);
        let cost = usage.cost.unwrap_or_else(|| prices::estimate(&usage, model));
        Some(BackendUsage {
            input_tokens: Tokens(usage.input),
            output_tokens: Tokens(usage.output),
            cache_read_tokens: Tokens(usage.cache_read),
            cache_write_tokens: Tokens(usage.cache_write),
            total_tokens: Tokens(usage.total),
            cost_usd: Some(cost),
            estimated,
            model: model.map(str::to_owned),
            role: None,
            turns: Some(answer.session.turns).filter(|turns| *turns > 0),
            session_id: answer.session.id.clone(),
        })
    }
}
