//! Agents that print a stream of messages instead of their answer: what is to be made of it.
//!
//! A [`Stream`] is a property of a plan. Its [`Decoder`] takes what the agent prints, in pieces of any
//! size and in bounded memory, and gives an [`Answer`] in the end. One file a client.

mod answer;
mod lines;
mod pi;

pub use answer::{Answer, Dollars, Outcome, Usage};

/// What an agent prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stream {
    /// Its answer, as it is.
    #[default]
    Plain,
    /// The events of `pi --mode json`, a JSON object in every line.
    Pi,
}

impl Stream {
    /// What takes the answer out of it, where it is not the answer itself.
    pub fn decoder(self) -> Option<Decoder> {
        match self {
            Stream::Plain => None,
            Stream::Pi => Some(Decoder(Client::Pi(pi::Decoder::default()))),
        }
    }
}

/// Takes an answer out of a stream.
#[derive(Debug)]
pub struct Decoder(Client);

#[derive(Debug)]
enum Client {
    Pi(pi::Decoder),
}

impl Decoder {
    /// Takes the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        match &mut self.0 {
            Client::Pi(decoder) => decoder.push(piece),
        }
    }

    /// Says that nothing more comes.
    pub fn finish(self) -> Answer {
        match self.0 {
            Client::Pi(decoder) => decoder.finish(),
        }
    }
}
