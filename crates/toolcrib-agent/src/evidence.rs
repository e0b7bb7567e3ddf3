//! Evidence: what was read and fetched about one `.agt` name, as plain data, without a verdict.
//!
//! A saved evidence file is a test vector, a bug report and an audit record. All third-party data in it is untrusted text.

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};
use toolcrib_core::clock::UnixTime;

/// The version of the file format.
pub const FORMAT: u32 = 1;

/// All evidence about one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentEvidence {
    /// The version of the file format.
    pub format: u32,
    /// The program that gathered the evidence, such as `toolcrib 1.0.0`.
    pub gatherer: String,
    /// When gathering started.
    pub gathered_at: UnixTime,
    /// The requested name in its canonical form.
    pub domain: String,
    /// The responses of the TXT sources, in the order of the sources.
    pub txt: Vec<TxtAnswer>,
    /// The retrieval of the manifest; `None` if no record points to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Retrieval>,
    /// The onchain owner of the name; `None` if it was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerRead>,
}

/// The response of one TXT source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TxtAnswer {
    /// The source as in its settings, without secrets: `dns 127.0.0.1:53`, `freename`, `fns`.
    pub source: String,
    /// The response.
    pub outcome: TxtLookup,
    /// The DNSSEC status of the response.
    #[serde(default)]
    pub dnssec: Dnssec,
    /// How long it took.
    pub millis: u64,
}

/// The result of looking up a name in a TXT source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TxtLookup {
    /// The records, each with its character-strings joined. They may be other bytes than UTF-8.
    Records(Vec<Bytes>),
    /// The name exists and has no TXT records.
    NoRecords,
    /// The name does not exist.
    NotFound,
    /// The lookup failed, which says nothing about the name.
    Failed {
        /// The code of the reason, such as `fetch.timeout`.
        code: String,
        /// What happened.
        message: String,
    },
}

/// The DNSSEC status of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dnssec {
    /// It was not validated, or the source has no DNSSEC.
    #[default]
    Unchecked,
    /// The zone is not signed.
    Insecure,
    /// A chain of valid signatures leads to a trust anchor.
    Secure,
    /// A signature is invalid.
    Bogus,
}

/// The retrieval of a manifest by its CID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retrieval {
    /// The CID in the record.
    pub cid: String,
    /// The content, if it was found and its blocks match the CID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Bytes>,
    /// The attempts, in the order in which the sources were given.
    pub attempts: Vec<GatewayAttempt>,
}

/// The attempt to retrieve content from one gateway, file or archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayAttempt {
    /// The gateway without secrets, or the path of the file.
    pub gateway: String,
    /// The result.
    pub outcome: GatewayOutcome,
    /// Number of bytes read.
    pub bytes: u64,
    /// How long it took.
    pub millis: u64,
}

/// The result of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum GatewayOutcome {
    /// It served the content, and every block matches its hash.
    Served,
    /// It does not have the content.
    NotFound,
    /// It served bytes that do not match the hash of the requested block.
    Tampered {
        /// The CID of the requested block.
        block: String,
    },
    /// It served something that cannot be checked, such as a file with unknown blocks.
    Unverifiable {
        /// The reason.
        reason: String,
    },
    /// The blocks are genuine, but are not a file within the limits: a folder, too large, too deep. Every honest gateway has
    /// the same blocks.
    Refused {
        /// The code of the reason.
        code: String,
        /// What is wrong.
        reason: String,
    },
    /// It did not respond properly: a timeout, an error status, a TLS failure.
    Unreachable {
        /// The code of the reason, such as `fetch.timeout`.
        code: String,
        /// What happened.
        message: String,
    },
    /// It was cancelled, because another one was faster.
    Cancelled,
}

/// The onchain owner of a name, read at one block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnerRead {
    /// The chain id of the nodes.
    pub chain_id: u64,
    /// The registry.
    pub registry: Address,
    /// The token id of the name.
    pub token_id: U256,
    /// The block of all reads; `None` if no node responded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<u64>,
    /// The hash of that block: after a reorg the same number is another block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_hash: Option<B256>,
    /// The result of `ownerOf`.
    pub outcome: OwnerOutcome,
    /// The verdict of an owner contract on the signature, if requested (ERC-1271).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<ContractRead>,
}

/// The owner of a name according to the registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum OwnerOutcome {
    /// This account.
    Holder(Address),
    /// The name was never minted, or was burned: `ownerOf` reverts, or returns the zero address.
    NotMinted,
    /// The registry's address has no code.
    NoCode,
    /// The returned data is not an address.
    Malformed {
        /// What is wrong with it.
        reason: String,
    },
    /// No node responded, or they disagree, which says nothing about the name.
    Failed {
        /// The code of the reason, such as `chain.unreachable`.
        code: String,
        /// What happened.
        message: String,
    },
}

/// The verdict of an owner contract on a signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ContractRead {
    /// The owner has no code, or only an EIP-7702 delegation.
    NotAContract,
    /// `isValidSignature` accepts the signature.
    Accepted,
    /// `isValidSignature` rejects it.
    Rejected,
    /// No node responded.
    Failed {
        /// The code of the reason.
        code: String,
        /// What happened.
        message: String,
    },
}
