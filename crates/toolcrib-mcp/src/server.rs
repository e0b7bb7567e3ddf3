//! The protocol's server for a toolbox: what every client sees, in both eras, over any transport.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CacheScope, CallToolRequestMethod, CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities,
    CompleteRequestMethod, CompleteRequestParams, CompleteResult, ContentBlock, DiscoverResult, ElicitRequest, ElicitResult,
    ErrorCode, ErrorData, Implementation, InputRequest, InputRequests, InputRequiredResult, ListPromptsRequestMethod,
    ListPromptsResult, ListResourceTemplatesRequestMethod, ListResourceTemplatesResult, ListResourcesRequestMethod,
    ListResourcesResult, ListToolsResult, MetaObject, PaginatedRequestParams, ProtocolVersion, RequestStateCodec, SealOptions,
    ServerCapabilities, ServerConfig, SubscriptionFilter, Tool,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ServerHandler, model::ConstString};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use toolcrib_core::codes::mcp as code;
use toolcrib_core::schema::{Echo, Validator};
use toolcrib_core::text::escape_for_display;
use zeroize::Zeroizing;

use crate::asker::{self, Asker, Caller, Progress, Prompt, PromptTransport, Returned};
use crate::json::value_hash;
use crate::list::List;
use crate::toolbox::{Reply, Stop, StopReason, ToolError, Toolbox};

/// Maximum number of concurrent calls. Each holds a few requests and responses in memory; a user has one client or a few.
pub const MAX_CALLS: usize = 64;

/// Time limit of a call: a user's answer, two verifications, a handler and a settlement, and a margin.
pub const CALL_LIMIT: Duration = Duration::from_secs(660);

/// Validity of a sealed state: as long as a user may take to answer.
const STATE_LIMIT: Duration = asker::ANSWER_LIMIT;

/// How long clients may cache a list that never changes while the server runs: the next version's list may differ.
const LIST_TTL_MS: u64 = 300_000;

/// How long clients may cache a list that can change. They are notified as well, but not all of them subscribe.
const DYNAMIC_LIST_TTL_MS: u64 = 1_000;

/// Maximum length of a client's text that is repeated to it.
const MAX_ECHO_CHARS: usize = 500;

/// The key of a fault in the metadata of a result.
pub const META_ERROR: &str = "toolcrib/error";

/// Why a toolbox cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// An invalid or duplicate name.
    #[error("`{name}` is no name for a tool, or is there twice")]
    Name {
        /// The name.
        name: String,
    },
    /// An invalid schema.
    #[error("the schema of `{name}` cannot be used: {reason}")]
    Schema {
        /// The tool.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The operating system's random number generator failed.
    #[error("no randomness")]
    Random,
    /// An invalid HTTP setting.
    #[error("{what}")]
    Http {
        /// What is wrong with it.
        what: &'static str,
    },
}

/// A toolbox that is ready to be served. Cheap to clone; every connection has a clone.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    toolbox: Arc<dyn Toolbox>,
    info: ServerConfig,
    list: List,
    seal: RequestStateCodec,
    places: Semaphore,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("name", &self.inner.info.server_info.name).finish_non_exhaustive()
    }
}

impl Server {
    /// Checks names and schemas, and generates the key that seals states: it lives as long as this process.
    pub fn new(toolbox: Arc<dyn Toolbox>) -> Result<Self, SetupError> {
        let about = toolbox.about();
        let list = List::new(Arc::clone(&toolbox))?;
        let mut key = Zeroizing::new([0_u8; 32]);
        getrandom::fill(&mut *key).map_err(|_| SetupError::Random)?;
        let seal = RequestStateCodec::try_new(key.to_vec()).map_err(|_| SetupError::Random)?;
        let implementation = Implementation::new(about.name, about.version).with_title(about.title);
        let tools = ServerCapabilities::builder().enable_tools();
        let capabilities = if list.is_dynamic() { tools.enable_tool_list_changed().build() } else { tools.build() };
        let info = ServerConfig::new(capabilities).with_server_info(implementation).with_instructions(about.instructions);
        let places = Semaphore::new(MAX_CALLS);
        Ok(Self { inner: Arc::new(Inner { toolbox, info, list, seal, places }) })
    }

    /// A handler for one connection, or for one request over HTTP.
    pub(crate) fn connection(&self, caller: Option<Caller>) -> Connection {
        Connection { server: self.clone(), caller }
    }
}

/// The handler that rmcp calls.
#[derive(Clone)]
pub(crate) struct Connection {
    server: Server,
    /// The caller of the connection. `None` over HTTP, where each request has its own.
    caller: Option<Caller>,
}

/// The sealed data.
#[derive(Serialize, Deserialize)]
struct Sealed {
    name: String,
    form: Json,
    state: Vec<u8>,
}

impl Connection {
    fn inner(&self) -> &Inner {
        &self.server.inner
    }

