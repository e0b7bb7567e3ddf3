//! Every way in which a server can misbehave: each has its own code, ends in time and takes little memory.
//!
//! It is one test in its own binary that runs row by row, because memory is counted for the whole process. The servers run in it too, so
//! their memory counts as well.

use std::time::Duration;

use peak_alloc::PeakAlloc;
use tokio::time::Instant;
use toolcrib_core::codes::{Code, fetch as f};
use toolcrib_core::json;
use toolcrib_core::url::HttpsUrl;
use toolcrib_fetch::{MAX_HEADERS, MAX_INTERIM, Target};
use toolcrib_judge::evidence::Exchange;
use toolcrib_testkit::servers::{Leaf, Script, Step, World, answer, ok, quick};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Maximum memory above the level before the request.
const MAX_MEMORY: usize = 4 * 1024 * 1024;

/// Extra time for a busy machine, on top of the limits.
const GRACE: Duration = Duration::from_millis(700);

/// TLS 1.2 only.
const TLS12: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS12];

const HOST: &str = "tools.example.com";

struct Row {
    name: &'static str,
    script: Script,
    expected: Result<usize, Code>,
    /// The time limit of the row.
    within: Duration,
}

/// A server with a valid certificate that reads the request and continues with `steps`.
fn row(leaf: &Leaf, name: &'static str, expected: Result<usize, Code>, steps: Vec<Step>) -> Row {
    let steps = [vec![Step::ReadRequest], steps].concat();
    raw(name, expected, Script::tls(leaf, steps))
}

fn raw(name: &'static str, expected: Result<usize, Code>, script: Script) -> Row {
    Row { name, script, expected, within: quick().total }
}

fn sends(leaf: &Leaf, name: &'static str, expected: Result<usize, Code>, bytes: impl AsRef<[u8]>) -> Row {
    row(leaf, name, expected, vec![Step::send(bytes)])
}

