//! Streaming access to a body while it is read.

use std::fmt;
use std::ops::ControlFlow;

use toolcrib_judge::evidence::Response;

/// Gets the pieces of a body as they arrive, for long responses such as event streams.
///
/// All limits still apply: the pieces count against the body limit, and every wait has a timeout.
pub trait Observer: fmt::Debug + Send + Sync {
    /// Handles the next bytes. `head` has status and headers, and no body.
    ///
    /// `Break` stops the reading: the bytes so far become the body of the exchange, and the connection is closed.
    fn observe(&self, head: &Response, bytes: &[u8]) -> ControlFlow<()>;
}
