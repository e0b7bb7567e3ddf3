//! What the last verification concluded about a tool: the facts that REST, MCP, pages and search show.
//!
//! A listing is plain data and is stored as JSON. It has the configuration that it applies to, so a change of the registration outdates it
//! at once, without a write.
//!
//! Several versions of this program may share a database. Unknown fields are ignored, and unknown enum values are kept as they are; a new
//! field needs a default, so that documents of the previous version can be read.

use alloy_primitives::{Address, B256};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib_core::clock::UnixTime;

use crate::Error;
use crate::model::{ToolKey, ToolRow};

/// What the last verification concluded about a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listing {
    /// When the evidence was gathered.
    pub checked_at: UnixTime,
    /// When it must be verified again to stay listed.
    pub expires_at: UnixTime,
    /// The manifest hash in the registry at that time.
    pub manifest_hash: B256,
    /// The metadata URI in the registry at that time.
    pub metadata_uri: String,
    /// The verdict in one word.
    pub verdict: Verdict,
    /// Whether all four checks passed.
    pub verified: bool,
    /// Whether the manifest also conforms to every rule and limit.
    pub conformant: bool,
    /// The outcome of each of the four checks: `passed`, `failed` or `not_reached`.
    pub checks: [String; 4],
    /// The first step that failed.
    pub failed: Option<Failure>,
    /// The codes of all findings, each once, most severe first.
    #[serde(default)]
    pub findings: Vec<FindingNote>,
    /// What the manifest says, for a tool that is verified and conformant. Its creator signs for it, but it is untrusted text all the
    /// same.
    pub manifest: Option<ManifestFacts>,
    /// The name and endpoint that an unverified manifest claims: for people, never for an agent.
    pub claims: Option<Claims>,
    /// The trust tier that this index verified.
    pub tier: String,
    /// Who may use it, from the chain.
    pub access: AccessFacts,
    /// Other registrations of the same metadata URI, at most [`MAX_DUPLICATES`].
    #[serde(default)]
    pub same_uri: Vec<ToolKey>,
    /// Other registrations with the same endpoint, at most [`MAX_DUPLICATES`].
    #[serde(default)]
    pub same_endpoint: Vec<ToolKey>,
    /// Whether the registration is active or abandoned.
    pub life: Life,
    /// The availability of its server.
    #[serde(default)]
    pub health: Health,
    /// Whether the development environment was involved.
    #[serde(default)]
    pub dev: bool,
}

/// The maximum number of duplicates that are listed. The rest is not counted either: at this number a tool is obviously a copy.
pub const MAX_DUPLICATES: usize = 16;

impl Listing {
    /// Parses the document in the database.
    pub(crate) fn read(document: &str) -> Result<Self, Error> {
        serde_json::from_str(document).map_err(|_| Error::Corrupt { what: "listing" })
    }

    /// Whether a tool with this registration may be shown to agents.
    pub fn is_good_for(&self, row: &ToolRow) -> bool {
        self.verified && self.conformant && self.manifest_hash == row.manifest_hash && self.metadata_uri == row.metadata_uri
    }
}

/// The verdict of a verification.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Verdict {
    /// All four checks passed.
    Verified,
    /// A check failed.
    Refused,
    /// The verification could not be completed.
    Unknown,
    /// A verdict of a later version of this program, kept as it is.
    Other(String),
}

impl Verdict {
    /// Returns the word for it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Verified => "verified",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
            Self::Other(word) => word,
        }
    }
}

impl From<String> for Verdict {
    fn from(word: String) -> Self {
        match word.as_str() {
            "verified" => Self::Verified,
            "refused" => Self::Refused,
            "unknown" => Self::Unknown,
            _ => Self::Other(word),
        }
    }
}

impl From<Verdict> for String {
    fn from(verdict: Verdict) -> Self {
        verdict.as_str().to_owned()
    }
}

/// The first step that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The number of the check, 1 to 4, if the step belongs to one.
    pub check: Option<u8>,
    /// The step.
    pub step: String,
    /// The code of the reason.
    pub code: String,
}

/// A finding, without the untrusted text that it may quote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingNote {
    /// Its code.
    pub code: String,
    /// `error`, `warning` or `hint`.
    pub severity: String,
    /// What the code means, in Toolcrib's words.
    pub title: String,
}

