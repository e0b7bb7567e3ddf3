// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {AccessRequirement, IAccessPredicate, RequirementLogic} from "../interfaces/IAccessPredicate.sol";
import {ISubscription} from "../interfaces/IRequirementTypes.sol";
import {ISubscriptionNFT} from "../interfaces/ISubscriptionNFT.sol";
import {IToolRegistry, ToolConfig} from "../interfaces/IToolRegistry.sol";
import {TokenCall} from "../lib/TokenCall.sol";
import {RegistryPredicate} from "./RegistryPredicate.sol";

/// @title SubscriptionPredicate
/// @notice Grants access to accounts with an active subscription of a minimum tier, in an NFT with the interface
///         `ISubscriptionNFT` (ERC-5643 with one token for each account).
/// @dev A collection that fails (reverts, burns its gas, has no code, answers a time or a tier out of range) makes
///      `hasAccess` and `getSubscriptionStatus` revert: the account may well have subscribed. A tool without a
///      collection denies all accounts, and the zero address is always denied.
///      A tool must point at this predicate while it is configured. For use in a composite, configure first and point
///      the tool at the composite afterwards: the configuration stays.
contract SubscriptionPredicate is RegistryPredicate {
    /// @notice The configuration of a tool.
    /// @param collection The subscription NFT.
    /// @param minTier    The least tier; 0 takes any.
    struct ToolGatingConfig {
        address collection;
        uint8 minTier;
    }

    /// @dev Asked about at configuration. Not zero, for which a collection may revert.
    address private constant PROBED_ACCOUNT = address(1);

    /// @dev For that question. An access check asks three within less.
    uint256 private constant PROBE_GAS = 58_000;

    mapping(uint256 toolId => ToolGatingConfig) private _configs;

    /// @notice The configuration of a tool was replaced.
    event ToolGatingConfigured(uint256 indexed toolId, address indexed collection, uint8 minTier);

    /// @notice Only the creator of a tool may configure it.
    error NotToolCreator(uint256 toolId, address caller);

    /// @notice The tool points at another predicate, or at none.
    error ToolDoesNotUseThisPredicate(uint256 toolId);

    /// @notice The zero address is not a collection.
    error ZeroCollection();

    /// @notice There is no contract at this address.
    error CollectionNotAContract(address collection);

    /// @notice The contract does not answer `tokenOfOwner`.
    error CollectionNotSubscriptionNFT(address collection);

    /// @notice The collection could not be queried, or returned invalid data.
    error CollectionUnavailable(address collection);

    constructor(IToolRegistry registry_) RegistryPredicate(registry_) {}

    /// @notice Replaces the collection and the tier that grant access to a tool. Creator only.
    function configureToolGating(uint256 toolId, address collection, uint8 minTier) external {
        ToolConfig memory tool = REGISTRY.getToolConfig(toolId);
        if (tool.creator != msg.sender) revert NotToolCreator(toolId, msg.sender);
        if (tool.accessPredicate != address(this)) revert ToolDoesNotUseThisPredicate(toolId);
        if (collection == address(0)) revert ZeroCollection();
        if (collection.code.length == 0) revert CollectionNotAContract(collection);
        bytes memory query = abi.encodeCall(ISubscriptionNFT.tokenOfOwner, (PROBED_ACCOUNT));
        (bool ok,) = TokenCall.tryWord(collection, PROBE_GAS, query);
        if (!ok) revert CollectionNotSubscriptionNFT(collection);
        _configs[toolId] = ToolGatingConfig(collection, minTier);
        emit ToolGatingConfigured(toolId, collection, minTier);
    }

    /// @notice The configuration of a tool; zeros if it has none.
    function getToolGatingConfig(uint256 toolId) external view returns (ToolGatingConfig memory) {
        return _configs[toolId];
    }

    /// @notice The subscription of an account, seen from a tool.
    /// @return hasNft       Whether it has a subscription, running or not.
    /// @return tier         Tier of that, or 0.
    /// @return requiredTier Least tier that the tool asks for.
    /// @return expiration   When it ends or ended, in seconds since 1970, or 0.
    /// @return active       Whether it opens the tool now: what `hasAccess` says.
    function getSubscriptionStatus(uint256 toolId, address account)
        external
        view
        returns (bool hasNft, uint8 tier, uint8 requiredTier, uint64 expiration, bool active)
    {
        ToolGatingConfig memory config = _configs[toolId];
        requiredTier = config.minTier;
        uint256 token = _tokenOf(config.collection, account);
        if (token != 0) {
            hasNft = true;
            tier = _tierOf(config.collection, token);
            expiration = _expiryOf(config.collection, token);
            active = expiration > block.timestamp && tier >= requiredTier;
        }
    }

    /// @notice The registry whose tools are configured here, by the name that clients of this predicate know.
    function registry() external view returns (IToolRegistry) {
        return REGISTRY;
    }

    /// @inheritdoc IAccessPredicate
    /// @dev `data` is not used.
    function hasAccess(uint256 toolId, address account, bytes calldata) external view returns (bool) {
        ToolGatingConfig memory config = _configs[toolId];
        uint256 token = _tokenOf(config.collection, account);
        if (token == 0) return false;
        // A subscription that ends now has ended.
        if (_expiryOf(config.collection, token) <= block.timestamp) return false;
        return config.minTier == 0 || _tierOf(config.collection, token) >= config.minTier;
    }

    /// @inheritdoc IAccessPredicate
    function getRequirements(uint256 toolId)
        external
        view
        returns (AccessRequirement[] memory requirements, RequirementLogic logic)
    {
        ToolGatingConfig memory config = _configs[toolId];
        logic = RequirementLogic.AND;
        if (config.collection == address(0)) return (requirements, logic);
        requirements = new AccessRequirement[](1);
        requirements[0] = AccessRequirement(type(ISubscription).interfaceId, abi.encode(config), "");
    }

    /// @inheritdoc IAccessPredicate
    function name() external pure returns (string memory) {
        return "SubscriptionPredicate";
    }

    /// @return The token of the account, or 0 when it has none, or if the collection or the account is zero.
    function _tokenOf(address collection, address account) private view returns (uint256) {
        if (collection == address(0) || account == address(0)) return 0;
        return _ask(collection, abi.encodeCall(ISubscriptionNFT.tokenOfOwner, (account)), type(uint256).max);
    }

    function _expiryOf(address collection, uint256 token) private view returns (uint64) {
        // forge-lint: disable-next-line(unsafe-typecast)
        return uint64(_ask(collection, abi.encodeCall(ISubscriptionNFT.expiresAt, (token)), type(uint64).max));
    }

    function _tierOf(address collection, uint256 token) private view returns (uint8) {
        // forge-lint: disable-next-line(unsafe-typecast)
        return uint8(_ask(collection, abi.encodeCall(ISubscriptionNFT.tierOf, (token)), type(uint8).max));
    }

    function _ask(address collection, bytes memory query, uint256 most) private view returns (uint256) {
        (bool ok, uint256 answer) = TokenCall.tryWord(collection, TokenCall.share(0, 0), query);
        if (!ok || answer > most) revert CollectionUnavailable(collection);
        return answer;
    }
}
