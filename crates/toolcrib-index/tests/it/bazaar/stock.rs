//! A catalogue whose items the reference package makes, which its own client has read before.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use toolcrib_index::bazaar::{Facilitator, WalkEnd};

use super::server::{MovingClock, follower_of, indexes, listed, options, walk};

/// A server that ends with its standard input, and so with the test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_reference_package_catalogues_is_read() {
    let Some(folder) = toolcrib_testkit::interop() else { return };
    let mut child = Command::new("node")
        .arg(folder.join("v2/bazaar.mjs"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node is there where its packages are");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a port");
    let _server = Started(child);
    let port = serde_json::from_str::<serde_json::Value>(&line).expect("JSON")["port"].as_u64().expect("a port");
    for (_place, index) in indexes().await {
        let facilitator = Facilitator::from_setting(&format!("http://127.0.0.1:{port}")).expect("a URL");
        let walk = walk(&follower_of(&index, vec![facilitator], &MovingClock::new(), options())).await;
        assert_eq!((walk.end, walk.pages, walk.items, walk.skipped, walk.added), (WalkEnd::Complete, 2, 4, 0, 4));
        let views = listed(&index).await;
        let view = |url: &str| views.iter().find(|view| view.url == url).unwrap_or_else(|| panic!("{url}: {views:?}"));
        let (now, ask) = (view("https://wind.example/now"), view("https://wind.example/ask"));
        let claim = now.claim().expect("a claim");
        assert_eq!(
            (claim.name.as_deref(), claim.method.as_deref(), claim.tags.as_slice()),
            (Some("Wind"), Some("GET"), &["wind".to_owned()][..])
        );
        assert_eq!(claim.prices[0].micro_usd, Some(20_000));
        assert_eq!(claim.input.as_ref().expect("a schema")["properties"]["queryParams"]["required"][0], "city");
        assert_eq!(ask.claim().and_then(|claim| claim.method.as_deref()), Some("POST"));
        assert_eq!(view("https://wind.example/mcp").tool.as_deref(), Some("forecast"));
        let old = view("https://tides.example/now").claim().expect("a claim");
        assert_eq!((old.prices[0].micro_usd, old.prices[0].chain, old.method.as_deref()), (Some(500), Some(8453), Some("POST")));
    }
}