    /// The caller of this request.
    fn caller(&self, context: &RequestContext<RoleServer>) -> Caller {
        if let Some(caller) = self.caller {
            return caller;
        }
        let Some(parts) = context.extensions.get::<axum::http::request::Parts>() else { return Caller::of("nobody", &[]) };
        let known = parts.extensions.get::<Caller>().copied().unwrap_or_else(|| Caller::of("public", &[]));
        match parts.headers.get("mcp-session-id") {
            Some(session) => Caller::of("session", &[known.as_bytes().as_slice(), session.as_bytes()].concat()),
            None => known,
        }
    }

    /// Opens the state that an earlier round sealed, for the same caller, tool and arguments.
    fn returned(&self, request: &CallToolRequestParams, binding: &[u8]) -> Result<Option<Returned>, ToolError> {
        let Some(state) = &request.request_state else { return Ok(None) };
        let bytes = self.inner().seal.open_with(state, binding).map_err(|_| ToolError::new(code::STATE))?;
        let sealed: Sealed = serde_json::from_slice(&bytes).map_err(|_| ToolError::new(code::STATE))?;
        let response = request.input_responses.as_ref().and_then(|responses| responses.get(&sealed.name));
        let result = response.and_then(|response| serde_json::from_value::<ElicitResult>(response.clone()).ok());
        // Without a valid answer the question is asked again.
        let answer = result.and_then(|result| asker::read(&sealed.form, result));
        Ok(answer.map(|answer| Returned { answer, state: sealed.state }))
    }

    /// The arguments of a call if they fit the schema of the tool, or else in the form that the toolbox restores, if that fits.
    fn fitting(&self, name: &str, validator: &Validator, arguments: Json) -> Result<Json, ToolError> {
        let violations = validator.violations(&arguments, Echo::Values);
        if violations.is_empty() {
            return Ok(arguments);
        }
        if let Some(restored) = self.inner().toolbox.restored(name, &arguments).filter(|restored| validator.is_valid(restored)) {
            return Ok(restored);
        }
        let violations: Vec<String> = violations.iter().map(|violation| echo(&violation.to_string())).collect();
        Err(ToolError::new(code::ARGUMENTS)
            .message(format!("{}: {}", code::ARGUMENTS.title(), violations.first().cloned().unwrap_or_default()))
            .details(json!({ "violations": violations })))
    }

    /// Ends a round with the question, and the sealed state to continue with the answer.
    fn round(&self, question: Prompt, binding: &[u8]) -> Result<CallToolResponse, ErrorData> {
        let internal = || ErrorData::internal_error("a question could not be made", None);
        let params = asker::request(&question).map_err(|_| internal())?;
        let name = question.name.to_owned();
        let sealed = Sealed { name: name.clone(), form: question.form, state: question.state };
        let sealed = serde_json::to_vec(&sealed).map_err(|_| internal())?;
        let state = self.inner().seal.seal_with(&sealed, &SealOptions::new().associated_data(binding).ttl(STATE_LIMIT));
        let requests = InputRequests::from([(name, InputRequest::Elicitation(ElicitRequest::new(params)))]);
        Ok(InputRequiredResult::new(Some(requests), Some(state)).into())
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.to_string();
        let list = self.inner().list.current();
        let Some(validator) = list.validators.get(&name) else {
            if let Some(fault) = self.inner().toolbox.withheld(&name) {
                return Ok(failed(&fault));
            }
            let fault = ToolError::new(code::UNKNOWN_TOOL).message(format!("there is no tool `{}`", echo(&name)));
            return Err(ErrorData::invalid_params(fault.to_string(), Some(fault.to_json())));
        };
        let arguments = Json::Object(request.arguments.clone().unwrap_or_default());
        let arguments = match self.fitting(&name, validator, arguments) {
            Ok(arguments) => arguments,
            Err(fault) => return Ok(failed(&fault)),
        };
        let caller = self.caller(&context);
        let is_modern = is_modern(&context);
        let binding = binding(&caller, &name, &arguments);
        let returned = if is_modern { self.returned(&request, &binding) } else { Ok(None) };
        let returned = returned.map_err(|fault| ErrorData::invalid_params(fault.to_string(), Some(fault.to_json())))?;
        let way = match context.client_capabilities().is_some_and(|client| asks(&client)) {
            false => PromptTransport::None,
            true if is_modern => PromptTransport::Rounds,
            true => PromptTransport::Within(context.peer.clone()),
        };
        let Ok(_place) = self.inner().places.try_acquire() else { return Ok(failed(&ToolError::new(code::BUSY))) };
        let parts = context.extensions.get::<axum::http::request::Parts>();
        let noted = parts.map(|parts| parts.extensions.clone());
        let progress = context.meta.get_progress_token().map(|token| Progress::new(context.peer.clone(), token));
        let asker = Asker { way, caller, noted, returned, progress };
        let Json::Object(arguments) = arguments else { return Ok(failed(&ToolError::new(code::ARGUMENTS))) };
        let calling = self.inner().toolbox.call(&name, arguments, &asker);
        let done = tokio::select! {
            () = context.ct.cancelled() => Err(ToolError::new(code::TIMEOUT).message("the client cancelled the call").into()),
            done = tokio::time::timeout(CALL_LIMIT, calling) => done.unwrap_or_else(|_| Err(ToolError::new(code::TIMEOUT).into())),
        };
        match done {
            Ok(reply) => Ok(answered(reply)),
            Err(Stop(StopReason::Fault(fault))) => {
                tracing::debug!(tool = name, code = fault.code.id(), "a call failed");
                Ok(failed(&fault))
            }
            Err(Stop(StopReason::Ask(question))) => self.round(*question, &binding),
            // The newer era has its own error for it.
            Err(Stop(StopReason::NotAskable(fault))) if is_modern => {
                let required = ClientCapabilities::builder().enable_elicitation().build();
                let mut error = ErrorData::missing_required_client_capability(required);
                error.message = Cow::Owned(fault.to_string());
                if let Some(Json::Object(data)) = &mut error.data {
                    data.insert("toolcrib".to_owned(), fault.to_json());
                }
                Err(error)
            }
            Err(Stop(StopReason::NotAskable(fault))) => Ok(failed(&fault)),
        }
    }
}

