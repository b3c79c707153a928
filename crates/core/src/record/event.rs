//! Typed events: one type per topic of the harness.
//!
//! [`Glance::event`] never fails. An unknown topic is [`Event::Other`]: kept and shown, but nothing is
//! concluded from it. A field that is missing or cannot be read has the default of its type, because
//! journals of older versions and of other writers lack some.
//!
//! Lists of roles, events, branches, presets and files are separated by commas, unless a field says otherwise.

mod coordination;
mod wire;

use wire::Wire;

use super::{
    ChainOutcome, Changes, ExchangeOutcome, Glance, Heading, HeldBy, LoopEnd, Object, Phase,
    Picked, Record, Resolution, Side, SlotOutcome, SlotsEnd, SquadClaim, SquadEnd, SquadPhase,
    StopReason, Support, Text, ViolationOutcome,
};
use crate::agents::{Answer, Dollars, ErrorClass, prices};
use crate::config::{BackendKind, Effort, Isolation, ItemSource};
use crate::merge::MergeOutcome;
use crate::message::Type as MessageType;
use crate::review::{SquadSubject, Verdict};
use crate::topic::Topic;
use crate::wire_enum::Word;

pub use coordination::Coordination;
pub use wire::{Amount, ExitCode};

/// Declares the events of the harness: one struct per topic, with writing and reading, and [`Event`] with
/// a variant for each. An event with a lifetime has a long [`Text`], which is unescaped when it is read.
macro_rules! system_events {
    ($( $(#[$doc:meta])* $name:ident $(<$long:lifetime>)? = $topic:literal {
        $( $(#[$field_doc:meta])* $field:ident: $kind:ty, )*
    } )*) => {
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Event<'a> {
            $( $name($name $(<$long>)?), )*
            /// An agent's bookkeeping, in one of the seven topics that bypass routing.
            Coordination(Coordination),
            /// An event that may route, of an agent or of the harness that joins a wave.
            Routing(Topic),
            /// A topic that this version does not know.
            Other,
        }

        impl Glance<'_> {
            pub fn event(&self) -> Event<'_> {
                match self.topic().as_ref() {
                    topic if self.has_payload() => self.other_event(topic),
                    $( $topic => Event::$name($name::read(self)), )*
                    topic => self.other_event(topic),
                }
            }
        }

        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Default, PartialEq, Eq)]
            pub struct $name $(<$long>)? {
                $( $(#[$field_doc])* pub $field: $kind, )*
            }

            impl<'a> $name $(<$long>)? {
                pub const TOPIC: &'static str = $topic;

                pub fn record(&self, heading: &Heading) -> Record {
                    let mut fields = Object::new();
                    $( fields.extend(
                        self.$field.write().map(|value| (stringify!($field).to_owned(), value)),
                    ); )*
                    heading.system(Self::TOPIC, fields)
                }

                /// Reads the event; `None` for a record of another topic or of an agent.
                pub fn of(record: &'a Glance<'_>) -> Option<Self> {
                    let is_it = record.topic() == Self::TOPIC && !record.has_payload();
                    is_it.then(|| Self::read(record))
                }

                /// A field that is missing or cannot be read has its default.
                fn read(record: &'a Glance<'_>) -> Self {
                    let mut event = $name { $( $field: Wire::missing(), )* };
                    for (name, field) in record.fields() {
                        $( if name == stringify!($field).as_bytes() {
                            if let Some(value) = Wire::read(field) {
                                event.$field = value;
                            }
                            continue;
                        } )*
                    }
                    event
                }
            }
        )*
    };
}

