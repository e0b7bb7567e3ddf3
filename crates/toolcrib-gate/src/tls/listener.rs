//! Connections that are ready to be spoken on: the handshake is behind them.
//!
//! Each handshake is a task of its own, so that whoever is slow, silent or talks nonsense keeps nobody else waiting.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::serve::Listener;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::Tls;

/// How long a handshake may take. It is two round trips; ten seconds are enough for the worst network that a call could work on.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Handshakes that are under way at the same time at most. Each holds a socket and some kilobytes. Where there are more, the one that
/// has taken longest gives up its place: an honest one is done long before, and those who only hold places cannot hold all.
pub const MAX_HANDSHAKES: usize = 128;

/// A socket whose connections are TLS.
#[derive(Debug)]
pub(crate) struct TlsListener {
    address: SocketAddr,
    ready: mpsc::Receiver<Connection>,
    accepting: JoinHandle<()>,
}

type Connection = (TlsStream<TcpStream>, SocketAddr);

impl TlsListener {
    /// Begins to take connections.
    pub(crate) fn new(listener: TcpListener, tls: &Tls) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (done, ready) = mpsc::channel(MAX_HANDSHAKES);
        let accepting = tokio::spawn(accept(listener, TlsAcceptor::from(tls.config.clone()), done));
        Ok(Self { address, ready, accepting })
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> Connection {
        match self.ready.recv().await {
            Some(connection) => connection,
            // The task goes on for as long as this exists.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

impl Drop for TlsListener {
    /// The socket closes, and handshakes end, with the task.
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(mut listener: TcpListener, acceptor: TlsAcceptor, done: mpsc::Sender<Connection>) {
    let mut under_way = JoinSet::new();
    let mut by_age: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        // axum's own way to accept waits when the process has no more sockets, instead of giving up.
        let (stream, peer) = Listener::accept(&mut listener).await;
        while under_way.try_join_next().is_some() {}
        by_age.retain(|handshake| !handshake.is_finished());
        if by_age.len() >= MAX_HANDSHAKES
            && let Some(oldest) = by_age.pop_front()
        {
            oldest.abort();
        }
        let (acceptor, done) = (acceptor.clone(), done.clone());
        by_age.push_back(under_way.spawn(async move {
            // Small answers must not wait for more to come. A socket that refuses the option still works.
            let _ = stream.set_nodelay(true);
            // Whoever fails is told by TLS itself; there is nothing to answer in.
            if let Ok(Ok(stream)) = timeout(HANDSHAKE_TIME, acceptor.accept(stream)).await {
                let _ = done.send((stream, peer)).await;
            }
        }));
    }
}
