//! Endpoint-bound recipients: an account for which identity is signed at one endpoint only.
//!
//! A signature over zero names its recipient, but not the tool that it is for. If the recipient is the operator, all tools of the operator
//! accept it, and a server that copies the challenge may relay it there. Here the recipient itself is a commitment:
//!
//! ```text
//! payTo = keccak256(abi.encode(
//!     bytes32 keccak256(TAG), bytes32 keccak256(endpoint), uint256 chainId, address registry, uint256 toolId, address operator))[12..]
//! ```
//!
//! Anyone who knows the manifest and the tool reference can compute it, so a client verifies it before it signs; the challenge has the
//! inputs under [`EXTENSION`]. There is no key for such an account. **Money that is sent there is lost**: use it for the amount 0 only.

use alloy_primitives::{Address, U256, keccak256};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::json::{self, Limits};

use super::receipt::word_of_20;
use super::{Members, ObjectWriter, Raw};

/// The purpose of the commitment. A change of the scheme changes it.
pub const TAG: &str = "toolcrib.endpoint-recipient.v1";

/// The version 2 extension that announces such a recipient.
pub const EXTENSION: &str = "toolcrib-endpoint-recipient";

/// The inputs that a recipient is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointBinding {
    /// The endpoint of the manifest, normalised.
    pub endpoint: String,
    /// The tool.
    pub tool: ToolRef,
    /// The operator: the manifest's creator, unless configured otherwise.
    pub operator: Address,
}

impl EndpointBinding {
    /// The recipient.
    pub fn pay_to(&self) -> Address {
        let words = [
            keccak256(TAG),
            keccak256(&self.endpoint),
            U256::from(self.tool.chain).into(),
            self.tool.registry.into_word(),
            self.tool.id.into(),
            self.operator.into_word(),
        ];
        Address::from_word(keccak256(words.concat()))
    }

    /// The extension for a challenge: its name and value.
    pub fn extension(&self) -> (String, Raw) {
        let mut out = String::new();
        let mut object = ObjectWriter::open(&mut out);
        let mut info = ObjectWriter::open(object.key("info"));
        info.text("endpoint", &self.endpoint);
        info.text("operator", &self.operator.to_checksum(None));
        info.text("scheme", TAG);
        info.text("tool", &self.tool.to_string());
        info.close();
        object.key("schema").push_str(SCHEMA);
        object.close();
        (EXTENSION.to_owned(), Raw(out))
    }

    /// Returns the inputs that a challenge announces. `None` if it announces none, or they cannot be parsed.
    ///
    /// All of it is untrusted: compare it with the verified manifest, or create the binding from that manifest and compare
    /// [`pay_to`](Self::pay_to).
    pub fn announced(extensions: &Members) -> Option<Self> {
        let (_, value) = extensions.iter().find(|(name, _)| name == EXTENSION)?;
        let limits = Limits { max_bytes: super::MAX_BODY_BYTES, max_depth: json::MAX_DEPTH };
        let document = json::read(value.as_str().as_bytes(), limits).document?;
        let info = document.root().get("info")?;
        let text = |key: &str| info.get(key).and_then(|value| value.as_str());
        text("scheme").filter(|scheme| *scheme == TAG)?;
        let tool = ToolRef::parse(text("tool")?).ok()?;
        Some(Self { endpoint: text("endpoint")?.to_owned(), tool, operator: word_of_20(text("operator")?)? })
    }
}

/// The schema of `info`, as the protocol requires it.
const SCHEMA: &str = r#"{"properties":{"endpoint":{"type":"string"},"operator":{"type":"string"},"scheme":{"const":"toolcrib.endpoint-recipient.v1"},"tool":{"type":"string"}},"required":["endpoint","operator","scheme","tool"],"type":"object"}"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn tides() -> EndpointBinding {
        let tool = ToolRef::parse("eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7").expect("a reference");
        EndpointBinding { endpoint: "https://tools.example.com/tides".to_owned(), tool, operator: Address::repeat_byte(7) }
    }

    #[test]
    fn every_part_counts() {
        let tides = tides();
        let other = Address::repeat_byte(8);
        let tool = tides.tool;
        let changed = [
            EndpointBinding { endpoint: "https://tools.example.com/tide".to_owned(), ..tides.clone() },
            EndpointBinding { tool: ToolRef { chain: 1, ..tool }, ..tides.clone() },
            EndpointBinding { tool: ToolRef { registry: other, ..tool }, ..tides.clone() },
            EndpointBinding { tool: ToolRef { id: U256::from(8), ..tool }, ..tides.clone() },
            EndpointBinding { operator: other, ..tides.clone() },
        ];
        for binding in changed {
            assert_ne!(binding.pay_to(), tides.pay_to(), "{binding:?}");
        }
    }

    #[test]
    fn what_is_announced_reads_back() {
        let tides = tides();
        let (name, value) = tides.extension();
        assert_eq!(Raw::parse(value.as_str()), Some(value.clone()), "canonical");
        assert!(SCHEMA.contains(TAG));
        let other = ("bazaar".to_owned(), Raw::parse("{}").expect("JSON"));
        assert_eq!(EndpointBinding::announced(&vec![other.clone(), (name, value.clone())]), Some(tides));
        assert_eq!(EndpointBinding::announced(&vec![other]), None);
        let text = value.as_str();
        for broken in [
            "null".to_owned(),
            "[]".to_owned(),
            "{}".to_owned(),
            text.replacen(TAG, "toolcrib.endpoint-recipient.v2", 1),
            text.replacen("0x", "0y", 1),
            text.replacen("erc8257", "erc721", 1),
            text.replacen("\"endpoint\":", "\"end\":", 1),
        ] {
            let members = vec![(EXTENSION.to_owned(), Raw::parse(&broken).expect("JSON"))];
            assert_eq!(EndpointBinding::announced(&members), None, "{broken}");
        }
    }
}