// A run of a loop and its iterations: started, reviewed, refused, ended; then waves, chains, slots and the queue.
system_events! {
    #[derive(serde::Serialize, serde::Deserialize)]
    LoopStart = "loop.start" {
        max_iterations: u64,
        /// The text in an agent's output that completes the run.
        completion_promise: String,
        completion_event: String,
        review_every: u64,
        objective: String,
        /// Absent for the project's own loop.
        preset: Option<String>,
        /// Where the files of the preset are, unless the run has its own copy.
        preset_dir: Option<String>,
        parent: Option<String>,
        /// The event that routes the first iteration of a branch.
        opening_event: Option<String>,
    }

    LoopResume = "loop.resume" {
        resumed_from_iteration: u64,
        /// Empty where the run had not ended.
        previous_stop_reason: Word<StopReason>,
    }

    /// The run reached its goal.
    LoopComplete = "loop.complete" {
        reason: Word<StopReason>,
    }

    LoopStop = "loop.stop" {
        reason: Word<StopReason>,
        /// With `max_iterations`, as the next two.
        completed_iterations: Option<u64>,
        stopped_before_iteration: Option<u64>,
        max_iterations: Option<u64>,
        /// With a failing backend, as the next one.
        iteration: Option<u64>,
        output_tail: Option<String>,
        /// Why, where the reason needs more than a word.
        detail: Option<String>,
        /// The flag that raises the limit that the run reached.
        raise: Option<String>,
    }

    IterationStart<'a> = "iteration.start" {
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
        elapsed_s: Option<Amount>,
        output: Text<'a>,
        /// Written where the output contains the completion promise and is too long for a reader to look.
        promised: Option<bool>,
        /// Written where it failed because the harness was asked to stop.
        interrupted: Option<bool>,
        detail: Option<String>,
        /// The git tree object of the project behind an iteration that brought no new event.
        tree: Option<String>,
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
        detail: Option<String>,
    }

    BackendUsage = "backend.usage" {
        input_tokens: Amount,
        output_tokens: Amount,
        cache_read_tokens: Amount,
        cache_write_tokens: Amount,
        total_tokens: Amount,
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
        /// The slot of the turn.
        slot: Option<u64>,
    }

    BackendParked = "backend.parked" {
        client: String,
        class: Word<ErrorClass>,
        detail: String,
        wait_ms: u64,
        /// When the client is asked again.
        until: String,
        /// The slot of the turn.
        slot: Option<u64>,
        /// The turn of a squad.
        turn: Option<u64>,
    }

    BackendResumed = "backend.resumed" {
        client: String,
        /// Since the turn began.
        waited_ms: u64,
        /// The slot of the turn.
        slot: Option<u64>,
        /// The turn of a squad.
        turn: Option<u64>,
    }

    BackendFailed = "backend.failed" {
        client: String,
        /// Why no turn of it can succeed.
        detail: String,
        slot: Option<u64>,
    }

    ReviewStart<'a> = "review.start" {
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
        detail: Option<String>,
    }

    ReviewViolation = "review.violation" {
        kind: String,
        path: String,
        what: String,
        outcome: Word<ViolationOutcome>,
        /// How many changes below this path are part of the violation.
        beneath: Option<u64>,
    }

    /// The harness ran a command on a clean checkout of a commit.
    CheckFinish = "check.finish" {
        /// The check of the settings; empty for a command that a reviewer cited.
        name: String,
        command: String,
        commit: String,
        exit_code: ExitCode,
        timed_out: bool,
        elapsed_ms: u64,
        /// The BLAKE3 digest of its output, as far as that is in its file.
        digest: String,
        /// The end of its output.
        output: String,
        /// Why it could not be run.
        reason: Option<String>,
    }

    LoopReverted = "loop.reverted" {
        /// The iteration that the review preceded.
        review: Option<u64>,
        files: String,
    }

    #[derive(serde::Serialize, serde::Deserialize)]
    EventInvalid = "event.invalid" {
        /// The event that routed the iteration.
        recent_event: String,
        emitted: String,
        suggested_roles: String,
        allowed_events: String,
        /// Absent where the event was not in the list of allowed ones.
        reason: Option<String>,
    }

    /// A writer ended a line that another writer left torn.
    JournalRepaired = "journal.repaired" {
        offset: u64,
        bytes: u64,
    }

    WaveStart = "wave.start" {
        wave_id: String,
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
        detail: Option<String>,
        /// What its turns took, for the limits of the run.
        cost_usd: Option<Dollars>,
        tokens: Option<Amount>,
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

    WaveInvalid = "wave.invalid" {
        trigger_topic: String,
        reason: String,
        /// The open wave, if there is one.
        active_wave_id: String,
        opening_recent_event: String,
    }

    ChainStart = "chain.start" {
        name: String,
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

    ChainSpawnFinish<'a> = "chain.spawn.finish" {
        chain_id: String,
        outcome: Word<ChainOutcome>,
        steps_completed: u64,
        /// The reports of its steps.
        output: Text<'a>,
    }

    ChainInvalid = "chain.invalid" {
        trigger_topic: String,
        /// One word.
        reason: String,
        /// The limit that the chain would exceed.
        limit: Option<u64>,
        detail: String,
    }

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
        /// Which limit the run reached.
        detail: Option<String>,
        /// The flag that raises it.
        raise: Option<String>,
    }

    ExchangeStart = "exchange.start" {
        author: String,
        reviewer: String,
        pr: u64,
        branch: String,
        /// The commit that the change is compared with; empty where it is not known.
        base: String,
        /// The maximum number of rounds.
        rounds: u64,
        max_turns: u64,
        max_runtime_s: u64,
        /// The conversation of its messages.
        conversation: String,
    }

    /// From here on the harness runs the agent of the author too.
    ExchangeAuto = "exchange.auto" {
        round: u64,
    }

    ExchangeResume = "exchange.resume" {
        previous_outcome: Word<ExchangeOutcome>,
    }

    /// A message, before it is delivered: its file, whole.
    ExchangeMessage<'a> = "exchange.message" {
        round: u64,
        kind: Word<MessageType>,
        message_id: String,
        file: String,
        /// The commit that it is about.
        commit: String,
        /// The unresolved findings of a response that block.
        blocking_count: Option<u64>,
        escalation: Option<String>,
        /// The findings that the author addressed.
        findings: Option<String>,
        /// The file of the findings packet, relative to the workspace, and its content.
        packet: Option<String>,
        packet_text: Option<Text<'a>>,
        text: Text<'a>,
    }

    /// A message is in the inbox of its recipient.
    ExchangeSent = "exchange.sent" {
        message_id: String,
        file: String,
    }

    /// An agent starts.
    ExchangePhase = "exchange.phase" {
        side: Word<Side>,
        /// Counted from 0.
        attempt: u64,
    }

    ExchangeReview<'a> = "exchange.review" {
        round: u64,
        /// Counted from 0.
        attempt: u64,
        commit: String,
        verdict: Word<Verdict>,
        /// Why there is no usable answer.
        reason: String,
        elapsed_ms: u64,
        exit_code: Option<ExitCode>,
        /// How often the model was asked, where the client reports it.
        turns: Option<u64>,
        enforcement: Option<Word<HeldBy>>,
        /// The findings packet of the answer.
        packet: Option<Text<'a>>,
        /// Shortened.
        output: Option<Text<'a>>,
    }

    /// The agent of the author ended.
    ExchangeAuthor<'a> = "exchange.author" {
        round: u64,
        exit_code: ExitCode,
        timed_out: bool,
        elapsed_ms: u64,
        /// The commit with its work.
        commit: String,
        /// Why it failed.
        reason: Option<String>,
        /// Shortened.
        output: Option<Text<'a>>,
    }

    /// The harness ends, and the exchange waits for a command.
    ExchangeWait = "exchange.wait" {
        side: Word<Side>,
    }

    ExchangeFinish = "exchange.finish" {
        outcome: Word<ExchangeOutcome>,
        reason: String,
    }

    SquadStart<'a> = "squad.start" {
        /// What is to be built.
        spec: Text<'a>,
        effort: Word<Effort>,
        max_loops: u64,
        /// The commit that the run began at.
        base: String,
        /// Written where the user gave the plan; its tasks and groups follow.
        planned: Option<bool>,
    }

    SquadResume = "squad.resume" {
        previous_end: Word<SquadEnd>,
    }

    /// An agent starts. Turns are numbered from 1 in the whole run.
    SquadTurn = "squad.turn" {
        turn: u64,
        phase: Word<SquadPhase>,
        /// Of a review or a checkpoint.
        subject: Option<Word<SquadSubject>>,
        loop_id: Option<String>,
        /// Absent for a checkpoint.
        task_id: Option<String>,
        /// How often the same was tried before: the repetition of a review, the revision of a task or phase.
        attempt: u64,
        /// The commit that a reviewer or a check sees.
        commit: Option<String>,
        /// The BLAKE3 digest of its ticket.
        ticket: String,
    }

    SquadTurnFinish<'a> = "squad.turn.finish" {
        turn: u64,
        loop_id: Option<String>,
        exit_code: ExitCode,
        timed_out: bool,
        elapsed_ms: u64,
        /// Why the agent failed.
        reason: Option<String>,
        /// The git commit and tree object with the work of its loop so far.
        commit: Option<String>,
        tree: Option<String>,
        enforcement: Option<Word<HeldBy>>,
        /// Shortened.
        output: Option<Text<'a>>,
    }

    /// A task, by an agent or by the plan of the user.
    SquadTask = "squad.task" {
        /// Absent for the plan of the user, as below.
        turn: Option<u64>,
        task_id: String,
        title: String,
        description: String,
        acceptance: Option<String>,
    }

    /// A group of tasks that are built in parallel.
    SquadGroup = "squad.group" {
        turn: Option<u64>,
        tasks: String,
    }

    /// What a builder reports about its task.
    SquadReport = "squad.report" {
        turn: u64,
        task_id: String,
        claim: Word<SquadClaim>,
        reason: String,
    }

    /// The answer of a reviewer; the last one of a turn counts.
    SquadAnswer<'a> = "squad.answer" {
        turn: u64,
        loop_id: Option<String>,
        task_id: Option<String>,
        passed: bool,
        interpreted_intent: Option<String>,
        intent_satisfied: Option<bool>,
        /// A JSON array of objects.
        issues: Text<'a>,
    }

    /// A command that a reviewer cites as evidence.
    SquadCited = "squad.cited" {
        turn: u64,
        command: String,
    }

    /// What an agent leaves for the agents after it.
    SquadContext<'a> = "squad.context" {
        turn: u64,
        key: String,
        text: Text<'a>,
    }

    /// A cost that an agent reports itself, beside what its client reports.
    SquadCost = "squad.cost" {
        turn: u64,
        cost_usd: Dollars,
        what: String,
    }

    /// A loop begins or begins again, in a worktree of its own.
    SquadLoop = "squad.loop" {
        loop_id: String,
        task_id: String,
        /// Counted from 1.
        group: u64,
        branch: String,
        tree: String,
        /// The commit that its work begins at.
        base: String,
    }

    /// A loop ends without a merge, until the user resolves it.
    SquadLoopFinish = "squad.loop.finish" {
        loop_id: String,
        outcome: Word<LoopEnd>,
        reason: String,
    }

    /// What the answers of a review and the checks of the harness amount to.
    SquadReview = "squad.review" {
        /// Unique in the state directory.
        review_id: String,
        subject: Word<SquadSubject>,
        loop_id: Option<String>,
        task_id: Option<String>,
        /// The turn with the answer, or the last one without.
        turn: u64,
        verdict: Word<Verdict>,
        /// Why it is no pass, where the reviewer does not say so.
        reason: String,
        support: Word<Support>,
        /// The commit that was reviewed.
        commit: Option<String>,
    }

    /// The work of a loop was merged, or was not.
    SquadMerge = "squad.merge" {
        loop_id: String,
        outcome: Word<MergeOutcome>,
        /// From which the work is reachable, or that was to be merged.
        commit: String,
        /// Those in conflict.
        files: String,
        detail: Option<String>,
        /// Written where an agent resolved a conflict.
        resolved_by: Option<u64>,
    }

    /// The user decides about a loop.
    SquadResolve = "squad.resolve" {
        loop_id: String,
        resolution: Word<Resolution>,
        reason: String,
    }

    SquadFinish = "squad.finish" {
        outcome: Word<SquadEnd>,
        reason: String,
        /// The flag that raises the limit that the run reached.
        raise: Option<String>,
    }

    QueueAdded = "queue.task.added" {
        task: String,
        title: String,
        description: Option<String>,
        acceptance: Option<String>,
        /// 0 (most urgent) to 4. A record without it adds nothing.
        priority: Option<u64>,
        /// The tasks that must be closed first, separated by commas.
        after: Option<String>,
        by: Option<String>,
    }

    QueueClaimed = "queue.task.claimed" {
        task: String,
        owner: String,
        /// When the claim expires, unless it is renewed.
        until: String,
        fence: u64,
    }

    QueueRenewed = "queue.task.renewed" {
        task: String,
        until: String,
        fence: u64,
    }

    QueueReleased = "queue.task.released" {
        task: String,
        reason: String,
        by: Option<String>,
        fence: u64,
    }

    QueueClosed = "queue.task.closed" {
        task: String,
        reason: String,
        by: Option<String>,
        /// The number of the claim on it, if it was claimed.
        fence: Option<u64>,
    }

    QueueReopened = "queue.task.reopened" {
        task: String,
        reason: String,
        by: Option<String>,
    }

    QueueLinked = "queue.task.linked" {
        task: String,
        after: String,
    }

    QueueUnlinked = "queue.task.unlinked" {
        task: String,
        after: String,
    }
}

