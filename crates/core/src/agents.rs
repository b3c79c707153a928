//! The clients that people run as agents: how each is started unattended, and how its output is read.
//!
//! One file per client. Its [`Adapter`] is the command line that it needs; its decoder takes what the client prints,
//! in pieces of any size and in bounded memory, and returns an [`Answer`] in the end.

mod acp;
mod adapter;
mod breaker;
mod claude;
mod codex;
mod error;
mod events;
mod gemini;
mod line_buffer;
mod multiline;
mod opencode;
mod pi;
pub mod prices;
mod response;
mod tool_call;
mod transcript;
mod wall_time;

use serde_json::Value;

use crate::wire_enum::words;

use acp::Acp;
use claude::Claude;
use codex::Codex;
use events::{Client, Decode, Events};
use gemini::Gemini;
use opencode::Opencode;
use pi::Pi;

pub use acp::{AcpEvent, AcpTokens};
pub use adapter::{Adapter, BadArgument, Credentials, Options, StateDir};
pub use breaker::{Breaker, Opened, Permit, Waits};
pub use error::{ClientError, ErrorClass};
pub use response::{Answer, Dollars, Outcome, Session, Usage};
pub use transcript::transcript;
pub use wall_time::WallTime;

words! {
    /// What an agent prints (`backend.output`).
    #[derive(Default)]
    Stream {
        /// Its answer.
        #[default]
        Plain = "plain",
        Claude = "claude",
        Codex = "codex",
        Gemini = "gemini",
        Opencode = "opencode",
        Pi = "pi",
        /// The events of `autoloop __acp`.
        Acp = "acp",
    }
}

impl Stream {
    /// The decoder of the stream; `None` if the output is the answer itself.
    pub fn decoder(self) -> Option<Decoder> {
        let decoder: Box<dyn Decode> = match self {
            Stream::Plain => return None,
            Stream::Claude => Box::<Events<Claude>>::default(),
            Stream::Codex => Box::<Events<Codex>>::default(),
            Stream::Gemini => Box::<Events<Gemini>>::default(),
            Stream::Opencode => Box::<Events<Opencode>>::default(),
            Stream::Pi => Box::<Events<Pi>>::default(),
            Stream::Acp => Box::<Events<Acp>>::default(),
        };
        Some(Decoder(decoder))
    }

    /// What a person is shown of an event in the stream, if anything.
    fn show(self, event: &Value) -> Option<String> {
        let show = match self {
            Stream::Plain => return None,
            Stream::Claude => Claude::show,
            Stream::Codex => Codex::show,
            Stream::Gemini => Gemini::show,
            Stream::Opencode => Opencode::show,
            Stream::Pi => Pi::show,
            Stream::Acp => Acp::show,
        };
        show(event["type"].as_str().unwrap_or_default(), event)
    }
}

/// Reads an answer from a stream, in pieces of any size.
#[derive(Debug)]
pub struct Decoder(Box<dyn Decode>);

impl Decoder {
    pub fn push(&mut self, piece: &[u8]) {
        self.0.push(piece);
    }

    pub fn finish(self) -> Answer {
        self.0.finish()
    }
}
