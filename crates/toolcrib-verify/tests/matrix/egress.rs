//! Resolved addresses: every range that is not public, responses that mix ranges or change, and hosts that do not respond.

use toolcrib_core::codes::{fetch as f, verify};
use toolcrib_fetch::{MAX_ADDRESSES, MAX_ATTEMPTS, ResolveError};
use toolcrib_judge::Step;

use crate::row::{Dead, Row};

/// An address of every refused range, and addresses that embed an IPv4 address in another form.
const REFUSED: &[&str] = &[
    "0.0.0.0",
    "0.255.255.255",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.8",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:10.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "::ffff:0:a00:1",
    "64:ff9b::a00:1",
    "64:ff9b:1::a00:1",
    "100::1",
    "2001::1",
    "2001:2::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:a00:1::1",
    "2002:7f00:1::1",
    "3fff::1",
    "5f00::1",
    "4000::1",
    "fc00::1",
    "fd12:3456::1",
    "fe80::1",
    "fec0::1",
    "ff02::1",
];

pub(crate) fn rows() -> Vec<Row> {
    [ranges(), answers(), hosts(), local()].into_iter().flatten().collect()
}

// req: SSRF-001, SSRF-002
fn ranges() -> Vec<Row> {
    REFUSED
        .iter()
        .map(|address| {
            Row::new(&format!("a host that leads to {address}")).dns(&[address]).refused(2, Step::Egress, f::PRIVATE_ADDRESS)
        })
        .collect()
}

// req: SSRF-001, SSRF-002, VERIFY-007, VERIFY-010, VERIFY-015
fn answers() -> Vec<Row> {
    let many = |count: usize| std::iter::repeat_n("ADDR", count).collect::<Vec<_>>();
    vec![
        Row::new("public, then private").dns(&["ADDR", "10.0.0.1"]).refused(2, Step::Egress, f::MIXED_ADDRESSES),
        Row::new("private, then public").dns(&["192.168.0.1", "ADDR"]).refused(2, Step::Egress, f::MIXED_ADDRESSES),
        Row::new("public, and loopback of the other family").dns(&["ADDR", "::1"]).refused(2, Step::Egress, f::MIXED_ADDRESSES),
        Row::new("public, and public in a mapped form").dns(&["ADDR", "::ffff:8.8.8.8"]).refused(
            2,
            Step::Egress,
            f::MIXED_ADDRESSES,
        ),
        Row::new("private hidden behind many public ones")
            .dns(&[many(MAX_ADDRESSES - 1), vec!["169.254.169.254"]].concat())
            .refused(2, Step::Egress, f::MIXED_ADDRESSES),
        // The first DNS response counts for the whole verification; the second belongs to the next one.
        Row::new("rebinding to loopback").lookups(vec![Ok(vec!["ADDR"]), Ok(vec!["127.0.0.1"])]).then(
            2,
            Step::Egress,
            f::PRIVATE_ADDRESS,
        ),
        Row::new("rebinding to the metadata service").lookups(vec![Ok(vec!["ADDR"]), Ok(vec!["ADDR", "169.254.169.254"])]).then(
            2,
            Step::Egress,
            f::MIXED_ADDRESSES,
        ),
        Row::new("a host that disappears").lookups(vec![Ok(vec!["ADDR"]), Err(ResolveError::NoSuchHost)]).then(
            1,
            Step::Fetch,
            f::NO_SUCH_HOST,
        ),
        Row::new("as many addresses as are looked at").dns(&many(MAX_ADDRESSES)),
        Row::new("one address too many").dns(&many(MAX_ADDRESSES + 1)).dials(0).refused(1, Step::Fetch, f::TOO_MANY_ADDRESSES),
    ]
}

// req: VERIFY-007, VERIFY-010, VERIFY-015, SSRF-004
fn hosts() -> Vec<Row> {
    let numbered: Vec<String> = (1..=MAX_ATTEMPTS + 1).map(|number| format!("5.8.1.{number}")).collect();
    let dead = numbered.iter().map(String::as_str).collect::<Vec<_>>();
    let all_dead = dead.iter().fold(Row::new("five dead addresses").dns(&dead), |row, address| row.dead(address, Dead::Refuses));
    vec![
        Row::new("no such host").unknown_host().dials(0).refused(1, Step::Fetch, f::NO_SUCH_HOST),
        Row::new("a host without addresses").lookups(vec![Err(ResolveError::NoAddresses)]).dials(0).refused(
            1,
            Step::Fetch,
            f::NO_ADDRESSES,
        ),
        Row::new("an empty list of addresses").dns(&[]).dials(0).refused(1, Step::Fetch, f::NO_ADDRESSES),
        Row::new("name servers are down").lookups(vec![Err(ResolveError::Failed("SERVFAIL".to_owned()))]).dials(0).refused(
            1,
            Step::Fetch,
            f::DNS_FAILED,
        ),
        Row::new("name servers never answer").dns_never_answers().refused(1, Step::Fetch, f::DNS_FAILED),
        Row::new("connection refused").dns(&["5.8.0.1"]).dead("5.8.0.1", Dead::Refuses).refused(
            1,
            Step::Fetch,
            f::CONNECT_REFUSED,
        ),
        Row::new("host unreachable").dns(&["5.8.0.2"]).dead("5.8.0.2", Dead::Unreachable).refused(1, Step::Fetch, f::UNREACHABLE),
        Row::new("a host that does not answer").dns(&["5.8.0.3"]).dead("5.8.0.3", Dead::Silent).waits().refused(
            1,
            Step::Fetch,
            f::CONNECT_TIMEOUT,
        ),
        Row::new("the second address answers").dns(&["5.8.0.4", "ADDR"]).dead("5.8.0.4", Dead::Refuses).dials(2),
        all_dead.dials(MAX_ATTEMPTS).refused(1, Step::Fetch, f::CONNECT_REFUSED),
    ]
}

// req: SSRF-001, VERIFY-007
fn local() -> Vec<Row> {
    let port = |port: u16| {
        Row::new(&format!("port {port} of another protocol"))
            .uri(&format!("https://HOST:{port}/.well-known/ai-tool/word-count.json"))
            .refused(2, Step::Egress, f::PORT_REFUSED)
    };
    let on_this_machine = |name: &str, host: &str| {
        Row::new(name).host(host).uri("https://HOST:8443/.well-known/ai-tool/word-count.json").manifest(|manifest| {
            manifest["endpoint"] = "https://HOST:8443/word-count".into();
        })
    };
    vec![
        port(22),
        port(25),
        port(6667),
        on_this_machine("localhost", "localhost").refused(2, Step::Egress, f::LOCALHOST_REFUSED),
        on_this_machine("a name below localhost", "word-count.tool.localhost").refused(2, Step::Egress, f::LOCALHOST_REFUSED),
        on_this_machine("localhost itself in the development world", "localhost").dev().refused(
            2,
            Step::Egress,
            f::LOCALHOST_REFUSED,
        ),
        on_this_machine("the development world", "word-count.tool.localhost").dev().finds(verify::DEV_ENVIRONMENT),
    ]
}
