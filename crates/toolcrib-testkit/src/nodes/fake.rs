//! A fake RPC node whose responses a test defines, valid or not.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use toolcrib_chain::network::Network;
use toolcrib_chain::rpc::{Chain, ChainConfig, NodeUrl, Retries};

/// The response to a request.
#[derive(Debug)]
pub enum Reply {
    /// A JSON-RPC result.
    Result(Value),
    /// A JSON-RPC error: code, message, data.
    Error(i64, String, Value),
    /// A whole HTTP response.
    Http(u16, Vec<u8>),
    /// Endless bytes, without a length.
    Endless,
    /// No response for this time.
    Silence(Duration),
    /// A closed connection.
    HangUp,
}

type Handler = dyn Fn(&str, &Value) -> Reply + Send + Sync;

/// A running fake node. It stops with the test's runtime.
#[derive(Debug)]
pub struct FakeNode {
    port: u16,
    seen: Arc<Mutex<Vec<Value>>>,
}

impl FakeNode {
    /// Starts a node. `handler` gets method and params; `eth_chainId` is answered with `chain_id`.
    pub async fn start(chain_id: u64, handler: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let handler: Arc<Handler> = Arc::new(move |method: &str, params: &Value| match method {
            "eth_chainId" => Reply::Result(json!(format!("{chain_id:#x}"))),
            _ => handler(method, params),
        });
        let log = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&handler), Arc::clone(&log)));
            }
        });
        Self { port, seen }
    }

    /// Returns its URL.
    pub fn url(&self) -> NodeUrl {
        NodeUrl::parse(&format!("http://127.0.0.1:{}", self.port)).expect("a URL")
    }

    /// Returns the requests so far, except those for the chain ID.
    pub fn seen(&self) -> Vec<Value> {
        let seen = self.seen.lock().expect("no panic");
        seen.iter().filter(|request| request["method"] != "eth_chainId").cloned().collect()
    }
}

/// Returns settings of a client of fake nodes of chain 8453, with quick retries.
pub fn config(nodes: &[&FakeNode]) -> ChainConfig {
    let network = Network::find("base").expect("listed");
    let mut config = ChainConfig::new(network, nodes.iter().map(|node| node.url()).collect()).expect("nodes");
    config.retries = Retries { attempts: 4, first_pause: Duration::from_millis(1), longest_pause: Duration::from_millis(4) };
    config.timeout = Duration::from_millis(500);
    config
}

/// Returns a client of one fake node.
pub fn chain(node: &FakeNode) -> Chain {
    Chain::lazy(config(&[node])).expect("a client")
}

async fn serve(mut stream: TcpStream, handler: Arc<Handler>, log: Arc<Mutex<Vec<Value>>>) {
    let mut bytes = Vec::new();
    let request = loop {
        let mut chunk = [0; 4_096];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
        }
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.to_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        if body.len() >= length.unwrap_or_default() {
            break serde_json::from_str::<Value>(body).expect("JSON");
        }
    };
    log.lock().expect("no panic").push(request.clone());
    let reply = handler(request["method"].as_str().unwrap_or_default(), &request["params"]);
    let (status, body) = match reply {
        Reply::Result(result) => {
            (200, json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }).to_string().into_bytes())
        }
        Reply::Error(code, message, data) => {
            let error = json!({ "code": code, "message": message, "data": data });
            (200, json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }).to_string().into_bytes())
        }
        Reply::Http(status, body) => (status, body),
        Reply::Endless => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await;
            while stream.write_all(&[b'['; 65_536]).await.is_ok() {}
            return;
        }
        Reply::Silence(time) => {
            tokio::time::sleep(time).await;
            return;
        }
        Reply::HangUp => return,
    };
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nlocation: http://127.0.0.1:1/\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(&body).await;
    let _ = stream.shutdown().await;
}
