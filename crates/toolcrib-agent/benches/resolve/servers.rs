//! A name server, an IPFS gateway and a JSON-RPC node on loopback, for the names of [`World`].
//!
//! All of them run on one thread with its own runtime, so that their CPU time can be measured apart from the resolver's.

use std::collections::HashSet;
use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use alloy_primitives::{Address, B256, U256};
use alloy_sol_types::SolCall as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::runtime::Handle;
use toolcrib_agent::ipfs::{GatewayLimits, Gateways};
use toolcrib_agent::txt::dns::{DnsServer, DnsSettings, DnsSource};
use toolcrib_chain::abi::IERC721Owner::ownerOfCall;
use toolcrib_chain::fns::{FNS_CHAIN_ID, FNS_REGISTRY, Fns};
use toolcrib_chain::network::Network;
use toolcrib_chain::rpc::{Chain, ChainConfig, NodeUrl};
use toolcrib_core::clock::FixedClock;
use toolcrib_fetch::{Concurrency, Configured, ConfiguredUrl, KeepAlive};

use crate::{IN_FLIGHT, NOW, World, name, time_of};

/// The height of the chain head.
const HEAD: &str = "0x4c4b400";

/// Its hash, which pins all other reads.
const HEAD_HASH: B256 = B256::repeat_byte(0x4c);

/// The servers. They run until the process exits.
pub(crate) struct Servers {
    dns: SocketAddr,
    gateway: SocketAddr,
    node: SocketAddr,
    counts: Arc<Counts>,
    thread: Handle,
}

/// Number of requests so far.
#[derive(Default)]
struct Counts {
    questions: AtomicU64,
    blocks: AtomicU64,
    calls: AtomicU64,
    connections: AtomicU64,
}

/// A copy of the request counts.
#[derive(Clone, Copy)]
pub(crate) struct Requests {
    /// Queries to the name server.
    pub(crate) questions: u64,
    /// Block requests to the gateway.
    pub(crate) blocks: u64,
    /// JSON-RPC requests to the node.
    pub(crate) calls: u64,
    /// TCP connections to the gateway and the node.
    pub(crate) connections: u64,
}

impl Servers {
    /// Starts the servers.
    pub(crate) fn start(world: &Arc<World>) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (dns, gateway, node) = runtime.block_on(async {
            let local = (Ipv4Addr::LOCALHOST, 0);
            let dns = UdpSocket::bind(local).await.expect("a free port");
            (dns, TcpListener::bind(local).await.expect("a free port"), TcpListener::bind(local).await.expect("a free port"))
        });
        let counts = Arc::new(Counts::default());
        let servers = Self {
            dns: dns.local_addr().expect("bound"),
            gateway: gateway.local_addr().expect("bound"),
            node: node.local_addr().expect("bound"),
            counts: Arc::clone(&counts),
            thread: runtime.handle().clone(),
        };
        runtime.spawn(serve_dns(dns, Arc::clone(world), Arc::clone(&counts)));
        runtime.spawn(serve_http(gateway, Arc::clone(&counts), {
            let (world, counts) = (Arc::clone(world), Arc::clone(&counts));
            move |target: &str, _: &[u8]| {
                counts.blocks.fetch_add(1, Ordering::Relaxed);
                block(&world, target)
            }
        }));
        let tokens: HashSet<U256> = (0..world.names).map(|at| name(at).token_id()).collect();
        let owner = world.key.address();
        runtime.spawn(serve_http(node, Arc::clone(&counts), move |_: &str, body: &[u8]| {
            counts.calls.fetch_add(1, Ordering::Relaxed);
            Some(("application/json", rpc(body, owner, &tokens)))
        }));
        std::thread::spawn(move || runtime.block_on(pending::<()>()));
        servers
    }

    /// A DNS source over UDP with the name server.
    pub(crate) fn dns(&self) -> DnsSource {
        let mut settings = DnsSettings::default();
        settings.servers = vec![DnsServer::udp(self.dns)];
        DnsSource::new(settings).expect("sound settings")
    }

    /// The gateway, with a client that keeps as many connections alive as names are in flight.
    pub(crate) fn gateways(&self) -> Gateways {
        let concurrency = Concurrency { total: IN_FLIGHT, host: IN_FLIGHT };
        let client = Configured::builder(FixedClock(NOW)).concurrency(concurrency).keep_alive(KeepAlive::matching(concurrency));
        let url = ConfiguredUrl::from_setting(&format!("http://{}", self.gateway)).expect("a URL");
        Gateways::new(client.build().expect("a client"), vec![url], GatewayLimits::default()).expect("gateways")
    }

    /// The registry, read from the node.
    pub(crate) fn fns(&self) -> Fns {
        let url = NodeUrl::parse(&format!("http://{}", self.node)).expect("a URL");
        let polygon = Network::by_id(FNS_CHAIN_ID).expect("Polygon");
        let config = ChainConfig::new(polygon, vec![url]).expect("a node");
        Fns::new(Chain::lazy(config).expect("a chain")).expect("Polygon")
    }

    /// Returns the request counts so far.
    pub(crate) fn requests(&self) -> Requests {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { questions, blocks, calls, connections } = &*self.counts;
        Requests { questions: read(questions), blocks: read(blocks), calls: read(calls), connections: read(connections) }
    }

    /// CPU time of the servers so far. Only their own thread can read it.
    pub(crate) async fn cpu(&self) -> Duration {
        self.thread.spawn(async { time_of(rustix::time::ClockId::ThreadCPUTime) }).await.expect("no panic")
    }
}

