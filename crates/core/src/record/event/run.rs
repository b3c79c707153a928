//! A run and its iterations: begun, reviewed, refused, ended.

use super::table::system_events;
use super::wire::{ExitCode, Seconds, Tokens};
use crate::agents::{Dollars, Usage};
use crate::config::BackendKind;
use crate::record::{StopReason, Text};
use crate::wire_enum::Word;

system_events! {
    /// A run begins.
    #[derive(serde::Serialize, serde::Deserialize)]
    LoopStart = "loop.start" {
        /// The most iterations it may take.
        max_iterations: u64,
        /// The text in an agent's output that completes the run.
        completion_promise: String,
        /// The event that completes the run.
        completion_event: String,
        /// How many iterations lie between two metareviews.
        review_every: u64,
        /// What the run is for.
        objective: String,
        /// The preset that it runs, where it is not the project's own loop.
        preset: Option<String>,
        /// Where the files of that preset are, where they are not the run's own copy.
        preset_dir: Option<String>,
        /// The run that it is a branch of.
        parent: Option<String>,
        /// The event that routes a branch at first.
        opening_event: Option<String>,
    }

    /// A run that was cut off or stopped is taken up again.
    LoopResume = "loop.resume" {
        /// The last iteration that was done.
        resumed_from_iteration: u64,
        /// How it had stopped; empty when it was cut off.
        previous_stop_reason: Word<StopReason>,
    }

    /// A run reached its goal.
    LoopComplete = "loop.complete" {
        /// `completion_event` or `completion_promise`.
        reason: Word<StopReason>,
    }

    /// A run ended without reaching its goal.
    LoopStop = "loop.stop" {
        /// `max_iterations`, `backend_failed`, `backend_timeout` and the like.
        reason: Word<StopReason>,
        /// With `max_iterations`: how many were done.
        completed_iterations: Option<u64>,
        /// With `max_iterations`: the one that did not begin.
        stopped_before_iteration: Option<u64>,
        /// With `max_iterations`: the limit.
        max_iterations: Option<u64>,
        /// With a failing backend: in which iteration.
        iteration: Option<u64>,
        /// With a failing backend: the end of what it printed.
        output_tail: Option<String>,
        /// With a failing backend: why it failed.
        detail: Option<String>,
    }

    /// An iteration begins.
    IterationStart<'a> = "iteration.start" {
        /// The event that routes it.
        recent_event: String,
        /// The roles that the topology suggests, separated by commas.
        suggested_roles: String,
        /// The events that those roles may emit, separated by commas.
        allowed_events: String,
        /// What the agent is told about an event that was refused.
        backpressure: String,
        /// The whole prompt.
        prompt: Text<'a>,
    }

    /// An iteration ended.
    IterationFinish<'a> = "iteration.finish" {
        /// The status of the backend.
        exit_code: ExitCode,
        /// Whether it was ended because its time was up.
        timed_out: Option<bool>,
        /// How long it took.
        elapsed_s: Option<Seconds>,
        /// What it printed.
        output: Text<'a>,
        /// Said where the output holds the completion promise and is too long for a reader to look.
        promised: Option<bool>,
        /// Said where it failed because the harness was asked to stop.
        interrupted: Option<bool>,
        /// Why it failed, where more is known than its status.
        detail: Option<String>,
    }

    /// The backend is about to be started.
    BackendStart = "backend.start" {
        /// Which sort of backend.
        backend_kind: Word<BackendKind>,
        /// What is run.
        command: String,
        /// How it gets its prompt.
        prompt_mode: String,
        /// How long it may take.
        timeout_ms: u64,
        /// Why it does not get its prompt in the way that was asked for, where it does not.
        prompt_detour: Option<String>,
    }

    /// The backend returned.
    BackendFinish<'a> = "backend.finish" {
        /// Its status.
        exit_code: ExitCode,
        /// Whether it was ended because its time was up.
        timed_out: bool,
        /// What it printed.
        output: Text<'a>,
        /// Said where it failed because the harness was asked to stop.
        interrupted: Option<bool>,
        /// Why it failed, where more is known than its status.
        detail: Option<String>,
    }

    /// What the backend cost, where it tells.
    BackendUsage = "backend.usage" {
        /// What the model read.
        input_tokens: Tokens,
        /// What it wrote.
        output_tokens: Tokens,
        /// What it read from a cache.
        cache_read_tokens: Tokens,
        /// What was put into a cache.
        cache_write_tokens: Tokens,
        /// All of them.
        total_tokens: Tokens,
        /// In dollars, where the backend knows.
        cost_usd: Option<Dollars>,
    }

    /// A review is about to begin.
    ReviewStart<'a> = "review.start" {
        /// Which sort of review.
        kind: String,
        /// Which sort of backend does it.
        backend_kind: Word<BackendKind>,
        /// What is run.
        command: String,
        /// How it gets its prompt.
        prompt_mode: String,
        /// The whole prompt.
        prompt: Text<'a>,
        /// How long it may take.
        timeout_ms: u64,
        /// What holds the reviewer to its bounds.
        enforcement: Option<String>,
    }

    /// A review ended.
    ReviewFinish<'a> = "review.finish" {
        /// Which sort of review.
        kind: String,
        /// The status of the reviewer.
        exit_code: ExitCode,
        /// Whether it was ended because its time was up.
        timed_out: bool,
        /// What it printed.
        output: Text<'a>,
        /// What it changed, where that was allowed, as a unified diff.
        diff: Option<Text<'a>>,
        /// Said where it failed because the harness was asked to stop.
        interrupted: Option<bool>,
        /// Why it failed, where more is known than its status.
        detail: Option<String>,
    }

    /// A reviewer changed what it may not.
    ReviewViolation = "review.violation" {
        /// Which sort of review.
        kind: String,
        /// The thing that was changed, as seen from the project.
        path: String,
        /// What was done to it.
        what: String,
        /// What came of it: `put back`, `kept out` if it never reached the project, or `not put back`.
        outcome: String,
        /// How many more changes of things inside of it belong to this.
        beneath: Option<u64>,
    }

    /// A person undid what a metareview had changed.
    LoopReverted = "loop.reverted" {
        /// The iteration that the review came before.
        review: Option<u64>,
        /// The files that were put back, separated by commas.
        files: String,
    }

    /// An event was refused.
    #[derive(serde::Serialize, serde::Deserialize)]
    EventInvalid = "event.invalid" {
        /// The event that routed the iteration.
        recent_event: String,
        /// What the agent tried to emit.
        emitted: String,
        /// The roles that were suggested, separated by commas.
        suggested_roles: String,
        /// The events that would have been accepted, separated by commas.
        allowed_events: String,
        /// Why, where it is not simply that the event was not in the list.
        reason: Option<String>,
    }

    /// A writer found that the one before it died in the middle of a record, and ended its line.
    JournalRepaired = "journal.repaired" {
        /// Where the torn line begins.
        offset: u64,
        /// How many bytes of it there are.
        bytes: u64,
    }
}

impl From<Usage> for BackendUsage {
    fn from(usage: Usage) -> Self {
        BackendUsage {
            input_tokens: Tokens(usage.input),
            output_tokens: Tokens(usage.output),
            cache_read_tokens: Tokens(usage.cache_read),
            cache_write_tokens: Tokens(usage.cache_write),
            total_tokens: Tokens(usage.total),
            cost_usd: usage.cost,
        }
    }
}
