//! What the two doors let through, and what they write down.

use toolcrib_core::url::HttpsUrl;
use toolcrib_fetch::Target;

use crate::support::{World, ok};

// req: VERIFY-002
#[tokio::test]
async fn an_honest_server() {
    let world = World::new();
    let server = world.honest("tools.example.com", |request| ok(request.path())).await;
    let url = HttpsUrl::parse("https://Tools.example.com:443/.well-known/ai-tool/a.json?b=c#d").unwrap();
    let exchange = world.fetch().get(&Target::file(&url, Some(1))).await;
    assert_eq!(exchange.failure, None);
    let response = exchange.complete().unwrap();
    assert_eq!(response.body.as_bytes(), b"/.well-known/ai-tool/a.json?b=c");
    assert_eq!(server.accepted(), 1);
}
