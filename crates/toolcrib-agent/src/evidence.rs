//! What was read and fetched about one `.agt` name, as plain data, without a verdict.
//!
//! A saved evidence file is a test vector, a bug report and an audit record. Everything in it that came from elsewhere is untrusted text.

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};
use toolcrib_core::clock::UnixTime;

/// The version of the format that this code writes and reads.
pub const FORMAT: u32 = 1;

/// Everything that was read and fetched to judge one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentEvidence {
    /// The version of this format.
    pub format: u32,
    /// The program that gathered it, such as `toolcrib 1.0.0`.
    pub gatherer: String,
    /// When gathering began.
    pub gathered_at: UnixTime,
    /// The name that was asked for, in its canonical form.
    pub domain: String,
    /// What each TXT source answered, in the order in which the sources were given.
    pub txt: Vec<TxtAnswer>,
    /// The retrieval of the manifest; `None` if no record names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Retrieval>,
    /// The owner of the name onchain; `None` if it was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerRead>,
}

/// The answer of one TXT source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TxtAnswer {
    /// The source, as its settings name it, without secrets: `dns 127.0.0.1:53`, `freename`, `fns`.
    pub source: String,
    /// What it answered.
    pub outcome: TxtLookup,
    /// What DNSSEC says about the answer.
    #[serde(default)]
    pub dnssec: Dnssec,
    /// How long it took.
    pub millis: u64,
}

/// What a TXT source says about a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TxtLookup {
    /// The records, each with its character-strings joined. They need not be UTF-8.
    Records(Vec<Bytes>),
    /// The name exists and has no TXT records.
    NoRecords,
    /// The name does not exist.
    NotFound,
    /// The source did not give an answer, which says nothing about the name.
    Failed {
        /// The code of the reason, such as `fetch.timeout`.
        code: String,
        /// What happened.
        message: String,
    },
}

/// What DNSSEC says about an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dnssec {
    /// It was not validated, or the source has no DNSSEC.
    #[default]
    Unchecked,
    /// The zone is not signed.
    Insecure,
    /// The signatures lead to a trust anchor.
    Secure,
    /// The signatures are wrong.
    Bogus,
}

/// The retrieval of a manifest by its CID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retrieval {
    /// The CID, as the record has it.
    pub cid: String,
    /// The content, if it was found and its blocks have the hashes that the CID asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Bytes>,
    /// What each place did that was asked, in the order in which they were given.
    pub attempts: Vec<GatewayAttempt>,
}

/// What one gateway, file or archive did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayAttempt {
    /// The gateway without secrets, or the path of the file.
    pub gateway: String,
    /// What it did.
    pub outcome: GatewayOutcome,
    /// Bytes that were read from it.
    pub bytes: u64,
    /// How long it took.
    pub millis: u64,
}

/// How a gateway answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum GatewayOutcome {
    /// It served the content, and every block has its hash.
    Served,
    /// It says that it does not have the content.
    NotFound,
    /// It served bytes that do not have the hash of the block that was asked for.
    Tampered {
        /// The block that was asked for.
        block: String,
    },
    /// It served something that cannot be checked, such as a file whose blocks are not known.
    Unverifiable {
        /// Why.
        reason: String,
    },
    /// The blocks are genuine, but not a file within the limits: a folder, too large, too deep. Every honest gateway has the same.
    Refused {
        /// The code of the reason.
        code: String,
        /// What is wrong.
        reason: String,
    },
    /// It did not answer as a gateway does: a timeout, an error status, a TLS failure.
    Unreachable {
        /// The code of the reason, such as `fetch.timeout`.
        code: String,
        /// What happened.
        message: String,
    },
    /// It was not waited for, because another one was faster.
    Cancelled,
}

/// The owner of a name onchain, read at one block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnerRead {
    /// The chain id that the nodes gave.
    pub chain_id: u64,
    /// The registry.
    pub registry: Address,
    /// The id of the name in the registry.
    pub token_id: U256,
    /// The block of all reads; `None` if no node answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<u64>,
    /// The hash of that block: after a reorg the number is that of another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_hash: Option<B256>,
    /// What the registry says.
    pub outcome: OwnerOutcome,
    /// The answer of a contract that holds the name, if it was asked for (ERC-1271).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<ContractRead>,
}

/// What the registry says about the holder of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum OwnerOutcome {
    /// The holder.
    Holder(Address),
    /// The name was never minted, or was burned: `ownerOf` reverts, or gives the zero address.
    NotMinted,
    /// There is no contract at the address of the registry.
    NoCode,
    /// The answer is not an address.
    Malformed {
        /// What is wrong with it.
        reason: String,
    },
    /// No node gave an answer, or they disagree, which says nothing about the name.
    Failed {
        /// The code of the reason, such as `chain.unreachable`.
        code: String,
        /// What happened.
        message: String,
    },
}

/// What a contract that holds a name says about a signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ContractRead {
    /// The holder has no code, or only a delegation (EIP-7702).
    NotAContract,
    /// `isValidSignature` accepts the signature.
    Accepted,
    /// `isValidSignature` refuses it.
    Rejected,
    /// No node gave an answer.
    Failed {
        /// The code of the reason.
        code: String,
        /// What happened.
        message: String,
    },
}
