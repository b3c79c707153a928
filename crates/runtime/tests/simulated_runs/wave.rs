//! The rules of waves, checked on the records of the run that opens them.

use std::collections::BTreeSet;

use crate::rules::{Cast, listed};
use crate::wave_request::{WaveRequest, base};

/// The waves of a run.
#[derive(Debug, Default)]
pub(crate) struct Waves {
    /// The undecided requests of the last finished iteration.
    pub(crate) asked: Vec<WaveRequest>,
    open: Option<Wave>,
    /// The last wave, until an iteration that got its report has finished.
    joined: Option<Wave>,
    count: u64,
}

/// A wave so far.
#[derive(Debug)]
struct Wave {
    id: String,
    trigger: String,
    /// The event that routed the iteration that requested it.
    opening: String,
    branches: Vec<Branch>,
    /// The topics of its join so far.
    told: BTreeSet<String>,
}

#[derive(Debug)]
struct Branch {
    objective: String,
    is_begun: bool,
    /// Why it stopped, once that is recorded.
    stop_reason: Option<String>,
}

/// What waves depend on.
pub(crate) struct Scene<'a> {
    pub(crate) run: &'a str,
    pub(crate) cast: &'a Cast,
    pub(crate) most: u64,
    /// The event that routed the iteration that is done last.
    pub(crate) opening: &'a str,
}

/// What a record about waves changes for the run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Nothing,
    /// The event that requested one is revoked.
    Refused(String),
    /// The request counts.
    Opened(String),
}

/// How the branches of a wave ended, by what they were for.
pub(crate) type Outcomes = Vec<(String, String)>;

type Field<'a> = &'a dyn Fn(&str) -> String;

impl Waves {
    /// Whether the run waits for something.
    pub(crate) fn is_pending(&self) -> bool {
        self.open.is_some() || !self.asked.is_empty()
    }

    /// Whether a branch of this run has started and its end is not recorded.
    pub(crate) fn is_at_work(&self, wave: u64, branch: u64) -> bool {
        let is_this = |open: &&Wave| wave == self.count && !open.has_told("wave.join.start");
        let branches = self.open.as_ref().filter(is_this).map(|open| &open.branches);
        let place = usize::try_from(branch - 1).unwrap();
        let branch = branches.and_then(|branches| branches.get(place));
        branch.is_some_and(|branch| branch.is_begun && branch.stop_reason.is_none())
    }

    /// The iteration that got the report of the last wave has finished.
    pub(crate) fn go_on(&mut self, asked: Vec<WaveRequest>) {
        self.joined = None;
        self.asked = asked;
    }

    /// Applies a record about waves.
    pub(crate) fn hear(&mut self, topic: &str, field: Field<'_>, scene: &Scene<'_>) -> Effect {
        match topic {
            "wave.invalid" => return self.refused(field, scene),
            "wave.start" => return self.opened(field, scene),
            _ => {}
        }
        assert!(self.asked.is_empty(), "{topic} before everything is decided");
        let wave = self.open.as_mut().unwrap_or_else(|| panic!("{topic} without a wave"));
        assert_eq!(field("wave_id"), wave.id, "{topic}");
        match topic {
            "wave.branch.start" => wave.branch_begins(field, scene),
            "wave.branch.finish" => wave.branch_ends(field),
            _ => wave.joins(topic, field, scene),
        }
        Effect::Nothing
    }

    /// At most one wave is open, and an invalid request is refused once.
    fn refused(&mut self, field: Field<'_>, scene: &Scene<'_>) -> Effect {
        assert!(!self.asked.is_empty(), "not requested");
        let asked = self.asked.remove(0);
        let active = self.open.as_ref().map(|wave| wave.id.clone());
        let reason = match active {
            Some(_) => Some("active_wave_exists"),
            None => asked.objectives(scene.most).err(),
        };
        assert_eq!(Some(&*field("reason")), reason, "{asked:?}");
        assert_eq!(field("trigger_topic"), asked.topic);
        assert_eq!(field("active_wave_id"), active.unwrap_or_default());
        assert_eq!(field("opening_recent_event"), scene.opening);
        Effect::Refused(asked.topic)
    }

    fn opened(&mut self, field: Field<'_>, scene: &Scene<'_>) -> Effect {
        assert!(self.open.is_none(), "two waves at once");
        assert!(!self.asked.is_empty(), "not requested");
        let asked = self.asked.remove(0);
        let objectives = asked.objectives(scene.most).expect("a list");
        self.count += 1;
        let wave = Wave {
            id: format!("{}-wave-{}", scene.run, self.count),
            trigger: asked.topic.clone(),
            opening: scene.opening.to_owned(),
            branches: objectives.iter().map(|objective| Branch::new(objective)).collect(),
            told: BTreeSet::new(),
        };
        assert_eq!(field("wave_id"), wave.id);
        assert_eq!(field("trigger_topic"), asked.topic);
        assert_eq!(field("branch_count"), objectives.len().to_string());
        assert_eq!(field("opening_recent_event"), scene.opening);
        assert_eq!(field("opening_roles"), scene.cast.acting(scene.opening));
        assert_eq!(field("opening_events"), listed(&scene.cast.allowed(scene.opening)));
        self.open = Some(wave);
        Effect::Opened(asked.topic)
    }

