//! Elicitation: questions to the user, in both eras of the protocol.
//!
//! Until 2025-11-25 a server sends its client a request during the call, and waits. Since 2026-07-28 it ends the call with the
//! question and a sealed state, and the client calls again with the answer and the state. [`Asker::ask`] does not hide the
//! difference: it returns the answer in the older era, and ends the call in the newer one, where [`Asker::returned`] has the answer in the
//! next call.

use std::fmt;
use std::time::Duration;

use axum::http::Extensions;
use rmcp::model::{
    ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, ProgressNotificationParam, ProgressToken,
};
use rmcp::service::{Peer, RoleServer};
use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};
use toolcrib_core::codes::mcp as code;

use crate::json::compile;
use crate::toolbox::{Stop, StopReason, ToolError};

/// Time limit for a user to answer within a call. Clients may give up earlier or later; approvals are valid for the same time.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(300);

/// The identity of a caller, as far as a server can tell: a connection, a session, or the holder of a token. Questions and answers of one
/// caller are not visible to another. A layer before the router may set it in the request's extensions; otherwise the router does.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Caller([u8; 32]);

impl Caller {
    /// A caller identified by these bytes. `kind` separates kinds of identities. Only a hash is stored.
    pub fn of(kind: &str, bytes: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update((kind.len() as u64).to_be_bytes());
        hash.update(kind.as_bytes());
        hash.update(bytes);
        Self(hash.finalize().into())
    }

    /// The bytes, to bind data to the caller.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Caller(…)")
    }
}

/// A question to the user: a text and a small form.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// Its name in a round.
    pub name: &'static str,
    /// The text for the user. Untrusted text in it must be escaped.
    pub message: String,
    /// The form: an object schema whose properties are strings, numbers, choices or booleans.
    pub form: Json,
    /// Data that is returned with the answer. It is sealed, but the client can read it: no secrets.
    pub state: Vec<u8>,
}

/// The user's response.
#[derive(Clone, Debug, PartialEq)]
pub enum PromptResponse {
    /// The user submitted the form. The content fits it.
    Accepted(Map<String, Json>),
    /// The user declined.
    Declined,
    /// The user closed the question.
    Cancelled,
}

/// An answer with the state of its question.
#[derive(Clone, Debug, PartialEq)]
pub struct Returned {
    /// The user's response.
    pub answer: PromptResponse,
    /// The state of the question.
    pub state: Vec<u8>,
}

/// Sends questions to the user of the calling client.
#[derive(Debug)]
pub struct Asker {
    pub(crate) way: PromptTransport,
    pub(crate) caller: Caller,
    /// Extensions that layers before this server set on the HTTP request.
    pub(crate) noted: Option<Extensions>,
    pub(crate) returned: Option<Returned>,
    pub(crate) progress: Option<Progress>,
}

/// Reports the progress of one call to the client that made it.
#[derive(Clone, Debug)]
pub struct Progress {
    peer: Peer<RoleServer>,
    token: ProgressToken,
}

impl Progress {
    pub(crate) const fn new(peer: Peer<RoleServer>, token: ProgressToken) -> Self {
        Self { peer, token }
    }

    /// Reports progress to the client: `progress` must increase, `message` is shown to the user. A disconnected client is not an
    /// error.
    pub async fn report(&self, progress: f64, total: Option<f64>, message: Option<String>) {
        let mut notification = ProgressNotificationParam::new(self.token.clone(), progress);
        notification.total = total;
        notification.message = message;
        let _ = self.peer.notify_progress(notification).await;
    }
}

/// How questions are sent.
#[derive(Debug)]
pub(crate) enum PromptTransport {
    /// As a request during the call.
    Within(Peer<RoleServer>),
    /// By ending the call.
    Rounds,
    /// Not at all: the client has not declared support.
    None,
}

impl Asker {
    /// An asker without a user, for calls that do not come from a client.
    pub const fn nobody(caller: Caller) -> Self {
        Self { way: PromptTransport::None, caller, noted: None, returned: None, progress: None }
    }

    /// Whether the client can ask its user.
    pub const fn can_ask(&self) -> bool {
        !matches!(self.way, PromptTransport::None)
    }

    /// The identity of the caller.
    pub const fn caller(&self) -> &Caller {
        &self.caller
    }

    /// An extension that a layer before this server set on the HTTP request, such as the sender. `None` on stdio.
    pub fn noted<T: Clone + Send + Sync + 'static>(&self) -> Option<&T> {
        self.noted.as_ref()?.get()
    }

    /// The answer to the question of an earlier round of this call. Its state was sealed by this server, for this caller, tool and
    /// arguments. The toolbox must check whether it was used before.
    pub const fn returned(&self) -> Option<&Returned> {
        self.returned.as_ref()
    }

    /// Reports progress of this call, if the client requested it.
    pub const fn progress(&self) -> Option<&Progress> {
        self.progress.as_ref()
    }

    /// Asks the user. `Err` may mean that the call continues in another round: return it.
    pub async fn ask(&self, question: Prompt) -> Result<Returned, Stop> {
        match &self.way {
            PromptTransport::None => Err(Stop(StopReason::NotAskable(ToolError::new(code::ELICITATION_UNSUPPORTED)))),
            PromptTransport::Rounds => Err(Stop(StopReason::Ask(Box::new(question)))),
            PromptTransport::Within(peer) => {
                let sent = peer.create_elicitation_with_timeout(request(&question)?, Some(ANSWER_LIMIT)).await;
                let result =
                    sent.map_err(|_| ToolError::new(code::DECLINED).message("the client did not answer the question"))?;
                let answer = read(&question.form, result)
                    .ok_or_else(|| ToolError::new(code::DECLINED).message("the answer does not fit the form that was sent"))?;
                Ok(Returned { answer, state: question.state })
            }
        }
    }
}

/// The question in the protocol's format.
pub(crate) fn request(question: &Prompt) -> Result<ElicitRequestParams, ToolError> {
    let form: ElicitationSchema = serde_json::from_value(question.form.clone())
        .map_err(|_| ToolError::new(code::INTERNAL).message("a form that the protocol does not allow"))?;
    Ok(ElicitRequestParams::FormElicitationParams { meta: None, message: question.message.clone(), requested_schema: form })
}

/// Parses an answer. `None` if the content does not fit the form.
pub(crate) fn read(form: &Json, result: ElicitResult) -> Option<PromptResponse> {
    match result.action {
        ElicitationAction::Accept => {
            let content = match result.content {
                Some(Json::Object(content)) => content,
                None => Map::new(),
                Some(_) => return None,
            };
            let fits = compile(form).ok()?.is_valid(&Json::Object(content.clone()));
            fits.then_some(PromptResponse::Accepted(content))
        }
        ElicitationAction::Decline => Some(PromptResponse::Declined),
        _ => Some(PromptResponse::Cancelled),
    }
}
