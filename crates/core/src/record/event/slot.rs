//! Slots: items implemented, reviewed, fixed and brought back.

use super::table::system_events;
use super::wire::ExitCode;
use crate::config::{Isolation, ItemSource};
use crate::merge::MergeOutcome;
use crate::record::{Changes, HeldBy, Phase, Picked, SlotOutcome, SlotsEnd, Text};
use crate::review::Verdict;
use crate::wire_enum::Word;

system_events! {
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
        source: Word<ItemSource>,
        /// Where slots work: `shared` or `worktree`.
        isolation: Word<Isolation>,
        /// The text in an agent's output after which no further iteration begins.
        stop_marker: String,
        /// What the queue held when the run began, in the terms of its source: how many tasks the built-in queue
        /// had, or the time. Items beyond it are new.
        queue_mark: Option<String>,
    }

    /// The prompts that a run uses from here on, whatever their files say later.
    SlotRunPrompts = "slot.run.prompts" {
        /// What implementers and fixers are told, as far as their prompts have it.
        developer_prompt: String,
        /// What reviewers are told; absent where there is no reviewer prompt.
        reviewer_prompt: Option<String>,
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
        phase: Word<Phase>,
        /// Which review, counted from 0, or which fix, counted from 1; 0 otherwise.
        attempt: u64,
    }

    /// The implementer of a slot ended.
    SlotImplement<'a> = "slot.implement" {
        /// Which slot.
        slot: u64,
        /// The item.
        item_id: String,
        /// The status of the agent.
        exit_code: ExitCode,
        /// Whether it was ended because its time was up.
        timed_out: bool,
        /// How long it took.
        elapsed_ms: u64,
        /// The item that the agent says to have worked on; empty when it does not say.
        picked: Picked,
        /// Why it failed, where more is known than its status.
        reason: Option<String>,
        /// Said where its output holds the stop marker.
        stop_marker: Option<bool>,
        /// What changed since the slot began: `empty`, `some` or `unknown`.
        changes: Option<Word<Changes>>,
        /// What it printed, shortened.
        output: Option<Text<'a>>,
    }

    /// A review of a slot ended.
    SlotReview<'a> = "slot.review" {
        /// Which slot.
        slot: u64,
        /// The item.
        item_id: String,
        /// Which review, counted from 0.
        attempt: u64,
        /// `pass`, `drift`, `violation` or `failed`.
        verdict: Word<Verdict>,
        /// What the reviewer says about it.
        follow_up_prompt: String,
        /// Why, where there is no verdict of the reviewer.
        reason: String,
        /// How long it took.
        elapsed_ms: u64,
        /// The status of the reviewer.
        exit_code: Option<ExitCode>,
        /// What kept it from changing the tree: `overlay`, `landlock`, `snapshot` or `nothing`.
        enforcement: Option<Word<HeldBy>>,
        /// What was changed, as the reviewer was told: `empty`, `some` or `unknown`. A `pass` of an empty change
        /// set means that no change was needed.
        changes: Option<Word<Changes>>,
        /// The git tree object that was reviewed; nothing else is merged.
        tree: Option<String>,
        /// What it printed, shortened.
        output: Option<Text<'a>>,
    }

    /// A fixer of a slot ended.
    SlotFix<'a> = "slot.fix" {
        /// Which slot.
        slot: u64,
        /// The item.
        item_id: String,
        /// Which fix, counted from 1.
        attempt: u64,
        /// The status of the agent.
        exit_code: ExitCode,
        /// Whether it was ended because its time was up.
        timed_out: bool,
        /// How long it took.
        elapsed_ms: u64,
        /// Why it failed, where more is known than its status.
        reason: Option<String>,
        /// Said where its output holds the stop marker.
        stop_marker: Option<bool>,
        /// What it printed, shortened.
        output: Option<Text<'a>>,
    }

    /// What a slot made was brought back into the project, or could not be.
    SlotMerge = "slot.merge" {
        /// Which slot.
        slot: u64,
        /// The item.
        item_id: String,
        /// What became of it, in one word.
        outcome: Word<MergeOutcome>,
        /// The commit that holds the work.
        commit: String,
        /// The git tree object that was merged.
        tree: Option<String>,
        /// The files that stood in the way, separated by commas.
        files: String,
        /// More about why not.
        detail: Option<String>,
    }

    /// A slot ended.
    SlotFinish = "slot.finish" {
        /// Which slot.
        slot: u64,
        /// The item; empty when there was none.
        item_id: String,
        /// `passed`, `drift`, `violation`, `failed` or `no_item`.
        outcome: Word<SlotOutcome>,
        /// Why, in a sentence.
        reason: String,
    }

    /// All slots of an iteration ended.
    SlotsIterationFinish = "slots.iteration.finish" {
        /// How many of its items passed.
        passed: u64,
        /// How many did not. An iteration with one of these has failed.
        failed: u64,
        /// The items with the outcomes of their slots, as `t-1=passed,t-2=drift`.
        items: String,
    }

    /// Work on a queue ended.
    SlotRunFinish = "slot.run.finish" {
        /// `iterations`, `stop_marker`, `no_items` or `max_items`.
        reason: Word<SlotsEnd>,
        /// How many items were taken.
        taken: u64,
        /// How many of them passed.
        passed: u64,
    }
}
