//! The page for Prometheus, read by a strict reader, beside what was really done.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use toolcrib_core::clock::{FixedClock, UnixTime};
use toolcrib_gate::{COUNTS_SECONDS, Context, Gate, Outcome, PaidGate, Rate, Rates, Tool, ToolError, Tools};
use toolcrib_store::replay::{Limits, MemoryReplay};
use toolcrib_x402::{Challenge, Version};
use tower::ServiceExt;

use crate::till::{PRICE, TRANSACTION, USDC_ON_BASE, of_the_price, priced, till};
use crate::world::{
    Input, NOW, ORIGIN, Output, Runs, authorization, base_domain, counting, fresh, header, holder, manifest, post, send, sign,
};

/// Samples by name and labels.
type Samples = BTreeMap<(String, Vec<(String, String)>), f64>;

/// Reads a page to the letter of the text format 0.0.4, and checks what every reader relies on.
#[track_caller]
fn read(page: &str) -> Samples {
    assert!(page.ends_with('\n'), "the last line ends");
    let (mut samples, mut families, mut family) = (Samples::new(), Vec::<String>::new(), None::<(String, String)>);
    let mut help = None::<String>;
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, text) = rest.split_once(' ').expect("a name and a text");
            assert!(!text.is_empty() && !text.contains('\\'), "{line}");
            help = Some(name.to_owned());
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and a kind");
            assert_eq!(help.take().as_deref(), Some(name), "help stands before the type");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(!families.contains(&name.to_owned()), "{name} twice");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
            families.push(name.to_owned());
            family = Some((name.to_owned(), kind.to_owned()));
        } else {
            let (name, labels, value) = sample(line);
            let (of, kind) = family.as_ref().expect("a family");
            let is_own = match kind.as_str() {
                "histogram" => ["_bucket", "_sum", "_count"].iter().any(|end| name.strip_suffix(end) == Some(of)),
                _ => name == *of,
            };
            assert!(is_own, "{name} stands among {of}");
            assert!(samples.insert((name, labels), value).is_none(), "{line} twice");
        }
    }
    for ((name, labels), value) in &samples {
        let Some(base) = name.strip_suffix("_bucket") else { continue };
        let rest: Vec<_> = labels.iter().filter(|(label, _)| label != "le").cloned().collect();
        let count = samples[&(format!("{base}_count"), rest)];
        assert!(*value <= count, "{name}");
        if labels.iter().any(|(label, text)| label == "le" && text == "+Inf") {
            assert_eq!(*value, count, "{name}");
        }
    }
    samples
}

/// One line: a name, labels between braces, a number.
#[track_caller]
fn sample(line: &str) -> (String, Vec<(String, String)>, f64) {
    let is_name = |text: &str| {
        let mut bytes = text.bytes();
        bytes.next().is_some_and(|first| first.is_ascii_lowercase())
            && bytes.all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    let end = line.find(['{', ' ']).expect("a value");
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").expect("a label");
            assert!(is_name(label), "{line}");
            let (mut text, mut characters) = (String::new(), after.char_indices());
            let close = loop {
                match characters.next().expect("a closing mark") {
                    (at, '"') => break at,
                    (_, '\\') => text.push(match characters.next().expect("an escape").1 {
                        'n' => '\n',
                        other @ ('\\' | '"') => other,
                        other => panic!("\\{other}"),
                    }),
                    (_, other) => text.push(other),
                }
            };
            labels.push((label.to_owned(), text));
            rest = &after[close + 1..];
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        rest = rest.strip_prefix('}').expect("a closing brace");
    }
    let value = rest.strip_prefix(' ').expect("one space").parse().expect("a number");
    (name.to_owned(), labels, value)
}

/// The number of a sample; nought when it is not there.
fn at(samples: &Samples, name: &str, labels: &[(&str, &str)]) -> f64 {
    let labels = labels.iter().map(|(label, text)| ((*label).to_owned(), (*text).to_owned())).collect();
    samples.get(&(name.to_owned(), labels)).copied().unwrap_or_default()
}

