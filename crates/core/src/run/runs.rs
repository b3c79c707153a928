//! All runs of a journal, of any coordinator, as a kept view.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{Ending, Run, Stage};
use crate::coordinator::{Fold, Kind, Status};
use crate::merge::MergeOutcome;
use crate::record::{ChainComplete, Event, Glance, SlotRunFinish, SquadPhase};
use crate::suggest::suggest;
use crate::text::first_line;
use crate::view::View;

/// The maximum number of characters of an objective that is the beginning of a specification.
const OBJECTIVE: usize = 120;

/// The runs of a journal, in the order in which they started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<SomeRun>")]
pub struct Runs {
    runs: Vec<SomeRun>,
    #[serde(skip)]
    places: HashMap<String, usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SomeRun {
    Loop(Box<Run>),
    Other(Box<OtherRun>),
}

/// A chain or a run of slots, as far as it is listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherRun {
    pub id: String,
    pub kind: Kind,
    /// The run that requested it.
    pub parent: Option<String>,
    pub objective: String,
    /// The first and the last timestamp, as written.
    pub times: (String, String),
    /// Ended steps or iterations, and their maximum; 0 for no limit.
    pub progress: (u64, u64),
    pub last_event: String,
    /// The run of the last step of a chain.
    pub step_run: Option<String>,
    /// The status and the reason; `None` before the end.
    pub end: Option<(Status, String)>,
    /// The flag that raises the limit that it reached; empty where it ended otherwise.
    pub raise: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Miss {
    /// No run has this name; perhaps the user meant this one.
    Unknown(Option<String>),
    Ambiguous(Vec<String>),
}

impl Runs {
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &SomeRun> {
        self.runs.iter()
    }

    pub fn get(&self, id: &str) -> Option<&SomeRun> {
        self.places.get(id).map(|&place| &self.runs[place])
    }

    pub fn latest(&self) -> Option<&SomeRun> {
        self.iter().rev().find(|run| run.stands_alone())
    }

    /// The status by the records; `None` without a start record. An interrupted step interrupts its
    /// chain.
    pub fn status(&self, run: &SomeRun) -> Option<Status> {
        match run {
            SomeRun::Loop(run) => run.start.as_ref().map(|_| run.status()),
            SomeRun::Other(other) => {
                let step = other.step_run.as_deref().and_then(|step| self.get(step)?.as_loop());
                Some(match &other.end {
                    Some((status, _)) => *status,
                    None if step.is_some_and(|step| step.status() == Status::Interrupted) => {
                        Status::Interrupted
                    }
                    None => Status::Running,
                })
            }
        }
    }

    /// Finds a run by its id, a prefix of it, or as `latest`.
    pub fn find(&self, name: &str) -> Result<&SomeRun, Miss> {
        if let Some(run) = self.get(name) {
            return Ok(run);
        }
        if name == "latest" {
            return self.latest().ok_or(Miss::Unknown(None));
        }
        let begins = |run: &&SomeRun| !name.is_empty() && run.id().starts_with(name);
        let mut found: Vec<&SomeRun> = self.iter().rev().filter(begins).collect();
        // The ids of branches begin with the id of their run.
        if found.iter().any(|run| run.stands_alone()) {
            found.retain(|run| run.stands_alone());
        }
        match found.as_slice() {
            [run] => Ok(run),
            [] => {
                Err(Miss::Unknown(suggest(name, self.runs.iter().map(SomeRun::id)).map(Into::into)))
            }
            several => Err(Miss::Ambiguous(several.iter().map(|run| run.id().into()).collect())),
        }
    }
}

impl SomeRun {
    pub fn id(&self) -> &str {
        match self {
            SomeRun::Loop(run) => &run.id,
            SomeRun::Other(run) => &run.id,
        }
    }

    pub fn as_loop(&self) -> Option<&Run> {
        match self {
            SomeRun::Loop(run) => Some(run),
            SomeRun::Other(_) => None,
        }
    }

    /// `None` without a start record.
    pub fn kind(&self) -> Option<Kind> {
        match self {
            SomeRun::Loop(run) => run.start.as_ref().map(|_| Kind::Loop),
            SomeRun::Other(run) => Some(run.kind),
        }
    }

    pub fn reason(&self) -> Option<&str> {
        match self {
            SomeRun::Loop(run) => match &run.stage {
                Stage::Ended(Ending::Complete { reason } | Ending::Stop { reason }) => {
                    Some(reason.as_str())
                }
                _ => None,
            },
            SomeRun::Other(run) => run.end.as_ref().map(|(_, reason)| reason.as_str()),
        }
    }

    /// The first and the last timestamp, as written.
    pub fn times(&self) -> &(String, String) {
        match self {
            SomeRun::Loop(run) => &run.times,
            SomeRun::Other(run) => &run.times,
        }
    }

    /// Ended iterations or steps, and their maximum where it is known.
    pub fn progress(&self) -> (u64, Option<u64>) {
        match self {
            SomeRun::Loop(run) => (run.done, run.start.as_ref().map(|it| it.max_iterations)),
            SomeRun::Other(run) => (run.progress.0, Some(run.progress.1).filter(|of| *of > 0)),
        }
    }

    pub fn objective(&self) -> Option<&str> {
        match self {
            SomeRun::Loop(run) => run.start.as_ref().map(|start| start.objective.as_str()),
            SomeRun::Other(run) => Some(&run.objective),
        }
    }

    pub fn last_event(&self) -> &str {
        match self {
            SomeRun::Loop(run) => &run.recent_event,
            SomeRun::Other(run) => &run.last_event,
        }
    }

