//! Methods that send and sign. Signatures are made only with the ten development keys.

use alloy_consensus::SignableTransaction;
use alloy_consensus::transaction::Recovered;
use alloy_dyn_abi::TypedData;
use alloy_eips::{BlockId, BlockNumberOrTag, Encodable2718};
use alloy_primitives::{Address, Bytes, hex};
use alloy_rpc_types_eth::TransactionRequest;
use alloy_rpc_types_eth::state::StateOverride;
use alloy_signer::SignerSync;
use serde_json::{Value, json};

use super::{Answer, Method, Params, RpcError, reply};
use crate::accounts::dev_signer;
use crate::chain::{Chain, Rejection, SUGGESTED_TIP, Tx};

pub(super) fn find(method: &str) -> Option<Method> {
    Some(match method {
        "eth_sendRawTransaction" => |chain, mut params| reply(chain.send_raw(&params.next::<Bytes>()?)?),
        "eth_sendRawTransactionSync" => send_sync,
        "eth_sendTransaction" => |chain, mut params| {
            let tx = sign_request(chain, params.next()?, None)?;
            reply(chain.send(tx)?)
        },
        "eth_signTransaction" => |chain, mut params| {
            let tx = sign_request(chain, params.next()?, None)?;
            reply(json!({ "raw": Bytes::from(tx.encoded_2718()), "tx": tx.inner() }))
        },
        "eth_sign" => |_, mut params| {
            let address = params.next()?;
            sign_message(address, &params.next::<Bytes>()?)
        },
        "personal_sign" => |_, mut params| {
            let message: Bytes = params.next()?;
            sign_message(params.next()?, &message)
        },
        "eth_signTypedData_v4" => sign_typed_data,
        _ => return None,
    })
}

/// EIP-712. Wallets send the data as an object, or as a JSON string.
fn sign_typed_data(_: &mut Chain, mut params: Params) -> Answer {
    let address: Address = params.next()?;
    let wrong = |error: serde_json::Error| RpcError::params(format!("invalid argument 1: {error}"));
    let data: TypedData = match params.next::<Value>()? {
        Value::String(text) => serde_json::from_str(&text).map_err(wrong)?,
        value => serde_json::from_value(value).map_err(wrong)?,
    };
    let signer = dev_signer(address).ok_or(Rejection::UnknownAccount(address))?;
    let hash = data.eip712_signing_hash().map_err(|error| RpcError::params(format!("invalid argument 1: {error}")))?;
    let signature = signer.sign_hash_sync(&hash).map_err(|error| RpcError::internal(error.to_string()))?;
    reply(hex::encode_prefixed(signature.as_bytes()))
}

/// EIP-7966: returns the receipt if the transaction is mined at once.
fn send_sync(chain: &mut Chain, mut params: Params) -> Answer {
    let hash = chain.send_raw(&params.next::<Bytes>()?)?;
    match chain.mined(hash).and_then(|(block, index)| block.receipts.get(index)) {
        Some(receipt) => reply(receipt),
        None => Err(RpcError {
            code: 4,
            message: "the transaction was added to the mempool but was not processed".into(),
            data: Some(json!(hash)),
        }),
    }
}

/// Signs a message by EIP-191.
fn sign_message(address: Address, message: &[u8]) -> Answer {
    let signer = dev_signer(address).ok_or(Rejection::UnknownAccount(address))?;
    let signature = signer.sign_message_sync(message).map_err(|error| RpcError::internal(error.to_string()))?;
    reply(hex::encode_prefixed(signature.as_bytes()))
}

/// Fills in missing fields of a request and signs it, if its sender is a development account.
pub(crate) fn sign_request(chain: &Chain, mut request: TransactionRequest, nonce: Option<u64>) -> Result<Tx, RpcError> {
    let from = request.from.ok_or_else(|| RpcError::params("missing field `from`"))?;
    let signer = dev_signer(from).ok_or(Rejection::UnknownAccount(from))?;
    if request.max_fee_per_blob_gas.is_some() || request.sidecar.is_some() || request.blob_versioned_hashes.is_some() {
        return Err(Rejection::Type("blob transactions (type 3) are not taken by this development chain").into());
    }
    let pending = BlockId::Number(BlockNumberOrTag::Pending);
    if let Some(have) = request.chain_id
        && have != chain.config.chain_id
    {
        return Err(Rejection::ChainId { have, want: chain.config.chain_id }.into());
    }
    request.chain_id = Some(chain.config.chain_id);
    request.input.normalize_input();
    if request.nonce.is_none() {
        request.nonce = Some(match nonce {
            Some(nonce) => nonce,
            None => chain.nonce(from, pending)?,
        });
    }
    if request.to.is_none() {
        request.to = Some(alloy_primitives::TxKind::Create);
    }
    if request.gas.is_none() {
        request.gas = Some(chain.estimate_gas(&request, &chain.point(pending)?, StateOverride::default())?);
    }
    let base_fee = u128::from(chain.next_base_fee());
    if request.gas_price.is_none() && !matches!(request.transaction_type, Some(0 | 1)) {
        let tip = *request.max_priority_fee_per_gas.get_or_insert_with(|| {
            request.max_fee_per_gas.map_or(u128::from(SUGGESTED_TIP), |cap| cap.min(u128::from(SUGGESTED_TIP)))
        });
        // Twice the base fee, as in wallets: it suffices for six full blocks.
        request.max_fee_per_gas.get_or_insert_with(|| base_fee.saturating_mul(2).saturating_add(tip));
    } else {
        request.gas_price.get_or_insert_with(|| base_fee.saturating_add(u128::from(SUGGESTED_TIP)));
    }
    let tx = request.build_typed_tx().map_err(|_| RpcError::params("the request has fields of different transaction types"))?;
    let signature = signer.sign_hash_sync(&tx.signature_hash()).map_err(|error| RpcError::internal(error.to_string()))?;
    Ok(Recovered::new_unchecked(tx.into_envelope(signature), from))
}
