//! Every run of a journal, of any coordinator, as a view that can be kept.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::Run;
use crate::coordinator::{Kind, Status, is_slot_topic};
use crate::record::{
    ChainComplete, ChainResume, ChainStart, ChainStepFinish, ChainStepStart, Glance, SlotRunFinish,
    SlotRunResume, SlotRunStart,
};
use crate::suggest::suggest;
use crate::view::View;

/// The runs of a journal, in the order in which they began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<SomeRun>")]
pub struct Runs {
    runs: Vec<SomeRun>,
    #[serde(skip)]
    places: HashMap<String, usize>,
}

/// A run of any coordinator, as far as it is listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SomeRun {
    /// A run of a loop, or records that no start came before.
    Loop(Box<Run>),
    /// A run of another coordinator.
    Other(Box<OtherRun>),
}

/// What is listed of a chain, or of a run over a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherRun {
    /// Its id.
    pub id: String,
    /// Its coordinator.
    pub kind: Kind,
    /// The run that asked for it, if one did.
    pub parent: Option<String>,
    /// What it is for.
    pub objective: String,
    /// When it began and when it was last heard of, as written.
    pub times: (String, String),
    /// How many steps or iterations there were, and how many there may be; 0 is no limit.
    pub progress: (u64, u64),
    /// The topic of its last record.
    pub last_event: String,
    /// The run of the step of a chain that began last.
    pub step_run: Option<String>,
    /// How it ended and why; `None` while it has not.
    pub end: Option<(Status, String)>,
}

/// Why a name means no run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Miss {
    /// No run has this name; perhaps this one was meant.
    Unknown(Option<String>),
    /// Several runs begin with it.
    Ambiguous(Vec<String>),
}

impl Runs {
    /// All of them.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &SomeRun> {
        self.runs.iter()
    }

    /// A run by its id.
    pub fn get(&self, id: &str) -> Option<&SomeRun> {
        self.places.get(id).map(|&place| &self.runs[place])
    }

    /// The run that began last.
    pub fn latest(&self) -> Option<&SomeRun> {
        self.iter().rev().find(|run| run.stands_alone())
    }

    /// How a run is by the records; `None` where none begins it. What interrupts the run of a step
    /// interrupts the chain.
    pub fn status(&self, run: &SomeRun) -> Option<Status> {
        match run {
            SomeRun::Loop(run) => run.start.as_ref().map(|_| run.status()),
            SomeRun::Other(other) => match (&other.end, &other.step_run) {
                (Some((status, _)), _) => Some(*status),
                (None, step_run) => {
                    let step = step_run.as_deref().and_then(|step| self.get(step));
                    match step.and_then(SomeRun::as_loop).map(Run::status) {
                        Some(Status::Interrupted) => Some(Status::Interrupted),
                        _ => Some(Status::Running),
                    }
                }
            },
        }
    }

    /// Finds a run by its id, by the beginning of it, or as `latest`.
    ///
    /// # Errors
    ///
    /// When the name means no run, or several.
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
    /// Its id.
    pub fn id(&self) -> &str {
        match self {
            SomeRun::Loop(run) => &run.id,
            SomeRun::Other(run) => &run.id,
        }
    }

    /// The fold of a loop.
    pub fn as_loop(&self) -> Option<&Run> {
        match self {
            SomeRun::Loop(run) => Some(run),
            SomeRun::Other(_) => None,
        }
    }

    /// Its coordinator; `None` where no record begins it.
    pub fn kind(&self) -> Option<Kind> {
        match self {
            SomeRun::Loop(run) => run.start.as_ref().map(|_| Kind::Loop),
            SomeRun::Other(run) => Some(run.kind),
        }
    }

    /// Why it ended.
    pub fn reason(&self) -> Option<&str> {
        match self {
            SomeRun::Loop(run) => match &run.stage {
                super::Stage::Ended(
                    super::Ending::Complete { reason } | super::Ending::Stop { reason },
                ) => Some(reason.as_str()),
                _ => None,
            },
            SomeRun::Other(run) => run.end.as_ref().map(|(_, reason)| reason.as_str()),
        }
    }

    /// When it began and when it was last heard of, as written.
    pub fn times(&self) -> &(String, String) {
        match self {
            SomeRun::Loop(run) => &run.times,
            SomeRun::Other(run) => &run.times,
        }
    }

    /// How many iterations or steps there were, and how many there may be, where that is known.
    pub fn progress(&self) -> (u64, Option<u64>) {
        match self {
            SomeRun::Loop(run) => (run.done, run.start.as_ref().map(|it| it.max_iterations)),
            SomeRun::Other(run) => (run.progress.0, Some(run.progress.1).filter(|of| *of > 0)),
        }
    }

    /// What it is for, where that is known.
    pub fn objective(&self) -> Option<&str> {
        match self {
            SomeRun::Loop(run) => run.start.as_ref().map(|start| start.objective.as_str()),
            SomeRun::Other(run) => Some(&run.objective),
        }
    }

    /// The last thing that happened in it.
    pub fn last_event(&self) -> &str {
        match self {
            SomeRun::Loop(run) => &run.recent_event,
            SomeRun::Other(run) => &run.last_event,
        }
    }

    /// Whether it was begun, and not as a part of another run.
    pub fn stands_alone(&self) -> bool {
        match self {
            SomeRun::Loop(run) => run.stands_alone(),
            SomeRun::Other(run) => run.parent.is_none(),
        }
    }

    /// The command that resumes it, where it began, with the flag that raises the limit that it reached.
    pub fn resume_command(&self) -> Option<String> {
        let (kind, (done, of)) = (self.kind()?, self.progress());
        let flag = kind.raised_limit(self.reason().unwrap_or_default(), done, of.unwrap_or(0));
        Some(kind.resume_command(self.id()) + &flag)
    }
}

