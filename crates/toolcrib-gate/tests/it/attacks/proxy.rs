//! A proxy in front of a node: it forwards requests, and makes some of them fail as networks do.

use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedSender;

use super::http::read_message;

/// What happens to a request.
#[derive(Clone, Debug)]
pub(crate) enum Fate {
    /// It arrives, and so does its answer.
    Pass,
    /// The connection ends, and it never arrives.
    Lose,
    /// It arrives; its answer does not.
    LoseAnswer,
    /// The node says that something is wrong, and never sees it.
    Fail,
    /// It never sees it, and this JSON is the answer.
    Answer(String),
    /// It waits for ever, after somebody was told.
    Hold(UnboundedSender<()>),
    /// It arrives; its answer waits for ever, after somebody was told.
    HoldAnswer(UnboundedSender<()>),
}

/// Starts one in front of `node`; `judge` sees the bodies of requests. Gives its URL.
pub(crate) async fn between(node: &str, judge: impl Fn(&str) -> Fate + Send + Sync + 'static) -> String {
    let node = node.strip_prefix("http://").expect("a URL").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let judge = Arc::new(judge);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(pass(stream, node.clone(), judge.clone()));
        }
    });
    format!("http://{address}")
}

async fn pass(mut stream: TcpStream, node: String, judge: Arc<impl Fn(&str) -> Fate>) -> Option<()> {
    let _ = stream.set_nodelay(true);
    let mut onward = TcpStream::connect(&node).await.ok()?;
    let _ = onward.set_nodelay(true);
    let (mut asked, mut answered) = (Vec::new(), Vec::new());
    loop {
        let (head, body) = read_message(&mut stream, &mut asked, false).await?;
        let fate = judge(&String::from_utf8_lossy(&body));
        match &fate {
            Fate::Lose => return None,
            Fate::Fail => {
                const TEXT: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
                stream.write_all(TEXT.as_bytes()).await.ok()?;
                continue;
            }
            Fate::Answer(json) => {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", json.len());
                stream.write_all(&[head.as_bytes(), json.as_bytes()].concat()).await.ok()?;
                continue;
            }
            Fate::Hold(told) => {
                let _ = told.send(());
                return std::future::pending().await;
            }
            Fate::Pass | Fate::LoseAnswer | Fate::HoldAnswer(_) => {}
        }
        // Keys in paths are this side's; the node has one place.
        let (_, rest) = head.split_once("\r\n")?;
        onward.write_all(&[b"POST / HTTP/1.1\r\n", rest.as_bytes(), &body].concat()).await.ok()?;
        let (head, body) = read_message(&mut onward, &mut answered, false).await?;
        match fate {
            Fate::LoseAnswer => return None,
            Fate::HoldAnswer(told) => {
                let _ = told.send(());
                return std::future::pending().await;
            }
            _ => stream.write_all(&[head.as_bytes(), &body].concat()).await.ok()?,
        }
    }
}
