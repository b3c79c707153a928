//! Every setting there is: its name, what it may be, what it is by itself, and what it is for.

use super::enums::{
    BackendKind, Effort, Isolation, ItemSource, Leftovers, LogLevel, PromptMode, Sandbox,
    SyncPolicy,
};
use crate::agents::Stream;
use crate::run_id::RunIdFormat;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Blank means unset.
    Text,
    NeededText,
    /// The path of a file, relative to the directory of the loop. Blank means unset.
    File,
    /// Relative to the project; not blank.
    NeededPath,
    /// The name of an event that an agent can emit.
    Event,
    Events,
    List,
    /// Names of variables, patterns of names, and assignments.
    Variables,
    Flag,
    Count {
        least: i64,
        most: i64,
    },
    Limit,
    /// A duration, shown in milliseconds.
    Millis {
        least: u64,
    },
    /// A duration, shown with its unit.
    Time,
    /// An amount of dollars.
    Cost,
    Bytes,
    Choice(&'static [&'static str]),
    /// One of these words, or none.
    MaybeChoice(&'static [&'static str]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// This value, written as for `--set`.
    Value(&'static str),
    Like(Key),
    /// Unset, with this consequence.
    Nothing(&'static str),
}

/// Makes the enum of keys and their table from one list.
macro_rules! keys {
    ($($variant:ident $name:literal: $kind:expr, $preset:expr, $about:literal;)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Key { $(#[doc = $about] $variant,)+ }

        impl Key {
            /// In the order in which they are shown.
            pub const ALL: &'static [Key] = &[$(Key::$variant),+];

            /// The name with its table, as in `backend.command`.
            pub fn name(self) -> &'static str {
                match self { $(Key::$variant => $name,)+ }
            }

            pub fn kind(self) -> Kind {
                match self { $(Key::$variant => $kind,)+ }
            }

            pub fn preset(self) -> Preset {
                match self { $(Key::$variant => $preset,)+ }
            }

            pub fn about(self) -> &'static str {
                match self { $(Key::$variant => $about,)+ }
            }
        }
    };
}

/// A limit for numbers of turns, branches and reviews.
const MANY: i64 = 1_000_000;

keys! {
    MaxIterations "event_loop.max_iterations": Kind::Count { least: 1, most: MANY }, Preset::Value("3"),
        "Maximum number of iterations of a run.";
    StallIterations "event_loop.stall_iterations": Kind::Count { least: 0, most: MANY }, Preset::Value("3"),
        "Iterations in a row without progress after which the run ends as stalled; 0 disables it.";
    CompletionEvent "event_loop.completion_event": Kind::Event, Preset::Value("task.complete"),
        "The event that completes the run, unless topology.toml has `completion`.";
    CompletionPromise "event_loop.completion_promise": Kind::Text, Preset::Value("LOOP_COMPLETE"),
        "The text in an agent's output that completes the run, in a turn without an accepted or refused event; blank disables it.";
    RequiredEvents "event_loop.required_events": Kind::Events, Preset::Value("[]"),
        "Events that must all have been seen before the run can complete.";
    Prompt "event_loop.prompt": Kind::Text, Preset::Nothing("event_loop.prompt_file is read"),
        "The objective of the run, unless the command line has one.";
    PromptFile "event_loop.prompt_file": Kind::File, Preset::Nothing("the command line has the objective"),
        "A file with the objective; read if event_loop.prompt is not set.";

    MaxCost "limits.max_cost_usd": Kind::Cost, Preset::Value("0"),
        "Maximum cost of a run in dollars; 0 is no limit.";
    MaxTokens "limits.max_tokens": Kind::Limit, Preset::Value("0"),
        "Maximum number of tokens of a run; 0 is no limit.";
    MaxRuntime "limits.max_runtime": Kind::Time, Preset::Value("0"),
        "Maximum time of a run; 0 is no limit.";
    IterationMaxCost "limits.iteration.max_cost_usd": Kind::Cost, Preset::Value("0"),
        "Maximum cost of an iteration in dollars; 0 is no limit.";
    IterationMaxTokens "limits.iteration.max_tokens": Kind::Limit, Preset::Value("0"),
        "Maximum number of tokens of an iteration; 0 is no limit.";
    IterationMaxRuntime "limits.iteration.max_runtime": Kind::Time, Preset::Value("0"),
        "Maximum time of an iteration; 0 is no limit.";
    SlotMaxCost "limits.slot.max_cost_usd": Kind::Cost, Preset::Value("0"),
        "Maximum cost of a slot in dollars; 0 is no limit.";
    SlotMaxTokens "limits.slot.max_tokens": Kind::Limit, Preset::Value("0"),
        "Maximum number of tokens of a slot; 0 is no limit.";
    SlotMaxRuntime "limits.slot.max_runtime": Kind::Time, Preset::Value("0"),
        "Maximum time of a slot; 0 is no limit.";
    ReviewMaxCost "limits.review.max_cost_usd": Kind::Cost, Preset::Value("0"),
        "Maximum cost of a review in dollars; 0 is no limit.";
    ReviewMaxTokens "limits.review.max_tokens": Kind::Limit, Preset::Value("0"),
        "Maximum number of tokens of a review; 0 is no limit.";
    ReviewMaxRuntime "limits.review.max_runtime": Kind::Time, Preset::Value("0"),
        "Maximum time of a review; 0 is no limit.";

    BackendKind "backend.kind": Kind::MaybeChoice(BackendKind::WORDS), Preset::Nothing("derived from the name of the command"),
        "The kind of agent.";
    BackendCommand "backend.command": Kind::NeededText, Preset::Value("claude"),
        "The agent: an executable, found in PATH or by its path; never a shell command.";
    BackendArgs "backend.args": Kind::List, Preset::Value("[]"),
        "Its arguments before the prompt.";
    BackendModel "backend.model": Kind::Text, Preset::Nothing("the client chooses"),
        "The model of a known client.";
    BackendEnv "backend.env": Kind::Variables, Preset::Value("[]"),
        "Variables that it gets besides those of builds and of its client: NAME, PREFIX_* or NAME=value.";
    BackendPromptMode "backend.prompt_mode": Kind::MaybeChoice(PromptMode::WORDS), Preset::Nothing("stdin for a known client, else arg"),
        "How it receives the prompt: as an argument, on standard input or in a file.";
    BackendOutput "backend.output": Kind::MaybeChoice(Stream::WORDS), Preset::Nothing("derived from the kind"),
        "What it prints: its answer, or the stream of a client that contains the answer.";
    BackendTimeout "backend.timeout_ms": Kind::Millis { least: 1 }, Preset::Value("1800000"),
        "Timeout of an iteration.";
    BackendGrace "backend.grace_ms": Kind::Millis { least: 0 }, Preset::Value("5000"),
        "Time from the request to end until the agent is killed.";
    BackendLeftovers "backend.leftovers": Kind::Choice(Leftovers::WORDS), Preset::Value("kill"),
        "What happens to processes that the agent leaves behind.";
    BackendOutputCap "backend.output_cap": Kind::Bytes, Preset::Value("256MB"),
        "How much of an agent's output is kept; the rest is read and discarded.";
    BackendFirstWait "backend.first_wait": Kind::Time, Preset::Value("15s"),
        "The first wait for a client that is unavailable and names no time; each further one is twice as long.";
    BackendMaxWait "backend.max_wait": Kind::Time, Preset::Value("6h"),
        "How long a turn waits for a client that is unavailable: rate limit, overload, server or network error.";

    ReviewEnabled "review.enabled": Kind::Flag, Preset::Value("true"),
        "Whether to run metareviews.";
    ReviewEvery "review.every_iterations": Kind::Count { least: 0, most: MANY }, Preset::Value("0"),
        "Iterations between metareviews; 0 means the number of roles, or 1 without roles.";
    ReviewKind "review.kind": Kind::MaybeChoice(BackendKind::WORDS), Preset::Like(Key::BackendKind),
        "The kind of reviewer; blank: derived from the name of its command.";
    ReviewCommand "review.command": Kind::Text, Preset::Like(Key::BackendCommand),
        "The reviewer.";
    ReviewArgs "review.args": Kind::List, Preset::Like(Key::BackendArgs),
        "Its arguments.";
    ReviewModel "review.model": Kind::Text, Preset::Like(Key::BackendModel),
        "Its model.";
    ReviewEnv "review.env": Kind::Variables, Preset::Like(Key::BackendEnv),
        "Variables that it gets.";
    ReviewPromptMode "review.prompt_mode": Kind::MaybeChoice(PromptMode::WORDS), Preset::Like(Key::BackendPromptMode),
        "How it receives the prompt.";
    ReviewOutput "review.output": Kind::MaybeChoice(Stream::WORDS), Preset::Like(Key::BackendOutput),
        "What it prints.";
    ReviewTimeout "review.timeout_ms": Kind::Millis { least: 1 }, Preset::Value("300000"),
        "Timeout of a metareview, independent of backend.timeout_ms.";
    ReviewPrompt "review.prompt": Kind::Text, Preset::Nothing("review.prompt_file is read"),
        "Additional instructions for the reviewer.";
    ReviewPromptFile "review.prompt_file": Kind::File, Preset::Value("metareview.md"),
        "A file with them, which need not exist; read if review.prompt is not set.";
    ReviewSandbox "review.sandbox": Kind::Choice(Sandbox::WORDS), Preset::Value("auto"),
        "Whether the kernel keeps the reviewer from changing other files.";

    MemoryBudget "memory.prompt_budget_chars": Kind::Limit, Preset::Value("8000"),
        "Maximum number of characters of memory in a prompt; 0 or less is no limit.";
    HarnessFile "harness.instructions_file": Kind::File, Preset::Value("harness.md"),
        "A file with instructions for every iteration; only harness.md need not exist.";

    ParallelEnabled "parallel.enabled": Kind::Flag, Preset::Value("false"),
        "Whether agents may open waves of parallel branches.";
    ParallelBranches "parallel.max_branches": Kind::Count { least: 1, most: 1_000 }, Preset::Value("3"),
        "Maximum number of branches of a wave.";
    ParallelTimeout "parallel.branch_timeout_ms": Kind::Millis { least: 1 }, Preset::Value("180000"),
        "Timeout of a branch.";
    ParallelIsolation "parallel.isolation": Kind::Choice(Isolation::WORDS), Preset::Value("shared"),
        "Where branches work: in the project, or each in its own git worktree.";

    SlotsReviewEnabled "slots.reviewEnabled": Kind::Flag, Preset::Value("false"),
        "Whether to review the work of a slot.";
    SlotsMaxFixAttempts "slots.reviewMaxFixAttempts": Kind::Count { least: 0, most: MANY }, Preset::Value("5"),
        "Maximum number of fixes after a review.";
    SlotsContractRepair "slots.reviewContractRepair": Kind::Count { least: 0, most: 1_000 }, Preset::Value("0"),
        "How often a reviewer is asked again after an invalid answer.";
    SlotsDeveloperPrompt "slots.developerPromptPath": Kind::File, Preset::Nothing("looked up in .ai_agents/prompts, then in the user's settings, then built in"),
        "A file with the instructions for implementers and fixers.";
    SlotsReviewerPrompt "slots.reviewerPromptPath": Kind::File, Preset::Nothing("looked up in .ai_agents/prompts, then in the user's settings, then built in"),
        "A file with the instructions for reviewers; blank disables reviews.";
    SlotsParallelAgents "slots.parallelAgents": Kind::Count { least: 1, most: 1_000 }, Preset::Value("1"),
        "Number of slots that work in parallel.";
    SlotsIterations "slots.iterations": Kind::Count { least: 0, most: MANY }, Preset::Value("0"),
        "Maximum number of iterations; 0 is until no item is left.";
    SlotsIncludeNew "slots.include_new": Kind::Flag, Preset::Value("false"),
        "Whether a run also takes items that were added after it started.";
    SlotsMaxItems "slots.max_items": Kind::Count { least: 0, most: MANY }, Preset::Value("0"),
        "Maximum number of items of a run; 0 is no limit, or 100 with `slots.include_new`.";
    SlotsSource "slots.source": Kind::Choice(ItemSource::WORDS), Preset::Value("builtin"),
        "Where items come from: the queue of `autoloop tasks`, or beads.";
    SlotsIsolation "slots.isolation": Kind::MaybeChoice(Isolation::WORDS), Preset::Nothing("a worktree for each of several slots, the project for one"),
        "Whether slots work in the project or in their own worktrees.";
    SlotsCommit "slots.commit": Kind::Flag, Preset::Value("true"),
        "Whether passed work of a slot in the project itself is committed; a worktree's work always is.";
    SlotsStopMarker "slots.stopMarker": Kind::Text, Preset::Value("no_beads_available"),
        "The text in an implementer's or fixer's output after which no further iteration starts.";
    SlotsReviewerKind "slots.reviewer.kind": Kind::MaybeChoice(BackendKind::WORDS), Preset::Like(Key::BackendKind),
        "The kind of reviewer; blank: derived from the name of its command.";
    SlotsReviewerCommand "slots.reviewer.command": Kind::Text, Preset::Like(Key::BackendCommand),
        "The reviewer of slots.";
    SlotsReviewerArgs "slots.reviewer.args": Kind::List, Preset::Like(Key::BackendArgs),
        "Its arguments.";
    SlotsReviewerModel "slots.reviewer.model": Kind::Text, Preset::Like(Key::BackendModel),
        "Its model.";
    SlotsReviewerEnv "slots.reviewer.env": Kind::Variables, Preset::Like(Key::BackendEnv),
        "Variables that it gets.";
    SlotsReviewerPromptMode "slots.reviewer.prompt_mode": Kind::MaybeChoice(PromptMode::WORDS), Preset::Like(Key::BackendPromptMode),
        "How it receives the prompt.";
    SlotsReviewerOutput "slots.reviewer.output": Kind::MaybeChoice(Stream::WORDS), Preset::Like(Key::BackendOutput),
        "What it prints.";
    SlotsReviewerTimeout "slots.reviewer.timeout_ms": Kind::Millis { least: 1 }, Preset::Like(Key::BackendTimeout),
        "Timeout of a review.";
    SlotsReviewerGrace "slots.reviewer.grace_ms": Kind::Millis { least: 0 }, Preset::Like(Key::BackendGrace),
        "Time from the request to end until the reviewer is killed.";
    SlotsReviewerLeftovers "slots.reviewer.leftovers": Kind::MaybeChoice(Leftovers::WORDS), Preset::Like(Key::BackendLeftovers),
        "What happens to processes that it leaves behind, without a sandbox.";
    SlotsReviewerOutputCap "slots.reviewer.output_cap": Kind::Bytes, Preset::Like(Key::BackendOutputCap),
        "How much of its output is kept.";
    SlotsBeadsCommand "slots.beads.command": Kind::NeededText, Preset::Value("bd"),
        "The command of beads, or of a compatible program.";

    ExchangeMaxRounds "exchange.max_rounds": Kind::Count { least: 1, most: 3 }, Preset::Value("2"),
        "Maximum number of rounds of a review by message.";

    SquadEffort "squad.effort": Kind::Choice(Effort::WORDS), Preset::Value("medium"),
        "How much of a squad's work is reviewed, and how often it may be revised.";
    SquadMaxLoops "squad.max_loops": Kind::Count { least: 1, most: 1_000 }, Preset::Value("4"),
        "Maximum number of loops that work in parallel.";
    SquadMaxIterations "squad.max_iterations": Kind::Count { least: 1, most: MANY }, Preset::Value("20"),
        "Maximum number of turns of a loop, after which it is stuck.";
    SquadBuilderKind "squad.builder.kind": Kind::MaybeChoice(BackendKind::WORDS), Preset::Like(Key::BackendKind),
        "The kind of builder; blank: derived from the name of its command.";
    SquadBuilderCommand "squad.builder.command": Kind::Text, Preset::Like(Key::BackendCommand),
        "The agent that builds and revises tasks, and resolves conflicts.";
    SquadBuilderArgs "squad.builder.args": Kind::List, Preset::Like(Key::BackendArgs),
        "Its arguments.";
    SquadBuilderModel "squad.builder.model": Kind::Text, Preset::Like(Key::BackendModel),
        "Its model.";
    SquadBuilderEnv "squad.builder.env": Kind::Variables, Preset::Like(Key::BackendEnv),
        "Variables that it gets.";
    SquadBuilderPromptMode "squad.builder.prompt_mode": Kind::MaybeChoice(PromptMode::WORDS), Preset::Like(Key::BackendPromptMode),
        "How it receives the prompt.";
    SquadBuilderOutput "squad.builder.output": Kind::MaybeChoice(Stream::WORDS), Preset::Like(Key::BackendOutput),
        "What it prints.";
    SquadBuilderTimeout "squad.builder.timeout_ms": Kind::Millis { least: 1 }, Preset::Like(Key::BackendTimeout),
        "Timeout of one of its turns.";
    SquadBuilderGrace "squad.builder.grace_ms": Kind::Millis { least: 0 }, Preset::Like(Key::BackendGrace),
        "Time from the request to end until the builder is killed.";
    SquadBuilderLeftovers "squad.builder.leftovers": Kind::MaybeChoice(Leftovers::WORDS), Preset::Like(Key::BackendLeftovers),
        "What happens to processes that it leaves behind.";
    SquadBuilderOutputCap "squad.builder.output_cap": Kind::Bytes, Preset::Like(Key::BackendOutputCap),
        "How much of its output is kept.";
    SquadReviewerKind "squad.reviewer.kind": Kind::MaybeChoice(BackendKind::WORDS), Preset::Like(Key::BackendKind),
        "The kind of reviewer; blank: derived from the name of its command.";
    SquadReviewerCommand "squad.reviewer.command": Kind::Text, Preset::Like(Key::BackendCommand),
        "The agent that reviews.";
    SquadReviewerArgs "squad.reviewer.args": Kind::List, Preset::Like(Key::BackendArgs),
        "Its arguments.";
    SquadReviewerModel "squad.reviewer.model": Kind::Text, Preset::Like(Key::BackendModel),
        "Its model.";
    SquadReviewerEnv "squad.reviewer.env": Kind::Variables, Preset::Like(Key::BackendEnv),
        "Variables that it gets.";
    SquadReviewerPromptMode "squad.reviewer.prompt_mode": Kind::MaybeChoice(PromptMode::WORDS), Preset::Like(Key::BackendPromptMode),
        "How it receives the prompt.";
    SquadReviewerOutput "squad.reviewer.output": Kind::MaybeChoice(Stream::WORDS), Preset::Like(Key::BackendOutput),
        "What it prints.";
    SquadReviewerTimeout "squad.reviewer.timeout_ms": Kind::Millis { least: 1 }, Preset::Like(Key::BackendTimeout),
        "Timeout of a review.";
    SquadReviewerGrace "squad.reviewer.grace_ms": Kind::Millis { least: 0 }, Preset::Like(Key::BackendGrace),
        "Time from the request to end until the reviewer is killed.";
    SquadReviewerLeftovers "squad.reviewer.leftovers": Kind::MaybeChoice(Leftovers::WORDS), Preset::Like(Key::BackendLeftovers),
        "What happens to processes that it leaves behind, without a sandbox.";
    SquadReviewerOutputCap "squad.reviewer.output_cap": Kind::Bytes, Preset::Like(Key::BackendOutputCap),
        "How much of its output is kept.";
    SquadPlannerKind "squad.planner.kind": Kind::MaybeChoice(BackendKind::WORDS), Preset::Like(Key::BackendKind),
        "The kind of planner; blank: derived from the name of its command.";
    SquadPlannerCommand "squad.planner.command": Kind::Text, Preset::Like(Key::BackendCommand),
        "The agent that writes the tasks and the plan.";
    SquadPlannerArgs "squad.planner.args": Kind::List, Preset::Like(Key::BackendArgs),
        "Its arguments.";
    SquadPlannerModel "squad.planner.model": Kind::Text, Preset::Like(Key::BackendModel),
        "Its model.";
    SquadPlannerEnv "squad.planner.env": Kind::Variables, Preset::Like(Key::BackendEnv),
        "Variables that it gets.";
    SquadPlannerPromptMode "squad.planner.prompt_mode": Kind::MaybeChoice(PromptMode::WORDS), Preset::Like(Key::BackendPromptMode),
        "How it receives the prompt.";
    SquadPlannerOutput "squad.planner.output": Kind::MaybeChoice(Stream::WORDS), Preset::Like(Key::BackendOutput),
        "What it prints.";
    SquadPlannerTimeout "squad.planner.timeout_ms": Kind::Millis { least: 1 }, Preset::Like(Key::BackendTimeout),
        "Timeout of one of its turns.";
    SquadPlannerGrace "squad.planner.grace_ms": Kind::Millis { least: 0 }, Preset::Like(Key::BackendGrace),
        "Time from the request to end until the planner is killed.";
    SquadPlannerLeftovers "squad.planner.leftovers": Kind::MaybeChoice(Leftovers::WORDS), Preset::Like(Key::BackendLeftovers),
        "What happens to processes that it leaves behind.";
    SquadPlannerOutputCap "squad.planner.output_cap": Kind::Bytes, Preset::Like(Key::BackendOutputCap),
        "How much of its output is kept.";

    StateDir "core.state_dir": Kind::NeededPath, Preset::Value(".autoloop"),
        "The directory of all files that runs write.";
    JournalFile "core.journal_file": Kind::File, Preset::Nothing("journal.jsonl in core.state_dir"),
        "The journal.";
    MemoryFile "core.memory_file": Kind::File, Preset::Nothing("memory.jsonl in core.state_dir"),
        "The memory.";
    RunIdFormat "core.run_id_format": Kind::Choice(RunIdFormat::WORDS), Preset::Value("human"),
        "The format of run ids.";
    LogLevel "core.log_level": Kind::Choice(LogLevel::WORDS), Preset::Value("info"),
        "How much is logged.";

    JournalSync "journal.sync": Kind::Choice(SyncPolicy::WORDS), Preset::Value("always"),
        "When records are synced to the disk.";
    JournalLockTimeout "journal.lock_timeout": Kind::Time, Preset::Value("30s"),
        "How long a writer waits for another one; zero is one attempt.";
}

impl Key {
    /// Finds a key by its name. Keys of `slots` in camel case may also be written outside of their table, or
    /// in it with underscores. Some limits have the names of another version of this tool too.
    pub fn named(name: &str) -> Option<Key> {
        let name = match name {
            "event_loop.max_cost_usd" => "limits.max_cost_usd",
            "event_loop.max_runtime" => "limits.max_runtime",
            "event_loop.max_iteration_runtime" => "limits.iteration.max_runtime",
            name => name,
        };
        let exact = |name: &str| Key::ALL.iter().copied().find(|key| key.name() == name);
        exact(name).or_else(|| {
            let in_capitals = match name.strip_prefix("slots.") {
                Some(name) => capitals(name),
                None => name.to_owned(),
            };
            exact(&format!("slots.{in_capitals}")).filter(|key| key.name().contains(is_capital))
        })
    }

    pub fn table(self) -> &'static str {
        self.name().split('.').next().unwrap_or_default()
    }

    /// Whether it is in this table or in one of its subtables.
    pub(crate) fn is_in(self, table: &str) -> bool {
        self.name().strip_prefix(table).is_some_and(|rest| rest.starts_with('.'))
    }
}

