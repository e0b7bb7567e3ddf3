//! A server on the standard streams of a process: its only client is the process that started it.

use std::sync::Arc;

use rmcp::ServiceExt;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::asker::Caller;
use crate::server::{Server, SetupError};
use crate::toolbox::Toolbox;

/// Maximum size of a message. Arguments are at most 1 MiB of JSON; the rest is for escapes and the envelope.
pub const MAX_MESSAGE_BYTES: usize = 2 << 20;

/// Why a connection ended other than by a disconnect of its client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The toolbox cannot be served.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The client did not start with a valid handshake.
    #[error("the client did not begin a session: {reason}")]
    Handshake {
        /// What was wrong.
        reason: String,
    },
    /// The task of the connection ended early.
    #[error("the connection broke")]
    Broken,
}

/// Serves a toolbox on standard input and output until the client disconnects. Nothing else may write to standard output.
pub async fn serve_stdio(toolbox: Arc<dyn Toolbox>) -> Result<(), ServeError> {
    let (read, write) = stdio_pipes();
    serve(&Server::new(toolbox)?, read, write).await
}

/// Serves one client on a pair of streams, one message per line, until it disconnects. Each connection is its own caller.
pub async fn serve<R, W>(server: &Server, read: R, write: W) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let mut name = [0_u8; 32];
    getrandom::fill(&mut name).map_err(|_| SetupError::Random)?;
    let transport = AsyncRwTransport::new(read, write).with_max_line_length(MAX_MESSAGE_BYTES);
    let connection = server.connection(Some(Caller::of("connection", &name)));
    let running = connection.serve(transport).await.map_err(|error| ServeError::Handshake { reason: error.to_string() })?;
    running.waiting().await.map(drop).map_err(|_| ServeError::Broken)
}
