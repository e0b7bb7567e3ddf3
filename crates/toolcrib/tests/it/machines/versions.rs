//! Two versions of the program on one database: what either version writes does not break the other.
//!
//! The later version is this test: it adds columns with defaults, as migrations may, and writes words, fields and rows that the program
//! does not know.

use std::net::SocketAddr;
use std::time::Duration;

use alloy_primitives::U256;
use serde_json::Value as Json;
use toolcrib_core::clock::Clock as _;
use toolcrib_fetch::SystemClock;
use toolcrib_index::feed::{self, Kinds};
use toolcrib_index::model::{RegistryId, ToolKey};
use toolcrib_store::database::Value;

use super::stage::{Stage, free_address, get};
use super::{is_settled, issue_key, stage};
use toolcrib_testkit::databases::Backend;

/// Tools at the start: two of them do not verify.
const TOOLS: u64 = 10;

/// Changes that migrations of a later version may make.
const LATER: [&str; 5] = [
    "ALTER TABLE index_tool ADD COLUMN later TEXT NOT NULL DEFAULT 'x'",
    "ALTER TABLE index_listing ADD COLUMN later TEXT NOT NULL DEFAULT 'x'",
    "ALTER TABLE index_watch ADD COLUMN later BIGINT",
    "ALTER TABLE index_job ADD COLUMN later BOOLEAN NOT NULL DEFAULT FALSE",
    "CREATE TABLE index_later (id BIGINT NOT NULL PRIMARY KEY)",
];

fn key(id: u64) -> ToolKey {
    ToolKey { registry: RegistryId(1), id: U256::from(id) }
}

impl Stage {
    /// The stored listing of a tool.
    fn document(&self, id: u64) -> Json {
        let id = key(id).id_bytes();
        let sql = "SELECT document FROM index_listing WHERE registry = 1 AND tool = $1";
        let row = self.runtime.block_on(self.index.database().fetch_optional(sql, &[Value::Bytes(&id)]));
        serde_json::from_str(row.expect("read").expect("a listing").scalar::<&str>().expect("a text")).expect("JSON")
    }

    /// Runs a statement with a tool's id and a text, and adds a change to the feed.
    fn write(&self, id: u64, sql: &'static str, text: &str) {
        self.runtime.block_on(async {
            let mut transaction = self.index.database().begin().await.expect("a transaction");
            let bytes = key(id).id_bytes();
            assert_eq!(transaction.execute(sql, &[Value::Bytes(&bytes), Value::Text(text)]).await.expect("written"), 1, "{sql}");
            feed::record(&mut transaction, &[(key(id), Kinds::FACTS)], SystemClock.now()).await.expect("recorded");
            transaction.commit().await.expect("committed");
        });
    }
}

const DOCUMENT: &str = "UPDATE index_listing SET document = $2 WHERE registry = 1 AND tool = $1";
const ACCESS: &str = "UPDATE index_tool SET access = $2 WHERE registry = 1 AND tool = $1";
const JOB: &str = "UPDATE index_job SET reason = $2, priority = 9, due_at = 1 WHERE registry = 1 AND tool = $1";
const VERDICT: &str = "INSERT INTO index_verdict (registry, tool, number, at, verdict, conformant, hash)
    SELECT registry, tool, 900, 5, $2, FALSE, hash FROM index_tool WHERE registry = 1 AND tool = $1";

/// Waits until directories show everything, and returns the tools that they list and find.
fn shown(stage: &Stage, directories: &[SocketAddr], api_key: &str) -> Vec<Vec<u64>> {
    let last = stage.runtime.block_on(stage.index.last_change()).expect("a number");
    let mut all = Vec::new();
    for directory in directories {
        stage.wait("a directory shows everything", Duration::from_secs(20), || {
            let (_, body) = get(*directory, api_key, "/ready").expect("an answer");
            let ready: Json = serde_json::from_str(&body).expect("JSON");
            ready["status"] == "ok" && ready["shown"].as_i64() >= Some(last)
        });
        for (path, rows) in [
            ("/api/v2/tools?limit=50&sort_by=oldest", "tools"),
            ("/api/v2/tools/search?query=count%20words&limit=50&sort_by=newest", "results"),
        ] {
            let (status, body) = get(*directory, api_key, path).expect("an answer");
            assert_eq!(status, 200, "{path}: {body}");
            let page: Json = serde_json::from_str(&body).expect("JSON");
            let id = |tool: &Json| tool["tool_id"].as_str().and_then(|id| id.parse().ok()).expect("an id");
            let mut ids: Vec<u64> = page[rows].as_array().expect("tools").iter().map(id).collect();
            ids.sort_unstable();
            all.push(ids);
        }
    }
    all
}

