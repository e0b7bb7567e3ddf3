//! Results that were paid for and lost in transit are fetched with the same payment: the real program on both sides.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use alloy_primitives::U256;
use serde_json::{Value, json};
use toolcrib_devchain::accounts::dev_signers;
use toolcrib_x402::asset;

use crate::onchain::{CREATOR, World};
use crate::publish::world::pem;
use crate::serving::paid::mint;
use crate::{RunOutput, finish};
use toolcrib_testkit::databases::{DURABLE, TestStore};
use toolcrib_testkit::servers::Authority;

const HOST: &str = "harbour.tool.localhost";
const RECIPIENT: &str = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";
const PRICE: u64 = 10_000;

/// Time limit for a rerun. The gate's pause is as long as all earlier runs together, about a minute on a busy machine.
const RERUN_LIMIT: Duration = Duration::from_secs(200);

/// A tool behind the gate that succeeds or fails on request.
struct Behind {
    address: SocketAddr,
    works: Arc<AtomicBool>,
    runs: Arc<AtomicUsize>,
}

impl Behind {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (works, runs) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
        let (is_up, count) = (works.clone(), runs.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten().take(1_000) {
                count.fetch_add(1, Ordering::SeqCst);
                answer(stream, is_up.load(Ordering::SeqCst));
            }
        });
        Self { address, works, runs }
    }
}

fn answer(mut stream: TcpStream, works: bool) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let Ok(read @ 1..) = stream.read(&mut buffer) else { return };
        bytes.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            break;
        }
    }
    let (status, body) = if works { ("200 OK", r#"{"height_cm":187}"#) } else { ("500 Internal Server Error", "{}") };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
}

/// A registered tool behind `serve`.
struct Shop {
    world: World,
    behind: Behind,
    gate: Child,
    tool: String,
}

impl Shop {
    fn open(store: &str, more: &[&str]) -> Self {
        let (world, behind) = (World::new(), Behind::start());
        let port = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound").port();
        let authority = Authority::new("a development authority");
        let leaf = authority.leaf(&[HOST]);
        crate::write(&world.sandbox.home().join(".local/state/toolcrib/dev/ca.pem"), pem(&authority.der()).as_bytes());
        world.sandbox.write("chain.pem", leaf.chain.iter().map(|der| pem(der)).collect::<String>());
        world.sandbox.write("key.pem", pem(leaf.key().secret_der()).replace("CERTIFICATE", "PRIVATE KEY"));
        let token = asset::usdc(31_337).expect("listed").address;
        let manifest = json!({
            "type": "https://ercs.ethereum.org/ERCS/erc-8257#tool-manifest-v1",
            "name": "tide-table",
            "description": "Tells the tide.",
            "endpoint": format!("https://{HOST}:{port}/tide-table"),
            "inputs": {},
            "outputs": {},
            "creatorAddress": CREATOR.to_lowercase(),
            "pricing": [{
                "amount": PRICE.to_string(),
                "asset": format!("eip155:31337/erc20:{token:#x}"),
                "recipient": format!("eip155:31337:{}", RECIPIENT.to_lowercase()),
                "protocol": "x402",
            }],
        });
        world.sandbox.write("tool.json", manifest.to_string());
        let uri = format!("https://{HOST}:{port}/.well-known/ai-tool/tide-table.json");
        let (upstream, listen) = (format!("http://{}/", behind.address), format!("127.0.0.1:{port}"));
        let arguments = [
            &[
                "serve",
                "tool.json",
                "--upstream",
                &upstream,
                "--listen",
                &listen,
                "--tls-cert",
                "chain.pem",
                "--tls-key",
                "key.pem",
            ],
            &["--settle-locally", "--dev-account", "9", "--rpc-url", &world.url][..],
            more,
        ]
        .concat();
        let log = fs::File::create(world.sandbox.path().join("serve.log")).expect("a log");
        let mut command = world.sandbox.command(&arguments);
        let mut gate = command.env("TOOLCRIB_STORE", store).stderr(Stdio::from(log)).spawn().expect("the program starts");
        let mut line = String::new();
        BufReader::new(gate.stdout.take().expect("a pipe")).read_line(&mut line).expect("a first line");
        assert!(line.contains(&listen), "{line}{}", world.sandbox.read("serve.log"));
        let ran = world.sign(&["register", "--manifest", "tool.json", "--metadata", &uri, "--skip-fetch"], "0").code(0);
        mint(&world, dev_signers()[1].address(), 10 * PRICE);
        Self { tool: ran.stdout.trim().to_owned(), world, behind, gate }
    }

    fn arguments<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        [more, &["--network", "local", "--rpc-url", &self.world.url]].concat()
    }

    fn call<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        self.arguments(&[&["call", &self.tool, "--input", "{}", "--dev-account", "1", "--yes"], more].concat())
    }

    fn resume(&self, id: &str) -> RunOutput {
        self.world.sandbox.run(&self.arguments(&["payments", "resume", id]))
    }

    fn paid(&self) -> U256 {
        let token = asset::usdc(31_337).expect("listed").address;
        let data = format!("0x70a08231{:0>64}", RECIPIENT.trim_start_matches("0x").to_lowercase());
        let answer = self.world.ask("eth_call", &format!("{},\"latest\"", json!({ "to": token, "data": data })));
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        answer["result"].as_str().expect("a word").parse().expect("a number")
    }

    fn log(&self) -> String {
        self.world.sandbox.read("serve.log")
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        let _ = self.gate.kill();
        let _ = self.gate.wait();
    }
}

