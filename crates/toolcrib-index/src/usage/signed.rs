//! Verifies a signature without a payment. No node is called: creating one is free, so verifying one must be cheap.

use toolcrib_chain::sign::{Domain, StrictSignature, TransferAuthorization, TransferKind};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::usage as code;
use toolcrib_x402::asset;
use toolcrib_x402::recipient::EndpointBinding;
use toolcrib_x402::usage::UsageProof;

use super::Judged;
use super::count::Call;
use super::payee::Payee;
use crate::Chains;
use crate::model::ToolView;

/// Seconds of allowed clock skew, in which a report may arrive after its signature expired: as gates allow.
pub const SKEW_SECONDS: u64 = 60;

pub(super) fn judge(
    chains: &Chains,
    view: &ToolView,
    proof: &UsageProof,
    chain: Option<u64>,
    latency_ms: Option<u64>,
    now: UnixTime,
) -> Judged {
    let UsageProof::Authorization { caller, authorization, signature, .. } = proof else {
        return Judged::Refused(code::TYPE_UNKNOWN);
    };
    if !view.is_listed() {
        return Judged::Refused(code::TOOL_NOT_LISTED);
    }
    if *caller != authorization.from {
        return Judged::Refused(code::SIGNATURE);
    }
    if !authorization.value.is_zero() {
        return Judged::Refused(code::VALUE_NOT_ZERO);
    }
    let payees = Payee::all(view);
    let is_free = |payee: &&Payee| payee.amount.is_zero();
    let endpoint = view.listing.as_ref().and_then(|listing| listing.manifest.as_ref()).map(|manifest| &manifest.endpoint);
    let bound = endpoint.is_some_and(|endpoint| {
        let binding = EndpointBinding { endpoint: endpoint.clone(), tool: view.tool, operator: view.row.creator };
        binding.pay_to() == authorization.to
    });
    let is_meant = authorization.to == view.row.creator
        || bound
        || payees.iter().filter(is_free).any(|payee| payee.recipient == authorization.to);
    if !is_meant {
        return Judged::Refused(code::SIGNED_FOR_ANOTHER);
    }
    let time = u64::try_from(now.seconds()).unwrap_or_default();
    let has_begun = authorization.valid_after < time.saturating_add(SKEW_SECONDS);
    let is_over = time >= authorization.valid_before.saturating_add(SKEW_SECONDS);
    if !has_begun || is_over {
        return Judged::Refused(code::OUT_OF_TIME);
    }
    let chain = chain.unwrap_or(view.tool.chain);
    let set = chains.get(chain).and_then(|chain| chain.network().usdc);
    let token = set.map(|token| (token.address, token.domain(chain))).or_else(|| {
        let token = asset::preferred(chain)?;
        Some((token.address, Domain::new(token.name, token.version, alloy_primitives::U256::from(chain), token.address)))
    });
    let Some((token, domain)) = token else { return Judged::Refused(code::CHAIN_UNKNOWN) };
    let digest = TransferAuthorization::from(authorization).digest(TransferKind::Transfer, &domain);
    let signature = StrictSignature::from_slice(signature.as_bytes());
    if signature.and_then(|signature| signature.check(digest, authorization.from)).is_err() {
        return Judged::Refused(code::SIGNATURE);
    }
    let is_own = authorization.from == view.row.creator || payees.iter().any(|payee| payee.recipient == authorization.from);
    Judged::Proven(vec![Call {
        key: view.row.key,
        paid: false,
        counts: !is_own,
        chain,
        token,
        payer: authorization.from,
        nonce: authorization.nonce,
        seller: authorization.to,
        amount: alloy_primitives::U256::ZERO,
        volume: 0,
        transaction: None,
        at: now,
        latency_ms,
    }])
}
