//! The events and the output of one turn of an earlier run, for a replay.

use std::fmt;

use crate::record::{Event, Glance, IterationFinish, LoopStart, ReviewFinish};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Iteration(u64),
    /// The metareview before this iteration.
    Review(u64),
}

impl Part {
    fn number(self) -> u64 {
        match self {
            Part::Iteration(number) | Part::Review(number) => number,
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Iteration(number) => write!(f, "iteration {number}"),
            Part::Review(number) => write!(f, "the review before iteration {number}"),
        }
    }
}

/// Finds one turn of one run in the records of a journal, each with its place. A restarted turn
/// replaces the earlier attempt. Long texts are not kept, only their place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay<P> {
    pub run: String,
    pub part: Part,
    acts: bool,
    pub said: Vec<Said<P>>,
    pub end: Option<End<P>>,
    /// Whether the journal has records of the run.
    pub is_known: bool,
    /// The first and the last such turn that ended.
    pub others: Option<(u64, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said<P> {
    /// An event, with the place of its payload.
    Event(String, P),
    /// An event that `emit` refused; its payload is not recorded.
    Refused(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End<P> {
    pub exit_code: i32,
    pub output: P,
}

impl<P> Replay<P> {
    pub fn new(run: impl Into<String>, part: Part) -> Self {
        Replay {
            run: run.into(),
            part,
            acts: false,
            said: Vec::new(),
            end: None,
            is_known: false,
            others: None,
        }
    }

    pub fn apply(&mut self, record: &Glance<'_>, place: impl FnOnce() -> P) {
        if record.run() != self.run {
            return;
        }
        self.is_known = true;
        let Ok(number) = record.iteration().parse::<u64>() else { return };
        let is_ours = number == self.part.number();
        if record.has_payload() {
            // The harness emits the joined event of a wave.
            let is_agents = record.source().is_none_or(|source| source != "harness");
            if is_agents && is_ours && self.listens() {
                self.said.push(Said::Event(record.topic().into_owned(), place()));
            }
            return;
        }
        match (self.part, record.event()) {
            (Part::Iteration(_), Event::IterationStart(_))
            | (Part::Review(_), Event::ReviewStart(_))
                if is_ours =>
            {
                self.acts = true;
                self.said.clear();
                self.end = None;
            }
            // Refusals after the end of the agent are the harness's, not of `emit`.
            (_, Event::BackendFinish(_)) if is_ours => self.acts = false,
            (_, Event::EventInvalid(invalid)) if is_ours && self.listens() => {
                self.said.push(Said::Refused(invalid.emitted));
            }
            (Part::Iteration(_), Event::IterationFinish(IterationFinish { exit_code, .. }))
            | (Part::Review(_), Event::ReviewFinish(ReviewFinish { exit_code, .. })) => {
                let (first, last) = self.others.unwrap_or((number, number));
                self.others = Some((first.min(number), last.max(number)));
                if is_ours {
                    let exit_code = exit_code.known().unwrap_or(1);
                    self.acts = false;
                    self.end = Some(End { exit_code, output: place() });
                }
            }
            _ => {}
        }
    }

    /// Events of a review do not count.
    fn listens(&self) -> bool {
        self.acts && matches!(self.part, Part::Iteration(_))
    }
}

/// The run that a record starts, unless it is the current one.
pub fn earlier_run(record: &Glance<'_>, under_way: &str) -> Option<String> {
    let begins = record.topic() == LoopStart::TOPIC && !record.has_payload();
    (begins && record.run() != under_way).then(|| record.run().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOURNAL: &str = r#"{"run": "r", "iteration": "", "topic": "loop.start", "fields": {}}
{"run": "r", "iteration": "1", "topic": "iteration.start", "fields": {}}
{"run": "r", "iteration": "1", "topic": "cut.off", "payload": "", "source": "agent"}
{"run": "r", "iteration": "1", "topic": "iteration.start", "fields": {}}
{"run": "r", "iteration": "1", "topic": "backend.start", "fields": {}}
{"run": "r", "iteration": "1", "topic": "event.invalid", "fields": {"emitted": "bogus.x"}}
{"run": "r", "iteration": "1", "topic": "tasks.ready", "payload": "three", "source": "agent"}
{"run": "other", "iteration": "1", "topic": "not.this", "payload": "", "source": "agent"}
{"run": "r", "iteration": "1", "topic": "tasks.ready.parallel.joined", "payload": "", "source": "harness"}
{"run": "r", "iteration": "1", "topic": "task.complete", "payload": "by hand", "source": "agent"}
{"run": "r", "iteration": "1", "topic": "backend.finish", "fields": {"exit_code": "0"}}
{"run": "r", "iteration": "1", "topic": "event.invalid", "fields": {"emitted": "task.complete"}}
{"run": "r", "iteration": "1", "topic": "iteration.finish", "fields": {"exit_code": "7", "output": "done"}}
{"run": "r", "iteration": "2", "topic": "review.start", "fields": {}}
{"run": "r", "iteration": "2", "topic": "review.said", "payload": "", "source": "agent"}
{"run": "r", "iteration": "2", "topic": "review.finish", "fields": {"exit_code": "0", "output": "tidy"}}
{"run": "r", "iteration": "2", "topic": "iteration.start", "fields": {}}
{"run": "r", "iteration": "2", "topic": "review.ready", "payload": "", "source": "agent"}"#;

    fn replay(run: &str, part: Part) -> Replay<usize> {
        let mut replay = Replay::new(run, part);
        for (number, line) in JOURNAL.lines().enumerate() {
            replay.apply(&Glance::read(line.as_bytes()).unwrap(), || number + 1);
        }
        replay
    }

    #[test]
    fn an_iteration_is_what_was_said_in_its_last_attempt_and_how_it_ended() {
        let replay = replay("r", Part::Iteration(1));
        assert_eq!(
            replay.said,
            [
                Said::Refused("bogus.x".to_owned()),
                Said::Event("tasks.ready".to_owned(), 7),
                Said::Event("task.complete".to_owned(), 10),
            ]
        );
        assert_eq!(replay.end, Some(End { exit_code: 7, output: 13 }));
        assert_eq!(replay.others, Some((1, 1)));
    }

    #[test]
    fn a_review_is_how_it_ended() {
        let replay = replay("r", Part::Review(2));
        assert_eq!((replay.said.len(), replay.end.map(|end| end.output)), (0, Some(16)));
    }

    #[test]
    fn what_did_not_end_cannot_be_had() {
        let cut_off = replay("r", Part::Iteration(2));
        assert_eq!((cut_off.end, cut_off.is_known, cut_off.others), (None, true, Some((1, 1))));
        assert!(!replay("unknown", Part::Iteration(1)).is_known);
    }

    #[test]
    fn a_run_does_not_repeat_itself() {
        let start = Glance::read(JOURNAL.lines().next().unwrap().as_bytes()).unwrap();
        assert_eq!(earlier_run(&start, "s"), Some("r".to_owned()));
        assert_eq!(earlier_run(&start, "r"), None);
        let other = Glance::read(JOURNAL.lines().nth(1).unwrap().as_bytes()).unwrap();
        assert_eq!(earlier_run(&other, "s"), None);
    }
}
