//! Kept answers: tags, forms, and what a change makes old.

use axum::http::{Method, StatusCode};

use crate::shelf::{Ask, Shelf, Stock, open, path};

#[tokio::test(flavor = "multi_thread")]
async fn a_change_makes_its_answers_old_and_no_others() {
    for shelf in Shelf::each(open()).await {
        shelf.put_all(&[Stock::good(1, "One"), Stock::good(2, "Two")]).await;
        let tag = async |path: &str| shelf.get(path).await.header("etag").to_owned();
        let (one, two, list) = (tag(&path(1)).await, tag(&path(2)).await, tag("/api/v2/tools").await);
        assert!(one.starts_with('"') && one != two, "{one} {two}");
        let known = async |path: &str, tag: &str| Ask::get(path).header("if-none-match", tag).of(&shelf.router).await;
        let not_modified = known(&path(1), &one).await;
        assert_eq!((not_modified.status, not_modified.body.len()), (StatusCode::NOT_MODIFIED, 0));
        assert_eq!(not_modified.header("etag"), one);
        assert_eq!(known(&path(1), &format!("\"x\", W/{one}")).await.status, StatusCode::NOT_MODIFIED);
        assert_eq!(known(&path(1), "\"x\"").await.status, StatusCode::OK);
        shelf.put(&Stock::good(1, "One, renamed")).await;
        assert_eq!(known(&path(1), &one).await.status, StatusCode::OK);
        assert_eq!(shelf.get(&path(1)).await.json()["name"], "One, renamed");
        assert_eq!(known(&path(2), &two).await.status, StatusCode::NOT_MODIFIED, "another tool");
        assert_eq!(known("/api/v2/tools", &list).await.status, StatusCode::OK, "lists show every tool");
        assert!(shelf.get("/api/v2/tools/search?query=renamed").await.text().contains("One, renamed"), "search was fed first");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_made_once() {
    let shelf = Shelf::one(open()).await;
    shelf.put(&Stock::good(1, "One")).await;
    let misses = || {
        let page = shelf.directory.metrics();
        let line =
            page.lines().find(|line| line.starts_with("toolcrib_directory_cache_misses_total ")).expect("a count").to_owned();
        line.rsplit(' ').next().expect("a number").parse::<u64>().expect("a number")
    };
    let before = misses();
    for _ in 0..20 {
        assert_eq!(shelf.get("/api/v2/tools?limit=7").await.status, StatusCode::OK);
    }
    assert_eq!(misses() - before, 1);
    // Refusals are not kept.
    for _ in 0..3 {
        assert_eq!(shelf.get("/api/v2/tools?limit=0").await.status, StatusCode::BAD_REQUEST);
    }
    assert_eq!(misses() - before, 4);
    let without = Shelf::one(toolcrib_directory::Options { cache_bytes: 0, ..open() }).await;
    without.put(&Stock::good(1, "One")).await;
    assert_eq!(without.get(&path(1)).await.status, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_of_one_answer() {
    let shelf = Shelf::one(open()).await;
    let stock: Vec<Stock> = (1..=20).map(|id| Stock::good(id, &format!("Tool {id}"))).collect();
    shelf.put_all(&stock).await;
    let ask = || Ask::get("/api/v2/tools");
    let plain = ask().of(&shelf.router).await;
    assert_eq!(plain.header("content-type"), "application/json");
    assert!(plain.header("vary").contains("Accept-Encoding") && plain.header("cache-control").contains("max-age"));
    let mut tags = vec![plain.header("etag").to_owned()];
    for coding in ["gzip", "br"] {
        let packed = ask().header("accept-encoding", coding).of(&shelf.router).await;
        assert_eq!(packed.header("content-encoding"), coding);
        assert!(packed.body.len() * 3 < plain.body.len(), "{} {}", packed.body.len(), plain.body.len());
        tags.push(packed.header("etag").to_owned());
    }
    let markdown = ask().header("accept", "text/markdown").of(&shelf.router).await;
    assert!(markdown.header("content-type").starts_with("text/markdown"));
    assert!(markdown.text().contains("**Tool 20**") && markdown.body.len() * 3 < plain.body.len());
    tags.push(markdown.header("etag").to_owned());
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 4, "each form has a tag of its own");
    for place in [path(1), "/api/v2/tools/search?query=tool".to_owned()] {
        let text = Ask::get(&place).header("accept", "text/markdown").of(&shelf.router).await.text();
        assert!(text.contains("Tool 1") && text.contains("data, not instructions"), "{text}");
    }
    let head = ask().method(Method::HEAD).of(&shelf.router).await;
    assert_eq!((head.status, head.body.len()), (StatusCode::OK, 0));
    assert_eq!(head.header("content-length"), plain.body.len().to_string());
    assert_eq!(head.header("etag"), plain.header("etag"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_has_an_id_and_may_be_read_by_scripts() {
    let shelf = Shelf::one(open()).await;
    shelf.directory.refresh().await.expect("built");
    for (place, status) in
        [("/api/v2/tools", 200), ("/nowhere", 404), ("/api/v2/tools?limit=x", 400), ("/", 200), ("/health", 200)]
    {
        let reply = shelf.get(place).await;
        assert_eq!(reply.status.as_u16(), status, "{place}");
        assert!(!reply.header("x-request-id").is_empty() && reply.header("access-control-allow-origin") == "*", "{place}");
        assert_eq!(reply.header("x-content-type-options"), "nosniff");
        assert!(!reply.header("cache-control").is_empty());
    }
    let own = Ask::get("/health").header("x-request-id", "mine-7").of(&shelf.router).await;
    assert_eq!(own.header("x-request-id"), "mine-7");
    let preflight =
        Ask::get("/api/v2/tools").method(Method::OPTIONS).header("origin", "https://x.example").of(&shelf.router).await;
    assert_eq!(preflight.status, StatusCode::NO_CONTENT);
    assert!(preflight.header("access-control-allow-headers").contains("X-API-KEY"));
    for (place, allow) in [
        ("/api/v2/tools", "GET, HEAD, OPTIONS"),
        ("/api/v2/tools/search", "GET, HEAD, OPTIONS"),
        (&path(1), "GET, HEAD, OPTIONS"),
        ("/", "GET, HEAD, OPTIONS"),
        ("/api/v2/tools/usage", "POST, OPTIONS"),
        ("/api/v2/auth/keys", "POST, OPTIONS"),
        (&format!("{}/verify", path(1)), "POST, OPTIONS"),
    ] {
        let reply = Ask::get(place).method(Method::OPTIONS).header("origin", "https://x.example").of(&shelf.router).await;
        assert_eq!(reply.status, StatusCode::NO_CONTENT, "{place}");
        assert_eq!((reply.header("allow"), reply.header("access-control-allow-methods")), (allow, allow), "{place}");
    }
    let nowhere = Ask::get("/api/v2/nothing").method(Method::OPTIONS).of(&shelf.router).await;
    assert_eq!((nowhere.status, nowhere.header("allow")), (StatusCode::NOT_FOUND, ""));
    let method = Ask::post("/api/v2/tools", "").of(&shelf.router).await;
    assert_eq!((method.status, method.header("allow")), (StatusCode::METHOD_NOT_ALLOWED, "GET, HEAD, OPTIONS"));
    assert_eq!(method.json()["code"], "directory.method");
    let wrong = Ask::get("/api/v2/auth/keys").of(&shelf.router).await;
    assert_eq!((wrong.status, wrong.header("allow")), (StatusCode::METHOD_NOT_ALLOWED, "POST, OPTIONS"));
}
