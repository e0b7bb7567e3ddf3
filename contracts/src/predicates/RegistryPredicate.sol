// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {IAccessPredicate} from "../interfaces/IAccessPredicate.sol";
import {IToolRegistry} from "../interfaces/IToolRegistry.sol";
import {IERC165} from "@openzeppelin/contracts/utils/introspection/IERC165.sol";

/// @title RegistryPredicate
/// @notice Base contract of the predicates that serve the tools of one registry. They have no owner: each write reads the
///         creator of the tool from the registry.
/// @dev Tool ids are unique in one registry only; every registry starts at 1. A tool of another registry must not point
///      here: it would be gated by the settings of whichever tool has the same id in `REGISTRY`. Clients compare
///      `REGISTRY()` with the registry of the tool before they sign anything.
abstract contract RegistryPredicate is IAccessPredicate, IERC165 {
    /// @notice The registry whose tools this predicate serves.
    IToolRegistry public immutable REGISTRY;

    /// @notice Only the creator of a tool may configure it.
    error CallerIsNotToolCreator(uint256 toolId, address caller);

    /// @notice The answer depends on a proof, and the caller does not ask on behalf of `REGISTRY`.
    error CallerIsNotRegistry(address caller);

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
