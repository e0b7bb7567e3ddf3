//! `pricing`: what a call costs, in which asset, to whom, and by which protocol.

use alloy_primitives::Address;

use super::extensions::check_subfields;
use super::identity::required_string;
use crate::caip::{self, AccountId, AssetId};
use crate::checked::Context;
use crate::codes;
use crate::finding::Finding;
use crate::json::{Object, Value};
use crate::money::{self, Amount};

/// Most payment options: ERC-8257 Manifest Parser Hardening.
pub const MAX_PRICES: usize = 32;

/// Payment protocols that clients commonly support. Others are legal and opaque.
const COMMON_PROTOCOLS: [&str; 4] = ["x402", "mpp", "erc20-transfer", "native-transfer"];

/// One payment option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price {
    /// The cost of a call in the asset's smallest unit. Zero is free, but still uses the protocol.
    pub amount: Amount,
    /// The asset that is paid, and its chain.
    pub asset: AssetId,
    /// The recipient (`payTo`), on the same chain.
    pub recipient: AccountId,
    /// The payment protocol. Opaque, compared byte for byte.
    pub protocol: String,
}

/// The cost of a call for a caller that supports certain protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost<'m> {
    /// The manifest does not mention a price. Treated as free.
    Unstated,
    /// The preferred option that the caller supports costs nothing, but may still require its protocol.
    Free(&'m Price),
    /// The preferred option that the caller supports.
    Priced(&'m Price),
    /// There are options, but the caller supports none. Never treat it as free.
    Unknown,
}

impl<'m> Cost<'m> {
    /// The first of `prices` whose protocol is in `supported`, as ERC-8257 §3 requires.
    pub fn of(prices: &'m [Price], supported: &[&str]) -> Self {
        match prices.iter().find(|price| supported.contains(&price.protocol.as_str())) {
            _ if prices.is_empty() => Self::Unstated,
            None => Self::Unknown,
            Some(price) if price.amount.is_zero() => Self::Free(price),
            Some(price) => Self::Priced(price),
        }
    }
}

pub(super) fn check(value: Value<'_>, creator: Option<Address>, context: &mut Context) -> Vec<Price> {
    let Some(list) = value.as_array() else {
        context.report(
            Finding::new(codes::tool::PRICING_SHAPE).at(value).expected("a non-empty array").got(value.kind().described()),
        );
        return Vec::new();
    };
    if list.is_empty() {
        context.report(Finding::new(codes::tool::PRICING_EMPTY).at(value));
    }
    if list.len() > MAX_PRICES {
        context.report(
            Finding::new(codes::tool::PRICING_COUNT)
                .at(value)
                .expected(format!("at most {MAX_PRICES}"))
                .got(list.len().to_string()),
        );
    }
    list.iter()
        .take(MAX_PRICES)
        .filter_map(|element| {
            let Some(entry) = element.as_object() else {
                context.report(
                    Finding::new(codes::tool::PRICING_SHAPE).at(element).expected("an object").got(element.kind().described()),
                );
                return None;
            };
            check_entry(entry, creator, context)
        })
        .collect()
}

fn check_entry(entry: Object<'_>, creator: Option<Address>, context: &mut Context) -> Option<Price> {
    let amount = required_string(entry, "amount", entry.get("amount"), context)
        .and_then(|(value, text)| money::check(value, text, context));
    let asset = required_string(entry, "asset", entry.get("asset"), context)
        .and_then(|(value, text)| caip::check_asset(value, text, context));
    let recipient = required_string(entry, "recipient", entry.get("recipient"), context).and_then(|(value, text)| {
        let account = caip::check_account(value, text, context)?;
        if creator.is_some() && account.evm_address() == creator {
            context.report(Finding::new(codes::tool::RECIPIENT_IS_CREATOR).at(value));
        }
        Some(account)
    });
    check_one_chain(entry, context);
    let protocol = required_string(entry, "protocol", entry.get("protocol"), context);
    if let Some((value, name)) = protocol {
        if name.is_empty() {
            context.report(Finding::new(codes::tool::PROTOCOL_EMPTY).at(value));
        } else if !COMMON_PROTOCOLS.contains(&name) {
            context.report(Finding::new(codes::tool::PROTOCOL_UNUSUAL).at(value).expected(COMMON_PROTOCOLS.join(", ")).got(name));
        }
    }
    check_subfields(entry, &["amount", "asset", "recipient", "protocol"], context);
    Some(Price { amount: amount?, asset: asset?, recipient: recipient?, protocol: protocol?.1.to_owned() })
}

/// The chain of the asset is the text before the slash, that of the recipient the text before the last colon; §3 compares them as text, so
/// this works even if one of them is malformed in other ways.
fn check_one_chain(entry: Object<'_>, context: &mut Context) {
    let (Some(asset), Some(recipient)) = (entry.get("asset"), entry.get("recipient")) else { return };
    let (Some(asset_text), Some(recipient_text)) = (asset.as_str(), recipient.as_str()) else { return };
    let (Some((asset_chain, _)), Some((recipient_chain, _))) = (asset_text.split_once('/'), recipient_text.rsplit_once(':'))
    else {
        return;
    };
    if asset_chain != recipient_chain {
        context
            .report(Finding::new(codes::tool::PRICING_CHAIN_MISMATCH).at(recipient).expected(asset_chain).got(recipient_chain));
    }
}
