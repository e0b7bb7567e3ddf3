//! TLS, HTTP and time: every way in which a server can misbehave before a manifest is parsed.

use toolcrib_core::codes::{Code, fetch as f, verify};
use toolcrib_core::json;
use toolcrib_fetch::{MAX_HEADERS, MAX_INTERIM};
use toolcrib_judge::Step as Failing;

use crate::row::{Row, ServerParts};
use toolcrib_testkit::servers::{Authority, Leaf, Script, Step, answer, ok, quick};

/// TLS 1.2 only.
const TLS12: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS12];

/// One piece of an endless body: sixteen pages.
const PIECE: usize = 65_536;

pub(crate) fn rows() -> Vec<Row> {
    [honest(), statuses(), sizes(), heads(), framing(), ends(), certificates(), handshakes()].into_iter().flatten().collect()
}

/// A server that fails check 1.
fn bad(name: &str, code: Code) -> Row {
    Row::new(name).refused(1, Failing::Fetch, code)
}

fn head(text: &str, then: Step) -> Vec<Step> {
    vec![Step::send(text), then]
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

// req: VERIFY-002, HARDEN-009
fn honest() -> Vec<Row> {
    let page = |place: &ServerParts<'_>| vec![Step::ReadRequest, Step::send(ok(place.body))];
    vec![
        Row::new("in chunks").steps(|place| vec![Step::send(chunked(place.body, 7))]).finds(verify::CONTENT_TYPE),
        Row::new("until the connection ends").steps(|place| {
            vec![Step::send(["HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n".as_bytes(), place.body].concat())]
        }),
        Row::new("HTTP/1.0").steps(|place| vec![Step::send(["HTTP/1.0 200 OK\r\n\r\n".as_bytes(), place.body].concat())]),
        Row::new("identity encoding").status("200 OK", "Content-Encoding: identity\r\nContent-Type: application/json\r\n"),
        Row::new("not called JSON").status("200 OK", "Content-Type: text/html\r\n").finds(verify::CONTENT_TYPE),
        Row::new("cookies, which nobody keeps").status("200 OK", "Set-Cookie: a=b\r\n"),
        Row::new("a Location that nobody follows")
            .status("200 OK", "Location: https://127.0.0.1/\r\nRefresh: 0; url=http://127.0.0.1/\r\n"),
        Row::new("early hints")
            .steps(|place| vec![Step::send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"), Step::send(ok(place.body))]),
        Row::new("as many interim answers as are allowed")
            .steps(|place| vec![Step::send([b"HTTP/1.1 100 Continue\r\n\r\n".repeat(MAX_INTERIM), ok(place.body)].concat())]),
        Row::new("connection left open").steps(|place| vec![Step::send(ok(place.body)), Step::Hold]),
        Row::new("TLS 1.2").script(move |place| Script::tls(place.leaf, page(place)).versions(TLS12)),
        Row::new("no protocol named").script(move |place| Script::tls(place.leaf, page(place)).alpn(&[])),
    ]
}

// req: VERIFY-002, VERIFY-007, VERIFY-009, VERIFY-010, VERIFY-015
fn statuses() -> Vec<Row> {
    let mut rows = vec![
        bad("204", f::NO_CONTENT).sends("HTTP/1.1 204 No Content\r\n\r\n"),
        bad("206", f::PARTIAL_CONTENT).status("206 Partial Content", "Content-Range: bytes 0-1/9\r\n"),
        bad("201", f::STATUS).status("201 Created", ""),
        bad("203", f::STATUS).status("203 Non-Authoritative Information", ""),
        bad("226", f::STATUS).status("226 IM Used", ""),
        bad("400", f::CLIENT_ERROR).status("400 Bad Request", ""),
        bad("401", f::CLIENT_ERROR).status("401 Unauthorized", "WWW-Authenticate: Basic\r\n"),
        bad("402", f::CLIENT_ERROR).status("402 Payment Required", ""),
        bad("403", f::CLIENT_ERROR).status("403 Forbidden", ""),
        bad("404", f::NOT_FOUND).status("404 Not Found", ""),
        bad("410", f::NOT_FOUND).status("410 Gone", ""),
        bad("429", f::CLIENT_ERROR).status("429 Too Many Requests", "Retry-After: 0\r\n"),
        bad("451", f::CLIENT_ERROR).status("451 Unavailable For Legal Reasons", ""),
        bad("500", f::SERVER_ERROR).status("500 Internal Server Error", ""),
        bad("502", f::SERVER_ERROR).status("502 Bad Gateway", ""),
        bad("503", f::SERVER_ERROR).status("503 Service Unavailable", "Retry-After: 0\r\n"),
        bad("999", f::STATUS).status("999 Odd", ""),
        bad("500 with an endless page", f::SERVER_ERROR)
            .steps(|_| head("HTTP/1.1 500 Oops\r\n\r\n", Step::Endless(vec![b'x'; PIECE]))),
    ];
    // Each with an honest body, redirecting to the same host and to forbidden addresses.
    for status in [300_u16, 301, 302, 303, 304, 305, 307, 308] {
        for (place, location) in [("same host", "/.well-known/ai-tool/word-count.json"), ("loopback", "http://127.0.0.1:8545/")] {
            rows.push(bad(&format!("{status} to {place}"), f::REDIRECT).steps(move |given| {
                vec![Step::send(answer(&format!("{status} Elsewhere"), &format!("Location: {location}\r\n"), given.body))]
            }));
        }
    }
    rows
}

// req: HARDEN-001, HARDEN-002, HARDEN-009, SSRF-004, VERIFY-007
fn sizes() -> Vec<Row> {
    let max = json::MAX_BYTES;
    vec![
        bad("one byte too many announced", f::LENGTH_TOO_LARGE)
            .steps(move |_| head(&format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", max + 1), Step::Hold)),
        // The body is not read: the server can send only what fits into the buffers of two sockets.
        bad("2,000,000 bytes announced", f::LENGTH_TOO_LARGE)
            .steps(|_| head("HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n", Step::Hold)),
        bad("absurd length announced", f::LENGTH_TOO_LARGE)
            .sends("HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\n{}"),
        bad("one byte too many until the end", f::BODY_TOO_LARGE)
            .steps(move |_| vec![Step::send("HTTP/1.1 200 OK\r\n\r\n"), Step::Send(vec![b' '; max + 1])]),
        bad("one byte too many in chunks", f::BODY_TOO_LARGE)
            .steps(move |_| vec![Step::Send(chunked(&vec![b' '; max + 1], 4096))]),
        bad("2 MiB in chunks", f::BODY_TOO_LARGE).steps(move |_| vec![Step::Send(chunked(&vec![b' '; 2 * max], PIECE))]),
        bad("a chunk of 16 EiB", f::BODY_TOO_LARGE)
            .sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}"),
        bad("endless body", f::BODY_TOO_LARGE).steps(|_| head("HTTP/1.1 200 OK\r\n\r\n", Step::Endless(vec![b'x'; PIECE]))),
        bad("endless chunks", f::BODY_TOO_LARGE).steps(|_| {
            let chunk = [b"4000\r\n".to_vec(), vec![b'x'; 0x4000], b"\r\n".to_vec()].concat();
            head("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Step::Endless(chunk))
        }),
        bad("endless tiny chunks", f::WIRE_TOO_LARGE).steps(|_| {
            let chunks = b"1;abcdefgh\r\nx\r\n".repeat(1000);
            head("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Step::Endless(chunks))
        }),
        bad("gzip bomb", f::ENCODING_REFUSED)
            .steps(|_| head("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f", Step::Endless(vec![0; PIECE]))),
        bad("gzip", f::ENCODING_REFUSED).status("200 OK", "Content-Encoding: gzip\r\n"),
        bad("br", f::ENCODING_REFUSED).status("200 OK", "Content-Encoding: br\r\n"),
        bad("gzip beside identity", f::ENCODING_REFUSED)
            .status("200 OK", "Content-Encoding: identity\r\nContent-Encoding: gzip\r\n"),
    ]
}

// req: HARDEN-001, SSRF-004, VERIFY-007
fn heads() -> Vec<Row> {
    vec![
        bad("endless header", f::HEADERS_TOO_LARGE).steps(|_| head("HTTP/1.1 200 OK\r\nX: ", Step::Endless(vec![b'x'; PIECE]))),
        bad("endless headers", f::HEADERS_TOO_LARGE)
            .steps(|_| head("HTTP/1.1 200 OK\r\n", Step::Endless(b"X: y\r\n".repeat(1000)))),
        bad("endless reason", f::HEADERS_TOO_LARGE).steps(|_| head("HTTP/1.1 200 ", Step::Endless(vec![b'x'; PIECE]))),
        bad("too many headers", f::TOO_MANY_HEADERS)
            .sends(format!("HTTP/1.1 200 OK\r\n{}\r\n{{}}", "X: y\r\n".repeat(MAX_HEADERS + 1))),
        bad("one interim answer too many", f::TOO_MANY_INTERIM)
            .steps(|place| vec![Step::send([b"HTTP/1.1 100 Continue\r\n\r\n".repeat(MAX_INTERIM + 1), ok(place.body)].concat())]),
        bad("flood of interim answers", f::TOO_MANY_INTERIM)
            .steps(|_| vec![Step::Endless(b"HTTP/1.1 100 Continue\r\n\r\n".repeat(1000))]),
        bad("large interim answers", f::HEADERS_TOO_LARGE).steps(|_| {
            vec![Step::Endless(format!("HTTP/1.1 103 Early Hints\r\nLink: {}\r\n\r\n", "x".repeat(8000)).into_bytes())]
        }),
        bad("switching protocols", f::BAD_FRAMING).sends("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n"),
        bad("folded header", f::NOT_HTTP).sends("HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\n{}"),
        bad("header without a colon", f::NOT_HTTP).sends("HTTP/1.1 200 OK\r\nContent-Length 2\r\n\r\n{}"),
        bad("HTTP/0.9", f::NOT_HTTP).steps(|place| vec![Step::send(place.body)]),
        bad("HTTP/2 settings", f::NOT_HTTP).sends(b"\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x80\0\x04\0\x01\0\0\0\x05\0\xff\xff\xff"),
        bad("HTTP/2 preface", f::NOT_HTTP).sends("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        bad("HTTP/2 only", f::ALPN_REFUSED)
            .script(|place| Script::tls(place.leaf, vec![Step::ReadRequest, Step::send(ok(place.body))]).alpn(&[b"h2"])),
    ]
}

// req: VERIFY-007, VERIFY-015
fn framing() -> Vec<Row> {
    let length = |name: &str, difference: isize, code| {
        bad(name, code).steps(move |place| {
            let length = place.body.len().checked_add_signed(difference).expect("a length");
            vec![Step::send([format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").as_bytes(), place.body].concat())]
        })
    };
    vec![
        length("length too long", 1, f::TRUNCATED),
        length("length too short", -1, f::LENGTH_MISMATCH),
        bad("two answers", f::LENGTH_MISMATCH).steps(|place| vec![Step::send([ok(place.body), ok("{}")].concat())]),
        bad("length twice", f::BAD_FRAMING).sends("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}"),
        bad("two lengths", f::BAD_FRAMING).sends("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 1\r\n\r\n{}"),
        bad("signed length", f::BAD_FRAMING).sends("HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\n{}"),
        bad("length and chunks", f::BAD_FRAMING)
            .sends("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
        bad("gzip as transfer encoding", f::BAD_FRAMING).sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"),
        bad("negative chunk", f::BAD_FRAMING).sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n"),
        bad("bytes after the last chunk", f::LENGTH_MISMATCH)
            .steps(|place| vec![Step::send([chunked(place.body, 64), b"x".to_vec()].concat())]),
        bad("no last chunk", f::TRUNCATED).sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"),
        bad("endless chunk extension", f::BAD_FRAMING)
            .steps(|_| head("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;", Step::Endless(vec![b'x'; PIECE]))),
        bad("endless trailer", f::BAD_FRAMING).steps(|_| {
            head("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", Step::Endless(b"X: y\r\n".repeat(1000)))
        }),
    ]
}

// req: VERIFY-007, VERIFY-010, SSRF-004
fn ends() -> Vec<Row> {
    let idle = quick().idle;
    let slow = |name: &str, code| bad(name, code).waits();
    vec![
        bad("closed after the request", f::CLOSED_EARLY).steps(|_| vec![]),
        bad("cut after the request", f::CLOSED_EARLY).steps(|_| vec![Step::Cut]),
        bad("reset after the request", f::CLOSED_EARLY).steps(|_| vec![Step::Reset]),
        bad("closed in the head", f::CLOSED_EARLY).sends("HTTP/1.1 200 OK\r\nContent-"),
        bad("closed after the handshake", f::CLOSED_EARLY).script(|place| Script::tls(place.leaf, vec![])),
        bad("cut in the body", f::TRUNCATED).steps(|_| head("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", Step::Cut)),
        // Complete, but without TLS close_notify: an attacker on the path could have truncated it.
        bad("cut where the end is the end of the body", f::TRUNCATED)
            .steps(|place| vec![Step::send(["HTTP/1.1 200 OK\r\n\r\n".as_bytes(), place.body].concat()), Step::Cut]),
        slow("silence after the request", f::READ_TIMEOUT).steps(|_| vec![Step::Hold]),
        slow("silence in the head", f::READ_TIMEOUT).steps(|_| head("HTTP/1.1 200 OK\r\n", Step::Hold)),
        slow("silence in the body", f::READ_TIMEOUT)
            .steps(|_| head("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", Step::Hold)),
        slow("silence between chunks", f::READ_TIMEOUT)
            .steps(|_| head("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", Step::Hold)),
        slow("dripping head", f::TOTAL_TIMEOUT).steps(move |_| vec![Step::Drip(b"HTTP/1.1 200".to_vec(), idle / 3)]),
        slow("dripping body", f::TOTAL_TIMEOUT)
            .steps(move |_| head("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n", Step::Drip(vec![b'x'; 900], idle / 6))),
        slow("dripping chunks", f::TOTAL_TIMEOUT).steps(move |_| {
            let drip = Step::Drip(b"1\r\nx\r\n".repeat(50), idle / 8);
            head("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", drip)
        }),
        slow("dripping interim answers", f::TOTAL_TIMEOUT).steps(move |_| {
            let one = [Step::send("HTTP/1.1 100 Continue\r\n\r\n"), Step::Sleep(idle / 2)];
            one.into_iter().cycle().take(2 * MAX_INTERIM).chain([Step::send("HTTP/1.1 200"), Step::Hold]).collect()
        }),
        slow("silence in the handshake", f::HANDSHAKE_TIMEOUT).script(|_| Script::plain(vec![Step::Hold])),
        slow("dripping handshake", f::HANDSHAKE_TIMEOUT).script(|_| {
            Script::plain(vec![Step::Drip(vec![22, 3, 3, 0x40, 0, 2, 0, 0, 0, 0, 0], quick().handshake / 4), Step::Hold])
        }),
    ]
}

// req: VERIFY-007
fn certificates() -> Vec<Row> {
    let with = |name: &str, code, leaf: fn(&Authority, &str) -> Leaf| {
        bad(&format!("certificate: {name}"), code).script(move |place| {
            Script::tls(&leaf(place.authority, place.host), vec![Step::ReadRequest, Step::send(ok(place.body))])
        })
    };
    vec![
        with("expired", f::CERTIFICATE_EXPIRED, |authority, host| authority.leaf_between(&[host], 2019, 2020)),
        with("not yet valid", f::CERTIFICATE_NOT_YET_VALID, |authority, host| authority.leaf_between(&[host], 2090, 2091)),
        with("for another host", f::CERTIFICATE_WRONG_HOST, |authority, _| authority.leaf(&["other.example.com"])),
        with("for the parent", f::CERTIFICATE_WRONG_HOST, |authority, _| authority.leaf(&["example.com"])),
        with("for a wildcard two levels up", f::CERTIFICATE_WRONG_HOST, |authority, _| authority.leaf(&["*.com"])),
        with("for an address", f::CERTIFICATE_WRONG_HOST, |authority, _| authority.leaf(&["5.6.0.1"])),
        with("of a stranger", f::CERTIFICATE_UNKNOWN_ISSUER, |_, host| Authority::new("another authority").leaf(&[host])),
        with("for clients", f::CERTIFICATE_INVALID, |authority, host| {
            authority.leaf_with(&[host], |params| params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth])
        }),
    ]
}

// req: VERIFY-007
fn handshakes() -> Vec<Row> {
    // A fatal alert (record type 21); 70 is protocol_version, 40 handshake_failure.
    let alert = |description: u8| Script::plain(vec![Step::ReadSome, Step::Send(vec![21, 3, 3, 0, 2, 2, description])]);
    // A ServerHello that chooses TLS 1.1 with a cipher suite of its time.
    let tls11 = [&[22, 3, 2, 0, 42, 2, 0, 0, 38, 3, 2][..], &[7; 32], &[0, 0, 0x2f, 0]].concat();
    let endless = [vec![22, 3, 3, 0x40, 0, 2, 0xff, 0xff, 0xff], vec![0; 0x4000 - 4]].concat();
    vec![
        bad("alert: protocol version", f::TLS_PROTOCOL).script(move |_| alert(70)),
        bad("alert: handshake failure", f::TLS_PROTOCOL).script(move |_| alert(40)),
        bad("TLS 1.1 only", f::TLS_PROTOCOL).script(|_| Script::plain(vec![Step::ReadSome, Step::Send(tls11)])),
        bad("plain http behind https", f::NOT_TLS)
            .script(|place| Script::plain(vec![Step::ReadSome, Step::send(ok(place.body))])),
        bad("ssh", f::NOT_TLS).script(|_| Script::plain(vec![Step::send("SSH-2.0-OpenSSH_9.9\r\n"), Step::Hold])),
        bad("noise", f::NOT_TLS).script(|_| Script::plain(vec![Step::Endless(vec![b'x'; PIECE])])),
        bad("closed in the handshake", f::CLOSED_EARLY).script(|_| Script::plain(vec![Step::ReadSome])),
        bad("endless handshake", f::TLS_FAILED).script(|_| Script::plain(vec![Step::ReadSome, Step::Endless(endless)])),
    ]
}
