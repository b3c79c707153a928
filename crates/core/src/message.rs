//! Messages between agents: envelopes, the bodies of a review, findings packets, and the gate.
//!
//! The format is that of the public protocol OACP, which accepts much more than it describes. Everything here is
//! checked strictly, and all problems of a file are reported at once, so that an agent can repair what it wrote.

mod auth;
mod body;
mod envelope;
mod fields;
mod gate;
mod header;
mod packet;
mod problem;
mod thread;
mod write;
mod yaml;

pub use body::{
    Addressed, Body, Feedback, GateResult, Lgtm, MAX_ROUNDS, MAX_ROUNDS_EXCEEDED, Nit,
    REVIEWER_BUDGET_EXCEEDED, Request, USUAL_ROUNDS, USUAL_RUNTIME_S, USUAL_TURNS,
};
pub use envelope::{AgentName, BadAgentName, Envelope, Telemetry, Type};
pub use fields::print_moment;
pub use gate::{Reason, deferred, gate};
pub use header::{Header, USUAL_HEAD};
pub use packet::{Finding, Outcome, Packet, Validation};
pub use problem::{Place, Problem, Problems};
pub use thread::{Filed, Folder, History, Note, Notes, verify};
pub use yaml::MAX_BYTES;

/// A message as it was read or will be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub envelope: Envelope,
    pub body: Body,
}

/// What was read from a file, and what is wrong with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked<T> {
    /// `None` if there is an error.
    pub value: Option<T>,
    pub problems: Problems,
}

impl Message {
    /// Reads a file that contains one message.
    pub fn read(bytes: &[u8]) -> Checked<Message> {
        let mut problems = Problems::default();
        let value = read_message(bytes, &mut problems).filter(|_| problems.is_accepted());
        Checked { value, problems }
    }
}

fn read_message(bytes: &[u8], problems: &mut Problems) -> Option<Message> {
    let root = yaml::read(bytes, problems)?;
    let kind = root
        .entry("type")
        .and_then(yaml::Node::as_text)
        .and_then(|kind| Type::from_word(kind.trim()));
    let body_node =
        root.entry("body").filter(|node| node.as_text().is_some() && !node.is_blank()).cloned();
    let envelope = Envelope::read(root, bytes, problems);
    let file = std::str::from_utf8(bytes).unwrap_or_default();
    // A body is read even where the envelope is invalid, so that all problems are reported.
    let body = Body::read(kind?, &body_node?, file, problems);
    let message = Message { envelope: envelope?, body: body? };
    message.check_pull_request(problems);
    Some(message)
}

impl Message {
    fn check_pull_request(&self, problems: &mut Problems) {
        if let (Body::Request(request), Some(pr)) = (&self.body, self.envelope.related_pr)
            && request.pr != pr
        {
            let message =
                format!("related_pr is {pr}, but the body asks for a review of {}", request.pr);
            problems.warning(Place::START, message);
        }
    }
}

#[cfg(test)]
mod tests;
