//! What a client and the harness send to each other.
//!
//! The client sends its ticket in one [message](crate::message) and its request in a second one. Behind an
//! event come the bytes of its payload, behind a call those of its arguments, as many as the request
//! announced. The harness answers with one message.

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::memory::Change;
use crate::message;

pub(super) const LARGEST_TICKET: u32 = 256;
/// The largest request: the longest entry of memory, and something to spare. An answer
/// that repeats a part of it still fits into the buffer of a socket.
pub(super) const LARGEST_REQUEST: u32 = 128 * 1024;
/// The largest arguments of a call: a verdict with many issues.
pub(super) const LARGEST_CALL: u64 = 1024 * 1024;
pub(super) const LARGEST_ANSWER: u32 = 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Request {
    /// Append an event; its payload has so many bytes and follows.
    Emit {
        topic: String,
        bytes: u64,
    },
    Change(Change),
    /// List the tools of the agent, as JSON.
    Tools,
    /// Call a tool; its arguments have so many bytes and follow.
    Call {
        tool: String,
        bytes: u64,
    },
}

/// What the client prints, or why the request was refused.
pub(super) type Answer = Result<String, Failure>;

/// Encodes a request; `None` when it is larger than the harness accepts.
pub(super) fn encode(request: &Request) -> Option<Vec<u8>> {
    let message = message::encode(request).ok()?;
    (message.len() <= 4 + LARGEST_REQUEST as usize).then_some(message)
}

#[cfg(test)]
mod tests {
    use autoloop_core::memory::Said;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::failure::FailureKind;
    use crate::memory::{Reach, Tier};

    fn read_request(mut bytes: &[u8]) -> std::io::Result<Option<Request>> {
        message::read(&mut bytes, LARGEST_REQUEST)
    }

    fn said() -> impl Strategy<Value = Said> {
        prop_oneof![
            any::<String>().prop_map(|text| Said::Learning { text }),
            any::<(String, String)>()
                .prop_map(|(category, text)| Said::Preference { category, text }),
            any::<(String, String)>().prop_map(|(key, value)| Said::Meta { key, value }),
        ]
    }

    fn request() -> impl Strategy<Value = Request> {
        let reach = prop::sample::select(vec![Reach::Usual, Reach::Project]);
        let tier = prop::sample::select(vec![None, Some(Tier::Project), Some(Tier::Run)]);
        prop_oneof![
            any::<(String, u64)>().prop_map(|(topic, bytes)| Request::Emit { topic, bytes }),
            (said(), reach).prop_map(|(said, reach)| Request::Change(Change::Add { said, reach })),
            (any::<(String, String)>(), tier).prop_map(|((id, reason), tier)| {
                Request::Change(Change::Remove { id, tier, reason })
            }),
            any::<String>().prop_map(|id| Request::Change(Change::Promote { id })),
            Just(Request::Tools),
            any::<(String, u64)>().prop_map(|(tool, bytes)| Request::Call { tool, bytes }),
        ]
    }

    fn answer() -> impl Strategy<Value = Answer> {
        let kind = prop::sample::select(vec![
            FailureKind::Failed,
            FailureKind::Usage,
            FailureKind::Refused,
        ]);
        prop_oneof![
            any::<String>().prop_map(Ok),
            (kind, any::<String>(), vec(any::<String>(), 0..3))
                .prop_map(|(kind, message, hints)| Err(Failure { kind, message, hints })),
        ]
    }

    proptest! {
        #[test]
        fn a_request_arrives_as_it_was_sent(request in request()) {
            let frame = encode(&request).unwrap();
            prop_assert_eq!(read_request(&frame[..frame.len() - 1]).unwrap(), None);
            prop_assert_eq!(read_request(&frame[..]).unwrap(), Some(request));
        }

        #[test]
        fn an_answer_arrives_as_it_was_sent(answer in answer()) {
            let mut frame = Vec::new();
            message::write(&mut frame, &answer).unwrap();
            prop_assert_eq!(message::read(&mut &frame[..], LARGEST_ANSWER).unwrap(), Some(answer));
        }

        #[test]
        fn garbage_is_an_error_and_no_panic(bytes in vec(any::<u8>(), 0..200)) {
            let length = u32::try_from(bytes.len()).unwrap().to_le_bytes();
            for bytes in [&bytes, &[&length[..], &bytes].concat()] {
                let _ = message::read::<Vec<u8>>(&mut &bytes[..], LARGEST_TICKET);
                let _ = read_request(&bytes[..]);
                let _ = message::read::<Answer>(&mut &bytes[..], LARGEST_ANSWER);
            }
        }
    }

    #[test]
    fn a_tombstone_cannot_be_sent_as_something_to_remember() {
        let said = Said::Tombstone { target: "mem-1".into(), reason: String::new() };
        let forged = Request::Change(Change::Add { said, reach: Reach::Usual });
        let frame = encode(&forged).unwrap();
        assert!(read_request(&frame[..]).is_err());
    }

    #[test]
    fn nothing_is_sent_that_would_not_be_read() {
        let change = |length| Request::Change(Change::Promote { id: "x".repeat(length) });
        // Two variants and the length of the text.
        let largest = LARGEST_REQUEST as usize - 5;
        let frame = encode(&change(largest)).unwrap();
        assert_eq!(read_request(&frame[..]).unwrap(), Some(change(largest)));
        assert_eq!(encode(&change(largest + 1)), None);
    }
}
