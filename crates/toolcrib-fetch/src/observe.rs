//! Reading a body while it comes.

use std::fmt;
use std::ops::ControlFlow;

use toolcrib_judge::evidence::Response;

/// Sees the pieces of a body as they come, for answers that end late, such as event streams.
///
/// All limits hold as for any other answer: the pieces count against the limit of the body, and every wait ends.
pub trait Observer: fmt::Debug + Send + Sync {
    /// Takes the next bytes. `head` has status and headers, and no body.
    ///
    /// `Break` ends the reading: what came so far becomes the body of the exchange, and the connection is closed.
    fn observe(&self, head: &Response, bytes: &[u8]) -> ControlFlow<()>;
}
