//! Servers and clients in one process, in both eras.
#![expect(clippy::unwrap_used, reason = "in helpers of tests an unwrap is an assertion as well")]

mod eras;
mod http;

use async_trait::async_trait;
use serde_json::{Map, Value as Json, json};
use toolcrib_core::codes::mcp as code;
use toolcrib_mcp::{About, Asker, Effect, Prompt, PromptResponse, Reply, Stop, ToolError, ToolSpec, Toolbox};

/// Three tools: one that adds, one that asks, one that takes its time.
struct Three;

fn spec(name: &str, input: Json) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        title: name.to_owned(),
        description: "For tests.".to_owned(),
        input,
        output: None,
        effect: Effect::Reads,
    }
}

#[async_trait]
impl Toolbox for Three {
    fn about(&self) -> About {
        About { name: "toolcrib-tests", title: "Tests", version: "1.2.3", instructions: "None.".into() }
    }

    fn tools(&self) -> Vec<ToolSpec> {
        let numbers = json!({
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
            "additionalProperties": false,
        });
        vec![
            spec("slow", json!({"type": "object"})),
            spec("greet", json!({"type": "object", "properties": {"greeting": {"type": "string"}}})),
            spec("add", numbers),
        ]
    }

    async fn call(&self, name: &str, arguments: Map<String, Json>, asker: &Asker) -> Result<Reply, Stop> {
        match name {
            "add" => {
                let number = |name: &str| arguments[name].as_i64().unwrap();
                Ok(Reply::data(json!({"sum": number("a") + number("b")})))
            }
            "greet" => {
                let returned = match asker.returned() {
                    Some(returned) => returned.clone(),
                    None => {
                        let form = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
                        let message = "Who is there?".to_owned();
                        asker.ask(Prompt { name: "who", message, form, state: b"kept".to_vec() }).await?
                    }
                };
                assert_eq!(returned.state, b"kept");
                match returned.answer {
                    PromptResponse::Accepted(content) => {
                        Ok(Reply::data(json!({"text": format!("{} {}", arguments["greeting"], content["name"])})))
                    }
                    _ => Err(ToolError::new(code::DECLINED).into()),
                }
            }
            _ => {
                tokio::time::sleep(std::time::Duration::from_millis(400)).await;
                Ok(Reply::text("done"))
            }
        }
    }
}