/// A body in chunks of `size`.
fn chunked(body: &[u8], size: usize) -> Vec<u8> {
    let mut bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for chunk in body.chunks(size) {
        bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

fn rows(world: &World) -> Vec<Row> {
    let good = &world.authority.leaf(&[HOST]);
    let idle = quick().idle;
    let head = quick().head;
    let max = json::MAX_BYTES;
    let mut rows = vec![
        // Honest servers.
        sends(good, "plain answer", Ok(2), ok("{}")),
        sends(good, "empty body", Ok(0), ok("")),
        sends(good, "largest body", Ok(max), ok(vec![b'x'; max])),
        sends(good, "largest body in chunks", Ok(max), chunked(&vec![b'x'; max], 4096)),
        sends(good, "chunks of all sizes", Ok(300), chunked(&[b'x'; 300], 7)),
        sends(
            good,
            "chunk extension and trailer",
            Ok(2),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\n{}\r\n0\r\nX: y\r\n\r\n",
        ),
        sends(good, "until the connection ends", Ok(2), "HTTP/1.1 200 OK\r\n\r\n{}"),
        sends(good, "HTTP/1.0", Ok(2), "HTTP/1.0 200 OK\r\n\r\n{}"),
        sends(good, "line feeds alone", Ok(2), "HTTP/1.1 200 OK\nContent-Length: 2\n\n{}"),
        sends(good, "no reason phrase", Ok(2), "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\n{}"),
        sends(good, "identity encoding", Ok(2), answer("200 OK", "Content-Encoding: Identity\r\n", b"{}")),
        row(good, "early hints", Ok(2), vec![Step::send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"), Step::send(ok("{}"))]),
        sends(
            good,
            "as many interim answers as allowed",
            Ok(2),
            [b"HTTP/1.1 100 Continue\r\n\r\n".repeat(MAX_INTERIM), ok("{}")].concat(),
        ),
        row(good, "connection left open after the body", Ok(2), vec![Step::send(ok("{}")), Step::Hold]),
        row(good, "cut after the announced length", Ok(2), vec![Step::send(ok("{}")), Step::Cut]),
        row(good, "a slow but honest server", Ok(20), vec![Step::Drip(ok("x".repeat(20)), Duration::from_millis(2))]),
        raw("TLS 1.2", Ok(2), Script::tls(good, vec![Step::ReadRequest, Step::send(ok("{}"))]).versions(TLS12)),
        raw("no protocol named", Ok(2), Script::tls(good, vec![Step::ReadRequest, Step::send(ok("{}"))]).alpn(&[])),
        // Status.
        sends(good, "204", Err(f::NO_CONTENT), "HTTP/1.1 204 No Content\r\n\r\n"),
        sends(good, "206", Err(f::PARTIAL_CONTENT), answer("206 Partial Content", "Content-Range: bytes 0-1/9\r\n", b"{}")),
        sends(good, "201", Err(f::STATUS), answer("201 Created", "", b"{}")),
        sends(good, "203", Err(f::STATUS), answer("203 Non-Authoritative Information", "", b"{}")),
        sends(good, "400", Err(f::CLIENT_ERROR), answer("400 Bad Request", "", b"{}")),
        sends(good, "401", Err(f::CLIENT_ERROR), answer("401 Unauthorized", "", b"{}")),
        sends(good, "402", Err(f::CLIENT_ERROR), answer("402 Payment Required", "", b"{}")),
        sends(good, "403", Err(f::CLIENT_ERROR), answer("403 Forbidden", "", b"{}")),
        sends(good, "404", Err(f::NOT_FOUND), answer("404 Not Found", "", b"{}")),
        sends(good, "410", Err(f::NOT_FOUND), answer("410 Gone", "", b"{}")),
        sends(good, "429", Err(f::CLIENT_ERROR), answer("429 Too Many Requests", "", b"{}")),
        sends(good, "500", Err(f::SERVER_ERROR), answer("500 Internal Server Error", "", b"{}")),
        sends(good, "503", Err(f::SERVER_ERROR), answer("503 Service Unavailable", "", b"{}")),
        sends(good, "999", Err(f::STATUS), answer("999 Odd", "", b"{}")),
        row(
            good,
            "500 with an endless page",
            Err(f::SERVER_ERROR),
            vec![Step::send("HTTP/1.1 500 Oops\r\n\r\n"), Step::Endless(vec![b'x'; 65536])],
        ),
        // Size.
        sends(
            good,
            "one byte too many announced",
            Err(f::LENGTH_TOO_LARGE),
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", max + 1),
        ),
        row(
            good,
            "2,000,000 bytes announced",
            Err(f::LENGTH_TOO_LARGE),
            vec![Step::send("HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n"), Step::Endless(vec![b'x'; 65536])],
        ),
        sends(
            good,
            "absurd length announced",
            Err(f::LENGTH_TOO_LARGE),
            "HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\n{}",
        ),
        sends(
            good,
            "one byte too many until the end",
            Err(f::BODY_TOO_LARGE),
            [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b'x'; max + 1]].concat(),
        ),
        sends(good, "one byte too many in chunks", Err(f::BODY_TOO_LARGE), chunked(&vec![b'x'; max + 1], 4096)),
        sends(good, "2 MiB in chunks", Err(f::BODY_TOO_LARGE), chunked(&vec![b'x'; 2 * max], 65536)),
        sends(
            good,
            "a chunk of 16 EiB",
            Err(f::BODY_TOO_LARGE),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}",
        ),
        row(
            good,
            "endless body",
            Err(f::BODY_TOO_LARGE),
            vec![Step::send("HTTP/1.1 200 OK\r\n\r\n"), Step::Endless(vec![b'x'; 65536])],
        ),
        row(
            good,
            "endless chunks",
            Err(f::BODY_TOO_LARGE),
            vec![
                Step::send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
                Step::Endless([b"4000\r\n".to_vec(), vec![b'x'; 0x4000], b"\r\n".to_vec()].concat()),
            ],
        ),
        row(
            good,
            "endless tiny chunks",
            Err(f::WIRE_TOO_LARGE),
            vec![
                Step::send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
                Step::Endless(b"1;abcdefgh\r\nx\r\n".repeat(1000)),
            ],
        ),
        row(
            good,
            "gzip bomb",
            Err(f::ENCODING_REFUSED),
            vec![Step::send("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f"), Step::Endless(vec![0; 65536])],
        ),
        sends(
            good,
            "gzip beside identity",
            Err(f::ENCODING_REFUSED),
            answer("200 OK", "Content-Encoding: identity\r\nContent-Encoding: gzip\r\n", b"{}"),
        ),
        sends(good, "br", Err(f::ENCODING_REFUSED), answer("200 OK", "Content-Encoding: br\r\n", b"{}")),
        sends(
            good,
            "deflate, identity",
            Err(f::ENCODING_REFUSED),
            answer("200 OK", "Content-Encoding: deflate, identity\r\n", b"{}"),
        ),
        // Head.
        sends(good, "largest head", Ok(2), {
            let rest = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: \r\n\r\n".len();
            format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: {}\r\n\r\n{{}}", "x".repeat(head - rest))
        }),
        sends(good, "head one byte too large", Err(f::HEADERS_TOO_LARGE), {
            let rest = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: \r\n\r\n".len();
            format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: {}\r\n\r\n{{}}", "x".repeat(head - rest + 1))
        }),
        row(
            good,
            "endless header",
            Err(f::HEADERS_TOO_LARGE),
            vec![Step::send("HTTP/1.1 200 OK\r\nX: "), Step::Endless(vec![b'x'; 65536])],
        ),
        row(
            good,
            "endless headers",
            Err(f::HEADERS_TOO_LARGE),
            vec![Step::send("HTTP/1.1 200 OK\r\n"), Step::Endless(b"X: y\r\n".repeat(1000))],
        ),
        row(
            good,
            "endless reason phrase",
            Err(f::HEADERS_TOO_LARGE),
            vec![Step::send("HTTP/1.1 200 "), Step::Endless(vec![b'x'; 65536])],
        ),
        sends(
            good,
            "too many headers",
            Err(f::TOO_MANY_HEADERS),
            format!("HTTP/1.1 200 OK\r\n{}\r\n{{}}", "X: y\r\n".repeat(MAX_HEADERS + 1)),
        ),
        sends(
            good,
            "one interim answer too many",
            Err(f::TOO_MANY_INTERIM),
            [b"HTTP/1.1 100 Continue\r\n\r\n".repeat(MAX_INTERIM + 1), ok("{}")].concat(),
        ),
        row(
            good,
            "flood of interim answers",
            Err(f::TOO_MANY_INTERIM),
            vec![Step::Endless(b"HTTP/1.1 100 Continue\r\n\r\n".repeat(1000))],
        ),
        row(
            good,
            "large interim answers",
            Err(f::HEADERS_TOO_LARGE),
            vec![Step::Endless(format!("HTTP/1.1 103 Early Hints\r\nLink: {}\r\n\r\n", "x".repeat(8000)).into_bytes())],
        ),
        sends(good, "switching protocols", Err(f::BAD_FRAMING), "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n"),
        sends(good, "folded header", Err(f::NOT_HTTP), "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\n{}"),
        sends(good, "header without a colon", Err(f::NOT_HTTP), "HTTP/1.1 200 OK\r\nContent-Length 2\r\n\r\n{}"),
        sends(good, "space before the colon", Err(f::NOT_HTTP), "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\n{}"),
        sends(good, "HTTP/0.9", Err(f::NOT_HTTP), "{}"),
        sends(good, "a page without a head", Err(f::NOT_HTTP), "<html></html>"),
        sends(
            good,
            "HTTP/2 settings",
            Err(f::NOT_HTTP),
            b"\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x80\0\x04\0\x01\0\0\0\x05\0\xff\xff\xff",
        ),
        sends(good, "HTTP/2 preface", Err(f::NOT_HTTP), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        sends(good, "HTTP/3 in words", Err(f::NOT_HTTP), "HTTP/3 200\r\n\r\n{}"),
        sends(good, "two answers", Err(f::LENGTH_MISMATCH), [ok("{}"), ok("[]")].concat()),
        // Length and framing.
        sends(good, "length too long", Err(f::TRUNCATED), "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}"),
        sends(good, "length too short", Err(f::LENGTH_MISMATCH), "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{}"),
        sends(good, "length counted in characters", Err(f::LENGTH_MISMATCH), "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n\"é\""),
        sends(good, "bytes after the last chunk", Err(f::LENGTH_MISMATCH), [chunked(b"{}", 2), b"x".to_vec()].concat()),
        sends(good, "length twice", Err(f::BAD_FRAMING), answer("200 OK", "Content-Length: 2\r\n", b"{}")),
        sends(good, "two lengths", Err(f::BAD_FRAMING), answer("200 OK", "Content-Length: 1\r\n", b"{}")),
        sends(good, "list of lengths", Err(f::BAD_FRAMING), "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\n{}"),
        sends(good, "signed length", Err(f::BAD_FRAMING), "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\n{}"),
        sends(
            good,
            "length and chunks",
            Err(f::BAD_FRAMING),
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        ),
        sends(
            good,
            "gzip as transfer encoding",
            Err(f::BAD_FRAMING),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        ),
        sends(
            good,
            "chunks in HTTP/1.0",
            Err(f::BAD_FRAMING),
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        ),
        sends(
            good,
            "chunk size is not a number",
            Err(f::BAD_FRAMING),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n",
        ),
        sends(
            good,
            "negative chunk",
            Err(f::BAD_FRAMING),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
        ),
        sends(
            good,
            "chunk size too long",
            Err(f::BAD_FRAMING),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n00000000000000002\r\n{}\r\n0\r\n\r\n",
        ),
        sends(
            good,
            "chunk longer than its size",
            Err(f::BAD_FRAMING),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
        ),
        sends(
            good,
            "chunk size with a line feed alone",
            Err(f::BAD_FRAMING),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\n{}\r\n0\r\n\r\n",
        ),
        sends(
            good,
            "chunks with line feeds alone",
            Err(f::BAD_FRAMING),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\n{}\n0\n\n",
        ),
        row(
            good,
            "endless chunk extension",
            Err(f::BAD_FRAMING),
            vec![Step::send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;"), Step::Endless(vec![b'x'; 65536])],
        ),
        row(
            good,
            "endless trailer",
            Err(f::BAD_FRAMING),
            vec![
                Step::send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"),
                Step::Endless(b"X: y\r\n".repeat(1000)),
            ],
        ),
        sends(good, "no last chunk", Err(f::TRUNCATED), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"),
        sends(
            good,
            "no end of the trailer",
            Err(f::TRUNCATED),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n",
        ),
        row(
            good,
            "cut in the body",
            Err(f::TRUNCATED),
            vec![Step::send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"), Step::Cut],
        ),
        row(
            good,
            "cut where the end is the end of the body",
            Err(f::TRUNCATED),
            vec![Step::send("HTTP/1.1 200 OK\r\n\r\n{}"), Step::Cut],
        ),
        row(
            good,
            "reset in the body",
            Err(f::TRUNCATED),
            vec![
                Step::send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"),
                Step::Sleep(Duration::from_millis(50)),
                Step::Reset,
            ],
        ),
        // Connection ends and idle connections.
        row(good, "closed after the request", Err(f::CLOSED_EARLY), vec![]),
        row(good, "cut after the request", Err(f::CLOSED_EARLY), vec![Step::Cut]),
        row(good, "reset after the request", Err(f::CLOSED_EARLY), vec![Step::Reset]),
        sends(good, "closed in the head", Err(f::CLOSED_EARLY), "HTTP/1.1 200 OK\r\nContent-"),
        raw("closed after the handshake", Err(f::CLOSED_EARLY), Script::tls(good, vec![])),
        row(good, "silence after the request", Err(f::READ_TIMEOUT), vec![Step::Hold]),
        row(good, "silence in the head", Err(f::READ_TIMEOUT), vec![Step::send("HTTP/1.1 200 OK\r\n"), Step::Hold]),
        row(
            good,
            "silence in the body",
            Err(f::READ_TIMEOUT),
            vec![Step::send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"), Step::Hold],
        ),
        row(
            good,
            "silence between chunks",
            Err(f::READ_TIMEOUT),
            vec![Step::send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"), Step::Hold],
        ),
        row(
            good,
            "dripping head",
            Err(f::TOTAL_TIMEOUT),
            vec![Step::Drip(vec![b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'1', b' ', b'2', b'0', b'0'], idle / 2)],
        ),
        row(
            good,
            "dripping body",
            Err(f::TOTAL_TIMEOUT),
            vec![Step::send("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n"), Step::Drip(vec![b'x'; 900], idle / 6)],
        ),
        row(good, "dripping interim answers", Err(f::TOTAL_TIMEOUT), {
            let one = [Step::send("HTTP/1.1 100 Continue\r\n\r\n"), Step::Sleep(idle / 2)];
            one.into_iter().cycle().take(16).collect()
        }),
    ];
    for status in [300, 301, 302, 303, 304, 305, 307, 308, 399] {
        let location = format!("HTTP/1.1 {status} Elsewhere\r\nLocation: https://{HOST}/elsewhere\r\nContent-Length: 0\r\n\r\n");
        rows.push(sends(good, "redirect", Err(f::REDIRECT), location));
    }
    rows.extend(tls_rows(world, good));
    rows
}

fn tls_rows(world: &World, good: &Leaf) -> Vec<Row> {
    let page = || vec![Step::ReadRequest, Step::send(ok("{}"))];
    let names = &[HOST];
    let stranger = toolcrib_testkit::servers::Authority::new("another authority");
    let with = |leaf: &Leaf| Script::tls(leaf, page());
    let client_auth = world.authority.leaf_with(names, |params| {
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    });
    let critical = world.authority.leaf_with(names, |params| {
        let mut extension = rcgen::CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99_999, 1], vec![5, 0]);
        extension.set_criticality(true);
        params.custom_extensions = vec![extension];
    });
    // A fatal alert (record type 21); 70 is protocol_version, 40 handshake_failure, 120 no_application_protocol, 80 internal_error.
    let alert = |description: u8| Script::plain(vec![Step::ReadSome, Step::Send(vec![21, 3, 3, 0, 2, 2, description])]);
    // A ServerHello that chooses TLS 1.1 with a cipher suite of its time.
    let mut tls11 = vec![22, 3, 2, 0, 42, 2, 0, 0, 38, 3, 2];
    tls11.extend_from_slice(&[7; 32]);
    tls11.extend_from_slice(&[0, 0, 0x2f, 0]);
    vec![
        raw("expired", Err(f::CERTIFICATE_EXPIRED), with(&world.authority.leaf_between(names, 2019, 2020))),
        raw("not yet valid", Err(f::CERTIFICATE_NOT_YET_VALID), with(&world.authority.leaf_between(names, 2090, 2091))),
        raw("for another host", Err(f::CERTIFICATE_WRONG_HOST), with(&world.authority.leaf(&["other.example.com"]))),
        raw("for the parent", Err(f::CERTIFICATE_WRONG_HOST), with(&world.authority.leaf(&["example.com"]))),
        raw("for a wildcard two levels up", Err(f::CERTIFICATE_WRONG_HOST), with(&world.authority.leaf(&["*.com"]))),
        raw("for a wildcard", Ok(2), with(&world.authority.leaf(&["*.example.com"]))),
        raw("for the address", Err(f::CERTIFICATE_WRONG_HOST), with(&world.authority.leaf(&["5.5.5.1"]))),
        raw("of a stranger", Err(f::CERTIFICATE_UNKNOWN_ISSUER), with(&stranger.leaf(names))),
        raw("for clients", Err(f::CERTIFICATE_INVALID), with(&client_auth)),
        raw("with an unknown critical extension", Err(f::CERTIFICATE_INVALID), with(&critical)),
        raw("HTTP/2 only", Err(f::ALPN_REFUSED), with(good).alpn(&[b"h2"])),
        raw("alert: no application protocol", Err(f::ALPN_REFUSED), alert(120)),
        raw("alert: protocol version", Err(f::TLS_PROTOCOL), alert(70)),
        raw("alert: handshake failure", Err(f::TLS_PROTOCOL), alert(40)),
        raw("alert: internal error", Err(f::TLS_FAILED), alert(80)),
        raw("TLS 1.1 only", Err(f::TLS_PROTOCOL), Script::plain(vec![Step::ReadSome, Step::Send(tls11)])),
        raw("plain http", Err(f::NOT_TLS), Script::plain(vec![Step::ReadSome, Step::send("HTTP/1.1 400 Bad Request\r\n\r\n")])),
        raw("ssh", Err(f::NOT_TLS), Script::plain(vec![Step::send("SSH-2.0-OpenSSH_9.9\r\n"), Step::Hold])),
        raw("noise", Err(f::NOT_TLS), Script::plain(vec![Step::Endless(vec![b'x'; 65536])])),
        raw("silence in the handshake", Err(f::HANDSHAKE_TIMEOUT), Script::plain(vec![Step::Hold])),
        raw(
            "dripping handshake",
            Err(f::HANDSHAKE_TIMEOUT),
            Script::plain(vec![Step::Drip(vec![22, 3, 3, 0x40, 0, 2, 0, 0, 0, 0, 0], quick().handshake / 3), Step::Hold]),
        ),
        raw("closed in the handshake", Err(f::CLOSED_EARLY), Script::plain(vec![Step::ReadSome])),
        raw("reset in the handshake", Err(f::CLOSED_EARLY), Script::plain(vec![Step::ReadSome, Step::Reset])),
        raw(
            "endless handshake",
            Err(f::TLS_FAILED),
            Script::plain(vec![
                Step::ReadSome,
                Step::Endless([vec![22, 3, 3, 0x40, 0, 2, 0xff, 0xff, 0xff], vec![0; 0x4000 - 4]].concat()),
            ]),
        ),
    ]
}

// req: VERIFY-002, VERIFY-007, VERIFY-009, VERIFY-015, HARDEN-002, HARDEN-009, SSRF-004
#[tokio::test(flavor = "current_thread")]
async fn every_hostile_server_has_its_code() {
    let world = World::new();
    let url = HttpsUrl::parse(&format!("https://{HOST}/.well-known/ai-tool/a.json")).unwrap();
    let fetch = world.fetch();
    let rows = rows(&world);
    assert!(rows.len() >= 120, "{} rows", rows.len());
    let mut wrong = Vec::new();
    for Row { name, script, expected, within } in rows {
        let server = world.serve(HOST, script).await;
        let target = Target::file(&url, Some(8453)).limits(quick());
        let dialled = world.recorder.dialled().len();
        MEMORY.reset_peak_usage();
        let before = MEMORY.current_usage();
        let start = Instant::now();
        let exchange = fetch.get(&target).await;
        let (took, memory) = (start.elapsed(), MEMORY.peak_usage().saturating_sub(before));
        let got = outcome(&exchange);
        if got != expected {
            wrong.push(format!("{name}: expected {expected:?}, got {got:?}: {:?}", exchange.failure));
        }
        if took > within + GRACE {
            wrong.push(format!("{name}: took {took:?}"));
        }
        if memory > MAX_MEMORY {
            wrong.push(format!("{name}: held {memory} bytes"));
        }
        // No second attempt with weaker rules, and no body in a failed exchange.
        assert_eq!(world.recorder.dialled().len() - dialled, 1, "{name}");
        assert!(server.accepted() <= 1 && server.requests().len() <= 1, "{name}");
        if exchange.failure.is_some() {
            assert!(exchange.complete().is_none(), "{name}");
            assert!(exchange.response.as_ref().is_none_or(|response| response.body.as_bytes().is_empty()), "{name}");
        }
    }
    assert!(wrong.is_empty(), "{} rows are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn outcome(exchange: &Exchange) -> Result<usize, Code> {
    match (&exchange.failure, exchange.complete()) {
        (Some(failure), _) => Err(failure.code),
        (None, Some(response)) => Ok(response.body.as_bytes().len()),
        (None, None) => panic!("neither an answer nor a failure"),
    }
}
