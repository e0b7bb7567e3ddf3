//! A chain, a home folder, and a server for manifests under a name of the development environment.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Runtime;

use crate::onchain::{CREATOR, World};
use crate::{RunOutput, example};
use toolcrib_testkit::servers::{Authority, Script, Server, Step, answer, ok};

pub(crate) const HOST: &str = "harbour.tool.localhost";

/// The environment of a publishing test.
pub(crate) struct PublishSetup {
    pub(crate) world: World,
    pub(crate) server: Serving,
    port: u16,
}

/// What the server does.
pub(crate) struct Serving {
    files: Arc<Mutex<HashMap<String, Vec<u8>>>>,
    /// The request that gets no response, counted from 1; 0 for none.
    pub(crate) hold: Arc<AtomicUsize>,
    /// Whether a request is held.
    pub(crate) held: Arc<AtomicBool>,
    running: Option<(Server, Runtime)>,
}

impl PublishSetup {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// Passes more arguments to the chain.
    pub(crate) fn with(more: &[&str]) -> Self {
        let world = World::with(more);
        let authority = Authority::new("development authority");
        world.sandbox.write("ca.pem", pem(&authority.der()));
        let files = Arc::new(Mutex::new(HashMap::<String, Vec<u8>>::new()));
        let (hold, held) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let respond = {
            let (files, hold, held) = (files.clone(), hold.clone(), held.clone());
            move |request: &toolcrib_testkit::servers::Request| {
                if hold.load(Ordering::SeqCst) > 0 && hold.fetch_sub(1, Ordering::SeqCst) == 1 {
                    held.store(true, Ordering::SeqCst);
                    while held.load(Ordering::SeqCst) {
                        thread::sleep(Duration::from_millis(5));
                    }
                }
                match files.lock().expect("unpoisoned").get(request.path()) {
                    Some(bytes) => ok(bytes),
                    None => answer("404 Not Found", "", b""),
                }
            }
        };
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads for the server");
        let leaf = authority.leaf(&[HOST]);
        let server = runtime.block_on(Server::start(Script::tls(&leaf, vec![Step::ReadRequest, Step::answer(respond)])));
        let port = server.address.port();
        Self { world, server: Serving { files, hold, held, running: Some((server, runtime)) }, port }
    }

