//! Every setting there is: its name, what it may be, what it is by itself, and what it is for.

use super::enums::{
    BackendKind, Isolation, ItemSource, Leftovers, LogLevel, PromptMode, Sandbox, SyncPolicy,
};
use crate::agents::Stream;
use crate::run_id::RunIdFormat;

/// What a setting may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text. A blank one is the same as none.
    Text,
    /// A text that cannot be blank.
    NeededText,
    /// The path of a file, relative to the directory of the loop. A blank one is the same as none.
    File,
    /// A path that cannot be blank, relative to the project.
    NeededPath,
    /// The name of an event that an agent can emit.
    Event,
    /// Several of them.
    Events,
    /// Several texts.
    List,
    /// Yes or no.
    Flag,
    /// A whole number.
    Count {
        /// The smallest.
        least: i64,
        /// The largest.
        most: i64,
    },
    /// A whole number, where zero and everything below mean that there is no limit.
    Limit,
    /// A span of time, shown in milliseconds.
    Millis {
        /// The shortest, in milliseconds.
        least: u64,
    },
    /// A span of time, shown with its units.
    Time,
    /// A number of bytes.
    Bytes,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// One of these words, or none.
    MaybeChoice(&'static [&'static str]),
}

/// What a setting is when nobody sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// This, written as in `--set`.
    Value(&'static str),
    /// Whatever another key says.
    Like(Key),
    /// Nothing; and this is what happens then.
    Nothing(&'static str),
}

/// Makes the enum of keys and their table out of one list.
macro_rules! keys {
    ($($variant:ident $name:literal: $kind:expr, $preset:expr, $about:literal;)+) => {
        /// A setting.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Key { $(#[doc = $about] $variant,)+ }

        impl Key {
            /// All of them, in the order in which they are shown.
            pub const ALL: &'static [Key] = &[$(Key::$variant),+];

            /// The name with its table, as in `backend.command`.
            pub fn name(self) -> &'static str {
                match self { $(Key::$variant => $name,)+ }
            }

            /// What it may be.
            pub fn kind(self) -> Kind {
                match self { $(Key::$variant => $kind,)+ }
            }

            /// What it is when nobody sets it.
            pub fn preset(self) -> Preset {
                match self { $(Key::$variant => $preset,)+ }
            }

            /// What it is for, in one line.
            pub fn about(self) -> &'static str {
                match self { $(Key::$variant => $about,)+ }
            }
        }
    };
}

/// More turns, branches or reviews than this were never meant.
const MANY: i64 = 1_000_000;

