//! Running the handler of a call.

use std::time::Duration;

use axum::http::StatusCode;
use tokio::time::{Instant, timeout};
use toolcrib_core::codes;
use toolcrib_core::schema::Echo;
use toolcrib_x402::usage::{UsageProof, UsageReport};

use super::Admitted;
use crate::answer::{ErrorResponse, Stop};
use crate::endpoint::listed;
use crate::gate::terms::Terms;
use crate::layer::Work;
use crate::tool::{Context, ErrorKind, Failure, MAX_OUTPUT_BYTES};

/// A handler's output, and how long it took.
pub(super) struct HandlerOutput {
    pub(super) output: Vec<u8>,
    pub(super) took: Duration,
}

impl Admitted<'_> {
    /// Runs the handler, and checks its output.
    pub(super) async fn run(&self, work: Work, context: Context) -> Result<HandlerOutput, Stop> {
        let Self { shared, tool, .. } = self;
        let fault = |status, code, detail: &str| {
            shared.tell(tool, code, detail);
            Stop::from(ErrorResponse::new(status, code))
        };
        let failed = StatusCode::INTERNAL_SERVER_ERROR;
        // The output of a paid call is stored for the payer, so it has to fit in the store too.
        let most = if tool.gate.charge.is_some() { shared.used.largest_result() } else { MAX_OUTPUT_BYTES };
        let began = Instant::now();
        let called = timeout(tool.time, work.answer(&tool.handler, context, most)).await;
        let took = began.elapsed();
        tool.metrics.handler.observe(took);
        let (output, bytes) = match called {
            Err(_) => return Err(fault(StatusCode::GATEWAY_TIMEOUT, codes::gate::TIMED_OUT, "the handler took too long")),
            Ok(Ok(output)) => output,
            Ok(Err(Failure::Input(detail))) => {
                return Err(ErrorResponse::new(StatusCode::BAD_REQUEST, codes::gate::INPUT_TYPE).message(detail).into());
            }
            Ok(Err(Failure::Output(detail))) => return Err(fault(failed, codes::gate::OUTPUT_INVALID, &detail)),
            Ok(Err(Failure::TooLarge)) => {
                return Err(fault(failed, codes::gate::OUTPUT_TOO_LARGE, &format!("more than {most} bytes")));
            }
            Ok(Err(Failure::Response(response))) => {
                if response.status().is_server_error() {
                    shared.tell(tool, codes::gate::FAILED, &format!("the handler answered {}", response.status()));
                }
                return Err(Stop::passed_on(response));
            }
            Ok(Err(Failure::Tool(error))) => {
                let (status, code) = match error.kind {
                    ErrorKind::Refused => (StatusCode::UNPROCESSABLE_ENTITY, codes::gate::REFUSED),
                    ErrorKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, codes::gate::UNAVAILABLE),
                    ErrorKind::Internal => return Err(fault(failed, codes::gate::FAILED, &error.text)),
                };
                return Err(ErrorResponse::new(status, code).message(error.text).into());
            }
        };
        // The tool's output may contain anything, so violations are described without it.
        let violations = tool.outputs.as_ref().map_or_else(Vec::new, |schema| schema.violations(&output, Echo::Masked));
        if let Some(first) = violations.first() {
            shared.tell(tool, codes::gate::OUTPUT_INVALID, &first.to_string());
            return Err(ErrorResponse::new(failed, codes::gate::OUTPUT_INVALID).with("violations", listed(&violations)).into());
        }
        let bytes = bytes.unwrap_or_else(|| output.to_string().into_bytes());
        if bytes.len() > most {
            return Err(fault(failed, codes::gate::OUTPUT_TOO_LARGE, &format!("{} bytes", bytes.len())));
        }
        Ok(HandlerOutput { output: bytes, took })
    }

    /// Reports a served call to the directory, if the operator wants that. Signatures are used up by now, and settled payments are public.
    /// Redeemed results are not reported again.
    pub(super) async fn report(&self, proof: Option<UsageProof>, took: Duration) {
        let tool = self.tool.gate.terms.as_ref().and_then(Terms::tool);
        let (Some(usage), Some(tool), Some(proof)) = (&self.shared.usage, tool, proof) else { return };
        let latency_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let sent = usage.send(&UsageReport { tool, latency_ms, proof }).await;
        self.tool.metrics.reported(sent.is_ok());
        if let Err(detail) = sent {
            self.shared.tell(self.tool, codes::usage::NOT_REPORTED, &detail);
        }
    }
}
