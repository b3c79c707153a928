//! What a person sees of a chain at its end.

use std::path::Path;

use autoloop_core::chain::{Chain, ChainStep, DEEPEST, Tree};
use autoloop_core::coordinator::{self, Holder, Status};
use autoloop_core::format::json_text;
use autoloop_core::wire_enum::Word;
use autoloop_runtime::journal::Journal;
use autoloop_runtime::process::Interrupts;
use autoloop_runtime::runs::chains;
use serde::Serialize;

use crate::commands::resume;
use crate::failure::{Failure, Kind};
use crate::terminal;

/// How much is told, and in which form.
#[derive(Clone, Copy, Debug)]
pub(in crate::commands) struct Manner {
    /// Whether more is told while it goes on.
    pub(in crate::commands) verbose: bool,
    /// Whether the end is told as JSON.
    pub(in crate::commands) json: bool,
}

/// Says how a chain ended.
pub(super) fn conclude(
    chain: &Chain,
    journal: &dyn Journal,
    manner: Manner,
) -> Result<(), Failure> {
    let text = match manner.json {
        true => json_text(&Facts::of(chain, Tree::new(&chains(journal)?, &Chain::status), 0)),
        false => format!(
            "chain {}: {} ({}) after {} of {} steps\n",
            chain.id,
            status(chain),
            chain.outcome.as_ref().map_or("no end", Word::as_str),
            chain.ended(),
            chain.presets().len()
        ),
    };
    Ok(terminal::print(&text)?)
}

/// How a chain is that no process carries out any more.
fn status(chain: &Chain) -> Status {
    chain.status().with_holder(Holder::None)
}

/// A chain with those that its steps asked for, no deeper than chains can be.
/// What other programs read of a chain.
#[derive(Serialize)]
struct Facts<'a> {
    chain: &'a str,
    name: Option<&'a str>,
    status: &'static str,
    outcome: Option<&'a str>,
    steps: Vec<StepFacts<'a>>,
}

#[derive(Serialize)]
struct StepFacts<'a> {
    step: u64,
    preset: &'a str,
    run: Option<&'a str>,
    stop_reason: Option<&'a str>,
    detail: Option<&'a str>,
    chains: Vec<Facts<'a>>,
}

impl<'a> Facts<'a> {
    fn of(chain: &'a Chain, tree: Tree<'a>, depth: usize) -> Facts<'a> {
        let steps = chain.steps.iter().map(|step| {
            let run = step.run.as_deref();
            let below = run.filter(|_| depth < DEEPEST).into_iter().flat_map(|run| tree.below(run));
            StepFacts {
                step: step.number,
                preset: &step.preset,
                run,
                stop_reason: step.stop_reason.as_ref().map(Word::as_str),
                detail: step.detail.as_deref(),
                chains: below.map(|below| Facts::of(below, tree, depth + 1)).collect(),
            }
        });
        Facts {
            chain: &chain.id,
            name: chain.start.as_ref().map(|start| &*start.name),
            status: status(chain).word(),
            outcome: chain.outcome.as_ref().map(Word::as_str),
            steps: steps.collect(),
        }
    }
}

/// The exit code tells the truth: only a chain whose steps all ended well ends with 0.
pub(super) fn verdict(chain: &Chain, dir: &Path, interrupts: &Interrupts) -> Result<(), Failure> {
    let id = &chain.id;
    let resume = resume::command_of(coordinator::Kind::Chain, id, dir);
    let resume = format!("resume it with `{resume}`");
    match (&chain.outcome, interrupts.first()) {
        (Some(_), _) if chain.status() == Status::Completed => Ok(()),
        (Some(outcome), _) => {
            let failure = Failure::failed(match failed_step(chain) {
                Some(step) => {
                    let (number, preset, why) = (step.number, &step.preset, step.state());
                    format!("chain '{id}' ended with {outcome}: step {number} ({preset}): {why}")
                }
                None => format!("chain '{id}' ended with {outcome}"),
            });
            Err(failure.hint(resume))
        }
        (None, Some(signal)) => {
            let signal = u8::try_from(signal).unwrap_or(u8::MAX);
            let message = format!("chain '{id}' was interrupted");
            Err(Failure::new(Kind::Interrupted(signal), message).hint(resume))
        }
        (None, None) => Err(Failure::failed(format!("chain '{id}' did not end")).hint(resume)),
    }
}

fn failed_step(chain: &Chain) -> Option<&ChainStep> {
    chain.steps.last().filter(|step| step.stop_reason.is_some() && !step.is_well())
}
