// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

import {AccessRequirement, IAccessPredicate, RequirementLogic} from "../interfaces/IAccessPredicate.sol";
import {IDenyAll} from "../interfaces/IRequirementTypes.sol";
import {IERC165} from "@openzeppelin/contracts/utils/introspection/IERC165.sol";

/// @title DenyAllPredicate
/// @notice Denies all accounts: what a paused tool points at (ERC-8257 §1, `setAccessPredicate`). No settings, no storage.
contract DenyAllPredicate is IAccessPredicate, IERC165 {
    /// @inheritdoc IAccessPredicate
    function hasAccess(uint256, address, bytes calldata) external pure returns (bool) {
        return false;
    }

    /// @inheritdoc IAccessPredicate
    /// @dev One requirement that no account can satisfy: an empty list would read as "nothing is needed".
    function getRequirements(uint256)
        external
        pure
        returns (AccessRequirement[] memory requirements, RequirementLogic logic)
    {
        requirements = new AccessRequirement[](1);
        requirements[0] = AccessRequirement({kind: type(IDenyAll).interfaceId, data: "", label: ""});
        logic = RequirementLogic.AND;
    }

    /// @inheritdoc IAccessPredicate
    function name() external pure returns (string memory) {
        return "DenyAllPredicate";
    }

    /// @notice Version of the implementation. Compare for equality only.
    function version() external pure returns (string memory) {
        return "0.1";
    }

    /// @inheritdoc IERC165
    function supportsInterface(bytes4 interfaceId) external pure returns (bool) {
        return interfaceId == type(IAccessPredicate).interfaceId || interfaceId == type(IERC165).interfaceId;
    }
}
