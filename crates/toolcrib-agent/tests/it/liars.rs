//! Name servers that lie, violate the protocol, or waste time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{CNAME, TXT};
use hickory_proto::rr::{RData, Record, RecordType};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};
use toolcrib_agent::evidence::TxtLookup;
use toolcrib_agent::source::TxtSource as _;
use toolcrib_agent::txt_writer::{RecordChange, TxtWriter as _, UpdateSettings, UpdateWriter};

use crate::authority::{name, pair};
use crate::support::{POINTER, SystemClock, code, domain, records, settings, source};

/// The server's datagrams for one UDP query, in order.
type Datagrams = fn(&Message) -> Vec<Vec<u8>>;

/// The server's bytes for one TCP query, in pieces of this size with pauses between them.
struct Stream {
    bytes: Vec<u8>,
    piece: usize,
    pause: Duration,
}

impl From<Vec<u8>> for Stream {
    /// A complete message with its length prefix.
    fn from(message: Vec<u8>) -> Self {
        let length = u16::try_from(message.len()).expect("a message");
        let bytes = [&length.to_be_bytes()[..], &message].concat();
        Self { piece: bytes.len(), bytes, pause: Duration::ZERO }
    }
}

type Streams = fn(&Message) -> Stream;

fn serve_udp(socket: UdpSocket, script: Datagrams) {
    tokio::spawn(async move {
        let mut buffer = [0; 4096];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let Ok(query) = Message::from_vec(&buffer[..length]) else { continue };
            for datagram in script(&query) {
                let _ = socket.send_to(&datagram, from).await;
            }
        }
    });
}

fn serve_tcp(listener: TcpListener, script: Streams) {
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let Ok(length) = stream.read_u16().await else { return };
                let mut query = vec![0; usize::from(length)];
                if stream.read_exact(&mut query).await.is_err() {
                    return;
                }
                let reply = script(&Message::from_vec(&query).expect("a query"));
                for piece in reply.bytes.chunks(reply.piece.max(1)) {
                    if stream.write_all(piece).await.is_err() {
                        return;
                    }
                    tokio::time::sleep(reply.pause).await;
                }
                // No response until the client gives up.
                let _ = stream.read_u8().await;
            });
        }
    });
}

/// The result of a lookup with these scripts behind one address, and its duration.
async fn ask(scheme: &str, udp: Datagrams, tcp: Streams) -> (TxtLookup, Duration) {
    let (socket, listener, address) = pair().await;
    serve_udp(socket, udp);
    serve_tcp(listener, tcp);
    lookup(scheme, address).await
}

async fn lookup(scheme: &str, address: SocketAddr) -> (TxtLookup, Duration) {
    let mut settings = settings(&format!("{scheme}://{address}"));
    settings.query_timeout = Duration::from_millis(600);
    settings.attempts = 3;
    settings.lookup_timeout = Duration::from_secs(6);
    let started = Instant::now();
    let outcome = source(settings).lookup(&domain("plain.agt")).await.outcome;
    (outcome, started.elapsed())
}

async fn udp(script: Datagrams) -> TxtLookup {
    ask("udp", script, |_| Vec::<u8>::new().into()).await.0
}

async fn tcp(script: Streams) -> TxtLookup {
    ask("tcp", |_| Vec::new(), script).await.0
}

fn reply(query: &Message, texts: &[&str]) -> Message {
    let mut message = Message::response(query.metadata.id, query.metadata.op_code);
    message.add_queries(query.queries.iter().cloned());
    let owner = query.queries[0].name().clone();
    message.add_answers(texts.iter().map(|text| Record::from_rdata(owner.clone(), 300, txt(text))));
    message
}

fn txt(text: &str) -> RData {
    RData::TXT(TXT::from_bytes(text.as_bytes().chunks(255).collect()))
}

fn bytes(message: &Message) -> Vec<u8> {
    message.to_vec().expect("a message")
}

fn honest(query: &Message) -> Vec<u8> {
    bytes(&reply(query, &[POINTER]))
}

fn with_id(query: &Message, difference: u16) -> Vec<u8> {
    let mut message = reply(query, &["agt-version=1"]);
    message.metadata.id = message.metadata.id.wrapping_add(difference);
    bytes(&message)
}

fn other_question(query: &Message) -> Vec<u8> {
    let mut message = reply(query, &["agt-version=1"]);
    message.queries = vec![Query::query(name("other.agt."), RecordType::TXT)];
    bytes(&message)
}

fn cut(query: &Message) -> Vec<u8> {
    let mut message = reply(query, &["agt-version=1"]);
    message.metadata.truncation = true;
    bytes(&message)
}

fn failing(query: &Message, response_code: ResponseCode) -> Vec<u8> {
    let mut message = reply(query, &[]);
    message.metadata.response_code = response_code;
    bytes(&message)
}

