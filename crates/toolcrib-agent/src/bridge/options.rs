//! Options of exports.

use std::str::FromStr;

use alloy_primitives::{Address, U256};
use toolcrib_core::agent::txt::CidText;

/// Options of exports. Each format reads those that it needs.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    /// The CID of the manifest, which exports name as their source.
    pub cid: Option<CidText>,
    /// The version of the agent. `mcp-registry` requires it; `a2a` falls back to the manifest's time.
    pub version: Option<String>,
    /// What the manifest's `a2a` endpoint is. `a2a` requires it.
    pub a2a_endpoint: Option<A2aEndpoint>,
    /// For `a2a`: how calls are encoded. Default: JSON-RPC.
    pub a2a_binding: Option<A2aBinding>,
    /// For `a2a`, if the manifest's endpoint is a card: the URL for calls.
    pub a2a_interface: Option<String>,
    /// For the other formats, if the manifest's endpoint is for calls: the URL of the card.
    pub a2a_card: Option<String>,
    /// For `a2a`: the organization that provides the agent. Default: no provider.
    pub provider: Option<String>,
    /// For `a2a`: the default media types of input. Default: `text/plain`.
    pub input_modes: Vec<String>,
    /// For `a2a`: the default media types of output. Default: `text/plain`.
    pub output_modes: Vec<String>,
    /// For `erc8004` and `ensip26`: where the agent is registered.
    pub registrations: Vec<Registration>,
    /// For `erc8004`: the agent's trust models. Default: none.
    pub supported_trust: Vec<String>,
    /// For `erc8004`: whether the agent accepts x402 payments.
    pub x402: bool,
    /// For `erc8004`: whether the registration is withdrawn.
    pub inactive: bool,
    /// For `mcp-registry`: the namespace that the publisher can prove, such as `io.github.user`.
    pub namespace: Option<String>,
    /// For `aid`: the host of the records. Default: the `.agt` name.
    pub host: Option<String>,
    /// For `aid`: the version of the records.
    pub aid_version: AidVersion,
    /// For `aid`: the protocol of the base record. Default: the manifest's first protocol that AID supports.
    pub aid_protocol: Option<String>,
}

/// What the `a2a` endpoint of a manifest is. The specification leaves it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum A2aEndpoint {
    /// The URL of an Agent Card.
    Card,
    /// The URL for calls.
    Rpc,
}

impl FromStr for A2aEndpoint {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text {
            "card" => Ok(Self::Card),
            "rpc" => Ok(Self::Rpc),
            _ => Err(UnknownWord("card, rpc")),
        }
    }
}

/// How calls of an A2A interface are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum A2aBinding {
    /// JSON-RPC 2.0.
    JsonRpc,
    /// gRPC.
    Grpc,
    /// Plain HTTP with JSON bodies.
    HttpJson,
}

impl A2aBinding {
    /// The value in Agent Cards.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::JsonRpc => "JSONRPC",
            Self::Grpc => "GRPC",
            Self::HttpJson => "HTTP+JSON",
        }
    }
}

impl FromStr for A2aBinding {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        [Self::JsonRpc, Self::Grpc, Self::HttpJson]
            .into_iter()
            .find(|binding| binding.as_str().eq_ignore_ascii_case(text))
            .ok_or(UnknownWord("JSONRPC, GRPC, HTTP+JSON"))
    }
}

/// The version of AID records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AidVersion {
    /// `aid1`, for clients that support no other.
    Aid1,
    /// `aid2`, the current one.
    #[default]
    Aid2,
}

impl AidVersion {
    /// The value in records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Aid1 => "aid1",
            Self::Aid2 => "aid2",
        }
    }
}

impl FromStr for AidVersion {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        [Self::Aid1, Self::Aid2].into_iter().find(|version| version.as_str() == text).ok_or(UnknownWord("aid1, aid2"))
    }
}

/// The text is not a value of the option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown word: expected one of {0}")]
pub struct UnknownWord(pub &'static str);

/// The entry of an agent in an ERC-8004 identity registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Registration {
    /// The chain of the registry.
    pub chain_id: u64,
    /// The registry.
    pub registry: Address,
    /// The id of the agent in it.
    pub agent_id: U256,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_options() {
        assert_eq!("card".parse(), Ok(A2aEndpoint::Card));
        assert_eq!("rpc".parse(), Ok(A2aEndpoint::Rpc));
        assert!("RPC".parse::<A2aEndpoint>().is_err());
        assert_eq!("http+json".parse(), Ok(A2aBinding::HttpJson));
        assert_eq!("GRPC".parse(), Ok(A2aBinding::Grpc));
        assert_eq!(
            "rest".parse::<A2aBinding>().unwrap_err().to_string(),
            "unknown word: expected one of JSONRPC, GRPC, HTTP+JSON"
        );
        assert_eq!("aid1".parse(), Ok(AidVersion::Aid1));
        assert!("aid3".parse::<AidVersion>().is_err());
        assert_eq!(AidVersion::default().as_str(), "aid2");
    }
}