    /// Closes the listener.
    pub(crate) fn close(&mut self) {
        if let Some((server, runtime)) = self.server.running.take() {
            drop(server);
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }

    /// The metadata URI of a tool.
    pub(crate) fn uri(&self, slug: &str) -> String {
        format!("https://{HOST}:{}/.well-known/ai-tool/{slug}.json", self.port)
    }

    /// A manifest of the creator.
    pub(crate) fn manifest(&self, slug: &str, version: &str) -> String {
        let mut manifest: Value = serde_json::from_str(&example("tool-free.json")).expect("an example");
        manifest["endpoint"] = format!("https://{HOST}:{}/{slug}", self.port).into();
        manifest["description"] = format!("Tides, as of version {version}.").into();
        manifest["creatorAddress"] = CREATOR.to_lowercase().into();
        serde_json::to_string_pretty(&manifest).expect("JSON")
    }

    pub(crate) fn write(&self, slug: &str, version: &str) {
        self.world.sandbox.write(&format!("{slug}.json"), self.manifest(slug, version));
    }

    pub(crate) fn serve(&self, slug: &str, bytes: impl Into<Vec<u8>>) {
        let path = format!("/.well-known/ai-tool/{slug}.json");
        self.server.files.lock().expect("unpoisoned").insert(path, bytes.into());
    }

    pub(crate) fn write_and_serve(&self, slug: &str, version: &str) {
        self.write(slug, version);
        self.serve(slug, self.manifest(slug, version));
    }

    /// The arguments of `publish`, except the node.
    pub(crate) fn arguments(&self, slug: &str, more: &[&str]) -> Vec<String> {
        let (file, uri) = (format!("{slug}.json"), self.uri(slug));
        let all =
            ["publish", &file, "--metadata", &uri, "--network", "local", "--dev-ca", "ca.pem", "--dev-account", "0", "--yes"];
        all.iter().chain(more).map(|text| (*text).to_owned()).collect()
    }

    pub(crate) fn publish(&self, slug: &str, more: &[&str]) -> RunOutput {
        let arguments = self.arguments(slug, more);
        self.world.sandbox.run(&strs(&[&arguments[..], &["--rpc-url".to_owned(), self.world.url.clone()]].concat()))
    }

    pub(crate) fn publish_json(&self, slug: &str, more: &[&str]) -> (i32, Value) {
        let arguments = self.arguments(slug, more);
        self.world.sandbox.run_json(&strs(&[&arguments[..], &["--rpc-url".to_owned(), self.world.url.clone()]].concat()))
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> RunOutput {
        let network: &[&str] = if arguments.contains(&"--network") { &[] } else { &["--network", "local"] };
        self.world.sandbox.run(&[arguments, network, &["--rpc-url", &self.world.url, "--dev-ca", "ca.pem"]].concat())
    }

    pub(crate) fn sign(&self, arguments: &[&str]) -> RunOutput {
        self.sign_as(arguments, "0")
    }

    pub(crate) fn sign_as(&self, arguments: &[&str], account: &str) -> RunOutput {
        self.run(&[arguments, &["--dev-account", account, "--yes"]].concat())
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> (i32, Value) {
        let more = ["--network", "local", "--rpc-url", &self.world.url, "--dev-ca", "ca.pem", "--dev-account", "0", "--yes"];
        self.world.sandbox.run_json(&[arguments, &more].concat())
    }

    /// Checks that the tool has the URL and the hash of its file, and the number of tools.
    #[track_caller]
    pub(crate) fn check_onchain(&self, slug: &str, id: usize, count: usize) {
        let shown = self.world.run(&["inspect", &id.to_string()]).code(0).stdout;
        let hash = self.world.sandbox.run(&["hash", &format!("{slug}.json"), "-q"]).code(0).stdout;
        assert!(shown.contains(&self.uri(slug)) && shown.contains(hash.trim()), "{hash}{shown}");
        assert!(id <= count);
        let next = self.world.run(&["inspect", &(count + 1).to_string()]).code(1).stdout;
        assert!(next.contains("not registered"), "more than {count}: {next}");
    }

    #[track_caller]
    pub(crate) fn check_count(&self, count: usize) {
        if count > 0 {
            self.world.run(&["inspect", &count.to_string()]).code(0);
        }
        let next = self.world.run(&["inspect", &(count + 1).to_string()]).code(1).stdout;
        assert!(next.contains("not registered"), "more than {count}: {next}");
    }

    /// Checks that no file of the user says that a tool is verified.
    pub(crate) fn check_nothing_says_verified(&self) {
        fn look(folder: &Path) {
            for entry in fs::read_dir(folder).expect("a folder").flatten() {
                if entry.path().is_dir() {
                    look(&entry.path());
                } else {
                    let text = String::from_utf8_lossy(&fs::read(entry.path()).expect("a file")).to_lowercase();
                    assert!(!text.contains("verif"), "{}: {text}", entry.path().display());
                }
            }
        }
        look(&self.world.sandbox.home());
    }
}

impl Drop for PublishSetup {
    fn drop(&mut self) {
        self.server.held.store(false, Ordering::SeqCst);
        if let Some((server, runtime)) = self.server.running.take() {
            drop(server);
            runtime.shutdown_background();
        }
    }
}

pub(crate) fn strs(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

/// Encodes a certificate as PEM.
pub(crate) fn pem(der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in der.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= chunk.len() { digit as char } else { '=' });
        }
    }
    let lines: Vec<_> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).expect("ASCII")).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}
