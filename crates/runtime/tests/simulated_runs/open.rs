//! An iteration or a review, from its start to its end.

use std::time::Duration;

use autoloop_core::record::Glance;
use autoloop_core::timestamp::Timestamp;

use crate::setup::Turn;
use crate::wave_request::WaveRequest;

/// How long a backend may exceed its deadline: until it is killed, and until that is recorded.
const GRACE: Duration = Duration::from_millis(5_100);

/// An iteration or a review in progress.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) turn: Turn,
    pub(crate) backend: Backend,
    pub(crate) said: Vec<String>,
    pub(crate) asked: Vec<WaveRequest>,
    /// The chains that were requested.
    pub(crate) chains: Vec<String>,
    pub(crate) forged: Vec<String>,
    pub(crate) refused: bool,
    /// Whether its prompt reported a refusal.
    pub(crate) was_pressed: bool,
    /// What the harness refused, and why.
    pub(crate) refusals: Vec<(String, String)>,
    /// The waves that it refused.
    pub(crate) refused_waves: Vec<String>,
    /// When its backend began.
    pub(crate) since: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    Waiting,
    Running,
    Over,
}

impl Open {
    pub(crate) fn begins(turn: Turn, was_pressed: bool) -> Open {
        Open {
            turn,
            backend: if turn.is_review { Backend::Running } else { Backend::Waiting },
            said: Vec::new(),
            asked: Vec::new(),
            chains: Vec::new(),
            forged: Vec::new(),
            refused: false,
            was_pressed,
            refusals: Vec::new(),
            refused_waves: Vec::new(),
            since: None,
        }
    }

    /// No backend runs for longer than it may.
    pub(crate) fn check_time(&self, deadline: Duration, now: Option<Timestamp>, shown: &str) {
        let (Some(since), Some(now)) = (self.since, now) else { panic!("no time: {shown}") };
        let took = u64::try_from(now.millis() - since.millis()).unwrap();
        assert!(Duration::from_millis(took) <= deadline + GRACE, "{took} ms: {shown}");
    }
}

/// When a record was written.
pub(crate) fn moment(record: &Glance<'_>) -> Option<Timestamp> {
    record.ts()?.parse().ok()
}
