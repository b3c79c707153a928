//! What a person sees of a chain at its end.

use autoloop_core::chain::{Chain, Outcome};
use autoloop_runtime::process::Interrupts;

use crate::commands::json::Json;
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
pub(super) fn conclude(chain: &Chain, manner: Manner) -> Result<(), Failure> {
    let outcome = chain.outcome.as_deref().unwrap_or("unfinished");
    let text = match manner.json {
        true => format!("{}\n", json(chain, outcome)),
        false => format!(
            "chain {}: {outcome} after {} of {} steps\n",
            chain.id,
            chain.ended(),
            chain.presets().len()
        ),
    };
    Ok(terminal::print(&text)?)
}

fn json(chain: &Chain, outcome: &str) -> Json {
    let steps = chain.steps.iter().map(|step| {
        Json::Object(vec![
            ("step", step.number.into()),
            ("preset", step.preset.as_str().into()),
            ("run", step.run.as_deref().into()),
            ("stop_reason", step.stop_reason.as_deref().into()),
        ])
    });
    Json::Object(vec![
        ("chain", chain.id.as_str().into()),
        ("name", chain.start.as_ref().map(|start| start.name.as_str()).into()),
        ("outcome", outcome.into()),
        ("steps", Json::List(steps.collect())),
    ])
}

/// The exit code tells the truth: only a chain whose steps all ended well ends with 0.
pub(super) fn verdict(chain: &Chain, interrupts: &Interrupts) -> Result<(), Failure> {
    let id = &chain.id;
    let go_on = "`autoloop chain run --resume` goes on with it";
    match (chain.outcome.as_deref(), interrupts.first()) {
        (Some(outcome), _) if outcome == Outcome::AllStepsComplete.to_string() => Ok(()),
        (Some(outcome), _) => {
            let failure = Failure::failed(match failed_step(chain) {
                Some((number, preset, reason)) => {
                    format!("chain '{id}' ended with {outcome}: step {number} ({preset}): {reason}")
                }
                None => format!("chain '{id}' ended with {outcome}"),
            });
            Err(failure.hint(format!("`autoloop chain run --resume={id}` goes on with it")))
        }
        (None, Some(signal)) => {
            let signal = u8::try_from(signal).unwrap_or(u8::MAX);
            let message = format!("chain '{id}' was interrupted");
            Err(Failure::new(Kind::Interrupted(signal), message).hint(go_on))
        }
        (None, None) => Err(Failure::failed(format!("chain '{id}' did not end")).hint(go_on)),
    }
}

fn failed_step(chain: &Chain) -> Option<(u64, &str, &str)> {
    let step = chain.steps.last()?;
    let reason = step.stop_reason.as_deref()?;
    let is_failure = !autoloop_core::run::ended_well(reason);
    is_failure.then_some((step.number, step.preset.as_str(), reason))
}
