//! The envelope of a message: its fields, read strictly and written in the order of the public tool.

use std::fmt;
use std::str::FromStr;

use super::auth;
use super::fields::{self, Fields, Ruled};
use super::problem::{Place, Problems};
use super::write::Map;
use super::yaml::{Node, Value};
use crate::review::Severity;
use crate::timestamp::Timestamp;
use crate::wire_enum::words;

/// The maximum number of characters of a body and of `context_keys`.
pub(super) const MAX_BODY: usize = 20_000;
const MAX_LINE: usize = 200;
const MAX_RECIPIENTS: usize = 10;

words! {
    Type {
        TaskRequest = "task_request",
        Question = "question",
        Notification = "notification",
        FollowUp = "follow_up",
        Handoff = "handoff",
        HandoffComplete = "handoff_complete",
        ReviewRequest = "review_request",
        ReviewFeedback = "review_feedback",
        ReviewAddressed = "review_addressed",
        ReviewLgtm = "review_lgtm",
        BrainstormRequest = "brainstorm_request",
        BrainstormFollowup = "brainstorm_followup",
    }
}

impl Type {
    pub fn is_review(self) -> bool {
        matches!(
            self,
            Type::ReviewRequest | Type::ReviewFeedback | Type::ReviewAddressed | Type::ReviewLgtm
        )
    }

    fn has_telemetry(self) -> bool {
        self.is_review() && self != Type::ReviewRequest
    }

    fn is_for_one(self) -> bool {
        self.is_review() || matches!(self, Type::Handoff | Type::HandoffComplete)
    }
}

/// The name of an agent, which is also the name of its directory: letters, digits and `._-`, beginning with a letter
/// or a digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentName(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected 1 to 64 of A-Z a-z 0-9 . _ -, beginning with a letter or digit")]
pub struct BadAgentName;

impl FromStr for AgentName {
    type Err = BadAgentName;

    fn from_str(name: &str) -> Result<Self, BadAgentName> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_valid = (1..=64).contains(&name.len())
            && name.as_bytes()[0].is_ascii_alphanumeric()
            && name.bytes().all(is_part);
        is_valid.then(|| AgentName(name.to_owned())).ok_or(BadAgentName)
    }
}

