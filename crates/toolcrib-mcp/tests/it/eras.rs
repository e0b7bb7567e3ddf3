//! The same server with clients of both eras.

use std::sync::Arc;

use rmcp::model::{ErrorCode, GetPromptRequestParams, ReadResourceRequestParams, ServerNotification, SubscriptionFilter};
use rmcp::service::ServiceError;
use serde_json::json;
use toolcrib_mcp::{MAX_CALLS, Server, SetupError, ToolSpec, Toolbox};

use crate::{Three, spec};
use toolcrib_testkit::mcp_clients::{
    Does, ERAS, Era, Person, accepted, call, code, connect, data, first_round, next_round, params,
};

fn server() -> Server {
    Server::new(Arc::new(Three)).unwrap()
}

#[track_caller]
fn error_code<T: std::fmt::Debug>(result: Result<T, ServiceError>) -> ErrorCode {
    match result.unwrap_err() {
        ServiceError::McpError(error) => error.code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_server_has_its_own_name_and_one_list() {
    let server = server();
    let mut lists = Vec::new();
    for era in ERAS {
        for _ in 0..2 {
            let client = connect(&server, era, Person::new(Does::Declines)).await;
            let info = client.peer_info().expect("who it is");
            let named = info.server_info.as_ref().expect("a name");
            assert_eq!((named.name.as_str(), named.version.as_str()), ("toolcrib-tests", "1.2.3"), "{era:?}");
            assert!(info.capabilities.tools.is_some() && info.capabilities.prompts.is_none());
            let page = client.list_tools(None).await.unwrap();
            assert_eq!(page.ttl_ms.is_some(), era == Era::Modern, "hints for caches");
            lists.push(serde_json::to_string(&page.tools).unwrap());
        }
    }
    lists.dedup();
    assert_eq!(lists.len(), 1, "the same to the byte for everybody");
    let names: Vec<_> = ["add", "greet", "slow"].iter().map(|name| lists[0].find(&format!("\"name\":\"{name}\""))).collect();
    assert!(names.is_sorted() && names[0].is_some(), "in order");
}

#[tokio::test]
async fn what_is_not_declared_is_not_there() {
    let server = server();
    for era in ERAS {
        let client = connect(&server, era, Person::new(Does::Declines)).await;
        assert_eq!(error_code(client.list_prompts(None).await), ErrorCode::METHOD_NOT_FOUND, "{era:?}");
        assert_eq!(error_code(client.list_resources(None).await), ErrorCode::METHOD_NOT_FOUND);
        assert_eq!(error_code(client.list_resource_templates(None).await), ErrorCode::METHOD_NOT_FOUND);
        assert_eq!(error_code(client.get_prompt(GetPromptRequestParams::new("x")).await), ErrorCode::METHOD_NOT_FOUND);
        let read = client.read_resource(ReadResourceRequestParams::new("file:///etc/passwd")).await;
        assert_eq!(error_code(read), ErrorCode::METHOD_NOT_FOUND);
    }
}

#[tokio::test]
async fn arguments_are_held_against_the_schema() {
    let server = server();
    for era in ERAS {
        let client = connect(&server, era, Person::new(Does::Declines)).await;
        assert_eq!(data(call(&client, "add", json!({"a": 2, "b": 3})).await), json!({"sum": 5}), "{era:?}");
        for wrong in [json!({}), json!({"a": 1}), json!({"a": "1", "b": 2}), json!({"a": 1, "b": 2, "c": "\u{202e}\u{1b}[2J"})] {
            let result = call(&client, "add", wrong).await;
            assert_eq!(code(&result), "mcp.arguments");
            let text = &result.unwrap().content[0].as_text().unwrap().text.clone();
            assert!(!text.contains('\u{202e}') && !text.contains('\u{1b}'), "{text}");
        }
        let unknown = call(&client, "subtract\u{202e}", json!({})).await;
        assert_eq!(code(&unknown), "mcp.unknown_tool");
        assert_eq!(error_code(unknown), ErrorCode::INVALID_PARAMS);
    }
}

#[tokio::test]
async fn the_user_is_asked() {
    let server = server();
    let arguments = json!({"greeting": "hello"});
    for era in ERAS {
        let person = Person::new(Does::Fills(json!({"name": "Ada"})));
        let client = connect(&server, era, person.clone()).await;
        assert_eq!(data(call(&client, "greet", arguments.clone()).await), json!({"text": "\"hello\" \"Ada\""}), "{era:?}");
        assert_eq!(person.questions(), ["Who is there?"]);
        for does in [Does::Declines, Does::Cancels] {
            let client = connect(&server, era, Person::new(does)).await;
            assert_eq!(code(&call(&client, "greet", arguments.clone()).await), "mcp.declined", "{era:?}");
        }
        let client = connect(&server, era, Person::new(Does::IsNotAsked)).await;
        let refused = call(&client, "greet", arguments.clone()).await;
        assert_eq!(code(&refused), "mcp.elicitation_unsupported", "{era:?}");
        if era == Era::Modern {
            assert_eq!(error_code(refused), ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY);
        }
    }
}

#[tokio::test]
async fn a_state_is_for_one_caller_tool_and_arguments() {
    let server = server();
    let arguments = json!({"greeting": "hello"});
    let client = connect(&server, Era::Modern, Person::new(Does::Declines)).await;
    let round = first_round(&client, "greet", &arguments).await;
    let yes = || accepted(json!({"name": "Ada"}));
    data(next_round(&client, "greet", &arguments, &round, yes()).await);

    let other = json!({"greeting": "goodbye"});
    assert_eq!(code(&next_round(&client, "greet", &other, &round, yes()).await), "mcp.state");
    assert_eq!(code(&next_round(&client, "slow", &arguments, &round, yes()).await), "mcp.state");
    let stranger = connect(&server, Era::Modern, Person::new(Does::Declines)).await;
    assert_eq!(code(&next_round(&stranger, "greet", &arguments, &round, yes()).await), "mcp.state");
    let mut forged = round.clone();
    forged.request_state = forged.request_state.map(|state| format!("{state}A"));
    assert_eq!(code(&next_round(&client, "greet", &arguments, &forged, yes()).await), "mcp.state");
    let elsewhere = connect(&self::server(), Era::Modern, Person::new(Does::Declines)).await;
    assert_eq!(code(&next_round(&elsewhere, "greet", &arguments, &round, yes()).await), "mcp.state", "another process's key");

    // The question is asked again if an answer does not fit the form.
    let state = round.request_state.clone().unwrap();
    let responses = [("who".to_owned(), accepted(json!({"name": 7})))].into();
    let again = params("greet", &arguments).with_input_responses(responses).with_request_state(state);
    let again = client.call_tool_once(again).await.unwrap();
    assert!(matches!(again, rmcp::model::CallToolResponse::InputRequired(_)), "{again:?}");
}

#[tokio::test]
async fn calls_at_once_are_bounded() {
    let server = server();
    let client = Arc::new(connect(&server, Era::Modern, Person::new(Does::Declines)).await);
    let calls: Vec<_> = (0..MAX_CALLS + 5)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { call(&client, "slow", json!({})).await })
        })
        .collect();
    let (mut done, mut busy) = (0, 0);
    for call in calls {
        let result = call.await.unwrap();
        match result.as_ref().unwrap().is_error {
            Some(true) => {
                assert_eq!(code(&result), "mcp.busy");
                busy += 1;
            }
            _ => done += 1,
        }
    }
    assert_eq!((done, busy), (MAX_CALLS, 5));
}

