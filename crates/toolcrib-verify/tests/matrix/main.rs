//! The matrix: hostile and honest tools, each registered on a real chain and served over real TLS, with the expected check, step and
//! code.
//!
//! It is one test in its own binary, because memory is counted for the whole process. Rows run in sequence, except those that reach a
//! timeout, which run concurrently and must stay below the limit of one even so. Chain and servers run in the same process, so
//! their memory counts as well.
#![expect(clippy::print_stderr, reason = "the numbers are part of the outcome")]

mod bytes;
mod content;
mod counted;
mod egress;
mod onchain;
mod row;
mod transport;
mod urls;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U256};
use counted::Counted;
use peak_alloc::PeakAlloc;
use row::{Between, Dead, Dns, Expect, Life, Row, ServerParts};
use tokio::time::Instant;
use toolcrib_core::clock::FixedClock;
use toolcrib_core::codes;
use toolcrib_core::url::ip;
use toolcrib_fetch::{DevWorld, Untrusted};
use toolcrib_judge::evidence::Evidence;
use toolcrib_judge::{Check, Policy, Report, Step, Verdict, judge};
use toolcrib_testkit::registry::{RegistryChain, hash_of};
use toolcrib_testkit::servers::{Leaf, NOW, Server, World};
use toolcrib_verify::{Depth, Verifier};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Maximum memory above the level before the verification: a megabyte of the smallest values takes 18.
const MAX_MEMORY: usize = 20 * 1024 * 1024;

/// Extra time for a busy machine, on top of the limits.
const GRACE: Duration = Duration::from_millis(1_500);

/// Requirements of the five groups that a verification cannot test, and what tests them.
const ELSEWHERE: &[(&str, &str)] = &[
    ("URL-001", "serving manifests"),
    ("URL-003", "serving manifests"),
    ("URL-008", "what authors write is normalised before it is registered"),
    ("VERIFY-008", "calling and showing tools"),
    ("VERIFY-011", "the cache"),
    ("VERIFY-012", "the cache"),
    ("VERIFY-013", "the cache"),
    ("VERIFY-014", "the directory"),
    ("VERIFY-019", "pins and drift"),
    ("VERIFY-020", "building manifests"),
    ("VERIFY-023", "ranking"),
    ("CREATOR-005", "registering"),
    ("HARDEN-010", "filling in values"),
    ("HARDEN-011", "filling in values"),
    ("HARDEN-012", "filling in values"),
    ("SSRF-003", "nothing is loosened"),
];

struct Bench {
    network: World,
    ledger: RegistryChain,
    verifier: Verifier,
    /// A verifier with the development environment of this computer.
    dev: Verifier,
    /// For hosts `r<number>.example.com`.
    leaf: Leaf,
    /// The predicate's original code, which rows replace.
    predicate_code: Bytes,
}

/// A row whose tool is registered and whose server runs.
struct Ready {
    row: Row,
    id: U256,
    server: Option<Server>,
}

impl Bench {
    async fn new() -> Self {
        let network = World::new();
        let ledger = RegistryChain::start().await;
        let verifier = |door: Untrusted| Verifier::new(door, Arc::new(FixedClock(NOW)), "matrix");
        let ca = network.authority.der();
        Self {
            verifier: verifier(network.fetch()),
            dev: verifier(network.builder().dev(DevWorld { ca }).build().expect("a certificate")),
            leaf: network.authority.leaf(&["*.example.com"]),
            predicate_code: ledger.devchain.code(ledger.devchain.deployed()[1]),
            network,
            ledger,
        }
    }

    /// The second contract of the chain: a predicate that denies every account, until a row replaces its code.
    fn predicate(&self) -> Address {
        self.ledger.devchain.deployed()[1]
    }

