//! The public MCP server over routes that answer as a test says.
#![expect(clippy::unwrap_used, reason = "in helpers of tests an unwrap is an assertion as well")]

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use axum::routing::any;
use serde_json::{Value as Json, json};
use toolcrib_core::text::is_invisible;
use toolcrib_mcp::Server;

use toolcrib_directory::mcp::{PublicTools, router};

use toolcrib_testkit::mcp_clients::{Does, ERAS, Person, call, code, connect, data};

const REGISTRY: &str = "0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1";

/// What routes answer to requests that begin like this, and what they were asked.
#[derive(Clone, Default)]
struct Routes {
    answers: Arc<Mutex<Vec<(String, StatusCode, Json)>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Routes {
    fn answers(&self, target: impl Into<String>, status: u16, body: Json) {
        self.answers.lock().unwrap().insert(0, (target.into(), StatusCode::from_u16(status).unwrap(), body));
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    fn router(&self) -> Router {
        Router::new().fallback(any(answer)).with_state(self.clone())
    }

    fn server(&self) -> Server {
        Server::new(Arc::new(PublicTools::new(self.router()))).unwrap()
    }
}

async fn answer(State(routes): State<Routes>, method: Method, uri: Uri) -> (StatusCode, String) {
    let asked = format!("{method} {uri}");
    routes.asked.lock().unwrap().push(asked.clone());
    let answers = routes.answers.lock().unwrap();
    match answers.iter().find(|(target, ..)| asked.starts_with(target)) {
        Some((_, status, body)) => (*status, body.to_string()),
        None => (StatusCode::NOT_FOUND, json!({"code": "directory.not_found"}).to_string()),
    }
}

fn tool(id: u64, verified: bool) -> Json {
    json!({
        "registry_chain": "8453", "registry_addr": REGISTRY, "tool_id": id.to_string(),
        "verified": verified, "conformant": verified, "verdict": if verified { "verified" } else { "refused" },
        "name": format!("tool-{id}"), "description": "Counts words.", "tags": ["text"], "creator": REGISTRY,
        "checks": [
            {"number": 1, "name": "structure", "status": "passed"}, {"number": 2, "name": "origin", "status": "failed"},
        ],
        "failed": {"check": 2, "step": "origin", "code": "call.denied"},
        "claims": {"name": "what it calls itself"},
    })
}

// req: MCPX-001
#[tokio::test]
async fn search_gives_verified_tools_alone() {
    let routes = Routes::default();
    routes.answers(
        "GET /api/v2/tools/search",
        200,
        json!({"results": [tool(1, true), tool(2, false), tool(3, true)], "total": 3}),
    );
    let server = routes.server();
    for era in ERAS {
        let client = connect(&server, era, Person::new(Does::IsNotAsked)).await;
        let tools = client.list_all_tools().await.unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool.name.to_string()).collect();
        let expected = ["get_tool", "get_wallet_tools", "resolve_agent", "search_agents", "search_tools", "verify_tool"];
        assert_eq!(names, expected, "nothing that calls or pays");
        let arguments = json!({
            "query": "count words", "registry_chain": "base", "tags": ["a", "b"], "access_type": "open", "max_price": "0.05",
            "sort_by": "newest", "limit": 5, "cursor": "78",
        });
        let found = data(call(&client, "search_tools", arguments).await);
        let ids: Vec<_> = found["tools"].as_array().unwrap().iter().map(|tool| tool["tool_id"].clone()).collect();
        assert_eq!(ids, ["1", "3"], "{era:?}");
        let asked = routes.asked();
        let [asked] = asked.as_slice() else { panic!("{asked:?}") };
        for part in [
            "query=count%20words",
            "registry_chain=8453",
            "tags=a&tags=b",
            "access_type=open",
            "max_price=0.05",
            "limit=5",
            "cursor=x",
        ] {
            assert!(asked.contains(part), "{part} in {asked}");
        }
        assert!(!asked.contains("include_unverified"));
        for wrong in [
            json!({"limit": 0}),
            json!({"limit": 51}),
            json!({"include_unverified": true}),
            json!({"access_type": "secret"}),
            json!({"query": 7}),
        ] {
            assert_eq!(code(&call(&client, "search_tools", wrong.clone()).await), "mcp.arguments", "{wrong}");
        }
        assert_eq!(code(&call(&client, "search_tools", json!({"creator": "0x1"})).await), "mcp.reference");
        assert!(routes.asked().is_empty());
    }
}

// req: MCPX-002
#[tokio::test]
async fn one_tool_by_its_key() {
    let routes = Routes::default();
    routes.answers(format!("GET /api/v2/tools/8453/{REGISTRY}/7"), 200, tool(7, false));
    let server = routes.server();
    for era in ERAS {
        let client = connect(&server, era, Person::new(Does::IsNotAsked)).await;
        for arguments in [
            json!({"registry_chain": 8453, "registry_addr": REGISTRY, "tool_id": 7}),
            json!({"reference": format!("eip155:8453/erc8257:{REGISTRY}/7")}),
        ] {
            let found = data(call(&client, "get_tool", arguments).await);
            let tool = &found["tool"];
            assert_eq!((tool["verified"].clone(), tool["failed"]["check"].clone()), (json!(false), json!(2)));
            assert_eq!(tool["checks"][1]["status"], "failed");
            assert!(!found.to_string().contains("what it calls itself"), "claims are for people");
        }
        let unknown = json!({"registry_chain": 8453, "registry_addr": REGISTRY, "tool_id": 8});
        assert_eq!(code(&call(&client, "get_tool", unknown).await), "directory.not_found");
    }
}

// req: MCPX-003
#[tokio::test]
async fn tools_of_a_wallet() {
    let routes = Routes::default();
    let full = "0x00000000000000000000000000000000000000f1";
    let none = "0x00000000000000000000000000000000000000f2";
    routes.answers("GET /api/v2/tools/search", 200, json!({"results": []}));
    let created = format!("GET /api/v2/tools/search?creator={full}");
    routes.answers(created, 200, json!({"results": [tool(1, true), tool(2, true)]}));
    let callable = format!("GET /api/v2/tools/search?callable_by={full}");
    routes.answers(callable, 200, json!({"results": [tool(3, true)], "partial": true}));
    let unavailable = format!("GET /api/v2/tools/search?callable_by={none}");
    let server = routes.server();
    for era in ERAS {
        let client = connect(&server, era, Person::new(Does::IsNotAsked)).await;
        let wallet = data(call(&client, "get_wallet_tools", json!({"wallet": full})).await);
        let counts = |name: &str| wallet[name].as_array().unwrap().len();
        assert_eq!((counts("created"), counts("accessible")), (2, 1));
        assert_eq!((wallet["created_is_partial"].clone(), wallet["accessible_is_partial"].clone()), (json!(false), json!(true)));
        let wallet = data(call(&client, "get_wallet_tools", json!({"wallet": none})).await);
        assert_eq!((wallet["created"].clone(), wallet["accessible"].clone()), (json!([]), json!([])));
        for wrong in ["", "0x12", "f1", "0x00000000000000000000000000000000000000F1"] {
            assert_eq!(code(&call(&client, "get_wallet_tools", json!({"wallet": wrong})).await), "mcp.reference", "{wrong}");
        }
    }
    // A chain that cannot be asked makes the answer partial, not absent.
    routes.answers(unavailable, 503, json!({}));
    let client = connect(&server, ERAS[1], Person::new(Does::IsNotAsked)).await;
    let wallet = data(call(&client, "get_wallet_tools", json!({"wallet": none})).await);
    assert_eq!(
        (wallet["accessible_is_partial"].clone(), wallet["accessible_error"].clone()),
        (json!(true), json!("mcp.directory"))
    );
}

#[tokio::test]
async fn a_verification_on_demand() {
    let routes = Routes::default();
    let mut report = tool(7, false);
    report["status"] = json!("done");
    routes.answers(format!("POST /api/v2/tools/8453/{REGISTRY}/7/verify"), 200, report);
    routes.answers(format!("POST /api/v2/tools/8453/{REGISTRY}/8/verify"), 429, json!({}));
    let client = connect(&routes.server(), ERAS[1], Person::new(Does::IsNotAsked)).await;
    let key = |id: u64| json!({"registry_chain": 8453, "registry_addr": REGISTRY, "tool_id": id});
    let report = data(call(&client, "verify_tool", key(7)).await);
    assert_eq!((report["status"].clone(), report["checks"].as_array().unwrap().len()), (json!("done"), 2));
    assert_eq!(report["failed"]["title"], toolcrib_core::codes::call::DENIED.title(), "in our words");
    assert_eq!(code(&call(&client, "verify_tool", key(8)).await), "mcp.limited");
    assert!(router(routes.router(), vec!["tools.example".to_owned()], Vec::new()).is_ok());
}

/// Every text of every manifest of the corpus, as if it were listed.
// req: RENDER-001
#[tokio::test]
async fn what_others_registered_comes_back_inert() {
    let Some(folder) = toolcrib_testkit::corpus("erc8257/manifests") else { return };
    let routes = Routes::default();
    let client = connect(&routes.server(), ERAS[1], Person::new(Does::IsNotAsked)).await;
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let Ok(text) = std::fs::read(entry.unwrap().path()) else { continue };
        let Ok(mut manifest) = serde_json::from_slice::<Json>(&text) else { continue };
        if !manifest.is_object() {
            continue;
        }
        let hostile = "\u{202e}\u{1b}[2J\u{200b}\u{e0041}</script>";
        if let Some(description) = manifest.get("description").and_then(Json::as_str) {
            manifest["description"] = json!(format!("{description}{hostile}"));
        }
        if manifest["inputs"].is_object() {
            manifest["inputs"]["x-mcp-header"] = json!("Authorization");
            manifest["inputs"]["title"] = json!(hostile);
        }
        for (name, value) in [("verified", json!(true)), ("registry_chain", json!("8453")), ("registry_addr", json!(REGISTRY))] {
            manifest[name] = value;
        }
        manifest["tool_id"] = json!("7");
        routes.answers(format!("GET /api/v2/tools/8453/{REGISTRY}/7"), 200, manifest);
        let result = call(&client, "get_tool", json!({"registry_chain": 8453, "registry_addr": REGISTRY, "tool_id": 7})).await;
        let wire = serde_json::to_string(result.as_ref().unwrap()).unwrap();
        let is_inert = |c: char| !c.is_control() && !is_invisible(c) && c != '\u{200d}';
        assert!(wire.chars().all(is_inert), "{wire}");
        assert!(!wire.contains("x-mcp-header"), "{wire}");
        let tool = data(result);
        for (name, value) in tool["tool"].as_object().unwrap() {
            let is_short = value.as_str().is_none_or(|text| text.len() <= 300 && !text.contains(' '));
            assert!(name.starts_with("untrusted_") || is_short, "{name}: {value}");
        }
        seen += 1;
    }
    assert!(seen > 50, "{seen}");
}
