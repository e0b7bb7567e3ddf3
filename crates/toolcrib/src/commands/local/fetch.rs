//! The program of the example `http-fetch`: JSON lines on stdin and stdout, requests under the egress policy.

use std::io::{BufRead as _, Write as _};

use serde_json::{Value, json};
use toolcrib_core::url::HttpsUrl;
use toolcrib_fetch::SystemClock;
use toolcrib_fetch::{Target, Untrusted};

use crate::outcome::{Done, Exit, Failure, Stop};

/// Most characters of a page that are returned: models read only so much.
const MAX_TEXT_CHARS: usize = 100_000;

/// Serves calls until the input ends.
pub(crate) async fn run() -> Result<Done, Stop> {
    let client = Untrusted::builder(SystemClock).build().map_err(|error| Failure::new(error.code(), error.to_string()))?;
    for line in std::io::stdin().lock().lines() {
        let Ok(call) = serde_json::from_str::<Value>(&line?) else { continue };
        let Some(id) = call.get("id").cloned() else { continue };
        let answer = match get(&client, call["args"]["url"].as_str().unwrap_or_default()).await {
            Ok(result) => json!({ "id": id, "result": result }),
            Err(message) => json!({ "id": id, "error": { "message": message } }),
        };
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{answer}")?;
        stdout.flush()?;
    }
    Ok(Done::new(Exit::Yes, json!({})))
}

async fn get(client: &Untrusted, text: &str) -> Result<Value, String> {
    let coded = |finding: toolcrib_core::finding::Finding| format!("{}: {}", finding.code, finding.message);
    let url = HttpsUrl::parse(text).map_err(|error| coded(error.finding(text)))?;
    let exchange = client.get(&Target::endpoint(&url, None)).await;
    if let Some(failure) = &exchange.failure {
        return Err(format!("{}: {}", failure.code, failure.finding().message));
    }
    let response = exchange.response.as_ref().ok_or("no answer")?;
    let text = String::from_utf8_lossy(&response.body.0);
    Ok(json!({
        "status": response.status,
        "text": text.chars().take(MAX_TEXT_CHARS).collect::<String>(),
        "cut": text.chars().nth(MAX_TEXT_CHARS).is_some(),
    }))
}
