//! A second model of the rules of a loop, checked on the journal alone: every record is allowed
//! where it is.
//!
//! A judge gets the records of one run one by one, with their authors. It knows nothing of the
//! driver's state; what it expects follows from the [rules](crate::rules) and the
//! [setup](crate::setup).

use autoloop_core::record::Glance;

use crate::chain_request::{Kin, SPAWN};
use crate::open::{Backend, Open, moment};
use crate::place::Place;
use crate::rules::{COORDINATION, JOINED, Named, Rules, is_reserved, listed};
use crate::setup::{Setup, Turn};
use crate::spawns::{self, Spawns};
use crate::story::{Birth, Done, Story};
pub(crate) use crate::terms::{Author, Known, Loads};
use crate::wave::{Effect, Scene, Waves};
use crate::wave_request::{WaveRequest, base, can_be_about};

/// Whether the harness has to record a resume first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Voice {
    Heard,
    Returning,
}

pub(crate) struct Judge {
    setup: Setup,
    run: String,
    birth: Birth,
    /// The rules in force; none before the run started.
    pub(crate) rules: Option<Rules>,
    pub(crate) story: Story,
    open: Option<Open>,
    /// Whether it is already decided that the run continues after the last finished iteration.
    is_settled: bool,
    /// Whether the latest result about an event is its refusal.
    is_pressed: bool,
    voice: Voice,
    pub(crate) waves: Waves,
    pub(crate) spawns: Spawns,
    /// How it relates to other runs.
    pub(crate) kin: Kin,
}

impl Judge {
    pub(crate) fn new(setup: &Setup, run: &str, birth: Birth) -> Judge {
        let recent = birth.opening_event.clone().unwrap_or_else(|| "loop.start".to_owned());
        Judge {
            setup: setup.clone(),
            run: run.to_owned(),
            birth,
            rules: None,
            story: Story { recent, ..Story::default() },
            open: None,
            is_settled: false,
            is_pressed: false,
            voice: Voice::Heard,
            waves: Waves::default(),
            spawns: Spawns::default(),
            kin: Kin::default(),
        }
    }

    /// Its objective.
    pub(crate) fn objective(&self) -> &str {
        &self.birth.objective
    }

    fn place(&self) -> Place {
        Place::of(&self.run)
    }

