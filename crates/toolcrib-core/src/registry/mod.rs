//! Constants of the onchain registry and its predicates: selectors, interface ids, requirement kinds, topics.
//!
//! Values only. The tests recompute each of them from its signature; chain access is in another crate. Plain types for the state of
//! registries and predicates ([`ToolState`], [`Requirements`], [`Proxy`]) are here as well, so that the crates that read, store and judge
//! share them. [`known`] lists deployed predicates with measured defects, [`gas`] estimates the cost of access checks.

use alloy_primitives::{B256, b256};

pub mod gas;
pub mod known;
mod state;

pub use state::{Erc165, Proxy, ProxyKind, Requirement, Requirements, ToolConfig, ToolState};

/// ERC-165 id of `IToolRegistry`: the XOR of its ten selectors.
pub const TOOL_REGISTRY_INTERFACE: [u8; 4] = [0xf1, 0xdc, 0x80, 0x75];

/// ERC-165 id of `IAccessPredicate`: the XOR of its three selectors.
pub const ACCESS_PREDICATE_INTERFACE: [u8; 4] = [0xbd, 0xf9, 0xdc, 0x18];

/// Selector of `hasAccess(uint256,address,bytes)`, which registry and predicates share: the selector does not tell them apart.
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

/// Claimed by ERC-165: the result depends on a proof in `data`, so that a call without one has no meaning. `proofKind()` returns the
/// requirement kind of the expected proof.
pub const PROOF_BASED_INTERFACE: [u8; 4] = [0x5e, 0xab, 0x88, 0x20];

/// The interface id that no ERC-165 contract may claim. A contract that does returns true for everything.
pub const INVALID_INTERFACE: [u8; 4] = [0xff; 4];

/// What a composite returns in place of a kind for a term that it cannot read. Not a kind: it has no marker and no layout.
pub const UNREAD_KIND: [u8; 4] = [0; 4];

/// A known requirement type. This is the only table of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RequirementKind {
    /// Hold any token of an ERC-721 collection: `abi.encode(address collection)`.
    Erc721Holding,
    /// Hold one ERC-1155 token: `abi.encode(address collection, uint256 tokenId)`.
    Erc1155Holding,
    /// Have an active subscription: `abi.encode(address collection, uint8 minTier)`.
    Subscription,
    /// Hold an amount of an ERC-20 token: `abi.encode(address token, uint256 minBalance)`.
    Erc20Balance,
    /// Own a token with one of some trait values: `abi.encode(address collection, address traits, bytes32 key, bytes32[] values)`.
    Erc7496Trait,
    /// Present an issuer's attestation about the wallet: `abi.encode(string jwksUri, bytes32 conditionHash)`.
    WalletStateAttestation,
    /// Sign the `AccessProof` challenge: `abi.encode(address verifyingContract)`.
    AccessProof,
    /// Be on an allowlist: `abi.encode(bytes32 root)`.
    MerkleAllowlist,
    /// No account qualifies: no data.
    DenyAll,
}

impl RequirementKind {
    /// All kinds: first those that the ERC pins, then the reference's and ours.
    pub const ALL: [Self; 9] = [
        Self::Erc721Holding,
        Self::Erc1155Holding,
        Self::Subscription,
        Self::Erc20Balance,
        Self::Erc7496Trait,
        Self::WalletStateAttestation,
        Self::AccessProof,
        Self::MerkleAllowlist,
        Self::DenyAll,
    ];

    /// The kind with these four bytes.
    pub fn from_id(id: [u8; 4]) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.id() == id)
    }

    /// The four bytes that identify it onchain and in manifests.
    pub const fn id(self) -> [u8; 4] {
        match self {
            Self::Erc721Holding => [0xbd, 0xf8, 0xc4, 0x28],
            Self::Erc1155Holding => [0xcb, 0x42, 0x92, 0x30],
            Self::Subscription => [0x44, 0x38, 0x7c, 0xc2],
            Self::Erc20Balance => [0x81, 0x2b, 0x02, 0xee],
            Self::Erc7496Trait => [0x37, 0xd8, 0xdc, 0x22],
            Self::WalletStateAttestation => [0x7a, 0x11, 0x16, 0x40],
            Self::AccessProof => [0x49, 0x8e, 0xb5, 0xbb],
            Self::MerkleAllowlist => [0xa2, 0xd3, 0x3e, 0xab],
            Self::DenyAll => [0x6b, 0x5c, 0x56, 0x7b],
        }
    }

    /// The marker function whose selector is the id.
    pub const fn marker(self) -> &'static str {
        match self {
            Self::Erc721Holding => "erc721Holding()",
            Self::Erc1155Holding => "erc1155Holding()",
            Self::Subscription => "subscription()",
            Self::Erc20Balance => "erc20Balance()",
            Self::Erc7496Trait => "erc7496Trait()",
            Self::WalletStateAttestation => "walletStateAttestation()",
            Self::AccessProof => "accessProof()",
            Self::MerkleAllowlist => "merkleAllowlist()",
            Self::DenyAll => "denyAll()",
        }
    }

    /// Whether ERC-8257 itself defines the kind. The others are conventions of contracts.
    pub const fn is_pinned(self) -> bool {
        matches!(self, Self::Erc721Holding | Self::Erc1155Holding | Self::Subscription)
    }

    /// Whether an account meets it only with a proof in the `data` of the access check.
    pub const fn needs_proof(self) -> bool {
        matches!(self, Self::Erc7496Trait | Self::WalletStateAttestation | Self::AccessProof | Self::MerkleAllowlist)
    }

    /// Whether its data starts with the address of a token contract.
    pub(crate) const fn names_token(self) -> bool {
        matches!(self, Self::Erc721Holding | Self::Erc1155Holding | Self::Subscription | Self::Erc20Balance | Self::Erc7496Trait)
    }

    /// Whether `data` has the layout of this kind, as `abi.encode` writes it: whole words, clean address bytes, a tier that fits a byte,
    /// tails in the right position, and no trailing bytes.
    pub fn fits(self, data: &[u8]) -> bool {
        let (words, rest) = data.as_chunks::<32>();
        if !rest.is_empty() {
            return false;
        }
        match (self, words) {
            (Self::DenyAll, []) | (Self::MerkleAllowlist, [_]) => true,
            (Self::Erc721Holding | Self::AccessProof, [account]) => is_address(account),
            (Self::Erc1155Holding | Self::Erc20Balance, [account, _]) => is_address(account),
            (Self::Subscription, [collection, tier]) => is_address(collection) && number(tier).is_some_and(|tier| tier <= 255),
            (Self::Erc7496Trait, [collection, traits, _, offset, count, values @ ..]) => {
                let heads = is_address(collection) && is_address(traits);
                heads && number(offset) == Some(128) && number(count) == Some(values.len())
            }
            (Self::WalletStateAttestation, [offset, _, length, text @ ..]) => {
                let text = text.as_flattened();
                number(offset) == Some(64)
                    && number(length).is_some_and(|length| length.div_ceil(32).checked_mul(32) == Some(text.len()))
                    && number(length).and_then(|length| text.get(..length)).is_some_and(|text| str::from_utf8(text).is_ok())
            }
            _ => false,
        }
    }
}

