use super::*;
use crate::agent::AgtDomain;

const POINTER: &str = "agt-manifest=ipfs://bafkreigerz3nhhy7zonh55srsphplgwzr7ai2lctakkvqvalxxlfuikvk4";

fn domain() -> AgtDomain {
    AgtDomain::parse("exampleagent.agt").unwrap()
}

fn dns(json: &str) -> Result<JsonAnswer, Code> {
    read_dns_json(json.as_bytes(), &domain()).map_err(|fault| fault.code)
}

fn freename(json: &str) -> Result<JsonAnswer, Code> {
    read_freename(json.as_bytes(), &domain()).map_err(|fault| fault.code)
}

fn records(values: &[&[u8]]) -> Result<JsonAnswer, Code> {
    Ok(JsonAnswer::Records(values.iter().map(|value| value.to_vec()).collect()))
}

#[test]
fn character_strings_are_joined_without_separator() {
    let join = |text: &str| join_character_strings(text);
    assert_eq!(join(r#""a" "b""#).unwrap(), b"ab");
    assert_eq!(join(r#"  "agt-" 	 "manifest="  "#).unwrap(), b"agt-manifest=");
    assert_eq!(join(r#""q\"q\\ \255\000\;""#).unwrap(), b"q\"q\\ \xff\0;");
    assert_eq!(join("\"é\"").unwrap(), "é".as_bytes());
    assert_eq!(join(r#""""#).unwrap(), b"");
    assert_eq!(join("").unwrap(), b"");
    for bad in [r#"""a"#, r#""a"#, r#""a\"#, r#""a\25"#, r#""a\256""#, r#""a\2x5""#, r#""a""b""#, r#""a" b"#, "a", r#""a"; "b""#]
    {
        assert_eq!(join(bad), None, "{bad}");
    }
}

// req: AGT-001
#[test]
fn dns_json_gives_records_in_every_common_spelling() {
    let answer = |data: &str| {
        format!(
            r#"{{"Status":0,"TC":false,"RD":true,"Question":[{{"name":"exampleagent.agt.","type":16}}],
            "Answer":[{{"name":"ExampleAgent.agt.","type":16,"TTL":300,"data":{data}}}]}}"#
        )
    };
    let quoted = format!(r#""\"{POINTER}\"""#);
    assert_eq!(dns(&answer(&quoted)), records(&[POINTER.as_bytes()]));
    let (first, second) = POINTER.split_at(20);
    assert_eq!(dns(&answer(&format!(r#""\"{first}\" \"{second}\"""#))), records(&[POINTER.as_bytes()]));
    // Joined by the server, and longer than one character-string can be.
    let long = "x".repeat(400);
    assert_eq!(dns(&answer(&format!(r#""{long}""#))), records(&[long.as_bytes()]));
    assert_eq!(dns(&answer(r#""\"\\255\\000\"""#)), records(&[b"\xff\0"]));
    assert_eq!(dns(&answer(r#""\"open""#)), Err(codes::agent::TXT_ANSWER_MALFORMED));
    assert_eq!(dns(&answer("7")), Err(codes::agent::TXT_ANSWER_MALFORMED));
}

#[test]
fn dns_json_tells_no_records_from_no_name_and_from_failure() {
    assert_eq!(dns(r#"{"Status":0}"#), Ok(JsonAnswer::NoRecords));
    assert_eq!(dns(r#"{"Status":0,"Answer":[]}"#), Ok(JsonAnswer::NoRecords));
    assert_eq!(
        dns(r#"{"Status":0,"Answer":[{"name":"exampleagent.agt","type":1,"data":"1.2.3.4"}]}"#),
        Ok(JsonAnswer::NoRecords)
    );
    assert_eq!(dns(r#"{"Status":3}"#), Ok(JsonAnswer::NotFound));
    assert_eq!(dns(r#"{"Status":2}"#), Err(codes::agent::DNS_SERVER_FAILURE));
    assert_eq!(dns(r#"{"Status":5}"#), Err(codes::agent::DNS_REFUSED));
    assert_eq!(dns(r#"{"Status":0,"TC":true}"#), Err(codes::agent::DNS_TRUNCATED));
    for odd in [
        "",
        "null",
        "[]",
        "{}",
        r#"{"Status":"0"}"#,
        r#"{"Status":0,"Status":3}"#,
        r#"{"Status":0,"TC":"no"}"#,
        r#"{"Status":0,"Answer":{}}"#,
        r#"{"Status":0,"Answer":[{"name":"exampleagent.agt"}]}"#,
        r#"{"Status":0,"Answer":[1]}"#,
        r#"{"Status":3,"Answer":[{"name":"exampleagent.agt","type":16,"data":"x"}]}"#,
        "<html>",
    ] {
        assert_eq!(dns(odd), Err(codes::agent::TXT_ANSWER_MALFORMED), "{odd}");
    }
}

#[test]
fn dns_json_follows_aliases_and_refuses_other_names() {
    let entry = |name: &str, kind: u8, data: &str| format!(r#"{{"name":"{name}","type":{kind},"data":"{data}"}}"#);
    let answer = |entries: &[String]| format!(r#"{{"Status":0,"Answer":[{}]}}"#, entries.join(","));
    let alias = entry("exampleagent.agt.", 5, "host.example.");
    assert_eq!(dns(&answer(&[alias.clone(), entry("HOST.example", 16, "x")])), records(&[b"x"]));
    // The order of the entries does not matter.
    assert_eq!(dns(&answer(&[entry("host.example", 16, "x"), alias.clone()])), records(&[b"x"]));
    assert_eq!(dns(&answer(std::slice::from_ref(&alias))), Ok(JsonAnswer::NoRecords));
    let dangling = answer(std::slice::from_ref(&alias)).replace(r#""Status":0"#, r#""Status":3"#);
    assert_eq!(dns(&dangling), Ok(JsonAnswer::NoRecords));
    assert_eq!(dns(&answer(&[alias.clone(), entry("exampleagent.agt", 16, "x")])), Err(codes::agent::TXT_ANSWER_OTHER_NAME));
    assert_eq!(dns(&answer(&[entry("other.agt", 16, "x")])), Err(codes::agent::TXT_ANSWER_OTHER_NAME));
    let two = answer(&[alias.clone(), entry("exampleagent.agt", 5, "b.example")]);
    assert_eq!(dns(&two), Err(codes::agent::TXT_ANSWER_MALFORMED));
    let back = entry("host.example", 5, "exampleagent.agt");
    assert_eq!(dns(&answer(&[alias, back])), Err(codes::agent::DNS_ALIASES));
    let question = r#"{"Status":3,"Question":[{"name":"other.agt","type":16}]}"#;
    assert_eq!(dns(question), Err(codes::agent::TXT_ANSWER_OTHER_NAME));
    assert_eq!(
        dns(r#"{"Status":3,"Question":[{"name":"exampleagent.agt","type":1}]}"#),
        Err(codes::agent::TXT_ANSWER_OTHER_NAME)
    );
    // Eight aliases are followed, nine are not.
    let chain = |length: usize| {
        let name = |at: usize| if at == 0 { "exampleagent.agt".to_owned() } else { format!("a{at}.example") };
        let mut entries: Vec<_> = (0..length).map(|at| entry(&name(at), 5, &name(at + 1))).collect();
        entries.push(entry(&name(length), 16, "x"));
        answer(&entries)
    };
    assert_eq!(dns(&chain(MAX_ALIASES)), records(&[b"x"]));
    assert_eq!(dns(&chain(MAX_ALIASES + 1)), Err(codes::agent::DNS_ALIASES));
}

#[test]
fn too_much_is_refused_and_never_cut() {
    let answer = |count: usize, length: usize| {
        let entry = format!(r#"{{"name":"exampleagent.agt","type":16,"data":"{}"}}"#, "x".repeat(length));
        format!(r#"{{"Status":0,"Answer":[{}]}}"#, vec![entry; count].join(","))
    };
    assert!(matches!(dns(&answer(MAX_RECORDS, 1)), Ok(JsonAnswer::Records(found)) if found.len() == MAX_RECORDS));
    assert_eq!(dns(&answer(MAX_RECORDS + 1, 1)), Err(codes::agent::TXT_TOO_MUCH));
    assert!(dns(&answer(1, MAX_TOTAL_BYTES)).is_ok());
    assert_eq!(dns(&answer(1, MAX_TOTAL_BYTES + 1)), Err(codes::agent::TXT_TOO_MUCH));
    assert_eq!(dns(&answer(1, MAX_ANSWER_BYTES)), Err(codes::agent::TXT_ANSWER_MALFORMED));
}

#[test]
fn freename_answers_are_read_with_their_quotes_removed() {
    let answer = |records: &str| {
        format!(
            r#"{{"result":true,"data":{{"name":"exampleagent.agt","asciiName":"exampleagent.agt","level":"SECOND","network":"POLYGON",
            "tokenId":"{}","owner":"0x912D39E13b0bDAe2C5Cf5D0E2f9F4B38aE9c7f6a","records":{records}}}}}"#,
            domain().token_id()
        )
    };
    let record = |value: &str| {
        answer(&format!(r#"[{{"key":null,"type":"TXT","value":{value}}},{{"key":"@","type":"A","value":"1.2.3.4"}}]"#))
    };
    assert_eq!(freename(&record(&format!(r#""\"{POINTER}\"""#))), records(&[POINTER.as_bytes()]));
    assert_eq!(freename(&record(r#""\"a\" \"b\"""#)), records(&[b"ab"]));
    assert_eq!(freename(&record(r#""bare = value""#)), records(&[b"bare = value"]));
    assert_eq!(freename(&record(r#""\"a \"b\" c\"""#)), records(&[b"a \"b\" c"]));
    assert_eq!(freename(&answer("[]")), Ok(JsonAnswer::NoRecords));
    assert_eq!(freename(&answer("null")), Ok(JsonAnswer::NoRecords));
    for odd in ["{}", "[1]", r#"[{"type":"TXT"}]"#, r#"[{"type":"TXT","value":7}]"#, r#"[{"value":"x"}]"#] {
        assert_eq!(freename(&answer(odd)), Err(codes::agent::TXT_ANSWER_MALFORMED), "{odd}");
    }
}

#[test]
fn freename_answers_for_another_name_are_refused() {
    let data = |fields: &str| freename(&format!(r#"{{"data":{{{fields},"records":[]}}}}"#));
    assert_eq!(data(r#""name":"ExampleAgent.AGT""#), Ok(JsonAnswer::NoRecords));
    assert_eq!(data(r#""name":"other.agt""#), Err(codes::agent::TXT_ANSWER_OTHER_NAME));
    assert_eq!(data(r#""name":"exampleagent.agt","asciiName":"other.agt""#), Err(codes::agent::TXT_ANSWER_OTHER_NAME));
    assert_eq!(data(r#""name":"exampleagent.agt","tokenId":"7""#), Err(codes::agent::TXT_ANSWER_OTHER_NAME));
    assert_eq!(data(r#""level":"SECOND""#), Err(codes::agent::TXT_ANSWER_MALFORMED));
    assert_eq!(data(r#""name":7"#), Err(codes::agent::TXT_ANSWER_MALFORMED));
    for odd in ["", "{}", "[]", r#"{"data":null}"#, r#"{"data":[]}"#] {
        assert_eq!(freename(odd), Err(codes::agent::TXT_ANSWER_MALFORMED), "{odd}");
    }
    let unicode = AgtDomain::from_input("münchen.agt").unwrap();
    let answer = r#"{"data":{"name":"münchen.agt","asciiName":"xn--mnchen-3ya.agt","records":[]}}"#;
    assert_eq!(read_freename(answer.as_bytes(), &unicode), Ok(JsonAnswer::NoRecords));
}
