//! Why a turn of an agent failed, in the same words in every record and view.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duration;
use crate::record::{
    BackendFinish, IterationFinish, ReviewFinish, SlotFix, SlotImplement, StopReason,
};
use crate::text;

const LONGEST: usize = 500;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnFailure {
    pub kind: FailureKind,
    /// The cause in one line: the last line that the agent printed, or the limit that it exceeded.
    /// Empty where it is unknown.
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    Exit(i32),
    /// The harness stopped the agent at its time limit.
    Timeout,
    /// The harness stopped the agent because it was asked to stop.
    Interrupt,
}

impl TurnFailure {
    pub fn exit(code: i32, said: &str) -> Self {
        TurnFailure { kind: FailureKind::Exit(code), detail: last_line(said) }
    }

    /// `key` is the setting of the limit.
    pub fn timeout(limit: Duration, key: &str) -> Self {
        let detail = format!("after {} ({key})", duration::print(limit));
        TurnFailure { kind: FailureKind::Timeout, detail }
    }

    pub fn interrupt() -> Self {
        TurnFailure { kind: FailureKind::Interrupt, detail: String::new() }
    }

    pub fn is_interrupt(&self) -> bool {
        self.kind == FailureKind::Interrupt
    }

    /// The reason of `loop.stop` after such a turn.
    pub fn stop_reason(&self) -> StopReason {
        match self.kind {
            FailureKind::Exit(_) => StopReason::BackendFailed,
            FailureKind::Timeout => StopReason::BackendTimeout,
            FailureKind::Interrupt => StopReason::Interrupted,
        }
    }

    /// The detail as records have it.
    pub fn cause(&self) -> Option<String> {
        Some(self.detail.clone()).filter(|detail| !detail.is_empty())
    }

    /// The failure as a sentence about `who`: the agent, the reviewer, the implementer.
    pub fn of(&self, who: &str) -> String {
        match (self.kind, self.detail.as_str()) {
            (FailureKind::Exit(code), "") => format!("the {who} failed (exit code {code})"),
            (FailureKind::Exit(code), why) => format!("the {who} failed (exit code {code}): {why}"),
            (FailureKind::Timeout, "") => format!("the {who} timed out"),
            (FailureKind::Timeout, why) => format!("the {who} timed out {why}"),
            (FailureKind::Interrupt, _) => format!("the {who} was interrupted"),
        }
    }
}

/// Gives the records that end a turn a method for its failure.
macro_rules! turn_ends {
    ($( $event:ident { $cause:ident $(, $interrupted:ident)? } )*) => { $(
        impl $event<'_> {
            /// Why the agent failed. Without an exit code there is no evidence that it succeeded.
            pub fn failure(&self) -> Option<TurnFailure> {
                let is_late = Option::from(self.timed_out) == Some(true);
                let is_interrupted = false $( || self.$interrupted == Some(true) )?;
                let kind = match (is_late, is_interrupted, self.exit_code.known()) {
                    (true, _, _) => FailureKind::Timeout,
                    (false, true, _) => FailureKind::Interrupt,
                    (false, false, Some(0)) => return None,
                    (false, false, code) => FailureKind::Exit(code.unwrap_or(-1)),
                };
                let detail = self.$cause.as_deref().map(last_line).unwrap_or_default();
                Some(TurnFailure { kind, detail })
            }
        }
    )* };
}

turn_ends! {
    BackendFinish { detail, interrupted }
    IterationFinish { detail, interrupted }
    ReviewFinish { detail, interrupted }
    SlotImplement { reason }
    SlotFix { reason }
}

impl fmt::Display for TurnFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.of("agent"))
    }
}

/// The last line that is not blank, without escape sequences, in a bounded length. A carriage
/// return ends a line too, because programs overwrite their progress with it.
pub fn last_line(text: &str) -> String {
    // More than can be shown, and far less than an agent may print without a line break.
    let lines = text.rsplit(['\n', '\r']).map(|line| text::head(line, LONGEST * 8));
    let line = lines.map(|line| text::one_line(&text::without_escapes(line)));
    let line = line.into_iter().find(|line| !line.is_empty()).unwrap_or_default();
    text::clip(&line, LONGEST).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::{Event, Glance, Heading, print};
    use crate::timestamp::Timestamp;

    #[test]
    fn a_failure_names_its_cause() {
        let failures = [
            TurnFailure::exit(7, "npm warn\nerror: no such model\n\n"),
            TurnFailure::exit(137, " \n"),
            TurnFailure::timeout(Duration::from_secs(1800), "backend.timeout_ms"),
            TurnFailure::interrupt(),
        ];
        let told: Vec<_> = failures
            .iter()
            .map(|failure| format!("{}: {failure}", failure.stop_reason()))
            .collect();
        insta::assert_snapshot!(told.join("\n"), @r"
        backend_failed: the agent failed (exit code 7): error: no such model
        backend_failed: the agent failed (exit code 137)
        backend_timeout: the agent timed out after 30m (backend.timeout_ms)
        interrupted: the agent was interrupted
        ");
    }

    #[test]
    fn the_last_line_is_free_of_escapes_and_bounded() {
        for (text, line) in [
            ("10%\r20%\r\u{1b}[31merror:\u{1b}[0m  no key\r\n\u{1b}[0m\n", "error: no key"),
            ("\u{1b}]0;title\u{7}it\u{1b}]8;;http://x\u{1b}\\ failed\u{1b}(B", "it failed"),
            ("a\u{9b}31mb\u{202e}c\u{200b}", "abc\u{200b}"),
            ("", ""),
        ] {
            assert_eq!(last_line(text), line, "{text:?}");
        }
        assert_eq!(last_line(&"x".repeat(9_999)).len(), LONGEST + "...".len());
    }

    #[test]
    fn a_record_tells_what_was_written_into_it() {
        let heading =
            Heading { run: "r".into(), iteration: "1".into(), now: Timestamp::from_millis(0) };
        let read = |record: crate::record::Record| {
            let mut line = Vec::new();
            print(&record, &mut line);
            match Glance::read(line.trim_ascii_end()).unwrap().event() {
                Event::IterationFinish(finish) => finish.failure(),
                Event::SlotImplement(implement) => implement.failure(),
                other => panic!("{other:?}"),
            }
        };
        for failure in [
            TurnFailure::exit(7, "no key"),
            TurnFailure::exit(1, ""),
            TurnFailure::timeout(Duration::from_secs(9), "review.timeout_ms"),
            TurnFailure::interrupt(),
        ] {
            let finish = IterationFinish {
                exit_code: match failure.kind {
                    FailureKind::Exit(code) => code,
                    FailureKind::Timeout | FailureKind::Interrupt => 143,
                }
                .into(),
                timed_out: Some(failure.kind == FailureKind::Timeout),
                interrupted: (failure.kind == FailureKind::Interrupt).then_some(true),
                detail: failure.cause(),
                ..IterationFinish::default()
            };
            assert_eq!(read(finish.record(&heading)), Some(failure));
        }
        assert_eq!(read(IterationFinish::default().record(&heading)), None);
        let slot = SlotImplement {
            exit_code: 2.into(),
            reason: Some("no key".into()),
            ..Default::default()
        };
        assert_eq!(read(slot.record(&heading)), Some(TurnFailure::exit(2, "no key")));
    }

    proptest! {
        #[test]
        fn no_control_character_is_left(text in any::<String>()) {
            let line = last_line(&text);
            prop_assert!(!line.contains(char::is_control), "{line:?}");
        }
    }
}
