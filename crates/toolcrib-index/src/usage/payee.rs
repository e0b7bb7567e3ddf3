//! Recipients of payments, and the tools that they belong to.
//!
//! A manifest may name any account as its recipient, also one that receives payments for others. So a payment to an account that several
//! tools name belongs to the tools of one owner: of the account itself if it registered one of them, otherwise of the account that
//! registered first. Among the tools of that owner, the price decides.

use alloy_primitives::{Address, U256};
use toolcrib_core::caip::AccountId;
use toolcrib_core::money::Amount;
use toolcrib_store::database::{Bulk, Column, Transaction, Value};
use toolcrib_x402::asset;

use crate::listing::{Listing, Price};
use crate::model::{ToolKey, ToolView};
use crate::{Chains, Error, Index};

/// The payment protocol whose settlements can be verified.
const PROTOCOL: &str = "x402";

/// A payment option, as far as payments are compared with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Payee {
    pub(super) chain: u64,
    pub(super) token: Address,
    pub(super) recipient: Address,
    pub(super) amount: U256,
}

impl Payee {
    pub(super) fn read(price: &Price) -> Option<Self> {
        let recipient = AccountId::parse(&price.recipient).ok()?;
        let chain = price.chain.filter(|chain| recipient.evm_chain_id() == Some(*chain))?;
        let amount = Amount::parse(&price.amount).ok()?.get();
        (price.protocol == PROTOCOL).then_some(())?;
        Some(Self { chain, token: price.token?, recipient: recipient.evm_address()?, amount })
    }

    /// Returns the payment options of a tool's verified manifest.
    pub(super) fn all(view: &ToolView) -> Vec<Self> {
        let manifest = view.listing.as_ref().and_then(|listing| listing.manifest.as_ref());
        manifest.map(|manifest| manifest.prices.iter().filter_map(Self::read).collect()).unwrap_or_default()
    }
}

/// Returns the decimals of a token whose logs are trusted: one of the pinned table, or one that the operator configured for the chain.
pub(super) fn believed(chains: &Chains, chain: u64, token: Address) -> Option<u8> {
    let set = chains.get(chain).and_then(|chain| chain.network().usdc).filter(|set| set.address == token);
    asset::find(chain, token).map(|pinned| pinned.decimals).or(set.map(|set| set.decimals))
}

/// The owner of a payment to an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Belongs {
    /// This tool only.
    Alone,
    /// This tool or another of the same owner.
    Shared,
    /// Tools of another owner.
    Elsewhere,
}

const RIVALS: &str = "FROM index_payee p JOIN index_tool t ON t.registry = p.registry AND t.tool = p.tool
    WHERE p.chain = $1 AND p.token = $2 AND p.recipient = $3 AND t.listed = $4";

/// Returns the owner of a payment to `payee`, from the view of a tool that names it.
pub(super) async fn belongs(index: &Index, view: &ToolView, payee: &Payee) -> Result<Belongs, Error> {
    let chain = i64::try_from(payee.chain).map_err(|_| Error::Corrupt { what: "chain" })?;
    let place = [
        Value::Integer(chain),
        Value::Bytes(payee.token.as_slice()),
        Value::Bytes(payee.recipient.as_slice()),
        Value::Boolean(true),
    ];
    let creator = view.row.creator;
    if creator != payee.recipient {
        let own = format!("SELECT 1 {RIVALS} AND t.creator = $3 LIMIT 1");
        if !index.database().fetch_made(own, &place).await?.is_empty() {
            return Ok(Belongs::Elsewhere);
        }
        let first = format!("SELECT t.creator {RIVALS} ORDER BY t.registered_at, t.registry, t.tool LIMIT 1");
        if let Some(row) = index.database().fetch_made(first, &place).await?.first()
            && row.scalar::<Address>()? != creator
        {
            return Ok(Belongs::Elsewhere);
        }
    }
    let id = view.row.key.id_bytes();
    let mut others = place.to_vec();
    others.extend([Value::Bytes(creator.as_slice()), Value::Integer(view.row.key.registry.0), Value::Bytes(&id)]);
    let sql = format!("SELECT 1 {RIVALS} AND t.creator = $5 AND NOT (p.registry = $6 AND p.tool = $7) LIMIT 1");
    let shared = !index.database().fetch_made(sql, &others).await?.is_empty();
    Ok(if shared { Belongs::Shared } else { Belongs::Alone })
}

