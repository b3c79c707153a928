//! A metareview: the loop looks at itself before it goes on.

use std::io;

use autoloop_core::failure::TurnFailure;
use autoloop_core::prompt::Budgets;
use autoloop_core::prompt::review::{ReviewOrder, render};
use autoloop_core::record::{ReviewFinish, ReviewStart};
use autoloop_core::routing::METAREVIEW_DISABLED;
use autoloop_core::topology::Route;
use autoloop_core::wave::Parallel;

use super::bounds::Confined;
use super::findings::Findings;
use super::iteration::{LoopTurn, invalid_events, told_of};
use super::{Drive, DriveError, Progress};
use crate::journal::NewRecord;
use crate::turn::{Ended, failure, millis, notes, said, usage};
use crate::world::{Ending, Finished, NeverStarted, Obstacle};

/// What such reviews are called in records and in the environment.
const KIND: &str = "metareview";

impl Drive<'_> {
    /// Has a metareview done before an iteration. However it ends, the loop goes on.
    pub(super) fn review(&mut self, before: u64) -> Result<(), DriveError> {
        let Some(plan) = self.loaded.plan.review.clone() else { return Ok(()) };
        (self.tell)(Progress::Review { before });
        let recent_event = self.harness.run().recent_event.clone();
        let prompt = render(&self.review_order(before, &recent_event)?);
        let route = Route {
            roles: vec!["review".to_owned()],
            events: vec![METAREVIEW_DISABLED.to_owned()],
        };
        let turn = LoopTurn {
            iteration: before,
            recent_event: &recent_event,
            route: &route,
            review: KIND,
            prompt: &prompt,
        };
        let mut launch = self.launch(&plan.backend, &turn)?;
        let layers = self.enforcement;
        let confined =
            layers.map(|layers| self.confine(layers, &turn, &mut launch.job)).transpose();
        let start = ReviewStart {
            kind: KIND.to_owned(),
            backend_kind: plan.backend.kind.into(),
            command: plan.backend.command.clone(),
            prompt_mode: launch.prompt_mode(),
            prompt: prompt.as_str().into(),
            timeout_ms: millis(plan.backend.timeout),
            enforcement: match &confined {
                Ok(Some(confined)) => Some(confined.enforcement.to_string()),
                Ok(None) | Err(_) => None,
            },
        };
        let heading = self.harness.heading(before, self.world.clock.now());
        self.harness.append(self.durability(), |_| vec![start.record(&heading).into()])?;

        let watched = |confined: Confined| self.watch(confined, &launch.job);
        let (ended, findings) = match confined.and_then(|some| some.map(watched).transpose()) {
            Ok(bound) => {
                let ended = launch.run(self.world, self.interrupts);
                let findings = bound.map(|bound| self.release(bound, KIND)).unwrap_or_default();
                (ended, findings)
            }
            // Without bounds there is no review.
            Err(error) => (Ended::unbegun(not_started(&error)), Findings::default()),
        };
        let (output, finished) = (ended.long_output(self.world), ended.finished);
        let failure = failure(&finished, &plan.backend);
        let finish = ReviewFinish {
            kind: KIND.to_owned(),
            exit_code: finished.exit_code().into(),
            timed_out: finished.timed_out(),
            output: if output.is_some() { "".into() } else { said(&finished).into() },
            diff: findings.diff.as_deref().map(Into::into),
            interrupted: failure.as_ref().filter(|it| it.is_interrupt()).map(|_| true),
            detail: failure.as_ref().and_then(TurnFailure::cause),
        };
        let violations = findings.all_violations();
        for violation in &violations {
            let note = format!("the reviewer went too far: {}: {}", violation.path, violation.what);
            (self.tell)(Progress::Note(&note));
        }
        let heading = self.harness.heading(before, self.world.clock.now());
        self.harness.append(self.durability(), |foreign| {
            let invalid = invalid_events(&recent_event, (&route, &Parallel::Off), foreign);
            let mut records: Vec<NewRecord> =
                invalid.iter().map(|invalid| invalid.record(&heading).into()).collect();
            records.extend(violations.iter().map(|violation| violation.record(&heading).into()));
            records.extend(usage(&finished).map(|usage| usage.record(&heading).into()));
            records.push(NewRecord { record: finish.record(&heading), spooled: output.clone() });
            records
        })?;
        let about = match finished.ending {
            Ending::NeverStarted(_) => "no metareview took place: ",
            Ending::Exited(_) | Ending::Lost(_) => "",
        };
        // One that never began is told of below, and an interrupt where the run ends.
        let is_told = matches!(finished.ending, Ending::NeverStarted(_));
        if let Some(failure) = failure.filter(|it| !it.is_interrupt() && !is_told) {
            (self.tell)(Progress::Note(&failure.of(KIND)));
        }
        for note in notes(&finished) {
            (self.tell)(Progress::Note(&format!("{about}{note}")));
        }
        self.reload();
        self.notices.extend(findings.notices);
        Ok(())
    }

    fn review_order(&self, before: u64, recent_event: &str) -> Result<ReviewOrder, DriveError> {
        let memory = self.memory()?;
        let run = self.harness.run();
        Ok(ReviewOrder {
            run: run.id.clone(),
            iteration: before,
            instructions: self.loaded.review_prompt.clone().unwrap_or_default(),
            notices: self.notices.clone(),
            pressure: self.pressure(&memory),
            backpressure: run.backpressure.as_ref().map(told_of),
            memory,
            cast: self.cast(recent_event, &self.loaded.topology.route(recent_event)),
            scratchpad: self.scratchpad(),
            tools: self.tools(),
            budgets: Budgets::default(),
        })
    }
}

/// A review that could not be held to its bounds, and so was not begun.
pub(super) fn not_started(error: &io::Error) -> Finished {
    let message = format!("the review was not started, as nothing would bind it: {error}");
    Finished::new(Ending::NeverStarted(NeverStarted {
        errno: error.raw_os_error().unwrap_or_default(),
        message,
        obstacle: Obstacle::Surroundings,
    }))
}
