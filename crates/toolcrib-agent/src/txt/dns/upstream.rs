//! Queries name servers: one query at a time, with every response checked against its query.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, Stream};
use hickory_net::h2::HttpsClientStream;
use hickory_net::runtime::TokioRuntimeProvider;
use hickory_net::tcp::TcpClientStream;
use hickory_net::tls::tls_exchange;
use hickory_net::udp::UdpClientStream;
use hickory_net::xfer::{DnsExchange, DnsHandle, FirstAnswer as _};
use hickory_net::{DnsError, NetError};
use hickory_proto::op::{DnsRequest, DnsResponse, OpCode, ResponseCode};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::sync::Mutex;

use super::server::Transport;

/// A connection to a server, for any number of queries.
type Connection = DnsExchange<TokioRuntimeProvider>;

/// The servers of one lookup, in order. Cheap to clone.
#[derive(Clone)]
pub(super) struct Upstream {
    inner: Arc<Inner>,
}

struct Inner {
    servers: Vec<Server>,
    tls: Arc<ClientConfig>,
    timeout: Duration,
    attempts: usize,
    /// Owns the tasks of the connections: they end with the lookup.
    provider: TokioRuntimeProvider,
}

struct Server {
    transport: Transport,
    address: SocketAddr,
    /// Validation makes several queries: the connection is kept for them.
    connection: Mutex<Option<Connection>>,
}

impl Upstream {
    pub(super) fn new(
        servers: impl IntoIterator<Item = (Transport, SocketAddr)>,
        tls: Arc<ClientConfig>,
        timeout: Duration,
        attempts: usize,
    ) -> Self {
        let servers =
            servers.into_iter().map(|(transport, address)| Server { transport, address, connection: Mutex::new(None) }).collect();
        let provider = TokioRuntimeProvider::default();
        Self { inner: Arc::new(Inner { servers, tls, timeout, attempts, provider }) }
    }

    /// The first usable response of any server. A response is usable if it has the right question and a response code about the name.
    async fn ask(&self, request: DnsRequest) -> Result<DnsResponse, NetError> {
        let mut reason = None;
        for _ in 0..self.inner.attempts.max(1) {
            for server in &self.inner.servers {
                let error = match self.inner.ask_one(server, &request).await {
                    Ok(response) => match usable(&request, &response) {
                        Ok(()) => return Ok(response),
                        Err(error) => error,
                    },
                    Err(error) => error,
                };
                // An error response says more than none, and the first one is from the preferred server.
                let is_better = match &reason {
                    None | Some(NetError::Timeout | NetError::Io(_)) => true,
                    Some(_) => false,
                };
                if is_better {
                    reason = Some(error);
                }
            }
        }
        Err(reason.unwrap_or(NetError::NoConnections))
    }
}

impl Inner {
    async fn ask_one(&self, server: &Server, request: &DnsRequest) -> Result<DnsResponse, NetError> {
        if server.transport != Transport::Udp {
            return self.ask_stream(server, &server.transport, request).await;
        }
        let exchange = UdpClientStream::builder(server.address, self.provider.clone())
            .with_timeout(Some(self.timeout))
            .with_max_retries(1)
            .exchange();
        match exchange.send(request.clone()).first_answer().await {
            // The sender of a forged datagram does not know the case of the letters in the name; TCP cannot be forged that way.
            Err(NetError::QueryCaseMismatch) => self.ask_stream(server, &Transport::Tcp, request).await,
            Ok(response) if response.metadata.truncation => self.ask_stream(server, &Transport::Tcp, request).await,
            other => other,
        }
    }

    async fn ask_stream(&self, server: &Server, transport: &Transport, request: &DnsRequest) -> Result<DnsResponse, NetError> {
        let connection = {
            let mut kept = server.connection.lock().await;
            match &*kept {
                Some(connection) => connection.clone(),
                None => {
                    let connection = tokio::time::timeout(self.timeout, self.connect(server.address, transport))
                        .await
                        .map_err(|_| NetError::Timeout)??;
                    kept.insert(connection).clone()
                }
            }
        };
        let answer = connection.send(request.clone()).first_answer().await;
        if answer.is_err() {
            *server.connection.lock().await = None;
        }
        answer
    }

    async fn connect(&self, address: SocketAddr, transport: &Transport) -> Result<Connection, NetError> {
        let provider = self.provider.clone();
        match transport {
            Transport::Udp | Transport::Tcp => TcpClientStream::exchange(address, None, self.timeout, None, provider).await,
            Transport::Tls { name } => {
                let name =
                    ServerName::try_from(name.clone()).map_err(|_| NetError::from("the name is not one for a certificate"))?;
                tls_exchange(address, name, (*self.tls).clone(), self.timeout, None, provider).await
            }
            Transport::Https { name, path } => {
                let mut builder = HttpsClientStream::builder(self.tls.clone(), provider);
                builder.request_timeout(self.timeout);
                builder.exchange(address, name.as_str().into(), path.as_str().into()).await
            }
        }
    }
}

/// Whether a response has the right question and is about the name, not about the server.
fn usable(request: &DnsRequest, response: &DnsResponse) -> Result<(), NetError> {
    if response.metadata.truncation {
        return Err(NetError::Truncated);
    }
    if response.metadata.op_code != OpCode::Query {
        return Err(NetError::from("the answer is not one to a query"));
    }
    match response.metadata.response_code {
        ResponseCode::NoError | ResponseCode::NXDomain => {}
        // Servers leave out the question of a request that they could not parse.
        code => return Err(DnsError::ResponseCode(code).into()),
    }
    if request.queries != response.queries {
        return Err(NetError::from("the answer is one to another question"));
    }
    Ok(())
}

impl DnsHandle for Upstream {
    type Response = Pin<Box<dyn Stream<Item = Result<DnsResponse, NetError>> + Send>>;
    type Runtime = TokioRuntimeProvider;

    fn send(&self, request: DnsRequest) -> Self::Response {
        let upstream = self.clone();
        Box::pin(stream::once(async move { upstream.ask(request).await }))
    }
}