    async fn prepare(&self, mut row: Row, number: usize) -> Ready {
        row.settle(number);
        let hash = row.committed.unwrap_or_else(|| hash_of(&row.body));
        let predicate = row.predicate.as_ref().map(|_| self.predicate());
        self.ledger.devchain.set_code(self.predicate(), self.predicate_code.clone());
        let id = match row.life {
            Life::Registered => self.ledger.register(row.account, &row.uri, hash, predicate),
            Life::Deregistered => {
                let id = self.ledger.register(row.account, &row.uri, hash, predicate);
                self.ledger.send(row.account, &self.ledger.registry.deregister(id));
                id
            }
            Life::Never => U256::from(1_000_000),
        };
        let recorder = &self.network.recorder;
        let parse = |addresses: &Vec<String>| addresses.iter().map(|address| address.parse().expect("an address")).collect();
        match &row.dns {
            Dns::Answers(answers) => {
                recorder
                    .answers(&row.host, answers.iter().map(|answer| answer.as_ref().map(parse).map_err(Clone::clone)).collect());
            }
            Dns::Nothing => {}
            Dns::Never => recorder.never(&row.host),
        }
        for (address, how) in &row.failing {
            match how {
                Dead::Refuses => recorder.fail(address, io::ErrorKind::ConnectionRefused),
                Dead::Unreachable => recorder.fail(address, io::ErrorKind::HostUnreachable),
                Dead::Silent => recorder.silent(address),
            }
        }
        let server = match row.server.take() {
            Some(make) => {
                let own = (!row.host.ends_with(".example.com"))
                    .then(|| self.network.authority.leaf(&[row.host.trim_matches(['[', ']'])]));
                let leaf = own.as_ref().unwrap_or(&self.leaf);
                let place = ServerParts { authority: &self.network.authority, leaf, host: &row.host, body: &row.body };
                let server = Server::start(make(&place)).await;
                let address = if row.dev { "127.0.0.1" } else { &row.address };
                recorder.route(address, server.address);
                if let Ok(literal) = row.host.trim_matches(['[', ']']).parse::<std::net::IpAddr>() {
                    recorder.route(&literal.to_string(), server.address);
                }
                Some(server)
            }
            None => None,
        };
        Ready { row, id, server }
    }

    /// Gathers evidence and judges it.
    async fn run(&self, ready: &Ready) -> (Evidence, Report, usize) {
        let Ready { row, id, .. } = ready;
        let registry = &self.ledger.registry;
        let (uri, account, between) = (&row.uri, row.account, &row.between);
        let served = if matches!(between, Between::Nothing) { B256::ZERO } else { hash_of(&row.body) };
        let source = Counted::new(&self.ledger, *id, |read| {
            let call = match between {
                Between::AlwaysAnotherHash => registry.update(*id, uri, B256::with_last_byte(read as u8 + 1)),
                Between::Commits if read == 1 => registry.update(*id, uri, served),
                Between::Moves(uri) if read == 1 => registry.update(*id, uri, served),
                Between::Removes if read == 1 => registry.deregister(*id),
                _ => return,
            };
            self.ledger.send(account, &call);
        });
        let verifier = if row.dev { &self.dev } else { &self.verifier }.clone().limits(row.limits);
        let depth = if row.predicate.is_some() { Depth::Full } else { Depth::Checks };
        if let Some(code) = &row.predicate {
            self.ledger.devchain.set_code(self.predicate(), code.clone());
        }
        let evidence = verifier.gather(&source, depth).await.unwrap_or_else(|error| panic!("{}: {error}", row.name));
        let report = judge(&evidence, &Policy::default(), NOW);
        (evidence, report, source.reads())
    }

