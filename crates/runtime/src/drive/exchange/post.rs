//! The mailboxes of an exchange: delivers what is on record, and finds requests.

use std::path::Path;

use autoloop_core::exchange::{Exchange, Mail};
use autoloop_core::message::{AgentName, Body, MAX_BYTES, Message, Request, Type, USUAL_ROUNDS};
use autoloop_core::record::{ExchangeMessage, ExchangeStart};

use super::change::repository;
use super::{DriveError, Order};
use crate::files::{self, Links};
use crate::mailbox::{MailError, Place, Workspace};
use crate::world::World;

/// A request that is not answered.
#[derive(Clone, Debug)]
pub struct OpenRequest {
    message: Message,
    request: Request,
    file: String,
    text: String,
}

/// Delivers a message and its packet, unless an earlier attempt did.
pub(super) fn deliver(workspace: &Workspace, mail: &Mail, world: &World) -> Result<(), DriveError> {
    if let Some(packet) = &mail.packet {
        let path = workspace.dir().join(&packet.path);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let found = files::read(&*world.disk, &path, Links::Refuse, MAX_BYTES as u64);
        if found.ok().flatten().as_deref() != Some(packet.text.as_bytes()) {
            workspace.add_packet(&name, packet.text.as_bytes())?;
        }
    }
    Ok(workspace.deliver(&mail.file, mail.text.as_bytes())?)
}

/// Files a message away, wherever it is.
pub(super) fn archive(workspace: &Workspace, agent: &str, id: &str) -> Result<(), DriveError> {
    let Ok(agent) = agent.parse::<AgentName>() else { return Ok(()) };
    match workspace.archive(&agent, id) {
        Ok(_) | Err(MailError::Taken { .. } | MailError::NoMessage { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl OpenRequest {
    /// The oldest one of an agent, claimed for this process. A claimed one that an exchange of this project is about is
    /// found again after a crash.
    pub fn oldest(
        workspace: &Workspace,
        agent: &AgentName,
        exchanges: &[Exchange],
        world: &World,
    ) -> Result<Option<OpenRequest>, DriveError> {
        workspace.sweep()?;
        let listed = match workspace.list(agent, &[Place::Unread, Place::Claimed]) {
            Err(MailError::NoAgent { .. }) => return Ok(None),
            listed => listed?,
        };
        for listed in listed {
            let Some(header) = listed.header.as_ref().filter(|it| it.kind == Type::ReviewRequest)
            else {
                continue;
            };
            let known = exchanges.iter().find(|exchange| exchange.has_message(&header.id));
            match (known, listed.place) {
                // A power cut undid that it was filed away.
                (Some(known), _) if !known.awaits_answer_to(&header.id) => {
                    archive(workspace, agent.as_str(), &header.id)?;
                    continue;
                }
                (None, Place::Claimed) => continue,
                (_, Place::Unread) => match workspace.claim(agent, &header.id) {
                    Err(MailError::Taken { .. } | MailError::NoMessage { .. }) => continue,
                    claimed => drop(claimed?),
                },
                _ => {}
            }
            let claimed = workspace.find(agent, &header.id)?;
            if let Some(request) = OpenRequest::read(&claimed.path, world) {
                return Ok(Some(request));
            }
        }
        Ok(None)
    }

    fn read(path: &Path, world: &World) -> Option<OpenRequest> {
        let bytes = files::read(&*world.disk, path, Links::Refuse, MAX_BYTES as u64).ok()??;
        let message = Message::read(&bytes).value?;
        let Body::Request(request) = message.body.clone() else { return None };
        let file = path.file_name()?.to_str()?.to_owned();
        let is_forged = message.envelope.contradicts_name(&file).is_some();
        let text = String::from_utf8(bytes).ok().filter(|_| !is_forged)?;
        Some(OpenRequest { message, request, file, text })
    }

    pub fn id(&self) -> &str {
        &self.message.envelope.id
    }

    /// What begins the exchange of a request that another program sent.
    pub fn order(&self, project: &Path, world: &World) -> Result<Order, DriveError> {
        let (envelope, request) = (&self.message.envelope, &self.request);
        let repository = repository(project, world)?;
        let wanted = request.declared_head.clone();
        let commit = match &wanted {
            Some(head) => repository.commit(head)?,
            None => repository.tip(&request.branch)?,
        };
        let commit = commit.ok_or_else(|| {
            DriveError::NoCommit(wanted.unwrap_or_else(|| request.branch.clone()))
        })?;
        let base = repository.fork_point(&request.branch, &commit)?.unwrap_or_default();
        let reviewer = envelope.to.first().map(ToString::to_string).unwrap_or_default();
        let rounds = request.max_rounds.unwrap_or(USUAL_ROUNDS);
        let round = request.round.unwrap_or(1);
        Ok(Order::Received {
            start: ExchangeStart {
                author: envelope.from.to_string(),
                reviewer,
                pr: request.pr,
                branch: request.branch.clone(),
                base,
                rounds,
                max_turns: request.max_turns_reviewer,
                max_runtime_s: request.max_runtime_s_reviewer,
                conversation: envelope.conversation_id.clone().unwrap_or_default(),
            },
            message: ExchangeMessage {
                round,
                kind: envelope.kind.into(),
                message_id: envelope.id.clone(),
                file: self.file.clone(),
                commit,
                text: self.text.clone().into(),
                ..ExchangeMessage::default()
            },
        })
    }
}
