//! Parquet files of an index: `DuckDB` reads from them what the store has, on both engines.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use alloy_primitives::{Address, B256, U256};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::RowAccessor as _;
use serde_json::{Map, Value as Json, json};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::index as code;
use toolcrib_index::feed::{self, Kinds};
use toolcrib_index::listing::{Failure, Price};
use toolcrib_index::model::{RegistryId, ToolKey};
use toolcrib_index::moderation::{Decision, Step, Subject};
use toolcrib_index::parquet::{DESCRIPTION, Exported, VERSION, export};
use toolcrib_index::{Index, MAX_TOOLS};
use toolcrib_store::database::Value;

use toolcrib_testkit::databases::{Backend, TestStore};
use toolcrib_testkit::samples::{NOW, Sample, put, remove};

/// More than a page of tools.
const TOOLS: u64 = MAX_TOOLS as u64 + 30;

/// The tool with more verdicts and calls than a page has.
const BUSY: u64 = 7;
const MANY: i64 = 2_300;

/// Text that readers, terminals and escaping often handle wrongly.
const HOSTILE: &str = "a\u{1}\u{7}\u{1b}[31m\t\r\n\"'`;--\\\u{202e}\u{feff}\u{fffd}\u{10ffff}é̈ 😀 =1+1 {\"a\":[]} \u{2028}";

async fn filled(backend: Backend) -> Option<(TestStore, Index, RegistryId)> {
    let place = TestStore::new(backend).await?;
    let index = Index::open(place.database().await).await.expect("an index");
    let registry = index.add_registry(8453, Address::repeat_byte(1), 0).await.expect("a registry").id;
    let mut samples: Vec<Sample> = (1..=TOOLS).map(|id| Sample::new(id, &format!("tool-{id}"), "Does what it says.")).collect();
    samples[0] = Sample {
        name: HOSTILE.to_owned(),
        description: format!("{HOSTILE}{}", "long ".repeat(20_000)),
        tags: vec![HOSTILE.to_owned(), String::new(), "nft".to_owned()],
        price: u64::MAX,
        payers: 5,
        creator_payers: 9,
        ..Sample::new(1, "", "")
    };
    samples[1] = Sample { is_verified: false, ..Sample::new(2, "unverified", "Not shown.") };
    put(&index, registry, &samples).await;
    history(&index, registry).await;
    Some((place, index, registry))
}

/// Verdicts and calls of three tools, and the largest numbers.
async fn history(index: &Index, registry: RegistryId) {
    const VERDICT: &str =
        "INSERT INTO index_verdict (registry, tool, number, at, verdict, conformant, failed_check, step, code, hash)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    const CALL: &str = "INSERT INTO index_usage (id, claim, registry, tool, paid, counts, chain, token, payer, nonce, seller, amount,
        transaction_hash, at, reported_at, latency_ms) VALUES ($1, $2, $3, $4, $5, $6, 8453, $7, $8, $9, $10, $11, $12, $13, $14, $15)";
    let mut transaction = index.database().begin().await.expect("a transaction");
    for (tool, count) in [(1, 2), (2, 1), (BUSY, MANY), (TOOLS, 1)] {
        let id = ToolKey { registry, id: U256::from(tool) }.id_bytes();
        for number in 1..=count {
            let failed = number % 2 == 0;
            let values = [
                Value::Integer(registry.0),
                Value::Bytes(&id),
                Value::Integer(number),
                Value::Integer(1_700_000_000 + number),
                Value::Text(if failed { "refused" } else { "verified" }),
                Value::Boolean(!failed),
                Value::OptionalInteger(failed.then_some(3)),
                Value::OptionalText(failed.then_some("hash")),
                Value::OptionalText(failed.then_some("manifest.hash")),
                Value::Bytes(&[7; 32]),
            ];
            transaction.execute(VERDICT, &values).await.expect("a verdict");
            let (hash, is_paid) = (B256::from(U256::from(number)), number % 3 != 0);
            let amount = if number == 1 { U256::MAX } else { U256::from(number) };
            let (name, claim) = (format!("{tool}-{number}"), alloy_primitives::keccak256(format!("{tool}-{number}")));
            let values = [
                Value::Text(&name),
                Value::Bytes(claim.as_slice()),
                Value::Integer(registry.0),
                Value::Bytes(&id),
                Value::Boolean(is_paid),
                Value::Boolean(number % 5 != 0),
                Value::Bytes(&[0x83; 20]),
                Value::Bytes(&[0xaa; 20]),
                Value::Bytes(hash.as_slice()),
                Value::Bytes(&[0xbb; 20]),
                Value::Bytes(&amount.to_be_bytes::<32>()),
                Value::OptionalBytes(is_paid.then_some(hash.as_slice())),
                // Several at the same time, as in blocks.
                Value::Integer(1_700_000_000 + number / 4),
                Value::Integer(1_700_000_000 + number),
                Value::OptionalInteger((number % 2 == 0).then_some(number)),
            ];
            transaction.execute(CALL, &values).await.expect("a call");
        }
    }
    transaction.commit().await.expect("committed");
}

