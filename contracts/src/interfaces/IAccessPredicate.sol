// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.24;

/// @notice One thing that an account must have or show, in a form that programs can read.
/// @param kind  Which thing: the id of a marker interface, see `IRequirementTypes.sol`. Zero means unknown.
/// @param data  Its parameters, ABI-encoded as `kind` lays down.
/// @param label A hint for people; may be empty.
struct AccessRequirement {
    bytes4 kind;
    bytes data;
    string label;
}

/// @notice How several requirements combine.
enum RequirementLogic {
    AND,
    OR
}

/// @title IAccessPredicate
/// @notice A contract that decides who may use a tool (ERC-8257 §1).
/// @dev ERC-165 id 0xbdf9dc18.
interface IAccessPredicate {
    /// @notice Whether `account` may use `toolId`.
    /// @dev `account` is a claim of the caller, not a proven identity, unless the predicate checks a proof in `data`.
    ///      A revert means that the predicate cannot tell, which the registry reports apart from a denial.
    /// @param toolId  The tool.
    /// @param account The account in question.
    /// @param data    Context for the predicate, such as a proof. Public: never put a secret here.
    function hasAccess(uint256 toolId, address account, bytes calldata data) external view returns (bool);

    /// @notice Name of the implementation, never empty.
    function name() external view returns (string memory);

    /// @notice What an account needs, as a hint: `hasAccess` alone decides.
    /// @param toolId The tool.
    /// @return requirements What is asked for.
    /// @return logic        Whether all of it is needed, or any one.
    function getRequirements(uint256 toolId)
        external
        view
        returns (AccessRequirement[] memory requirements, RequirementLogic logic);
}
