//! Why the job of an agent failed.

use autoloop_core::agents::{ClientError, Outcome};
use autoloop_core::failure::{TurnFailure, last_line};
use autoloop_core::plan::BackendPlan;
use autoloop_core::text::one_line;

use super::retry::client_error;
use crate::error::DriveError;
use crate::world::{Cause, Ending, Finished, Obstacle};

/// Why an agent failed, if it did. One that was asked to end and exits with 0 did not.
pub(crate) fn failure(finished: &Finished, backend: &BackendPlan) -> Option<TurnFailure> {
    match (finished.cause, finished.exit_code()) {
        (Cause::Deadline, _) => Some(TurnFailure::timeout(backend.timeout, &backend.timeout_key)),
        (_, 0) => None,
        (Cause::Interrupt, _) => Some(TurnFailure::interrupt()),
        (Cause::Itself, code) => Some(TurnFailure::exit(code, &cause(finished))),
    }
}

/// Why no turn of an agent can succeed, if that is so: its program is missing, or its client refuses to work.
/// `missing` makes the error of a missing program.
pub(crate) fn client_failure(
    finished: &Finished,
    backend: &BackendPlan,
    missing: impl FnOnce(String) -> DriveError,
) -> Option<DriveError> {
    if let Ending::NeverStarted(why) = &finished.ending
        && why.obstacle == Obstacle::Program
    {
        return Some(missing(why.message.clone()));
    }
    let is_of_client =
        |error: &ClientError| error.class.is_transient() || error.class.is_permanent();
    let error = client_error(finished, backend).filter(is_of_client)?;
    Some(DriveError::Client { client: backend.command.clone(), error })
}

/// Why it could not be started, what its client reports, or its last line on standard error. Some clients print errors
/// in place of an answer.
fn cause(finished: &Finished) -> String {
    let outcome = finished.answer.as_ref().map(|answer| &answer.outcome);
    match (&finished.ending, outcome) {
        (Ending::NeverStarted(why), _) => return one_line(&why.message),
        (Ending::Lost(why), _) => return one_line(why),
        (Ending::Exited(_), Some(Outcome::Failed(error))) if !error.message.is_empty() => {
            return one_line(&error.message);
        }
        (Ending::Exited(_), _) => {}
    }
    match (last_line(&finished.stderr.end()), outcome) {
        (said, _) if !said.is_empty() => said,
        (_, Some(outcome)) if outcome.is_failure() => outcome.to_string(),
        (_, Some(_)) => String::new(),
        (_, None) => match last_line(&finished.stdout.end()) {
            // A verdict is not a cause.
            object if object.starts_with('{') => String::new(),
            said => said,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use autoloop_core::agents::Answer;
    use autoloop_core::config::Settings;
    use autoloop_core::plan::Plan;
    use autoloop_core::topology::Topology;

    use super::*;
    use crate::world::{Exit, Output};

    fn told(change: impl FnOnce(&mut Finished)) -> String {
        let plan = Plan::resolve(&Settings::resolve(&[]).settings, &Topology::default()).unwrap();
        let mut finished = Finished::new(Ending::Exited(Exit::Code(1)));
        finished.stdout = Output::whole("thinking\nInvalid API key\n");
        change(&mut finished);
        let backend = BackendPlan { timeout: Duration::from_secs(90), ..plan.backend };
        failure(&finished, &backend).map(|failure| failure.to_string()).unwrap_or_default()
    }

    #[test]
    fn the_cause_is_the_best_that_is_known() {
        let answered = |outcome| Some(Answer { outcome, ..Answer::default() });
        let told = [
            told(|finished| finished.ending = Ending::Exited(Exit::Code(0))),
            told(|_| {}),
            told(|finished| finished.stderr = Output::whole("warning\nno such model\n\n")),
            told(|finished| {
                finished.stderr = Output::whole("noise");
                finished.answer = answered(Outcome::Failed("429\nslow down".into()));
            }),
            told(|finished| {
                finished.stderr = Output::whole("segmentation fault");
                finished.answer = answered(Outcome::Silent);
            }),
            told(|finished| finished.answer = answered(Outcome::Unfinished)),
            told(|finished| finished.ending = Ending::Lost("the supervisor is gone".into())),
            told(|finished| finished.cause = Cause::Deadline),
            told(|finished| finished.cause = Cause::Interrupt),
        ];
        insta::assert_snapshot!(told.join("\n"), @r"

        the agent failed (exit code 1): Invalid API key
        the agent failed (exit code 1): no such model
        the agent failed (exit code 1): 429 slow down
        the agent failed (exit code 1): segmentation fault
        the agent failed (exit code 1): the agent ended in the middle of its work
        the agent failed (exit code 125): the supervisor is gone
        the agent timed out after 1m30s (backend.timeout_ms)
        the agent was interrupted
        ");
    }
}