/// Returns what `DuckDB` reads from an export.
fn duckdb(folder: &Path) -> Option<Json> {
    let duckdb = toolcrib_testkit::duckdb()?;
    let output = Command::new(duckdb.join("venv/bin/python")).arg(duckdb.join("read.py")).arg(folder).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).expect("JSON"))
}

fn text(value: impl std::fmt::LowerHex) -> String {
    format!("{value:#x}")
}

fn object(value: Json) -> Map<String, Json> {
    match value {
        Json::Object(object) => object,
        other => panic!("an object, not {other}"),
    }
}

/// Returns the expected content of `tools.parquet` and `prices.parquet`, from the index.
async fn tools_and_prices(index: &Index) -> (Vec<Json>, Vec<Json>) {
    let (mut tools, mut prices, mut after) = (Vec::new(), Vec::new(), None);
    loop {
        let views = index.scan(after, MAX_TOOLS).await.expect("tools");
        let Some(last) = views.last() else { return (tools, prices) };
        after = Some(last.row.key);
        for view in views.iter().filter(|view| view.moderation.is_none()) {
            let (row, listing) = (&view.row, view.listing.as_ref().expect("a listing"));
            let manifest = listing.manifest.as_ref();
            let millis = |time: UnixTime| time.seconds() * 1_000;
            let failed = listing.failed.as_ref();
            let mut tool = object(json!({
                "tool": view.tool.to_string(), "chain": view.tool.chain, "registry": text(view.tool.registry),
                "tool_id": view.tool.id.to_string(), "creator": text(row.creator), "metadata_uri": row.metadata_uri,
                "manifest_hash": text(row.manifest_hash), "predicate": row.predicate.map(text),
                "registered_block": row.registered.block, "registered_at": millis(row.registered.time),
                "updated_block": row.updated.block, "updated_at": millis(row.updated.time),
                "deregistered_block": row.deregistered.map(|at| at.block), "deregistered_at": row.deregistered.map(|at| millis(at.time)),
                "events": row.events, "listed": view.is_listed(),
            }));
            tool.append(&mut object(json!({
                "verdict": listing.verdict.as_str(), "verified": listing.verified, "conformant": listing.conformant,
                "failed_check": failed.and_then(|failed: &Failure| failed.check), "failed_step": failed.map(|failed| &failed.step),
                "failed_code": failed.map(|failed| &failed.code), "checked_at": millis(listing.checked_at),
                "expires_at": millis(listing.expires_at), "tier": listing.tier, "access": listing.access.kind.as_str(),
                "health_checks": listing.health.looks, "health_answers": listing.health.answered,
                "name": manifest.map(|manifest| &manifest.name), "description": manifest.map(|manifest| &manifest.description),
                "tags": manifest.map(|manifest| manifest.tags.clone()).unwrap_or_default(),
                "endpoint": manifest.map(|manifest| &manifest.endpoint), "origin": manifest.map(|manifest| &manifest.origin),
                "version": manifest.and_then(|manifest| manifest.version.as_ref()),
            })));
            tool.append(&mut object(json!({
                "paid_calls": view.usage.paid_calls, "payers": view.usage.payers, "ranking_payers": view.usage.ranking_payers,
                "creator_payers": view.usage.creator_payers, "volume_micro_usd": view.usage.volume,
                "signed_calls": view.usage.signed_calls, "last_used_at": view.usage.last_at.map(millis),
            })));
            tools.push(Json::Object(tool));
            let priced = manifest.iter().flat_map(|manifest| &manifest.prices).enumerate();
            prices.extend(priced.map(|(position, price)| {
                let Price { amount, asset, recipient, protocol, chain, token, symbol, decimals, micro_usd } = price;
                json!({
                    "tool": view.tool.to_string(), "position": position, "protocol": protocol, "amount": amount, "asset": asset,
                    "recipient": recipient, "chain": chain, "token": token.map(text), "symbol": symbol, "decimals": decimals,
                    "micro_usd": micro_usd,
                })
            }));
        }
    }
}