async fn serve_dns(socket: UdpSocket, world: Arc<World>, counts: Arc<Counts>) {
    let mut datagram = [0; 1_232];
    loop {
        let (length, from) = socket.recv_from(&mut datagram).await.expect("a datagram");
        counts.questions.fetch_add(1, Ordering::Relaxed);
        if let Some(answer) = answer(&datagram[..length], &world) {
            socket.send_to(&answer, from).await.expect("sent");
        }
    }
}

/// The response to a query: its question unchanged, because the random case of the letters must be preserved, and one TXT record.
fn answer(query: &[u8], world: &World) -> Option<Vec<u8>> {
    const TXT: u8 = 16;
    let (header, rest) = query.split_at_checked(12)?;
    let (mut labels, mut at) = (Vec::new(), 0);
    loop {
        let length = usize::from(*rest.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(std::str::from_utf8(rest.get(at..at + length)?).ok()?.to_ascii_lowercase());
        at += length;
    }
    let question = rest.get(..at + 4)?;
    let record = world.pointers.get(&labels.join(".")).filter(|_| question[at..] == [0, TXT, 0, 1]);
    let (code, count) = if record.is_some() { (0x80, 1) } else { (0x83, 0) };
    let mut answer = header[..2].to_vec();
    // A response with recursion; one question, and the record.
    answer.extend([0x81, code, 0, 1, 0, count, 0, 0, 0, 0]);
    answer.extend(question);
    if let Some(record) = record {
        let length = u8::try_from(record.len()).expect("one character-string");
        // The name of the question, TXT, IN, 300 seconds, and the length of the data.
        answer.extend([0xc0, 12, 0, TXT, 0, 1, 0, 0, 1, 44, 0, length + 1, length]);
        answer.extend(record.iter());
    }
    Some(answer)
}

/// The block of `/ipfs/{cid}?format=raw`.
fn block(world: &World, target: &str) -> Option<(&'static str, Vec<u8>)> {
    let cid = target.strip_prefix("/ipfs/")?.strip_suffix("?format=raw")?;
    Some(("application/vnd.ipld.raw", world.contents.get(cid)?.to_vec()))
}

/// The node's response: `owner` owns all `tokens`, and others do not exist.
fn rpc(body: &[u8], owner: Address, tokens: &HashSet<U256>) -> Vec<u8> {
    let request: Value = serde_json::from_slice(body).expect("JSON");
    let result = match request["method"].as_str() {
        Some("eth_chainId") => Some(json!(format!("{FNS_CHAIN_ID:#x}"))),
        Some("eth_getBlockByNumber") => Some(json!({ "number": HEAD, "hash": HEAD_HASH })),
        Some("eth_getCode") => Some(json!("0x60806040")),
        Some("eth_call") => held(&request["params"], tokens).then(|| json!(owner.into_word())),
        other => panic!("{other:?}"),
    };
    let answer = match result {
        Some(result) => json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }),
        None => {
            let error = json!({ "code": 3, "message": "execution reverted", "data": "0x" });
            json!({ "jsonrpc": "2.0", "id": request["id"], "error": error })
        }
    };
    answer.to_string().into_bytes()
}

/// Whether a call is `ownerOf` of the registry, for one of these tokens, at the chain head.
fn held(params: &Value, tokens: &HashSet<U256>) -> bool {
    let to = params[0]["to"].as_str().and_then(|to| to.parse::<Address>().ok());
    let data = params[0]["input"].as_str().and_then(|data| alloy_primitives::hex::decode(data).ok()).unwrap_or_default();
    let token = ownerOfCall::abi_decode(&data).ok().map(|call| call.tokenId);
    to == Some(FNS_REGISTRY) && params[1]["blockHash"] == json!(HEAD_HASH) && token.is_some_and(|token| tokens.contains(&token))
}

/// Serves HTTP/1.1 with keep-alive. If the handler returns `None`, the status is 404.
async fn serve_http<H>(listener: TcpListener, counts: Arc<Counts>, handler: H)
where
    H: Fn(&str, &[u8]) -> Option<(&'static str, Vec<u8>)> + Send + Sync + 'static,
{
    let handler = Arc::new(handler);
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        counts.connections.fetch_add(1, Ordering::Relaxed);
        stream.set_nodelay(true).expect("a TCP option");
        tokio::spawn(connection(stream, Arc::clone(&handler)));
    }
}

async fn connection<H: Fn(&str, &[u8]) -> Option<(&'static str, Vec<u8>)>>(mut stream: TcpStream, handler: Arc<H>) {
    let mut received = Vec::with_capacity(4_096);
    loop {
        let (head, length) = loop {
            if let Some(request) = framing(&received) {
                break request;
            }
            // The client closes the connection between two requests, or resets it when it cancels one.
            if stream.read_buf(&mut received).await.unwrap_or_default() == 0 {
                return;
            }
        };
        let target = std::str::from_utf8(&received[..head]).ok().and_then(|text| text.split(' ').nth(1)).unwrap_or_default();
        let (status, media, body) = match handler(target, &received[head..head + length]) {
            Some((media, body)) => ("200 OK", media, body),
            None => ("404 Not Found", "text/plain", Vec::new()),
        };
        let mut answer =
            format!("HTTP/1.1 {status}\r\ncontent-type: {media}\r\ncontent-length: {}\r\n\r\n", body.len()).into_bytes();
        answer.extend(body);
        received.drain(..head + length);
        if stream.write_all(&answer).await.is_err() {
            return;
        }
    }
}

/// The lengths of head and body of a request, once it is complete.
fn framing(received: &[u8]) -> Option<(usize, usize)> {
    let head = received.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&received[..head]).expect("a head in ASCII");
    let length =
        text.lines().filter_map(|line| line.split_once(':')).find(|(field, _)| field.eq_ignore_ascii_case("content-length"));
    let length = length.map_or(0, |(_, value)| value.trim().parse().expect("a length"));
    (received.len() >= head + length).then_some((head, length))
}
