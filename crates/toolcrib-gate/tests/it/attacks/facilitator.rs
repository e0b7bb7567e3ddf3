//! A facilitator of our own, over HTTP: it reads requests as any other does, and settles them with a key. On its way to the caller an
//! answer can be spoilt.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use alloy_primitives::Address;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tokio::net::TcpListener;
use toolcrib_gate::{Due, LocalSettlement, Outcome, Settle, Unrecorded, Verdict};
use toolcrib_x402::{
    ChainAddress, EXACT, SettleResponse, Supported, SupportedKind, VerifyResponse, Version, read_facilitator_request,
};

use super::chain::{CHAIN, account};

/// How an answer is spoilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoil {
    /// 500, and nothing is done.
    Refuse,
    /// 500, though it is done.
    Hide,
    /// No answer, though it is done.
    Hang,
    /// The connection ends in the middle of the answer, though it is done.
    Cut,
}

type Spoiler = Arc<dyn Fn(bool) -> Option<Spoil> + Send + Sync>;

/// The development account that facilitators settle with, unless a test says another one.
const ACCOUNT: u32 = 7;

pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    settles: Arc<AtomicUsize>,
}

#[derive(Clone)]
struct Desk {
    settlement: Arc<LocalSettlement>,
    /// Asked with whether it is a settlement.
    spoiler: Spoiler,
    settles: Arc<AtomicUsize>,
}

impl Service {
    pub(crate) async fn start(settlement: LocalSettlement) -> Self {
        Self::spoilt(settlement, |_| None).await
    }

    pub(crate) async fn spoilt(
        settlement: LocalSettlement,
        spoiler: impl Fn(bool) -> Option<Spoil> + Send + Sync + 'static,
    ) -> Self {
        Self::announcing(Some(account(ACCOUNT)), settlement, spoiler).await
    }

    /// One that does not say which accounts it sends from.
    pub(crate) async fn without_signers(settlement: LocalSettlement) -> Self {
        Self::announcing(None, settlement, |_| None).await
    }

    /// One that announces `signer` as the account that it sends from.
    pub(crate) async fn announcing(
        signer: Option<Address>,
        settlement: LocalSettlement,
        spoiler: impl Fn(bool) -> Option<Spoil> + Send + Sync + 'static,
    ) -> Self {
        let settles = Arc::new(AtomicUsize::new(0));
        let desk = Desk { settlement: Arc::new(settlement), spoiler: Arc::new(spoiler), settles: settles.clone() };
        let (verifying, settling) = (desk.clone(), desk);
        let router = Router::new()
            .route("/x402/supported", get(move || async move { supported(signer) }))
            .route("/x402/verify", post(move |body: Bytes| verifying.clone().answer(body, false)))
            .route("/x402/settle", post(move |body: Bytes| settling.clone().answer(body, true)));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, settles }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/x402", self.address)
    }

    /// How often it was asked to settle.
    pub(crate) fn settles(&self) -> usize {
        self.settles.load(Ordering::SeqCst)
    }
}

impl Desk {
    async fn answer(self, body: Bytes, is_settlement: bool) -> Response {
        let spoil = (self.spoiler)(is_settlement);
        if is_settlement {
            self.settles.fetch_add(1, Ordering::SeqCst);
        }
        if spoil == Some(Spoil::Refuse) {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        }
        // It continues even if the client has disconnected.
        let done = tokio::spawn(async move { if is_settlement { self.settle(&body).await } else { self.verify(&body).await } });
        let (status, text) = done.await.expect("no panic");
        match spoil {
            None => (status, [("content-type", "application/json")], text).into_response(),
            Some(Spoil::Refuse | Spoil::Hide) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            Some(Spoil::Hang) => {
                tokio::time::sleep(Duration::from_secs(30)).await;
                StatusCode::GATEWAY_TIMEOUT.into_response()
            }
            Some(Spoil::Cut) => {
                let half = text[..text.len() / 2].to_owned().into_bytes();
                let chunks = futures_util::stream::iter([Ok(half), Err(std::io::Error::other("cut"))]);
                Response::new(Body::from_stream(chunks))
            }
        }
    }

    async fn verify(&self, body: &[u8]) -> (StatusCode, String) {
        let Ok((payment, offer)) = read_facilitator_request(body) else { return (StatusCode::BAD_REQUEST, "{}".to_owned()) };
        let payer = Some(ChainAddress::evm(payment.authorization.from));
        let answer = |is_valid, reason| VerifyResponse { is_valid, reason, message: None, payer }.to_json();
        match self
            .settlement
            .verify(Due { payment: &payment, offer: &offer, resource: None, extensions: &[], request: None })
            .await
        {
            Verdict::Good { .. } => (StatusCode::OK, answer(true, None)),
            Verdict::Used => (StatusCode::OK, answer(false, Some("nonce_already_used".to_owned()))),
            Verdict::Bad { reason } => (StatusCode::OK, answer(false, Some(reason))),
            Verdict::Unclear { .. } => (StatusCode::SERVICE_UNAVAILABLE, "{}".to_owned()),
        }
    }

    async fn settle(&self, body: &[u8]) -> (StatusCode, String) {
        let Ok((payment, offer)) = read_facilitator_request(body) else { return (StatusCode::BAD_REQUEST, "{}".to_owned()) };
        let failed = |reason: &str| SettleResponse::failed(&payment, reason);
        let response = match self
            .settlement
            .settle(Due { payment: &payment, offer: &offer, resource: None, extensions: &[], request: None }, None, &Unrecorded)
            .await
        {
            Outcome::Settled { transaction } => SettleResponse::settled(&payment, transaction),
            Outcome::Refused { reason } | Outcome::RefusedForNow { reason } => failed(&reason),
            Outcome::Replayed => failed("invalid_exact_evm_nonce_already_used"),
            Outcome::NotAttempted { .. } => return (StatusCode::SERVICE_UNAVAILABLE, "{}".to_owned()),
            Outcome::Unknown { transaction, .. } => SettleResponse {
                transaction: transaction.map_or_else(String::new, |transaction| transaction.to_string()),
                ..failed("unexpected_settle_error")
            },
        };
        (StatusCode::OK, response.to_json(payment.version))
    }
}

fn supported(signer: Option<Address>) -> Result<String, Infallible> {
    let kind =
        |version, network: &str| SupportedKind { version, scheme: EXACT.to_owned(), network: network.to_owned(), extra: None };
    let kinds = vec![kind(Version::V1, "base-sepolia"), kind(Version::V2, &format!("eip155:{CHAIN}"))];
    Ok(Supported {
        kinds,
        extensions: Vec::new(),
        signers: signer.map(|signer| (format!("eip155:{CHAIN}"), signer)).into_iter().collect(),
    }
    .to_json())
}