/// Returns the rows of a table, as the database has them.
async fn stored(index: &Index, sql: &'static str, columns: &[(&str, char)]) -> Vec<Json> {
    let rows = index.database().fetch(sql, &[]).await.expect("rows");
    let cell = |row: &toolcrib_store::database::Row, at: usize, kind: char| match kind {
        'k' => {
            let key = ToolKey::from_columns(1, row.bytes(at).expect("a key")).expect("a key");
            json!(format!("eip155:8453/erc8257:{}/{}", Address::repeat_byte(1).to_checksum(None), key.id))
        }
        'i' => json!(row.optional_integer(at).expect("a number")),
        'm' => json!(row.integer(at).expect("a time") * 1_000),
        't' => json!(row.optional_text(at).expect("text")),
        'b' => json!(row.boolean(at).expect("a truth")),
        'x' => json!(row.optional_bytes(at).expect("bytes").map(alloy_primitives::hex::encode_prefixed)),
        _ => json!(U256::from_be_slice(row.bytes(at).expect("a number")).to_string()),
    };
    let rows = rows.iter().map(|row| {
        let cells = columns.iter().enumerate().map(|(at, (name, kind))| ((*name).to_owned(), cell(row, at, *kind)));
        Json::Object(cells.collect())
    });
    rows.collect()
}

/// Sorts rows.
fn sorted(rows: &[Json]) -> Vec<String> {
    let mut lines: Vec<String> = rows
        .iter()
        .map(|row| {
            let mut fields: Vec<_> =
                row.as_object().expect("a row").iter().map(|(name, value)| format!("{name}={value}")).collect();
            fields.sort();
            fields.join(" ")
        })
        .collect();
    lines.sort();
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn duckdb_reads_what_the_store_has() {
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let Some((_place, index, registry)) = filled(backend).await else { continue };
        let hidden = Subject::Tool(ToolKey { registry, id: U256::from(9) });
        let decision = Decision { subject: hidden, step: Step::Hide, reason: "abuse", notice: "", actor: "test" };
        assert!(index.moderate(&decision, NOW).await.expect("carried out"));
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().join("export");
        let exported = export(&index, &folder, None, NOW).await.expect("exported");
        let described: Json = serde_json::from_slice(&std::fs::read(folder.join(DESCRIPTION)).expect("there")).expect("JSON");
        assert_eq!(described, serde_json::to_value(&exported).expect("JSON"));
        assert_eq!((exported.version, exported.since), (VERSION, None));
        assert_eq!(exported.cursor, index.last_change().await.expect("a number"));
        let Some(read) = duckdb(&folder) else { return };

        let (tools, prices) = tools_and_prices(&index).await;
        assert_eq!((tools.len() as u64, prices.len()), (TOOLS - 1, 1), "without the hidden one");
        assert_eq!(prices[0]["micro_usd"], json!(u64::MAX));
        let verdicts = "SELECT tool, number, at, verdict, conformant, failed_check, step, code, hash FROM index_verdict";
        let columns = [("tool", 'k'), ("number", 'i'), ("at", 'm'), ("verdict", 't'), ("conformant", 'b'), ("failed_check", 'i')];
        let rest = [("failed_step", 't'), ("failed_code", 't'), ("manifest_hash", 'x')];
        let verdicts = stored(&index, verdicts, &[&columns[..], &rest].concat()).await;
        let calls =
            "SELECT tool, id, paid, counts, chain, token, payer, nonce, seller, amount, transaction_hash, at, reported_at,
            latency_ms FROM index_usage";
        let columns =
            [("tool", 'k'), ("id", 't'), ("paid", 'b'), ("counts", 'b'), ("chain", 'i'), ("token", 'x'), ("payer", 'x')];
        let rest =
            [("nonce", 'x'), ("recipient", 'x'), ("amount", 'n'), ("transaction_hash", 'x'), ("at", 'm'), ("reported_at", 'm')];
        let calls = stored(&index, calls, &[&columns[..], &rest, &[("latency_ms", 'i')]].concat()).await;
        assert_eq!((verdicts.len() as i64, calls.len() as i64), (MANY + 4, MANY + 4));
        for (name, expected) in [("tools", &tools), ("prices", &prices), ("verdicts", &verdicts), ("usage", &calls)] {
            let rows = read[name]["rows"].as_array().expect("rows");
            assert_eq!(exported.rows[name], rows.len() as u64, "{name}");
            let (found, expected) = (sorted(rows), sorted(expected));
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!(found, expected, "{name} on {backend:?}");
            }
            assert_eq!(found.len(), expected.len(), "{name} on {backend:?}");
            assert_eq!(read[name]["metadata"]["toolcrib.cursor"], json!(exported.cursor.to_string()));
        }
        let first = &read["tools"]["rows"][0];
        assert_eq!((&first["name"], &first["tags"]), (&json!(HOSTILE), &json!([HOSTILE, "", "nft"])), "to the byte");
        let amounts: Vec<_> = read["usage"]["rows"].as_array().expect("rows").iter().map(|row| row["amount"].clone()).collect();
        assert!(amounts.contains(&json!(U256::MAX.to_string())), "256 bits");
        let types = &read["tools"]["types"];
        assert_eq!(types["registered_at"], "TIMESTAMP WITH TIME ZONE");
        assert_eq!(
            (&types["tags"], &types["chain"], &types["listed"]),
            (&json!("VARCHAR[]"), &json!("BIGINT"), &json!("BOOLEAN"))
        );
        assert_eq!(read["prices"]["types"]["micro_usd"], "UBIGINT");
        let busy = read["calls"].as_object().expect("counts").iter().find(|(tool, _)| tool.ends_with(&format!("/{BUSY}")));
        assert_eq!(busy.map(|(_, count)| count.clone()), Some(json!(MANY)), "files join by the name of the tool");
    }
}

