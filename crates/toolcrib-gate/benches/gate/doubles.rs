//! A facilitator that accepts every payment and an upstream that counts words, in a process of their own.
//!
//! Every measured server uses these two, so they are small to keep their cost out of the results. Connections are kept alive.

use std::io::Write as _;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The response to `/supported`.
const SUPPORTED: &str = r#"{"kinds":[{"x402Version":2,"scheme":"exact","network":"eip155:8453"},{"x402Version":1,"scheme":"exact","network":"base"}],"extensions":[],"signers":{}}"#;

/// Serves until standard input ends, after it has printed its port.
pub(crate) fn serve() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        println!("{}", listener.local_addr().expect("bound").port());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(connection(stream));
            }
        });
        super::input_ends().await;
    });
}

async fn connection(mut stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let (mut buffer, mut answer) = (Vec::with_capacity(16 * 1024), Vec::with_capacity(1024));
    loop {
        if let Some((end, length)) = request(&buffer) {
            let (head, body) = buffer[..end + length].split_at(end);
            answer.clear();
            reply(head, body, &mut answer);
            buffer.drain(..end + length);
            if stream.write_all(&answer).await.is_err() {
                return;
            }
            continue;
        }
        match stream.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

/// Returns where the head of a whole request ends, and how long its body is.
fn request(bytes: &[u8]) -> Option<(usize, usize)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let length = super::length(&bytes[..end]);
    (bytes.len() >= end + length).then_some((end, length))
}

fn reply(head: &[u8], body: &[u8], out: &mut Vec<u8>) {
    let path = head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    let text = match path {
        b"/supported" => SUPPORTED.to_owned(),
        b"/verify" => format!(r#"{{"isValid":true,"payer":"{}"}}"#, member(body, b"\"from\":\"")),
        // The nonce serves as the transaction hash: both are unique.
        b"/settle" => format!(
            r#"{{"success":true,"transaction":"{}","network":"eip155:8453","payer":"{}"}}"#,
            member(body, b"\"nonce\":\""),
            member(body, b"\"from\":\"")
        ),
        _ => format!(r#"{{"words":{}}}"#, body.split(|byte| *byte == b' ').count()),
    };
    // Writing to a vector cannot fail.
    let _ = write!(out, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{text}", text.len());
}

/// The text after `key`, up to the next quotation mark.
fn member<'b>(body: &'b [u8], key: &[u8]) -> &'b str {
    let start =
        body.windows(key.len()).position(|window| window[0] == key[0] && window == key).map_or(body.len(), |at| at + key.len());
    let value = body[start..].split(|byte| *byte == b'"').next().unwrap_or_default();
    std::str::from_utf8(value).unwrap_or_default()
}
