//! Decodes the return data of `getRequirements` by hand.
//!
//! A general ABI decoder trusts lengths and offsets before it checks that the bytes exist. Here every length is compared with its limit
//! and with the remaining bytes before anything is allocated, so that a hostile answer costs no more than the largest
//! honest one.

use alloy_primitives::{Address, B256, Bytes, U256};
use toolcrib_core::codes::{self, Code};
use toolcrib_core::registry::{Requirement, RequirementKind, UNREAD_KIND};
use toolcrib_core::tool::Logic;

/// Maximum number of requirements of one predicate (ERC-8257 Predicate Introspection Hardening).
pub const MAX_REQUIREMENTS: usize = 256;

/// Maximum length of one requirement's data.
pub const MAX_DATA_BYTES: usize = 4_096;

/// Maximum length of one requirement's label.
pub const MAX_LABEL_BYTES: usize = 256;

/// Maximum length of the return data: every entry at its largest, each with its offset, three words of head and two lengths.
pub const MAX_ANSWER_BYTES: usize = 96 + MAX_REQUIREMENTS * (32 + 96 + 64 + MAX_DATA_BYTES + MAX_LABEL_BYTES);

/// A decoded requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Meaning {
    /// Hold any token of an ERC-721 collection.
    Erc721 {
        /// The collection.
        collection: Address,
    },
    /// Hold a token of an ERC-1155 collection.
    Erc1155 {
        /// The collection.
        collection: Address,
        /// The token.
        token_id: U256,
    },
    /// Have an active subscription.
    Subscription {
        /// The subscription NFT.
        collection: Address,
        /// The minimum tier; 0 accepts any.
        min_tier: u8,
    },
    /// Hold an amount of an ERC-20 token.
    Erc20 {
        /// The token.
        token: Address,
        /// The minimum balance in the token's smallest unit.
        min_balance: U256,
    },
    /// Own a token with one of some trait values (ERC-7496).
    Trait {
        /// The collection.
        collection: Address,
        /// The contract that returns the traits.
        traits: Address,
        /// The trait.
        key: B256,
        /// The accepted values.
        values: Vec<B256>,
    },
    /// Send an issuer's attestation about the wallet.
    Attestation {
        /// The URL of the issuer's keys. Untrusted text; nothing here fetches it.
        jwks_uri: String,
        /// What is attested.
        condition: B256,
    },
    /// Sign the `AccessProof` challenge.
    AccessProof {
        /// The contract that verifies it.
        verifier: Address,
    },
    /// Be on an allowlist.
    Merkle {
        /// The Merkle root of the list.
        root: B256,
    },
    /// No account qualifies.
    DenyAll,
    /// A part that a composite could not read.
    Unread,
    /// The kind is known, but its data does not decode.
    Undecodable,
    /// The kind is unknown.
    Unknown,
}

/// Why bytes are not a list of requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequirementsError {
    /// They do not decode.
    Malformed,
    /// More than the limits allow.
    OverLimit(Limit),
}

/// Which limit was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Bytes of the return data: [`MAX_ANSWER_BYTES`].
    Answer,
    /// Entries: [`MAX_REQUIREMENTS`].
    Entries,
    /// Bytes of one entry's data: [`MAX_DATA_BYTES`].
    Data,
    /// Bytes of one entry's label: [`MAX_LABEL_BYTES`].
    Label,
}

impl Limit {
    /// The code for return data above this limit.
    pub const fn code(self) -> Code {
        match self {
            Self::Answer => codes::predicate::REQUIREMENTS_HUGE,
            Self::Entries => codes::predicate::TOO_MANY_REQUIREMENTS,
            Self::Data => codes::predicate::DATA_TOO_LONG,
            Self::Label => codes::predicate::LABEL_TOO_LONG,
        }
    }
}

/// Decodes the return data of `getRequirements`.
pub fn decode(bytes: &[u8]) -> Result<(Logic, Vec<Requirement>), RequirementsError> {
    if bytes.len() > MAX_ANSWER_BYTES {
        return Err(RequirementsError::OverLimit(Limit::Answer));
    }
    let answer = Area(bytes);
    let list = answer.follow(0, 64)?;
    let logic = match answer.small(1)? {
        0 => Logic::And,
        1 => Logic::Or,
        _ => return Err(RequirementsError::Malformed),
    };
    let count = list.number(0)?;
    if count > U256::from(MAX_REQUIREMENTS) {
        return Err(RequirementsError::OverLimit(Limit::Entries));
    }
    let count = count.to::<usize>();
    let entries = Area(list.0.get(32..).ok_or(RequirementsError::Malformed)?);
    // Check that the offsets exist before allocating the list.
    if entries.0.len() < 32 * count {
        return Err(RequirementsError::Malformed);
    }
    let mut requirements = Vec::with_capacity(count);
    for at in 0..count {
        let entry = entries.follow(at, 32 * count)?;
        let (kind, rest) = entry.word(0)?.split_first_chunk::<4>().ok_or(RequirementsError::Malformed)?;
        if rest.iter().any(|&byte| byte != 0) {
            return Err(RequirementsError::Malformed);
        }
        let data = entry.follow(1, 96)?.bytes(MAX_DATA_BYTES, Limit::Data)?;
        let label = entry.follow(2, 96)?.bytes(MAX_LABEL_BYTES, Limit::Label)?;
        let label = std::str::from_utf8(label).map_err(|_| RequirementsError::Malformed)?;
        requirements.push(Requirement { kind: kind.into(), data: Bytes::copy_from_slice(data), label: label.to_owned() });
    }
    Ok((logic, requirements))
}

