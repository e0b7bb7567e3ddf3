//! Contract functions, events and structs, declared with alloy's `sol!`. Names are those of the contracts.

use alloy_sol_types::sol;

sol! {
    #[derive(Debug, PartialEq, Eq)]
    interface IToolRegistry {
        struct ToolConfig {
            address creator;
            string metadataURI;
            bytes32 manifestHash;
            address accessPredicate;
        }

        event ToolRegistered(
            uint256 indexed toolId,
            address indexed creator,
            address indexed accessPredicate,
            string metadataURI,
            bytes32 manifestHash
        );
        event ToolMetadataUpdated(uint256 indexed toolId, string newURI, bytes32 newHash);
        event AccessPredicateUpdated(uint256 indexed toolId, address indexed newPredicate);
        event ToolDeregistered(uint256 indexed toolId);

        error ToolNotFound(uint256 toolId);
        error NotToolCreator(uint256 toolId, address caller);
        error InvalidMetadataURI();
        error InvalidManifestHash();
        error InvalidAccessPredicate(address predicate);
        error ToolIsDeregistered(uint256 toolId);

        function registerTool(string metadataURI, bytes32 manifestHash, address accessPredicate) external returns (uint256 toolId);
        function deregisterTool(uint256 toolId) external;
        function updateToolMetadata(uint256 toolId, string newURI, bytes32 newHash) external;
        function setAccessPredicate(uint256 toolId, address newPredicate) external;
        function getToolConfig(uint256 toolId) external view returns (ToolConfig memory);
        function hasAccess(uint256 toolId, address account, bytes data) external view returns (bool);
        function tryHasAccess(uint256 toolId, address account, bytes data) external view returns (bool ok, bool granted);
        function toolCount() external view returns (uint256);
        function name() external view returns (string memory);
        function version() external view returns (string memory);
    }
}

sol! {
    /// The registry, with URIs as bytes: a contract stores any bytes as a string, UTF-8 or not. The selectors and the layout are those of
    /// the declared functions.
    #[derive(Debug, PartialEq, Eq)]
    interface IRawToolRegistry {
        struct RawToolConfig {
            address creator;
            bytes metadataURI;
            bytes32 manifestHash;
            address accessPredicate;
        }

        function getToolConfig(uint256 toolId) external view returns (RawToolConfig memory);
    }
}

sol! {
    #[derive(Debug, PartialEq, Eq)]
    interface IAccessPredicate {
        struct AccessRequirement {
            bytes4 kind;
            bytes data;
            string label;
        }

        function hasAccess(uint256 toolId, address account, bytes data) external view returns (bool);
        function name() external view returns (string memory);
        function getRequirements(uint256 toolId) external view returns (AccessRequirement[] memory requirements, uint8 logic);
    }
}

sol! {
    interface IERC165 {
        function supportsInterface(bytes4 interfaceId) external view returns (bool);
    }

    /// The part of ERC-721 that returns a token's owner.
    interface IERC721Owner {
        function ownerOf(uint256 tokenId) external view returns (address);
    }

    interface IERC1271 {
        function isValidSignature(bytes32 hash, bytes signature) external view returns (bytes4);
    }

    /// delegate.xyz, `DelegateRegistry` v2.
    interface IDelegateRegistry {
        function checkDelegateForAll(address to, address from, bytes32 rights) external view returns (bool);
    }

    #[derive(Debug, PartialEq, Eq)]
    interface IEIP3009 {
        event Transfer(address indexed from, address indexed to, uint256 value);
        event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce);
        event AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce);

        function transferWithAuthorization(
            address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s
        ) external;
        /// The same for smart accounts, whose signatures may be any bytes (USDC since version 2.2).
        function transferWithAuthorization(
            address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature
        ) external;
        function DOMAIN_SEPARATOR() external view returns (bytes32);
        function authorizationState(address authorizer, bytes32 nonce) external view returns (bool);
        function balanceOf(address account) external view returns (uint256);
    }
}