keys! {
    MaxIterations "event_loop.max_iterations": Kind::Count { least: 1, most: MANY }, Preset::Value("3"),
        "The most iterations of a run.";
    CompletionEvent "event_loop.completion_event": Kind::Event, Preset::Value("task.complete"),
        "The event that completes the run, where topology.toml has no `completion`.";
    CompletionPromise "event_loop.completion_promise": Kind::Text, Preset::Value("LOOP_COMPLETE"),
        "The text in an agent's output that completes the run, in a turn without an accepted or refused event; a blank one never does.";
    RequiredEvents "event_loop.required_events": Kind::Events, Preset::Value("[]"),
        "Events that must all have been seen before the run can complete.";
    Prompt "event_loop.prompt": Kind::Text, Preset::Nothing("event_loop.prompt_file is looked at"),
        "What the run is for, where the command line does not say.";
    PromptFile "event_loop.prompt_file": Kind::File, Preset::Nothing("the command line says what to do"),
        "A file that says what the run is for; read when event_loop.prompt is not set.";

    BackendKind "backend.kind": Kind::MaybeChoice(BackendKind::WORDS), Preset::Nothing("told by the name of the command"),
        "What sort of agent it is.";
    BackendCommand "backend.command": Kind::NeededText, Preset::Value("claude"),
        "The agent: an executable, found in PATH or by its path; never a shell command.";
    BackendArgs "backend.args": Kind::List, Preset::Value("[]"),
        "Arguments for it, in front of the prompt.";
    BackendPromptMode "backend.prompt_mode": Kind::Choice(PromptMode::WORDS), Preset::Value("arg"),
        "How the prompt reaches it: as an argument, on standard input or in a file.";
    BackendOutput "backend.output": Kind::MaybeChoice(Stream::WORDS), Preset::Nothing("told by the kind"),
        "What it prints: its answer, or the stream of a client that the answer is taken out of.";
    BackendTimeout "backend.timeout_ms": Kind::Millis { least: 1 }, Preset::Value("1800000"),
        "How long one iteration may take.";
    BackendGrace "backend.grace_ms": Kind::Millis { least: 0 }, Preset::Value("5000"),
        "How long an agent that was told to end has until it is killed.";
    BackendLeftovers "backend.leftovers": Kind::Choice(Leftovers::WORDS), Preset::Value("kill"),
        "What becomes of processes that the agent leaves behind.";
    BackendOutputCap "backend.output_cap": Kind::Bytes, Preset::Value("256MB"),
        "How much of an agent's output is kept; what comes after is read and dropped.";

    ReviewEnabled "review.enabled": Kind::Flag, Preset::Value("true"),
        "Whether there are metareviews.";
    ReviewEvery "review.every_iterations": Kind::Count { least: 0, most: MANY }, Preset::Value("0"),
        "Iterations from one metareview to the next; 0 is as many as there are roles, or 1 without roles.";
    ReviewKind "review.kind": Kind::MaybeChoice(BackendKind::WORDS), Preset::Like(Key::BackendKind),
        "What sort of agent the reviewer is; blank: told by the name of its command.";
    ReviewCommand "review.command": Kind::Text, Preset::Like(Key::BackendCommand),
        "The reviewer.";
    ReviewArgs "review.args": Kind::List, Preset::Like(Key::BackendArgs),
        "Arguments for it.";
    ReviewPromptMode "review.prompt_mode": Kind::MaybeChoice(PromptMode::WORDS), Preset::Like(Key::BackendPromptMode),
        "How the prompt reaches it.";
    ReviewOutput "review.output": Kind::MaybeChoice(Stream::WORDS), Preset::Like(Key::BackendOutput),
        "What it prints.";
    ReviewTimeout "review.timeout_ms": Kind::Millis { least: 1 }, Preset::Value("300000"),
        "How long a metareview may take, whatever backend.timeout_ms says.";
    ReviewPrompt "review.prompt": Kind::Text, Preset::Nothing("review.prompt_file is looked at"),
        "More instructions for the reviewer.";
    ReviewPromptFile "review.prompt_file": Kind::File, Preset::Value("metareview.md"),
        "A file with them, which need not exist; read when review.prompt is not set.";
    ReviewSandbox "review.sandbox": Kind::Choice(Sandbox::WORDS), Preset::Value("auto"),
        "Whether the kernel keeps the reviewer from changing what it may not.";

    MemoryBudget "memory.prompt_budget_chars": Kind::Limit, Preset::Value("8000"),
        "How many characters of memory go into a prompt; 0 or less is no limit.";
    HarnessFile "harness.instructions_file": Kind::File, Preset::Value("harness.md"),
        "A file with instructions for every iteration; only harness.md need not exist.";

    ParallelEnabled "parallel.enabled": Kind::Flag, Preset::Value("false"),
        "Whether agents may open waves of parallel branches.";
    ParallelBranches "parallel.max_branches": Kind::Count { least: 1, most: 1_000 }, Preset::Value("3"),
        "The most branches of a wave.";
    ParallelTimeout "parallel.branch_timeout_ms": Kind::Millis { least: 1 }, Preset::Value("180000"),
        "How long a branch may take.";
    ParallelIsolation "parallel.isolation": Kind::Choice(Isolation::WORDS), Preset::Value("shared"),
        "Where branches work: in the tree of the project, or each in a git worktree of its own.";

    SlotsReviewEnabled "slots.reviewEnabled": Kind::Flag, Preset::Value("false"),
        "Whether the work of a slot is reviewed.";
    SlotsMaxFixAttempts "slots.reviewMaxFixAttempts": Kind::Count { least: 0, most: MANY }, Preset::Value("5"),
        "How often work may be fixed after a review.";
    SlotsContractRepair "slots.reviewContractRepair": Kind::Count { least: 0, most: 1_000 }, Preset::Value("0"),
        "How often a reviewer is asked again whose answer broke the contract.";
    SlotsDeveloperPrompt "slots.developerPromptPath": Kind::File, Preset::Nothing("looked for in .ai_agents/prompts, then in the person's settings, then built in"),
        "A file that tells implementers and fixers what to do.";
    SlotsReviewerPrompt "slots.reviewerPromptPath": Kind::File, Preset::Nothing("looked for in .ai_agents/prompts, then in the person's settings, then built in"),
        "A file that tells reviewers what to do; a blank one means that there are no reviews.";
    SlotsParallelAgents "slots.parallelAgents": Kind::Count { least: 1, most: 1_000 }, Preset::Value("1"),
        "How many slots work at once.";
    SlotsIterations "slots.iterations": Kind::Count { least: 0, most: MANY }, Preset::Value("0"),
        "The most iterations; 0 is until nothing is left to take.";
    SlotsIncludeNew "slots.include_new": Kind::Flag, Preset::Value("false"),
        "Whether a run also takes items that were added after it began.";
    SlotsMaxItems "slots.max_items": Kind::Count { least: 0, most: MANY }, Preset::Value("0"),
        "The most items that a run takes; 0 is no limit, or 100 with `slots.include_new`.";
    SlotsSource "slots.source": Kind::Choice(ItemSource::WORDS), Preset::Value("builtin"),
        "Where items come from: the queue of `autoloop tasks`, or beads.";
    SlotsIsolation "slots.isolation": Kind::MaybeChoice(Isolation::WORDS), Preset::Nothing("a worktree for each of several slots, the project for one"),
        "Whether slots work in the project or in working trees of their own.";
    SlotsCommit "slots.commit": Kind::Flag, Preset::Value("true"),
        "Whether passed work of a slot in the project itself is committed; a worktree's work always is.";
    SlotsStopMarker "slots.stopMarker": Kind::Text, Preset::Value("no_beads_available"),
        "The text in an implementer's or fixer's output after which no further iteration begins.";
    SlotsReviewerKind "slots.reviewer.kind": Kind::MaybeChoice(BackendKind::WORDS), Preset::Like(Key::BackendKind),
        "What sort of agent reviews; blank: told by the name of its command.";
    SlotsReviewerCommand "slots.reviewer.command": Kind::Text, Preset::Like(Key::BackendCommand),
        "The reviewer of slots.";
    SlotsReviewerArgs "slots.reviewer.args": Kind::List, Preset::Like(Key::BackendArgs),
        "Arguments for it.";
    SlotsReviewerPromptMode "slots.reviewer.prompt_mode": Kind::MaybeChoice(PromptMode::WORDS), Preset::Like(Key::BackendPromptMode),
        "How the prompt reaches it.";
    SlotsReviewerOutput "slots.reviewer.output": Kind::MaybeChoice(Stream::WORDS), Preset::Like(Key::BackendOutput),
        "What it prints.";
    SlotsReviewerTimeout "slots.reviewer.timeout_ms": Kind::Millis { least: 1 }, Preset::Like(Key::BackendTimeout),
        "How long a review may take.";
    SlotsReviewerGrace "slots.reviewer.grace_ms": Kind::Millis { least: 0 }, Preset::Like(Key::BackendGrace),
        "How long a reviewer that was told to end has until it is killed.";
    SlotsReviewerLeftovers "slots.reviewer.leftovers": Kind::MaybeChoice(Leftovers::WORDS), Preset::Like(Key::BackendLeftovers),
        "What becomes of processes that it leaves behind, where nothing binds it.";
    SlotsReviewerOutputCap "slots.reviewer.output_cap": Kind::Bytes, Preset::Like(Key::BackendOutputCap),
        "How much of its output is kept.";
    SlotsBeadsCommand "slots.beads.command": Kind::NeededText, Preset::Value("bd"),
        "The command of beads, or of a program that is used like it.";

    StateDir "core.state_dir": Kind::NeededPath, Preset::Value(".autoloop"),
        "Where everything is kept that a run leaves behind.";
    JournalFile "core.journal_file": Kind::File, Preset::Nothing("journal.jsonl in core.state_dir"),
        "The journal.";
    MemoryFile "core.memory_file": Kind::File, Preset::Nothing("memory.jsonl in core.state_dir"),
        "The memory.";
    RunIdFormat "core.run_id_format": Kind::Choice(RunIdFormat::WORDS), Preset::Value("human"),
        "How runs are named.";
    LogLevel "core.log_level": Kind::Choice(LogLevel::WORDS), Preset::Value("info"),
        "How much is logged.";

    JournalSync "journal.sync": Kind::Choice(SyncPolicy::WORDS), Preset::Value("always"),
        "When records are forced to the disk.";
    JournalLockTimeout "journal.lock_timeout": Kind::Time, Preset::Value("30s"),
        "How long a writer waits for another one; zero is one try.";
}

impl Key {
    /// The key with this name. Those of slots that are written in one word with capitals may stand
    /// outside of their table, and may be written in it like all other keys, with underscores.
    pub fn named(name: &str) -> Option<Key> {
        let exact = |name: &str| Key::ALL.iter().copied().find(|key| key.name() == name);
        exact(name).or_else(|| {
            let in_capitals = match name.strip_prefix("slots.") {
                Some(name) => capitals(name),
                None => name.to_owned(),
            };
            exact(&format!("slots.{in_capitals}")).filter(|key| key.name().contains(is_capital))
        })
    }

    /// The table that it stands in, as in `backend`.
    pub fn table(self) -> &'static str {
        self.name().split('.').next().unwrap_or_default()
    }

    /// Whether it stands in a table of this name, or in one inside of it.
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
