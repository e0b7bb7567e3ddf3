//! Freename and DNS over HTTPS in JSON, with a scripted HTTP server, and several concurrent sources.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use toolcrib_agent::evidence::TxtLookup;
use toolcrib_agent::txt::compare::{Agreement, compare};
use toolcrib_agent::txt::dns::DnsSettings;
use toolcrib_agent::txt::{SourceContext, SourceList, TxtSources};
use toolcrib_fetch::Configured;

use crate::authority::{Authority, zone};
use crate::support::{POINTER, SystemClock, code, domain, records};

/// Responds to every request with the script's result for its target: a status and a body.
pub(crate) async fn serve(script: impl Fn(&str, &[u8]) -> (u16, String) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let script = std::sync::Arc::new(script);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let script = script.clone();
            tokio::spawn(async move {
                while let Some((target, body)) = request(&mut stream).await {
                    let (status, body) = script(&target, &body);
                    let head = format!(
                        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                        body.len()
                    );
                    if stream.write_all(format!("{head}{body}").as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// The target and the body of one request.
pub(crate) async fn request(stream: &mut tokio::net::TcpStream) -> Option<(String, Vec<u8>)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let text = String::from_utf8(head).ok()?;
    let target = text.split(' ').nth(1)?.to_owned();
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok()).flatten()
    });
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await.ok()?;
    Some((target, body))
}

fn context() -> SourceContext {
    SourceContext { http: Configured::builder(SystemClock).build().expect("a client"), dns: DnsSettings::default(), fns: None }
}

async fn ask(setting: &str) -> TxtLookup {
    let sources = TxtSources::build(&setting.parse().expect("a source"), &context()).expect("sources");
    let mut answers = sources.lookup_all(&domain("exampleagent.agt")).await;
    answers.remove(0).outcome
}

fn freename_body() -> String {
    format!(r#"{{"data":{{"name":"exampleagent.agt","records":[{{"key":null,"type":"TXT","value":"\"{POINTER}\""}}]}}}}"#)
}

fn dns_body() -> String {
    format!(r#"{{"Status":0,"Answer":[{{"name":"exampleagent.agt.","type":16,"data":"\"{POINTER}\""}}]}}"#)
}

#[tokio::test]
async fn freename_is_asked_for_the_name_and_believed_about_nothing_else() {
    let address = serve(|target, _| match target {
        "/api/v1/resolver/FNS/exampleagent.agt" => (200, freename_body()),
        "/missing/FNS/exampleagent.agt" => (404, r#"{"result":false}"#.to_owned()),
        "/other/FNS/exampleagent.agt" => (200, r#"{"data":{"name":"other.agt","records":[]}}"#.to_owned()),
        "/odd/FNS/exampleagent.agt" => (200, "<html>".to_owned()),
        "/large/FNS/exampleagent.agt" => (200, " ".repeat(600_000)),
        "/moved/FNS/exampleagent.agt" => (302, String::new()),
        _ => (503, String::new()),
    })
    .await;
    let url = |base: &str| format!("freename:http://{address}{base}");
    assert_eq!(ask(&url("/api/v1/resolver")).await, records(&[POINTER.as_bytes()]));
    assert_eq!(ask(&url("/missing")).await, TxtLookup::NotFound);
    assert_eq!(code(&ask(&url("/other")).await), "agent.txt_answer_other_name");
    assert_eq!(code(&ask(&url("/odd")).await), "agent.txt_answer_malformed");
    assert_eq!(code(&ask(&url("/busy")).await), "agent.txt_answer_status");
    assert_eq!(code(&ask(&url("/moved")).await), "agent.txt_answer_status");
    assert!(code(&ask(&url("/large")).await).starts_with("fetch."));
}

#[tokio::test]
async fn dns_in_json_is_asked_with_name_and_type() {
    let address = serve(|target, _| match target {
        "/dns-query?name=exampleagent.agt&type=TXT" => (200, dns_body()),
        "/resolve?key=1&name=exampleagent.agt&type=TXT" => (200, r#"{"Status":3}"#.to_owned()),
        "/cut?name=exampleagent.agt&type=TXT" => (200, r#"{"Status":0,"TC":true}"#.to_owned()),
        _ => (400, String::new()),
    })
    .await;
    let url = |path: &str| format!("doh-json:http://{address}{path}");
    assert_eq!(ask(&url("/dns-query")).await, records(&[POINTER.as_bytes()]));
    assert_eq!(ask(&url("/resolve?key=1")).await, TxtLookup::NotFound);
    assert_eq!(code(&ask(&url("/cut")).await), "agent.dns_truncated");
    assert_eq!(code(&ask(&url("/none")).await), "agent.txt_answer_status");
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("bound");
    assert!(code(&ask(&format!("doh-json:http://{closed}/")).await).starts_with("fetch."));
}

// req: AGT-024
#[tokio::test]
async fn several_sources_are_asked_side_by_side_and_compared() {
    let authority = Authority::start(vec![zone()]).await;
    let same = serve(|_, _| {
        let data = format!(r#"{{"Status":0,"Answer":[{{"name":"plain.agt","type":16,"data":"\"{POINTER}\""}}]}}"#);
        (200, data)
    })
    .await;
    let other =
        serve(|_, _| (200, r#"{"data":{"name":"plain.agt","records":[{"type":"TXT","value":"\"agt-version=1\""}]}}"#.to_owned()))
            .await;
    let broken = serve(|_, _| (500, String::new())).await;
    let settings: SourceList = [
        format!("dns:udp://{}", authority.plain),
        format!("doh-json:http://{same}/dns-query"),
        format!("freename:http://{other}"),
        format!("doh-json:http://{broken}/dns-query"),
    ]
    .join(" ")
    .parse()
    .expect("sources");
    let sources = TxtSources::build(&settings, &context()).expect("sources");
    let answers = sources.lookup_all(&domain("plain.agt")).await;
    assert_eq!(answers.len(), 4);
    for (answer, setting) in answers.iter().zip(settings.as_slice()) {
        assert_eq!(answer.source, setting.to_string());
    }
    let comparison = compare(&answers);
    assert_eq!(comparison.groups, [vec![0, 1], vec![2]]);
    assert_eq!(comparison.failed, [3]);
    assert_eq!(comparison.agreement(), Agreement::Disagree);
    assert_eq!(compare(&answers[..2]).agreement(), Agreement::Agree);
}

#[tokio::test]
async fn sources_that_cannot_be_built_are_refused() {
    let refused = |settings: &str| {
        let settings: SourceList = settings.parse().expect("sources");
        TxtSources::build(&settings, &context()).map_err(|error| error.code().id()).err()
    };
    assert_eq!(refused("fns"), Some("agent.txt_setting"));
    assert_eq!(refused("dns freename file:records.txt"), None);
}
