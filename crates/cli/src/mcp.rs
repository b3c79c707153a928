//! The MCP server of an agent.
//!
//! It keeps nothing of its own: it asks the harness which tools the agent has, and passes calls on. The official crate
//! speaks the protocol. Requests to the harness run on threads of their own, so `ping` and `initialize` are answered
//! while one of them waits for a slow disk.

use std::io;
use std::sync::Arc;

use autoloop_runtime::failure::Failure as Refusal;
use autoloop_runtime::ipc::{Client, ToolSpec};
use rmcp::model::{
    CallToolRequestMethod, CallToolRequestParams, CallToolResponse, CallToolResult, ConstString,
    ContentBlock, CustomRequest, CustomResult, ErrorCode, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, ServerInitializeError};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use tokio::runtime::Builder;
use tokio::sync::Mutex;
use tokio::task;

use crate::failure::Failure;

/// Serves the tools of an agent on standard input and output until the client closes them.
pub(crate) fn serve(harness: Option<Client>) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::failed(format!("cannot start the server: {error}"));
    let runtime = Builder::new_current_thread().enable_time().build().map_err(failed)?;
    let server = Server { harness, calls: Mutex::default() };
    let served = runtime.block_on(async {
        let service = server.serve((tokio::io::stdin(), tokio::io::stdout())).await?;
        // It ends with the input, or with a panic that was printed on standard error.
        let _ = service.waiting().await;
        Ok(())
    });
    match served {
        // Calls that the harness has not answered yet are waited for when the runtime is dropped.
        Ok(()) | Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => {
            // Otherwise it would wait for the input, which the client may never close.
            runtime.shutdown_background();
            Err(Failure::failed(format!("the MCP client did not initialize: {error}")))
        }
    }
}

/// The error of a call outside of a squad.
pub(crate) fn no_harness() -> Refusal {
    Refusal::refused("not stored: there are no tools here, because AUTOLOOP_DOOR is not set")
        .hint("the harness of a squad sets it for the agents that it starts")
}

struct Server {
    /// `None` for a process that no harness started.
    harness: Option<Client>,
    /// Held during a call. A client may send a second answer before it has read the result of the first, and the last one
    /// counts: calls are carried out in the order in which they were sent.
    calls: Mutex<()>,
}

impl Server {
    /// Asks the harness on a thread that may block.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Client) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let harness = self.harness.clone().ok_or_else(no_harness)?;
        let asked = task::spawn_blocking(move || question(&harness)).await;
        asked.unwrap_or_else(|_| Err(Refusal::failed("this is a bug in autoloop")))
    }

    async fn call(&self, tool: String, arguments: &serde_json::Value) -> CallToolResult {
        let arguments = arguments.to_string();
        let _in_order = self.calls.lock().await;
        match self.ask(move |harness| harness.call(&tool, &arguments)).await {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(refusal) => CallToolResult::error(vec![ContentBlock::text(text_of(&refusal))]),
        }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("autoloop", env!("CARGO_PKG_VERSION")))
    }

    /// Empty where the harness gives none; a call says why.
    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let specs = self.ask(Client::tools).await.unwrap_or_default();
        Ok(ListToolsResult::with_all_items(specs.into_iter().map(tool).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        Ok(self.call(request.name.into_owned(), &arguments.into()).await.into())
    }

    /// The crate takes a call whose arguments are no object for an unknown request. The harness answers it like any other
    /// invalid call, with what would be valid.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method != CallToolRequestMethod::VALUE {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None));
        }
        let params = request.params.unwrap_or_default();
        let Some(tool) = params["name"].as_str() else {
            return Err(ErrorData::invalid_params("expected the name of a tool", None));
        };
        let result = self.call(tool.to_owned(), &params["arguments"]).await;
        let result = serde_json::to_value(result)
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        Ok(CustomResult::new(result))
    }
}

fn tool(spec: ToolSpec) -> Tool {
    let schema = match spec.schema {
        serde_json::Value::Object(schema) => schema,
        _ => serde_json::Map::new(),
    };
    Tool::new(spec.name, spec.description, Arc::new(schema))
}

fn text_of(refusal: &Refusal) -> String {
    let hints = refusal.hints.iter().map(|hint| format!("\nhint: {hint}"));
    std::iter::once(refusal.message.clone()).chain(hints).collect()
}
