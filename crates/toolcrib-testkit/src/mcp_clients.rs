//! Test clients of both eras: connected in memory, with a scripted user.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rmcp::ClientHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult,
    ElicitationAction, ErrorData, Implementation, InputRequest, InputRequiredResult, ProtocolVersion,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, NotificationContext, RequestContext, RoleClient, RunningService, ServiceError,
};
use serde_json::{Value as Json, json};
use toolcrib_mcp::Server;

/// The two eras of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// With a session and `initialize`.
    Legacy,
    /// Without sessions, from 2026-07-28 on.
    Modern,
}

/// Both eras.
pub const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// How the user reacts to a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Does {
    /// Accepts with this content of the form.
    Fills(Json),
    /// Declines.
    Declines,
    /// Cancels without an answer.
    Cancels,
    /// The client does not support elicitation.
    IsNotAsked,
}

/// A user with a client.
#[derive(Clone)]
pub struct Person {
    does: Does,
    /// The questions so far.
    pub asked: Arc<Mutex<Vec<String>>>,
    /// Called while the user thinks.
    meanwhile: Option<Arc<dyn Fn() + Send + Sync>>,
    list_changes: Arc<AtomicUsize>,
}

impl fmt::Debug for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Person").field("does", &self.does).field("asked", &self.asked).finish_non_exhaustive()
    }
}

impl Person {
    /// A user who reacts in this way.
    pub fn new(does: Does) -> Self {
        Self { does, asked: Arc::default(), meanwhile: None, list_changes: Arc::default() }
    }

    /// Sets a callback that is called while the user thinks.
    pub fn meanwhile(mut self, done: impl Fn() + Send + Sync + 'static) -> Self {
        self.meanwhile = Some(Arc::new(done));
        self
    }

    /// Number of notifications that the tool list changed.
    pub fn list_changes(&self) -> usize {
        self.list_changes.load(Ordering::SeqCst)
    }

    /// Returns the questions so far.
    pub fn questions(&self) -> Vec<String> {
        self.asked.lock().expect("unpoisoned").clone()
    }
}

impl ClientHandler for Person {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.list_changes.fetch_add(1, Ordering::SeqCst);
    }

    fn get_info(&self) -> ClientConfig {
        let capabilities = match self.does {
            Does::IsNotAsked => ClientCapabilities::default(),
            _ => ClientCapabilities::builder().enable_elicitation().build(),
        };
        ClientConfig::new(capabilities, Implementation::new("tests", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = request else { panic!("a form") };
        self.asked.lock().expect("unpoisoned").push(message);
        if let Some(done) = &self.meanwhile {
            done();
        }
        Ok(match &self.does {
            Does::Fills(content) => ElicitResult::new(ElicitationAction::Accept).with_content(content.clone()),
            Does::Cancels => ElicitResult::new(ElicitationAction::Cancel),
            Does::Declines | Does::IsNotAsked => ElicitResult::new(ElicitationAction::Decline),
        })
    }
}

/// A client with a session.
pub type Connected = RunningService<RoleClient, Person>;

/// Connects a client to a server in memory. Every connection is its own caller.
pub async fn connect(server: &Server, era: Era, person: Person) -> Connected {
    let (near, far) = tokio::io::duplex(1 << 20);
    let (read, write) = tokio::io::split(far);
    let server = server.clone();
    tokio::spawn(async move { toolcrib_mcp::serve(&server, read, write).await });
    let lifecycle = match era {
        Era::Legacy => ClientLifecycleMode::Initialize,
        Era::Modern => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
    };
    person.serve_with_lifecycle(near, lifecycle).await.expect("a session")
}

/// Returns the parameters of a call.
pub fn params(name: &str, arguments: &Json) -> CallToolRequestParams {
    CallToolRequestParams::new(name.to_owned()).with_arguments(arguments.as_object().expect("an object").clone())
}

/// Calls a tool, and answers its questions.
pub async fn call(client: &Connected, name: &str, arguments: Json) -> Result<CallToolResult, ServiceError> {
    client.call_tool(params(name, &arguments)).await
}

/// The structured result of a successful call.
#[track_caller]
pub fn data(result: Result<CallToolResult, ServiceError>) -> Json {
    let result = result.expect("a result");
    assert_ne!(result.is_error, Some(true), "{result:?}");
    let structured = result.structured_content.expect("structured content");
    let text = result.content[0].as_text().expect("text");
    assert_eq!(serde_json::from_str::<Json>(&text.text).expect("JSON"), structured, "the text says the same");
    structured
}

/// The code of a failed call, whether it is a tool result or a protocol error.
#[track_caller]
pub fn code(result: &Result<CallToolResult, ServiceError>) -> String {
    match result {
        Ok(result) => {
            assert_eq!(result.is_error, Some(true), "{result:?}");
            assert!(result.structured_content.is_none(), "it would have to fit the schema");
            let text = &result.content[0].as_text().expect("text").text;
            let error: Json = serde_json::from_str(text).expect("JSON");
            error["error"]["code"].as_str().expect("a code").to_owned()
        }
        Err(ServiceError::McpError(error)) => {
            let data = error.data.clone().unwrap_or_default();
            let code = data["code"].as_str().or_else(|| data["toolcrib"]["code"].as_str());
            code.unwrap_or_else(|| panic!("{error:?}")).to_owned()
        }
        Err(other) => panic!("{other:?}"),
    }
}

/// Makes the first round of a call of the newer era.
pub async fn first_round(client: &Connected, name: &str, arguments: &Json) -> InputRequiredResult {
    match client.call_tool_once(params(name, arguments)).await.expect("an answer") {
        CallToolResponse::InputRequired(round) => round,
        other => panic!("{other:?}"),
    }
}

/// The next round, with the answer to the question. Tests choose its contents.
pub async fn next_round(
    client: &Connected,
    name: &str,
    arguments: &Json,
    round: &InputRequiredResult,
    answer: Json,
) -> Result<CallToolResult, ServiceError> {
    let requests = round.input_requests.as_ref().expect("a question");
    let (key, request) = requests.iter().next().expect("one");
    assert!(matches!(request, InputRequest::Elicitation(_)));
    let responses = [(key.clone(), answer)].into();
    let state = round.request_state.clone().expect("a state");
    let params = params(name, arguments).with_input_responses(responses).with_request_state(state);
    match client.call_tool_once(params).await? {
        CallToolResponse::Complete(result) => Ok(result),
        other => panic!("{other:?}"),
    }
}

/// The client's response when the user accepts.
pub fn accepted(content: Json) -> Json {
    json!({"action": "accept", "content": content})
}
