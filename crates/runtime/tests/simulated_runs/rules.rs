//! The rules of a generated loop and their consequences: a second model, beside the tested one.

use autoloop_testkit::Dice;

use crate::chain_request::SPAWN;

/// The events that agents emit.
pub(crate) const EVENTS: [&str; 7] =
    ["x.ready", "x.odd", "y.ready", "z.ready", "odd.event", "task.complete", "done.now"];
/// Coordination events, which are always allowed.
pub(crate) const COORDINATION: [&str; 3] =
    ["issue.discovered", "slice.verified", "context.archived"];
/// What the harness alone may write.
pub(crate) const RESERVED: [&str; 18] = [
    "loop.start",
    "loop.complete",
    "loop.stop",
    "loop.resume",
    "iteration.start",
    "iteration.finish",
    "backend.finish",
    "review.start",
    "review.finish",
    "x.parallel.joined",
    "explore.parallel.joined",
    "wave.start",
    "wave.branch.start",
    "wave.branch.finish",
    "wave.join.finish",
    "chain.step.start",
    "chain.step.finish",
    "chain.complete",
];

/// Whether only the harness may write such a topic.
pub(crate) fn is_reserved(topic: &str) -> bool {
    let is_of_chains = topic.starts_with("chain.") && topic != SPAWN;
    RESERVED.contains(&topic) || topic.starts_with("loop.") || is_of_chains
}

/// What a joined event ends with.
pub(crate) const JOINED: &str = ".parallel.joined";

/// The settings of a loop, as in its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) max: u64,
    pub(crate) completion: &'static str,
    pub(crate) required: Vec<&'static str>,
    pub(crate) review: Cadence,
    pub(crate) cast: Cast,
}

/// The cadence of reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cadence {
    Never,
    /// Once every role had its turn.
    Roles,
    Every(u64),
}

/// The roles and their handoffs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cast {
    /// The events that each role may emit. Role 1 is called `r1`.
    emits: Vec<Vec<Named>>,
    handoff: Vec<(Named, Vec<usize>)>,
    /// Whether the topology names the completion event, and not the settings.
    names_completion: bool,
}

/// An event, or all events with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    One(&'static str),
    Family(&'static str),
}

impl Named {
    fn any(dice: &mut Dice) -> Named {
        match dice.below(8) {
            0 => Named::Family(one_of(dice, &["x", "y"])),
            _ => Named::One(one_of(dice, &EVENTS)),
        }
    }

    pub(crate) fn means(self, event: &str) -> bool {
        match self {
            Named::One(name) => name == event,
            Named::Family(name) => event.split_once('.').is_some_and(|(family, _)| family == name),
        }
    }

    /// One of the events that it matches.
    pub(crate) fn example(self) -> &'static str {
        match self {
            Named::One(name) => name,
            Named::Family("x") => "x.odd",
            Named::Family(_) => "y.ready",
        }
    }

    fn text(self) -> String {
        match self {
            Named::One(name) => name.to_owned(),
            Named::Family(name) => format!(r"/{name}\..*/"),
        }
    }
}

impl Rules {
    pub(crate) fn any(dice: &mut Dice) -> Rules {
        let most = *dice.pick(&[2, 4, 8]);
        let roles = *dice.pick(&[0, 1, 2, 2, 3, 3]);
        Rules {
            max: 1 + dice.below(most),
            completion: one_of(dice, &["task.complete", "task.complete", "done.now"]),
            required: Rules::any_required(dice),
            review: *dice.pick(&[
                Cadence::Never,
                Cadence::Never,
                Cadence::Roles,
                Cadence::Every(1),
                Cadence::Every(2),
                Cadence::Every(3),
            ]),
            cast: Cast::any(roles, dice),
        }
    }

