//! The bytes of the manifest: strict JSON, NFC, lower case, and size limits.

use serde_json::json;
use toolcrib_core::codes::{Code, caip, json as j, manifest as m};
use toolcrib_core::json;
use toolcrib_judge::Step as Failing;

use crate::row::Row;
use toolcrib_testkit::servers::Step;

const USDC: &str = "eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913";
const PAYEE: &str = "eip155:8453:0x70997970c51812dc3a010c7d01b50e0d17dc79c8";

pub(crate) fn rows() -> Vec<Row> {
    [same(), not_json(), not_canonical(), large()].into_iter().flatten().collect()
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("JSON")
}

/// The same hash in other bytes.
// req: VERIFY-004
fn same() -> Vec<Row> {
    vec![
        Row::new("pretty-printed").committed_to_honest().bytes(|bytes| {
            let manifest: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
            serde_json::to_vec_pretty(&manifest).expect("JSON")
        }),
        Row::new("keys in another order").committed_to_honest().manifest(|manifest| {
            let object = manifest.as_object_mut().expect("an object");
            let name = object.shift_remove("name").expect("a name");
            object.insert("name".to_owned(), name);
        }),
        Row::new("escapes that need not be")
            .committed_to_honest()
            .bytes(|bytes| text(bytes).replace("Counts", "\\u0043ounts").into()),
        Row::new("white space around").committed_to_honest().bytes(|bytes| [b" \r\n\t", &bytes[..], b"\n\n"].concat()),
    ]
}

// req: VERIFY-004, VERIFY-007, HARDEN-006
fn not_json() -> Vec<Row> {
    let bad = |name: &str, code: Code| Row::new(name).refused(3, Failing::Json, code);
    vec![
        bad("byte-order mark", j::BOM).bytes(|bytes| [b"\xef\xbb\xbf", &bytes[..]].concat()),
        bad("UTF-16", j::INVALID_UTF8)
            .bytes(|bytes| [b"\xff\xfe".to_vec(), bytes.iter().flat_map(|byte| [*byte, 0]).collect()].concat()),
        bad("invalid UTF-8", j::INVALID_UTF8).bytes(|bytes| [b"{\"x\": \"\xff\", ", &bytes[1..]].concat()),
        bad("overlong UTF-8", j::INVALID_UTF8).bytes(|bytes| [b"{\"x\": \"\xc0\xaf\", ", &bytes[1..]].concat()),
        bad("surrogates in UTF-8", j::INVALID_UTF8).bytes(|bytes| [b"{\"x\": \"\xed\xa0\x80\", ", &bytes[1..]].concat()),
        bad("duplicate key", j::DUPLICATE_KEY).bytes(|bytes| [b"{\"name\": \"other\", ", &bytes[1..]].concat()),
        bad("duplicate key, escaped", j::DUPLICATE_KEY).bytes(|bytes| [b"{\"n\\u0061me\": \"other\", ", &bytes[1..]].concat()),
        bad("duplicate key, deep inside", j::DUPLICATE_KEY)
            .bytes(|bytes| [b"{\"x\": [[{\"a\": 1, \"a\": 1}]], ", &bytes[1..]].concat()),
        bad("lone surrogate", j::LONE_SURROGATE).bytes(|bytes| [b"{\"x\": \"\\ud800\", ", &bytes[1..]].concat()),
        bad("number too large", j::NUMBER_OVERFLOW).bytes(|bytes| [b"{\"x\": 1e999, ", &bytes[1..]].concat()),
        bad("NaN", j::SYNTAX).bytes(|bytes| [b"{\"x\": NaN, ", &bytes[1..]].concat()),
        bad("comment", j::SYNTAX).bytes(|bytes| [b"{ // x\n", &bytes[1..]].concat()),
        bad("trailing comma", j::SYNTAX).bytes(|bytes| [&bytes[..bytes.len() - 1], b",}"].concat()),
        bad("half of it", j::SYNTAX).bytes(|bytes| bytes[..bytes.len() / 2].to_vec()),
        bad("something behind", j::TRAILING_BYTES).bytes(|bytes| [&bytes[..], b"{}"].concat()),
        bad("NUL behind", j::TRAILING_BYTES).bytes(|bytes| [&bytes[..], b"\0"].concat()),
        bad("nothing", j::EMPTY).body(""),
        bad("white space", j::EMPTY).body(" \n"),
        bad("a web page", j::SYNTAX).body("<!doctype html><title>Sign in</title>"),
        bad("a list", m::NOT_AN_OBJECT).bytes(|bytes| [b"[", &bytes[..], b"]"].concat()),
        bad("null", m::NOT_AN_OBJECT).body("null"),
        Row::new("65 levels deep").bytes(|bytes| nested(&bytes, json::MAX_DEPTH)).finds(j::TOO_DEEP),
        Row::new("10,000 levels deep").bytes(|bytes| nested(&bytes, json::MAX_FOREIGN_DEPTH - 1)).finds(j::TOO_DEEP),
        bad("100,000 levels deep", j::TOO_DEEP).bytes(|bytes| nested(&bytes, 100_000)),
        bad("500,000 brackets", j::TOO_DEEP).body("[".repeat(500_000)),
    ]
}

fn nested(bytes: &[u8], levels: usize) -> Vec<u8> {
    [b"{\"x\": ", "[".repeat(levels).as_bytes(), "]".repeat(levels).as_bytes(), b", ", &bytes[1..]].concat()
}

