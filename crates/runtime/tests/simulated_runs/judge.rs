//! The rules of a loop once more, read off the journal alone: every record is allowed where it stands.
//!
//! A judge hears the records of one run one by one and is told who wrote each. It knows nothing of the
//! driver's state; what it holds to be true follows from the [rules](crate::rules) and the
//! [setup](crate::setup).

use std::collections::BTreeSet;

use autoloop_core::record::Glance;

use crate::rules::{COORDINATION, Named, RESERVED, Rules, listed};
use crate::setup::{Setup, Turn};

/// Who wrote a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    Harness,
    Agent,
    /// Somebody who is not known to the harness, and may write at any time.
    Stranger,
}

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Story {
    pub(crate) ending: Option<String>,
    pub(crate) done: Vec<Done>,
    /// The iterations before which there was a review.
    pub(crate) reviews: BTreeSet<u64>,
    /// The events that were accepted.
    pub(crate) seen: BTreeSet<String>,
    /// The event that routes.
    pub(crate) recent: String,
}

/// An iteration that was finished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    opening: String,
    accepted: Vec<String>,
    code: i32,
    timed_out: bool,
    promised: bool,
    withdrawn: bool,
    refused: bool,
}

impl Done {
    pub(crate) fn has_failed(&self) -> bool {
        self.timed_out || self.code != 0
    }
}

/// An iteration or a review that is under way.
#[derive(Debug)]
struct Open {
    turn: Turn,
    backend: Backend,
    said: Vec<String>,
    forged: Vec<String>,
    refused: bool,
    /// Whether its prompt told of a refusal.
    was_pressed: bool,
    /// What the harness refused, and why.
    refusals: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backend {
    Waiting,
    Running,
    Over,
}

/// Whether the harness has to say that it goes on before it says anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Voice {
    Heard,
    Returning,
}

pub(crate) struct Judge {
    setup: Setup,
    /// What is in force; nothing before the run began.
    pub(crate) rules: Option<Rules>,
    pub(crate) story: Story,
    open: Option<Open>,
    /// Whether it was decided already that the run goes on after the last iteration that is done.
    is_settled: bool,
    /// Whether the last thing about what was said is that it was refused.
    is_pressed: bool,
    voice: Voice,
}

/// How far a run is, for whoever wants to take it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    New,
    /// Also one that a person interrupted.
    Begun,
    Over,
}

/// Whether the harness reads the files of the loop after a record, or did so before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loads {
    Yes,
    No,
}

impl Judge {
    pub(crate) fn new(setup: &Setup) -> Judge {
        Judge {
            setup: setup.clone(),
            rules: None,
            story: Story { recent: "loop.start".to_owned(), ..Story::default() },
            open: None,
            is_settled: false,
            is_pressed: false,
            voice: Voice::Heard,
        }
    }

    pub(crate) fn stage(&self) -> Known {
        match &self.story.ending {
            None if !self.is_begun() => Known::New,
            Some(_) if !self.is_interrupted() => Known::Over,
            _ => Known::Begun,
        }
    }

    fn is_begun(&self) -> bool {
        self.rules.is_some()
    }

    fn is_interrupted(&self) -> bool {
        self.story.ending.as_deref() == Some(INTERRUPTED)
    }

    /// The harness that wrote so far is no more.
    pub(crate) fn lost_its_harness(&mut self) {
        if self.is_begun() {
            self.voice = Voice::Returning;
        }
    }

    /// An agent is started for a turn: that has to be on record.
    pub(crate) fn agent_starts(&self, turn: Turn) {
        let running = self.open.as_ref().filter(|open| open.backend == Backend::Running);
        assert_eq!(running.map(|open| open.turn), Some(turn), "nobody announced this agent");
    }

    /// Hears the next record. `rules` are what the files of the loop say.
    pub(crate) fn hear(&mut self, author: Author, record: &Glance<'_>, rules: &Rules) -> Loads {
        match author {
            Author::Stranger => {
                let topic = record.topic().into_owned();
                // Between two turns nobody is told of it.
                let open = self.open.as_mut().filter(|_| RESERVED.contains(&topic.as_str()));
                open.into_iter().for_each(|open| open.forged.push(topic.clone()));
                Loads::No
            }
            Author::Agent => {
                self.hear_agent(record);
                Loads::No
            }
            Author::Harness => self.hear_harness(record, rules),
        }
    }

    fn hear_agent(&mut self, record: &Glance<'_>) {
        let open = self.open.as_mut().expect("an agent says something while nobody is at work");
        let topic = record.topic().into_owned();
        let is_said = record.has_payload();
        if topic == "event.invalid" && !is_said {
            open.refused = true;
            self.is_pressed |= !open.turn.is_review;
        } else if RESERVED.contains(&topic.as_str()) || !is_said {
            open.forged.push(topic);
        } else if !COORDINATION.contains(&topic.as_str()) {
            open.said.push(topic);
            self.is_pressed &= open.turn.is_review;
        }
    }