    /// The run continues: the joined event comes once, after the whole join. Returns what routes
    /// then, and how the branches ended.
    pub(crate) fn joined(&mut self, topic: &str, payload: &str) -> (String, Outcomes) {
        let wave = self.open.take().unwrap_or_else(|| panic!("{topic} without a wave"));
        assert!(wave.has_told("wave.join.finish"), "{topic} before the join");
        assert_eq!((topic, payload), (&*wave.joined_topic(), &*wave.id));
        let route = wave.resume_event();
        let outcomes = wave.branches.iter().map(Branch::outcome).collect();
        self.joined = Some(wave);
        (route, outcomes)
    }

    /// An iteration starts with this prompt: it has the outcome of every branch of the last wave,
    /// and of no other.
    pub(crate) fn check_prompt(&self, prompt: &str) {
        let Some(wave) = &self.joined else {
            assert!(!prompt.contains("Results of the branches:"), "there was no wave: {prompt}");
            return;
        };
        for (place, branch) in wave.branches.iter().enumerate() {
            let (objective, reason) = branch.outcome();
            let line = format!("\nbranch-{}: {objective} -> {reason}\n", place + 1);
            assert!(prompt.contains(&line), "{line:?} is not in {prompt}");
        }
    }
}

impl Wave {
    fn has_told(&self, topic: &str) -> bool {
        self.told.contains(topic)
    }

    fn joined_topic(&self) -> String {
        format!("{}.joined", self.trigger)
    }

    fn resume_event(&self) -> String {
        match base(&self.trigger) {
            Some("explore") => self.opening.clone(),
            _ => self.joined_topic(),
        }
    }

    fn branch(&mut self, field: Field<'_>) -> &mut Branch {
        let id = field("branch_id");
        let number = id.strip_prefix("branch-").and_then(|number| number.parse::<usize>().ok());
        let branch = number.and_then(|number| self.branches.get_mut(number - 1));
        branch.unwrap_or_else(|| panic!("there is no {id}"))
    }

    /// A branch starts once, with its objective, whatever crashes.
    fn branch_begins(&mut self, field: Field<'_>, scene: &Scene<'_>) {
        let routing = match base(&self.trigger) {
            None | Some("explore") => self.opening.clone(),
            Some(base) => base.to_owned(),
        };
        let branch = self.branch(field);
        assert!(!branch.is_begun, "{} begins again", field("branch_id"));
        branch.is_begun = true;
        assert_eq!(field("objective"), branch.objective);
        assert_eq!(field("branch_roles"), scene.cast.acting(&routing));
        assert_eq!(field("branch_events"), listed(&scene.cast.allowed(&routing)));
        assert_eq!(field("routing_event"), routing);
    }

    /// A branch ends once.
    fn branch_ends(&mut self, field: Field<'_>) {
        let branch = self.branch(field);
        assert!(branch.is_begun, "{} never began", field("branch_id"));
        assert_eq!(branch.stop_reason, None, "{} ends again", field("branch_id"));
        branch.stop_reason = Some(field("stop_reason"));
    }

    /// The join comes after all branches, records each topic once, in order, and failures exactly
    /// where there were some.
    fn joins(&mut self, topic: &str, field: Field<'_>, scene: &Scene<'_>) {
        let outcomes: Vec<_> = self.branches.iter().map(Branch::outcome).collect();
        assert!(!self.has_told("wave.join.finish"), "{topic} after the join");
        let named = |is_meant: &dyn Fn(&str) -> bool| -> Vec<String> {
            let meant = outcomes.iter().enumerate().filter(|(_, (_, reason))| is_meant(reason));
            meant.map(|(place, _)| format!("branch-{}", place + 1)).collect()
        };
        let late = named(&|reason| reason == "backend_timeout");
        let failed = named(&|reason| reason == "backend_failed");
        match topic {
            "wave.join.start" => {
                let told = outcomes.iter().enumerate();
                let told =
                    told.map(|(place, (_, reason))| format!("branch-{}:{reason}", place + 1));
                assert_eq!(field("branch_outcomes"), told.collect::<Vec<_>>().join(","));
                assert_eq!(field("branch_count"), outcomes.len().to_string());
            }
            "wave.timeout" => {
                assert!(self.has_told("wave.join.start") && !late.is_empty(), "{topic}");
                assert_eq!(field("timed_out_branches"), late.join(","));
            }
            "wave.failed" => {
                assert!(self.has_told("wave.join.start") && !failed.is_empty(), "{topic}");
                assert_eq!(field("failed_branches"), failed.join(","));
            }
            "wave.join.finish" => {
                assert!(self.has_told("wave.join.start"), "{topic}");
                assert_eq!(self.has_told("wave.timeout"), !late.is_empty(), "{late:?}");
                assert_eq!(self.has_told("wave.failed"), !failed.is_empty(), "{failed:?}");
                let route = self.resume_event();
                assert_eq!(field("joined_topic"), self.joined_topic());
                assert_eq!(field("resume_recent_event"), route);
                assert_eq!(field("resume_roles"), scene.cast.acting(&route));
                assert_eq!(field("resume_events"), listed(&scene.cast.allowed(&route)));
            }
            _ => panic!("unexpected topic {topic}"),
        }
        assert!(self.told.insert(topic.to_owned()), "{topic} again");
    }
}

impl Branch {
    fn new(objective: &str) -> Branch {
        Branch { objective: objective.to_owned(), is_begun: false, stop_reason: None }
    }

    /// Its objective and its outcome; only called once it has ended.
    fn outcome(&self) -> (String, String) {
        let reason = self.stop_reason.clone();
        (self.objective.clone(), reason.expect("a wave joins when all of its branches have ended"))
    }
}
