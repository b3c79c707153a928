//! The prompt of a metareview.

use std::fmt::Write;

use super::LoopContext;
use super::section::{
    DATA, command, inspect_hints, name, or_empty, section, signals, topology, whole,
};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewOrder {
    pub context: LoopContext,
    /// The text of `review.prompt` or of its file; may be empty.
    pub instructions: String,
}

pub fn render(order: &ReviewOrder) -> String {
    let context = &order.context;
    let budgets = &context.budgets;
    let mut out = String::from("You are the metareview meta-reviewer for this loop.\n");
    out.push_str("Your job is to improve the hygiene of the loop, not to finish the task.\n\n");
    section(&mut out, "What you may edit:", &permissions(context));
    section(&mut out, "Constraints:", &constraints(context));
    section(
        &mut out,
        "Additional metareview instructions:",
        &whole(&order.instructions, budgets.instructions),
    );
    signals(&mut out, context);
    section(&mut out, "Loop memory:", or_empty(&context.memory.text));
    section(&mut out, "Review:", &trigger(context));
    section(&mut out, "Topology (advisory):", &topology(&context.routing, budgets));
    section(&mut out, "Current scratchpad:", or_empty(&context.scratchpad));
    section(&mut out, "Useful commands:", &inspect_hints(context));
    out.push_str(
        "If no improvements are needed, store a short learning explaining why and exit cleanly.\n",
    );
    out
}

fn permissions(context: &LoopContext) -> String {
    let state = name(&context.tools.state_dir, &context.budgets);
    let at = match name(&context.tools.loop_dir, &context.budgets) {
        own if own.is_empty() => own,
        preset => format!("{preset}/"),
    };
    format!(
        "You may make bounded hygiene edits to runtime-facing loop files, and to nothing else: \
         `{at}autoloops.toml`, `{at}topology.toml`, `{at}harness.md`, `{at}metareview.md`, `{at}roles/*.md`, \
         `{state}/context.md`, `{state}/plan.md`, `{state}/progress.md`, `{state}/logs/`, and `{state}/docs/*.md`.\n\
         They are read again before the next iteration. In `autoloops.toml` you may change `event_loop.prompt`, `event_loop.prompt_file` and `memory.*`, \
         lower `event_loop.max_iterations` and add to `event_loop.required_events`; every other key, and the `backend_*` keys of roles in `topology.toml`, are restored. \
         An `autoloops.toml` that did not exist when the run began does not count."
    )
}

fn constraints(context: &LoopContext) -> String {
    let state = name(&context.tools.state_dir, &context.budgets);
    let bin = command(&context.tools.bin, &context.budgets);
    let mut out = format!(
        "- Do not edit app/product source code, tests, package manifests, generated `{state}/` state, or journal history during review. Such edits are restored and recorded.\n"
    );
    out.push_str("- The scratchpad is projected from journal history and cannot be edited directly; tighten prompts, trim working files, or archive stale context instead.\n");
    out.push_str("- Do not emit normal loop events during review.\n");
    let _ = writeln!(
        out,
        "- Use `{bin} memory add ...` (`autoloop memory add learning \"…\"`) for short durable lessons or operator notes that should persist across turns."
    );
    out.push_str(DATA);
    out
}

fn trigger(context: &LoopContext) -> String {
    format!(
        "Run: {}\nReview trigger iteration: {}\nLatest routing event: {}\n",
        name(&context.run, &context.budgets),
        context.iteration,
        name(&context.routing.recent_event, &context.budgets)
    )
}

#[cfg(test)]
mod tests;