#[tokio::test]
async fn datagrams_that_do_not_fit_the_query_are_passed_over() {
    let expected = records(&[POINTER.as_bytes()]);
    assert_eq!(udp(|query| vec![with_id(query, 1), with_id(query, 2), honest(query)]).await, expected);
    assert_eq!(udp(|query| vec![other_question(query), honest(query)]).await, expected);
    assert_eq!(udp(|query| vec![vec![], vec![7], honest(query)]).await, expected);
    // The first response that fits counts; a second one changes nothing.
    assert_eq!(udp(|query| vec![honest(query), bytes(&reply(query, &["agt-version=1"]))]).await, expected);
    assert_eq!(code(&udp(|query| vec![with_id(query, 1)]).await), "agent.dns_timeout");
    assert_eq!(code(&udp(|query| vec![other_question(query)]).await), "agent.dns_timeout");
    assert_eq!(code(&udp(|_| Vec::new()).await), "agent.dns_timeout");
}

#[tokio::test]
async fn an_answer_with_the_wrong_letter_case_is_checked_over_tcp() {
    // An attacker who guesses the id and the port still must guess the case of the letters in the name.
    let script: Datagrams = |query| {
        let mut message = reply(query, &["agt-version=1"]);
        message.queries = vec![Query::query(name("plain.agt."), RecordType::TXT)];
        vec![bytes(&message)]
    };
    let mut told = Vec::new();
    for _ in 0..4 {
        told.push(ask("udp", script, |query| honest(query).into()).await.0);
    }
    // The random case is all lower case for one name in 256.
    assert!(told.contains(&records(&[POINTER.as_bytes()])), "{told:?}");
}

#[tokio::test]
async fn an_answer_from_another_port_does_not_count() {
    let (socket, listener, address) = pair().await;
    serve_tcp(listener, |_| Vec::<u8>::new().into());
    tokio::spawn(async move {
        let other = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
        let mut buffer = [0; 4096];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let query = Message::from_vec(&buffer[..length]).expect("a query");
            let _ = other.send_to(&bytes(&reply(&query, &["agt-version=1"])), from).await;
            let _ = socket.send_to(&honest(&query), from).await;
        }
    });
    assert_eq!(lookup("udp", address).await.0, records(&[POINTER.as_bytes()]));
}

#[tokio::test]
async fn garbage_is_a_failure() {
    let garbage: Datagrams =
        |query| vec![[&query.metadata.id.to_be_bytes()[..], &[0x84, 0, 0, 1, 0, 9, 0, 0, 0, 0, 0xff, 0xff]].concat()];
    assert_eq!(code(&udp(garbage).await), "agent.dns_malformed");
    let query: Datagrams = |query| {
        let mut message = reply(query, &[]);
        message.metadata.message_type = MessageType::Query;
        vec![bytes(&message)]
    };
    assert_eq!(code(&udp(query).await), "agent.dns_malformed");
    let both: Datagrams = |query| {
        let mut message = reply(query, &["agt-version=1"]);
        let owner = query.queries[0].name().clone();
        message.add_answer(Record::from_rdata(owner, 300, RData::CNAME(CNAME(name("other.agt.")))));
        vec![bytes(&message)]
    };
    assert_eq!(code(&udp(both).await), "agent.dns_malformed");
    // Records of another name do not count as those of the requested name.
    let unasked: Datagrams = |query| {
        let mut message = reply(query, &[]);
        message.add_answer(Record::from_rdata(name("other.agt."), 300, txt("agt-version=1")));
        vec![bytes(&message)]
    };
    assert_eq!(udp(unasked).await, TxtLookup::NoRecords);
}

#[tokio::test]
async fn response_codes_about_the_server_say_nothing_about_the_name() {
    assert_eq!(code(&udp(|query| vec![failing(query, ResponseCode::ServFail)]).await), "agent.dns_server_failure");
    assert_eq!(code(&udp(|query| vec![failing(query, ResponseCode::FormErr)]).await), "agent.dns_server_failure");
    assert_eq!(code(&udp(|query| vec![failing(query, ResponseCode::Refused)]).await), "agent.dns_refused");
    assert_eq!(udp(|query| vec![failing(query, ResponseCode::NXDomain)]).await, TxtLookup::NotFound);
    assert_eq!(udp(|query| vec![failing(query, ResponseCode::NoError)]).await, TxtLookup::NoRecords);
    assert_eq!(code(&tcp(|query| failing(query, ResponseCode::ServFail).into()).await), "agent.dns_server_failure");
}

#[tokio::test]
async fn a_cut_answer_is_asked_for_again_over_tcp() {
    let (outcome, _) = ask("udp", |query| vec![cut(query)], |query| honest(query).into()).await;
    assert_eq!(outcome, records(&[POINTER.as_bytes()]));
    let (outcome, _) = ask("udp", |query| vec![cut(query)], |query| cut(query).into()).await;
    assert_eq!(code(&outcome), "agent.dns_truncated");
    let (outcome, _) =
        ask("udp", |query| vec![cut(query)], |_| Stream { bytes: Vec::new(), piece: 1, pause: Duration::ZERO }).await;
    assert_eq!(code(&outcome), "agent.dns_timeout");
}

