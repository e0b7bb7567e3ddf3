//! A test server with the tools that the protocol's conformance suites expect, as far as they concern our servers: text, errors, schemas
//! and elicitation. For tests only.
//!
//! ```text
//! conformance                 on standard input and output
//! conformance http            on a free port of this computer, which it prints
//! conformance http <token>    the same, with a bearer token
//! ```
//!
//! With HTTP it stops when its standard input is closed.

use std::io::Write;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value as Json, json};
use tokio::io::AsyncReadExt;
use toolcrib_core::codes::mcp as code;
use toolcrib_mcp::{
    About, Asker, Bearer, Effect, HttpOptions, Prompt, PromptResponse, Reply, Returned, Stop, ToolError, ToolSpec, Toolbox,
    http_router, serve_stdio,
};

struct Fixtures;

fn spec(name: &str, input: Json) -> ToolSpec {
    let input = if input.is_null() { json!({"type": "object", "properties": {}}) } else { input };
    ToolSpec {
        name: name.to_owned(),
        title: name.to_owned(),
        description: "A fixture of the test suites.".to_owned(),
        input,
        output: None,
        effect: Effect::Reads,
    }
}

#[async_trait]
impl Toolbox for Fixtures {
    fn about(&self) -> About {
        About {
            name: "toolcrib-conformance",
            title: "Fixtures",
            version: env!("CARGO_PKG_VERSION"),
            instructions: "For tests.".into(),
        }
    }

    fn tools(&self) -> Vec<ToolSpec> {
        let plain = [
            "test_simple_text",
            "test_error_handling",
            "test_elicitation_sep1034_defaults",
            "test_elicitation_sep1330_enums",
            "test_input_required_result_elicitation",
            "test_input_required_result_request_state",
            "test_input_required_result_multi_round",
            "test_input_required_result_tampered_state",
            "test_logging_tool",
            "test_missing_capability",
            "test_streaming_elicitation",
        ];
        let mut tools: Vec<ToolSpec> = plain.iter().map(|name| spec(name, Json::Null)).collect();
        let message = json!({"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]});
        tools.push(spec("test_elicitation", message));
        tools.push(ToolSpec {
            output: Some(json!({"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]})),
            ..spec(
                "add",
                json!({
                    "type": "object",
                    "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                    "required": ["a", "b"],
                    "additionalProperties": false,
                }),
            )
        });
        tools.push(spec(
            "test_custom_headers",
            json!({"type": "object", "properties": {
                "region": {"type": "string", "x-mcp-header": "Region"},
                "query": {"type": "string"},
            }}),
        ));
        tools.push(spec("json_schema_2020_12_tool", schema_2020_12()));
        tools
    }

    async fn call(&self, name: &str, arguments: Map<String, Json>, asker: &Asker) -> Result<Reply, Stop> {
        match name {
            "test_simple_text" => Ok(Reply::text("This is a simple text response for testing.")),
            "test_error_handling" => {
                Err(ToolError::new(code::INTERNAL).message("This tool intentionally returns an error for testing").into())
            }
            "add" => {
                let number = |name: &str| arguments.get(name).and_then(Json::as_f64).unwrap_or_default();
                Ok(Reply::data(json!({"sum": number("a") + number("b")})))
            }
            "test_elicitation" => {
                let message = arguments.get("message").and_then(Json::as_str).unwrap_or_default();
                let form = json!({
                    "type": "object",
                    "properties": {
                        "username": {"type": "string", "description": "User's response"},
                        "email": {"type": "string", "description": "User's email address"},
                    },
                    "required": ["username", "email"],
                });
                ask(asker, "user", message, form).await.map(|returned| said("User response", &returned))
            }
            "test_elicitation_sep1034_defaults" => {
                let form = json!({"type": "object", "properties": {
                    "name": {"type": "string", "default": "John Doe"},
                    "age": {"type": "integer", "default": 30},
                    "score": {"type": "number", "default": 95.5},
                    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
                    "verified": {"type": "boolean", "default": true},
                }});
                ask(asker, "defaults", "Defaults", form).await.map(|returned| said("Elicitation completed", &returned))
            }
            "test_elicitation_sep1330_enums" => {
                ask(asker, "enums", "Choices", choices()).await.map(|returned| said("Elicitation completed", &returned))
            }
            "test_input_required_result_elicitation" => {
                let returned = ask(asker, "user_name", "What is your name?", text("name")).await?;
                Ok(Reply::text(format!("Hello, {}!", field(&returned, "name"))))
            }
            "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
                let form = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]});
                ask(asker, "confirm", "Please confirm", form).await.map(|_| Reply::text("state-ok"))
            }
            "test_input_required_result_multi_round" => {
                let step = asker.returned().map(|returned| returned.state.clone());
                match (step.as_deref(), asker.returned()) {
                    (Some(b"step2"), Some(returned)) => Ok(Reply::text(format!("done: {}", field(returned, "color")))),
                    (Some(b"step1"), Some(_)) => {
                        Err(question(asker, "step2", "Step 2: What is your favorite color?", text("color")).await)
                    }
                    _ => Err(question(asker, "step1", "Step 1: What is your name?", text("name")).await),
                }
            }
            "test_logging_tool" => Ok(Reply::text("Nothing is sent to a log of the client.")),
            "test_missing_capability" | "test_streaming_elicitation" => {
                ask(asker, "any", "Anything", text("any")).await.map(|_| Reply::text("asked"))
            }
            _ => Ok(Reply::text(Json::Object(arguments).to_string())),
        }
    }
}

async fn question(asker: &Asker, name: &'static str, message: &str, form: Json) -> Stop {
    let asked = asker.ask(Prompt { name, message: message.to_owned(), form, state: name.as_bytes().to_vec() }).await;
    asked.err().unwrap_or_else(|| ToolError::new(code::INTERNAL).into())
}

async fn ask(asker: &Asker, name: &'static str, message: &str, form: Json) -> Result<Returned, Stop> {
    match asker.returned() {
        Some(returned) => Ok(returned.clone()),
        None => asker.ask(Prompt { name, message: message.to_owned(), form, state: name.as_bytes().to_vec() }).await,
    }
}

fn text(name: &str) -> Json {
    json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]})
}