fn is_capital(letter: char) -> bool {
    letter.is_ascii_uppercase()
}

/// `like_this` as `likeThis`.
fn capitals(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut name, word| {
        let (first, rest) = word.split_at_checked(1).unwrap_or_default();
        name.push_str(&first.to_ascii_uppercase());
        name.push_str(rest);
        name
    })
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_key_has_one_name_in_one_table() {
        let names: HashSet<_> = Key::ALL.iter().map(|key| key.name()).collect();
        assert_eq!(names.len(), Key::ALL.len());
        for key in Key::ALL {
            assert_eq!(Key::named(key.name()), Some(*key));
            assert!(key.name().split('.').count() >= 2, "{key}");
            assert!(key.about().ends_with('.'), "{key} is described by a sentence");
            // The table index of settings.
            assert_eq!(Key::ALL[*key as usize], *key);
        }
        assert_eq!(Key::named("backend"), None);
        assert_eq!(Key::BackendArgs.table(), "backend");
        assert!(Key::SlotsReviewerArgs.is_in("slots.reviewer"));
        assert!(!Key::SlotsReviewerArgs.is_in("slots.review"));
    }

    #[test]
    fn keys_of_slots_have_more_than_one_spelling() {
        for name in ["slots.reviewEnabled", "slots.review_enabled", "reviewEnabled"] {
            assert_eq!(Key::named(name), Some(Key::SlotsReviewEnabled), "{name}");
        }
        assert_eq!(Key::named("reviewerPromptPath"), Some(Key::SlotsReviewerPrompt));
        assert_eq!(Key::named("slots.review_max_fix_attempts"), Some(Key::SlotsMaxFixAttempts));
        for name in ["review_enabled", "iterations", "slots.Source", "slots._", "slots.é_ü", ""] {
            assert_eq!(Key::named(name), None, "{name}");
        }
    }
}
