//! What a visitor and the harness say to each other.
//!
//! The visitor shows its ticket in one [frame](crate::frame) and says what it wants in a second one.
//! Behind the frame of an event come the bytes of its payload, as many as the frame announced. The
//! harness answers with one frame.

use std::io::{self, Read, Write};

use autoloop_core::memory::Said;

use crate::complaint::{Complaint, Fault};
use crate::frame::{Body, Text, garbled, read_frame, write_frame};
use crate::memory::{Change, Reach, Tier};

/// The largest frame with a ticket. Whoever has none is not listened to for longer.
const LARGEST_TICKET: u32 = 256;
/// The largest frame with a request: the longest entry of memory, and something to spare. An answer
/// that repeats a part of it still fits into the buffer of a socket.
pub(super) const LARGEST_REQUEST: u32 = 128 * 1024;
/// The largest frame with an answer.
const LARGEST_ANSWER: u32 = 1024 * 1024;

/// What a visitor wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Something happened; the payload has so many bytes and follows.
    Emit { topic: String, bytes: u64 },
    /// Memory is to change.
    Change(Change),
}

pub(super) fn write_ticket(socket: &mut impl Write, ticket: &str) -> io::Result<()> {
    write_frame(socket, b'T', ticket.as_bytes())
}

/// What was shown as a ticket; `None` when the visitor went away.
pub(super) fn read_ticket(socket: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    match read_frame(socket, LARGEST_TICKET)? {
        Some((b'T', ticket)) => Ok(Some(ticket)),
        Some(_) => Err(garbled()),
        None => Ok(None),
    }
}

/// A request as a frame, or `None` when it is larger than any that can be meant.
pub(super) fn request_frame(request: &Request) -> io::Result<Option<Vec<u8>>> {
    let mut body = Body::default();
    let name = match request {
        Request::Emit { topic, bytes } => {
            body.bytes(topic.as_bytes());
            body.number(*bytes);
            b'E'
        }
        Request::Change(change) => {
            body.change(change);
            b'M'
        }
    };
    if body.0.len() > LARGEST_REQUEST as usize {
        return Ok(None);
    }
    let mut frame = Vec::new();
    write_frame(&mut frame, name, &body.0)?;
    Ok(Some(frame))
}

/// Reads a request; `None` when the visitor went away.
pub(super) fn read_request(socket: &mut impl Read) -> io::Result<Option<Request>> {
    let Some((name, body)) = read_frame(socket, LARGEST_REQUEST)? else { return Ok(None) };
    let mut body = Text(&body);
    let request = match name {
        b'E' => Request::Emit { topic: body.string()?, bytes: body.number()? },
        b'M' => Request::Change(body.change()?),
        _ => return Err(garbled()),
    };
    Ok(Some(request))
}

/// What the visitor is to print, or why not.
pub(super) type Answer = Result<String, Complaint>;

pub(super) fn write_answer(socket: &mut impl Write, answer: &Answer) -> io::Result<()> {
    let mut body = Body::default();
    match answer {
        Ok(said) => {
            body.number(0);
            body.bytes(said.as_bytes());
        }
        Err(complaint) => {
            body.number(match complaint.fault {
                Fault::Failed => 1,
                Fault::Usage => 2,
                Fault::Refused => 3,
            });
            body.bytes(complaint.message.as_bytes());
            body.list(&complaint.hints, |body, hint| body.bytes(hint.as_bytes()));
        }
    }
    write_frame(socket, b'A', &body.0)
}

/// Reads an answer; `None` when the harness went away.
pub(super) fn read_answer(socket: &mut impl Read) -> io::Result<Option<Answer>> {
    let Some((name, body)) = read_frame(socket, LARGEST_ANSWER)? else { return Ok(None) };
    let mut body = Text(&body);
    if name != b'A' {
        return Err(garbled());
    }
    let fault = match body.number()? {
        0 => return Ok(Some(Ok(body.string()?))),
        1 => Fault::Failed,
        2 => Fault::Usage,
        3 => Fault::Refused,
        _ => return Err(garbled()),
    };
    let (message, hints) = (body.string()?, body.list(Text::string)?);
    Ok(Some(Err(Complaint { fault, message, hints })))
}

