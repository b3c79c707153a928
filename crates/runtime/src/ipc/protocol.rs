//! What a client and the harness send to each other.
//!
//! The client sends its ticket in one [message](crate::message) and its request in a second one. Behind an
//! event come the bytes of its payload, as many as the request announced. The harness answers with one
//! message.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::memory::Change;
use crate::message;

/// The largest message with a ticket.
const LARGEST_TICKET: u32 = 256;
/// The largest request: the longest entry of memory, and something to spare. An answer
/// that repeats a part of it still fits into the buffer of a socket.
pub(super) const LARGEST_REQUEST: u32 = 128 * 1024;
/// The largest answer.
const LARGEST_ANSWER: u32 = 1024 * 1024;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Request {
    /// Append an event; its payload has so many bytes and follows.
    Emit { topic: String, bytes: u64 },
    /// Change memory.
    Change(Change),
}

pub(super) fn write_ticket(socket: &mut impl Write, ticket: &str) -> io::Result<()> {
    message::write(socket, &ticket.as_bytes())
}

/// Reads what was sent as a ticket; `None` when the client closed.
pub(super) fn read_ticket(socket: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    message::read(socket, LARGEST_TICKET)
}

/// Encodes a request; `None` when it is larger than the harness accepts.
pub(super) fn encode_request(request: &Request) -> io::Result<Option<Vec<u8>>> {
    let message = message::encode(request)?;
    Ok((message.len() <= 4 + LARGEST_REQUEST as usize).then_some(message))
}

/// Reads a request; `None` when the client closed.
pub(super) fn read_request(socket: &mut impl Read) -> io::Result<Option<Request>> {
    message::read(socket, LARGEST_REQUEST)
}

/// What the client prints, or why the request was refused.
pub(super) type Answer = Result<String, Failure>;

pub(super) fn write_answer(socket: &mut impl Write, answer: &Answer) -> io::Result<()> {
    message::write(socket, answer)
}

/// Reads an answer; `None` when the harness closed.
pub(super) fn read_answer(socket: &mut impl Read) -> io::Result<Option<Answer>> {
    message::read(socket, LARGEST_ANSWER)
}

#[cfg(test)]
mod tests {
    use autoloop_core::memory::Said;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::failure::FailureKind;
    use crate::memory::{Reach, Tier};

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
            let frame = encode_request(&request).unwrap().unwrap();
            prop_assert_eq!(read_request(&mut &frame[..frame.len() - 1]).unwrap(), None);
            prop_assert_eq!(read_request(&mut &frame[..]).unwrap(), Some(request));
        }

        #[test]
        fn an_answer_arrives_as_it_was_sent(answer in answer()) {
            let mut frame = Vec::new();
            write_answer(&mut frame, &answer).unwrap();
            prop_assert_eq!(read_answer(&mut &frame[..]).unwrap(), Some(answer));
        }

        #[test]
        fn garbage_is_an_error_and_no_panic(bytes in vec(any::<u8>(), 0..200)) {
            let length = u32::try_from(bytes.len()).unwrap().to_le_bytes();
            for bytes in [&bytes, &[&length[..], &bytes].concat()] {
                let _ = read_ticket(&mut &bytes[..]);
                let _ = read_request(&mut &bytes[..]);
                let _ = read_answer(&mut &bytes[..]);
            }
        }
    }

    #[test]
    fn a_tombstone_cannot_be_sent_as_something_to_remember() {
        let said = Said::Tombstone { target: "mem-1".into(), reason: String::new() };
        let forged = Request::Change(Change::Add { said, reach: Reach::Usual });
        let frame = encode_request(&forged).unwrap().unwrap();
        assert!(read_request(&mut &frame[..]).is_err());
    }

    #[test]
    fn nothing_is_sent_that_would_not_be_read() {
        let change = |length| Request::Change(Change::Promote { id: "x".repeat(length) });
        // Two variants and the length of the text.
        let largest = LARGEST_REQUEST as usize - 5;
        let frame = encode_request(&change(largest)).unwrap().unwrap();
        assert_eq!(read_request(&mut &frame[..]).unwrap(), Some(change(largest)));
        assert_eq!(encode_request(&change(largest + 1)).unwrap(), None);
    }
}
