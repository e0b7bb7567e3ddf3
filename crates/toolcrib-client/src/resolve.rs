//! What came of a payment whose answer was lost: the chain is asked, and the server with the same payment.

use alloy_primitives::{B256, U256, keccak256};
use alloy_provider::Provider as _;
use alloy_rpc_types_eth::{BlockNumberOrTag, Filter};
use toolcrib_chain::rpc::Chain;
use toolcrib_chain::sign::is_used;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::url::HttpsUrl;
use toolcrib_core::x402::{Method, Offer, asset, read_payment};

use crate::denial::Subject;
use crate::ledger::{Entry, LEASE_SECONDS, PaymentId, State};
use crate::steps::{Basis, Request, Sent, credentials, finish, outputs_of};
use crate::{CallError, Called, Client, Terms};

/// How far after `validBefore` the newest block must be before an unused authorization counts as dead, in seconds: deeper than
/// blocks are usually replaced.
const FINAL_SECONDS: u64 = 120;

/// How many blocks after the signature are searched for the settlement. A signature is good for ten minutes, which has 2,400 blocks on
/// the fastest chain of the table; nodes refuse wide ranges.
const SEARCH_BLOCKS: u64 = 5_000;

/// What was learnt about a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resolution {
    /// It settled; in this transaction, if that could be found.
    Settled(Option<B256>),
    /// It can never settle; the money is back.
    Released,
    /// Not used so far, and still valid: nobody can tell yet.
    Open,
}

impl Client {
    /// Asks the chain what came of a payment, and writes it into the ledger.
    pub async fn resolve(&self, id: PaymentId) -> Result<Resolution, CallError> {
        let entry = self.inner.ledger.entry(id).await?;
        let now = self.now();
        match entry.state {
            State::Settled => return Ok(Resolution::Settled(entry.transaction)),
            State::Released => return Ok(Resolution::Released),
            State::Reserved if now.since(entry.created_at) > LEASE_SECONDS => {
                self.inner.ledger.release(id, "never signed", now).await?;
                return Ok(Resolution::Released);
            }
            State::Reserved => return Ok(Resolution::Open),
            State::Signed | State::Unknown => {}
        }
        // What is signed has a nonce; a row without one was not written by this program.
        let nonce = entry.nonce.ok_or(CallError::NotResumable { payment: id })?;
        let chain = self.chain(entry.spend.chain)?;
        // The block is read first: what is not used later than this block's time can never be.
        let latest = chain.provider().get_block_by_number(BlockNumberOrTag::Latest).await;
        let latest = latest.map_err(toolcrib_chain::Error::from_rpc)?;
        let block_time = latest.as_ref().map_or(0, |block| block.header.timestamp);
        if is_used(chain, entry.spend.asset, entry.spend.payer, nonce).await? {
            return self.used(&entry, nonce, chain, now).await;
        }
        if block_time > entry.valid_before.saturating_add(FINAL_SECONDS) {
            self.inner.ledger.release(id, "expired unused, as the chain says", now).await?;
            return Ok(Resolution::Released);
        }
        Ok(Resolution::Open)
    }

    async fn used(&self, entry: &Entry, nonce: B256, chain: &Chain, now: UnixTime) -> Result<Resolution, CallError> {
        let from = entry.spend.payer.into_word();
        let until = entry.from_block.saturating_add(SEARCH_BLOCKS);
        let search = async |event: &str| {
            // Without a block to start from the range would be the whole chain.
            if entry.from_block == 0 {
                return Ok(Vec::new());
            }
            let filter = Filter::new().address(entry.spend.asset).event_signature(keccak256(event));
            let filter = filter.topic1(from).topic2(nonce).from_block(entry.from_block).to_block(until);
            chain.provider().get_logs(&filter).await.map_err(toolcrib_chain::Error::from_rpc)
        };
        if !search("AuthorizationCanceled(address,bytes32)").await?.is_empty() {
            self.inner.ledger.release(entry.id, "taken back, as the chain says", now).await?;
            return Ok(Resolution::Released);
        }
        let mut transaction = None;
        for log in search("AuthorizationUsed(address,bytes32)").await? {
            let Some(hash) = log.transaction_hash else { continue };
            if moved(chain, hash, entry).await? {
                transaction = Some(hash);
            }
        }
        self.inner.ledger.settle(entry.id, transaction, "as the chain says", now).await?;
        Ok(Resolution::Settled(transaction))
    }

    /// Presents the same payment again, with what proves that it is ours, to collect the result of a call that was paid for. Nothing
    /// new is signed.
    pub async fn resume(&self, id: PaymentId) -> Result<Called, CallError> {
        let not_resumable = || CallError::NotResumable { payment: id };
        let entry = self.inner.ledger.entry(id).await?;
        let kept = entry.request.clone().filter(|_| entry.state.is_open()).ok_or_else(not_resumable)?;
        let payment = read_payment(kept.version, &kept.payment).payment.ok_or_else(not_resumable)?;
        let url = HttpsUrl::parse(&kept.url).map_err(|_| not_resumable())?;
        let spend = &entry.spend;
        let basis = match spend.tool {
            Some(tool) => {
                let verified = self.verify(tool).await?;
                // The manifest may have moved the tool to another server, which gets nobody's payment.
                if !verified.manifest().endpoint().same_origin(&url) {
                    return Err(not_resumable());
                }
                let outputs = outputs_of(verified.manifest())?;
                Basis::Tool { verified: Box::new(verified), outputs }
            }
            None => Basis::Url,
        };
        let token = asset::find(spend.chain, spend.asset).ok_or_else(not_resumable)?;
        let offer = Offer::exact(token, spend.amount.amount(), spend.recipient, 1).ok_or_else(not_resumable)?;
        let terms = Terms { chain: spend.chain, asset: spend.asset, amount: spend.amount.amount(), pay_to: spend.recipient };
        let method = if kept.method == Method::Get.as_str() { Method::Get } else { Method::Post };
        let request = Request { url, method, body: kept.body, chain: Some(spend.tool.map_or(spend.chain, |tool| tool.chain)) };
        let tool = spend.tool.map(|tool| tool.to_string());
        let extra = credentials(&payment, &kept.payment, kept.salt, tool.as_deref(), kept.retry_token.as_deref());
        let extra: Vec<_> = extra.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let exchange = request.send(&self.inner.door, &extra, self.inner.paid_limits).await?;
        let (subject, exchanges) = (Subject::default(), vec![exchange.clone()]);
        let sent = Sent { basis, payment, offer, terms, id: Some(id), subject, exchanges };
        finish(self, sent, exchange).await
    }
}

/// Whether a transaction moved what a payment promised, to whom it promised it.
async fn moved(chain: &Chain, hash: B256, entry: &Entry) -> Result<bool, CallError> {
    let Some(receipt) = chain.receipt(hash).await? else { return Ok(false) };
    let transfer =
        [keccak256("Transfer(address,address,uint256)"), entry.spend.payer.into_word(), entry.spend.recipient.into_word()];
    let value = U256::from(entry.spend.amount.get()).to_be_bytes::<32>();
    Ok(receipt.status()
        && receipt
            .logs()
            .iter()
            .any(|log| log.address() == entry.spend.asset && log.topics() == transfer && log.data().data.as_ref() == value))
}
