//! Why a client failed: the class of its error, its own sentence, and when to ask again.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::WallTime;
use crate::wire_enum::words;

words! {
    /// What kind of failure a client reports. It decides whether the harness waits or stops.
    #[derive(Default)]
    ErrorClass {
        RateLimit = "rate_limit",
        Overloaded = "overloaded",
        Server = "server",
        Network = "network",
        /// Credentials are missing or refused.
        Auth = "auth",
        /// The account has no credit left.
        Quota = "quota",
        /// The model does not exist, or the account may not use it.
        Model = "model",
        /// The conversation does not fit into the model.
        Context = "context",
        #[default]
        Other = "other",
    }
}

impl ErrorClass {
    /// Whether the failure ends by itself, so that waiting helps.
    pub fn is_transient(self) -> bool {
        use ErrorClass::{Network, Overloaded, RateLimit, Server};
        matches!(self, RateLimit | Overloaded | Server | Network)
    }

    /// Whether every further turn of the same client would fail in the same way.
    pub fn is_permanent(self) -> bool {
        matches!(self, ErrorClass::Auth | ErrorClass::Quota | ErrorClass::Model)
    }

    /// What a user can do about it.
    pub fn advice(self) -> Option<&'static str> {
        Some(match self {
            ErrorClass::Auth => {
                "log in with the client, or set the API key of its provider; name its variable in backend.env"
            }
            ErrorClass::Quota => "add credit to the account, or choose another client with -b",
            ErrorClass::Model => "choose a model that the account may use with --model",
            _ => return None,
        })
    }

    /// The class that an HTTP status means, where it means one.
    fn of_status(status: u64) -> Option<ErrorClass> {
        Some(match status {
            401 | 403 => ErrorClass::Auth,
            402 => ErrorClass::Quota,
            404 => ErrorClass::Model,
            413 => ErrorClass::Context,
            429 => ErrorClass::RateLimit,
            503 | 529 => ErrorClass::Overloaded,
            408 | 500..=599 => ErrorClass::Server,
            _ => return None,
        })
    }

    /// The class that the words of an error mean. Only the text of an error may be asked, never what a model said.
    fn of_words(message: &str) -> Option<ErrorClass> {
        let message = message.to_lowercase().replace('\u{2019}', "'");
        let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
        let has_status = |status: &str| {
            message.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == status)
        };
        // The order matters: a quota is reported with the status of a rate limit.
        Some(if has(QUOTA) {
            ErrorClass::Quota
        } else if has(RATE_LIMIT) || has_status("429") {
            ErrorClass::RateLimit
        } else if has(OVERLOADED) || has_status("529") {
            ErrorClass::Overloaded
        } else if has(AUTH) || has_status("401") {
            ErrorClass::Auth
        } else if has(MODEL) {
            ErrorClass::Model
        } else if has(CONTEXT) {
            ErrorClass::Context
        } else if has(NETWORK) {
            ErrorClass::Network
        } else if has(SERVER) || ["500", "502", "503", "504"].into_iter().any(has_status) {
            ErrorClass::Server
        } else {
            return None;
        })
    }
}

const QUOTA: &[&str] = &[
    "usage limit",
    "credit balance",
    "daily quota",
    "insufficient_quota",
    "insufficient quota",
    "quota exceeded",
    "exceeded your current quota",
    "billing",
];
const RATE_LIMIT: &[&str] = &[
    "rate limit",
    "rate_limit",
    "ratelimit",
    "too many requests",
    "resource exhausted",
    "resource_exhausted",
    "quota increase",
    "suggested retry after",
];
// A client may lock its own database: two first starts of OpenCode at once do.
const OVERLOADED: &[&str] = &["overloaded", "high demand", "at capacity", "database is locked"];
const AUTH: &[&str] = &[
    "api key",
    "api_key",
    "not logged in",
    "unauthorized",
    "authentication",
    "invalid auth method",
    "please run /login",
    "missing environment variable",
];
const MODEL: &[&str] = &["model not found", "model_not_found", "unknown model", "no such model"];
const CONTEXT: &[&str] = &["context window", "context_length", "prompt is too long"];
const NETWORK: &[&str] = &[
    "connection refused",
    "connection reset",
    "connection_failed",
    "connection error",
    "econnrefused",
    "econnreset",
    "enotfound",
    "etimedout",
    "fetch failed",
    "network",
    "stream disconnected",
    "socket hang up",
    "timed out",
    "unable to connect",
];
const SERVER: &[&str] = &["internal server error", "server error", "server_error", "bad gateway"];

/// The error of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientError {
    pub class: ErrorClass,
    /// In the words of the client; empty where it does not say why.
    pub message: String,
    /// How long the client says to wait.
    pub retry_after: Option<Duration>,
    /// Until when, if it names a moment instead.
    pub retry_at: Option<WallTime>,
}

impl ClientError {
    /// An error that a client reports with a status of HTTP, if it has one. The words refine the status: a 429 may
    /// be a used-up quota.
    pub fn new(status: Option<u64>, message: &str) -> ClientError {
        let by_status = status.and_then(ErrorClass::of_status);
        let class = match (by_status, ErrorClass::of_words(message)) {
            (Some(ErrorClass::RateLimit), Some(ErrorClass::Quota)) => ErrorClass::Quota,
            (Some(class), _) | (None, Some(class)) => class,
            (None, None) => ErrorClass::Other,
        };
        let (retry_after, retry_at) = (retry_after(message), WallTime::read(message));
        // An allowance that returns at a time the client names is waited for like a rate limit.
        let class = match class {
            ErrorClass::Quota if retry_after.is_some() || retry_at.is_some() => {
                ErrorClass::RateLimit
            }
            class => class,
        };
        ClientError { class, message: message.to_owned(), retry_after, retry_at }
    }