    /// Why it ended, if it did; an interruption is no end.
    pub(crate) fn stop_reason(&self) -> Option<&str> {
        let ending = self.story.ending.as_deref().filter(|_| !self.is_interrupted());
        ending.and_then(|ending| ending.split(' ').nth(1))
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

    /// The harness that wrote so far has died.
    pub(crate) fn lost_its_harness(&mut self) {
        if self.is_begun() {
            self.voice = Voice::Returning;
        }
    }

    /// An agent is started for a turn: that has to be recorded.
    pub(crate) fn agent_starts(&self, turn: Turn) {
        let running = self.open.as_ref().filter(|open| open.backend == Backend::Running);
        assert_eq!(running.map(|open| open.turn), Some(turn), "this agent was not announced");
    }

    /// Hears the next record. `rules` are what the files of the loop say.
    pub(crate) fn hear(&mut self, author: Author, record: &Glance<'_>, rules: &Rules) -> Loads {
        match author {
            Author::Stranger => {
                let topic = record.topic().into_owned();
                // Between two turns it is not reported.
                let open = self.open.as_mut().filter(|_| is_reserved(&topic));
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
        let topic = record.topic().into_owned();
        let is_said = record.has_payload();
        let Some(open) = self.open.as_mut() else {
            // A branch or a step that forges a record of the waiting run does not affect that run.
            let is_waiting = self.waves.is_pending() || self.spawns.is_pending();
            assert!(is_waiting, "no agent is running: {topic}");
            return;
        };
        if topic == SPAWN && is_said {
            let payload = record.payload().unwrap_or_default().into_owned();
            match open.turn.is_review {
                true => self.spawns.review_asks(payload),
                false => open.chains.push(payload),
            }
        } else if topic == "event.invalid" && !is_said {
            open.refused = true;
            self.is_pressed |= !open.turn.is_review;
        } else if is_reserved(&topic) || !is_said {
            open.forged.push(topic);
        } else if !COORDINATION.contains(&topic.as_str()) {
            if base(&topic).is_some() {
                let list = record.payload().unwrap_or_default().into_owned();
                open.asked.push(WaveRequest { topic: topic.clone(), list });
            }
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
        let place = self.place();
        let turn = |is_review| Turn { place, iteration, is_review };
        assert_eq!(topic == "loop.resume", self.voice == Voice::Returning, "{shown}");
        assert!(self.story.ending.is_none() || topic == "loop.resume", "after the end: {shown}");
        assert_eq!(self.is_begun(), topic != "loop.start", "{shown}");
        if record.has_payload() {
            self.joins(record, &shown);
            return Loads::No;
        }
        match &*topic {
            "loop.start" => {
                let rules = &self.setup.rules_of(place, rules);
                assert_eq!(record.field("parent").as_deref(), self.birth.parent.as_deref());
                let opening = record.field("opening_event");
                assert_eq!(opening.as_deref(), self.birth.opening_event.as_deref());
                assert_eq!(field("max_iterations"), rules.max.to_string());
                assert_eq!(field("completion_event"), rules.completion);
                assert_eq!(field("completion_promise"), self.setup.promise);
                assert_eq!(field("review_every"), rules.review_every().to_string());
                return self.load(rules);
            }
            "loop.resume" => {
                let is_retried = self.open.is_none() && self.has_failed();
                let done = done - u64::from(is_retried);
                assert_eq!(field("resumed_from_iteration"), done.to_string(), "{shown}");
                self.resumed(&field("previous_stop_reason"), &shown);
                return self.load(rules);
            }
            "iteration.start" => self.begins(turn(false), &field, &shown),
            "review.start" => self.begins(turn(true), &field, &shown),
            "backend.start" => {
                self.backend(turn(false), (Backend::Waiting, Backend::Running), &shown);
                let deadline = self.setup.deadline(turn(false)).as_millis().to_string();
                assert_eq!(field("timeout_ms"), deadline, "{shown}");
                self.open.as_mut().expect("it is open").since = moment(record);
            }
            "backend.finish" => {
                self.backend(turn(false), (Backend::Running, Backend::Over), &shown);
                let open = self.open.as_ref().expect("something is in progress");
                open.check_time(self.setup.deadline(open.turn), moment(record), &shown);
                self.check_end(turn(false), &field, &shown);
            }
            "event.invalid" => {
                let open = self.open.as_mut().expect("something is in progress");
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
            "wave.invalid" if self.open.is_some() => {
                let open = self.open.as_mut().expect("something is in progress");
                assert!(open.backend == Backend::Over, "{shown}");
                assert_eq!(open.turn.iteration, iteration, "{shown}");
                assert_eq!(field("opening_recent_event"), self.story.recent, "{shown}");
                assert_eq!(field("reason"), "parallelism disabled", "{shown}");
                open.refused_waves.push(field("trigger_topic"));
            }
            _ if topic.starts_with("wave.") => {
                assert_eq!(iteration, done, "{shown}");
                self.hear_of_wave(&topic, &field, &shown);
            }
            _ if topic.starts_with("chain.") => {
                assert_eq!(iteration, done, "{shown}");
                self.hear_of_chain(&topic, &field, &shown);
            }
            _ => panic!("unexpected record: {shown}"),
        }
        Loads::No
    }

    fn load(&mut self, rules: &Rules) -> Loads {
        self.rules = Some(self.setup.rules_of(self.place(), rules));
        Loads::Yes
    }

    fn in_force(&self) -> &Rules {
        self.rules.as_ref().expect("the run began")
    }

    /// An unfinished turn is repeated, and so is a failed one: both start as before.
    fn resumed(&mut self, previous: &str, shown: &str) {
        self.voice = Voice::Heard;
        if let Some(open) = self.open.take() {
            self.is_pressed = open.was_pressed;
        } else if self.has_failed() {
            let failed = self.story.done.pop().expect("it failed");
            self.story.recent = failed.opening;
            self.is_pressed = failed.was_pressed;
            self.is_settled = true;
            self.spawns.forget_requests();
        }
        let ending = self.story.ending.take();
        let told = ending.map_or(String::new(), |ending| ending.replace("loop.stop ", ""));
        assert_eq!(previous, told, "{shown}");
    }

    fn has_failed(&self) -> bool {
        self.story.done.last().is_some_and(Done::has_failed)
    }

    /// A record about a wave of this run, which may have some.
    fn hear_of_wave(&mut self, topic: &str, field: &dyn Fn(&str) -> String, shown: &str) {
        assert!(self.open.is_none(), "in the midst of something: {shown}");
        assert_eq!(self.verdict(), None, "it goes on: {shown}");
        assert!(!self.place().is_branch(), "a branch opens no wave: {shown}");
        let rules = self.rules.as_ref().expect("the run began");
        let scene = Scene {
            run: &self.run,
            cast: &rules.cast,
            most: self.setup.waves.expect("there are waves").most,
            opening: &self.story.done.last().expect("an iteration requested it").opening,
        };
        match self.waves.hear(topic, field, &scene) {
            Effect::Nothing => {}
            Effect::Opened(trigger) => drop(self.story.seen.insert(trigger)),
            Effect::Refused(trigger) => {
                self.story.take_back(&trigger);
                self.is_pressed = true;
            }
        }
    }

    /// A record about a chain that this run requested.
    fn hear_of_chain(&mut self, topic: &str, field: &dyn Fn(&str) -> String, shown: &str) {
        assert!(self.open.is_none(), "in the midst of something: {shown}");
        let scene = spawns::Scene {
            run: &self.run,
            limits: self.setup.spawns,
            kin: self.kin,
            goes_on: self.verdict().is_none(),
        };
        self.spawns.hear(topic, field, &scene);
        self.is_pressed |= topic == "chain.invalid";
        if topic == "chain.spawn.finish" {
            self.story.chains.push(field("outcome"));
        }
    }

    /// The only thing that the harness emits.
    fn joins(&mut self, record: &Glance<'_>, shown: &str) {
        let (topic, payload) = (record.topic(), record.payload().unwrap_or_default());
        assert!(topic.ends_with(JOINED), "the harness emits nothing else: {shown}");
        let (route, outcomes) = self.waves.joined(&topic, &payload);
        self.story.recent = route;
        self.story.waves.push((topic.to_string(), outcomes));
        self.story.seen.insert(topic.into_owned());
    }

    /// An iteration or a review begins.
    fn begins(&mut self, turn: Turn, field: &dyn Fn(&str) -> String, shown: &str) {
        assert!(self.open.is_none(), "two at once: {shown}");
        assert_eq!(turn.iteration, self.story.done.len() as u64 + 1, "{shown}");
        assert_eq!(self.verdict(), None, "it goes on: {shown}");
        assert!(!self.waves.is_pending(), "a wave comes first: {shown}");
        assert!(!self.spawns.is_pending(), "a chain comes first: {shown}");
        let is_due = self.in_force().is_review_due(turn.iteration);
        let is_reviewed = self.story.reviews.contains(&turn.iteration);
        if turn.is_review {
            assert!(is_due && !is_reviewed, "not now: {shown}");
        } else {
            assert!(is_reviewed || !is_due, "it was not reviewed: {shown}");
            let (cast, recent) = (&self.in_force().cast, &self.story.recent);
            assert_eq!(field("recent_event"), *recent, "{shown}");
            assert_eq!(field("suggested_roles"), cast.acting(recent), "{shown}");
            assert_eq!(field("allowed_events"), listed(&cast.allowed(recent)), "{shown}");
            self.check_prompt(&field("prompt"));
            assert_eq!(!field("backpressure").is_empty(), self.is_pressed, "{shown}");
            self.is_settled = true;
        }
        self.open = Some(Open::begins(turn, self.is_pressed));
    }

    /// A prompt says whether waves are possible, and reports the outcomes of the last wave.
    fn check_prompt(&self, prompt: &str) {
        self.birth.check_prompt(prompt);
        let may_ask = self.setup.waves.is_some() && !self.place().is_branch();
        assert_eq!(prompt.contains("Structured parallelism:"), may_ask, "{prompt}");
        self.waves.check_prompt(prompt);
        self.spawns.check_prompt(prompt, self.kin, self.setup.spawns);
    }

    fn backend(&mut self, turn: Turn, (from, to): (Backend, Backend), shown: &str) {
        let open = self.open.as_mut().unwrap_or_else(|| panic!("nothing began: {shown}"));
        assert_eq!((open.turn, open.backend), (turn, from), "{shown}");
        open.backend = to;
    }

    /// The recorded end of an agent is how the agent ended.
    fn check_end(&self, turn: Turn, field: &dyn Fn(&str) -> String, shown: &str) {
        let end = self.setup.end(turn);
        assert_eq!(field("exit_code"), end.code.to_string(), "{shown}");
        assert_eq!(field("timed_out"), end.timed_out.to_string(), "{shown}");
        if !end.output.is_empty() && end.output.len() < 1_000 {
            assert_eq!(field("output"), String::from_utf8_lossy(&end.output), "{shown}");
        }
    }

    /// Ends the current turn. Everything refused in it is recorded, and nothing else is.
    fn finishes(&mut self, turn: Turn, backend: Backend, shown: &str) -> Open {
        let open = self.open.take().unwrap_or_else(|| panic!("nothing began: {shown}"));
        assert_eq!((open.turn, open.backend), (turn, backend), "{shown}");
        let (off, said): (Vec<_>, Vec<_>) =
            open.said.iter().partition(|event| self.is_wave_while_off(turn, event));
        assert_eq!(open.refused_waves.iter().collect::<Vec<_>>(), off, "{shown}");
        let refused = said.into_iter().filter(|event| !self.is_allowed(turn, event));
        let refused = refused.map(|event| (event.clone(), String::new()));
        let forged = open.forged.iter().map(|topic| (topic.clone(), "forged".to_owned()));
        assert_eq!(open.refusals, refused.chain(forged).collect::<Vec<_>>(), "{shown}");
        open
    }

    /// Whether a wave is requested while waves are off.
    fn is_wave_while_off(&self, turn: Turn, event: &str) -> bool {
        let is_off = turn.place.is_branch() || self.setup.waves.is_none();
        base(event).is_some() && is_off && !turn.is_review
    }

    fn is_allowed(&self, turn: Turn, event: &str) -> bool {
        let rules = self.in_force();
        let event = match base(event) {
            None => event,
            Some(_) if turn.place.is_branch() || self.setup.waves.is_none() => return false,
            Some(base) if !can_be_about(base, rules.completion) => return false,
            Some("explore") => return !turn.is_review,
            Some(base) => base,
        };
        let allowed = rules.cast.allowed(&self.story.recent);
        let is_named = |named: &Named| named.means(event);
        !turn.is_review && (allowed.is_empty() || allowed.iter().any(is_named))
    }

    fn is_done(&mut self, open: Open) {
        let is_allowed = |event: &String| self.is_allowed(open.turn, event);
        let is_off = |event: &&String| self.is_wave_while_off(open.turn, event);
        let left = open.said.iter().rfind(|event| is_allowed(event) || is_off(event));
        // A later accepted event makes up for it.
        let is_pressed = left.is_some_and(|event| is_off(&event));
        let asked_while_off = open.said.iter().any(|event| is_off(&event));
        let said: Vec<String> = open.said.iter().filter(|event| !is_off(event)).cloned().collect();
        let (accepted, withdrawn): (Vec<_>, Vec<_>) = said.into_iter().partition(is_allowed);
        self.is_pressed |= is_pressed;
        let end = self.setup.end(open.turn);
        let (turn, asked) = (open.turn, open.asked);
        let asked = asked.into_iter().filter(|asked| self.is_allowed(turn, &asked.topic)).collect();
        let has_failed = end.timed_out || end.code != 0;
        let asked_for_chains = !open.chains.is_empty();
        self.spawns.ask(open.chains);
        // The remarks of a failed iteration are repeated when it is retried.
        if !has_failed {
            self.waves.go_on(asked);
            self.spawns.go_on();
        }
        let opening = self.story.recent.clone();
        self.story.recent = accepted.last().unwrap_or(&opening).clone();
        // A request for a wave counts when the wave opens.
        let is_plain = |event: &&String| base(event).is_none() && !has_failed;
        self.story.seen.extend(accepted.iter().filter(is_plain).cloned());
        self.is_settled = false;
        self.story.done.push(Done {
            opening,
            accepted,
            code: end.code,
            timed_out: end.timed_out,
            promised: self.setup.is_promised(open.turn),
            withdrawn: !withdrawn.is_empty(),
            refused: open.refused || !open.forged.is_empty() || asked_while_off,
            asked_for_chains,
            was_pressed: open.was_pressed,
        });
    }

    fn ends(&mut self, topic: &str, field: &dyn Fn(&str) -> String, shown: &str) {
        assert!(self.open.is_none(), "in the midst of something: {shown}");
        let ending = format!("{topic} {}", field("reason"));
        if ending != INTERRUPTED {
            assert_eq!(self.verdict(), Some(ending.clone()), "{shown}");
            assert!(!self.spawns.is_pending(), "a chain comes first: {shown}");
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
        let last = if self.is_settled { None } else { self.story.done.last() };
        self.story.verdict(last, self.in_force())
    }
}

const INTERRUPTED: &str = "loop.stop interrupted";
