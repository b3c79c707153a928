//! Streams of the real clients, recorded against a scripted model (see `streams/README.md`), whole and damaged.

#![expect(clippy::unwrap_used, reason = "a recording that is not as expected fails the test")]

use autoloop_core::agents::{Answer, ErrorClass, Outcome, Stream};
use autoloop_core::verdict::{Reader, Ruling};
use serde_json::Value;

/// The recordings of a client.
struct Recorded {
    stream: Stream,
    success: &'static str,
    /// Ended by us while the model was thinking about the result of a tool.
    aborted: &'static str,
    /// With what they must be taken for.
    errors: [(&'static str, ErrorClass); 4],
}

macro_rules! recorded {
    ($stream:ident $dir:literal) => {
        Recorded {
            stream: Stream::$stream,
            success: include_str!(concat!("streams/", $dir, "/success.jsonl")),
            aborted: include_str!(concat!("streams/", $dir, "/aborted.jsonl")),
            errors: [
                (
                    include_str!(concat!("streams/", $dir, "/rate_limit.jsonl")),
                    ErrorClass::RateLimit,
                ),
                (include_str!(concat!("streams/", $dir, "/unauthorized.jsonl")), ErrorClass::Auth),
                (
                    include_str!(concat!("streams/", $dir, "/server_error.jsonl")),
                    ErrorClass::Server,
                ),
                (include_str!(concat!("streams/", $dir, "/overloaded.jsonl")), ErrorClass::Server),
            ],
        }
    };
}

const RECORDED: [Recorded; 5] = [
    recorded!(Claude "claude"),
    recorded!(Codex "codex"),
    recorded!(Gemini "gemini"),
    recorded!(Opencode "opencode"),
    recorded!(Pi "pi"),
];

impl Recorded {
    fn all(&self) -> impl Iterator<Item = &'static str> {
        [self.success, self.aborted].into_iter().chain(self.errors.iter().map(|(text, _)| *text))
    }

    fn read(&self, text: &[u8]) -> Answer {
        let mut decoder = self.stream.decoder().unwrap();
        text.chunks(1_000).for_each(|piece| decoder.push(piece));
        decoder.finish()
    }

    fn ruling(&self, text: &str) -> Option<Ruling> {
        let mut reader = Reader::new(self.stream);
        reader.push(text.as_bytes());
        reader.finish().ok().map(|verdict| verdict.ruling)
    }
}

fn class(answer: &Answer) -> Option<ErrorClass> {
    match &answer.outcome {
        Outcome::Failed(error) => Some(error.class),
        _ => None,
    }
}

fn is_about_client(answer: &Answer) -> bool {
    class(answer).is_some_and(|class| class.is_transient() || class.is_permanent())
}

#[test]
fn the_answer_the_verdict_and_the_usage_are_found() {
    for recorded in &RECORDED {
        let answer = recorded.read(recorded.success.as_bytes());
        let stream = recorded.stream;
        assert_eq!(answer.outcome, Outcome::Done, "{stream}");
        assert!(answer.text.starts_with("One test prints \"429 Too"), "{stream}: {answer:?}");
        assert_eq!(recorded.ruling(recorded.success), Some(Ruling::Drift), "{stream}");
        let usage = answer.usage.unwrap();
        assert_eq!((usage.input, usage.output, usage.total), (200, 40, 240), "{stream}");
        assert!(answer.session.id.is_some(), "{stream}");
        assert_eq!(answer.unreadable, 0, "{stream}");
    }
}

#[test]
fn errors_have_the_class_that_the_server_meant() {
    for recorded in &RECORDED {
        for (text, expected) in recorded.errors {
            let answer = recorded.read(text.as_bytes());
            let stream = recorded.stream;
            // Clients take one of these for the other. Both are waited for.
            let found = class(&answer).map(|class| match class {
                ErrorClass::Overloaded => ErrorClass::Server,
                class => class,
            });
            assert_eq!(found, Some(expected), "{stream}: {:?}", answer.outcome);
            assert_eq!(recorded.ruling(text), None);
        }
    }
}

#[test]
fn without_its_terminal_event_a_turn_has_failed() {
    for recorded in &RECORDED {
        let stream = recorded.stream;
        let aborted = recorded.read(recorded.aborted.as_bytes());
        assert!(aborted.outcome.is_failure() && !is_about_client(&aborted), "{aborted:?}");
        assert!(recorded.read(b"").outcome.is_failure());
        let whole = recorded.read(recorded.success.as_bytes());
        let lines: Vec<&str> = recorded.success.split_inclusive('\n').collect();
        // Every beginning either has failed or is as good as the whole.
        let good: Vec<bool> = (0..=lines.len())
            .map(|count| {
                let part = lines[..count].concat();
                let answer = recorded.read(part.as_bytes());
                // The tool and the agent talk of rate limits and keys.
                assert!(!is_about_client(&answer), "{stream} after {count}: {answer:?}");
                let is_good = !answer.outcome.is_failure();
                assert_eq!(recorded.ruling(&part).is_some(), is_good, "{stream} after {count}");
                assert!(!is_good || answer.text == whole.text);
                is_good
            })
            .collect();
        assert!(good.is_sorted(), "{stream}: {good:?}");
        let terminal = lines[good.iter().position(|is_good| *is_good).unwrap() - 1];
        let terminal: Value = serde_json::from_str(terminal).unwrap();
        let kind = terminal["type"].as_str().unwrap();
        let expected = match stream {
            Stream::Codex => "turn.completed",
            Stream::Opencode => "step_finish",
            // The message with its `stopReason`.
            Stream::Pi => "message_end",
            _ => "result",
        };
        assert_eq!(kind, expected, "{stream}");
    }
}

#[test]
fn a_line_that_was_cut_says_nothing() {
    for recorded in &RECORDED {
        for text in recorded.all() {
            let body = text.trim_end();
            let begin = body.rfind('\n').map_or(0, |at| at + 1);
            let before = recorded.read(&body.as_bytes()[..begin]);
            for end in begin..body.len() {
                let cut = recorded.read(&body.as_bytes()[..end]);
                let same = (&cut.text, &cut.usage) == (&before.text, &before.usage);
                assert!(same, "{} at {end}: {cut:?}", recorded.stream);
                let is_failure = before.outcome.is_failure();
                assert_eq!(cut.outcome.is_failure(), is_failure, "{}: {cut:?}", recorded.stream);
            }
        }
    }
}

#[test]
fn what_is_unknown_changes_nothing() {
    let noise = [
        "{\"type\":\"new.event\",\"text\":\"429 rate limit\",\"usage\":{\"input_tokens\":9}}\n",
        "{\"type\":7}\n",
        "{}\n[]\nnull\n",
        "npm warn 429 Too Many Requests\n",
        "{\"type\":\"result\",\n",
        "\u{1b}[2K}}\n\n",
    ];
    for recorded in &RECORDED {
        for text in recorded.all() {
            let whole = recorded.read(text.as_bytes());
            let lines: Vec<&str> = text.split_inclusive('\n').collect();
            for (noise, at) in
                noise.iter().flat_map(|noise| (0..=lines.len()).map(move |at| (noise, at)))
            {
                let text = format!("{}{noise}{}", lines[..at].concat(), lines[at..].concat());
                let answer = recorded.read(text.as_bytes());
                let outcome = match answer.outcome {
                    // Without an answer, what is no event may say why.
                    Outcome::Unrecognized(_) => Outcome::Silent,
                    outcome => outcome,
                };
                let answer = Answer { outcome, unreadable: whole.unreadable, ..answer };
                assert_eq!(answer, whole, "{} with {noise:?} at {at}", recorded.stream);
            }
        }
    }
}

#[test]
fn a_terminal_event_that_is_repeated_is_the_same() {
    for recorded in &RECORDED {
        for text in recorded.all() {
            let whole = recorded.read(text.as_bytes());
            let last = text.split_inclusive('\n').next_back().unwrap();
            let twice = recorded.read([text, last].concat().as_bytes());
            assert_eq!(twice.text, whole.text, "{}", recorded.stream);
            assert_eq!(twice.outcome, whole.outcome, "{}", recorded.stream);
        }
    }
}
