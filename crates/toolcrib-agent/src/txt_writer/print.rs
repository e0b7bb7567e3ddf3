//! Prints a change for users who enter it by hand.

use std::fmt;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use toolcrib_core::codes;

use super::{RecordChange, TxtWriter, WriteError, Written, describe};

/// Prints changes, without control characters. Nothing is sent anywhere.
pub struct PrintWriter<W>(Mutex<W>);

impl<W: Write + Send> PrintWriter<W> {
    /// A writer that prints to `output`.
    pub const fn new(output: W) -> Self {
        Self(Mutex::new(output))
    }

    /// The output.
    pub fn into_inner(self) -> W {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl<W: Write + Send> TxtWriter for PrintWriter<W> {
    fn name(&self) -> &str {
        "print"
    }

    async fn write(&self, change: &RecordChange) -> Result<Written, WriteError> {
        change.applied_to(&change.remove)?;
        let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(output, "{}", describe(change))
            .map_err(|error| WriteError::new(codes::agent::TXT_COMMAND_FAILED, format!("cannot print: {error}")))?;
        Ok(Written { read_back: None })
    }
}

impl<W> fmt::Debug for PrintWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrintWriter")
    }
}