/// A location for the gate's store on each available engine.
fn stores() -> Vec<(tokio::runtime::Runtime, TestStore)> {
    let make = |backend| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let place = runtime.block_on(TestStore::new(backend))?;
        Some((runtime, place))
    };
    DURABLE.into_iter().filter_map(make).collect()
}

/// The payment id in an error, next to the command that fetches its result.
#[track_caller]
fn named(stderr: &str) -> String {
    let (_, rest) = stderr.split_once("toolcrib payments resume ").unwrap_or_else(|| panic!("{stderr}"));
    rest.chars().take_while(char::is_ascii_hexdigit).collect()
}

// attack: T16
#[test]
#[cfg(target_os = "linux")]
fn a_result_that_could_not_be_written_is_fetched_again() {
    for (_runtime, place) in stores() {
        let shop = Shop::open(&place.setting, &[]);
        for (count, more) in [&[][..], &["--json"], &["--quiet"]].into_iter().enumerate() {
            let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device");
            let ran = finish(shop.world.sandbox.command(&shop.call(more)).stdout(Stdio::from(full)), b"");
            assert_eq!(ran.code, 2, "{ran:#?} {}", shop.log());
            assert!(ran.stderr.contains("error[cli.output]"), "{}", ran.stderr);
            let id = named(&ran.stderr);
            assert_eq!(shop.paid(), U256::from(PRICE * (count as u64 + 1)), "it was paid");
            let again = shop.resume(&id).code(0);
            let output: Value = serde_json::from_str(&again.stdout).expect("the output");
            assert_eq!(output, json!({ "height_cm": 187 }), "{}", shop.log());
            let runs = shop.behind.runs.load(Ordering::SeqCst);
            assert_eq!((shop.paid(), runs), (U256::from(PRICE * (count as u64 + 1)), count + 1), "paid and run once");
            // The gate said how long that is possible.
            let (code, entry) = shop.world.sandbox.run_json(&["payments", "show", &id]);
            let (until, begun) = (entry["data"]["redeemable_until"].as_i64(), entry["data"]["created_at"].as_i64());
            let kept = until.expect("a time") - begun.expect("a time");
            assert!(code == 0 && (3_590..=3_900).contains(&kept), "{entry:#}");
            assert_eq!((&entry["data"]["evidence"], &entry["data"]["resumable"]), (&json!("chain"), &json!(true)), "{entry:#}");
        }
    }
}

// attack: T16
#[test]
fn what_was_paid_first_is_served_once_the_tool_works_again() {
    for (_runtime, place) in stores() {
        let shop = Shop::open(&place.setting, &["--settle-first"]);
        shop.behind.works.store(false, Ordering::SeqCst);
        let failed = shop.world.sandbox.run(&shop.call(&[])).code(2);
        assert!(failed.stderr.contains("error[call.paid_not_served]"), "{} {}", failed.stderr, shop.log());
        let id = named(&failed.stderr);
        assert_eq!(shop.paid(), U256::from(PRICE));
        // Too early, or while the tool still fails, asking loses nothing.
        for _ in 0..2 {
            let early = shop.resume(&id).code(2);
            assert!(early.stderr.contains("error[call.paid_not_served]"), "{} {}", early.stderr, shop.log());
        }
        shop.behind.works.store(true, Ordering::SeqCst);
        let began = Instant::now();
        let served = loop {
            let ran = shop.resume(&id);
            if ran.code == 0 {
                break ran;
            }
            assert!(ran.stderr.contains("payment.pending"), "{} {}", ran.stderr, shop.log());
            assert!(began.elapsed() < RERUN_LIMIT, "{} {}", ran.stderr, shop.log());
            thread::sleep(Duration::from_millis(500));
        };
        let output: Value = serde_json::from_str(&served.stdout).expect("the output");
        assert_eq!((output, shop.paid()), (json!({ "height_cm": 187 }), U256::from(PRICE)), "{}", shop.log());
        // And again, from the store.
        let runs = shop.behind.runs.load(Ordering::SeqCst);
        shop.resume(&id).code(0);
        assert_eq!((shop.behind.runs.load(Ordering::SeqCst), shop.paid()), (runs, U256::from(PRICE)));
    }
}