#[tokio::test]
async fn the_page_says_what_was_done() {
    let (runs, till) = (Runs::default(), till());
    let rates = Rates { per_address: None, per_account: Rate::new(6, 0.001), ..Rates::default() };
    let server = Tools::new(ORIGIN)
        .store(MemoryReplay::new(Limits::default()))
        .rates(rates)
        .clock(FixedClock(UnixTime::from_seconds(NOW)))
        .tool(counting("open", Gate::Open, &runs))
        .tool(counting("free", Gate::identity(), &runs))
        .tool(priced("paid", USDC_ON_BASE, PaidGate::new(till.clone()), &runs))
        .build()
        .expect("sound settings");
    read(&server.metrics().await);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(server.clone().serve(listener, std::future::pending()));

    for _ in 0..3 {
        assert_eq!(post(address, "/open", &[], &json!({"text": "a"})).await.status, 200);
    }
    assert_eq!(post(address, "/open", &[], &json!({})).await.status, 400);
    assert_eq!(send(address, "BREW", "/open", &[], b"").await.status, 405);
    let free = post(address, "/free", &[], &json!({})).await.challenges();
    let paid = post(address, "/paid", &[], &json!({})).await.challenges();
    let pay = |challenges: &[Challenge; 2], is_paid: bool| {
        let signed = authorization(holder(), fresh());
        let signed = if is_paid { of_the_price(signed) } else { signed };
        header(challenges, Version::V1, signed, sign(holder(), &signed, &base_domain()))
    };
    let call =
        async |path: &str, payment: &str| post(address, path, &[("X-PAYMENT", payment)], &json!({"text": "a"})).await.status;
    let used = pay(&free, false);
    assert_eq!((call("/free", &used).await, call("/free", &used).await), (200, 409));
    assert_eq!((call("/paid", &pay(&paid, true)).await, call("/paid", &pay(&paid, true)).await), (200, 200));
    till.next(Outcome::Refused { reason: "insufficient_funds".to_owned() });
    assert_eq!(call("/paid", &pay(&paid, true)).await, 402);
    till.next(Outcome::Unknown { transaction: Some(TRANSACTION), detail: String::new() });
    assert_eq!(call("/paid", &pay(&paid, true)).await, 502);
    assert_eq!(call("/paid", &pay(&paid, true)).await, 429, "the seventh");

    // What the store holds was counted a moment ago, everything else is of this moment.
    let samples = read(&server.metrics().await);
    assert_eq!(at(&samples, "toolcrib_replay_entries", &[("state", "settled")]), 0.0);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(COUNTS_SECONDS + 1)).await;
    tokio::time::resume();
    let page = server.metrics().await;
    let samples = read(&page);
    let calls = |tool, status, code| at(&samples, "toolcrib_calls_total", &[("tool", tool), ("status", status), ("code", code)]);
    for (tool, status, code, count) in [
        ("open", "200", "", 3.0),
        ("open", "400", "gate.input_invalid", 1.0),
        ("open", "405", "gate.method", 1.0),
        ("free", "402", "", 1.0),
        ("free", "200", "", 1.0),
        ("free", "409", "payment.replayed", 1.0),
        ("paid", "402", "", 1.0),
        ("paid", "200", "", 2.0),
        ("paid", "402", "settlement.refused", 1.0),
        ("paid", "502", "settlement.unknown", 1.0),
        ("paid", "429", "gate.rate_limited", 1.0),
    ] {
        assert_eq!(calls(tool, status, code), count, "{tool} {status} {code}\n{page}");
    }
    let total: f64 = samples.iter().filter(|((name, _), _)| name == "toolcrib_calls_total").map(|(_, value)| value).sum();
    assert_eq!(total, 14.0, "and nothing else: {page}");
    for (tool, handled, settled) in [("open", 3.0, 0.0), ("free", 1.0, 0.0), ("paid", 4.0, 4.0)] {
        assert_eq!(at(&samples, "toolcrib_handler_seconds_count", &[("tool", tool)]), handled, "{tool}");
        assert_eq!(at(&samples, "toolcrib_settlement_seconds_count", &[("tool", tool)]), settled, "{tool}");
        assert!(at(&samples, "toolcrib_handler_seconds_sum", &[("tool", tool)]) < 5.0);
    }
    for (outcome, count) in [("settled", 2.0), ("refused", 1.0), ("unknown", 1.0), ("unavailable", 0.0)] {
        assert_eq!(at(&samples, "toolcrib_payments_total", &[("tool", "paid"), ("outcome", outcome)]), count, "{outcome}");
    }
    let earned = at(&samples, "toolcrib_settled_units_total", &[("tool", "paid"), ("asset", USDC_ON_BASE)]);
    assert_eq!(earned, 2.0 * PRICE as f64);
    assert_eq!(at(&samples, "toolcrib_running_calls", &[]), 0.0);
    assert_eq!(at(&samples, "toolcrib_replay_up", &[]), 1.0);
    for (state, count) in [("reserved", 1.0), ("settling", 0.0), ("settled", 2.0), ("unknown", 1.0)] {
        assert_eq!(at(&samples, "toolcrib_replay_entries", &[("state", state)]), count, "{state}");
    }
    assert!(!page.to_lowercase().contains(&format!("{:#x}", holder().address())), "nobody who called is on the page");
}

