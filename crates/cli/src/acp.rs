//! The client side of the Agent Client Protocol.
//!
//! A turn is one process of the program, one session and one prompt. The official crate speaks the protocol; it needs no
//! runtime, so plain threads move the lines between it and the program, as everywhere in this binary. What the program
//! reports is printed as events, which the supervisor decodes like the stream of any other client.

mod conversation;
mod offers;
mod program;
mod reporter;

pub(crate) use conversation::{Ended, ToolServer, Turn, converse};
pub(crate) use program::Program;
pub(crate) use reporter::Reporter;
