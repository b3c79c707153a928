//! What records mean: one type per topic that the specification names.
//!
//! [`Record::event`] never fails and never guesses. A topic that is not in these tables, or a known
//! topic without a field that it must have, is [`Event::Other`]: kept and shown, but nothing is
//! concluded from it.

mod wire;

use super::{Body, Heading, Object, Record};
use crate::agents::{Dollars, Usage};
use crate::payload::Payload;
use crate::topic::{Topic, TopicClass};
use wire::Wire;

pub use wire::{Seconds, Tokens};

/// Declares the system events: a struct each, how it is written and how it is read.
macro_rules! system_events {
    ($( $(#[$doc:meta])* $name:ident = $topic:literal {
        $( $(#[$field_doc:meta])* $field:ident: $kind:ty, )*
    } )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Default, PartialEq, Eq)]
            pub struct $name {
                $( $(#[$field_doc])* pub $field: $kind, )*
            }

            impl $name {
                /// The topic of such records.
                pub const TOPIC: &'static str = $topic;

                /// The record that says so.
                pub fn record(&self, heading: &Heading) -> Record {
                    let mut fields = Object::new();
                    $( fields.extend(
                        self.$field.write().map(|value| (stringify!($field).to_owned(), value)),
                    ); )*
                    heading.system(Self::TOPIC, fields)
                }

                fn read(record: &Record) -> Option<Self> {
                    Some($name {
                        $( $field: Wire::read(record.field(stringify!($field)))?, )*
                    })
                }
            }
        )*

        /// What a record means.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Event {
            $( $(#[$doc])* $name($name), )*
            /// An agent said something about its work, in the seven topics that bypass routing.
            Coordination(Coordination),
            /// An agent (or the harness, joining a wave) emitted an event that may route.
            Routing {
                /// The event.
                topic: Topic,
                /// What was said with it.
                payload: String,
                /// Who is said to have said it.
                source: String,
            },
            /// Nothing that this version knows.
            Other,
        }

        impl Record {
            /// What the record means.
            pub fn event(&self) -> Event {
                match (&self.body, self.topic.as_str()) {
                    (Body::Agent { payload, source }, _) => self.agent_event(payload, source),
                    $( (_, $topic) => $name::read(self).map_or(Event::Other, Event::$name), )*
                    _ => Event::Other,
                }
            }
        }
    };
}

system_events! {
    /// A run begins.
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
        previous_stop_reason: String,
    }

    /// A run reached its goal.
    LoopComplete = "loop.complete" {
        /// `completion_event` or `completion_promise`.
        reason: String,
    }

    /// A run ended without reaching its goal.
    LoopStop = "loop.stop" {
        /// `max_iterations`, `backend_failed`, `backend_timeout` and the like.
        reason: String,
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
    }

    /// An iteration begins.
    IterationStart = "iteration.start" {
        /// The event that routes it.
        recent_event: String,
        /// The roles that the topology suggests, separated by commas.
        suggested_roles: String,
        /// The events that those roles may emit, separated by commas.
        allowed_events: String,
        /// What the agent is told about an event that was refused.
        backpressure: String,
        /// The whole prompt.
        prompt: String,
    }

    /// An iteration ended.
    IterationFinish = "iteration.finish" {
        /// The status of the backend.
        exit_code: i32,
        /// Whether it was ended because its time was up.
        timed_out: bool,
        /// How long it took.
        elapsed_s: Seconds,
        /// What it printed.
        output: String,
        /// Said where the output holds the completion promise and is too long for a reader to look.
        promised: Option<bool>,
    }

    /// The backend is about to be started.
    BackendStart = "backend.start" {
        /// Which sort of backend.
        backend_kind: String,
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
    BackendFinish = "backend.finish" {
        /// Its status.
        exit_code: i32,
        /// Whether it was ended because its time was up.
        timed_out: bool,
        /// What it printed.
        output: String,
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
    ReviewStart = "review.start" {
        /// Which sort of review.
        kind: String,
        /// Which sort of backend does it.
        backend_kind: String,
        /// What is run.
        command: String,
        /// How it gets its prompt.
        prompt_mode: String,
        /// The whole prompt.
        prompt: String,
        /// How long it may take.
        timeout_ms: u64,
        /// What holds the reviewer to its bounds.
        enforcement: Option<String>,
    }

    /// A review ended.
    ReviewFinish = "review.finish" {
        /// Which sort of review.
        kind: String,
        /// The status of the reviewer.
        exit_code: i32,
        /// Whether it was ended because its time was up.
        timed_out: bool,
        /// What it printed.
        output: String,
        /// What it changed, where that was allowed, as a unified diff.
        diff: Option<String>,
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
        review: u64,
        /// The files that were put back, separated by commas.
        files: String,
    }

    /// An event was refused.
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
    WaveBranchFinish = "wave.branch.finish" {
        /// Which wave.
        wave_id: String,
        /// Which branch.
        branch_id: String,
        /// How it ended.
        stop_reason: String,
        /// How long it took.
        elapsed_ms: Option<u64>,
        /// What it printed.
        output: String,
    }

    /// The work of a branch that had a working tree of its own was brought back, or was not.
    WaveBranchMerge = "wave.branch.merge" {
        /// Which wave.
        wave_id: String,
        /// Which branch.
        branch_id: String,
        /// What became of it.
        outcome: String,
        /// The git branch that has its commits, as long as it is there.
        branch: String,
        /// The commit from which they are reachable, or the last of them.
        commit: String,
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
        previous_outcome: String,
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
        stop_reason: String,
        /// How long its harness was at it.
        elapsed_ms: Option<u64>,
        /// Why it could not begin, where it could not.
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
        outcome: String,
    }

    /// A chain that an agent asked for is granted, in the run that asked.
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
    ChainSpawnFinish = "chain.spawn.finish" {
        /// Which chain.
        chain_id: String,
        /// How it ended.
        outcome: String,
        /// How many steps were done.
        steps_completed: u64,
        /// What its steps left.
        output: String,
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

    /// Work on a queue of items begins: implement, review, fix, in slots.
    SlotRunStart = "slot.run.start" {
        /// The most iterations; 0 for as many as there are items.
        iterations: u64,
        /// How many slots work at once.
        parallel_agents: u64,
        /// Whether work is reviewed.
        review: bool,
        /// How often work may be fixed after a review.
        max_fix_attempts: u64,
        /// Where items come from: `builtin` or `beads`.
        source: String,
        /// Where slots work: `shared` or `worktree`.
        isolation: String,
        /// The text in an agent's output after which no further iteration begins.
        stop_marker: String,
    }

    /// Work on a queue that was cut off or interrupted is taken up again.
    SlotRunResume = "slot.run.resume" {
        /// The last iteration that began.
        resumed_from_iteration: u64,
    }

    /// A slot begins, with the item that the harness claimed for it.
    SlotStart = "slot.start" {
        /// Which slot, counted from 1.
        slot: u64,
        /// The item; empty when there was none.
        item_id: String,
        /// Its title.
        title: String,
        /// The name under which it is claimed.
        actor: String,
        /// The commit that its changes are told from; empty outside of git.
        base: String,
        /// The branch that it works on; empty in the shared tree.
        branch: String,
        /// The directory that it works in.
        tree: String,
    }

    /// A phase of a slot begins.
    SlotPhase = "slot.phase" {
        /// Which slot.
        slot: u64,
        /// The item.
        item_id: String,
        /// `implement`, `review`, `fix` or `merge`.
        phase: String,
        /// Which review, counted from 0, or which fix, counted from 1; 0 otherwise.
        attempt: u64,
    }

    /// The implementer of a slot ended.
    SlotImplement = "slot.implement" {
        /// Which slot.
        slot: u64,
        /// The item.
        item_id: String,
        /// The status of the agent.
        exit_code: i32,
        /// Whether it was ended because its time was up.
        timed_out: bool,
        /// How long it took.
        elapsed_ms: u64,
        /// The item that the agent says to have worked on; empty when it does not say.
        picked: String,
        /// Said where its output holds the stop marker.
        stop_marker: Option<bool>,
        /// What it printed, shortened.
        output: Option<String>,
    }

    /// A review of a slot ended.
    SlotReview = "slot.review" {
        /// Which slot.
        slot: u64,
        /// The item.
        item_id: String,
        /// Which review, counted from 0.
        attempt: u64,
        /// `pass`, `drift`, `violation` or `failed`.
        verdict: String,
        /// What the reviewer says about it.
        follow_up_prompt: String,
        /// Why, where there is no verdict of the reviewer.
        reason: String,
        /// How long it took.
        elapsed_ms: u64,
        /// The status of the reviewer.
        exit_code: Option<i32>,
        /// What it printed, shortened.
        output: Option<String>,
    }

    /// A fixer of a slot ended.
    SlotFix = "slot.fix" {
        /// Which slot.
        slot: u64,
        /// The item.
        item_id: String,
        /// Which fix, counted from 1.
        attempt: u64,
        /// The status of the agent.
        exit_code: i32,
        /// Whether it was ended because its time was up.
        timed_out: bool,
        /// How long it took.
        elapsed_ms: u64,
        /// Said where its output holds the stop marker.
        stop_marker: Option<bool>,
        /// What it printed, shortened.
        output: Option<String>,
    }

    /// What a slot made was brought back into the project, or could not be.
    SlotMerge = "slot.merge" {
        /// Which slot.
        slot: u64,
        /// The item.
        item_id: String,
        /// `merged`, `nothing`, `conflict` or `failed`.
        outcome: String,
        /// The commit that holds the work.
        commit: String,
        /// The files that stood in the way, separated by commas.
        files: String,
    }

    /// A slot ended.
    SlotFinish = "slot.finish" {
        /// Which slot.
        slot: u64,
        /// The item; empty when there was none.
        item_id: String,
        /// `passed`, `drift`, `violation`, `failed` or `no_item`.
        outcome: String,
        /// Why, in a sentence.
        reason: String,
    }

    /// Work on a queue ended.
    SlotRunFinish = "slot.run.finish" {
        /// `iterations`, `stop_marker` or `no_items`.
        reason: String,
        /// How many items were taken.
        taken: u64,
        /// How many of them passed.
        passed: u64,
    }

    /// A task was added to the queue.
    QueueAdded = "queue.task.added" {
        /// Its name.
        task: String,
        /// What it is, in a line.
        title: String,
        /// What it is, at length.
        description: Option<String>,
        /// How to tell that it is done.
        acceptance: Option<String>,
        /// How urgent it is: 0 to 4, 0 first.
        priority: u64,
        /// The tasks that have to be closed before it, separated by commas.
        after: Option<String>,
        /// Who added it.
        by: Option<String>,
    }

    /// Somebody took a task.
    QueueClaimed = "queue.task.claimed" {
        /// Which task.
        task: String,
        /// Who.
        owner: String,
        /// When the claim expires, unless it is renewed.
        until: String,
        /// The number of the claim.
        fence: u64,
    }

    /// Somebody keeps a task for longer.
    QueueRenewed = "queue.task.renewed" {
        /// Which task.
        task: String,
        /// When the claim expires now.
        until: String,
        /// The number of the claim.
        fence: u64,
    }

    /// A task was given back.
    QueueReleased = "queue.task.released" {
        /// Which task.
        task: String,
        /// Why.
        reason: String,
        /// Who gave it back.
        by: Option<String>,
        /// The number of the claim.
        fence: u64,
    }

    /// A task is done.
    QueueClosed = "queue.task.closed" {
        /// Which task.
        task: String,
        /// How it was done.
        reason: String,
        /// Who closed it.
        by: Option<String>,
        /// The number of the claim on it, if there was one.
        fence: Option<u64>,
    }

    /// A task is not done after all.
    QueueReopened = "queue.task.reopened" {
        /// Which task.
        task: String,
        /// Why.
        reason: String,
        /// Who opened it again.
        by: Option<String>,
    }

    /// A task has to wait for another.
    QueueLinked = "queue.task.linked" {
        /// Which task.
        task: String,
        /// The one that it waits for.
        after: String,
    }

    /// A task does not have to wait for another any more.
    QueueUnlinked = "queue.task.unlinked" {
        /// Which task.
        task: String,
        /// The one that it waited for.
        after: String,
    }
}

/// Declares the coordination events, whose fields stand in the payload as `key=value;`.
macro_rules! coordination_events {
    ($( $(#[$doc:meta])* $name:ident = $topic:literal { $( $(#[$field_doc:meta])* $field:ident, )* } )*) => {
        /// Bookkeeping by an agent. These are claims: nothing in the harness takes them for evidence.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Coordination {
            $( $(#[$doc])* $name { $( $(#[$field_doc])* $field: String, )* }, )*
        }

        impl Coordination {
            /// The topic of such records.
            pub fn topic(&self) -> &'static str {
                match self { $( Coordination::$name { .. } => $topic, )* }
            }

            /// The payload that says so.
            pub fn payload(&self) -> Payload {
                match self {
                    $( Coordination::$name { $( $field, )* } => {
                        [$( (stringify!($field), $field) ),*]
                            .into_iter()
                            .try_fold(Payload::new(), |payload, (key, value)| {
                                payload.with(key, value.as_str())
                            })
                            .expect("a Rust identifier is a valid key")
                    } )*
                }
            }

            fn read(topic: &str, payload: &Payload) -> Option<Self> {
                let text = |key| payload.get(key).unwrap_or_default().to_owned();
                match topic {
                    $( $topic => Some(Coordination::$name { $( $field: text(stringify!($field)), )* }), )*
                    _ => None,
                }
            }
        }
    };
}

coordination_events! {
    /// An issue was found.
    IssueDiscovered = "issue.discovered" {
        /// Which issue.
        id,
        /// What it is.
        summary,
        /// `open`, `deferred` and the like.
        disposition,
        /// Who is to see to it.
        owner,
    }
    /// An issue was resolved.
    IssueResolved = "issue.resolved" {
        /// Which issue.
        id,
        /// How.
        resolution,
    }
    /// A unit of work began.
    SliceStarted = "slice.started" {
        /// Which slice.
        id,
        /// What it is.
        description,
    }
    /// A unit of work is said to have passed verification.
    SliceVerified = "slice.verified" {
        /// Which slice.
        id,
    }
    /// A unit of work is said to have been committed.
    SliceCommitted = "slice.committed" {
        /// Which slice.
        id,
        /// The commit.
        commit_hash,
    }
    /// Stale context was moved out of a working file.
    ContextArchived = "context.archived" {
        /// From where.
        source_file,
        /// To where.
        dest_file,
        /// Why.
        reason,
    }
    /// A chain was started from within a loop.
    ChainSpawn = "chain.spawn" {
        /// Which chain.
        chain_id,
        /// The chain or run that it comes from.
        parent_id,
        /// Its steps, separated by commas.
        steps,
        /// Why.
        justification,
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

impl Record {
    fn agent_event(&self, payload: &str, source: &str) -> Event {
        match self.topic.class() {
            TopicClass::Coordination => {
                Coordination::read(self.topic.as_str(), &Payload::parse(payload))
                    .map_or(Event::Other, Event::Coordination)
            }
            TopicClass::Agent | TopicClass::Reserved => Event::Routing {
                topic: self.topic.clone(),
                payload: payload.to_owned(),
                source: source.to_owned(),
            },
        }
    }
}
