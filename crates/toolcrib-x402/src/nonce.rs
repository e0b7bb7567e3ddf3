//! Bound nonces: a nonce that commits to one call.
//!
//! An EIP-3009 authorization has payer, recipient, value and time, but nothing about the call that it pays for, so another tool with the
//! same recipient, or a relay of the challenge, could use it elsewhere. Here the nonce itself is a commitment:
//!
//! ```text
//! nonce = MARK ‖ keccak256(abi.encode(
//!     bytes32 keccak256(TAG), uint256 chainId, address registry, uint256 toolId,
//!     bytes32 keccak256(method ‖ " " ‖ target), bytes32 keccak256(body), bytes32 salt))[4..]
//! ```
//!
//! The salt is sent in the header [`X_TOOL_NONCE_SALT`](super::header::X_TOOL_NONCE_SALT). Peers that do not support the scheme see 32
//! random bytes. The mark prevents that the salt is stripped: a marked nonce without its salt is rejected. A random nonce has the mark with
//! a probability of 2^-32, and its payer signs again.
//!
//! After settlement, when everything else is public, the salt is still known only to the payer and the tool.

use std::fmt;

use alloy_primitives::{B256, U256, keccak256};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::codes::{Code, payment as code};
use toolcrib_core::finding::Finding;

use super::payment::word;

/// The purpose of the commitment. A change of the scheme changes it.
pub const TAG: &str = "toolcrib.bound-nonce.v1";

/// The first bytes of every bound nonce: the first bytes of keccak256 of [`TAG`].
pub const MARK: [u8; 4] = [0x5b, 0x79, 0x66, 0xca];

/// The call that a nonce is bound to.
#[derive(Clone, Copy, Debug)]
pub struct BoundCall<'c> {
    /// The tool.
    pub tool: ToolRef,
    /// The method as in the request line: `POST`.
    pub method: &'c str,
    /// The public URL with its query, as the caller wrote it and as the server's settings have it. Never from a `Host` header.
    pub target: &'c str,
    /// The body, byte for byte; empty if there is none.
    pub body: &'c [u8],
}

/// A nonce that is bound to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BoundNonce {
    /// The nonce to sign with.
    pub nonce: B256,
    /// The salt to send with it. Never use a salt twice.
    pub salt: B256,
}

impl BoundNonce {
    /// Binds a nonce to a call. The salt is 32 random bytes.
    pub fn make(call: &BoundCall<'_>, salt: B256) -> Self {
        let target = keccak256([call.method.as_bytes(), b" ", call.target.as_bytes()].concat());
        let words = [
            keccak256(TAG),
            U256::from(call.tool.chain).into(),
            call.tool.registry.into_word(),
            call.tool.id.into(),
            target,
            keccak256(call.body),
            salt,
        ];
        let mut nonce = keccak256(words.concat());
        nonce[..MARK.len()].copy_from_slice(&MARK);
        Self { nonce, salt }
    }

    /// The value of the salt's header.
    pub fn salt_header(&self) -> String {
        self.salt.to_string()
    }
}

/// Whether a nonce has the mark of bound nonces.
pub fn is_marked(nonce: B256) -> bool {
    nonce.starts_with(&MARK)
}

/// What a nonce commits to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// To this call only.
    Bound,
    /// To nothing: 32 bytes chosen by the caller.
    Unbound,
}

/// Why a nonce is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NonceFault {
    /// The salt header does not hold 32 bytes, or occurs more than once.
    Salt,
    /// The nonce is marked, but the salt is missing.
    SaltMissing,
    /// The nonce was made for another call, or from another salt.
    OtherCall,
}

impl NonceFault {
    /// The code of this error.
    pub const fn code(self) -> Code {
        match self {
            Self::Salt => code::SALT,
            Self::SaltMissing => code::SALT_MISSING,
            Self::OtherCall => code::NONCE_OTHER_CALL,
        }
    }

    /// The error as a finding. It contains neither nonce nor salt.
    pub fn finding(self) -> Finding {
        Finding::new(self.code())
    }
}

impl fmt::Display for NonceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code().title())
    }
}

impl std::error::Error for NonceFault {}

/// Parses the salt from the values of its header. `None` if there is no such header.
pub fn read_salt<'h>(values: impl IntoIterator<Item = &'h [u8]>) -> Result<Option<B256>, NonceFault> {
    let mut values = values.into_iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(NonceFault::Salt);
    }
    let text = std::str::from_utf8(value.trim_ascii()).map_err(|_| NonceFault::Salt)?;
    word(text).map(Some).ok_or(NonceFault::Salt)
}

/// Verifies a nonce against its call. A gate that accepts only bound nonces rejects [`Binding::Unbound`] with [`code::NONCE_UNBOUND`].
pub fn verify(nonce: B256, salt: Option<B256>, call: &BoundCall<'_>) -> Result<Binding, NonceFault> {
    match salt {
        None if is_marked(nonce) => Err(NonceFault::SaltMissing),
        None => Ok(Binding::Unbound),
        // A caller that sends a salt means a bound nonce, so one without the mark is wrong.
        Some(salt) if BoundNonce::make(call, salt).nonce == nonce => Ok(Binding::Bound),
        Some(_) => Err(NonceFault::OtherCall),
    }
}

#[cfg(test)]
mod tests;