impl BackendUsage {
    /// What a turn of a role used; `None` if the client does not report it. `model` is the one that was asked for.
    pub fn of_answer(answer: &Answer, model: Option<&str>, role: &str) -> Option<BackendUsage> {
        let usage = answer.usage?;
        let model = answer.session.model.as_deref().or(model);
        let cost = usage.cost.unwrap_or_else(|| prices::estimate(&usage, model));
        Some(BackendUsage {
            input_tokens: Amount(usage.input),
            output_tokens: Amount(usage.output),
            cache_read_tokens: Amount(usage.cache_read),
            cache_write_tokens: Amount(usage.cache_write),
            total_tokens: Amount(usage.total),
            cost_usd: Some(cost),
            estimated: usage.cost.is_none().then_some(true),
            model: model.map(str::to_owned),
            role: Some(role.to_owned()).filter(|role| !role.is_empty()),
            turns: Some(answer.session.turns).filter(|turns| *turns > 0),
            session_id: answer.session.id.clone(),
            slot: None,
        })
    }
}

impl Glance<'_> {
    fn other_event(&self, topic: &str) -> Event<'_> {
        match Coordination::read(topic, self) {
            Some(said) => Event::Coordination(said),
            None if self.has_payload() => Event::Routing(Topic::new(topic)),
            None => Event::Other,
        }
    }
}