impl AgentName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn of(node: &Node) -> Ruled<AgentName> {
        let name = node.as_text().unwrap_or_default().trim();
        name.parse().map_err(|error: BadAgentName| {
            format!("invalid agent name {}: {error}", node.describe())
        })
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What a message cost, where its sender knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Telemetry {
    pub model: Option<String>,
    pub turns: Option<u64>,
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub wall_time_s: Option<f64>,
    pub est_cost_usd: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    pub id: String,
    pub from: AgentName,
    pub to: Vec<AgentName>,
    pub kind: Type,
    pub priority: Severity,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub channel: Option<String>,
    pub auto_proceed: bool,
    pub related_packet: Option<String>,
    pub related_pr: Option<u64>,
    pub conversation_id: Option<String>,
    pub parent_message_id: Option<String>,
    pub context_keys: Option<String>,
    pub subject: String,
    /// As it was read; checks ignore blanks around it.
    pub body: String,
    pub telemetry: Telemetry,
}

impl Envelope {
    /// Reads the envelope of the document `root`, whose bytes are `bytes`.
    pub(super) fn read(root: Node, bytes: &[u8], problems: &mut Problems) -> Option<Envelope> {
        let mut fields = Fields::of("the message", root, problems)?;
        let id = fields.required("id", fields::id);
        let from = fields.required("from", AgentName::of);
        let to_place = fields.place("to");
        let to = fields.recipients(from.as_ref());
        let kind = fields.required("type", fields::word::<Type>(Type::WORDS));
        let priority = fields.required("priority", fields::word::<Severity>(Severity::WORDS));
        let created_at = fields.required("created_at_utc", fields::moment);
        let expires_place = fields.place("expires_at");
        let expires_at = fields.optional("expires_at", fields::moment);
        if created_at.zip(expires_at).is_some_and(|(created, expires)| expires <= created) {
            fields.error(expires_place, "field 'expires_at' is not after created_at_utc");
        }
        let subject = fields.required("subject", fields::line(MAX_LINE));
        let body = fields.required("body", fields::text(MAX_BODY));
        let channel = fields.optional("channel", channel);
        let hint = fields.optional("autonomy_hint", |node| match node.as_text() {
            Some("auto_proceed") => Ok(()),
            _ => Err(format!("expected auto_proceed or nothing, found {}", node.describe())),
        });
        let related_packet = fields.optional("related_packet", fields::relative_path);
        let related_pr = fields.optional("related_pr", fields::number(0, u64::MAX));
        let conversation_id = fields.optional("conversation_id", conversation_id);
        let parent_message_id = fields.optional("parent_message_id", fields::id);
        let context_keys = fields.optional("context_keys", fields::text(MAX_BODY));
        let telemetry = fields.telemetry(kind);
        if let (Some(kind), Some(from), Some(to)) = (kind, &from, &to) {
            fields.check_recipients(kind, from, to, to_place);
        }
        let auth_place = fields.place("auth");
        if fields.has("auth")
            && let Some(value) = fields.required("auth", fields::line(auth::MAX_VALUE))
            && let Err(why) = auth::check(&value, bytes, from.as_ref())
        {
            fields.error(auth_place, format!("field 'auth': {why}"));
        }
        for entry in fields.take_rest() {
            let message =
                format!("unknown field '{}'; put it into the body", entry.key.escape_debug());
            fields.error(entry.at, message);
        }
        Some(Envelope {
            id: id?,
            from: from?,
            to: to?,
            kind: kind?,
            priority: priority?,
            created_at: created_at?,
            expires_at,
            channel,
            auto_proceed: hint.is_some(),
            related_packet,
            related_pr,
            conversation_id,
            parent_message_id,
            context_keys,
            subject: subject?,
            body: body?,
            telemetry,
        })
    }

    /// The file that contains exactly this message.
    pub fn print(&self) -> String {
        let mut map = Map::default();
        map.text("id", &self.id).text("from", self.from.as_str());
        match &*self.to {
            [one] => map.text("to", one.as_str()),
            many => map.texts("to", many.iter().map(AgentName::as_str)),
        };
        map.text("type", self.kind.name()).text("priority", self.priority.name());
        map.text("created_at_utc", &fields::print_moment(self.created_at));
        if let Some(moment) = self.expires_at {
            map.text("expires_at", &fields::print_moment(moment));
        }
        if self.auto_proceed {
            map.text("autonomy_hint", "auto_proceed");
        }
        let pr = self.related_pr.map(|pr| pr.to_string());
        for (key, value) in [
            ("channel", &self.channel),
            ("related_packet", &self.related_packet),
            ("related_pr", &pr),
            ("conversation_id", &self.conversation_id),
            ("parent_message_id", &self.parent_message_id),
            ("context_keys", &self.context_keys),
        ] {
            if let Some(value) = value {
                map.text(key, value);
            }
        }
        map.text("subject", &self.subject).text("body", &self.body);
        self.telemetry.print(&mut map);
        map.finish()
    }

    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expires| expires <= now)
    }

    /// `<14 digits>_<sender>_<type>`: the beginning of the file's name.
    pub fn file_stem(&self) -> String {
        let digits: String =
            fields::print_moment(self.created_at).chars().filter(char::is_ascii_digit).collect();
        format!("{digits}_{}_{}", self.from, self.kind)
    }

    /// Why a file with this name was not written by the sender of this message: names begin with the time, the
    /// sender and the type. Other names say nothing.
    pub fn contradicts_name(&self, name: &str) -> Option<String> {
        let rest =
            name.get(14..).filter(|_| name.bytes().take(14).all(|byte| byte.is_ascii_digit()))?;
        let expected = format!("_{}_{}_", self.from, self.kind);
        (!rest.starts_with(&expected)).then(|| {
            format!(
                "forged sender or type: a {} from '{}' is in the file '{name}'",
                self.kind, self.from
            )
        })
    }
}