    pub(crate) fn any_required(dice: &mut Dice) -> Vec<&'static str> {
        let choices: [&[_]; 5] = [&[], &[], &["x.ready"], &["y.ready"], &["x.ready", "y.ready"]];
        dice.pick(&choices).to_vec()
    }

    pub(crate) fn is_review_due(&self, before: u64) -> bool {
        let every = self.review_every();
        every > 0 && before > 1 && (before - 1).is_multiple_of(every)
    }

    /// How many iterations lie between reviews; 0 when there are none.
    pub(crate) fn review_every(&self) -> u64 {
        match self.review {
            Cadence::Never => 0,
            Cadence::Roles => (self.cast.emits.len() as u64).max(1),
            Cadence::Every(every) => every,
        }
    }

    pub(crate) fn config(&self) -> String {
        let completion = match self.cast.names_completion {
            true => String::new(),
            false => format!("event_loop.completion_event = {:?}\n", self.completion),
        };
        let review = match self.review {
            Cadence::Never => "review.enabled = false".to_owned(),
            Cadence::Roles => "review.every_iterations = 0".to_owned(),
            Cadence::Every(every) => format!("review.every_iterations = {every}"),
        };
        let (max, required) = (self.max, &self.required);
        format!(
            "event_loop.max_iterations = {max}\nevent_loop.required_events = {required:?}\n\
             {completion}{review}\n"
        )
    }

    pub(crate) fn topology(&self) -> String {
        let mut text = String::new();
        if self.cast.names_completion {
            text = format!("completion = {:?}\n", self.completion);
        }
        for (number, emits) in self.cast.emits.iter().enumerate() {
            let emits: Vec<_> = emits.iter().map(|named| named.text()).collect();
            text += &format!("[[role]]\nid = \"r{number}\"\nemits = {emits:?}\n");
        }
        text += "[handoff]\n";
        for (event, roles) in &self.cast.handoff {
            let roles: Vec<_> = roles.iter().map(|role| format!("r{role}")).collect();
            text += &format!("{:?} = {roles:?}\n", event.text());
        }
        text
    }
}

impl Cast {
    /// That many roles, with random handoffs.
    pub(crate) fn any(roles: usize, dice: &mut Dice) -> Cast {
        let mut emits: Vec<Vec<_>> = Vec::new();
        for _ in 0..roles {
            emits.push((0..dice.index(4)).map(|_| Named::any(dice)).collect());
        }
        let mut handoff: Vec<(Named, Vec<usize>)> = Vec::new();
        for _ in 0..if roles == 0 { 0 } else { dice.below(6) } {
            let event = match dice.below(4) {
                0 => Named::One("loop.start"),
                _ => Named::any(dice),
            };
            if handoff.iter().all(|(known, _)| *known != event) {
                handoff.push((event, (0..dice.index(3)).map(|_| dice.index(roles)).collect()));
            }
        }
        Cast { emits, handoff, names_completion: dice.chance(1, 3) }
    }

    pub(crate) fn roles(&self) -> usize {
        self.emits.len()
    }

    /// The same number of roles with other handoffs.
    pub(crate) fn shuffled(&self, dice: &mut Dice) -> Cast {
        Cast { names_completion: self.names_completion, ..Cast::any(self.roles(), dice) }
    }

    /// The roles that act after an event: those that any entry names, in the order of the entries,
    /// else all roles. A joined event without an entry routes like its base event.
    pub(crate) fn suggested(&self, event: &str) -> Vec<usize> {
        let is_named = |event: &str| self.handoff.iter().any(|(known, _)| known.means(event));
        let event = match event.strip_suffix(JOINED) {
            Some(base) if !is_named(event) => base,
            _ => event,
        };
        let mut roles = Vec::new();
        for (_, named) in self.handoff.iter().filter(|(known, _)| known.means(event)) {
            for role in named {
                if !roles.contains(role) {
                    roles.push(*role);
                }
            }
        }
        if roles.is_empty() { (0..self.roles()).collect() } else { roles }
    }

    /// The roles that act after an event, as the journal lists them.
    pub(crate) fn acting(&self, event: &str) -> String {
        let roles = self.suggested(event).into_iter().map(|role| format!("r{role}"));
        roles.collect::<Vec<_>>().join(",")
    }

    /// The events allowed after an event; empty means all.
    pub(crate) fn allowed(&self, event: &str) -> Vec<Named> {
        let suggested = self.suggested(event);
        let mut allowed = Vec::new();
        for (role, emits) in self.emits.iter().enumerate() {
            for named in emits.iter().filter(|_| suggested.contains(&role)) {
                if !allowed.contains(named) {
                    allowed.push(*named);
                }
            }
        }
        allowed
    }
}

/// One of several words.
pub(crate) fn one_of(dice: &mut Dice, words: &[&'static str]) -> &'static str {
    words[dice.index(words.len())]
}

/// As the journal lists them.
pub(crate) fn listed(allowed: &[Named]) -> String {
    allowed.iter().map(|named| named.text()).collect::<Vec<_>>().join(",")
}
