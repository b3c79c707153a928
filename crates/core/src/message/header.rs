//! The head of a message: what a list of messages shows, read without its body.

use super::Message;
use super::envelope::{AgentName, Envelope, Type};
use super::fields::{self, Fields};
use super::problem::Problems;
use super::yaml;
use crate::review::Severity;
use crate::timestamp::Timestamp;

/// How many bytes of a file usually contain its head.
pub const USUAL_HEAD: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub id: String,
    pub from: AgentName,
    pub kind: Type,
    pub priority: Severity,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub conversation_id: Option<String>,
    pub related_pr: Option<u64>,
    pub subject: String,
}

impl Header {
    /// Reads the fields before the body; `None` if these are not all of them.
    pub fn of_head(bytes: &[u8]) -> Option<Header> {
        let end = memchr::memmem::find(bytes, b"\nbody:")?;
        let mut problems = Problems::default();
        let root = yaml::read(&bytes[..=end], &mut problems)?;
        let mut fields = Fields::of("the message", root, &mut problems)?;
        let header = Header {
            id: fields.required("id", fields::id)?,
            from: fields.required("from", AgentName::of)?,
            kind: fields.required("type", fields::word::<Type>(Type::WORDS))?,
            priority: fields.required("priority", fields::word::<Severity>(Severity::WORDS))?,
            created_at: fields.required("created_at_utc", fields::moment)?,
            expires_at: fields.optional("expires_at", fields::moment),
            conversation_id: fields.optional("conversation_id", fields::line(200)),
            related_pr: fields.optional("related_pr", fields::number(0, u64::MAX)),
            subject: fields.required("subject", fields::line(200))?,
        };
        problems.is_accepted().then_some(header)
    }

    /// The head of a whole file; `None` if the message is invalid.
    pub fn of_file(bytes: &[u8]) -> Option<Header> {
        Message::read(bytes).value.map(|message| Header::from(message.envelope))
    }
}

impl From<Envelope> for Header {
    fn from(envelope: Envelope) -> Self {
        Header {
            id: envelope.id,
            from: envelope.from,
            kind: envelope.kind,
            priority: envelope.priority,
            created_at: envelope.created_at,
            expires_at: envelope.expires_at,
            conversation_id: envelope.conversation_id,
            related_pr: envelope.related_pr,
            subject: envelope.subject,
        }
    }
}