const FORGET_MANY: &str = "DELETE FROM index_payee p USING UNNEST($1::bigint[], $2::bytea[]) AS v (registry, tool)
    WHERE p.registry = v.registry AND p.tool = v.tool";
const FORGET: &str = "DELETE FROM index_payee WHERE registry = $1 AND tool = $2";
const NOTE: Bulk = Bulk {
    table: "index_payee",
    columns: &["chain", "token", "recipient", "registry", "tool"],
    conflict: "ON CONFLICT DO NOTHING",
};

/// Records the recipients of a tool. Call this in the transaction that writes its listing.
pub async fn note_payees(transaction: &mut Transaction, key: ToolKey, listing: &Listing) -> Result<(), Error> {
    let id = key.id_bytes();
    transaction.execute(FORGET, &[Value::Integer(key.registry.0), Value::Bytes(&id)]).await?;
    insert(transaction, &[(key, listing)]).await
}

/// Records the recipients of several tools, on PostgreSQL.
pub(crate) async fn note_many(transaction: &mut Transaction, tools: &[(ToolKey, &Listing)]) -> Result<(), Error> {
    let registries: Vec<i64> = tools.iter().map(|(key, _)| key.registry.0).collect();
    let ids: Vec<_> = tools.iter().map(|(key, _)| key.id_bytes()).collect();
    let ids: Vec<&[u8]> = ids.iter().map(|id| &**id).collect();
    transaction.fetch_columns(FORGET_MANY, &[Column::Integers(&registries), Column::Bytes(&ids)]).await?;
    insert(transaction, tools).await
}

async fn insert(transaction: &mut Transaction, tools: &[(ToolKey, &Listing)]) -> Result<(), Error> {
    let (mut all, mut registries, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    for (key, listing) in tools {
        let payees = payees_of(listing);
        registries.extend(std::iter::repeat_n(key.registry.0, payees.len()));
        ids.extend(std::iter::repeat_n(key.id_bytes(), payees.len()));
        all.extend(payees);
    }
    if all.is_empty() {
        return Ok(());
    }
    let ids: Vec<&[u8]> = ids.iter().map(|id| &**id).collect();
    let chains: Vec<i64> = all.iter().map(|payee| i64::try_from(payee.chain).unwrap_or_default()).collect();
    let tokens: Vec<&[u8]> = all.iter().map(|payee| payee.token.as_slice()).collect();
    let recipients: Vec<&[u8]> = all.iter().map(|payee| payee.recipient.as_slice()).collect();
    let columns = [
        Column::Integers(&chains),
        Column::Bytes(&tokens),
        Column::Bytes(&recipients),
        Column::Integers(&registries),
        Column::Bytes(&ids),
    ];
    transaction.insert_many(&NOTE, &columns).await?;
    Ok(())
}

/// Returns the recipients in a listing, each once.
fn payees_of(listing: &Listing) -> Vec<Payee> {
    let mut payees: Vec<_> =
        listing.manifest.iter().flat_map(|manifest| manifest.prices.iter().filter_map(Payee::read)).collect();
    payees.retain(|payee| i64::try_from(payee.chain).is_ok() && !payee.amount.is_zero());
    payees.sort_by_key(|payee| (payee.chain, payee.token, payee.recipient));
    payees.dedup_by_key(|payee| (payee.chain, payee.token, payee.recipient));
    payees
}
