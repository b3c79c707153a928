//! One call of the tracker.

use std::borrow::Cow;
use std::ffi::OsString;

use autoloop_core::queue::beads::{Issue, each_issue};
use std::time::Duration;

use super::{Beads, BeadsError};
use crate::process::{Interrupts, run};
use crate::world::{Ending, Finished, Job, Limits};

/// Half of the maximum size of an answer, in bytes: enough for thousands of issues.
const HELD: usize = 8 * 1024 * 1024;
/// How long the program has to end after its deadline.
const GRACE: Duration = Duration::from_millis(500);

impl Beads {
    /// Calls the tracker and reads the issues in the answer. An empty actor is not named.
    pub(super) fn ask(&self, words: &[&str], actor: &str) -> Result<Vec<Issue>, BeadsError> {
        let mut issues = Vec::new();
        self.ask_for_each(words, actor, &mut |issue| issues.push(issue))?;
        Ok(issues)
    }

    /// The same with one issue at a time: there may be very many.
    fn ask_for_each(
        &self,
        words: &[&str],
        actor: &str,
        keep: &mut dyn FnMut(Issue),
    ) -> Result<(), BeadsError> {
        let doing = || self.shown(words);
        // A call is short, and its change is wanted also when the run is asked to stop.
        let finished = run(self.job(words, actor), &self.world, &Interrupts::default());
        if finished.timed_out() {
            return Err(BeadsError::Late { doing: doing(), after: self.settings.deadline });
        }
        if let Ending::NeverStarted(why) = &finished.ending {
            let program = self.settings.program.to_string_lossy().into_owned();
            return Err(BeadsError::NotStarted { program, why: why.message.clone() });
        }
        let (stdout, stderr) = (held(&finished, doing)?, finished.stderr.text());
        match finished.exit_code() {
            0 => each_issue(&stdout, keep)
                .map_err(|source| BeadsError::BadAnswer { doing: doing(), source }),
            code => Err(BeadsError::failed(doing(), code, &stdout, &stderr)),
        }
    }

    /// Calls with these words, and with the older ones where the program does not know an option.
    pub(super) fn ask_either(
        &self,
        [words, older]: [&[&str]; 2],
        actor: &str,
        keep: &mut dyn FnMut(Issue),
    ) -> Result<(), BeadsError> {
        match self.ask_for_each(words, actor, keep) {
            Err(BeadsError::Failed { complaint, .. }) if complaint.is_unknown_option() => {
                self.ask_for_each(older, actor, keep)
            }
            answer => answer,
        }
    }

    fn job(&self, words: &[&str], actor: &str) -> Job {
        let mut args = self.settings.args.clone();
        args.extend(words.iter().map(OsString::from));
        args.push("--json".into());
        let mut env: Vec<(OsString, OsString)> =
            vec![("BD_JSON_ENVELOPE".into(), "1".into()), ("RUST_LOG".into(), "error".into())];
        if !actor.is_empty() {
            args.extend(["--actor".into(), actor.into()]);
            env.extend(["BEADS_ACTOR", "BD_ACTOR"].map(|name| (name.into(), actor.into())));
        }
        Job {
            program: self.settings.program.clone(),
            args,
            env,
            // They change the format of answers, or shorten lists.
            env_removed: [
                "BR_OUTPUT_FORMAT",
                "TOON_DEFAULT_FORMAT",
                "BD_AGENT_MODE",
                "CLAUDE_CODE",
            ]
            .map(OsString::from)
            .to_vec(),
            dir: Some(self.settings.dir.clone()),
            limits: Limits {
                deadline: Some(self.settings.deadline),
                grace: GRACE,
                kept: HELD,
                ..Limits::default()
            },
            ..Job::default()
        }
    }

    /// A call, for messages.
    fn shown(&self, words: &[&str]) -> String {
        let command = std::iter::once(&self.settings.program).chain(&self.settings.args);
        let mut shown: Vec<_> = command.map(|word| word.to_string_lossy()).collect();
        shown.extend(words.iter().map(|word| Cow::Borrowed(*word)));
        shown.join(" ")
    }
}

/// The output, if it is complete.
fn held(finished: &Finished, doing: impl FnOnce() -> String) -> Result<String, BeadsError> {
    match finished.stdout.left_out() {
        0 => Ok(finished.stdout.text()),
        _ => Err(BeadsError::TooMuch { doing: doing(), bytes: finished.stdout.bytes }),
    }
}
