//! Token transfers that the payer signs and any account may send (EIP-3009).

use alloy_dyn_abi::TypedData;
use alloy_primitives::{Address, B256, U256, b256, keccak256};
use serde_json::json;
use toolcrib_x402::Authorization;

use super::{Domain, typed_data};

/// `TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)`.
pub const TRANSFER_TYPEHASH: B256 = b256!("7c7c6cdb67a18743f49ec6fa9b35f50d52ed05cbed4cc592e13b44501c1a2267");

/// `ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)`.
pub const RECEIVE_TYPEHASH: B256 = b256!("d099cc98ef71107a616c4f0f941f04c322d8e254fe26b3c6668db87aae413de8");

/// `CancelAuthorization(address authorizer,bytes32 nonce)`.
pub const CANCEL_TYPEHASH: B256 = b256!("158b0a9edf7a828aad02f63cd515c68ef2f50ba807396f6d12842833a1597429");

/// Who may send the transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransferKind {
    /// Any account.
    Transfer,
    /// The recipient only.
    Receive,
}

/// A transfer, before it is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransferAuthorization {
    /// The payer.
    pub from: Address,
    /// The recipient.
    pub to: Address,
    /// The amount in the token's smallest unit.
    pub value: U256,
    /// The last second in which it is not valid yet.
    pub valid_after: U256,
    /// The first second in which it is not valid any more.
    pub valid_before: U256,
    /// The nonce; unique for each payer and token.
    pub nonce: B256,
}

impl TransferAuthorization {
    /// The EIP-712 struct hash.
    pub fn struct_hash(&self, kind: TransferKind) -> B256 {
        let mut words = [0; 224];
        let typehash = match kind {
            TransferKind::Transfer => TRANSFER_TYPEHASH,
            TransferKind::Receive => RECEIVE_TYPEHASH,
        };
        words[..32].copy_from_slice(&typehash[..]);
        words[32..64].copy_from_slice(&self.from.into_word()[..]);
        words[64..96].copy_from_slice(&self.to.into_word()[..]);
        words[96..128].copy_from_slice(&self.value.to_be_bytes::<32>());
        words[128..160].copy_from_slice(&self.valid_after.to_be_bytes::<32>());
        words[160..192].copy_from_slice(&self.valid_before.to_be_bytes::<32>());
        words[192..].copy_from_slice(&self.nonce[..]);
        keccak256(words)
    }

    /// The digest to sign.
    pub fn digest(&self, kind: TransferKind, domain: &Domain) -> B256 {
        domain.digest(self.struct_hash(kind))
    }

    /// The typed data, for wallets that show what they sign.
    pub fn typed_data(&self, kind: TransferKind, domain: &Domain) -> TypedData {
        let primary = match kind {
            TransferKind::Transfer => "TransferWithAuthorization",
            TransferKind::Receive => "ReceiveWithAuthorization",
        };
        typed_data(
            domain,
            primary,
            &[
                ("from", "address", json!(self.from.to_string())),
                ("to", "address", json!(self.to.to_string())),
                ("value", "uint256", json!(self.value.to_string())),
                ("validAfter", "uint256", json!(self.valid_after.to_string())),
                ("validBefore", "uint256", json!(self.valid_before.to_string())),
                ("nonce", "bytes32", json!(self.nonce.to_string())),
            ],
        )
    }
}

/// Converts the authorization in a payment header to the struct that is signed.
impl From<&Authorization> for TransferAuthorization {
    fn from(authorization: &Authorization) -> Self {
        Self {
            from: authorization.from,
            to: authorization.to,
            value: authorization.value.get(),
            valid_after: U256::from(authorization.valid_after),
            valid_before: U256::from(authorization.valid_before),
            nonce: authorization.nonce,
        }
    }
}

/// A cancellation of an authorization, before it is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CancelAuthorization {
    /// The account that signed the authorization.
    pub authorizer: Address,
    /// The nonce of the authorization.
    pub nonce: B256,
}

impl CancelAuthorization {
    /// The digest to sign.
    pub fn digest(&self, domain: &Domain) -> B256 {
        domain.digest(keccak256([CANCEL_TYPEHASH, self.authorizer.into_word(), self.nonce].concat()))
    }

    /// The typed data, for wallets that show what they sign.
    pub fn typed_data(&self, domain: &Domain) -> TypedData {
        typed_data(
            domain,
            "CancelAuthorization",
            &[("authorizer", "address", json!(self.authorizer.to_string())), ("nonce", "bytes32", json!(self.nonce.to_string()))],
        )
    }
}
