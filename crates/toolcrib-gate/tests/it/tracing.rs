//! What a logger gets to see of calls: who, what, when and how it ended; nothing that is worth stealing.

use std::fmt::{Debug, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ::tracing::field::{Field, Visit};
use ::tracing::span::{Attributes, Id, Record};
use ::tracing::{Event, Metadata, Subscriber};
use serde_json::json;
use tokio::net::TcpListener;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::{FixedClock, UnixTime};
use toolcrib_gate::{Gate, PaidGate, Rates, Tools};
use toolcrib_store::replay::{Limits, MemoryReplay};
use toolcrib_x402::nonce::{BoundCall, BoundNonce};
use toolcrib_x402::{Authorization, Version};

use crate::till::{TRANSACTION, USDC_ON_BASE, of_the_price, priced, till};
use crate::world::{NOW, ORIGIN, Runs, authorization, base_domain, counting, fresh, header, holder, post, sign};

/// Keeps everything that anybody emits, at every level.
#[derive(Clone, Default)]
struct Everything {
    lines: Arc<Mutex<Vec<String>>>,
    spans: Arc<AtomicU64>,
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

impl Everything {
    fn keep(&self, head: String, record: impl FnOnce(&mut Line)) {
        let mut line = Line(head);
        record(&mut line);
        self.lines.lock().expect("no panic").push(line.0);
    }
}

impl Subscriber for Everything {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.keep(format!("{} span {}", span.metadata().target(), span.metadata().name()), |line| span.record(line));
        Id::from_u64(1 + self.spans.fetch_add(1, Ordering::SeqCst))
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        self.keep("record".to_owned(), |line| values.record(line));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.keep(format!("{} event", event.metadata().target()), |line| event.record(line));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_logger_sees_calls_and_no_credentials() {
    let all = Everything::default();
    // While there is one subscriber alone, a place in the code that another test reaches first is taken for silent in every thread.
    let _second = ::tracing::Dispatch::new(Everything::default());
    let _guard = ::tracing::subscriber::set_default(all.clone());
    let runs = Runs::default();
    let reference = ToolRef::parse("eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7").expect("a reference");
    let server = Tools::new(ORIGIN)
        .store(MemoryReplay::new(Limits::default()))
        .rates(Rates { per_address: None, ..Rates::default() })
        .clock(FixedClock(UnixTime::from_seconds(NOW)))
        .tool(counting("free", Gate::identity().tool(reference), &runs).get())
        .tool(priced("paid", USDC_ON_BASE, PaidGate::new(till()), &runs))
        .build()
        .expect("sound settings");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let at = listener.local_addr().expect("bound");
    tokio::spawn(server.serve(listener, std::future::pending()));

    let input = json!({"text": "xylophone quartz"});
    let free = post(at, "/free", &[], &input).await.challenges();
    let paid = post(at, "/paid", &[], &input).await.challenges();
    let (target, body) = (format!("{ORIGIN}/free"), input.to_string());
    let bound = BoundNonce::make(&BoundCall { tool: reference, method: "POST", target: &target, body: body.as_bytes() }, fresh());
    let signed = Authorization { nonce: bound.nonce, ..authorization(holder(), fresh()) };
    let first = sign(holder(), &signed, &base_domain());
    let value = header(&free, Version::V1, signed, first.clone());
    let salt = bound.salt_header();
    let headers = [("X-PAYMENT", value.as_str()), ("X-Tool-Nonce-Salt", salt.as_str()), ("Authorization", "Bearer 0ther-s3cret")];
    for status in [200, 409] {
        assert_eq!(post(at, "/free", &headers, &input).await.status, status);
    }
    let signed = of_the_price(authorization(holder(), fresh()));
    let second = sign(holder(), &signed, &base_domain());
    let paying = header(&paid, Version::V2, signed, second.clone());
    let answer = post(at, "/paid", &[("PAYMENT-SIGNATURE", &paying)], &input).await;
    assert_eq!(answer.status, 200);
    let token = answer.header("x-tool-retry-token").expect("a token").to_owned();
    let again = post(at, "/paid", &[("PAYMENT-SIGNATURE", &paying), ("X-Tool-Retry-Token", &token)], &input).await;
    assert_eq!(again.status, 200);
    // In the query, and a payment that cannot be read.
    let unread = crate::world::send(at, "GET", "/free?text=xylophone", &[("X-PAYMENT", b"not-base64-s3cret")], b"").await;
    assert_eq!(unread.status, 400);

    let lines = all.lines.lock().expect("no panic").clone();
    let text = lines.join("\n");
    let secrets = [
        first.to_string()[2..].to_owned(),
        second.to_string()[2..].to_owned(),
        salt[2..].to_owned(),
        token[2..].to_owned(),
        value,
        paying,
        bound.nonce.to_string()[2..].to_owned(),
        "xylophone".to_owned(),
        "s3cret".to_owned(),
    ];
    for secret in secrets {
        assert!(!text.to_lowercase().contains(&secret.to_lowercase()), "{secret} is in\n{text}");
    }
    let ours: Vec<_> = lines.iter().filter(|line| line.starts_with("toolcrib::call ")).collect();
    let events = |end: &str| ours.iter().filter(|line| line.contains(end)).count();
    assert_eq!(events("span call tool=\"free\" method=\"POST\""), 3);
    assert_eq!(events("span call tool=\"paid\" method=\"POST\""), 3);
    assert_eq!(events("span call tool=\"free\" method=\"GET\""), 1);
    assert_eq!(events("status=200 code=\"\" millis="), 3);
    assert_eq!(events("status=402 code=\"\" millis="), 2);
    assert_eq!(events("status=409 code=\"payment.replayed\""), 1);
    assert_eq!(events("status=400 code=\"payment.base64\""), 1);
    let callers = lines.iter().filter(|line| line.contains(&format!("caller={}", holder().address()))).count();
    assert_eq!(callers, 4, "{text}");
    assert_eq!(lines.iter().filter(|line| line.contains(&format!("transaction={TRANSACTION}"))).count(), 2);
}
