//! Rows that this version cannot read, or does not know all words of: they must not take others with them.

use axum::http::StatusCode;
use toolcrib_index::feed::{self, Kinds};
use toolcrib_store::database::Value;

use crate::shelf::{Shelf, Stock, open, path};

impl Shelf {
    /// Changes rows of some tools as a later version, or a fault, would, and lets the directory see it.
    async fn spoil(&self, ids: &[u64], sql: &'static str) {
        let mut transaction = self.index.database().begin().await.expect("a transaction");
        for id in ids {
            let id = self.key(*id).id_bytes();
            let changed = transaction.execute(sql, &[Value::Integer(self.registry.0), Value::Bytes(&id)]).await.expect("changed");
            assert_eq!(changed, 1, "{sql}");
        }
        let changes: Vec<_> = ids.iter().map(|id| (self.key(*id), Kinds::FACTS)).collect();
        feed::record(&mut transaction, &changes, self.now()).await.expect("recorded");
        transaction.commit().await.expect("committed");
        self.directory.refresh().await.expect("one row does not stop the directory");
    }

    fn skipped(&self) -> Option<u64> {
        let text = self.directory.metrics();
        text.lines().find_map(|line| line.strip_prefix("toolcrib_directory_unreadable_rows ")).and_then(|n| n.parse().ok())
    }
}

const KIND: &str = r#"UPDATE index_listing SET document = REPLACE(document, '"kind":"open"', '"kind":"allowlist"') WHERE registry = $1 AND tool = $2"#;
const ACCESS: &str = "UPDATE index_tool SET access = 'allowlist' WHERE registry = $1 AND tool = $2";
const LIFE: &str = r#"UPDATE index_listing SET document = REPLACE(document, '"life":{"state":"active"}', '"life":{"state":"paused","cause":{"until":7}}')
    WHERE registry = $1 AND tool = $2"#;
const VERDICT: &str = r#"UPDATE index_listing SET document = REPLACE(document, '"verdict":"refused"', '"verdict":"disputed"') WHERE registry = $1 AND tool = $2"#;
const FIELD: &str = r#"UPDATE index_listing SET document = REPLACE(document, '"dev":false', '"dev":false,"carbon":{"grams":1}') WHERE registry = $1 AND tool = $2"#;
const DOCUMENT: &str = "UPDATE index_listing SET document = '{\"half' WHERE registry = $1 AND tool = $2";
const CREATOR: &str = "UPDATE index_tool SET creator = hash WHERE registry = $1 AND tool = $2";

