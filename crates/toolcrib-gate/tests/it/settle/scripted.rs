//! Servers that answer as a table says: a facilitator, and a node that loses transactions on the way.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy_primitives::Address;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use toolcrib_x402::Supported;

/// What is answered to a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Status and body.
    Answer(u16, String),
    /// Nothing, and the connection stays.
    Hang,
    /// Nothing, and the connection ends.
    Close,
    /// Nothing, and the connection is reset.
    Reset,
    /// Half of what was announced.
    Half,
    /// A body without end.
    Huge,
    /// Bytes that are not HTTP.
    Garbage,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// Method and path.
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().and_then(|line| line.strip_suffix(" HTTP/1.1")).expect("a request line")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

/// A facilitator on a free port that gives its replies in order, and then 500.
pub(crate) struct Scripted {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    supported: Arc<Mutex<Option<String>>>,
}

impl Scripted {
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let supported = Arc::new(Mutex::new(None::<String>));
        let (seen, mut replies) = (requests.clone(), replies.into_iter().collect::<Vec<_>>().into_iter());
        let announced = supported.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some((head, body)) = read_message(&mut stream).await else { continue };
                let request = Request { head, body };
                let is_list = request.line().starts_with("GET ") && request.line().ends_with("/supported");
                if let Some(list) = announced.lock().expect("not poisoned").clone().filter(|_| is_list) {
                    tokio::spawn(answer(stream, Reply::Answer(200, list)));
                    continue;
                }
                seen.lock().expect("not poisoned").push(request);
                let reply = replies.next().unwrap_or_else(|| Reply::Answer(500, "{}".to_owned()));
                tokio::spawn(answer(stream, reply));
            }
        });
        Self { address, requests, supported }
    }

    /// Announces these accounts as its signers from now on. Requests for them take no reply and are not listed.
    pub(crate) fn announce(&self, signers: &[Address]) {
        let list = Supported {
            signers: signers.iter().map(|signer| ("eip155:*".to_owned(), *signer)).collect(),
            ..Supported::default()
        };
        *self.supported.lock().expect("not poisoned") = Some(list.to_json());
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/x402", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("not poisoned").clone()
    }
}

async fn answer(mut stream: TcpStream, reply: Reply) {
    let whole = |status: u16, length: usize, body: &str| {
        let head = format!("HTTP/1.1 {status} Word\r\nContent-Type: application/json\r\nContent-Length: {length}");
        format!("{head}\r\nConnection: close\r\n\r\n{body}")
    };
    // Whoever hangs up early is the subject of the test.
    match reply {
        Reply::Answer(status, body) => drop(stream.write_all(whole(status, body.len(), &body).as_bytes()).await),
        Reply::Hang => tokio::time::sleep(Duration::from_secs(30)).await,
        Reply::Close => {}
        Reply::Reset => drop(stream.set_zero_linger()),
        Reply::Half => drop(stream.write_all(whole(200, 1_000, "{\"success\":true,").as_bytes()).await),
        Reply::Garbage => drop(stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n").await),
        Reply::Huge => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n{\"success\":true,\"x\":\"").await;
            while stream.write_all(&[b'a'; 4096]).await.is_ok() {}
        }
    }
}

/// A facilitator that keeps connections: on each it gives these replies in order, and then closes it.
pub(crate) struct Keeping {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<(usize, Vec<String>)>>,
}

impl Keeping {
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (seen, replies) = (Arc::new(Mutex::new((0, Vec::new()))), replies.into_iter().collect::<Vec<_>>());
        let noted = seen.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (noted, replies) = (noted.clone(), replies.clone());
                noted.lock().expect("not poisoned").0 += 1;
                tokio::spawn(async move {
                    for reply in replies {
                        let Some((head, _)) = read_message(&mut stream).await else { return };
                        let line = head.lines().next().unwrap_or_default().to_owned();
                        noted.lock().expect("not poisoned").1.push(line.replace(" HTTP/1.1", ""));
                        let Reply::Answer(status, body) = reply else { return };
                        let head = format!("HTTP/1.1 {status} Word\r\nContent-Length: {}\r\n\r\n", body.len());
                        let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
                    }
                });
            }
        });
        Self { address, seen }
    }

    /// Connections so far, and what was asked on them.
    pub(crate) fn seen(&self) -> (usize, Vec<String>) {
        self.seen.lock().expect("not poisoned").clone()
    }
}

/// What a node between does with a transaction that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LostMessage {
    /// It never arrives.
    Request,
    /// It arrives, and the answer does not come back.
    Answer,
}

/// A node that passes everything on to another one but loses the first transaction that is sent.
pub(crate) async fn lossy(node: &str, loss: LostMessage) -> String {
    let node = node.strip_prefix("http://").expect("a URL").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let left = Arc::new(Mutex::new(Some(loss)));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (node, left) = (node.clone(), left.clone());
            tokio::spawn(async move {
                while let Some((head, body)) = read_message(&mut stream).await {
                    let is_transaction = String::from_utf8_lossy(&body).contains("eth_sendRawTransaction");
                    let loss = if is_transaction { left.lock().expect("not poisoned").take() } else { None };
                    if loss == Some(LostMessage::Request) {
                        return;
                    }
                    let mut onward = TcpStream::connect(&node).await.expect("the node listens");
                    onward.write_all(&[head.as_bytes(), &body].concat()).await.expect("sent");
                    let Some((head, body)) = read_message(&mut onward).await else { return };
                    if loss == Some(LostMessage::Answer) {
                        return;
                    }
                    let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
                }
            });
        }
    });
    format!("http://{address}")
}

/// A head with its empty line, and a body of the length that it gives.
async fn read_message(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let end = loop {
        let mut buffer = [0; 8_192];
        let count = stream.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if bytes.len() > 65_536 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
    let length =
        head.lines().filter_map(|line| line.split_once(": ")).find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: usize = length.map_or(Some(0), |(_, value)| value.trim().parse().ok())?;
    let mut body = bytes[end..].to_vec();
    let have = body.len();
    if have < length {
        body.resize(length, 0);
        stream.read_exact(&mut body[have..]).await.ok()?;
    }
    Some((head, body))
}