#[tokio::test]
async fn callers_who_leave_are_counted_too() {
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let waiting = gate.clone();
    let tool = Tool::new(manifest("slow")).handler(move |input: Input, context: Context| {
        let waiting = waiting.clone();
        async move {
            waiting.acquire().await.expect("never closed").forget();
            Ok::<_, ToolError>(Output::new(&input.text, context.caller()))
        }
    });
    let server = Tools::new(ORIGIN).tool(tool).build().expect("sound settings");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(server.clone().serve(listener, std::future::pending()));
    let until = async |name: &str, labels: &[(&str, &str)], value: f64| {
        let waiting = async {
            while at(&read(&server.metrics().await), name, labels) != value {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("in time");
    };
    let mut caller = TcpStream::connect(address).await.expect("it listens");
    let request = "POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n{\"text\":\"\"}";
    caller.write_all(request.as_bytes()).await.expect("sent");
    until("toolcrib_running_calls", &[], 1.0).await;
    drop(caller);
    until("toolcrib_calls_total", &[("tool", "slow"), ("status", "499"), ("code", "")], 1.0).await;
    // The call goes on, and ends.
    assert_eq!(at(&read(&server.metrics().await), "toolcrib_running_calls", &[]), 1.0);
    gate.add_permits(1);
    until("toolcrib_handler_seconds_count", &[("tool", "slow")], 1.0).await;
    until("toolcrib_running_calls", &[], 0.0).await;
}

#[tokio::test]
async fn the_page_is_not_where_callers_are() {
    let server = Tools::new(ORIGIN).tool(counting("open", Gate::Open, &Runs::default())).build().expect("sound settings");
    let ask = async |router: axum::Router, method: &str| {
        let request = Request::builder().method(method).uri("/metrics").body(Body::empty()).expect("a request");
        router.oneshot(request).await.expect("an answer")
    };
    assert_eq!(ask(server.router(), "GET").await.status(), 404);
    assert_eq!(ask(server.metrics_router(), "POST").await.status(), 405);
    let answer = ask(server.metrics_router(), "GET").await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    assert_eq!(answer.headers()["cache-control"], "no-store");
    let page = to_bytes(answer.into_body(), 1 << 20).await.expect("a page");
    read(std::str::from_utf8(&page).expect("text"));
}
