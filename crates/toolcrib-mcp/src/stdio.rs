//! A server on the standard streams of a process: one client, which started it.

use std::sync::Arc;

use rmcp::ServiceExt;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::asker::Caller;
use crate::server::{Server, SetupError};
use crate::toolbox::Toolbox;

/// Largest message that is read. Arguments are at most 1 MiB of JSON; the rest is room for escapes and what stands around them.
pub const MAX_MESSAGE_BYTES: usize = 2 << 20;

/// Why a connection ended otherwise than by its client's leaving.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The toolbox cannot be served.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The client did not begin as the protocol has it.
    #[error("the client did not begin a session: {reason}")]
    Handshake {
        /// How.
        reason: String,
    },
    /// The task that served it ended early.
    #[error("the connection broke")]
    Broken,
}

/// Serves a toolbox on standard input and output, until the client leaves. Nothing else may write to standard output.
pub async fn serve_stdio(toolbox: Arc<dyn Toolbox>) -> Result<(), ServeError> {
    let (read, write) = stdio_pipes();
    serve(&Server::new(toolbox)?, read, write).await
}

/// Serves one client on a pair of streams, one message a line, until it leaves. Each connection is a caller of its own.
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