struct Named(Vec<ToolSpec>);

#[async_trait::async_trait]
impl Toolbox for Named {
    fn about(&self) -> toolcrib_mcp::About {
        Three.about()
    }

    fn tools(&self) -> Vec<ToolSpec> {
        self.0.clone()
    }

    async fn call(
        &self,
        _: &str,
        _: serde_json::Map<String, serde_json::Value>,
        _: &toolcrib_mcp::Asker,
    ) -> Result<toolcrib_mcp::Reply, toolcrib_mcp::Stop> {
        Ok(toolcrib_mcp::Reply::text(""))
    }
}

#[test]
fn names_and_schemas_are_checked_before_anybody_sees_them() {
    let object = || json!({"type": "object"});
    let start = |tools: Vec<ToolSpec>| Server::new(Arc::new(Named(tools)));
    assert!(start(vec![spec("a.b-c_D9", object())]).is_ok());
    for name in ["", "a b", "ü", "a/b", &"x".repeat(129)] {
        assert!(matches!(start(vec![spec(name, object())]), Err(SetupError::Name { .. })), "{name}");
    }
    assert!(matches!(start(vec![spec("a", object()), spec("a", object())]), Err(SetupError::Name { .. })));
    for schema in
        [json!("object"), json!({"type": "array"}), json!({"$ref": "https://example.com/schema"}), json!({"pattern": "(a+)+\\1"})]
    {
        assert!(matches!(start(vec![spec("a", schema.clone())]), Err(SetupError::Schema { .. })), "{schema}");
    }
}