impl From<&Requirement> for Meaning {
    fn from(requirement: &Requirement) -> Self {
        Self::of(requirement.kind.0, &requirement.data)
    }
}

impl Meaning {
    /// Decodes the data of a kind. Every byte must be used.
    pub fn of(kind: [u8; 4], data: &[u8]) -> Self {
        if kind == UNREAD_KIND {
            return Self::Unread;
        }
        let Some(known) = RequirementKind::from_id(kind) else { return Self::Unknown };
        if !known.fits(data) {
            return Self::Undecodable;
        }
        Area(data).meaning(known).unwrap_or(Self::Undecodable)
    }
}

/// Bytes in which offsets are relative to the first one.
#[derive(Clone, Copy)]
struct Area<'a>(&'a [u8]);

impl<'a> Area<'a> {
    fn word(self, index: usize) -> Result<&'a [u8; 32], RequirementsError> {
        let start = index.checked_mul(32).ok_or(RequirementsError::Malformed)?;
        self.0.get(start..).and_then(|rest| rest.first_chunk::<32>()).ok_or(RequirementsError::Malformed)
    }

    fn number(self, index: usize) -> Result<U256, RequirementsError> {
        Ok(U256::from_be_bytes(*self.word(index)?))
    }

    fn small(self, index: usize) -> Result<u8, RequirementsError> {
        u8::try_from(self.number(index)?).map_err(|_| RequirementsError::Malformed)
    }

    fn address(self, index: usize) -> Result<Address, RequirementsError> {
        let (head, address) = self.word(index)?.split_at(12);
        if head.iter().any(|&byte| byte != 0) { Err(RequirementsError::Malformed) } else { Ok(Address::from_slice(address)) }
    }

    /// The area that starts at the offset in a word. The offset must not point into the `head` bytes that hold the offsets:
    /// otherwise a page of zeros would be an empty list.
    fn follow(self, index: usize, head: usize) -> Result<Self, RequirementsError> {
        let offset = usize::try_from(self.number(index)?).map_err(|_| RequirementsError::Malformed)?;
        if offset < head {
            return Err(RequirementsError::Malformed);
        }
        self.0.get(offset..).map(Self).ok_or(RequirementsError::Malformed)
    }

    /// The bytes of the `bytes` or `string` that starts here.
    fn bytes(self, most: usize, limit: Limit) -> Result<&'a [u8], RequirementsError> {
        let length = self.number(0)?;
        if length > U256::from(most) {
            return Err(RequirementsError::OverLimit(limit));
        }
        self.0.get(32..32 + length.to::<usize>()).ok_or(RequirementsError::Malformed)
    }

    /// Decodes data of a kind whose layout was checked.
    fn meaning(self, kind: RequirementKind) -> Result<Meaning, RequirementsError> {
        Ok(match kind {
            RequirementKind::Erc721Holding => Meaning::Erc721 { collection: self.address(0)? },
            RequirementKind::Erc1155Holding => Meaning::Erc1155 { collection: self.address(0)?, token_id: self.number(1)? },
            RequirementKind::Subscription => Meaning::Subscription { collection: self.address(0)?, min_tier: self.small(1)? },
            RequirementKind::Erc20Balance => Meaning::Erc20 { token: self.address(0)?, min_balance: self.number(1)? },
            RequirementKind::Erc7496Trait => self.traits()?,
            RequirementKind::WalletStateAttestation => self.attestation()?,
            RequirementKind::AccessProof => Meaning::AccessProof { verifier: self.address(0)? },
            RequirementKind::MerkleAllowlist => Meaning::Merkle { root: self.word(0)?.into() },
            RequirementKind::DenyAll => Meaning::DenyAll,
            // A kind that is in the table but not handled here.
            _ => Meaning::Unknown,
        })
    }

    fn traits(self) -> Result<Meaning, RequirementsError> {
        let list = self.follow(3, 128)?;
        let count = usize::try_from(list.number(0)?).map_err(|_| RequirementsError::Malformed)?;
        // The list is inside the data of one requirement, so a valid count is small.
        if count > MAX_DATA_BYTES / 32 || list.0.len() < 32 * (count + 1) {
            return Err(RequirementsError::Malformed);
        }
        let values = (1..=count).map(|at| list.word(at).map(|word| B256::from(*word))).collect::<Result<_, _>>()?;
        Ok(Meaning::Trait { collection: self.address(0)?, traits: self.address(1)?, key: self.word(2)?.into(), values })
    }

    fn attestation(self) -> Result<Meaning, RequirementsError> {
        let uri = self.follow(0, 64)?.bytes(MAX_DATA_BYTES, Limit::Data)?;
        let jwks_uri = std::str::from_utf8(uri).map_err(|_| RequirementsError::Malformed)?.to_owned();
        Ok(Meaning::Attestation { jwks_uri, condition: self.word(1)?.into() })
    }
}

#[cfg(test)]
mod tests;