impl OtherRun {
    fn new(id: &str, kind: Kind) -> Self {
        OtherRun {
            id: id.to_owned(),
            kind,
            parent: None,
            objective: String::new(),
            times: Default::default(),
            progress: (0, 0),
            last_event: String::new(),
            step_run: None,
            end: None,
        }
    }

    fn apply(&mut self, record: &Glance<'_>) {
        if let Some(ts) = record.ts() {
            self.times.1 = ts.into_owned();
        }
        self.last_event = record.topic().into_owned();
        if record.has_payload() {
            return;
        }
        let text = |name: &str| record.field(name).unwrap_or_default().into_owned();
        let number = |name: &str| text(name).parse().unwrap_or_default();
        let iteration = record.iteration().parse().unwrap_or_default();
        match record.topic().as_ref() {
            ChainStart::TOPIC | SlotRunStart::TOPIC if !self.times.0.is_empty() => {}
            ChainStart::TOPIC => {
                self.times.0.clone_from(&self.times.1);
                self.parent = record.field("parent_id").map(Into::into);
                self.objective = match text("objective") {
                    none if none.is_empty() => text("name"),
                    objective => objective,
                };
                self.progress.1 = number("step_count");
            }
            SlotRunStart::TOPIC => {
                self.times.0.clone_from(&self.times.1);
                self.objective = format!("items from {}", text("source"));
                self.progress.1 = number("iterations");
            }
            ChainResume::TOPIC | SlotRunResume::TOPIC => self.end = None,
            ChainStepStart::TOPIC => self.step_run = record.field("run_id").map(Into::into),
            ChainStepFinish::TOPIC => self.progress.0 = number("step"),
            ChainComplete::TOPIC => {
                let outcome = text("outcome");
                let status =
                    match outcome == crate::record::ChainOutcome::AllStepsComplete.to_string() {
                        true => Status::Completed,
                        false => Status::of_reason(&outcome),
                    };
                self.end = Some((status, outcome));
            }
            SlotRunFinish::TOPIC => {
                let all_passed = number("taken") == number("passed");
                let status = if all_passed { Status::Completed } else { Status::Failed };
                self.end = Some((status, text("reason")));
            }
            _ => self.progress.0 = self.progress.0.max(iteration),
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
    const VERSION: u32 = 12;

    fn apply(&mut self, record: &Glance<'_>) {
        let id = record.run();
        // What concerns the journal as a whole belongs to no run.
        if id.is_empty() {
            return;
        }
        let topic = record.topic();
        let kind = match record.has_payload() {
            true => Kind::Loop,
            false if topic.starts_with("chain.") => Kind::Chain,
            false if is_slot_topic(&topic) => Kind::Slots,
            false => Kind::Loop,
        };
        let place = *self.places.entry(id.clone().into_owned()).or_insert_with(|| {
            self.runs.push(match kind {
                Kind::Loop => SomeRun::Loop(Box::new(Run::new(&*id))),
                kind => SomeRun::Other(Box::new(OtherRun::new(&id, kind))),
            });
            self.runs.len() - 1
        });
        match &mut self.runs[place] {
            SomeRun::Loop(run) => run.apply(record),
            SomeRun::Other(run) => run.apply(record),
        }
    }
}