fn field(returned: &Returned, name: &str) -> String {
    match &returned.answer {
        PromptResponse::Accepted(content) => content.get(name).and_then(Json::as_str).unwrap_or_default().to_owned(),
        _ => String::new(),
    }
}

fn said(what: &str, returned: &Returned) -> Reply {
    let (action, content) = match &returned.answer {
        PromptResponse::Accepted(content) => ("accept", Json::Object(content.clone())),
        PromptResponse::Declined => ("decline", json!({})),
        PromptResponse::Cancelled => ("cancel", json!({})),
    };
    Reply::text(format!("{what}: action={action}, content={content}"))
}

fn choices() -> Json {
    let titled = json!([
        {"const": "value1", "title": "First Option"},
        {"const": "value2", "title": "Second Option"},
        {"const": "value3", "title": "Third Option"},
    ]);
    json!({"type": "object", "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }})
}

/// The schema that the suite expects, word for word.
fn schema_2020_12() -> Json {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            },
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().map(String::as_str) != Some("http") {
        return Ok(serve_stdio(Arc::new(Fixtures)).await?);
    }
    let bearer = arguments.get(1).map(|token| Bearer::new(token)).transpose()?;
    let origins = ["http://localhost:*", "http://127.0.0.1:*"].map(str::to_owned).to_vec();
    let options = HttpOptions { bearer, sessions: true, origins, hosts: Vec::new() };
    let router = axum::Router::new().nest_service("/mcp", http_router(Arc::new(Fixtures), options)?);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    writeln!(std::io::stdout(), "{}", json!({"port": listener.local_addr()?.port()}))?;
    let ended = async {
        let mut byte = [0];
        while tokio::io::stdin().read(&mut byte).await.is_ok_and(|count| count > 0) {}
    };
    tokio::select! {
        served = axum::serve(listener, router) => Ok(served?),
        () = ended => Ok(()),
    }
}
