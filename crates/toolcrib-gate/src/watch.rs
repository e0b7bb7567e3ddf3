//! What operators learn about a call: metrics, and a tracing span with an event.
//!
//! Both contain the tool, the caller and the outcome, but neither signatures nor secrets nor what was paid for.

use std::sync::Arc;

use alloy_primitives::{Address, B256};
use axum::http::Method;
use axum::response::Response;
use tokio::time::Instant;
use toolcrib_core::codes::Code;
use tracing::field::{Empty, display};
use tracing::{Span, info, info_span};

use crate::tools::Served;

/// The target of spans and events.
const TARGET: &str = "toolcrib::call";

/// The status that is logged for callers that disconnected before the response, as nginx does. No response has it.
const GONE: u16 = 499;

/// A call, until it is answered or its caller has disconnected.
pub(crate) struct Watch {
    tool: Arc<Served>,
    began: Instant,
    seen: CallSpan,
    is_over: bool,
}

impl Watch {
    pub(crate) fn begin(tool: Arc<Served>, method: &Method) -> Self {
        // A caller may send any text as its method.
        let method = match *method {
            Method::POST => "POST",
            Method::GET => "GET",
            Method::HEAD => "HEAD",
            Method::OPTIONS => "OPTIONS",
            _ => "other",
        };
        let span = info_span!(target: TARGET, "call", tool = &*tool.slug, method, caller = Empty, transaction = Empty);
        Self { tool, began: Instant::now(), seen: CallSpan(span), is_over: false }
    }

    pub(crate) const fn seen(&self) -> &CallSpan {
        &self.seen
    }

    pub(crate) fn answered(mut self, response: &Response) {
        self.end(response.status().as_u16(), response.extensions().get::<Code>().copied());
    }

    fn end(&mut self, status: u16, code: Option<Code>) {
        self.is_over = true;
        self.tool.metrics.answered(status, code);
        let millis = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let code = code.map_or("", Code::id);
        self.seen.0.in_scope(|| info!(target: TARGET, status, code, millis, "answered"));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.is_over {
            self.end(GONE, None);
        }
    }
}

/// The tracing span of a running call.
#[derive(Clone, Debug)]
pub(crate) struct CallSpan(Span);

impl CallSpan {
    pub(crate) const fn span(&self) -> &Span {
        &self.0
    }

    pub(crate) fn caller(&self, account: Address) {
        self.0.record("caller", display(account));
    }

    pub(crate) fn transaction(&self, transaction: B256) {
        self.0.record("transaction", display(transaction));
    }
}
