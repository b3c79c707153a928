//! Why a chain that an agent asks for cannot be.

use super::config::Fault;
use crate::record::{ChainInvalid, ChainSpawned};
use crate::run::{Asker, LONGEST_REQUEST, Run, SpawnRequest};
use crate::text::{clip, one_line};

/// How much of what was asked for is repeated.
const SHOWN: usize = 200;

/// Why a chain that an agent asks for cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A metareview asked.
    #[error("a metareview starts no chains")]
    InReview,
    /// An agent of another run had asked, and is replayed.
    #[error("a replay says what was said and starts no agents, so it starts no chains")]
    Replayed,
    /// A branch asked.
    #[error("a branch of a wave starts no chains; say in your answer what should follow")]
    InBranch,
    /// The turn that asked for it was the last.
    #[error("the run ended with the turn that asked for it")]
    RunEnds,
    /// They are turned off.
    #[error("no chains can be started from within this loop")]
    Off,
    /// A novel.
    #[error("a request has at most {LONGEST_REQUEST} characters; put the rest into a file")]
    TooLong,
    /// Nothing to be done.
    #[error("it needs steps: emit chain.spawn \"steps=first,second; justification=why;\"")]
    NoSteps,
    /// A loop that is not a part of the project.
    #[error("step '{}' leads out of the project; name a preset, a chain or a directory of the project", shown(.0))]
    Outside(String),
    /// An id that cannot be one.
    #[error("'{}' cannot be the id of a chain: it is made of small letters, digits, '.', '_' and '-', or left out", shown(.0))]
    BadId(String),
    /// An id that is somebody else's.
    #[error("there is a chain or a run with the id '{0}' already; choose another, or none")]
    UsedId(String),
    /// One chain too many.
    #[error("this run has started budget.max_children = {0} chains, and that is all it may")]
    Children(u64),
    /// It never works.
    #[error(
        "the last budget.max_consecutive_failures = {0} chains of this run failed; it gets no more"
    )]
    Failures(u64),
    /// Too many steps, counted over the whole tree.
    #[error(
        "with its {wanted} steps there would be {total} in all chains that belong together, and budget.max_steps = {most}"
    )]
    Steps {
        /// How many it has.
        wanted: u64,
        /// How many there would be.
        total: u64,
        /// The limit.
        most: u64,
    },
    /// The time is up, counted over the whole tree.
    #[error("the chains that belong together took longer than budget.max_runtime_ms = {0}")]
    Runtime(u64),
    /// Steps that cannot be steps.
    #[error("{0}")]
    Steplist(Fault),
    /// A step that cannot begin.
    #[error("{}", shown(.0))]
    Unfit(String),
    /// `chains.toml` cannot be used.
    #[error("chains.toml cannot be used: {}", shown(.0))]
    BadFile(String),
}

/// What an agent or a file said, short and in one line.
fn shown(text: &str) -> String {
    clip(&one_line(text), SHOWN).into_owned()
}

impl Refusal {
    /// Why nothing can come of a request, whatever it asks for, if nothing can.
    pub(super) fn for_anything(run: &Run, request: &SpawnRequest) -> Option<Refusal> {
        let is_branch = run.start.as_ref().is_some_and(|start| start.parent.is_some());
        match request.asker {
            Asker::Review => Some(Refusal::InReview),
            Asker::Replay => Some(Refusal::Replayed),
            Asker::Agent => is_branch.then_some(Refusal::InBranch),
        }
    }

    /// Why, in a word.
    pub fn reason(&self) -> &'static str {
        match self {
            Refusal::InReview => "in_review",
            Refusal::Replayed => "replayed",
            Refusal::InBranch => "in_branch",
            Refusal::RunEnds => "run_ends",
            Refusal::Off => "off",
            Refusal::TooLong => "too_long",
            Refusal::NoSteps => "no_steps",
            Refusal::Outside(_) => "outside",
            Refusal::BadId(_) => "bad_id",
            Refusal::UsedId(_) => "used_id",
            Refusal::Children(_) => "max_children",
            Refusal::Failures(_) => "max_consecutive_failures",
            Refusal::Steps { .. } | Refusal::Steplist(Fault::TooLong { .. }) => "max_steps",
            Refusal::Runtime(_) => "max_runtime_ms",
            Refusal::Steplist(Fault::TooDeep { .. }) => "max_depth",
            Refusal::Steplist(Fault::Circle { .. }) => "circle",
            Refusal::Steplist(_) => "bad_step",
            Refusal::Unfit(_) => "unfit_step",
            Refusal::BadFile(_) => "bad_file",
        }
    }

    /// The limit that it would go beyond, if that is why.
    fn limit(&self) -> Option<u64> {
        match self {
            Refusal::Children(most)
            | Refusal::Failures(most)
            | Refusal::Runtime(most)
            | Refusal::Steps { most, .. }
            | Refusal::Steplist(Fault::TooLong { most, .. } | Fault::TooDeep { most, .. }) => {
                Some(*most)
            }
            _ => None,
        }
    }

    /// What is put on record.
    pub fn record(&self) -> ChainInvalid {
        ChainInvalid {
            trigger_topic: ChainSpawned::TOPIC.to_owned(),
            reason: self.reason().to_owned(),
            limit: self.limit(),
            detail: clip(&one_line(&self.to_string()), 2 * SHOWN).into_owned(),
        }
    }
}
