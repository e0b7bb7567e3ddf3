use alloy_primitives::{Address, address};
use proptest::prelude::*;

use super::siwe::SignedMessage;
use super::siwx::{EXTENSION, Proposal, SignedIn};
use super::*;
use crate::{Raw, Signature, header};

const ACCOUNT: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");

fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).expect("a time")
}

fn fields() -> Fields {
    Fields {
        scheme: None,
        domain: "api.shop.example:8443".to_owned(),
        address: ACCOUNT,
        statement: None,
        uri: "https://api.shop.example:8443/report?x=1".to_owned(),
        chain_id: 8453,
        nonce: "0b9f4c1122334455".to_owned(),
        issued_at: time("2026-11-16T08:00:00.000Z"),
        expiration_time: None,
        not_before: None,
        request_id: None,
        resources: None,
    }
}

#[test]
fn a_message_is_for_one_chain() {
    let message = Message::new(fields()).expect("sound");
    assert_eq!(message.check_chain(8453), Ok(()));
    for other in [0, 1, 84_532, u64::MAX] {
        assert_eq!(message.check_chain(other), Err(Refused(code::CHAIN)), "{other}");
    }
}

const HEAD: &str =
    "api.shop.example:8443 wants you to sign in with your Ethereum account:\n0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266\n\n";
const BODY: &str = "\nURI: https://api.shop.example:8443/report?x=1\nVersion: 1\nChain ID: 8453\nNonce: 0b9f4c1122334455\nIssued At: 2026-11-16T08:00:00.000Z";

/// The texts that `@signinwithethereum/siwe` 4.2 and viem 2 create from the same fields.
#[test]
fn texts_are_those_of_other_libraries() {
    let full = Fields {
        statement: Some("A".to_owned()),
        expiration_time: Some(time("2026-11-16T08:05:00Z")),
        not_before: Some(time("2026-11-16T07:59:00+01:00")),
        request_id: Some("a-b_c~1".to_owned()),
        resources: Some(vec!["https://a.example/x".to_owned(), "ipfs://q".to_owned()]),
        ..fields()
    };
    let odd =
        Fields { scheme: Some("https".to_owned()), request_id: Some(String::new()), resources: Some(Vec::new()), ..fields() };
    for (fields, text) in [
        (fields(), format!("{HEAD}{BODY}")),
        (
            Fields { statement: Some("Sign in to use this tool.".to_owned()), ..fields() },
            format!("{HEAD}Sign in to use this tool.\n{BODY}"),
        ),
        (
            full,
            format!(
                "{HEAD}A\n{BODY}\nExpiration Time: 2026-11-16T08:05:00Z\nNot Before: 2026-11-16T07:59:00+01:00\nRequest ID: a-b_c~1\nResources:\n- https://a.example/x\n- ipfs://q"
            ),
        ),
        (odd, format!("https://{HEAD}{BODY}\nRequest ID: \nResources:")),
    ] {
        let message = Message::new(fields).expect("sound");
        assert_eq!(message.text(), text);
        assert_eq!(Message::parse(&text), Ok(message));
    }
}