/// Whether a word holds an address and no stray bits.
fn is_address(word: &[u8; 32]) -> bool {
    word.iter().take(12).all(|&byte| byte == 0)
}

/// A word as a number; `None` beyond 32 bits, which no legitimate offset or length in a requirement exceeds.
fn number(word: &[u8; 32]) -> Option<usize> {
    let (head, tail) = word.split_last_chunk::<4>()?;
    if head.iter().any(|&byte| byte != 0) { None } else { usize::try_from(u32::from_be_bytes(*tail)).ok() }
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
        // The variant with two functions in some texts has another id and is not used.
        assert_eq!(interface(&ACCESS_PREDICATE_FUNCTIONS[..2]), [0xa1, 0x1e, 0xa9, 0x58]);
    }

    // req: VEC-006, PRED-004
    #[test]
    fn requirement_kinds_are_the_selectors_of_their_markers() {
        for kind in RequirementKind::ALL {
            assert_eq!(selector(kind.marker()), kind.id());
            assert_eq!(RequirementKind::from_id(kind.id()), Some(kind));
        }
        assert_eq!(RequirementKind::from_id(UNREAD_KIND), None);
        assert_eq!(selector("proofKind()"), PROOF_BASED_INTERFACE);
        let pinned: Vec<_> = RequirementKind::ALL.into_iter().filter(|kind| kind.is_pinned()).collect();
        assert_eq!(pinned, RequirementKind::ALL[..3]);
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

    // req: PRED-004, PRED-006
    #[test]
    fn layouts_of_further_kinds_are_checked_to_the_byte() {
        let word = |last: u8| [[0_u8; 31].as_slice(), &[last]].concat();
        let address = [[0_u8; 12].as_slice(), &[7; 20]].concat();
        let any = vec![0xee; 32];
        #[track_caller]
        fn check(kind: RequirementKind, parts: &[&[u8]]) {
            let data = parts.concat();
            assert!(kind.fits(&data), "{kind:?}");
            assert!(!kind.fits(&[&data[..], &[0]].concat()), "{kind:?} with a byte more");
            assert!(!kind.fits(&[&data[..], &[0; 32]].concat()), "{kind:?} with a word more");
            if let Some((_, shorter)) = data.split_last() {
                assert!(!kind.fits(shorter), "{kind:?} with a byte less");
                assert!(!kind.fits(&data[..data.len() - 32]), "{kind:?} with a word less");
            }
        }
        check(RequirementKind::Erc20Balance, &[&address, &any]);
        check(RequirementKind::AccessProof, &[&address]);
        check(RequirementKind::MerkleAllowlist, &[&any]);
        check(RequirementKind::DenyAll, &[]);
        check(RequirementKind::Erc7496Trait, &[&address, &address, &any, &word(128), &word(2), &any, &any]);
        check(RequirementKind::Erc7496Trait, &[&address, &address, &any, &word(128), &word(0)]);
        let text = [b"https://issuer.example/jwks.json!".as_slice(), &[0; 31]].concat();
        check(RequirementKind::WalletStateAttestation, &[&word(64), &any, &word(33), &text]);
        check(RequirementKind::WalletStateAttestation, &[&word(64), &any, &word(0)]);
        let liar = [&address[..], &address, &any, &word(128), &[0xff; 32]].concat();
        assert!(!RequirementKind::Erc7496Trait.fits(&liar), "a count beyond the bytes");
        let liar = [&word(64)[..], &any, &[0xff; 32]].concat();
        assert!(!RequirementKind::WalletStateAttestation.fits(&liar), "a length beyond the bytes");
        let noise = [&word(64)[..], &any, &word(2), &[0xff; 32]].concat();
        assert!(!RequirementKind::WalletStateAttestation.fits(&noise), "not UTF-8");
        assert!(!RequirementKind::AccessProof.fits(&any), "dirty address bytes");
    }
}