impl Body {
    fn change(&mut self, change: &Change) {
        match change {
            Change::Add { said, reach } => {
                self.number(0);
                self.number(match reach {
                    Reach::Usual => 0,
                    Reach::Project => 1,
                });
                self.said(said);
            }
            Change::Remove { id, tier, reason } => {
                self.number(1);
                self.bytes(id.as_bytes());
                self.number(match tier {
                    None => 0,
                    Some(Tier::Project) => 1,
                    Some(Tier::Run) => 2,
                });
                self.bytes(reason.as_bytes());
            }
            Change::Promote { id } => {
                self.number(2);
                self.bytes(id.as_bytes());
            }
        }
    }

    fn said(&mut self, said: &Said) {
        let (kind, first, second) = match said {
            Said::Learning { text } => (0, text.as_str(), ""),
            Said::Preference { category, text } => (1, category.as_str(), text.as_str()),
            Said::Meta { key, value } => (2, key.as_str(), value.as_str()),
            Said::Tombstone { target, reason } => (3, target.as_str(), reason.as_str()),
        };
        self.number(kind);
        self.bytes(first.as_bytes());
        self.bytes(second.as_bytes());
    }
}

impl Text<'_> {
    fn change(&mut self) -> io::Result<Change> {
        Ok(match self.number()? {
            0 => {
                let reach = match self.number()? {
                    0 => Reach::Usual,
                    1 => Reach::Project,
                    _ => return Err(garbled()),
                };
                Change::Add { reach, said: self.said()? }
            }
            1 => {
                let id = self.string()?;
                let tier = match self.number()? {
                    0 => None,
                    1 => Some(Tier::Project),
                    2 => Some(Tier::Run),
                    _ => return Err(garbled()),
                };
                Change::Remove { id, tier, reason: self.string()? }
            }
            2 => Change::Promote { id: self.string()? },
            _ => return Err(garbled()),
        })
    }

    /// A tombstone is not something to be remembered: it comes of a removal, which looks whether there
    /// is anything to bury.
    fn said(&mut self) -> io::Result<Said> {
        let (kind, first, second) = (self.number()?, self.string()?, self.string()?);
        match kind {
            0 => Ok(Said::Learning { text: first }),
            1 => Ok(Said::Preference { category: first, text: second }),
            2 => Ok(Said::Meta { key: first, value: second }),
            _ => Err(garbled()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

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
        let fault = prop::sample::select(vec![Fault::Failed, Fault::Usage, Fault::Refused]);
        prop_oneof![
            any::<String>().prop_map(Ok),
            (fault, any::<String>(), vec(any::<String>(), 0..3))
                .prop_map(|(fault, message, hints)| Err(Complaint { fault, message, hints })),
        ]
    }

    proptest! {
        #[test]
        fn a_request_arrives_as_it_was_sent(request in request()) {
            let frame = request_frame(&request).unwrap().unwrap();
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
        fn garbage_is_an_error_and_no_panic(
            bytes in vec(any::<u8>(), 0..200),
            name in prop::sample::select(b"TEMA".to_vec()),
        ) {
            let mut framed = Vec::new();
            write_frame(&mut framed, name, &bytes).unwrap();
            for bytes in [&bytes, &framed] {
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
        let frame = request_frame(&forged).unwrap().unwrap();
        assert!(read_request(&mut &frame[..]).is_err());
    }

    #[test]
    fn nothing_is_sent_that_would_not_be_read() {
        let change = |length| Request::Change(Change::Promote { id: "x".repeat(length) });
        let largest = LARGEST_REQUEST as usize - 16;
        let frame = request_frame(&change(largest)).unwrap().unwrap();
        assert_eq!(read_request(&mut &frame[..]).unwrap(), Some(change(largest)));
        assert_eq!(request_frame(&change(largest + 1)).unwrap(), None);
    }
}
