use super::*;
use crate::canon::Canonical;
use crate::codes::Code;
use crate::finding::Severity;

#[track_caller]
fn document(text: &str) -> Document {
    let reading = read(text.as_bytes(), Limits::default());
    assert!(reading.findings.is_empty(), "{:?}", reading.findings);
    reading.document.expect("no finding, so a document")
}

#[track_caller]
fn refused(bytes: &[u8], code: Code) -> crate::finding::Finding {
    let reading = read(bytes, Limits::default());
    let found = reading.findings.as_slice().to_vec();
    assert_eq!(found.first().map(|finding| finding.code), Some(code), "{found:?}");
    assert!(reading.document.is_none_or(|document| Canonical::of(&document).is_none()), "refused bytes have no hash");
    found[0].clone()
}

// req: CANON-012, CANON-006
#[test]
fn what_i_json_forbids_is_refused_with_its_own_code() {
    use crate::codes::json::*;
    for (bytes, code) in [
        (&b""[..], EMPTY),
        (b" \n\t", EMPTY),
        (b"\xEF\xBB\xBF{}", BOM),
        (b"\"\xFF\"", INVALID_UTF8),
        (b"\"\xC0\x80\"", INVALID_UTF8),
        (b"\"\xED\xA0\x80\"", INVALID_UTF8),
        (b"{}x", TRAILING_BYTES),
        (b"{} {}", TRAILING_BYTES),
        (b"{\"a\":1}\0", TRAILING_BYTES),
        (br#"{"a":1,"a":2}"#, DUPLICATE_KEY),
        (br#"{"a":1,"\u0061":2}"#, DUPLICATE_KEY),
        (br#"[{"x":{"b":1,"c":2,"b":1}}]"#, DUPLICATE_KEY),
        (br#"{"":1,"":1}"#, DUPLICATE_KEY),
        (br#""\ud800""#, LONE_SURROGATE),
        (br#""\udc00\ud800""#, LONE_SURROGATE),
        (br#""\ud83d\u0041""#, LONE_SURROGATE),
        (br#""\ud83dx""#, LONE_SURROGATE),
        (br#"{"\ud800":1}"#, LONE_SURROGATE),
        (b"1e400", NUMBER_OVERFLOW),
        (b"[-1E+999]", NUMBER_OVERFLOW),
        (b"NaN", SYNTAX),
        (b"Infinity", SYNTAX),
        (b"-Infinity", SYNTAX),
        (b"01", SYNTAX),
        (b"-01", SYNTAX),
        (b"1.", SYNTAX),
        (b".5", SYNTAX),
        (b"+1", SYNTAX),
        (b"1e", SYNTAX),
        (b"-", SYNTAX),
        (b"0x10", TRAILING_BYTES),
        (b"[1,]", SYNTAX),
        (b"[,1]", SYNTAX),
        (b"{\"a\":1,}", SYNTAX),
        (b"{a:1}", SYNTAX),
        (b"{'a':1}", SYNTAX),
        (b"{\"a\" 1}", SYNTAX),
        (b"[1 2]", SYNTAX),
        (b"\"a\nb\"", SYNTAX),
        (b"\"a\0b\"", SYNTAX),
        (b"\"\\x\"", SYNTAX),
        (b"\"\\u12g4\"", SYNTAX),
        (b"\"\\u12", SYNTAX),
        (b"\"\\", SYNTAX),
        (b"\"abc", SYNTAX),
        (b"[", SYNTAX),
        (b"{", SYNTAX),
        (b"{\"a\"", SYNTAX),
        (b"tru", SYNTAX),
        (b"nulL", SYNTAX),
        (b"// comment\n{}", SYNTAX),
        (b"\0\0\0\0", SYNTAX),
        ("\u{a0}{}".as_bytes(), SYNTAX),
    ] {
        refused(bytes, code);
    }
}

#[test]
fn every_duplicate_is_reported_not_only_the_first() {
    let reading = read(br#"{"a":1,"a":2,"a":3,"b":{"c":1,"c":1}}"#, Limits::default());
    assert_eq!(reading.findings.as_slice().len(), 3);
}

// req: HARDEN-002
#[test]
fn size_is_capped_at_the_byte() {
    let fits = format!("\"{}\"", "x".repeat(MAX_BYTES - 2));
    assert_eq!(fits.len(), MAX_BYTES);
    document(&fits);
    let over = format!("\"{}\"", "x".repeat(MAX_BYTES - 1));
    refused(over.as_bytes(), crate::codes::json::TOO_LARGE);
}

// req: HARDEN-001
#[test]
fn values_are_capped_keys_included() {
    let check = |source: &str, most: usize| {
        assert!(read_up_to(source.as_bytes(), Limits::default(), most).document.is_some(), "{source} has {most}");
        let reading = read_up_to(source.as_bytes(), Limits::default(), most - 1);
        assert!(reading.document.is_none(), "{source} has more than {}", most - 1);
        assert_eq!(reading.findings.as_slice()[0].code, crate::codes::json::TOO_MANY_VALUES);
    };
    check("0", 1);
    check("[]", 1);
    check("[0,1,\"a\",null]", 5);
    check("{\"a\":0,\"b\":[]}", 5);
    check("[{\"a\":{\"b\":1}}]", 6);
    assert_eq!(size_of::<super::Node>(), 20, "what the limit is about");
}

#[test]
fn depth_is_capped_and_never_overflows_the_stack() {
    document(&format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH)));
    refused(format!("{}{}", "[".repeat(MAX_DEPTH + 1), "]".repeat(MAX_DEPTH + 1)).as_bytes(), crate::codes::json::TOO_DEEP);
    refused("[".repeat(1_000_000).as_bytes(), crate::codes::json::TOO_DEEP);
    refused("{\"a\":".repeat(100_000).as_bytes(), crate::codes::json::TOO_DEEP);
}

#[test]
fn values_are_reached_by_key_and_keep_their_place() {
    let doc = document(r#" {"b": [1, {"c/d~": "x\ty"}], "a": null} "#);
    let root = doc.root();
    let inner = root.get("b").and_then(|b| b.as_array()?.iter().nth(1)?.get("c/d~")).expect("present");
    assert_eq!(inner.as_str(), Some("x\ty"));
    assert_eq!(inner.pointer(), "/b/1/c~1d~0");
    assert_eq!(inner.source(), r#""x\ty""#);
    assert_eq!(inner.key_span().map(|span| &doc.source()[span.start..span.end]), Some("\"c/d~\""));
    assert_eq!(root.as_object().map(|o| o.iter().map(|(key, _)| key).collect()), Some(vec!["b", "a"]));
    assert_eq!(root.as_object().map(|o| o.sorted().map(|(key, _)| key).collect()), Some(vec!["a", "b"]));
    assert!(root.get("zz").is_none());
    assert_eq!(root.pointer(), "");
}

#[test]
fn keys_are_ordered_by_utf16_code_units() {
    let mut keys = ["\u{20ac}", "\r", "\u{fb33}", "1", "\u{1f600}", "\u{80}", "\u{f6}"];
    keys.sort_by(|a, b| utf16_order(a, b));
    assert_eq!(keys, ["\r", "1", "\u{80}", "\u{f6}", "\u{20ac}", "\u{1f600}", "\u{fb33}"]);
}

#[test]
fn keys_that_start_alike_are_told_apart() {
    let keys =
        [r"a", r"a\u0000", r"a\u0000b", r"", r"abcdefgh", r"abcdefghi", r"abcdefgha", r"abcdefg", r"abcdefg\u00e9", r"\u0061a"];
    let members: Vec<String> = keys.iter().map(|key| format!("\"{key}\":0")).collect();
    let doc = document(&format!("{{{}}}", members.join(",")));
    let sorted: Vec<&str> =
        doc.root().as_object().map(|object| object.sorted().map(|(key, _)| key).collect()).unwrap_or_default();
    let mut expected: Vec<String> = keys.iter().map(|key| serde_json::from_str(&format!("\"{key}\"")).expect("valid")).collect();
    expected.sort_by_key(|key| key.encode_utf16().collect::<Vec<_>>());
    assert_eq!(sorted, expected);
    refused(br#"{"abcdefghij":1,"abcdefghi":2,"abcdefghij":3}"#, crate::codes::json::DUPLICATE_KEY);
}

#[test]
fn white_space_is_skipped_alike_at_every_length() {
    for length in 0..40 {
        for pad in [" ", "\n", "\t", "\r", "\n ", " \t"] {
            let pad = format!("{}{}", pad.repeat(length % 3), " ".repeat(length));
            let doc = document(&format!("{pad}{{{pad}\"a\"{pad}:{pad}[{pad}1{pad},{pad}2{pad}]{pad}}}{pad}"));
            assert_eq!(Canonical::of(&doc).expect("I-JSON").as_str(), r#"{"a":[1,2]}"#);
        }
        // A vertical tab or a no-break space is not JSON whitespace, at any position in the run.
        refused(format!("{}\u{b}1", " ".repeat(length)).as_bytes(), crate::codes::json::SYNTAX);
        refused(format!("{}\u{a0}1", " ".repeat(length)).as_bytes(), crate::codes::json::SYNTAX);
    }
}

#[test]
fn lossy_numbers_are_known() {
    let doc = document("[9007199254740991, 9007199254740992, -9007199254740993, 1e-400, 0e-400, 0.0, 1e21]");
    let lossy: Vec<_> = doc.lossy_numbers().map(|(value, loss)| (value.source().to_owned(), loss)).collect();
    assert_eq!(
        lossy,
        [
            ("9007199254740992".to_owned(), PrecisionLoss::Digits),
            ("-9007199254740993".to_owned(), PrecisionLoss::Digits),
            ("1e-400".to_owned(), PrecisionLoss::Everything)
        ]
    );
}

#[test]
fn strings_are_scanned_alike_at_every_length() {
    for length in 0..40 {
        for special in ["\\n", "\\\"", "\\u0041", "é"] {
            let text = format!("\"{}{special}{}\"", "a".repeat(length), "b".repeat(length));
            let doc = document(&text);
            let expected: String = serde_json::from_str(&text).expect("valid");
            assert_eq!(doc.root().as_str(), Some(expected.as_str()));
        }
    }
}

mod properties {
    use proptest::prelude::*;
    use serde_json::Value as Json;

    use super::*;

    fn json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i32>().prop_map(Json::from),
            any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(Json::from),
            any::<String>().prop_map(Json::from),
        ];
        leaf.prop_recursive(5, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Json::from),
                prop::collection::vec((any::<String>(), inner), 0..8)
                    .prop_map(|members| Json::Object(members.into_iter().collect())),
            ]
        })
    }

    /// Returns the value with its `at`th leaf replaced; decrements `at` at each leaf.
    fn disturbed(value: &Json, at: &mut usize) -> Json {
        match value {
            Json::Object(members) if !members.is_empty() => {
                Json::Object(members.iter().map(|(k, v)| (k.clone(), disturbed(v, at))).collect())
            }
            Json::Array(elements) if !elements.is_empty() => elements.iter().map(|element| disturbed(element, at)).collect(),
            leaf if *at == 0 => {
                *at = usize::MAX;
                match leaf {
                    Json::String(text) => format!("{text}\u{1f600}").into(),
                    Json::Bool(flag) => (!flag).into(),
                    Json::Null => false.into(),
                    Json::Number(number) if number.as_f64() == Some(1.0) => 2.into(),
                    Json::Number(_) => 1.into(),
                    _ => "not empty".into(),
                }
            }
            leaf => {
                *at = at.saturating_sub(1);
                leaf.clone()
            }
        }
    }

    fn canonical(text: &str) -> String {
        Canonical::of(&document(text)).expect("I-JSON").as_str().to_owned()
    }

    fn reversed(value: &Json) -> Json {
        match value {
            Json::Object(members) => Json::Object(members.iter().rev().map(|(k, v)| (k.clone(), reversed(v))).collect()),
            Json::Array(elements) => elements.iter().map(reversed).collect(),
            other => other.clone(),
        }
    }

    /// Whether the canonical JSON is equal: numbers as doubles, minus zero as zero.
    fn same(a: &Json, b: &Json) -> bool {
        match (a, b) {
            (Json::Number(a), Json::Number(b)) => a.as_f64() == b.as_f64(),
            (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
            (Json::Object(a), Json::Object(b)) => {
                a.len() == b.len() && a.iter().all(|(k, a)| b.get(k).is_some_and(|b| same(a, b)))
            }
            (a, b) => a == b,
        }
    }

    proptest! {
        // req: CANON-002
        #[test]
        fn canonical_form_is_idempotent_and_ignores_order_and_layout(value in json()) {
            let compact = canonical(&value.to_string());
            prop_assert_eq!(&canonical(&compact), &compact);
            prop_assert_eq!(&canonical(&reversed(&value).to_string()), &compact);
            prop_assert_eq!(&canonical(&serde_json::to_string_pretty(&value).expect("serialises")), &compact);
        }

        #[test]
        fn reading_back_the_canonical_form_gives_the_value(value in json()) {
            let back: Json = serde_json::from_str(&canonical(&value.to_string())).expect("valid");
            prop_assert!(same(&value, &back), "{value} became {back}");
        }

        #[test]
        fn different_values_have_different_forms(a in json(), b in json()) {
            prop_assert_eq!(same(&a, &b), canonical(&a.to_string()) == canonical(&b.to_string()));
        }

        #[test]
        fn one_changed_leaf_changes_the_form_and_the_hash(value in json(), at in 0_usize..8) {
            let other = disturbed(&value, &mut at.clone());
            let hash = |value: &Json| Canonical::of(&document(&value.to_string())).expect("I-JSON").hash();
            prop_assert_eq!(hash(&value) == hash(&other), same(&value, &other));
            if at == 0 {
                prop_assert_ne!(canonical(&value.to_string()), canonical(&other.to_string()));
            }
        }

        // req: CANON-010, CANON-011
        #[test]
        fn two_other_canonicalisers_agree(value in json()) {
            let ours = canonical(&value.to_string());
            prop_assert_eq!(&serde_jcs::to_string(&value).expect("serialises"), &ours);
            prop_assert_eq!(&serde_json_canonicalizer::to_string(&value).expect("serialises"), &ours);
        }

        #[test]
        fn any_bytes_are_read_or_refused_alike_by_a_second_reader(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let ours = read(&bytes, Limits::default());
            if serde_json::from_slice::<Json>(&bytes).is_err() {
                prop_assert!(ours.findings.has_errors());
            }
        }
    }
}

#[test]
fn foreign_documents_are_read_on_with_a_warning() {
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let warned = |text: &str| {
        let reading = read_foreign(text.as_bytes(), Limits::default(), MAX_VALUES);
        let codes: Vec<_> = reading.findings.as_slice().iter().map(|finding| (finding.code.id(), finding.severity)).collect();
        (reading.document, codes)
    };
    let (document, codes) = warned(&deep(MAX_DEPTH));
    assert!(document.is_some() && codes.is_empty());
    let (document, codes) = warned(&deep(MAX_FOREIGN_DEPTH));
    let canonical = crate::canon::Canonical::of(&document.expect("a document")).expect("canonical bytes");
    assert_eq!((canonical.as_str(), codes), (deep(MAX_FOREIGN_DEPTH).as_str(), vec![("json.too_deep", Severity::Warning)]));
    let (document, codes) = warned(&deep(MAX_FOREIGN_DEPTH + 1));
    assert!(document.is_none());
    assert_eq!(codes, [("json.too_deep", Severity::Warning), ("json.too_deep", Severity::Error)]);

    let wide = format!("[{}]", vec!["1"; MAX_VALUES].join(","));
    let (document, codes) = warned(&wide);
    assert_eq!(
        (document.expect("a document").root().size(), codes),
        (MAX_VALUES + 1, vec![("json.too_many_values", Severity::Warning)])
    );
    // Both, one after the other.
    let (document, codes) = warned(&format!("[{wide},{}]", deep(MAX_DEPTH)));
    assert!(document.is_some());
    assert_eq!(codes.iter().map(|(code, _)| *code).collect::<Vec<_>>(), ["json.too_many_values", "json.too_deep"]);
}