#[tokio::test]
async fn tcp_servers_that_waste_time_are_left() {
    let silent: Streams = |_| Stream { bytes: Vec::new(), piece: 1, pause: Duration::ZERO };
    let drip: Streams = |query| {
        let whole = Stream::from(honest(query));
        Stream { piece: 1, pause: Duration::from_millis(100), ..whole }
    };
    let short: Streams = |query| {
        let mut whole = Stream::from(honest(query));
        whole.bytes.truncate(20);
        whole
    };
    let endless: Streams = |_| Stream { bytes: vec![0xff; 400_000], piece: 1_000, pause: Duration::from_millis(5) };
    for script in [silent, drip, short, endless] {
        let (outcome, took) = ask("tcp", |_| Vec::new(), script).await;
        assert!(matches!(outcome, TxtLookup::Failed { .. }), "{outcome:?}");
        assert!(took < Duration::from_secs(20), "{took:?}");
    }
}

#[tokio::test]
async fn tcp_answers_are_checked_against_their_question() {
    assert_eq!(code(&tcp(|query| other_question(query).into()).await), "agent.dns_malformed");
    assert_eq!(code(&tcp(|query| with_id(query, 1).into()).await), "agent.dns_timeout");
    assert_eq!(tcp(|query| honest(query).into()).await, records(&[POINTER.as_bytes()]));
}

// req: AGT-001
#[tokio::test]
async fn large_answers_come_whole_or_not_at_all() {
    // The maximum of one message.
    let large: Streams = |query| {
        let text = "x".repeat(1_000);
        bytes(&reply(query, &vec![text.as_str(); 63])).into()
    };
    let outcome = tcp(large).await;
    assert!(matches!(&outcome, TxtLookup::Records(found) if found.len() == 63 && found[62].len() == 1_000), "{outcome:?}");
    let many: Streams = |query| {
        let texts: Vec<String> = (0..1_025).map(|at| at.to_string()).collect();
        bytes(&reply(query, &texts.iter().map(String::as_str).collect::<Vec<_>>())).into()
    };
    assert_eq!(code(&tcp(many).await), "agent.txt_too_much");
    let most: Streams = |query| {
        let texts: Vec<String> = (0..1_024).map(|at| at.to_string()).collect();
        bytes(&reply(query, &texts.iter().map(String::as_str).collect::<Vec<_>>())).into()
    };
    assert!(matches!(tcp(most).await, TxtLookup::Records(found) if found.len() == 1_024));
}

#[tokio::test]
async fn a_liar_does_not_stop_the_honest_server_behind_it() {
    let (socket, listener, liar) = pair().await;
    serve_udp(socket, |query| vec![failing(query, ResponseCode::ServFail)]);
    serve_tcp(listener, |_| Vec::<u8>::new().into());
    let (socket, listener, second) = pair().await;
    serve_udp(socket, |query| vec![honest(query)]);
    serve_tcp(listener, |query| honest(query).into());
    let mut settings = settings(&format!("udp://{liar}"));
    settings.servers.push(format!("udp://{second}").parse().expect("a server"));
    let source = Arc::new(source(settings));
    assert_eq!(source.lookup(&domain("plain.agt")).await.outcome, records(&[POINTER.as_bytes()]));
}

#[tokio::test]
async fn an_update_is_believed_only_with_a_signature() {
    let write = async |script: Streams| {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let key = "hmac-sha256:update-key:dG9vbGNyaWItdGVzdC1rZXktdG9vbGNyaWItdGVzdCE=".parse().expect("a key");
        let mut settings = UpdateSettings::new(listener.local_addr().expect("bound"), key);
        settings.timeout = Duration::from_secs(2);
        serve_tcp(listener, script);
        let add = vec![alloy_primitives::Bytes::from_static(POINTER.as_bytes())];
        let change = RecordChange { domain: domain("plain.agt"), remove: Vec::new(), add };
        let error = UpdateWriter::new(settings, SystemClock).write(&change).await.expect_err("a liar");
        assert_eq!(error.code().id(), "agent.txt_update_failed", "{error}");
        error.to_string()
    };
    // The server accepts everything without having the key.
    assert!(write(|query| bytes(&reply(query, &[])).into()).await.contains("signature"));
    // The server echoes the signed request.
    let echo: Streams = |query| {
        let mut message = query.clone();
        message.metadata.message_type = MessageType::Response;
        bytes(&message).into()
    };
    assert!(write(echo).await.contains("signature"));
    // The server rejects, which needs no signature.
    let refuse: Streams = |query| match query.metadata.op_code {
        OpCode::Update => failing(query, ResponseCode::NotAuth).into(),
        _ => bytes(&reply(query, &[])).into(),
    };
    assert!(write(refuse).await.contains("refused the signature"));
    assert!(write(|query| with_id(query, 1).into()).await.contains("another request"));
    assert!(write(|_| Stream { bytes: vec![0, 9, 1], piece: 3, pause: Duration::ZERO }).await.contains("in time"));
}