#[test]
fn versions_share_a_database() {
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let Some(stage) = stage(backend) else { continue };
        for _ in 0..TOOLS {
            stage.register();
        }
        let api_key = issue_key(&stage, &stage.setting);
        let engine = stage.process("engine", &["index", "--workers", "4"]);
        let addresses = [free_address(), free_address()];
        let directory = |name, at: SocketAddr| stage.process(name, &["directory", "--listen", &at.to_string()]);
        let first = directory("directory1", addresses[0]);
        stage.wait("everything is verified", Duration::from_secs(120), || is_settled(&stage));
        let good = vec![1, 2, 4, 5, 6, 8, 9, 10];
        assert_eq!(shown(&stage, &addresses[..1], &api_key), [good.clone(), good.clone()]);

        // The later version migrates and writes unknown data while this version runs.
        for sql in LATER {
            stage.execute(sql);
        }
        let mut document = stage.document(1);
        document["access"]["kind"] = "allowlist".into();
        document["life"] = serde_json::json!({ "state": "paused", "cause": { "until": 7 } });
        document["carbon"] = serde_json::json!({ "grams": 1 });
        stage.write(1, DOCUMENT, &document.to_string());
        stage.write(1, ACCESS, "allowlist");
        stage.write(2, VERDICT, "disputed");
        stage.write(5, JOB, "tomorrow");
        // A damaged document.
        stage.write(4, DOCUMENT, "{\"half");
        // A document of the previous version, without later fields.
        let mut document = stage.document(6);
        for field in ["findings", "same_uri", "same_endpoint", "health", "dev", "claims"] {
            document.as_object_mut().expect("an object").remove(field).unwrap_or_else(|| panic!("{field} is a field"));
        }
        stage.write(6, DOCUMENT, &document.to_string());

        // A running process and a new one: all documents but the damaged one are served.
        let second = directory("directory2", addresses[1]);
        let rest = vec![1, 2, 5, 6, 8, 9, 10];
        assert_eq!(shown(&stage, &addresses, &api_key), vec![rest; 4]);
        let registry = format!("{:#x}", stage.registry.address());
        for address in addresses {
            let (status, body) = get(address, &api_key, &format!("/api/v2/tools/31337/{registry}/1")).expect("an answer");
            let tool: Json = serde_json::from_str(&body).expect("JSON");
            assert_eq!((status, tool["access_type"].as_str(), tool["life"].as_str()), (200, Some("allowlist"), Some("paused")));
            let (status, body) = get(address, &api_key, &format!("/api/v2/tools/31337/{registry}/4")).expect("an answer");
            assert!(status == 200 && body.contains("\"verdict\":\"pending\""), "{body}");
            let (_, metrics) = get(address, &api_key, "/metrics").expect("an answer");
            assert!(metrics.contains("toolcrib_directory_unreadable_rows 1\n"), "{metrics}");
        }
        for name in ["directory1.log", "directory2.log"] {
            assert_eq!(stage.sandbox.read(name).matches("unreadable row skipped").count(), 1, "{name}: it is named once");
        }

        // This version continues to write: changes on the chain are followed, verified and listed, and its new rows have the defaults of
        // the later version. The damaged document is repaired by a new verification.
        stage.register();
        for id in [1, 2, 4] {
            stage.update(id);
        }
        stage.wait("the chain is followed", Duration::from_secs(60), || {
            stage.number("SELECT COUNT(*) FROM index_event") == i64::try_from(TOOLS + 4).expect("small")
        });
        stage.wait("everything is verified", Duration::from_secs(120), || is_settled(&stage));
        assert_eq!(stage.document(1)["access"]["kind"], "open");
        assert_eq!(shown(&stage, &addresses, &api_key), vec![vec![1, 2, 4, 5, 6, 8, 9, 10, 11]; 4]);
        assert_eq!(stage.number("SELECT COUNT(*) FROM index_listing WHERE later <> 'x'"), 0);
        assert_eq!(stage.number("SELECT COUNT(*) FROM index_job WHERE reason = 'tomorrow'"), 0, "it was done");
        for process in [engine, first, second] {
            assert_eq!(process.terminate(), Some(0));
        }
    }
}