    /// An error whose class the client names itself.
    pub(super) fn of_class(class: ErrorClass, message: &str) -> ClientError {
        ClientError { class, ..ClientError::new(None, message) }
    }
}

impl From<&str> for ClientError {
    fn from(message: &str) -> Self {
        ClientError::new(None, message)
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The time to wait that the text of an error names, as in `try again in 2s` or `retry after 3600s`.
fn retry_after(message: &str) -> Option<Duration> {
    const BEFORE: [&str; 4] = ["try again in ", "retry after ", "retry in ", "retry-after: "];
    let message = message.to_lowercase();
    let rest = BEFORE.iter().find_map(|words| Some(message.split_once(words)?.1))?;
    let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let number: f64 = rest[..digits].trim_end_matches('.').parse().ok()?;
    let unit = rest[digits..].trim_start();
    let unit = &unit[..unit.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(unit.len())];
    let seconds = match unit {
        "ms" | "milliseconds" => 0.001,
        "" | "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hour" | "hours" => 3_600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_errors_of_clients_have_a_class() {
        let cases = [
            (None, "API Error: Request rejected (429) · slow down"),
            (Some(429), "anything"),
            (Some(429), "Your credit balance is too low"),
            (None, "exceeded retry limit, last status: 429 Too Many Requests"),
            (
                None,
                "We\u{2019}re currently experiencing high demand, which may cause temporary errors.",
            ),
            (
                None,
                "You\u{2019}ve hit your usage limit. Visit the settings, or try again in 2 hours.",
            ),
            (None, "You\u{2019}ve hit your usage limit."),
            (None, "You\u{2019}ve hit your usage limit. Visit x, or try again at 9:45 PM."),
            (Some(429), "You've hit your limit · resets 3pm (Europe/Berlin)"),
            (None, "unexpected status 401 Unauthorized: bad key, url: http://127.0.0.1:1"),
            (
                None,
                "[API Error: slow]\nPlease wait and try again later. To increase your limits, request a quota increase",
            ),
            (None, "You have exhausted your daily quota on this model."),
            (None, "rate limit exceeded: wait. Please try again in 2s."),
            (None, "Suggested retry after 3600s."),
            (None, "Invalid API key · Fix external API key"),
            (None, "Not logged in · Please run /login"),
            (Some(500), "oops"),
            (Some(529), "Overloaded"),
            (None, "database is locked"),
            (None, "connect ECONNREFUSED 127.0.0.1:9"),
            (Some(404), "model: nope"),
            (None, "Codex ran out of room in the model's context window."),
            (None, "it read 4290 files"),
            (None, ""),
        ];
        let shown = cases.map(|(status, message)| {
            let error = ClientError::new(status, message);
            let wait = error.retry_after.map(|wait| format!(" after {wait:?}")).unwrap_or_default();
            format!("{}{wait}: {}", error.class, message.lines().next().unwrap_or_default())
        });
        insta::assert_snapshot!(shown.join("\n"), @r"
        rate_limit: API Error: Request rejected (429) · slow down
        rate_limit: anything
        quota: Your credit balance is too low
        rate_limit: exceeded retry limit, last status: 429 Too Many Requests
        overloaded: We’re currently experiencing high demand, which may cause temporary errors.
        rate_limit after 7200s: You’ve hit your usage limit. Visit the settings, or try again in 2 hours.
        quota: You’ve hit your usage limit.
        rate_limit: You’ve hit your usage limit. Visit x, or try again at 9:45 PM.
        rate_limit: You've hit your limit · resets 3pm (Europe/Berlin)
        auth: unexpected status 401 Unauthorized: bad key, url: http://127.0.0.1:1
        rate_limit: [API Error: slow]
        quota: You have exhausted your daily quota on this model.
        rate_limit after 2s: rate limit exceeded: wait. Please try again in 2s.
        rate_limit after 3600s: Suggested retry after 3600s.
        auth: Invalid API key · Fix external API key
        auth: Not logged in · Please run /login
        server: oops
        overloaded: Overloaded
        overloaded: database is locked
        network: connect ECONNREFUSED 127.0.0.1:9
        model: model: nope
        context: Codex ran out of room in the model's context window.
        other: it read 4290 files
        other:
        ");
    }

    #[test]
    fn the_time_to_wait_is_read_from_the_text() {
        let wait = |text: &str| retry_after(text).map(|wait| wait.as_millis());
        for (text, millis) in [
            ("Please try again in 1.5s.", Some(1_500)),
            ("try again in 20ms", Some(20)),
            ("Try again in 3 minutes and more", Some(180_000)),
            ("retry after 60", Some(60_000)),
            ("try again in a while", None),
            ("try again in 99999999999999999999d", None),
            ("try again in ", None),
            ("nothing", None),
        ] {
            assert_eq!(wait(text), millis, "{text}");
        }
    }
}
