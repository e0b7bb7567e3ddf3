//! Names that the onchain registry and its predicates go by: selectors, interface ids, requirement kinds, topics.
//!
//! Values only. The tests recompute every one of them from its signature; talking to a chain is another crate's work.

use alloy_primitives::{B256, b256};

/// ERC-165 id of `IToolRegistry`: the XOR of its ten selectors.
pub const TOOL_REGISTRY_INTERFACE: [u8; 4] = [0xf1, 0xdc, 0x80, 0x75];

/// ERC-165 id of `IAccessPredicate`: the XOR of its three selectors.
pub const ACCESS_PREDICATE_INTERFACE: [u8; 4] = [0xbd, 0xf9, 0xdc, 0x18];

/// Selector of `hasAccess(uint256,address,bytes)`, which registry and predicates share. Types, not selectors, keep
/// the two apart.
pub const HAS_ACCESS_SELECTOR: [u8; 4] = [0xa7, 0xe3, 0x77, 0x5b];

/// The functions of `IToolRegistry`, as signatures.
pub const TOOL_REGISTRY_FUNCTIONS: [&str; 10] = [
    "registerTool(string,bytes32,address)",
    "deregisterTool(uint256)",
    "updateToolMetadata(uint256,string,bytes32)",
    "setAccessPredicate(uint256,address)",
    "getToolConfig(uint256)",
    "hasAccess(uint256,address,bytes)",
    "tryHasAccess(uint256,address,bytes)",
    "toolCount()",
    "name()",
    "version()",
];

/// The functions of `IAccessPredicate`, as signatures.
pub const ACCESS_PREDICATE_FUNCTIONS: [&str; 3] = ["hasAccess(uint256,address,bytes)", "name()", "getRequirements(uint256)"];

/// The events of `IToolRegistry`: signature and first topic.
pub const TOOL_REGISTRY_EVENTS: [(&str, B256); 4] = [
    (
        "ToolRegistered(uint256,address,address,string,bytes32)",
        b256!("e7be7fd3c802f61682f56ba817276b1cc81fbee7cb50705c8ed7952811dac397"),
    ),
    ("ToolMetadataUpdated(uint256,string,bytes32)", b256!("14f92d1aaaea2df5f884f2fd8dbb6ea7cad1784ffaac2d8fd594f107d719a414")),
    ("AccessPredicateUpdated(uint256,address)", b256!("53e2d3a37877f4a367d09cdba706178d3c6414a15d642294300c65a8037dd6ff")),
    ("ToolDeregistered(uint256)", b256!("9add33e854e243f868ff7cacac076d65b1d56fb593e2bb891e76e2e8d5ddd034")),
];

/// A requirement type that this crate can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequirementKind {
    /// Hold any token of an ERC-721 collection: `abi.encode(address collection)`.
    Erc721Holding,
    /// Hold one ERC-1155 token: `abi.encode(address collection, uint256 tokenId)`.
    Erc1155Holding,
    /// Have an active subscription: `abi.encode(address collection, uint8 minTier)`.
    Subscription,
}

impl RequirementKind {
    /// Every kind that the ERC pins.
    pub const ALL: [Self; 3] = [Self::Erc721Holding, Self::Erc1155Holding, Self::Subscription];

    /// The kind with these four bytes.
    pub fn from_id(id: [u8; 4]) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.id() == id)
    }

    /// The four bytes that name it onchain and in manifests.
    pub const fn id(self) -> [u8; 4] {
        match self {
            Self::Erc721Holding => [0xbd, 0xf8, 0xc4, 0x28],
            Self::Erc1155Holding => [0xcb, 0x42, 0x92, 0x30],
            Self::Subscription => [0x44, 0x38, 0x7c, 0xc2],
        }
    }

    /// The marker function whose selector is the id.
    pub const fn marker(self) -> &'static str {
        match self {
            Self::Erc721Holding => "erc721Holding()",
            Self::Erc1155Holding => "erc1155Holding()",
            Self::Subscription => "subscription()",
        }
    }

    /// Whether `data` has the layout of this kind: whole words, clean address bytes, a tier that fits a byte.
    pub fn fits(self, data: &[u8]) -> bool {
        let words = match self {
            Self::Erc721Holding => 1,
            Self::Erc1155Holding | Self::Subscription => 2,
        };
        data.len() == 32 * words
            && data[..12].iter().all(|&byte| byte == 0)
            && (self != Self::Subscription || data[32..63].iter().all(|&byte| byte == 0))
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::keccak256;

    use super::*;

    fn selector(signature: &str) -> [u8; 4] {
        let hash = keccak256(signature);
        [hash[0], hash[1], hash[2], hash[3]]
    }

    fn interface(functions: &[&str]) -> [u8; 4] {
        functions.iter().fold([0; 4], |id, function| {
            let selector = selector(function);
            std::array::from_fn(|at| id[at] ^ selector[at])
        })
    }

    // req: VEC-005, REG-034, PRED-001
    #[test]
    fn interface_ids_are_the_xor_of_their_selectors() {
        assert_eq!(interface(&TOOL_REGISTRY_FUNCTIONS), TOOL_REGISTRY_INTERFACE);
        assert_eq!(interface(&ACCESS_PREDICATE_FUNCTIONS), ACCESS_PREDICATE_INTERFACE);
        // The variant with two functions that some texts show has another id and is not used.
        assert_eq!(interface(&ACCESS_PREDICATE_FUNCTIONS[..2]), [0xa1, 0x1e, 0xa9, 0x58]);
    }

    // req: VEC-006, PRED-004
    #[test]
    fn requirement_kinds_are_the_selectors_of_their_markers() {
        for kind in RequirementKind::ALL {
            assert_eq!(selector(kind.marker()), kind.id());
            assert_eq!(RequirementKind::from_id(kind.id()), Some(kind));
        }
        assert_eq!(RequirementKind::from_id([0; 4]), None);
    }

    // req: VEC-007
    #[test]
    fn registry_and_predicate_share_one_selector() {
        assert_eq!(selector("hasAccess(uint256,address,bytes)"), HAS_ACCESS_SELECTOR);
    }

    // req: VEC-010
    #[test]
    fn topics_are_the_hashes_of_their_signatures() {
        for (signature, topic) in TOOL_REGISTRY_EVENTS {
            assert_eq!(keccak256(signature), topic, "{signature}");
        }
    }

    // req: PRED-004
    #[test]
    fn payload_layouts_are_checked_to_the_byte() {
        let address = [[0_u8; 12].as_slice(), &[7; 20]].concat();
        let word = |last: u8| [[0_u8; 31].as_slice(), &[last]].concat();
        assert!(RequirementKind::Erc721Holding.fits(&address));
        assert!(!RequirementKind::Erc721Holding.fits(&address[1..]));
        assert!(!RequirementKind::Erc721Holding.fits(&[7; 32]), "dirty address bytes");
        assert!(RequirementKind::Erc1155Holding.fits(&[address.clone(), vec![0xff; 32]].concat()));
        assert!(RequirementKind::Subscription.fits(&[address.clone(), word(255)].concat()));
        assert!(!RequirementKind::Subscription.fits(&[address, vec![1; 32]].concat()), "a tier beyond a byte");
    }
}
