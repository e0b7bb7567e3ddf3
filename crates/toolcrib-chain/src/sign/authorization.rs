//! Token transfers that the payer signs and anybody may send (EIP-3009).

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
    /// Anybody.
    Transfer,
    /// The recipient only.
    Receive,
}

/// A transfer, before it is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransferAuthorization {
    /// Who pays.
    pub from: Address,
    /// Who is paid.
    pub to: Address,
    /// How much, in the token's smallest unit.
    pub value: U256,
    /// The last second in which it is not valid yet.
    pub valid_after: U256,
    /// The first second in which it is not valid any more.
    pub valid_before: U256,
    /// Used once for each payer and token.
    pub nonce: B256,
}

impl TransferAuthorization {
    /// The hash of the structure.
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

    /// What the payer signs.
    pub fn digest(&self, kind: TransferKind, domain: &Domain) -> B256 {
        domain.digest(self.struct_hash(kind))
    }

    /// The same for wallets that show what is signed.
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

/// What stands in a payment header, as what is signed.
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

/// Takes an authorization back, before it is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CancelAuthorization {
    /// Who gave the authorization.
    pub authorizer: Address,
    /// Which one.
    pub nonce: B256,
}

impl CancelAuthorization {
    /// What the authorizer signs.
    pub fn digest(&self, domain: &Domain) -> B256 {
        domain.digest(keccak256([CANCEL_TYPEHASH, self.authorizer.into_word(), self.nonce].concat()))
    }

    /// The same for wallets that show what is signed.
    pub fn typed_data(&self, domain: &Domain) -> TypedData {
        typed_data(
            domain,
            "CancelAuthorization",
            &[("authorizer", "address", json!(self.authorizer.to_string())), ("nonce", "bytes32", json!(self.nonce.to_string()))],
        )
    }
}
