//! Agents that print a stream of messages instead of their answer: what is to be made of it.
//!
//! A [`Stream`] is a property of a plan. Its [`Decoder`] takes what the agent prints, in pieces of any
//! size and in bounded memory, and gives an [`Answer`] in the end. One file a client.

mod claude;
mod codex;
mod events;
mod line_buffer;
mod multiline;
mod pi;
mod response;
mod transcript;

use crate::wire_enum::words;

use claude::Claude;
use codex::Codex;
use events::Events;
use pi::Pi;

pub use response::{Answer, Dollars, Outcome, Usage};
pub use transcript::{said_in, transcript};

words! {
    /// What an agent prints (`backend.output`).
    #[derive(Default)]
    Stream {
        /// Its answer.
        #[default]
        Plain = "plain",
        Claude = "claude",
        Codex = "codex",
        Pi = "pi",
    }
}

impl Stream {
    /// The decoder of the stream; `None` if the output is the answer itself.
    pub fn decoder(self) -> Option<Decoder> {
        match self {
            Stream::Plain => None,
            Stream::Claude => Some(Decoder(Client::Claude(Events::default()))),
            Stream::Codex => Some(Decoder(Client::Codex(Events::default()))),
            Stream::Pi => Some(Decoder(Client::Pi(Events::default()))),
        }
    }
}

/// Reads an answer from a stream, in pieces of any size.
#[derive(Debug)]
pub struct Decoder(Client);

#[derive(Debug)]
enum Client {
    Claude(Events<Claude>),
    Codex(Events<Codex>),
    Pi(Events<Pi>),
}

impl Decoder {
    pub fn push(&mut self, piece: &[u8]) {
        match &mut self.0 {
            Client::Claude(events) => events.push(piece),
            Client::Codex(events) => events.push(piece),
            Client::Pi(events) => events.push(piece),
        }
    }

    pub fn finish(self) -> Answer {
        match self.0 {
            Client::Claude(events) => events.finish(),
            Client::Codex(events) => events.finish(),
            Client::Pi(events) => events.finish(),
        }
    }
}
