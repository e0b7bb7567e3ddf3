// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {IAccessPredicate} from "./interfaces/IAccessPredicate.sol";
import {IToolRegistry, ToolConfig} from "./interfaces/IToolRegistry.sol";
import {BoundedCall} from "./lib/BoundedCall.sol";
import {IERC165} from "@openzeppelin/contracts/utils/introspection/IERC165.sol";

/// @title ToolRegistry
/// @notice ERC-8257 registry of tools for agents: no owner, no fee, no proxy, no pause.
/// @dev Wrong calls revert in this order: no such tool or removed, not the creator, URI, hash, predicate.
///      External calls are static and bounded, and a write makes them before it stores anything.
contract ToolRegistry is IToolRegistry, IERC165 {
    using BoundedCall for address;

    /// @notice Longest URI in bytes, the ceiling of ERC-8257 "Metadata URI Length Cap": a URI stays in storage for good
    ///         and every reader pays for it.
    uint256 public constant MAX_METADATA_URI_LENGTH = 2_048;

    /// @notice Gas that a predicate gets to answer, as in the deployed reference. Predicates are built for this number,
    ///         so it may not shrink.
    uint256 public constant PREDICATE_GAS = 200_000;

    /// @inheritdoc IToolRegistry
    uint256 public toolCount;

    /// @dev Ids run from 1 to `toolCount` without gaps, and a creator is never zero. An entry without creator is
    ///      therefore a removed tool if its id was ever given, so no separate tombstone is needed.
    mapping(uint256 toolId => ToolConfig) private _tools;

    /// @inheritdoc IToolRegistry
    function registerTool(string calldata metadataURI, bytes32 manifestHash, address accessPredicate)
        external
        returns (uint256 toolId)
    {
        _checkMetadata(metadataURI, manifestHash);
        _checkPredicate(accessPredicate);

        toolId = ++toolCount;
        ToolConfig storage tool = _tools[toolId];
        tool.creator = msg.sender;
        tool.metadataURI = metadataURI;
        tool.manifestHash = manifestHash;
        if (accessPredicate != address(0)) tool.accessPredicate = accessPredicate;
        emit ToolRegistered(toolId, msg.sender, accessPredicate, metadataURI, manifestHash);
    }

    /// @inheritdoc IToolRegistry
    function deregisterTool(uint256 toolId) external {
        _ownTool(toolId);
        delete _tools[toolId];
        emit ToolDeregistered(toolId);
    }

    /// @inheritdoc IToolRegistry
    function updateToolMetadata(uint256 toolId, string calldata newURI, bytes32 newHash) external {
        ToolConfig storage tool = _ownTool(toolId);
        _checkMetadata(newURI, newHash);

        bool sameURI = keccak256(bytes(tool.metadataURI)) == keccak256(bytes(newURI));
        bool sameHash = tool.manifestHash == newHash;
        if (sameURI && sameHash) return;
        if (!sameURI) tool.metadataURI = newURI;
        if (!sameHash) tool.manifestHash = newHash;
        emit ToolMetadataUpdated(toolId, newURI, newHash);
    }

    /// @inheritdoc IToolRegistry
    function setAccessPredicate(uint256 toolId, address newPredicate) external {
        ToolConfig storage tool = _ownTool(toolId);
        if (tool.accessPredicate == newPredicate) return;
        _checkPredicate(newPredicate);

        tool.accessPredicate = newPredicate;
        emit AccessPredicateUpdated(toolId, newPredicate);
    }

    /// @inheritdoc IToolRegistry
    function getToolConfig(uint256 toolId) external view returns (ToolConfig memory) {
        return _tool(toolId);
    }

    /// @inheritdoc IToolRegistry
    function hasAccess(uint256 toolId, address account, bytes calldata data) external view returns (bool granted) {
        (, granted) = _tryHasAccess(toolId, account, data);
    }

    /// @inheritdoc IToolRegistry
    function tryHasAccess(uint256 toolId, address account, bytes calldata data)
        external
        view
        returns (bool ok, bool granted)
    {
        return _tryHasAccess(toolId, account, data);
    }

    /// @inheritdoc IToolRegistry
    function name() external pure returns (string memory) {
        return "ToolRegistry";
    }

    /// @inheritdoc IToolRegistry
    function version() external pure returns (string memory) {
        return "0.1";
    }

    /// @inheritdoc IERC165
    function supportsInterface(bytes4 interfaceId) external pure returns (bool) {
        return interfaceId == type(IToolRegistry).interfaceId || interfaceId == type(IERC165).interfaceId;
    }

    function _tryHasAccess(uint256 toolId, address account, bytes calldata data)
        private
        view
        returns (bool ok, bool granted)
    {
        address predicate = _tool(toolId).accessPredicate;
        if (predicate == address(0)) return (true, true);
        return predicate.tryBool(PREDICATE_GAS, abi.encodeCall(IAccessPredicate.hasAccess, (toolId, account, data)));
    }

    function _tool(uint256 toolId) private view returns (ToolConfig storage tool) {
        tool = _tools[toolId];
        if (tool.creator == address(0)) {
            if (toolId == 0 || toolId > toolCount) revert ToolNotFound(toolId);
            revert ToolIsDeregistered(toolId);
        }
    }

    function _ownTool(uint256 toolId) private view returns (ToolConfig storage tool) {
        tool = _tool(toolId);
        if (tool.creator != msg.sender) revert NotToolCreator(toolId, msg.sender);
    }

    function _checkMetadata(string calldata uri, bytes32 hash) private pure {
        uint256 length = bytes(uri).length;
        if (length == 0 || length > MAX_METADATA_URI_LENGTH) revert InvalidMetadataURI();
        if (hash == bytes32(0)) revert InvalidManifestHash();
    }

    function _checkPredicate(address predicate) private view {
        if (predicate == address(0) || predicate.code.length == 0) return;
        if (!predicate.mayBePredicate()) revert InvalidAccessPredicate(predicate);
    }
}
