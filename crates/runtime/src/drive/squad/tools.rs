//! The tools of a turn: each call is sent to the dispatcher of the squad, which answers it.

use std::sync::mpsc::{self, Sender};

use autoloop_core::record::SquadTurn;
use autoloop_core::squad::tools::tools;

use super::Message;
use crate::failure::Failure;
use crate::ipc::{ToolBox, ToolSpec};

/// A call of a tool by the agent of a turn.
pub(super) struct ToolCall {
    pub(super) turn: u64,
    pub(super) tool: String,
    pub(super) arguments: String,
    pub(super) reply: Sender<Result<String, Failure>>,
}

pub(super) struct TurnTools {
    turn: u64,
    specs: Vec<ToolSpec>,
    sender: Sender<Message>,
}

impl TurnTools {
    pub(super) fn new(turn: &SquadTurn, sender: Sender<Message>) -> TurnTools {
        TurnTools { turn: turn.turn, specs: tools(turn), sender }
    }
}

impl ToolBox for TurnTools {
    fn tools(&self) -> Vec<ToolSpec> {
        self.specs.clone()
    }

    fn call(&self, tool: &str, arguments: &str) -> Result<String, Failure> {
        let (reply, answer) = mpsc::channel();
        let (tool, arguments) = (tool.to_owned(), arguments.to_owned());
        let call = ToolCall { turn: self.turn, tool, arguments, reply };
        let gone = || Failure::failed("not stored: the squad has ended");
        self.sender.send(Message::Call(call)).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }
}