/// What a verified and conformant manifest says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ManifestFacts {
    /// The tool's name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Its tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The URL that it is called at.
    pub endpoint: String,
    /// The origin of the endpoint: scheme, host and port.
    pub origin: String,
    /// The slug in its metadata URI.
    pub slug: String,
    /// The version in the manifest.
    pub version: Option<String>,
    /// Its icon, if its URL may be shown.
    pub image: Option<String>,
    /// Its large picture, if its URL may be shown.
    pub featured_image: Option<String>,
    /// JSON Schema of the input.
    pub inputs: Option<Value>,
    /// JSON Schema of the output.
    pub outputs: Option<Value>,
    /// Names of the fields of both schemas, each once, for search.
    #[serde(default)]
    pub fields: Vec<String>,
    /// Payment options, the preferred one first. Empty when the manifest has no price.
    #[serde(default)]
    pub prices: Vec<Price>,
    /// For how many seconds the manifest may be cached.
    pub max_age: Option<u64>,
}

/// The name and endpoint that an unverified manifest claims. Control characters are escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Its name.
    pub name: Option<String>,
    /// Its endpoint.
    pub endpoint: Option<String>,
}

/// A payment option.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// The amount in the smallest unit, in decimal digits.
    pub amount: String,
    /// The asset as CAIP-19.
    pub asset: String,
    /// The recipient as CAIP-10.
    pub recipient: String,
    /// The payment protocol.
    pub protocol: String,
    /// The chain of the payment, for EVM chains.
    pub chain: Option<u64>,
    /// The token, if it is a contract on an EVM chain.
    pub token: Option<Address>,
    /// The symbol of the token, only for tokens of the pinned table: a token can return any symbol.
    pub symbol: Option<String>,
    /// Its decimals, with the same limitation.
    pub decimals: Option<u8>,
    /// The amount in micro-dollars (millionths of a dollar), only for dollar tokens of the pinned table.
    pub micro_usd: Option<u64>,
}

/// Who may use a tool, from the chain and not from the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessFacts {
    /// The kind of access.
    pub kind: AccessKind,
    /// The predicate; `None` for open access.
    pub predicate: Option<Address>,
    /// Whether the predicate's code can be replaced; `None` without a predicate.
    pub predicate_is_proxy: Option<bool>,
    /// The name that the predicate returns, escaped.
    pub predicate_name: Option<String>,
    /// keccak256 of the predicate's code.
    pub predicate_code: Option<B256>,
    /// Whether the predicate's ERC-165 answer says that it is a predicate; `None` without a predicate.
    pub is_advertised: Option<bool>,
    /// Whether one requirement is enough, instead of all.
    #[serde(default)]
    pub any: bool,
    /// The requirements of the predicate.
    #[serde(default)]
    pub requirements: Vec<RequirementFacts>,
}

/// The kind of access, as in the public API.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum AccessKind {
    /// To everybody.
    Open,
    /// To owners of a token of a collection.
    NftGated,
    /// To holders of an amount of a token.
    TokenGated,
    /// To subscribers.
    Subscription,
    /// By a predicate with other requirements, or without a description of them.
    Gated,
    /// A kind of a later version of this program, kept as it is.
    Other(String),
}

impl AccessKind {
    /// Every kind that this version knows, with its name.
    pub const WORDS: [(&'static str, Self); 5] = [
        ("open", Self::Open),
        ("nft_gated", Self::NftGated),
        ("token_gated", Self::TokenGated),
        ("subscription", Self::Subscription),
        ("gated", Self::Gated),
    ];

    /// Returns the name of the kind.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Open => "open",
            Self::NftGated => "nft_gated",
            Self::TokenGated => "token_gated",
            Self::Subscription => "subscription",
            Self::Gated => "gated",
            Self::Other(word) => word,
        }
    }

    /// Parses the name. `None` for one that this version does not know.
    pub fn parse(text: &str) -> Option<Self> {
        Self::WORDS.into_iter().find(|(word, _)| *word == text).map(|(_, kind)| kind)
    }
}

impl From<String> for AccessKind {
    fn from(word: String) -> Self {
        Self::parse(&word).unwrap_or(Self::Other(word))
    }
}

impl From<AccessKind> for String {
    fn from(kind: AccessKind) -> Self {
        kind.as_str().to_owned()
    }
}

