//! The tools of an agent, as its server offers and calls them.

use crate::failure::Failure;

pub use autoloop_core::tool::ToolSpec;

/// The tools of one agent. Calls come from several threads, one for each connection.
///
/// A [`Server`](super::Server) waits for its calls when it is dropped, so the thread that answers them must not be the
/// one that drops it.
pub trait ToolBox: Send + Sync {
    fn tools(&self) -> Vec<ToolSpec>;

    /// Carries out one call; the arguments are JSON. The failure says what would be valid.
    fn call(&self, tool: &str, arguments: &str) -> Result<String, Failure>;
}