    /// Runs a row and appends deviations to `wrong`.
    /// Returns its memory, for rows that run alone.
    async fn check(&self, ready: &Ready, expect: Expect, measured: bool, wrong: &mut Vec<String>) -> usize {
        let row = &ready.row;
        let again = row.again == Some(expect);
        let mut note = |what: String| wrong.push(format!("{}: {what}", row.name));
        let recorder = &self.network.recorder;
        let (lookups, dialled) = (recorder.lookups().len(), recorder.dialled().len());
        if measured {
            MEMORY.reset_peak_usage();
        }
        let before = MEMORY.current_usage();
        let start = Instant::now();
        let (evidence, report, reads) = self.run(ready).await;
        let (took, memory) = (start.elapsed(), MEMORY.peak_usage().saturating_sub(before));
        if took > row.within() + GRACE {
            note(format!("took {took:?}"));
        }
        if measured && memory > MAX_MEMORY {
            note(format!("held {memory} bytes"));
        }
        for fault in faults(row, expect, &report) {
            note(fault);
        }
        let file = serde_json::to_string(&evidence).expect("evidence can be saved");
        let saved: Evidence = serde_json::from_str(&file).expect("and read");
        if judge(&saved, &Policy::default(), NOW) != report {
            note("saved evidence gives another report".to_owned());
        }
        if reads != row.reads.unwrap_or(1) {
            note(format!("the configuration was read {reads} times"));
        }
        if !measured {
            return 0;
        }
        // Lookups and connections, which are known only for rows that run alone.
        let (lookups, dialled) = (recorder.lookups().len() - lookups, &recorder.dialled()[dialled..]);
        let early = !row.fetched && matches!(expect, Expect::Refused(_, Step::Registration | Step::MetadataUri, _));
        let dials = match expect {
            _ if again => row.dials_again,
            _ if early => 0,
            Expect::Refused(_, Step::Egress, _) => 0,
            _ => row.dials.unwrap_or(1),
        };
        if (early && lookups > 0) || lookups > 1 {
            note(format!("{lookups} look-ups"));
        }
        if dialled.len() != dials {
            note(format!("{} connections: {dialled:?}", dialled.len()));
        }
        if dialled.iter().any(|address| !ip::is_public(address.ip()) && !row.dev) {
            note(format!("connections to {dialled:?}"));
        }
        if let Some(server) = &ready.server {
            let requests = server.requests();
            if requests.iter().any(|request| request.method() != "GET" || !row.uri.ends_with(request.path())) {
                note(format!("asked for {requests:?}"));
            }
            let allowed = if row.again.is_some() { 2 } else { 1 };
            if server.accepted() > allowed || requests.len() > allowed {
                note(format!("{} connections and {} requests", server.accepted(), requests.len()));
            }
        }
        memory
    }
}

/// The deviations of a report from the expectation.
fn faults(row: &Row, expect: Expect, report: &Report) -> Vec<String> {
    let mut faults = Vec::new();
    let mut unless = |holds: bool, what: &dyn Fn() -> String| {
        if !holds {
            faults.push(what());
        }
    };
    let said = || format!("expected {expect:?}, got {:?}: {:?}", report.failed, report.findings.first());
    match expect {
        Expect::Verified => {
            unless(report.verified && report.conformant && report.is_usable(), &said);
            unless(report.verdict == Verdict::Verified && report.checks == [Check::Passed; 4], &said);
            unless(report.about.is_some() && report.claims.is_none(), &said);
            unless(report.dev == row.dev, &|| "the development world is told".to_owned());
        }
        Expect::Flawed(code) => {
            unless(report.verified && !report.conformant && !report.is_usable(), &said);
            unless(report.findings.iter().any(|finding| finding.code == code), &|| {
                format!("no {code}: {:?}", report.findings.iter().map(|finding| finding.code.id()).collect::<Vec<_>>())
            });
            unless(report.about.is_none(), &|| "a flawed manifest speaks for itself".to_owned());
        }
        Expect::Refused(check, step, code) => {
            let failed = report.failed.map(|failed| (failed.check(), failed.step, failed.code));
            unless(failed == Some((check, step, code)), &said);
            unless(!report.verified && !report.is_usable() && report.about.is_none(), &said);
            unless(report.findings.first().is_some_and(|finding| finding.code == code), &|| "the reason comes first".to_owned());
            // VERIFY-010: a failure never reads as open access to a usable tool.
            let unclear = codes::fetch::is_transient(code);
            unless(report.verdict == if unclear { Verdict::Unknown } else { Verdict::Refused }, &|| {
                format!("{:?}", report.verdict)
            });
            if let Some(check) = check {
                unless(report.checks[usize::from(check) - 1] == Check::Failed, &|| format!("{:?}", report.checks));
            }
        }
    }
    for code in &row.codes {
        unless(report.findings.iter().any(|finding| finding.code == *code), &|| format!("no {code}"));
    }
    if let Some(says) = &row.says {
        let message = report.findings.first().map_or("", |finding| finding.message.as_str());
        unless(message.contains(says), &|| format!("says `{message}`"));
    }
    if let Some(window) = row.window {
        unless(report.freshness.window == window, &|| format!("{:?}", report.freshness));
    }
    faults
}

