//! The conversation of one turn: initialize, a session, a prompt, and what the program asks meanwhile.

use std::io::Write;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CancelNotification, ContentBlock, EnvVariable, Implementation, InitializeRequest, McpServer,
    McpServerStdio, NewSessionRequest, PermissionOption, PermissionOptionKind, PromptRequest,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SelectedPermissionOutcome, SessionNotification, TextContent,
};
use agent_client_protocol::{
    Agent, Client, ConnectTo, Error, UntypedMessage, is_connection_terminated,
    is_incoming_transport_closed, on_receive_notification, on_receive_request,
};
use autoloop_core::agents::{AcpEvent, ErrorClass};
use futures::StreamExt;
use futures::channel::mpsc::UnboundedReceiver;
use futures::future::{Either, select};
use serde::Serialize;
use serde_json::Value;

use super::offers::Offers;
use super::reporter::{Call, Reporter, Stage};

/// What is asked of the program.
pub(crate) struct Turn {
    pub(crate) program: String,
    pub(crate) prompt: String,
    pub(crate) dir: PathBuf,
    pub(crate) model: Option<String>,
    pub(crate) tools: Option<ToolServer>,
}

/// An MCP server that the program starts.
pub(crate) struct ToolServer {
    pub(crate) program: PathBuf,
    pub(crate) env: Vec<(&'static str, String)>,
}

/// How a turn ended.
pub(crate) enum Ended {
    /// With this answer to the prompt.
    Answered(Value),
    /// We were asked to stop, and the program did not answer in time.
    Stopped,
    /// The program closed its output before it answered this request.
    Gone(&'static str),
    Failed(AcpEvent),
}

impl ToolServer {
    fn described(&self) -> McpServer {
        let env = self.env.iter().map(|(name, value)| EnvVariable::new(*name, value.clone()));
        let server = McpServerStdio::new("autoloop", self.program.clone());
        McpServer::Stdio(server.args(vec!["mcp".to_owned()]).env(env.collect()))
    }
}

/// Runs one turn.
pub(crate) async fn converse<W: Write + Send>(
    turn: Turn,
    pipes: impl ConnectTo<Client> + 'static,
    reporter: &Mutex<Reporter<W>>,
    mut stops: UnboundedReceiver<()>,
) -> Ended {
    let client = Client
        .v1()
        .name("autoloop")
        .on_receive_request(
            async |request: RequestPermissionRequest, responder, _| {
                let RequestPermissionRequest { tool_call, options, .. } = request;
                let call = Call::new(tool_call.fields.title, tool_call.fields.kind);
                let outcome = permission(&options);
                lock(reporter)
                    .call(tool_call.tool_call_id, call, Stage::Begun)
                    .map_err(Error::into_internal_error)?;
                responder.respond(RequestPermissionResponse::new(outcome))
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async |message: UntypedMessage, _| {
                // An update that is not known to the crate is newer than it.
                let update = serde_json::from_value::<SessionNotification>(message.params);
                if let Ok(SessionNotification { update, .. }) = update {
                    lock(reporter).update(update).map_err(Error::into_internal_error)?;
                }
                Ok(())
            },
            on_receive_notification!(),
        );
    let talk = async |agent| Ok(talk(&agent, &turn, reporter, &mut stops).await);
    match client.connect_with(pipes, talk).await {
        Ok(ended) => ended,
        Err(error) => Ended::Failed(AcpEvent::failure(None, error.to_string())),
    }
}

async fn talk<W: Write>(
    agent: &ConnectionTo<Agent>,
    turn: &Turn,
    reporter: &Mutex<Reporter<W>>,
    stops: &mut UnboundedReceiver<()>,
) -> Ended {
    let opening = pin!(open(agent, turn, reporter));
    let session = match select(opening, stops.next()).await {
        Either::Left((Ok(session), _)) => session,
        Either::Left((Err(ended), _)) => return ended,
        Either::Right(_) => return Ended::Stopped,
    };
    let text = ContentBlock::Text(TextContent::new(turn.prompt.clone()));
    let prompt = PromptRequest::new(session.clone(), vec![text]);
    let prompt = match untyped("session/prompt", prompt) {
        Ok(prompt) => prompt,
        Err(ended) => return ended,
    };
    let mut answer = pin!(send(agent, "session/prompt", prompt));
    if let Either::Left((answer, _)) = select(answer.as_mut(), stops.next()).await {
        return answer.map_or_else(|ended| ended, Ended::Answered);
    }
    // A program that cannot be told is gone, and its answer says so.
    let _ = agent.send_notification(CancelNotification::new(session));
    match select(answer, stops.next()).await {
        Either::Left((Ok(answer), _)) => Ended::Answered(answer),
        Either::Left((Err(_), _)) | Either::Right(_) => Ended::Stopped,
    }
}

/// Opens a session with the mode and the model of the turn, and returns its id.
async fn open<W: Write>(
    agent: &ConnectionTo<Agent>,
    turn: &Turn,
    reporter: &Mutex<Reporter<W>>,
) -> Result<String, Ended> {
    let us = Implementation::new("autoloop", env!("CARGO_PKG_VERSION"));
    let hello = InitializeRequest::new(ProtocolVersion::V1).client_info(us);
    let hello = ask(agent, "initialize", hello).await?;
    let servers = turn.tools.iter().map(ToolServer::described).collect();
    let session = NewSessionRequest::new(turn.dir.clone()).mcp_servers(servers);
    let session = ask(agent, "session/new", session).await?;
    let Some(offers) = Offers::new(session) else {
        let message = format!("{} answered session/new without a session", turn.program);
        return Err(Ended::Failed(AcpEvent::failure(None, message)));
    };
    if let Some(request) = offers.full_access() {
        send(agent, "the choice of its mode", request).await?;
    }
    let mut model = offers.current_model().map(str::to_owned);
    if let Some(wanted) = turn.model.as_ref().filter(|wanted| Some(*wanted) != model.as_ref()) {
        choose_model(agent, turn, &offers, wanted).await?;
        model = Some(wanted.clone());
    }
    let about = &hello["agentInfo"];
    let about = about["name"].as_str().map(|name| match about["version"].as_str() {
        Some(version) => format!("{name} {version}"),
        None => name.to_owned(),
    });
    let session = AcpEvent::Session { id: offers.session.clone(), model, agent: about };
    let printed = lock(reporter).begin(&session);
    printed.map_err(|error| Ended::Failed(AcpEvent::failure(None, error.to_string())))?;
    Ok(offers.session)
}

async fn choose_model(
    agent: &ConnectionTo<Agent>,
    turn: &Turn,
    offers: &Offers,
    model: &str,
) -> Result<(), Ended> {
    let program = &turn.program;
    let refused =
        |message: String| Ended::Failed(AcpEvent::failure(Some(ErrorClass::Model), message));
    let Some(request) = offers.choose_model(model) else {
        let message = format!(
            "{program} does not offer a choice of models over ACP; \
             set '{model}' in its own settings or arguments, and not as the model of the agent"
        );
        return Err(refused(message));
    };
    match send(agent, "the choice of its model", request).await {
        Ok(_) => Ok(()),
        Err(Ended::Failed(AcpEvent::Failure { message, .. })) => {
            let offered = offers.models().join(", ");
            Err(refused(format!(
                "{program} refused the model '{model}': {message} (it offers {offered})"
            )))
        }
        Err(ended) => Err(ended),
    }
}

/// Sends a request whose failure is named by its method.
async fn ask(
    agent: &ConnectionTo<Agent>,
    method: &'static str,
    request: impl Serialize,
) -> Result<Value, Ended> {
    send(agent, method, untyped(method, request)?).await.map_err(|ended| match ended {
        Ended::Failed(AcpEvent::Failure { class, status, message }) => {
            let message = format!("{method} failed: {message}");
            Ended::Failed(AcpEvent::Failure { class, status, message })
        }
        ended => ended,
    })
}

/// Sends a request and waits for its answer. It is not read into a type, since programs use fields that the crate does
/// not know.
async fn send(
    agent: &ConnectionTo<Agent>,
    name: &'static str,
    request: UntypedMessage,
) -> Result<Value, Ended> {
    let answer = agent.send_request(request).block_task().await;
    answer.map_err(|error| {
        if is_incoming_transport_closed(&error) || is_connection_terminated(&error) {
            return Ended::Gone(name);
        }
        let data = error.data.unwrap_or_default();
        Ended::Failed(AcpEvent::refusal(error.code.value().into(), &error.message, &data))
    })
}

fn untyped(method: &str, request: impl Serialize) -> Result<UntypedMessage, Ended> {
    let message = UntypedMessage::new(method, request);
    message.map_err(|error| Ended::Failed(AcpEvent::failure(None, error.to_string())))
}

/// The policy: allow this once, or else forever. Ids and names differ between programs, kinds do not.
fn permission(options: &[PermissionOption]) -> RequestPermissionOutcome {
    use PermissionOptionKind::{AllowAlways, AllowOnce};
    let of_kind = |kind| options.iter().find(|option| option.kind == kind);
    match of_kind(AllowOnce).or_else(|| of_kind(AllowAlways)) {
        Some(option) => RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(
            option.option_id.clone(),
        )),
        None => RequestPermissionOutcome::Cancelled,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_given_once_where_that_is_offered() {
        let option = |id: &str, kind| PermissionOption::new(id.to_owned(), "name", kind);
        let once = option("o", PermissionOptionKind::AllowOnce);
        let always = option("a", PermissionOptionKind::AllowAlways);
        let never = option("n", PermissionOptionKind::RejectOnce);
        let chosen = |options: &[PermissionOption]| match permission(options) {
            RequestPermissionOutcome::Selected(selected) => selected.option_id.to_string(),
            _ => "cancelled".to_owned(),
        };
        assert_eq!(chosen(&[never.clone(), always.clone(), once]), "o");
        assert_eq!(chosen(&[never.clone(), always]), "a");
        assert_eq!(chosen(&[never]), "cancelled");
        assert_eq!(chosen(&[]), "cancelled");
    }
}
