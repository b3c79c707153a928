//! Requests to stop, and the jobs that receive them.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::world::Signal;

/// The requests to stop that have come so far. Clones share them.
///
/// The first ends running jobs with grace, every later one at once. Jobs that start later receive earlier requests
/// too, so that none is lost between two jobs.
#[derive(Clone, Debug, Default)]
pub struct Interrupts {
    state: Arc<Mutex<State>>,
    /// The requests to all jobs, where these are to some.
    parent: Option<Arc<Interrupts>>,
}

#[derive(Debug, Default)]
struct State {
    received: Vec<i32>,
    jobs: Vec<(u64, Sender<Signal>)>,
    jobs_so_far: u64,
}

impl Interrupts {
    /// Requests to some jobs alone, which receive the requests to all as well.
    #[must_use]
    pub fn child(&self) -> Interrupts {
        Interrupts { state: Arc::default(), parent: Some(Arc::new(self.clone())) }
    }

    pub fn raise(&self, signal: i32) {
        let mut state = self.state();
        state.received.push(signal);
        let message = severity(state.received.len());
        // A job whose receiver is gone has ended.
        state.jobs.retain(|(_, job)| job.send(message).is_ok());
    }

    /// The signal of the first request, which decides the exit code.
    pub fn first(&self) -> Option<i32> {
        self.state().received.first().copied()
    }

    /// Whether these jobs were asked to end, or all jobs.
    pub fn are_raised(&self) -> bool {
        self.first().is_some() || self.parent.as_ref().is_some_and(|parent| parent.are_raised())
    }

    pub fn count(&self) -> usize {
        self.state().received.len()
    }

    /// Sends requests to a job, the earlier ones first, until the subscription is dropped.
    #[must_use]
    pub fn subscribe(&self, job: Sender<Signal>) -> Subscription {
        let parent = self.parent.as_ref().map(|parent| Box::new(parent.subscribe(job.clone())));
        let mut state = self.state();
        for nth in 1..=state.received.len() {
            let _ = job.send(severity(nth));
        }
        let number = state.jobs_so_far;
        state.jobs_so_far += 1;
        state.jobs.push((number, job));
        drop(state);
        Subscription { interrupts: self.clone(), number, _parent: parent }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn severity(nth: usize) -> Signal {
    if nth == 1 { Signal::Terminate } else { Signal::Kill }
}

#[derive(Debug)]
pub struct Subscription {
    interrupts: Interrupts,
    number: u64,
    _parent: Option<Box<Subscription>>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.interrupts.state().jobs.retain(|(number, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn the_first_ends_and_the_second_kills() {
        let interrupts = Interrupts::default();
        let (job, heard) = channel();
        let subscription = interrupts.subscribe(job);
        assert_eq!(interrupts.first(), None);
        interrupts.raise(2);
        interrupts.clone().raise(15);
        assert_eq!((interrupts.first(), interrupts.count()), (Some(2), 2));
        drop(subscription);
        interrupts.raise(15);
        assert_eq!(heard.iter().collect::<Vec<_>>(), [Signal::Terminate, Signal::Kill]);
    }

    #[test]
    fn a_request_to_some_does_not_reach_others() {
        let interrupts = Interrupts::default();
        let some = interrupts.child();
        let ((job, heard), (other, others_heard)) = (channel(), channel());
        let subscription = (some.subscribe(job), interrupts.subscribe(other));
        assert!(!some.are_raised());
        some.raise(15);
        assert!(some.are_raised() && !interrupts.are_raised());
        assert_eq!((heard.recv(), interrupts.first()), (Ok(Signal::Terminate), None));
        interrupts.raise(2);
        drop(subscription);
        assert_eq!(heard.iter().collect::<Vec<_>>(), [Signal::Terminate]);
        assert_eq!(others_heard.iter().collect::<Vec<_>>(), [Signal::Terminate]);
        assert!(interrupts.child().are_raised());
    }

    #[test]
    fn a_later_job_receives_earlier_requests() {
        let interrupts = Interrupts::default();
        interrupts.raise(2);
        let (job, heard) = channel();
        drop(interrupts.subscribe(job));
        assert_eq!(heard.iter().collect::<Vec<_>>(), [Signal::Terminate]);
    }
}