#[tokio::test(flavor = "multi_thread")]
async fn words_of_a_later_version_are_shown_as_they_are() {
    for shelf in Shelf::each(open()).await {
        shelf.put_all(&[Stock::good(1, "Weather"), Stock::good(2, "Weather map"), Stock::bad(3)]).await;
        for sql in [KIND, ACCESS, LIFE, FIELD] {
            shelf.spoil(&[1], sql).await;
        }
        shelf.spoil(&[3], VERDICT).await;
        assert_eq!(shelf.ids("/api/v2/tools").await, [2, 1]);
        assert_eq!(shelf.ids("/api/v2/tools?type=open").await, [2]);
        let mut found = shelf.ids("/api/v2/tools/search?query=weather").await;
        found.sort_unstable();
        assert_eq!(found, [1, 2]);
        let tool = shelf.get(&path(1)).await.json();
        assert_eq!(
            (tool["access_type"].as_str(), tool["life"].as_str(), tool["verified"].as_bool()),
            (Some("allowlist"), Some("paused"), Some(true)),
            "{tool}"
        );
        assert_eq!(tool["access"]["open_access"], false, "a kind that is not known is not open");
        assert_eq!(shelf.get(&path(3)).await.json()["verdict"], "disputed");
        for place in ["/", "/?query=weather", "/tools/8453/0x8282828282828282828282828282828282828282/1", "/ready"] {
            assert_eq!(shelf.get(place).await.status, StatusCode::OK, "{place}");
        }
        assert_eq!(shelf.get("/api/v2/export").await.text().lines().count(), 2);
        assert_eq!(shelf.skipped(), Some(0), "all of them can be read");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_unreadable_row_hides_itself_alone() {
    for shelf in Shelf::each(open()).await {
        let stock: Vec<Stock> = (1..=6).map(|id| Stock::good(id, &format!("Weather {id}"))).collect();
        shelf.put_all(&stock).await;
        shelf.spoil(&[2], DOCUMENT).await;
        shelf.spoil(&[4], CREATOR).await;
        assert_eq!(shelf.ids("/api/v2/tools").await, [6, 5, 3, 1]);
        let mut found = shelf.ids("/api/v2/tools/search?query=weather").await;
        found.sort_unstable();
        assert_eq!(found, [1, 3, 5, 6]);
        assert_eq!(shelf.get("/api/v2/export").await.text().lines().count(), 4);
        for place in ["/", "/?query=weather", "/ready"] {
            assert_eq!(shelf.get(place).await.status, StatusCode::OK, "{place}");
        }
        // What the chain says about the first is right, and nothing else is claimed.
        let tool = shelf.get(&path(2)).await;
        assert_eq!(tool.status, StatusCode::OK, "{}", tool.text());
        assert_eq!((tool.json()["verdict"].as_str(), tool.json()["verified"].as_bool()), (Some("pending"), Some(false)));
        assert_eq!(shelf.ids("/api/v2/tools?include_unverified=true").await, [6, 5, 3, 2, 1]);
        // Of the other nothing can be said, which is not the same as not being there.
        let tool = shelf.get(&path(4)).await;
        assert_eq!((tool.status, tool.json()["code"].as_str()), (StatusCode::INTERNAL_SERVER_ERROR, Some("directory.internal")));
        assert_eq!(shelf.skipped(), Some(2), "each is counted once, however often it is met");
        // Pages go on behind rows that cannot be read.
        let mut ids = Vec::new();
        let mut place = "/api/v2/tools?limit=1&sort_by=oldest".to_owned();
        loop {
            let page = shelf.get(&place).await.json();
            ids.extend(page["tools"].as_array().expect("tools").iter().map(|tool| tool["tool_id"].as_str().map(str::to_owned)));
            let Some(next) = page["next"].as_str() else { break };
            place = format!("/api/v2/tools?limit=1&sort_by=oldest&cursor={next}");
        }
        assert_eq!(ids.into_iter().flatten().collect::<Vec<_>>(), ["1", "3", "5", "6"]);
    }
}

/// More unreadable rows in a row than are read at once, in the middle of a search index that is built anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_search_is_built_past_many_unreadable_rows() {
    for shelf in Shelf::each(open()).await {
        let stock: Vec<Stock> = (1..=450).map(|id| Stock::good(id, &format!("Weather {id}"))).collect();
        shelf.write_all(&stock).await;
        let sql = "UPDATE index_tool SET creator = hash WHERE registered_at >= $1 AND registered_at < $2";
        // Registered one second after another.
        let start = crate::shelf::NOW - 100_000;
        let values = [Value::Integer(start + 10), Value::Integer(start + 440)];
        assert_eq!(shelf.index.database().execute(sql, &values).await.expect("spoilt"), 430);
        shelf.directory.refresh().await.expect("built");
        let found = shelf.get("/api/v2/tools/search?query=weather&limit=200").await.json();
        assert_eq!(found["results"].as_array().map(Vec::len), Some(20));
        assert_eq!(shelf.get("/ready").await.status, StatusCode::OK);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_with_words_of_a_later_version_is_shown() {
    for shelf in Shelf::each(open()).await {
        shelf.put(&Stock::good(1, "Weather")).await;
        let sql = "INSERT INTO index_verdict (registry, tool, number, at, verdict, conformant, hash) VALUES ($1, $2, 1, 5, 'disputed', FALSE, $3)";
        let id = shelf.key(1).id_bytes();
        let values = [Value::Integer(shelf.registry.0), Value::Bytes(&id), Value::Bytes(&[7; 32])];
        shelf.index.database().execute(sql, &values).await.expect("a verdict");
        let verdicts = shelf.index.verdicts(shelf.key(1), 9).await.expect("a history");
        assert_eq!(serde_json::to_value(&verdicts[0].verdict).expect("JSON"), "disputed");
    }
}