/// A list that grows by one tool with each change.
struct Growing(tokio::sync::watch::Sender<u64>);

#[async_trait::async_trait]
impl Toolbox for Growing {
    fn about(&self) -> toolcrib_mcp::About {
        Three.about()
    }

    fn tools(&self) -> Vec<ToolSpec> {
        (0..=*self.0.borrow()).map(|number| spec(&format!("tool{number}"), json!({"type": "object"}))).collect()
    }

    fn changes(&self) -> Option<tokio::sync::watch::Receiver<u64>> {
        Some(self.0.subscribe())
    }

    async fn call(
        &self,
        _: &str,
        _: serde_json::Map<String, serde_json::Value>,
        _: &toolcrib_mcp::Asker,
    ) -> Result<toolcrib_mcp::Reply, toolcrib_mcp::Stop> {
        Ok(toolcrib_mcp::Reply::text(""))
    }
}

/// In the newer era, subscribed clients are notified; in the older one, every client is.
#[tokio::test]
async fn clients_are_told_that_the_list_changed() {
    let toolbox = Arc::new(Growing(tokio::sync::watch::Sender::new(0)));
    let server = Server::new(Arc::clone(&toolbox) as Arc<dyn Toolbox>).unwrap();
    let change = || toolbox.0.send_modify(|number| *number += 1);
    let wanted = || {
        let mut filter = SubscriptionFilter::new();
        filter.tools_list_changed = Some(true);
        filter
    };

    let person = Person::new(Does::Declines);
    let modern = connect(&server, Era::Modern, person.clone()).await;
    let declared = modern.peer_info().expect("who it is").capabilities.tools.clone().expect("tools");
    assert_eq!(declared.list_changed, Some(true));
    let mut subscription = modern.listen(wanted()).await.unwrap();
    assert_eq!(subscription.acknowledged().tools_list_changed, Some(true));
    for count in 2..4 {
        change();
        let told = subscription.next().await.unwrap();
        assert!(matches!(told, Some(ServerNotification::ToolListChangedNotification(_))), "{told:?}");
        assert_eq!(modern.list_all_tools().await.unwrap().len(), count);
    }
    assert_eq!(person.list_changes(), 0, "the subscription gets them");
    // No other notifications are promised.
    let mut all = wanted();
    all.prompts_list_changed = Some(true);
    let other = modern.listen(all).await.unwrap();
    assert_eq!((other.acknowledged().tools_list_changed, other.acknowledged().prompts_list_changed), (Some(true), None));

    let legacy = connect(&server, Era::Legacy, person.clone()).await;
    let listed = legacy.list_all_tools().await.unwrap().len();
    change();
    for _ in 0..400 {
        if person.list_changes() > 0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
    assert_eq!((person.list_changes(), legacy.list_all_tools().await.unwrap().len()), (1, listed + 1));

    // A list that never changes has no notifications to subscribe to.
    let fixed = connect(&self::server(), Era::Modern, Person::new(Does::Declines)).await;
    let declared = fixed.peer_info().expect("who it is").capabilities.tools.clone().expect("tools");
    assert_ne!(declared.list_changed, Some(true));
    let refused = fixed.listen(wanted()).await;
    assert!(refused.is_err() || refused.is_ok_and(|subscription| subscription.acknowledged().tools_list_changed.is_none()));
}
