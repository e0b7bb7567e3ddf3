// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

/// @notice What the registry keeps for a tool.
/// @param creator         Who registered it; never changes.
/// @param metadataURI     Where its manifest is served.
/// @param manifestHash    keccak256 of the manifest's canonical bytes.
/// @param accessPredicate Who decides about access; zero means open to all.
struct ToolConfig {
    address creator;
    string metadataURI;
    bytes32 manifestHash;
    address accessPredicate;
}

/// @title IToolRegistry
/// @notice A permissionless list of tools for agents (ERC-8257 §1).
/// @dev ERC-165 id 0xf1dc8075. The function set is frozen: another set is another interface with another id.
interface IToolRegistry {
    /// @notice A tool was registered. The URI is in the data, so that an index needs no second read.
    event ToolRegistered(
        uint256 indexed toolId,
        address indexed creator,
        address indexed accessPredicate,
        string metadataURI,
        bytes32 manifestHash
    );

    /// @notice The URI or the hash of a tool changed, or both.
    event ToolMetadataUpdated(uint256 indexed toolId, string newURI, bytes32 newHash);

    /// @notice Another predicate, or none, decides about access from now on.
    event AccessPredicateUpdated(uint256 indexed toolId, address indexed newPredicate);

    /// @notice A tool was removed for good by its creator.
    event ToolDeregistered(uint256 indexed toolId);

    /// @notice No tool was ever registered under this id.
    error ToolNotFound(uint256 toolId);

    /// @notice Only the creator of a tool may change it.
    error NotToolCreator(uint256 toolId, address caller);

    /// @notice The URI is empty or longer than 2,048 bytes.
    error InvalidMetadataURI();

    /// @notice The hash is zero, which no manifest has.
    error InvalidManifestHash();

    /// @notice The predicate supports ERC-165 but does not claim `IAccessPredicate`.
    error InvalidAccessPredicate(address predicate);

    /// @notice The tool was removed by its creator.
    error ToolIsDeregistered(uint256 toolId);

    /// @notice Registers a tool; the caller becomes its creator.
    /// @param metadataURI     Where the manifest is served: 1 to 2,048 bytes.
    /// @param manifestHash    keccak256 of the manifest's canonical bytes, not zero.
    /// @param accessPredicate Who decides about access, or zero for an open tool.
    /// @return toolId The next free id; ids start at 1.
    function registerTool(string calldata metadataURI, bytes32 manifestHash, address accessPredicate)
        external
        returns (uint256 toolId);

    /// @notice Removes a tool for good. Its id is never used again. Creator only.
    /// @dev For a pause that can be undone, point the tool at a predicate that always denies.
    function deregisterTool(uint256 toolId) external;

    /// @notice Changes URI and hash together. Creator only.
    /// @dev Does nothing when both are as stored.
    function updateToolMetadata(uint256 toolId, string calldata newURI, bytes32 newHash) external;

    /// @notice Changes who decides about access; zero opens the tool to all. Creator only.
    /// @dev Does nothing, and checks nothing of the predicate, when it is the stored one.
    function setAccessPredicate(uint256 toolId, address newPredicate) external;

    /// @notice All that is stored for a tool. Reverts for an id never registered, and in another way for
    ///         one removed.
    function getToolConfig(uint256 toolId) external view returns (ToolConfig memory);

    /// @notice Whether the predicate clearly grants access; false also when it malfunctions.
    function hasAccess(uint256 toolId, address account, bytes calldata data) external view returns (bool);

    /// @notice What the predicate says, with malfunction told apart from denial.
    /// @return ok      Whether the predicate answered properly.
    /// @return granted Whether it grants access; never true unless `ok`.
    function tryHasAccess(uint256 toolId, address account, bytes calldata data)
        external
        view
        returns (bool ok, bool granted);

    /// @notice The highest id ever given, removed tools included.
    function toolCount() external view returns (uint256);

    /// @notice Name of the implementation, never empty. Compare for equality only.
    function name() external view returns (string memory);

    /// @notice Version of the implementation, never empty. Compare for equality only.
    function version() external view returns (string memory);
}
