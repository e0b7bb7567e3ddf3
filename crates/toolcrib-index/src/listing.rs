//! What was derived about a tool when it was last looked at: the facts that REST, MCP, pages and search show.
//!
//! A listing is plain data and is kept as JSON. It says for which configuration it holds, so that a change of the registration makes it
//! old at once, without anybody having to touch it.
//!
//! Several versions of this program may share a database. Fields that are not known are passed over, and words that are not known are
//! kept as they are; a new field needs a default, so that documents of the version before can be read.

use alloy_primitives::{Address, B256};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib_core::clock::UnixTime;

use crate::Error;
use crate::model::{ToolKey, ToolRow};

/// What was derived about a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listing {
    /// When the evidence was gathered.
    pub checked_at: UnixTime,
    /// When it must be looked at again to stay listed.
    pub expires_at: UnixTime,
    /// The hash in the registry that it was judged against.
    pub manifest_hash: B256,
    /// The URI in the registry that it was judged for.
    pub metadata_uri: String,
    /// The answer in a word.
    pub verdict: Verdict,
    /// Whether all four checks passed.
    pub verified: bool,
    /// Whether the manifest also keeps every rule and limit.
    pub conformant: bool,
    /// How each of the four checks went: `passed`, `failed` or `not_reached`.
    pub checks: [String; 4],
    /// Where verification failed first.
    pub failed: Option<Failure>,
    /// The codes of everything that was found, each once, worst first.
    #[serde(default)]
    pub findings: Vec<FindingNote>,
    /// What the manifest says, for a tool that is verified and conformant. Its creator vouches for it; it is foreign text all the same.
    pub manifest: Option<ManifestFacts>,
    /// What an unverified manifest calls itself: for people, never for an agent.
    pub claims: Option<Claims>,
    /// The trust tier that was verified here.
    pub tier: String,
    /// Who may use it, from the chain.
    pub access: AccessFacts,
    /// Other registrations of the same metadata URI, at most [`MAX_DUPLICATES`].
    #[serde(default)]
    pub same_uri: Vec<ToolKey>,
    /// Other registrations with the same endpoint, at most [`MAX_DUPLICATES`].
    #[serde(default)]
    pub same_endpoint: Vec<ToolKey>,
    /// Whether somebody still means it.
    pub life: Life,
    /// How its server has been doing.
    #[serde(default)]
    pub health: Health,
    /// Whether the development world was involved.
    #[serde(default)]
    pub dev: bool,
}

/// Most duplicates that are named. The rest is not counted either: whoever has so many has all of them.
pub const MAX_DUPLICATES: usize = 16;

impl Listing {
    /// Reads what the database has.
    pub(crate) fn read(document: &str) -> Result<Self, Error> {
        serde_json::from_str(document).map_err(|_| Error::Corrupt { what: "listing" })
    }

    /// Whether it makes a tool with this registration fit to be shown to agents.
    pub fn is_good_for(&self, row: &ToolRow) -> bool {
        self.verified && self.conformant && self.manifest_hash == row.manifest_hash && self.metadata_uri == row.metadata_uri
    }
}

/// The answer in a word.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Verdict {
    /// All four checks passed.
    Verified,
    /// A check failed.
    Refused,
    /// It could not be told.
    Unknown,
    /// A word of a later version of this program, kept as it is.
    Other(String),
}

impl Verdict {
    /// The word for it.
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

/// Where verification failed first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The number of the check, 1 to 4, for steps that belong to one.
    pub check: Option<u8>,
    /// The step.
    pub step: String,
    /// The code of the reason.
    pub code: String,
}

/// A finding, without the foreign text that it may quote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingNote {
    /// Its code.
    pub code: String,
    /// `error`, `warning` or `hint`.
    pub severity: String,
    /// What the code means, in our words.
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
    /// Where it is called.
    pub endpoint: String,
    /// Where it lives: scheme, host and port.
    pub origin: String,
    /// The slug in its metadata URI.
    pub slug: String,
    /// Its own version.
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
    /// Payment options, the preferred one first. Empty when nothing is said about a price.
    #[serde(default)]
    pub prices: Vec<Price>,
    /// Seconds that its manifest may be relied on.
    pub max_age: Option<u64>,
}