/// A requirement of a predicate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequirementFacts {
    /// The four bytes of its kind, as `0x` and hexadecimal digits.
    pub kind: String,
    /// The name of its kind: `erc721`, `erc1155`, `subscription`, `erc20`, `trait`, `attestation` … or `unknown`.
    pub meaning: String,
    /// The required collection or token.
    pub contract: Option<Address>,
    /// The required token id, if any.
    pub token_id: Option<String>,
    /// The required tier, if any.
    pub min_tier: Option<u32>,
    /// The required amount, if any.
    pub min_balance: Option<String>,
    /// The raw data, as `0x` and hexadecimal digits.
    pub data: String,
    /// The predicate's label for it, escaped.
    pub label: String,
    /// Metadata of the collection.
    pub collection: Option<CollectionFacts>,
}

/// Metadata of a collection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionFacts {
    /// Its name, read from the chain and escaped.
    pub name: Option<String>,
    /// Its symbol, read in the same way.
    pub symbol: Option<String>,
    /// A picture, from a provider that the operator chose.
    pub image: Option<String>,
    /// The floor price as text, from such a provider.
    pub floor_price: Option<String>,
}

/// Whether a registration is active or abandoned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "LifeDocument", into = "LifeDocument")]
pub enum Life {
    /// Active, as far as the index knows.
    Active,
    /// Nothing has changed for a long time. That alone is not a sign of a problem.
    MaybeStale,
    /// Retired: deregistered, or its predicate grants access to no account.
    Retired(String),
    /// A state of a later version of this program, kept as it is.
    Other {
        /// The name of the state.
        state: String,
        /// The data of the state.
        cause: Option<Value>,
    },
}

/// A [`Life`] as it is stored.
#[derive(Serialize, Deserialize)]
struct LifeDocument {
    state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cause: Option<Value>,
}

impl From<LifeDocument> for Life {
    fn from(LifeDocument { state, cause }: LifeDocument) -> Self {
        match (state.as_str(), cause) {
            ("active", None) => Self::Active,
            ("maybe_stale", None) => Self::MaybeStale,
            ("retired", Some(Value::String(cause))) => Self::Retired(cause),
            (_, cause) => Self::Other { state, cause },
        }
    }
}

impl From<Life> for LifeDocument {
    fn from(life: Life) -> Self {
        let plain = |state: &str| Self { state: state.to_owned(), cause: None };
        match life {
            Life::Active => plain("active"),
            Life::MaybeStale => plain("maybe_stale"),
            Life::Retired(cause) => Self { state: "retired".to_owned(), cause: Some(cause.into()) },
            Life::Other { state, cause } => Self { state, cause },
        }
    }
}

/// The availability of a tool's server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Verification runs that were counted, the newest [`HEALTH_LOOKS`] at most.
    pub looks: u32,
    /// Runs that got a response.
    pub answered: u32,
    /// The median response time in milliseconds.
    pub latency_ms: Option<u32>,
    /// When it last responded.
    pub last_answer: Option<UnixTime>,
}

/// The number of verification runs that health is computed from: two weeks at one an hour.
pub const HEALTH_LOOKS: u32 = 336;

impl Health {
    /// Returns the state: `healthy`, `degraded`, `down` or `unknown`.
    pub const fn status(&self) -> &'static str {
        if self.looks == 0 {
            "unknown"
        } else if self.answered * 100 >= self.looks * 95 {
            "healthy"
        } else if self.answered > 0 {
            "degraded"
        } else {
            "down"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_later_versions_stay_as_they_are() {
        fn back<T: serde::de::DeserializeOwned + Serialize>(text: &str) -> T {
            let value: T = serde_json::from_str(text).expect("it can be read");
            assert_eq!(serde_json::to_string(&value).expect("JSON"), text);
            value
        }
        assert_eq!(back::<AccessKind>("\"nft_gated\""), AccessKind::NftGated);
        assert_eq!(back::<AccessKind>("\"allowlist\""), AccessKind::Other("allowlist".to_owned()));
        assert_eq!(back::<Verdict>("\"refused\""), Verdict::Refused);
        assert_eq!(back::<Verdict>("\"disputed\"").as_str(), "disputed");
        assert_eq!(back::<Life>(r#"{"state":"active"}"#), Life::Active);
        assert_eq!(back::<Life>(r#"{"state":"retired","cause":"deregistered"}"#), Life::Retired("deregistered".to_owned()));
        let paused = back::<Life>(r#"{"state":"paused","cause":{"until":7}}"#);
        assert!(matches!(paused, Life::Other { state, .. } if state == "paused"));
        assert_eq!(AccessKind::parse("allowlist"), None);
        for (word, kind) in AccessKind::WORDS {
            assert_eq!(kind.as_str(), word);
        }
    }
}