sol! {
    #[derive(Debug, PartialEq, Eq)]
    interface IERC721OwnerPredicate {
        event CollectionsSet(uint256 indexed toolId, address[] collections);
        function setCollections(uint256 toolId, address[] collections) external;
        function getCollections(uint256 toolId) external view returns (address[] memory);
    }

    #[derive(Debug, PartialEq, Eq)]
    interface IERC1155OwnerPredicate {
        struct CollectionTokens {
            address collection;
            uint256[] tokenIds;
        }
        event CollectionTokensSet(uint256 indexed toolId, CollectionTokens[] entries);
        function setCollectionTokens(uint256 toolId, CollectionTokens[] entries) external;
        function getCollectionTokens(uint256 toolId) external view returns (CollectionTokens[] memory);
    }

    #[derive(Debug, PartialEq, Eq)]
    interface IERC20BalancePredicate {
        struct ToolERC20Config {
            address token;
            uint256 minBalance;
        }
        event ToolERC20Configured(uint256 indexed toolId, address indexed token, uint256 minBalance);
        function configureToolERC20(uint256 toolId, address token, uint256 minBalance) external;
        function getToolERC20Config(uint256 toolId) external view returns (ToolERC20Config memory);
    }

    #[derive(Debug, PartialEq, Eq)]
    interface ISubscriptionPredicate {
        struct ToolGatingConfig {
            address collection;
            uint8 minTier;
        }
        event ToolGatingConfigured(uint256 indexed toolId, address indexed collection, uint8 minTier);
        function configureToolGating(uint256 toolId, address collection, uint8 minTier) external;
        function getToolGatingConfig(uint256 toolId) external view returns (ToolGatingConfig memory);
        function getSubscriptionStatus(uint256 toolId, address account)
            external view returns (bool hasNft, uint8 tier, uint8 requiredTier, uint64 expiration, bool active);
        function registry() external view returns (address);
    }

    #[derive(Debug, PartialEq, Eq)]
    interface ITraitGatedPredicate {
        struct ToolTraitConfig {
            address collection;
            address traitsContract;
            bytes32 traitKey;
            bytes32[] allowedValues;
        }
        event ToolTraitConfigured(
            uint256 indexed toolId, address indexed collection, address traitsContract, bytes32 traitKey, bytes32[] allowedValues
        );
        function configureToolTrait(
            uint256 toolId, address collection, address traitsContract, bytes32 traitKey, bytes32[] allowedValues
        ) external;
        function getToolTraitConfig(uint256 toolId) external view returns (ToolTraitConfig memory);
    }

    #[derive(Debug, PartialEq, Eq)]
    interface ICompositePredicate {
        struct Term {
            address predicate;
            bool negate;
        }
        event CompositionSet(uint256 indexed toolId, uint8 op, Term[] terms);
        error TermMalfunctioned(uint256 index, address predicate);
        error TermsNeedDifferentData(uint256 first, uint256 second);
        error TermServesAnotherRegistry(uint256 index, address predicate, address registry);
        function TERM_GAS() external view returns (uint256);
        function setComposition(uint256 toolId, uint8 op, Term[] terms) external;
        function getOp(uint256 toolId) external view returns (uint8);
        function getTerms(uint256 toolId) external view returns (Term[] memory);
    }

    #[derive(Debug, PartialEq, Eq)]
    interface IMerkleAllowlistPredicate {
        event RootSet(uint256 indexed toolId, bytes32 root);
        function setRoot(uint256 toolId, bytes32 root) external;
        function getRoot(uint256 toolId) external view returns (bytes32);
    }

    #[derive(Debug, PartialEq, Eq)]
    interface IAccessProofPredicate {
        function proofDigest(uint256 toolId, address account, uint64 deadline) external view returns (bytes32);
        function DOMAIN_SEPARATOR() external view returns (bytes32);
    }

    /// Optional constants in which predicates state their limits.
    interface ILimits {
        function MAX_COLLECTIONS_PER_TOOL() external view returns (uint256);
        function MAX_TOKEN_IDS_PER_COLLECTION() external view returns (uint256);
        function MAX_ALLOWED_VALUES() external view returns (uint256);
        function MAX_TERMS_PER_COMPOSITION() external view returns (uint256);
        function maxTokenIds(uint256 collections) external view returns (uint256);
    }

    /// Claimed through ERC-165 by predicates whose answer depends on a proof in `data`.
    interface IProofBased {
        function proofKind() external view returns (bytes4);
    }

    /// The registry that a predicate belongs to.
    interface IRegistryPredicate {
        function REGISTRY() external view returns (address);
    }
}
