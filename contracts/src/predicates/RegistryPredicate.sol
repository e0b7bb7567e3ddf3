// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {IAccessPredicate} from "../interfaces/IAccessPredicate.sol";
import {IToolRegistry} from "../interfaces/IToolRegistry.sol";
import {IERC165} from "@openzeppelin/contracts/utils/introspection/IERC165.sol";

/// @title RegistryPredicate
/// @notice Common part of the predicates that keep settings for each tool of one registry. They have no owner: the
///         registry is asked at each write who the creator of the tool is.
abstract contract RegistryPredicate is IAccessPredicate, IERC165 {
    /// @notice The registry whose tools are configured here.
    IToolRegistry public immutable REGISTRY;

    /// @notice Only the creator of a tool may configure it.
    error CallerIsNotToolCreator(uint256 toolId, address caller);

    /// @notice A predicate without registry could never be configured.
    error ZeroRegistry();

    constructor(IToolRegistry registry) {
        if (address(registry) == address(0)) revert ZeroRegistry();
        REGISTRY = registry;
    }

    /// @dev Reverts with the registry's own error for a tool that is unknown or removed.
    modifier onlyToolCreator(uint256 toolId) {
        if (REGISTRY.getToolConfig(toolId).creator != msg.sender) revert CallerIsNotToolCreator(toolId, msg.sender);
        _;
    }

    /// @notice Version of the implementation. Compare for equality only.
    function version() external pure returns (string memory) {
        return "0.1";
    }

    /// @inheritdoc IERC165
    function supportsInterface(bytes4 interfaceId) public pure virtual returns (bool) {
        return interfaceId == type(IAccessPredicate).interfaceId || interfaceId == type(IERC165).interfaceId;
    }
}
