//! A call whose caller signed in with a message: reserve, predicate, handler, reply. It costs nothing.

use axum::http::StatusCode;
use axum::response::Response;
use toolcrib_core::codes;
use toolcrib_store::replay::{Reservation, Reserve};
use toolcrib_x402::PAID_CACHE_CONTROL;

use super::Admitted;
use crate::answer::{self, ErrorResponse, Stop};
use crate::endpoint::RETRY_SECONDS;
use crate::gate::sign_in::SignedCaller;
use crate::layer::Work;
use crate::tool::Context;

impl Admitted<'_> {
    pub(crate) async fn serve_signed_in(&self, signed: &SignedCaller, work: Work, context: Context) -> Result<Response, Stop> {
        let now = self.shared.clock.now();
        let store = &**self.shared.used.store(now);
        // The lease ends when the message expires: whatever happens to the handler, this message cannot be used again.
        let reservation = Reservation {
            expires_at: signed.expires_at,
            lease_until: signed.expires_at,
            route: &self.tool.route,
            body_hash: self.body_hash,
            proof: None,
            payment_id: None,
        };
        let ticket = match self.reserve(store, &signed.key, &reservation, now).await {
            Ok(Reserve::Reserved(ticket)) => ticket,
            Ok(Reserve::AlreadyUsed { .. } | Reserve::IdInUse) => return Err(self.challenge(codes::sign_in::REPLAYED)),
            Ok(Reserve::Full) => {
                self.shared.tell(self.tool, codes::store::FULL, "the replay store is full");
                return Err(ErrorResponse::new(StatusCode::SERVICE_UNAVAILABLE, codes::store::FULL)
                    .retry_after(RETRY_SECONDS)
                    .into());
            }
            Err(error) => return Err(self.store_fault(&error)),
        };
        if let Err(refusal) = self.let_in(signed.caller.account, &context).await {
            if let Err(error) = store.release(&signed.key, ticket).await {
                self.shared.tell(self.tool, codes::gate::REPLAY_UNAVAILABLE, &error.to_string());
            }
            return Err(refusal.into());
        }
        let ran = self.run(work, context).await?;
        Ok(answer::json(StatusCode::OK, ran.output, PAID_CACHE_CONTROL))
    }
}