fn rows() -> Vec<Row> {
    [urls::rows(), egress::rows(), transport::rows(), bytes::rows(), content::rows(), onchain::rows()]
        .into_iter()
        .flatten()
        .collect()
}

#[tokio::test(flavor = "current_thread")]
async fn every_row_ends_as_it_should() {
    let rows = rows();
    let count = rows.len();
    assert!(count >= 120, "{count} rows");
    let names: BTreeSet<_> = rows.iter().map(|row| row.name.clone()).collect();
    assert_eq!(names.len(), count, "a name stands for one row");
    let bench = Bench::new().await;
    let (mut wrong, mut largest) = (Vec::new(), 0);
    let (waiting, others): (Vec<_>, Vec<_>) = rows.into_iter().enumerate().partition(|(_, row)| row.waits);
    let mut tally: BTreeMap<String, usize> = BTreeMap::new();
    for (number, row) in others {
        let ready = bench.prepare(row, number).await;
        *tally.entry(kind(ready.row.expect)).or_default() += 1;
        largest = largest.max(bench.check(&ready, ready.row.expect, true, &mut wrong).await);
        if let Some(again) = ready.row.again {
            largest = largest.max(bench.check(&ready, again, true, &mut wrong).await);
        }
    }
    let mut together = Vec::new();
    for (number, row) in waiting {
        let ready = bench.prepare(row, number).await;
        *tally.entry(kind(ready.row.expect)).or_default() += 1;
        together.push(ready);
    }
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    let running = together.iter().map(|ready| async {
        let mut wrong = Vec::new();
        bench.check(ready, ready.row.expect, false, &mut wrong).await;
        wrong
    });
    wrong.extend(futures_util::future::join_all(running).await.into_iter().flatten());
    let memory = MEMORY.peak_usage().saturating_sub(before);
    if memory > MAX_MEMORY {
        wrong.push(format!("{} rows that wait held {memory} bytes together", together.len()));
    }
    assert!(wrong.is_empty(), "{} faults:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(tally.values().sum::<usize>(), count);
    eprintln!("{count} rows: {tally:?}; the largest held {largest} bytes");
}

fn kind(expect: Expect) -> String {
    match expect {
        Expect::Verified => "verified".to_owned(),
        Expect::Flawed(_) => "flawed".to_owned(),
        Expect::Refused(Some(check), ..) => format!("refused at check {check}"),
        Expect::Refused(None, ..) => "not registered".to_owned(),
    }
}

/// Every requirement of the five groups is named above a row, or listed in [`ELSEWHERE`].
#[test]
fn every_requirement_has_a_row() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = std::fs::read_to_string(root.join("../../docs/conformance.tsv")).expect("the table of requirements");
    let groups = ["VERIFY-", "URL-", "SSRF-", "CREATOR-", "HARDEN-"];
    let all: BTreeSet<&str> = table
        .lines()
        .filter_map(|line| line.split('\t').next())
        .filter(|id| groups.iter().any(|group| id.starts_with(group)))
        .collect();
    assert!(all.len() > 50, "{} requirements", all.len());
    let sources = [
        include_str!("urls.rs"),
        include_str!("egress.rs"),
        include_str!("transport.rs"),
        include_str!("bytes.rs"),
        include_str!("content.rs"),
        include_str!("onchain.rs"),
    ];
    let named: BTreeSet<&str> = sources
        .iter()
        .flat_map(|source| source.lines())
        .filter_map(|line| line.trim().strip_prefix("// req: "))
        .flat_map(|ids| ids.split(", "))
        .collect();
    let elsewhere: BTreeSet<&str> = ELSEWHERE.iter().map(|(id, _)| *id).collect();
    let missing: Vec<_> = all.iter().filter(|id| !named.contains(*id) && !elsewhere.contains(*id)).collect();
    assert!(missing.is_empty(), "no row for {missing:?}");
    let both: Vec<_> = elsewhere.iter().filter(|id| named.contains(*id) || !all.contains(*id)).collect();
    assert!(both.is_empty(), "shown here after all, or unknown: {both:?}");
}
