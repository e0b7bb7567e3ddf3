//! A WebSocket connection: requests in sequence, with notifications in between.

use std::sync::Arc;

use axum::extract::ws::{Message, WebSocket};
use tokio::sync::broadcast::error::RecvError;

use super::Stop;
use super::subscriptions::Subscriptions;
use crate::node::Node;
use crate::rpc;

/// Handles the connection until either side closes it.
pub(crate) async fn converse(mut socket: WebSocket, node: Arc<Node>, mut stop: Stop) {
    let mut events = node.listen();
    let mut subscriptions = Subscriptions::default();
    loop {
        tokio::select! {
            () = stop.wait() => break,
            message = socket.recv() => {
                let body = match message {
                    Some(Ok(Message::Text(text))) => axum::body::Bytes::from(text),
                    Some(Ok(Message::Binary(bytes))) => bytes,
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                    Some(Ok(Message::Close(_)) | Err(_)) | None => break,
                };
                let node = node.clone();
                let answered = tokio::task::spawn_blocking(move || {
                    let answer = rpc::answer(&node, &body, &mut subscriptions);
                    (answer, subscriptions)
                }).await;
                let Ok((answer, kept)) = answered else { break };
                subscriptions = kept;
                if let Some(answer) = answer
                    && send(&mut socket, answer).await.is_err() {
                    break;
                }
            }
            event = events.recv() => match event {
                Ok(numbered) => {
                    for notification in subscriptions.notifications(&numbered) {
                        if send(&mut socket, notification).await.is_err() {
                            return;
                        }
                    }
                }
                // A subscriber must know that it missed events, and clients handle a closed connection.
                Err(RecvError::Lagged(_)) if !subscriptions.is_empty() => break,
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => break,
            }
        }
    }
    // The client may have disconnected already.
    let _ = socket.send(Message::Close(None)).await;
}

async fn send(socket: &mut WebSocket, json: Vec<u8>) -> Result<(), axum::Error> {
    // serde_json writes UTF-8.
    socket.send(Message::Text(String::from_utf8(json).unwrap_or_default().into())).await
}
