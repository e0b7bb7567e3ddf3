//! Strict signatures: exactly one accepted encoding for each.

use std::fmt;

use alloy_primitives::{Address, B256, Signature, U256};
use toolcrib_core::agent::signing::{AgentSignature, SignatureFault};
use toolcrib_core::codes::{self, Code};
use toolcrib_x402::erc6492::{self, WrapperFault};

/// Why a signature is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// Its length is not 65 bytes.
    #[error("the signature has {0} bytes, expected 65")]
    Length(usize),
    /// The last byte is not 0, 1, 27 or 28.
    #[error("the last byte (v) of the signature is {0}, expected 0, 1, 27 or 28")]
    V(u8),
    /// s is in the upper half.
    #[error("the s value of the signature is in the upper half of the curve order (EIP-2)")]
    HighS,
    /// r or s is zero or too large.
    #[error("r or s of the signature is zero or not below the curve order")]
    Range,
    /// No public key can be recovered from it.
    #[error("no public key can be recovered from the signature")]
    Unrecoverable,
    /// It was made by another account, or for other data.
    #[error("the signature was made by {got}, expected {expected}")]
    WrongSigner {
        /// The expected signer.
        expected: Address,
        /// The recovered signer.
        got: Address,
    },
    /// A signature of an account that is not deployed (ERC-6492), without a node to simulate the deployment.
    #[error("signatures of accounts that are not deployed (ERC-6492) are not enabled")]
    Undeployed,
    /// The ERC-6492 wrapper of a signature does not decode.
    #[error("{0}")]
    Wrapper(WrapperFault),
    /// The factory call in the wrapper does not deploy a contract at the account's address.
    #[error("the factory {factory} does not deploy {account}")]
    NotDeployable {
        /// The account.
        account: Address,
        /// The factory that the signature names.
        factory: Address,
    },
    /// The account's contract rejects it (ERC-1271).
    #[error("the contract account {account} rejected the signature (ERC-1271)")]
    Contract {
        /// The account.
        account: Address,
    },
}

impl SignatureError {
    /// Returns the code of this error.
    pub const fn code(&self) -> Code {
        use codes::chain;
        match self {
            Self::Length(_) => chain::SIGNATURE_LENGTH,
            Self::V(_) => chain::SIGNATURE_V,
            Self::HighS => chain::SIGNATURE_HIGH_S,
            Self::Range => chain::SIGNATURE_RANGE,
            Self::Unrecoverable => chain::SIGNATURE_UNRECOVERABLE,
            Self::WrongSigner { .. } => chain::SIGNATURE_WRONG_SIGNER,
            Self::Undeployed => chain::SIGNATURE_UNDEPLOYED,
            Self::Wrapper(fault) => fault.code(),
            Self::NotDeployable { .. } => chain::NOT_DEPLOYABLE,
            Self::Contract { .. } => chain::CONTRACT_SIGNATURE,
        }
    }
}

/// A 65-byte signature with low s, r and s in range, and v of 0, 1, 27 or 28.
///
/// Two values are equal if they are the same signature, with either encoding of v.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StrictSignature {
    r: [u8; 32],
    s: [u8; 32],
    y_is_odd: bool,
}

impl StrictSignature {
    /// Parses r, s and v.
    pub fn from_slice(bytes: &[u8]) -> Result<Self, SignatureError> {
        if erc6492::is_wrapped(bytes) {
            return Err(SignatureError::Undeployed);
        }
        let bytes = <[u8; 65]>::try_from(bytes).map_err(|_| SignatureError::Length(bytes.len()))?;
        AgentSignature::from_bytes(bytes).map(Self::from).map_err(|fault| match fault {
            SignatureFault::V(v) => SignatureError::V(v),
            SignatureFault::HighS => SignatureError::HighS,
            // The length was checked, so the range is the only remaining error.
            _ => SignatureError::Range,
        })
    }

    /// The canonical encoding, to send: v is 27 or 28.
    pub fn canonical(&self) -> [u8; 65] {
        let mut bytes = [0; 65];
        bytes[..32].copy_from_slice(&self.r);
        bytes[32..64].copy_from_slice(&self.s);
        bytes[64] = self.v();
        bytes
    }

    /// r: the x coordinate of the ephemeral public key.
    pub const fn r(&self) -> B256 {
        B256::new(self.r)
    }

    /// s: the proof.
    pub const fn s(&self) -> B256 {
        B256::new(self.s)
    }

    /// 27 or 28.
    pub const fn v(&self) -> u8 {
        27 + self.y_is_odd as u8
    }

    /// Recovers the signer of this digest.
    pub fn recover(&self, digest: B256) -> Result<Address, SignatureError> {
        Signature::new(U256::from_be_bytes(self.r), U256::from_be_bytes(self.s), self.y_is_odd)
            .recover_address_from_prehash(&digest)
            .map_err(|_| SignatureError::Unrecoverable)
    }

    /// Checks that an account without code is the signer.
    pub fn check(&self, digest: B256, expected: Address) -> Result<(), SignatureError> {
        let got = self.recover(digest)?;
        if got == expected && !got.is_zero() { Ok(()) } else { Err(SignatureError::WrongSigner { expected, got }) }
    }
}

impl From<AgentSignature> for StrictSignature {
    fn from(signature: AgentSignature) -> Self {
        Self { r: signature.r(), s: signature.s(), y_is_odd: signature.y_is_odd() }
    }
}

impl TryFrom<Signature> for StrictSignature {
    type Error = SignatureError;

    fn try_from(signature: Signature) -> Result<Self, SignatureError> {
        Self::from_slice(&signature.as_bytes())
    }
}

impl From<StrictSignature> for Signature {
    fn from(signature: StrictSignature) -> Self {
        Self::new(U256::from_be_bytes(signature.r), U256::from_be_bytes(signature.s), signature.y_is_odd)
    }
}

impl fmt::Display for StrictSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", alloy_primitives::hex::encode_prefixed(self.canonical()))
    }
}

impl fmt::Debug for StrictSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StrictSignature({self})")
    }
}
