//! Requests to stop, and the jobs that hear of them.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::world::Signal;

/// The requests to stop that have come so far. Clones share them.
///
/// The first ends whatever runs with grace, every later one at once. Jobs that begin later hear of
/// earlier requests too, so that nothing slips through between two jobs.
#[derive(Clone, Debug, Default)]
pub struct Interrupts {
    state: Arc<Mutex<State>>,
    /// The requests to everybody, where these are to some.
    above: Option<Arc<Interrupts>>,
}

#[derive(Debug, Default)]
struct State {
    /// The numbers of the signals that came.
    received: Vec<i32>,
    jobs: Vec<(u64, Sender<Signal>)>,
    jobs_so_far: u64,
}

impl Interrupts {
    /// Requests to some jobs alone, which hear of the requests to everybody as well.
    #[must_use]
    pub fn to_some(&self) -> Interrupts {
        Interrupts { state: Arc::default(), above: Some(Arc::new(self.clone())) }
    }

    /// One more request, by this signal.
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

    /// Whether anybody asked these jobs to end, or everybody.
    pub fn are_raised(&self) -> bool {
        self.first().is_some() || self.above.as_ref().is_some_and(|above| above.are_raised())
    }

    /// How many requests have come.
    pub fn count(&self) -> usize {
        self.state().received.len()
    }

    /// Passes requests on to a job, the earlier ones first, until the answer is dropped.
    #[must_use]
    pub fn pass_on(&self, job: Sender<Signal>) -> PassedOn {
        let above = self.above.as_ref().map(|above| Box::new(above.pass_on(job.clone())));
        let mut state = self.state();
        for nth in 1..=state.received.len() {
            let _ = job.send(severity(nth));
        }
        let number = state.jobs_so_far;
        state.jobs_so_far += 1;
        state.jobs.push((number, job));
        drop(state);
        PassedOn { interrupts: self.clone(), number, _above: above }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn severity(nth: usize) -> Signal {
    if nth == 1 { Signal::Terminate } else { Signal::Kill }
}

/// A job hears of requests as long as this exists.
#[derive(Debug)]
pub struct PassedOn {
    interrupts: Interrupts,
    number: u64,
    _above: Option<Box<PassedOn>>,
}

impl Drop for PassedOn {
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
        let passed_on = interrupts.pass_on(job);
        assert_eq!(interrupts.first(), None);
        interrupts.raise(2);
        interrupts.clone().raise(15);
        assert_eq!((interrupts.first(), interrupts.count()), (Some(2), 2));
        drop(passed_on);
        interrupts.raise(15);
        assert_eq!(heard.iter().collect::<Vec<_>>(), [Signal::Terminate, Signal::Kill]);
    }

    #[test]
    fn a_request_to_some_is_nothing_to_others() {
        let interrupts = Interrupts::default();
        let some = interrupts.to_some();
        let ((job, heard), (other, others_heard)) = (channel(), channel());
        let passed_on = (some.pass_on(job), interrupts.pass_on(other));
        assert!(!some.are_raised());
        some.raise(15);
        assert!(some.are_raised() && !interrupts.are_raised());
        assert_eq!((heard.recv(), interrupts.first()), (Ok(Signal::Terminate), None));
        interrupts.raise(2);
        drop(passed_on);
        assert_eq!(heard.iter().collect::<Vec<_>>(), [Signal::Terminate]);
        assert_eq!(others_heard.iter().collect::<Vec<_>>(), [Signal::Terminate]);
        assert!(interrupts.to_some().are_raised());
    }

    #[test]
    fn a_later_job_hears_of_earlier_requests() {
        let interrupts = Interrupts::default();
        interrupts.raise(2);
        let (job, heard) = channel();
        drop(interrupts.pass_on(job));
        assert_eq!(heard.iter().collect::<Vec<_>>(), [Signal::Terminate]);
    }
}