/// Texts of a column of text, read by the library itself.
fn column(folder: &Path, file: &str, at: usize) -> Vec<String> {
    let file = File::open(folder.join(format!("{file}.parquet"))).expect("a file");
    let reader = SerializedFileReader::new(file).expect("a Parquet file");
    let rows = reader.get_row_iter(None).expect("rows");
    rows.map(|row| row.expect("a row").get_string(at).expect("text").clone()).collect()
}

fn ids(folder: &Path, file: &str) -> Vec<u64> {
    let id = |tool: String| tool.rsplit('/').next().and_then(|id| id.parse().ok()).expect("an id");
    column(folder, file, 0).into_iter().map(id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_alone_bring_a_copy_up_to_date() {
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let Some((_place, index, registry)) = filled(backend).await else { continue };
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let Exported { cursor, .. } = export(&index, &at("first"), None, NOW).await.expect("exported");
        assert!(!at("first").join("changed.parquet").exists());

        let nothing = export(&index, &at("nothing"), Some(cursor), NOW).await.expect("exported");
        assert_eq!((nothing.cursor, nothing.since), (cursor, Some(cursor)));
        assert!(nothing.rows.values().all(|rows| *rows == 0) && nothing.rows.len() == 5, "{nothing:?}");

        put(&index, registry, &[Sample::new(3, "renamed", "Another text."), Sample::new(TOOLS + 1, "new", "")]).await;
        remove(&index, ToolKey { registry, id: U256::from(4) }).await;
        let blocked = Subject::Tool(ToolKey { registry, id: U256::from(5) });
        let decision = Decision { subject: blocked, step: Step::Block, reason: "abuse", notice: "", actor: "test" };
        assert!(index.moderate(&decision, NOW).await.expect("carried out"));
        let mut transaction = index.database().begin().await.expect("a transaction");
        let used = [(ToolKey { registry, id: U256::from(BUSY) }, Kinds::USAGE)];
        feed::record(&mut transaction, &used, NOW).await.expect("recorded");
        transaction.commit().await.expect("committed");

        let changes = export(&index, &at("changes"), Some(cursor), NOW).await.expect("exported");
        assert!(changes.cursor > cursor);
        assert_eq!(ids(&at("changes"), "changed"), [3, 4, 5, BUSY, TOOLS + 1]);
        assert_eq!(ids(&at("changes"), "tools"), [3, BUSY, TOOLS + 1], "what is gone or blocked has no rows");
        assert_eq!((changes.rows["verdicts"], changes.rows["usage"]), (MANY as u64, MANY as u64), "all rows of what changed");

        // A copy in which the rows of changed tools are replaced equals a new export.
        let everything = export(&index, &at("everything"), None, NOW).await.expect("exported");
        for name in ["tools", "prices", "verdicts", "usage"] {
            let changed = ids(&at("changes"), "changed");
            let mut copy = ids(&at("first"), name);
            copy.retain(|id| !changed.contains(id));
            copy.extend(ids(&at("changes"), name));
            copy.sort_unstable();
            assert_eq!(copy, ids(&at("everything"), name), "{name}");
            assert_eq!(copy.len() as u64, everything.rows[name]);
        }
        // Changes that the feed no longer has cannot be exported.
        index.database().execute("DELETE FROM index_change WHERE seq <= $1", &[Value::Integer(cursor)]).await.expect("forgotten");
        let forgotten = export(&index, &at("late"), Some(0), NOW).await.expect_err("too late");
        assert_eq!(forgotten.code(), code::CURSOR_EXPIRED);
        assert!(!at("late").exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_appears_whole_or_not_at_all() {
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let Some((_place, index, registry)) = filled(backend).await else { continue };
        let folder = tempfile::tempdir().expect("a folder");
        let there = folder.path().join("there");
        std::fs::create_dir(&there).expect("made");
        std::fs::write(there.join("mine"), "mine").expect("written");
        assert_eq!(export(&index, &there, None, NOW).await.expect_err("never overwritten").code(), code::FILE);
        assert_eq!(std::fs::read_dir(&there).expect("a folder").count(), 1);
        let nowhere = folder.path().join("no/such/folder");
        assert_eq!(export(&index, &nowhere, None, NOW).await.expect_err("nowhere to write").code(), code::FILE);

        // A row that cannot be read fails half-way: a stored amount of 33 bytes.
        let id = ToolKey { registry, id: U256::from(BUSY) }.id_bytes();
        let spoil = "UPDATE index_usage SET amount = $1 WHERE registry = $2 AND tool = $3 AND id = '7-2000'";
        let values = [Value::Bytes(&[1; 33]), Value::Integer(registry.0), Value::Bytes(&id)];
        assert_eq!(index.database().execute(spoil, &values).await.expect("spoilt"), 1);
        let out = folder.path().join("out");
        export(&index, &out, None, NOW).await.expect_err("corrupt");
        let left: Vec<_> =
            std::fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("one").file_name()).collect();
        assert_eq!(left, ["there"], "nothing of it is left");
    }
}

/// Others write during an export; all files show the moment at which it began.
#[tokio::test(flavor = "multi_thread")]
async fn all_files_show_one_moment() {
    const USED: &str = "INSERT INTO index_usage_total (registry, tool, paid_calls, payers, ranking_payers, volume, signed_calls)
        VALUES ($1, $2, 1, 1, 1, 1, 0) ON CONFLICT (registry, tool) DO UPDATE SET paid_calls = index_usage_total.paid_calls + 1";
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let Some((_place, index, registry)) = filled(backend).await else { continue };
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let writer = {
            let (index, stop) = (index.clone(), std::sync::Arc::clone(&stop));
            tokio::spawn(async move {
                // The first tool and the last are always changed together.
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let mut transaction = index.database().begin().await.expect("a transaction");
                    for tool in [3, TOOLS] {
                        let id = ToolKey { registry, id: U256::from(tool) }.id_bytes();
                        let values = [Value::Integer(registry.0), Value::Bytes(&id)];
                        transaction.execute(USED, &values).await.expect("counted");
                    }
                    transaction.commit().await.expect("committed");
                }
            })
        };
        let folder = tempfile::tempdir().expect("a folder");
        let mut seen = Vec::new();
        for number in 0..4 {
            let folder = folder.path().join(number.to_string());
            export(&index, &folder, None, NOW).await.expect("exported");
            let file = File::open(folder.join("tools.parquet")).expect("a file");
            let reader = SerializedFileReader::new(file).expect("a Parquet file");
            let at =
                reader.metadata().file_metadata().schema().get_fields().iter().position(|field| field.name() == "paid_calls");
            let at = at.expect("a column");
            let rows: Vec<_> = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row")).collect();
            let calls = |place: usize| rows[place].get_long(at).expect("a number");
            assert_eq!(calls(2), calls(TOOLS as usize - 1), "{backend:?}");
            seen.push(calls(2));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        writer.await.expect("a writer");
        assert!(seen.is_sorted() && seen.last() > seen.first(), "something was written meanwhile: {seen:?}");
    }
}