// req: VERIFY-004, VERIFY-007
fn not_canonical() -> Vec<Row> {
    let price =
        |asset: &str, recipient: &str| json!([{"amount": "1", "asset": asset, "recipient": recipient, "protocol": "x402"}]);
    let bad = |name: &str, code: Code| Row::new(name).refused(3, Failing::Canonical, code);
    vec![
        bad("name in NFD", j::NOT_NFC).with("name", json!("cafe\u{301}")),
        bad("extension in NFD", j::NOT_NFC).with("vendor.example/x", json!({"a": ["e\u{301}"]})),
        bad("Hangul that is not composed", j::NOT_NFC).with("description", json!("\u{1112}\u{1161}\u{11ab}")),
        bad("singleton", j::NOT_NFC).with("description", json!("10 \u{212b}")),
        bad("NFD behind escapes", j::NOT_NFC).bytes(|bytes| text(bytes).replace("Counts", "Caf\\u0065\\u0301").into()),
        Row::new("name in NFC").with("name", json!("caf\u{e9}")),
        Row::new("key in NFD").with("vendor.example/e\u{301}", json!(1)).finds(j::KEY_NOT_NFC),
        bad("recipient with upper-case digits", caip::UPPERCASE_HEX)
            .with("pricing", price(USDC, "eip155:8453:0x70997970C51812dc3A010C7d01b50e0d17dc79C8")),
        bad("asset with upper-case digits", caip::UPPERCASE_HEX)
            .with("pricing", price("eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", PAYEE)),
        bad("requirement data with upper-case digits", toolcrib_core::codes::tool::HEX_UPPERCASE)
            .with("access", json!({"logic": "AND", "requirements": [{"kind": "0x11111111", "data": "0xAB", "label": "x"}]})),
        Row::new("everything in lower case").with("pricing", price(USDC, PAYEE)),
    ]
}

/// A manifest of exactly `size` bytes, padded with `filler`.
fn filled(bytes: &[u8], size: usize, filler: &str) -> Vec<u8> {
    let head = b"{\"vendor.example/x\": \"";
    let room = size - head.len() - b"\", ".len() - (bytes.len() - 1);
    let rest = room % filler.len();
    [head, filler.repeat(room / filler.len()).as_bytes(), " ".repeat(rest).as_bytes(), b"\", ", &bytes[1..]].concat()
}

// The host's length changes when the row is settled, so the padding is computed then.
// req: HARDEN-001, HARDEN-002
fn large() -> Vec<Row> {
    let max = json::MAX_BYTES;
    vec![
        Row::new("exactly 1 MiB").settled_bytes(move |bytes| filled(&bytes, max, "x")),
        Row::new("1 MiB of white space").settled_bytes(move |bytes| [&bytes[..], &vec![b' '; max - bytes.len()]].concat()),
        Row::new("1 MiB of escapes").settled_bytes(move |bytes| filled(&bytes, max, "\\n")),
        Row::new("1 MiB with one escape").settled_bytes(move |bytes| {
            String::from_utf8(filled(&bytes, max, "x")).expect("JSON").replacen("xx", "\\n", 1).into_bytes()
        }),
        Row::new("1 MiB in chunks").settled_bytes(move |bytes| filled(&bytes, max, "x")).steps(|place| {
            let (first, second) = place.body.split_at(place.body.len() / 2);
            let chunk = |part: &[u8]| [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat();
            let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            vec![Step::send(head), Step::Send(chunk(first)), Step::Send(chunk(second)), Step::send("0\r\n\r\n")]
        }),
        Row::new("1 MiB of other letters").settled_bytes(move |bytes| filled(&bytes, max, "\u{e9}")),
        Row::new("1 MiB and a byte").settled_bytes(move |bytes| filled(&bytes, max + 1, "x")).refused(
            1,
            Failing::Fetch,
            toolcrib_core::codes::fetch::LENGTH_TOO_LARGE,
        ),
        Row::new("1 MiB of small values").settled_bytes(move |bytes| dense(&bytes, max, "0,")).finds(j::TOO_MANY_VALUES),
        Row::new("1 MiB of small objects").settled_bytes(move |bytes| dense(&bytes, max, "{\"\":0},")).finds(j::TOO_MANY_VALUES),
        Row::new("1 MiB of numbers that grow").settled_bytes(move |bytes| dense(&bytes, max, "1e20,")).finds(j::TOO_MANY_VALUES),
        Row::new("1 MiB of duplicate keys")
            .settled_bytes(move |bytes| [b"{\"x\": {", &b"\"a\":0,".repeat(30_000)[..], b"\"b\": 0}, ", &bytes[1..]].concat())
            .refused(3, Failing::Json, j::DUPLICATE_KEY),
        Row::new("15,000 duplicate keys")
            .settled_bytes(move |bytes| [b"{\"x\": {", &b"\"a\":0,".repeat(15_000)[..], b"\"b\": 0}, ", &bytes[1..]].concat())
            .refused(3, Failing::Json, j::DUPLICATE_KEY),
        Row::new("1 MiB of text that is not NFC").settled_bytes(move |bytes| filled(&bytes, max, "e\u{301}")).refused(
            3,
            Failing::Canonical,
            j::NOT_NFC,
        ),
        Row::new("1 MiB that is not JSON").body(vec![b'x'; max]).refused(3, Failing::Json, j::SYNTAX),
        Row::new("a string that does not end").body([b"\"".to_vec(), vec![b'x'; max - 1]].concat()).refused(
            3,
            Failing::Json,
            j::SYNTAX,
        ),
    ]
}

fn dense(bytes: &[u8], size: usize, value: &str) -> Vec<u8> {
    let (head, tail) = (b"{\"vendor.example/x\": [", b"0], ");
    let room = size - head.len() - tail.len() - (bytes.len() - 1);
    [head, value.repeat(room / value.len()).as_bytes(), &vec![b' '; room % value.len()], tail, &bytes[1..]].concat()
}