impl Telemetry {
    fn print(&self, map: &mut Map) {
        if let Some(model) = &self.model {
            map.text("model", model);
        }
        for (key, count) in [
            ("turns", self.turns),
            ("input_tokens", self.input_tokens),
            ("output_tokens", self.output_tokens),
        ] {
            if let Some(count) = count {
                map.literal(key, count);
            }
        }
        for (key, amount) in
            [("wall_time_s", self.wall_time_s), ("est_cost_usd", self.est_cost_usd)]
        {
            if let Some(amount) = amount {
                map.literal(key, amount);
            }
        }
    }
}

impl Fields<'_> {
    fn recipients(&mut self, from: Option<&AgentName>) -> Option<Vec<AgentName>> {
        let place = self.place("to");
        let is_list = matches!(self.peek("to").map(|node| &node.value), Some(Value::List(_)));
        if !is_list {
            return self.required("to", AgentName::of).map(|name| vec![name]);
        }
        let to = self.items("to", AgentName::of);
        if to.is_empty() || to.len() > MAX_RECIPIENTS {
            let message = format!("field 'to': expected 1 to {MAX_RECIPIENTS} recipients");
            self.error(place, message);
        }
        if let Some(twice) = to.iter().enumerate().find(|(at, name)| to[..*at].contains(name)) {
            self.error(place, format!("field 'to' names '{}' twice", twice.1));
        }
        if let Some(from) = from.filter(|from| to.contains(from)) {
            self.error(place, format!("field 'to' contains the sender '{from}'"));
        }
        Some(to)
    }

    fn check_recipients(&mut self, kind: Type, from: &AgentName, to: &[AgentName], place: Place) {
        if kind.is_for_one() && to.len() > 1 {
            self.error(place, format!("a {kind} has one recipient, not {}", to.len()));
        }
        if let [to] = to
            && to == from
        {
            match kind.is_review() {
                true => {
                    let message =
                        format!("'{from}' sends a {kind} to itself; name the other agent");
                    self.error(place, message);
                }
                false => self.warning(place, format!("'{from}' sends this to itself")),
            }
        }
    }

    fn telemetry(&mut self, kind: Option<Type>) -> Telemetry {
        const KEYS: [&str; 6] =
            ["model", "turns", "input_tokens", "output_tokens", "wall_time_s", "est_cost_usd"];
        if let Some(kind) = kind.filter(|kind| !kind.has_telemetry()) {
            for key in KEYS {
                if self.has(key) {
                    let message = format!("a {kind} must not have the field '{key}'");
                    self.error(self.place(key), message);
                }
            }
        }
        Telemetry {
            model: self.filled("model", fields::line(MAX_LINE)),
            turns: self.filled("turns", fields::number(0, u64::MAX)),
            input_tokens: self.filled("input_tokens", fields::number(0, u64::MAX)),
            output_tokens: self.filled("output_tokens", fields::number(0, u64::MAX)),
            wall_time_s: self.filled("wall_time_s", fields::amount),
            est_cost_usd: self.filled("est_cost_usd", fields::amount),
        }
    }
}

fn channel(node: &Node) -> Ruled<String> {
    let text = fields::line(64)(node)?;
    match text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)) {
        true => Ok(text),
        false => Err(format!("expected letters, digits, _ and -, found {}", node.describe())),
    }
}

/// `conv-<8 digits>-<name>-<1 to 6 digits>`.
fn conversation_id(node: &Node) -> Ruled<String> {
    let text = fields::line(MAX_LINE)(node)?;
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = text.strip_prefix("conv-").and_then(|rest| {
        let (date, rest) = rest.split_once('-')?;
        let (name, number) = rest.rsplit_once('-')?;
        Some(
            date.len() == 8
                && is_digits(date)
                && (1..=64).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
                && (1..=6).contains(&number.len())
                && is_digits(number),
        )
    });
    match parts {
        Some(true) => Ok(text),
        _ => Err(format!("expected an id like conv-20260213-claude-1, found {}", node.describe())),
    }
}