/// Whether a request is of the newer era. Versions are dates, which sort as strings.
fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// Whether a client supports forms. Older clients declare elicitation without its kind.
fn asks(client: &ClientCapabilities) -> bool {
    client.elicitation.as_ref().is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none())
}

/// The data that a sealed state is bound to.
fn binding(caller: &Caller, name: &str, arguments: &Json) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update(b"toolcrib/mcp/state/1");
    hash.update(caller.as_bytes());
    hash.update((name.len() as u64).to_be_bytes());
    hash.update(name.as_bytes());
    hash.update(value_hash(arguments));
    hash.finalize().to_vec()
}

fn echo(text: &str) -> String {
    match text.char_indices().nth(MAX_ECHO_CHARS) {
        Some((end, _)) => format!("{}…", escape_for_display(&text[..end])),
        None => escape_for_display(text),
    }
}

fn answered(reply: Reply) -> CallToolResponse {
    let mut result = CallToolResult::success(vec![ContentBlock::text(reply.text)]);
    result.structured_content = reply.structured;
    result.into()
}

/// A failed result. It has no structured content, because that would have to fit the tool's output schema.
fn failed(fault: &ToolError) -> CallToolResponse {
    let error = fault.to_json();
    let mut result = CallToolResult::error(vec![ContentBlock::text(json!({ "error": error }).to_string())]);
    let mut meta = Map::new();
    meta.insert(META_ERROR.to_owned(), error);
    result.meta = Some(MetaObject(meta));
    result.into()
}

fn absent<M: ConstString, T>() -> Result<T, ErrorData> {
    Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, M::VALUE, None))
}

impl ServerHandler for Connection {
    fn get_info(&self) -> ServerConfig {
        self.inner().info.clone()
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.inner().list.current().tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn discover(&self, _: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let discovered = DiscoverResult::from_server_info(self.supported_protocol_versions().into_owned(), self.get_info());
        Ok(discovered.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let list = &self.inner().list;
        let result = ListToolsResult::with_all_items(list.current().tools.clone());
        Ok(match is_modern(&context) {
            false => result,
            true if list.is_dynamic() => result.with_ttl_ms(DYNAMIC_LIST_TTL_MS).with_cache_scope(CacheScope::Private),
            true => result.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Public),
        })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let list = &self.inner().list;
        if !list.is_dynamic() && list.current().tools.is_empty() {
            return absent::<CallToolRequestMethod, _>();
        }
        self.call(request, context).await
    }

    /// Clients of the older era are notified of changes from here on, without subscribing.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let Some(mut changes) = self.inner().list.changes() else { return };
        let peer = context.peer;
        tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                // It fails if the client has disconnected.
                if peer.notify_tool_list_changed().await.is_err() {
                    return;
                }
            }
        });
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.inner().list.is_dynamic().then(|| {
            let mut accepted = SubscriptionFilter::new();
            accepted.tools_list_changed = requested.tools_list_changed;
            accepted
        })
    }

    /// Clients of the newer era subscribe to changes.
    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let Some(mut changes) = self.inner().list.changes() else {
            context.cancelled().await;
            return Ok(());
        };
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                changed = changes.changed() => {
                    if changed.is_err() || context.sink().notify_tool_list_changed().await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }

    // An undeclared capability is an unknown method, not an empty list.

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        absent::<ListPromptsRequestMethod, _>()
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        absent::<ListResourcesRequestMethod, _>()
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        absent::<ListResourceTemplatesRequestMethod, _>()
    }

    async fn complete(&self, _: CompleteRequestParams, _: RequestContext<RoleServer>) -> Result<CompleteResult, ErrorData> {
        absent::<CompleteRequestMethod, _>()
    }
}