/// What an unverified manifest calls itself. Control characters are escaped.
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
    /// The chain that is paid on, where it is an EVM chain.
    pub chain: Option<u64>,
    /// The token, where it is a contract on an EVM chain.
    pub token: Option<Address>,
    /// Its symbol, for tokens of the pinned table alone: a token can call itself anything.
    pub symbol: Option<String>,
    /// Its digits after the point, likewise.
    pub decimals: Option<u8>,
    /// The amount in millionths of a dollar, for dollars of the pinned table alone.
    pub micro_usd: Option<u64>,
}

/// Who may use a tool, from the chain and not from the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessFacts {
    /// The kind in a word.
    pub kind: AccessKind,
    /// The predicate; `None` means that everybody may.
    pub predicate: Option<Address>,
    /// Whether the predicate's code can be replaced; `None` without a predicate.
    pub predicate_is_proxy: Option<bool>,
    /// What the predicate calls itself, escaped.
    pub predicate_name: Option<String>,
    /// keccak256 of the predicate's code.
    pub predicate_code: Option<B256>,
    /// Whether the predicate says that it is one; `None` without a predicate.
    pub is_advertised: Option<bool>,
    /// Whether one requirement is enough, instead of all.
    #[serde(default)]
    pub any: bool,
    /// What the predicate asks for.
    #[serde(default)]
    pub requirements: Vec<RequirementFacts>,
}

/// How access is given, as the public interface has it.
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
    /// By a predicate that asks for something else, or does not say what.
    Gated,
    /// A word of a later version of this program, kept as it is.
    Other(String),
}

impl AccessKind {
    /// Every kind that this version knows, with its word.
    pub const WORDS: [(&'static str, Self); 5] = [
        ("open", Self::Open),
        ("nft_gated", Self::NftGated),
        ("token_gated", Self::TokenGated),
        ("subscription", Self::Subscription),
        ("gated", Self::Gated),
    ];

    /// The word for it.
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

    /// Reads the word. `None` for one that this version does not know.
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

/// One thing that a predicate asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequirementFacts {
    /// The four bytes of its kind, as `0x` and digits.
    pub kind: String,
    /// The kind in a word: `erc721`, `erc1155`, `subscription`, `erc20`, `trait`, `attestation` … or `unknown`.
    pub meaning: String,
    /// The collection or token that it is about.
    pub contract: Option<Address>,
    /// A token id, where one is asked for.
    pub token_id: Option<String>,
    /// A tier, where one is asked for.
    pub min_tier: Option<u32>,
    /// An amount, where one is asked for.
    pub min_balance: Option<String>,
    /// The data as it is, as `0x` and digits.
    pub data: String,
    /// What the predicate calls it, escaped.
    pub label: String,
    /// What the collection says about itself.
    pub collection: Option<CollectionFacts>,
}

/// What a collection says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionFacts {
    /// Its name, read from the chain and escaped.
    pub name: Option<String>,
    /// Its symbol, likewise.
    pub symbol: Option<String>,
    /// A picture, from a provider that the operator chose.
    pub image: Option<String>,
    /// The lowest price it is offered at, in words, from such a provider.
    pub floor_price: Option<String>,
}

/// Whether somebody still means a registration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "LifeDocument", into = "LifeDocument")]
pub enum Life {
    /// Yes, as far as one can see.
    Active,
    /// Nothing happened for long. No reason to think ill of it.
    MaybeStale,
    /// No: deregistered, or nobody may use it.
    Retired(String),
    /// A state of a later version of this program, kept as it is.
    Other {
        /// The word for it.
        state: String,
        /// What stands beside the word.
        cause: Option<Value>,
    },
}

/// A [`Life`] as it is written.
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

/// How a tool's server has been doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Looks that were counted, newest [`HEALTH_LOOKS`] at most.
    pub looks: u32,
    /// Looks that got an answer.
    pub answered: u32,
    /// The time of an answer in milliseconds, in the middle.
    pub latency_ms: Option<u32>,
    /// When it last answered.
    pub last_answer: Option<UnixTime>,
}

/// Looks that health goes by: two weeks of one an hour.
pub const HEALTH_LOOKS: u32 = 336;

impl Health {
    /// The state in a word: `healthy`, `degraded`, `down` or `unknown`.
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