    fn hear_harness(&mut self, record: &Glance<'_>, rules: &Rules) -> Loads {
        let topic = record.topic();
        let done = self.story.done.len() as u64;
        let shown = format!("{topic} {} after {done} iterations", record.iteration());
        let field = |name: &str| record.field(name).unwrap_or_default().into_owned();
        let iteration: u64 = record.iteration().parse().unwrap_or_default();
        let turn = |is_review| Turn { iteration, is_review };
        assert!(!record.has_payload(), "the harness emits nothing: {shown}");

        assert_eq!(topic == "loop.resume", self.voice == Voice::Returning, "{shown}");
        assert!(self.story.ending.is_none() || topic == "loop.resume", "after the end: {shown}");
        assert_eq!(self.is_begun(), topic != "loop.start", "{shown}");
        match &*topic {
            "loop.start" => {
                assert_eq!(field("max_iterations"), rules.max.to_string());
                assert_eq!(field("completion_event"), rules.completion);
                assert_eq!(field("completion_promise"), self.setup.promise);
                assert_eq!(field("review_every"), rules.review_every().to_string());
                return self.load(rules);
            }
            "loop.resume" => {
                assert_eq!(field("resumed_from_iteration"), done.to_string(), "{shown}");
                self.taken_up(&field("previous_stop_reason"), &shown);
                return self.load(rules);
            }
            "iteration.start" => self.begins(turn(false), &field, &shown),
            "review.start" => self.begins(turn(true), &field, &shown),
            "backend.start" => {
                self.backend(turn(false), (Backend::Waiting, Backend::Running), &shown);
            }
            "backend.finish" => {
                self.backend(turn(false), (Backend::Running, Backend::Over), &shown);
                self.check_end(turn(false), &field, &shown);
            }
            "event.invalid" => {
                let open = self.open.as_mut().expect("something is under way");
                let is_time = open.turn.is_review || open.backend == Backend::Over;
                assert!(is_time && open.turn.iteration == iteration, "{shown}");
                assert_eq!(field("recent_event"), self.story.recent, "{shown}");
                open.refusals.push((field("emitted"), field("reason")));
                self.is_pressed |= !open.turn.is_review;
            }
            "iteration.finish" => {
                self.check_end(turn(false), &field, &shown);
                let open = self.finishes(turn(false), Backend::Over, &shown);
                self.is_done(open);
                return self.load(rules);
            }
            "review.finish" => {
                self.check_end(turn(true), &field, &shown);
                self.finishes(turn(true), Backend::Running, &shown);
                assert!(self.story.reviews.insert(iteration), "again: {shown}");
                return self.load(rules);
            }
            "loop.complete" | "loop.stop" => self.ends(&topic, &field, &shown),
            _ => panic!("nobody writes this: {shown}"),
        }
        Loads::No
    }

    fn load(&mut self, rules: &Rules) -> Loads {
        self.rules = Some(rules.clone());
        Loads::Yes
    }

    fn in_force(&self) -> &Rules {
        self.rules.as_ref().expect("the run began")
    }

    fn taken_up(&mut self, previous: &str, shown: &str) {
        self.voice = Voice::Heard;
        // What is done again begins as it did.
        if let Some(open) = self.open.take() {
            self.is_pressed = open.was_pressed;
        }
        let was_interrupted = self.is_interrupted();
        assert_eq!(previous, if was_interrupted { "interrupted" } else { "" }, "{shown}");
        if was_interrupted {
            self.story.ending = None;
            // The agent may have failed because it was interrupted.
            self.is_settled |= self.story.done.last().is_some_and(Done::has_failed);
        }
        assert_eq!(self.story.ending, None, "it had ended: {shown}");
    }

    /// An iteration or a review begins.
    fn begins(&mut self, turn: Turn, field: &dyn Fn(&str) -> String, shown: &str) {
        assert!(self.open.is_none(), "two at once: {shown}");
        assert_eq!(turn.iteration, self.story.done.len() as u64 + 1, "{shown}");
        assert_eq!(self.verdict(), None, "it goes on: {shown}");
        let is_due = self.in_force().is_review_due(turn.iteration);
        let is_reviewed = self.story.reviews.contains(&turn.iteration);
        if turn.is_review {
            assert!(is_due && !is_reviewed, "not now: {shown}");
        } else {
            assert!(is_reviewed || !is_due, "it was not reviewed: {shown}");
            let Cue { roles, allowed } = self.cue();
            assert_eq!(field("recent_event"), self.story.recent, "{shown}");
            assert_eq!(field("suggested_roles"), roles, "{shown}");
            assert_eq!(field("allowed_events"), listed(&allowed), "{shown}");
            assert_eq!(!field("backpressure").is_empty(), self.is_pressed, "{shown}");
            self.is_settled = true;
        }
        self.open = Some(Open {
            turn,
            backend: if turn.is_review { Backend::Running } else { Backend::Waiting },
            said: Vec::new(),
            forged: Vec::new(),
            refused: false,
            was_pressed: self.is_pressed,
            refusals: Vec::new(),
        });
    }

