//! Questions to the user, by elicitation, in both eras of the protocol.
//!
//! Until 2025-11-25 a server sends its client a request in the middle of a call, and waits. From 2026-07-28 on it ends the call with the
//! question and a sealed state, and the client calls again with the answer and the state. [`Asker::ask`] hides neither: code after it
//! runs at once in the older era, and in another call in the newer one, where [`Asker::returned`] has the answer.

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
use crate::toolbox::{Fault, Stop, Why};

/// How long a user may take to answer within a call. Clients give up on a call earlier or later; approvals are good for as long.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(300);

/// Who calls, as far as a server can tell: a connection, a session, or whoever knows a token. Questions and answers of one are nothing to
/// another. A layer before the router may put one into the request's extensions; otherwise the router makes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Caller([u8; 32]);

impl Caller {
    /// Whoever is known by these bytes, of this kind. The bytes are hashed and do not stay.
    pub fn of(kind: &str, bytes: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update((kind.len() as u64).to_be_bytes());
        hash.update(kind.as_bytes());
        hash.update(bytes);
        Self(hash.finalize().into())
    }

    /// For binding something to it.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Caller(…)")
    }
}

/// A question: a text and a small form.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Its name in a round.
    pub name: &'static str,
    /// What the user reads. Foreign text in it has to be escaped.
    pub message: String,
    /// The form: an object schema whose properties are texts, numbers, choices or booleans.
    pub form: Json,
    /// What comes back with the answer. It is sealed but can be read by the client: no secrets.
    pub state: Vec<u8>,
}

/// What the user did.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Filled in the form. The content fits it.
    Accepted(Map<String, Json>),
    /// Said no.
    Declined,
    /// Closed the question.
    Cancelled,
}

/// An answer, and the state of the question that it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct Returned {
    /// What the user did.
    pub answer: Answer,
    /// The state of the question.
    pub state: Vec<u8>,
}

/// Asks the user of the client that made a call.
#[derive(Debug)]
pub struct Asker {
    pub(crate) way: Way,
    pub(crate) caller: Caller,
    /// What the layers before this server noted about the HTTP request.
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

    /// Tells the client how far the call is: `progress` has to grow, `message` is shown to the user. A client that has left is not an
    /// error.
    pub async fn report(&self, progress: f64, total: Option<f64>, message: Option<String>) {
        let mut notification = ProgressNotificationParam::new(self.token.clone(), progress);
        notification.total = total;
        notification.message = message;
        let _ = self.peer.notify_progress(notification).await;
    }
}

/// How questions travel.
#[derive(Debug)]
pub(crate) enum Way {
    /// As a request within the call.
    Within(Peer<RoleServer>),
    /// By ending the call.
    Rounds,
    /// Not at all: the client has not declared that it can.
    None,
}

impl Asker {
    /// One that can ask nobody, for calls that come from elsewhere than a client.
    pub const fn nobody(caller: Caller) -> Self {
        Self { way: Way::None, caller, noted: None, returned: None, progress: None }
    }

    /// Whether the client can ask its user.
    pub const fn can_ask(&self) -> bool {
        !matches!(self.way, Way::None)
    }

    /// Who calls.
    pub const fn caller(&self) -> &Caller {
        &self.caller
    }

    /// What a layer before this server noted about the HTTP request, such as who sent it. `None` on stdio.
    pub fn noted<T: Clone + Send + Sync + 'static>(&self) -> Option<&T> {
        self.noted.as_ref()?.get()
    }

    /// The answer to what an earlier round of this call has asked. The state is one that this server sealed, for this caller, tool and
    /// arguments. Whether it was used before is for the toolbox to know.
    pub const fn returned(&self) -> Option<&Returned> {
        self.returned.as_ref()
    }

    /// Where progress of this call is reported, if the client wants to know.
    pub const fn progress(&self) -> Option<&Progress> {
        self.progress.as_ref()
    }

    /// Asks. `Err` may mean that the call goes on in another round: pass it on.
    pub async fn ask(&self, question: Question) -> Result<Returned, Stop> {
        match &self.way {
            Way::None => Err(Stop(Why::NotAskable(Fault::new(code::ELICITATION_UNSUPPORTED)))),
            Way::Rounds => Err(Stop(Why::Ask(Box::new(question)))),
            Way::Within(peer) => {
                let sent = peer.create_elicitation_with_timeout(request(&question)?, Some(ANSWER_LIMIT)).await;
                let result = sent.map_err(|_| Fault::new(code::DECLINED).message("the client did not answer the question"))?;
                let answer = read(&question.form, result)
                    .ok_or_else(|| Fault::new(code::DECLINED).message("the answer does not fit the form that was sent"))?;
                Ok(Returned { answer, state: question.state })
            }
        }
    }
}

/// The question as the protocol has it.
pub(crate) fn request(question: &Question) -> Result<ElicitRequestParams, Fault> {
    let form: ElicitationSchema = serde_json::from_value(question.form.clone())
        .map_err(|_| Fault::new(code::INTERNAL).message("a form that the protocol does not allow"))?;
    Ok(ElicitRequestParams::FormElicitationParams { meta: None, message: question.message.clone(), requested_schema: form })
}

/// Reads an answer. `None` when the content does not fit the form.
pub(crate) fn read(form: &Json, result: ElicitResult) -> Option<Answer> {
    match result.action {
        ElicitationAction::Accept => {
            let content = match result.content {
                Some(Json::Object(content)) => content,
                None => Map::new(),
                Some(_) => return None,
            };
            let fits = compile(form).ok()?.is_valid(&Json::Object(content.clone()));
            fits.then_some(Answer::Accepted(content))
        }
        ElicitationAction::Decline => Some(Answer::Declined),
        _ => Some(Answer::Cancelled),
    }
}
