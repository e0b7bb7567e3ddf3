//! The receipt of a paid response: what the server states, and what the chain shows of it.
//!
//! A receipt is the server's statement. If there is a node for the payment's chain, the transaction that the receipt names is checked
//! before the ledger calls the payment settled. That takes one or two requests and never longer than [`CHECK_LIMIT`]: the result is there
//! already, and `resolve` checks later what could not be checked in time.

use std::time::Duration;

use alloy_primitives::B256;
use tokio::time::{Instant, sleep, timeout_at};
use toolcrib_chain::settlement::{Trail, TransactionProof};
use toolcrib_core::codes::call as code;
use toolcrib_core::finding::Finding;
use toolcrib_judge::evidence::Response;
use toolcrib_x402::{SettleResponse, check_settlement, header, read_receipt};

use super::pay::Sent;
use crate::Client;
use crate::ledger::Evidence;

/// Timeout of checking a receipt, all requests together.
pub const CHECK_LIMIT: Duration = Duration::from_secs(4);

/// Pause before a node that does not have the transaction yet is asked again: it may be a block behind the server's.
const PAUSE: Duration = Duration::from_secs(1);

/// What is known about the settlement in a receipt.
#[derive(Debug)]
pub(super) enum Stated {
    /// It counts as settled, in this transaction.
    Settled(B256, Evidence),
    /// The chain does not show it yet.
    Unconfirmed(B256),
    /// The chain shows that the receipt is wrong, or there is no credible one.
    Nothing,
}

/// Returns the receipt of a response, if it says that this very payment settled. Every error in it becomes a finding.
pub(super) fn receipt(response: &Response, sent: &Sent, findings: &mut Vec<Finding>) -> Option<SettleResponse> {
    sent.id?;
    // The name depends on the payment's version; newer servers send the other name too.
    let names = [sent.payment.version.receipt_header(), header::PAYMENT_RESPONSE, header::X_PAYMENT_RESPONSE];
    let value = names.iter().find_map(|name| response.header(&name.to_ascii_lowercase()).next());
    let Some(value) = value else {
        if response.status < 300 {
            findings.push(Finding::new(code::NO_RECEIPT));
        }
        return None;
    };
    let reading = read_receipt(value.trim());
    let Some(receipt) = reading.response else {
        let first = reading.findings.first().map_or_else(String::new, |finding| finding.message.clone());
        findings.push(Finding::new(code::RECEIPT).message(format!("the receipt cannot be read: {first}")));
        return None;
    };
    let differences = check_settlement(&receipt, &sent.payment, &sent.offer);
    if !receipt.success {
        let reason = receipt.reason.as_deref().unwrap_or("no reason is given");
        findings.push(Finding::new(code::RECEIPT).message(format!("the server says that the payment did not settle: {reason}")));
        return None;
    }
    if !differences.is_empty() {
        findings.extend(differences.into_iter().map(|finding| Finding::new(code::RECEIPT).message(finding.message)));
        return None;
    }
    Some(receipt)
}

/// Compares a receipt with the chain. Every mismatch becomes a finding.
pub(super) async fn check(client: &Client, sent: &Sent, receipt: Option<&SettleResponse>, findings: &mut Vec<Finding>) -> Stated {
    let Some(transaction) = receipt.and_then(SettleResponse::transaction_hash) else { return Stated::Nothing };
    let Some(chain) = client.inner.chains.get(&sent.terms.chain) else { return Stated::Settled(transaction, Evidence::Server) };
    let trail = Trail { chain, token: sent.terms.asset, authorization: &sent.payment.authorization };
    let (wrong, unseen) = match look(&trail, transaction).await {
        Ok(TransactionProof::Pays { .. }) => return Stated::Settled(transaction, Evidence::Chain),
        Ok(TransactionProof::Failed) => (Some("failed"), String::new()),
        Ok(TransactionProof::Other) => (Some("did not make the transfer of this payment"), String::new()),
        Ok(TransactionProof::Missing) => (None, "the chain does not show it yet".to_owned()),
        Err(reason) => (None, format!("the node could not be asked: {reason}")),
    };
    if let Some(what) = wrong {
        let message = format!("the receipt names transaction {transaction}, which {what}");
        findings.push(Finding::new(code::RECEIPT_CONTRADICTED).message(message));
        return Stated::Nothing;
    }
    let message = format!("the receipt names transaction {transaction}, and {unseen}");
    findings.push(Finding::new(code::RECEIPT_UNCONFIRMED).message(message));
    Stated::Unconfirmed(transaction)
}

/// Reads a transaction, and retries once after a pause if the node does not have it.
async fn look(trail: &Trail<'_>, transaction: B256) -> Result<TransactionProof, String> {
    let until = Instant::now() + CHECK_LIMIT;
    let ask = async || match timeout_at(until, trail.proof_in(transaction)).await {
        Ok(proof) => proof.map_err(|error| error.to_string()),
        Err(_) => Err("it gave no answer in time".to_owned()),
    };
    match ask().await {
        Ok(TransactionProof::Missing) => {
            sleep(PAUSE).await;
            ask().await
        }
        answer => answer,
    }
}