    /// Whether it started, and not as a part of another run.
    pub fn stands_alone(&self) -> bool {
        match self {
            SomeRun::Loop(run) => run.stands_alone(),
            SomeRun::Other(run) => run.parent.is_none(),
        }
    }

    /// The command that resumes it, with the flag that raises the limit that it reached.
    pub fn resume_command(&self) -> Option<String> {
        let (kind, (done, of)) = (self.kind()?, self.progress());
        let flag = match self {
            SomeRun::Loop(run) => run.raised_limit(),
            SomeRun::Other(run) if !run.raise.is_empty() => format!(" {}", run.raise),
            SomeRun::Other(_) => {
                kind.raised_limit(self.reason().unwrap_or_default(), done, of.unwrap_or(0))
            }
        };
        Some(kind.resume_command(self.id()) + &flag)
    }
}

impl OtherRun {
    fn apply(&mut self, record: &Glance<'_>) {
        if let Some(ts) = record.ts() {
            self.times.1 = ts.into_owned();
        }
        self.last_event = record.topic().into_owned();
        if record.has_payload() {
            return;
        }
        // Every command ends the wait.
        self.end.take_if(|(status, _)| *status == Status::Waiting);
        match record.event() {
            Event::ChainStart(_)
            | Event::SlotRunStart(_)
            | Event::ExchangeStart(_)
            | Event::SquadStart(_)
                if !self.times.0.is_empty() => {}
            Event::ChainStart(start) => {
                self.times.0.clone_from(&self.times.1);
                self.parent = start.parent_id;
                let objective = start.objective.filter(|objective| !objective.is_empty());
                self.objective = objective.unwrap_or(start.name);
                self.progress.1 = start.step_count;
            }
            Event::SlotRunStart(start) => {
                self.times.0.clone_from(&self.times.1);
                self.objective = format!("items from {}", start.source);
                self.progress.1 = start.iterations;
            }
            Event::ExchangeStart(start) => {
                self.times.0.clone_from(&self.times.1);
                self.objective = format!("review of {}", start.branch);
                self.progress.1 = start.rounds;
            }
            Event::SquadStart(start) => {
                self.times.0.clone_from(&self.times.1);
                self.objective = match first_line(&start.spec.read(), OBJECTIVE) {
                    text if text.is_empty() => "a plan".to_owned(),
                    text => text,
                };
            }
            // The tasks are written anew.
            Event::SquadTurn(turn) if turn.phase == SquadPhase::Enumerate => self.progress.1 = 0,
            Event::SquadTask(_) => self.progress.1 += 1,
            Event::SquadMerge(merge)
                if merge.outcome.known().is_some_and(MergeOutcome::is_settled) =>
            {
                self.progress.0 = self.progress.1.min(self.progress.0 + 1);
            }
            Event::SquadFinish(finish) => {
                let outcome = finish.outcome.to_string();
                self.raise = finish.raise.unwrap_or_default();
                self.end = Some((Status::of_reason(&outcome), outcome));
            }
            Event::ChainResume(_)
            | Event::SlotRunResume(_)
            | Event::ExchangeResume(_)
            | Event::SquadResume(_) => {
                self.end = None;
                self.raise.clear();
            }
            Event::ExchangeWait(wait) => {
                self.end = Some((Status::Waiting, format!("for the {}", wait.side)));
            }
            Event::ExchangeFinish(finish) => {
                let outcome = finish.outcome.to_string();
                self.end = Some((Status::of_reason(&outcome), outcome));
            }
            Event::ChainStepStart(start) => self.step_run = start.run_id,
            Event::ChainStepFinish(finish) => self.progress.0 = finish.step,
            Event::ChainComplete(ChainComplete { outcome, .. }) => {
                self.end = Some((Status::of_reason(outcome.as_str()), outcome.to_string()));
            }
            Event::SlotRunFinish(SlotRunFinish { reason, taken, passed, raise, .. }) => {
                self.raise = raise.unwrap_or_default();
                let status = Status::of_slots(&reason, taken == passed);
                self.end = Some((status, reason.to_string()));
            }
            _ if self.kind == Kind::Squad => {}
            _ => {
                let iteration = record.iteration().parse().unwrap_or_default();
                self.progress.0 = self.progress.0.max(iteration);
            }
        }
    }
}

impl From<Vec<SomeRun>> for Runs {
    fn from(runs: Vec<SomeRun>) -> Self {
        let places = runs.iter().enumerate();
        let places = places.map(|(place, run)| (run.id().to_owned(), place)).collect();
        Runs { runs, places }
    }
}

impl View for Runs {
    const NAME: &'static str = "runs";
    const VERSION: u32 = 16;

    fn apply(&mut self, record: &Glance<'_>) {
        let id = record.run();
        // Records about the journal itself.
        if id.is_empty() {
            return;
        }
        let place = *self.places.entry(id.clone().into_owned()).or_insert_with(|| {
            let other = [Kind::Chain, Kind::Slots, Kind::Exchange, Kind::Squad]
                .into_iter()
                .find(|kind| kind.concerns(record));
            self.runs.push(match other {
                None => SomeRun::Loop(Box::new(Run::new(&id))),
                Some(kind) => SomeRun::Other(Box::new(OtherRun {
                    id: id.into_owned(),
                    kind,
                    ..OtherRun::default()
                })),
            });
            self.runs.len() - 1
        });
        match &mut self.runs[place] {
            SomeRun::Loop(run) => run.apply(record),
            SomeRun::Other(run) => run.apply(record),
        }
    }
}
