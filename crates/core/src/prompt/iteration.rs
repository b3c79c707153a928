//! The prompt of an iteration.

use std::fmt::Write;

use super::section::DATA;
use super::section::{
    command, exact, inspect_hints, name, names, or_empty, section, signals, topology, whole,
};
use super::wave::{OwnTree, offer, own_tree, results};
use super::{LoopContext, chain};
use crate::plan::{Completion, ParallelPlan};
use crate::run::Returned;
use crate::wave::Wave;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IterationOrder {
    pub context: LoopContext,
    pub max_iterations: u64,
    pub objective: String,
    /// The output of the earlier steps of the chain, if the run is a step of one.
    pub handoff: String,
    pub harness_instructions: String,
    pub completion: Completion,
    /// `None` if waves are disabled.
    pub parallel: Option<ParallelPlan>,
    pub own_tree: Option<OwnTree>,
    pub joined: Option<Wave>,
    /// How many chains may still be started; `None` if chains are disabled.
    pub chains: Option<u64>,
    pub returned: Vec<Returned>,
}

const INTRO: &str = "You are one turn of an autoloop run. Work on the objective in an acting role, publish the result as an event, then end your turn. The next turn knows only the files, the journal and the memory.\n\n";

pub fn render(order: &IterationOrder) -> String {
    let context = &order.context;
    let budgets = &context.budgets;
    let bin = command(&context.tools.bin, budgets);
    let mut out = INTRO.to_owned();
    section(
        &mut out,
        "Live harness instructions:",
        &whole(&order.harness_instructions, budgets.instructions),
    );
    signals(&mut out, context);
    section(&mut out, "Objective:", &whole(&order.objective, budgets.objective));
    section(
        &mut out,
        "Handoff (this run is a step of a chain):",
        &whole(&order.handoff, budgets.handoff),
    );
    section(&mut out, "Loop memory:", or_empty(&context.memory.text));
    section(&mut out, "Topology (advisory):", &topology(&context.routing, budgets));
    if let Some(parallel) = &order.parallel {
        section(&mut out, "Structured parallelism:", &offer(&bin, parallel));
    }
    if let Some(tree) = &order.own_tree {
        section(&mut out, "Your worktree:", &own_tree(tree));
    }
    if let Some(most) = order.chains {
        section(&mut out, "Chains:", &chain::offer(&bin, most));
    }
    if let Some(wave) = &order.joined {
        section(&mut out, "Results of the branches:", &results(wave, budgets.branches));
    }
    section(&mut out, "Results of the chains:", &chain::left(&order.returned, budgets.chains));
    section(
        &mut out,
        &format!("Iteration: {}/{}", context.iteration, order.max_iterations),
        &state(order),
    );
    section(&mut out, "Current scratchpad:", or_empty(&context.scratchpad));
    section(&mut out, "Tools:", &tools(order));
    section(&mut out, "Protocol:", &protocol(order));
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn state(order: &IterationOrder) -> String {
    let LoopContext { run, tools, budgets, .. } = &order.context;
    let Completion { event, promise, required } = &order.completion;
    let mut out = format!("Run: {}\n", name(run, budgets));
    if !event.is_empty() {
        let _ = writeln!(out, "Completion event: {}", name(event, budgets));
    }
    if let Some(promise) = promise {
        let _ = writeln!(out, "Completion promise: {}", exact(promise, budgets));
    }
    let _ = writeln!(out, "Required events: {}", names(required, "(none)", budgets));
    let _ = writeln!(out, "State directory: {}", name(&tools.state_dir, budgets));
    let _ = writeln!(out, "Event tool: {}", name(&tools.bin, budgets));
    out
}

fn tools(order: &IterationOrder) -> String {
    let LoopContext { tools, routing, budgets, .. } = &order.context;
    let bin = command(&tools.bin, budgets);
    // An example that works: an exact event that may come next, else the one that completes.
    let is_exact = |event: &&String| !event.starts_with('/');
    let example = routing.route.events.iter().find(is_exact).unwrap_or(&order.completion.event);
    let example = match name(example, budgets) {
        none if none.is_empty() => "work.done".to_owned(),
        event => event,
    };
    format!(
        "The tool is also in $AUTOLOOP_BIN. Publish an event, with a short summary:\n\
         - `{bin} emit {example} \"what was done, in one sentence\"`\n\
         Record issues and slices (always accepted, never routed):\n\
         - `{bin} emit issue.discovered \"id=issue-1; summary=what is wrong; disposition=open; owner=builder;\"`\n\
         Store what later turns should know:\n\
         - `{bin} memory add learning \"a short durable lesson\"`\n\
         - `{bin} memory add preference <category> \"what to do\"`\n\
         - `{bin} memory find <words>` and `{bin} memory remove <id> \"why\"`\n\
         Inspect the run:\n{}",
        inspect_hints(&order.context)
    )
}

fn protocol(order: &IterationOrder) -> String {
    let LoopContext { routing, budgets, .. } = &order.context;
    let Completion { event, promise, required } = &order.completion;
    let mut out = match routing.route.events.as_slice() {
        [] => "- Emit one event with the result of this turn; any event of your own is accepted.\n"
            .to_owned(),
        events => format!(
            "- Emit one of these events before you end your turn: {}. Any other is refused with exit code 3.\n",
            names(events, "", budgets)
        ),
    };
    out.push_str(DATA);
    let after = match required.as_slice() {
        [] => String::new(),
        required => format!(", once these have been seen: {}", names(required, "", budgets)),
    };
    if !event.is_empty() {
        let event = name(event, budgets);
        let _ = writeln!(out, "- The run completes with the event `{event}`{after}.");
    }
    if promise.is_some() {
        let _ = writeln!(
            out,
            "- Fallback, only if you cannot run the event tool: when the objective is met, print the completion promise instead of emitting an event. It counts only in a turn without an emitted or refused event{after}."
        );
    }
    out
}

#[cfg(test)]
mod tests;
