//! Keep-alive connections, and nodes that abuse them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use toolcrib_chain::network::Network;
use toolcrib_chain::rpc::{Chain, ChainConfig, NodeUrl, Retries};

/// How a node misbehaves between responses.
#[derive(Clone, Copy)]
enum Habit {
    None,
    /// Sends a second response together with the first.
    Behind,
    /// Sends a second response a moment later, without a request.
    Later,
    /// Closes the connection after every response without announcing it.
    Closes,
    /// Closes the connection at every second request, after reading it.
    HangsUp,
}

struct Node {
    chain: Chain,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    /// Number of responses without a request.
    unasked: Arc<AtomicUsize>,
}

impl Node {
    async fn start(habit: Habit) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = NodeUrl::parse(&format!("http://{}", listener.local_addr().expect("bound"))).expect("a URL");
        let mut config = ChainConfig::new(Network::find("base").expect("listed"), vec![url]).expect("a node");
        config.retries = Retries { attempts: 3, first_pause: Duration::from_millis(1), longest_pause: Duration::from_millis(4) };
        config.timeout = Duration::from_secs(5);
        let (connections, requests) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let unasked = Arc::new(AtomicUsize::new(0));
        let (accepted, read, sent) = (connections.clone(), requests.clone(), unasked.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, habit, read.clone(), sent.clone()));
            }
        });
        Self { chain: Chain::lazy(config).expect("a client"), connections, requests, unasked }
    }

    fn seen(&self) -> (usize, usize) {
        (self.connections.load(Ordering::SeqCst), self.requests.load(Ordering::SeqCst))
    }
}

fn answer(request: &Value, block: u64) -> Vec<u8> {
    let result = if request["method"] == "eth_chainId" { json!("0x2105") } else { json!(format!("{block:#x}")) };
    let body = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }).to_string();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

async fn serve(mut stream: TcpStream, habit: Habit, requests: Arc<AtomicUsize>, unasked: Arc<AtomicUsize>) {
    let mut bytes = Vec::new();
    for number in 1.. {
        let request = loop {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let head = head.to_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
                if body.len() >= length.unwrap_or_default() {
                    break serde_json::from_str::<Value>(body).expect("JSON");
                }
            }
            match stream.read_buf(&mut bytes).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        };
        bytes.clear();
        requests.fetch_add(1, Ordering::SeqCst);
        if matches!(habit, Habit::HangsUp) && number % 2 == 0 {
            return;
        }
        let mut out = answer(&request, 100);
        // With the id of the next request.
        let next = json!({ "method": "eth_blockNumber", "id": request["id"].as_u64().unwrap_or_default() + 1 });
        if matches!(habit, Habit::Behind) {
            out.extend(answer(&next, 666));
        }
        if stream.write_all(&out).await.is_err() || matches!(habit, Habit::Closes) {
            return;
        }
        if matches!(habit, Habit::Later) {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let _ = stream.write_all(&answer(&next, 666)).await;
        }
        if matches!(habit, Habit::Behind | Habit::Later) {
            unasked.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[tokio::test]
async fn requests_to_a_node_share_a_connection() {
    let node = Node::start(Habit::None).await;
    for _ in 0..5 {
        assert_eq!(node.chain.block_number().await.expect("a number"), 100);
    }
    assert_eq!(node.seen(), (1, 6), "one connection for the chain's number and five blocks");
}

// A node could send the response to the next request in advance.
#[tokio::test]
async fn an_answer_that_was_not_asked_for_is_never_taken() {
    for habit in [Habit::Behind, Habit::Later] {
        let node = Node::start(habit).await;
        // The first call makes two requests in a row, so a response between them counts.
        let _ = node.chain.block_number().await;
        while node.unasked.load(Ordering::SeqCst) < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        for _ in 0..5 {
            let before = node.unasked.load(Ordering::SeqCst);
            assert_eq!(node.chain.block_number().await.expect("a number"), 100);
            // A response while a request is pending counts; this test is about responses before the request.
            while node.unasked.load(Ordering::SeqCst) == before {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(node.seen().0 >= 5, "{:?}", node.seen());
    }
}

#[tokio::test]
async fn a_connection_that_was_closed_costs_no_answer() {
    for habit in [Habit::Closes, Habit::HangsUp] {
        let node = Node::start(habit).await;
        for _ in 0..5 {
            assert_eq!(node.chain.block_number().await.expect("a number"), 100);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