    fn cue(&self) -> Cue {
        let cast = &self.in_force().cast;
        let roles = cast.suggested(&self.story.recent);
        let roles: Vec<_> = roles.iter().map(|role| format!("r{role}")).collect();
        Cue { roles: roles.join(","), allowed: cast.allowed(&self.story.recent) }
    }

    fn backend(&mut self, turn: Turn, (from, to): (Backend, Backend), shown: &str) {
        let open = self.open.as_mut().unwrap_or_else(|| panic!("nothing began: {shown}"));
        assert_eq!((open.turn, open.backend), (turn, from), "{shown}");
        open.backend = to;
    }

    /// The record says of an agent what the agent did.
    fn check_end(&self, turn: Turn, field: &dyn Fn(&str) -> String, shown: &str) {
        let end = self.setup.end(turn);
        assert_eq!(field("exit_code"), end.code.to_string(), "{shown}");
        assert_eq!(field("timed_out"), end.timed_out.to_string(), "{shown}");
        if !end.output.is_empty() && end.output.len() < 1_000 {
            assert_eq!(field("output"), String::from_utf8_lossy(&end.output), "{shown}");
        }
    }

    /// What was under way, when it is over. Everything in it that was not allowed is on record, and
    /// nothing else is.
    fn finishes(&mut self, turn: Turn, backend: Backend, shown: &str) -> Open {
        let open = self.open.take().unwrap_or_else(|| panic!("nothing began: {shown}"));
        assert_eq!((open.turn, open.backend), (turn, backend), "{shown}");
        let refused = open.said.iter().filter(|event| !self.is_allowed(turn, event));
        let refused = refused.map(|event| (event.clone(), String::new()));
        let forged = open.forged.iter().map(|topic| (topic.clone(), "forged".to_owned()));
        assert_eq!(open.refusals, refused.chain(forged).collect::<Vec<_>>(), "{shown}");
        open
    }

    fn is_allowed(&self, turn: Turn, event: &str) -> bool {
        let allowed = self.cue().allowed;
        let is_named = |named: &Named| named.means(event);
        !turn.is_review && (allowed.is_empty() || allowed.iter().any(is_named))
    }

    fn is_done(&mut self, open: Open) {
        let is_allowed = |event: &String| self.is_allowed(open.turn, event);
        let (accepted, withdrawn): (Vec<_>, Vec<_>) = open.said.into_iter().partition(is_allowed);
        let end = self.setup.end(open.turn);
        let opening = self.story.recent.clone();
        self.story.recent = accepted.last().unwrap_or(&opening).clone();
        self.story.seen.extend(accepted.iter().cloned());
        self.is_settled = false;
        self.story.done.push(Done {
            opening,
            accepted,
            code: end.code,
            timed_out: end.timed_out,
            promised: self.setup.is_promised(open.turn),
            withdrawn: !withdrawn.is_empty(),
            refused: open.refused || !open.forged.is_empty(),
        });
    }

    fn ends(&mut self, topic: &str, field: &dyn Fn(&str) -> String, shown: &str) {
        assert!(self.open.is_none(), "in the midst of something: {shown}");
        let ending = format!("{topic} {}", field("reason"));
        if ending != INTERRUPTED {
            assert_eq!(self.verdict(), Some(ending.clone()), "{shown}");
        }
        if ending == "loop.stop max_iterations" {
            let done = self.story.done.len();
            assert_eq!(field("completed_iterations"), done.to_string(), "{shown}");
            assert_eq!(field("stopped_before_iteration"), (done + 1).to_string(), "{shown}");
            assert_eq!(field("max_iterations"), self.in_force().max.to_string(), "{shown}");
        }
        self.story.ending = Some(ending);
    }

    /// How the run has to end now, if it has to.
    fn verdict(&self) -> Option<String> {
        let rules = self.in_force();
        let Story { done, seen, .. } = &self.story;
        let is_over =
            || (done.len() as u64 >= rules.max).then(|| "loop.stop max_iterations".to_owned());
        let Some(last) = done.last().filter(|_| !self.is_settled) else { return is_over() };
        let may_complete =
            !last.withdrawn && rules.required.iter().all(|&event| seen.contains(event));
        let is_promised = last.promised && last.accepted.is_empty() && !last.refused;
        Some(match last {
            Done { timed_out: true, .. } => "loop.stop backend_timeout".to_owned(),
            Done { code: 1.., .. } => "loop.stop backend_failed".to_owned(),
            _ if may_complete && seen.contains(rules.completion) => {
                "loop.complete completion_event".to_owned()
            }
            _ if may_complete && is_promised => "loop.complete completion_promise".to_owned(),
            _ => return is_over(),
        })
    }
}

/// What an iteration is told.
struct Cue {
    roles: String,
    allowed: Vec<Named>,
}

const INTERRUPTED: &str = "loop.stop interrupted";