#[test]
fn other_texts_are_refused() {
    let good = format!("{HEAD}Sign in.\n{BODY}\nExpiration Time: 2026-11-16T08:05:00Z");
    Message::parse(&good).expect("sound");
    let lower = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";
    for (from, to, fault) in [
        ("api.shop.example:8443 wants", "evil.example@api.shop.example:8443 wants", MessageFault::Domain),
        ("api.shop.example:8443 wants", " wants", MessageFault::Domain),
        ("api.shop.example:8443 wants", "api.shop.example/a wants", MessageFault::Domain),
        ("Ethereum account", "Solana account", MessageFault::Form),
        ("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", lower, MessageFault::Address),
        ("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "0x01", MessageFault::Address),
        ("Sign in.", "Sign in\r.", MessageFault::Statement),
        ("Sign in.", "Sign\u{202e}in.", MessageFault::Statement),
        ("Sign in.", "50% \"off\"", MessageFault::Statement),
        ("Sign in.\n", "Sign in.\nTwice.\n", MessageFault::Form),
        ("URI: https://", "URI: //", MessageFault::Uri),
        ("report?x=1", "report?x= 1", MessageFault::Uri),
        ("report?x=1", "report?x=%1", MessageFault::Uri),
        ("Version: 1", "Version: 2", MessageFault::Version),
        ("Version: 1", "Version: 01", MessageFault::Version),
        ("Chain ID: 8453", "Chain ID: 08453", MessageFault::Form),
        ("Chain ID: 8453", "Chain ID: +8453", MessageFault::Form),
        ("Chain ID: 8453", "Chain ID: 0x2105", MessageFault::ChainId),
        ("Chain ID: 8453", "Chain ID: 99999999999999999999", MessageFault::ChainId),
        ("0b9f4c1122334455", "0b9f4c1", MessageFault::Nonce),
        ("0b9f4c1122334455", "0b9f4c11-2334455", MessageFault::Nonce),
        ("2026-11-16T08:00:00.000Z", "2026-11-16", MessageFault::Time),
        ("2026-11-16T08:05:00Z", "tomorrow", MessageFault::Time),
        ("Expiration Time", "expiration time", MessageFault::Form),
        ("\nExpiration Time: ", "\n\nExpiration Time: ", MessageFault::Form),
        ("\n", "\r\n", MessageFault::Form),
    ] {
        let text = good.replace(from, to);
        assert_ne!(text, good, "{from}");
        assert_eq!(Message::parse(&text), Err(fault), "{from} -> {to}");
    }
    for text in ["", "\n", &good[..good.len() - 1], &format!("{good}\n"), &format!(" {good}"), &format!("{good}\nResources: ")] {
        assert!(Message::parse(text).is_err(), "{text}");
    }
    assert_eq!(Message::parse(&"a".repeat(MAX_MESSAGE_BYTES + 1)), Err(MessageFault::TooLong));
    // Fields in the wrong order are invalid.
    let swapped = format!("{HEAD}{BODY}\nNot Before: 2026-11-16T07:59:00Z\nExpiration Time: 2026-11-16T08:05:00Z");
    assert_eq!(Message::parse(&swapped), Err(MessageFault::Form));
}

#[test]
fn a_field_cannot_pretend_to_be_another() {
    for statement in ["A\n\nURI: https://evil.example", "A\nB", ""] {
        assert_eq!(Message::new(Fields { statement: Some(statement.to_owned()), ..fields() }), Err(MessageFault::Statement));
    }
    let uri = "https://a.example\nVersion: 1".to_owned();
    assert_eq!(Message::new(Fields { uri, ..fields() }), Err(MessageFault::Uri));
    let resources = Some(vec!["https://a.example\n- https://b.example".to_owned()]);
    assert_eq!(Message::new(Fields { resources, ..fields() }), Err(MessageFault::Resources));
    let request_id = Some("a\nResources:".to_owned());
    assert_eq!(Message::new(Fields { request_id, ..fields() }), Err(MessageFault::RequestId));
}

#[test]
fn the_audience_is_domain_origin_and_path() {
    let message = |domain: &str, uri: &str| {
        Message::new(Fields { domain: domain.to_owned(), uri: uri.to_owned(), ..fields() }).expect("sound")
    };
    let endpoint = HttpsUrl::parse("https://tools.example.com/tides").expect("a URL");
    let with_port = HttpsUrl::parse("https://tools.example.com:8443/tides").expect("a URL");
    assert_eq!((domain_of(&endpoint).as_str(), domain_of(&with_port).as_str()), ("tools.example.com", "tools.example.com:8443"));
    for (domain, uri, code) in [
        ("tools.example.com", "https://tools.example.com/tides", None),
        ("tools.example.com", "https://tools.example.com:443/tides?at=1", None),
        ("TOOLS.example.com", "https://tools.example.com/tides", Some(code::DOMAIN)),
        ("tools.example.com:443", "https://tools.example.com/tides", Some(code::DOMAIN)),
        ("evil.example", "https://tools.example.com/tides", Some(code::DOMAIN)),
        ("tools.example.com", "https://evil.example/tides", Some(code::URI)),
        ("tools.example.com", "http://tools.example.com/tides", Some(code::URI)),
        ("tools.example.com", "https://tools.example.com:8443/tides", Some(code::URI)),
        ("tools.example.com", "https://tools.example.com/tide", Some(code::URI)),
        ("tools.example.com", "https://tools.example.com", Some(code::URI)),
    ] {
        let checked = message(domain, uri).check_audience(&endpoint).err().map(|refused| refused.0);
        assert_eq!(checked, code, "{domain} {uri}");
    }
    let plain = Message::new(Fields { scheme: Some("http".to_owned()), domain: "tools.example.com".to_owned(), ..fields() });
    assert_eq!(plain.expect("sound").check_audience(&endpoint), Err(Refused(code::DOMAIN)));
}

#[test]
fn times_are_bounded() {
    let issued = parse_time("2026-11-16T08:00:00Z");
    let message = Message::new(fields()).expect("sound");
    for (after, expected) in [
        (-61, Err(code::NOT_YET)),
        (-60, Ok(300)),
        (0, Ok(300)),
        (299, Ok(300)),
        (300, Err(code::EXPIRED)),
        (i64::MAX / 2, Err(code::EXPIRED)),
    ] {
        let checked = message.check_time(issued.plus(after), MAX_AGE_SECONDS);
        assert_eq!(checked.map(|ends| ends.since(issued)).map_err(|refused| refused.0), expected, "{after}");
    }
    let short = Fields { expiration_time: Some(time("2026-11-16T08:01:00Z")), ..fields() };
    let short = Message::new(short).expect("sound");
    assert_eq!(short.check_time(issued.plus(59), 300).map(|ends| ends.since(issued)), Ok(60));
    assert_eq!(short.check_time(issued.plus(60), 300), Err(Refused(code::EXPIRED)));
    let later = Fields { not_before: Some(time("2026-11-16T08:02:00Z")), ..fields() };
    let later = Message::new(later).expect("sound");
    assert_eq!(later.check_time(issued, 300), Err(Refused(code::NOT_YET)));
    assert!(later.check_time(issued.plus(60), 300).is_ok());

    for (after, expiration, expected) in [
        (0, None, Ok(())),
        (300, None, Ok(())),
        (301, None, Err(code::EXPIRED)),
        (-61, None, Err(code::NOT_YET)),
        (0, Some("2026-11-16T08:00:00Z"), Err(code::EXPIRED)),
        (0, Some("2026-11-16T09:00:00Z"), Ok(())),
        (0, Some("2026-11-16T09:00:01Z"), Err(code::LIFETIME)),
    ] {
        let message = Message::new(Fields { expiration_time: expiration.map(time), ..fields() }).expect("sound");
        let checked = message.check_proposal(issued.plus(after)).map_err(|refused| refused.0);
        assert_eq!(checked, expected, "{after} {expiration:?}");
    }
}

fn parse_time(text: &str) -> UnixTime {
    time(text).at()
}

fn proposal() -> Proposal {
    Proposal {
        domain: "api.shop.example".to_owned(),
        statement: Some("Sign in.".to_owned()),
        uri: "https://api.shop.example/report".to_owned(),
        nonce: "0b9f4c1122334455".to_owned(),
        issued_at: time("2026-11-16T08:00:00.000Z"),
        expiration_time: Some(time("2026-11-16T08:05:00.000Z")),
        not_before: None,
        request_id: None,
        resources: Some(vec!["https://api.shop.example/report".to_owned()]),
        chains: vec![8453, 1],
    }
}

fn signature() -> Signature {
    Signature::new(vec![7; 65]).expect("65 bytes")
}

#[test]
fn proposals_and_answers_read_back() {
    let proposal = proposal();
    let (name, value) = proposal.extension();
    assert_eq!(Raw::parse(value.as_str()), Some(value.clone()), "canonical");
    assert_eq!(Proposal::announced(&vec![(name, value.clone())]), Some(Ok(proposal.clone())));
    assert_eq!(Proposal::announced(&Vec::new()), None);
    let message = proposal.message(ACCOUNT, 8453).expect("sound");
    let answer = SignedIn { message, signature: signature() };
    assert_eq!(SignedIn::read(&answer.to_header().expect("short")), Ok(answer));
    for (from, to) in [
        ("\"version\":\"1\"", "\"version\":\"2\""),
        ("\"nonce\":", "\"once\":"),
        ("\"domain\":\"api.shop.example\"", "\"domain\":7"),
        ("2026-11-16T08:00:00.000Z", "yesterday"),
        ("\"resources\":[", "\"resources\":[7,"),
        ("\"supportedChains\":[", "\"supportedChains\":7,\"x\":["),
        ("\"info\":", "\"inf\":"),
    ] {
        let broken = value.as_str().replacen(from, to, 1);
        assert_ne!(broken, value.as_str(), "{from}");
        let extensions = vec![(EXTENSION.to_owned(), Raw::parse(&broken).expect("JSON"))];
        assert!(matches!(Proposal::announced(&extensions), Some(Err(_))), "{from}");
    }
    // Chains of other namespaces are ignored.
    let mixed = value.as_str().replacen(
        r#"{"chainId":"eip155:8453","type":"eip191"}"#,
        r#"{"chainId":"solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp","type":"ed25519"}"#,
        1,
    );
    let extensions = vec![(EXTENSION.to_owned(), Raw::parse(&mixed).expect("JSON"))];
    assert_eq!(Proposal::announced(&extensions).map(|read| read.map(|proposal| proposal.chains)), Some(Ok(vec![1])));
}

#[test]
fn broken_answers_are_refused() {
    let answer = SignedIn { message: proposal().message(ACCOUNT, 8453).expect("sound"), signature: signature() };
    let good = String::from_utf8(header::decode(&answer.to_header().expect("short")).expect("base64")).expect("JSON");
    assert_eq!(SignedIn::read(&header::encode(good.as_bytes())), Ok(answer));
    for (from, to, code) in [
        ("eip155:8453", "eip155:x", code::CHAIN),
        ("eip155:8453", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", code::CHAIN),
        ("\"type\":\"eip191\"", "\"type\":\"ed25519\"", code::CHAIN),
        ("\"signature\":\"0x07", "\"signature\":\"0y07", code::HEADER),
        ("\"address\":\"0xf3", "\"address\":\"0xf", code::HEADER),
        ("\"version\":\"1\"", "\"version\":1", code::MESSAGE),
        ("Sign in.", "Sign\\nin.", code::MESSAGE),
        ("{", "{\"domain\":\"a\",", code::HEADER),
    ] {
        let broken = good.replacen(from, to, 1);
        assert_ne!(broken, good, "{from}");
        assert_eq!(SignedIn::read(&header::encode(broken.as_bytes())), Err(Refused(code)), "{from} -> {to}");
    }
    for value in ["", "%%%", "e30", "e30=", &"A".repeat(20_000)] {
        assert!(SignedIn::read(value).is_err(), "{value}");
    }
}

#[test]
fn authorization_headers_read_back() {
    let url = HttpsUrl::parse("https://tools.example.com/tides?at=1#top").expect("a URL");
    let now = parse_time("2026-11-16T08:00:00Z");
    let message = siwe::message(&url, ACCOUNT, 8453, "0b9f4c1122334455".to_owned(), now).expect("sound");
    assert_eq!(message.fields().uri, "https://tools.example.com/tides?at=1");
    message.check_audience(&url).expect("its own");
    assert_eq!(message.check_time(now, 900).map(|ends| ends.since(now)), Ok(300));
    let signed = SignedMessage { message, signature: signature() };
    let value = signed.to_header();
    assert_eq!(SignedMessage::read(&value), Some(Ok(signed.clone())));
    assert_eq!(SignedMessage::read(&value.replacen("SIWE", "siwe", 1)), Some(Ok(signed)));
    for other in ["Bearer abc", "SIWE", "", "Basic YTpi"] {
        assert_eq!(SignedMessage::read(other), None, "{other}");
    }
    let (token, tail) = value.rsplit_once('.').expect("a dot");
    for broken in [
        "SIWE ".to_owned(),
        "SIWE abc".to_owned(),
        token.to_owned(),
        format!("{token}."),
        format!("{token}.0x00"),
        format!("{token}=.{tail}"),
        format!("{token} .{tail}"),
        format!("SIWE aGVsbG8.{tail}"),
        format!("SIWE {}.{tail}", "A".repeat(20_000)),
    ] {
        assert!(matches!(SignedMessage::read(&broken), Some(Err(_))), "{broken}");
    }
}

prop_compose! {
    fn any_fields()(
        scheme in prop::option::of("[a-z][a-z0-9+.-]{0,6}"),
        domain in "[a-z0-9.-]{1,20}(:[0-9]{1,5})?",
        address in any::<[u8; 20]>(),
        statement in prop::option::of("[A-Za-z0-9 .,:;/?#=!@_~-]{1,40}"),
        uri in "[a-z]{1,6}://[a-z0-9.]{1,10}(/[A-Za-z0-9._~-]{0,8}){0,3}(\\?[a-z]=(%[0-9A-F]{2})?)?",
        chain_id in any::<u64>(),
        nonce in "[A-Za-z0-9]{8,40}",
        seconds in (0_i64..4_000_000_000, prop::option::of(0_i64..4_000_000_000), prop::option::of(0_i64..4_000_000_000)),
        request_id in prop::option::of("[A-Za-z0-9._~-]{0,12}"),
        resources in prop::option::of(prop::collection::vec("[a-z]{1,5}:[a-z0-9/]{0,12}", 0..4)),
    ) -> Fields {
        let at = |seconds| Timestamp::of(UnixTime::from_seconds(seconds)).expect("in range");
        Fields {
            scheme,
            domain,
            address: Address::from(address),
            statement,
            uri,
            chain_id,
            nonce,
            issued_at: at(seconds.0),
            expiration_time: seconds.1.map(at),
            not_before: seconds.2.map(at),
            request_id,
            resources,
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back(fields in any_fields()) {
        let message = Message::new(fields.clone()).expect("sound");
        let read = Message::parse(message.text());
        prop_assert_eq!(read.as_ref().map(Message::fields), Ok(&fields));
    }

    /// Any change of a text gives other fields or an error: a signature covers exactly what is parsed.
    #[test]
    fn a_changed_text_is_another_message(fields in any_fields(), at in any::<prop::sample::Index>(), byte in 0_u8..128) {
        let message = Message::new(fields).expect("sound");
        let mut bytes = message.text().as_bytes().to_vec();
        let at = at.index(bytes.len());
        prop_assume!(bytes[at] != byte);
        bytes[at] = byte;
        let text = String::from_utf8(bytes).expect("ASCII");
        if let Ok(other) = Message::parse(&text) {
            prop_assert_ne!(other.fields(), message.fields());
            prop_assert_eq!(other.text(), text);
        }
    }

    #[test]
    fn any_text_is_read_without_a_panic(text in any::<String>(), value in "[ -~]{0,200}") {
        let _ = Message::parse(&text);
        let _ = SignedIn::read(&value);
        let _ = SignedMessage::read(&format!("SIWE {value}"));
    }

    #[test]
    fn headers_carry_any_message(fields in any_fields()) {
        let message = Message::new(Fields { scheme: None, ..fields }).expect("sound");
        let answer = SignedIn { message: message.clone(), signature: signature() };
        prop_assert_eq!(SignedIn::read(&answer.to_header().expect("short")), Ok(answer));
        let signed = SignedMessage { message, signature: signature() };
        prop_assert_eq!(SignedMessage::read(&signed.to_header()), Some(Ok(signed)));
    }
}
